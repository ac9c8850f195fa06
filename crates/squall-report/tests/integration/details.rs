//! Requests and connections in full: the list, the data, the links, and the dialog in a real browser.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::json;
use squall_analysis::Thinned;
use squall_analysis::causes::{
    ConnectionTrace, DirectionTrace, InFlight, TraceAck, TracePacket, TraceWindow, TracedRequest,
};
use squall_analysis::detail::{
    ConnectionDetail, FrameTick, RequestDetail, SenderRows, SenderSample, TrialDetail, WindowLevel,
};
use squall_analysis::explain::Explanation;
use squall_analysis::findings::{
    CellFindings, CostShare, Evidence, Finding, Fix, RunFinding, Severity, Whole,
};
use squall_base::Duration;
use squall_base::record::{Cause, FrameLayer, Side, TrialRecord, Way};
use squall_report::view::RequestInFull;
use squall_report::{Language, Method, TrialPoints, html, live_html};

use crate::explain::{at, explanation, stage};
use crate::reading::saved;
use crate::support::chromium::{self, Page};
use crate::support::overlay::{NAMES, show_overlay};
use crate::support::run::{Run, Size, run};

/// The first trial of the last condition, which is of the first variant in its overlay.
pub(crate) const TRIAL: u32 = 6;
/// A measured request.
pub(crate) const REQUEST: u64 = 1_000;

fn all<T>(entries: Vec<T>) -> Thinned<T> {
    let count = entries.len();
    Thinned::of(entries, count, |_| false)
}

fn packet(start: u64, micros: u64, is_lost: bool, is_again: bool) -> TracePacket {
    TracePacket {
        sent: at(micros),
        arrived: (!is_lost).then(|| at(micros + 25_000)),
        start,
        end: start + 1_448,
        stream: None,
        request: Some(REQUEST),
        is_again,
        is_lost,
    }
}

/// From the server: two packets, of which one is lost and retransmitted.
fn down() -> DirectionTrace {
    let packets = vec![
        packet(0, 25_100, false, false),
        packet(1_448, 25_200, true, false),
        packet(1_448, 100_000, false, true),
    ];
    DirectionTrace {
        packets: all(packets),
        lost: 1,
        repeated: 1,
        numbers: Thinned::default(),
        acks: all(vec![TraceAck {
            at: at(75_100),
            to: 1_448,
        }]),
        in_flight: all(vec![InFlight {
            at: at(25_200),
            bytes: 2_896,
        }]),
        held: vec![stage(25_000, 60_000, Cause::WindowConnection)],
        interval: Duration::from_millis(1),
        delivered: vec![1_448; 125],
    }
}

fn connection() -> ConnectionDetail {
    let request = TracedRequest {
        request: REQUEST,
        stream: Some(15),
        from: at(0),
        to: at(125_400),
    };
    let trace = ConnectionTrace {
        hop: 1,
        connection: 0,
        server: Some(0),
        is_quic: false,
        opened: at(0),
        windows: vec![TraceWindow {
            from: at(0),
            to: at(125_400),
            requests: vec![request],
            directions: [DirectionTrace::default(), down()],
        }],
        life: None,
    };
    let sent = SenderRows {
        levels: all(vec![WindowLevel {
            at: at(25_000),
            stream: None,
            bytes: 0,
        }]),
        samples: all(vec![SenderSample {
            at: at(30_000),
            cwnd_bytes: Some(14_480),
            rtt: Some(Duration::from_millis(50)),
        }]),
    };
    ConnectionDetail {
        trace,
        senders: vec![[SenderRows::default(), sent]],
        life_senders: Default::default(),
    }
}

/// Gives the connection a life of five seconds, with the packets of its only time window.
fn add_life(detail: &mut TrialDetail) {
    let connection = &mut detail.connections[0];
    connection.trace.life = Some(TraceWindow {
        to: at(5_000_000),
        requests: Vec::new(),
        ..connection.trace.windows[0].clone()
    });
    let level = |stream, bytes| WindowLevel {
        at: at(30_000),
        stream,
        bytes,
    };
    connection.life_senders[1] = SenderRows {
        levels: all(vec![level(None, 80_000), level(Some(7), 0)]),
        ..connection.senders[0][1].clone()
    };
}

