//! One condition on the page: its verdicts, its tables, its causes, its drawings, its deliveries, and the place for its plots.
//!
//! It computes nothing. Each number is the median over the trials of each trial's value. Below it is the 95 % interval if
//! there is one, otherwise the range of the trials. The plots are drawn by assets/page.js.

use std::iter;

use squall_analysis::causes::CellBandTimes;
use squall_analysis::{CellSummary, ConditionSummary, Delivery, Quantile, Spread, Verdict, figure};
use squall_base::plan::Measure;

use super::table::{self, push_cell, push_latency, push_number};
use super::terms::explained;
use super::text::{escaped, swatch};
use super::{causes, deliveries, shapes};
use crate::points::TrialPoints;
use crate::shown::ShownCell;

/// A column of latencies: its title, and its value for a cell.
type LatencyColumn = (&'static str, fn(&CellSummary) -> Option<Spread<Quantile>>);

const LATENCIES: [LatencyColumn; 8] = [
    ("mean", |cell| cell.mean),
    ("median", |cell| cell.median),
    ("IQR", |cell| cell.interquartile_range),
    ("p90", |cell| cell.p90),
    ("p95", |cell| cell.p95),
    ("p99", |cell| cell.p99),
    ("p99.9", |cell| cell.p999),
    ("max", |cell| cell.max),
];

/// The titles of the columns after these.
const COUNTS: [&str; 5] = [
    "failed",
    "unfinished",
    "connections",
    "requests/s",
    "trials",
];

/// The titles of the columns of pages.
const PAGE_COLUMNS: [&str; 8] = [
    "mean",
    "median",
    "p90",
    "p99",
    "max",
    "loaded",
    "with a failed request",
    "unfinished",
];

/// What the section of a condition needs from the run, besides the summary.
pub(super) struct RunParts<'a> {
    /// The measures of the run.
    pub(super) measures: &'a [Measure],
    /// What the time of the condition's requests was spent on.
    pub(super) causes: &'a [CellBandTimes],
    /// What the links of the whole run delivered.
    pub(super) delivered: &'a [Delivery],
    /// The drawn trials of the whole run.
    pub(super) plots: &'a [TrialPoints],
}

/// Appends the section of the `index`-th condition.
pub(super) fn push(
    page: &mut String,
    index: usize,
    condition: &ConditionSummary,
    run: &RunParts<'_>,
) {
    let name = escaped(&condition.condition.to_string());
    page.push_str(&format!(
        "<section class=\"condition\" id=\"condition-{index}\" tabindex=\"-1\" aria-label=\"{name}\">\n<h2>{name}</h2>\n"
    ));
    page.push_str(&verdicts(condition));
    let titles = LATENCIES.map(|(title, _)| title).into_iter().chain(COUNTS);
    table::begin(
        page,
        &format!("response-times-{index}"),
        "Response time in ms: median over the trials of each trial’s own value; in brackets its 95 % interval (of six trials or more, or within a single one), else the range of the trials",
        iter::once("variant").chain(titles),
    );
    let cells = ShownCell::all_of(condition);
    for (variant, cell) in cells.iter().enumerate() {
        push_row(page, variant, cell);
    }
    table::end(page);
    push_pages(page, index, &cells);
    push_measured(page, index, &cells, run.measures);
    push_predictions(page, &cells);
    causes::push(page, index, run.causes);
    shapes::push(page, condition, run.plots);
    deliveries::push(page, &graphs(condition, run.delivered));
    page.push_str(&format!(
        "<div class=\"plots\" data-condition=\"{index}\"></div>\n</section>\n"
    ));
}

/// The deliveries of a condition, each with the place of its variant.
fn graphs<'a>(
    condition: &ConditionSummary,
    delivered: &'a [Delivery],
) -> Vec<(usize, &'a Delivery)> {
    let own = |cell: &CellSummary| {
        let mut all = delivered.iter();
        all.find(|it| it.variant == cell.variant && it.condition == cell.condition)
    };
    let cells = condition.cells.iter().enumerate();
    cells
        .filter_map(|(variant, cell)| Some((variant, own(cell)?)))
        .collect()
}

/// The verdicts of a condition as a list.
fn verdicts(condition: &ConditionSummary) -> String {
    let mut list = String::from("<ul class=\"verdicts\">\n");
    for verdict in condition.verdicts_of_pairs() {
        let class = match verdict {
            Verdict::Overloaded { .. } => " class=\"overloaded\"",
            Verdict::Compared(_) => "",
        };
        list.push_str(&format!(
            "<li{class}>{}</li>\n",
            explained(&verdict.to_string())
        ));
    }
    if let Some(without) = condition.without_pairs() {
        list.push_str(&format!("<li>{}</li>\n", escaped(&without)));
    }
    list.push_str("</ul>\n");
    list
}

