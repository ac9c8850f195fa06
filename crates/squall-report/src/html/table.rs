//! Tables of numbers: with a caption, and with a label on each cell, so that narrow screens can show a row as a list.
//!
//! Scripts offer each table as CSV (assets/export.js), under the name of the table. What the cells say is decided by the
//! callers.

use squall_analysis::{Quantile, Spread, figure};

use super::text::{escaped, latency};

/// Begins a table, up to its first row. `name` names its file; `caption` is markup.
pub(super) fn begin<'a>(
    page: &mut String,
    name: &str,
    caption: &str,
    titles: impl IntoIterator<Item = &'a str>,
) {
    page.push_str(&format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table\"><table class=\"numbers\" data-name=\"{}\">\n\
         <caption>{caption}</caption>\n<thead><tr>",
        escaped(name),
    ));
    for title in titles {
        // Screen readers would announce a header without words.
        page.push_str(&match title {
            "" => "<td></td>".to_owned(),
            title => format!("<th scope=\"col\">{}</th>", escaped(title)),
        });
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// Ends a table.
pub(super) fn end(page: &mut String) {
    page.push_str("</tbody></table></div>\n");
}

/// A cell: `title` is the column's title, `class` may be empty, `content` is markup.
pub(super) fn push_cell(page: &mut String, title: &str, class: &str, content: &str) {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    page.push_str(&format!(
        "<td{class} data-label=\"{}\">{content}</td>",
        escaped(title)
    ));
}

/// A latency with its 95 % interval in brackets, or with the range of its trials.
pub(super) fn push_latency(page: &mut String, title: &str, spread: Option<Spread<Quantile>>) {
    let Some(spread) = spread else {
        push_cell(page, title, "none", "n/a");
        return;
    };
    let range = match spread.interval {
        Some(interval) => bracketed(&latency(interval.low), &latency(interval.high)),
        None => range(&latency(spread.low), &latency(spread.high)),
    };
    push_cell(page, title, "", &(latency(spread.median) + &range));
}

/// A number with its 95 % interval in brackets, or with the range of its trials.
pub(super) fn push_number(page: &mut String, title: &str, spread: Option<Spread<f64>>) {
    let Some(spread) = spread else {
        push_cell(page, title, "none", "n/a");
        return;
    };
    let range = match spread.interval {
        Some(interval) if interval.low != interval.high => {
            bracketed(&figure::rate(interval.low), &figure::rate(interval.high))
        }
        _ => range(&figure::rate(spread.low), &figure::rate(spread.high)),
    };
    push_cell(page, title, "", &(figure::rate(spread.median) + &range));
}

/// A 95 % interval.
fn bracketed(low: &str, high: &str) -> String {
    format!("<small>[{low}\u{2009}–\u{2009}{high}]</small>")
}

/// The range of the trials; empty if they do not differ.
fn range(low: &str, high: &str) -> String {
    if low == high {
        return String::new();
    }
    format!("<small>{low}\u{2009}–\u{2009}{high}</small>")
}
