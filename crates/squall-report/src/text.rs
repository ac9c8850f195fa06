//! What all texts for a terminal have in common: colours, wrapping, aligned columns, and that foreign text cannot control
//! the terminal.
//!
//! It does not know what a text says, and does not query the terminal.

use squall_base::text::is_terminal_control;

use crate::columns::{left, push_piece, right, width_of};

/// Narrower texts would be unreadable.
pub(crate) const WIDTH_AT_LEAST: usize = 40;

/// Whether to use the terminal's colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text, for files and pipes.
    Plain,
    /// ANSI escape sequences (ECMA-48, SGR).
    Ansi,
}

/// The weight of a piece of text.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Bold,
    Faint,
    Warning,
}

impl Colour {
    /// `text` in a style.
    pub(crate) fn styled(self, style: Style, text: &str) -> String {
        let code = match (self, style) {
            (Colour::Plain, _) | (_, Style::Plain) => return text.to_owned(),
            (Colour::Ansi, Style::Bold) => 1,
            (Colour::Ansi, Style::Faint) => 2,
            (Colour::Ansi, Style::Warning) => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// White `text` on a background of xterm's 256 colours.
    pub(crate) fn on_background(self, code: u8, text: &str) -> String {
        match self {
            Colour::Ansi if !text.is_empty() => format!("\x1b[97;48;5;{code}m{text}\x1b[0m"),
            Colour::Plain | Colour::Ansi => text.to_owned(),
        }
    }
}

/// The words of a sentence, with a number and its unit as one word.
pub(crate) fn unbroken_words(sentence: &str) -> Vec<String> {
    const UNITS: [&str; 8] = ["us", "ms", "s", "%", "B", "kB", "MB", "GB"];
    let mut words: Vec<String> = Vec::new();
    for word in sentence.split_whitespace() {
        let unit = word
            .split(['/', ',', '.', ';', ':', ')'])
            .next()
            .unwrap_or("");
        let ends_in_digit = |last: &&mut String| last.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(ends_in_digit) {
            Some(number) if UNITS.contains(&unit) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Words as lines of at most `width` columns. Lines begin with `indent`, and all but the first with two more spaces. A word
/// that is longer than a line is broken. `shown` turns a word into what its line shows.
pub(crate) fn wrapped<W: AsRef<str>>(
    words: impl IntoIterator<Item = W>,
    width: usize,
    indent: &str,
    shown: impl Fn(&str) -> String,
) -> Vec<String> {
    let further = format!("{indent}  ");
    let mut lines = Vec::new();
    let mut line = indent.to_owned();
    let mut has_word = false;
    for word in words {
        let word = shown(word.as_ref());
        if has_word && width_of(&line) + 1 + width_of(&word) > width {
            lines.push(std::mem::replace(&mut line, further.clone()));
            has_word = false;
        }
        if has_word {
            line.push(' ');
        }
        push_piece(&mut lines, &mut line, &word, width, &further);
        has_word = true;
    }
    lines.push(line);
    lines
}

/// Rows with the first column aligned left and the others right, two spaces apart and indented by two.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let len =
        |row: &Vec<String>, column| row.get(column).map_or(0, |field: &String| width_of(field));
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| len(row, column)).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, (field, width)) in row.iter().zip(&widths).enumerate() {
            line += &match column {
                0 => format!("  {}", left(field, *width)),
                _ => format!("  {}", right(field, *width)),
            };
        }
        line
    };
    rows.iter().map(line).collect()
}

/// `text` with its control characters replaced, so that a terminal only prints it.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_terminal_control(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// Seconds as minutes and seconds (`0:07`, `1:05`), with hours if there are any (`1:02:05`).
pub(crate) fn clock(seconds: u64) -> String {
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_has_hours_only_if_there_are_any() {
        assert_eq!([7, 65, 3_725].map(clock), ["0:07", "1:05", "1:02:05"]);
    }

    fn lines(sentence: &str, width: usize, indent: &str) -> Vec<String> {
        wrapped(sentence.split(' '), width, indent, str::to_owned)
    }

    #[test]
    fn words_longer_than_a_line_are_broken() {
        let broken = lines("at abcdefghijklmn too", 8, "");
        assert_eq!(broken, ["at", "  abcdef", "  ghijkl", "  mn too"]);
        assert_eq!(lines("abcdefghij", 8, "  "), ["  abcdef", "    ghij"]);
        // Each character takes two columns.
        assert_eq!(lines("一二三四五", 6, ""), ["一二三", "  四五"]);
    }
}
