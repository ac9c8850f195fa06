//! `squall export`: every format of a real run is written, and can be read back.
//!
//! The content of each format is tested in squall-record.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use squall_record::{RunFolder, TrialFolder, read_drops, read_packets};

use crate::constructed::recipe;
use crate::support::{FinishedRun, have, run_recipe, seat, squall, stderr, stdout};

/// Runs `squall export` next to the run.
pub(crate) fn export(run: &Path, arguments: &[&str]) -> Output {
    let folder = run.parent().expect("a run is in a folder");
    let mut command = squall(folder);
    command.arg("export").arg(run).args(arguments);
    command.output().expect("squall starts")
}

/// What is printed in this format.
pub(crate) fn printed(run: &Path, arguments: &[&str]) -> String {
    let output = export(run, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

/// Exports to a file next to the run.
pub(crate) fn written(run: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let file = run.with_file_name(name);
    let output = export(run, &[arguments, &["-o", name]].concat());
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    assert!(output.stdout.is_empty());
    file
}

/// The message of an export that is refused.
pub(crate) fn refused(run: &Path, arguments: &[&str]) -> String {
    let output = export(run, arguments);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    stderr(&output)
}

fn trial(run: &FinishedRun, variant: &str) -> TrialFolder {
    let folder = RunFolder::open(&run.folder).expect("the run");
    let trials = folder.complete_trials().expect("its trials").into_iter();
    let mut of_variant = trials.filter(|trial| {
        let record = trial.read_record().expect("trial.json");
        record.trial.variant.name == variant
    });
    of_variant.next().expect("a trial of the variant")
}

#[test]
fn every_export_format_of_a_run_can_be_read_back() {
    let _seat = seat();
    let text = recipe(
        &["h1", "h2", "h3"],
        "60/s",
        ("1KiB", "3kB"),
        "drop every 41",
        "1s",
    );
    let run = run_recipe(&text, &["--pcap"]);
    check_har(&run);
    check_trace(&run);
    check_qlog(&run);
    check_requests(&run);
    check_metrics(&run);
    check_cells(&run);
    check_time_sequence(&run);
    check_captures(&run);
    check_refusals(&run);
    check_files(&run);
}

fn check_har(run: &FinishedRun) {
    let file = written(
        &run.folder,
        "trial.har",
        &["--variant", "h2", "--to", "har"],
    );
    let home = run.folder.parent().expect("a folder");
    let output = squall(home)
        .args(["import", "har"])
        .arg(&file)
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let script: Value = serde_json::from_str(&stdout(&output)).expect("a script");
    let answered = run.only("h2").measured().filter(|row| row.status.is_some());
    let steps = script["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), answered.count());
    assert_eq!(script["requests"][0]["url"], "https://server:8080/");
    assert_eq!(script["requests"][0]["method"], "POST");
    assert_eq!(script["requests"][0]["body"]["size"], 1024);
}

fn check_trace(run: &FinishedRun) {
    let trace = printed(&run.folder, &["--to", "trace"]);
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let count = |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
    assert_eq!(count("name", "process_name"), 3);
    let requests: usize = run.trials.iter().map(|trial| trial.requests.len()).sum();
    assert_eq!(count("cat", "request"), requests);
    assert_eq!(count("name", "POST /"), requests);
    assert!(count("cat", "cause") > requests, "each has several");
    assert!(count("ph", "s") > 0 && count("ph", "s") == count("ph", "f"));
}

fn check_qlog(run: &FinishedRun) {
    let h3 = ["--variant", "h3", "--to"];
    let text = printed(&run.folder, &[&h3[..], &["qlog"]].concat());
    let qlog: Value = serde_json::from_str(&text).expect("JSON");
    let sides: Vec<&str> = (qlog["traces"].as_array().expect("traces").iter())
        .filter_map(|trace| trace["vantage_point"]["type"].as_str())
        .collect();
    assert_eq!(sides, ["client", "server"], "one connection");
    let names: BTreeSet<&str> = (qlog["traces"][0]["events"]
        .as_array()
        .expect("events")
        .iter())
    .filter_map(|event| event["name"].as_str())
    .collect();
    for name in [
        "quic:packet_sent",
        "quic:packet_received",
        "quic:recovery_metrics_updated",
        "http3:frame_created",
        "http3:frame_parsed",
    ] {
        assert!(names.contains(name), "{names:?}");
    }
    let file = written(
        &run.folder,
        "trial.sqlog",
        &[&h3[..], &["qlog-seq"]].concat(),
    );
    let sequence = fs::read_to_string(file).expect("text");
    let records: Vec<Value> = (sequence.split('\u{1e}').skip(1))
        .map(|record| serde_json::from_str(record).expect("JSON"))
        .collect();
    let events = qlog["traces"][0]["events"].as_array().map_or(0, Vec::len);
    assert_eq!(records.len(), 1 + events, "a head, and the client's events");
    // The qlog of an HTTP/2 connection has only messages.
    let text = printed(
        &run.folder,
        &["--variant", "h2", "--to", "qlog", "--side", "client"],
    );
    let qlog: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(qlog["traces"][0]["events"][0]["name"], "loglevel:info");
}

fn check_requests(run: &FinishedRun) {
    let to = |format: &str| printed(&run.folder, &["--variant", "h1", "--to", format]);
    let rows = run.only("h1").requests.len();
    let vegeta = to("vegeta");
    assert_eq!(vegeta.lines().count(), rows);
    for line in vegeta.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields.len(), fields[9]), (12, "POST"), "{line}");
        assert_eq!(fields[10], "http://server:8080/");
    }
    for line in to("h2load").lines() {
        let fields: Vec<i64> = line
            .split('\t')
            .map(|field| field.parse().expect("a number"))
            .collect();
        assert!(
            fields.len() == 3 && [200, -1].contains(&fields[1]),
            "{line}"
        );
    }
    assert!(to("hgrm").contains("#[Unit    = ms"));
    assert!(to("hlog").contains("#[Histogram log format version 1.3]"));
    assert_eq!(to("csv").lines().count(), 1 + rows);
    // The table alone lacks only URLs, so formats without URLs can be exported from it.
    let table = trial(run, "h1").requests();
    assert_eq!(printed(&table, &["--to", "csv"]), to("csv"));
    assert!(printed(&table, &["--to", "hgrm"]).contains("#[Unit    = ms"));
    assert!(printed(&table, &["--to", "trace"]).contains("request 0"));
    assert!(refused(&table, &["--to", "har"]).contains("no methods and URLs"));
    assert!(refused(&table, &["--to", "qlog"]).contains("name the folder of a run"));
    let itself = table.display().to_string();
    let replaced = refused(&table, &["--to", "csv", "-o", &itself]);
    assert!(replaced.contains("the export would replace"), "{replaced}");
    let text = refused(&run.folder.join("plan.json"), &["--to", "csv"]);
    assert!(
        text.contains("it is not a Parquet file") && !text.contains("--resume"),
        "{text}"
    );
}

