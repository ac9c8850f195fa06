//! How a person reads the page in a real Chromium: on a phone, on paper, by links, and as files.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use squall_base::record::Outcome;
use squall_report::{TrialPoints, html};

use crate::causes::{causes, summary};
use crate::details::found;
use crate::full;
use crate::support::chromium::{self, Page};
use crate::support::overlay::{NAMES, open, open_usual, overlay_data, show_overlay};
use crate::support::run::{Size, run, spoil};

/// Chooses a value of the select whose label has these words.
fn choose(page: &mut Page, label: &str, value: &str) {
    page.eval(&format!(
        "(() => {{ const label = [...document.querySelectorAll('.comparison label')].find((it) => \
         it.textContent.startsWith({label:?})); const s = label.querySelector('select'); s.value = {value:?}; \
         s.dispatchEvent(new Event('change')); }})()"
    ));
}

/// What is visible of the bars.
fn bars(page: &mut Page) -> Value {
    page.eval(
        "[...document.querySelectorAll('[data-statistic]')].filter((it) => !it.hidden).map((it) => it.dataset.statistic)",
    )
}

fn check_silent(page: &mut Page) {
    for event in ["Runtime.exceptionThrown", "Log.entryAdded"] {
        assert_eq!(page.events(event), Vec::<Value>::new());
    }
}

#[test]
fn phone_shows_every_part_without_scrolling_sideways() {
    let Some(mut page) = full::open("phone", 1_280) else {
        return;
    };
    page.resize(390, 844);
    page.wait_for("innerWidth === 390");
    page.eval("document.querySelectorAll('main details').forEach((it) => { it.open = true; }); 0");
    // A scroll bar at the side may take some of the width.
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(page.eval(fits), json!(true));
    let cut = page.eval(
        "[...document.querySelectorAll('.scroll, .numbers, table.causes')].filter((it) => it.scrollWidth > it.clientWidth + 1 \
         || it.getBoundingClientRect().right > 390).map((it) => it.className)",
    );
    assert_eq!(cut, json!([]));
    // None of the parts is hidden, empty or beyond the edge.
    for part in full::PARTS {
        let sound = format!(
            "[...document.querySelectorAll({part:?})].some((it) => {{ const box = it.getBoundingClientRect(); \
             return it.checkVisibility() && box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= 391; }})"
        );
        assert_eq!(page.eval(&sound), json!(true), "{part}");
    }
    // Every cell of a table has a label.
    let label =
        "getComputedStyle(document.querySelector('#condition-2 .numbers td'), '::before').content";
    assert_eq!(page.text(label), "\"mean\"");
    check_silent(&mut page);
}

#[test]
fn choices_are_kept_in_the_address() {
    let Some(mut page) = open_usual("choices") else {
        return;
    };
    assert_eq!(bars(&mut page), json!(["p99"]));
    choose(&mut page, "Statistic", "p95");
    assert_eq!(bars(&mut page), json!(["p95"]));
    choose(&mut page, "Variants", "h2c x8 against h1");
    let shown = "[...document.querySelectorAll('.compared')].filter((it) => !it.hidden).map((it) => it.dataset.pair)";
    assert_eq!(page.eval(shown), json!(["h2c x8 against h1"]));
    page.click(".comparison .numbers td a[href='#condition-1']");
    assert_eq!(
        page.text("location.hash"),
        "#condition-1&statistic=p95&pair=h2c+x8+against+h1"
    );
    page.eval("globalThis.isOld = true");
    page.call("Page.reload", json!({}));
    page.wait_for("globalThis.isOld === undefined && globalThis.squall !== undefined");
    page.wait_for("document.querySelector('[data-statistic=p95]')?.hidden === false");
    assert_eq!(bars(&mut page), json!(["p95"]));
    assert_eq!(page.eval(shown), json!(["h2c x8 against h1"]));
    choose(&mut page, "Statistic", "all");
    assert_eq!(bars(&mut page), json!(["mean", "median", "p95", "p99"]));
    check_silent(&mut page);
}

