//! The frames of one connection as one side has them: sums, what flow control stopped, and where a receiver stalled.
//!
//! Streams are forgotten when they end, unless their window stopped them: a connection of a million requests takes no
//! more room than its worst ones. HTTP/3's frames count only where a finding names them.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{FrameFacts, FrameLayer, Way};

/// Frames of HTTP/2 (RFC 9113, section 6); 7 is GOAWAY in HTTP/3, too (RFC 9114, section 7.2.6).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
const RST_STREAM: u64 = 3;
const GOAWAY: u64 = 7;
const WINDOW_UPDATE: u64 = 8;
/// RFC 9113, sections 6.1 and 6.2.
const END_STREAM: u8 = 1;
/// RFC 9113, section 7.
const REFUSED_STREAM: u64 = 7;
/// Frames of QUIC that end a stream (RFC 9000, sections 19.4 and 19.5), and the code of a request that was not
/// processed (RFC 9114, section 8.1).
const QUIC_RESETS: [u64; 2] = [0x04, 0x05];
const H3_REQUEST_REJECTED: u64 = 0x10b;

/// DATA below this is tiny: its own 9 bytes of header, a record's 22 and a packet's 40 are more than it carries. The
/// figure is that of the table of pathologies (reference: nghttp2's users with windows that open byte by byte).
const TINY_DATA_BYTES: u64 = 64;
/// Blocks from which on a stream's rate is that of its window: the first ones also wait for slow start.
const SETTLED_BLOCKS: u32 = 3;

/// A stream, or the connection, that this side sends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outgoing {
    /// When its header section was sent, and no end with it.
    began: Option<Time>,
    /// The window before its first DATA.
    pub(super) window: Option<u64>,
    /// Bytes of DATA.
    pub(super) bytes: u64,
    pub(super) last_sent: Option<Time>,
    /// Bytes before the first update, and when the last of them was sent.
    bytes_before_update: u64,
    sent_before_update: Option<Time>,
    first_update: Option<Time>,
    /// Updates that came while it was open, and their increments together.
    pub(super) updates: u64,
    pub(super) increments: u64,
    /// Since when its window is used up.
    blocked_since: Option<Time>,
    pub(super) blocked_ns: u64,
    pub(super) blocks: u32,
    /// When it was blocked for the third time, and the bytes that it had sent by then.
    pub(super) settled: Option<(Time, u64)>,
}

impl Outgoing {
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
                self.settled = Some((time, self.bytes));
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

    /// How long it waited for its first update after at most `bytes`, in nanoseconds, if it did and had more to send.
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

/// A window that was used up at its receiver, who had all bytes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    /// `None`: the connection's.
    pub(super) stream: Option<u64>,
    pub(super) from: Time,
    /// `None`: no update ever came.
    pub(super) to: Option<Time>,
}

/// Shorter ones are a receiver's own turns.
const STALL_KEPT_NS: u64 = 10_000_000;

/// One connection, as one side recorded it.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// All of HTTP/2.
    pub(super) total: u64,
    pub(super) data_sent: u64,
    /// Of them, tiny ones that did not end their stream.
    pub(super) tiny_data_sent: u64,
    pub(super) data_received: u64,
    pub(super) data_received_bytes: u64,
    /// WINDOW_UPDATE of streams, and their increments together.
    pub(super) updates_sent: u64,
    pub(super) increments_sent: u64,
    /// The window of a stream that this side gave, before its first DATA.
    pub(super) window_given: Option<u64>,
    /// Bytes in each HEADERS that this side sends which no table can hold, and which are not counted below.
    pub(super) unique_header_bytes: u64,
    /// Bytes of the first HEADERS that this side sent.
    pub(super) first_headers: Option<u64>,
    /// Further ones, and those of them that are at least half as long.
    pub(super) later_headers: u64,
    pub(super) long_headers: u64,
    pub(super) goaways_received: u64,
    /// Streams that the peer refused.
    pub(super) refused: Vec<u64>,
    /// What was sent of streams that are open, or were stopped by their windows.
    pub(super) outgoing: BTreeMap<u64, Outgoing>,
    /// What was sent on the connection.
    pub(super) connection: Outgoing,
    incoming: BTreeMap<Option<u64>, Time>,
    stalls: Vec<Stall>,
    pub(super) last: Time,
}

impl Frames {
    pub(super) fn add(&mut self, time: Time, frame: &FrameFacts) {
        self.last = self.last.max(time);
        match (frame.layer, frame.way) {
            (FrameLayer::Http2, way) => {
                self.total += 1;
                match way {
                    Way::Sent => self.sent(time, frame),
                    Way::Received => self.received(time, frame),
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

    fn sent(&mut self, time: Time, frame: &FrameFacts) {
        let Some(stream) = frame.stream else { return };
        let is_last = frame.flags & END_STREAM != 0;
        match frame.kind {
            HEADERS => {
                self.count_headers(frame.length);
                if is_last {
                    self.end(stream);
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
                // More can follow on other streams.
                self.connection
                    .send(time, frame.length, frame.connection_window, false);
                if is_last {
                    self.end(stream);
                }
            }
            RST_STREAM => self.end(stream),
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

    fn received(&mut self, time: Time, frame: &FrameFacts) {
        let Some(stream) = frame.stream else { return };
        match frame.kind {
            DATA => {
                self.data_received += 1;
                self.data_received_bytes += frame.length;
                if let Some(left) = frame.stream_window {
                    let given = left.saturating_add_unsigned(frame.length);
                    self.window_given
                        .get_or_insert(u64::try_from(given).unwrap_or(0));
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
                self.end(stream);
            }
            // The graceful one (RFC 9113, section 6.8); errors are no churn.
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

    fn end(&mut self, stream: u64) {
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

    /// Where this side had all that it had allowed, and allowed no more for a while or ever.
    pub(super) fn stalls(&self) -> impl Iterator<Item = Stall> {
        let open = self.incoming.iter().map(|(&stream, &from)| Stall {
            stream,
            from,
            to: None,
        });
        self.stalls.iter().copied().chain(open)
    }
}
