//! What `squall explain` says about requests on paths of sidecars over a link that loses packets, with squall's own stations
//! and with real programs.
//!
//! `causes_paths` and `truth_paths` test that every cause is exact.

use std::fs;

use serde_json::Value;
use squall_base::plan::Protocol;
use squall_base::record::{Cause, RequestRecord};
use squall_record::{RunFolder, read_causes};
use tempfile::TempDir;

use crate::cases::{run, text};
use crate::findings::shown;
use crate::support::{
    FinishedRun, TrialFiles, ensure, have, on_a_quiet_machine, only_run, quiet_seat, read_trials,
    run_until_valid, say_disturbed, seat, summary_of,
};

/// The causes that delay requests on a shared lossy connection.
const CONNECTION_CAUSES: [Cause; 3] = [Cause::Cwnd, Cause::Loss, Cause::Hol];

#[test]
fn requests_sharing_one_connection_between_sidecars_wait_for_it_not_for_hosts() {
    let _seat = quiet_seat();
    let home = TempDir::new().expect("a temporary folder");
    // The recipe of the case, with two of its paths, only 3 % loss, and a shorter time.
    let changes = [
        ("warmup = \"2s\"", "warmup = \"500ms\""),
        ("duration = \"10s\"", "duration = \"2s\""),
        ("drain = \"5s\"", "drain = \"1s\""),
        ("[\"0%\", \"3%\"]", "\"3%\""),
    ];
    let whole = text("six-paths", "six.toml", &changes);
    let (start, _) = whole.split_once("[[variant]]").expect("variants");
    let variants = ["h2c", "h3"].map(|protocol| {
        format!(
            "[[variant]]\nname = \"{protocol}\"\n\
             path = \"client -h1-> envoy ~{protocol}~> envoy -h1-> nginx\"\n"
        )
    });
    let recipe = format!("{start}{}", variants.concat());
    fs::write(home.path().join("six.toml"), recipe).expect("a recipe");
    let ended = run(
        home.path(),
        &["run", "./six.toml", "--stations", "embedded"],
    );
    let said = &ended.stdout;
    if ended.code == Some(3) {
        say_disturbed("no figures to check");
        return;
    }
    assert_eq!(ended.code, Some(0), "{said}\n{}", ended.stderr);
    assert_eq!(read_trials(&only_run(home.path())).len(), 2);
    assert!(
        said.contains("One congestion window, cut by every loss, for all requests"),
        "{said}"
    );
    assert!(said.contains("Loss taken for congestion"), "{said}");
    let summary = summary_of(&only_run(home.path()));
    let cells = summary["causes"]["conditions"][0].as_array();
    for cell in cells.expect("cells") {
        // The first band has all requests.
        let causes = cell["bands"][0]["causes"].as_array().expect("causes");
        let ns = |of: &Value| of["ns"].as_f64().unwrap_or_default();
        let all: f64 = causes.iter().map(ns).sum();
        let share = |name: &str| {
            let of = causes.iter().find(|cause| cause["cause"] == name);
            of.map_or(0.0, ns) / all
        };
        assert!(share("cwnd") > 0.01, "{cell}");
        for foreign in ["host", "unknown"] {
            assert!(share(foreign) < 0.2, "{foreign}: {cell}");
        }
    }
}

#[test]
fn recipe_of_all_six_paths_plans_fourteen_trials() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let recipe = text("six-paths", "six.toml", &[]);
    fs::write(home.path().join("six.toml"), recipe).expect("a recipe");
    let dry = ["run", "./six.toml", "--stations", "embedded", "--dry-run"];
    let ended = run(home.path(), &dry);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("14 trials"), "{}", ended.stdout);
}

/// The recipe of the case at 3 %, for a short time.
fn short() -> String {
    let changes = [
        ("warmup = \"2s\"", "warmup = \"100ms\""),
        ("duration = \"10s\"", "duration = \"500ms\""),
        ("[\"0%\", \"3%\"]", "\"3%\""),
    ];
    text("six-paths", "six.toml", &changes)
}

/// The share of these causes in the time of all requests of a trial, with waits in queues attributed to their roots.
fn share(run: &FinishedRun, trial: &TrialFiles, causes: &[Cause]) -> f64 {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let folder = folder.complete_trial(&trial.record.trial.folder());
    let folder = folder.expect("a complete trial");
    let rows = read_causes(folder.causes()).expect("causes.parquet");
    let (mut part, mut total) = (0, 0);
    for row in rows.iter().filter(|row| row.is_in_total()) {
        let spans = row.root_spans();
        total += spans.total().as_nanos();
        for cause in causes {
            part += spans[*cause].as_nanos();
        }
    }
    part as f64 / total as f64
}