/// A page with a finding, and with the causes of every request.
fn open_with_causes(name: &str) -> Option<Page> {
    let run = run(&NAMES, Size::SMALL);
    let plots = run.plots().into_iter().zip(&run.records);
    let plots: Vec<TrialPoints> = plots
        .map(|(points, (_, requests))| points.with_causes(&causes(requests)))
        .collect();
    let cells = [found(&run, Vec::new())];
    let markup = html(&summary(&run, &NAMES), &plots, &cells, &[]);
    chromium::open_markup(name, &markup, 1_400, 900)
}

/// Chooses a value of a select of the last condition.
fn choose_in_plots(page: &mut Page, select: &str, value: &str) {
    page.eval(&format!(
        "(() => {{ const s = document.querySelector('#condition-2 .controls {select}'); s.value = {value:?}; \
         s.dispatchEvent(new Event('change')); }})()"
    ));
}

#[test]
fn what_is_drawn_and_what_is_unfolded_is_kept_in_the_address() {
    let Some(mut page) = open_with_causes("drawn") else {
        return;
    };
    show_overlay(&mut page);
    choose_in_plots(&mut page, "select:not(.colouring)", "1");
    choose_in_plots(&mut page, ".colouring", "cause");
    page.click("#condition-2 .log");
    page.click("#condition-2 .toggles label:nth-of-type(1) input");
    page.click(".finding > summary");
    page.wait_for("location.hash.includes('&findings=')");
    let kept = "#repetition-2=2&colour-2=cause&axis-2=log&shown-2=1&findings=head_of_line";
    assert_eq!(page.text("location.hash"), kept);

    page.eval("globalThis.isOld = true");
    page.call("Page.reload", json!({}));
    page.wait_for("globalThis.isOld === undefined && globalThis.squall !== undefined");
    show_overlay(&mut page);
    assert_eq!(overlay_data(&mut page, "scale"), "log");
    assert_eq!(overlay_data(&mut page, "layers"), "h2c x1");
    let label = page
        .text("document.querySelector('#condition-2 .overlay .plot').getAttribute('aria-label')");
    assert!(label.ends_with("h2c x1, repetition 2"), "{label}");
    let drawn = "squall.sections[2].scatters[0].scatter.layers[0].causes !== null";
    assert_eq!(page.eval(drawn), json!(true));
    let controls = page.eval(
        "[...document.querySelectorAll('#condition-2 .controls select')].map((it) => it.value)",
    );
    assert_eq!(controls, json!(["1", "cause"]));
    let boxes =
        "[...document.querySelectorAll('#condition-2 [type=checkbox]')].map((it) => it.checked)";
    assert_eq!(page.eval(boxes), json!([true, false, true, false]));
    assert_eq!(
        page.eval("document.querySelector('.finding').open"),
        json!(true)
    );
    assert_eq!(page.text("location.hash"), kept);

    // Defaults are not kept in the address.
    choose_in_plots(&mut page, "select:not(.colouring)", "0");
    choose_in_plots(&mut page, ".colouring", "both");
    page.click("#condition-2 .log");
    page.click("#condition-2 .toggles label:nth-of-type(1) input");
    page.click(".finding > summary");
    page.wait_for("location.hash === ''");
    check_silent(&mut page);
}

/// Clicks this button, and returns the file that it saves. Its name is then in `saved.name`.
pub(crate) fn saved(page: &mut Page, button: &str) -> String {
    page.eval(
        "globalThis.saved = []; HTMLAnchorElement.prototype.click = function () { saved.name = this.download; }; \
         URL.createObjectURL = (file) => { saved.push(file); return ''; }; URL.revokeObjectURL = () => {};",
    );
    page.eval(&format!("document.querySelector({button:?}).click()"));
    page.text("saved[0].text()")
}

#[test]
fn tables_are_saved_as_csv_and_drawings_as_svg() {
    let Some(mut page) = open_usual("files") else {
        return;
    };
    let table = saved(&mut page, ".comparison .beside .scroll + .save");
    let mut rows = table.lines();
    assert_eq!(
        rows.next().unwrap(),
        "condition,variant,mean,median,p95,p99,valid trials"
    );
    let first = rows.next().unwrap();
    assert!(
        first.starts_with("\"delay 25ms, loss 0%\",h1,50.5") && first.ends_with(",2 of 2"),
        "{first}"
    );
    assert_eq!(rows.count(), 8);
    let bars = saved(&mut page, ".bars svg + .save");
    assert!(
        bars.starts_with("<svg") && bars.contains("xmlns="),
        "{bars}"
    );
    assert!(bars.contains("id=\"at-least\"") && bars.contains("fill: rgb("));
    show_overlay(&mut page);
    let points = saved(&mut page, "#condition-2 .overlay .save");
    assert!(
        points.matches("h0").count() > 3_000,
        "{} bytes",
        points.len()
    );
    check_silent(&mut page);
}

