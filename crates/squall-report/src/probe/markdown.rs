//! The result of `squall probe` as Markdown, for an issue or a message.
//!
//! It has what the text for a terminal has, and the range of the rounds.

use squall_analysis::probe::Diagnosis;

use super::facts;
use crate::text::printable;

/// The result, with one section for each endpoint.
pub fn markdown(of: &[Diagnosis]) -> String {
    let mut text = String::new();
    for diagnosis in of {
        if of.len() > 1 {
            text += &format!("## {}\n\n", escaped(&diagnosis.endpoint.url));
        }
        one(&mut text, diagnosis);
    }
    if of.len() > 1 {
        text += "## Side by side\n\n";
        table(&mut text, &facts::beside(of));
    }
    text
}

fn one(text: &mut String, diagnosis: &Diagnosis) {
    let verdict = &diagnosis.verdict;
    *text += &format!(
        "**{}**\n\n{}\n\n",
        escaped(&verdict.headline),
        escaped(&verdict.sentence)
    );
    if !verdict.fix.is_empty() {
        *text += &format!("Fix: {}\n\n", escaped(&verdict.fix));
    }
    for found in &diagnosis.faults {
        *text += &format!("- {}: {}\n", found.fault.title(), escaped(&found.sentence));
        for evidence in &found.evidence {
            *text += &format!("  - {}\n", escaped(evidence));
        }
        *text += &format!("  - Fix: {}\n", escaped(&found.fix));
    }
    if !diagnosis.faults.is_empty() {
        text.push('\n');
    }
    let endpoint = &diagnosis.endpoint;
    let mut versions = facts::versions(endpoint);
    if let Some(heading) = versions.first_mut() {
        heading[0] = "version".to_owned();
    }
    table(text, &versions);
    let predictions = facts::predictions(endpoint);
    if !predictions.is_empty() {
        table(text, &predictions);
    }
    for (name, value) in facts::facts(endpoint) {
        *text += &format!("- {name}: {}\n", escaped(&value));
    }
    for facts in &endpoint.versions {
        *text += &format!(
            "- downloads over {}, rounds: {}\n",
            facts.version,
            facts::range(&facts.download)
        );
    }
    for note in &endpoint.notes {
        *text += &format!("- {}\n", escaped(note));
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

/// Foreign text without the characters that Markdown or a terminal would obey.
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
