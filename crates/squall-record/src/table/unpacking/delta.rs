//! Decodes integers from differences between neighbours: Parquet's DELTA_BINARY_PACKED, in blocks of the size that
//! `packing::delta` writes.
//!
//! It decodes only what our packer writes. It refuses everything else, which the parquet crate then decodes
//! (`Chunk::Fallback`), so it must never return other numbers than that crate would. It does not handle nulls (`levels`
//! does).

use bytes::Bytes;

/// Numbers per miniblock, and miniblocks per block.
const MINIBLOCK: usize = 64;
const MINIBLOCKS: usize = 4;
/// Bytes after a miniblock that are read along with its last numbers.
const SPILL: usize = 16;
/// The widest number that can be read as one word, at whatever bit of a byte it begins.
const WORD_BITS: usize = 57;

/// The type of a column's numbers. All sums are computed in 64 bits; a narrow number takes the lower half.
pub(in crate::table) trait Number: Copy + Default {
    /// The width of its Parquet type in bits.
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

/// The remaining numbers of a page.
#[derive(Debug)]
pub(super) struct Deltas<T> {
    bytes: Bytes,
    at: usize,
    /// Numbers of the page after the current miniblock.
    remaining: usize,
    last: u64,
    /// The block's smallest difference, which is added to every packed one.
    step: u64,
    widths: [u8; MINIBLOCKS],
    /// The index of the block's next miniblock.
    next: usize,
    /// The current miniblock, how many of its numbers are valid, and how many of those have been returned.
    miniblock: [T; MINIBLOCK],
    filled: usize,
    returned: usize,
}

impl<T: Number> Deltas<T> {
    /// Starts on the values of a page; `None` if their layout is not that of our packer.
    pub(super) fn of(bytes: Bytes) -> Option<Deltas<T>> {
        let mut deltas = Deltas {
            bytes,
            at: 0,
            remaining: 0,
            last: 0,
            step: 0,
            widths: [0; MINIBLOCKS],
            next: MINIBLOCKS,
            miniblock: [T::default(); MINIBLOCK],
            filled: 0,
            returned: 0,
        };
        let has_our_blocks = deltas.varint()? == (MINIBLOCK * MINIBLOCKS) as u64
            && deltas.varint()? == MINIBLOCKS as u64;
        if !has_our_blocks {
            return None;
        }
        // The parquet crate reads the count as a signed number.
        let count = usize::try_from(deltas.varint()?.cast_signed()).ok()?;
        deltas.last = deltas.zigzag()?;
        if let Some(behind) = count.checked_sub(1) {
            (deltas.remaining, deltas.filled) = (behind, 1);
            deltas.miniblock[0] = T::of(deltas.last);
        }
        Some(deltas)
    }

    /// Appends the next `count` numbers; `None` if they cannot be decoded here.
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<T>) -> Option<()> {
        let end = out.len() + count;
        loop {
            let wanted = (end - out.len()).min(self.filled - self.returned);
            out.extend_from_slice(&self.miniblock[self.returned..][..wanted]);
            self.returned += wanted;
            if out.len() == end {
                return Some(());
            }
            self.fill()?;
        }
    }

    /// Decodes the next miniblock.
    fn fill(&mut self) -> Option<()> {
        if self.remaining == 0 {
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
        self.filled = self.remaining.min(MINIBLOCK);
        self.remaining -= self.filled;
        self.returned = 0;
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

    /// Reads a number in zigzag encoding; `None` if it does not fit the column's width.
    fn zigzag(&mut self) -> Option<u64> {
        let folded = self.varint()?;
        let number = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        let fits = T::BITS == u64::BITS || i32::try_from(number).is_ok();
        fits.then_some(number.cast_unsigned())
    }
}

/// Decodes a miniblock: each number is the one before it plus `step` plus its packed difference, starting from `last`.
/// Returns the last number. `packed` has [`SPILL`] bytes more than the miniblock.
fn add_up<T: Number>(
    width: usize,
    packed: &[u8],
    step: u64,
    last: u64,
    numbers: &mut [T; MINIBLOCK],
) -> u64 {
    /// Calls a function specialized for the width, so that everything that depends on it is a constant.
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
        // Eight numbers always fill whole bytes.
        let bytes = &packed[i * WIDTH..][..WIDTH + SPILL];
        for (n, number) in eight.iter_mut().enumerate() {
            let (byte, bit) = (n * WIDTH / 8, n * WIDTH % 8);
            let above = if WIDTH <= WORD_BITS {
                let word = bytes[byte..].first_chunk().copied().unwrap_or_default();
                u64::from_le_bytes(word) >> bit
            } else {
                let word = bytes[byte..].first_chunk().copied().unwrap_or_default();
                (u128::from_le_bytes(word) >> bit) as u64
            };
            last = last.wrapping_add(step.wrapping_add(above & mask));
            *number = T::of(last);
        }
    }
    last
}
