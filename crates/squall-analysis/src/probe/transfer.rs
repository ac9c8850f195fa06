//! How fast bodies were carried, and what held uploads up: medians over rounds, from the times of requests, the pieces of
//! bodies and the kernel's counters.
//!
//! Rates of different rounds are never pooled; each round has one.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{Outcome, RequestRecord, SocketSample, TcpInfo};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind};
use super::spans::median;
use super::windows::{UploadWindows, was_wanted};

/// Shorter bodies say nothing about a rate.
const BODY_AT_LEAST: u64 = 64 * 1024;

/// The rates of one way to carry a body.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Bytes of bodies per second, one for each round.
    pub bytes_per_s: Vec<f64>,
}

impl Rates {
    /// The middle rate.
    pub fn median(&self) -> Option<f64> {
        median(&self.bytes_per_s)
    }

    /// The lowest and the highest rate.
    pub fn range(&self) -> Option<(f64, f64)> {
        let mut sorted = self.bytes_per_s.clone();
        sorted.sort_by(f64::total_cmp);
        Some((*sorted.first()?, *sorted.last()?))
    }
}

/// The rates of downloads over one version.
pub(super) fn downloads(seen: &Observations, kind: StepKind, version: Version) -> Rates {
    let rates = seen.steps_of(kind, version).filter_map(download);
    Rates {
        bytes_per_s: rates.collect(),
    }
}

/// Bytes per second from the first byte of the requests to the last byte of the responses that was read.
fn download(step: &Step) -> Option<f64> {
    let bytes = step.body_bytes();
    // Connections are opened for the requests: their handshakes are not part of the transfer.
    let begun = step.requests.iter().filter_map(|row| row.written_first);
    let begun = begun.min()?;
    let ended = step.pieces.iter().map(|piece| piece.time).max()?;
    let seconds = ended.since(begun).as_secs_f64();
    (bytes >= BODY_AT_LEAST && seconds > 0.0).then(|| bytes as f64 / seconds)
}

/// What one upload took, and what held it up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Upload {
    /// Bytes that the server has acknowledged, or all if it has answered.
    pub bytes: u64,
    /// From its first byte to the first byte of the response, or to its end without one.
    #[serde(rename = "took_ns")]
    pub took: Duration,
    /// Whether a complete response arrived.
    pub is_answered: bool,
    /// Waiting for the stream's window.
    #[serde(rename = "stream_window_ns")]
    pub stream_window: Duration,
    /// Waiting for the connection's window alone.
    #[serde(rename = "connection_window_ns")]
    pub connection_window: Duration,
    /// Waiting for the congestion window: between samples in which it was full and more was to be sent.
    #[serde(rename = "congestion_window_ns")]
    pub congestion_window: Duration,
    /// Waiting for TCP's receive window (`tcpi_rwnd_limited`).
    #[serde(rename = "receive_window_ns")]
    pub receive_window: Duration,
    /// Waiting for room in the client's own send buffer (`tcpi_sndbuf_limited`).
    #[serde(rename = "send_buffer_ns")]
    pub send_buffer: Duration,
    /// From when everything was delivered to the first byte of the response; `None` if that is not known.
    #[serde(rename = "answer_ns")]
    pub answer: Option<Duration>,
    /// The corresponding time for the short upload before this one.
    #[serde(rename = "answer_to_short_ns")]
    pub answer_to_short: Option<Duration>,
}

impl Upload {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The upload of a step; `None` if it was not begun, or the server rejected it.
    pub(super) fn of(step: &Step) -> Option<Upload> {
        let row = step.of(1).filter(|row| was_wanted(row))?;
        let begun = row.written_first?;
        let is_answered = row.outcome == Outcome::Answered;
        let ended = row.answered_first.unwrap_or(row.end);
        let bytes = if is_answered || (row.written_last.is_some() && row.headers.is_some()) {
            row.request_body_bytes
        } else {
            acknowledged(step, row)
        };
        let windows = UploadWindows::of(step);
        let (stream_window, connection_window) = windows.map_or_else(Default::default, |windows| {
            (windows.blocked_by_stream, windows.blocked_by_connection)
        });
        let last = step.last_tcp();
        let limited = |name| {
            let micros = last.iter().filter_map(|info| info.get(name));
            Duration::from_micros(micros.sum())
        };
        Some(Upload {
            bytes,
            took: ended.since(begun),
            is_answered,
            stream_window,
            connection_window,
            congestion_window: congested(step, row, (begun, ended)),
            receive_window: limited("tcpi_rwnd_limited"),
            send_buffer: limited("tcpi_sndbuf_limited"),
            answer: answer(step, row),
            answer_to_short: step.of(0).and_then(short_answer),
        })
    }
}

/// The time within a span in which an upload filled the congestion window: what lies before each sample that shows it.
fn congested(step: &Step, row: &RequestRecord, (begun, ended): (Time, Time)) -> Duration {
    let samples = step.tcp().filter(|(sample, _)| {
        Some(sample.connection) == row.connection && (begun..=ended).contains(&sample.time)
    });
    let (mut before, mut waited) = (begun, Duration::ZERO);
    for (sample, info) in samples {
        if fills_congestion_window(info).unwrap_or(false) {
            waited = waited + sample.time.since(before);
        }
        before = sample.time;
    }
    waited
}

/// Whether a sender has more to send and nine tenths of the congestion window on the way (it sends several segments at a
/// time), and the receive window is not what stops it; `None` if the kernel does not say.
fn fills_congestion_window(info: &TcpInfo) -> Option<bool> {
    let get = |name| info.get(name);
    let (flying, window) = (get("tcpi_unacked")?, get("tcpi_snd_cwnd")?);
    let is_full = 10 * flying >= 9 * window;
    let segment = get("tcpi_snd_mss").unwrap_or(1);
    let is_receivers = get("tcpi_snd_wnd").is_some_and(|bytes| (flying + 1) * segment >= bytes);
    Some(get("tcpi_notsent_bytes")? > 0 && is_full && !is_receivers)
}

