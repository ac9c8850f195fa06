//! The pages of `squall view` as a person uses them, in a real Chromium: zooming to single requests, opening one in full and
//! its connection, the packets of the visible time, a reload, the list of runs, and runs side by side.
//!
//! The browser and axe-core are driven by the code of squall-report's tests. What the server answers is tested in `view`,
//! a run of two million requests in `large_view`.

#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "squall-report's tests use more of it"
)]
#[path = "../../../squall-report/tests/integration/support/axe.rs"]
mod axe;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "squall-report's tests use more of it"
)]
#[path = "../../../squall-report/tests/integration/support/chromium.rs"]
pub(crate) mod chromium;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "squall-report's tests use it as it is"
)]
#[path = "../../../squall-report/tests/integration/support/devtools.rs"]
mod devtools;

use serde_json::{Value, json};
use squall_base::Time;

use crate::support::{TrialFiles, have, seat};
use crate::view::{Viewing, lossy};
use chromium::Page;

const OVERLAY: &str = "document.querySelector('#condition-0 .overlay .plot')";

/// A free point of the overlay: its position in the window, and the number of its request. A click on a point with a ring, or
/// near one, would open a request that the page itself has.
const FREE_POINT: &str = "(() => { \
    const { plot, layers } = squall.sections[0].scatters[0].scatter; \
    const { points, details } = layers[0]; \
    const place = (i) => [plot.valToPos(points.startS[i], 'x'), plot.valToPos(points.latencyMs[i], 'y')]; \
    const ringed = (details ?? []).map(({ index }) => place(index)); \
    const isFree = (i) => { \
        const [x, y] = place(i); \
        const isInside = x > 30 && x < plot.over.clientWidth - 30 && y > 0 && y < plot.over.clientHeight; \
        return isInside && points.mark[i] === 0 && ringed.every(([ringX, ringY]) => Math.hypot(ringX - x, ringY - y) > 20); \
    }; \
    const free = points.request.findIndex((_, i) => isFree(i)); \
    const box = plot.over.getBoundingClientRect(); \
    const [x, y] = place(free); \
    return [box.x + x, box.y + y, points.request[free]]; })()";

/// Opens the first run's page and waits for its overlay.
fn open_run(page: &mut Page, viewing: &Viewing) {
    page.visit(&format!("http://{}/runs/1/", viewing.address));
    show_overlay(page);
}

/// Waits for the overlay and returns its middle.
fn show_overlay(page: &mut Page) -> (f64, f64) {
    page.wait_for("document.readyState === 'complete' && globalThis.squall !== undefined");
    page.wait_for(&format!("{OVERLAY} !== null"));
    page.middle_of("#condition-0 .overlay .plot");
    page.wait_for(&format!(
        "{OVERLAY}.dataset.points > 0 && {OVERLAY}.dataset.x !== undefined"
    ));
    page.middle_of("#condition-0 .overlay .u-over")
}

/// The visible time in whole microseconds, as the page asks the server for it.
pub(crate) fn visible_us(page: &mut Page) -> (u64, u64) {
    let x = page.eval("squall.sections[0].view.x");
    let seconds = |place: usize| x[place].as_f64().expect("a time");
    let from = (seconds(0) * 1e6).floor() as u64;
    (from, (seconds(1) * 1e6).ceil() as u64)
}

/// How many of these times are visible; they count from the trial's epoch.
fn count_in(trial: &TrialFiles, visible: (u64, u64), times: impl Iterator<Item = Time>) -> usize {
    let load_start = Time::ZERO + trial.record.load_start;
    let since = |at: Time| at.since(load_start).as_nanos() / 1_000;
    times
        .filter(|at| (visible.0..=visible.1).contains(&since(*at)))
        .count()
}

/// Waits until the overlay shows exactly the requests within its visible time, each as a separate point. Returns their
/// number.
fn wait_for_requests(page: &mut Page, trial: &TrialFiles) -> usize {
    let visible = visible_us(page);
    let due = trial.requests.iter().map(|row| row.intended);
    let count = count_in(trial, visible, due);
    page.wait_for(&format!("{OVERLAY}.dataset.points === '{count}'"));
    page.wait_for(
        "squall.sections[0].scatters[0].scatter.layers[0].points.count?.every((count) => count === 1)",
    );
    count
}

/// Clicks a request that the page does not have in full, waits until it is shown, and returns its number.
fn ask_for_a_request(page: &mut Page, trial: &TrialFiles) -> u64 {
    page.middle_of("#condition-0 .overlay .u-over");
    let point = page.eval(FREE_POINT);
    let at = |place: usize| point[place].as_f64().expect("a place in the window");
    let request = point[2].as_u64().expect("a free request");
    page.mouse("mouseMoved", at(0), at(1), 0);
    page.mouse("mousePressed", at(0), at(1), 1);
    page.mouse("mouseReleased", at(0), at(1), 1);
    let id = format!("request-{}-{request}", trial.record.trial.index);
    let is_on_page = format!("document.getElementById('detail-{id}') !== null");
    assert_eq!(page.eval(&is_on_page), json!(false));
    wait_for_request(page, trial.record.trial.index, request);
    request
}

