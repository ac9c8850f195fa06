//! The streams of a connection (RFC 9000, section 2): STREAM frames in whatever order and however often, bytes in order
//! out.
//!
//! Which stream carries what is `http3`'s. What waits for missing bytes is bounded, and a stream that has ended is
//! forgotten but for the fact.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::Time;
use squall_base::record::Way;

use crate::connection_record::Opaque;
use crate::exchange::Ways;
use crate::waiting::Waiting;

/// What waits beyond gaps in all streams of a connection is never more than this, whatever limits were announced.
const MAX_WAITING_BYTES: u64 = 16 << 20;

/// More streams than any endpoint allows at once.
const MAX_STREAMS: usize = 1 << 17;

/// How many ended streams are remembered beyond the oldest that has not ended.
const MAX_ENDED: usize = 1 << 16;

/// Stream IDs of a type are so far apart (RFC 9000, section 2.1).
const TYPES: u64 = 4;

/// Bytes of a stream in a STREAM frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) way: Way,
    pub(crate) stream: u64,
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    pub(crate) fin: bool,
}

/// Bytes that are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered<'a> {
    pub(crate) way: Way,
    pub(crate) stream: u64,
    pub(crate) bytes: &'a [u8],
    /// When they were sent, or could be read.
    pub(crate) at: Time,
    /// The stream's length, if it ends with them.
    pub(crate) end: Option<u64>,
}

/// What became of a frame's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) repeated_bytes: u64,
    pub(crate) refused_bytes: u64,
    pub(crate) is_early: bool,
}

/// Both directions of all streams.
#[derive(Default)]
pub(crate) struct Streams {
    open: Ways<BTreeMap<u64, Lane>>,
    ended: Ways<[Ended; TYPES as usize]>,
    waiting_bytes: u64,
}

/// One direction of a stream.
#[derive(Default)]
struct Lane {
    next: u64,
    waiting: Waiting,
    /// Its length, once FIN came.
    end: Option<u64>,
}

/// Which streams of a type have ended, by their place among those.
#[derive(Debug, Default)]
struct Ended {
    /// All before it have.
    below: u64,
    beyond: BTreeSet<u64>,
}

impl Ended {
    fn has(&self, place: u64) -> bool {
        place < self.below || self.beyond.contains(&place)
    }

    fn add(&mut self, place: u64) {
        self.beyond.insert(place);
        while self.beyond.remove(&self.below) {
            self.below += 1;
        }
        if self.beyond.len() > MAX_ENDED
            && let Some(last) = self.beyond.last()
        {
            self.below = last + 1;
            self.beyond.clear();
        }
    }
}