pub(crate) fn detail(record: &TrialRecord) -> TrialDetail {
    let frame = FrameTick {
        at: at(25_000),
        hop: 1,
        side: Side::Server,
        way: Way::Sent,
        layer: FrameLayer::Http2,
        kind: 0x1,
        length: 40,
    };
    TrialDetail {
        folder: record.trial.folder(),
        index: record.trial.index,
        requests: vec![RequestDetail {
            reasons: vec!["the slowest <of all>".to_owned()],
            explanation: Explanation {
                request: REQUEST,
                ..explanation()
            },
            delayed_with: vec![9, 12],
            frames: all(vec![frame]),
        }],
        connections: vec![connection()],
    }
}

/// The plots of a run; those of the trial have a request in full, which `change` changes.
pub(crate) fn detailed(run: &Run, change: impl Fn(&mut TrialDetail)) -> Vec<TrialPoints> {
    let mut plots = run.plots();
    for (plot, (record, _)) in plots.iter_mut().zip(&run.records) {
        if record.trial.index == TRIAL {
            let mut detail = detail(record);
            change(&mut detail);
            plot.add_detail(record, &detail);
        }
    }
    plots
}

fn page_of(run: &Run, change: impl Fn(&mut TrialDetail), cells: &[CellFindings]) -> String {
    html(&run.summary(), &detailed(run, change), cells, &[])
}

/// A finding of the trial, with these requests as evidence.
pub(crate) fn found(run: &Run, requests: Vec<u64>) -> CellFindings {
    let mut records = run.records.iter().map(|(record, _)| record);
    found_in(
        records.find(|it| it.trial.index == TRIAL).unwrap(),
        requests,
    )
}

/// A finding of a trial, with these requests as evidence.
pub(crate) fn found_in(record: &TrialRecord, requests: Vec<u64>) -> CellFindings {
    CellFindings {
        variant: record.trial.variant.name.clone(),
        condition: record.trial.condition.clone(),
        findings: vec![RunFinding {
            trials: 1,
            of: 1,
            folder: record.trial.folder(),
            finding: Finding {
                name: "head_of_line".to_owned(),
                title: "TCP head-of-line blocking".to_owned(),
                severity: Severity::Grave,
                share: CostShare {
                    part: 0.5,
                    of: Whole::ResponseTime,
                },
                evidence: Evidence {
                    numbers: Vec::new(),
                    requests,
                },
                explanation: "Bytes waited. A packet was lost.".to_owned(),
                fixes: vec![Fix {
                    station: "client".to_owned(),
                    setting: "connections = 8".to_owned(),
                    changes: Vec::new(),
                }],
                hop: None,
            },
        }],
    }
}

fn page(run: &Run) -> String {
    page_of(run, |_| {}, &[])
}

/// The page of a small run, made once for all tests.
fn usual() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(|| page(&run(&NAMES, Size::SMALL)))
}

/// The markup that an element holds.
fn unpacked(page: &str, id: &str) -> String {
    let start = format!("<script type=\"text/plain\" id=\"detail-{id}\">");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no {id}"));
    let packed = STANDARD.decode(rest.split('<').next().unwrap()).unwrap();
    let mut markup = String::new();
    let mut decoder = ZlibDecoder::new(packed.as_slice());
    decoder.read_to_string(&mut markup).unwrap();
    markup
}

#[test]
fn detailed_request_is_listed_with_links_to_it_and_to_its_connection() {
    let page = usual();
    let place = page.split("data-points=\"points-").nth(1).unwrap();
    assert!(place.contains("\" data-request=\"1000\">"), "{place}");
    assert!(page.contains("<tr id=\"request-6-1000\""), "{page}");
    assert!(page.contains("<a href=\"#request-6-1000\">request 1000</a>"));
    assert!(page.contains("<a href=\"#connection-6-1-0\">0</a>"));
    assert!(page.contains("the slowest &lt;of all&gt;"));
    assert_eq!(page.matches("<dialog").count(), 1);
    assert_eq!(page.matches("id=\"detail-request-").count(), 1);
    assert_eq!(page.matches("id=\"detail-connection-").count(), 1);
}

