//! Packs numbers and flags as bits, least significant first: the basis of all of Parquet's packings.
//!
//! It knows neither pages nor columns. The formats are defined in parquet-format's Encodings.md; `delta` and `runs`
//! build on this module.

/// How many numbers are packed at once.
pub(super) const MINIBLOCK: usize = 64;

/// Appends a number in groups of seven bits, the least significant first (ULEB128).
pub(super) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number in zigzag encoding, so that small negative numbers stay short too.
pub(super) fn put_zigzag(number: i64, out: &mut Vec<u8>) {
    put_varint(((number << 1) ^ (number >> 63)) as u64, out);
}

/// The number of bits that a number needs.
pub(super) fn width_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Bytes after the packed ones that `pack` may overwrite.
pub(super) const SPILL: usize = 32;

/// Packs numbers of at most `width` bits into the first `width * 8` bytes of `bytes`, which must have `SPILL` more.
///
/// Eight numbers always fill whole bytes. Up to 32 bits they are combined without branches and without a carry between
/// groups of eight, so that the processor can work on several groups in parallel; wider numbers are rare. Widths of
/// whole bytes are copied.
pub(super) fn pack<T: Copy + Into<u64>>(numbers: &[T; MINIBLOCK], width: u32, bytes: &mut [u8]) {
    let size = width as usize;
    let bytes = &mut bytes[..MINIBLOCK / 8 * size + SPILL];
    let (eights, _) = numbers.as_chunks::<8>();
    match width {
        0 => {}
        8 => copy_bytes::<_, 1>(numbers, bytes),
        16 => copy_bytes::<_, 2>(numbers, bytes),
        24 => copy_bytes::<_, 3>(numbers, bytes),
        32 => copy_bytes::<_, 4>(numbers, bytes),
        1..=16 => {
            for (i, eight) in eights.iter().enumerate() {
                bytes[i * size..][..16].copy_from_slice(&pack_eight(eight, width));
            }
        }
        17..=32 => {
            for (i, eight) in eights.iter().enumerate() {
                pack_wide_eight(eight, width, &mut bytes[i * size..][..32]);
            }
        }
        _ => pack_widest(numbers, width, bytes),
    }
}

/// Copies the lowest bytes of each number.
fn copy_bytes<T: Copy + Into<u64>, const BYTES: usize>(numbers: &[T; MINIBLOCK], bytes: &mut [u8]) {
    let (places, _) = bytes.as_chunks_mut::<BYTES>();
    for (place, number) in places.iter_mut().zip(numbers) {
        let number: u64 = (*number).into();
        place.copy_from_slice(&number.to_le_bytes()[..BYTES]);
    }
}

/// Combines two numbers of at most 32 bits.
fn pair<T: Copy + Into<u64>>(numbers: [T; 2], width: u32) -> u64 {
    numbers[0].into() | numbers[1].into() << width
}

/// Packs eight numbers of at most 16 bits; only the first `width` bytes of the result count.
pub(super) fn pack_eight<T: Copy + Into<u64>>(numbers: &[T; 8], width: u32) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = *numbers;
    let low = pair([a, b], width) | pair([c, d], width) << (2 * width);
    let high = pair([e, f], width) | pair([g, h], width) << (2 * width);
    (u128::from(low) | u128::from(high) << (4 * width)).to_le_bytes()
}

/// Packs eight numbers of 17 to 32 bits into the first `width` of 32 bytes.
fn pack_wide_eight<T: Copy + Into<u64>>(numbers: &[T; 8], width: u32, bytes: &mut [u8]) {
    let four = |[a, b, c, d]: [T; 4]| {
        u128::from(pair([a, b], width)) | u128::from(pair([c, d], width)) << (2 * width)
    };
    let [a, b, c, d, e, f, g, h] = *numbers;
    let (low, high) = (four([a, b, c, d]), four([e, f, g, h]));
    // Four numbers of an odd width end in the middle of a byte, whose other half belongs to the next four.
    let odd = 4 * (width % 2);
    let from = (width / 2) as usize;
    let shared = low.checked_shr(4 * width - odd).unwrap_or(0);
    bytes[..16].copy_from_slice(&low.to_le_bytes());
    bytes[from..from + 16].copy_from_slice(&(high << odd | shared).to_le_bytes());
}

