//! The top of the page: the answer, then every condition with its p99s on one common axis, and its verdicts; conditions
//! without trials are only named.
//!
//! The axis is logarithmic and shared by all rows, so a glance down the column shows where the variants diverge. It is
//! drawn here, without scripts, and has no number that the sections do not have. `section` has one condition in detail.

use squall_analysis::answer::Answer;
use squall_analysis::{CellSummary, Quantile, RunSummary, Spread};
use squall_base::Duration;

use super::section;
use super::text::{SERIES, escaped, latency, swatch};

/// The shared logarithmic axis of the p99s, in milliseconds.
#[derive(Clone, Copy)]
struct Axis {
    low_ms: f64,
    high_ms: f64,
}

/// Appends the overview.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    page.push_str("<section class=\"overview\" aria-label=\"Verdicts\">\n");
    if let Some(answer) = &summary.answer {
        push_answer(page, answer);
    }
    if super::conditions_with_trials(summary).next().is_some() {
        push_table(page, summary);
    }
    if let Some(untried) = summary.untried() {
        page.push_str(&format!("<p class=\"untried\">{}</p>\n", escaped(&untried)));
    }
    page.push_str("</section>\n");
}

fn push_answer(page: &mut String, answer: &Answer) {
    let sentence = escaped(&answer.sentence);
    let word = answer.confidence.name();
    page.push_str(&format!(
        "<p class=\"answer\">{sentence} <span class=\"confidence {}\">{word}</span></p>\n",
        word.replace(' ', "-")
    ));
    let why = answer.why.as_ref();
    let why = why.map_or_else(String::new, |why| format!(" Why: {}", escaped(why)));
    page.push_str(&format!(
        "<p class=\"how-sure\">{}{why}</p>\n",
        escaped(&answer.how_sure)
    ));
    if answer.also.is_empty() {
        return;
    }
    page.push_str("<ul class=\"also\">\n");
    for also in &answer.also {
        page.push_str(&format!("<li>{}</li>\n", escaped(also)));
    }
    page.push_str("</ul>\n");
}

fn push_table(page: &mut String, summary: &RunSummary) {
    page.push_str("<div class=\"scroll\"><table>\n");
    page.push_str(
        "<thead><tr><th scope=\"col\">condition</th><th scope=\"col\" class=\"strip\">p99",
    );
    for (variant, name) in summary.variants.iter().enumerate() {
        page.push_str(&format!(
            " <span class=\"key\">{}{}</span>",
            swatch(variant),
            escaped(name)
        ));
    }
    page.push_str("</th><th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n");
    let axis = Axis::of(summary);
    for (index, condition) in super::conditions_with_trials(summary) {
        page.push_str(&format!(
            "<tr><th scope=\"row\"><a href=\"#condition-{index}\">{}</a></th><td class=\"strip\">",
            escaped(&condition.condition.to_string()),
        ));
        if let Some(axis) = axis {
            push_strip(page, axis, &condition.cells);
        }
        page.push_str(&format!(
            "</td><td>{}</td></tr>\n",
            section::verdicts(condition)
        ));
    }
    page.push_str("</tbody>\n");
    if let Some(axis) = axis {
        page.push_str("<tfoot><tr><td></td><td class=\"strip\">");
        push_ticks(page, axis);
        page.push_str("</td><td></td></tr></tfoot>\n");
    }
    page.push_str("</table></div>\n");
}

impl Axis {
    /// From the 1, 2 or 5 x 10^n below the smallest p99 to the one above the largest.
    fn of(summary: &RunSummary) -> Option<Axis> {
        let p99s = || {
            let cells = summary
                .conditions
                .iter()
                .flat_map(|condition| &condition.cells);
            let spreads = cells.filter_map(|cell| cell.p99);
            spreads
                .flat_map(|spread| [spread.low, spread.median, spread.high])
                .filter_map(millis)
        };
        let (low, high) = (p99s().reduce(f64::min)?, p99s().reduce(f64::max)?);
        let low_ms = Axis::round_numbers()
            .rfind(|&n| n <= low * 0.95)
            .unwrap_or(low);
        let high_ms = Axis::round_numbers()
            .find(|&n| n >= high * 1.05)
            .unwrap_or(high * 2.0);
        Some(Axis { low_ms, high_ms })
    }

    /// 0.001, 0.002, 0.005, 0.01 and so on to 5,000,000 ms.
    fn round_numbers() -> impl DoubleEndedIterator<Item = f64> {
        (-3..=6).flat_map(|exponent| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(exponent)))
    }

    /// The position of a value, in percent of the width.
    fn place(self, ms: f64) -> f64 {
        let share = (ms / self.low_ms).ln() / (self.high_ms / self.low_ms).ln();
        2.0 + 96.0 * share.clamp(0.0, 1.0)
    }
}

fn millis(value: Quantile) -> Option<f64> {
    value
        .lower_bound()
        .filter(|bound| !bound.is_zero())
        .map(Duration::as_millis_f64)
}

/// One row: for each variant a line over the range of its trials and a dot at their median.
fn push_strip(page: &mut String, axis: Axis, cells: &[CellSummary]) {
    let height = 10 * cells.len() + 4;
    page.push_str(&format!(
        "<svg height=\"{height}\" role=\"img\" aria-label=\"p99 of each variant\">"
    ));
    for tick in ticks(axis) {
        let x = axis.place(tick);
        page.push_str(&format!(
            "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"{height}\"/>"
        ));
    }
    for (variant, cell) in cells.iter().enumerate() {
        if let Some(p99) = cell.p99 {
            push_dot(page, axis, variant, &cell.variant, p99);
        }
    }
    page.push_str("</svg>");
}

fn push_dot(page: &mut String, axis: Axis, variant: usize, name: &str, p99: Spread<Quantile>) {
    let y = 10 * variant + 7;
    // A value that is never reached is at the edge.
    let place = |value: Quantile| millis(value).map_or(100.0, |ms| axis.place(ms));
    let (x, low, high) = (place(p99.median), place(p99.low), place(p99.high));
    let class = if p99.median.exact().is_some() {
        "dot"
    } else {
        "dot open"
    };
    page.push_str(&format!(
        "<g style=\"--series: var(--series-{})\"><title>{}: {} ms</title>\
         <line class=\"range\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"{y}\" y2=\"{y}\"/>\
         <circle class=\"{class}\" cx=\"{x:.2}%\" cy=\"{y}\" r=\"4\"/></g>",
        variant % SERIES,
        escaped(name),
        latency(p99.median),
    ));
}

/// The powers of 10 within the axis, or all 1, 2 and 5 x 10^n if it has fewer than two of them.
fn ticks(axis: Axis) -> Vec<f64> {
    let within = |n: &f64| (axis.low_ms..=axis.high_ms).contains(n);
    let powers: Vec<f64> = (-3..=6)
        .map(|exponent| 10f64.powi(exponent))
        .filter(within)
        .collect();
    if powers.len() >= 2 {
        powers
    } else {
        Axis::round_numbers().filter(within).collect()
    }
}

fn push_ticks(page: &mut String, axis: Axis) {
    page.push_str("<svg height=\"16\" aria-hidden=\"true\">");
    for tick in ticks(axis) {
        page.push_str(&format!(
            "<text x=\"{:.2}%\" y=\"12\">{tick} ms</text>",
            axis.place(tick)
        ));
    }
    page.push_str("</svg>");
}
