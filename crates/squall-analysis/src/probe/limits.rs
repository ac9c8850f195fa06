//! The limits that a server gives to an HTTP/3 upload (RFC 9000, section 4.1), and how long the upload waited for them.
//!
//! The first limits are transport parameters. The later ones are in MAX_STREAM_DATA and MAX_DATA: an upload that gets exactly
//! as far as one of them has reached it. STREAM_DATA_BLOCKED and DATA_BLOCKED say so too, but squall's client rarely sends
//! them, because it never gives quiche more than may be sent. `windows` does this for HTTP/2.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::record::{FrameFacts, FrameLayer, Way};
use squall_base::{Duration, Time};

use super::observed::{Step, TransportParameters};
use super::windows::was_wanted;
use crate::wire::quic::{DATA_BLOCKED, MAX_DATA, MAX_STREAM_DATA, STREAM, STREAM_DATA_BLOCKED};

/// What an HTTP/3 upload shows of the server's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UploadLimits {
    /// The most that the stream was seen to have at a time; `None` if its limit was never reached.
    pub stream_bytes: Option<u64>,
    /// The corresponding number for the connection.
    pub connection_bytes: Option<u64>,
    /// How many times the stream's limit was raised.
    pub updates: u64,
    /// From the first STREAM frame of the upload to the last one, or to when it was given up.
    #[serde(rename = "sending_ns")]
    pub sending: Duration,
    /// The part of `sending` in which everything that the stream's limit allows was sent.
    #[serde(rename = "blocked_by_stream_ns")]
    pub blocked_by_stream: Duration,
    /// The part of `sending` in which everything that the connection's limit allows was sent.
    #[serde(rename = "blocked_by_connection_ns")]
    pub blocked_by_connection: Duration,
}

impl UploadLimits {
    /// The limits of the long upload of a step; `None` if it reached no limit, or the server rejected it.
    pub fn of(step: &Step) -> Option<UploadLimits> {
        let row = step.of(1).filter(|row| was_wanted(row))?;
        let (connection, stream) = (row.connection?, row.stream?);
        let handshake = step.handshake.as_ref();
        let announced = handshake.and_then(|handshake| handshake.transport);
        let mut reader = Reader::of(announced);
        for record in &step.frames {
            if record.connection == connection && record.frame.layer == FrameLayer::Quic {
                reader.read(record.time, &record.frame, stream);
            }
        }
        let is_whole = row.written_last.is_some();
        reader.finish(if is_whole { None } else { Some(row.end) })
    }

    /// The most that the upload could have in flight: the smaller of the limits that it reached.
    pub fn limit_bytes(&self) -> Option<u64> {
        let known = [self.stream_bytes, self.connection_bytes];
        known.into_iter().flatten().min()
    }
}

/// One limit: the offset up to which data may be sent.
#[derive(Debug, Default)]
struct Limit {
    offset: Option<u64>,
    /// The largest part of it that was free at a time.
    largest: u64,
    sent: u64,
    /// Whether the sender has got as far as the limit.
    is_used_up: bool,
    /// Whether the sender had more to send then.
    was_reached: bool,
    since: Option<Time>,
    blocked: Duration,
}

impl Limit {
    /// A limit that allows this much at first, if that is known.
    fn first(offset: Option<u64>) -> Limit {
        Limit {
            offset,
            largest: offset.unwrap_or(0),
            ..Limit::default()
        }
    }

    /// Notes that the sender got to this offset.
    fn advance(&mut self, time: Time, sent: u64) {
        if sent > self.sent {
            self.was_reached |= self.is_used_up;
            self.sent = sent;
            self.open(time);
            self.check(time);
        }
    }

    /// Notes that the sender has more to send than the limit, `offset`, allows.
    fn reached(&mut self, time: Time, offset: u64) {
        self.was_reached = true;
        if self.offset.is_none() {
            self.largest = offset;
        }
        self.offset = self.offset.max(Some(offset));
        self.check(time);
    }

