//! report.html of a real run in a real Chromium: no section is empty, nothing is on the console, and a click on a dot or on the
//! evidence of a finding opens the right request.
//!
//! The run has losses, large bodies, and a stream window that is far too small, whose fix it tries. squall-report tests how
//! the page looks and behaves with made runs; `page_view` uses the page of `squall view`.

use serde_json::{Value, json};

use crate::page_view::check_silent;
use crate::page_view::chromium::{self, Page};
use crate::support::{FinishedRun, alone_if_it_fails, have, run_until_valid, seat};

const RECIPE: &str = r#"
name = "report"
question = "How long does a download take?"
measure = "response time mean"
repetitions = 1
[load]
kind = "closed"
users = 6
warmup = "0s"
duration = "1s"
drain = "3s"
[response]
body = "300kB"
[conditions]
delay = "10ms"
loss = "0.2%"
link = "rate 200mbit, queue 1MiB"
[[variant]]
name = "h1"
path = "client ~h1~> server"
[[variant]]
name = "h2c"
path = "client ~h2c~> server"
connections = 6
client = { http2 = { stream_window = "16KiB", connection_window = "16MiB" } }
[[variant]]
name = "h3"
path = "client ~h3~> server"
connections = 6
"#;

/// A shape of each section, which must have a size. A run of one condition has no grid of winners.
const SHAPES: [&str; 12] = [
    ".overview .answer",
    ".overview .health",
    ".bars figure:not([hidden]) .bar-value",
    "section[aria-label='What is wrong'] .finding summary",
    "section[aria-label='Tried fixes'] li",
    "#details tbody tr",
    "#condition-0 table.causes .bar span",
    "#condition-0 .shapes .curve",
    "#condition-0 .shapes .box",
    "#condition-0 .courses svg path",
    "#condition-0 .deliveries svg .area",
    "#method .command",
];

/// For each plot, how many pixels on its canvas have a colour of its points.
const INKED: &str = "squall.sections[0].scatters.map(({ scatter }) => { \
                     scatter.draw(); \
                     const { ctx } = scatter.plot; \
                     const colours = new Set(scatter.raster.pixels.filter((pixel) => pixel >>> 24 === 255)); \
                     const { data } = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height); \
                     return new Uint32Array(data.buffer).filter((pixel) => colours.has(pixel)).length; })";

/// The dot of the overlay with a ring that is farthest from the others: its place in the window, and what it opens.
const RINGED: &str = "(() => { \
    const { plot, layers } = squall.sections[0].scatters[0].scatter; \
    const box = plot.over.getBoundingClientRect(); \
    const dots = layers.flatMap(({ points, details }) => (details ?? []).filter(({ index }) => points.mark[index] === 0) \
        .map(({ index, id }) => [box.x + plot.valToPos(points.startS[index], 'x'), \
                                 box.y + plot.valToPos(points.latencyMs[index], 'y'), id])); \
    const apart = ([x, y, id]) => Math.min(...dots.map(([a, b, other]) => other === id ? Infinity : Math.hypot(a - x, b - y))); \
    return dots.filter(([x, y]) => x > box.left && x < box.right && y > box.top && y < box.bottom) \
        .sort((a, b) => apart(b) - apart(a))[0]; })()";

/// The labels of the drawings in the dialog that have nothing between their axes.
const EMPTY_DRAWINGS: &str = "[...document.querySelectorAll('#detail svg.drawing')] \
    .filter((svg) => !svg.querySelector('path:not(.grid), rect, circle')).map((svg) => svg.getAttribute('aria-label'))";

#[test]
fn report_of_a_real_run_has_no_empty_section_and_opens_clicked_requests() {
    if !have(&["chromium"]) {
        return;
    }
    alone_if_it_fails(seat(), || {
        let run = run_until_valid(RECIPE, &["--try-fix"]);
        if run.has_disturbed_trials() {
            return;
        }
        assert_eq!(run.trials.len(), 3 + 2, "with and without the fix");
        let mut page = open(&run);
        check_sections(&mut page);
        check_plots(&mut page);
        check_click_on_a_dot(&mut page);
        check_evidence(&mut page);
        check_all_details(&mut page);
        check_silent(&mut page);
    });
}

fn open(run: &FinishedRun) -> Page {
    let report = run.folder.join("report.html");
    chromium::open(&report, 1_280, 900).expect("Chromium is installed")
}

fn check_sections(page: &mut Page) {
    check_shapes(page, &SHAPES);
}

