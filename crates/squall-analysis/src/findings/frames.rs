//! The frames of one connection as one side saw them: sums, what flow control stopped, and where a receiver stalled.
//!
//! Streams are forgotten when they end, unless their window stopped them: a connection of a million requests takes no more
//! memory than its worst streams. HTTP/3's frames count only where a finding names them.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{FrameFacts, FrameLayer, Way};

use crate::wire::http2::{DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE};
use crate::wire::quic::{RESET_STREAM, STOP_SENDING};

/// The error code REFUSED_STREAM (RFC 9113, section 7).
const REFUSED_STREAM: u64 = 7;
/// Frames of QUIC that end a stream, and the code of a request that was not processed (RFC 9114, section 8.1).
const QUIC_RESETS: [u64; 2] = [RESET_STREAM, STOP_SENDING];
const H3_REQUEST_REJECTED: u64 = 0x10b;

/// A DATA frame below this is tiny: the frame's 9 bytes of header, a record's 22 and a packet's 40 are more than it
/// carries. A judgement.
const TINY_DATA_BYTES: u64 = 64;
/// Once a stream has exhausted its window this many times, the window sets its rate; the first few waits are partly due to
/// slow start.
const SETTLED_BLOCKS: u32 = 3;

/// What this side sends on a stream, or on the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutgoingData {
    /// When its header section was sent, unless that ended the stream.
    began: Option<Time>,
    /// The window before its first DATA.
    pub(super) window: Option<u64>,
    /// Bytes of DATA.
    pub(super) bytes: u64,
    pub(super) last_sent: Option<Time>,
    /// Bytes sent before the first update, and when the last of them was sent.
    bytes_before_update: u64,
    sent_before_update: Option<Time>,
    first_update: Option<Time>,
    /// Updates of its window that came while it was open, and the sum of their increments.
    pub(super) updates: u64,
    pub(super) increments: u64,
    /// Since when its window has been exhausted.
    blocked_since: Option<Time>,
    pub(super) blocked_ns: u64,
    pub(super) blocks: u32,
    /// When it was blocked for the third time, and how many bytes it had sent by then.
    pub(super) steady_from: Option<(Time, u64)>,
}

impl OutgoingData {
    fn send(&mut self, time: Time, length: u64, window: Option<i64>, is_last: bool) {
        let Some(left) = window else { return };
        let before = left.saturating_add_unsigned(length);
        self.window
            .get_or_insert(u64::try_from(before).unwrap_or(0));
        self.bytes += length;
        self.last_sent = Some(time);
        if self.first_update.is_none() {
            self.bytes_before_update += length;
            self.sent_before_update = Some(time);
        }
        if left <= 0 && !is_last {
            self.blocked_since = Some(time);
            self.blocks += 1;
            if self.blocks == SETTLED_BLOCKS {
                self.steady_from = Some((time, self.bytes));
            }
        }
    }

    fn update(&mut self, time: Time, increment: u64) {
        self.first_update.get_or_insert(time);
        self.updates += 1;
        self.increments += increment;
        if let Some(since) = self.blocked_since.take() {
            self.blocked_ns += time.since(since).as_nanos();
        }
    }

    /// How long it waited for its first update, in nanoseconds, if it had sent at most `bytes` before and had more to send.
    pub(super) fn first_wait(&self, bytes: u64) -> Option<u64> {
        let more = self.bytes > self.bytes_before_update;
        let waited = self.first_update?;
        let from = self.sent_before_update.or(self.began)?;
        (more && self.bytes_before_update <= bytes).then(|| waited.since(from).as_nanos())
    }

    fn is_worth_keeping(&self) -> bool {
        self.blocks > 0 || self.first_wait(TINY_WINDOW_BYTES).is_some()
    }
}

/// An initial window below a segment of 1,460 bytes (MTU 1500) carries nothing worth a packet.
pub(super) const TINY_WINDOW_BYTES: u64 = 1_460;

/// A time in which a receiver had all bytes that its window allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    /// `None` for the connection.
    pub(super) stream: Option<u64>,
    pub(super) from: Time,
    /// `None` if no update ever came.
    pub(super) to: Option<Time>,
}

/// Shorter stalls are the ordinary turns of a receiver's event loop.
const STALL_KEPT_NS: u64 = 10_000_000;

/// One connection, as one side recorded it.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionFrames {
    /// All frames of HTTP/2.
    pub(super) total: u64,
    pub(super) data_sent: u64,
    /// Tiny DATA frames among them that did not end their stream.
    pub(super) tiny_data_sent: u64,
    pub(super) data_received: u64,
    pub(super) data_received_bytes: u64,
    /// WINDOW_UPDATE frames of streams, and the sum of their increments.
    pub(super) updates_sent: u64,
    pub(super) increments_sent: u64,
    /// The window that this side granted a stream, before its first DATA.
    pub(super) granted_window: Option<u64>,
    /// Bytes in each HEADERS frame of this side that no table can hold; the counts below exclude them.
    pub(super) unique_header_bytes: u64,
    /// Bytes of the first HEADERS that this side sent.
    pub(super) first_headers: Option<u64>,
    /// Later HEADERS, and those of them that are at least half as long.
    pub(super) later_headers: u64,
    pub(super) long_headers: u64,
    pub(super) goaways_received: u64,
    /// Streams that the peer refused.
    pub(super) refused: Vec<u64>,
    /// What was sent on streams that are open, or were stopped by their windows.
    pub(super) outgoing: BTreeMap<u64, OutgoingData>,
    /// What was sent on the connection.
    pub(super) connection: OutgoingData,
    incoming: BTreeMap<Option<u64>, Time>,
    stalls: Vec<Stall>,
    pub(super) last: Time,
}

