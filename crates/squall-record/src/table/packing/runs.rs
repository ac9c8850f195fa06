//! Places in a dictionary: Parquet's hybrid of runs and packed bits, and where the places come from.
//!
//! Words have a small number each (`WordPlaces`) and need no hash; numbers are looked up in a small table of our own
//! (`NumberPlaces`). What a dictionary's page looks like is `column`'s business.

use super::bits::{MINIBLOCK, SPILL, pack, pack_eight, put_varint, width_of};

/// Places of one value that are worth a run. A shorter one costs more bytes than its bits, since the packed bits around
/// it then need a header each.
const LEAST_RUN: usize = 64;
/// Values that a dictionary of numbers holds at most: places of more bits save little over differences.
const MOST_NUMBERS: usize = 4096;
/// Four slots for each value, so that few share one.
const SLOTS: usize = 4 * MOST_NUMBERS;
/// A word that this row group has not had yet.
const UNMET: u16 = u16::MAX;

/// Appends `places`, all below `values`, as the data page of a dictionary has them: their width, then the runs.
pub(super) fn put_places(places: &[u16], values: usize, out: &mut Vec<u8>) {
    let width = width_of(values.saturating_sub(1) as u64).max(1);
    out.push(width as u8);
    let (mut literals_from, mut at) = (0, 0);
    while at + 8 <= places.len() {
        let value = places[at];
        let (eights, _) = places[at..].as_chunks::<8>();
        let run = 8 * eights
            .iter()
            .take_while(|eight| **eight == [value; 8])
            .count();
        if run >= LEAST_RUN {
            put_literals(&places[literals_from..at], width, out);
            put_varint((run as u64) << 1, out);
            out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            literals_from = at + run;
        }
        at += run.max(8);
    }
    put_literals(&places[literals_from..], width, out);
}

/// Appends places as packed bits: all eights but the last are whole.
fn put_literals(places: &[u16], width: u32, out: &mut Vec<u8>) {
    if places.is_empty() {
        return;
    }
    put_varint((places.len().div_ceil(8) as u64) << 1 | 1, out);
    let mut at = out.len();
    let end = at + places.len().div_ceil(8) * width as usize;
    out.resize(end + SPILL, 0);
    let (miniblocks, rest) = places.as_chunks();
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

/// The words of a row group, in the order in which they came.
#[derive(Debug)]
pub(super) struct WordPlaces {
    places: Box<[u16; 256]>,
    words: Vec<&'static str>,
}

impl WordPlaces {
    pub(super) fn new() -> WordPlaces {
        WordPlaces {
            places: Box::new([UNMET; 256]),
            words: Vec::new(),
        }
    }

    /// The place of the word that the table gives this number.
    pub(super) fn of(&mut self, number: u8, word: impl FnOnce() -> &'static str) -> u16 {
        match self.places[usize::from(number)] {
            UNMET => self.meet(number, word()),
            place => place,
        }
    }

    /// Different numbers may have the same word, which readers want once.
    #[cold]
    fn meet(&mut self, number: u8, word: &'static str) -> u16 {
        let known = self.words.iter().position(|known| *known == word);
        let place = known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        }) as u16;
        self.places[usize::from(number)] = place;
        place
    }

    pub(super) fn words(&self) -> &[&'static str] {
        &self.words
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(UNMET);
        self.words.clear();
    }
}

/// The numbers of a row group, in the order in which they came, up to a bound.
#[derive(Debug)]
pub(super) struct NumberPlaces {
    /// One more than the place of the slot's number; 0 if it is free.
    slots: Vec<u16>,
    numbers: Vec<u32>,
}

impl NumberPlaces {
    pub(super) fn new() -> NumberPlaces {
        NumberPlaces {
            slots: vec![0; SLOTS],
            numbers: Vec::new(),
        }
    }

    /// The place of `number`; `None` if the dictionary is full.
    pub(super) fn of(&mut self, number: u32) -> Option<u16> {
        // Knuth's multiplicative hash (The Art of Computer Programming 3, section 6.4), then the next free slot.
        let hash = number.wrapping_mul(0x9e37_79b1) >> (32 - SLOTS.trailing_zeros());
        let mut slot = hash as usize;
        loop {
            let taken = usize::from(self.slots[slot % SLOTS]);
            if taken == 0 {
                return self.meet(number, slot % SLOTS);
            }
            if self.numbers[taken - 1] == number {
                return Some(taken as u16 - 1);
            }
            slot += 1;
        }
    }

    #[cold]
    fn meet(&mut self, number: u32, slot: usize) -> Option<u16> {
        let place = self.numbers.len();
        if place == MOST_NUMBERS {
            return None;
        }
        self.numbers.push(number);
        self.slots[slot] = place as u16 + 1;
        Some(place as u16)
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
    fn one_value_is_one_run() {
        let mut out = Vec::new();
        put_places(&[0; 800], 1, &mut out);
        assert_eq!(out, [1, 0xC0, 0x0C, 0]);
    }

    /// Encodings.md's example of the hybrid's packed bits, with a run after them and a rest.
    #[test]
    fn runs_stand_between_packed_bits() {
        let mut places: Vec<u16> = (0..8).collect();
        places.extend([5; 64]);
        places.extend([1, 2]);
        let mut out = Vec::new();
        put_places(&places, 8, &mut out);
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
    fn numbers_keep_their_places_until_the_dictionary_is_full() {
        let mut places = NumberPlaces::new();
        for _ in 0..2 {
            for number in 0..MOST_NUMBERS as u32 {
                assert_eq!(places.of(number << 20 | number), Some(number as u16));
            }
        }
        assert_eq!(places.of(u32::MAX), None);
        assert_eq!(places.of(0), Some(0));
        places.clear();
        assert_eq!(places.of(u32::MAX), Some(0));
    }

    #[test]
    fn numbers_with_one_word_share_its_place() {
        let mut words = WordPlaces::new();
        assert_eq!(words.of(9, || "STREAM"), 0);
        assert_eq!(words.of(3, || "ACK"), 1);
        assert_eq!(words.of(10, || "STREAM"), 0);
        assert_eq!(words.words(), ["STREAM", "ACK"]);
    }
}
