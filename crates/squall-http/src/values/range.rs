//! The Range field of a request for a file (RFC 9110, section 14).
//!
//! Only a single byte range is supported. For several ranges or other units a server may send the whole file, so the
//! result is then the whole file.

/// Which part of a file is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The whole file.
    Whole,
    /// These bytes, at least one.
    Part {
        /// Offset of the first byte.
        start: u64,
        /// Offset after the last byte.
        end: u64,
    },
    /// No byte of the file is in the range: status 416.
    Unsatisfiable,
}

/// Parses the value of a Range field for a file of `length` bytes. An invalid value is ignored.
pub fn parse(value: &[u8], length: u64) -> Range {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Range::Whole;
    };
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return Range::Whole;
    }
    // A number too large for 64 bits is a position beyond any file.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (start, end) = match (first, last) {
        ("", "") => return Range::Whole,
        ("", suffix) => (length.saturating_sub(number(suffix)), length),
        (first, "") => (number(first), length),
        (first, last) if number(first) > number(last) => return Range::Whole,
        (first, last) => (number(first), number(last).saturating_add(1).min(length)),
    };
    if start >= end {
        Range::Unsatisfiable
    } else {
        Range::Part { start, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_values_resolve_against_a_ten_byte_file() {
        let part = |start, end| Range::Part { start, end };
        for (value, range) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 6)),
            ("bytes=2-", part(2, 10)),
            ("bytes=2-100", part(2, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-30", part(0, 10)),
            ("bytes=10-", Range::Unsatisfiable),
            ("bytes=99999999999999999999-", Range::Unsatisfiable),
            ("bytes=-0", Range::Unsatisfiable),
            ("bytes=5-2", Range::Whole),
            ("bytes=-", Range::Whole),
            ("bytes=0-1,3-4", Range::Whole),
            ("bytes=a-b", Range::Whole),
            ("lines=0-1", Range::Whole),
            ("", Range::Whole),
        ] {
            assert_eq!(parse(value.as_bytes(), 10), range, "{value}");
        }
        assert_eq!(parse(b"bytes=0-0", 0), Range::Unsatisfiable);
    }
}
