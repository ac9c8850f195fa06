//! One direction of a TCP connection: takes segments in any order and repeated, and returns the byte stream in order.
//!
//! Sequence numbers become 64-bit offsets, from 0 at the first byte of payload, because they wrap every 4 GiB (RFC
//! 9293, section 3.4). If bytes arrive twice, the first copy counts; TCP has to ensure that the copies are equal. This
//! module does not interpret the bytes: `connection` passes them on. Out-of-order bytes are kept in `waiting`.

use squall_base::Time;

use crate::waiting::OutOfOrderQueue;

/// Limit for bytes waiting beyond a gap, whatever window the receiver announced.
pub(crate) const MAX_WAITING_BYTES: u64 = 64 << 20;

/// The outcome of adding a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentOutcome {
    /// Bytes that had arrived before.
    pub(crate) repeated_bytes: u64,
    /// Out-of-order bytes that were kept.
    pub(crate) waiting_bytes: u64,
    /// Bytes beyond the receiver's window or our own limit; they are dropped.
    pub(crate) refused_bytes: u64,
    /// Where in the payload the stream's next byte is, if the payload contains it. Everything from there on is in
    /// order.
    pub(crate) fresh_from: Option<usize>,
}

/// The reassembly of one direction.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The sequence number of the next byte, once one is known.
    next: Option<u32>,
    /// The offset of the next byte.
    offset: u64,
    /// Out-of-order bytes.
    waiting: OutOfOrderQueue,
    /// Offset after the last byte, once FIN was seen.
    end: Option<u64>,
}

impl Reassembly {
    /// Sets the sequence number of the stream's first byte, unless it is known already.
    pub(crate) fn begin(&mut self, seq: u32) {
        self.next.get_or_insert(seq);
    }

    /// Whether the first sequence number is known.
    pub(crate) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// The sequence number of the first byte, if it is known.
    pub(crate) fn first(&self) -> Option<u32> {
        // Sequence numbers count the low 32 bits of the offset.
        self.next.map(|next| next.wrapping_sub(self.offset as u32))
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether FIN and every byte before it have arrived.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some_and(|end| self.offset >= end)
    }

    /// How far a sequence number is ahead of the next byte; negative if it is before it.
    pub(crate) fn ahead(&self, seq: u32) -> i64 {
        let next = self.next.unwrap_or(seq);
        i64::from(seq.wrapping_sub(next) as i32)
    }

    /// Whether a sequence number is before that of the first byte.
    pub(crate) fn is_before_first(&self, seq: u32) -> bool {
        self.ahead(seq) < -(self.offset as i64)
    }

    /// Takes a segment that arrived at `time`. The receiver accepts at most `window` bytes from the next one on. Bytes
    /// that are in order are not kept: the caller has them, and calls [`Reassembly::advance`] once it has read them.
    pub(crate) fn receive(
        &mut self,
        time: Time,
        seq: u32,
        payload: &[u8],
        fin: bool,
        window: u64,
    ) -> SegmentOutcome {
        let mut outcome = SegmentOutcome::default();
        let ahead = self.ahead(seq);
        let window = window.min(MAX_WAITING_BYTES) as i64;
        let len = payload.len() as i64;
        if fin && ahead + len >= 0 {
            let end = self.offset + (ahead + len) as u64;
            self.end.get_or_insert(end);
        }
        if len == 0 {
            return outcome;
        }
        if ahead <= 0 {
            let old = (-ahead).min(len);
            outcome.repeated_bytes = old as u64;
            outcome.fresh_from = (old < len).then_some(old as usize);
        } else if ahead + len > window || self.waiting.is_full() {
            outcome.refused_bytes = len as u64;
        } else {
            let start = self.offset + ahead as u64;
            outcome.waiting_bytes = self.waiting.insert(time, start, payload);
            outcome.repeated_bytes = len as u64 - outcome.waiting_bytes;
        }
        outcome
    }

