//! The languages of a report: English, in which every sentence is made, and Chinese.
//!
//! summary.json and findings.json have their sentences in English, and so have the reports that squall-report makes from them.
//! The tables here (`sentences`, `findings`, `earlier`, `words`, `page`, `explain`, `script`; for a run while it works
//! `progress`; for the other commands `load`, `compare`, `probe`, `probe_facts`, `probe_fixes`) have each of these texts once,
//! with the Chinese beside it. A [`Translator`] finds the entry from which a text was made (`matching`) and translates it;
//! `markup` does so for a whole page. Text that is in no table, such as names, settings and a peer's messages, stays as it is.
//! No figure is computed or rounded here.

mod compare;
mod earlier;
mod explain;
mod findings;
mod load;
mod markup;
mod matching;
mod page;
mod probe;
mod probe_facts;
mod probe_fixes;
mod progress;
mod script;
mod sentences;
mod words;

use std::collections::BTreeSet;

use squall_analysis::RunSummary;
use squall_analysis::change::Changes;
use squall_analysis::findings::CellFindings;
use squall_analysis::probe::{Diagnosis, Sweep};
use squall_base::secrets::redacted_text;

use crate::columns::{left, width_of};

/// The language of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese in simplified characters.
    Zh,
}

impl Language {
    /// A text of a report in this language. Any other text stays as it is.
    pub fn say(self, text: &str) -> String {
        Translator::of(self, BTreeSet::new()).say(text)
    }

    /// Lines of a report in this language, each with its indent.
    pub fn say_lines(self, text: &str) -> String {
        if self == Language::En {
            return text.to_owned();
        }
        let translator = Translator::of(self, BTreeSet::new());
        let lines = text.split('\n').map(|line| translator.indented(line));
        lines.collect::<Vec<String>>().join("\n")
    }

    /// A page of a run in this language. `page` is the page in English, whole or served by `squall view`.
    pub fn page(self, page: String, summary: &RunSummary) -> String {
        match self {
            Language::En => page,
            Language::Zh => Translator::of_run(self, summary).page(page),
        }
    }
}

/// A text of a report in both languages. A part in braces is a slot, with the same name in both. The first character of a
/// slot in the English text says what fills it. Translated: `{word}`, a text without punctuation, and `{*word}`, a sentence.
/// Kept: `{@word}`, one of the run's names, `{#word}`, a number, `{!word}`, the letter of a cause, `{~word}`, one word, and
/// `{=word}`, one clause.
#[derive(Clone, Copy, Debug)]
struct Phrase {
    en: &'static str,
    zh: &'static str,
}

const fn phrase(en: &'static str, zh: &'static str) -> Phrase {
    Phrase { en, zh }
}

/// The texts of all tables. The page's scripts translate those of `script` themselves.
fn phrases() -> impl Iterator<Item = &'static Phrase> {
    let tables = [
        words::PHRASES,
        sentences::PHRASES,
        sentences::DOUBTS,
        findings::PHRASES,
        findings::FIXES,
        earlier::PHRASES,
        page::PHRASES,
        page::DETAILS,
        explain::PHRASES,
        explain::MOMENTS,
        script::PHRASES,
        load::PHRASES,
        compare::PHRASES,
        probe::PHRASES,
        probe_facts::PHRASES,
        probe_fixes::FIXES,
        probe_fixes::SETTINGS,
        progress::PHRASES,
    ];
    tables.into_iter().flatten()
}

/// Translates the texts of one report.
#[derive(Clone, Debug)]
pub(crate) struct Translator {
    language: Language,
    /// Names that stay as they are: those of variants, conditions and whatever else the user has named.
    names: BTreeSet<String>,
}

impl Translator {
    pub(crate) fn english() -> Translator {
        Translator::of(Language::En, BTreeSet::new())
    }

    fn of(language: Language, names: BTreeSet<String>) -> Translator {
        Translator { language, names }
    }

    /// For the report of a run.
    pub(crate) fn of_run(language: Language, summary: &RunSummary) -> Translator {
        Translator::of_runs(language, [summary])
    }

