//! Dictionary indices in Parquet's hybrid of runs and packed bits, and the dictionaries that assign them.
//!
//! Words have small numbers and need no hash (`WordDictionary`); numbers are looked up in a small hash table of our own
//! (`NumberDictionary`). `column` writes the dictionary pages.

use super::bits::{MINIBLOCK, SPILL, pack, pack_eight, put_varint, width_of};

/// The shortest run of equal indices worth encoding as a run. A shorter one costs more bytes than it saves, because the
/// packed bits before and after it then need a header each.
const MIN_RUN: usize = 64;
/// The most values in a dictionary of numbers: wider indices save little compared with differences.
const MAX_NUMBERS: usize = 4096;
/// Four slots per value, to keep collisions rare.
const SLOTS: usize = 4 * MAX_NUMBERS;
/// A word that has not occurred in this row group yet.
const UNASSIGNED: u16 = u16::MAX;

/// Appends `indices`, all below `values`, in the format of a dictionary-encoded data page: their width, then the runs.
pub(super) fn put_indices(indices: &[u16], values: usize, out: &mut Vec<u8>) {
    let width = width_of(values.saturating_sub(1) as u64).max(1);
    out.push(width as u8);
    let (mut literals_from, mut at) = (0, 0);
    while at + 8 <= indices.len() {
        let value = indices[at];
        let (eights, _) = indices[at..].as_chunks::<8>();
        let run = 8 * eights
            .iter()
            .take_while(|eight| **eight == [value; 8])
            .count();
        if run >= MIN_RUN {
            put_literals(&indices[literals_from..at], width, out);
            put_varint((run as u64) << 1, out);
            out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            literals_from = at + run;
        }
        at += run.max(8);
    }
    put_literals(&indices[literals_from..], width, out);
}

/// Appends indices as packed bits, in groups of eight; only the last group may be padded.
fn put_literals(indices: &[u16], width: u32, out: &mut Vec<u8>) {
    if indices.is_empty() {
        return;
    }
    put_varint((indices.len().div_ceil(8) as u64) << 1 | 1, out);
    let mut at = out.len();
    let end = at + indices.len().div_ceil(8) * width as usize;
    out.resize(end + SPILL, 0);
    let (miniblocks, rest) = indices.as_chunks();
    for miniblock in miniblocks {
        pack(miniblock, width, &mut out[at..]);
        at += MINIBLOCK / 8 * width as usize;
    }
    let (eights, rest) = rest.as_chunks::<8>();
    let last = std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0));
    for eight in eights.iter().chain((!rest.is_empty()).then_some(&last)) {
        out[at..at + 16].copy_from_slice(&pack_eight(eight, width));
        at += width as usize;
    }
    out.truncate(end);
}

/// The words of a row group, in order of first occurrence.
#[derive(Clone, Debug)]
pub(super) struct WordDictionary {
    indices: Box<[u16; 256]>,
    words: Vec<&'static str>,
}

impl WordDictionary {
    pub(super) fn new() -> WordDictionary {
        WordDictionary {
            indices: Box::new([UNASSIGNED; 256]),
            words: Vec::new(),
        }
    }

    /// The index of the word with this number in its table.
    pub(super) fn of(&mut self, number: u8, word: impl FnOnce() -> &'static str) -> u16 {
        match self.indices[usize::from(number)] {
            UNASSIGNED => self.insert(number, word()),
            index => index,
        }
    }

    /// Adds a word. Different numbers may have the same word, which a dictionary should contain only once.
    #[cold]
    fn insert(&mut self, number: u8, word: &'static str) -> u16 {
        let known = self.words.iter().position(|known| *known == word);
        let index = known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        }) as u16;
        self.indices[usize::from(number)] = index;
        index
    }

    pub(super) fn words(&self) -> &[&'static str] {
        &self.words
    }

    pub(super) fn clear(&mut self) {
        self.indices.fill(UNASSIGNED);
        self.words.clear();
    }
}

/// The distinct numbers of a row group, in order of first occurrence, up to [`MAX_NUMBERS`].
#[derive(Clone, Debug)]
pub(super) struct NumberDictionary {
    /// The index of the slot's number plus one; 0 for a free slot.
    slots: Vec<u16>,
    numbers: Vec<u32>,
}

impl NumberDictionary {
    pub(super) fn new() -> NumberDictionary {
        NumberDictionary {
            slots: vec![0; SLOTS],
            numbers: Vec::new(),
        }
    }

    /// The index of `number`; `None` if the dictionary is full.
    pub(super) fn of(&mut self, number: u32) -> Option<u16> {
        // Knuth's multiplicative hash (The Art of Computer Programming 3, section 6.4), with linear probing.
        let hash = number.wrapping_mul(0x9e37_79b1) >> (32 - SLOTS.trailing_zeros());
        let mut slot = hash as usize;
        loop {
            let entry = usize::from(self.slots[slot % SLOTS]);
            if entry == 0 {
                return self.insert(number, slot % SLOTS);
            }
            if self.numbers[entry - 1] == number {
                return Some(entry as u16 - 1);
            }
            slot += 1;
        }
    }

    #[cold]
    fn insert(&mut self, number: u32, slot: usize) -> Option<u16> {
        let index = self.numbers.len();
        if index == MAX_NUMBERS {
            return None;
        }
        self.numbers.push(number);
        self.slots[slot] = index as u16 + 1;
        Some(index as u16)
    }

    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
        self.numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_indices_become_one_run() {
        let mut out = Vec::new();
        put_indices(&[0; 800], 1, &mut out);
        assert_eq!(out, [1, 0xC0, 0x0C, 0]);
    }

    /// The packed bits example of Encodings.md, followed by a run and a remainder.
    #[test]
    fn runs_are_encoded_between_packed_bits() {
        let mut indices: Vec<u16> = (0..8).collect();
        indices.extend([5; 64]);
        indices.extend([1, 2]);
        let mut out = Vec::new();
        put_indices(&indices, 8, &mut out);
        assert_eq!(
            out,
            [
                3,
                3,
                0b1000_1000,
                0b1100_0110,
                0b1111_1010,
                0x80,
                1,
                5,
                3,
                0b1_0001,
                0,
                0
            ]
        );
    }

    #[test]
    fn numbers_keep_their_index_until_the_dictionary_is_full() {
        let mut dictionary = NumberDictionary::new();
        for _ in 0..2 {
            for number in 0..MAX_NUMBERS as u32 {
                assert_eq!(dictionary.of(number << 20 | number), Some(number as u16));
            }
        }
        assert_eq!(dictionary.of(u32::MAX), None);
        assert_eq!(dictionary.of(0), Some(0));
        dictionary.clear();
        assert_eq!(dictionary.of(u32::MAX), Some(0));
    }

    #[test]
    fn numbers_with_the_same_word_share_its_index() {
        let mut words = WordDictionary::new();
        assert_eq!(words.of(9, || "STREAM"), 0);
        assert_eq!(words.of(3, || "ACK"), 1);
        assert_eq!(words.of(10, || "STREAM"), 0);
        assert_eq!(words.words(), ["STREAM", "ACK"]);
    }
}
