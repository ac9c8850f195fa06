//! The comparison of all variants under all conditions: bars of the mean, median, p95 and p99 with each trial's value and the
//! interval, a table of the same numbers, and the grids of winners (`grid`).
//!
//! It computes nothing. `bars` draws the bars; `section` has one condition in detail.

use std::iter;

use squall_analysis::{CellSummary, Quantile, RunSummary, Spread, TrialStats};

use super::bars::{self, Bar, Drawing};
use super::text::{escaped, swatch};
use super::{grid, table};
use crate::shown::ShownCell;

/// A statistic that has bars.
struct Statistic {
    name: &'static str,
    of_cell: fn(&CellSummary) -> Option<Spread<Quantile>>,
    of_trial: fn(&TrialStats) -> Option<Quantile>,
}

static STATISTICS: [Statistic; 4] = [
    Statistic {
        name: "mean",
        of_cell: |cell| cell.mean,
        of_trial: |trial| trial.mean,
    },
    Statistic {
        name: "median",
        of_cell: |cell| cell.median,
        of_trial: |trial| trial.median,
    },
    Statistic {
        name: "p95",
        of_cell: |cell| cell.p95,
        of_trial: |trial| trial.p95,
    },
    Statistic {
        name: "p99",
        of_cell: |cell| cell.p99,
        of_trial: |trial| trial.p99,
    },
];

/// A condition with its cells: its place, its name, and the cells as they are shown.
type Group<'a> = (usize, String, Vec<ShownCell<'a>>);

/// Appends the comparison; nothing without trials.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    let groups: Vec<Group<'_>> = super::conditions_with_trials(summary)
        .map(|(place, of)| (place, of.condition.to_string(), ShownCell::all_of(of)))
        .collect();
    if groups.is_empty() {
        return;
    }
    page.push_str(
        "<section class=\"comparison\" aria-label=\"Comparison\">\n<h2>Comparison</h2>\n",
    );
    push_legend(page, summary.variants.iter().map(String::as_str));
    page.push_str("<div class=\"beside\">\n");
    push_bars(page, &groups);
    page.push_str("<div>\n");
    push_table(page, &groups);
    page.push_str("</div>\n</div>\n");
    grid::push(page, summary);
    page.push_str("</section>\n");
}

/// The colours of the variants.
pub(super) fn push_legend<'a>(page: &mut String, names: impl Iterator<Item = &'a str>) {
    page.push_str("<p class=\"legend\">");
    for (variant, name) in names.enumerate() {
        page.push_str(&format!(
            "<span class=\"key\">{}{}</span> ",
            swatch(variant),
            escaped(name)
        ));
    }
    page.push_str("</p>\n");
}

fn push_bars(page: &mut String, groups: &[Group<'_>]) {
    let mut cells = groups.iter().flat_map(|(_, _, cells)| cells);
    let usual = if cells.any(|cell| cell.figures.p99.is_some()) {
        "p99"
    } else {
        "mean"
    };
    let drawings: Vec<Drawing<'_>> = STATISTICS
        .iter()
        .map(|statistic| drawing(statistic, groups))
        .collect();
    bars::push(page, usual, &drawings);
}

fn drawing<'a>(statistic: &Statistic, groups: &'a [Group<'_>]) -> Drawing<'a> {
    let name = statistic.name;
    let groups = groups.iter().map(|(_, condition, cells)| bars::Group {
        name: Some(condition),
        bars: cells.iter().map(|cell| bar(statistic, cell)).collect(),
    });
    Drawing {
        statistic: name,
        caption: format!(
            "Response time, {name}: the bar is the median over the trials, each dot a trial, the line the 95 % interval (or, \
             below six trials, their range)"
        ),
        label: format!(
            "{name} of the response time of each variant under each condition; the table has the numbers"
        ),
        groups: groups.collect(),
    }
}

fn bar<'a>(statistic: &Statistic, cell: &'a ShownCell<'_>) -> Bar<'a> {
    let spread = (statistic.of_cell)(&cell.figures);
    let trials = cell.figures.valid_trials();
    Bar {
        name: &cell.figures.variant,
        doubt: match (cell.doubt, cell.is_limit) {
            (None, _) => "",
            (Some(_), false) => " (all trials are invalid)",
            (Some(_), true) => " (a limit: the link was the bottleneck)",
        },
        spread,
        dots: trials.filter_map(statistic.of_trial).collect(),
    }
}

fn push_table(page: &mut String, groups: &[Group<'_>]) {
    let titles = ["condition", "variant"];
    let statistics = STATISTICS.iter().map(|statistic| statistic.name);
    let titles = titles
        .into_iter()
        .chain(statistics)
        .chain(iter::once("valid trials"));
    table::begin(
        page,
        "comparison",
        "Response time in ms: median over the trials; in brackets its 95 % interval, else the range of the trials",
        titles,
    );
    for (place, name, cells) in groups {
        for (variant, cell) in cells.iter().enumerate() {
            let class = match cell.doubt {
                Some(_) => " class=\"doubtful\"",
                None => "",
            };
            page.push_str(&format!("<tr{class}>"));
            let link = format!("<a href=\"#condition-{place}\">{}</a>", escaped(name));
            table::push_cell(page, "condition", "name", &link);
            page.push_str(&format!(
                "<th scope=\"row\">{}{}</th>",
                swatch(variant),
                escaped(&cell.figures.variant)
            ));
            for statistic in &STATISTICS {
                let spread = (statistic.of_cell)(&cell.figures);
                table::push_latency(page, statistic.name, spread);
            }
            let valid = match cell.doubt {
                Some(_) => 0,
                None => cell.figures.valid_trials().count(),
            };
            let trials = format!("{valid} of {}", cell.figures.trials.len());
            table::push_cell(page, "valid trials", "", &trials);
            page.push_str("</tr>\n");
        }
    }
    table::end(page);
}
