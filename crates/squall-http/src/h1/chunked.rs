//! Finds the data and the end of a chunked body (RFC 9112, section 7.1).
//!
//! It hands data on and keeps none; extensions are stepped over, and of trailers is said where they are. Lines end with CRLF and
//! nothing else, and trailers are fields: leniency about that is how requests are smuggled. The one liberty is blanks
//! behind a size, which old servers pad it with.

use crate::error::ChunkError;

/// The most bytes of extensions and trailers beyond those of data. Extensions that outweigh their data by more have no
/// other use than to keep the receiver busy.
const MAX_OVERHEAD_BYTES: u32 = 64 * 1024;

/// A 64-bit size has 16 hexadecimal digits.
const MAX_SIZE_DIGITS: u8 = 16;

/// What became of bytes that were offered to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// How many bytes belonged to it.
    pub(super) used: usize,
    /// Whether the body is complete.
    pub(super) is_done: bool,
    /// How many of those bytes, the last ones, are of the trailer section with the empty line that ends it.
    pub(super) trailer_bytes: usize,
}

/// Where in the body the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the size, after so many digits.
    Size { value: u64, digits: u8 },
    /// In blanks behind the size.
    Blank { size: u64 },
    /// In an extension.
    Extension { size: u64 },
    /// At the LF that ends the line of the size.
    SizeLf { size: u64 },
    /// In the data, with so many bytes to come.
    Data { left: u64 },
    /// At the CR behind the data.
    DataCr,
    /// At the LF behind the data.
    DataLf,
    /// At the start of a trailer line, or of the empty line that ends everything.
    LineStart,
    /// In the name of a trailer field.
    Name,
    /// In its value.
    Value,
    /// At the LF that ends a trailer line.
    LineLf,
    /// At the LF that ends everything.
    EndLf,
    /// Behind the body.
    End,
}

impl At {
    /// Whether the next byte is of the trailer section.
    fn is_in_trailers(self) -> bool {
        matches!(
            self,
            At::LineStart | At::Name | At::Value | At::LineLf | At::EndLf
        )
    }
}

/// The state of a chunked body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    at: At,
    overhead_bytes: u32,
}

const START: At = At::Size {
    value: 0,
    digits: 0,
};

impl Chunked {
    pub(super) fn new() -> Chunked {
        Chunked {
            at: START,
            overhead_bytes: 0,
        }
    }

    /// Takes bytes until they or the body end, and hands data to `on_data`.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<Taken, ChunkError> {
        let mut taken = Taken {
            used: 0,
            is_done: false,
            trailer_bytes: 0,
        };
        while let Some(&byte) = bytes.get(taken.used) {
            if let At::Data { left } = self.at {
                let rest = bytes.len() - taken.used;
                let step = usize::try_from(left).map_or(rest, |left| left.min(rest));
                on_data(&bytes[taken.used..][..step]);
                taken.used += step;
                let left = left - step as u64;
                self.at = if left == 0 {
                    At::DataCr
                } else {
                    At::Data { left }
                };
                continue;
            }
            taken.used += 1;
            taken.trailer_bytes += usize::from(self.at.is_in_trailers());
            self.at = self.after(byte)?;
            if self.at == At::End {
                taken.is_done = true;
                break;
            }
        }
        Ok(taken)
    }

    /// The state after a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<At, ChunkError> {
        Ok(match (self.at, byte) {
            (At::Size { value, digits }, byte) => self.after_size(value, digits, byte)?,
            (At::Blank { size } | At::Extension { size }, b'\r') => At::SizeLf { size },
            (At::Blank { size }, b';') => At::Extension { size },
            (at @ At::Blank { .. }, b' ' | b'\t') => self.count_overhead(byte, is_text, at)?,
            (At::Blank { .. }, _) => return Err(ChunkError::Size),
            (at @ At::Extension { .. }, byte) => self.count_overhead(byte, is_text, at)?,
            (At::SizeLf { size: 0 }, b'\n') => At::LineStart,
            (At::SizeLf { size }, b'\n') => At::Data { left: size },
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => START,
            (At::LineStart, b'\r') => At::EndLf,
            (At::Name, b':') => self.count_overhead(byte, is_text, At::Value)?,
            (At::LineStart | At::Name, byte) => self.count_overhead(byte, is_token, At::Name)?,
            (At::Value, b'\r') => At::LineLf,
            (At::Value, byte) => self.count_overhead(byte, is_text, At::Value)?,
            (At::LineLf, b'\n') => At::LineStart,
            (At::EndLf, b'\n') => At::End,
            _ => return Err(ChunkError::LineEnd),
        })
    }

    fn after_size(&mut self, value: u64, digits: u8, byte: u8) -> Result<At, ChunkError> {
        if let Some(digit) = (byte as char).to_digit(16) {
            if digits == MAX_SIZE_DIGITS {
                return Err(ChunkError::TooLong);
            }
            return Ok(At::Size {
                value: value << 4 | u64::from(digit),
                digits: digits + 1,
            });
        }
        if digits == 0 {
            return Err(ChunkError::Size);
        }
        let data = u32::try_from(value).unwrap_or(u32::MAX);
        self.overhead_bytes = self.overhead_bytes.saturating_sub(data);
        match byte {
            b'\r' => Ok(At::SizeLf { size: value }),
            b' ' | b'\t' => Ok(At::Blank { size: value }),
            b';' => Ok(At::Extension { size: value }),
            _ => Err(ChunkError::Size),
        }
    }

    /// The state behind a byte of an extension or a trailer.
    fn count_overhead(
        &mut self,
        byte: u8,
        may_be: fn(u8) -> bool,
        then: At,
    ) -> Result<At, ChunkError> {
        if byte == b'\n' {
            return Err(ChunkError::LineEnd);
        }
        if !may_be(byte) {
            return Err(ChunkError::Character);
        }
        self.overhead_bytes += 1;
        if self.overhead_bytes > MAX_OVERHEAD_BYTES {
            return Err(ChunkError::Overhead);
        }
        Ok(then)
    }
}

