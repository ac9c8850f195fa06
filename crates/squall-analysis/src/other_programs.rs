//! Trials in which other programs of the machine used the processors while real programs of the path needed them.
//!
//! squall's own threads have priority over other programs, and where they were late after all is part of a trial's health. A
//! real program just waits for a processor, and its wait looks like its own time. So this is a doubt about the run, and no
//! reason to leave out a trial: nothing says how much of that time was the wait. `warning` has all other doubts.

use std::fmt;

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Implementation, Variant};
use squall_base::record::TrialRecord;

use crate::figure;

/// Other programs are reported from this share of all processors on, in percent.
const PERCENT_AT_LEAST: u64 = 5;
/// Less than ten ticks of the kernel's counters may be chance.
const USED_AT_LEAST: Duration = Duration::from_millis(100);

/// What other programs used of the processors in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorsTaken {
    /// The average, in percent of one processor.
    pub used_percent: u64,
    /// How many processors the machine has.
    pub processors: u64,
}

impl ProcessorsTaken {
    /// What they used in a trial; `None` if that was little or is not known, or if all stations are squall's own.
    pub(crate) fn of(record: &TrialRecord) -> Option<ProcessorsTaken> {
        let others = record.health.machine.other_programs?;
        let taken = ProcessorsTaken {
            used_percent: others.percent_of_one(),
            processors: others.processors,
        };
        let is_much = taken.used_percent >= PERCENT_AT_LEAST * taken.processors
            && others.used >= USED_AT_LEAST;
        (is_much && has_real_programs(&record.trial.variant)).then_some(taken)
    }
}

fn has_real_programs(variant: &Variant) -> bool {
    let mut stations = variant.stations.iter();
    stations.any(|station| station.runs != Implementation::Embedded)
}

/// The trials of a run in which real programs may have waited for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorsShared {
    /// How many.
    pub trials: u64,
    /// The trial in which other programs used most.
    pub most: ProcessorsTaken,
}

impl ProcessorsShared {
    /// Sums up what other programs used in these trials; `None` without any.
    pub(crate) fn of(taken: impl Iterator<Item = ProcessorsTaken>) -> Option<ProcessorsShared> {
        let taken: Vec<ProcessorsTaken> = taken.collect();
        let most = taken.iter().max_by_key(|taken| taken.used_percent)?;
        Some(ProcessorsShared {
            trials: taken.len() as u64,
            most: *most,
        })
    }
}

impl fmt::Display for ProcessorsShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "In {} other programs used up to {:.1} of {}: real programs may have waited for a processor. Leave the machine \
             idle while squall runs.",
            figure::counted(self.trials, "trial", "trials"),
            self.most.used_percent as f64 / 100.0,
            figure::counted(self.most.processors, "processor", "processors"),
        )
    }
}
