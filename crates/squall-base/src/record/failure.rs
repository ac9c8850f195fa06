//! What failed in a trial: programs that ended by themselves, and attempts that were repeated because of that or because
//! squall's own process for them failed.
//!
//! A program of the user that ends during a trial is a result, not a disturbance of the machine, so it is kept even if the
//! next attempt succeeds. Nothing here decides whether an attempt is repeated; `run/` of the binary does. How a whole trial
//! is recorded is in `trial`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ProcessEnd {
    /// It exited by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal killed it.
    Killed {
        /// The signal's name, such as `SIGSEGV`.
        signal: String,
        /// The signal's number on the machine of the run.
        number: i32,
    },
    /// The kernel's report of its end was lost.
    Unknown,
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessEnd::Exited { code } => write!(f, "ended with code {code}"),
            ProcessEnd::Killed { signal, .. } => write!(f, "was killed by {signal}"),
            ProcessEnd::Unknown => f.write_str("ended, and its exit code is not known"),
        }
    }
}

/// A program on the path that ended before squall ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationExit {
    /// Its station's place on the path, from 0 at the client.
    pub place: usize,
    /// Its station's name on the path.
    pub name: String,
    /// The program's file.
    pub program: String,
    /// How it ended.
    pub end: ProcessEnd,
    /// When it ended, from the trial's epoch. Before `load_start`, it ended while the path was being set up.
    #[serde(rename = "at_ns", alias = "at")]
    pub at: Duration,
    /// The last lines of its log, at most eight.
    pub last_lines: Vec<String>,
    /// Its log, as a path within the trial's folder.
    pub log: String,
}

/// An attempt at a trial that was repeated because a program ended by itself, or because squall's own process for the trial
/// failed. Its files are kept in a folder of its own: [`FailedAttempt::folder`]. The content of attempt.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Version of the record's schema (docs/RECORD.md).
    pub schema: u32,
    /// The name of the trial's folder.
    pub trial: String,
    /// The name of its variant.
    pub variant: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The programs that ended by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub station_exits: Vec<StationExit>,
    /// Why squall's own process for the trial failed; `None` if it finished its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl FailedAttempt {
    /// The path of the attempt's folder within the run's: `attempts/0003-h1-25ms-r0-1`.
    pub fn folder(&self) -> String {
        format!("attempts/{}-{}", self.trial, self.attempt)
    }
}
