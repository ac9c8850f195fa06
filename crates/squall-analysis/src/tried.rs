//! What the fixes that a run tried have gained.
//!
//! Each fix has trials of its own: pairs of the variant as it was and with the fix, with the same seeds and one after the
//! other. They are compared like variants (`verdict`), by the run's leading measure, and corrected for how many of these
//! comparisons there are (`family`). The fixes were chosen by other trials than the ones that are compared, so the choice
//! favours no result. `findings` says which fixes to try; nothing is run here.

use serde::{Deserialize, Serialize};
use squall_base::plan::{Condition, FixTrials, Measure, Plan, SettingChange, listed_changes};

use crate::cell::CellSummary;
use crate::distinct::distinct;
use crate::family::correct_own;
use crate::figure;
use crate::trial::TrialStats;
use crate::value::measure_name;
use crate::verdict::{Comparison, Difference};

/// A fix that a run tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedFix {
    /// The finding's identifier, such as `stream_window`.
    pub finding: String,
    /// The finding's name for people.
    pub title: String,
    /// The variant that shows it.
    pub variant: String,
    /// The station whose settings were changed.
    pub station: String,
    /// What was changed.
    pub changes: Vec<SettingChange>,
    /// What it gained, under each condition under which it was tried.
    pub results: Vec<TriedCondition>,
}

/// What a fix gained under a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedCondition {
    /// The condition.
    pub condition: Condition,
    /// The variant with the fix, compared with the variant as it was.
    pub comparison: Comparison,
    /// The result in words.
    pub sentence: String,
}

/// What the fixes of a plan gained, by their trials. Trials that belong to no fix are left out; a fix may lack trials.
pub fn tried_fixes(plan: &Plan, trials: &[TrialStats]) -> Vec<TriedFix> {
    let measure = plan.measures.first().copied().unwrap_or(Measure::USUAL);
    let fixes = plan.tried_fixes().iter();
    let mut tried: Vec<TriedFix> = fixes.map(|fix| tried_fix(fix, trials, measure)).collect();
    let results = tried.iter_mut().flat_map(|fix| &mut fix.results);
    correct_own(results.map(|result| &mut result.comparison));
    for result in tried.iter_mut().flat_map(|fix| &mut fix.results) {
        result.sentence = sentence(&result.comparison);
    }
    tried
}

fn tried_fix(fix: &FixTrials, trials: &[TrialStats], measure: Measure) -> TriedFix {
    let folders: Vec<String> = fix
        .trials
        .iter()
        .map(squall_base::plan::Trial::folder)
        .collect();
    let own = trials
        .iter()
        .filter(|trial| folders.contains(&trial.folder));
    let own: Vec<&TrialStats> = own.collect();
    let conditions = distinct(fix.trials.iter().map(|trial| &trial.condition));
    let results = conditions.into_iter().map(|condition| {
        let cell = |name: &str| {
            let of_cell = own
                .iter()
                .filter(|it| it.variant == name && it.condition == *condition);
            CellSummary::of(name, condition, of_cell.map(|it| (*it).clone()).collect())
        };
        let (fixed, original) = (cell(&fix.fixed), cell(&fix.original));
        TriedCondition {
            condition: condition.clone(),
            comparison: Comparison::of(&fixed, &original, measure, false),
            sentence: String::new(),
        }
    });
    TriedFix {
        finding: fix.finding.clone(),
        title: fix.title.clone(),
        variant: fix.variant.clone(),
        station: fix.station.clone(),
        changes: fix.changes.clone(),
        results: results.collect(),
    }
}

impl TriedFix {
    /// What was changed where: `http2.stream_window = 1MiB on client`.
    pub fn what(&self) -> String {
        format!("{} on {}", listed_changes(&self.changes), self.station)
    }
}

/// `p99 412 ms -> 118 ms, 0.29x (0.27x to 0.31x), a proven gain by 6 pairs`.
fn sentence(comparison: &Comparison) -> String {
    let unit = comparison.measure.unit();
    let mut text = measure_name(comparison.measure);
    if let Some(values) = comparison.values {
        text += &format!(
            " {} -> {}",
            values.baseline.in_words(unit),
            values.variant.in_words(unit)
        );
    }
    if let Some(ratio) = comparison.ratio {
        text += &format!(", {}", figure::ratio(ratio.median));
        if let Some(interval) = ratio.interval {
            text += &format!(" ({})", interval.in_words());
        }
    }
    let separator = if comparison.values.is_some() {
        ", "
    } else {
        ": "
    };
    text + separator + &certainty(comparison)
}

/// How certain it is that there is a gain, or a loss.
fn certainty(comparison: &Comparison) -> String {
    let pairs = figure::counted(comparison.pairs.len() as u64, "pair", "pairs");
    let is_better_higher = comparison.measure.is_better_higher();
    let direction = comparison.is_higher().map(|is_higher| {
        if is_higher == is_better_higher {
            "gain"
        } else {
            "loss"
        }
    });
    match (comparison.finding, direction) {
        (Difference::Unknown(reason), _) => format!("cannot be compared: {reason}"),
        (Difference::TooFewPairs, _) => format!("not proven: {pairs} cannot prove it"),
        (Difference::SeemsHigher | Difference::SeemsLower, Some(direction)) => {
            format!("a likely {direction} by {pairs}, not proven among all tried fixes")
        }
        (_, Some(direction)) => format!("a proven {direction} by {pairs}"),
        (_, None) => format!("no difference shown by {pairs}"),
    }
}