/// Bytes of an unfinished upload that its peer has acknowledged, as far as the kernel or quiche says.
fn acknowledged(step: &Step, row: &RequestRecord) -> u64 {
    let samples = step
        .sockets
        .iter()
        .filter(|sample| Some(sample.connection) == row.connection);
    let bytes = samples.filter_map(|sample| match &sample.sample {
        SocketSample::Tcp(info) => info.get("tcpi_bytes_acked"),
        SocketSample::Quic(path) => Some(path.sent_bytes.saturating_sub(path.lost_bytes)),
    });
    bytes.max().unwrap_or(0).min(row.request_body_bytes)
}

/// How long the response took once the server had everything: a full socket buffer still has to cross the path.
fn answer(step: &Step, row: &RequestRecord) -> Option<Duration> {
    let (written, answered) = (row.written_last?, row.answered_first?);
    let mut samples = step
        .tcp()
        .filter(|(sample, _)| Some(sample.connection) == row.connection);
    let is_delivered = |sample: Time, left: [Option<u64>; 2]| {
        sample >= written && left.iter().all(|left| *left == Some(0))
    };
    let (delivered, _) = samples.find(|(sample, info)| {
        let left = ["tcpi_unacked", "tcpi_notsent_bytes"].map(|name| info.get(name));
        is_delivered(sample.time, left)
    })?;
    Some(answered.since(delivered.time))
}

/// How long the response took to an upload that fits into one packet.
fn short_answer(row: &RequestRecord) -> Option<Duration> {
    Some(row.answered_first?.since(row.written_last?))
}

/// The uploads of each round, by version.
pub(super) fn uploads(seen: &Observations) -> BTreeMap<Version, Vec<Upload>> {
    let mut all: BTreeMap<Version, Vec<Upload>> = BTreeMap::new();
    let steps = seen.steps.iter();
    for step in steps.filter(|step| step.kind == StepKind::Upload) {
        if let Some(upload) = Upload::of(step) {
            all.entry(step.version).or_default().push(upload);
        }
    }
    all
}

/// Retransmitted and all data segments of uploads, and out-of-order and all data segments of downloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Retransmitted segments (`tcpi_total_retrans`).
    pub retransmitted: u64,
    /// Segments sent with data.
    pub sent: u64,
    /// Segments that arrived out of order, after a gap (`tcpi_rcv_ooopack`).
    pub out_of_order: u64,
    /// Segments received with data.
    pub received: u64,
}

impl Losses {
    /// Over all TCP connections of a probe.
    pub(super) fn of(seen: &Observations) -> Losses {
        let mut losses = Losses::default();
        for step in &seen.steps {
            for info in step.last_tcp() {
                let count = |name| info.get(name).unwrap_or(0);
                losses.retransmitted += count("tcpi_total_retrans");
                losses.sent += count("tcpi_data_segs_out");
                losses.out_of_order += count("tcpi_rcv_ooopack");
                losses.received += count("tcpi_data_segs_in");
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::super::made::{Windows, download, healthy, ms, tcp, upload};
    use super::*;

    const ROUND_TRIP: Duration = ms(30);

    /// Steps of these kinds that carry 4 MB over each connection in the given time.
    fn seen(steps: &[(StepKind, Version, u64)]) -> Observations {
        let mut seen = healthy(ROUND_TRIP);
        seen.steps.retain(|step| step.kind == StepKind::Small);
        for (kind, version, millis) in steps {
            let made = download(*kind, *version, 4_000_000, ms(*millis));
            seen.steps.push(made);
        }
        seen
    }

    #[test]
    fn each_round_of_downloads_has_a_rate_and_the_middle_one_counts() {
        let rounds = [400, 1_000, 500].map(|millis| (StepKind::Download, Version::Http3, millis));
        let six = (StepKind::SixDownloads, Version::Http1, 200);
        let seen = seen(&[&rounds[..], &[six]].concat());
        let endpoint = Diagnosis::of(&seen).endpoint;
        let http3 = endpoint.version(Version::Http3).expect("it was tried");
        assert_eq!(http3.download.bytes_per_s, [10e6, 4e6, 8e6]);
        assert_eq!(http3.download.median(), Some(8e6));
        assert_eq!(http3.download.range(), Some((4e6, 10e6)));
        let http1 = endpoint.version(Version::Http1).expect("it was tried");
        assert_eq!(http1.download_six.bytes_per_s, [20e6]);
        assert_eq!(http1.download.median(), None);
    }

    #[test]
    fn short_download_has_no_rate() {
        let mut seen = seen(&[]);
        let made = download(StepKind::Download, Version::Http2, 60_000, ms(40));
        seen.steps.push(made);
        let rates = downloads(&seen, StepKind::Download, Version::Http2);
        assert_eq!(rates, Rates::default());
    }

    #[test]
    fn waiting_for_the_receive_window_is_told_from_waiting_for_the_send_buffer() {
        let windows = Windows {
            stream: 16 << 20,
            connection: 24 << 20,
            update_after: 8 << 20,
            increment: 8 << 20,
        };
        let mut made = upload(4_000_000, ROUND_TRIP, windows);
        made.sockets.push(tcp(&[
            ("tcpi_rwnd_limited", 120_000),
            ("tcpi_sndbuf_limited", 7_000),
        ]));
        let upload = Upload::of(&made).expect("an upload");
        assert_eq!(upload.receive_window, ms(120));
        assert_eq!(upload.send_buffer, ms(7));
        assert_eq!(upload.stream_window, Duration::ZERO);
    }
}
