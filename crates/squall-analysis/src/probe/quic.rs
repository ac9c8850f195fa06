//! What quiche reports about the QUIC connections of a probe, and what the frames show of the server's losses.
//!
//! quiche counts the packets that this client sent and lost. A client is not told what the server lost; data that arrives
//! after later data of its stream was either lost and retransmitted, or overtaken. Nothing is judged here (`detect` does that);
//! `transfer` has the losses of TCP.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::record::{FrameLayer, QuicPath, SocketSample, Way};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step};
use super::spans::median_span;
use crate::wire::quic::STREAM;

/// Facts about the QUIC connections of a probe, over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuicFacts {
    /// Packets sent.
    pub sent: u64,
    /// Packets sent that quiche declared lost.
    pub lost: u64,
    /// How many times quiche declared packets lost: the samples with more lost packets than the one before.
    pub losses: u64,
    /// Packets sent with data that had been sent before.
    pub retransmitted: u64,
    /// Probe timeouts (RFC 9002, section 6.2).
    pub probe_timeouts: u64,
    /// Packets received.
    pub received: u64,
    /// STREAM frames received with data.
    pub stream_frames: u64,
    /// How many of these came after later data of their stream: lost and retransmitted, or overtaken.
    pub late_frames: u64,
    /// How many times such data came: all that came within a round trip counts once.
    pub late_times: u64,
    /// Datagrams that this machine dropped because the receive buffer of its socket was full.
    pub dropped_here: u64,
    /// The shortest round trip.
    #[serde(rename = "min_rtt_ns")]
    pub min_rtt: Option<Duration>,
    /// The middle of the connections' smoothed round trips.
    #[serde(rename = "rtt_ns")]
    pub rtt: Option<Duration>,
    /// The longest round trip.
    #[serde(rename = "max_rtt_ns")]
    pub max_rtt: Option<Duration>,
}

impl QuicFacts {
    /// Over all QUIC connections of a probe; `None` if there was none.
    pub(super) fn of(seen: &Observations) -> Option<QuicFacts> {
        let paths: Vec<&QuicPath> = seen.steps.iter().flat_map(last_paths).collect();
        if paths.is_empty() {
            return None;
        }
        let sum = |part: fn(&QuicPath) -> u64| -> u64 { paths.iter().map(|path| part(path)).sum() };
        let min_rtt = paths.iter().filter_map(|path| path.min_rtt).min();
        let mut all = Late::default();
        for step in &seen.steps {
            all.add(step, min_rtt.unwrap_or_default());
        }
        let smoothed = paths.iter().map(|path| path.rtt);
        Some(QuicFacts {
            sent: sum(|path| path.sent),
            lost: sum(|path| path.lost),
            losses: seen.steps.iter().map(losses).sum(),
            retransmitted: sum(|path| path.retrans),
            probe_timeouts: sum(|path| path.ptos),
            received: sum(|path| path.recv),
            stream_frames: all.stream_frames,
            late_frames: all.late_frames,
            late_times: all.late_times,
            dropped_here: sum(|path| path.socket_drops),
            min_rtt,
            rtt: median_span(smoothed.filter(|rtt| !rtt.is_zero())),
            max_rtt: paths.iter().filter_map(|path| path.max_rtt).max(),
        })
    }
}

/// The last sample of each QUIC connection of a step.
fn last_paths(step: &Step) -> Vec<&QuicPath> {
    let mut last: BTreeMap<u32, &QuicPath> = BTreeMap::new();
    for row in &step.sockets {
        if let SocketSample::Quic(path) = &row.sample {
            last.insert(row.connection, path);
        }
    }
    last.into_values().collect()
}

/// How many samples of a step's QUIC connections have more lost packets than the one before.
fn losses(step: &Step) -> u64 {
    let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
    let mut losses = 0;
    for row in &step.sockets {
        if let SocketSample::Quic(path) = &row.sample {
            let before = lost.insert(row.connection, path.lost).unwrap_or_default();
            losses += u64::from(path.lost > before);
        }
    }
    losses
}

/// Data that came after later data of its stream.
#[derive(Default)]
struct Late {
    stream_frames: u64,
    late_frames: u64,
    late_times: u64,
}

