//! Rows in few bytes, until their connection is processed: there are millions of them.
//!
//! A number is written as its difference from a known number that is probably near. The lowest bit set in its first byte
//! says how many bytes it has, so that it is written and read as one word: with seven bits of it per byte, or as a zero
//! byte followed by the whole word. One function codes a row for both writer and reader, so that they cannot differ. What a
//! row contains is defined where its log is: `requests`, `exchanges`, `frames`, `tcp`, `quic`.

/// The size of a block of memory: a power of two, so that the allocator wastes nothing.
const BLOCK_BYTES: usize = 8 * 1024;
/// The size of the first block, because there are many small logs. Each block is eight times the one before, up to the
/// largest.
const FIRST_BLOCK_BYTES: usize = 64;
/// The most bytes of a number.
const NUMBER_BYTES: usize = 9;

/// Writes numbers, or reads them back.
pub(crate) trait Coder {
    /// Whether it writes: a reader need not compute what only a writer needs.
    const WRITES: bool;

    /// Codes a number that is small.
    fn plain(&mut self, number: &mut u64);

    /// Codes a number near to `known`.
    #[inline]
    fn near(&mut self, known: u64, number: &mut u64) {
        let mut folded = folded(known, *number);
        self.plain(&mut folded);
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        *number = known.wrapping_add(difference);
    }

    /// Codes a number near to `known` that may be missing, as the last bit of `mask` says.
    #[inline]
    fn near_if(&mut self, mask: u64, known: u64, number: &mut Option<u64>) {
        *number = (mask & 1 == 1).then(|| {
            let mut some = number.unwrap_or(0);
            self.near(known, &mut some);
            some
        });
    }
}

/// A difference, folded into a number that is small if the difference is near zero on either side.
#[inline]
fn folded(known: u64, number: u64) -> u64 {
    let difference = number.wrapping_sub(known).cast_signed();
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// One bit for each of these numbers, set if it is present; the first is the last bit.
pub(crate) fn mask_of<const N: usize>(numbers: [&Option<u64>; N]) -> u64 {
    let bits = numbers.iter().rev();
    bits.fold(0, |mask, number| mask << 1 | u64::from(number.is_some()))
}

/// A row that is coded relative to the one before it.
pub(crate) trait DeltaCoded: Clone + Default {
    fn code(&mut self, coder: &mut impl Coder, before: &Self);
}

/// The rows of one log, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct PackedLog<R> {
    rows: PackedRows,
    before: R,
}

impl<R: DeltaCoded> PackedLog<R> {
    pub(crate) fn add(&mut self, mut row: R) {
        row.code(&mut self.rows.write(), &self.before);
        self.before = row;
    }

    /// The rows; what is not coded is as in `blank`.
    pub(crate) fn unpack(&self, blank: R) -> Vec<R> {
        let mut rows = vec![blank; self.rows.rows()];
        let mut reader = self.rows.read();
        let mut before = &R::default();
        for row in &mut rows {
            row.code(&mut reader, before);
            before = row;
        }
        rows
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowStart {
    block: u32,
    byte: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PackedRows {
    full_blocks: Vec<Vec<u8>>,
    /// The block that is being filled, and how many of its bytes are used.
    block: Vec<u8>,
    used: usize,
    rows: usize,
}

impl PackedRows {
    /// A writer for the next row.
    #[inline]
    pub(crate) fn write(&mut self) -> Writer<'_> {
        self.rows += 1;
        Writer {
            length: self.used,
            full_blocks: &mut self.full_blocks,
            block: &mut self.block,
            used: &mut self.used,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn next_start(&self) -> RowStart {
        RowStart {
            block: self.full_blocks.len() as u32,
            byte: self.used as u32,
        }
    }

    /// Reads all rows, in the order of writing.
    pub(crate) fn read(&self) -> Reader<'_> {
        self.read_from(RowStart::default())
    }

    /// Reads the rows from `start` on.
    #[inline]
    pub(crate) fn read_from(&self, start: RowStart) -> Reader<'_> {
        let mut reader = Reader {
            blocks: self
                .full_blocks
                .get(start.block as usize..)
                .unwrap_or_default()
                .iter(),
            last: &self.block[..self.used],
            bytes: &[],
        };
        reader.next_block();
        reader.skip(start.byte as usize);
        reader
    }
}

/// Writes the numbers of a row, each into the block that has room for it.
pub(crate) struct Writer<'a> {
    full_blocks: &'a mut Vec<Vec<u8>>,
    block: &'a mut Vec<u8>,
    used: &'a mut usize,
    length: usize,
}

impl Writer<'_> {
    #[cold]
    #[inline(never)]
    fn begin_block(&mut self) {
        let bytes = FIRST_BLOCK_BYTES << (3 * self.full_blocks.len()).min(7);
        let mut block = std::mem::replace(self.block, vec![0; bytes.min(BLOCK_BYTES)]);
        if !block.is_empty() {
            block.truncate(self.length);
            self.full_blocks.push(block);
        }
        self.length = 0;
    }
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.used = self.length;
    }
}