/// Waits until the dialog shows this.
fn wait_for_dialog(page: &mut Page, id: &str) {
    page.wait_for(&format!(
        "document.getElementById('detail').dataset.shows === '{id}'"
    ));
}

/// Waits until the dialog shows a request of the trial at this position of the run, and checks that it has all of it.
pub(crate) fn wait_for_request(page: &mut Page, trial: u32, request: u64) {
    wait_for_dialog(page, &format!("request-{trial}-{request}"));
    let title = page.text("document.querySelector('#detail h2').textContent");
    let expected = format!("request {request}: answered with 200 after");
    assert!(title.starts_with(&expected), "{title}");
    for part in [
        "svg[data-plot=waterfall] .stage",
        "table[data-name=stages] td",
    ] {
        let count = format!("document.querySelectorAll('#detail {part}').length");
        assert!(page.eval(&count).as_u64() > Some(0), "no {part}");
    }
    let words = page.text("document.querySelector('#detail pre').textContent");
    // The packets that carried it, in both directions: `packet up 3: bytes`, `2 packets, down 5 to 6: bytes`.
    for direction in [" up ", " down "] {
        let is_named = |line: &str| line.contains("packet") && line.contains(direction);
        assert!(words.lines().any(is_named), "no{direction}in {words}");
    }
}

/// Goes from a request in full to its connection at that time.
fn follow_connection(page: &mut Page, trial: &TrialFiles, request: u64) {
    page.click("#detail a[href^='#connection-']");
    let number = trial.requests.iter().find(|row| row.request == request);
    let number = number.and_then(|row| row.connection).expect("it had one");
    let index = trial.record.trial.index;
    wait_for_dialog(page, &format!("connection-{index}-1-{number}-{request}"));
    let title = page.text("document.querySelector('#detail h2').textContent");
    assert_eq!(title, format!("TCP connection {number}"));
    let link = format!("#detail h3 a[href='#request-{index}-{request}']");
    for part in ["svg[data-plot=down-sequence]", link.as_str()] {
        let count = format!("document.querySelectorAll({part:?}).length");
        assert_eq!(page.eval(&count), json!(1), "{part}");
    }
}

/// For the first request that the page itself has in full: whether the server has the same id and the same markup. The reason
/// why the request was chosen is left out, because only the page states it.
const SAME_IN_FULL: &str = "(async () => { \
    const row = document.querySelector('#details tbody tr'); \
    const packed = Uint8Array.from(atob(document.getElementById(`detail-${row.id}`).textContent), (c) => c.charCodeAt(0)); \
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')); \
    const own = (await new Response(stream).text()).replace(/ Shown because it is [^<]*/, ''); \
    const trial = squall.manifest.conditions[0].trials[0].trial; \
    const answer = await fetch(`/runs/1/trials/${trial}/requests/${row.dataset.request}/full`); \
    const { request } = await answer.json(); \
    globalThis.isSame = [request.id === row.id, request.markup === own]; })(); 0";

/// Checks that there were no errors, and no messages on the console.
pub(crate) fn check_silent(page: &mut Page) {
    for event in [
        "Runtime.exceptionThrown",
        "Runtime.consoleAPICalled",
        "Log.entryAdded",
    ] {
        assert_eq!(page.events(event), Vec::<Value>::new(), "{event}");
    }
}

/// Checks the visible page against the rules of axe-core, in a light scheme on a desktop and in a dark one on a phone.
fn check_accessible(page: &mut Page, script: &str, what: &str) {
    page.eval(&format!("{script}; 0"));
    for (scheme, width) in [("light", 1_280), ("dark", 390)] {
        page.prefer(scheme);
        page.resize(width, 900);
        page.wait_for(&format!("innerWidth === {width}"));
        axe::check(page, &format!("{what}, {scheme}, {width} px"));
    }
}

