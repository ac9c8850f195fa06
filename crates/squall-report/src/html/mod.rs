//! The pages: the report of a run, which needs nothing but a browser, the list of runs of `squall view`, and the results of a
//! load.
//!
//! All text is in the markup, so the page is complete without scripts and on paper; scripts only draw the points. The page
//! fetches nothing, which its Content-Security-Policy enforces; a live page fetches from the `squall view` that serves it.
//! Foreign text goes through `text::escaped` here and through `textContent` in the scripts, never through markup. (details.js
//! inserts markup that was made and escaped here.)
//!
//! `answer` is the top, `comparison` all variants under all conditions with `bars` and `grid`, `findings` what is wrong,
//! `tried` what its fixes gained, `section` one condition with `causes` (its stacks), `shapes` (how its response times are
//! distributed), `heat` (and over time) and `deliveries` (what the link delivered). `details` are single requests in full
//! (`request`, `connection`, both over `chart`). `method` is how the run was made, `runs` the list of runs with their trends,
//! `compared` runs side by side, `load` the page of a load with `load_requests` and `load_course`, `probe` that of a probe
//! with `probe_charts`, and `probe_sweep` that of several probes behind different links.
//! `plot`, `table`, `terms` and `text` are what they share. Scripts and styles are in assets/.

mod answer;
mod bars;
mod causes;
mod chart;
pub(crate) mod compared;
mod comparison;
mod connection;
mod deliveries;
mod details;
mod findings;
mod grid;
mod heat;
mod links;
pub(crate) mod load;
mod load_course;
mod load_requests;
mod method;
mod plot;
pub(crate) mod probe;
mod probe_charts;
pub(crate) mod probe_sweep;
mod request;
pub(crate) mod runs;
mod section;
mod shapes;
mod table;
mod terms;
mod text;
pub(crate) mod trial_markup;
mod tried;

use squall_analysis::findings::CellFindings;
use squall_analysis::{Delivery, RunSummary, figure};

use crate::date;
use crate::palette;
use crate::payload;
use crate::points::TrialPoints;
use details::Details;
pub use method::Method;
use terms::explained;
pub(crate) use text::escaped;

const UPLOT_CSS: &str = include_str!("../../assets/vendor/uplot-1.6.32/uPlot.min.css");
const UPLOT_JS: &str = include_str!("../../assets/vendor/uplot-1.6.32/uPlot.iife.min.js");
const STYLE: &str = concat!(
    include_str!("../../assets/style.css"),
    include_str!("../../assets/details.css")
);

/// The page's modules, each after the ones that it imports.
const MODULES: [&str; 13] = [
    include_str!("../../assets/data.js"),
    include_str!("../../assets/live.js"),
    include_str!("../../assets/inspect.js"),
    include_str!("../../assets/view.js"),
    include_str!("../../assets/paint.js"),
    include_str!("../../assets/hover.js"),
    include_str!("../../assets/ticks.js"),
    include_str!("../../assets/export.js"),
    include_str!("../../assets/details.js"),
    include_str!("../../assets/scatter.js"),
    include_str!("../../assets/state.js"),
    include_str!("../../assets/switches.js"),
    include_str!("../../assets/page.js"),
];

/// The most bytes of a page that draws many requests: small enough to send, and to open at once. Fewer points are drawn to stay
/// below it.
const PAGE_AT_MOST: usize = 4_900_000;

/// Where `squall view` serves docs/METHOD.md.
const METHOD_PATH: &str = "/METHOD.md";

/// What the page may do: run its inline scripts and styles, draw the images that it makes itself, and fetch nothing.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// What a live page may do in addition: ask the server that it came from, from which browsers also fetch an icon.
const LIVE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                           img-src 'self' data:";

/// The whole page. `plots` are the trials whose requests are drawn, in any order; trials without a cell in the summary are
/// left out. `cells` are the findings of each cell, `delivered` what the link delivered in a trial of each cell with large
/// bodies.
pub fn html(
    summary: &RunSummary,
    plots: &[TrialPoints],
    cells: &[CellFindings],
    delivered: &[Delivery],
) -> String {
    let extras = Extras::default();
    run_page(summary, plots, cells, delivered, &extras)
}

/// Like [`html`], and says how the run was made.
pub fn html_with_method(
    summary: &RunSummary,
    plots: &[TrialPoints],
    cells: &[CellFindings],
    delivered: &[Delivery],
    method: &Method,
) -> String {
    let extras = Extras {
        method: Some(method),
        source: None,
    };
    run_page(summary, plots, cells, delivered, &extras)
}

/// Like [`html_with_method`], as `squall view` serves it: its plots ask for all requests in their visible part. `source` is
/// the path of the run on that server, such as `/runs/1/`.
pub fn live_html(
    summary: &RunSummary,
    plots: &[TrialPoints],
    cells: &[CellFindings],
    delivered: &[Delivery],
    method: &Method,
    source: &str,
) -> String {
    let extras = Extras {
        method: Some(method),
        source: Some(source),
    };
    run_page(summary, plots, cells, delivered, &extras)
}

/// Parts that only some pages have.
#[derive(Default)]
struct Extras<'a> {
    /// How the run was made.
    method: Option<&'a Method>,
    /// The path of the run on the server of a live page.
    source: Option<&'a str>,
}

