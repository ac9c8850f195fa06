//! Adds repetitions to a run that is already planned, or even complete.
//!
//! The run gets the trials that a plan with this number of repetitions would have had from the start: the same blocks,
//! with the same seeds and the same order of variants (`recipe` has the rule). Existing trials stay. The recipe is not
//! read again: each cell's settings are taken from its planned trials, and the seed of the run follows from those of
//! its trials.

use squall_base::plan::{Condition, Plan, Trial, Variant};
use thiserror::Error;

use crate::recipe::{MAX_TRIALS, ManyTrials, is_reversed, run_seed, trial_seed};

/// Why a run cannot have that many repetitions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RepetitionsError {
    /// It has more already.
    #[error(
        "each of its cells has {planned} repetitions already, and none is removed: expected at least {planned} repetitions, \
         not {asked}"
    )]
    Fewer {
        /// The number of repetitions that each cell has at least.
        planned: u32,
        /// The requested number.
        asked: u32,
    },
    /// Its seeds do not follow from one seed by the rule of this version.
    #[error(
        "its trials have different seeds than this version of squall assigns, so further trials would not continue them: \
         start a new run"
    )]
    OtherSeeds,
    /// It would have too many trials.
    #[error(transparent)]
    ManyTrials(#[from] ManyTrials),
}

/// The trials of a variant under a condition.
struct Cell<'p> {
    first: &'p Trial,
    repetitions: u32,
}

/// The trials that a plan lacks for this many repetitions of each cell, in the order in which they are run; their indices
/// follow all others of the plan. The additional repetitions of a primary comparison count as repetitions of its cells.
/// Trials of fixes are not repeated.
///
/// # Errors
/// If the plan has more repetitions already, if the seed of its run is not known, or if it would have more than 10,000 trials.
pub fn trials_to_add(plan: &Plan, repetitions: u32) -> Result<Vec<Trial>, RepetitionsError> {
    let conditions = plan.conditions.iter();
    let by_condition: Vec<Vec<Cell<'_>>> = conditions.map(|it| cells(plan, it)).collect();
    let cells = || by_condition.iter().flatten();
    let planned = cells().map(|cell| cell.repetitions).min().unwrap_or(0);
    if repetitions < planned {
        return Err(RepetitionsError::Fewer {
            planned,
            asked: repetitions,
        });
    }
    if repetitions == planned {
        return Ok(Vec::new());
    }
    let lacking = cells().map(|cell| u64::from(repetitions.saturating_sub(cell.repetitions)));
    let present = plan.trials.len() + plan.fix_trials().count();
    let count = present as u64 + lacking.sum::<u64>();
    if count > MAX_TRIALS {
        return Err(RepetitionsError::ManyTrials(ManyTrials {
            profile: plan.profile.clone(),
            count,
        }));
    }
    let seed = seed_of_run(plan).ok_or(RepetitionsError::OtherSeeds)?;
    let indices = plan.trials.iter().chain(plan.fix_trials());
    let last_index = indices.map(|trial| trial.index).max();
    let mut index = last_index.map_or(0, |last| last + 1);
    let mut trials = Vec::new();
    for repetition in planned..repetitions {
        for (condition_index, cells) in (0_u32..).zip(&by_condition) {
            let is_lacking = |cell: &&Cell<'_>| cell.repetitions <= repetition;
            let mut block: Vec<&Cell<'_>> = cells.iter().filter(is_lacking).collect();
            if is_reversed(condition_index, repetition) {
                block.reverse();
            }
            for cell in block {
                trials.push(Trial {
                    index,
                    repetition,
                    seed: trial_seed(seed, condition_index, repetition),
                    ..cell.first.clone()
                });
                index += 1;
            }
        }
    }
    Ok(trials)
}

/// The cells of a condition, in the plan's order of variants.
fn cells<'p>(plan: &'p Plan, condition: &Condition) -> Vec<Cell<'p>> {
    let variants = plan.variants.iter();
    variants
        .filter_map(|variant| cell(plan, variant, condition))
        .collect()
}

/// `None` if the cell has no trial.
fn cell<'p>(plan: &'p Plan, variant: &Variant, condition: &Condition) -> Option<Cell<'p>> {
    let is_own =
        |trial: &&Trial| trial.variant.name == variant.name && trial.condition == *condition;
    let own: Vec<&Trial> = plan.trials.iter().filter(is_own).collect();
    let last = own.iter().map(|trial| trial.repetition).max()?;
    Some(Cell {
        first: own.first()?,
        repetitions: last + 1,
    })
}

