//! The report for the terminal: the answer, then a table and the verdicts for each condition that has trials, then the
//! warnings.
//!
//! It writes no file and does not query the terminal's width or colours; the caller passes both. Names are foreign text, so
//! control characters in them never reach the terminal. `html` builds the page for the browser.

use squall_analysis::answer::Answer;
use squall_analysis::{
    CellSummary, ConditionSummary, Quantile, RunSummary, Spread, Verdict, figure,
};
use squall_base::plan::Measure;

use crate::causes;
use crate::shown::ShownCell;
use crate::text::{Colour, Style, WIDTH_AT_LEAST, printable, wrapped};

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The answer.
    Brief,
    /// The answer, every condition, and the worst finding of each cell.
    #[default]
    Usual,
    /// The answer with all other differences between its variants, every condition, and every finding.
    Full,
}

/// Names are cut to no fewer characters than this if a table would otherwise not fit.
const NAME_AT_LEAST: usize = 12;

/// The report as text, its sentences wrapped at `width` characters.
pub fn terminal(summary: &RunSummary, width: usize, colour: Colour, detail: Detail) -> String {
    let writer = TerminalWriter::new(width, colour);
    let mut text = String::new();
    match &summary.answer {
        Some(answer) => writer.answer(&mut text, &summary.question, answer, detail),
        None => writer.paragraph(&mut text, Style::Bold, "", &summary.question),
    }
    if detail == Detail::Brief {
        return text;
    }
    for (place, condition) in summary.conditions.iter().enumerate() {
        if condition.is_untried() {
            continue;
        }
        text.push('\n');
        writer.condition(&mut text, condition, &summary.measures);
        text.push_str(&causes::bars(summary.causes.of_condition(place), colour));
    }
    if let Some(untried) = summary.untried() {
        text.push('\n');
        writer.paragraph(&mut text, Style::Plain, "", &untried);
    }
    if !summary.thresholds.is_empty() {
        text.push('\n');
    }
    for threshold in &summary.thresholds {
        let style = if threshold.holds {
            Style::Plain
        } else {
            Style::Warning
        };
        writer.paragraph(&mut text, style, "", &threshold.sentence);
    }
    if !summary.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &summary.warnings {
        writer.paragraph(
            &mut text,
            Style::Warning,
            "",
            &format!("Warning: {warning}"),
        );
    }
    text
}

fn style_of(verdict: &Verdict) -> Style {
    match verdict {
        Verdict::Overloaded { .. } => Style::Warning,
        Verdict::Compared(_) => Style::Plain,
    }
}

pub(crate) struct TerminalWriter {
    colour: Colour,
    width: usize,
}

impl TerminalWriter {
    pub(crate) fn new(width: usize, colour: Colour) -> TerminalWriter {
        TerminalWriter {
            colour,
            width: width.max(WIDTH_AT_LEAST),
        }
    }

    /// The answer first, then how certain it is, the reason for it, and the question.
    fn answer(&self, text: &mut String, question: &str, answer: &Answer, detail: Detail) {
        self.paragraph(text, Style::Bold, "", &answer.sentence);
        self.paragraph(text, Style::Plain, "", &answer.how_sure);
        if let Some(why) = &answer.why {
            self.paragraph(text, Style::Plain, "", &format!("Why: {why}"));
        }
        if detail == Detail::Full {
            for also in &answer.also {
                self.paragraph(text, Style::Plain, "  ", also);
            }
        }
        self.paragraph(text, Style::Faint, "", &format!("The question: {question}"));
    }

    /// Wraps `sentence` at the width; further lines are indented by two more columns.
    pub(crate) fn paragraph(&self, text: &mut String, style: Style, indent: &str, sentence: &str) {
        let sentence = printable(sentence);
        let words = sentence.split_whitespace();
        for line in wrapped(words, self.width, indent, str::to_owned) {
            text.push_str(&self.colour.styled(style, &line));
            text.push('\n');
        }
    }