#[test]
fn request_has_its_stages_packets_frames_and_words() {
    let page = usual();
    let markup = unpacked(page, "request-6-1000");
    assert!(
        markup.starts_with("<h2 tabindex=\"-1\">request 1000: answered with 200 after 125.400 ms"),
        "{markup}"
    );
    // Six stages, of which one is too short to be seen, and two periods in which the connection's window was shut.
    assert_eq!(markup.matches("class=\"stage cause-").count(), 7);
    assert!(markup.contains("</span>L loss 64.8 ms</span>"), "{markup}");
    assert_eq!(markup.matches("class=\"packet lost\"").count(), 1);
    assert_eq!(markup.matches("class=\"packet again\"").count(), 1);
    assert_eq!(markup.matches("class=\"tick\"").count(), 1);
    assert!(markup.contains(
        "role=\"img\" aria-label=\"What request 1000 waited for in 125 ms: loss 64.8 ms"
    ));
    assert!(markup.contains("<td data-label=\"frame\">HEADERS</td>"));
    // The scripts turn links to what the page cannot show into plain text.
    let link = |request: u64| format!("<a href=\"#request-6-{request}\">request {request}</a>");
    let waited = format!("It waited for {} (hol), {} (hol).", link(3), link(4));
    assert!(markup.contains(&waited), "{markup}");
    let delayed = format!(
        "The lost packets that delayed it also delayed {}, {}.",
        link(9),
        link(12)
    );
    assert!(markup.contains(&delayed), "{markup}");
    assert!(markup.contains("the slowest &lt;of all&gt;"));
    // The text of `squall explain`.
    assert!(markup.contains("sent again by fast retransmit"));
}

#[test]
fn connection_has_a_chart_for_each_aspect_with_losses_and_shut_windows() {
    let page = usual();
    let markup = unpacked(page, "connection-6-1-0");
    assert!(markup.contains("<h2 tabindex=\"-1\">TCP connection 0</h2>"));
    // Sequence, sizes, throughput, in flight, windows, round trips; the client sent nothing.
    assert_eq!(markup.matches("<svg").count(), 6);
    assert_eq!(
        markup
            .matches("role=\"img\" aria-label=\"From server to client: ")
            .count(),
        6
    );
    assert!(markup.contains("No packet with payload."));
    // Once in the chart of the sequence, and once in that of the sizes.
    assert_eq!(markup.matches("class=\"packet lost\"").count(), 2);
    assert_eq!(markup.matches("class=\"dots again\"").count(), 2);
    assert_eq!(markup.matches("class=\"ack\"").count(), 1);
    assert_eq!(
        markup
            .matches("class=\"held cause-window_connection\"")
            .count(),
        1
    );
    assert!(markup.contains("<a href=\"#request-6-1000\">request 1000</a>"));
    assert!(
        markup.contains("<tr><th scope=\"row\">N window_connection, ms</th><td>35.0</td></tr>")
    );
}

#[test]
fn whole_life_of_a_connection_is_drawn_after_the_time_of_its_requests() {
    const WINDOWS: &str = ">Flow-control windows in kB; dashed: connection; line: the least of all streams; shaded: nothing was left<";
    let run = run(&NAMES, Size::SMALL);
    let markup = unpacked(&page_of(&run, add_life, &[]), "connection-6-1-0");
    let parts = markup.split_once("<h3>Over its whole life of 5000 ms</h3>");
    let (of_request, life) = parts.unwrap_or_else(|| panic!("{markup}"));
    assert!(of_request.contains("<h3>While <a href=\"#request-6-1000\">request 1000</a> was"));
    assert_eq!(of_request.matches("<svg").count(), 6);
    for aspect in [
        "sequence",
        "packet-sizes",
        "throughput",
        "in-flight",
        "windows",
        "round-trips",
    ] {
        let name = format!("data-plot=\"life-down-{aspect}\"");
        assert_eq!(life.matches(&name).count(), 1, "{aspect} in {life}");
    }
    let drawn = chart(life, WINDOWS);
    assert_eq!(drawn.matches("<path class=\"line limit\"").count(), 1);
    assert_eq!(drawn.matches("<path class=\"line\"").count(), 1, "{drawn}");
    // Lost and repeated packets, blocked times, and the figures of all of it.
    assert_eq!(life.matches("class=\"packet lost\"").count(), 2);
    assert!(life.contains("class=\"held cause-window_connection\""));
    assert!(life.contains("data-name=\"life-down-figures\""));
}

