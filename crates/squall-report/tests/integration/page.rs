//! The markup of the page: the answer, the bars, the grids and the drawings of a run, as they are without scripts.
//!
//! What the page does in a browser is tested in `browser`, `reading` and `zoom`.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use squall_analysis::{HeatMap, HeatRow, figure};
use squall_base::plan::Condition;
use squall_base::record::{Direction, DropRecord, Outcome, TrialRecord, Validity};
use squall_base::{Duration, Time};
use squall_report::{TrialPoints, html};

use crate::full::{self, REASON};
use crate::support::overlay::{NAMES, usual_page};
use crate::support::run::{Run, Size, run, spoil};

/// Enough repetitions to prove a difference among six comparisons.
const REPEATED: Size = Size {
    repetitions: 8,
    ..Size::SMALL
};

fn page(run: &Run) -> String {
    html(&run.summary(), &run.plots(), &[], &[])
}

/// The page of a run of as many repetitions, made once for all tests.
fn repeated_page() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(|| page(&run(&NAMES, REPEATED)))
}

/// The part of `page` after `from` and before `to`.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(to).unwrap().0
}

#[test]
fn answer_is_one_clause_with_its_certainty_and_the_health_of_the_run() {
    let summary = run(&NAMES, REPEATED).summary();
    let answer = summary.answer.as_ref().unwrap();
    let page = repeated_page();
    let top = between(page, "<p class=\"answer\">", "</section>");
    assert!(top.starts_with(&answer.headline), "{top}");
    assert!(
        answer.headline.contains(" wins: its p99 is "),
        "{}",
        answer.headline
    );
    assert!(top.contains("<span class=\"confidence proven\">✓ proven</span>"));
    assert!(top.contains("<p class=\"health sound\"><b>sound</b>: 72 of 72 trials valid</p>"));
    let folded = between(top, "<details class=\"more\">", "</details>");
    assert!(folded.contains("<p class=\"how-sure\">"), "{folded}");
    assert!(!folded.contains("class=\"warnings\""), "{folded}");
}

#[test]
fn reason_is_a_sentence_below_the_answer() {
    let run = run(&NAMES, Size::SMALL);
    let mut summary = run.summary();
    let without = html(&summary, &[], &[], &[]);
    assert!(!without.contains("class=\"reason\""));
    full::add_reason(&mut summary);
    let page = html(&summary, &[], &[], &[]);
    let below = between(&page, "<p class=\"answer\">", "<p class=\"health ");
    let (_, reason) = below.split_once("</p>\n").unwrap();
    assert_eq!(reason, format!("<p class=\"reason\">Why: {REASON}</p>\n"));
    // All that is known about the reason is in the folded part, among the numbers.
    let folded = between(&page, "<details class=\"more\">", "</details>");
    let why = format!(" Why: hol leads where they differ. {REASON}</p>");
    assert!(folded.contains(&why), "{folded}");
}

#[test]
fn doubts_are_counted_in_the_line_about_health_and_folded() {
    let mut run = run(&NAMES, Size::SMALL);
    run.records[5].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    let page = page(&run);
    let health = between(&page, "<p class=\"health ", "</p>");
    assert!(
        health.starts_with("doubtful\"><b>doubtful</b>: 17 of 18 trials valid; "),
        "{health}"
    );
    assert!(health.contains(" doubts"), "{health}");
    let folded = between(&page, "<details class=\"more\">", "</details>");
    assert!(folded.contains("the link was up to 3 ms late"), "{folded}");
}

#[test]
fn bars_have_a_dot_for_each_trial_and_an_interval() {
    let page = repeated_page();
    for statistic in ["mean", "median", "p95", "p99"] {
        let start = format!("<figure data-statistic=\"{statistic}\">");
        let figure = between(page, &start, "</figure>");
        // Three variants under three conditions.
        assert_eq!(figure.matches("class=\"bar-value\"").count(), 9);
        assert_eq!(figure.matches("class=\"interval\"").count(), 9);
        assert_eq!(figure.matches("<circle class=\"dot\"").count(), 72);
    }
}

#[test]
fn bar_of_unfinished_requests_is_hatched_to_the_end() {
    let mut run = run(&NAMES, Size::SMALL);
    let figure = |run: &Run| {
        let page = page(run);
        between(&page, "<figure data-statistic=\"p99\">", "</figure>").to_owned()
    };
    assert!(!figure(&run).contains("at-least"));
    for (_, requests) in run.records.iter_mut().step_by(9) {
        spoil(requests, 0, 20, Outcome::Censored);
    }
    let figure = figure(&run);
    assert_eq!(figure.matches("<rect class=\"at-least\"").count(), 1);
    assert_eq!(figure.matches("<circle class=\"dot open\"").count(), 2);
}