    /// A condition: its table, the results that have no column, and its verdicts.
    fn condition(&self, text: &mut String, condition: &ConditionSummary, measures: &[Measure]) {
        self.paragraph(text, Style::Bold, "", &condition.condition.to_string());
        let cells = ShownCell::all_of(condition);
        self.table(text, &cells, &optional_columns(measures));
        for is_limit in [false, true] {
            let mut of_kind = cells.iter().filter(|cell| cell.is_limit == is_limit);
            if let Some(doubt) = of_kind.find_map(|cell| cell.doubt) {
                let what = if is_limit {
                    "\u{2264}, \u{2265}: limits, because the link itself was the bottleneck of the cell"
                } else {
                    "?: all trials of the cell are invalid, and no comparison uses them"
                };
                let said = format!("{what}; the first: {doubt}");
                self.paragraph(text, Style::Warning, "  ", &said);
            }
        }
        let mut trials = cells.iter().flat_map(|cell| &cell.figures.trials);
        if trials.any(|trial| trial.fast.contains(&true)) {
            let said = "The devices of a link exchanged super-packets (`fast`): fewer acknowledgements, as with receive offload";
            self.paragraph(text, Style::Faint, "  ", said);
        }
        self.below(text, &cells, |cell| measured(cell, measures));
        self.below(text, &cells, page_times);
        self.below(text, &cells, throughput);
        for verdict in condition.verdicts_of_pairs() {
            self.paragraph(text, style_of(verdict), "  ", &verdict.to_string());
        }
        if let Some(without) = condition.without_pairs() {
            self.paragraph(text, Style::Plain, "  ", &without);
        }
    }

    /// What is said of each cell below the table, with ` (?)` if it is doubtful.
    fn below(
        &self,
        text: &mut String,
        cells: &[ShownCell<'_>],
        said_of: impl Fn(&CellSummary) -> Option<String>,
    ) {
        for cell in cells {
            let figures: &CellSummary = &cell.figures;
            if let Some(said) = said_of(figures) {
                let mark = match (cell.doubt, cell.is_limit) {
                    (None, _) => "",
                    (Some(_), false) => " (?)",
                    (Some(_), true) => " (a limit)",
                };
                self.paragraph(text, Style::Plain, "  ", &(said + mark));
            }
        }
    }

    fn table(&self, text: &mut String, cells: &[ShownCell<'_>], optional_columns: &[&str]) {
        let mut columns: Vec<(usize, Vec<String>)> = COLUMNS
            .iter()
            .enumerate()
            .map(|(place, (title, field))| {
                let title = std::iter::once((*title).to_owned());
                let shown = |cell: &ShownCell<'_>| {
                    let figures: &CellSummary = &cell.figures;
                    match place {
                        // The names.
                        0 => field(figures),
                        _ => marked(cell, place, field(figures)),
                    }
                };
                let fields: Vec<String> = title.chain(cells.iter().map(shown)).collect();
                let widths = fields.iter().map(|field| field.chars().count());
                (widths.max().unwrap_or(0), fields)
            })
            .collect();
        let total = |columns: &[(usize, Vec<String>)]| {
            columns.iter().map(|(width, _)| width + 2).sum::<usize>()
        };
        // Names are shortened first, then columns left out: the page and the JSON have all of both.
        let shortest = columns[0].0.min(NAME_AT_LEAST);
        for title in optional_columns {
            if total(&columns) - columns[0].0 + shortest <= self.width {
                break;
            }
            columns.retain(|(_, fields)| fields[0] != *title);
        }
        let too_wide = total(&columns).saturating_sub(self.width);
        columns[0].0 = columns[0].0.saturating_sub(too_wide).max(shortest);
        for row in 0..=cells.len() {
            let style = if row == 0 { Style::Faint } else { Style::Plain };
            text.push_str(&self.colour.styled(style, &table_line(&columns, row)));
            text.push('\n');
        }
    }
}

/// `figure` of the column at `place`, with a `?` behind it if it is doubtful. A limit of times has a sign before it, and so
/// has one of the rate.
fn marked(cell: &ShownCell<'_>, place: usize, figure: String) -> String {
    match (cell.doubt, cell.is_limit) {
        (Some(_), false) if figure != "n/a" => figure + "?",
        (Some(_), true) if figure != "n/a" && TIMES.contains(&place) => format!("\u{2264}{figure}"),
        (Some(_), true) if figure != "n/a" && place + 1 == COLUMNS.len() => {
            format!("\u{2265}{figure}")
        }
        _ => figure,
    }
}

/// One line of the table. Names are aligned left, numbers right.
fn table_line(columns: &[(usize, Vec<String>)], row: usize) -> String {
    let (name_width, names) = &columns[0];
    let mut line = format!("  {:<name_width$}", cut(&names[row], *name_width));
    for (width, fields) in &columns[1..] {
        line.push_str(&format!("  {:>width$}", fields[row]));
    }
    line
}

/// The title of the connections' column.
const CONNECTIONS: &str = "conns";

/// The columns that a narrow table leaves out, in this order. Connections stay if they are a measure of the run.
fn optional_columns(measures: &[Measure]) -> Vec<&'static str> {
    let latencies = ["IQR", "p90", "p95", "max", "mean", "p99.9"];
    if measures.contains(&Measure::Connections) {
        latencies.to_vec()
    } else {
        [&[CONNECTIONS], latencies.as_slice()].concat()
    }
}

