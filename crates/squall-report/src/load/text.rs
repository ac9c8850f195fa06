//! How the figures of a load are written, and what its texts need in addition to `crate::text`: lines that are cut,
//! numbers that stay with their units, bars.
//!
//! It does not know what a figure means. Spans and sizes have three digits and their unit, because those of a load range
//! from microseconds to minutes; the tables of a run are in milliseconds throughout (see `terminal`).

use squall_base::Duration;

use crate::Colour;
use crate::columns::{chinese_lines, is_wide, width_of, within};
use crate::lang::{Language, Translator};
use crate::text::{WIDTH_AT_LEAST, aligned, unbroken_words, wrapped};

pub(super) use crate::text::{Style, printable};

/// The characters that bars are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Block elements of Unicode, in eighths of a column.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFormat {
    /// Columns; fewer than 40 are taken as 40.
    pub width: usize,
    /// Whether to use colours.
    pub colour: Colour,
    /// What to draw bars with.
    pub glyphs: Glyphs,
    /// The language of the text.
    pub language: Language,
}

impl TextFormat {
    pub(super) fn columns(&self) -> usize {
        self.width.max(WIDTH_AT_LEAST)
    }

    pub(super) fn translator(&self) -> Translator {
        Translator::of_names(self.language, Vec::new())
    }

    /// An English text in the language of this format. Its indent stays.
    pub fn say(&self, text: &str) -> String {
        self.translator().indented(text)
    }

    /// An English text as one line of this terminal.
    pub fn fitting(&self, text: &str) -> String {
        self.line(Style::Plain, text)
    }

    /// An English text as one line, cut at the width between two words.
    pub(super) fn line(&self, style: Style, text: &str) -> String {
        self.said_line(style, &self.say(text))
    }

    /// A text in the language of this format as one line, cut at the width between two words.
    pub(super) fn said_line(&self, style: Style, said: &str) -> String {
        self.colour
            .styled(style, &self.cut(&printable(said), self.columns()))
    }

    /// The rows of an English table as lines.
    pub(super) fn aligned(&self, rows: &[Vec<String>]) -> Vec<String> {
        aligned(&self.translator().rows(rows))
    }

    /// Styles `lines`, which are already in the language of this format; the first one is their title.
    pub(super) fn titled(&self, lines: &[String]) -> Vec<String> {
        let styles = std::iter::once(Style::Faint).chain(std::iter::repeat(Style::Plain));
        lines
            .iter()
            .zip(styles)
            .map(|(line, style)| self.said_line(style, line))
            .collect()
    }

    /// `text` in at most `columns` columns, with a mark at the end if it was cut.
    pub(super) fn cut(&self, text: &str, columns: usize) -> String {
        if width_of(text) <= columns {
            return text.trim_end().to_owned();
        }
        let sign = match self.glyphs {
            Glyphs::Unicode => "…",
            Glyphs::Ascii => "~",
        };
        let kept = within(text, columns.saturating_sub(width_of(sign)));
        // Words are not cut, except for the first one. Chinese may be cut anywhere.
        let next = text[kept.len()..].chars().next();
        let is_whole = next.is_some_and(|c| c.is_whitespace() || is_wide(c));
        let last_gap = kept.rfind(char::is_whitespace).filter(|_| !is_whole);
        let whole = last_gap.map_or("", |end| kept[..end].trim_end());
        let kept = if whole.is_empty() {
            kept.trim_end()
        } else {
            whole
        };
        format!(
            "{}{sign}",
            kept.trim_end_matches([',', ';', ':', '，', '；', '：'])
        )
    }

    /// An English sentence wrapped at the width. Lines begin with `indent`, and all but the first with two more spaces.
    pub(super) fn paragraph(&self, style: Style, indent: &str, sentence: &str) -> String {
        self.said_paragraph(style, indent, &self.say(sentence))
    }

    /// A sentence in the language of this format, wrapped as `paragraph` does.
    pub(super) fn said_paragraph(&self, style: Style, indent: &str, said: &str) -> String {
        let said = printable(said);
        let columns = self.columns();
        let lines: Vec<String> = match self.language {
            Language::En => {
                let cut = |word: &str| self.cut(word, columns - indent.len() - 2);
                wrapped(unbroken_words(&said), columns, indent, cut)
            }
            Language::Zh => chinese_lines(&said, columns, indent)
                .iter()
                .map(|line| self.cut(line, columns))
                .collect(),
        };
        lines
            .iter()
            .map(|line| self.colour.styled(style, line) + "\n")
            .collect()
    }

    /// A bar over `share` (0 to 1) of `columns`; any share above 0 is visible.
    pub(super) fn bar(&self, share: f64, columns: usize) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let (per_column, glyph) = match self.glyphs {
            Glyphs::Unicode => (8, "█"),
            Glyphs::Ascii => (1, "#"),
        };
        let most = columns * per_column;
        let filled = (share.clamp(0.0, 1.0) * most as f64).round() as usize;
        let filled = filled.max(usize::from(share > 0.0)).min(most);
        let rest = match self.glyphs {
            Glyphs::Unicode => EIGHTHS[filled % 8],
            Glyphs::Ascii => "",
        };
        glyph.repeat(filled / per_column) + rest
    }
}

