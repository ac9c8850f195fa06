//! The report for the terminal: the answer, one table of all conditions, where the time went, and what to doubt.
//!
//! The usual report has what a reader needs to believe the answer; the full one also has every comparison, a table of its own
//! for each condition, and the causes under all of them. It writes no file and does not query the terminal's width or colours;
//! the caller passes both. Names are foreign text, so control characters in them never reach the terminal. `table` lays out
//! the rows, `causes` the bars; `html` builds the page for the browser.

use squall_analysis::answer::Answer;
use squall_analysis::{CellSummary, ConditionSummary, HealthGrade, RunSummary, Verdict, figure};
use squall_base::plan::Measure;

use crate::causes;
use crate::columns::{chinese_lines, width_of};
use crate::lang::{Language, Translator};
use crate::shown::ShownCell;
use crate::table::{Table, latency};
use crate::text::{Colour, Style, WIDTH_AT_LEAST, printable, wrapped};

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The answer.
    Brief,
    /// The answer, one table, the causes under the answer's condition, and the findings in a line each.
    #[default]
    Usual,
    /// The answer with all other differences between its variants, every condition with its comparisons and causes, and every
    /// finding of each cell.
    Full,
}

/// A condition that has trials, with its cells.
struct TriedCondition<'a> {
    /// Its place among the run's conditions.
    place: usize,
    condition: &'a ConditionSummary,
    cells: Vec<ShownCell<'a>>,
}

/// The report as text in a language, its sentences wrapped at `width` columns.
pub fn terminal_in(
    language: Language,
    summary: &RunSummary,
    width: usize,
    colour: Colour,
    detail: Detail,
) -> String {
    let translator = Translator::of_run(language, summary);
    let writer = TerminalWriter::new(width, colour).saying(translator);
    let mut text = String::new();
    match &summary.answer {
        Some(answer) => writer.answer(&mut text, &summary.question, answer, detail),
        None => writer.paragraph(&mut text, Style::Bold, "", &summary.question),
    }
    if detail == Detail::Brief {
        return text;
    }
    let conditions = summary.conditions.iter().enumerate();
    let tried: Vec<TriedCondition<'_>> = conditions
        .filter(|(_, condition)| !condition.is_untried())
        .map(|(place, condition)| TriedCondition {
            place,
            condition,
            cells: ShownCell::all_of(condition),
        })
        .collect();
    if detail == Detail::Full || tried.len() < 2 {
        for one in &tried {
            writer.section(&mut text, summary, one, detail);
        }
    } else {
        writer.all_conditions(&mut text, summary, &tried);
    }
    if let Some(untried) = summary.untried() {
        text.push('\n');
        writer.paragraph(&mut text, Style::Plain, "", &untried);
    }
    if detail == Detail::Full {
        writer.health(&mut text, summary);
    }
    writer.thresholds_and_warnings(&mut text, summary);
    text
}

pub(crate) struct TerminalWriter {
    colour: Colour,
    width: usize,
    translator: Translator,
}

impl TerminalWriter {
    pub(crate) fn new(width: usize, colour: Colour) -> TerminalWriter {
        TerminalWriter {
            colour,
            width: width.max(WIDTH_AT_LEAST),
            translator: Translator::english(),
        }
    }

    /// The same writer, which writes every sentence in another language.
    pub(crate) fn saying(self, translator: Translator) -> TerminalWriter {
        TerminalWriter { translator, ..self }
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
        let sentence = printable(&self.translator.say(sentence));
        // Chinese has no spaces to wrap at, and the question in an English report may be Chinese.
        let is_wide = width_of(&sentence) > sentence.chars().count();
        let lines = if self.translator.is_english() && !is_wide {
            let words = sentence.split_whitespace();
            wrapped(words, self.width, indent, str::to_owned)
        } else {
            chinese_lines(&sentence, self.width, indent)
        };
        for line in lines {
            text.push_str(&self.colour.styled(style, &line));
            text.push('\n');
        }
    }

    /// A condition with a table of its own, its verdicts and its causes.
    fn section(
        &self,
        text: &mut String,
        summary: &RunSummary,
        tried: &TriedCondition<'_>,
        detail: Detail,
    ) {
        let table = self.table(&summary.measures, std::slice::from_ref(tried));
        text.push('\n');
        self.paragraph(
            text,
            Style::Bold,
            "",
            &tried.condition.condition.to_string(),
        );
        text.push_str(&table.titles());
        self.rows(text, &table, tried, &summary.measures);
        self.verdicts(text, tried.condition, detail);
        self.causes(text, summary, tried, "where the time went");
    }

