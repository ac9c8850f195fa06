//! Where the time went, in the terminal and on the page: which trials are added up, and how the result is shown.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use squall_analysis::RunSummary;
use squall_analysis::causes::{RunBandTimes, TrialBandTimes};
use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, RequestRecord, Validity};
use squall_report::{Colour, Detail, TrialPoints, html};

use crate::support::chromium::{self, Page};
use crate::support::english::terminal;
use crate::support::overlay;
use crate::support::run::{Run, Size, run};

/// The round trip is distance, the next 100 ms are loss, the rest is hol.
pub(crate) fn causes(requests: &[RequestRecord]) -> Vec<CausesRecord> {
    let row = |request: &RequestRecord| {
        let mut spans = CauseSpans::default();
        let mut left = request.response_time();
        for (cause, most) in [
            (Cause::Distance, 50),
            (Cause::Loss, 100),
            (Cause::Hol, 1_000_000),
        ] {
            let share = left.min(Duration::from_millis(most));
            spans[cause] = share;
            left = left - share;
        }
        squall_made::causes(request.request, spans)
    };
    requests.iter().map(row).collect()
}

/// The run's summary, with the causes of all trials of `variants`.
pub(crate) fn summary(run: &Run, variants: &[&str]) -> RunSummary {
    let trials: Vec<TrialBandTimes> = run
        .records
        .iter()
        .filter(|(record, _)| variants.contains(&record.trial.variant.name.as_str()))
        .map(|(record, requests)| TrialBandTimes::of(record, requests, &causes(requests)))
        .collect();
    let mut summary = run.summary();
    summary.causes = RunBandTimes::of(&run.plan, &trials);
    summary
}

#[test]
fn bars_cover_the_measured_requests_of_valid_trials() {
    let mut run = run(&["h1", "h2c x1"], Size::SMALL);
    run.records[0].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was late".to_owned()],
    };
    let summary = summary(&run, &["h1", "h2c x1"]);
    // Two repetitions of 8 s at 200 requests/s; one repetition of h1 is invalid.
    let cells = summary.causes.of_condition(0);
    let counts: Vec<u64> = cells.iter().map(|cell| cell.bands[0].requests).collect();
    assert_eq!(counts, [1_600, 3_200]);
    for cell in cells {
        let bands: Vec<u64> = cell.bands.iter().map(|band| band.requests).collect();
        let all = bands[0];
        assert_eq!(bands, [all, all / 2, all * 2 / 5, all * 9 / 100, all / 100]);
        let sum = |cause: Cause, bands: &[usize]| -> u64 {
            let bands = bands.iter().map(|place| cell.bands[*place].spans[cause]);
            bands.map(Duration::as_nanos).sum()
        };
        assert_eq!(
            sum(Cause::Distance, &[0]),
            sum(Cause::Distance, &[1, 2, 3, 4])
        );
        assert_eq!(sum(Cause::Loss, &[0]), sum(Cause::Loss, &[1, 2, 3, 4]));
    }
    let lossy = summary.causes.of_condition(2);
    let loss_of = |place: usize| {
        let band = &lossy[0].bands[place];
        band.spans[Cause::Loss].as_nanos() as f64 / band.spans.total().as_nanos() as f64
    };
    assert!(loss_of(4) > loss_of(1), "the slowest have lost more");
    assert!(summary.causes.of_condition(99).is_empty());
}

#[test]
fn terminal_has_two_bars_for_each_cell() {
    let run = run(&["h1", "h2c \u{1b}[31mx1"], Size::SMALL);
    let text = terminal(
        &summary(&run, &["h1", "h2c \u{1b}[31mx1"]),
        100,
        Colour::Plain,
        Detail::Full,
    );
    assert!(!text.contains('\u{1b}'));
    assert_eq!(text.matches("where the time went").count(), 3, "{text}");
    // 50 ms, 0.4 ms and 0.3 ms times two random factors: 0.475 of 50.475 ms on average.
    let clean = "h1          all          DDDDDDDDDDDDDDDDDDDDDDDD  D distance 99 %, L loss 0.9 %";
    let mut lines = text
        .lines()
        .skip_while(|line| !line.contains("where the time went"));
    let line = lines.nth(1).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<String>(),
        clean.split_whitespace().collect::<String>(),
        "{text}"
    );
    assert!(
        lines
            .next()
            .unwrap()
            .trim_start()
            .starts_with("slowest 1 %"),
        "{text}"
    );
    let without = terminal(&run.summary(), 100, Colour::Plain, Detail::Full);
    assert!(!without.contains("where the time went"));
    // The usual report has only the bars of the answer's condition.
    let usual = terminal(
        &summary(&run, &["h1", "h2c \u{1b}[31mx1"]),
        100,
        Colour::Plain,
        Detail::Usual,
    );
    let title = "  where the time went, delay 25ms, loss ";
    assert_eq!(usual.matches(title).count(), 1, "{usual}");
}

#[test]
fn page_has_a_stack_for_each_band() {
    let run = run(&["h1", "<b>h2c"], Size::SMALL);
    let page = html(&summary(&run, &["<b>h2c"]), &run.plots(), &[], &[]);
    assert!(!page.contains("<b>h2c"), "names are text");
    assert_eq!(page.matches("<table class=\"causes\" ").count(), 3);
    // One variant, five bands, three conditions.
    assert_eq!(page.matches("<div class=\"bar\">").count(), 15);
    let mut widths = 0.0;
    let stack = page
        .split("<div class=\"bar\">")
        .nth(1)
        .unwrap()
        .split("</div>")
        .next()
        .unwrap();
    for piece in stack.split("width: ").skip(1) {
        widths += piece.split('%').next().unwrap().parse::<f64>().unwrap();
    }
    assert!((widths - 100.0).abs() < 0.01, "{stack}");
    // A letter for each cause, beside its name and in the pieces that have room for it.
    assert!(page.contains("<span class=\"swatch cause-hol\"></span>H <button"));
    assert!(stack.contains(">D 9"), "{stack}");
    let without = html(&run.summary(), &run.plots(), &[], &[]);
    assert!(!without.contains("class=\"causes\""));
}

