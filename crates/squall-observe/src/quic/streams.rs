//! The streams of a connection (RFC 9000, section 2): takes STREAM frames in any order and repeated, and passes on
//! bytes in order.
//!
//! `http3` interprets the streams. Bytes that wait for missing ones are bounded; for a stream that has ended, only that
//! fact is kept.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::Time;
use squall_base::record::{PerWay, Way};

use crate::connection_record::OpaqueReason;
use crate::waiting::OutOfOrderQueue;

/// Limit for bytes waiting beyond gaps in all streams of a connection, whatever limits the endpoints announced.
const MAX_WAITING_BYTES: u64 = 16 << 20;

/// More streams than any endpoint allows open concurrently.
const MAX_STREAMS: usize = 1 << 17;

/// How many ended streams are remembered individually, beyond the oldest one that has not ended.
const MAX_ENDED: usize = 1 << 16;

/// The distance between consecutive stream IDs of one type (RFC 9000, section 2.1).
const TYPES: u64 = 4;

/// The stream bytes of a STREAM frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) way: Way,
    pub(crate) stream: u64,
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    pub(crate) fin: bool,
}

/// Stream bytes that are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderedBytes<'a> {
    pub(crate) way: Way,
    pub(crate) stream: u64,
    pub(crate) bytes: &'a [u8],
    /// When they were sent, or could first be read.
    pub(crate) at: Time,
    /// The stream's length, if it ends with them.
    pub(crate) end: Option<u64>,
}

/// What became of a frame's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkOutcome {
    pub(crate) repeated_bytes: u64,
    pub(crate) refused_bytes: u64,
    pub(crate) is_early: bool,
}

/// All streams, in both directions.
#[derive(Default)]
pub(crate) struct Streams {
    open: PerWay<BTreeMap<u64, StreamHalf>>,
    ended: PerWay<[EndedStreams; TYPES as usize]>,
    waiting_bytes: u64,
}

/// One direction of a stream.
#[derive(Default)]
struct StreamHalf {
    next: u64,
    waiting: OutOfOrderQueue,
    /// The stream's length, once FIN was seen.
    end: Option<u64>,
}

/// The streams of one type that have ended, by their index within the type.
#[derive(Debug, Default)]
struct EndedStreams {
    /// Every stream with a lower index has ended.
    below: u64,
    beyond: BTreeSet<u64>,
}

impl EndedStreams {
    fn has(&self, index: u64) -> bool {
        index < self.below || self.beyond.contains(&index)
    }