    /// One table of all conditions, and below it the causes under the answer's condition.
    fn all_conditions(
        &self,
        text: &mut String,
        summary: &RunSummary,
        tried: &[TriedCondition<'_>],
    ) {
        let table = self.table(&summary.measures, tried);
        text.push('\n');
        text.push_str(&table.titles());
        for one in tried {
            self.paragraph(text, Style::Bold, "", &one.condition.condition.to_string());
            self.rows(text, &table, one, &summary.measures);
            self.verdicts(text, one.condition, Detail::Usual);
        }
        let result = (summary.answer.as_ref()).and_then(|answer| answer.result.as_ref());
        let primary = summary.primary.as_ref().map(|primary| &primary.condition);
        // Without an answer or a primary comparison, the causes of every condition are shown.
        let at = result.map(|result| &result.condition).or(primary);
        let is_shown =
            |one: &&TriedCondition<'_>| at.is_none_or(|at| *at == one.condition.condition);
        for one in tried.iter().filter(is_shown) {
            let title = format!("where the time went, {}", one.condition.condition);
            self.causes(text, summary, one, &title);
        }
    }

    /// The table of all cells of `tried`.
    fn table(&self, measures: &[Measure], tried: &[TriedCondition<'_>]) -> Table {
        let cells: Vec<&ShownCell<'_>> = tried.iter().flat_map(|one| &one.cells).collect();
        Table::of(&cells, measures, self.width, self.colour, &self.translator)
    }

    /// The rows of a condition, and the results that have no column.
    fn rows(
        &self,
        text: &mut String,
        table: &Table,
        tried: &TriedCondition<'_>,
        measures: &[Measure],
    ) {
        for cell in &tried.cells {
            text.push_str(&table.row(cell));
        }
        self.doubts(text, &tried.cells);
        self.below(text, &tried.cells, |cell| measured(cell, measures));
        self.below(text, &tried.cells, page_times);
        self.below(text, &tried.cells, throughput);
    }

    /// Which figures are doubtful or limits, and how packets crossed the links.
    fn doubts(&self, text: &mut String, cells: &[ShownCell<'_>]) {
        let kinds = [
            (
                (false, false),
                "?: all trials of the cell are invalid, and no comparison uses them",
            ),
            (
                (false, true),
                "?: no trial of the cell is valid, and comparisons use doubtful ones only where that cannot change the answer",
            ),
            (
                (true, false),
                "\u{2264}, \u{2265}: limits, because the link itself was the bottleneck of the cell",
            ),
        ];
        for (kind, what) in kinds {
            let mut of_kind =
                (cells.iter()).filter(|cell| (cell.is_limit, cell.is_doubtful) == kind);
            if let Some(doubt) = of_kind.find_map(|cell| cell.doubt) {
                let said = format!("{what}; the first: {doubt}");
                self.paragraph(text, Style::Warning, "  ", &said);
            }
        }
        let mut trials = cells.iter().flat_map(|cell| &cell.figures.trials);
        if trials.any(|trial| trial.fast.contains(&true)) {
            let said = "The devices of a link exchanged super-packets (`fast`): fewer acknowledgements, as with receive offload";
            self.paragraph(text, Style::Faint, "  ", said);
        }
    }

    /// The overloaded cells of a condition, pairs that cannot be compared and, in the full report, all comparisons.
    fn verdicts(&self, text: &mut String, condition: &ConditionSummary, detail: Detail) {
        for verdict in condition.verdicts_of_pairs() {
            let style = match verdict {
                Verdict::Overloaded { .. } => Style::Warning,
                Verdict::Compared(_) if detail == Detail::Full => Style::Plain,
                Verdict::Compared(_) => continue,
            };
            self.paragraph(text, style, "  ", &verdict.to_string());
        }
        if let Some(without) = condition.without_pairs() {
            self.paragraph(text, Style::Plain, "  ", &without);
        }
    }

    fn causes(
        &self,
        text: &mut String,
        summary: &RunSummary,
        tried: &TriedCondition<'_>,
        title: &str,
    ) {
        let cells = summary.causes.of_condition(tried.place);
        if !cells.is_empty() {
            self.paragraph(text, Style::Plain, "  ", title);
            let bars = causes::bars(cells, self.width, self.colour, &self.translator);
            text.push_str(&bars);
        }
    }

    /// Whether the run can be trusted, in the words of the page.
    fn health(&self, text: &mut String, summary: &RunSummary) {
        let health = summary.health();
        let style = match health.grade {
            HealthGrade::Sound => Style::Plain,
            HealthGrade::Doubtful | HealthGrade::Unsound => Style::Warning,
        };
        let said = format!("{}: {}", health.grade.name(), health.sentence);
        text.push('\n');
        self.paragraph(text, style, "", &said);
    }

    fn thresholds_and_warnings(&self, text: &mut String, summary: &RunSummary) {
        if !summary.thresholds.is_empty() {
            text.push('\n');
        }
        for threshold in &summary.thresholds {
            let style = if threshold.holds {
                Style::Plain
            } else {
                Style::Warning
            };
            self.paragraph(text, style, "", &threshold.sentence);
        }
        if !summary.warnings.is_empty() {
            text.push('\n');
        }
        for warning in &summary.warnings {
            self.paragraph(text, Style::Warning, "", &format!("Warning: {warning}"));
        }
    }

    /// The line about each cell below the table, with ` (?)` if it is doubtful.
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