#[test]
fn zooming_reaches_single_requests_and_a_click_shows_one_with_its_packets() {
    if !have(&["chromium"]) {
        return;
    }
    let _seat = seat();
    let run = lossy();
    let trial = run.only("h2c");
    let viewing = Viewing::start(&[&run.folder]);
    let mut page = chromium::empty(1_280, 900).expect("Chromium is installed");
    open_run(&mut page, &viewing);
    assert_eq!(wait_for_requests(&mut page, trial), trial.requests.len());

    let (x, y) = page.middle_of("#condition-0 .overlay .u-over");
    page.drag((x - 150.0, y), (x + 150.0, y));
    page.wait_for("!squall.sections[0].view.isWhole()");
    let zoomed = wait_for_requests(&mut page, trial);
    assert!(zoomed < trial.requests.len(), "{zoomed}");
    page.wheel(x, y, -240.0, true);
    page.wait_for(&format!("{OVERLAY}.dataset.points < {zoomed}"));
    let closer = wait_for_requests(&mut page, trial);
    assert!((1..zoomed).contains(&closer), "{closer}");

    page.click(".inspected summary");
    let visible = visible_us(&mut page);
    let arrived = trial.packets.iter().map(|packet| packet.arrived);
    let packets = count_in(trial, visible, arrived);
    page.wait_for("document.querySelector('.inspected tbody tr') !== null");
    let rows = page.eval("document.querySelectorAll('.inspected tbody tr').length");
    assert_eq!(rows, json!(packets));

    let request = ask_for_a_request(&mut page, trial);
    // A link or a reload shows the same part and the same request.
    page.wait_for("location.hash.includes('zoom-0=') && location.hash.startsWith('#request-')");
    page.eval("globalThis.isOld = true");
    page.call("Page.reload", json!({}));
    page.wait_for("globalThis.isOld === undefined && globalThis.squall !== undefined");
    wait_for_request(&mut page, trial.record.trial.index, request);
    follow_connection(&mut page, trial, request);
    page.click("#detail button");
    page.wait_for(
        "!document.getElementById('detail').open && !/request|connection/.test(location.hash)",
    );
    show_overlay(&mut page);
    let (from, to) = visible_us(&mut page);
    let is_same = from.abs_diff(visible.0) <= 1 && to.abs_diff(visible.1) <= 1;
    assert!(is_same, "{visible:?}, then {from} to {to}");
    wait_for_requests(&mut page, trial);
    check_silent(&mut page);
}

#[test]
fn embedded_request_details_match_those_from_the_server() {
    if !have(&["chromium"]) {
        return;
    }
    let _seat = seat();
    let run = lossy();
    let viewing = Viewing::start(&[&run.folder]);
    let mut page = chromium::empty(1_280, 900).expect("Chromium is installed");
    open_run(&mut page, &viewing);
    page.eval(SAME_IN_FULL);
    page.wait_for("globalThis.isSame !== undefined");
    assert_eq!(page.eval("globalThis.isSame"), json!([true, true]));
    // A request that does not exist.
    let index = run.only("h2c").record.trial.index;
    page.eval(&format!("location.hash = '#request-{index}-1000000'; 0"));
    page.wait_for(
        "document.querySelector('#detail p')?.textContent.includes('has no request 1000000')",
    );
}

#[test]
fn live_page_and_list_of_runs_are_accessible_and_silent() {
    if !have(&["chromium"]) {
        return;
    }
    let Some(script) = axe::script() else {
        return;
    };
    let _seat = seat();
    let run = lossy();
    let viewing = Viewing::start(&[&run.folder, &run.folder]);
    let mut page = chromium::empty(1_280, 900).expect("Chromium is installed");
    open_run(&mut page, &viewing);
    ask_for_a_request(&mut page, run.only("h2c"));
    page.eval(
        "document.querySelectorAll('#detail details').forEach((it) => { it.open = true; }); 0",
    );
    check_accessible(&mut page, &script, "a request in full");
    page.click("#detail button");
    // axe-core takes 18 s for a list of all packets, but 2 s for one of these few, whose rows look the same.
    let (x, y) = show_overlay(&mut page);
    page.drag((x - 20.0, y), (x + 20.0, y));
    page.wait_for("!squall.sections[0].view.isWhole()");
    page.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; }); 0");
    page.wait_for("document.querySelector('.inspected tbody tr') !== null");
    check_accessible(&mut page, &script, "the live page");
    check_silent(&mut page);

    page.resize(1_280, 900);
    page.visit(&format!("http://{}/", viewing.address));
    page.wait_for("document.querySelector('h1')?.textContent === 'Runs'");
    let runs = page.eval("document.querySelectorAll('.runs > li').length");
    assert_eq!(runs, json!(2));
    // The two runs have one condition, so there is one trend. A disturbed trial has no figure for it.
    if !run.has_disturbed_trials() {
        let trend = page.eval("document.querySelectorAll('figure svg .curve').length");
        assert_eq!(trend, json!(1));
    }
    check_accessible(&mut page, &script, "the list of runs");
    check_silent(&mut page);

    page.resize(1_280, 900);
    page.click("a[href='/compare/']");
    page.wait_for("document.querySelector('h1')?.textContent === 'Runs beside each other'");
    // The bars of one statistic: one for each run.
    let bars = "document.querySelectorAll('.bars figure:not([hidden]) .bar-row').length";
    page.wait_for(&format!("{bars} === 2"));
    page.eval(
        "{ const choice = document.querySelector('.bars select'); choice.value = 'median'; \
         choice.dispatchEvent(new Event('change')); } 0",
    );
    page.wait_for("location.hash === '#statistic=median'");
    assert_eq!(page.eval(bars), json!(2));
    let files = page.eval("document.querySelectorAll('.comparison .save').length");
    // A table as CSV, and four drawings as SVG and PNG.
    assert_eq!(files, json!(9));
    check_accessible(&mut page, &script, "runs beside each other");
    check_silent(&mut page);
}
