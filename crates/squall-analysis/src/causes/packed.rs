//! Rows in few bytes, until their connection's turn comes: there are millions of them.
//!
//! A number is written as its difference to one that is known and probably near, seven bits to a byte (LEB128). One
//! function codes a row for writer and reader alike, so that they cannot differ. What a row has is said where its log is:
//! `requests`, `exchanges`, `frames`, `tcp`, `quic`.

/// Bytes of a block from which on the next row begins another one: blocks are never moved.
const BLOCK_BYTES: usize = 8 * 1024;
/// More than a row takes.
const ROW_BYTES: usize = 256;

/// Writes numbers, or reads them back.
pub(super) trait Coder {
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
pub(super) fn mask_of<const N: usize>(numbers: [&Option<u64>; N]) -> u64 {
    let bits = numbers.iter().rev();
    bits.fold(0, |mask, number| mask << 1 | u64::from(number.is_some()))
}

/// Packed rows.
#[derive(Debug, Default)]
pub(super) struct Packed {
    blocks: Vec<Vec<u8>>,
}

impl Packed {
    /// Where the next row is written.
    #[inline]
    pub(super) fn write(&mut self) -> Writer<'_> {
        let is_full = |block: &Vec<u8>| block.len() >= BLOCK_BYTES;
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        } else if self.blocks.last().is_some_and(is_full) {
            self.blocks
                .push(Vec::with_capacity(BLOCK_BYTES + ROW_BYTES));
        }
        let last = self.blocks.len() - 1;
        Writer {
            block: &mut self.blocks[last],
        }
    }

    /// Reads all rows, in the order of writing: as long as there is one, `rows` gives a reader for it.
    pub(super) fn read(&self) -> Reader<'_> {
        Reader {
            blocks: self.blocks.iter(),
            bytes: &[],
        }
    }
}

/// Writes the numbers of a row.
pub(super) struct Writer<'a> {
    block: &'a mut Vec<u8>,
}

impl Coder for Writer<'_> {
    #[inline]
    fn plain(&mut self, number: &mut u64) {
        let mut rest = *number;
        while rest >= 0x80 {
            self.block.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.block.push(rest as u8);
    }
}

/// Reads rows.
pub(super) struct Reader<'a> {
    blocks: std::slice::Iter<'a, Vec<u8>>,
    bytes: &'a [u8],
}

impl Reader<'_> {
    /// Whether there is another row.
    #[inline]
    pub(super) fn has_more(&mut self) -> bool {
        while self.bytes.is_empty() {
            match self.blocks.next() {
                Some(block) => self.bytes = block,
                None => return false,
            }
        }
        true
    }
}

impl Coder for Reader<'_> {
    #[inline]
    fn plain(&mut self, number: &mut u64) {
        let (mut found, mut shift) = (0, 0);
        while let Some((&byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            found |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        *number = found;
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
    }
}
