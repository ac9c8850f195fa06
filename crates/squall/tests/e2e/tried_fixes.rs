//! `squall run --try-fix`: the fix of a run's finding becomes an experiment, whose result is in the report, and which a
//! resumed run does not choose again.
//!
//! The downloads are limited by the stream's window: 65,535 bytes in each round trip.

use std::fs;

use serde_json::Value;
use squall_analysis::{Difference, RunSummary};
use squall_base::plan::Plan;
use squall_record::{RunFolder, read_json, read_plan};
use tempfile::TempDir;

use crate::result_files::check;
use crate::support::{
    check_exit_code, read_trials, run_squall, run_until_valid, seat, stderr, stdout, write_recipe,
};

/// The fewest pairs that can prove a difference.
const PAIRS: usize = 6;

const RECIPE: &str = r#"
name = "window"
question = "How long does a download take?"
measure = "response time mean"
repetitions = 6
[load]
kind = "closed"
users = 1
warmup = "0s"
duration = "400ms"
[response]
body = "1MB"
[conditions]
delay = "10ms"
link = "rate 200mbit, queue 1MiB"
[[variant]]
name = "h2c"
path = "client ~h2c~> server"
client = { http2 = { connection_window = "16MiB" } }
"#;

fn summary_of(folder: &RunFolder) -> RunSummary {
    read_json(folder.summary()).expect("summary.json")
}

fn plan_of(folder: &RunFolder) -> Plan {
    read_plan(folder.plan()).expect("plan.json")
}

#[test]
fn larger_window_is_tried_and_shows_its_gain_after_a_resumption_too() {
    let _seat = seat();
    let run = run_until_valid(RECIPE, &["--try-fix"]);
    assert_eq!(run.trials.len(), 3 * PAIRS, "planned, without and with it");
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let (summary, plan) = (summary_of(&folder), plan_of(&folder));
    let [fix] = summary.tried_fixes.as_slice() else {
        panic!("{:?}", summary.tried_fixes);
    };
    assert_eq!(fix.finding, "stream_window");
    assert_eq!(fix.what(), "http2.stream_window = 1MiB on client");
    let last = summary.command.last().map(String::as_str);
    assert_eq!(last, Some("--try-fix=1"));
    let result = &fix.results[0];
    if !run.has_disturbed_trials() {
        assert_eq!(result.comparison.pairs.len(), PAIRS);
        assert_eq!(result.comparison.finding, Difference::Lower, "{result:?}");
        assert!(result.sentence.ends_with("a proven gain by 6 pairs"));
    }
    if let Some(ratio) = result.comparison.ratio {
        assert!(ratio.median < 0.8, "{result:?}");
    }
    let shown = stdout(&run.output);
    let line = "h2c: http2.stream_window = 1MiB on client: mean response time ";
    assert!(
        shown.contains("Tried fixes\n") && shown.contains(line),
        "{shown}"
    );
    let page = fs::read_to_string(run.folder.join("report.html")).expect("the report is there");
    assert!(page.contains("<h2>Tried fixes</h2>"));
    // Both files are as docs/schemas say, here with fixes in them.
    let findings: Value = read_json(folder.findings()).expect("findings.json");
    assert!(
        findings.to_string().contains("\"changes\":[{\"hop\":1"),
        "{findings}"
    );
    check("findings", &findings);
    check(
        "summary",
        &read_json(folder.summary()).expect("summary.json"),
    );
    // The planned variant has its planned trials alone.
    assert_eq!(summary.variants, ["h2c"]);
    assert_eq!(summary.conditions[0].cells[0].trials.len(), PAIRS);

    // The run loses a trial of the fix, and is resumed.
    let lost = plan.fix_trials().last().expect("trials of the fix");
    fs::remove_dir_all(folder.trials().join(lost.folder())).expect("it can be removed");
    let resumed = run_squall(&run.folder, ["run", "--resume", "."]);
    check_exit_code(&resumed, &read_trials(&run.folder));
    assert_eq!(
        read_trials(&run.folder).len(),
        3 * PAIRS,
        "{}",
        stderr(&resumed)
    );
    assert_eq!(plan_of(&folder), plan, "it tries the same fix");
    let after = summary_of(&folder);
    assert_eq!(after.tried_fixes[0].changes, fix.changes);

    let reported = run_squall(&run.folder, ["report", "."]);
    check_exit_code(&reported, &read_trials(&run.folder));
    assert_eq!(
        summary_of(&folder),
        after,
        "the same from the records alone"
    );
}

#[test]
fn dry_run_announces_the_trials_of_fixes() {
    let home = TempDir::new().expect("a temporary folder");
    write_recipe(home.path(), RECIPE);
    let dry = |flag: &str| run_squall(home.path(), ["run", "./recipe.toml", "--dry-run", flag]);
    let said = stdout(&dry("--try-fix=2"));
    assert!(
        said.contains("fixes to try, 2 at most: 24 trials, about "),
        "{said}"
    );
    let said = stdout(&dry("--try-fix"));
    assert!(
        said.contains("fixes to try, 1 at most: 12 trials, about "),
        "{said}"
    );
    let refused = dry("--try-fix=6");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}
