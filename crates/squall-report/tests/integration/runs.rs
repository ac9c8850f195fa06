//! The pages of `squall view`: the list of runs with their trends, and the live page of a run.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::RunSummary;
use squall_report::{
    Language, ListedRun, Method, compared_page, compared_page_in, html, live_html, runs_page,
};

use crate::support::overlay::NAMES;
use crate::support::run::{Size, run};

/// A run that began this many days after another.
fn summary(day: u64) -> RunSummary {
    let mut summary = run(&NAMES, Size::SMALL).summary();
    summary.facts.started_unix_ns = Some((20_000 + day) * 86_400 * 1_000_000_000);
    summary
}

#[test]
fn list_has_the_runs_of_a_recipe_in_order_with_a_trend_for_each_condition() {
    let (early, late) = (summary(0), summary(9));
    let runs =
        [("late <b>", 1, &late), ("early", 2, &early)].map(|(name, number, summary)| ListedRun {
            name,
            number,
            summary,
        });
    let page = runs_page(&runs);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place(">early</a>, 2024-10-04") < place(">late &lt;b&gt;</a>, 2024-10-13"));
    assert!(page.contains("<a href=\"/runs/1/compare/2\">compared with the run before</a>"));
    assert!(page.contains("<a href=\"/compare/\">Runs beside each other</a>"));
    let headline = &early.answer.as_ref().unwrap().headline;
    assert_eq!(page.matches(headline.as_str()).count(), 2);
    // Three variants under three conditions, in two runs.
    assert_eq!(page.matches("<figure>").count(), 3);
    assert_eq!(page.matches("<path class=\"curve\"").count(), 9);
    assert_eq!(page.matches("<circle ").count(), 18);
    for foreign in ["<script", "late <b>", "NaN", "src="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn single_runs_and_runs_of_different_recipes_have_no_trend() {
    let (one, mut other) = (summary(0), summary(1));
    other.recipe = "another".to_owned();
    let runs = [(1, &one), (2, &other)].map(|(number, summary)| ListedRun {
        name: "run",
        number,
        summary,
    });
    let page = runs_page(&runs);
    assert_eq!(page.matches("<section class=\"condition\"").count(), 2);
    assert!(!page.contains("<figure>") && !page.contains("/compare/"));
}

#[test]
fn runs_of_a_recipe_are_side_by_side_for_each_variant_and_condition() {
    let (early, mut late, mut other) = (summary(0), summary(9), summary(5));
    other.recipe = "another".to_owned();
    // A variant that only the first run has.
    late.conditions[0].cells.remove(0);
    let runs = [
        ("late <b>", 1, &late),
        ("early", 2, &early),
        ("other", 3, &other),
    ];
    let runs = runs.map(|(name, number, summary)| ListedRun {
        name,
        number,
        summary,
    });
    let page = compared_page(&runs);
    assert_eq!(page.matches("<section class=\"comparison\"").count(), 2);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place(">2: early</a>, 2024-10-04") < place(">1: late &lt;b&gt;</a>, 2024-10-13"));
    // Four statistics in each of two recipes, each with three variants under three conditions.
    assert_eq!(page.matches("<figure data-statistic=").count(), 8);
    assert_eq!(page.matches("<text class=\"group\"").count(), 8 * 9);
    assert_eq!(
        page.matches("<g class=\"bar-row").count(),
        4 * (9 + 8) + 4 * 9
    );
    assert_eq!(page.matches("<th scope=\"row\">").count(), 9 + 8 + 9);
    // Each run has a colour.
    assert!(page.contains("--series: var(--series-1)\"><title>1: late"));
    assert!(page.contains("class=\"dot\""));
    for foreign in ["late <b>", "NaN", "src=", "connect-src"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let chinese = compared_page_in(Language::Zh, &runs);
    assert!(
        chinese.contains("<h1>并排显示各次运行</h1>")
            && chinese.contains("<th scope=\"col\">变体与条件</th>")
    );
}

#[test]
fn only_a_live_page_may_make_requests_and_only_to_its_server() {
    let run = run(&NAMES, Size::SMALL);
    let method = Method::new(None, None, Vec::new());
    let live = live_html(&run.summary(), &run.plots(), &[], &[], &method, "/runs/3/");
    let report = html(&run.summary(), &run.plots(), &[], &[]);
    assert!(live.contains("\"source\":\"/runs/3/\"") && live.contains("connect-src 'self'"));
    assert!(!report.contains("\"source\":") && !report.contains("connect-src"));
    let folder = run.plan.trials[0].folder();
    assert!(live.contains(&format!("\"trial\":\"{folder}\"")));
}
