//! What applies to every text from outside, regardless of its format: its byte order mark, and how messages show it.
//!
//! Editors on Windows begin UTF-8 files with a byte order mark, and no format here gives it a meaning: the parsers of each
//! format remove it first. Messages show excerpts of foreign texts, and a terminal must not obey them. Nothing is printed
//! here.

use std::borrow::Cow;

/// `text` without a byte order mark at its start.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// `bytes`, which may be text in UTF-8, without a byte order mark at its start.
pub fn bytes_without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The beginning of a text for an error message: long enough to recognise the text, and short enough for a line or two.
pub fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a terminal may obey this character instead of showing it: a control character (Unicode category Cc: C0, DEL
/// and C1), or one that changes the order of the characters around it (UAX #9, section 2).
pub fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with every character that a terminal may obey as `\u{1b}`, except newlines and tabs.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_terminal_control(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_obeys_are_escaped_except_newlines_and_tabs() {
        assert_eq!(escape_controls("\u{e9}t\u{e9}\t1\n"), "\u{e9}t\u{e9}\t1\n");
        let escaped = [
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\r\u{7}", "a\\u{d}\\u{7}"),
            ("\u{7f}\u{9b}31m", "\\u{7f}\\u{9b}31m"),
            ("\u{202e}txt\u{2066}", "\\u{202e}txt\\u{2066}"),
            ("\u{61c}\u{200e}", "\\u{61c}\\u{200e}"),
        ];
        for (text, expected) in escaped {
            assert_eq!(escape_controls(text), expected);
        }
    }

    #[test]
    fn excerpts_end_between_characters() {
        assert_eq!(excerpt("/a"), "/a");
        let long = "\u{e9}".repeat(101);
        assert_eq!(excerpt(&long), "\u{e9}".repeat(100) + "...");
        assert_eq!(excerpt(&long[2..]), &long[2..]);
    }

    #[test]
    fn only_the_first_byte_order_mark_is_removed() {
        assert_eq!(without_bom("\u{feff}a\u{feff}"), "a\u{feff}");
        assert_eq!(without_bom("a"), "a");
        let marked = "\u{feff}a".as_bytes();
        assert_eq!(bytes_without_bom(marked), b"a");
        assert_eq!(bytes_without_bom(b"\xef\xbb"), b"\xef\xbb");
    }
}