#[test]
fn grid_names_the_winner_of_each_field() {
    let page = repeated_page();
    assert_eq!(page.matches("<div class=\"compared\"").count(), 2);
    let eight = between(
        page,
        "data-measure=\"p99\" data-pair=\"h2c x8 against h1\">",
        "</table>",
    );
    assert_eq!(eight.matches("<a href=\"#condition-").count(), 3);
    let fields: Vec<&str> = eight.split("<td class=\"").skip(1).collect();
    assert!(fields[0].starts_with("undecided\""), "{}", fields[0]);
    assert!(
        fields[2].starts_with(
            "wins proven\" data-winner=\"h2c x8\" style=\"--series: var(--series-2)\""
        ),
        "{}",
        fields[2]
    );
    assert!(fields[2].contains("x</a>"), "{}", fields[2]);
}

#[test]
fn grid_hatches_fields_without_a_pair_of_valid_trials() {
    let mut run = run(&NAMES, Size::SMALL);
    for place in [1, 10] {
        run.records[place].0.health.validity = Validity::Invalid {
            reasons: vec!["the link was late".to_owned()],
        };
    }
    let page = page(&run);
    assert_eq!(page.matches("<td class=\"invalid\"").count(), 1);
}

#[test]
fn conditions_that_vary_two_settings_form_a_grid_of_both() {
    let mut run = run(&NAMES, Size::SMALL);
    let far = |near: &Condition| Condition {
        delay: Duration::from_millis(100).into(),
        ..near.clone()
    };
    let further: Vec<Condition> = run.plan.conditions.iter().map(far).collect();
    run.plan.conditions.extend(further);
    let page = page(&run);
    let grid = between(&page, "<table class=\"grid-of-winners\"", "</table>");
    assert!(
        grid.contains("<th scope=\"col\">loss \\ delay</th>"),
        "{grid}"
    );
    assert_eq!(grid.matches("<tr>").count(), 1 + 3);
    // There are no trials with the longer delay.
    assert_eq!(grid.matches("<td class=\"absent\"").count(), 3);
}

#[test]
fn distributions_have_a_curve_and_a_box_for_each_trial() {
    let page = usual_page();
    for condition in 0..3 {
        let start = format!("id=\"condition-{condition}\"");
        let section = between(page, &start, "</section>");
        assert_eq!(section.matches("<path class=\"curve\"").count(), 6);
        assert_eq!(section.matches("<g class=\"box\"").count(), 6);
        assert_eq!(section.matches("class=\"box-median\"").count(), 6);
        // Two courses, of requests in flight and of rates, for one trial of each variant.
        let courses = between(section, "<div class=\"multiples courses\">", "</div>\n<");
        assert_eq!(courses.matches("<svg viewBox").count(), 6);
        assert!(section.contains("99 %</text>"), "{section}");
    }
}

/// The lines of fields that a heat map paints: the first column of each, and how many fields it has.
fn painted(map: &str) -> Vec<(u32, u32)> {
    let paths = map.split("<path class=\"heat\"").skip(1);
    let paths = paths.map(|rest| between(rest, " d=\"M", "\""));
    let lines = paths.flat_map(|path| path.split('M'));
    let numbers = lines.map(|line| {
        let (place, length) = line.split_once('h').unwrap();
        let (column, _) = place.split_once(' ').unwrap();
        (column.parse().unwrap(), length.parse().unwrap())
    });
    numbers.collect()
}

#[test]
fn heat_map_of_a_variant_has_all_requests_of_its_valid_trials() {
    let mut run = run(&NAMES, Size::SMALL);
    let (first, requests) = &mut run.records[0];
    let trial = first.trial.clone();
    spoil(requests, 0, 20, Outcome::Censored);
    spoil(requests, 100, 30, Outcome::StreamReset);
    let is_own = |other: &TrialRecord| {
        let other = &other.trial;
        other.variant == trial.variant && other.condition == trial.condition
    };
    let own = run.records.iter().filter(|(record, _)| is_own(record));
    let maps: Vec<HeatMap> = own
        .clone()
        .map(|(record, rows)| HeatMap::of(record, rows))
        .collect();
    let sum = HeatMap::sum(&maps.iter().collect::<Vec<_>>()).unwrap();
    let total: usize = own.map(|(_, rows)| rows.len()).sum();
    assert_eq!((maps.len(), sum.total()), (2, total as u64));

    let page = page(&run);
    assert_eq!(page.matches("data-plot=\"heat map\"").count(), 9);
    let label = format!(
        "aria-label=\"{}: heat map of requests by start time and response time, most often ",
        trial.variant.name
    );
    let caption = format!(
        "{} requests, 2 valid trials, {} failed, {} unfinished</figcaption>",
        figure::count(sum.total()),
        sum.in_row(HeatRow::Failed),
        sum.in_row(HeatRow::Unfinished),
    );
    let figures = page.split("<figure>").filter(|it| it.contains(&label));
    let figures: Vec<&str> = figures.filter(|it| it.contains(&caption)).collect();
    let [map] = figures.as_slice() else {
        panic!("{} figures have {caption}", figures.len());
    };
    let (map, _) = map.split_once("</figure>").unwrap();
    let lines = painted(map);
    let fields: u32 = lines.iter().map(|(_, fields)| fields).sum();
    assert_eq!(fields as usize, sum.counts.len());
    let ends = lines.iter().map(|(from, fields)| from + fields);
    assert!(ends.max() <= Some(sum.columns), "{map}");
    for text in ["failed", "unfinished", "1+", "100 ms"] {
        assert!(map.contains(&format!(">{text}</text>")), "{text}: {map}");
    }
    assert!(map.contains(" s</text>"), "{map}");
}

