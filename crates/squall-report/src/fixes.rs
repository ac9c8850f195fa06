//! What a run gained from the fixes that it tried, as text for the terminal, and their wording for the page.
//!
//! It judges nothing: the results come from squall-analysis. `html/tried` prints the same on the page.

use squall_analysis::{RunSummary, TriedCondition, TriedFix};
use squall_base::plan::UntriedFix;

use crate::lang::{Language, Translator};
use crate::terminal::{Detail, TerminalWriter};
use crate::text::{Colour, Style};

/// The tried fixes as text in a language, its sentences wrapped at `width` columns; empty if there are none.
pub fn fixes_in(
    language: Language,
    summary: &RunSummary,
    width: usize,
    colour: Colour,
    detail: Detail,
) -> String {
    let translator = Translator::of_run(language, summary);
    let writer = TerminalWriter::new(width, colour).saying(translator);
    let mut text = String::new();
    let has_fixes = !summary.tried_fixes.is_empty() || !summary.fixes_not_tried.is_empty();
    if !has_fixes || detail == Detail::Brief {
        return text;
    }
    text.push('\n');
    writer.paragraph(&mut text, Style::Bold, "", "Tried fixes");
    for (fix, result) in results(&summary.tried_fixes) {
        let sentence = tried(summary, fix, result);
        writer.paragraph(&mut text, Style::Plain, "  ", &sentence);
    }
    for fix in &summary.fixes_not_tried {
        writer.paragraph(&mut text, Style::Faint, "  ", &not_tried(fix));
    }
    text
}

/// Each fix with its result under each condition.
pub(crate) fn results<'a>(
    fixes: &'a [TriedFix],
) -> impl Iterator<Item = (&'a TriedFix, &'a TriedCondition)> {
    let each = |fix: &'a TriedFix| fix.results.iter().map(move |result| (fix, result));
    fixes.iter().flat_map(each)
}

/// `h2: http2.stream_window = 1MiB on client: p99 412 ms -> 118 ms, 0.29x (0.27x to 0.31x), a proven gain by 6 pairs`, with
/// the condition if the run has several.
pub(crate) fn tried(summary: &RunSummary, fix: &TriedFix, result: &TriedCondition) -> String {
    let at = if summary.conditions.len() > 1 {
        format!(", at {}", result.condition)
    } else {
        String::new()
    };
    format!("{}{at}: {}: {}", fix.variant, fix.what(), result.sentence)
}

/// `Not tried for h2, as no recipe setting does this: nginx: http2_body_preread_size (Stream window too small)`.
pub(crate) fn not_tried(fix: &UntriedFix) -> String {
    format!(
        "Not tried for {}, as {}: {}: {} ({})",
        fix.variant, fix.why, fix.station, fix.setting, fix.title
    )
}
