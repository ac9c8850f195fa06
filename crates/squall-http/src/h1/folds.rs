//! Undoes line folds (obs-fold): old servers continue a field value on the next line, which then begins with a blank.
//!
//! A client or proxy replaces each fold in a response with a space (RFC 9112, section 5.2). Requests with folds are
//! refused, so this module handles only responses. What the unfolded lines mean is up to `head` and `fields`.

use httparse::Error;

use super::limits::MAX_FIELDS;
use crate::error::ConnectionError;

/// The most folds in one section. Like the limit on fields, it bounds how many times a head that arrives line by line is
/// parsed.
const MAX_FOLDS: usize = MAX_FIELDS;

/// A section without its folds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfolded {
    pub(super) bytes: Vec<u8>,
    /// How many bytes of the input this replaces: up to the end of the section, or all of them.
    pub(super) used: usize,
}

/// The section at the start of `bytes`, with one space for each fold; `None` if there is no fold. Lines before number
/// `first` (from 0) cannot continue a field.
///
/// # Errors
/// [`Error::TooManyHeaders`] if there are more than [`MAX_FOLDS`].
pub(super) fn unfold(bytes: &[u8], first: usize) -> Result<Option<Unfolded>, ConnectionError> {
    let mut unfolded: Vec<u8> = Vec::with_capacity(bytes.len());
    let (mut used, mut folds) = (0, 0);
    for (number, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        used += line.len();
        let is_continued = number >= first && unfolded.ends_with(b"\r\n");
        let text = match line {
            [b' ' | b'\t', ..] if is_continued => {
                folds += 1;
                join(&mut unfolded);
                without_leading_blanks(line)
            }
            _ => line,
        };
        unfolded.extend_from_slice(text);
        if line == b"\r\n" {
            break;
        }
    }
    match folds {
        0 => Ok(None),
        1..=MAX_FOLDS => Ok(Some(Unfolded {
            bytes: unfolded,
            used,
        })),
        _ => Err(ConnectionError::Head(Error::TooManyHeaders)),
    }
}

/// Replaces the end of the last line, and the blanks before it, with a space.
fn join(unfolded: &mut Vec<u8>) {
    unfolded.truncate(unfolded.len() - 2);
    while let Some(b' ' | b'\t') = unfolded.last() {
        unfolded.pop();
    }
    unfolded.push(b' ');
}

fn without_leading_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|&&b| b == b' ' || b == b'\t');
    &line[blanks.count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfolded(text: &str) -> Option<(String, usize)> {
        let section = unfold(text.as_bytes(), 2).unwrap()?;
        Some((String::from_utf8(section.bytes).unwrap(), section.used))
    }

    #[test]
    fn each_fold_becomes_one_space() {
        for (folded, expected) in [
            ("s\r\na: b\r\n c\r\n\r\n", "s\r\na: b c\r\n\r\n"),
            ("s\r\na: b \t\r\n\t  c\r\n\r\n", "s\r\na: b c\r\n\r\n"),
            ("s\r\na:\r\n b\r\n c\r\nd: e\r\n", "s\r\na: b c\r\nd: e\r\n"),
            ("s\r\na: b\r\n \r\n\r\n", "s\r\na: b \r\n\r\n"),
            ("s\r\na: b\r\n ", "s\r\na: b "),
        ] {
            let expected = Some((expected.to_owned(), folded.len()));
            assert_eq!(unfolded(folded), expected, "{folded:?}");
        }
    }

    #[test]
    fn other_line_ends_are_not_folds() {
        for text in [
            "s\r\na: b\r\n\r\n",
            "s\r\n a: b\r\n\r\n",
            "s\r\na: b\n c\r\n\r\n",
            "s\r\na: b\r\n\r\n body\r\n more",
            "s\r\na: b\r\n",
            "",
        ] {
            assert_eq!(unfolded(text), None, "{text:?}");
        }
    }

    #[test]
    fn unfolding_stops_at_the_end_of_the_section() {
        let head = "s\r\na: b\r\n c\r\n\r\n";
        let expected = Some(("s\r\na: b c\r\n\r\n".to_owned(), head.len()));
        assert_eq!(unfolded(&format!("{head}d\r\n e")), expected);
    }

    #[test]
    fn the_number_of_folds_is_limited() {
        let section = |folds| format!("s\r\na:{}", "\r\n b".repeat(folds));
        assert!(unfold(section(MAX_FOLDS).as_bytes(), 2).is_ok());
        let error = ConnectionError::Head(Error::TooManyHeaders);
        assert_eq!(
            unfold(section(MAX_FOLDS + 1).as_bytes(), 2),
            Err(error),
            "one more"
        );
    }
}