/// The seed of the run, if those of all trials follow from it.
fn seed_of_run(plan: &Plan) -> Option<u64> {
    let place = |trial: &Trial| {
        let mut conditions = plan.conditions.iter();
        let place = conditions.position(|condition| *condition == trial.condition)?;
        u32::try_from(place).ok()
    };
    let first = plan.trials.first()?;
    let seed = run_seed(first.seed, place(first)?, first.repetition);
    let follows = |trial: &Trial| {
        place(trial).is_some_and(|place| trial.seed == trial_seed(seed, place, trial.repetition))
    };
    plan.trials.iter().all(follows).then_some(seed)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use squall_base::plan::{ChosenFixes, FixTrials, FixesToTry};

    use super::*;
    use crate::recipe::Recipe;

    const RECIPE: &str = r#"
        name = "repeated"
        question = "Does it help?"
        repetitions = 2
        [load]
        rate = "100/s"
        duration = "1s"
        [conditions]
        delay = ["10ms", "20ms", "30ms"]
        [[variant]]
        name = "a"
        path = "client ~h2~> server"
        [[variant]]
        name = "b"
        path = "client ~h1~> server"
        [[variant]]
        name = "c"
        path = "client ~h2c~> server"
        [profile.all]
        [profile.first]
        primary = { variant = "c", baseline = "a", delay = "20ms" }
        primary_repetitions = 4
    "#;

    fn recipe() -> Recipe {
        crate::parse(RECIPE).unwrap_or_else(|e| panic!("{}", e.render("x", RECIPE)))
    }

    /// The plan that has this many repetitions from the start.
    fn planned(profile: &str, repetitions: u32) -> Plan {
        let count = NonZeroU32::new(repetitions).unwrap();
        let recipe = recipe().with_repetitions(profile, count).unwrap();
        recipe.plan(profile, 7).unwrap()
    }

    #[test]
    fn extended_plan_equals_one_with_these_repetitions_from_the_start() {
        for begun in 1..5 {
            let mut plan = planned("all", begun);
            let more = trials_to_add(&plan, 5).unwrap();
            plan.trials.extend(more);
            assert_eq!(plan, planned("all", 5), "{begun}");
        }
    }

    #[test]
    fn extended_plan_has_the_trials_of_a_primary_comparison_once() {
        let keys = |trials: &[Trial]| {
            let mut keys: Vec<_> = trials
                .iter()
                .map(|trial| {
                    let condition = trial.condition.to_string();
                    (
                        condition,
                        trial.variant.name.clone(),
                        trial.repetition,
                        trial.seed,
                    )
                })
                .collect();
            keys.sort();
            keys
        };
        for asked in [2, 3, 4, 6] {
            let mut plan = recipe().plan("first", 7).unwrap();
            let before = plan.trials.clone();
            plan.trials.extend(trials_to_add(&plan, asked).unwrap());
            assert_eq!(keys(&plan.trials), keys(&planned("first", asked).trials));
            assert!(plan.trials.starts_with(&before), "what it has stays");
            let indices: Vec<u32> = plan.trials.iter().map(|trial| trial.index).collect();
            assert!(
                indices.iter().copied().eq(0..indices.len() as u32),
                "{indices:?}"
            );
        }
    }

    #[test]
    fn added_repetitions_follow_the_trials_of_fixes() {
        let mut plan = planned("all", 1);
        let last = plan.trials.len() as u32 + 1;
        let of_fix = Trial {
            index: last,
            ..plan.trials[0].clone()
        };
        let fix = FixTrials {
            finding: "stream_window".to_owned(),
            title: String::new(),
            variant: "a".to_owned(),
            station: "client".to_owned(),
            changes: Vec::new(),
            original: "a without x".to_owned(),
            fixed: "a + x".to_owned(),
            trials: vec![of_fix],
        };
        plan.fixes = Some(FixesToTry {
            at_most: 1,
            chosen: Some(ChosenFixes {
                tried: vec![fix],
                not_tried: Vec::new(),
            }),
        });
        let more = trials_to_add(&plan, 2).unwrap();
        assert_eq!(more.len(), 9);
        assert_eq!(more[0].index, last + 1);
    }

    #[test]
    fn fewer_repetitions_and_too_many_are_refused() {
        let mut plan = planned("all", 3);
        assert_eq!(trials_to_add(&plan, 3), Ok(Vec::new()));
        let said = trials_to_add(&plan, 2).unwrap_err().to_string();
        assert_eq!(
            said,
            "each of its cells has 3 repetitions already, and none is removed: expected at least 3 repetitions, not 2"
        );
        let said = trials_to_add(&plan, u32::MAX).unwrap_err().to_string();
        assert!(said.ends_with("trials: expected at most 10000"), "{said}");
        plan.trials[4].seed += 1;
        assert_eq!(trials_to_add(&plan, 4), Err(RepetitionsError::OtherSeeds));
    }
}
