//! `squall run --resume RUN --repetitions N`: a complete run gets more repetitions, and its results cover all of them.

use std::fs;
use std::path::Path;
use std::process::Output;

use squall_analysis::RunSummary;
use squall_record::{RunFolder, read_json, read_plan};
use tempfile::TempDir;

use crate::support::{
    H1, H2C_X1, check_exit_code, only_run, read_trials, run_squall, seat, short_recipe, stderr,
    stdout, write_recipe,
};

/// The folders of the complete trials, with what each trial.json says.
fn trials(folder: &RunFolder) -> Vec<(String, Vec<u8>)> {
    let complete = folder.complete_trials().expect("the trials");
    let mut trials: Vec<(String, Vec<u8>)> = complete
        .iter()
        .map(|trial| {
            let name = trial.root().file_name().expect("a name");
            let record = fs::read(trial.root().join("trial.json")).expect("trial.json");
            (name.to_string_lossy().into_owned(), record)
        })
        .collect();
    trials.sort();
    trials
}

fn resume(run: &Path, repetitions: &str) -> Output {
    run_squall(run, ["run", "--resume", ".", "--repetitions", repetitions])
}

#[test]
fn complete_run_gets_more_repetitions_and_reports_all_of_them() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let text = short_recipe(&[H1, H2C_X1], 1);
    let text = text.replacen("question", "measure = \"response time mean\"\nquestion", 1);
    write_recipe(home.path(), &text);
    let output = run_squall(home.path(), ["run", "./recipe.toml", "--seed", "7"]);
    let run = only_run(home.path());
    check_exit_code(&output, &read_trials(&run));
    // A proof takes six pairs, and the run names the command that adds them.
    let said = stdout(&output);
    let said: Vec<&str> = said.split_whitespace().collect();
    let said = said.join(" ");
    assert!(
        said.contains("Add repetitions with `squall run --resume RUN --repetitions 6`."),
        "{said}"
    );

    let folder = RunFolder::open(&run).expect("a run's folder");
    let begun = trials(&folder);
    let before = read_trials(&run);
    let output = resume(&run, "2");
    check_exit_code(&output, &read_trials(&run));
    let extended = trials(&folder);
    assert_eq!((begun.len(), extended.len()), (2, 4), "{}", stderr(&output));
    // Only a disturbed trial is run again.
    for trial in before.iter().map(|trial| &trial.record) {
        let name = trial.trial.folder();
        let own = |all: &[(String, Vec<u8>)]| all.iter().find(|(of, _)| *of == name).cloned();
        let is_kept = own(&begun) == own(&extended);
        assert!(is_kept || trial.health.validity.is_disturbed(), "{name}");
    }
    let plan = read_plan(folder.plan()).expect("plan.json");
    let order: Vec<(u32, u32, &str)> = (plan.trials.iter())
        .map(|trial| (trial.index, trial.repetition, trial.variant.name.as_str()))
        .collect();
    let expected = [
        (0, 0, "h1"),
        (1, 0, "h2c x1"),
        (2, 1, "h2c x1"),
        (3, 1, "h1"),
    ];
    assert_eq!(order, expected);
    assert_eq!(plan.trials[2].seed, plan.trials[3].seed);
    assert_ne!(plan.trials[2].seed, plan.trials[0].seed);
    let summary: RunSummary = read_json(folder.summary()).expect("summary.json");
    for cell in &summary.conditions[0].cells {
        assert_eq!(cell.trials.len(), 2, "{}", cell.variant);
    }
    let environment = fs::read_to_string(folder.environment()).expect("environment.json");
    let words: Vec<&str> = environment.split_whitespace().collect();
    assert!(
        words.join(" ").contains("\"--repetitions\", \"2\""),
        "{environment}"
    );

    // With as many repetitions as the run has, it is only resumed. With fewer, it is refused, and nothing is removed.
    let output = resume(&run, "2");
    check_exit_code(&output, &read_trials(&run));
    let output = resume(&run, "1");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("each of its cells has 2 repetitions already, and none is removed"),
        "{said}"
    );
    assert_eq!(read_plan(folder.plan()).expect("plan.json"), plan);
}
