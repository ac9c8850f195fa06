//! The comparison of all variants under all conditions: bars of the mean, median, p95 and p99 with each trial's value and the
//! interval, a table of the same numbers, and the grids of winners (`grid`).
//!
//! It computes nothing. `bars` draws the bars; `section` has one condition in detail, `compared` has runs in place of variants.

use std::iter;

use squall_analysis::{CellSummary, ConditionSummary, Quantile, RunSummary, Spread, TrialStats};

use super::bars::{self, Bar, Drawing};
use super::text::{escaped, swatch};
use super::{grid, table};
use crate::shown::ShownCell;

/// The conditions that have a trial, each with its index among all.
pub(super) fn conditions_with_trials(
    summary: &RunSummary,
) -> impl Iterator<Item = (usize, &ConditionSummary)> {
    let conditions = summary.conditions.iter().enumerate();
    conditions.filter(|(_, condition)| !condition.is_untried())
}

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

/// Bars that stand together under a name.
pub(super) struct Group<'a> {
    pub(super) name: String,
    /// The link to its section of the page, if it has one.
    pub(super) link: Option<String>,
    pub(super) rows: Vec<Row<'a>>,
}

/// What one bar shows.
pub(super) struct Row<'a> {
    pub(super) name: String,
    /// The number of its colour.
    pub(super) colour: usize,
    pub(super) cell: ShownCell<'a>,
}

/// What is compared, in words.
#[derive(Clone, Copy)]
pub(super) struct Wording {
    /// Whose response times the bars show, such as `each variant under each condition`.
    pub(super) whose: &'static str,
    /// What a group is, and what a bar is.
    pub(super) titles: [&'static str; 2],
}

const OF_VARIANTS: Wording = Wording {
    whose: "each variant under each condition",
    titles: ["condition", "variant"],
};

/// Appends the comparison; nothing without trials.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    let groups: Vec<Group<'_>> = conditions_with_trials(summary)
        .map(|(place, of)| Group {
            name: of.condition.to_string(),
            link: Some(format!("#condition-{place}")),
            rows: (ShownCell::all_of(of).into_iter().enumerate())
                .map(|(colour, cell)| Row {
                    name: cell.figures.variant.clone(),
                    colour,
                    cell,
                })
                .collect(),
        })
        .collect();
    if groups.is_empty() {
        return;
    }
    page.push_str(
        "<section class=\"comparison\" aria-label=\"Comparison\">\n<h2>Comparison</h2>\n",
    );
    push_legend(page, summary.variants.iter().map(String::as_str));
    push_beside(page, &groups, OF_VARIANTS);
    grid::push(page, summary);
    page.push_str("</section>\n");
}

/// The legend: each colour, in the order of their numbers, with the name that it stands for.
pub(super) fn push_legend<'a>(page: &mut String, names: impl Iterator<Item = &'a str>) {
    page.push_str("<p class=\"legend\">");
    for (colour, name) in names.enumerate() {
        page.push_str(&format!(
            "<span class=\"key\">{}{}</span> ",
            swatch(colour),
            escaped(name)
        ));
    }
    page.push_str("</p>\n");
}

/// The bars of these groups, and beside them the table of the same numbers.
pub(super) fn push_beside(page: &mut String, groups: &[Group<'_>], wording: Wording) {
    page.push_str("<div class=\"beside\">\n");
    push_bars(page, groups, wording);
    page.push_str("<div>\n");
    push_table(page, groups, wording);
    page.push_str("</div>\n</div>\n");
}

fn push_bars(page: &mut String, groups: &[Group<'_>], wording: Wording) {
    let mut rows = groups.iter().flat_map(|group| &group.rows);
    let usual = if rows.any(|row| row.cell.figures.p99.is_some()) {
        "p99"
    } else {
        "mean"
    };
    let drawings: Vec<Drawing<'_>> = STATISTICS
        .iter()
        .map(|statistic| drawing(statistic, groups, wording))
        .collect();
    bars::push(page, usual, &drawings);
}

fn drawing<'a>(statistic: &Statistic, groups: &'a [Group<'_>], wording: Wording) -> Drawing<'a> {
    let name = statistic.name;
    let groups = groups.iter().map(|group| bars::Group {
        name: Some(&group.name),
        bars: group.rows.iter().map(|row| bar(statistic, row)).collect(),
    });
    Drawing {
        statistic: name,
        caption: format!(
            "Response time, {name}: the bar is the median over the trials, each dot a trial, the line the 95 % interval (or, \
             below six trials, their range)"
        ),
        label: format!(
            "{name} of the response time of {}; the table has the numbers",
            wording.whose
        ),
        groups: groups.collect(),
    }
}

fn bar<'a>(statistic: &Statistic, Row { name, colour, cell }: &'a Row<'_>) -> Bar<'a> {
    let trials = cell.figures.valid_trials();
    Bar {
        name,
        colour: *colour,
        doubt: match (cell.doubt, cell.is_limit) {
            (None, _) => "",
            (Some(_), false) if cell.is_doubtful => " (no trial is valid)",
            (Some(_), false) => " (all trials are invalid)",
            (Some(_), true) => " (a limit: the link was the bottleneck)",
        },
        spread: (statistic.of_cell)(&cell.figures),
        dots: trials.filter_map(statistic.of_trial).collect(),
    }
}

fn push_table(page: &mut String, groups: &[Group<'_>], wording: Wording) {
    let statistics = STATISTICS.iter().map(|statistic| statistic.name);
    let titles = (wording.titles.into_iter())
        .chain(statistics)
        .chain(iter::once("valid trials"));
    table::begin(
        page,
        "comparison",
        "Response time in ms: median over the trials; in brackets its 95 % interval, else the range of the trials",
        titles,
    );
    let [of_groups, _] = wording.titles;
    for group in groups {
        let name = escaped(&group.name);
        let name = match &group.link {
            Some(link) => format!("<a href=\"{link}\">{name}</a>"),
            None => name,
        };
        for Row {
            name: of_bar,
            colour,
            cell,
        } in &group.rows
        {
            let class = match cell.doubt {
                Some(_) => " class=\"doubtful\"",
                None => "",
            };
            page.push_str(&format!("<tr{class}>"));
            table::push_cell(page, of_groups, "name", &name);
            page.push_str(&format!(
                "<th scope=\"row\">{}{}</th>",
                swatch(*colour),
                escaped(of_bar)
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