#[test]
fn terminal_shows_causes_in_the_colours_of_the_page_only_if_asked_for() {
    let run = run(&["h1", "h2c x1"], Size::SMALL);
    let summary = summary(&run, &["h1", "h2c x1"]);
    let plain = terminal(&summary, 100, Colour::Plain, Detail::Usual);
    let coloured = terminal(&summary, 100, Colour::Ansi, Detail::Usual);
    assert!(!plain.contains('\u{1b}'));
    let distance = "\u{1b}[97;48;5;67mD";
    assert!(coloured.contains(distance), "{coloured}");
}

/// A page with the causes of all requests, scrolled to the small plots of the last condition. `name` is the name of the page's
/// file.
fn by_cause(name: &str) -> Option<Page> {
    static PAGE: OnceLock<String> = OnceLock::new();
    let markup = PAGE.get_or_init(|| {
        let run = run(&overlay::NAMES, Size::SMALL);
        let plots: Vec<TrialPoints> = run
            .records
            .iter()
            .map(|(record, requests)| {
                TrialPoints::of(record, requests).with_causes(&causes(requests))
            })
            .collect();
        html(&summary(&run, &overlay::NAMES), &plots, &[], &[])
    });
    let mut page = chromium::open_markup(name, markup, 1400, 900)?;
    page.wait_for("document.querySelectorAll('#condition-2 .multiple .plot').length > 0");
    page.middle_of("#condition-2 .multiple .plot");
    page.wait_for("document.querySelector('#condition-2 .multiple .plot').dataset.points > 0");
    page.wait_for("document.querySelector('#condition-2 .multiple .plot').dataset.x !== undefined");
    Some(page)
}

/// The colours of the pixels of a plot of the last condition: 0 is the overlay, 1 the small plot of the first variant. Red is
/// in the lowest byte.
fn pixels(page: &mut Page, plot: usize) -> Vec<u64> {
    let pixels = page.eval(&format!(
        "[...new Set(squall.sections[2].scatters[{plot}].scatter.raster.pixels)].map((p) => p >>> 0)"
    ));
    serde_json::from_value(pixels).unwrap()
}

/// The colours in style.css for the first variant, and for two causes.
const FIRST_VARIANT: u64 = 0xffb2_7200;
const DISTANCE: u64 = 0xff95_7957;
const HOL: u64 = 0xff00_47ca;

#[test]
fn points_are_coloured_by_what_the_reader_chose() {
    let Some(mut page) = by_cause("colouring") else {
        return;
    };
    overlay::show_overlay(&mut page);
    // The choice, and whether the overlay and the small plots show causes.
    for (choice, overlay, multiple) in [
        ("cause", true, true),
        ("variant", false, false),
        ("both", false, true),
    ] {
        page.eval(&format!(
            "(() => {{ const choice = document.querySelector('#condition-2 .colouring'); choice.value = {choice:?}; \
             choice.dispatchEvent(new Event('change')); }})()"
        ));
        page.wait_for(&format!(
            "[{overlay}, {multiple}].every((is, plot) => \
             (squall.sections[2].scatters[plot].scatter.layers[0].causes !== null) === is)"
        ));
        for (plot, is_by_cause) in [overlay, multiple].into_iter().enumerate() {
            // Both plots may be out of sight, where nothing is drawn.
            page.eval(&format!(
                "squall.sections[2].scatters[{plot}].scatter.draw()"
            ));
            let colours = pixels(&mut page, plot);
            for (colour, is_drawn) in [
                (FIRST_VARIANT, !is_by_cause),
                (DISTANCE, is_by_cause),
                (HOL, is_by_cause),
            ] {
                assert_eq!(
                    colours.contains(&colour),
                    is_drawn,
                    "{choice}, plot {plot}: {colour:x} in {colours:x?}"
                );
            }
        }
    }
}

#[test]
fn points_have_the_colour_of_their_cause_if_one_variant_is_drawn() {
    let Some(mut page) = by_cause("by-cause") else {
        return;
    };
    assert_eq!(
        page.events("Runtime.exceptionThrown"),
        Vec::<serde_json::Value>::new()
    );
    // The cause column of the points in the first variant's small plot. A request that lost a packet waited longer than
    // 200 ms, of which 100 ms are loss, so its dominant cause is hol.
    let codes = page.eval(
        "[...new Set(squall.sections[2].scatters[1].scatter.layers[0].points.cause)].sort((a, b) => a - b)",
    );
    let code = |cause: Cause| cause as u64 + 1;
    assert_eq!(
        codes,
        serde_json::json!([code(Cause::Distance), code(Cause::Hol)])
    );
    let colours = pixels(&mut page, 1);
    for colour in [DISTANCE, HOL] {
        assert!(colours.contains(&colour), "{colour:x} in {colours:x?}");
    }
    // The overlay distinguishes variants instead.
    let overlay = page.eval("squall.sections[2].scatters[0].scatter?.layers[0].causes ?? null");
    assert!(overlay.is_null(), "{overlay}");
}