impl Late {
    /// Adds the STREAM frames with data that a step received.
    fn add(&mut self, step: &Step, round_trip: Duration) {
        let mut ends: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        let mut last: Option<Time> = None;
        for record in &step.frames {
            let frame = &record.frame;
            let is_data = frame.layer == FrameLayer::Quic
                && frame.way == Way::Received
                && STREAM.contains(&frame.kind)
                && frame.length > 0;
            let (Some(stream), Some(offset)) = (frame.stream.filter(|_| is_data), frame.offset)
            else {
                continue;
            };
            let end = ends.entry((record.connection, stream)).or_default();
            self.stream_frames += 1;
            if offset < *end {
                self.late_frames += 1;
                let is_new = last.is_none_or(|last| record.time > last + round_trip);
                self.late_times += u64::from(is_new);
                last = Some(record.time);
            }
            *end = (*end).max(offset.saturating_add(frame.length));
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Version;
    use squall_base::record::{FrameFacts, Side, SocketRecord};

    use super::super::made::{at_us, frame, healthy, ms, step};
    use super::super::observed::StepKind;
    use super::super::{Diagnosis, Fault};
    use super::*;

    fn sample(time_us: u64, connection: u32, path: QuicPath) -> SocketRecord {
        SocketRecord {
            connection,
            ..squall_made::socket(at_us(time_us), Side::Client, SocketSample::Quic(path))
        }
    }

    fn path(sent: u64, lost: u64) -> QuicPath {
        QuicPath {
            sent,
            lost,
            retrans: lost,
            recv: 2 * sent,
            rtt: ms(33),
            min_rtt: Some(ms(30)),
            max_rtt: Some(ms(60)),
            ..QuicPath::default()
        }
    }

    /// Frames of 1,000 bytes; every `nth` arrives after its successor.
    fn received(count: u64, nth: u64) -> Vec<squall_base::record::FrameRecord> {
        let mut order: Vec<u64> = (0..count).collect();
        for place in (nth..count.saturating_sub(1)).step_by(usize::try_from(nth).unwrap()) {
            let place = usize::try_from(place).unwrap();
            order.swap(place, place + 1);
        }
        let of = |place: u64| FrameFacts {
            stream: Some(0),
            offset: Some(1_000 * place),
            ..FrameFacts::new(Way::Received, FrameLayer::Quic, 0x0e, 1_000)
        };
        (0..)
            .zip(order)
            .map(|(n, place)| frame(1_000 * (n + 1), of(place)))
            .collect()
    }

    fn seen(path: QuicPath, frames: Vec<squall_base::record::FrameRecord>) -> Observations {
        let mut made = step(StepKind::Download, Version::Http3);
        // The losses are declared in three parts.
        for third in 0..=3 {
            let lost = path.lost * third / 3;
            made.sockets
                .push(sample(1_000 * third, 0, QuicPath { lost, ..path }));
        }
        made.frames = frames;
        let mut seen = healthy(ms(30));
        seen.steps.push(made);
        seen
    }

    fn evidence(seen: &Observations) -> Option<String> {
        let found = Diagnosis::of(seen).faults;
        let loss = found.iter().find(|found| found.fault == Fault::Loss);
        loss.map(|found| found.evidence.join("; "))
    }

    #[test]
    fn last_sample_of_each_connection_counts() {
        let facts = QuicFacts::of(&seen(path(1_000, 3), received(500, 100))).expect("facts");
        assert_eq!((facts.sent, facts.lost, facts.retransmitted), (1_000, 3, 3));
        assert_eq!(facts.received, 2_000);
        assert_eq!((facts.stream_frames, facts.late_frames), (500, 4));
        assert_eq!(facts.min_rtt, Some(ms(30)));
        assert_eq!(facts.rtt, Some(ms(33)));
        assert_eq!(QuicFacts::of(&healthy(ms(30))), None);
    }

    #[test]
    fn packets_that_the_client_lost_are_reported() {
        assert_eq!(evidence(&seen(path(1_000, 5), Vec::new())), None);
        let mut seen = seen(path(1_000, 30), Vec::new());
        let said = evidence(&seen).expect("a finding");
        assert!(said.contains("30 of 1,000 packets"), "{said}");
        // One full buffer can lose many packets at once.
        let samples = &mut seen.steps.last_mut().expect("a step").sockets;
        let gradual = samples.clone();
        samples.drain(1..3);
        assert_eq!(evidence(&seen), None);
        seen.steps.last_mut().expect("a step").sockets = gradual;
        // No path within one machine loses packets.
        seen.address = "[::1]:443".to_owned();
        assert_eq!(evidence(&seen), None);
    }

    #[test]
    fn late_data_from_the_server_is_reported() {
        let said = evidence(&seen(path(1_000, 0), received(2_000, 40))).expect("a finding");
        assert!(said.contains("of 2,000 STREAM frames"), "{said}");
        // All of it within a round trip: a queue was full only once, which is no fault.
        let mut once = received(2_000, 40);
        for (n, row) in (0..).zip(&mut once) {
            row.time = frame(1_000 + n, row.frame).time;
        }
        assert_eq!(evidence(&seen(path(1_000, 0), once)), None);
        assert_eq!(evidence(&seen(path(1_000, 0), received(2_000, 500))), None);
    }

    #[test]
    fn datagrams_that_this_machine_dropped_are_not_blamed_on_the_path() {
        let own = QuicPath {
            socket_drops: 60,
            ..path(1_000, 0)
        };
        assert_eq!(evidence(&seen(own, received(2_000, 40))), None);
    }
}
