//! What failed in a run, as warnings: programs that ended by themselves, attempts that did not finish, and programs that
//! did not report their versions.
//!
//! Unlike a disturbance of the machine, a failure is reported even if the next attempt succeeded. Which attempts are
//! repeated is decided when the run is made; `warning` has all other warnings.

use std::fmt;

use serde::{Deserialize, Serialize};
use squall_base::record::{FailedAttempt, StationExit};

use crate::distinct::distinct;
use crate::figure;
use crate::trial::TrialStats;

/// A program of the path that ended before squall ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedProgram {
    /// The trial's folder.
    pub trial: String,
    /// The variant.
    pub variant: String,
    /// How the program ended, and when.
    pub exit: StationExit,
    /// The path of its log within the run's folder.
    pub log: String,
    /// Whether the attempt has been set aside, so that the trial could be repeated.
    pub is_set_aside: bool,
}

/// An attempt in which squall's own process for the trial failed, with no program to blame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedAttempt {
    /// The trial's folder.
    pub trial: String,
    /// The variant.
    pub variant: String,
    /// What failed.
    pub why: String,
    /// The path of the attempt's folder within the run's.
    pub folder: String,
}

/// Programs that did not report their versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntoldVersions {
    /// The names of their stations.
    pub stations: Vec<String>,
    /// In how many trials.
    pub trials: u64,
}

impl EndedProgram {
    /// The programs that ended by themselves in an attempt that was set aside.
    pub(crate) fn of_attempt(attempt: &FailedAttempt) -> impl Iterator<Item = EndedProgram> {
        attempt.station_exits.iter().map(move |exit| EndedProgram {
            trial: attempt.trial.clone(),
            variant: attempt.variant.clone(),
            exit: exit.clone(),
            log: format!("{}/{}", attempt.folder(), exit.log),
            is_set_aside: true,
        })
    }

    /// The programs that ended by themselves in a trial that has a record.
    pub(crate) fn of_trial(trial: &TrialStats) -> impl Iterator<Item = EndedProgram> {
        trial.station_exits.iter().map(move |exit| EndedProgram {
            trial: trial.folder.clone(),
            variant: trial.variant.clone(),
            exit: exit.clone(),
            log: format!("trials/{}/{}", trial.folder, exit.log),
            is_set_aside: false,
        })
    }
}

impl fmt::Display for EndedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StationExit {
            name,
            end,
            at,
            last_lines,
            ..
        } = &self.exit;
        write!(
            f,
            "{name} {end} in trial {} (variant {}) after {:.2} s; its log, in the run's folder: {}. ",
            self.trial,
            self.variant,
            at.as_secs_f64(),
            self.log,
        )?;
        if !last_lines.is_empty() {
            write!(f, "Its last output: {}. ", last_lines.join(" | "))?;
        }
        f.write_str(if self.is_set_aside {
            "That attempt is left out of all figures. Find out why the program ended: it may do so again under this \
             load."
        } else {
            "The trial is left out. Find out why the program ended before you repeat it."
        })
    }
}

impl UnfinishedAttempt {
    /// What failed in an attempt in which no program ended by itself.
    pub(crate) fn of_attempt(attempt: &FailedAttempt) -> Option<UnfinishedAttempt> {
        let why = attempt.failure.as_ref()?;
        attempt.station_exits.is_empty().then(|| UnfinishedAttempt {
            trial: attempt.trial.clone(),
            variant: attempt.variant.clone(),
            why: why.clone(),
            folder: attempt.folder(),
        })
    }
}

impl fmt::Display for UnfinishedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "An attempt at trial {} (variant {}) did not finish and is left out of all figures: {}. What it left \
             behind is in the run's folder, in {}. Report it if it keeps happening.",
            self.trial, self.variant, self.why, self.folder,
        )
    }
}

impl UntoldVersions {
    /// The programs of these trials that did not report their versions; `None` if all did.
    pub(crate) fn of<'a>(trials: impl Iterator<Item = &'a TrialStats>) -> Option<UntoldVersions> {
        let untold = trials.map(|trial| &trial.unknown_versions);
        let untold: Vec<&Vec<String>> = untold.filter(|names| !names.is_empty()).collect();
        (!untold.is_empty()).then(|| UntoldVersions {
            stations: distinct(untold.iter().flat_map(|names| names.iter().cloned())),
            trials: untold.len() as u64,
        })
    }
}

impl fmt::Display for UntoldVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "The version of {} is unknown in {}: its version command failed. Run that command by hand, and check that \
             the program was not replaced during the run.",
            self.stations.join(" and "),
            figure::counted(self.trials, "trial", "trials"),
        )
    }
}
