//! Constructed problems, as in `findings`, that need the machine to themselves. How much a client reads at once decides what
//! the windows show, and a late generator must be late only because the test stops it.
//!
//! Problems that do not depend on that are in `findings`.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_analysis::findings::{Finding, Severity};
use squall_base::record::{ExchangeRecord, FrameRecord, Side, Validity, Way};
use squall_record::{RunFolder, read_exchanges, read_frames, read_json};
use tempfile::TempDir;

use crate::findings::{Expected, LATE, any, check, recipe, shown, variants};
use crate::processes::worker_with_client;
use crate::support::{
    FinishedRun, only_run, quiet_seat, read_trials, run_until_valid, squall, write_recipe,
};

/// Variants over a round trip of 40 ms, most of which have a problem with their windows.
fn window_variants() -> String {
    let http2 = |settings: &str| format!("http2 = {{ connection_window = \"64MiB\", {settings} }}");
    let late =
        "stream_window = \"65536\", window_updates = { every = \"33KiB\" }, data_size = \"4096\"";
    let each = "stream_window = \"65535\", window_updates = { each_data = \"16375\" }";
    let never = "stream_window = \"65535\", window_updates = \"never\"";
    let tiny = "stream_window = \"16MiB\", data_size = \"48\"";
    let of = [
        ("wide", "h2c", http2("stream_window = \"16MiB\"")),
        ("tiny stream", "h2c", http2("stream_window = \"16KiB\"")),
        ("wide h3", "h3", String::new()),
        (
            "tiny stream h3",
            "h3",
            "http3 = { stream_window = \"16KiB\" }".to_owned(),
        ),
        (
            "small connection",
            "h2c",
            "http2 = { stream_window = \"16MiB\" }".to_owned(),
        ),
        ("half", "h2c", http2("stream_window = \"65536\"")),
        ("late", "h2c", http2(late)),
        ("each data", "h2c", http2(each)),
        ("tiny frames", "h2c", http2(tiny)),
        ("never", "h2c", http2(never)),
    ];
    let of: Vec<(&str, &str, &str)> = of.iter().map(|(n, p, s)| (*n, *p, s.as_str())).collect();
    variants(&of)
}

const OTHER_WINDOWS: &[&str] = &[
    "connection_window",
    "late_window_updates",
    "update_per_data",
    "read_stall",
];

const WINDOWS: [Expected; 8] = [
    // `check_late_updates` checks late updates separately, because they vary by trial.
    Expected {
        variant: "tiny stream",
        found: &["stream_window"],
        silent: &["connection_window", "update_per_data", "read_stall"],
    },
    Expected {
        variant: "tiny stream h3",
        found: &["stream_window"],
        silent: OTHER_WINDOWS,
    },
    Expected {
        variant: "small connection",
        found: &["connection_window"],
        silent: &["stream_window", "read_stall", "update_per_data"],
    },
    Expected {
        variant: "half",
        found: &["stream_window"],
        silent: OTHER_WINDOWS,
    },
    Expected {
        variant: "late",
        found: &["stream_window", "late_window_updates"],
        silent: &["update_per_data", "read_stall", "tiny_data_frames"],
    },
    Expected {
        variant: "each data",
        found: &["update_per_data"],
        silent: &["late_window_updates", "read_stall"],
    },
    Expected {
        variant: "tiny frames",
        found: &["tiny_data_frames"],
        silent: OTHER_WINDOWS,
    },
    Expected {
        variant: "never",
        found: &["read_stall"],
        silent: &["late_window_updates", "update_per_data"],
    },
];

#[test]
fn reports_window_and_frame_problems() {
    let _seat = quiet_seat();
    let text = recipe(
        "rate = \"5/s\"\nwarmup = \"300ms\"\ndrain = \"1s\"",
        "[response]\nbody = \"300kB\"",
        "delay = \"20ms\"",
        &window_variants(),
        "1500ms",
    );
    // With this flag the client reads in one go what has arrived in the meantime, as far as the machine allows.
    let run = run_until_valid(&text, &["--idle-processors", "asleep"]);
    check(&run, &any, &["wide", "wide h3"], &WINDOWS);
    check_late_updates(&run, "tiny stream", 16 * 1_024);
}