/// Checks that each line is a comment of a known kind, or a sample with labels and a number.
fn check_metrics(run: &FinishedRun) {
    let text = printed(&run.folder, &["--to", "openmetrics"]);
    assert!(text.ends_with("# EOF\n"));
    let mut family = String::new();
    let mut requests = 0.0;
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let kind = words.next().expect("a word");
            assert!(["TYPE", "UNIT", "HELP"].contains(&kind), "{line}");
            family = words.next().expect("a name").to_owned();
            continue;
        }
        let (name, rest) = line.split_once('{').expect("labels");
        let (labels, value) = rest.rsplit_once("} ").expect("a value");
        let ending = name
            .strip_prefix(family.as_str())
            .expect("a sample of its family");
        assert!(
            ["", "_total", "_bucket", "_count", "_sum"].contains(&ending),
            "{line}"
        );
        assert!(
            labels.contains("variant=\"") && labels.ends_with('"'),
            "{line}"
        );
        let value: f64 = value.parse().expect("a number");
        if name == "squall_requests_total" {
            requests += value;
        }
    }
    let measured = run.trials.iter().map(|trial| trial.measured().count());
    assert_eq!(requests as usize, measured.sum::<usize>());
    assert!(
        text.contains("le=\"+Inf\"")
            && text.contains("# UNIT squall_response_time_seconds seconds")
    );
}

fn check_cells(run: &FinishedRun) {
    let file = written(&run.folder, "cells.csv", &["--to", "cells"]);
    let text = fs::read_to_string(file).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + run.trials.len());
    let columns: Vec<&str> = lines[0].split(',').collect();
    let place = columns.iter().position(|name| *name == "variant");
    let variants: Vec<&str> = (lines[1..].iter())
        .filter_map(|line| line.split(',').nth(place.expect("a column")))
        .collect();
    assert_eq!(
        variants.iter().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from(["h1", "h2", "h3"])
    );
}