/// The attributes of an element with a cell's figures: it is greyed, and says why, if they are doubtful or limits.
fn doubtful(cell: &ShownCell<'_>) -> String {
    let what = match (cell.is_limit, cell.is_doubtful) {
        (true, _) => {
            "Limits, because the link itself was the bottleneck: times are at most this long, rates at least this high"
        }
        (false, true) => {
            "No trial is valid, and comparisons use doubtful ones only where that cannot change the answer"
        }
        (false, false) => "All trials are invalid, and no comparison uses them",
    };
    let said = |doubt| {
        format!(
            " class=\"doubtful\" title=\"{what}; the first: {}\"",
            escaped(doubt)
        )
    };
    cell.doubt.map_or_else(String::new, said)
}

/// Begins the row of a variant.
fn row_head(variant: usize, cell: &ShownCell<'_>) -> String {
    let (swatch, name) = (swatch(variant), escaped(&cell.figures.variant));
    format!(
        "<tr{}><th scope=\"row\">{swatch}{name}</th>",
        doubtful(cell)
    )
}

fn push_row(page: &mut String, variant: usize, shown: &ShownCell<'_>) {
    page.push_str(&row_head(variant, shown));
    let cell: &CellSummary = &shown.figures;
    for (title, spread) in LATENCIES {
        push_latency(page, title, spread(cell));
    }
    let [failed, unfinished, connections, rate, trials_title] = COUNTS;
    let counted = cell.valid_trials().count();
    for (title, count) in [(failed, cell.failed), (unfinished, cell.censored)] {
        match (counted, count) {
            (0, _) => push_cell(page, title, "", "n/a"),
            (_, 0) => push_cell(page, title, "none", "0"),
            _ => push_cell(page, title, "some", &figure::count(count)),
        }
    }
    push_number(page, connections, cell.connections_opened);
    push_number(page, rate, cell.rate_achieved_per_s);
    let trials = cell.trials.len();
    let valid = shown.doubt.map_or(counted, |_| 0);
    let text = if valid == trials {
        trials.to_string()
    } else {
        format!("{valid} of {trials}")
    };
    push_cell(page, trials_title, "", &text);
    page.push_str("</tr>\n");
}

/// The table of page times, for loads of pages.
fn push_pages(page: &mut String, index: usize, cells: &[ShownCell<'_>]) {
    let cells = (0..).zip(cells);
    let with_pages: Vec<_> = cells
        .filter_map(|(variant, cell)| Some((variant, cell, cell.figures.pages?)))
        .collect();
    if with_pages.is_empty() {
        return;
    }
    table::begin(
        page,
        &format!("page-times-{index}"),
        "Page time in ms, from when a page was meant to begin to its last answer: median over the trials of each trial’s own value, and below it the range of the trials",
        iter::once("variant").chain(PAGE_COLUMNS),
    );
    for (variant, cell, pages) in with_pages {
        page.push_str(&row_head(variant, cell));
        let (times, counts) = PAGE_COLUMNS.split_at(5);
        let spreads = [pages.mean, pages.median, pages.p90, pages.p99, pages.max];
        for (title, spread) in times.iter().zip(spreads) {
            push_latency(page, title, spread);
        }
        let counted = [pages.loaded, pages.failed, pages.unfinished];
        for (title, count) in counts.iter().zip(counted) {
            push_cell(page, title, "", &figure::count(count));
        }
        page.push_str("</tr>\n");
    }
    table::end(page);
}

/// The throughput, and what flow control allows, if windows can stop a transfer.
fn push_predictions(page: &mut String, cells: &[ShownCell<'_>]) {
    let cells = (0..).zip(cells);
    let rows: Vec<String> = cells
        .filter_map(|(variant, cell)| {
            Some(format!(
                "<li{}>{}{}: {}</li>\n",
                doubtful(cell),
                swatch(variant),
                escaped(&cell.figures.variant),
                escaped(&cell.figures.beside_prediction()?)
            ))
        })
        .collect();
    if !rows.is_empty() {
        page.push_str("<p>Throughput, and what flow control allows:</p>\n<ul class=\"windows\">\n");
        page.extend(rows);
        page.push_str("</ul>\n");
    }
}

/// The table of the measures that have no column in the other tables.
fn push_measured(page: &mut String, index: usize, cells: &[ShownCell<'_>], measures: &[Measure]) {
    let rows: Vec<(&ShownCell<'_>, Vec<(String, String)>)> = (cells.iter())
        .map(|cell| (cell, cell.figures.measured(measures)))
        .collect();
    let Some((_, first)) = rows.first().filter(|(_, measured)| !measured.is_empty()) else {
        return;
    };
    let titles = first.iter().map(|(title, _)| title.as_str());
    table::begin(
        page,
        &format!("other-measures-{index}"),
        "Other measures: median over the valid trials",
        iter::once("variant").chain(titles),
    );
    for (variant, (cell, measured)) in rows.iter().enumerate() {
        page.push_str(&row_head(variant, cell));
        for (title, value) in measured {
            push_cell(page, title, "", &escaped(value));
        }
        page.push_str("</tr>\n");
    }
    table::end(page);
}
