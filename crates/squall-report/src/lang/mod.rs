//! The languages of a report: English, in which every sentence is made, and Chinese.
//!
//! summary.json and findings.json have their sentences in English, and so have the reports that squall-report makes of them.
//! The tables here (`sentences`, `findings`, `words`, `page`, `explain`, `script`) have each of these texts once, with its Chinese beside
//! it. A [`Translator`] finds the entry that a text was made by (`matching`) and says it in Chinese; `markup` does so for a
//! whole page. What no table has, such as names, settings and the words of a peer, stays as it is. English texts are returned
//! unchanged. No figure is read or written here.

mod explain;
mod findings;
mod markup;
mod matching;
mod page;
mod script;
mod sentences;
mod words;

use std::collections::BTreeSet;

use squall_analysis::RunSummary;
use squall_analysis::findings::CellFindings;

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

    /// A page of a run in this language. `page` is the page in English, whole or served by `squall view`.
    pub fn page(self, page: String, summary: &RunSummary) -> String {
        match self {
            Language::En => page,
            Language::Zh => markup::page(&Translator::of_run(self, summary), &page),
        }
    }
}

/// A text of a report in both languages. A part in braces stands for what differs from text to text, by the same name in both.
/// In the English text, `{word}` is a text that is said in the other language too, `{*word}` a sentence, `{@word}` one of the
/// run's names, `{#word}` a number, `{!word}` the letter of a cause, `{~word}` one word and `{=word}` one clause that are kept.
#[derive(Clone, Copy, Debug)]
struct Phrase {
    en: &'static str,
    zh: &'static str,
}

const fn phrase(en: &'static str, zh: &'static str) -> Phrase {
    Phrase { en, zh }
}

/// Every text. Those of the page's scripts are said by the scripts, too.
fn phrases() -> impl Iterator<Item = &'static Phrase> {
    let tables = [
        words::PHRASES,
        sentences::PHRASES,
        sentences::DOUBTS,
        findings::PHRASES,
        findings::FIXES,
        page::PHRASES,
        page::DETAILS,
        explain::PHRASES,
        explain::MOMENTS,
        script::PHRASES,
    ];
    tables.into_iter().flatten()
}

/// Says the texts of one report in a language.
#[derive(Clone, Debug)]
pub(crate) struct Translator {
    language: Language,
    /// Foreign text, which is kept as it is: variants, conditions and what else the run has names for.
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
        if language == Language::En {
            return Translator::english();
        }
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
        names.remove("");
        Translator::of(language, names)
    }

    /// For a text with these names.
    pub(crate) fn of_names(language: Language, names: Vec<String>) -> Translator {
        Translator::of(language, names.into_iter().collect())
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

    /// A text in the language. Of what is in no table, the parts that are in one are said, and the others kept.
    pub(crate) fn say(&self, text: &str) -> String {
        match self.language {
            Language::En => text.to_owned(),
            Language::Zh => matching::said(&self.names, text),
        }
    }

    /// A line of a text in columns, which stay where they are: each column ends in at least two spaces. A full stop begins what
    /// happened.
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
            // A longer text keeps its distance.
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

#[cfg(test)]
mod tests;
