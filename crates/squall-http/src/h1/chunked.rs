//! Finds the data and the end of a chunked body (RFC 9112, section 7.1).
//!
//! It passes data on and stores nothing. Extensions are skipped, and for trailers only their position is reported.
//! Lines must end with CRLF, and trailers must be fields: leniency here is what enables request smuggling. There are two
//! exceptions: blanks after a size, because old servers pad it with them, and folded trailers of a response (`folds`).

use crate::error::ChunkError;

/// The most bytes by which extensions and trailers may exceed the data. Extensions beyond that serve no purpose other
/// than to keep the receiver busy.
const MAX_OVERHEAD_BYTES: u32 = 64 * 1024;

/// A 64-bit size has 16 hexadecimal digits.
const MAX_SIZE_DIGITS: u8 = 16;

/// How a body used the bytes offered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyProgress {
    /// How many bytes belonged to the body.
    pub(super) used: usize,
    /// Whether the body is complete.
    pub(super) is_done: bool,
    /// How many of those bytes, at their end, belong to the trailer section, including its final empty line.
    pub(super) trailer_bytes: usize,
}

/// The position of the next byte in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// In the size, after this many digits.
    Size { value: u64, digits: u8 },
    /// In blanks after the size.
    Blank { size: u64 },
    /// In an extension.
    Extension { size: u64 },
    /// At the LF that ends the size line.
    SizeLf { size: u64 },
    /// In the data, with `left` bytes to come.
    Data { left: u64 },
    /// At the CR after the data.
    DataCr,
    /// At the LF after the data.
    DataLf,
    /// At the start of the first trailer line, or of the empty line that ends the body.
    FirstLine,
    /// At the start of a later trailer line, or of the empty line that ends the body.
    NextLine,
    /// In the name of a trailer field.
    Name,
    /// In the value of a trailer field.
    Value,
    /// At the LF that ends a trailer line.
    LineLf,
    /// At the LF that ends the body.
    EndLf,
    /// After the body.
    End,
}

impl Position {
    /// Whether the next byte belongs to the trailer section.
    fn is_in_trailers(self) -> bool {
        matches!(
            self,
            Position::FirstLine
                | Position::NextLine
                | Position::Name
                | Position::Value
                | Position::LineLf
                | Position::EndLf
        )
    }
}

/// The state of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    position: Position,
    overhead_bytes: u32,
    /// Whether a line of trailers may continue the one before it.
    may_fold: bool,
}

const START: Position = Position::Size {
    value: 0,
    digits: 0,
};

impl Chunked {
    pub(super) fn of_request() -> Chunked {
        Chunked {
            position: START,
            overhead_bytes: 0,
            may_fold: false,
        }
    }

    pub(super) fn of_response() -> Chunked {
        Chunked {
            may_fold: true,
            ..Chunked::of_request()
        }
    }

