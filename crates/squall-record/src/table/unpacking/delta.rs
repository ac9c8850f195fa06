//! Whole numbers back from differences of neighbours: Parquet's DELTA_BINARY_PACKED, in blocks as `packing::delta` has
//! them.
//!
//! It reads what our packer writes, and says of anything else that it cannot: what that is, the Parquet crate knows
//! (`Theirs`). So it must never give other numbers than that one would. Nulls are not its business (`levels`).

use bytes::Bytes;

/// Numbers of a miniblock, and miniblocks of a block.
const MINIBLOCK: usize = 64;
const MINIBLOCKS: usize = 4;
/// Bytes behind a miniblock that are read with its last numbers.
const SPILL: usize = 16;
/// Most bits of a number that is read as one word, wherever in a byte it begins.
const WORD_BITS: usize = 57;

/// A number of a column: all sums are of 64 bits, of which a narrow one has the lower half.
pub(in crate::table) trait Number: Copy + Default {
    /// Bits that Parquet has it in.
    const BITS: u32;

    fn of(bits: u64) -> Self;
}

impl Number for i64 {
    const BITS: u32 = 64;

    fn of(bits: u64) -> i64 {
        bits.cast_signed()
    }
}

impl Number for u32 {
    const BITS: u32 = 32;

    fn of(bits: u64) -> u32 {
        bits as u32
    }
}

/// The numbers of a page that are still to come.
#[derive(Debug)]
pub(super) struct Deltas<T> {
    bytes: Bytes,
    at: usize,
    /// Numbers behind those of the miniblock.
    left: usize,
    last: u64,
    /// The least difference of the block.
    step: u64,
    widths: [u8; MINIBLOCKS],
    /// The next miniblock of the block.
    next: usize,
    /// The miniblock, and how many of its numbers are there and were given.
    miniblock: [T; MINIBLOCK],
    filled: usize,
    given: usize,
}

impl<T: Number> Deltas<T> {
    /// Of a page's values; `None` if our packer does not write such.
    pub(super) fn of(bytes: Bytes) -> Option<Deltas<T>> {
        let mut deltas = Deltas {
            bytes,
            at: 0,
            left: 0,
            last: 0,
            step: 0,
            widths: [0; MINIBLOCKS],
            next: MINIBLOCKS,
            miniblock: [T::default(); MINIBLOCK],
            filled: 0,
            given: 0,
        };
        let has_our_blocks = deltas.varint()? == (MINIBLOCK * MINIBLOCKS) as u64
            && deltas.varint()? == MINIBLOCKS as u64;
        if !has_our_blocks {
            return None;
        }
        // The Parquet crate has it as a signed number.
        let count = usize::try_from(deltas.varint()?.cast_signed()).ok()?;
        deltas.last = deltas.zigzag()?;
        if let Some(behind) = count.checked_sub(1) {
            (deltas.left, deltas.filled) = (behind, 1);
            deltas.miniblock[0] = T::of(deltas.last);
        }
        Some(deltas)
    }

    /// Appends the next `count` numbers; `None` if they cannot be read here.
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<T>) -> Option<()> {
        let end = out.len() + count;
        loop {
            let wanted = (end - out.len()).min(self.filled - self.given);
            out.extend_from_slice(&self.miniblock[self.given..][..wanted]);
            self.given += wanted;
            if out.len() == end {
                return Some(());
            }
            self.fill()?;
        }
    }

    /// Reads the next miniblock.
    fn fill(&mut self) -> Option<()> {
        if self.left == 0 {
            return None;
        }
        if self.next == MINIBLOCKS {
            self.step = self.zigzag()?;
            let widths = self.bytes.get(self.at..)?.first_chunk()?;
            self.widths = *widths;
            self.at += MINIBLOCKS;
            self.next = 0;
        }
        let width = usize::from(self.widths[self.next]);
        if width > T::BITS as usize {
            return None;
        }
        let size = MINIBLOCK / 8 * width;
        let (step, last) = (self.step, self.last);
        self.last = match self.bytes.get(self.at..self.at + size + SPILL) {
            Some(packed) => add_up(width, packed, step, last, &mut self.miniblock),
            None => {
                let mut packed = [0; MINIBLOCK * 8 + SPILL];
                packed[..size].copy_from_slice(self.bytes.get(self.at..self.at + size)?);
                add_up(width, &packed, step, last, &mut self.miniblock)
            }
        };
        self.at += size;
        self.next += 1;
        self.filled = self.left.min(MINIBLOCK);
        self.left -= self.filled;
        self.given = 0;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that may be below zero, if the column can have such.
    fn zigzag(&mut self) -> Option<u64> {
        let folded = self.varint()?;
        let number = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        let fits = T::BITS == u64::BITS || i32::try_from(number).is_ok();
        fits.then_some(number.cast_unsigned())
    }
}

/// The numbers of a miniblock: each is `step` and its packed difference above `last`, the one before it. Gives the last.
/// Behind what is packed there are [`SPILL`] bytes.
fn add_up<T: Number>(
    width: usize,
    packed: &[u8],
    step: u64,
    last: u64,
    numbers: &mut [T; MINIBLOCK],
) -> u64 {
    /// A function for each width, in which all that depends on it is known.
    macro_rules! for_width {
        ($($width:literal)*) => {
            match width {
                $($width => add_up_bits::<T, $width>(packed, step, last, numbers),)*
                _ => last,
            }
        };
    }
    for_width!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    )
}

fn add_up_bits<T: Number, const WIDTH: usize>(
    packed: &[u8],
    step: u64,
    mut last: u64,
    numbers: &mut [T; MINIBLOCK],
) -> u64 {
    if WIDTH == 0 {
        for number in numbers {
            last = last.wrapping_add(step);
            *number = T::of(last);
        }
        return last;
    }
    let mask = u64::MAX >> (u64::BITS as usize - WIDTH);
    let (eights, _) = numbers.as_chunks_mut::<8>();
    for (i, eight) in eights.iter_mut().enumerate() {
        // Eight numbers are whole bytes.
        let bytes = &packed[i * WIDTH..][..WIDTH + SPILL];
        for (n, number) in eight.iter_mut().enumerate() {
            let (byte, bit) = (n * WIDTH / 8, n * WIDTH % 8);
            let above = match WIDTH <= WORD_BITS {
                true => {
                    let word = bytes[byte..].first_chunk().copied().unwrap_or_default();
                    u64::from_le_bytes(word) >> bit
                }
                false => {
                    let word = bytes[byte..].first_chunk().copied().unwrap_or_default();
                    (u128::from_le_bytes(word) >> bit) as u64
                }
            };
            last = last.wrapping_add(step.wrapping_add(above & mask));
            *number = T::of(last);
        }
    }
    last
}