#[test]
fn whole_life_of_a_connection_is_chinese_too() {
    let run = run(&NAMES, Size::SMALL);
    let (record, _) = &run.records[TRIAL as usize];
    let mut detail = detail(record);
    add_life(&mut detail);
    let full = RequestInFull::of(Language::Zh, record, &detail).unwrap();
    let (_, life) = full.connections[0]
        .markup
        .split_once("整个存续期间")
        .unwrap();
    let hint = "时间从其第一个数据包算起。多个请求共用一种颜色。每个间隔，线上是最小的窗口与最后一个样本。";
    assert!(life.contains(hint), "{life}");
    assert!(life.contains("实线：所有流中最小者"), "{life}");
}

#[test]
fn other_requests_on_the_connection_have_links_beside_their_colours() {
    let run = run(&NAMES, Size::SMALL);
    let with_another = |detail: &mut TrialDetail| {
        let packets = &mut detail.connections[0].trace.windows[0].directions[1].packets;
        packets.kept[0].request = Some(998);
    };
    let markup = unpacked(&page_of(&run, with_another, &[]), "connection-6-1-0");
    let (_, legend) = markup.split_once("<p class=\"legend\">").unwrap();
    let legend = legend.split("</p>").next().unwrap();
    assert!(
        legend.contains("</i><a href=\"#request-6-998\">request 998</a></span>"),
        "{legend}"
    );
    // The request of the heading has its link there.
    assert!(legend.contains("</i>request 1000</span>"), "{legend}");
}

/// The chart of a connection with this title.
fn chart<'a>(markup: &'a str, title: &str) -> &'a str {
    let mut charts = markup.split("<svg ").skip(1);
    let chart = charts.find(|chart| chart.contains(title));
    let chart = chart.unwrap_or_else(|| panic!("no {title} in {markup}"));
    chart.split("</svg>").next().unwrap()
}

#[test]
fn windows_of_the_connection_and_of_the_requests_stream_are_lines() {
    const TITLE: &str = ">Flow-control windows in kB; dashed: connection; lines: streams; shaded: nothing was left<";
    let run = run(&NAMES, Size::SMALL);
    // Values in bytes at times in microseconds, of the connection or of a stream.
    let windows = |levels: &[(Option<u64>, u64, i64)]| {
        let levels = levels.iter().map(|&(stream, micros, bytes)| WindowLevel {
            at: at(micros),
            stream,
            bytes,
        });
        let levels: Vec<WindowLevel> = levels.collect();
        let change = |detail: &mut TrialDetail| {
            detail.connections[0].senders[0][1].levels = all(levels.clone());
        };
        unpacked(&page_of(&run, change, &[]), "connection-6-1-0")
    };
    let connection = [(None, 10_000, 80_000), (None, 25_000, 0)];
    // The request's stream is 15.
    let own = [(Some(15), 10_000, 40_000), (Some(15), 60_000, 20_000)];
    let other = [(Some(17), 20_000, 30_000)];
    let markup = windows(&[&connection[..], &own, &other].concat());
    let drawn = chart(&markup, TITLE);
    assert_eq!(drawn.matches("<path class=\"line limit\"").count(), 1);
    assert_eq!(drawn.matches("<path class=\"line\"").count(), 1, "{drawn}");
    let (_, line) = drawn.split_once("<path class=\"line\" d=\"M").unwrap();
    let line = line.split('"').next().unwrap();
    // The stream's line has one step, downwards; the connection's line begins above it.
    assert_eq!(line.matches('H').count(), 1, "{line}");
    let heights = |path: &str| -> [f64; 2] {
        let numbers = path.split(['M', 'H', 'V', ' ']).filter(|it| !it.is_empty());
        let numbers: Vec<f64> = numbers.map(|it| it.parse().unwrap()).collect();
        // Across and down of the first point, then across and down of the step.
        [numbers[1], numbers[3]]
    };
    let (_, limit) = drawn
        .split_once("<path class=\"line limit\" d=\"M")
        .unwrap();
    let limit = heights(limit.split('"').next().unwrap());
    let line = heights(line);
    assert!(
        line[1] > line[0] && limit[0] < line[0],
        "{line:?} {limit:?}"
    );
    // If no level of the stream is known, there is no line for it.
    let markup = windows(&[&connection[..], &other].concat());
    let drawn = chart(&markup, TITLE);
    assert_eq!(drawn.matches("<path class=\"line\"").count(), 0, "{drawn}");
}