fn run_page(
    summary: &RunSummary,
    plots: &[TrialPoints],
    cells: &[CellFindings],
    delivered: &[Delivery],
    extras: &Extras<'_>,
) -> String {
    let policy = extras.source.map_or(POLICY, |_| LIVE_POLICY);
    let mut page = begin_page(&summary.recipe, policy);
    if extras.source.is_some() {
        page.push_str(
            "<nav class=\"recipe\" aria-label=\"Runs\"><a href=\"/\">All runs</a></nav>\n",
        );
    }
    push_header(&mut page, summary, extras.method.is_some());
    page.push_str("<main>\n");
    page.push_str(plot::HATCHING);
    answer::push(&mut page, summary);
    push_thresholds(&mut page, summary);
    comparison::push(&mut page, summary);
    let details = match extras.source {
        Some(_) => Details::live(plots),
        None => Details::of(plots),
    };
    findings::push(&mut page, cells, &details);
    tried::push(&mut page, summary);
    details.push(&mut page);
    for (index, condition) in comparison::conditions_with_trials(summary) {
        let parts = section::RunParts {
            measures: &summary.measures,
            causes: summary.causes.of_condition(index),
            delivered,
            plots,
        };
        section::push(&mut page, index, condition, &parts);
    }
    if let Some(method) = extras.method {
        let document = extras.source.map(|_| METHOD_PATH);
        method::push(&mut page, &summary.profile, method, document);
    }
    page.push_str(
        "<noscript><p class=\"note\">The plots of single requests, and requests in full, need scripts; everything else does \
         not.</p></noscript>\n</main>\n",
    );
    terms::push_explanations(&mut page);
    push_scripts(&mut page, details.elements(), |room| {
        payload::elements(summary, plots, room, extras.source)
    });
    page
}

/// Ends a page with its scripts. `points` returns the data of its plots in at most as many bytes as it is given; `others` are
/// further elements with data.
fn push_scripts(page: &mut String, others: &str, points: impl FnOnce(usize) -> String) {
    let scripts = format!(
        "<script>\n{UPLOT_JS}\n</script>\n<script type=\"module\">\n{}</script>\n</body>\n</html>\n",
        bundle(&MODULES)
    );
    let used = page.len() + others.len() + scripts.len();
    page.push_str(&points(PAGE_AT_MOST.saturating_sub(used)));
    page.push_str(others);
    page.push_str(&scripts);
}

/// A page up to the start of its body. Nothing in it is fetched.
fn begin_page(title: &str, policy: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} – squall</title>\n\
         <style>\n{UPLOT_CSS}\n{STYLE}{}</style>\n</head>\n<body>\n",
        escaped(title),
        palette::stylesheet(),
    )
}

fn push_header(page: &mut String, summary: &RunSummary, has_method: bool) {
    page.push_str(&format!(
        "<header>\n<p class=\"recipe\">squall <b>{}</b></p>\n<h1>{}</h1>\n<dl class=\"facts\">\n",
        escaped(&summary.recipe),
        escaped(&summary.question),
    ));
    let facts = &summary.facts;
    let trials: usize = summary
        .conditions
        .iter()
        .flat_map(|c| &c.cells)
        .map(|cell| cell.trials.len())
        .sum();
    let rows = [
        ("profile", summary.profile.clone()),
        (
            "date",
            facts.started_unix_ns.map(date::utc).unwrap_or_default(),
        ),
        ("trials", format!("{trials} of {}", summary.trials_planned)),
        ("kernel", facts.kernels.join(", ")),
        ("congestion control", facts.congestion_controls.join(", ")),
        ("link seeds", seeds(&facts.seeds)),
        (
            "super-packets",
            match facts.fast_trials {
                0 => String::new(),
                fast => format!("at the links' devices, in {fast} of {trials} trials"),
            },
        ),
        // The version that made this page, not the trials: a run can be reported again later.
        (
            "report by",
            concat!("squall ", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        page.push_str(&format!(
            "<div><dt>{name}</dt><dd>{}</dd></div>\n",
            escaped(value)
        ));
    }
    if has_method {
        page.push_str(
            "<div><dt>method</dt><dd><a href=\"#method\">how it was made, and how to repeat it</a></dd></div>\n",
        );
    }
    page.push_str("</dl>\n</header>\n");
}

/// The first few seeds: a run has one for each condition and repetition.
fn seeds(seeds: &[u64]) -> String {
    const SHOWN: usize = 3;
    let mut words: Vec<String> = seeds.iter().take(SHOWN).map(u64::to_string).collect();
    if seeds.len() > SHOWN {
        words.push(format!(
            "and {} more",
            figure::count((seeds.len() - SHOWN) as u64)
        ));
    }
    words.join(", ")
}

/// The thresholds, and whether each holds.
fn push_thresholds(page: &mut String, summary: &RunSummary) {
    let thresholds = summary.thresholds.iter();
    push_threshold_list(
        page,
        thresholds.map(|threshold| (explained(&threshold.sentence), threshold.holds)),
    );
}

/// A list of thresholds: the markup of each, and whether it holds. Nothing without any.
fn push_threshold_list(page: &mut String, lines: impl Iterator<Item = (String, bool)>) {
    let items: String = lines
        .map(|(markup, holds)| {
            let class = if holds { "" } else { " class=\"overloaded\"" };
            format!("<li{class}>{markup}</li>\n")
        })
        .collect();
    if !items.is_empty() {
        page.push_str(&format!(
            "<section aria-label=\"Thresholds\">\n<h2>Thresholds</h2>\n<ul class=\"verdicts\">\n{items}</ul>\n</section>\n"
        ));
    }
}

/// These modules as one script. They import only each other, so in one scope they need neither imports nor exports. (A page
/// opened from a file cannot import modules.)
fn bundle(modules: &[&str]) -> String {
    let mut script = String::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}
