//! What a run does when a program of a trial, or squall's own process for the trial, dies. `paths` has a program that is
//! killed once.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use squall_base::record::{ProcessEnd, RequestRecord, StationRecord};
use tempfile::TempDir;

use crate::processes::process_below;
use crate::stand_ins::{path_from, write_program};
use crate::support::{
    begin_run, check_exit_code, failed_attempts, only_run, profile, read_trials, recipe,
    run_recipe_in, run_whatever, seat, squall, stderr, stdout, summary_of, wait_for, write_recipe,
};

/// A recipe whose server is a shell script, which serves nothing.
fn script(script: &str, ready: &str) -> String {
    let variant = "[[variant]]\nname = \"x\"\npath = \"client ~h1~> own\"\n";
    let text = recipe(
        "20/s",
        "delay = \"5ms\"",
        &[variant],
        "duration = \"2s\"\ndrain = \"1s\"",
    );
    let station =
        format!("[station.own]\ncommand = \"/bin/sh -c '{script}'\"\nready = \"{ready}\"\n");
    text.replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "") + &station
}

#[test]
fn a_server_that_crashes_in_each_attempt_fails_the_run_and_its_logs_are_kept() {
    let _seat = seat();
    let text = script(
        "echo up; sleep 0.4; echo out of luck; kill -SEGV $$",
        "output up",
    );
    let run = run_whatever(&text, &[]);
    let (said, shown) = (stderr(&run.output), stdout(&run.output));
    assert_eq!(run.output.status.code(), Some(3), "{said}\n{shown}");
    assert!(
        said.contains("own was killed by SIGSEGV after") && said.contains("trying again"),
        "{said}"
    );
    assert!(!said.contains("disturbed"), "{said}");
    assert!(!shown.contains("disturbed"), "{shown}");

    let record = &run.only("x").record;
    let name = record.trial.folder();
    assert_eq!(record.attempt, 2, "it is repeated once");
    let kept = failed_attempts(&run.folder);
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].attempt, kept[0].failure.as_ref()), (1, None));
    for (exits, folder) in [
        (&kept[0].station_exits, kept[0].folder()),
        (&record.station_exits, format!("trials/{name}")),
    ] {
        let [exit] = &exits[..] else {
            panic!("one program ended: {exits:?}");
        };
        let killed = ProcessEnd::Killed {
            signal: "SIGSEGV".to_owned(),
            number: 11,
        };
        assert_eq!((exit.name.as_str(), &exit.end), ("own", &killed));
        assert!(exit.at.as_secs_f64() > 0.3, "{exit:?}");
        assert_eq!(exit.last_lines, ["up", "out of luck"]);
        let log = format!("{folder}/{}", exit.log);
        let text = fs::read_to_string(run.folder.join(&log)).expect("its log");
        assert!(text.contains("out of luck"), "{text}");
    }
    let page = fs::read_to_string(run.folder.join("report.html")).expect("the report");
    for folder in [format!("attempts/{name}-1"), format!("trials/{name}")] {
        let warned = format!("{folder}/stations/1-own/own.log");
        assert!(page.contains(&warned), "the report does not name {warned}");
    }
}

#[test]
fn a_program_that_ends_before_it_is_ready_ends_the_run_and_its_logs_are_kept() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let output = run_recipe_in(home.path(), &script("echo no luck; exit 7", "output up"));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("own ended with code 7 after"), "{said}");
    let folder = only_run(home.path());
    let kept = failed_attempts(&folder);
    assert_eq!(kept.len(), 2, "it is tried twice");
    for attempt in kept {
        assert!(attempt.failure.is_some());
        let [exit] = &attempt.station_exits[..] else {
            panic!("one program ended: {attempt:?}");
        };
        assert_eq!(exit.end, ProcessEnd::Exited { code: 7 });
        let log = folder.join(attempt.folder()).join(&exit.log);
        let text = fs::read_to_string(log).expect("its log");
        assert_eq!(text.trim(), "no luck");
    }
}

#[test]
fn a_dead_worker_process_is_reported_and_its_trial_is_repeated() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let variant = "[[variant]]\nname = \"x\"\npath = \"client ~h1~> server\"\n";
    let text = recipe(
        "50/s",
        "delay = \"5ms\"",
        &[variant],
        "duration = \"1s\"\ndrain = \"1s\"",
    );
    let child = begin_run(home.path(), &text);
    let worker = wait_for("a worker", || process_below(child.id(), "squall"));
    kill(Pid::from_raw(worker), Signal::SIGKILL).expect("it still ran");
    let output = child.wait_with_output().expect("the run ends");
    let (said, shown) = (stderr(&output), stdout(&output));
    let folder = only_run(home.path());
    let trials = read_trials(&folder);
    check_exit_code(&output, &trials);
    assert_eq!(trials.len(), 1);
    assert!(
        said.contains(
            "squall's own process for the trial ended with signal: 9 (SIGKILL); trying again"
        ),
        "{said}"
    );
    assert!(shown.contains("did not finish"), "{shown}");
    let kept = failed_attempts(&folder);
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].attempt, kept[0].station_exits.len()), (1, 0));
}

/// A stand-in for nginx. It prints its version before the run, but kills itself when the process of a trial asks for the
/// version. It serves all the same.
const NGINX: &str = r#"
if [ "$1" = -v ]; then
    grep -qa trial-worker /proc/$PPID/cmdline && kill -KILL $$
    echo 'nginx version: nginx/1.22.1'
    exit
fi
cd "$2" || exit
exec SQUALL serve --h1 "$(sed -n 's/^ *listen \([^ ;]*\).*/\1/p' nginx.conf)" --body 1024
"#;

#[test]
fn a_program_that_is_killed_when_asked_for_its_version_does_not_end_the_run() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let programs = home.path().join("bin");
    let script = NGINX.replace("SQUALL", env!("CARGO_BIN_EXE_squall"));
    write_program(&programs, "nginx", &script);
    let variant = "[[variant]]\nname = \"x\"\npath = \"client ~h1~> nginx\"\n";
    let text = recipe("50/s", "delay = \"2ms\"", &[variant], &profile("500ms", 1));
    write_recipe(home.path(), &text);
    let output = squall(home.path())
        .args(["run", "./recipe.toml"])
        .env("PATH", path_from(&programs))
        .output()
        .expect("squall starts");
    let said = stderr(&output);
    let run = only_run(home.path());
    let trials = read_trials(&run);
    check_exit_code(&output, &trials);
    let [trial] = &trials[..] else {
        panic!("one trial is complete: {said}");
    };
    let mut stations = trial.record.stations.iter();
    let nginx = stations.find(|station| station.name == "nginx");
    let version = nginx.and_then(|station| station.version.as_deref());
    assert_eq!(version, Some(StationRecord::UNKNOWN_VERSION), "{said}");
    assert!(trial.requests.len() > 10, "{said}");
    assert!(trial.measured().all(RequestRecord::succeeded), "{said}");
    let summary = summary_of(&run);
    let warnings = summary["warnings"].as_array().expect("warnings");
    let warning = warnings.iter().find(|it| it["is"] == "unknown_versions");
    let warning = warning.expect("a warning");
    assert_eq!(warning["stations"], json!(["nginx"]), "{warning}");
}