    /// Takes bytes up to their end or the end of the body, and passes data to `on_data`.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<BodyProgress, ChunkError> {
        let mut taken = BodyProgress {
            used: 0,
            is_done: false,
            trailer_bytes: 0,
        };
        while let Some(&byte) = bytes.get(taken.used) {
            if let Position::Data { left } = self.position {
                let rest = bytes.len() - taken.used;
                let step = usize::try_from(left).map_or(rest, |left| left.min(rest));
                on_data(&bytes[taken.used..][..step]);
                taken.used += step;
                let left = left - step as u64;
                self.position = if left == 0 {
                    Position::DataCr
                } else {
                    Position::Data { left }
                };
                continue;
            }
            taken.used += 1;
            taken.trailer_bytes += usize::from(self.position.is_in_trailers());
            self.position = self.after(byte)?;
            if self.position == Position::End {
                taken.is_done = true;
                break;
            }
        }
        Ok(taken)
    }

    /// The state after a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<Position, ChunkError> {
        Ok(match (self.position, byte) {
            (Position::Size { value, digits }, byte) => self.after_size(value, digits, byte)?,
            (Position::Blank { size } | Position::Extension { size }, b'\r') => {
                Position::SizeLf { size }
            }
            (Position::Blank { size }, b';') => Position::Extension { size },
            (at @ Position::Blank { .. }, b' ' | b'\t') => {
                self.count_overhead(byte, is_text, at)?
            }
            (Position::Blank { .. }, _) => return Err(ChunkError::Size),
            (at @ Position::Extension { .. }, byte) => self.count_overhead(byte, is_text, at)?,
            (Position::SizeLf { size: 0 }, b'\n') => Position::FirstLine,
            (Position::SizeLf { size }, b'\n') => Position::Data { left: size },
            (Position::DataCr, b'\r') => Position::DataLf,
            (Position::DataLf, b'\n') => START,
            (Position::FirstLine | Position::NextLine, b'\r') => Position::EndLf,
            (Position::NextLine, b' ' | b'\t') if self.may_fold => {
                self.count_overhead(byte, is_text, Position::Value)?
            }
            (Position::Name, b':') => self.count_overhead(byte, is_text, Position::Value)?,
            (Position::FirstLine | Position::NextLine | Position::Name, byte) => {
                self.count_overhead(byte, is_token, Position::Name)?
            }
            (Position::Value, b'\r') => Position::LineLf,
            (Position::Value, byte) => self.count_overhead(byte, is_text, Position::Value)?,
            (Position::LineLf, b'\n') => Position::NextLine,
            (Position::EndLf, b'\n') => Position::End,
            _ => return Err(ChunkError::LineEnd),
        })
    }

    fn after_size(&mut self, value: u64, digits: u8, byte: u8) -> Result<Position, ChunkError> {
        if let Some(digit) = (byte as char).to_digit(16) {
            if digits == MAX_SIZE_DIGITS {
                return Err(ChunkError::TooLong);
            }
            return Ok(Position::Size {
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
            b'\r' => Ok(Position::SizeLf { size: value }),
            b' ' | b'\t' => Ok(Position::Blank { size: value }),
            b';' => Ok(Position::Extension { size: value }),
            _ => Err(ChunkError::Size),
        }
    }

    /// Checks and counts a byte of an extension or a trailer. The state after it is `then`.
    fn count_overhead(
        &mut self,
        byte: u8,
        may_be: fn(u8) -> bool,
        then: Position,
    ) -> Result<Position, ChunkError> {
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

/// Whether the byte is allowed in a field value (RFC 9110, section 5.5), and so in an extension.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// Whether the byte is allowed in a field name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the pieces; returns the bytes used and the bytes of data if the end is reached.
    fn decode(pieces: &[&[u8]]) -> Result<Option<(usize, usize)>, ChunkError> {
        decode_with(Chunked::of_request(), pieces)
    }

    fn decode_with(
        mut chunked: Chunked,
        pieces: &[&[u8]],
    ) -> Result<Option<(usize, usize)>, ChunkError> {
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
    fn chunked_bodies_are_decoded_up_to_their_end() {
        assert_eq!(decode(&[b"0\r\n\r\n"]), Ok(Some((5, 0))));
        assert_eq!(decode(&[b"3\r\nabc\r\n0\r\n\r\nrest"]), Ok(Some((13, 3))));
        assert_eq!(
            decode(&[b"1;x=y\r\na\r\n0 \r\nt: 1\r\nu: 2\r\n\r\n"]),
            Ok(Some((28, 1)))
        );
        assert_eq!(decode(&[b"a\r\n0123456789\r\n0\r\n"]), Ok(None));
    }

    #[test]
    fn malformed_bodies_are_refused() {
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
            "a: b\r\n c\r\n",
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
    fn trailers_of_a_response_may_be_folded() {
        let decode = |text: &[u8]| decode_with(Chunked::of_response(), &[text]);
        assert_eq!(
            decode(b"0\r\na: b\r\n\tc\r\nd: e\r\n\r\n"),
            Ok(Some((21, 0)))
        );
        assert_eq!(decode(b"0\r\n a: b\r\n\r\n"), Err(ChunkError::Character));
    }

    #[test]
    fn extensions_may_exceed_the_data_only_up_to_a_limit() {
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
        fn any_chunks_are_decoded_from_any_pieces(
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
        fn garbage_decodes_the_same_in_any_pieces(bytes: Vec<u8>, step in 1usize..16) {
            let whole = decode(&[&bytes]);
            let pieces: Vec<_> = bytes.chunks(step).collect();
            prop_assert_eq!(decode(&pieces), whole);
        }
    }
}
