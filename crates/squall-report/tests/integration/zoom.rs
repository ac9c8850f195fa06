//! The axes of the page's plots, in a real Chromium: the ranges they fit, their ticks, and every way to zoom.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use squall_base::record::Outcome;

use crate::support::chromium::Page;
use crate::support::overlay::{NAMES, open, open_usual, overlay_data, overlay_range, show_overlay};
use crate::support::run::{Run, Size, delay, run, spoil};

/// A run whose last condition overloads h1: its latency grows up to `largest_ms`.
fn saturated(largest_ms: u64) -> Run {
    let mut run = run(&NAMES, Size::SMALL);
    for (record, requests) in &mut run.records {
        if record.trial.variant.name == "h1" && record.trial.condition == run.plan.conditions[2] {
            delay(requests, largest_ms);
        }
    }
    run
}

/// The numbers on the overlay's latency axis.
fn ticks(page: &mut Page) -> Vec<f64> {
    let labels = "squall.sections[2].scatters[0].scatter.plot.axes[1]._values";
    let labels: Vec<String> = serde_json::from_value(page.eval(labels)).unwrap();
    let number = |label: &String| label.strip_suffix(" ms").unwrap().replace(',', "").parse();
    labels.iter().map(|label| number(label).unwrap()).collect()
}

fn zoom_y_to(page: &mut Page, from: f64, to: f64) -> Vec<f64> {
    let pane = "squall.sections[2].panes.overlay";
    page.eval(&format!("{pane}.show({pane}.x, [{from}, {to}])"));
    page.wait_for(&format!(
        "document.querySelector('#condition-2 .overlay .plot').dataset.y === {pane}.y.join(' ')"
    ));
    ticks(page)
}

#[test]
fn zooming_changes_the_visible_range_and_a_double_click_restores_it() {
    let Some(mut page) = open_usual("zoom") else {
        return;
    };
    let (x, y) = show_overlay(&mut page);
    let whole = overlay_range(&mut page, "x");
    assert_eq!(whole, [0.0, 10.0]);

    page.drag((x - 100.0, y), (x + 100.0, y));
    page.wait_for("!squall.sections[2].view.isWhole()");
    let zoomed = overlay_range(&mut page, "x");
    assert!(zoomed[0] > 2.0 && zoomed[1] < 8.0, "{zoomed:?}");
    let others = page.text("document.querySelector('#condition-2 .multiple .plot').dataset.x");
    assert_eq!(
        others,
        overlay_data(&mut page, "x"),
        "the small plots follow"
    );

    page.double_click(x, y);
    page.wait_for("squall.sections[2].view.isWhole()");
    assert_eq!(overlay_range(&mut page, "x"), whole);

    page.wheel(x, y, -240.0, true);
    page.wait_for("!squall.sections[2].view.isWhole()");
    page.click("#condition-2 .reset");
    page.wait_for("squall.sections[2].view.isWhole()");
}

#[test]
fn visible_part_is_kept_in_the_address() {
    let Some(mut page) = open_usual("zoom-kept") else {
        return;
    };
    let (x, y) = show_overlay(&mut page);
    page.drag((x - 100.0, y - 60.0), (x + 100.0, y + 60.0));
    page.wait_for("location.hash.startsWith('#zoom-2=')");
    let ranges = ["x", "y"].map(|axis| overlay_range(&mut page, axis));

    page.eval("globalThis.isOld = true");
    page.call("Page.reload", json!({}));
    page.wait_for("globalThis.isOld === undefined && globalThis.squall !== undefined");
    show_overlay(&mut page);
    for (axis, before) in ["x", "y"].into_iter().zip(&ranges) {
        let after = overlay_range(&mut page, axis);
        let is_same = (before.iter().zip(&after)).all(|(one, other)| (one - other).abs() < 1e-4);
        assert!(is_same, "{axis}: {before:?}, {after:?}");
    }
    assert_eq!(page.eval("squall.sections[1].view.isWhole()"), json!(true));

    page.click("#condition-2 .reset");
    page.wait_for("squall.sections[2].view.isWhole() && location.hash === ''");
}

