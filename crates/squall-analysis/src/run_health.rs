//! Whether a run can be trusted, in one line: how many of its trials are valid, and how much to doubt.
//!
//! It adds no rule: whether a trial is valid was decided when it was recorded, and what to doubt is in `warning`.

use crate::figure;
use crate::summary::RunSummary;

squall_base::words! {
    /// How far a run can be trusted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HealthGrade {
        /// All planned trials are valid, and there is no warning.
        Sound = "sound",
        /// Some trials are missing or invalid, or there are warnings.
        Doubtful = "doubtful",
        /// All trials of some cell are invalid, no trial says anything, or a program ended by itself.
        Unsound = "unsound",
    }
}

/// A run's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHealth {
    /// How far it can be trusted.
    pub grade: HealthGrade,
    /// The numbers, as a sentence.
    pub sentence: String,
}

impl RunSummary {
    /// How far the run can be trusted.
    pub fn health(&self) -> RunHealth {
        let cells = || self.conditions.iter().flat_map(|of| &of.cells);
        let valid = cells().map(|cell| cell.valid_trials().count() as u64);
        let valid: u64 = valid.sum();
        let planned = self.trials_planned;
        let tried = || cells().filter(|cell| !cell.trials.is_empty());
        let without = tried().filter(|cell| cell.evidence().is_empty());
        let without = without.count() as u64;
        let mut parts = vec![format!(
            "{} of {} valid",
            figure::count(valid),
            figure::counted(planned, "trial", "trials")
        )];
        if without > 0 {
            parts.push(format!(
                "{} of {} have no valid trial",
                figure::count(without),
                figure::counted(
                    tried().count() as u64,
                    "combination of variant and condition",
                    "combinations of variant and condition"
                ),
            ));
        }
        let doubts = self.warnings.len() as u64;
        if doubts > 0 {
            parts.push(figure::counted(doubts, "doubt", "doubts"));
        }
        let is_empty = cells().all(|cell| cell.evidence().is_empty());
        let is_unsound = without > 0 || is_empty || self.has_failed_programs();
        RunHealth {
            grade: match () {
                () if is_unsound => HealthGrade::Unsound,
                () if valid < planned || doubts > 0 => HealthGrade::Doubtful,
                () => HealthGrade::Sound,
            },
            sentence: parts.join("; "),
        }
    }
}
