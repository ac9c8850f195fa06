//! `squall view` of a run with two million requests, in a real Chromium: from the list of runs to its page, to a part of a
//! plot, and to one request in full.
//!
//! The run is generated, not measured. Most of its requests have only their own rows, so that it is cheap to make. The bounds
//! are on processor time and sizes, which do not depend on a quiet machine. The bench `view` measures how long each step
//! takes, and `page_view` tests more of what a reader can do.

#[path = "../../src/run/worker/causes.rs"]
mod causes;
#[allow(dead_code, reason = "the bench `view` uses more of it")]
#[path = "../../benches/view/made.rs"]
mod made;
#[allow(dead_code, reason = "the bench `view` prints all counts")]
#[path = "../../benches/analysis/rows.rs"]
mod rows;
#[path = "../../benches/analysis/world.rs"]
mod world;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::page_view::chromium::{self, Page};
use crate::page_view::{check_silent, visible_us, wait_for_request};
use crate::report_page::{check_inked, check_shapes};
use crate::support::{have, run_squall, seat, stderr};
use crate::view::Viewing;
use made::MadeRun;
use world::Requests;

/// Two trials, which one plot shows together.
const RECIPE: &str = r#"
name = "large"
question = "What does a reader see of two million requests?"
repetitions = 1
[load]
rate = "20000/s"
warmup = "0s"
duration = "50s"
[conditions]
delay = "25ms"
loss = "1%"
[[variant]]
name = "first"
path = "client ~h2c~> server"
[[variant]]
name = "second"
path = "client ~h2c~> server"
connections = 400
"#;

/// The number of requests in each trial.
const REQUESTS: u64 = 1_000_000;
const SIMULATED: u64 = 2_000;

/// The time between two requests, in microseconds.
const APART_US: u64 = 50;

/// What feels immediate to a reader.
const STEP_AT_MOST: Duration = Duration::from_millis(300);

/// A shape of each section, which must have a size.
const SHAPES: [&str; 9] = [
    ".overview .answer",
    ".bars figure:not([hidden]) .bar-value",
    "#details tbody tr",
    "#condition-0 table.causes .bar span",
    "#condition-0 .shapes .curve",
    "#condition-0 .shapes .box",
    "#condition-0 .heat-maps .heat",
    "#condition-0 .courses svg path",
    "#method",
];

/// How many requests the overlay represents, once they have arrived from the server.
const SHOWN: &str = "(squall.sections[0].scatters[0].scatter?.layers ?? []) \
    .flatMap(({ points }) => points.count ?? []).reduce((sum, count) => sum + count, 0)";

/// How large the server's answers about points were, in bytes.
const ANSWERS: &str = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/points?')) \
    .map(({ decodedBodySize }) => decodedBodySize)";

/// A dot of the overlay far from all others: its place in the window, the position of its trial, and its request.
const LONELY: &str = "(() => { \
    const { plot, layers } = squall.sections[0].scatters[0].scatter; \
    const dots = layers.flatMap(({ points, trial }) => points.request.map((request, i) => \
        [plot.valToPos(points.startS[i], 'x'), plot.valToPos(points.latencyMs[i], 'y'), trial.index, request])); \
    const { clientWidth: width, clientHeight: height } = plot.over; \
    const isLonely = ([x, y], own) => x > 20 && x < width - 20 && y > 10 && y < height - 10 \
        && dots.every(([a, b], other) => other === own || Math.hypot(a - x, b - y) > 10); \
    const [x, y, trial, request] = dots.find(isLonely); \
    const box = plot.over.getBoundingClientRect(); \
    return [box.x + x, box.y + y, trial, request]; })()";

fn made(simulated: u64, plain: u64) -> MadeRun {
    MadeRun::of(RECIPE, Requests { simulated, plain }).expect("the run is made")
}

/// Gives a run the summary of a smaller one of the same recipe, which takes less time to summarise. Only the list of runs
/// shows it; the page of a run is made from its records.
fn summarise_as(run: &MadeRun, smaller: &MadeRun) {
    let folder = smaller.folder();
    // 3: trials of so few requests prove nothing.
    let output = run_squall(&folder, ["report", "."]);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let summary = |folder: PathBuf| folder.join("summary.json");
    fs::copy(summary(folder), summary(run.folder())).expect("the summary");
}