impl Streams {
    /// Takes the bytes of a frame and hands on what is in order with them.
    ///
    /// # Errors
    /// Those of `on_bytes`, or there are too many streams.
    pub(crate) fn take(
        &mut self,
        chunk: &Chunk<'_>,
        now: Time,
        mut on_bytes: impl FnMut(&Ordered<'_>) -> Result<(), Opaque>,
    ) -> Result<Taken, Opaque> {
        let &Chunk { way, stream, .. } = chunk;
        let length = chunk.data.len() as u64;
        if self.has_ended(way, stream) {
            return Ok(Taken {
                repeated_bytes: length,
                ..Taken::default()
            });
        }
        let open = self.open.of_mut(way);
        if open.len() >= MAX_STREAMS && !open.contains_key(&stream) {
            return Err(Opaque::Unclear(
                "more streams are open than anybody allows".to_owned(),
            ));
        }
        let lane = open.entry(stream).or_default();
        let waited = lane.waiting.bytes();
        let room = MAX_WAITING_BYTES - (self.waiting_bytes - waited);
        let (taken, is_in_order) = lane.take(chunk, now, room);
        let result = if is_in_order {
            lane.hand_on(chunk, now, &mut on_bytes)
        } else {
            Ok(())
        };
        self.waiting_bytes = self.waiting_bytes - waited + lane.waiting.bytes();
        if lane.end.is_some_and(|end| lane.next >= end) {
            self.end(way, stream);
        }
        result.map(|()| taken)
    }

    fn has_ended(&self, way: Way, stream: u64) -> bool {
        self.ended.of(way)[(stream % TYPES) as usize].has(stream / TYPES)
    }

    /// One direction of a stream is over: it has ended, or was reset.
    pub(crate) fn end(&mut self, way: Way, stream: u64) {
        if let Some(lane) = self.open.of_mut(way).remove(&stream) {
            self.waiting_bytes -= lane.waiting.bytes();
        }
        self.ended.of_mut(way)[(stream % TYPES) as usize].add(stream / TYPES);
    }

    /// Bytes that wait for others.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

impl Lane {
    /// Takes the bytes of a frame, and says whether something is in order with them.
    fn take(&mut self, chunk: &Chunk<'_>, now: Time, room: u64) -> (Taken, bool) {
        let mut taken = Taken::default();
        let length = chunk.data.len() as u64;
        let end = chunk.offset.saturating_add(length);
        if chunk.fin {
            self.end.get_or_insert(end);
        }
        if chunk.offset <= self.next {
            taken.repeated_bytes = length.min(self.next - chunk.offset);
            return (taken, end > self.next || chunk.fin);
        }
        if self.waiting.bytes().saturating_add(length) > room || self.waiting.is_full() {
            taken.refused_bytes = length;
        } else if length > 0 {
            let kept = self.waiting.keep(now, chunk.offset, chunk.data);
            taken.repeated_bytes = length - kept;
            taken.is_early = kept > 0;
        }
        (taken, false)
    }

    fn hand_on(
        &mut self,
        chunk: &Chunk<'_>,
        now: Time,
        on_bytes: &mut impl FnMut(&Ordered<'_>) -> Result<(), Opaque>,
    ) -> Result<(), Opaque> {
        let &Chunk { way, stream, .. } = chunk;
        // Who sent bytes behind these had sent these as well; who receives has them in order only now.
        let at = |earliest: Option<Time>| match earliest {
            Some(earliest) if way == Way::Sent => earliest.min(now),
            _ => now,
        };
        let old = (self.next - chunk.offset).min(chunk.data.len() as u64);
        let fresh = &chunk.data[old as usize..];
        self.next += fresh.len() as u64;
        let first = at(self.waiting.earliest());
        let mut ordered = |lane: &Lane, bytes: &[u8], at: Time| {
            on_bytes(&Ordered {
                way,
                stream,
                bytes,
                at,
                end: lane.end.filter(|end| *end <= lane.next),
            })
        };
        if !fresh.is_empty() || self.end.is_some_and(|end| end <= self.next) {
            ordered(self, fresh, first)?;
        }
        while let Some((came, bytes)) = self.waiting.pop(self.next) {
            self.next += bytes.len() as u64;
            ordered(self, &bytes, at(Some(came)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, data: &[u8], fin: bool) -> Chunk<'_> {
        Chunk {
            way: Way::Received,
            stream: 4,
            offset,
            data,
            fin,
        }
    }

    /// Takes frames at times 0, 1, ...; what came out as text, with times, and where it ended.
    fn read(chunks: &[Chunk<'_>]) -> (Vec<(String, u64)>, Option<u64>, Streams) {
        let (mut streams, mut out, mut end) = (Streams::default(), Vec::new(), None);
        for (now, chunk) in (0..).zip(chunks) {
            streams
                .take(chunk, Time::from_nanos(now), |ordered| {
                    let text = String::from_utf8_lossy(ordered.bytes).into_owned();
                    out.push((text, ordered.at.as_nanos()));
                    end = ordered.end;
                    Ok(())
                })
                .unwrap();
        }
        (out, end, streams)
    }

    #[test]
    fn bytes_come_out_in_order_and_once() {
        let (out, end, streams) = read(&[
            chunk(4, b"ef", true),
            chunk(2, b"cd", false),
            chunk(0, b"abcd", false),
            chunk(0, b"ab", false),
        ]);
        let text: String = out.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(text, "abcdef");
        assert!(out.iter().all(|(_, at)| *at == 2));
        assert_eq!((end, streams.waiting_bytes()), (Some(6), 0));
        assert!(streams.has_ended(Way::Received, 4));
    }

    #[test]
    fn an_end_may_come_alone() {
        let (out, end, _) = read(&[chunk(0, b"ab", false), chunk(2, b"", true)]);
        assert_eq!(out, [("ab".to_owned(), 0), (String::new(), 1)]);
        assert_eq!(end, Some(2));
    }

    #[test]
    fn a_sender_had_sent_what_is_before_a_later_byte() {
        let mut early = chunk(2, b"c", false);
        let mut late = chunk(0, b"ab", false);
        (early.way, late.way) = (Way::Sent, Way::Sent);
        let (out, _, _) = read(&[early, late]);
        assert_eq!(out, [("ab".to_owned(), 0), ("c".to_owned(), 0)]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let data = vec![0; 1 << 20];
        let chunks: Vec<Chunk<'_>> = (0..64)
            .map(|n| Chunk {
                stream: 4 * n,
                ..chunk(1 + (n << 21), &data, false)
            })
            .collect();
        let (_, _, streams) = read(&chunks);
        assert!(streams.waiting_bytes() <= MAX_WAITING_BYTES);
    }

    #[test]
    fn ended_streams_take_no_memory() {
        let mut ended = Ended::default();
        for place in 0..100_000 {
            ended.add(place);
        }
        assert_eq!((ended.below, ended.beyond.len()), (100_000, 0));
        for place in 200_000..300_000 {
            ended.add(place);
        }
        assert!(ended.beyond.len() <= MAX_ENDED && ended.has(299_999));
    }
}
