//! Maps the bytes that a parser is reading to the packets and TLS records that carried them, and to their times.
//!
//! A parser knows stream offsets. The trail knows where on the wire recent pieces were, and when. It forgets pieces
//! that the parser is done with, and interprets no bytes. Its users are the parsers: `http1`, `http2` and
//! `quic::http3`.

use std::collections::VecDeque;
use std::ops::Range;

use squall_base::Time;
use squall_base::record::{Extent, Way};

/// What carried a piece of HTTP bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carrier {
    /// Its range in TCP's payload; for a TLS record, the whole record.
    pub(crate) wire: Range<u64>,
    /// The TLS record, numbered among those with application data; `None` in cleartext.
    pub(crate) record: Option<u64>,
    /// When its first byte was sent or received.
    pub(crate) first: Time,
    /// When its last byte was sent or received.
    pub(crate) last: Time,
}

/// The next bytes of a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) way: Way,
    pub(crate) bytes: &'a [u8],
    pub(crate) carrier: Carrier,
}

/// The recent pieces of one direction that a parser may still ask for.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// By their range of HTTP offsets.
    pieces: VecDeque<(Range<u64>, Carrier)>,
    end: u64,
}

/// A byte of HTTP, with what carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedByte<'a> {
    plain_start: u64,
    carrier: &'a Carrier,
}

impl CarriedByte<'_> {
    /// Offset of the first wire byte that carries the byte at `offset`.
    fn wire_start(&self, offset: u64) -> u64 {
        match self.carrier.record {
            Some(_) => self.carrier.wire.start,
            None => self.carrier.wire.start + (offset - self.plain_start),
        }
    }

    /// Offset after the last wire byte that carries it.
    fn wire_end(&self, offset: u64) -> u64 {
        match self.carrier.record {
            Some(_) => self.carrier.wire.end,
            None => self.wire_start(offset) + 1,
        }
    }
}

impl Trail {
    /// Offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds the next piece and returns its offset.
    pub(crate) fn push(&mut self, len: usize, carrier: Carrier) -> u64 {
        let start = self.end;
        self.end += len as u64;
        self.pieces.push_back((start..self.end, carrier));
        start
    }

    /// Forgets the pieces that end at or before `offset`, except for the newest.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        while self.pieces.len() > 1
            && let Some((plain, _)) = self.pieces.front()
            && plain.end <= offset
        {
            self.pieces.pop_front();
        }
    }

    /// What carried the byte at `offset`; if that is forgotten, the oldest known piece.
    pub(crate) fn find(&self, offset: u64) -> Option<CarriedByte<'_>> {
        let at = self
            .pieces
            .partition_point(|(plain, _)| plain.end <= offset);
        let (plain, carrier) = self.pieces.get(at)?;
        Some(CarriedByte {
            plain_start: plain.start.min(offset),
            carrier,
        })
    }
}

/// Where and when a message of an exchange crossed the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    extent: Option<Extent>,
}

impl Passage {
    /// The message's first byte is at `offset`.
    pub(crate) fn begin(&mut self, offset: u64, trail: &Trail) {
        let carried = trail.find(offset);
        self.first = carried.map(|carried| carried.carrier.first);
        self.extent = Some(Extent {
            start: offset,
            end: offset,
            wire_start: carried.map(|carried| carried.wire_start(offset)),
            wire_end: None,
            record_first: carried.and_then(|carried| carried.carrier.record),
            record_last: None,
        });
    }

    /// The message's last byte is before `end`. `at` is when the end became known, if that was later.
    pub(crate) fn end(&mut self, end: u64, at: Option<Time>, trail: &Trail) {
        let offset = end.saturating_sub(1);
        let carried = trail.find(offset);
        self.last = at.or(carried.map(|carried| carried.carrier.last));
        if let Some(extent) = &mut self.extent {
            extent.end = end;
            extent.wire_end = carried.map(|carried| carried.wire_end(offset));
            extent.record_last = carried.and_then(|carried| carried.carrier.record);
        }
    }

    /// The message's first byte is at `offset` of a QUIC stream, where bytes have no position on the wire.
    pub(crate) fn begin_in_stream(&mut self, offset: u64, at: Time) {
        self.begin(offset, &Trail::default());
        self.first = Some(at);
    }

    /// The message ends at `end` with its stream.
    pub(crate) fn end_in_stream(&mut self, end: u64, at: Time) {
        self.end(end, Some(at), &Trail::default());
    }

    /// Its extent, once all of it has passed.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.extent.filter(|_| self.last.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(wire: Range<u64>, record: Option<u64>, at: u64) -> Carrier {
        Carrier {
            wire,
            record,
            first: Time::from_nanos(at),
            last: Time::from_nanos(at + 1),
        }
    }

    #[test]
    fn passage_maps_offsets_to_the_wire_in_cleartext_and_in_records() {
        for (record, wire) in [(None, 102..112), (Some(4), 100..130)] {
            let mut trail = Trail::default();
            trail.push(
                10,
                carrier(100..if record.is_some() { 130 } else { 110 }, record, 7),
            );
            trail.push(
                5,
                carrier(110..if record.is_some() { 140 } else { 115 }, record, 9),
            );
            let mut passage = Passage::default();
            passage.begin(2, &trail);
            assert_eq!(passage.extent(), None);
            passage.end(12, None, &trail);
            let extent = passage.extent().unwrap();
            assert_eq!((extent.start, extent.end), (2, 12));
            assert_eq!(extent.wire_start, Some(wire.start));
            let end = if record.is_some() { 140 } else { wire.end };
            assert_eq!((extent.wire_end, extent.record_last), (Some(end), record));
            assert_eq!(passage.first, Some(Time::from_nanos(7)));
            assert_eq!(passage.last, Some(Time::from_nanos(10)));
        }
    }

    #[test]
    fn trail_forgets_pieces_that_the_parser_is_done_with() {
        let mut trail = Trail::default();
        for at in 0..100 {
            trail.push(1, carrier(at..at + 1, None, at));
            trail.forget_before(at.saturating_sub(8));
        }
        assert!(trail.pieces.len() <= 10);
        assert_eq!(trail.find(95).unwrap().wire_start(95), 95);
    }
}