/// Presses this button by keyboard, and describes the picture that it saves: type, width, height, whether it is opaque, and
/// the number of colours.
fn saved_picture(page: &mut Page, button: &str) -> Value {
    page.eval(
        "globalThis.saved = []; HTMLAnchorElement.prototype.click = () => {}; \
         URL.createObjectURL = (file) => { saved.push(file); return ''; }; URL.revokeObjectURL = () => {};",
    );
    page.eval(&format!("document.querySelector({button:?}).focus()"));
    page.press("Enter");
    page.wait_for("saved.length > 0");
    page.eval(
        "(async () => { const picture = await createImageBitmap(saved[0]); const { width, height } = picture; \
         const ink = new OffscreenCanvas(width, height).getContext('2d'); ink.drawImage(picture, 0, 0); \
         const pixels = new Uint32Array(ink.getImageData(0, 0, width, height).data.buffer); \
         const colours = new Set(pixels); const isOpaque = [...colours].every((it) => it >>> 24 === 255); \
         return [saved[0].type, width, height, isOpaque, colours.size]; })()",
    )
}

#[test]
fn drawings_are_saved_as_pictures_at_twice_their_size() {
    let Some(mut page) = open_usual("saved-pictures") else {
        return;
    };
    let shown = ".bars [data-statistic]:not([hidden])";
    let size = page.eval(&format!(
        "(({{ width, height }}) => [width, height])(document.querySelector('{shown} svg').viewBox.baseVal)"
    ));
    let button = format!("{shown} .save[aria-label^='Download as PNG']");
    let bars = saved_picture(&mut page, &button);
    let twice = |side: usize| json!((size[side].as_f64().unwrap() * 2.0) as u64);
    assert_eq!(
        (&bars[0], &bars[1], &bars[2], &bars[3]),
        (&json!("image/png"), &twice(0), &twice(1), &json!(true))
    );
    assert!(bars[4].as_u64() > Some(20), "{bars}");
    show_overlay(&mut page);
    let button = "#condition-2 .overlay .save[aria-label$='as PNG']";
    let points = saved_picture(&mut page, button);
    let width =
        page.eval("2 * document.querySelector('#condition-2 .overlay .u-over').clientWidth");
    assert!(points[1].as_u64() > width.as_u64(), "{points}");
    assert!(
        points[3] == true && points[4].as_u64() > Some(20),
        "{points}"
    );
    check_silent(&mut page);
}

