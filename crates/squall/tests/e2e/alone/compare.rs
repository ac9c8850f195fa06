//! What `squall compare` reports: a run against itself, a run against a worse one, thresholds.
//!
//! The same variant twice within one run is in `equal_variants`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{
    FinishedRun, H1, quiet_seat, recipe, run_until_valid, squall, stderr, stdout,
};

const PROFILE: &str = "warmup = \"200ms\"\nduration = \"1s\"\ndrain = \"1s\"\n";

fn run(conditions: &str, variants: &[&str], repetitions: u32, arguments: &[&str]) -> FinishedRun {
    let profile = format!("{PROFILE}repetitions = {repetitions}");
    run_until_valid(&recipe("400/s", conditions, variants, &profile), arguments)
}

fn compare(before: &Path, after: &Path, arguments: &[&str]) -> Output {
    let paths = [before, after].map(|path| path.to_str().expect("a plain path"));
    let mut command = squall(before);
    command.arg("compare").args(paths).args(arguments);
    command.output().expect("squall starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// Checks the JSON output of the same comparison.
fn check_json(folder: &Path) {
    let json = compare(folder, folder, &["--json"]);
    let found: Value = serde_json::from_slice(&json.stdout).expect("JSON on stdout");
    let cell = &found["changes"]["cells"][0];
    assert_eq!(
        (&cell["variant"], &cell["is_paired"]),
        (&"h1".into(), &true.into())
    );
    assert_eq!(cell["figures"].as_array().expect("figures").len(), 7);
    assert!(
        found["sentence"]
            .as_str()
            .is_some_and(|said| said.contains("p99"))
    );
}

/// Checks that too few trials to show a rise make the command fail only with `--fail-if-unknown`.
fn check_failure_flags(folder: &Path) {
    for (flag, expected) in [("--fail-if-worse", 0), ("--fail-if-unknown", 1)] {
        let judged = compare(folder, folder, &[flag]);
        assert_eq!(code(&judged), expected, "{flag}: {}", stderr(&judged));
        let said = stderr(&judged).contains("h1 at delay 2ms, loss 0%: too few trials");
        assert_eq!(said, expected == 1, "{flag}: {}", stderr(&judged));
    }
}

/// Checks thresholds that concern only the run `after`: `compare` and `report` judge them alike.
fn check_absolute_thresholds(before: &Path, after: &Path) {
    for (limit, expected) in [("med<30", 99), ("med>30", 0), ("errors:count==0", 0)] {
        let compared = compare(before, after, &["--threshold", limit]);
        assert_eq!(code(&compared), expected, "{limit}: {}", stdout(&compared));
        let mut report = squall(after);
        let reported = report.args(["report", ".", "--threshold", limit]).output();
        let reported = reported.expect("squall starts");
        assert_eq!(code(&reported), expected, "{limit}: {}", stdout(&reported));
        assert!(
            stdout(&reported).contains(&format!("h1 at delay 20ms, loss 0%: {limit}: ")),
            "{}",
            stdout(&reported)
        );
    }
}

#[test]
fn compare_reports_changes_with_an_exit_code_for_ci() {
    let _seat = quiet_seat();
    let conditions = |delay: &str| format!("delay = \"{delay}\"\nloss = \"0%\"");
    let calm = run(&conditions("2ms"), &[H1], 2, &["--seed", "5"]);

    // Nothing changed between a run and itself, but two pairs cannot prove that.
    let itself = compare(&calm.folder, &calm.folder, &[]);
    let said = stdout(&itself);
    for part in [
        "h1, delay 2ms, loss 0%",
        "before",
        "p99.9",
        "rate/s",
        "2 pairs of the same seeds",
    ] {
        assert!(
            said.contains(part) || calm.has_disturbed_trials(),
            "no {part:?} in\n{said}"
        );
    }
    let limited = compare(&calm.folder, &calm.folder, &["--threshold", "p(99)<=1.5x"]);
    if !calm.has_disturbed_trials() {
        assert_eq!(
            (code(&itself), code(&limited)),
            (0, 99),
            "{said}{}",
            stderr(&itself)
        );
        assert!(
            stdout(&limited).contains("from too few trials to be sure"),
            "{}",
            stdout(&limited)
        );
    }

    if !calm.has_disturbed_trials() {
        check_failure_flags(&calm.folder);
    }

    // Runs under different conditions have no cell in common, so a relative threshold fails.
    let slow = run(&conditions("20ms"), &[H1], 2, &["--seed", "6"]);
    let apart = compare(&calm.folder, &slow.folder, &["--threshold", "p(99)<=9x"]);
    let said = stdout(&apart);
    assert!(
        said.contains("h1 at delay 20ms, loss 0%, only after"),
        "{said}"
    );
    assert!(said.contains("the runs have no cell in common"), "{said}");

    // Thresholds on the later run alone, in `compare` and in `report`.
    if !slow.has_disturbed_trials() && !calm.has_disturbed_trials() {
        assert_eq!(code(&apart), 99, "{said}");
        check_absolute_thresholds(&calm.folder, &slow.folder);
    }

    check_json(&calm.folder);

    let wrong = compare(&calm.folder, &calm.folder, &["--threshold", "p(99)=2x"]);
    assert_eq!(code(&wrong), 2, "{}", stderr(&wrong));
    let nowhere = compare(&calm.folder, Path::new("/nowhere"), &[]);
    assert_eq!(code(&nowhere), 2, "{}", stderr(&nowhere));
    assert!(
        stderr(&nowhere).contains("is not the folder of a run"),
        "{}",
        stderr(&nowhere)
    );
}
