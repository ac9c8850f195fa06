//! Constructed problems: small real trials in which one is present, and one in which it is absent. The finding must be
//! reported in the first and not in the second.
//!
//! Several variants share a recipe, so that one load shows many. A trial disturbed by other work on the machine may
//! also report a late generator; nothing else is excused. Problems of the path are in `findings_path`, those of sockets
//! in `findings_sockets`.

use std::collections::BTreeSet;
use std::fs;

use squall_analysis::findings::{Finding, RunFindings, Severity};
use squall_base::plan::Condition;
use squall_base::record::{SocketSample, Validity};
use squall_record::{RunFolder, read_json, read_sockets};

use crate::support::{FinishedRun, TrialFiles, have, run_recipe, run_until_valid, seat, stdout};

/// The finding of a disturbed trial.
pub(crate) const LATE: &str = "generator_late";
/// The machine can cause this finding in any QUIC variant: if the receiving process does not get a processor in time,
/// the kernel drops datagrams and counts them.
const UDP_DROPS: &str = "udp_drops";

/// All findings of a trial, including those that the machine may have caused.
pub(crate) fn findings(run: &FinishedRun, trial: &TrialFiles) -> Vec<Finding> {
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let name = trial.record.trial.folder();
    let trial = folder.complete_trial(&name).expect("the trial is complete");
    read_json(trial.findings()).expect("findings.json")
}

/// Whether the kernel dropped datagrams at a full socket in that trial.
pub(crate) fn has_full_sockets(run: &FinishedRun, trial: &TrialFiles) -> bool {
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let name = trial.record.trial.folder();
    let trial = folder.complete_trial(&name).expect("the trial is complete");
    let sockets = read_sockets(trial.sockets()).expect("sockets.parquet");
    (sockets.iter())
        .any(|row| matches!(&row.sample, SocketSample::Quic(path) if path.socket_drops > 0))
}

/// The findings of the only trial of a variant under a matching condition.
pub(crate) fn shown(
    run: &FinishedRun,
    variant: &str,
    is: &dyn Fn(&Condition) -> bool,
) -> Vec<Finding> {
    let mut shown = Vec::new();
    let mut trials = run
        .of_variant(variant)
        .filter(|trial| is(&trial.record.trial.condition));
    let trial = trials
        .next()
        .unwrap_or_else(|| panic!("no trial of {variant}"));
    assert!(trials.next().is_none(), "several trials of {variant}");
    for finding in findings(run, trial) {
        let is_of_the_machine = match finding.name.as_str() {
            LATE => trial.record.health.validity != Validity::Valid,
            UDP_DROPS => has_full_sockets(run, trial),
            _ => false,
        };
        if !is_of_the_machine {
            shown.push(finding);
        }
    }
    let names: Vec<String> = shown
        .iter()
        .map(|it| format!("{} {:.1} %", it.name, it.share.part * 100.0))
        .collect();
    eprintln!("{}: {}", trial.record.trial.folder(), names.join(", "));
    shown
}

/// The findings that a variant must have, and those that it must not have.
pub(crate) struct Expected {
    pub(crate) variant: &'static str,
    pub(crate) found: &'static [&'static str],
    pub(crate) silent: &'static [&'static str],
}

