//! The top of the page: the answer in one clause, how certain it is, the reason, and the health of the run. Numbers, further
//! results and doubts are folded below.
//!
//! All sentences come from squall-analysis. Conditions without trials are only named.

use squall_analysis::answer::{Answer, Confidence};
use squall_analysis::{RunSummary, figure};

use super::terms::explained;
use super::text::escaped;

/// Appends the answer.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    page.push_str("<section class=\"overview\" aria-label=\"Answer\">\n");
    if let Some(answer) = &summary.answer {
        push_answer(page, answer);
    }
    push_health(page, summary);
    push_details(page, summary);
    if let Some(untried) = summary.untried() {
        page.push_str(&format!("<p class=\"untried\">{}</p>\n", escaped(&untried)));
    }
    page.push_str("</section>\n");
}

fn push_answer(page: &mut String, answer: &Answer) {
    let word = answer.confidence.name();
    page.push_str(&format!(
        "<p class=\"answer\">{} <span class=\"confidence {}\">{} {word}</span></p>\n",
        escaped(&answer.headline),
        word.replace(' ', "-"),
        sign(answer.confidence),
    ));
    if let Some(reason) = &answer.reason {
        page.push_str(&format!(
            "<p class=\"reason\">Why: {}</p>\n",
            explained(reason)
        ));
    }
}

/// A character that shows the confidence without colours or words.
fn sign(confidence: Confidence) -> char {
    match confidence {
        Confidence::Proven => '✓',
        Confidence::Likely => '≈',
        Confidence::NotShown => '=',
        Confidence::Unknown => '?',
    }
}

fn push_health(page: &mut String, summary: &RunSummary) {
    let health = summary.health();
    let word = health.grade.name();
    page.push_str(&format!(
        "<p class=\"health {word}\"><b>{word}</b>: {}</p>\n",
        escaped(&health.sentence)
    ));
}

fn push_details(page: &mut String, summary: &RunSummary) {
    if summary.answer.is_none() && summary.warnings.is_empty() {
        return;
    }
    let doubts = match summary.warnings.len() as u64 {
        0 => String::new(),
        count => format!(", and {}", figure::counted(count, "doubt", "doubts")),
    };
    page.push_str(&format!(
        "<details class=\"more\"><summary>Numbers and further results{doubts}</summary>\n"
    ));
    if let Some(answer) = &summary.answer {
        push_numbers(page, answer);
    }
    push_warnings(page, summary);
    page.push_str("</details>\n");
}

fn push_numbers(page: &mut String, answer: &Answer) {
    let why = answer.why.as_ref();
    let why = why.map_or_else(String::new, |why| format!(" Why: {}", explained(why)));
    page.push_str(&format!(
        "<p>{}</p>\n<p class=\"how-sure\">{}{why}</p>\n",
        explained(&answer.sentence),
        explained(&answer.how_sure)
    ));
    if answer.also.is_empty() {
        return;
    }
    page.push_str("<ul class=\"also\">\n");
    for also in &answer.also {
        page.push_str(&format!("<li>{}</li>\n", explained(also)));
    }
    page.push_str("</ul>\n");
}

fn push_warnings(page: &mut String, summary: &RunSummary) {
    if summary.warnings.is_empty() {
        return;
    }
    page.push_str("<div class=\"warnings\">\n<h2>What to doubt</h2>\n<ul>\n");
    for warning in &summary.warnings {
        page.push_str(&format!("<li>{}</li>\n", escaped(&warning.to_string())));
    }
    page.push_str("</ul>\n</div>\n");
}