/// Makes the server build the page and read the tables: on a busy machine no browser would wait long enough for that.
fn prepare(viewing: &Viewing, run: &MadeRun) {
    let page = viewing.get("/runs/1/");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let whole =
        "from_us=0&to_us=50000000&low_us=0&high_us=100000000&columns=550&rows=150&scale=linear";
    for trial in run.trials() {
        let points = viewing.get_json(&format!("/runs/1/trials/{}/points?{whole}", trial.name));
        assert_eq!(points["total"], json!(REQUESTS));
    }
}

/// Goes from the list of runs to the page of the first, which must be usable within a second of processor time.
fn open_from_list(page: &mut Page, viewing: &Viewing) {
    page.visit(&format!("http://{}/", viewing.address));
    page.wait_for("document.querySelector('h1')?.textContent === 'Runs'");
    page.click("a[href='/runs/1/']");
    page.wait_for(
        "location.pathname === '/runs/1/' && document.readyState === 'complete' && globalThis.squall !== undefined",
    );
    let seconds = page.processor_time_s();
    assert!(seconds < 1.0, "{seconds} s");
}

/// Waits until the overlay shows all requests of its visible time.
fn wait_for_visible(page: &mut Page) -> u64 {
    let (from, to) = visible_us(page);
    let last = (REQUESTS - 1).min(to / APART_US);
    let visible = 2 * (last + 1 - from.div_ceil(APART_US));
    page.wait_for(&format!("{SHOWN} === {visible}"));
    visible
}

/// Zooms by a drag. The server looks only at the requests in that part.
fn zoom(page: &mut Page, viewing: &Viewing) {
    let before = viewing.processor_time();
    let (x, y) = page.middle_of("#condition-0 .overlay .u-over");
    page.drag((x - 60.0, y), (x + 60.0, y));
    page.wait_for("!squall.sections[0].view.isWhole()");
    let visible = wait_for_visible(page);
    assert!((1..REQUESTS).contains(&visible), "{visible}");
    let took = viewing.processor_time() - before;
    assert!(took < STEP_AT_MOST, "{took:?}");
}

/// Zooms in on the first requests until they are separate dots, and clicks one.
fn open_a_request(page: &mut Page) {
    page.eval(
        "(() => { const { overlay } = squall.sections[0].panes; overlay.show([0, 0.05], overlay.y); })()",
    );
    let visible = wait_for_visible(page);
    assert!(visible <= 2 * SIMULATED, "{visible}");
    page.middle_of("#condition-0 .overlay .u-over");
    let dot = page.eval(LONELY);
    let at = |place: usize| dot[place].as_f64().expect("a place in the window");
    let number = |place: usize| dot[place].as_u64().expect("a number");
    page.mouse("mouseMoved", at(0), at(1), 0);
    page.mouse("mousePressed", at(0), at(1), 1);
    page.mouse("mouseReleased", at(0), at(1), 1);
    let trial = u32::try_from(number(2)).expect("one of two trials");
    wait_for_request(page, trial, number(3));
}

#[test]
fn page_of_two_million_requests_draws_every_view_and_leads_to_single_requests() {
    if !have(&["chromium"]) {
        return;
    }
    let _seat = seat();
    let run = made(SIMULATED, REQUESTS - SIMULATED);
    let other = made(200, 0);
    summarise_as(&run, &other);
    let viewing = Viewing::start(&[&run.folder(), &other.folder()]);
    prepare(&viewing, &run);
    let mut page = chromium::new_window(1_280, 900).expect("Chromium is installed");
    open_from_list(&mut page, &viewing);
    check_shapes(&mut page, &SHAPES);
    check_inked(&mut page, 1 + 2);
    page.middle_of("#condition-0 .overlay .u-over");
    assert_eq!(wait_for_visible(&mut page), 2 * REQUESTS);
    zoom(&mut page, &viewing);
    open_a_request(&mut page);
    let answers: Vec<u64> = serde_json::from_value(page.eval(ANSWERS)).expect("numbers");
    assert!(!answers.is_empty());
    assert!(
        answers.iter().all(|bytes| *bytes < 3_000_000),
        "{answers:?}"
    );
    // The packets of the first requests are listed below the plots.
    page.wait_for("document.querySelector('.inspected tbody tr') !== null");
    check_silent(&mut page);
}
