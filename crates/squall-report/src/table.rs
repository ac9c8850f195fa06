//! The table of a run in a terminal: a row for each cell, its columns, and which of them a narrow terminal leaves out.
//!
//! A table never exceeds the width: long names continue on further lines, and columns without any figure, then those that
//! readers miss least, are left out. The page and the JSON have all of them. `terminal` says what stands between the rows.

use squall_analysis::{CellSummary, Quantile, Spread, figure};
use squall_base::plan::Measure;

use crate::columns::{left, right, width_of};
use crate::lang::Translator;
use crate::shown::ShownCell;
use crate::text::{Colour, Style, printable};

/// The column of names is not made narrower than this, unless all names are shorter.
const NAME_AT_LEAST: usize = 12;

/// What stands in a field without a figure.
const NONE: &str = "n/a";

/// The columns of a table and their widths, the same for all of its rows.
pub(crate) struct Table {
    colour: Colour,
    translator: Translator,
    /// The width of the column of names.
    name_width: usize,
    /// The other columns that are shown, each with its width.
    columns: Vec<(&'static Column, usize)>,
}

impl Table {
    /// A table for these cells within `width` columns.
    pub(crate) fn of(
        cells: &[&ShownCell<'_>],
        measures: &[Measure],
        width: usize,
        colour: Colour,
        translator: &Translator,
    ) -> Table {
        let said = |text: &str| width_of(&translator.say(text));
        let names = cells.iter().map(|cell| width_of(&name(cell)));
        let longest = names.max().unwrap_or(0).max(said(NAMES));
        let shortest = longest.min(NAME_AT_LEAST);
        let mut columns: Vec<(&Column, usize)> = Vec::new();
        for column in &COLUMNS {
            let fields: Vec<String> = cells.iter().map(|cell| field(cell, column)).collect();
            // A column without any figure is left out.
            if fields.iter().all(|field| field == NONE) {
                continue;
            }
            let widths = fields.iter().map(|field| said(field));
            let widest = widths.max().unwrap_or(0).max(said(column.0));
            columns.push((column, widest));
        }
        let total = |columns: &[(&Column, usize)]| -> usize {
            columns.iter().map(|(_, width)| 2 + width).sum()
        };
        for title in optional_columns(measures) {
            if 2 + shortest + total(&columns) <= width {
                break;
            }
            columns.retain(|((other, _), _)| *other != title);
        }
        let room = width.saturating_sub(2 + total(&columns));
        Table {
            colour,
            translator: translator.clone(),
            name_width: longest.min(room).max(shortest),
            columns,
        }
    }

    /// The line with the titles.
    pub(crate) fn titles(&self) -> String {
        let titles = self.columns.iter().map(|((title, _), _)| *title);
        let line = self.line(&self.translator.say(NAMES), titles);
        self.colour.styled(Style::Faint, &line) + "\n"
    }

    /// The line of a cell, or several if its name is long.
    pub(crate) fn row(&self, cell: &ShownCell<'_>) -> String {
        let mut names = pieces(&name(cell), self.name_width);
        let last = names.pop().unwrap_or_default();
        let fields: Vec<String> = (self.columns.iter())
            .map(|(column, _)| field(cell, column))
            .collect();
        let mut text: String = names.iter().map(|piece| format!("  {piece}\n")).collect();
        text += &self.line(&last, fields.iter().map(String::as_str));
        text.push('\n');
        text
    }

    /// The name aligned left, numbers right. A name that is too long has its own line, with the numbers below it.
    fn line<'f>(&self, name: &str, fields: impl Iterator<Item = &'f str>) -> String {
        let name_width = self.name_width;
        let mut line = if width_of(name) > name_width {
            format!("  {name}\n  {:<name_width$}", "")
        } else {
            format!("  {}", left(name, name_width))
        };
        for (field, (_, width)) in fields.zip(&self.columns) {
            line.push_str(&format!("  {}", right(&self.translator.say(field), *width)));
        }
        line
    }
}

/// `text` in pieces of whole words, of at most `width` characters each if no word is longer.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match pieces.last_mut() {
            Some(piece) if width_of(piece) + 1 + width_of(word) <= width => {
                piece.push(' ');
                piece.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

fn name(cell: &ShownCell<'_>) -> String {
    let figures: &CellSummary = &cell.figures;
    printable(&figures.variant)
}

/// The field of a cell in a column, followed by `?` if the cell is doubtful. If its figures are only bounds, `≤` precedes a
/// time instead, and `≥` the rate.
fn field(cell: &ShownCell<'_>, column: &Column) -> String {
    let figures: &CellSummary = &cell.figures;
    let field = column.1(figures);
    if cell.doubt.is_none() || field == NONE {
        return field;
    }
    match column.0 {
        _ if !cell.is_limit => field + "?",
        RATE => format!("\u{2265}{field}"),
        "failed" | "unfinished" | CONNECTIONS => field,
        _ => format!("\u{2264}{field}"),
    }
}

/// The title of the column with the rate that was achieved.
const RATE: &str = "rate/s";

/// The title of the connections' column.
const CONNECTIONS: &str = "conns";

/// The title of the column with the interval of the p99.
const INTERVAL: &str = "95 % of p99";

/// The columns that a narrow table leaves out, in this order. Connections stay if they are a measure of the run.
fn optional_columns(measures: &[Measure]) -> Vec<&'static str> {
    let further = [
        "IQR",
        "p90",
        "p95",
        "max",
        "mean",
        "p99.9",
        INTERVAL,
        "unfinished",
        RATE,
        "failed",
    ];
    if measures.contains(&Measure::Connections) {
        further.to_vec()
    } else {
        [&[CONNECTIONS], further.as_slice()].concat()
    }
}

/// A column of the table: its title, and its text for a cell. Latencies are in milliseconds.
type Column = (&'static str, fn(&CellSummary) -> String);

/// The title of the column of names.
const NAMES: &str = "in ms";

static COLUMNS: [Column; 13] = [
    ("mean", |cell| latency(cell.mean)),
    ("median", |cell| latency(cell.median)),
    ("IQR", |cell| latency(cell.interquartile_range)),
    ("p90", |cell| latency(cell.p90)),
    ("p95", |cell| latency(cell.p95)),
    ("p99", |cell| latency(cell.p99)),
    (INTERVAL, |cell| interval(cell.p99)),
    ("p99.9", |cell| latency(cell.p999)),
    ("max", |cell| latency(cell.max)),
    ("failed", |cell| counted(cell, cell.failed)),
    ("unfinished", |cell| counted(cell, cell.censored)),
    (CONNECTIONS, |cell| number(cell.connections_opened)),
    (RATE, |cell| number(cell.rate_achieved_per_s)),
];

pub(crate) fn latency(spread: Option<Spread<Quantile>>) -> String {
    spread.map_or_else(
        || "n/a".to_owned(),
        |spread| figure::quantile(spread.median),
    )
}

/// `240–262`; `n/a` if there are too few trials or requests for an interval.
fn interval(spread: Option<Spread<Quantile>>) -> String {
    let interval = spread.and_then(|spread| spread.interval);
    interval.map_or_else(
        || "n/a".to_owned(),
        |interval| {
            let (low, high) = (
                figure::quantile(interval.low),
                figure::quantile(interval.high),
            );
            format!("{low}–{high}")
        },
    )
}

fn number(spread: Option<Spread<f64>>) -> String {
    spread.map_or_else(|| "n/a".to_owned(), |spread| figure::rate(spread.median))
}

/// A count over a cell's valid trials; `n/a` without a valid trial.
fn counted(cell: &CellSummary, count: u64) -> String {
    if cell.valid_trials().next().is_none() {
        "n/a".to_owned()
    } else {
        figure::count(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_continue_on_further_lines_and_no_word_is_cut() {
        assert_eq!(pieces("two envoys h2c", 12), ["two envoys", "h2c"]);
        assert_eq!(
            pieces("an unbreakablename x", 8),
            ["an", "unbreakablename", "x"]
        );
    }
}