impl ConnectionFrames {
    pub(super) fn add(&mut self, time: Time, frame: &FrameFacts) {
        self.last = self.last.max(time);
        match (frame.layer, frame.way) {
            (FrameLayer::Http2, way) => {
                self.total += 1;
                match way {
                    Way::Sent => self.add_sent(time, frame),
                    Way::Received => self.add_received(time, frame),
                }
            }
            (FrameLayer::Http3, Way::Received) if frame.kind == GOAWAY => {
                self.goaways_received += 1;
            }
            (FrameLayer::Quic, Way::Received)
                if QUIC_RESETS.contains(&frame.kind)
                    && frame.value == Some(H3_REQUEST_REJECTED) =>
            {
                self.refuse(frame.stream);
            }
            _ => {}
        }
    }

    fn add_sent(&mut self, time: Time, frame: &FrameFacts) {
        let Some(stream) = frame.stream else { return };
        let is_last = frame.flags & END_STREAM != 0;
        match frame.kind {
            HEADERS => {
                self.count_headers(frame.length);
                if is_last {
                    self.end_stream(stream);
                } else {
                    let outgoing = self.outgoing.entry(stream).or_default();
                    outgoing.began.get_or_insert(time);
                }
            }
            DATA => {
                self.data_sent += 1;
                self.tiny_data_sent += u64::from(frame.length < TINY_DATA_BYTES && !is_last);
                let outgoing = self.outgoing.entry(stream).or_default();
                outgoing.send(time, frame.length, frame.stream_window, is_last);
                // More may follow on other streams.
                self.connection
                    .send(time, frame.length, frame.connection_window, false);
                if is_last {
                    self.end_stream(stream);
                }
            }
            RST_STREAM => self.end_stream(stream),
            WINDOW_UPDATE => {
                let of = (stream != 0).then_some(stream);
                if of.is_some() {
                    self.updates_sent += 1;
                    self.increments_sent += frame.value.unwrap_or(0);
                }
                self.resume(of, time);
            }
            _ => {}
        }
    }

    fn add_received(&mut self, time: Time, frame: &FrameFacts) {
        let Some(stream) = frame.stream else { return };
        match frame.kind {
            DATA => {
                self.data_received += 1;
                self.data_received_bytes += frame.length;
                if let Some(left) = frame.stream_window {
                    let granted = left.saturating_add_unsigned(frame.length);
                    self.granted_window
                        .get_or_insert(u64::try_from(granted).unwrap_or(0));
                }
                if frame.flags & END_STREAM != 0 {
                    self.incoming.remove(&Some(stream));
                } else if frame.stream_window.is_some_and(|left| left <= 0) {
                    self.incoming.insert(Some(stream), time);
                }
                if frame.connection_window.is_some_and(|left| left <= 0) {
                    self.incoming.insert(None, time);
                }
            }
            WINDOW_UPDATE => {
                let increment = frame.value.unwrap_or(0);
                if stream == 0 {
                    self.connection.update(time, increment);
                } else if let Some(outgoing) = self.outgoing.get_mut(&stream) {
                    outgoing.update(time, increment);
                }
            }
            RST_STREAM => {
                self.incoming.remove(&Some(stream));
                if frame.value == Some(REFUSED_STREAM) {
                    self.refuse(Some(stream));
                }
                self.end_stream(stream);
            }
            // A graceful shutdown (RFC 9113, section 6.8); errors do not count as churn.
            GOAWAY if frame.value.unwrap_or(0) == 0 => self.goaways_received += 1,
            _ => {}
        }
    }

    fn count_headers(&mut self, length: u64) {
        let length = length.saturating_sub(self.unique_header_bytes);
        match self.first_headers {
            None => self.first_headers = Some(length),
            Some(first) => {
                self.later_headers += 1;
                self.long_headers += u64::from(length.saturating_mul(2) >= first);
            }
        }
    }

    fn end_stream(&mut self, stream: u64) {
        let outgoing = self.outgoing.get(&stream);
        if outgoing.is_some_and(|outgoing| !outgoing.is_worth_keeping()) {
            self.outgoing.remove(&stream);
        }
    }

    fn refuse(&mut self, stream: Option<u64>) {
        if let Some(stream) = stream
            && !self.refused.contains(&stream)
        {
            self.refused.push(stream);
        }
    }

    fn resume(&mut self, stream: Option<u64>, time: Time) {
        if let Some(from) = self.incoming.remove(&stream)
            && time.since(from).as_nanos() >= STALL_KEPT_NS
        {
            let to = Some(time);
            self.stalls.push(Stall { stream, from, to });
        }
    }

    /// Where this side had received all that it had allowed, and allowed no more for a while, or ever.
    pub(super) fn stalls(&self) -> impl Iterator<Item = Stall> {
        let open = self.incoming.iter().map(|(&stream, &from)| Stall {
            stream,
            from,
            to: None,
        });
        self.stalls.iter().copied().chain(open)
    }
}