/// Packs numbers of any width up to 64.
fn pack_widest<T: Copy + Into<u64>>(numbers: &[T; MINIBLOCK], width: u32, bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    let mut words = words.iter_mut();
    let (mut word, mut filled) = (0, 0);
    for number in numbers {
        let number: u64 = (*number).into();
        word |= number << filled;
        filled += width;
        if filled >= 64 {
            if let Some(place) = words.next() {
                *place = word.to_le_bytes();
            }
            filled -= 64;
            // Shifted in two steps, because all 64 bits of the number may already be in the word.
            word = (number >> 1) >> (width - filled - 1);
        }
    }
}

/// A sequence of flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    /// Empty as long as all flags are equal.
    words: Vec<u64>,
    len: usize,
    ones: usize,
}

impl Bits {
    /// Appends the lowest `count` bits, at most 64; those above must be 0.
    pub(super) fn push(&mut self, bits: u64, count: usize) {
        if bits == 0 || bits == lowest(count) {
            return self.push_same(bits > 0, count);
        }
        self.spread();
        self.append(bits, count);
        self.len += count;
        self.ones += bits.count_ones() as usize;
    }

    /// Appends the same flag `count` times.
    pub(super) fn push_same(&mut self, flag: bool, count: usize) {
        let are_same = self.words.is_empty() && self.ones == if flag { self.len } else { 0 };
        if !are_same {
            self.spread();
            self.append_same(flag, count);
        }
        self.len += count;
        self.ones += if flag { count } else { 0 };
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn ones(&self) -> usize {
        self.ones
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        (self.len, self.ones) = (0, 0);
    }

    /// Writes the flags so far into words, if they have all been equal.
    fn spread(&mut self) {
        if self.words.is_empty() {
            let len = std::mem::take(&mut self.len);
            self.append_same(self.ones > 0, len);
            self.len = len;
        }
    }

    fn append_same(&mut self, flag: bool, count: usize) {
        let before = self.len;
        let mut remaining = count;
        while remaining > 0 {
            let now = remaining.min(64);
            self.append(if flag { lowest(now) } else { 0 }, now);
            self.len += now;
            remaining -= now;
        }
        self.len = before;
    }

    /// Appends the lowest `count` bits after `len` flags.
    fn append(&mut self, bits: u64, count: usize) {
        let at = self.len % 64;
        match self.words.last_mut() {
            Some(word) if at > 0 => {
                *word |= bits << at;
                if at + count > 64 {
                    self.words.push(bits >> (64 - at));
                }
            }
            _ => self.words.push(bits),
        }
    }

    /// Appends one bit for each flag.
    pub(super) fn put_plain(&mut self, out: &mut Vec<u8>) {
        self.spread();
        let bytes = out.len() + self.len.div_ceil(8);
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        out.truncate(bytes);
    }

    /// Appends the flags in Parquet's hybrid of runs and packed bits: uniform words as runs, others as packed bits.
    pub(super) fn put_runs(&self, out: &mut Vec<u8>) {
        if self.ones == 0 || self.ones == self.len {
            return put_run(self.len, self.ones > 0, out);
        }
        let mut rest = &self.words[..];
        let mut remaining = self.len;
        while let Some(first) = rest.first() {
            let is_uniform = |word: u64| word == 0 || word == u64::MAX;
            // The last word may be incomplete; it is always written as packed bits.
            let whole = &rest[..remaining / 64];
            let same = whole.iter().take_while(|word| *word == first).count();
            if is_uniform(*first) && same > 0 {
                put_run(same * 64, *first > 0, out);
                (rest, remaining) = (&rest[same..], remaining - same * 64);
                continue;
            }
            let mixed = whole.iter().take_while(|word| !is_uniform(**word)).count();
            let (words, after) = rest.split_at(mixed.max(1));
            let flags = remaining.min(words.len() * 64);
            let groups = flags.div_ceil(8);
            put_varint((groups as u64) << 1 | 1, out);
            let end = out.len() + groups;
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            out.truncate(end);
            (rest, remaining) = (after, remaining - flags);
        }
    }
}

/// A word whose lowest `count` bits, up to 64, are 1.
fn lowest(count: usize) -> u64 {
    u64::MAX.checked_shr(64 - count as u32).unwrap_or(0)
}

fn put_run(len: usize, flag: bool, out: &mut Vec<u8>) {
    put_varint((len as u64) << 1, out);
    out.push(u8::from(flag));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs over other bytes, as happens in a page.
    fn packed<T: Copy + Into<u64>>(numbers: &[T; MINIBLOCK], width: u32) -> Vec<u8> {
        let bytes = MINIBLOCK / 8 * width as usize;
        let mut out = vec![0xaa; bytes + SPILL];
        pack(numbers, width, &mut out);
        out.truncate(bytes);
        out
    }

    /// Encodings.md, "Run Length Encoding / Bit-Packing Hybrid": the numbers 0 to 7 in three bits each.
    #[test]
    fn packing_matches_the_example_of_the_format() {
        let mut numbers = [0_u64; MINIBLOCK];
        for (place, number) in numbers.iter_mut().zip(0..8) {
            *place = number;
        }
        let out = packed(&numbers, 3);
        assert_eq!(out[..3], [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        assert_eq!(out[3..], [0; 21]);
    }

    /// Checks every width bit by bit.
    #[test]
    fn numbers_of_every_width_are_packed_in_order() {
        for width in 0..=64 {
            let numbers: [u64; MINIBLOCK] = std::array::from_fn(|i| {
                let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed.checked_shr(64 - width).unwrap_or(0)
            });
            let out = packed(&numbers, width);
            if width <= 32 {
                assert_eq!(packed(&numbers.map(|number| number as u32), width), out);
            }
            for (place, number) in numbers.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = place * width as usize + bit;
                    let packed = u64::from(out[at / 8] >> (at % 8) & 1);
                    assert_eq!(packed, number >> bit & 1, "width {width}, number {place}");
                }
            }
        }
    }

    #[test]
    fn zigzag_varints_match_the_format() {
        let bytes = |number| {
            let mut out = Vec::new();
            put_zigzag(number, &mut out);
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(-1), [1]);
        assert_eq!(bytes(1), [2]);
        assert_eq!(bytes(-64), [127]);
        assert_eq!(bytes(64), [128, 1]);
        assert_eq!(bytes(i64::MIN).len(), 10);
    }

    #[test]
    fn equal_flags_become_one_run() {
        let mut bits = Bits::default();
        bits.push(0b111, 3);
        bits.push(u64::MAX, 64);
        let mut out = Vec::new();
        bits.put_runs(&mut out);
        assert_eq!(out, [134, 1, 1]);
    }

    #[test]
    fn mixed_flags_become_packed_bits() {
        let mut bits = Bits::default();
        bits.push(0b1_0110, 5);
        bits.push(0b101, 5);
        let mut out = Vec::new();
        bits.put_runs(&mut out);
        assert_eq!(out, [2 << 1 | 1, 0b1011_0110, 0]);
        out.clear();
        bits.put_plain(&mut out);
        assert_eq!(out, [0b1011_0110, 0]);
        assert_eq!((bits.len(), bits.ones()), (10, 5));
    }

    /// However flags are split into pieces, and however many of the first ones are equal.
    #[test]
    fn flags_keep_their_order() {
        let pieces = [
            (3, 0b111),
            (64, u64::MAX),
            (70, 1),
            (5, 0b101),
            (2, 0),
            (64, 0),
        ];
        for from in 0..pieces.len() {
            let (mut bits, mut flags) = (Bits::default(), Vec::new());
            for (count, pattern) in pieces.iter().cycle().skip(from).take(pieces.len()).copied() {
                if count > 64 {
                    bits.push_same(pattern > 0, count);
                    flags.resize(flags.len() + count, pattern > 0);
                } else {
                    bits.push(pattern, count);
                    flags.extend((0..count).map(|i| pattern >> i & 1 > 0));
                }
            }
            let mut out = Vec::new();
            bits.put_plain(&mut out);
            let read: Vec<bool> = (0..flags.len())
                .map(|i| out[i / 8] >> (i % 8) & 1 > 0)
                .collect();
            assert_eq!(read, flags, "{from}");
            let ones = flags.iter().filter(|flag| **flag).count();
            assert_eq!((bits.len(), bits.ones()), (flags.len(), ones));
        }
    }
}
