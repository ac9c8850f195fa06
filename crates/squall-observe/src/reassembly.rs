//! One direction of a TCP connection: segments in whatever order and however often, the byte stream out, in order.
//!
//! Sequence numbers become offsets of 64 bits, from 0 at the first byte of payload (RFC 9293, section 3.4: they wrap
//! every 4 GiB). Of bytes that come twice the first copy counts; that the copies are equal is TCP's to ensure. Nothing
//! here knows what the bytes mean.

use squall_base::Time;

use crate::waiting::Waiting;

/// What waits beyond a gap is never more than this, whatever window the receiver announced.
pub(crate) const MAX_WAITING_BYTES: u64 = 64 << 20;

/// What became of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that had come before.
    pub(crate) repeated_bytes: u64,
    /// Bytes that are not in order and wait.
    pub(crate) waiting_bytes: u64,
    /// Bytes beyond what the receiver could take, or we: they are forgotten.
    pub(crate) refused_bytes: u64,
    /// Where in the payload the next byte of the stream is, if it is there: it and all behind it is in order.
    pub(crate) fresh_from: Option<usize>,
}

/// A direction.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The sequence number of the next byte, once one is known.
    next: Option<u32>,
    /// Its offset.
    offset: u64,
    /// What came before its turn.
    waiting: Waiting,
    /// Offset after the last byte, once FIN came.
    end: Option<u64>,
}

impl Reassembly {
    /// The stream's first byte has this sequence number, if no other is known.
    pub(crate) fn begin(&mut self, seq: u32) {
        self.next.get_or_insert(seq);
    }

    /// Whether the first sequence number is known.
    pub(crate) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// The sequence number of the first byte, if it is known.
    pub(crate) fn first(&self) -> Option<u32> {
        // The low half is what sequence numbers count.
        self.next.map(|next| next.wrapping_sub(self.offset as u32))
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether FIN came and everything before it.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some_and(|end| self.offset >= end)
    }

    /// How far behind the next byte a sequence number is: negative before it.
    pub(crate) fn ahead(&self, seq: u32) -> i64 {
        let next = self.next.unwrap_or(seq);
        i64::from(seq.wrapping_sub(next) as i32)
    }

    /// Whether a sequence number is before that of the first byte.
    pub(crate) fn is_before_first(&self, seq: u32) -> bool {
        self.ahead(seq) < -(self.offset as i64)
    }

    /// Takes a segment that came at `time`; the receiver takes `window` bytes beyond the next one at most. What is in
    /// order is not kept: the caller has it, and says [`Reassembly::advance`] when it is done with it.
    pub(crate) fn take(
        &mut self,
        time: Time,
        seq: u32,
        payload: &[u8],
        fin: bool,
        window: u64,
    ) -> Taken {
        let mut taken = Taken::default();
        let ahead = self.ahead(seq);
        let window = window.min(MAX_WAITING_BYTES) as i64;
        let len = payload.len() as i64;
        if fin && ahead + len >= 0 {
            let end = self.offset + (ahead + len) as u64;
            self.end.get_or_insert(end);
        }
        if len == 0 {
            return taken;
        }
        if ahead <= 0 {
            let old = (-ahead).min(len);
            taken.repeated_bytes = old as u64;
            taken.fresh_from = (old < len).then_some(old as usize);
        } else if ahead + len > window || self.waiting.is_full() {
            taken.refused_bytes = len as u64;
        } else {
            let start = self.offset + ahead as u64;
            taken.waiting_bytes = self.waiting.keep(time, start, payload);
            taken.repeated_bytes = len as u64 - taken.waiting_bytes;
        }
        taken
    }

    /// So many bytes were in order.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if let Some(next) = &mut self.next {
            // The low half is what sequence numbers count.
            *next = next.wrapping_add(bytes as u32);
        }
    }

    /// When the first of what waits came.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.waiting.earliest()
    }

    /// What waited and is in order now, and when it or anything behind it first came; to be followed by
    /// [`Reassembly::advance`].
    pub(crate) fn pop(&mut self) -> Option<(Time, Vec<u8>)> {
        self.waiting.pop(self.offset)
    }

    /// Gives up bytes that are missing, at most `most` and not what waits, nor FIN: how many.
    pub(crate) fn skip_gap(&mut self, most: u64) -> u64 {
        let target = self.waiting.first().or(self.end);
        let missing = target.map_or(most, |target| target.saturating_sub(self.offset).min(most));
        self.offset += missing;
        if let Some(next) = &mut self.next {
            *next = next.wrapping_add(missing as u32);
        }
        missing
    }

    /// The offset that is acknowledged with this number, if it is beyond the next byte.
    pub(crate) fn beyond(&self, ack: u32) -> Option<u64> {
        let ahead = u64::try_from(self.ahead(ack))
            .ok()
            .filter(|_| self.has_begun())?;
        // FIN has a number too, and is no byte.
        let to = (self.offset + ahead).min(self.end.unwrap_or(u64::MAX));
        (to > self.offset).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 20;

    /// Takes a segment and reads what is in order.
    fn feed(stream: &mut Reassembly, seq: u32, payload: &[u8], read: &mut Vec<u8>) -> Taken {
        let taken = stream.take(Time::ZERO, seq, payload, false, WINDOW);
        if let Some(from) = taken.fresh_from {
            read.extend(&payload[from..]);
            stream.advance(payload.len() - from);
            while let Some((_, bytes)) = stream.pop() {
                stream.advance(bytes.len());
                read.extend(bytes);
            }
        }
        taken
    }

    #[test]
    fn overlaps_and_wraps() {
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
    fn fin_ends_it_when_all_has_come() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.take(Time::ZERO, 3, b"de", true, WINDOW);
        assert!(!stream.has_ended());
        let mut read = Vec::new();
        feed(&mut stream, 0, b"abc", &mut read);
        assert!(stream.has_ended());
    }

    #[test]
    fn what_waits_is_bounded_by_the_window_and_by_us() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        assert_eq!(
            stream
                .take(Time::ZERO, 10, &[0; 10], false, 20)
                .waiting_bytes,
            10
        );
        assert_eq!(
            stream
                .take(Time::ZERO, 11, &[0; 10], false, 20)
                .refused_bytes,
            10
        );
        let far = MAX_WAITING_BYTES as u32 + 1;
        assert_eq!(
            stream
                .take(Time::ZERO, far, &[0; 10], false, u64::MAX)
                .refused_bytes,
            10
        );
    }

    #[test]
    fn what_waited_was_sent_with_the_first_behind_it() {
        let at = Time::from_nanos;
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.take(at(10), 5, b"f", false, WINDOW);
        stream.take(at(20), 1, b"b", false, WINDOW);
        stream.take(at(30), 3, b"d", false, WINDOW);
        assert_eq!(stream.earliest(), Some(at(10)));
        let mut times = Vec::new();
        for (seq, time) in [(0, 40), (2, 50), (4, 60)] {
            stream.take(at(time), seq, b"x", false, WINDOW);
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
    fn a_gap_can_be_given_up() {
        let mut stream = Reassembly::default();
        stream.begin(0);
        stream.take(Time::ZERO, 5, b"f", true, WINDOW);
        assert_eq!(stream.beyond(7), Some(6));
        assert_eq!(stream.skip_gap(2), 2);
        assert_eq!(stream.skip_gap(6), 3);
        let (_, bytes) = stream.pop().unwrap();
        stream.advance(bytes.len());
        assert!(stream.has_ended());
        assert_eq!((stream.skip_gap(1), stream.beyond(7)), (0, None));
    }
}
