//! One condition on the page: its verdicts, its tables, its causes, its deliveries, and the place for its plots.
//!
//! It computes nothing. Each number is the median over the trials of each trial's value. Below it is the 95 % interval if
//! there is one, otherwise the range of the trials. The plots are drawn by assets/page.js.

use squall_analysis::causes::CellBandTimes;
use squall_analysis::{CellSummary, ConditionSummary, Delivery, Quantile, Spread, Verdict, figure};
use squall_base::plan::Measure;

use super::text::{escaped, latency, swatch};
use super::{causes, deliveries};
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

/// The titles of the columns behind these.
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

/// Appends the section of the `index`-th condition. `delivered` is the whole run's.
pub(super) fn push(
    page: &mut String,
    index: usize,
    condition: &ConditionSummary,
    measures: &[Measure],
    causes: &[CellBandTimes],
    delivered: &[Delivery],
) {
    page.push_str(&format!(
        "<section class=\"condition\" id=\"condition-{index}\">\n<h2>{}</h2>\n",
        escaped(&condition.condition.to_string()),
    ));
    page.push_str(&verdicts(condition));
    let titles = LATENCIES.map(|(title, _)| title).into_iter().chain(COUNTS);
    push_head(
        page,
        "Response time in ms: median over the trials of each trial’s own value; in brackets its 95 % interval (of six trials or more, or within a single one), else the range of the trials",
        titles,
    );
    let cells = ShownCell::all_of(condition);
    for (variant, cell) in cells.iter().enumerate() {
        push_row(page, variant, cell);
    }
    page.push_str("</tbody></table></div>\n");
    push_pages(page, &cells);
    push_measured(page, &cells, measures);
    push_predictions(page, &cells);
    causes::push(page, causes);
    deliveries::push(page, &graphs(condition, delivered));
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
pub(super) fn verdicts(condition: &ConditionSummary) -> String {
    let mut list = String::from("<ul class=\"verdicts\">\n");
    for verdict in condition.verdicts_of_pairs() {
        let class = match verdict {
            Verdict::Overloaded { .. } => " class=\"overloaded\"",
            Verdict::Compared(_) => "",
        };
        list.push_str(&format!(
            "<li{class}>{}</li>\n",
            escaped(&verdict.to_string())
        ));
    }
    if let Some(without) = condition.without_pairs() {
        list.push_str(&format!("<li>{}</li>\n", escaped(&without)));
    }
    list.push_str("</ul>\n");
    list
}

/// Begins a table of numbers, up to its first row.
fn push_head<'a>(page: &mut String, caption: &str, titles: impl IntoIterator<Item = &'a str>) {
    page.push_str(&format!(
        "<div class=\"scroll\"><table class=\"numbers\">\n<caption>{caption}</caption>\n\
         <thead><tr><th scope=\"col\">variant</th>"
    ));
    for title in titles {
        page.push_str(&format!("<th scope=\"col\">{}</th>", escaped(title)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// The attributes of an element with a cell's figures: it is greyed, and says why, if they are doubtful or limits.
fn doubtful(cell: &ShownCell<'_>) -> String {
    let what = if cell.is_limit {
        "Limits, because the link itself was the bottleneck: times are at most this long, rates at least this high"
    } else {
        "All trials are invalid, and no comparison uses them"
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
    for (_, spread) in LATENCIES {
        push_latency(page, spread(cell));
    }
    let counted = cell.valid_trials().count();
    for count in [cell.failed, cell.censored] {
        match (counted, count) {
            (0, _) => page.push_str("<td>n/a</td>"),
            (_, 0) => page.push_str("<td class=\"none\">0</td>"),
            _ => page.push_str(&format!("<td class=\"some\">{}</td>", figure::count(count))),
        }
    }
    for spread in [cell.connections_opened, cell.rate_achieved_per_s] {
        push_number(page, spread);
    }
    let trials = cell.trials.len();
    let valid = shown.doubt.map_or(counted, |_| 0);
    let text = if valid == trials {
        trials.to_string()
    } else {
        format!("{valid} of {trials}")
    };
    page.push_str(&format!("<td>{text}</td></tr>\n"));
}

/// The table of page times, for loads of pages.
fn push_pages(page: &mut String, cells: &[ShownCell<'_>]) {
    let cells = (0..).zip(cells);
    let with_pages: Vec<_> = cells
        .filter_map(|(variant, cell)| Some((variant, cell, cell.figures.pages?)))
        .collect();
    if with_pages.is_empty() {
        return;
    }
    push_head(
        page,
        "Page time in ms, from when a page was meant to begin to its last answer: median over the trials of each trial’s own value, and below it the range of the trials",
        PAGE_COLUMNS,
    );
    for (variant, cell, pages) in with_pages {
        page.push_str(&row_head(variant, cell));
        for spread in [pages.mean, pages.median, pages.p90, pages.p99, pages.max] {
            push_latency(page, spread);
        }
        for count in [pages.loaded, pages.failed, pages.unfinished] {
            page.push_str(&format!("<td>{}</td>", figure::count(count)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
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
fn push_measured(page: &mut String, cells: &[ShownCell<'_>], measures: &[Measure]) {
    let rows: Vec<(&ShownCell<'_>, Vec<(String, String)>)> = (cells.iter())
        .map(|cell| (cell, cell.figures.measured(measures)))
        .collect();
    let Some((_, first)) = rows.first().filter(|(_, measured)| !measured.is_empty()) else {
        return;
    };
    let titles = first.iter().map(|(title, _)| title.as_str());
    push_head(page, "Other measures: median over the valid trials", titles);
    for (variant, (cell, measured)) in rows.iter().enumerate() {
        page.push_str(&row_head(variant, cell));
        for (_, value) in measured {
            page.push_str(&format!("<td>{}</td>", escaped(value)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn push_latency(page: &mut String, spread: Option<Spread<Quantile>>) {
    let Some(spread) = spread else {
        page.push_str("<td class=\"none\">n/a</td>");
        return;
    };
    page.push_str(&format!("<td>{}", latency(spread.median)));
    match spread.interval {
        Some(interval) => push_interval(page, &latency(interval.low), &latency(interval.high)),
        None => push_range(page, &latency(spread.low), &latency(spread.high)),
    }
}

fn push_number(page: &mut String, spread: Option<Spread<f64>>) {
    let Some(spread) = spread else {
        page.push_str("<td class=\"none\">n/a</td>");
        return;
    };
    page.push_str(&format!("<td>{}", figure::rate(spread.median)));
    match spread.interval {
        Some(interval) if interval.low != interval.high => push_interval(
            page,
            &figure::rate(interval.low),
            &figure::rate(interval.high),
        ),
        _ => push_range(page, &figure::rate(spread.low), &figure::rate(spread.high)),
    }
}

/// Ends a cell with its 95 % interval.
fn push_interval(page: &mut String, low: &str, high: &str) {
    page.push_str(&format!(
        "<small>[{low}\u{2009}–\u{2009}{high}]</small></td>"
    ));
}

/// Ends a cell with the range of its trials, if they differ.
fn push_range(page: &mut String, low: &str, high: &str) {
    if low != high {
        page.push_str(&format!("<small>{low}\u{2009}–\u{2009}{high}</small>"));
    }
    page.push_str("</td>");
}