impl Coder for Writer<'_> {
    const WRITES: bool = true;

    #[inline]
    fn plain(&mut self, number: &mut u64) {
        if self.length + NUMBER_BYTES > self.block.len() {
            self.begin_block();
        }
        let number = *number;
        let bits = u64::BITS - (number | 1).leading_zeros();
        // One byte for every seven bits, rounded up, without a division; up to 64 bits the result is the same.
        let bytes = ((9 * bits + 64) >> 6) as usize;
        let Some(place) = self.block[self.length..].first_chunk_mut::<NUMBER_BYTES>() else {
            unreachable!("a block has room for a number");
        };
        if bytes < NUMBER_BYTES {
            let word = number << bytes | 1 << (bytes - 1);
            place[..8].copy_from_slice(&word.to_le_bytes());
            self.length += bytes;
        } else {
            place[0] = 0;
            place[1..].copy_from_slice(&number.to_le_bytes());
            self.length += NUMBER_BYTES;
        }
    }

    /// A writer leaves the number unchanged.
    #[inline]
    fn near(&mut self, known: u64, number: &mut u64) {
        self.plain(&mut folded(known, *number));
    }
}

pub(crate) struct Reader<'a> {
    blocks: std::slice::Iter<'a, Vec<u8>>,
    last: &'a [u8],
    bytes: &'a [u8],
}

impl Reader<'_> {
    #[inline]
    pub(crate) fn has_more(&mut self) -> bool {
        while self.bytes.is_empty() {
            if !self.next_block() {
                return false;
            }
        }
        true
    }

    fn next_block(&mut self) -> bool {
        self.bytes = match self.blocks.next() {
            Some(block) => block,
            None if self.last.is_empty() => return false,
            None => std::mem::take(&mut self.last),
        };
        true
    }

    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.bytes = self.bytes.get(bytes..).unwrap_or_default();
    }
}

/// The word that `bytes` begin with; missing bytes are zero.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(whole)
        }
    }
}

impl Coder for Reader<'_> {
    const WRITES: bool = false;

    #[inline]
    fn plain(&mut self, number: &mut u64) {
        if self.bytes.is_empty() {
            // A row may continue in another block.
            self.has_more();
        }
        let first = word(self.bytes);
        let bytes = first.trailing_zeros() + 1;
        if bytes as usize >= NUMBER_BYTES {
            self.skip(1);
            *number = word(self.bytes);
            self.skip(8);
            return;
        }
        *number = first << (64 - 8 * bytes) >> (64 - 7 * bytes);
        self.skip(bytes as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 9] = [
        0,
        1,
        127,
        128,
        16_384,
        1 << 40,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];

    fn code(coder: &mut impl Coder, row: &mut (u64, u64, Option<u64>)) {
        let mut mask = mask_of([&row.2]);
        coder.plain(&mut mask);
        coder.plain(&mut row.0);
        coder.near(1 << 32, &mut row.1);
        coder.near_if(mask, 5, &mut row.2);
    }

    #[test]
    fn every_number_is_read_back() {
        let mut packed = PackedRows::default();
        let rows = || {
            let numbers = NUMBERS.into_iter().cycle().take(5_000);
            numbers.map(|number| (number, number, (number != 127).then_some(number)))
        };
        rows().for_each(|mut row| code(&mut packed.write(), &mut row));
        assert!(packed.full_blocks.len() > 5);
        let mut reader = packed.read();
        for expected in rows() {
            assert!(reader.has_more());
            let mut row = Default::default();
            code(&mut reader, &mut row);
            assert_eq!(row, expected);
        }
        assert!(!reader.has_more());
        assert_eq!(packed.rows(), 5_000);
    }

    #[test]
    fn a_number_takes_one_byte_per_seven_bits_rounded_up() {
        for bits in 1..=64_u32 {
            let mut packed = PackedRows::default();
            packed.write().plain(&mut (u64::MAX >> (64 - bits)));
            let bytes = bits.div_ceil(7) as usize;
            assert_eq!(packed.used, bytes.min(NUMBER_BYTES), "{bits} bits");
        }
    }

    #[test]
    fn a_row_may_continue_in_another_block() {
        let mut packed = PackedRows::default();
        for _ in 0..100 {
            let mut writer = packed.write();
            (0..40).for_each(|n| writer.plain(&mut (u64::MAX - n)));
        }
        let mut reader = packed.read();
        for n in (0..100).flat_map(|_| 0..40) {
            let mut number = 0;
            reader.plain(&mut number);
            assert_eq!(number, u64::MAX - n);
        }
        assert!(!reader.has_more());
    }
}