#[test]
fn quic_connection_has_packet_numbers_and_offsets() {
    let run = run(&NAMES, Size::SMALL);
    let quic = |detail: &mut TrialDetail| {
        let trace = &mut detail.connections[0].trace;
        trace.is_quic = true;
        let down = &mut trace.windows[0].directions[1];
        down.numbers = down.packets.clone();
    };
    let markup = unpacked(&page_of(&run, quic, &[]), "connection-6-1-0");
    assert!(markup.contains("QUIC connection 0"));
    assert!(markup.contains(">Packet numbers from 0; line: largest acknowledged<"));
    assert!(markup.contains(">Offset in its stream in kB<"));
    assert_eq!(markup.matches("<svg").count(), 7);
}

#[test]
fn thinned_lists_say_what_is_left_out() {
    let run = run(&NAMES, Size::SMALL);
    let longer = |detail: &mut TrialDetail| {
        detail.connections[0].trace.windows[0].directions[1]
            .packets
            .all = 5_000;
        detail.requests[0].frames.all = 900;
    };
    let page = page_of(&run, longer, &[]);
    let connection = unpacked(&page, "connection-6-1-0");
    assert!(connection.contains("Of 5,000 packets, 3 are shown, evenly spaced and in order."));
    let request = unpacked(&page, "request-6-1000");
    assert!(request.contains("Of 900 frames, 1 are shown"), "{request}");
}

#[test]
fn finding_links_to_the_request_that_it_names() {
    let run = run(&NAMES, Size::SMALL);
    let link = "<a href=\"#request-6-1000\">request 1000 in full</a>";
    let page = page_of(&run, |_| {}, &[found(&run, vec![REQUEST, 7])]);
    assert_eq!(page.matches(link).count(), 1);
    let other = page_of(&run, |_| {}, &[found(&run, vec![7])]);
    assert!(!other.contains("in full</a>"));
}

#[test]
fn live_page_links_to_all_requests_of_a_finding_and_always_has_a_dialog() {
    let run = run(&NAMES, Size::SMALL);
    let method = Method::new(None, None, Vec::new());
    let cells = [found(&run, vec![7])];
    let live = |plots: &[TrialPoints], cells: &[CellFindings]| {
        live_html(&run.summary(), plots, cells, &[], &method, "/runs/1/")
    };
    let page = live(&detailed(&run, |_| {}), &cells);
    assert!(page.contains("<a href=\"#request-6-7\">request 7 in full</a>"));
    let many = live(&run.plots(), &[found(&run, (7..20).collect())]);
    for request in 7..12 {
        let link = format!("<a href=\"#request-6-{request}\">request {request} in full</a>");
        assert!(many.contains(&link), "{link}");
    }
    assert_eq!(many.matches(" in full</a>").count(), 5, "and no more");
    assert!(page.contains(",\"index\":6,\"element\":\"points-"));
    let page = live(&run.plots(), &[]);
    assert!(page.contains("<dialog id=\"detail\"") && !page.contains("id=\"details\""));
}

#[test]
fn request_fetched_from_a_server_looks_like_one_in_the_page() {
    let run = run(&NAMES, Size::SMALL);
    let (record, _) = &run.records[TRIAL as usize];
    assert_eq!(record.trial.index, TRIAL);
    let detail = detail(record);
    let full = RequestInFull::of(Language::En, record, &detail).unwrap();
    let json = serde_json::to_value(&full).unwrap();
    let page = page(&run);
    for (drawn, id) in [
        (&json["request"], "request-6-1000"),
        (&json["connections"][0], "connection-6-1-0"),
    ] {
        assert_eq!(drawn["id"], id);
        assert_eq!(drawn["markup"], unpacked(&page, id));
    }
    let chinese = RequestInFull::of(Language::Zh, record, &detail).unwrap();
    let whole = Language::Zh.page(page, &run.summary());
    assert_eq!(chinese.request.markup, unpacked(&whole, "request-6-1000"));
    assert!(chinese.request.markup.contains("所有跳"));
}

