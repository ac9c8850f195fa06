//! Packs integers as differences between neighbours: Parquet's DELTA_BINARY_PACKED.
//!
//! It takes a column's numbers piece by piece, and keeps at most one block of them: a full block is packed immediately.
//! It does not handle nulls (`column` does). The format is defined in parquet-format's Encodings.md.

use std::ops::BitOr;

use super::bits::{MINIBLOCK, SPILL, pack, put_varint, put_zigzag, width_of};

/// Numbers per block, and miniblocks per block, each with its own width. Miniblocks of 32 would take fewer bits, but
/// after compression 64 take fewer bytes: numbers of one width repeat where those of many widths do not.
const BLOCK: usize = 256;
const MINIBLOCKS: usize = BLOCK / MINIBLOCK;
/// How many numbers are compared at once, to see whether a block is constant.
const COMPARED_AT_ONCE: usize = 16;
/// If at least this many of a block's first 64 differences equal the one before, its differences count as repeating.
const MIN_REPEATS: u32 = 8;
/// How many recent blocks are remembered: the columns for the ends of a range alternate with those for its starts.
const BLOCKS_BEFORE: usize = 2;

/// The width of the Parquet type. Differences wrap around in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Width {
    /// INT32, from unsigned numbers of at most 32 bits.
    Narrow,
    /// INT64.
    #[default]
    Wide,
}

/// The numbers of a column in a page.
#[derive(Clone, Debug)]
pub(super) struct Deltas {
    width: Width,
    /// The last packed number, then the numbers waiting for their block, then free space for more.
    waiting: Vec<i64>,
    filled: usize,
    first: i64,
    count: usize,
    blocks: Vec<u8>,
    /// Over all pages of the row group; `None` until there is a number.
    extremes: Option<Extremes>,
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
            extremes: None,
        }
    }

    /// Space for the next piece of up to `most` numbers; the caller then passes their number to `take`.
    pub(super) fn room(&mut self, most: usize) -> &mut [i64] {
        &mut self.waiting[self.filled..][..most]
    }

    /// Takes the first `count` numbers of that space.
    pub(super) fn take(&mut self, count: usize, recent: &mut RecentBlocks) {
        if self.count == 0 && count > 0 {
            self.first = self.waiting[0];
            self.widen(Extremes::of(self.first));
        }
        self.count += count;
        self.filled += count;
        let mut from = 0;
        while self.filled - from > BLOCK {
            self.pack_block(from, recent);
            from += BLOCK;
        }
        if from > 0 {
            self.waiting.copy_within(from..self.filled, 0);
            self.filled -= from;
        }
    }

    /// The minimum and maximum of all pages that were put; `None` if there are no numbers.
    pub(super) fn extremes(&self) -> Option<(i64, i64)> {
        (self.extremes).map(|extremes| (extremes.least, extremes.greatest))
    }

    /// Appends the page's values, and begins the next page.
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
        (self.filled, self.count, self.first) = (0, 0, 0);
        self.blocks.clear();
    }

    /// Begins the next row group.
    pub(super) fn clear(&mut self) {
        self.extremes = None;
    }

    fn widen(&mut self, other: Extremes) {
        self.extremes = Some(match self.extremes {
            Some(own) => own.widened(other),
            None => other,
        });
    }

    /// Packs a full block of waiting numbers, those after `from`.
    fn pack_block(&mut self, from: usize, recent: &mut RecentBlocks) {
        let Some(window) = self.waiting[from..].first_chunk() else {
            unreachable!("a full block waits");
        };
        if is_constant(window) {
            // A smallest difference of 0, and miniblocks of width 0.
            self.blocks.extend_from_slice(&[0; 1 + MINIBLOCKS]);
            return;
        }
        let extremes = if let Some(known) = recent.find(window, self.width) {
            self.blocks.extend_from_slice(&known.bytes);
            known.extremes
        } else {
            let start = self.blocks.len();
            let extremes = put_window(window, BLOCK, self.width, &mut self.blocks);
            recent.insert(window, self.width, &self.blocks[start..], extremes);
            extremes
        };
        self.widen(extremes);
    }

    /// Packs the waiting numbers as the last block.
    fn pack_rest(&mut self) {
        if self.filled > 1 {
            let count = self.filled - 1;
            let mut window = [self.waiting[count]; BLOCK + 1];
            window[..count].copy_from_slice(&self.waiting[..count]);
            let extremes = put_window(&window, count, self.width, &mut self.blocks);
            self.widen(extremes);
            self.waiting.swap(0, count);
            self.filled = 1;
        }
    }
}

