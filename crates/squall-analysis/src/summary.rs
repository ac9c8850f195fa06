//! A run laid out for a reader: by condition, by variant, with what its trials came to.
//!
//! It takes the median over a cell's valid trials of each trial's own number; it never pools requests of
//! different trials. Which variant is better is `verdict`'s business, what to doubt is `warning`'s.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use squall_base::plan::{Condition, Plan};

use crate::quantile::{Quantile, Sample};
use crate::trial::TrialStats;
use crate::verdict::{Verdict, verdicts};
use crate::warning::{Warning, warnings};

/// A number of each trial of a cell: the middle one and the range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread<T> {
    /// The median over the trials.
    pub median: T,
    /// The smallest of the trials.
    pub low: T,
    /// The largest of the trials.
    pub high: T,
}

impl Spread<Quantile> {
    /// The spread of those values that there are; `None` if there is none.
    fn of_quantiles(values: impl Iterator<Item = Option<Quantile>>) -> Option<Spread<Quantile>> {
        let sample: Sample = values.flatten().collect();
        Some(Spread {
            median: sample.median()?,
            low: sample.min()?,
            high: sample.max()?,
        })
    }
}

impl Spread<f64> {
    /// The spread of `values`; `None` if there is none.
    fn of_numbers(values: impl Iterator<Item = f64>) -> Option<Spread<f64>> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { median, low, high })
    }
}

/// All trials of one variant under one condition.
///
/// Spreads are over the valid trials, and `None` if there is no valid one that has the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The variant's name.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// Every trial that has a record, also the invalid ones, in order of repetition.
    pub trials: Vec<TrialStats>,
    /// Requests of all valid trials.
    pub asked: u64,
    /// Failed requests of all valid trials.
    pub failed: u64,
    /// Unfinished requests of all valid trials.
    pub censored: u64,
    /// Mean response time.
    pub mean: Option<Spread<Quantile>>,
    /// Median response time.
    pub median: Option<Spread<Quantile>>,
    /// 95th percentile of the response time.
    pub p95: Option<Spread<Quantile>>,
    /// 99th percentile of the response time.
    pub p99: Option<Spread<Quantile>>,
    /// The longest response time.
    pub max: Option<Spread<Quantile>>,
    /// Median service time.
    pub service_median: Option<Spread<Quantile>>,
    /// Connections opened.
    pub connections_opened: Option<Spread<f64>>,
    /// Requests a second that the schedule asked for while measuring.
    pub rate_asked_per_s: Option<Spread<f64>>,
    /// Requests a second that succeeded within the measured window.
    pub rate_achieved_per_s: Option<Spread<f64>>,
}

impl CellSummary {
    /// The trials that may be used as evidence.
    pub fn valid_trials(&self) -> impl Iterator<Item = &TrialStats> + Clone {
        self.trials.iter().filter(|trial| trial.is_valid())
    }

    fn of(variant: &str, condition: &Condition, mut trials: Vec<TrialStats>) -> CellSummary {
        trials.sort_by_key(|trial| trial.repetition);
        let valid = || trials.iter().filter(|trial| trial.is_valid());
        let spread =
            |number: fn(&TrialStats) -> Option<Quantile>| Spread::of_quantiles(valid().map(number));
        CellSummary {
            variant: variant.to_owned(),
            condition: condition.clone(),
            asked: valid().map(|trial| trial.asked).sum(),
            failed: valid().map(|trial| trial.failed).sum(),
            censored: valid().map(|trial| trial.censored).sum(),
            mean: spread(|trial| trial.mean),
            median: spread(|trial| trial.median),
            p95: spread(|trial| trial.p95),
            p99: spread(|trial| trial.p99),
            max: spread(|trial| trial.max),
            service_median: spread(|trial| trial.service_median),
            connections_opened: Spread::of_numbers(
                valid().map(|trial| f64::from(trial.connections_opened)),
            ),
            rate_asked_per_s: Spread::of_numbers(valid().map(|trial| trial.rate_asked_per_s)),
            rate_achieved_per_s: Spread::of_numbers(valid().map(|trial| trial.rate_achieved_per_s)),
            trials,
        }
    }
}