#[test]
fn heat_maps_leave_out_invalid_trials() {
    let mut run = run(&NAMES, Size::SMALL);
    for (record, _) in &mut run.records {
        record.health.validity = Validity::Invalid {
            reasons: vec!["the link was late".to_owned()],
        };
    }
    assert!(!page(&run).contains("data-plot=\"heat map\""));
}

#[test]
fn every_drawing_of_a_run_has_a_name_for_its_files() {
    let page = usual_page();
    let drawings = page
        .split("<svg ")
        .skip(1)
        .filter_map(|it| it.split('>').next());
    let drawings: Vec<&str> = drawings.filter(|it| it.contains("role=\"img\"")).collect();
    // The bars of four statistics; for each condition, percentiles, boxes, and a heat map and two courses of each variant.
    assert_eq!(drawings.len(), 4 + 3 * (2 + 3 * 3), "{drawings:?}");
    for drawing in drawings {
        assert!(drawing.contains(" data-plot=\""), "{drawing}");
    }
}

#[test]
fn curves_end_dashed_where_requests_are_unfinished() {
    let mut run = run(&NAMES, Size::SMALL);
    let (_, requests) = &mut run.records[0];
    spoil(requests, 0, 20, Outcome::Censored);
    let page = page(&run);
    assert_eq!(page.matches("<path class=\"curve bound\"").count(), 1);
}

/// A packet that the link dropped at this time after the load's start.
pub(crate) fn drop_at(record: &TrialRecord, after: Duration) -> DropRecord {
    let at = Time::ZERO + record.load_start + after;
    squall_made::dropped(squall_made::packet_ref(Direction::Up, 7), at)
}

#[test]
fn dropped_packets_are_counted_in_the_caption_of_their_plot() {
    let run = run(&NAMES, Size::SMALL);
    let (record, requests) = &run.records[0];
    let drops: Vec<DropRecord> = (0..5_000)
        .map(|n| drop_at(record, Duration::from_millis(2 * n)))
        .collect();
    let points = TrialPoints::of(record, requests).with_drops(record, &drops);
    let page = html(&run.summary(), &[points], &[], &[]);
    assert!(page.contains("\"drop_count\":2500"), "{page}");
    assert!(
        page.contains("all 2,000 requests, 5,000 packets dropped (2,500 marked)"),
        "{page}"
    );
}

#[test]
fn terms_are_explained_where_they_occur() {
    let page = usual_page();
    assert!(page.contains("popovertarget=\"term-own-error\">our own error</button>"));
    assert!(page.contains("<p popover id=\"term-own-error\">"));
    let targets = page.split("popovertarget=\"").skip(1);
    for target in targets.map(|rest| rest.split('"').next().unwrap()) {
        let id = format!("<p popover id=\"{target}\">");
        assert_eq!(page.matches(&id).count(), 1, "{target}");
    }
}

/// Nine cells with eight trials each, without the points of single requests: text, bars, grids, curves, boxes, maps and
/// courses.
#[test]
fn drawings_take_little_space_in_the_page() {
    let run = run(&NAMES, REPEATED);
    let without = html(&run.summary(), &[], &[], &[]);
    let bare: Vec<TrialPoints> = (run.records.iter())
        .map(|(record, requests)| TrialPoints::of(record, requests))
        .collect();
    let page = html(&run.summary(), &bare, &[], &[]);
    let points: usize = page
        .split("<script type=\"text/plain\"")
        .skip(1)
        .map(|rest| rest.split("</script>").next().unwrap().len())
        .sum();
    let drawings = page.len() - without.len() - points;
    assert!(drawings < 300_000, "{drawings} bytes");
}
