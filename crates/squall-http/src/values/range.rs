//! The Range field of a request for a file (RFC 9110, section 14).
//!
//! One range of bytes is understood; of several, and of other units, the whole file is the answer that a server may give.

/// What part of a file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// All of it.
    Whole,
    /// These bytes, at least one.
    Part {
        /// The first one's place.
        start: u64,
        /// The place after the last one.
        end: u64,
    },
    /// Bytes that it does not have: status 416.
    Unsatisfiable,
}

/// Reads the value of a Range field for a file of `length` bytes. What is not a range is ignored.
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
    // More digits than 64 bits hold are a position beyond every file.
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
    fn ranges_of_ten_bytes() {
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