/// Unfolds everything, and checks that each of these has a size, and that all figures are numbers.
pub(crate) fn check_shapes(page: &mut Page, shapes: &[&str]) {
    page.eval("document.querySelectorAll('main details').forEach((it) => { it.open = true; }); 0");
    for shape in shapes {
        let drawn = format!(
            "[...document.querySelectorAll({shape:?})].filter((it) => {{ const box = it.getBoundingClientRect(); \
             return it.checkVisibility() && box.width > 0 && box.width + box.height > 4; }}).length"
        );
        assert!(page.eval(&drawn).as_u64() > Some(0), "no {shape}");
    }
    // All text in a drawing or a table is a figure or a word.
    let broken =
        page.eval("/NaN|Infinity|undefined/.test(document.querySelector('main').innerText)");
    assert_eq!(broken, json!(false));
}

/// Checks that the plots of the first condition, which are this many, have points.
pub(crate) fn check_inked(page: &mut Page, plots: usize) {
    page.eval("squall.sections[0].drawAll().then(() => true)");
    let inked: Vec<u64> = serde_json::from_value(page.eval(INKED)).expect("numbers");
    assert_eq!(inked.len(), plots);
    assert!(inked.iter().all(|pixels| *pixels > 20), "{inked:?}");
}

/// Checks the overlay and a plot for each variant; the link dropped packets in some of them.
fn check_plots(page: &mut Page) {
    check_inked(page, 1 + 3);
    let drops = page.eval(
        "squall.sections[0].scatters.slice(1).reduce((sum, { scatter }) => sum + scatter.layers[0].points.dropsS.length, 0)",
    );
    assert!(drops.as_u64() > Some(0), "{drops}");
}

/// Waits until this request or connection is shown in full, and returns its title.
fn wait_for(page: &mut Page, id: &str) -> String {
    page.wait_for(&format!(
        "document.getElementById('detail').dataset.shows === {id:?}"
    ));
    page.text("document.querySelector('#detail h2').textContent")
}

/// Waits for a request, whose number is the last part of its id.
fn wait_for_request(page: &mut Page, id: &str) {
    let (_, number) = id.rsplit_once('-').expect("an id");
    let title = wait_for(page, id);
    assert!(title.starts_with(&format!("request {number}: ")), "{title}");
}

fn close(page: &mut Page) {
    page.click("#detail button");
    page.wait_for("!document.getElementById('detail').open");
}

fn check_click_on_a_dot(page: &mut Page) {
    page.middle_of("#condition-0 .overlay .u-over");
    page.wait_for("document.querySelector('#condition-0 .overlay .plot').dataset.x !== undefined");
    let dot = page.eval(RINGED);
    let at = |place: usize| dot[place].as_f64().expect("a place in the window");
    let id = dot[2].as_str().expect("a request");
    page.mouse("mousePressed", at(0), at(1), 1);
    page.mouse("mouseReleased", at(0), at(1), 1);
    wait_for_request(page, id);
    close(page);
}

/// Checks that the evidence of the window that is too small opens a request, and that this request leads to its connection.
fn check_evidence(page: &mut Page) {
    page.eval(
        "(() => { const found = [...document.querySelectorAll('.finding')]; \
         const window = found.find((it) => it.textContent.includes('Stream window')); \
         window.querySelector(\"a[href^='#request-']\").id = 'of-window'; })()",
    );
    let id = page.text("document.getElementById('of-window').hash.slice(1)");
    page.click("#of-window");
    wait_for_request(page, &id);
    page.click("#detail a[href^='#connection-']");
    page.wait_for("document.getElementById('detail').dataset.shows.startsWith('connection-')");
    let words = page.text("document.getElementById('detail').textContent");
    assert!(words.contains("Flow-control windows in kB"), "{words}");
    assert_eq!(page.eval(EMPTY_DRAWINGS), json!([]));
    close(page);
}

/// Checks that every request that the page has in full has something in each of its drawings.
fn check_all_details(page: &mut Page) {
    let ids = page.eval("[...document.querySelectorAll('#details tbody tr')].map((it) => it.id)");
    let ids: Vec<String> = serde_json::from_value(ids).expect("ids");
    for id in &ids {
        page.eval(&format!("location.hash = '#{id}'"));
        wait_for_request(page, id);
        let drawings = page.eval("document.querySelectorAll('#detail svg.drawing').length");
        assert!(drawings.as_u64() > Some(0), "{id}");
        assert_eq!(page.eval(EMPTY_DRAWINGS), Value::Array(Vec::new()), "{id}");
    }
    close(page);
}
