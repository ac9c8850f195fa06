//! Results as Markdown, for the summary of a job on GitHub or a comment on a pull request: the answer, a table, what was
//! checked, and what to doubt.
//!
//! The tables have only the figures that such a reader looks for; the page has all. Text from elsewhere is escaped, so
//! that it is shown as it is. Runs and loads are in English only.

use squall_analysis::change::Changes;
use squall_analysis::findings::CellFindings;
use squall_analysis::{CellSummary, RunSummary, figure};
use squall_base::Duration;

use super::Check;
use crate::changes::{TITLES, row};
use crate::findings::one_line_each;
use crate::lang::{Language, Translator};
use crate::load::{FinishedLoad, plain_span};
use crate::table::latency;
use crate::text::printable;

/// A run: its answer, a table of all cells, the checks, the findings and the warnings.
pub fn markdown_of_run(summary: &RunSummary, cells: &[CellFindings], checks: &[Check]) -> String {
    let mut text = format!("### squall: {}\n\n", escaped(&summary.question));
    if let Some(answer) = &summary.answer {
        text += &format!("**{}**\n\n", escaped(&answer.sentence));
        text += &format!("{}\n\n", escaped(&answer.how_sure));
        if let Some(why) = &answer.why {
            text += &format!("Why: {}\n\n", escaped(why));
        }
    }
    let titles = [
        "variant",
        "condition",
        "median (ms)",
        "p99 (ms)",
        "failed",
        "rate/s",
    ];
    let cell_rows = summary.conditions.iter().flat_map(|it| &it.cells);
    let rows = cell_rows
        .filter(|cell| !cell.trials.is_empty())
        .map(cell_row);
    text += &table(&titles, rows);
    text += &checks_table(checks, &Translator::english());
    let found = one_line_each(cells);
    if !found.is_empty() {
        text += "\n**What is wrong**\n\n";
    }
    for line in found {
        text += &format!("- {}\n", escaped(&line));
    }
    let warnings = summary.warnings.iter().map(ToString::to_string);
    text += &notes(warnings, &Translator::english());
    text
}

fn cell_row(cell: &CellSummary) -> Vec<String> {
    let rate = cell.rate_achieved_per_s;
    vec![
        cell.variant.clone(),
        cell.condition.to_string(),
        latency(cell.median),
        latency(cell.p99),
        figure::count(cell.failed),
        rate.map_or_else(|| "n/a".to_owned(), |rate| figure::rate(rate.median)),
    ]
}

/// Two runs in a language: what changed, a table for each cell, the checks, and what else differs between them.
pub fn markdown_of_changes(
    language: Language,
    changes: &Changes,
    checks: &[Check],
    differences: &[String],
) -> String {
    let translator = Translator::of_changes(language, changes);
    let mut text = format!(
        "### squall compare\n\n**{}**\n",
        escaped(&translator.say(&changes.sentence()))
    );
    let titles = TITLES.map(|title| translator.say(title));
    let titles = titles.each_ref().map(String::as_str);
    for cell in &changes.cells {
        let name = translator.say(&format!("{}, {}", cell.variant, cell.condition));
        text += &format!("\n<details><summary>{}</summary>\n\n", in_html(&name));
        let rows: Vec<Vec<String>> = cell.figures.iter().map(row).collect();
        text += &table(&titles, translator.rows(&rows).into_iter());
        text += "\n</details>\n";
    }
    if !changes.unmatched.is_empty() {
        let said = translator.labelled("Not compared", &changes.unmatched.join("; "));
        text += &format!("\n{}\n", escaped(&said));
    }
    text += &checks_table(checks, &translator);
    text += &notes(differences.iter().cloned(), &translator);
    text
}

/// Loads on a server, each with its name, their comparison as plain text if there are several, and the checks.
pub fn markdown_of_load(
    loads: &[(String, FinishedLoad<'_>)],
    comparison: Option<&str>,
    checks: &[Check],
) -> String {
    let mut text = "### squall load\n\n".to_owned();
    if let Some(comparison) = comparison {
        // Four backticks: a name may have three.
        text += &format!("````text\n{}\n````\n\n", comparison.trim_end());
    }
    let titles = [
        "load",
        "requests",
        "succeeded",
        "rate/s",
        "p50",
        "p90",
        "p99",
        "max",
    ];
    text += &table(&titles, loads.iter().map(load_row));
    text + &checks_table(checks, &Translator::english())
}

fn load_row((name, load): &(String, FinishedLoad<'_>)) -> Vec<String> {
    let totals = load.totals;
    let response = totals.response();
    let known = |span: Option<Duration>| span.map_or_else(|| "n/a".to_owned(), plain_span);
    let rate = totals.achieved_per_s(load.end);
    vec![
        name.clone(),
        figure::count(totals.requests()),
        figure::count(totals.succeeded()),
        rate.map_or_else(|| "n/a".to_owned(), figure::rate),
        known(response.quantile(0.5)),
        known(response.quantile(0.9)),
        known(response.quantile(0.99)),
        known(response.max()),
    ]
}

fn checks_table(checks: &[Check], translator: &Translator) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let rows = checks.iter().map(|check| {
        let mark = if check.holds { "\u{2705}" } else { "\u{274c}" };
        let said = [&check.of, &check.name, &check.found].map(|text| translator.say(text));
        let fields = std::iter::once(mark.to_owned()).chain(said);
        fields.collect::<Vec<String>>()
    });
    let titles = ["", "of", "checked", "found"].map(|title| translator.say(title));
    "\n".to_owned() + &table(&titles.each_ref().map(String::as_str), rows)
}

fn notes(notes: impl Iterator<Item = String>, translator: &Translator) -> String {
    let lines: String = notes
        .map(|note| format!("- {}\n", escaped(&translator.say(&note))))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    let title = translator.say("What to doubt");
    format!("\n<details><summary>{title}</summary>\n\n{lines}\n</details>\n")
}

fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        titles.join(" | "),
        "---|".repeat(titles.len())
    );
    for row in rows {
        let fields: Vec<String> = row.iter().map(|field| escaped(field)).collect();
        text += &format!("| {} |\n", fields.join(" | "));
    }
    text
}

/// Text with Markdown's special characters escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text within an HTML element.
fn in_html(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped_so_that_it_is_shown_as_it_is() {
        let rows = std::iter::once(vec!["a|b".to_owned(), "<b>*x*".to_owned()]);
        let text = table(&["name", "p99"], rows);
        assert_eq!(
            text,
            "| name | p99 |\n|---|---|\n| a\\|b | &lt;b>\\*x\\* |\n"
        );
    }

    #[test]
    fn checks_are_marked_as_passed_or_failed() {
        let check = Check {
            of: "h1".to_owned(),
            name: "p(99)<50".to_owned(),
            found: "60 ms".to_owned(),
            holds: false,
        };
        let text = checks_table(&[check], &Translator::english());
        assert!(
            text.ends_with("| \u{274c} | h1 | p(99)&lt;50 | 60 ms |\n"),
            "{text}"
        );
    }
}