#[test]
fn request_opened_by_a_reader_shows_no_reason_for_its_choice() {
    let run = run(&NAMES, Size::SMALL);
    let (record, _) = &run.records[TRIAL as usize];
    let mut detail = detail(record);
    detail.requests[0].reasons.clear();
    let full = RequestInFull::of(Language::En, record, &detail).unwrap();
    assert!(!full.request.markup.contains("Shown because"));
    detail.requests.clear();
    assert_eq!(RequestInFull::of(Language::En, record, &detail), None);
}

#[test]
fn page_without_details_has_neither_list_nor_dialog() {
    let run = run(&NAMES, Size::SMALL);
    let page = html(&run.summary(), &run.plots(), &[], &[]);
    assert!(!page.contains("id=\"details\"") && !page.contains("<dialog"));
}

/// Opens a page with the details of a request and a connection.
pub(crate) fn open(name: &str, width: u32) -> Option<Page> {
    chromium::open_markup(name, usual(), width, 900)
}

/// Whether the dialog shows this.
pub(crate) fn shows(id: &str) -> String {
    format!("document.getElementById('detail').dataset.shows === '{id}'")
}

#[test]
fn click_on_a_ringed_dot_opens_its_request() {
    let Some(mut page) = open("details-click", 1_400) else {
        return;
    };
    show_overlay(&mut page);
    let find = "const s = squall.sections[2].scatters[0].scatter; const p = s.layers[0].points; \
                const i = s.layers[0].details[0].index;";
    let near = "[p.startS[i] - 0.1, p.startS[i] + 0.1]";
    page.eval(&format!(
        "(() => {{ {find} s.pane.show({near}, s.pane.whole.y); }})()"
    ));
    page.wait_for("!squall.sections[2].view.isWhole()");
    let dot = page.eval(&format!(
        "(() => {{ {find} const b = s.plot.over.getBoundingClientRect(); \
         return [b.x + s.plot.valToPos(p.startS[i], 'x'), b.y + s.plot.valToPos(p.latencyMs[i], 'y')]; }})()"
    ));
    let (x, y) = (dot[0].as_f64().unwrap(), dot[1].as_f64().unwrap());
    // The area that can be clicked is larger than the dot.
    page.mouse("mousePressed", x + 6.0, y + 6.0, 1);
    page.mouse("mouseReleased", x + 6.0, y + 6.0, 1);
    page.wait_for(&shows("request-6-1000"));
    let title = page.text("document.querySelector('#detail h2').textContent");
    assert!(title.starts_with("request 1000: "), "{title}");
    let hash = page.text("location.hash");
    assert!(hash.starts_with("#request-6-1000"), "{hash}");
    assert_eq!(
        page.eval("document.activeElement === document.querySelector('#detail h2')"),
        json!(true)
    );
}

#[test]
fn links_lead_from_the_list_to_a_request_and_on_to_its_connection() {
    let Some(mut page) = open("details-links", 1_400) else {
        return;
    };
    page.click("#details a[href='#request-6-1000']");
    page.wait_for(&shows("request-6-1000"));
    // The request also names requests that the page cannot show, without links to them.
    let links = "[...document.querySelectorAll('#detail a')].map((link) => link.hash)";
    assert_eq!(page.eval(links), json!(["#connection-6-1-0"]));
    page.click("#detail a[href='#connection-6-1-0']");
    page.wait_for(&shows("connection-6-1-0"));
    assert_eq!(page.text("location.hash"), "#connection-6-1-0");
    page.click("#detail button");
    page.wait_for("!document.getElementById('detail').open && location.hash === ''");
}

