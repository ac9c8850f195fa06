//! Whole numbers as differences of neighbours: Parquet's DELTA_BINARY_PACKED.
//!
//! It takes one column's numbers of a row group piece by piece and keeps no more of them than a block: what is full is
//! packed at once. Nulls are not its business (`column`). The format is in parquet-format's Encodings.md.

use std::ops::BitOr;

use super::bits::{MINIBLOCK, SPILL, pack, put_varint, put_zigzag, width_of};

/// Numbers of a block, and the parts that have a width of their own. Parts of 32 take fewer bits, but once zstd has seen
/// the pages these take fewer bytes: numbers of one width repeat where those of many do not.
const BLOCK: usize = 256;
const MINIBLOCKS: usize = BLOCK / MINIBLOCK;
/// Numbers that are looked at together to see whether a block is all of one number.
const GLANCE: usize = 16;

/// How wide Parquet has the numbers. Differences wrap around in that width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// INT32, from unsigned numbers of at most 32 bits.
    Narrow,
    /// INT64.
    Wide,
}

/// The numbers of a column in a row group.
#[derive(Debug)]
pub(super) struct Deltas {
    width: Width,
    /// The last number that was packed, then those that wait for their block, then room for more.
    waiting: Vec<i64>,
    filled: usize,
    first: i64,
    count: usize,
    blocks: Vec<u8>,
    least: i64,
    greatest: i64,
}

impl Deltas {
    /// For pieces of up to `most` numbers.
    pub(super) fn new(width: Width, most: usize) -> Deltas {
        Deltas {
            width,
            waiting: vec![0; BLOCK + most],
            filled: 0,
            first: 0,
            count: 0,
            blocks: Vec::new(),
            least: i64::MAX,
            greatest: i64::MIN,
        }
    }

    /// Where the next piece of up to `most` numbers goes; `take` then says how many they were.
    pub(super) fn room(&mut self, most: usize) -> &mut [i64] {
        &mut self.waiting[self.filled..][..most]
    }

    /// Takes the first `count` numbers of the room.
    pub(super) fn take(&mut self, count: usize) {
        if self.count == 0 && count > 0 {
            self.first = self.waiting[0];
            (self.least, self.greatest) = (self.first, self.first);
        }
        self.count += count;
        self.filled += count;
        let mut from = 0;
        while self.filled - from > BLOCK {
            self.pack_block(from, BLOCK);
            from += BLOCK;
        }
        if from > 0 {
            self.waiting.copy_within(from..self.filled, 0);
            self.filled -= from;
        }
    }

    /// The least and the greatest number; `None` if there is none.
    pub(super) fn extremes(&mut self) -> Option<(i64, i64)> {
        self.pack_rest();
        (self.count > 0).then_some((self.least, self.greatest))
    }

    /// Appends the page's values.
    pub(super) fn put(&mut self, out: &mut Vec<u8>) {
        self.pack_rest();
        put_varint(BLOCK as u64, out);
        put_varint(MINIBLOCKS as u64, out);
        put_varint(self.count as u64, out);
        put_zigzag(
            match self.width {
                Width::Narrow => i64::from(self.first as i32),
                Width::Wide => self.first,
            },
            out,
        );
        out.extend_from_slice(&self.blocks);
    }

    pub(super) fn clear(&mut self) {
        (self.filled, self.count, self.first) = (0, 0, 0);
        self.blocks.clear();
    }

    /// Packs what waits, as the last block.
    fn pack_rest(&mut self) {
        if self.filled > 1 {
            self.pack_block(0, self.filled - 1);
            self.waiting.swap(0, self.filled - 1);
            self.filled = 1;
        }
    }

    /// Packs the differences of `count` waiting numbers, those after `from`, to the ones before them.
    fn pack_block(&mut self, from: usize, count: usize) {
        let numbers = &self.waiting[from..=from + count];
        if is_constant(numbers) {
            // No difference, of no width.
            self.blocks.extend_from_slice(&[0; 1 + MINIBLOCKS]);
            return;
        }
        // Behind the last number is what was there before: loops over a known number of them take fewer instructions.
        let Some(window) = self.waiting[from..].first_chunk() else {
            unreachable!("there is room for a block behind what was packed");
        };
        let least_step = match self.width {
            Width::Narrow => {
                put_small(&mut narrow_differences(window), count, &mut self.blocks);
                None
            }
            Width::Wide => match short_differences(window, count) {
                Some(mut short) => Some(put_small(&mut short, count, &mut self.blocks)),
                None => {
                    put_large(&mut wide_differences(window), count, &mut self.blocks);
                    None
                }
            },
        };
        let last = numbers[count];
        let (least, greatest) = match least_step {
            // None is below the one before. Steps of at most 31 bits do not come around to where they began.
            Some(0..) if last >= numbers[0] => (numbers[1], last),
            _ => extremes(window, count),
        };
        self.least = self.least.min(least);
        self.greatest = self.greatest.max(greatest);
    }
}