/// What a field's value is made of (RFC 9110, section 5.5), and with it an extension.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// What a field's name is made of (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the pieces; returns bytes used and bytes of data, with the end reached.
    fn decode(pieces: &[&[u8]]) -> Result<Option<(usize, usize)>, ChunkError> {
        let mut chunked = Chunked::new();
        let (mut used, mut data) = (0, 0);
        for piece in pieces {
            let taken = chunked.take(piece, |bytes| data += bytes.len())?;
            used += taken.used;
            if taken.is_done {
                return Ok(Some((used, data)));
            }
        }
        Ok(None)
    }

    #[test]
    fn examples() {
        assert_eq!(decode(&[b"0\r\n\r\n"]), Ok(Some((5, 0))));
        assert_eq!(decode(&[b"3\r\nabc\r\n0\r\n\r\nrest"]), Ok(Some((13, 3))));
        assert_eq!(
            decode(&[b"1;x=y\r\na\r\n0 \r\nt: 1\r\nu: 2\r\n\r\n"]),
            Ok(Some((28, 1)))
        );
        assert_eq!(decode(&[b"a\r\n0123456789\r\n0\r\n"]), Ok(None));
    }

    #[test]
    fn malformed_bodies() {
        assert_eq!(decode(&[b"\r\n"]), Err(ChunkError::Size));
        assert_eq!(decode(&[b"-1\r\n"]), Err(ChunkError::Size));
        assert_eq!(decode(&[b"1x\r\n"]), Err(ChunkError::Size));
        assert_eq!(decode(&[b"1\n"]), Err(ChunkError::Size));
        assert_eq!(decode(&[b"1;a\n"]), Err(ChunkError::LineEnd));
        assert_eq!(decode(&[b"1\r\nab"]), Err(ChunkError::LineEnd));
        assert_eq!(decode(&[b"0\r\n\n"]), Err(ChunkError::LineEnd));
        assert_eq!(decode(&[b"1 1\r\n"]), Err(ChunkError::Size));
        assert_eq!(decode(&[b"1;a\0\r\n"]), Err(ChunkError::Character));
        assert_eq!(decode(&[b"1;a\rb\r\n"]), Err(ChunkError::LineEnd));
        assert_eq!(decode(&[b"1\r\na\n0\r\n\r\n"]), Err(ChunkError::LineEnd));
        assert_eq!(decode(&[b"0\r\na: b\n\r\n"]), Err(ChunkError::LineEnd));
        for trailer in [
            "GET / HTTP/1.1\r\n",
            " a: b\r\n",
            "a : b\r\n",
            ": b\r\n",
            "a: \x7f\r\n",
        ] {
            let text = format!("0\r\n{trailer}\r\n");
            assert_eq!(
                decode(&[text.as_bytes()]),
                Err(ChunkError::Character),
                "{trailer:?}"
            );
        }
        assert_eq!(
            decode(&[b"10000000000000000\r\n"]),
            Err(ChunkError::TooLong)
        );
        assert_eq!(
            decode(&[b"0\r\n", &[b'x'; 70_000]]),
            Err(ChunkError::Overhead)
        );
        assert_eq!(decode(&[b"ffffffffffffffff\r\nabc"]), Ok(None));
    }

    #[test]
    fn extensions_may_not_outweigh_the_data_for_long() {
        let chunk = format!("1;{}\r\na\r\n", "x".repeat(1_000));
        assert_eq!(decode(&[chunk.repeat(60).as_bytes()]), Ok(None));
        assert_eq!(
            decode(&[chunk.repeat(70).as_bytes()]),
            Err(ChunkError::Overhead)
        );
        let chunk = format!("3e8;{}\r\n{}\r\n", "x".repeat(1_000), "y".repeat(1_000));
        assert_eq!(decode(&[chunk.repeat(1_000).as_bytes()]), Ok(None));
    }

    proptest! {
        #[test]
        fn any_chunks_in_any_pieces(
            chunks in proptest::collection::vec((1usize..300, "(;[a-z=]{0,9})?"), 0..8),
            trailer in "([a-z]{1,5}: [a-z]{0,9}\r\n){0,3}",
            step in 1usize..64,
        ) {
            let mut text = Vec::new();
            for (len, extension) in &chunks {
                text.extend_from_slice(format!("{len:x}{extension}\r\n").as_bytes());
                text.extend(std::iter::repeat_n(b'\n', *len));
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
            let data = chunks.iter().map(|(len, _)| len).sum::<usize>();
            let expected = Some((text.len(), data));
            text.extend_from_slice(b"not of this body");
            let pieces: Vec<_> = text.chunks(step).collect();
            prop_assert_eq!(decode(&pieces), Ok(expected));
        }

        #[test]
        fn rubbish_never_panics(bytes: Vec<u8>, step in 1usize..16) {
            let whole = decode(&[&bytes]);
            let pieces: Vec<_> = bytes.chunks(step).collect();
            prop_assert_eq!(decode(&pieces), whole);
        }
    }
}