    /// Notes that the peer raised the limit to `offset`.
    fn raised(&mut self, time: Time, offset: u64) {
        self.offset = self.offset.max(Some(offset));
        self.largest = self.largest.max(offset.saturating_sub(self.sent));
        self.open(time);
        self.check(time);
    }

    fn open(&mut self, time: Time) {
        if let Some(since) = self.since.take() {
            self.blocked = self.blocked + time.since(since);
        }
    }

    fn check(&mut self, time: Time) {
        if self.offset.is_some_and(|offset| self.sent >= offset) {
            self.is_used_up = true;
            self.since.get_or_insert(time);
        }
    }
}

/// Walks over the QUIC frames of one connection.
#[derive(Debug, Default)]
struct Reader {
    stream: Limit,
    connection: Limit,
    /// How far each stream of ours was sent.
    streams: BTreeMap<u64, u64>,
    updates: u64,
    first: Option<Time>,
    last: Option<Time>,
}

impl Reader {
    /// A reader for uploads to a server that announced these limits.
    fn of(announced: Option<TransportParameters>) -> Reader {
        let stream = announced.map(|limits| limits.initial_max_stream_data_bytes);
        let connection = announced.map(|limits| limits.initial_max_data_bytes);
        Reader {
            stream: Limit::first(stream),
            connection: Limit::first(connection),
            ..Reader::default()
        }
    }

    fn read(&mut self, time: Time, frame: &FrameFacts, upload: u64) {
        let is_upload = frame.stream == Some(upload);
        match (frame.way, frame.kind, frame.value) {
            (Way::Sent, kind, _) if STREAM.contains(&kind) => {
                self.stream_frame(time, frame, upload);
            }
            (Way::Sent, STREAM_DATA_BLOCKED, Some(offset)) if is_upload => {
                self.stream.reached(time, offset);
            }
            (Way::Sent, DATA_BLOCKED, Some(offset)) => {
                self.connection.reached(time, offset);
            }
            (Way::Received, MAX_STREAM_DATA, Some(offset)) if is_upload => {
                self.updates += 1;
                self.stream.raised(time, offset);
            }
            (Way::Received, MAX_DATA, Some(offset)) => self.connection.raised(time, offset),
            _ => {}
        }
    }

    fn stream_frame(&mut self, time: Time, frame: &FrameFacts, upload: u64) {
        let (Some(stream), Some(offset)) = (frame.stream, frame.offset) else {
            return;
        };
        let end = offset.saturating_add(frame.length);
        let far = self.streams.entry(stream).or_default();
        // The rest was retransmitted.
        let more = end.saturating_sub(*far);
        *far = (*far).max(end);
        let all = self.connection.sent.saturating_add(more);
        self.connection.advance(time, all);
        if stream == upload {
            self.first.get_or_insert(time);
            self.last = Some(time);
            self.stream.advance(time, end);
        }
    }