/// The most recently packed blocks, of any column. Columns repeat: a message that is sent in one piece has its first and its
/// last byte at the same time, and without TLS its offsets are those on the wire.
#[derive(Debug, Default)]
pub(super) struct RecentBlocks([RecentBlock; BLOCKS_BEFORE]);

/// A block, before and after packing.
#[derive(Debug, Default)]
struct RecentBlock {
    /// Empty at first.
    numbers: Vec<i64>,
    width: Width,
    bytes: Vec<u8>,
    extremes: Extremes,
}

impl RecentBlocks {
    fn find(&self, window: &Window, width: Width) -> Option<&RecentBlock> {
        (self.0.iter()).find(|block| block.width == width && block.numbers == *window)
    }

    /// Remembers a block in place of the oldest one.
    fn insert(&mut self, window: &Window, width: Width, bytes: &[u8], extremes: Extremes) {
        self.0.rotate_right(1);
        let block = &mut self.0[0];
        block.numbers.clear();
        block.numbers.extend_from_slice(window);
        block.bytes.clear();
        block.bytes.extend_from_slice(bytes);
        (block.width, block.extremes) = (width, extremes);
    }
}

/// The minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Extremes {
    least: i64,
    greatest: i64,
}

impl Extremes {
    fn of(number: i64) -> Extremes {
        Extremes {
            least: number,
            greatest: number,
        }
    }

    fn widened(self, other: Extremes) -> Extremes {
        Extremes {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
        }
    }
}

/// A block's numbers, preceded by the number before them. A shorter block is padded with its last number.
type Window = [i64; BLOCK + 1];

/// Whether all numbers are equal. Takes few instructions if they are, and fewer still if they are not.
fn is_constant(numbers: &Window) -> bool {
    let first = numbers[0];
    numbers[1..].chunks(COMPARED_AT_ONCE).all(|numbers| {
        let different = numbers
            .iter()
            .fold(0, |bits, number| bits | (number ^ first));
        different == 0
    })
}

/// Appends a block with the differences of the first `count` numbers to the ones before them. Returns the minimum and
/// maximum of all numbers in the window.
fn put_window(window: &Window, count: usize, width: Width, out: &mut Vec<u8>) -> Extremes {
    let mut offsets = [0; BLOCK + 1];
    if are_near(window, &mut offsets) {
        // The differences fit in 32 bits. Every x86-64 processor compares several 32-bit numbers at once, but 64-bit numbers
        // one by one.
        let mut differences = std::array::from_fn(|i| offsets[i + 1] - offsets[i]);
        let least_step = put_small(&mut differences, count, out);
        if let Some(extremes) = near_extremes(window, least_step, &offsets) {
            return extremes;
        }
    } else if width == Width::Narrow {
        let difference = |i| (window[i + 1] as i32).wrapping_sub(window[i] as i32);
        put_small(&mut std::array::from_fn(difference), count, out);
    } else {
        put_large(window, count, out);
    }
    Extremes {
        least: window.iter().fold(i64::MAX, |a, b| a.min(*b)),
        greatest: window.iter().fold(i64::MIN, |a, b| a.max(*b)),
    }
}

/// The extremes of numbers that are close together; `None` if they wrap around the end of 64 bits.
fn near_extremes(window: &Window, least_step: i32, offsets: &[i32; BLOCK + 1]) -> Option<Extremes> {
    let (first, last) = (window[0], window[BLOCK]);
    if least_step >= 0 && first <= last {
        // No number is below the one before it, so the first is the smallest.
        return Some(Extremes {
            least: first,
            greatest: last,
        });
    }
    let least = offsets.iter().fold(0, |a: i32, b| a.min(*b));
    let greatest = offsets.iter().fold(0, |a: i32, b| a.max(*b));
    Some(Extremes {
        least: first.checked_add(i64::from(least))?,
        greatest: first.checked_add(i64::from(greatest))?,
    })
}