    /// Moves on by `bytes` bytes that were in order.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if let Some(next) = &mut self.next {
            // Sequence numbers count the low 32 bits of the offset.
            *next = next.wrapping_add(bytes as u32);
        }
    }

    /// When the earliest of the waiting bytes arrived.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.waiting.earliest()
    }

    /// Returns waiting bytes that are now in order, and when they or any later bytes first arrived. The caller has to
    /// call [`Reassembly::advance`] afterwards.
    pub(crate) fn pop(&mut self) -> Option<(Time, Vec<u8>)> {
        self.waiting.pop(self.offset)
    }

    /// Skips at most `most` missing bytes, but neither waiting bytes nor FIN. Returns how many it skipped.
    pub(crate) fn skip_gap(&mut self, most: u64) -> u64 {
        let target = self.waiting.first().or(self.end);
        let missing = target.map_or(most, |target| target.saturating_sub(self.offset).min(most));
        self.offset += missing;
        if let Some(next) = &mut self.next {
            *next = next.wrapping_add(missing as u32);
        }
        missing
    }

    /// The offset that this acknowledgement number covers, if it is beyond the next byte.
    pub(crate) fn beyond(&self, ack: u32) -> Option<u64> {
        let ahead = u64::try_from(self.ahead(ack))
            .ok()
            .filter(|_| self.has_begun())?;
        // FIN has a sequence number but is not a byte.
        let to = (self.offset + ahead).min(self.end.unwrap_or(u64::MAX));
        (to > self.offset).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 20;

    /// Takes a segment and reads the bytes that are in order.
    fn feed(
        stream: &mut Reassembly,
        seq: u32,
        payload: &[u8],
        read: &mut Vec<u8>,
    ) -> SegmentOutcome {
        let outcome = stream.receive(Time::ZERO, seq, payload, false, WINDOW);
        if let Some(from) = outcome.fresh_from {
            read.extend(&payload[from..]);
            stream.advance(payload.len() - from);
            while let Some((_, bytes)) = stream.pop() {
                stream.advance(bytes.len());
                read.extend(bytes);
            }
        }
        outcome
    }

    #[test]
    fn overlapping_segments_are_read_once_across_a_sequence_wrap() {
        let mut stream = Reassembly::default();
        let mut read = Vec::new();
        stream.begin(u32::MAX - 1);
        feed(&mut stream, 1, b"def", &mut read);
        assert_eq!(feed(&mut stream, 2, b"efgh", &mut read).waiting_bytes, 2);
        feed(&mut stream, 8, b"k", &mut read);
        assert!(read.is_empty());
        assert_eq!(
            feed(&mut stream, u32::MAX - 1, b"abcd", &mut read).repeated_bytes,
            0
        );
        assert_eq!(read, b"abcdefgh");
        assert_eq!(feed(&mut stream, 5, b"hij", &mut read).repeated_bytes, 1);
        assert_eq!(read, b"abcdefghijk");
        assert_eq!(stream.offset(), 11);
        assert_eq!(stream.ahead(u32::MAX), -10);
    }

    #[test]
    fn stream_ends_when_fin_and_all_earlier_bytes_have_arrived() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.receive(Time::ZERO, 3, b"de", true, WINDOW);
        assert!(!stream.has_ended());
        let mut read = Vec::new();
        feed(&mut stream, 0, b"abc", &mut read);
        assert!(stream.has_ended());
    }

    #[test]
    fn waiting_bytes_are_bounded_by_the_window_and_our_own_limit() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        assert_eq!(
            stream
                .receive(Time::ZERO, 10, &[0; 10], false, 20)
                .waiting_bytes,
            10
        );
        assert_eq!(
            stream
                .receive(Time::ZERO, 11, &[0; 10], false, 20)
                .refused_bytes,
            10
        );
        let far = MAX_WAITING_BYTES as u32 + 1;
        assert_eq!(
            stream
                .receive(Time::ZERO, far, &[0; 10], false, u64::MAX)
                .refused_bytes,
            10
        );
    }

    #[test]
    fn waiting_bytes_carry_the_time_of_the_earliest_later_bytes() {
        let at = Time::from_nanos;
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.receive(at(10), 5, b"f", false, WINDOW);
        stream.receive(at(20), 1, b"b", false, WINDOW);
        stream.receive(at(30), 3, b"d", false, WINDOW);
        assert_eq!(stream.earliest(), Some(at(10)));
        let mut times = Vec::new();
        for (seq, time) in [(0, 40), (2, 50), (4, 60)] {
            stream.receive(at(time), seq, b"x", false, WINDOW);
            stream.advance(1);
            while let Some((time, bytes)) = stream.pop() {
                stream.advance(bytes.len());
                times.push((time, stream.offset()));
            }
        }
        assert_eq!(times, [(at(10), 2), (at(10), 4), (at(10), 6)]);
        assert_eq!(stream.earliest(), None);
    }

    #[test]
    fn missing_bytes_can_be_skipped() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.receive(Time::ZERO, 5, b"f", true, WINDOW);
        assert_eq!(stream.beyond(7), Some(6));
        assert_eq!(stream.skip_gap(2), 2);
        assert_eq!(stream.skip_gap(6), 3);
        let (_, bytes) = stream.pop().unwrap();
        stream.advance(bytes.len());
        assert!(stream.has_ended());
        assert_eq!((stream.skip_gap(1), stream.beyond(7)), (0, None));
    }
}