/// Compares the trials of one condition with what is expected; a healthy variant has no findings at all.
pub(crate) fn check(
    run: &FinishedRun,
    is: &dyn Fn(&Condition) -> bool,
    healthy: &[&str],
    expected: &[Expected],
) {
    let mut wrong = Vec::new();
    for variant in healthy {
        let names: Vec<String> = shown(run, variant, is)
            .into_iter()
            .map(|it| it.name)
            .collect();
        if !names.is_empty() {
            wrong.push(format!("{variant} is healthy and shows {names:?}"));
        }
    }
    for Expected {
        variant,
        found,
        silent,
    } in expected
    {
        let findings = shown(run, variant, is);
        let names: BTreeSet<&str> = findings.iter().map(|it| it.name.as_str()).collect();
        for name in found.iter().filter(|name| !names.contains(**name)) {
            wrong.push(format!("{variant} does not show {name}"));
        }
        for name in silent.iter().filter(|name| names.contains(**name)) {
            wrong.push(format!("{variant} shows {name}"));
        }
        for finding in &findings {
            assert!((0.0..=1.0).contains(&finding.share.part), "{finding:?}");
            // An unexpected finding may have no fix left: all settings that would fix it may be in force already.
            let is_expected = found.contains(&finding.name.as_str());
            assert!(!is_expected || !finding.fixes.is_empty(), "{finding:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

pub(crate) fn any(_: &Condition) -> bool {
    true
}

pub(crate) fn variants(of: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for (name, protocol, settings) in of {
        text += &format!(
            "[[variant]]\nname = \"{name}\"\npath = \"client ~{protocol}~> server\"\n{settings}\n"
        );
    }
    text
}

pub(crate) fn recipe(
    load: &str,
    messages: &str,
    conditions: &str,
    variants: &str,
    duration: &str,
) -> String {
    format!(
        "name = \"test\"\nquestion = \"What is wrong?\"\n[load]\n{load}\n{messages}\n[conditions]\n{conditions}\n\
         {variants}\n[profile.standard]\nduration = \"{duration}\"\n"
    )
}

#[test]
fn reports_windows_that_stop_uploads() {
    let _seat = seat();
    let of = [
        (
            "zero",
            "h2c",
            "server = { http2 = { stream_window = \"1\", connection_window = \"16MiB\", \
             window_updates = { grant = \"8000000\" } } }",
        ),
        (
            "open",
            "h2c",
            "http2 = { stream_window = \"1MiB\", connection_window = \"16MiB\" }",
        ),
    ];
    let run = run_recipe(
        &recipe(
            "rate = \"20/s\"\nwarmup = \"300ms\"\ndrain = \"1s\"",
            "[request]\nmethod = \"POST\"\nbody = \"17000\"",
            "delay = \"10ms\"",
            &variants(&of),
            "1500ms",
        ),
        &[],
    );
    let zero = Expected {
        variant: "zero",
        found: &["zero_initial_window"],
        silent: &["read_stall", "late_window_updates"],
    };
    check(&run, &any, &["open"], &[zero]);
}

/// If the server is foreign, only our own side is known. The server's window stops our uploads, and the suggested fix
/// is a setting of the server.
#[test]
fn reports_windows_of_a_real_server_that_stop_uploads() {
    if !have(&["nginx"]) {
        return;
    }
    let _seat = seat();
    let text = recipe(
        "rate = \"5/s\"\nwarmup = \"300ms\"\ndrain = \"1s\"",
        "[request]\nmethod = \"POST\"\nbody = \"300kB\"",
        "delay = \"20ms\"",
        "[[variant]]\nname = \"nginx\"\npath = \"client ~h2~> nginx\"\n",
        "1500ms",
    );
    let run = run_recipe(&text, &[]);
    let expected = Expected {
        variant: "nginx",
        found: &["stream_window"],
        silent: &["connection_window", "read_stall", "late_window_updates"],
    };
    check(&run, &any, &[], &[expected]);
    let findings = shown(&run, "nginx", &any);
    let window = findings.iter().find(|it| it.name == "stream_window");
    let window = window.expect("it is shown");
    assert_eq!(window.fixes[0].station, "nginx");
    assert_eq!(window.fixes[0].setting, "http2_body_preread_size");
    assert!(!window.evidence.requests.is_empty());
}

/// Header fields of a typical service request: 300 bytes, most of which HPACK's table saves.
const FIELDS: &str = "[request]\nmethod = \"GET\"\n[request.headers]\naccept = \"application/json\"\n\
    authorization = \"Bearer made-up-token-5f2c8a1e9b7d4036a8c1e2f49d7b6053made-up-token-71d9\"\n\
    cookie = \"session=3b9ac1f0d2e84756; region=us-east-1\"\n\
    traceparent = \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"\n\
    user-agent = \"billing-service/2017.11 (linux; x86_64)\"\n[response]\nbody = \"1KiB\"";

const CONNECTIONS: [Expected; 7] = [
    Expected {
        variant: "pool",
        found: &["pool_exhaustion"],
        silent: &["max_streams", "handshake_per_request"],
    },
    Expected {
        variant: "streams",
        found: &["max_streams"],
        silent: &["pool_exhaustion", "refused_streams", "goaway_churn"],
    },
    Expected {
        variant: "churn",
        found: &["goaway_churn"],
        silent: &["refused_streams", "handshake_per_request", "hpack_eviction"],
    },
    Expected {
        variant: "refused",
        found: &["refused_streams"],
        silent: &["goaway_churn", "hpack_eviction"],
    },
    Expected {
        variant: "table",
        found: &["hpack_eviction"],
        silent: &["max_streams", "goaway_churn"],
    },
    Expected {
        variant: "per request",
        found: &["handshake_per_request"],
        silent: &["full_handshakes", "pool_exhaustion"],
    },
    Expected {
        variant: "full",
        found: &["full_handshakes", "handshake_per_request"],
        silent: &["pool_exhaustion"],
    },
];

#[test]
fn reports_connection_and_stream_problems() {
    let _seat = seat();
    const ONCE: &str = "server = { http1 = { requests_per_connection = 1 } }";
    let full = format!("{ONCE}\ntls = {{ resumption = false }}");
    let of = [
        ("h1", "h1", ""),
        ("pool", "h1", "connections = { at_most = 3 }"),
        ("h2c", "h2c", ""),
        ("streams", "h2c", "http2 = { max_concurrent_streams = 3 }"),
        ("churn", "h2c", "server = { http2 = { goaway_after = 5 } }"),
        (
            "refused",
            "h2c",
            "connections = { at_most = 1 }\nserver = { http2 = { max_concurrent_streams = 2 } }",
        ),
        (
            "table",
            "h2c",
            "server = { http2 = { header_table_size = \"0\" } }",
        ),
        ("per request", "h1s", ONCE),
        ("full", "h1s", full.as_str()),
    ];
    let run = run_until_valid(
        &recipe(
            "rate = \"100/s\"\nwarmup = \"500ms\"\ndrain = \"1s\"",
            FIELDS,
            "delay = \"20ms\"",
            &variants(&of),
            "1500ms",
        ),
        &[],
    );
    check(&run, &any, &["h1", "h2c"], &CONNECTIONS);
    check_report(&run);
}

/// Checks that findings are reported in the terminal, on the page and as JSON, for trials that are valid evidence.
fn check_report(run: &FinishedRun) {
    let findings: RunFindings = read_json(run.folder.join("findings.json")).expect("findings.json");
    let cells = findings.cells;
    let page = fs::read_to_string(run.folder.join("report.html")).expect("report.html");
    if run.has_disturbed_trials() {
        return;
    }
    let pool = cells
        .iter()
        .find(|cell| cell.variant == "pool")
        .expect("the pool's cell");
    let found = &pool.findings[0];
    assert_eq!(found.finding.name, "pool_exhaustion");
    assert_eq!(found.finding.severity, Severity::Grave);
    assert_eq!((found.trials, found.of), (1, 1));
    assert!(
        !cells.iter().any(|cell| cell.variant == "h1"),
        "it is healthy"
    );
    let text = stdout(&run.output);
    for words in [
        "What is wrong",
        "All connections of the pool are busy: grave",
        "Fix: client: connections",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        page.contains("<section class=\"findings\""),
        "the page has a section"
    );
}
