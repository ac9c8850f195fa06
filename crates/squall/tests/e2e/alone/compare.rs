//! When squall reports a difference: the same variant twice, a run against itself, a run against a worse one,
//! thresholds.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{FinishedRun, H1, bench, recipe, run_recipe, squall, stderr, stdout};

const PROFILE: &str = "warmup = \"200ms\"\nduration = \"1s\"\ndrain = \"1s\"\n";

/// `H1` under another name.
fn named(name: &str) -> String {
    H1.replace("\"h1\"", &format!("\"{name}\""))
}

fn run(conditions: &str, variants: &[&str], repetitions: u32, arguments: &[&str]) -> FinishedRun {
    let profile = format!("{PROFILE}repetitions = {repetitions}");
    run_recipe(&recipe("400/s", conditions, variants, &profile), arguments)
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

fn summary(run: &FinishedRun) -> Value {
    let text = fs::read(run.folder.join("summary.json")).expect("summary.json");
    serde_json::from_slice(&text).expect("summary.json is JSON")
}

/// Six names of one variant under four conditions: 20 comparisons with the first one, of six pairs each.
///
/// How often does a correct method fail here? It shows a difference only if p, after Holm's correction, is at most
/// 0.05. With all sign flips of six pairs, p is at least 2/64, but the smallest of 20 must be at most 0.05/20. So a
/// correct method never shows a difference, "at least 19 of 20" is 20 of 20, and any difference shown is a bug.
/// (Without Holm, 5 % of 20 would break "at least 19" in 26 % of runs.)
///
/// This does not detect a bias that Holm hides, so the test also counts the comparisons that "seem" different by
/// themselves. This requires p = 2/64, with all six pairs of one sign: 1 of 32 comparisons. The five comparisons of a
/// condition share their baseline and are therefore correlated. If the baseline's trials have the ranks u among equals,
/// each comparison has the probability q = prod(u) + prod(1 - u) of seeming different, and E(q^j) = sum of C(j, i) (i!
/// (j-i)! / (j+1)!)^6. Of 20 in four independent conditions, 2 or more then seem different in 14 % of runs, 4 or more
/// in 1 %, and 8 or more in 1 of 70,000. The order alternates from block to block, so a drifting machine makes signs
/// vary rather than agree.
#[test]
fn twenty_comparisons_of_the_same_variant_show_no_difference() {
    const SEEM_AT_MOST: usize = 7;
    let _bench = bench();
    let again: Vec<String> = (2..=6).map(|n| named(&format!("h1 no {n}"))).collect();
    let names: Vec<&str> = [H1]
        .into_iter()
        .chain(again.iter().map(String::as_str))
        .collect();
    // p99 needs 368 requests.
    let profile = "warmup = \"50ms\"\nduration = \"200ms\"\ndrain = \"1s\"\nrepetitions = 6";
    let conditions = "delay = [\"1ms\", \"2ms\"]\nloss = [\"0%\", \"2%\"]";
    let run = run_recipe(&recipe("2000/s", conditions, &names, profile), &[]);
    let summary = summary(&run);
    let (mut comparisons, mut shown, mut seem) = (0, 0, 0);
    for condition in summary["conditions"].as_array().expect("conditions") {
        for verdict in condition["verdicts"].as_array().expect("verdicts") {
            if verdict["is"] != "compared" {
                continue;
            }
            let pairs = verdict["pairs"].as_array().map_or(0, Vec::len);
            comparisons += 1;
            assert_eq!(verdict["is_same_variant"], true);
            match verdict["finding"]["is"].as_str().expect("a finding") {
                "higher" | "lower" => shown += 1,
                "seems_higher" | "seems_lower" => seem += 1,
                "same" | "no_difference" | "within_own_error" => {}
                other => assert!(pairs < 6, "{other}: {verdict}"),
            }
            if pairs < 6 {
                // Disturbed trials are left out, and fewer pairs show nothing.
                assert!(run.has_disturbed_trials(), "{verdict}");
                eprintln!("other work disturbs this machine: {pairs} pairs of 6 are valid");
            }
        }
    }
    let said = stdout(&run.output);
    eprintln!("{comparisons} comparisons: {shown} shown, {seem} seem so");
    assert_eq!(comparisons, 20, "{said}");
    assert_eq!(shown, 0, "{said}");
    assert!(seem <= SEEM_AT_MOST, "{seem} of 20 seem so: {said}");
    assert!(said.contains("A/A: h1 no 6 and h1: "), "{said}");
    assert!(!said.contains("a variant differs from itself"), "{said}");
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

#[test]
fn compare_reports_changes_with_an_exit_code_for_ci() {
    let _bench = bench();
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
            stdout(&limited).contains("of too few trials to be sure"),
            "{}",
            stdout(&limited)
        );
    }

    // Different conditions are different cells; a threshold without a cell fails.
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
        for (limit, expected) in [("med<30", 99), ("med>30", 0), ("errors:count==0", 0)] {
            let compared = compare(&calm.folder, &slow.folder, &["--threshold", limit]);
            assert_eq!(code(&compared), expected, "{limit}: {}", stdout(&compared));
            let mut report = squall(&slow.folder);
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