    fn add(&mut self, index: u64) {
        self.beyond.insert(index);
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
    /// Takes the bytes of a frame, and passes on everything that is now in order.
    ///
    /// # Errors
    /// Those of `on_bytes`, or there are too many streams.
    pub(crate) fn receive(
        &mut self,
        chunk: &Chunk<'_>,
        now: Time,
        mut on_bytes: impl FnMut(&OrderedBytes<'_>) -> Result<(), OpaqueReason>,
    ) -> Result<ChunkOutcome, OpaqueReason> {
        let &Chunk { way, stream, .. } = chunk;
        let length = chunk.data.len() as u64;
        if self.has_ended(way, stream) {
            return Ok(ChunkOutcome {
                repeated_bytes: length,
                ..ChunkOutcome::default()
            });
        }
        let open = self.open.of_mut(way);
        if open.len() >= MAX_STREAMS && !open.contains_key(&stream) {
            return Err(OpaqueReason::unclear(
                "more streams are open than any real endpoint allows",
            ));
        }
        let half = open.entry(stream).or_default();
        let waited = half.waiting.bytes();
        let room = MAX_WAITING_BYTES - (self.waiting_bytes - waited);
        let (outcome, is_in_order) = half.receive(chunk, now, room);
        let result = if is_in_order {
            half.deliver(chunk, now, &mut on_bytes)
        } else {
            Ok(())
        };
        self.waiting_bytes = self.waiting_bytes - waited + half.waiting.bytes();
        if half.end.is_some_and(|end| half.next >= end) {
            self.end(way, stream);
        }
        result.map(|()| outcome)
    }

    fn has_ended(&self, way: Way, stream: u64) -> bool {
        self.ended.of(way)[(stream % TYPES) as usize].has(stream / TYPES)
    }

    /// Closes one direction of a stream: it has ended or was reset.
    pub(crate) fn end(&mut self, way: Way, stream: u64) {
        if let Some(half) = self.open.of_mut(way).remove(&stream) {
            self.waiting_bytes -= half.waiting.bytes();
        }
        self.ended.of_mut(way)[(stream % TYPES) as usize].add(stream / TYPES);
    }

    /// The number of bytes waiting for missing ones.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

impl StreamHalf {
    /// Takes the bytes of a frame. Also returns whether anything is in order now.
    fn receive(&mut self, chunk: &Chunk<'_>, now: Time, room: u64) -> (ChunkOutcome, bool) {
        let mut outcome = ChunkOutcome::default();
        let length = chunk.data.len() as u64;
        let end = chunk.offset.saturating_add(length);
        if chunk.fin {
            self.end.get_or_insert(end);
        }
        if chunk.offset <= self.next {
            outcome.repeated_bytes = length.min(self.next - chunk.offset);
            return (outcome, end > self.next || chunk.fin);
        }
        if self.waiting.bytes().saturating_add(length) > room || self.waiting.is_full() {
            outcome.refused_bytes = length;
        } else if length > 0 {
            let inserted = self.waiting.insert(now, chunk.offset, chunk.data);
            outcome.repeated_bytes = length - inserted;
            outcome.is_early = inserted > 0;
        }
        (outcome, false)
    }

    fn deliver(
        &mut self,
        chunk: &Chunk<'_>,
        now: Time,
        on_bytes: &mut impl FnMut(&OrderedBytes<'_>) -> Result<(), OpaqueReason>,
    ) -> Result<(), OpaqueReason> {
        let &Chunk { way, stream, .. } = chunk;
        // A sender of later bytes had sent these as well; a receiver has them in order only now.
        let at = |earliest: Option<Time>| match earliest {
            Some(earliest) if way == Way::Sent => earliest.min(now),
            _ => now,
        };
        let old = (self.next - chunk.offset).min(chunk.data.len() as u64);
        let fresh = &chunk.data[old as usize..];
        self.next += fresh.len() as u64;
        let first = at(self.waiting.earliest());
        let mut ordered = |half: &StreamHalf, bytes: &[u8], at: Time| {
            on_bytes(&OrderedBytes {
                way,
                stream,
                bytes,
                at,
                end: half.end.filter(|end| *end <= half.next),
            })
        };
        if !fresh.is_empty() || self.end.is_some_and(|end| end <= self.next) {
            ordered(self, fresh, first)?;
        }
        while let Some((arrived, bytes)) = self.waiting.pop(self.next) {
            self.next += bytes.len() as u64;
            ordered(self, &bytes, at(Some(arrived)))?;
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

    /// Takes frames at times 0, 1, and so on. Returns the output as text with times, and where it ended.
    fn read(chunks: &[Chunk<'_>]) -> (Vec<(String, u64)>, Option<u64>, Streams) {
        let (mut streams, mut out, mut end) = (Streams::default(), Vec::new(), None);
        for (now, chunk) in (0..).zip(chunks) {
            streams
                .receive(chunk, Time::from_nanos(now), |ordered| {
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
    fn fin_may_arrive_without_data() {
        let (out, end, _) = read(&[chunk(0, b"ab", false), chunk(2, b"", true)]);
        assert_eq!(out, [("ab".to_owned(), 0), (String::new(), 1)]);
        assert_eq!(end, Some(2));
    }

    #[test]
    fn sent_bytes_carry_the_time_of_later_bytes_seen_first() {
        let mut early = chunk(2, b"c", false);
        let mut late = chunk(0, b"ab", false);
        (early.way, late.way) = (Way::Sent, Way::Sent);
        let (out, _, _) = read(&[early, late]);
        assert_eq!(out, [("ab".to_owned(), 0), ("c".to_owned(), 0)]);
    }

    #[test]
    fn waiting_bytes_are_bounded() {
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
    fn ended_streams_need_bounded_memory() {
        let mut ended = EndedStreams::default();
        for index in 0..100_000 {
            ended.add(index);
        }
        assert_eq!((ended.below, ended.beyond.len()), (100_000, 0));
        for index in 200_000..300_000 {
            ended.add(index);
        }
        assert!(ended.beyond.len() <= MAX_ENDED && ended.has(299_999));
    }
}