/// Checks what holds on every path: which programs ran, the round trip, and that nearly all causes are known.
/// `run_until_valid` has checked that each hop spoke its protocol, without which no trial is valid.
fn check_path(run: &FinishedRun, trial: &TrialFiles) -> Result<(), String> {
    let variant = &trial.record.trial.variant;
    let name = &variant.name;
    let stations = variant.stations.iter().zip(&trial.record.stations);
    for (station, found) in stations {
        assert_eq!(found.name, station.name, "{name}");
        let is_ours = station.name == "client";
        assert_eq!(found.version.is_none(), is_ours, "{name}: {found:?}");
    }
    let succeeded = trial.measured().filter(|request| request.succeeded());
    let (succeeded, all) = (succeeded.count(), trial.measured().count());
    // Over HTTP/3 Envoys fail some requests.
    let has_quic = variant.hops.iter().any(|hop| hop.protocol == Protocol::H3);
    let at_least = if has_quic { all * 9 / 10 } else { all };
    assert!(
        all > 0 && succeeded >= at_least,
        "{name}: {succeeded} of {all}"
    );
    let is_too_fast = |request: &&RequestRecord| request.response_time().as_millis_f64() < 20.0;
    let answered = trial.measured().filter(|request| request.succeeded());
    assert_eq!(answered.filter(is_too_fast).count(), 0, "{name}");
    let unknown = share(run, trial, &[Cause::Unknown]);
    eprintln!("{name}: unknown {unknown:.3}");
    ensure(unknown < 0.2, || format!("{name}: {unknown}"))
}

/// Checks that these causes have more than this share of the time, the hosts have little of it, and this finding states that.
/// Returns the names of all findings.
fn check_explained(
    run: &FinishedRun,
    trial: &TrialFiles,
    (causes, more_than): (&[Cause], f64),
    finding: &str,
) -> Result<Vec<String>, String> {
    let variant = &trial.record.trial.variant;
    let name = &variant.name;
    let explained = share(run, trial, causes);
    let host = share(run, trial, &[Cause::Host]);
    eprintln!("{name}: {causes:?} {explained:.3}, host {host:.3}");
    ensure(explained > more_than, || format!("{name}: {explained}"))?;
    // Envoys pause now and then over HTTP/3, even without loss (FINDINGS.md). How much of the time that is depends on how
    // much processor time they get.
    let has_quic = variant.hops.iter().any(|hop| hop.protocol == Protocol::H3);
    ensure(has_quic || host < 0.2, || format!("{name}: {host}"))?;
    let findings = shown(run, name, &|_| true).into_iter();
    let names: Vec<String> = findings.map(|it| it.name).collect();
    ensure(names.iter().any(|it| it == finding), || {
        format!("{name}: {names:?}")
    })?;
    Ok(names)
}

/// Checks a path on which few HTTP/2 connections cross the link, so that requests wait for these.
fn check_shared_connection(run: &FinishedRun, trial: &TrialFiles) -> Result<Vec<String>, String> {
    check_explained(run, trial, (&CONNECTION_CAUSES, 0.5), "single_connection")
}

/// Checks a path on which each request waits only for its own losses, over HTTP/1.1 or HTTP/3. In FINDINGS.md these take 10
/// to 33 % of the time.
fn check_own_losses(run: &FinishedRun, trial: &TrialFiles) -> Result<(), String> {
    check_explained(run, trial, (&[Cause::Loss], 0.02), "own_loss").map(drop)
}

/// Checks all paths of the case.
fn check_all_paths(run: &FinishedRun) -> Result<(), String> {
    assert_eq!(run.trials.len(), 7);
    for trial in &run.trials {
        check_path(run, trial)?;
        let variant = &trial.record.trial.variant.name;
        if !["2 envoys h2c", "2 envoys h2"].contains(&variant.as_str()) {
            check_own_losses(run, trial)?;
            continue;
        }
        let names = check_shared_connection(run, trial)?;
        // The pool must not be blamed for what the connection caused.
        let is_blamed = names.iter().any(|name| name == "pool_exhaustion");
        ensure(!is_blamed, || format!("{variant}: {names:?}"))?;
    }
    Ok(())
}

#[test]
fn all_paths_of_the_case_run_with_real_programs_and_are_explained() {
    if !have(&["nginx", "haproxy", "envoy"]) {
        return;
    }
    let recipe = short();
    on_a_quiet_machine(
        quiet_seat(),
        || run_until_valid(&recipe, &["--stations", "real"]),
        check_all_paths,
    );
}

/// The recipe of the case, with only this path.
fn with_path(name: &str, path: &str, more: &str) -> String {
    let whole = short();
    let (start, _) = whole.split_once("[[variant]]").expect("variants");
    format!("{start}[[variant]]\nname = \"{name}\"\npath = \"{path}\"\n{more}")
}

/// The link is the first hop, the last one, or between other programs, and the hops within hosts speak other protocols.
#[test]
fn paths_of_other_programs_in_other_orders_run_and_are_explained() {
    if !have(&["nginx", "haproxy", "envoy", "caddy", "nghttpx"]) {
        return;
    }
    for (name, path, more, is_shared) in [
        (
            "link first",
            "client ~h2c~> envoy -h1-> haproxy -h1-> nginx",
            "connections = 1\n",
            true,
        ),
        (
            "link last",
            "client -h1-> haproxy -h2c-> envoy ~h2~> caddy",
            "",
            true,
        ),
        (
            "h2c around h3",
            "client -h2c-> envoy ~h3~> envoy -h2c-> caddy",
            "",
            false,
        ),
        (
            "h2c in front of h1",
            "client -h2c-> nghttpx ~h1~> haproxy -h1-> nginx",
            "",
            false,
        ),
    ] {
        let recipe = with_path(name, path, more);
        let check = |run: &FinishedRun| -> Result<(), String> {
            let trial = run.only(name);
            check_path(run, trial)?;
            if is_shared {
                check_shared_connection(run, trial)?;
            }
            Ok(())
        };
        on_a_quiet_machine(
            quiet_seat(),
            || run_until_valid(&recipe, &["--stations", "real"]),
            check,
        );
    }
}
