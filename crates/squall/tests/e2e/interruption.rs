//! Ctrl-C and kill -9 of the runner and of the worker: nothing is left behind, and the run can continue. A hangup under
//! nohup.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::record::Validity;
use tempfile::TempDir;

use crate::processes::{self, worker_with_client};
use crate::support::{
    H1, H2C_X1, check_exit_code, check_validity, may_keep_awake, only_run, profile, read_trials,
    recipe, seat, squall, stderr, stdout, summary_of, wait_for, write_recipe,
};

/// Longer than a runner takes to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A run of two trials, to be interrupted in the second.
struct Interrupted {
    home: TempDir,
    runner: Child,
    worker: Pid,
}

/// Names the folder of a run in the environment of its processes, so that they can be told from those of other tests.
const OF_RUN: &str = "SQUALL_TEST_RUN";

impl Interrupted {
    /// Starts a run and waits until the link of its second trial is running.
    fn in_second_trial() -> Interrupted {
        let home = TempDir::new().expect("a temporary folder");
        let text = recipe("100/s", "delay = \"1ms\"", &[H1, H2C_X1], &profile("2s", 1));
        write_recipe(home.path(), &text);
        let awake: &[&str] = if may_keep_awake() {
            &["--idle-processors", "awake"]
        } else {
            &[]
        };
        let runner = squall(home.path())
            .args(["run", "./recipe.toml"])
            .args(awake)
            .env(OF_RUN, home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squall starts");
        let worker = wait_for("the second trial's link", || {
            let second = fs::read_dir(home.path().join("runs"))
                .ok()?
                .next()?
                .ok()?
                .path()
                .join("trials");
            let is_second = fs::read_dir(second).ok()?.flatten().any(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("0001-") && name.ends_with(".partial")
            });
            let worker = worker_with_client(runner.id())?;
            is_second.then(|| Pid::from_raw(worker))
        });
        let namespaces = network_namespaces(home.path());
        assert!(namespaces.len() > 1, "the hosts are namespaces");
        Interrupted {
            home,
            runner,
            worker,
        }
    }

    /// Waits until the runner has exited and nothing of the run is left. Returns its output.
    fn ended(self) -> (TempDir, std::process::Output) {
        let started = Instant::now();
        let output = self.runner.wait_with_output().expect("the runner ends");
        assert!(
            started.elapsed() < PATIENCE,
            "the runner took {:?} to end",
            started.elapsed()
        );
        wait_for("the end of its processes and of their namespaces", || {
            network_namespaces(self.home.path())
                .is_empty()
                .then_some(())
        });
        assert!(
            !Path::new("/sys/class/net/squall0").exists(),
            "a device is left"
        );
        (self.home, output)
    }
}

/// The network namespaces of all threads of the run in this folder. A process that has ended has none.
fn network_namespaces(home: &Path) -> BTreeSet<PathBuf> {
    let mark = [OF_RUN.as_bytes(), b"=", home.as_os_str().as_bytes()].concat();
    let is_of_run = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|it| it == mark)
    };
    let tasks = processes::all().filter(is_of_run).flat_map(|pid| {
        fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
    });
    tasks
        .filter_map(|task| fs::read_link(task.path().join("ns/net")).ok())
        .collect()
}

/// Resumes the run and checks that it completes, with both trials.
fn resume(home: &TempDir) {
    let run = only_run(home.path());
    let first_was_valid = read_trials(&run)[0].record.health.validity == Validity::Valid;
    let output = squall(home.path())
        .arg("run")
        .arg("--resume")
        .arg(&run)
        .output()
        .expect("squall starts");
    let trials = read_trials(&run);
    assert_eq!(trials.len(), 2);
    check_exit_code(&output, &trials);
    trials.iter().for_each(check_validity);
    let progress = if first_was_valid {
        "[1/1] h2c x1"
    } else {
        "[2/2] h2c x1"
    };
    assert!(
        stderr(&output).contains(progress),
        "a valid first trial is kept:\n{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("h2c x1"));
    // Without the flag, idle processors do what they did before.
    let said = stderr(&output);
    assert!(!said.contains("trials from different machines"), "{said}");
    let leftovers = fs::read_dir(run.join("trials"))
        .expect("its trials")
        .count();
    assert_eq!(leftovers, 2, "the partial trial is gone");
}

#[test]
fn interrupted_run_reports_its_complete_trials_and_can_be_resumed() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let _seat = seat();
        let run = Interrupted::in_second_trial();
        kill(Pid::from_raw(run.runner.id() as i32), signal).expect("the runner is there");
        let (home, output) = run.ended();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(
            said.contains("1 of 2 trials are complete") && said.contains("squall run --resume"),
            "{said}"
        );
        let shown = stdout(&output);
        assert!(shown.contains("Report: "), "{shown}");
        // Nothing is said about a variant that has no trial.
        let pair = "No pair of valid trials yet: h2c x1 and h1";
        assert!(shown.contains(pair), "{shown}");
        let summary = summary_of(&only_run(home.path()));
        assert_eq!(summary["answer"]["confidence"], "unknown", "{shown}");
        resume(&home);
    }
}

#[test]
fn kill_9_of_the_runner_leaves_nothing_and_loses_only_the_running_trial() {
    let _seat = seat();
    let run = Interrupted::in_second_trial();
    kill(Pid::from_raw(run.runner.id() as i32), Signal::SIGKILL).expect("the runner is there");
    let (home, _) = run.ended();
    resume(&home);
}

#[test]
fn kill_9_of_the_worker_leaves_nothing_and_its_trial_is_repeated() {
    let _seat = seat();
    let run = Interrupted::in_second_trial();
    kill(run.worker, Signal::SIGKILL).expect("the worker is there");
    let (home, output) = run.ended();
    let trials = read_trials(&only_run(home.path()));
    check_exit_code(&output, &trials);
    assert_eq!(trials.len(), 2);
    let said = stderr(&output);
    assert!(
        said.contains("[2/2] h2c x1") && said.contains("(SIGKILL); trying again"),
        "{said}"
    );
}

/// nohup(1) ignores SIGHUP before it starts the program.
#[test]
fn server_under_nohup_ignores_a_hangup() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" serve --h1 0"])
        .arg(squall(home.path()).get_program())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut said = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it talks");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let pid = Pid::from_raw(child.id() as i32);
    for signal in [Signal::SIGHUP, Signal::SIGINT] {
        kill(pid, signal).expect("it is not waited for yet");
    }
    let ended = child.wait().expect("it can be waited for");
    assert!(line.starts_with("listening h1 on "), "{line}");
    let ignored = (status.lines()).find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap_or_default().trim(), 16);
    // Bit n-1 stands for signal n (proc(5)).
    let hangup: u64 = 1 << (Signal::SIGHUP as u64 - 1);
    assert_eq!(ignored.expect("a set of signals") & hangup, hangup);
    // If the server did not ignore SIGHUP, SIGINT would be its second signal and end it with an error.
    assert!(ended.success(), "{ended}");
}