#[test]
fn address_opens_a_request_and_keeps_its_other_words() {
    let Some(mut page) = open("details-address", 390) else {
        return;
    };
    page.eval("location.hash = '#request-6-1000&statistic=p99'");
    page.wait_for(&shows("request-6-1000"));
    let fits = "document.getElementById('detail').scrollWidth <= document.getElementById('detail').clientWidth";
    assert_eq!(page.eval(fits), json!(true));
    page.click("#detail button");
    page.wait_for("location.hash === '#statistic=p99'");
    page.eval("location.hash = '#request-6-1'");
    assert_eq!(
        page.eval("document.getElementById('detail').open"),
        json!(false)
    );
}

/// Goes to a request or connection, and waits until it is shown.
fn show(page: &mut Page, id: &str) {
    page.eval(&format!("location.hash = '#{id}'"));
    page.wait_for(&shows(id));
}

#[test]
fn list_is_saved_as_csv() {
    let Some(mut page) = open("details-list-file", 1_400) else {
        return;
    };
    let list = saved(&mut page, "#details table + .save");
    assert_eq!(page.text("saved.name"), "requests-in-detail.csv");
    let mut rows = list.lines();
    assert_eq!(
        rows.next(),
        Some("request,variant,condition,repetition,response time in ms,mostly,connection,why")
    );
    let row = rows.next().unwrap();
    assert!(
        row.starts_with("request 1000,h1,\"delay ") && row.ends_with(",0,the slowest <of all>"),
        "{row}"
    );
}

#[test]
fn drawings_and_tables_of_a_request_and_of_a_connection_are_saved_as_files() {
    let Some(mut page) = open("details-files", 1_400) else {
        return;
    };
    // Shown a second time, they have the same names.
    for id in ["request-6-1000", "connection-6-1-0", "request-6-1000"] {
        show(&mut page, id);
        let drawings = page.eval("document.querySelectorAll('#detail .drawing').length");
        let count = |format: &str| {
            format!(
                "document.querySelectorAll('#detail .save[aria-label^=\"Download as {format}\"]').length"
            )
        };
        for format in ["SVG", "PNG"] {
            assert_eq!(page.eval(&count(format)), drawings, "{id}: {format}");
        }
        let tables = page.eval("document.querySelectorAll('#detail table').length");
        assert_eq!(page.eval(&count("CSV")), tables, "{id}");
        let drawing = saved(&mut page, "#detail .drawing + .save");
        let (name, title) = if id.starts_with("request") {
            (
                "request-6-1000-waterfall.svg",
                "<title>What request 1000 waited for in 125 ms",
            )
        } else {
            (
                "connection-6-1-0-down-sequence.svg",
                "<title>From server to client: packets over time",
            )
        };
        assert_eq!(page.text("saved.name"), name);
        assert!(
            drawing.starts_with("<svg") && drawing.contains(title),
            "{drawing}"
        );
        // The styles of the page are not in a file, so the colours are written out.
        assert!(drawing.contains("rgb("), "{drawing}");
    }
    let stages = saved(&mut page, "#detail table[data-name=stages] + .save");
    assert_eq!(page.text("saved.name"), "request-6-1000-stages.csv");
    assert!(
        stages.starts_with("hop,from ms,to ms,ms,cause\r\nall,"),
        "{stages}"
    );
    let of_page = page
        .eval("squall.allPlotNames().filter((name) => !/^(response-time|condition)-/.test(name))");
    assert_eq!(
        of_page,
        json!([]),
        "`squall export` has only those of the page"
    );
    assert_eq!(
        page.events("Runtime.exceptionThrown"),
        Vec::<serde_json::Value>::new()
    );
}

#[test]
fn every_drawing_and_table_of_a_dialog_has_a_name_for_its_files() {
    let page = usual();
    for id in ["request-6-1000", "connection-6-1-0"] {
        let markup = unpacked(page, id);
        for (kind, name) in [("<svg ", " data-plot=\""), ("<table ", " data-name=\"")] {
            let tags = markup.split(kind).skip(1);
            let tags: Vec<&str> = tags.filter_map(|it| it.split('>').next()).collect();
            assert!(!tags.is_empty(), "{id}: no {kind}");
            assert!(tags.iter().all(|tag| tag.contains(name)), "{tags:?}");
        }
    }
}