/// Whether all numbers are the same. Few instructions where they are, and fewer where they are not.
fn is_constant(numbers: &[i64]) -> bool {
    let first = numbers[0];
    numbers.chunks(GLANCE).all(|numbers| {
        let different = numbers
            .iter()
            .fold(0, |bits, number| bits | (number ^ first));
        different == 0
    })
}

/// A block's numbers, after the one before them.
type Window = [i64; BLOCK + 1];

/// Differences of neighbours, in 32 bits.
fn narrow_differences(numbers: &Window) -> [i32; BLOCK] {
    let mut differences = [0; BLOCK];
    for (i, difference) in differences.iter_mut().enumerate() {
        *difference = (numbers[i + 1] as i32).wrapping_sub(numbers[i] as i32);
    }
    differences
}

/// Differences of neighbours, in 64 bits.
fn wide_differences(numbers: &Window) -> [i64; BLOCK] {
    let mut differences = [0; BLOCK];
    for (i, difference) in differences.iter_mut().enumerate() {
        *difference = numbers[i + 1].wrapping_sub(numbers[i]);
    }
    differences
}

/// Differences of neighbours in 32 bits, if the first `count` fit. Every processor of x86-64 compares several such at
/// once, but wider ones one by one.
fn short_differences(numbers: &Window, count: usize) -> Option<[i32; BLOCK]> {
    let mut short = [0; BLOCK];
    let mut high = 0;
    if count == BLOCK {
        for (i, short) in short.iter_mut().enumerate() {
            high |= shorten(numbers[i + 1].wrapping_sub(numbers[i]), short);
        }
    } else {
        for (i, short) in short[..count].iter_mut().enumerate() {
            high |= shorten(numbers[i + 1].wrapping_sub(numbers[i]), short);
        }
    }
    (high >> 32 == 0).then_some(short)
}

/// Puts a number into 32 bits. It fits if nothing of what this gives is above the lowest 32.
fn shorten(number: i64, short: &mut i32) -> u64 {
    *short = number as i32;
    number.wrapping_add(1 << 31) as u64
}

/// Appends a block of `count` differences. Gives the least of them.
fn put_small(differences: &mut [i32; BLOCK], count: usize, out: &mut Vec<u8>) -> i32 {
    let base = differences[..count].iter().fold(i32::MAX, |a, b| a.min(*b));
    differences[count..].fill(base);
    let above = differences.map(|difference| difference.wrapping_sub(base) as u32);
    put_block(i64::from(base), &above, out);
    base
}

/// Appends a block of `count` differences of which some take more than 32 bits.
fn put_large(differences: &mut [i64; BLOCK], count: usize, out: &mut Vec<u8>) {
    let base = differences[..count].iter().fold(i64::MAX, |a, b| a.min(*b));
    differences[count..].fill(base);
    let above = differences.map(|difference| difference.wrapping_sub(base) as u64);
    put_block(base, &above, out);
}

/// Appends a block of what the differences are above `base`.
fn put_block<T>(base: i64, above: &[T; BLOCK], out: &mut Vec<u8>)
where
    T: Copy + Default + Into<u64> + BitOr<Output = T>,
{
    let (miniblocks, _) = above.as_chunks::<MINIBLOCK>();
    let mut widths = [0; MINIBLOCKS];
    for (width, miniblock) in widths.iter_mut().zip(miniblocks) {
        let bits = miniblock
            .iter()
            .fold(T::default(), |bits, number| bits | *number);
        *width = width_of(bits.into()) as u8;
    }
    put_zigzag(base, out);
    out.extend_from_slice(&widths);
    let mut at = out.len();
    let bytes: usize = widths.iter().map(|width| packed_bytes(*width)).sum();
    out.resize(at + bytes + SPILL, 0);
    for (width, miniblock) in widths.iter().zip(miniblocks) {
        pack(miniblock, u32::from(*width), &mut out[at..]);
        at += packed_bytes(*width);
    }
    out.truncate(at);
}

