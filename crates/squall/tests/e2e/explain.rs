//! `squall explain`: what it prints about real requests and moments, and about input that it cannot explain.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use squall_base::record::{RequestRecord, TrialRecord};
use squall_record::{RunFolder, TrialFolder, read_causes, read_drops, read_requests};
use tempfile::TempDir;

use crate::constructed::recipe;
use crate::support::{FinishedRun, run_recipe, seat, squall, stderr, stdout};

pub(crate) fn explain(run: &Path, arguments: &[&str]) -> Output {
    let folder = run.parent().expect("a run is in a folder");
    let mut command = squall(folder);
    command.arg("explain").arg(run).args(arguments);
    command.output().expect("squall starts")
}

fn told(run: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = explain(run, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Exit code and stderr of a request that is refused.
fn refused(run: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = explain(run, arguments);
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    (output.status.code(), stderr(&output))
}

/// One HTTP/2 trial and one HTTP/3 trial with packet loss.
fn lossy() -> FinishedRun {
    let text = recipe(
        &["h2c", "h3"],
        "60/s",
        ("1KiB", "3kB"),
        "drop every 41",
        "2s",
    );
    run_recipe(&text, &[])
}

fn trials(run: &FinishedRun) -> Vec<TrialFolder> {
    let folder = RunFolder::open(&run.folder).expect("the run");
    folder.complete_trials().expect("its trials")
}

#[test]
fn explanation_of_the_slowest_requests_agrees_with_the_tables() {
    let _seat = seat();
    let run = lossy();
    let all = told(&run.folder, &[]);
    assert_eq!(all.len(), 2, "one trial of each cell");
    for (trial, told) in trials(&run).iter().zip(&all) {
        assert_eq!(told["trial"], trial.name());
        check_slowest(trial, told);
    }
    // A trial's folder works as well, and so does selecting a variant of the run.
    let folder = trials(&run)[1].root().to_owned();
    assert_eq!(told(&folder, &[]), all[1..]);
    assert_eq!(told(&run.folder, &["--variant", "h3"]), all[1..]);
    assert_eq!(
        told(
            &run.folder,
            &["--condition", "delay 10ms, loss 0%", "--variant", "h2c"]
        ),
        all[..1]
    );
    for trial in trials(&run) {
        check_single_requests(&trial);
    }
    check_text(&run, &all);
    check_moment(&run);
    check_refusals(&run);
}

/// Checks that a request explained from the rows near it gets the same explanation as among others, from all tables.
fn check_single_requests(trial: &TrialFolder) {
    let all = told_of(trial, &["--worst", "5"]);
    assert_eq!(all.len(), 5);
    for expected in all {
        let number = expected["request"].to_string();
        assert_eq!(told_of(trial, &[&number]), [expected]);
    }
}

fn told_of(trial: &TrialFolder, arguments: &[&str]) -> Vec<Value> {
    let told = told(trial.root(), arguments);
    let requests = told[0]["requests"].as_array();
    requests.expect("explanations").clone()
}

fn check_slowest(trial: &TrialFolder, told: &Value) {
    let mut requests = read_requests(trial.requests()).expect("requests.parquet");
    requests.sort_by_key(|row| (std::cmp::Reverse(row.response_time()), row.request));
    let causes = read_causes(trial.causes()).expect("causes.parquet");
    let drops = read_drops(trial.drops()).expect("drops.parquet");
    let explained = told["requests"].as_array().expect("requests");
    assert_eq!(explained.len(), 3);
    for (row, it) in requests.iter().zip(explained) {
        assert_eq!(it["request"], row.request);
        assert_eq!(it["latency_ns"], row.response_time().as_nanos());
        let written = causes
            .iter()
            .find(|causes| causes.request == row.request)
            .expect("its causes");
        let shares = it["causes"].as_array().expect("causes");
        let sum: u64 = shares.iter().filter_map(|share| share["ns"].as_u64()).sum();
        assert_eq!(sum, row.response_time().as_nanos(), "{it}");
        for share in shares {
            let cause = squall_base::record::Cause::ALL
                .into_iter()
                .find(|cause| share["cause"] == cause.name());
            assert_eq!(
                share["ns"],
                written.spans[cause.expect("a cause")].as_nanos()
            );
        }
        let stages = it["course"]["stages"].as_array().expect("stages");
        let mut at = row.intended.as_nanos();
        for stage in stages {
            assert_eq!(stage["from_ns"], at, "{it}");
            at = stage["to_ns"].as_u64().expect("a time");
        }
        assert_eq!(at, row.end.as_nanos());
        check_drops(row, it, &drops);
    }
}

/// Checks that every drop that has the request as a victim is listed, with its cost.
fn check_drops(row: &RequestRecord, it: &Value, drops: &[squall_base::record::DropRecord]) {
    let of = drops.iter().filter(|drop| {
        drop.carried.contains(&row.request)
            || drop
                .victims
                .iter()
                .any(|victim| victim.request == row.request)
    });
    let of: Vec<_> = of.collect();
    let told = it["drops"].as_array().expect("drops");
    assert_eq!(told.len(), of.len(), "{it}");
    for (drop, told) in of.into_iter().zip(told) {
        assert_eq!(told["index"], drop.packet.index);
        assert_eq!(told["direction"], drop.packet.direction.name());
        assert_eq!(told["repair"], drop.repair.name());
        let cost: u64 = told["cost"]
            .as_array()
            .expect("costs")
            .iter()
            .filter_map(|it| it["ns"].as_u64())
            .sum();
        let victims = drop
            .victims
            .iter()
            .filter(|victim| victim.request == row.request);
        assert_eq!(
            cost,
            victims.map(|victim| victim.delay.as_nanos()).sum::<u64>(),
            "{told}"
        );
    }
}

fn check_text(run: &FinishedRun, all: &[Value]) {
    let output = explain(&run.folder, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for told in all {
        for it in told["requests"].as_array().expect("requests") {
            let ending = match it["outcome"].as_str() {
                Some("answered") => "answered with 200",
                _ => "unfinished",
            };
            let title = format!("request {}: {ending} after ", it["request"]);
            assert!(text.contains(&title), "{title}: {text}");
            let total = squall_analysis::figure::count(it["latency_ns"].as_u64().expect("ns"));
            assert!(
                text.contains(&format!("total              {total} ns")),
                "{text}"
            );
        }
    }
    let unbroken = unbroken(&text);
    for words in [
        "was dropped by a drop list; ",
        "it was over",
        "the server had all of it",
        " distance for ",
        ", most of it ",
    ] {
        assert!(unbroken.contains(words), "{words}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let one = all[0]["requests"][0]["request"].to_string();
    let alone = stdout(&explain(trials(run)[0].root(), &[&one]));
    assert!(
        alone.lines().count() > 8 && text.contains(alone.trim_end()),
        "{alone}"
    );
}

/// The text without line breaks.
pub(crate) fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that a request is reported as in flight at the middle of its lifetime.
fn check_moment(run: &FinishedRun) {
    let trial = &trials(run)[0];
    let record: TrialRecord = trial.read_record().expect("trial.json");
    let requests = read_requests(trial.requests()).expect("requests.parquet");
    let slowest = requests
        .iter()
        .max_by_key(|row| row.response_time())
        .expect("a request");
    let start = record.load_start.as_nanos();
    let at = slowest.intended.as_nanos() + slowest.response_time().as_nanos() / 2;
    let time = format!("{}ns", at - start);
    let told = told(trial.root(), &["--at", &time]);
    let moment = &told[0]["moment"];
    assert_eq!(moment["at_ns"], at);
    let in_flight: Vec<u64> = requests
        .iter()
        .filter(|row| row.intended.as_nanos() <= at && at < row.end.as_nanos())
        .map(|row| row.request)
        .collect();
    let said: Vec<u64> = moment["in_flight"]
        .as_array()
        .expect("requests")
        .iter()
        .filter_map(|it| it["request"].as_u64())
        .collect();
    assert_eq!(said, in_flight);
    assert!(said.contains(&slowest.request));
    let waiting: u64 = moment["waiting"]
        .as_array()
        .expect("causes")
        .iter()
        .filter_map(|it| it["requests"].as_u64())
        .sum();
    assert_eq!(
        waiting,
        in_flight.len() as u64,
        "each waits for one thing: {moment}"
    );
    assert_eq!(moment["link"].as_array().map(Vec::len), Some(2));
    assert!(
        moment["connections"][0]["server"]["engine"]["cwnd_segments"].as_u64() > Some(0),
        "{moment}"
    );
    let text = stdout(&explain(trial.root(), &["--at", &time]));
    assert!(
        text.contains(&format!(
            "{} in flight",
            squall_analysis::figure::counted(said.len() as u64, "request", "requests")
        )),
        "{text}"
    );
}

fn check_refusals(run: &FinishedRun) {
    let trial = &trials(run)[0];
    let (code, said) = refused(trial.root(), &["100000"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("has no request 100000; it has 0 to 119"),
        "{said}"
    );
    let (code, said) = refused(&run.folder, &["5"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("2 trials match") && said.contains(&trial.name()),
        "{said}"
    );
    let (code, said) = refused(&run.folder, &["--variant", "h9"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = refused(trial.root(), &["--at", "1h"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("after the end of"), "{said}");
    let (code, said) = refused(trial.root(), &["--at", "soon"]);
    assert_eq!(code, Some(2), "{said}");

    fs::write(trial.packets(), b"not a table").expect("it is written");
    let (code, said) = refused(trial.root(), &["5"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("packets.parquet") && said.contains("is not a whole Parquet file"),
        "{said}"
    );
    fs::remove_file(trial.causes()).expect("it is removed");
    let (code, said) = refused(trial.root(), &["5"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no causes.parquet"), "{said}");
    let (code, said) = refused(trial.root(), &[]);
    assert_eq!(code, Some(1), "{said}");
    let nothing = TempDir::new().expect("a temporary folder");
    let (code, said) = refused(nothing.path(), &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("neither the folder of a run nor that of a complete trial"),
        "{said}"
    );
}

/// A moment on a path with a proxy is explained like one on any other path.
#[test]
fn moment_on_a_path_with_a_proxy_is_explained() {
    let _seat = seat();
    let text = recipe(&["h1"], "50/s", ("0", "1KiB"), "drop every 20", "1s")
        .replace("client ~h1~> server", "client -h1-> proxy ~h1~> server");
    let run = run_recipe(&text, &[]);
    let output = explain(&run.folder, &["--at", "500ms", "--around", "500ms"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = unbroken(&stdout(&output));
    assert!(text.contains("was dropped by a drop list"), "{text}");
    let told = explain(&run.folder, &["--at", "500ms", "--json"]);
    let told: Value = serde_json::from_str(&stdout(&told)).expect("JSON");
    let moment = &told[0]["moment"];
    for it in moment["in_flight"].as_array().expect("requests") {
        assert!(it["stage"].is_object(), "{it}");
    }
}
