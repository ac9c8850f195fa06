//! TLS records: their headers, and the map between plaintext offsets and wire offsets.
//!
//! Nothing is decrypted here. A record's header is not encrypted, so its length is known in advance; how much plaintext
//! it held is known only after decryption.

use std::collections::VecDeque;
use std::ops::Range;

/// A record's header: type, version, length (RFC 8446, section 5.1).
pub(super) const HEADER_BYTES: usize = 5;

/// The longest payload of any version: 2^14 + 2048 in TLS 1.2 (RFC 5246, section 6.2.3), less in TLS 1.3.
pub(super) const MAX_PAYLOAD_BYTES: usize = 16_384 + 2_048;

/// How many records a direction remembers if the owner forgets none: 256 MiB of the largest ones, in 400 KB of memory.
const REMEMBERED_RECORDS: usize = 16_384;

/// A received TLS record with application data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record's number among those with application data in its direction, from 0.
    pub number: u64,
    /// The record's position, header included, in the TCP byte stream of its direction.
    pub wire: Range<u64>,
    /// The position of its plaintext in the plaintext's byte stream.
    pub plain: Range<u64>,
    /// The plaintext.
    pub bytes: &'a [u8],
}

/// The record that carries a byte of plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLocation {
    /// The record, numbered among those with application data, from 0.
    pub record: u64,
    /// The position of that record, header included, in the TCP byte stream.
    pub wire: Range<u64>,
}

/// The total length of the record with this header. `None` if this is not a TLS header or the length exceeds what TLS
/// allows. Unknown record types are left for BoringSSL to refuse.
pub(super) fn record_len(header: [u8; HEADER_BYTES]) -> Option<usize> {
    let [_kind, major, _minor, high, low] = header;
    let payload = usize::from(u16::from_be_bytes([high, low]));
    (major == 3 && payload <= MAX_PAYLOAD_BYTES).then_some(HEADER_BYTES + payload)
}

/// The offset of the last record in `wire`; 0 if it is the only one.
pub(super) fn last_record(wire: &[u8]) -> usize {
    let mut at = 0;
    while let Some(len) = wire[at..]
        .first_chunk()
        .and_then(|header| record_len(*header))
    {
        if at + len >= wire.len() {
            return at;
        }
        at += len;
    }
    0
}

/// The records with application data in one direction, oldest first; their plaintext is contiguous.
#[derive(Debug, Default)]
pub(super) struct RecordMap {
    entries: VecDeque<Entry>,
    /// How many records were forgotten, which is the number of the first entry.
    forgotten: u64,
    /// Offset at which the plaintext of the first entry begins.
    plain_start: u64,
    /// Offset at which the plaintext of the next record will begin.
    plain_end: u64,
}

/// A record in the map. Its plaintext begins where that of the previous one ends.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) plain_end: u64,
    pub(super) wire: Range<u64>,
}

impl RecordMap {
    /// Adds a record; returns its number and the position of its plaintext.
    pub(super) fn push(&mut self, plain_len: usize, wire: Range<u64>) -> (u64, Range<u64>) {
        if self.entries.len() == REMEMBERED_RECORDS {
            self.forget_first();
        }
        let start = self.plain_end;
        self.plain_end += plain_len as u64;
        self.entries.push_back(Entry {
            plain_end: self.plain_end,
            wire,
        });
        let number = self.forgotten + self.entries.len() as u64 - 1;
        (number, start..self.plain_end)
    }

    /// The total plaintext of all records so far.
    pub(super) fn plain_end(&self) -> u64 {
        self.plain_end
    }

    /// A record by number.
    pub(super) fn entry(&self, number: u64) -> Option<&Entry> {
        let index = number.checked_sub(self.forgotten)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// The record that carries the plaintext byte at `offset`; `None` if it is forgotten or still to come.
    pub(super) fn locate(&self, offset: u64) -> Option<RecordLocation> {
        if offset < self.plain_start {
            return None;
        }
        let index = self
            .entries
            .partition_point(|entry| entry.plain_end <= offset);
        self.entries.get(index).map(|entry| RecordLocation {
            record: self.forgotten + index as u64,
            wire: entry.wire.clone(),
        })
    }

    /// The records that are not forgotten, oldest first: the number of each, and the length of its plaintext in bytes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.entries.iter().map(|entry| entry.plain_end);
        let starts = std::iter::once(self.plain_start).chain(ends.clone());
        let sizes = ends.zip(starts).map(|(end, start)| end - start);
        (self.forgotten..).zip(sizes)
    }

    /// Forgets the records whose plaintext ends at or before `offset`.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while self
            .entries
            .front()
            .is_some_and(|first| first.plain_end <= offset)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.plain_start = first.plain_end;
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_states_the_length_of_its_record() {
        assert_eq!(record_len([23, 3, 3, 1, 2]), Some(5 + 258));
        assert_eq!(record_len([23, 3, 3, 0x48, 0]), Some(5 + 18_432));
        assert_eq!(record_len([23, 3, 3, 0x48, 1]), None);
        assert_eq!(record_len(*b"GET /"), None);
        assert_eq!(record_len(*b"HTTP/"), None);
    }

    #[test]
    fn the_last_of_several_records_is_found() {
        let wire = [22, 3, 3, 0, 1, 9, 23, 3, 3, 0, 2, 8, 8];
        assert_eq!(last_record(&wire), 6);
        assert_eq!(last_record(&wire[6..]), 0);
        assert_eq!(last_record(&[]), 0);
    }

    #[test]
    fn a_map_locates_bytes_until_they_are_forgotten() {
        let mut map = RecordMap::default();
        assert_eq!(map.push(10, 100..130), (0, 0..10));
        assert_eq!(map.push(1, 150..170), (1, 10..11));
        let place = |record, wire| Some(RecordLocation { record, wire });
        assert_eq!(map.locate(0), place(0, 100..130));
        assert_eq!(map.locate(9), place(0, 100..130));
        assert_eq!(map.locate(10), place(1, 150..170));
        assert_eq!(map.locate(11), None);
        map.forget_before(9);
        assert_eq!(map.locate(9), place(0, 100..130));
        assert!(map.sizes().eq([(0, 10), (1, 1)]));
        map.forget_before(10);
        assert!(map.sizes().eq([(1, 1)]));
        assert_eq!(map.locate(9), None);
        assert_eq!(map.locate(10), place(1, 150..170));
        assert!(map.entry(0).is_none() && map.entry(1).is_some());
    }

    #[test]
    fn a_map_that_is_never_emptied_is_limited() {
        let mut map = RecordMap::default();
        for at in 0..2 * REMEMBERED_RECORDS as u64 {
            map.push(1, at..at + 1);
        }
        assert_eq!(map.entries.len(), REMEMBERED_RECORDS);
        let number = REMEMBERED_RECORDS as u64;
        assert_eq!(map.locate(number - 1), None);
        assert_eq!(map.locate(number).map(|place| place.record), Some(number));
    }
}