    /// The result; `given_up` is when an upload ended that was not sent completely.
    fn finish(mut self, given_up: Option<Time>) -> Option<UploadLimits> {
        let (first, last) = (self.first?, self.last?);
        let end = given_up.unwrap_or(last);
        for limit in [&mut self.stream, &mut self.connection] {
            limit.was_reached |= limit.is_used_up && given_up.is_some();
        }
        self.stream.open(end);
        self.connection.open(end);
        let [stream, connection] = [&self.stream, &self.connection].map(|limit| limit.was_reached);
        (stream || connection).then(|| UploadLimits {
            stream_bytes: stream.then_some(self.stream.largest),
            connection_bytes: connection.then_some(self.connection.largest),
            updates: self.updates,
            sending: end.since(first),
            blocked_by_stream: self.stream.blocked,
            blocked_by_connection: self.connection.blocked,
        })
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Version;
    use squall_base::record::{FrameRecord, Side};

    use super::super::made::{at_us, parameters, request, step};
    use super::super::observed::{Handshake, StepKind};
    use super::*;

    const UPLOAD: u64 = 4;

    fn frame(time_us: u64, way: Way, kind: u64, stream: Option<u64>, value: u64) -> FrameRecord {
        let is_stream = STREAM.contains(&kind);
        let length = if is_stream { 1_000 } else { 0 };
        let facts = FrameFacts {
            stream,
            offset: is_stream.then_some(value),
            value: (!is_stream).then_some(value),
            ..FrameFacts::new(way, FrameLayer::Quic, kind, length)
        };
        squall_made::frame(at_us(time_us), Side::Client, facts)
    }

    /// An upload of 20,000 bytes to a server that first allows 10,000, and raises the limit to 20,000 after 30 ms.
    fn upload() -> Step {
        let mut made = step(StepKind::Upload, Version::Http3);
        let stream = Some(UPLOAD);
        let sent = |at: u64, offset: u64| frame(at, Way::Sent, 0x0e, stream, offset);
        made.frames
            .extend((0..9).map(|n| sent(1_000 + n, n * 1_000)));
        // quiche reports the limit as soon as it has more to send, and goes on sending.
        made.frames
            .push(frame(1_009, Way::Sent, STREAM_DATA_BLOCKED, stream, 10_000));
        made.frames.push(sent(1_010, 9_000));
        made.frames.push(frame(
            31_010,
            Way::Received,
            MAX_STREAM_DATA,
            stream,
            20_000,
        ));
        made.frames
            .extend((10..20).map(|n| sent(31_010 + n, n * 1_000)));
        let mut row = request(1, 1_000, 60_000);
        row.stream = stream;
        row.request_body_bytes = 20_000;
        row.written_last = Some(at_us(31_029));
        made.requests.push(row);
        made
    }

    #[test]
    fn waiting_for_the_streams_limit_is_measured() {
        let limits = UploadLimits::of(&upload()).expect("a limit was reached");
        assert_eq!(limits.stream_bytes, Some(10_000));
        assert_eq!(limits.connection_bytes, None);
        assert_eq!(limits.updates, 1);
        assert_eq!(limits.blocked_by_stream, Duration::from_millis(30));
        assert_eq!(limits.limit_bytes(), Some(10_000));
    }

    /// squall's client never gives quiche more than may be sent, so quiche reports no limit.
    #[test]
    fn limit_is_known_from_the_servers_updates() {
        let mut made = upload();
        made.frames
            .retain(|record| record.frame.kind != STREAM_DATA_BLOCKED);
        let stream = Some(UPLOAD);
        made.frames.push(frame(
            61_029,
            Way::Received,
            MAX_STREAM_DATA,
            stream,
            30_000,
        ));
        made.frames
            .push(frame(61_030, Way::Sent, 0x0e, stream, 20_000));
        let limits = UploadLimits::of(&made).expect("a limit was reached");
        assert_eq!(limits.stream_bytes, Some(10_000));
        assert!(limits.blocked_by_stream >= Duration::from_millis(30));
    }

    /// The limit is known from the first byte on if the server's transport parameters are.
    #[test]
    fn announced_limit_is_known_before_the_first_update() {
        let mut made = upload();
        made.frames
            .retain(|record| record.frame.kind != STREAM_DATA_BLOCKED);
        made.handshake = Some(Handshake {
            transport: Some(TransportParameters {
                initial_max_data_bytes: 1 << 20,
                initial_max_stream_data_bytes: 10_000,
                ..parameters()
            }),
            ..Handshake::default()
        });
        let limits = UploadLimits::of(&made).expect("a limit was reached");
        assert_eq!(limits.stream_bytes, Some(10_000));
        assert_eq!(limits.connection_bytes, None);
        assert_eq!(limits.blocked_by_stream, Duration::from_millis(30));
    }

    #[test]
    fn upload_within_its_limits_says_nothing_about_them() {
        let mut made = upload();
        made.frames
            .retain(|record| record.frame.kind != STREAM_DATA_BLOCKED);
        assert_eq!(UploadLimits::of(&made), None);
    }
}
