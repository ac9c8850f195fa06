//! How commands that read a run handle damaged and missing records, and how `compare` handles runs with different plans.

use std::fs;
use std::path::Path;
use std::process::Command;

use squall_record::{RunFolder, TrialFolder, read_plan, write_plan};
use tempfile::TempDir;

use crate::support::{
    FinishedRun, H1, H2C_X1, profile, recipe, run_recipe, run_squall, seat, short_recipe, stderr,
    stdout,
};
use crate::view::Viewing;

/// Flips one bit in the middle of a file.
fn damage(path: &Path) -> Vec<u8> {
    let sound = fs::read(path).expect("it is there");
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 0x10;
    fs::write(path, damaged).expect("it is written");
    sound
}

/// A short run of one variant.
fn run_of(variant: &str) -> FinishedRun {
    let text = recipe("100/s", "delay = \"5ms\"", &[variant], &profile("500ms", 1));
    run_recipe(&text, &[])
}

/// The only trial of a run.
fn trial_of(run: &FinishedRun) -> TrialFolder {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let mut trials = folder.complete_trials().expect("its trials");
    trials.remove(0)
}

/// Checks that each command fails and names the file.
fn check_named(path: &Path, commands: &[&[&str]]) {
    let name = path.file_name().expect("a name").to_string_lossy();
    for arguments in commands {
        let output = run_squall(Path::new("."), *arguments);
        let said = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {name}: {said}"
        );
        assert!(said.contains(&*name), "{arguments:?}: {name}: {said}");
    }
}

/// A run with a damaged or a missing file yields no figures, and the user learns which file it is.
#[test]
fn damaged_or_missing_record_is_named_by_every_command_that_reads_it() {
    let _seat = seat();
    let run = run_of(H1);
    let trial = trial_of(&run);
    let record = trial.read_record().expect("trial.json");
    let names: Vec<&str> = record.files.iter().map(|file| file.name.as_str()).collect();
    assert!(names.contains(&"packets.parquet"), "{names:?}");

    let run = run.folder.to_str().expect("UTF-8");
    let report: &[&str] = &["report", run];
    let compare: &[&str] = &["compare", run, run];
    let explain: &[&str] = &["explain", run, "5"];
    for (path, commands) in [
        (trial.requests(), &[report, compare, explain][..]),
        (trial.causes(), &[report, compare, explain][..]),
        (trial.findings(), &[report][..]),
        (trial.packets(), &[explain][..]),
        (trial.record(), &[report, compare, explain][..]),
    ] {
        let sound = damage(&path);
        check_named(&path, commands);
        // Without its trial.json, a folder is no trial.
        if path != trial.record() {
            fs::remove_file(&path).expect("it is there");
            check_named(&path, commands);
        }
        fs::write(&path, sound).expect("it is restored");
    }
    let output = run_squall(Path::new("."), report);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
}

/// Covers the formats that are made from a table, and what `squall view` serves.
#[test]
fn exports_and_views_show_nothing_of_a_damaged_record() {
    let _seat = seat();
    let run = run_of(H2C_X1);
    let trial = trial_of(&run);
    let viewing = Viewing::start(&[&run.folder]);
    let path = format!("/runs/1/trials/{}", trial.name());
    let region =
        "from_us=0&to_us=100000000&low_us=0&high_us=100000000&columns=9&rows=9&scale=linear";
    let points = format!("GET {path}/points?{region}");
    let packets = format!("GET {path}/packets?from_us=0&to_us=100000000");
    let request = format!("GET {path}/requests/5");
    let host = viewing.address.to_string();
    for (file, formats, asked) in [
        (
            trial.requests(),
            &["csv", "har", "cells", "openmetrics", "trace"][..],
            &[&points, &request][..],
        ),
        (trial.causes(), &[], &[&points, &request]),
        (trial.drops(), &["trace"], &[&points, &request]),
        (trial.packets(), &["trace", "xpl"], &[&packets, &request]),
        (trial.exchanges(), &["trace"], &[&request]),
        (trial.frames(), &["trace", "qlog", "qlog-seq"], &[&request]),
        (trial.sockets(), &["trace", "qlog", "qlog-seq"], &[&request]),
        (
            trial.record(),
            &["csv", "xpl"],
            &[&points, &packets, &request],
        ),
    ] {
        let sound = damage(&file);
        let name = file.file_name().expect("a name").to_string_lossy();
        for format in formats {
            let arguments = ["export", ".", "--to", *format, "-o", "made"];
            let output = run_squall(&run.folder, arguments);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{format}: {name}: {said}");
            assert!(said.contains(&*name), "{format}: {name}: {said}");
            assert!(!run.folder.join("made").exists(), "{format}: {name}");
        }
        for line in asked {
            let (status, _, said) = viewing.ask(line, &host);
            assert_eq!(status, 500, "{line}: {name}: {said}");
            assert!(said.contains(&*name), "{line}: {name}: {said}");
        }
        fs::write(&file, sound).expect("it is restored");
    }
    for line in [&points, &packets, &request] {
        let (status, _, said) = viewing.ask(line, &host);
        assert_eq!(status, 200, "{line}: {said}");
    }
    let output = run_squall(&run.folder, ["export", ".", "--to", "csv"]);
    assert!(stdout(&output).lines().count() > 20, "{}", stderr(&output));
}

/// The later run is a copy of the earlier one, but for its plan.
#[test]
fn compare_names_the_keys_in_which_the_plans_differ() {
    let _seat = seat();
    let run = run_recipe(&short_recipe(&[H1], 1), &[]);
    let mut plan = read_plan(run.folder.join("plan.json")).expect("the plan");
    plan.variants[0].hops[0].client.tcp.no_delay = false;
    plan.requests[0].method = "PUT".to_owned();
    let home = TempDir::new().expect("a temporary folder");
    let after = home.path().join("after");
    let mut copy = Command::new("cp");
    let copied = copy.arg("-r").args([&run.folder, &after]).status();
    assert!(copied.expect("cp starts").success());
    write_plan(after.join("plan.json"), &plan).expect("it is written");
    let runs = [&run.folder, &after].map(|folder| folder.to_str().expect("UTF-8"));
    let output = run_squall(home.path(), ["compare", runs[0], runs[1]]);
    let said = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    for words in ["h1 has different settings", "other requests than before"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    for key in [
        "hops.0.client.tcp.no_delay (true, now false)",
        "0.method (\"POST\", now \"PUT\")",
    ] {
        assert!(said.contains(key), "{key}: {said}");
    }
}