/// True if each line fits into `columns`.
pub(super) fn fit(lines: &[String], columns: usize) -> bool {
    lines.iter().all(|line| width_of(line) <= columns)
}

/// A row of a table from words.
pub(super) fn row<const COLUMNS: usize>(words: [&str; COLUMNS]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A span with three digits and its unit: `0.50 us`, `85.0 us`, `1.84 ms`, `212 ms`, `12.5 s`.
pub(crate) fn span(span: Duration) -> String {
    let ns = span.as_nanos() as f64;
    if span.is_zero() {
        return "0 us".to_owned();
    }
    match ns {
        // Rounding must not cross into the next unit: 999.6 us is 1.00 ms.
        ns if ns < 999.5e3 => format!("{} us", three_digits(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", three_digits(ns / 1e6)),
        ns => format!("{} s", three_digits(ns / 1e9)),
    }
}

/// A span as `span` writes it, or `n/a`.
pub(crate) fn known(value: Option<Duration>) -> String {
    value.map_or_else(|| "n/a".to_owned(), span)
}

/// A size with three digits and its decimal unit: `512 B`, `1.23 MB`.
pub(super) fn size(bytes: f64) -> String {
    match bytes {
        b if b < 999.5 => format!("{b:.0} B"),
        b if b < 999.5e3 => format!("{} kB", three_digits(b / 1e3)),
        b if b < 999.5e6 => format!("{} MB", three_digits(b / 1e6)),
        b => format!("{} GB", three_digits(b / 1e9)),
    }
}

/// A share in percent: `41.8 %`, `0.04 %`. Only exact values are printed as `100 %` or `0 %`.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 || part <= 0.0 {
        return "0 %".to_owned();
    }
    match part / whole * 100.0 {
        p if p >= 100.0 => "100 %".to_owned(),
        p if p >= 99.95 => ">99.9 %".to_owned(),
        p if p >= 0.095 => format!("{p:.1} %"),
        p if p >= 0.0095 => format!("{p:.2} %"),
        _ => "<0.01 %".to_owned(),
    }
}

/// A span in minutes and seconds, such as `1:05`, with hours if there are any.
pub(super) fn clock(span: Duration) -> String {
    crate::text::clock(span.as_nanos() / 1_000_000_000)
}

fn three_digits(value: f64) -> String {
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: TextFormat = TextFormat {
        width: 40,
        colour: Colour::Plain,
        glyphs: Glyphs::Unicode,
        language: Language::En,
    };

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let spans = [
            500,
            85_000,
            999_600,
            1_840_000,
            99_960_000,
            212_400_000,
            12_500_000_000,
        ];
        assert_eq!(
            spans.map(|ns| span(Duration::from_nanos(ns))),
            [
                "0.50 us", "85.0 us", "1.00 ms", "1.84 ms", "100 ms", "212 ms", "12.5 s"
            ]
        );
        assert_eq!(span(Duration::ZERO), "0 us");
        assert_eq!(
            [512.0, 1_234_567.0, 9.4e10].map(size),
            ["512 B", "1.23 MB", "94.0 GB"]
        );
        let percents = [1.0, 0.99999, 0.418, 0.0, 0.00042, 0.00001].map(|p| percent(p, 1.0));
        assert_eq!(
            percents,
            ["100 %", ">99.9 %", "41.8 %", "0 %", "0.04 %", "<0.01 %"]
        );
    }

    #[test]
    fn bars_fill_their_columns_and_show_any_share_above_zero() {
        let ascii = TextFormat {
            glyphs: Glyphs::Ascii,
            ..FORMAT
        };
        assert_eq!(FORMAT.bar(0.5, 5), "██▌");
        assert_eq!(ascii.bar(0.5, 6), "###");
        assert_eq!(
            (FORMAT.bar(1e-9, 5), ascii.bar(1e-9, 5)),
            ("▏".to_owned(), "#".to_owned())
        );
        assert_eq!(
            (FORMAT.bar(0.0, 5), FORMAT.bar(2.0, 3)),
            (String::new(), "███".to_owned())
        );
    }

    #[test]
    fn foreign_text_stays_within_the_width_and_loses_control_characters() {
        let long = "x".repeat(60);
        assert_eq!(FORMAT.line(Style::Plain, &long).chars().count(), 40);
        assert_eq!(
            FORMAT.line(Style::Plain, "a\x1b[2J\nb\u{202e}c"),
            "a\u{fffd}[2J\u{fffd}b\u{fffd}c"
        );
        let text = FORMAT.paragraph(
            Style::Plain,
            "  ",
            &format!("many words that wrap at forty columns {long}"),
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        let chinese = TextFormat {
            language: Language::Zh,
            ..FORMAT
        };
        let text = chinese.paragraph(Style::Plain, "  ", &format!("6 reset: {long}"));
        assert!(text.starts_with("  6 个被重置："), "{text}");
        assert!(text.lines().all(|line| width_of(line) <= 40), "{text}");
    }

    #[test]
    fn chinese_is_cut_between_characters_and_takes_two_columns() {
        let text = "负载未被承受：33,328 / 40,000 请求/s";
        assert_eq!(FORMAT.cut(text, 9), "负载未被…");
        assert_eq!(FORMAT.cut(text, 14), "负载未被承受…");
        assert_eq!(FORMAT.cut(text, 60), text);
    }
}
