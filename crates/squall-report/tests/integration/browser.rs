//! The page as a person sees and uses it, in a real Chromium. Its axes and zooming are tested in zoom.rs.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use serde_json::json;
use squall_base::Duration;
use squall_base::record::{DropRecord, Outcome, Validity};
use squall_report::{TrialPoints, html};

use crate::page::drop_at;
use crate::support::chromium::{self, Page};
use crate::support::overlay::{NAMES, open, open_usual, overlay_data, show_overlay};
use crate::support::run::{Size, run, spoil};

#[test]
fn page_logs_nothing_and_requests_nothing_from_the_network() {
    let Some(mut page) = open_usual("quiet") else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(
        page.events("Runtime.exceptionThrown"),
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(
        page.events("Runtime.consoleAPICalled"),
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(
        page.events("Log.entryAdded"),
        Vec::<serde_json::Value>::new()
    );
    let requests = page.events("Network.requestWillBeSent");
    let urls: Vec<&str> = requests
        .iter()
        .filter_map(|r| r["request"]["url"].as_str())
        .collect();
    assert!(
        urls.iter()
            .all(|url| url.ends_with("quiet.html") || url.starts_with("blob:")),
        "{urls:?}"
    );
}

#[test]
fn words_and_numbers_of_the_page_are_those_of_the_summary() {
    let run = run(&NAMES, Size::SMALL);
    let summary = run.summary();
    let Some(mut page) = open_usual("words") else {
        return;
    };
    assert_eq!(
        page.text("document.querySelector('h1').textContent"),
        summary.question
    );
    for (index, condition) in summary.conditions.iter().enumerate() {
        let section = page.text(&format!(
            "document.querySelector('#condition-{index}').innerText"
        ));
        for verdict in &condition.verdicts {
            assert!(
                section.contains(&verdict.to_string()),
                "{verdict} is not in {section}"
            );
        }
    }
    let facts = page.text("document.querySelector('.facts').innerText");
    let version = concat!("squall ", env!("CARGO_PKG_VERSION"));
    assert!(facts.contains(version), "{version} is not in {facts}");
    let p99 = summary.conditions[2].cells[0].p99.unwrap().median;
    let cell = page.text(
        "document.querySelector('#condition-2 tbody tr:first-child td:nth-child(7)').firstChild.data",
    );
    assert_eq!(cell, squall_analysis::figure::quantile(p99));
    let warnings = page.text("document.querySelector('.warnings').textContent");
    for warning in &summary.warnings {
        assert!(
            warnings.contains(&warning.to_string()),
            "{warning} is not in {warnings}"
        );
    }
}

#[test]
fn every_request_is_drawn_in_every_plot() {
    let run = run(&NAMES, Size::SMALL);
    let Some(mut page) = open_usual("points") else {
        return;
    };
    // One overlay and one small plot for each variant, in each of the conditions.
    assert_eq!(
        page.eval("document.querySelectorAll('.plot').length"),
        json!(3 * (1 + NAMES.len()))
    );
    show_overlay(&mut page);
    assert_eq!(
        overlay_data(&mut page, "points"),
        (2 * Size::SMALL.requests()).to_string()
    );
    page.wait_for("[...document.querySelectorAll('#condition-2 .multiple .plot')].every((p) => p.dataset.points > 0)");
    assert_eq!(
        page.eval("[...document.querySelectorAll('#condition-2 .multiple .plot')].map((p) => Number(p.dataset.points))"),
        json!(vec![Size::SMALL.requests(); 3]),
    );
    let decoded = page.eval(
        "squall.sections[2].scatters[1].scatter.layers.map(({ points: p }) => \
         [p.request.at(-1), p.startS.at(-1), p.latencyMs.at(-1)])[0]",
    );
    let last = run
        .records
        .iter()
        .find(|(r, _)| r.trial.index == 6)
        .unwrap()
        .1
        .last()
        .unwrap();
    assert_eq!(decoded[0], json!(last.request));
    assert!(
        (decoded[1].as_f64().unwrap() - 9.995).abs() < 1e-5,
        "{decoded}"
    );
    let latency_ms = last.response_time().as_millis_f64();
    assert!(
        (decoded[2].as_f64().unwrap() - latency_ms).abs() < 1e-3,
        "{decoded}"
    );
}

/// The times in seconds at which a row of a plot's marks has a pixel of this colour. `row` counts from the time axis.
const MARKS: &str = "(plot, colour, row) => { \
     const { scatter } = squall.sections[2].scatters[plot]; scatter.draw(); \
     const { frame, plot: { ctx } } = scatter; \
     const ink = new OffscreenCanvas(1, 1).getContext('2d'); \
     ink.fillStyle = scatter.colour(colour); ink.fillRect(0, 0, 1, 1); \
     const wanted = String(ink.getImageData(0, 0, 1, 1).data); \
     const { data } = ctx.getImageData(frame.left, frame.top + frame.height - 6 * row - 3, frame.width, 1); \
     return [...Array(frame.width).keys()].filter((x) => String(data.slice(4 * x, 4 * x + 4)) === wanted) \
         .map((x) => x / frame.xScale + frame.xFrom); }";

#[test]
fn each_dropped_packet_is_a_mark_on_the_time_axis_in_a_row_for_its_variant() {
    let run = run(&NAMES, Size::SMALL);
    // Drops of the first two variants under the last condition: of one at each second, of the other half a second later.
    let drops = |first_ms: u64| (1..9).map(move |n| Duration::from_millis(1_000 * n + first_ms));
    let plots = run.plots().into_iter().zip(&run.records);
    let plots: Vec<TrialPoints> = plots
        .map(|(points, (record, _))| {
            let rows: Vec<DropRecord> = match record.trial.index {
                6 => drops(0).map(|at| drop_at(record, at)).collect(),
                7 => drops(500).map(|at| drop_at(record, at)).collect(),
                _ => Vec::new(),
            };
            points.with_drops(record, &rows)
        })
        .collect();
    let markup = html(&run.summary(), &plots, &[], &[]);
    let Some(mut page) = chromium::open_markup("drops", &markup, 1_400, 900) else {
        return;
    };
    page.prefer("light");
    show_overlay(&mut page);
    page.middle_of("#condition-2 .multiple .plot");
    page.wait_for("document.querySelector('#condition-2 .multiple .plot').dataset.points > 0");
    // The overlay has a row for each of its variants; with one variant, drops have the colour of the cause that they lead to.
    for (plot, colour, row, first_ms) in [
        (0, "--series-0", 0, 0),
        (0, "--series-1", 1, 500),
        (1, "--cause-loss", 0, 0),
    ] {
        let marks = page.eval(&format!("({MARKS})({plot}, {colour:?}, {row})"));
        let marks: Vec<f64> = serde_json::from_value(marks).unwrap();
        let expected: Vec<f64> = drops(first_ms).map(Duration::as_secs_f64).collect();
        assert_eq!(marks.len(), expected.len(), "{colour}: {marks:?}");
        let mut pairs = marks.iter().zip(&expected);
        assert!(
            pairs.all(|(mark, drop)| (mark - drop).abs() < 0.05),
            "{colour}: {marks:?}"
        );
    }
    // A plot of one variant has one row.
    let none = page.eval(&format!("({MARKS})(1, '--cause-loss', 1)"));
    assert_eq!(none, json!([]));
}

#[test]
fn plots_are_created_when_they_come_into_view() {
    let Some(mut page) = open_usual("lazy") else {
        return;
    };
    page.wait_for("document.querySelectorAll('.plot').length > 0");
    assert_eq!(
        page.eval("document.querySelectorAll('#condition-2 canvas').length"),
        json!(0)
    );
    show_overlay(&mut page);
    assert_ne!(
        page.eval("document.querySelectorAll('#condition-2 canvas').length"),
        json!(0)
    );
}

#[test]
fn variants_can_be_removed_from_and_added_to_the_overlay() {
    let Some(mut page) = open_usual("toggle") else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(overlay_data(&mut page, "layers"), "h1 | h2c x1");
    page.click("#condition-2 .toggles label:nth-of-type(2) input");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.layers === 'h1'");
    page.click("#condition-2 .toggles label:nth-of-type(3) input");
    page.wait_for(
        "document.querySelector('#condition-2 .overlay .plot').dataset.layers === 'h1 | h2c x8'",
    );
}

#[test]
fn pointing_at_a_request_shows_a_note_about_it() {
    let mut run = run(&NAMES, Size::SMALL);
    for (_, requests) in &mut run.records {
        spoil(requests, 100, 400, Outcome::Censored);
        spoil(requests, 300, 400, Outcome::StreamReset);
    }
    let Some(mut page) = open("hover", &run) else {
        return;
    };
    show_overlay(&mut page);
    for (mark, words) in [(0, "answered"), (1, "unfinished"), (5, "stream reset")] {
        // Zoom to the first measured request of this kind, with some room around it.
        let find = format!(
            "const s = squall.sections[2].scatters[0].scatter; const p = s.layers[0].points; \
             const i = p.mark.findIndex((m, i) => m === {mark} && i > p.warmupCount + 50);"
        );
        let near = "[p.startS[i] - 0.1, p.startS[i] + 0.1]";
        page.eval(&format!(
            "(() => {{ {find} s.pane.show({near}, s.pane.whole.y); }})()"
        ));
        page.wait_for("!squall.sections[2].view.isWhole()");
        let at = page.eval(&format!(
            "(() => {{ {find} const b = s.plot.over.getBoundingClientRect(); \
             const y = {mark} > 1 ? 6 : s.plot.valToPos(p.latencyMs[i], 'y'); \
             return [b.x + s.plot.valToPos(p.startS[i], 'x'), b.y + y]; }})()"
        ));
        page.mouse(
            "mouseMoved",
            at[0].as_f64().unwrap(),
            at[1].as_f64().unwrap(),
            0,
        );
        page.wait_for("!document.querySelector('#condition-2 .overlay .note-text').hidden");
        let note =
            page.text("document.querySelector('#condition-2 .overlay .note-text').innerText");
        assert!(
            note.contains(words) && note.contains(" ms") && note.contains("due at"),
            "{note}"
        );
    }
}

#[test]
fn markup_in_foreign_names_is_shown_as_text() {
    let hostile =
        "<img src=x onerror=\"globalThis.owned=1\"></script><script>globalThis.owned=1</script>";
    let run = run(&["h1", hostile], Size::SMALL);
    let Some(mut page) = open("hostile", &run) else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(page.eval("globalThis.owned === undefined"), json!(true));
    assert_eq!(
        page.eval("document.querySelectorAll('img').length"),
        json!(0)
    );
    let name =
        page.text("document.querySelector('#condition-2 tbody tr:nth-child(2) th').textContent");
    assert_eq!(name, hostile);
    let title = page.text("document.querySelectorAll('#condition-2 h3')[1].textContent");
    assert_eq!(title, hostile);
}

/// The test prints its measurements, and fails only if zooming would visibly stutter each of three times: other work on the
/// machine may delay the redraws of one.
#[test]
fn thirty_thousand_points_redraw_within_a_frame() {
    let size = Size {
        rate_per_s: 1000,
        warmup_s: 3,
        duration_s: 27,
        repetitions: 1,
    };
    let run = run(&NAMES, size);
    let Some(mut page) = open("speed", &run) else {
        return;
    };
    show_overlay(&mut page);
    page.wait_for(
        "[...document.querySelectorAll('#condition-2 .plot')].every((p) => p.dataset.points > 0)",
    );
    page.click("#condition-2 .toggles label:nth-of-type(3) input");
    page.wait_for(
        "document.querySelector('#condition-2 .overlay .plot').dataset.points === '90000'",
    );
    // The worst case: no two points of a variant on the same pixels.
    let scatter_all = "squall.sections[2].scatters[0].scatter.layers.forEach(({ points }) => \
         points.latencyMs.forEach((_, i) => points.latencyMs[i] = i * 7919 % 30011 / 50))";
    for (what, entry, before) in [
        ("one variant, small plot", 1, "0"),
        ("three variants, large plot", 0, "0"),
        (
            "three variants, large plot, evenly scattered",
            0,
            scatter_all,
        ),
        ("one variant, small plot, evenly scattered", 1, "0"),
    ] {
        page.eval(before);
        assert!(
            (0..3).any(|_| median_redraw_ms(&mut page, entry, what) < 100.0),
            "{what}"
        );
    }
}

/// Draws a plot 30 times, prints how long that took, and returns the median in ms.
fn median_redraw_ms(page: &mut Page, entry: u32, what: &str) -> f64 {
    // Reading a pixel back waits until the canvas has really been painted.
    let mut times: Vec<f64> = serde_json::from_value(page.eval(&format!(
        "(() => {{ const s = squall.sections[2].scatters[{entry}].scatter; \
         return Array.from({{ length: 30 }}, (_, i) => {{ const from = performance.now(); \
         s.pane.x[1] = 30 - i * 0.01; s.draw(); s.plot.ctx.getImageData(99, 99, 1, 1); \
         return performance.now() - from; }}); }})()"
    )))
    .unwrap();
    times.sort_unstable_by(f64::total_cmp);
    println!(
        "redraw, 30,000 points each, {what}: median {} ms, worst {} ms",
        times[15], times[29]
    );
    times[15]
}

/// The test also keeps the pictures for inspection, in the folder that it prints.
#[test]
fn page_draws_its_points_in_light_and_dark_and_on_wide_and_narrow_screens() {
    let size = Size {
        rate_per_s: 1000,
        warmup_s: 5,
        duration_s: 30,
        repetitions: 3,
    };
    let mut run = run(&NAMES, size);
    for (record, requests) in run.records.iter_mut().skip(7).step_by(3) {
        spoil(requests, 20_000, 60, Outcome::Censored);
        spoil(requests, 5000, 900, Outcome::ConnectionClosed);
        record.health.rate_achieved_per_s *= 0.7;
    }
    run.records[0].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    let Some(mut page) = open("pictures", &run) else {
        return;
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for scheme in ["light", "dark"] {
        page.prefer(scheme);
        for width in [1400, 800] {
            let picture = page.picture(width);
            assert_eq!(
                picture[16..20],
                width.to_be_bytes(),
                "its width, in the PNG's header"
            );
            // If the points are drawn, the picture takes 476 to 544 kB.
            assert!(
                picture.len() > 200_000,
                "{scheme}, {width}: only {} bytes",
                picture.len()
            );
            let file = folder.join(format!("{scheme}-{width}.png"));
            std::fs::write(&file, picture).unwrap();
            println!("{}", file.display());
        }
    }
}

#[test]
fn conditions_without_trials_are_only_named() {
    let mut run = run(&NAMES, Size::SMALL);
    run.records.truncate(4);
    let Some(mut page) = open("interrupted", &run) else {
        return;
    };
    page.middle_of("#condition-1 .overlay .plot");
    page.wait_for("document.querySelector('#condition-1 .overlay .plot').dataset.points > 0");
    assert_eq!(
        page.eval("[...document.querySelectorAll('section.condition')].map((s) => s.id)"),
        json!(["condition-0", "condition-1"])
    );
    assert_eq!(
        page.eval("[...new Set([...document.querySelectorAll('.comparison .numbers td a')].map((a) => a.hash))]"),
        json!(["#condition-0", "#condition-1"])
    );
    assert_eq!(
        page.text("document.querySelector('.untried').textContent"),
        "No trials yet: delay 25ms, loss 3%"
    );
    assert_eq!(
        page.events("Runtime.exceptionThrown"),
        Vec::<serde_json::Value>::new()
    );
}
