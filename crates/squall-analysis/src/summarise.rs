//! Makes a run's summary from its trials: cells, then verdicts, then the answer and the warnings.
//!
//! It sorts the trials into conditions and cells, and leaves the rest to `cell`, `verdict`, `crossover`, `family`, `answer` and
//! `warning`. Causes and thresholds are left out, because they need rows, which the caller has. `summary` says what a summary
//! contains.

use std::collections::BTreeSet;

use squall_base::plan::{Condition, Plan, Variant};
use squall_base::record::FailedAttempt;

use crate::answer::answer;
use crate::causes::RunBandTimes;
use crate::cell::CellSummary;
use crate::crossover::crossovers;
use crate::family::correct;
use crate::summary::{ConditionSummary, RunEnvironment, RunSummary, Schema};
use crate::trial::TrialStats;
use crate::verdict::{ComparisonPlan, verdicts};
use crate::warning::warnings;

/// Lays out the trials of a run. Trials that belong to no cell of the plan are left out; cells may lack trials.
pub fn summarise(plan: &Plan, trials: Vec<TrialStats>) -> RunSummary {
    let facts = facts(&trials);
    let mut remaining = trials;
    let mut conditions = Vec::with_capacity(plan.conditions.len());
    for condition in &plan.conditions {
        let (here, elsewhere) = remaining
            .into_iter()
            .partition(|trial| trial.condition == *condition);
        conditions.push(condition_summary(plan, condition, here));
        remaining = elsewhere;
    }
    let all = conditions.iter_mut();
    correct(all.flat_map(|condition| &mut condition.verdicts));
    let variants = plan.variants.iter().map(|variant| variant.name.clone());
    let variants: Vec<String> = variants.collect();
    let trials_planned = plan.trials.len() as u64;
    RunSummary {
        schema: Schema::of_summary(),
        recipe: plan.recipe.clone(),
        question: plan.question.clone(),
        measures: plan.measures.clone(),
        primary: plan.primary.clone(),
        answer: answer(&plan.measures, &variants, &conditions),
        profile: plan.profile.clone(),
        command: Vec::new(),
        trials_planned,
        facts,
        causes: RunBandTimes::default(),
        warnings: warnings(trials_planned, &variants, &conditions, &[]),
        failed_attempts: Vec::new(),
        thresholds: Vec::new(),
        tried_fixes: Vec::new(),
        fixes_not_tried: Vec::new(),
        variants,
        conditions,
    }
}

impl RunSummary {
    /// Adds the attempts that failed before the run's trials, sorted by trial and attempt, and what a reader should know of
    /// them.
    pub fn add_failed_attempts(&mut self, attempts: Vec<FailedAttempt>) {
        self.failed_attempts = attempts;
        self.warnings = warnings(
            self.trials_planned,
            &self.variants,
            &self.conditions,
            &self.failed_attempts,
        );
    }
}

fn condition_summary(
    plan: &Plan,
    condition: &Condition,
    trials: Vec<TrialStats>,
) -> ConditionSummary {
    let mut remaining = trials;
    let mut cells = Vec::with_capacity(plan.variants.len());
    for variant in &plan.variants {
        let (own, others) = remaining
            .into_iter()
            .partition(|trial| trial.variant == variant.name);
        cells.push(CellSummary::of(&variant.name, condition, own));
        remaining = others;
    }
    let copies = copies(&plan.variants);
    let place = |name: &str| cells.iter().position(|cell| cell.variant == name);
    let primary = plan.primary.as_ref();
    let primary = primary.filter(|primary| primary.condition == *condition);
    let comparison_plan = ComparisonPlan {
        measures: &plan.measures,
        copies: &copies,
        primary: primary
            .and_then(|primary| Some((place(&primary.variant)?, place(&primary.baseline)?))),
    };
    ConditionSummary {
        condition: condition.clone(),
        verdicts: verdicts(&cells, &comparison_plan),
        crossovers: crossovers(&plan.variants, &cells, plan.measures[0]),
        cells,
    }
}

/// For each variant, the position of the first earlier variant that is identical but for its name.
fn copies(variants: &[Variant]) -> Vec<Option<usize>> {
    let is_same = |a: &Variant, b: &Variant| a.stations == b.stations && a.hops == b.hops;
    let first = |(place, variant): (usize, &Variant)| {
        let before = variants[..place].iter();
        before.clone().position(|other| is_same(other, variant))
    };
    variants.iter().enumerate().map(first).collect()
}

fn facts(trials: &[TrialStats]) -> RunEnvironment {
    let distinct = |names: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .cloned()
            .collect()
    };
    RunEnvironment {
        started_unix_ns: trials.iter().map(|trial| trial.started_unix_ns).min(),
        fast_trials: trials.iter().filter(|it| it.fast.contains(&true)).count() as u64,
        kernels: distinct(&mut trials.iter().map(|trial| &trial.kernel)),
        congestion_controls: distinct(
            &mut trials
                .iter()
                .flat_map(|trial| &trial.congestion_control_used),
        ),
        seeds: trials
            .iter()
            .map(|trial| trial.seed)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}