/// Computes each number's distance from the first. Returns whether all are so close that the difference of any two fits
/// in 32 bits.
fn are_near(window: &Window, offsets: &mut [i32; BLOCK + 1]) -> bool {
    const MAX_DISTANCE: i64 = 1 << 30;
    let mut high = 0;
    for (offset, number) in offsets.iter_mut().zip(window) {
        let distance = number.wrapping_sub(window[0]);
        *offset = distance as i32;
        high |= distance.wrapping_add(MAX_DISTANCE) as u64;
    }
    high < 2 * MAX_DISTANCE as u64
}

/// Appends a block of `count` differences. Returns the smallest of them.
fn put_small(differences: &mut [i32; BLOCK], count: usize, out: &mut Vec<u8>) -> i32 {
    let first = differences[0];
    differences[count..].fill(first);
    let base = differences.iter().fold(i32::MAX, |a, b| a.min(*b));
    differences[count..].fill(base);
    let above: [u32; BLOCK] =
        std::array::from_fn(|i| differences[i].wrapping_sub(base).cast_unsigned());
    let mut widths = widths_of(&above);
    if count == BLOCK && steps_repeat(&above) {
        // Compression sees the repetition if widths are whole bytes, which more than makes up for the additional bits.
        widths = widths.map(|width| width.next_multiple_of(8));
    }
    put_block(i64::from(base), &above, widths, out);
    base
}

/// Appends a block in which some difference may need more than 32 bits.
fn put_large(window: &Window, count: usize, out: &mut Vec<u8>) {
    let mut differences: [i64; BLOCK] =
        std::array::from_fn(|i| window[i + 1].wrapping_sub(window[i]));
    let first = differences[0];
    differences[count..].fill(first);
    let base = differences.iter().fold(i64::MAX, |a, b| a.min(*b));
    differences[count..].fill(base);
    let above = differences.map(|difference| difference.wrapping_sub(base).cast_unsigned());
    put_block(base, &above, widths_of(&above), out);
}

/// Whether differences often equal the one before, judged by the first miniblock.
fn steps_repeat(above: &[u32; BLOCK]) -> bool {
    let steps = above[..MINIBLOCK].iter().zip(&above[1..=MINIBLOCK]);
    let repeats: u32 = steps.map(|(step, next)| u32::from(step == next)).sum();
    repeats >= MIN_REPEATS
}

/// The number of bits that the numbers of each miniblock need.
fn widths_of<T>(above: &[T; BLOCK]) -> [u8; MINIBLOCKS]
where
    T: Copy + Default + Into<u64> + BitOr<Output = T>,
{
    let (miniblocks, _) = above.as_chunks::<MINIBLOCK>();
    std::array::from_fn(|i| {
        let bits = (miniblocks[i].iter()).fold(T::default(), |bits, number| bits | *number);
        width_of(bits.into()) as u8
    })
}

