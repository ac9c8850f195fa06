//! The report in a terminal: a table and the verdicts for each condition that has trials, then what
//! to doubt.
//!
//! It writes no file and asks no terminal for its width or colours; the caller knows both. Names are
//! foreign text, so control characters in them never reach the terminal. The page for the browser: `html`.

use squall_analysis::{
    CellSummary, ConditionSummary, Quantile, RunSummary, Spread, Verdict, figure,
};

/// Whether to use the terminal's colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text, for files and pipes.
    Plain,
    /// ANSI escape sequences (ECMA-48, SGR).
    Ansi,
}

/// Names are cut to this many characters where a table would otherwise not fit.
const NAME_AT_LEAST: usize = 8;

/// The report as text, its sentences wrapped at `width` characters.
pub fn terminal(summary: &RunSummary, width: usize, colour: Colour) -> String {
    let pen = Pen {
        colour,
        width: width.max(40),
    };
    let mut text = String::new();
    pen.paragraph(&mut text, Style::Bold, "", &summary.question);
    for condition in summary.conditions.iter().filter(|c| !c.is_untried()) {
        text.push('\n');
        pen.paragraph(&mut text, Style::Bold, "", &condition.condition.to_string());
        pen.table(&mut text, condition);
        for verdict in &condition.verdicts {
            pen.paragraph(&mut text, style_of(verdict), "  ", &verdict.to_string());
        }
    }
    if let Some(untried) = summary.untried() {
        text.push('\n');
        pen.paragraph(&mut text, Style::Plain, "", &untried);
    }
    if !summary.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &summary.warnings {
        pen.paragraph(
            &mut text,
            Style::Warning,
            "",
            &format!("Warning: {warning}"),
        );
    }
    text
}

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Bold,
    Faint,
    Warning,
}

fn style_of(verdict: &Verdict) -> Style {
    match verdict {
        Verdict::Overloaded { .. } => Style::Warning,
        Verdict::Compared(_) => Style::Plain,
    }
}

struct Pen {
    colour: Colour,
    width: usize,
}

impl Pen {
    fn styled(&self, style: Style, text: &str) -> String {
        let code = match (self.colour, style) {
            (Colour::Plain, _) | (_, Style::Plain) => return text.to_owned(),
            (Colour::Ansi, Style::Bold) => 1,
            (Colour::Ansi, Style::Faint) => 2,
            (Colour::Ansi, Style::Warning) => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Wraps `sentence` at the width; further lines are indented by two more.
    fn paragraph(&self, text: &mut String, style: Style, indent: &str, sentence: &str) {
        let mut line = indent.to_owned();
        let mut has_word = false;
        for word in printable(sentence).split_whitespace() {
            if has_word && line.chars().count() + 1 + word.chars().count() > self.width {
                text.push_str(&self.styled(style, &line));
                text.push('\n');
                line = format!("{indent}  ");
                has_word = false;
            }
            if has_word {
                line.push(' ');
            }
            line.push_str(word);
            has_word = true;
        }
        text.push_str(&self.styled(style, &line));
        text.push('\n');
    }

    fn table(&self, text: &mut String, condition: &ConditionSummary) {
        let mut rows = vec![COLUMNS.map(|column| column.title.to_owned())];
        rows.extend(
            condition
                .cells
                .iter()
                .map(|cell| COLUMNS.map(|column| (column.text)(cell))),
        );
        let mut widths = [0; COLUMNS.len()];
        for row in &rows {
            for (width, field) in widths.iter_mut().zip(row) {
                *width = field.chars().count().max(*width);
            }
        }
        let total: usize = widths.iter().sum::<usize>() + 2 * COLUMNS.len();
        let too_wide = total.saturating_sub(self.width);
        widths[0] = widths[0].saturating_sub(too_wide).max(NAME_AT_LEAST);
        for (index, row) in rows.iter().enumerate() {
            let style = if index == 0 {
                Style::Faint
            } else {
                Style::Plain
            };
            text.push_str(&self.styled(style, &table_line(row, &widths)));
            text.push('\n');
        }
    }
}

/// Names to the left, numbers to the right.
fn table_line(row: &[String; COLUMNS.len()], widths: &[usize; COLUMNS.len()]) -> String {
    let name_width = widths[0];
    let mut line = format!("  {:<name_width$}", cut(&row[0], name_width));
    for (field, &width) in row.iter().zip(widths).skip(1) {
        line.push_str(&format!("  {field:>width$}"));
    }
    line
}

/// A column of the table: its title, and what it says of a cell. Latencies are in milliseconds.
struct Column {
    title: &'static str,
    text: fn(&CellSummary) -> String,
}

const COLUMNS: [Column; 10] = [
    Column {
        title: "latency in ms",
        text: |cell| printable(&cell.variant),
    },
    Column {
        title: "mean",
        text: |cell| latency(cell.mean),
    },
    Column {
        title: "median",
        text: |cell| latency(cell.median),
    },
    Column {
        title: "p95",
        text: |cell| latency(cell.p95),
    },
    Column {
        title: "p99",
        text: |cell| latency(cell.p99),
    },
    Column {
        title: "max",
        text: |cell| latency(cell.max),
    },
    Column {
        title: "failed",
        text: |cell| counted(cell, cell.failed),
    },
    Column {
        title: "unfinished",
        text: |cell| counted(cell, cell.censored),
    },
    Column {
        title: "conns",
        text: |cell| number(cell.connections_opened),
    },
    Column {
        title: "rate/s",
        text: |cell| number(cell.rate_achieved_per_s),
    },
];

fn latency(spread: Option<Spread<Quantile>>) -> String {
    spread.map_or_else(
        || "n/a".to_owned(),
        |spread| figure::quantile(spread.median),
    )
}

fn number(spread: Option<Spread<f64>>) -> String {
    spread.map_or_else(|| "n/a".to_owned(), |spread| figure::rate(spread.median))
}

/// A count of a cell's valid trials; without any there is nothing to count.
fn counted(cell: &CellSummary, count: u64) -> String {
    if cell.valid_trials().next().is_none() {
        "n/a".to_owned()
    } else {
        figure::count(count)
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// `text` without anything that a terminal obeys.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