/// Bytes of a miniblock whose numbers have so many bits.
const fn packed_bytes(width: u8) -> usize {
    MINIBLOCK / 8 * width as usize
}

/// The least and the greatest of the first `count` numbers after the one before them.
fn extremes(numbers: &Window, count: usize) -> (i64, i64) {
    let numbers = &numbers[1..=count];
    let first = numbers[0];
    // Where there is no number, a distance of none.
    let mut away = [0; BLOCK];
    let mut high = 0;
    for (away, number) in away.iter_mut().zip(numbers) {
        high |= shorten(number.wrapping_sub(first), away);
    }
    if high >> 32 == 0 {
        let least = away.iter().fold(0, |a: i32, b| a.min(*b));
        let greatest = away.iter().fold(0, |a: i32, b| a.max(*b));
        let least = first.checked_add(i64::from(least));
        // A sum that overflows says that a distance did before.
        if let Some(extremes) = least.zip(first.checked_add(i64::from(greatest))) {
            return extremes;
        }
    }
    let least = numbers.iter().fold(i64::MAX, |a, b| a.min(*b));
    let greatest = numbers.iter().fold(i64::MIN, |a, b| a.max(*b));
    (least, greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(width: Width, numbers: &[i64]) -> Vec<u8> {
        let mut deltas = Deltas::new(width, 100);
        for piece in numbers.chunks(100) {
            deltas.room(piece.len()).copy_from_slice(piece);
            deltas.take(piece.len());
        }
        let mut out = Vec::new();
        deltas.put(&mut out);
        out
    }

    /// Encodings.md, "Delta Encoding", example 1: 1, 2, 3, 4, 5.
    #[test]
    fn even_steps_take_no_bits() {
        assert_eq!(
            packed(Width::Wide, &[1, 2, 3, 4, 5]),
            [128, 2, 4, 5, 2, 2, 0, 0, 0, 0]
        );
    }

    /// Encodings.md, "Delta Encoding", example 2: 7, 5, 3, 1, 2, 3, 4, 5, the differences two bits each.
    #[test]
    fn the_least_difference_is_the_base() {
        let mut expected = vec![128, 2, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b11_1111];
        expected.resize(10 + 2 * 8, 0);
        assert_eq!(packed(Width::Wide, &[7, 5, 3, 1, 2, 3, 4, 5]), expected);
    }

    #[test]
    fn no_numbers_are_a_header() {
        assert_eq!(packed(Width::Wide, &[]), [128, 2, 4, 0, 0]);
        assert_eq!(Deltas::new(Width::Wide, 1).extremes(), None);
    }

    #[test]
    fn narrow_differences_wrap_in_32_bits() {
        let greatest = i64::from(u32::MAX);
        assert_eq!(
            packed(Width::Narrow, &[greatest, 0, greatest]),
            // -1 first; then 1 and -1, above a base of -1.
            [[128, 2, 4, 3, 1, 1, 2, 0, 0, 0, 2].as_slice(), &[0; 15]].concat()
        );
    }

    #[test]
    fn extremes_at_the_ends_of_64_bits() {
        let (least, greatest) = (i64::MIN, i64::MAX);
        for numbers in [
            [greatest, least, least + 1],
            [greatest - 1, greatest, least],
            [least, greatest, 0],
            [0, least, greatest],
        ] {
            let mut deltas = Deltas::new(Width::Wide, 3);
            deltas.room(3).copy_from_slice(&numbers);
            deltas.take(3);
            let expected = (
                *numbers.iter().min().unwrap(),
                *numbers.iter().max().unwrap(),
            );
            assert_eq!(deltas.extremes(), Some(expected), "{numbers:?}");
        }
    }

    #[test]
    fn extremes_are_those_of_all_numbers() {
        for place in [0, 1, 64, 256, 257, 299] {
            let mut deltas = Deltas::new(Width::Wide, 300);
            deltas.room(300).fill(7);
            deltas.room(300)[place] = -3;
            deltas.take(300);
            assert_eq!(deltas.extremes(), Some((-3, 7)), "{place}");
            deltas.clear();
            deltas.room(1)[0] = 5;
            deltas.take(1);
            assert_eq!(deltas.extremes(), Some((5, 5)));
        }
    }
}
