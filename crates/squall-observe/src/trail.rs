//! Which packets carried the bytes that a parser is looking at, and when.
//!
//! A parser knows offsets; the trail knows, for the pieces that it was given lately, where on the wire they were and when
//! they were there. It forgets what the parser is past.

use std::collections::VecDeque;
use std::ops::Range;

use squall_base::Time;
use squall_base::record::{Extent, Way};

/// What carried a piece of HTTP's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carrier {
    /// Where it lies in TCP's payload; of a TLS record, all of it.
    pub(crate) wire: Range<u64>,
    /// The TLS record, by number among those with application data; `None` in the clear.
    pub(crate) record: Option<u64>,
    /// When its first byte was there.
    pub(crate) first: Time,
    /// When its last byte was.
    pub(crate) last: Time,
}

/// The next bytes that went one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) way: Way,
    pub(crate) bytes: &'a [u8],
    pub(crate) carrier: Carrier,
}

/// The pieces of one direction that a parser may still ask for.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// With the offsets of HTTP's bytes.
    pieces: VecDeque<(Range<u64>, Carrier)>,
    end: u64,
}

/// A byte of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried<'a> {
    plain_start: u64,
    carrier: &'a Carrier,
}

impl Carried<'_> {
    /// The first byte of the wire that carries the byte at `offset`.
    fn wire_start(&self, offset: u64) -> u64 {
        match self.carrier.record {
            Some(_) => self.carrier.wire.start,
            None => self.carrier.wire.start + (offset - self.plain_start),
        }
    }

    /// After the last byte of the wire that carries it.
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

    /// Adds the next piece; returns its offset.
    pub(crate) fn push(&mut self, len: usize, carrier: Carrier) -> u64 {
        let start = self.end;
        self.end += len as u64;
        self.pieces.push_back((start..self.end, carrier));
        start
    }

    /// Forgets the pieces that end at or before `offset`, but the newest.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        while self.pieces.len() > 1
            && let Some((plain, _)) = self.pieces.front()
            && plain.end <= offset
        {
            self.pieces.pop_front();
        }
    }

    /// What carried the byte at `offset`; for one that is forgotten, the oldest that is known.
    pub(crate) fn find(&self, offset: u64) -> Option<Carried<'_>> {
        let at = self
            .pieces
            .partition_point(|(plain, _)| plain.end <= offset);
        let (plain, carrier) = self.pieces.get(at)?;
        Some(Carried {
            plain_start: plain.start.min(offset),
            carrier,
        })
    }
}

/// A message of an exchange on its way over the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    extent: Option<Extent>,
}

impl Passage {
    /// Its first byte is at `offset`.
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

    /// Its last byte is before `end`; `at` is when that was known, if that was later.
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

    /// Its first byte is at `offset` of a stream of QUIC, where packets say nothing of offsets on the wire.
    pub(crate) fn begin_in_stream(&mut self, offset: u64, at: Time) {
        self.first = Some(at);
        self.extent = Some(Extent {
            start: offset,
            end: offset,
            wire_start: None,
            wire_end: None,
            record_first: None,
            record_last: None,
        });
    }

    /// Its stream ends with it, at `end`.
    pub(crate) fn end_in_stream(&mut self, end: u64, at: Time) {
        self.last = Some(at);
        if let Some(extent) = &mut self.extent {
            extent.end = end;
        }
    }

    /// Where it lies, once all of it has passed.
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
    fn a_passage_in_the_clear_and_in_records() {
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
    fn what_is_past_is_forgotten() {
        let mut trail = Trail::default();
        for at in 0..100 {
            trail.push(1, carrier(at..at + 1, None, at));
            trail.forget_before(at.saturating_sub(8));
        }
        assert!(trail.pieces.len() <= 10);
        assert_eq!(trail.find(95).unwrap().wire_start(95), 95);
    }
}
