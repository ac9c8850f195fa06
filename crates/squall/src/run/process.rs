//! Runs the worker process of one trial, seen from the process that starts it: hands over the trial, waits, reports how it
//! failed, and ends it if it is stuck or the user interrupts. What the worker does is in `worker`; `attempts` decides
//! whether a failed attempt is repeated.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use squall_base::plan::{Plan, Trial};
use squall_linux::program;
use squall_peers::client;
use squall_record::RunFolder;

use super::progress::Progress;
use super::worker::assignment::{Assignment, LinkPackets};
use crate::interrupt;

/// A trial that takes this much longer than its load is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// A killed process can need this long to end on a busy machine.
const ORPHANS_END_WITHIN: Duration = Duration::from_secs(10);
/// How often the running trial is checked.
const POLL: Duration = Duration::from_millis(50);
/// How often the trial's progress line is redrawn.
const REDRAW: Duration = Duration::from_millis(500);
/// The exit code of a Rust program whose main thread panicked.
const PANICKED: i32 = 101;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerOutcome {
    /// The trial's folder is complete.
    Complete,
    Interrupted,
    /// It left no complete trial, for this reason.
    Failed(String),
}

/// How the trials of a run are run. It is not part of the plan: a resumed run may run them differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOptions {
    pub(crate) packets: LinkPackets,
    /// Whether idle processors are kept awake.
    pub(crate) has_awake_processors: bool,
    /// Attempts at a trial, until one is not disturbed.
    pub(crate) attempts: NonZeroU32,
}

/// What the trials of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunContext<'a> {
    pub(crate) folder: &'a RunFolder,
    pub(crate) plan: &'a Plan,
    pub(crate) options: RunOptions,
    /// The versions that programs reported before the first trial, by program.
    pub(crate) versions: &'a BTreeMap<String, [u32; 3]>,
}

/// Runs one trial in its own process. Call it from the main thread: the kernel ends the worker when the *thread* that
/// started it ends (prctl(2), PR_SET_PDEATHSIG).
pub(crate) fn run(
    run: &RunContext<'_>,
    trial: &Trial,
    attempt: u32,
    progress: &Progress,
) -> Result<WorkerOutcome> {
    let target = run.folder.trials().join(trial.folder());
    let ourselves = std::env::current_exe().context("cannot find squall's own executable")?;
    let mut worker = Command::new(ourselves)
        .arg("trial-worker")
        .arg(&target)
        .arg("--parent")
        .arg(std::process::id().to_string())
        .arg("--attempt")
        .arg(attempt.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Its own process group, so that Ctrl-C on the terminal reaches only this process.
        .process_group(0)
        .spawn()
        .context("cannot start a worker process")?;
    let assignment = Assignment {
        trial: trial.clone(),
        requests: run.plan.requests.clone(),
        files: run.folder.files(),
        named: run.plan.files.clone(),
        packets: run.options.packets,
        has_awake_processors: run.options.has_awake_processors,
        versions: run.versions.clone(),
    };
    let text = serde_json::to_vec(&assignment).context("cannot write the trial as JSON")?;
    if let Some(mut stdin) = worker.stdin.take() {
        // A worker that dies before reading reports why on stderr, below.
        let _ = stdin.write_all(&text);
    }
    let give_up = Instant::now() + Duration::from(trial.load_time_at_most()) + STUCK_AFTER;
    let mut redraw_at = Instant::now() + REDRAW;
    loop {
        if worker
            .try_wait()
            .context("cannot wait for the worker process")?
            .is_some()
        {
            // First, because an orphan may have the worker's stderr open, which is read to its end.
            program::end_orphans(ORPHANS_END_WITHIN);
            let outcome = judge(worker)?;
            if outcome != WorkerOutcome::Complete {
                remove_leftovers(&target);
            }
            return Ok(outcome);
        }
        if interrupt::is_requested() {
            end(&mut worker);
            remove_leftovers(&target);
            return Ok(WorkerOutcome::Interrupted);
        }
        let now = Instant::now();
        if now >= give_up {
            end(&mut worker);
            remove_leftovers(&target);
            return stuck(worker);
        }
        if now >= redraw_at {
            progress.redraw(trial);
            redraw_at = now + REDRAW;
        }
        thread::sleep(POLL);
    }
}

/// Kills the worker; the kernel then removes everything that the worker created. Processes of its programs that outlive it,
/// such as a browser's, are killed too, so that none writes any more.
fn end(worker: &mut Child) {
    // Both fail only if it has already ended.
    let _ = worker.kill();
    let _ = worker.wait();
    program::end_orphans(ORPHANS_END_WITHIN);
}

/// Removes the leftover files of a load generator of this trial. The other partial records stay until the run is resumed.
fn remove_leftovers(target: &Path) {
    let mut partial = target.as_os_str().to_owned();
    partial.push(".partial");
    let stations = Path::new(&partial).join("stations");
    let folders = std::fs::read_dir(stations).into_iter().flatten().flatten();
    folders.for_each(|folder| client::remove_leftovers(&folder.path()));
}

/// The outcome of a worker that was ended because it was stuck.
fn stuck(worker: Child) -> Result<WorkerOutcome> {
    Ok(match judge(worker)? {
        WorkerOutcome::Failed(said) => WorkerOutcome::Failed(format!(
            "the worker did not finish within {} s after its load and was ended ({said}); this is a bug in squall, or the \
             machine has no processor time to spare: report it if it keeps happening",
            STUCK_AFTER.as_secs()
        )),
        ended => ended,
    })
}

fn judge(worker: Child) -> Result<WorkerOutcome> {
    let output = worker
        .wait_with_output()
        .context("cannot read the output of the worker process")?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(outcome(output.status, &said))
}

/// The outcome of a worker, from its exit status and its stderr.
fn outcome(status: ExitStatus, said: &str) -> WorkerOutcome {
    if status.success() {
        return WorkerOutcome::Complete;
    }
    let said = said.trim().strip_prefix("squall: ").unwrap_or(said.trim());
    WorkerOutcome::Failed(match (said, status.code()) {
        ("", _) => format!("squall's own process for the trial ended with {status}"),
        // It reported an error.
        (said, Some(code)) if code != PANICKED => said.to_owned(),
        // A signal or a panic.
        (said, _) => format!("squall's own process for the trial ended with {status}: {said}"),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_dead_worker_is_described_by_how_it_ended() {
        // Wait statuses as in wait(2): a signal's number, or an exit code times 256.
        let failed = |status, said| match outcome(ExitStatus::from_raw(status), said) {
            WorkerOutcome::Failed(why) => why,
            other => panic!("{other:?}"),
        };
        let killed = failed(9, "");
        assert!(
            killed.contains("squall's own process") && killed.contains("SIGKILL"),
            "{killed}"
        );
        assert_eq!(failed(256, "squall: no space left\n"), "no space left");
        let panicked = failed(101 << 8, "thread 'main' panicked");
        assert!(
            panicked.contains("101") && panicked.contains("panicked"),
            "{panicked}"
        );
        assert_eq!(
            outcome(ExitStatus::from_raw(0), ""),
            WorkerOutcome::Complete
        );
    }
}