/// `squall export` makes plots by name in this way.
#[test]
fn every_plot_can_be_made_by_name_even_if_it_is_not_in_view() {
    let run = run(&["h1", "h2c/../x1", "h2c x1"], Size::SMALL);
    let Some(mut page) = open("plots", &run) else {
        return;
    };
    let names = page.eval("squall.allPlotNames()");
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    for name in [
        "response-time-p99",
        "response-time-mean",
        "condition-0-percentiles",
        "condition-2-boxes",
        "condition-1-heat-map-h2c-x1",
        "condition-1-requests-in-flight-h1",
        "condition-1-requests-per-second-h2c-..-x1",
        "condition-0-requests",
        "condition-0-requests-h2c-x1",
        "condition-2-requests-h2c-x1-repetition-2",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    // The same file that the button saves, and each with a title of its own.
    let svg = page.text("squall.plotAs('condition-2-requests-h1-repetition-2', 'svg')");
    assert!(
        svg.contains("<title>Start time and latency of each request: h1, repetition 2; delay "),
        "{svg}"
    );
    assert!(svg.matches("h0").count() > 1_000, "{} bytes", svg.len());
    let svg = page.text("squall.plotAs('condition-0-boxes', 'svg')");
    assert!(
        svg.contains("<title>Box plots of the response time, one for each trial; delay "),
        "{svg}"
    );
    // This drawing is hidden, because the page shows that of the p99 first.
    let png = page.text("squall.plotAs('response-time-mean', 'png')");
    assert!(
        png.starts_with("data:image/png;base64,") && png.len() > 5_000,
        "{} bytes",
        png.len()
    );
    let titles = page.eval(
        "(async () => { const titles = await Promise.all(squall.allPlotNames().map(async (name) => { \
         const svg = new DOMParser().parseFromString(await squall.plotAs(name, 'svg'), 'image/svg+xml'); \
         return svg.querySelector('parsererror') ? name : svg.querySelector('svg > title')?.textContent ?? name; })); \
         return titles.filter((it) => !it.includes(' ')); })()",
    );
    assert_eq!(titles, json!([]), "not well-formed, or without a title");
    check_silent(&mut page);
}

#[test]
fn nothing_is_folded_or_hidden_on_paper() {
    let Some(mut page) = open_usual("paper") else {
        return;
    };
    show_overlay(&mut page);
    let closed = "document.querySelectorAll('main details:not([open], .side-by-side)').length";
    let before = page.eval(closed);
    page.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    page.eval("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(page.eval(closed), json!(0));
    let invisible = "[...document.querySelectorAll('.bars figure, .compared')].filter((it) => it.offsetHeight === 0).length";
    assert_eq!(page.eval(invisible), json!(0));
    let width =
        "document.querySelector('#condition-2 .overlay canvas').getBoundingClientRect().width";
    assert!(page.eval(width).as_f64().unwrap() < 720.0);
    page.eval("dispatchEvent(new Event('afterprint'))");
    assert_eq!(page.eval(closed), before);
    check_silent(&mut page);
}

#[test]
fn terms_open_by_keyboard() {
    let Some(mut page) = open_usual("terms") else {
        return;
    };
    page.eval("document.querySelector('#condition-0 .verdicts .term').focus()");
    page.eval("document.activeElement.click()");
    page.wait_for("document.querySelector('[popover]:popover-open') !== null");
    page.eval("document.activeElement.click()");
    page.wait_for("document.querySelector('[popover]:popover-open') === null");
}

#[test]
fn repetitions_are_shown_side_by_side_when_opened() {
    let mut run = run(&NAMES, Size::SMALL);
    for (_, requests) in &mut run.records {
        spoil(requests, 100, 4, Outcome::Censored);
    }
    let Some(mut page) = open("side-by-side", &run) else {
        return;
    };
    show_overlay(&mut page);
    assert_eq!(overlay_data(&mut page, "layers"), "h1 | h2c x1");
    page.click("#condition-2 .side-by-side summary");
    page.wait_for("document.querySelectorAll('#condition-2 .side-by-side .plot').length === 6");
    page.middle_of("#condition-2 .side-by-side .plot");
    page.wait_for("document.querySelector('#condition-2 .side-by-side .plot').dataset.points > 0");
    check_silent(&mut page);
}

/// The rules of axe-core that are simple to check without it: names, landmarks, headings, unique ids.
#[test]
fn every_part_has_a_name_and_every_id_is_unique() {
    let Some(mut page) = open_usual("names") else {
        return;
    };
    let nameless = "[...document.querySelectorAll('svg[role=img], section, button, select')].filter((it) => \
         !(it.getAttribute('aria-label') ?? it.textContent).trim() && !it.closest('label')).map((it) => it.outerHTML.slice(0, 80))";
    assert_eq!(page.eval(nameless), json!([]));
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map((it) => it.id); \
               return ids.filter((id, i) => ids.indexOf(id) !== i); })()";
    assert_eq!(page.eval(ids), json!([]));
    let outside = "[...document.body.children].filter((it) => !['HEADER', 'MAIN', 'ASIDE', 'SCRIPT'].includes(it.tagName)).length";
    assert_eq!(page.eval(outside), json!(0));
    let skipped = "[...document.querySelectorAll('h1, h2, h3')].map((it) => Number(it.tagName[1])).filter((level, i, all) => \
                   level > (all[i - 1] ?? 0) + 1).length";
    assert_eq!(page.eval(skipped), json!(0));
}