/// A column of the table: its title, and its text for a cell. Latencies are in milliseconds.
type Column = (&'static str, fn(&CellSummary) -> String);

const COLUMNS: [Column; 14] = [
    ("in ms", |cell| printable(&cell.variant)),
    ("mean", |cell| latency(cell.mean)),
    ("median", |cell| latency(cell.median)),
    ("IQR", |cell| latency(cell.interquartile_range)),
    ("p90", |cell| latency(cell.p90)),
    ("p95", |cell| latency(cell.p95)),
    ("p99", |cell| latency(cell.p99)),
    ("95 % of p99", |cell| interval(cell.p99)),
    ("p99.9", |cell| latency(cell.p999)),
    ("max", |cell| latency(cell.max)),
    ("failed", |cell| counted(cell, cell.failed)),
    ("unfinished", |cell| counted(cell, cell.censored)),
    (CONNECTIONS, |cell| number(cell.connections_opened)),
    ("rate/s", |cell| number(cell.rate_achieved_per_s)),
];

/// The places of times among these columns.
const TIMES: std::ops::RangeInclusive<usize> = 1..=9;

fn latency(spread: Option<Spread<Quantile>>) -> String {
    spread.map_or_else(
        || "n/a".to_owned(),
        |spread| figure::quantile(spread.median),
    )
}

/// `h2: median server time of /video 1260 ms, number of connections 91`: the measures that have no column.
fn measured(cell: &CellSummary, measures: &[Measure]) -> Option<String> {
    let said: Vec<String> = (cell.measured(measures).into_iter())
        .map(|(what, value)| format!("{what} {value}"))
        .collect();
    (!said.is_empty()).then(|| format!("{}: {}", cell.variant, said.join(", ")))
}

/// `h1: page time median 26.1 ms, p90 n/a, max 40.2 ms; 12 pages loaded, 1 with a failed request, 0 unfinished`.
fn page_times(cell: &CellSummary) -> Option<String> {
    let pages = cell.pages?;
    let known = |spread| match latency(spread) {
        none if spread.is_none() => none,
        // "never" has no unit.
        value if value.ends_with(|c: char| c.is_ascii_digit()) => value + " ms",
        word => word,
    };
    Some(format!(
        "{}: page time mean {}, median {}, p90 {}, p99 {}, max {}; {} loaded, {} with a failed request, {} unfinished",
        cell.variant,
        known(pages.mean),
        known(pages.median),
        known(pages.p90),
        known(pages.p99),
        known(pages.max),
        figure::counted(pages.loaded, "page", "pages"),
        figure::count(pages.failed),
        figure::count(pages.unfinished),
    ))
}

/// `h2: 16.8 Mbit/s, of 17.5 Mbit/s that ... allows`: the throughput, and what flow control allows, if windows can stop a
/// transfer.
fn throughput(cell: &CellSummary) -> Option<String> {
    let beside = cell.beside_prediction()?;
    Some(format!("{}: {beside}", cell.variant))
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

/// A count over a cell's valid trials; `n/a` if it has none.
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