/// All variants under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionSummary {
    /// The condition.
    pub condition: Condition,
    /// Its cells, in the order of the plan's variants; the first is the baseline.
    pub cells: Vec<CellSummary>,
    /// What can be said, most important first.
    pub verdicts: Vec<Verdict>,
}

impl ConditionSummary {
    /// True if no cell has any trial yet, as after an interrupted run.
    pub fn is_untried(&self) -> bool {
        self.cells.iter().all(|cell| cell.trials.is_empty())
    }
}

/// What was in force during the run, as the trials recorded it. More than one of a kind if they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// When the first trial began, in nanoseconds since 1970-01-01 UTC; `None` without trials.
    pub started_unix_ns: Option<u64>,
    /// The kernel's release.
    pub kernels: Vec<String>,
    /// Congestion control as read back from the sockets of both sides.
    pub congestion_controls: Vec<String>,
    /// The seeds of the links.
    pub seeds: Vec<u64>,
}

/// summary.json: what a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The recipe's name.
    pub recipe: String,
    /// The question that the recipe asks.
    pub question: String,
    /// The profile that was run.
    pub profile: String,
    /// The names of the variants; the first is the one that others are compared with.
    pub variants: Vec<String>,
    /// How many trials were planned.
    pub trials_planned: u64,
    /// What was in force.
    pub facts: Facts,
    /// Each condition, in the plan's order.
    pub conditions: Vec<ConditionSummary>,
    /// What a reader should doubt, and what to do about it.
    pub warnings: Vec<Warning>,
}

impl RunSummary {
    /// `No trials yet: ...` with each condition that has none; `None` if all have some.
    pub fn untried(&self) -> Option<String> {
        let untried = self.conditions.iter().filter(|c| c.is_untried());
        let names: Vec<String> = untried.map(|c| c.condition.to_string()).collect();
        (!names.is_empty()).then(|| format!("No trials yet: {}", names.join("; ")))
    }
}

/// Lays out the trials of a run. Trials of no cell of the plan are left out; cells may lack trials.
pub fn summarise(plan: &Plan, trials: Vec<TrialStats>) -> RunSummary {
    let facts = facts(&trials);
    let mut left = trials;
    let mut conditions = Vec::with_capacity(plan.conditions.len());
    for condition in &plan.conditions {
        let (here, elsewhere) = left
            .into_iter()
            .partition(|trial| trial.condition == *condition);
        conditions.push(condition_summary(plan, condition, here));
        left = elsewhere;
    }
    let mut summary = RunSummary {
        recipe: plan.recipe.clone(),
        question: plan.question.clone(),
        profile: plan.profile.clone(),
        variants: plan
            .variants
            .iter()
            .map(|variant| variant.name.clone())
            .collect(),
        trials_planned: plan.trials.len() as u64,
        facts,
        conditions,
        warnings: Vec::new(),
    };
    summary.warnings = warnings(&summary);
    summary
}

fn condition_summary(
    plan: &Plan,
    condition: &Condition,
    trials: Vec<TrialStats>,
) -> ConditionSummary {
    let mut left = trials;
    let mut cells = Vec::with_capacity(plan.variants.len());
    for variant in &plan.variants {
        let (own, others) = left
            .into_iter()
            .partition(|trial| trial.variant == variant.name);
        cells.push(CellSummary::of(&variant.name, condition, own));
        left = others;
    }
    ConditionSummary {
        condition: condition.clone(),
        verdicts: verdicts(&cells),
        cells,
    }
}

fn facts(trials: &[TrialStats]) -> Facts {
    let distinct = |names: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .cloned()
            .collect()
    };
    Facts {
        started_unix_ns: trials.iter().map(|trial| trial.started_unix_ns).min(),
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
