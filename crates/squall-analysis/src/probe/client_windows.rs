//! The windows that this client gives to a download, as its own frames show them: how many bytes the server may have in
//! flight (RFC 9113, section 6.9; RFC 9000, section 4.1).
//!
//! Whether a download waited for them is in `downloads`. The windows that a server gives to uploads are in `windows` and
//! `limits`; what follows from updates is in `flow`.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{FrameFacts, FrameLayer, RequestRecord, Way};

use super::flow::{Ledger, Replay, Update, mean_flight};
use super::observed::Step;
use crate::wire::http2::{DATA, WINDOW_UPDATE};
use crate::wire::quic::{DATA_BLOCKED, MAX_DATA, MAX_STREAM_DATA, STREAM, STREAM_DATA_BLOCKED};

/// The windows of a download, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientWindows {
    /// The largest window of its stream; `None` if no frame shows it.
    pub stream_bytes: Option<u64>,
    /// The largest window of its connection; `None` if no frame shows it.
    pub connection_bytes: Option<u64>,
    /// How many bytes they allow in a round trip if the client opens them as it did here; `None` if neither is known. This is
    /// less than a window if the client does not give back all of each at once.
    pub round_trip_bytes: Option<u64>,
}

impl ClientWindows {
    /// The windows of a step's download; `None` over HTTP/1.1, and if no frame shows one.
    pub(super) fn of(step: &Step) -> Option<ClientWindows> {
        let row = step.of(0)?;
        let frames = step
            .frames
            .iter()
            .filter(|record| Some(record.connection) == row.connection)
            .map(|record| &record.frame);
        match step.version {
            Version::Http1 => None,
            Version::Http2 => of_http2(frames, row),
            Version::Http3 => of_quic(frames, row),
        }
    }

    /// The most bytes that the server may have in flight. The highest rate is this many in each round trip.
    pub(super) fn limit_bytes(&self) -> Option<u64> {
        let known = [self.stream_bytes, self.connection_bytes];
        known.into_iter().flatten().min()
    }

    /// Whether the connection's window, not the stream's, is that limit.
    pub(super) fn is_limited_by_connection(&self) -> bool {
        match (self.stream_bytes, self.connection_bytes) {
            (Some(stream), Some(connection)) => connection < stream,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }
}

/// An HTTP/2 window.
#[derive(Debug, Default)]
struct Window {
    largest: u64,
    /// What happened to it since the first DATA frame.
    ledger: Option<Ledger>,
}

impl Window {
    /// Notes a DATA frame of `length` bytes, which left `left` bytes of the window.
    fn note_data(&mut self, left: Option<i64>, length: u64) {
        let Some(left) = left else {
            return;
        };
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let before = bytes(left.saturating_add(length));
        self.largest = self.largest.max(before);
        let owed = self.largest - before;
        self.ledger.get_or_insert_with(|| Ledger {
            first: before,
            owed,
            updates: Vec::new(),
        });
    }

    /// Notes an update. By then the client had received `received` bytes of the download.
    fn note_update(&mut self, now: Option<i64>, increment: Option<u64>, received: u64) {
        self.largest = self.largest.max(bytes(now.unwrap_or(0)));
        if let Some(ledger) = &mut self.ledger {
            ledger.updates.push(Update {
                bytes: increment.unwrap_or(0),
                sent: received,
            });
        }
    }
}

/// A window as a number of bytes: 0 if a change of SETTINGS made it negative.
fn bytes(window: i64) -> u64 {
    u64::try_from(window).unwrap_or(0)
}

fn of_http2<'a>(
    frames: impl Iterator<Item = &'a FrameFacts>,
    row: &RequestRecord,
) -> Option<ClientWindows> {
    let (mut stream, mut connection) = (Window::default(), Window::default());
    let mut received = 0;
    for frame in frames.filter(|frame| frame.layer == FrameLayer::Http2) {
        let is_of_stream = frame.stream == row.stream;
        match (frame.way, frame.kind) {
            (Way::Received, DATA) => {
                connection.note_data(frame.connection_window, frame.length);
                if is_of_stream {
                    stream.note_data(frame.stream_window, frame.length);
                    received += frame.length;
                }
            }
            (Way::Sent, WINDOW_UPDATE) if frame.stream == Some(0) => {
                connection.note_update(frame.connection_window, frame.value, received);
            }
            (Way::Sent, WINDOW_UPDATE) if is_of_stream => {
                stream.note_update(frame.stream_window, frame.value, received);
            }
            _ => {}
        }
    }
    let limit = stream.largest.min(connection.largest);
    let (of_stream, of_connection) = (stream.ledger?, connection.ledger?);
    let first = of_stream.first.min(of_connection.first);
    let (mut by_stream, mut by_connection) = (Replay::of(&of_stream), Replay::of(&of_connection));
    let flight = mean_flight(received, first, |position| {
        let limit = by_stream.received(position);
        limit.min(by_connection.received(position))
    });
    Some(ClientWindows {
        stream_bytes: Some(stream.largest),
        connection_bytes: Some(connection.largest),
        round_trip_bytes: Some(flight.map_or(limit, |flight| flight.min(limit))),
    })
}

/// A limit of QUIC. `largest` is the most that was free when the limit was raised, or the limit that the server reported as
/// used up before the first raise.
#[derive(Debug, Default)]
struct Limit {
    largest: Option<u64>,
    was_raised: bool,
    received: u64,
}

impl Limit {
    fn raised(&mut self, offset: u64) {
        self.was_raised = true;
        let free = offset.saturating_sub(self.received);
        self.largest = self.largest.max(Some(free));
    }