#[test]
fn mistakes_in_the_address_leave_everything_visible() {
    let Some(mut page) = open_usual("zoom-mistaken") else {
        return;
    };
    page.eval("globalThis.isOld = true; location.hash = '#zoom-0=x&zoom-1=3_1_2&zoom-2=-9_99'");
    page.call("Page.reload", json!({}));
    page.wait_for("globalThis.isOld === undefined && globalThis.squall !== undefined");
    let are_whole = page.eval("squall.sections.map(({ view }) => view.isWhole())");
    assert_eq!(are_whole, json!([true, true, true]));
    let thrown = page.events("Runtime.exceptionThrown");
    assert_eq!(thrown, Vec::<serde_json::Value>::new());
}

#[test]
fn wheel_without_ctrl_or_focus_scrolls_the_page() {
    let Some(mut page) = open_usual("wheel") else {
        return;
    };
    let (x, y) = show_overlay(&mut page);
    let before = page.eval("scrollY").as_f64().unwrap();
    page.wheel(x, y, -240.0, false);
    page.wait_for(&format!("scrollY < {before}"));
    assert_eq!(page.eval("squall.sections[2].view.isWhole()"), json!(true));
}

#[test]
fn keyboard_zooms_moves_and_resets() {
    let Some(mut page) = open_usual("keys") else {
        return;
    };
    show_overlay(&mut page);
    page.eval("document.querySelector('#condition-2 .overlay .plot').focus()");
    page.key("+");
    page.wait_for("!squall.sections[2].view.isWhole()");
    let zoomed = overlay_range(&mut page, "x");
    assert!((zoomed[1] - zoomed[0] - 7.0).abs() < 1e-6, "{zoomed:?}");
    page.key("ArrowRight");
    page.wait_for("squall.sections[2].view.x[0] > 1.6");
    page.key("Escape");
    page.wait_for("squall.sections[2].view.isWhole()");
}

#[test]
fn latency_axis_and_repetition_can_be_switched() {
    let Some(mut page) = open_usual("switches") else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(overlay_data(&mut page, "scale"), "linear");
    page.click("#condition-2 .log");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.scale === 'log'");
    let y = overlay_data(&mut page, "y");
    assert!(y.starts_with("10 "), "{y}");
    let axis =
        "(({ y }) => [y.min, y.max].join(' '))(squall.sections[2].scatters[0].scatter.plot.scales)";
    assert_eq!(
        page.text(axis),
        y,
        "the axis is the one that the points are drawn by"
    );
    let latencies =
        "JSON.stringify([...squall.sections[2].scatters[1].scatter.layers[0].points.latencyMs])";
    let before = page.text(latencies);
    page.eval(
        "(() => { const s = document.querySelector('#condition-2 select'); s.value = '1'; \
         s.dispatchEvent(new Event('change')); })()",
    );
    page.wait_for(&format!("{latencies} !== {before:?}"));
}

#[test]
fn dragging_zooms_only_the_axes_that_it_moved_along() {
    let Some(mut page) = open_usual("drag") else {
        return;
    };
    let (x, y) = show_overlay(&mut page);
    let whole = ["x", "y"].map(|axis| overlay_range(&mut page, axis));
    // Less than 24 pixels along an axis counts as an unsteady hand, which does not zoom along that axis.
    for (dx, dy) in [(100.0, 10.0), (10.0, 60.0), (100.0, 60.0)] {
        page.drag((x - dx, y - dy), (x + dx, y + dy));
        page.wait_for("!squall.sections[2].view.isWhole()");
        for (axis, whole, distance) in [("x", &whole[0], dx), ("y", &whole[1], dy)] {
            let range = overlay_range(&mut page, axis);
            let share = (range[1] - range[0]) / (whole[1] - whole[0]);
            let closer = distance > 12.0;
            assert_eq!(share < 0.9, closer, "{axis} after {dx}, {dy}: {range:?}");
            assert!(closer || range == *whole, "{axis}: {range:?}, {whole:?}");
        }
        page.click("#condition-2 .reset");
        page.wait_for("squall.sections[2].view.isWhole()");
        page.middle_of("#condition-2 .overlay .u-over");
    }
}

