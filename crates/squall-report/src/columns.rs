//! The width of texts in columns of a terminal, where a Chinese character takes two columns; padding, and the wrapping
//! of Chinese.
//!
//! `text` wraps and aligns text with spaces between its words, and uses this file to count columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Punctuation that must not begin a line, and punctuation that must not end one.
const CLOSING: &str = "，。；：？！、）》】”’…%";
const OPENING: &str = "（《【“‘";

/// How many columns a text takes (Unicode, UAX 11).
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// `text`, padded on the right to this many columns.
pub(crate) fn left(text: &str, width: usize) -> String {
    let room = width.saturating_sub(width_of(text));
    format!("{text}{}", " ".repeat(room))
}

/// `text`, padded on the left to this many columns.
pub(crate) fn right(text: &str, width: usize) -> String {
    let room = width.saturating_sub(width_of(text));
    format!("{}{text}", " ".repeat(room))
}

/// The beginning of `text` that takes at most this many columns.
pub(crate) fn within(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > columns
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// Appends a piece of text to a line of at most `width` columns. What does not fit goes into further lines, which begin with
/// `indent`. Full lines are moved to `lines`.
pub(crate) fn push_piece(
    lines: &mut Vec<String>,
    line: &mut String,
    piece: &str,
    width: usize,
    indent: &str,
) {
    let mut rest = piece;
    while width_of(line) + width_of(rest) > width {
        let part = within(rest, width.saturating_sub(width_of(line)));
        if part.is_empty() {
            // Not even an empty line has room for the next character, so the rest goes into one overlong line.
            break;
        }
        line.push_str(part);
        lines.push(std::mem::replace(line, indent.to_owned()));
        rest = &rest[part.len()..];
    }
    line.push_str(rest);
}

/// A piece of text that is broken only if it is longer than a line.
struct Unit {
    text: String,
    /// Whether a space precedes it, unless it begins a line.
    is_spaced: bool,
}

/// Text as lines of at most `width` columns, which end at spaces or beside Chinese characters, or within a word that is longer
/// than a line. Lines begin with `indent`, and all but the first with two more spaces.
pub(crate) fn chinese_lines(text: &str, width: usize, indent: &str) -> Vec<String> {
    let further = format!("{indent}  ");
    let mut lines = Vec::new();
    let mut line = indent.to_owned();
    let mut has_text = false;
    for unit in units(text) {
        let space = usize::from(has_text && unit.is_spaced);
        if has_text && width_of(&line) + space + width_of(&unit.text) > width {
            lines.push(std::mem::replace(&mut line, further.clone()));
            has_text = false;
        }
        if has_text && unit.is_spaced {
            line.push(' ');
        }
        push_piece(&mut lines, &mut line, &unit.text, width, &further);
        has_text = true;
    }
    lines.push(line);
    lines
}

fn units(text: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut is_spaced = false;
    let mut before = ' ';
    for c in text.chars() {
        if c.is_whitespace() {
            is_spaced = true;
            continue;
        }
        let is_beside_wide = is_wide(c) || is_wide(before);
        let may_break = is_beside_wide && !CLOSING.contains(c) && !OPENING.contains(before);
        match units.last_mut() {
            Some(unit) if !is_spaced && !may_break => unit.text.push(c),
            // The percent sign stays with its number.
            Some(unit) if is_spaced && c == '%' => unit.text.push_str(" %"),
            _ => units.push(Unit {
                text: c.to_string(),
                is_spaced,
            }),
        }
        (is_spaced, before) = (false, c);
    }
    units
}

/// Whether a character takes two columns.
pub(crate) fn is_wide(c: char) -> bool {
    c.width() == Some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chinese_character_takes_two_columns() {
        assert_eq!(
            [width_of("p99"), width_of("均值"), width_of("≤ 3 ms")],
            [3, 4, 6]
        );
        assert_eq!([left("均值", 6), right("均值", 6)], ["均值  ", "  均值"]);
        assert_eq!(right("a longer text", 4), "a longer text");
        assert_eq!(["均值 1", "p99"].map(|text| within(text, 3)), ["均", "p99"]);
    }

    #[test]
    fn chinese_lines_end_anywhere_but_before_closing_punctuation() {
        let lines = chinese_lines("链路本身是瓶颈，所以 p99 只是界限。", 16, "");
        assert_eq!(lines, ["链路本身是瓶颈，", "  所以 p99 只是", "  界限。"]);
        for width in 12..60 {
            let lines = chinese_lines(
                "h2c x1 的 p99 是 h1 的 0.47x（119 ms，对比 251 ms）；很可能。",
                width,
                "  ",
            );
            for line in &lines {
                assert!(width_of(line) <= width, "{width}: {line}");
                let first = line.trim_start().chars().next().unwrap();
                assert!(!CLOSING.contains(first), "{width}: {line}");
            }
        }
    }

    #[test]
    fn words_of_latin_letters_are_not_cut() {
        let lines = chinese_lines("请用 `squall run --resume RUN` 重做", 14, "");
        assert_eq!(lines, ["请用 `squall", "  run --resume", "  RUN` 重做"]);
    }

    #[test]
    fn words_longer_than_a_line_are_cut() {
        let lines = chinese_lines("地址 abcdefghijklmn 无效", 8, "");
        assert_eq!(lines, ["地址", "  abcdef", "  ghijkl", "  mn 无", "  效"]);
    }
}