    /// Notes that the server has used up everything below this offset; before the first raise, that is the whole window.
    fn used_up(&mut self, offset: u64) {
        if !self.was_raised {
            self.largest = self.largest.max(Some(offset));
        }
    }
}

fn of_quic<'a>(
    frames: impl Iterator<Item = &'a FrameFacts>,
    row: &RequestRecord,
) -> Option<ClientWindows> {
    let (mut stream, mut connection) = (Limit::default(), Limit::default());
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    for frame in frames.filter(|frame| frame.layer == FrameLayer::Quic) {
        let is_of_stream = frame.stream == row.stream;
        match (frame.way, frame.kind, frame.value) {
            (Way::Received, kind, _) if STREAM.contains(&kind) => {
                let (Some(id), Some(offset)) = (frame.stream, frame.offset) else {
                    continue;
                };
                let end = ends.entry(id).or_default();
                // The rest was received before: a retransmission.
                let more = offset.saturating_add(frame.length).saturating_sub(*end);
                *end += more;
                connection.received += more;
                if is_of_stream {
                    stream.received += more;
                }
            }
            (Way::Sent, MAX_DATA, Some(offset)) => connection.raised(offset),
            (Way::Sent, MAX_STREAM_DATA, Some(offset)) if is_of_stream => stream.raised(offset),
            (Way::Received, DATA_BLOCKED, Some(offset)) => connection.used_up(offset),
            (Way::Received, STREAM_DATA_BLOCKED, Some(offset)) if is_of_stream => {
                stream.used_up(offset);
            }
            _ => {}
        }
    }
    let windows = ClientWindows {
        stream_bytes: stream.largest,
        connection_bytes: connection.largest,
        round_trip_bytes: None,
    };
    let limit = windows.limit_bytes()?;
    Some(ClientWindows {
        round_trip_bytes: Some(limit),
        ..windows
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::{facts, frame, request, step};
    use super::super::observed::StepKind;
    use super::*;

    const STREAM_ID: u64 = 1;

    /// A download of `count` DATA frames of 16,384 bytes to a client that gives each window back once it owes `owed` bytes.
    fn download(count: u64, (stream, connection): (i64, i64), owed: i64) -> Step {
        const LENGTH: i64 = 16_384;
        let mut made = step(StepKind::Download, Version::Http2);
        let mut row = request(0, 1_000, 30_000);
        row.stream = Some(STREAM_ID);
        made.requests.push(row);
        let mut used = 0;
        for n in 0..count {
            used += LENGTH;
            let mut data = facts(Way::Received, DATA, STREAM_ID);
            data.length = LENGTH.unsigned_abs();
            data.stream_window = Some(stream - used);
            data.connection_window = Some(connection - used);
            made.frames.push(frame(1_000 + n, data));
            if used < owed {
                continue;
            }
            for (id, window) in [(STREAM_ID, stream), (0, connection)] {
                let mut update = facts(Way::Sent, WINDOW_UPDATE, id);
                update.value = Some(used.unsigned_abs());
                update.stream_window = (id != 0).then_some(window);
                update.connection_window = (id == 0).then_some(window);
                made.frames.push(frame(1_000 + n, update));
            }
            used = 0;
        }
        made
    }

    #[test]
    fn windows_of_http2_are_known_from_the_clients_frames() {
        let made = download(400, (65_536, 1 << 20), 1);
        let windows = ClientWindows::of(&made).expect("windows");
        assert_eq!(windows.stream_bytes, Some(65_536));
        assert_eq!(windows.connection_bytes, Some(1 << 20));
        assert_eq!(windows.limit_bytes(), Some(65_536));
        assert!(!windows.is_limited_by_connection());
        assert_eq!(windows.round_trip_bytes, Some(65_536));
        let made = download(400, (1 << 20, 65_536), 1);
        let windows = ClientWindows::of(&made).expect("windows");
        assert!(windows.is_limited_by_connection());
    }

    /// With an update for every three DATA frames, the fourth frame in a window is given back only in the next round trip.
    #[test]
    fn client_that_keeps_some_of_its_window_allows_less_than_a_window_per_round_trip() {
        let made = download(400, (65_536, 1 << 20), 49_152);
        let windows = ClientWindows::of(&made).expect("windows");
        let allowed = windows.round_trip_bytes.expect("bytes");
        assert!((49_000..65_000).contains(&allowed), "{allowed}");
    }

    #[test]
    fn windows_of_quic_are_known_from_limits_and_what_the_server_says() {
        let mut made = step(StepKind::Download, Version::Http3);
        let mut row = request(0, 1_000, 30_000);
        row.stream = Some(0);
        made.requests.push(row);
        assert_eq!(ClientWindows::of(&made), None);
        let quic = |way, kind, value| FrameFacts {
            stream: Some(0),
            value,
            ..FrameFacts::new(way, FrameLayer::Quic, kind, 0)
        };
        let data = FrameFacts {
            offset: Some(0),
            length: 10_000,
            ..quic(Way::Received, 0x0e, None)
        };
        let raised = quic(Way::Sent, MAX_STREAM_DATA, Some(16_000));
        made.frames = vec![frame(1, data), frame(2, raised)];
        let windows = ClientWindows::of(&made).expect("windows");
        assert_eq!(windows.stream_bytes, Some(6_000));
        assert_eq!(windows.connection_bytes, None);
        let blocked = quic(Way::Received, STREAM_DATA_BLOCKED, Some(10_000));
        made.frames.insert(1, frame(1, blocked));
        let windows = ClientWindows::of(&made).expect("windows");
        assert_eq!(windows.round_trip_bytes, Some(10_000));
    }
}