fn check_time_sequence(run: &FinishedRun) {
    let text = printed(&run.folder, &["--variant", "h1", "--to", "xpl"]);
    assert!(text.starts_with("timeval unsigned\ntitle\n") && text.ends_with("go\n"));
    let arrows = text
        .lines()
        .filter(|line| line.starts_with("uarrow "))
        .count();
    let packets = read_packets(trial(run, "h1").packets()).expect("packets.parquet");
    let data = packets
        .iter()
        .filter(|row| row.direction.name() == "down" && row.payload_len > 0);
    assert!(arrows >= data.count(), "{arrows}");
    let none = refused(&run.folder, &["--variant", "h3", "--to", "xpl"]);
    assert!(none.contains("no TCP data"), "{none}");
}

fn check_captures(run: &FinishedRun) {
    let file = written(
        &run.folder,
        "h2.pcapng",
        &["--variant", "h2", "--to", "pcapng"],
    );
    let own = trial(run, "h2").capture();
    assert!(fs::read(&file).expect("a capture") == fs::read(own).expect("a capture"));
    let mode = fs::metadata(&file).expect("a capture").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has the secrets");
    // If the trial has no capture, packets are exported from its table.
    let h1 = trial(run, "h1");
    fs::remove_file(h1.capture()).expect("it is removed");
    let output = export(h1.root(), &["--to", "pcapng", "-o", "h1.pcapng"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("has no capture"),
        "{}",
        stderr(&output)
    );
    if !have(&["tshark"]) {
        return;
    }
    let file = h1.root().with_file_name("h1.pcapng");
    let fields = ["-T", "fields", "-e", "tcp.seq", "-e", "frame.comment", "-r"];
    let output = Command::new("tshark")
        .args(fields)
        .arg(file)
        .output()
        .expect("tshark starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let packets = read_packets(h1.packets()).expect("packets.parquet");
    assert_eq!(said.lines().count(), packets.len());
    let drops = read_drops(h1.drops()).expect("drops.parquet");
    assert_eq!(
        said.matches("squall: dropped (list_drop)").count(),
        drops.len()
    );
}

fn check_refusals(run: &FinishedRun) {
    let several = refused(&run.folder, &["--to", "har"]);
    assert!(several.contains("3 trials match"), "{several}");
    let part = refused(
        &run.folder,
        &["--variant", "h1", "--to", "har", "--hop", "1"],
    );
    assert!(part.contains("this format has the whole trial"), "{part}");
    let hop = refused(
        &run.folder,
        &["--variant", "h1", "--to", "xpl", "--hop", "2"],
    );
    assert!(hop.contains("crosses no link"), "{hop}");
    let frames = refused(&run.folder, &["--variant", "h1", "--to", "qlog"]);
    assert!(frames.contains("HTTP/1.1 has none"), "{frames}");
    let side = ["--variant", "h1", "--to", "pcapng", "--side", "client"];
    let side = refused(&run.folder, &side);
    assert!(side.contains("pcapng has all packets of a link"), "{side}");
    let stdout = refused(&run.folder, &["--variant", "h1", "--to", "pcapng"]);
    assert!(stdout.contains("name a file with -o"), "{stdout}");
    let number = refused(&run.folder, &["--trial", "9", "--to", "har"]);
    assert!(number.contains("no complete trial of"), "{number}");
    let one = printed(&run.folder, &["--trial", "1", "--to", "csv"]);
    assert_eq!(one.lines().count(), 1 + run.trials[1].requests.len());
}

/// Checks where exports are written, and that a failed export leaves existing files as they were. Damages the trial of h3.
fn check_files(run: &FinishedRun) {
    let failed = |arguments: &[&str]| {
        let output = export(&run.folder, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        stderr(&output)
    };
    let missing = failed(&["--to", "cells", "-o", "missing/cells.csv"]);
    assert!(missing.contains("there is no folder missing"), "{missing}");
    let folder = failed(&["--to", "cells", "-o", "."]);
    assert!(folder.contains("it is a folder"), "{folder}");
    let cells = printed(&run.folder, &["--to", "cells"]);
    assert_eq!(printed(&run.folder, &["--to", "cells", "-o", "-"]), cells);
    let h3 = trial(run, "h3");
    let capture = fs::read(h3.capture()).expect("a capture");
    let itself = h3.capture().display().to_string();
    let output = export(h3.root(), &["--to", "pcapng", "-o", &itself]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read(h3.capture()).expect("a capture") == capture);
    let old = run.folder.with_file_name("old.json");
    fs::write(&old, "old").expect("a file");
    fs::write(h3.requests(), "damaged").expect("a file");
    let damaged = failed(&["--to", "trace", "-o", "old.json"]);
    assert!(damaged.contains("requests.parquet"), "{damaged}");
    assert_eq!(fs::read_to_string(&old).expect("a file"), "old");
    let home = run.folder.parent().expect("a folder");
    for entry in fs::read_dir(home).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        assert!(!name.to_string_lossy().ends_with(".tmp"), "{name:?}");
    }
}
