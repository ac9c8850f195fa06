//! Runs one trial until its record can be kept: decides which attempts are repeated, and keeps the files of failed ones.
//!
//! An attempt is disturbed if the machine spoiled it. It has failed if a program on the path ended by itself, or if
//! squall's own process for it did not finish: that is reported even if the next attempt succeeds. `process` runs the single
//! attempt; squall-analysis words the warnings of the report.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use squall_base::plan::Trial;
use squall_base::record::{FailedAttempt, StationExit, TrialRecord};
use squall_record::{RecordError, RunFolder, SCHEMA, TrialFolder, read_json};

use super::process::{self, RunContext, WorkerOutcome};
use super::progress::Progress;
use super::trial_outcome::trial_outcome;

/// After how many disturbed attempts an invalid or doubtful record of a trial is kept, unless the user says otherwise: a
/// momentary disturbance of the machine is usually gone the next time. The record counts the attempts, so that a reader sees
/// how many each variant needed.
pub(super) const DISTURBED_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).unwrap();
/// After how many failed attempts a trial is given up: a single failure can be chance, but a program that ends each time
/// would be restarted forever.
const FAILED_ATTEMPTS: u32 = 2;

/// How one or several trials ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrialsOutcome {
    /// Each has a record.
    Complete,
    Interrupted,
}

/// Runs one trial until it is valid or has used up its attempts.
///
/// # Errors
/// If squall's own process for the trial failed each time, or a file cannot be read or written.
pub(super) fn run_trial(
    run: &RunContext<'_>,
    trial: &Trial,
    attempts_before: u32,
    progress: &mut Progress,
) -> Result<TrialsOutcome> {
    let (mut number, mut disturbed, mut failed) = (attempts_before, 0, 0);
    loop {
        number += 1;
        progress.begin(trial);
        match process::run(run, trial, number, progress)? {
            WorkerOutcome::Complete => {}
            WorkerOutcome::Interrupted => return Ok(TrialsOutcome::Interrupted),
            WorkerOutcome::Failed(why) => {
                failed += 1;
                let said = keep_unfinished(run.folder, trial, number, &why)?;
                if failed == FAILED_ATTEMPTS {
                    bail!(said);
                }
                progress.repeat(trial, &said, &[]);
                continue;
            }
        }
        let complete = run
            .folder
            .complete_trial(&trial.folder())
            .ok_or_else(|| anyhow!("the worker left no complete trial {}", trial.folder()))?;
        let record = complete.read_record()?;
        let validity = &record.health.validity;
        if !validity.is_disturbed() {
            progress.end(trial, &trial_outcome(&complete)?);
            return Ok(TrialsOutcome::Complete);
        }
        let has_failed = !record.station_exits.is_empty();
        let is_last = if has_failed {
            failed += 1;
            failed == FAILED_ATTEMPTS
        } else {
            disturbed += 1;
            disturbed == run.options.attempts.get()
        };
        match (is_last, has_failed) {
            (true, false) => progress.end(trial, &trial_outcome(&complete)?),
            (true, true) => {
                let said = described(&record.station_exits, complete.root());
                progress.end(trial, &format!("{}; {said}", trial_outcome(&complete)?));
            }
            (false, false) => {
                progress.repeat(trial, "disturbed", validity.reasons());
                complete.discard()?;
            }
            (false, true) => {
                let kept = run.folder.keep_attempt(&attempt_of(&record))?;
                let said = described(&record.station_exits, &kept);
                progress.repeat(trial, &said, validity.reasons());
            }
        }
        if is_last {
            return Ok(TrialsOutcome::Complete);
        }
    }
}

/// Removes an invalid or doubtful trial of an earlier run, so that it can be repeated. Its files are kept if it has failed.
pub(super) fn set_aside(
    folder: &RunFolder,
    complete: TrialFolder,
    record: &TrialRecord,
) -> Result<(), RecordError> {
    if record.station_exits.is_empty() {
        complete.discard()
    } else {
        folder.keep_attempt(&attempt_of(record)).map(drop)
    }
}

/// Describes a complete attempt, from its record.
fn attempt_of(record: &TrialRecord) -> FailedAttempt {
    FailedAttempt {
        schema: SCHEMA,
        trial: record.trial.folder(),
        variant: record.trial.variant.name.clone(),
        attempt: record.attempt,
        station_exits: record.station_exits.clone(),
        failure: None,
    }
}

/// Keeps the files of an attempt that did not finish, and says what failed.
fn keep_unfinished(folder: &RunFolder, trial: &Trial, attempt: u32, why: &str) -> Result<String> {
    let exits = folder.partial_trial(&trial.folder()).station_exits();
    let station_exits: Vec<StationExit> = if exits.is_file() {
        read_json(&exits)?
    } else {
        Vec::new()
    };
    let failed = FailedAttempt {
        schema: SCHEMA,
        trial: trial.folder(),
        variant: trial.variant.name.clone(),
        attempt,
        station_exits,
        failure: Some(why.to_owned()),
    };
    let kept = folder
        .keep_attempt(&failed)
        .with_context(|| why.to_owned())?;
    Ok(if failed.station_exits.is_empty() {
        why.to_owned()
    } else {
        format!("{} ({why})", described(&failed.station_exits, &kept))
    })
}

/// How these programs ended, and where their logs are: below the attempt's `folder`.
fn described(exits: &[StationExit], folder: &Path) -> String {
    let sentence = |exit: &StationExit| {
        format!(
            "{} {} after {:.2} s; its log: {}",
            exit.name,
            exit.end,
            exit.at.as_secs_f64(),
            folder.join(&exit.log).display()
        )
    };
    exits.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;
    use squall_base::record::ProcessEnd;

    use super::*;

    #[test]
    fn a_program_that_crashed_is_named_with_its_signal_and_its_log() {
        let exit = StationExit {
            place: 1,
            name: "nginx".to_owned(),
            program: "/usr/sbin/nginx".to_owned(),
            end: ProcessEnd::Killed {
                signal: "SIGSEGV".to_owned(),
                number: 11,
            },
            at: Duration::from_millis(1_200),
            last_lines: Vec::new(),
            log: "stations/1-nginx/nginx.log".to_owned(),
        };
        assert_eq!(
            described(&[exit], Path::new("runs/x/attempts/0003-v-1")),
            "nginx was killed by SIGSEGV after 1.20 s; its log: runs/x/attempts/0003-v-1/stations/1-nginx/nginx.log"
        );
    }
}
