//! The comparison of all variants under all conditions: bars of the mean, median, p95 and p99 with each trial's value and the
//! interval, a table of the same numbers, and the grids of winners (`grid`).
//!
//! All bars share one logarithmic axis. Scripts show one statistic at a time (assets/switches.js); without them, and on paper,
//! all are there. It computes nothing. `section` has one condition in detail, `compared` has runs in place of variants.

use std::iter;

use squall_analysis::{CellSummary, Quantile, RunSummary, Spread, TrialStats, figure};

use super::plot::{self, Area, LogAxis, WIDTH};
use super::text::{SERIES, escaped, swatch};
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

/// The height of a condition's name, of a bar, and of what is above and below the bars.
const NAME_HEIGHT: f64 = 17.0;
const BAR_HEIGHT: f64 = 13.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 20.0;

/// Bars that stand together under a name.
pub(super) struct Group<'a> {
    pub(super) name: String,
    /// The address of what the page has about it, if it has anything.
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
    let groups: Vec<Group<'_>> = super::conditions_with_trials(summary)
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

/// The colours, in the order of their numbers, and what has each.
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
    let cells = groups.iter().flat_map(|group| &group.rows);
    let cells = cells.map(|row| &row.cell);
    let values =
        (cells.clone()).flat_map(|cell| STATISTICS.iter().flat_map(move |it| values(it, cell)));
    let Some(axis) = LogAxis::of(values) else {
        return;
    };
    let usual = if cells.clone().any(|cell| cell.figures.p99.is_some()) {
        "p99"
    } else {
        "mean"
    };
    page.push_str(&format!("<div class=\"bars\" data-default=\"{usual}\">\n"));
    for statistic in &STATISTICS {
        page.push_str(&format!(
            "<figure data-statistic=\"{0}\">\n<figcaption>Response time, {0}: the bar is the median over the trials, each dot a \
             trial, the line the 95 % interval (or, below six trials, their range)</figcaption>\n",
            statistic.name
        ));
        push_drawing(page, statistic, axis, (groups, wording));
        page.push_str("</figure>\n");
    }
    page.push_str("</div>\n");
}

/// Every value that the bars of a cell show.
fn values(statistic: &Statistic, cell: &ShownCell<'_>) -> Vec<Quantile> {
    let spread = (statistic.of_cell)(&cell.figures);
    let ends = spread.into_iter().flat_map(|spread| {
        let interval = spread.interval;
        [spread.median, spread.low, spread.high]
            .into_iter()
            .chain(interval.into_iter().flat_map(|of| [of.low, of.high]))
    });
    ends.collect()
}

fn push_drawing(
    page: &mut String,
    statistic: &Statistic,
    axis: LogAxis,
    (groups, wording): (&[Group<'_>], Wording),
) {
    let bars: usize = groups.iter().map(|group| group.rows.len()).sum();
    let height = TOP + BOTTOM + NAME_HEIGHT * groups.len() as f64 + BAR_HEIGHT * bars as f64;
    let area = Area {
        left: 104.0,
        right: WIDTH - 8.0,
        top: TOP,
        bottom: height - BOTTOM,
    };
    let label = format!(
        "{} of the response time of {}; the table has the numbers",
        statistic.name, wording.whose
    );
    let name = format!("response-time-{}", statistic.name);
    plot::begin_named(page, height, &label, &name);
    plot::push_x_axis(page, axis, &area);
    let mut y = TOP;
    for group in groups {
        page.push_str(&format!(
            "<text class=\"group\" x=\"0\" y=\"{:.1}\">{}</text>\n",
            y + 12.0,
            plot::short(&group.name, 64)
        ));
        y += NAME_HEIGHT;
        for row in &group.rows {
            let bar = Bar {
                statistic,
                axis,
                area,
                y,
            };
            bar.push(page, row);
            y += BAR_HEIGHT;
        }
    }
    page.push_str("</svg>\n");
}

/// The place of one bar.
struct Bar<'a> {
    statistic: &'a Statistic,
    axis: LogAxis,
    area: Area,
    y: f64,
}

impl Bar<'_> {
    fn push(&self, page: &mut String, Row { name, colour, cell }: &Row<'_>) {
        let spread = (self.statistic.of_cell)(&cell.figures);
        let value = spread.map_or_else(
            || "n/a".to_owned(),
            |spread| format!("{} ms", figure::quantile(spread.median)),
        );
        let (class, doubt) = match (cell.doubt, cell.is_limit) {
            (None, _) => ("bar-row", ""),
            (Some(_), false) if cell.is_doubtful => ("bar-row doubtful", " (no trial is valid)"),
            (Some(_), false) => ("bar-row doubtful", " (all trials are invalid)"),
            (Some(_), true) => (
                "bar-row doubtful",
                " (a limit: the link was the bottleneck)",
            ),
        };
        page.push_str(&format!(
            "<g class=\"{class}\" style=\"--series: var(--series-{})\"><title>{}: {} {}{doubt}</title>\
             <text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            colour % SERIES,
            escaped(name),
            self.statistic.name,
            escaped(&value),
            self.area.left - 5.0,
            self.y + 9.5,
            plot::short(name, 17),
        ));
        if let Some(spread) = spread {
            self.push_shapes(page, spread, cell);
        }
        page.push_str("</g>\n");
    }

    fn x(&self, value: Quantile) -> f64 {
        self.area.across(self.axis.share(value))
    }

    fn push_shapes(&self, page: &mut String, spread: Spread<Quantile>, cell: &ShownCell<'_>) {
        let (left, y) = (self.area.left, self.y);
        let end = self.x(spread.median);
        page.push_str(&format!(
            "<rect class=\"bar-value\" x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            y + 1.5,
            (end - left).max(0.5),
            BAR_HEIGHT - 3.0,
        ));
        if spread.median.exact().is_none() {
            page.push_str(&format!(
                "<rect class=\"at-least\" x=\"{end:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                y + 1.5,
                (self.area.right - end).max(0.5),
                BAR_HEIGHT - 3.0,
            ));
        }
        let middle = y + BAR_HEIGHT / 2.0;
        let (low, high) = match spread.interval {
            Some(interval) => (interval.low, interval.high),
            None => (spread.low, spread.high),
        };
        let (low, high) = (self.x(low), self.x(high));
        page.push_str(&format!(
            "<path class=\"interval\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {0:.1}v6M{high:.1} {0:.1}v6\"/>",
            middle - 3.0
        ));
        let trials = cell.figures.valid_trials();
        for value in trials.filter_map(self.statistic.of_trial) {
            let class = match value.exact() {
                Some(_) => "dot",
                None => "dot open",
            };
            page.push_str(&format!(
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2\"/>",
                self.x(value)
            ));
        }
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