/// Appends a block: the differences minus `base`, packed in the width of their miniblock.
fn put_block<T: Copy + Into<u64>>(
    base: i64,
    above: &[T; BLOCK],
    widths: [u8; MINIBLOCKS],
    out: &mut Vec<u8>,
) {
    let (miniblocks, _) = above.as_chunks::<MINIBLOCK>();
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

/// Bytes of a miniblock of numbers of this width.
const fn packed_bytes(width: u8) -> usize {
    MINIBLOCK / 8 * width as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(width: Width, numbers: &[i64]) -> Vec<u8> {
        let mut deltas = Deltas::new(width, 100);
        for piece in numbers.chunks(100) {
            deltas.room(piece.len()).copy_from_slice(piece);
            deltas.take(piece.len(), &mut RecentBlocks::default());
        }
        let mut out = Vec::new();
        deltas.put(&mut out);
        out
    }

    /// Encodings.md, "Delta Encoding", example 1: 1, 2, 3, 4, 5.
    #[test]
    fn constant_differences_need_no_bits() {
        assert_eq!(
            packed(Width::Wide, &[1, 2, 3, 4, 5]),
            [128, 2, 4, 5, 2, 2, 0, 0, 0, 0]
        );
    }

    /// Encodings.md, "Delta Encoding", example 2: 7, 5, 3, 1, 2, 3, 4, 5, with differences of two bits each.
    #[test]
    fn smallest_difference_is_the_base() {
        let mut expected = vec![128, 2, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b11_1111];
        expected.resize(10 + 2 * 8, 0);
        assert_eq!(packed(Width::Wide, &[7, 5, 3, 1, 2, 3, 4, 5]), expected);
    }

    /// Repeating differences take whole bytes, others only as many bits as they need.
    #[test]
    fn repeating_differences_are_packed_in_whole_bytes() {
        let width_of_first = |step: fn(i64) -> i64| {
            let mut number = 0;
            let numbers: Vec<i64> = (0..=BLOCK as i64)
                .map(|i| {
                    number += step(i);
                    number
                })
                .collect();
            let out = packed(Width::Wide, &numbers);
            let [_, _, _, _, _, _, _base, width, ..] = out[..] else {
                panic!("a header, and a block's");
            };
            width
        };
        assert_eq!(width_of_first(|i| if i % 16 == 8 { 1_000 } else { 0 }), 16);
        assert_eq!(width_of_first(|i| i * 37 % 1_000), 10);
    }

    #[test]
    fn remembered_block_is_packed_like_a_new_one() {
        let numbers: Vec<i64> = (0..300).map(|i| i * i % 1_000).collect();
        let mut recent = RecentBlocks::default();
        let mut pack_remembering = |add: i64| {
            let mut deltas = Deltas::new(Width::Wide, 300);
            for (place, number) in deltas.room(300).iter_mut().zip(&numbers) {
                *place = number + add;
            }
            deltas.take(300, &mut recent);
            let mut out = Vec::new();
            deltas.put(&mut out);
            (out, deltas.extremes())
        };
        let first = pack_remembering(0);
        let others = [pack_remembering(5), pack_remembering(9)];
        assert_ne!(first.1, others[0].1);
        assert_eq!(pack_remembering(0), first, "forgotten");
        assert_eq!(pack_remembering(9), others[1], "remembered");
        assert_eq!(first.0, packed(Width::Wide, &numbers));
    }

    #[test]
    fn empty_page_is_only_a_header() {
        assert_eq!(packed(Width::Wide, &[]), [128, 2, 4, 0, 0]);
        assert_eq!(Deltas::new(Width::Wide, 1).extremes(), None);
    }

    #[test]
    fn narrow_differences_wrap_in_32_bits() {
        let greatest = i64::from(u32::MAX);
        assert_eq!(
            packed(Width::Narrow, &[greatest, 0, greatest]),
            // First -1; then 1 and -1, relative to a base of -1.
            [[128, 2, 4, 3, 1, 1, 2, 0, 0, 0, 2].as_slice(), &[0; 15]].concat()
        );
    }

    #[test]
    fn extremes_are_correct_when_differences_overflow() {
        let (least, greatest) = (i64::MIN, i64::MAX);
        for numbers in [
            [greatest, least, least + 1],
            [greatest - 1, greatest, least],
            [least, greatest, 0],
            [0, least, greatest],
        ] {
            let mut deltas = Deltas::new(Width::Wide, 3);
            deltas.room(3).copy_from_slice(&numbers);
            deltas.take(3, &mut RecentBlocks::default());
            deltas.put(&mut Vec::new());
            let expected = (
                *numbers.iter().min().unwrap(),
                *numbers.iter().max().unwrap(),
            );
            assert_eq!(deltas.extremes(), Some(expected), "{numbers:?}");
        }
    }

    #[test]
    fn extremes_cover_all_pages_of_a_row_group() {
        for place in [0, 1, 64, 256, 257, 299] {
            let mut deltas = Deltas::new(Width::Wide, 300);
            deltas.room(300).fill(7);
            deltas.room(300)[place] = -3;
            deltas.take(300, &mut RecentBlocks::default());
            deltas.put(&mut Vec::new());
            assert_eq!(deltas.extremes(), Some((-3, 7)), "{place}");
            for (is_new_group, expected) in [(false, (-3, 7)), (true, (5, 5))] {
                if is_new_group {
                    deltas.clear();
                }
                deltas.room(1)[0] = 5;
                deltas.take(1, &mut RecentBlocks::default());
                deltas.put(&mut Vec::new());
                assert_eq!(deltas.extremes(), Some(expected));
            }
        }
    }
}