    /// For a list of runs.
    pub(crate) fn of_runs<'a>(
        language: Language,
        summaries: impl IntoIterator<Item = &'a RunSummary>,
    ) -> Translator {
        if language == Language::En {
            return Translator::english();
        }
        let names = summaries.into_iter().flat_map(names_of_run);
        Translator::of(language, BTreeSet::new()).keeping(names)
    }

    /// For a text with these names.
    pub(crate) fn of_names(language: Language, names: Vec<String>) -> Translator {
        Translator::of(language, names.into_iter().collect())
    }

    /// For two runs that are compared.
    pub(crate) fn of_changes(language: Language, changes: &Changes) -> Translator {
        let mut names = BTreeSet::new();
        for cell in &changes.cells {
            names.extend([cell.variant.clone(), cell.condition.to_string()]);
        }
        for said in &changes.unmatched {
            // `VARIANT at CONDITION, only after`
            let cell = said
                .rsplit_once(", only ")
                .map_or(said.as_str(), |(cell, _)| cell);
            if let Some((variant, condition)) = cell.rsplit_once(" at ") {
                names.extend([variant.to_owned(), condition.to_owned()]);
            }
        }
        names.remove("");
        Translator::of(language, names)
    }

    /// For the results of probes. URLs stay as they are, with and without their secrets.
    pub(crate) fn of_probe<'a>(
        language: Language,
        results: impl IntoIterator<Item = &'a Diagnosis>,
    ) -> Translator {
        let mut names = BTreeSet::new();
        for endpoint in results.into_iter().map(|diagnosis| &diagnosis.endpoint) {
            names.extend([
                endpoint.url.clone(),
                redacted_text(&endpoint.url).into_owned(),
                endpoint.address.clone(),
            ]);
            names.extend(endpoint.server.clone());
            names.extend(endpoint.addresses.iter().cloned());
            let others = endpoint.coalescing.iter();
            names.extend(others.map(|other| other.name.clone()));
        }
        names.remove("");
        Translator::of(language, names)
    }

    /// For probes behind different links.
    pub(crate) fn of_sweep(language: Language, sweep: &Sweep) -> Translator {
        let urls = [sweep.url.clone(), redacted_text(&sweep.url).into_owned()];
        let settings = sweep.points.iter().flat_map(|point| {
            let own = format!("{} {}", sweep.condition, point.value);
            [point.link.clone(), own]
        });
        Translator::of(language, BTreeSet::new()).keeping(settings.chain(urls))
    }

    /// The same translator, for which these names stay as they are, too.
    pub(crate) fn keeping(mut self, names: impl IntoIterator<Item = String>) -> Translator {
        self.names.extend(names);
        self.names.remove("");
        self
    }

    /// For the findings of a run.
    pub(crate) fn of_findings(language: Language, cells: &[CellFindings]) -> Translator {
        let names = cells
            .iter()
            .flat_map(|cell| [cell.variant.clone(), cell.condition.to_string()]);
        match language {
            Language::En => Translator::english(),
            Language::Zh => Translator::of(language, names.collect()),
        }
    }

    /// Whether texts stay as they are.
    pub(crate) fn is_english(&self) -> bool {
        self.language == Language::En
    }

    /// A text in the language. If no table has all of it, the parts that a table has are translated, and the others kept.
    pub(crate) fn say(&self, text: &str) -> String {
        match self.language {
            Language::En => text.to_owned(),
            Language::Zh => matching::said(&self.names, text),
        }
    }

    /// A text after its indent, which stays.
    pub(crate) fn indented(&self, text: &str) -> String {
        let core = text.trim_start_matches(' ');
        let indent = &text[..text.len() - core.len()];
        format!("{indent}{}", self.say(core))
    }

    /// The rows of a table. Fields keep their indents.
    pub(crate) fn rows(&self, rows: &[Vec<String>]) -> Vec<Vec<String>> {
        let row = |row: &Vec<String>| -> Vec<String> {
            row.iter().map(|field| self.indented(field)).collect()
        };
        rows.iter().map(row).collect()
    }

    /// A name and its value, each translated by itself: `name: value`.
    pub(crate) fn labelled(&self, name: &str, value: &str) -> String {
        let between = if self.is_english() { ": " } else { "：" };
        format!("{}{between}{}", self.say(name), self.say(value))
    }

    /// A page, which this crate has made in English.
    pub(crate) fn page(&self, page: String) -> String {
        if self.is_english() {
            return page;
        }
        markup::page(self, &page)
    }

    /// A part of a page, which this crate has made in English.
    pub(crate) fn part(&self, part: String) -> String {
        if self.is_english() {
            return part;
        }
        markup::part(self, &part)
    }

    /// A line of a text in columns, which keep their places. At least two spaces separate columns. A column with an event
    /// begins with a full stop.
    pub(crate) fn line(&self, line: &str) -> String {
        let mut said = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            let end = rest.find("  ").unwrap_or(rest.len());
            let (column, behind) = rest.split_at(end);
            let spaces = behind.len() - behind.trim_start_matches(' ').len();
            let (mark, text) = match column.strip_prefix(". ") {
                Some(text) => (". ", text),
                None => ("", column),
            };
            let chinese = format!("{mark}{}", self.say(text));
            // After a text that is longer than its column, two spaces are left.
            let room = width_of(column) + spaces;
            said += &match spaces {
                0 => chinese,
                _ => left(&chinese, room.max(width_of(&chinese) + 2)),
            };
            rest = &behind[spaces..];
        }
        said
    }
}

/// Names that the user gave in a run, and names that a report makes from settings.
fn names_of_run(summary: &RunSummary) -> BTreeSet<String> {
    let own = [&summary.recipe, &summary.question, &summary.profile];
    let mut names: BTreeSet<String> = own.into_iter().cloned().collect();
    names.extend(summary.variants.iter().cloned());
    for condition in &summary.conditions {
        names.insert(condition.condition.to_string());
        let trials = condition.cells.iter().flat_map(|cell| &cell.trials);
        names.extend(trials.map(|trial| trial.folder.clone()));
    }
    for grid in summary.grids() {
        for axis in [&grid.rows, &grid.columns] {
            let headings = axis.values.iter();
            names.extend(headings.map(|value| format!("{} {value}", axis.setting)));
        }
        names.insert(grid.shared);
    }
    names
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_sources;