/// Checks late updates. Updates at half of a 16 KiB window are late if the client reads packets one at a time as they arrive,
/// because each update then returns only a little more than half. A client that reads everything in one go returns the whole
/// window (docs/METHOD.md, "Findings"). So the finding is optional; but for every request that it names, updates must on
/// average return at most three quarters of the window.
fn check_late_updates(run: &FinishedRun, variant: &str, window_bytes: u64) {
    const WINDOW_UPDATE: u64 = 8;
    let findings = shown(run, variant, &any);
    let late = findings.iter().find(|it| it.name == "late_window_updates");
    let requests = late.map_or(&[][..], |late| &late.evidence.requests);
    assert!(late.is_none() || !requests.is_empty(), "{late:?}");
    let trial = run.of_variant(variant).next().expect("its trial");
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let name = trial.record.trial.folder();
    let trial = folder.complete_trial(&name).expect("the trial is complete");
    let exchanges = read_exchanges(trial.exchanges()).expect("exchanges.parquet");
    let frames = read_frames(trial.frames()).expect("frames.parquet");
    for request in requests {
        let is_its =
            |row: &&ExchangeRecord| row.side == Side::Client && row.request == Some(*request);
        let exchange = exchanges.iter().find(is_its).expect("its exchange");
        let is_update = |row: &&FrameRecord| {
            let frame = &row.frame;
            (row.side, row.connection) == (Side::Client, exchange.connection)
                && (frame.way, frame.kind) == (Way::Sent, WINDOW_UPDATE)
                && frame.stream == Some(exchange.stream)
        };
        let updates = frames.iter().filter(is_update);
        let steps: Vec<u64> = updates.filter_map(|row| row.frame.value).collect();
        let mean = steps.iter().sum::<u64>() / steps.len().max(1) as u64;
        assert!(mean * 4 <= window_bytes * 3, "request {request}: {steps:?}");
    }
}

#[test]
fn reports_a_late_generator() {
    let _seat = quiet_seat();
    let home = TempDir::new().expect("a temporary folder");
    let text = recipe(
        "rate = \"100/s\"\nwarmup = \"0ms\"\ndrain = \"1s\"",
        "",
        "delay = \"5ms\"",
        &variants(&[("h1", "h1", "")]),
        "2s",
    );
    write_recipe(home.path(), &text);
    let mut command = squall(home.path());
    let command = command.args(["run", "./recipe.toml"]);
    let mut runner = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("squall starts");
    // Each attempt is a separate worker, which is stopped for a while in the middle of its load.
    let mut stopped = BTreeSet::new();
    while runner.try_wait().expect("it can be waited for").is_none() {
        if let Some(worker) =
            worker_with_client(runner.id()).filter(|worker| stopped.insert(*worker))
        {
            sleep(Duration::from_millis(700));
            let worker = Pid::from_raw(worker);
            if kill(worker, Signal::SIGSTOP).is_ok() {
                sleep(Duration::from_millis(400));
                kill(worker, Signal::SIGCONT).expect("the worker goes on");
            }
        }
        sleep(Duration::from_millis(20));
    }
    let trials = read_trials(&only_run(home.path()));
    let folder = RunFolder::open(only_run(home.path())).expect("a run's folder");
    assert_eq!(trials.len(), 1);
    assert!(trials[0].record.health.validity != Validity::Valid);
    let trial = folder
        .complete_trial(&trials[0].record.trial.folder())
        .expect("the trial");
    let findings: Vec<Finding> = read_json(trial.findings()).expect("findings.json");
    let late = findings
        .iter()
        .find(|finding| finding.name == LATE)
        .expect("it is found");
    assert_eq!(late.severity, Severity::Grave);
    assert!(!late.evidence.requests.is_empty());
}
