//! Rows in few bytes, until their connection's turn comes: there are millions of them.
//!
//! A number is written as its difference to one that is known and probably near. Its first byte says by its lowest bit that
//! is set how many bytes it has, so that it is written and read as one word: seven bits of it to a byte, and after a byte of
//! zero the whole word. One function codes a row for writer and reader alike, so that they cannot differ. What a row has is
//! said where its log is: `requests`, `exchanges`, `frames`, `tcp`, `quic`.

/// A block of memory: a power of two, of which an allocator wastes nothing.
const BLOCK_BYTES: usize = 8 * 1024;
/// What a row is gathered in. One that takes more is written in parts.
const ROW_BYTES: usize = 256;
/// Most bytes of a number.
const NUMBER_BYTES: usize = 9;

/// Writes numbers, or reads them back.
pub(crate) trait Coder {
    /// A number that is small.
    fn plain(&mut self, number: &mut u64);

    /// A number near to `known`.
    fn near(&mut self, known: u64, number: &mut u64) {
        let difference = number.wrapping_sub(known).cast_signed();
        // Small ones below zero are small, too.
        let mut folded = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        self.plain(&mut folded);
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        *number = known.wrapping_add(difference);
    }

    /// The same of a number that may be missing, as the last bit of `mask` says.
    fn near_if(&mut self, mask: u64, known: u64, number: &mut Option<u64>) {
        *number = (mask & 1 == 1).then(|| {
            let mut some = number.unwrap_or(0);
            self.near(known, &mut some);
            some
        });
    }
}

/// One bit for each of these, whether it is there; the first is the last bit.
pub(crate) fn mask_of<const N: usize>(numbers: [&Option<u64>; N]) -> u64 {
    let bits = numbers.iter().rev();
    bits.fold(0, |mask, number| mask << 1 | u64::from(number.is_some()))
}

/// Packed rows.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    blocks: Vec<Vec<u8>>,
    rows: usize,
}

impl Packed {
    /// Where the next row is written, which is there when the writer is dropped.
    #[inline]
    pub(crate) fn write(&mut self) -> Writer<'_> {
        self.rows += 1;
        Writer {
            blocks: &mut self.blocks,
            row: [0; ROW_BYTES],
            length: 0,
        }
    }

    /// How many rows were written.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads all rows, in the order of writing: as long as there is one, `rows` gives a reader for it.
    pub(crate) fn read(&self) -> Reader<'_> {
        Reader {
            blocks: self.blocks.iter(),
            bytes: &[],
        }
    }
}

/// Writes the numbers of a row.
pub(crate) struct Writer<'a> {
    blocks: &'a mut Vec<Vec<u8>>,
    row: [u8; ROW_BYTES],
    length: usize,
}

impl Writer<'_> {
    /// Moves what there is into a block; the first one of many small logs shall be small.
    fn put(&mut self) {
        let row = &self.row[..self.length];
        match self.blocks.last_mut() {
            Some(block) if block.len() + row.len() <= BLOCK_BYTES => block.extend_from_slice(row),
            last => {
                let mut block = Vec::with_capacity(match last {
                    Some(_) => BLOCK_BYTES,
                    None => row.len().next_power_of_two(),
                });
                block.extend_from_slice(row);
                self.blocks.push(block);
            }
        }
        self.length = 0;
    }
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        self.put();
    }
}

impl Coder for Writer<'_> {
    #[inline]
    fn plain(&mut self, number: &mut u64) {
        if self.length > ROW_BYTES - NUMBER_BYTES {
            self.put();
        }
        let number = *number;
        if number < 1 << 7 {
            self.row[self.length] = (number << 1 | 1) as u8;
            self.length += 1;
            return;
        }
        let bits = u64::BITS - number.leading_zeros();
        let bytes = (bits as usize).div_ceil(7);
        let place = &mut self.row[self.length..self.length + NUMBER_BYTES];
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
}

/// Reads rows.
pub(crate) struct Reader<'a> {
    blocks: std::slice::Iter<'a, Vec<u8>>,
    bytes: &'a [u8],
}

impl Reader<'_> {
    /// Whether there is another row.
    #[inline]
    pub(crate) fn has_more(&mut self) -> bool {
        while self.bytes.is_empty() {
            match self.blocks.next() {
                Some(block) => self.bytes = block,
                None => return false,
            }
        }
        true
    }

    fn skip(&mut self, bytes: usize) {
        self.bytes = self.bytes.get(bytes..).unwrap_or_default();
    }
}

/// The word that `bytes` begin with; what is missing is zero.
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
    #[inline]
    fn plain(&mut self, number: &mut u64) {
        if self.bytes.is_empty() {
            // A row of many numbers may go on in another block.
            self.has_more();
        }
        if let Some((&first, rest)) = self.bytes.split_first()
            && first & 1 == 1
        {
            *number = u64::from(first >> 1);
            self.bytes = rest;
            return;
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
    fn every_number_comes_back() {
        let mut packed = Packed::default();
        let rows = || {
            let numbers = NUMBERS.into_iter().cycle().take(5_000);
            numbers.map(|number| (number, number, (number != 127).then_some(number)))
        };
        rows().for_each(|mut row| code(&mut packed.write(), &mut row));
        assert!(packed.blocks.len() > 5);
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
    fn a_row_of_many_numbers_is_written_in_parts() {
        let mut packed = Packed::default();
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
