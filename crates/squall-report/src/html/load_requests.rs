//! The requests of a load on its page: bars of their response times, how those are distributed, how the requests went over
//! time, and each of them as a point.
//!
//! It has the drawings of a run's page (`bars`, `shapes`, `heat`), with a colour for each version, or for each URL if there is
//! only one version. Nothing is computed here. `points` chooses the points, which scripts draw; the rest of the page is in
//! `load`.

use squall_analysis::figure;
use squall_analysis::load::{LoadTotals, spread_over_rounds};
use squall_analysis::{Quantile, Spread};

use super::bars::{self, Bar, Drawing, Group};
use super::load::{LoadPage, LoadSeries};
use super::text::{escaped, swatch};
use super::{comparison, shapes, table};
use crate::points::TrialPoints;

/// A statistic of the response times of all requests of a round.
type Statistic = (&'static str, fn(&LoadTotals) -> Option<Quantile>);

static STATISTICS: [Statistic; 4] = [
    ("mean", LoadTotals::response_mean),
    ("median", |totals| totals.response_quantile(0.5)),
    ("p95", |totals| totals.response_quantile(0.95)),
    ("p99", p99),
];

fn p99(totals: &LoadTotals) -> Option<Quantile> {
    totals.response_quantile(0.99)
}

/// What is drawn of the requests: the last round of each series. The columns of all heat maps are equally long.
pub(super) fn plots(load: &LoadPage<'_>) -> Vec<TrialPoints> {
    let drawn = load.series.iter().filter_map(|series| {
        let last = series.rounds.last()?;
        Some(TrialPoints::of_load(
            &series.name,
            series.picture,
            last,
            series.end,
        ))
    });
    let mut plots: Vec<TrialPoints> = drawn.collect();
    let longest = plots.iter().map(|plot| plot.shape.heat.interval).max();
    for plot in &mut plots {
        if let Some(interval) = longest {
            plot.shape.heat = plot.shape.heat.coarser(interval);
        }
    }
    plots
}

/// Appends the mean, the median and high percentiles of all requests, as bars and as a table.
pub(super) fn push_comparison(page: &mut String, load: &LoadPage<'_>) {
    if load.series.len() > 1 {
        comparison::push_legend(page, load.series.iter().map(|of| of.name.as_str()));
    }
    page.push_str("<div class=\"beside\">\n");
    let drawings: Vec<Drawing<'_>> = STATISTICS
        .iter()
        .map(|statistic| drawing(statistic, load))
        .collect();
    let has_p99 = load.series.iter().any(|of| over_rounds(of, p99).is_some());
    bars::push(page, if has_p99 { "p99" } else { "mean" }, &drawings);
    page.push_str("<div>\n");
    push_table(page, load);
    page.push_str("</div>\n</div>\n");
}

fn over_rounds(
    series: &LoadSeries<'_>,
    statistic: fn(&LoadTotals) -> Option<Quantile>,
) -> Option<Spread<Quantile>> {
    spread_over_rounds(series.rounds.iter().map(|totals| statistic(totals)))
}

fn has_rounds(load: &LoadPage<'_>) -> bool {
    load.series.iter().any(|series| series.rounds.len() > 1)
}

fn drawing<'a>((name, statistic): &Statistic, load: &'a LoadPage<'_>) -> Drawing<'a> {
    let bars = load.series.iter().enumerate().map(|(colour, series)| Bar {
        name: &series.name,
        colour,
        doubt: "",
        spread: over_rounds(series, *statistic),
        dots: match series.rounds.len() {
            // The bar already shows the value of a single round.
            1 => Vec::new(),
            _ => (series.rounds.iter())
                .filter_map(|of| statistic(of))
                .collect(),
        },
    });
    let rounds = if has_rounds(load) {
        ": the bar is the median over the rounds, each dot a round, the line their range"
    } else {
        ""
    };
    Drawing {
        statistic: name,
        caption: format!("Response time of all requests, {name}{rounds}"),
        label: format!("{name} of the response time of all requests; the table has the numbers"),
        groups: vec![Group {
            name: None,
            bars: bars.collect(),
        }],
    }
}

fn push_table(page: &mut String, load: &LoadPage<'_>) {
    const COUNTS: [&str; 3] = ["requests", "failed", "unfinished"];
    let caption = if has_rounds(load) {
        "Response time of all requests in ms, with failed ones as never answered: median over the rounds, and below \
         it the range of the rounds. Counts are those of all rounds."
    } else {
        "Response time of all requests in ms; failed ones count as never answered."
    };
    let statistics = STATISTICS.iter().map(|(name, _)| *name);
    let titles = std::iter::once("").chain(statistics).chain(COUNTS);
    table::begin(page, "response-times", caption, titles);
    for (place, series) in load.series.iter().enumerate() {
        page.push_str(&format!(
            "<tr><th scope=\"row\">{}{}</th>",
            swatch(place),
            escaped(&series.name)
        ));
        for (name, statistic) in &STATISTICS {
            table::push_latency(page, name, over_rounds(series, *statistic));
        }
        let counts: [fn(&LoadTotals) -> u64; 3] = [
            LoadTotals::requests,
            LoadTotals::failed,
            LoadTotals::censored,
        ];
        for (title, count) in COUNTS.iter().zip(counts) {
            let all: u64 = series.rounds.iter().map(|totals| count(totals)).sum();
            table::push_cell(page, title, "", &figure::count(all));
        }
        page.push_str("</tr>\n");
    }
    table::end(page);
}

/// Appends how the response times are distributed, the requests over time, and the place for the plots of single requests.
pub(super) fn push(page: &mut String, load: &LoadPage<'_>, plots: &[TrialPoints]) {
    if plots.iter().all(TrialPoints::is_empty) {
        return;
    }
    let title = if has_rounds(load) {
        "Requests of the last round"
    } else {
        "Requests"
    };
    page.push_str(&format!(
        "<section class=\"condition\" id=\"load\" tabindex=\"-1\" aria-label=\"{title}\">\n<h2>{title}</h2>\n"
    ));
    if let Some(urls) = load.urls_together {
        page.push_str(&format!(
            "<p>The {} URLs are drawn together. Up to 7 URLs have colours of their own in a load of a single version.</p>\n",
            figure::count(urls)
        ));
    }
    shapes::push_of_load(page, plots);
    page.push_str(
        "<div class=\"plots\" data-condition=\"0\"></div>\n\
         <p class=\"delivered\">Of a colour with more than 40,000 requests, only the slowest and an even share of the others are \
         drawn as points; everything else on this page counts all requests. <code>squall load --output FILE.parquet</code> \
         writes a row for each request.</p>\n\
         <p class=\"delivered\">A load records no packets, so this page does not say what a request waited for on the network. \
         <code>squall run</code> measures over a link of its own, and its report has the causes and single requests in \
         full.</p>\n</section>\n",
    );
}
