//! Out-of-order bytes of a stream.
//!
//! The caller counts offsets and enforces the limit in bytes. If bytes arrive twice, the first copy counts.
//! `reassembly` uses this for TCP, `quic::streams` for QUIC.

use std::collections::BTreeMap;

use squall_base::Time;

/// Limit for waiting pieces, so that many small ones take no more memory than a few large ones.
const MAX_PIECES: usize = 1 << 16;

/// Out-of-order bytes of one direction of a stream.
#[derive(Debug, Default)]
pub(crate) struct OutOfOrderQueue {
    /// By offset, without overlaps, each with its arrival time.
    pieces: BTreeMap<u64, (Time, Vec<u8>)>,
    /// How many pieces arrived at each time.
    times: BTreeMap<Time, usize>,
    bytes: u64,
}

impl OutOfOrderQueue {
    /// Whether no further piece is accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.pieces.len() >= MAX_PIECES
    }

    /// The number of waiting bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offset of the first waiting byte.
    pub(crate) fn first(&self) -> Option<u64> {
        self.pieces.keys().next().copied()
    }

    /// When the earliest of the waiting bytes arrived. A sender transmits every byte for the first time before the
    /// bytes after it (for TCP, RFC 9293, section 3.8), so by then it had sent everything before them as well, even if
    /// that was lost on the way.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.times.keys().next().copied()
    }

    /// Inserts the bytes of `payload` that are not here yet, and returns how many those are.
    pub(crate) fn insert(&mut self, time: Time, start: u64, payload: &[u8]) -> u64 {
        let end = start + payload.len() as u64;
        let (mut at, mut inserted) = (start, 0);
        while at < end {
            let before = self.pieces.range(..=at).next_back();
            if let Some((from, (_, bytes))) = before
                && from + bytes.len() as u64 > at
            {
                at = from + bytes.len() as u64;
                continue;
            }
            let next = self.pieces.range(at..).next();
            let stop = next.map_or(end, |(from, _)| (*from).min(end));
            let piece = &payload[(at - start) as usize..(stop - start) as usize];
            self.pieces.insert(at, (time, piece.to_vec()));
            *self.times.entry(time).or_default() += 1;
            inserted += stop - at;
            at = stop;
        }
        self.bytes += inserted;
        inserted
    }

    /// Removes the bytes at `offset`, if they are here, and returns them with the time at which they or any later bytes
    /// first arrived. Bytes before `offset` are dropped.
    pub(crate) fn pop(&mut self, offset: u64) -> Option<(Time, Vec<u8>)> {
        loop {
            let earliest = self.earliest();
            let first = self.pieces.first_entry()?;
            let start = *first.key();
            if start > offset {
                return None;
            }
            let (time, mut bytes) = first.remove();
            self.bytes -= bytes.len() as u64;
            if let Some(count) = self.times.get_mut(&time) {
                *count -= 1;
                if *count == 0 {
                    self.times.remove(&time);
                }
            }
            let old = (offset - start) as usize;
            if old < bytes.len() {
                bytes.drain(..old);
                return Some((earliest.unwrap_or(time), bytes));
            }
        }
    }
}
