//! The result of `squall probe` as Markdown, for an issue or a message.
//!
//! It has what the text for a terminal has, and the range of the rounds.

use squall_analysis::probe::Diagnosis;

use super::facts;
use crate::lang::{Language, Translator};
use crate::text::printable;

/// The result in a language, with one section for each endpoint.
pub fn markdown_in(language: Language, of: &[Diagnosis]) -> String {
    let translator = Translator::of_probe(language, of);
    let mut text = String::new();
    for diagnosis in of {
        if of.len() > 1 {
            text += &format!("## {}\n\n", escaped(&diagnosis.endpoint.url));
        }
        one(&mut text, diagnosis, &translator);
    }
    if of.len() > 1 {
        text += &format!("## {}\n\n", translator.say("Side by side"));
        table(&mut text, &translator.rows(&facts::beside(of)));
    }
    text
}

fn one(text: &mut String, diagnosis: &Diagnosis, translator: &Translator) {
    let say = |said: &str| escaped(&translator.say(said));
    let labelled = |name: &str, value: &str| escaped(&translator.labelled(name, value));
    let verdict = &diagnosis.verdict;
    *text += &format!(
        "**{}**\n\n{}\n\n",
        say(&verdict.headline),
        say(&verdict.sentence)
    );
    if !verdict.fix.is_empty() {
        *text += &format!("{}\n\n", labelled("Fix", &verdict.fix));
    }
    for found in &diagnosis.faults {
        *text += &format!("- {}\n", labelled(found.fault.title(), &found.sentence));
        for evidence in &found.evidence {
            *text += &format!("  - {}\n", say(evidence));
        }
        *text += &format!("  - {}\n", labelled("Fix", &found.fix));
    }
    if !diagnosis.faults.is_empty() {
        text.push('\n');
    }
    let endpoint = &diagnosis.endpoint;
    let mut versions = facts::versions(endpoint);
    if let Some(heading) = versions.first_mut() {
        heading[0] = "version".to_owned();
    }
    table(text, &translator.rows(&versions));
    let predictions = facts::predictions(endpoint);
    if !predictions.is_empty() {
        table(text, &translator.rows(&predictions));
    }
    for (name, value) in facts::facts(endpoint) {
        *text += &format!("- {}\n", labelled(name, &value));
    }
    for facts in &endpoint.versions {
        let name = format!("downloads over {}, rounds", facts.version);
        let rates = facts::range(&facts.download);
        *text += &format!("- {}\n", labelled(&name, &rates));
    }
    for note in &endpoint.notes {
        *text += &format!("- {}\n", say(note));
    }
    text.push('\n');
}

/// Rows, the first of which is the heading.
pub(super) fn table(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    for (place, row) in rows.iter().enumerate() {
        let mut cells: Vec<String> = row.iter().map(|cell| escaped(cell.trim())).collect();
        cells.resize(columns, String::new());
        *text += &format!("| {} |\n", cells.join(" | "));
        if place == 0 {
            *text += &format!("|{}\n", "---|".repeat(columns));
        }
    }
    text.push('\n');
}

/// Foreign text without the characters that Markdown or a terminal would interpret.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '<' | '[' | '\\' | '#') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