#[test]
fn latency_axis_fits_the_variants_that_are_shown() {
    // The run is not slow enough for a logarithmic axis.
    let Some(mut page) = open("fit", &saturated(1_400)) else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(overlay_data(&mut page, "scale"), "linear");
    let small =
        "[...document.querySelectorAll('#condition-2 .multiple .plot')].map((p) => p.dataset.y)";
    page.wait_for(&format!("{small}.every((y) => y !== undefined)"));
    let both = overlay_range(&mut page, "y");
    assert!(both[1] > 1_400.0, "{both:?}");

    page.click("#condition-2 .toggles label:nth-of-type(1) input");
    page.wait_for(
        "document.querySelector('#condition-2 .overlay .plot').dataset.layers === 'h2c x1'",
    );
    let rest = overlay_range(&mut page, "y");
    assert!(rest[1] < 700.0, "{rest:?}");
    assert_eq!(page.eval("squall.sections[2].view.isWhole()"), json!(true));
    let small = page.eval(small);
    let common = both
        .iter()
        .map(f64::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(
        small,
        json!([common, common, common]),
        "theirs is common to all"
    );

    page.click("#condition-2 .toggles label:nth-of-type(1) input");
    page.wait_for(
        "document.querySelector('#condition-2 .overlay .plot').dataset.layers === 'h1 | h2c x1'",
    );
    assert_eq!(overlay_range(&mut page, "y"), both);
}

#[test]
fn failures_do_not_stretch_the_latency_axis() {
    let mut run = saturated(1_400);
    for (_, requests) in &mut run.records {
        if requests
            .iter()
            .any(|r| r.response_time().as_millis_f64() > 1_000.0)
        {
            spoil(requests, 0, 1, Outcome::ConnectionClosed);
            delay(&mut requests[..400], 0);
        }
    }
    let Some(mut page) = open("failures", &run) else {
        return;
    };
    show_overlay(&mut page);
    let y = overlay_range(&mut page, "y");
    assert!(y[1] < 700.0, "{y:?}");
}

#[test]
fn saturated_condition_starts_with_a_logarithmic_axis() {
    let Some(mut page) = open("saturated", &saturated(9_000)) else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(
        page.eval("[...document.querySelectorAll('.log')].map((box) => box.checked)"),
        json!([false, false, true])
    );
    assert_eq!(overlay_data(&mut page, "scale"), "log");
    page.click("#condition-2 .log");
    page.wait_for(
        "document.querySelector('#condition-2 .overlay .plot').dataset.scale === 'linear'",
    );
    assert!(overlay_range(&mut page, "y")[1] > 9_000.0);
}

#[test]
fn logarithmic_ticks_are_round_numbers_at_every_zoom() {
    let Some(mut page) = open("ticks", &saturated(9_000)) else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(
        ticks(&mut page),
        [
            10., 20., 50., 100., 200., 500., 1_000., 2_000., 5_000., 10_000.
        ]
    );
    assert_eq!(
        zoom_y_to(&mut page, 14.199, 3_210.7),
        [20., 50., 100., 200., 500., 1_000., 2_000.]
    );
    assert_eq!(
        zoom_y_to(&mut page, 41.3, 333.3),
        [50., 60., 70., 80., 100., 200., 300.]
    );
    assert_eq!(
        zoom_y_to(&mut page, 52.07, 52.93),
        [52.1, 52.2, 52.3, 52.4, 52.5, 52.6, 52.7, 52.8, 52.9]
    );
    assert_eq!(
        zoom_y_to(&mut page, 14.199, 19.3),
        [14.5, 15., 15.5, 16., 16.5, 17., 17.5, 18., 18.5, 19.]
    );
}
