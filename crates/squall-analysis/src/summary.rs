//! Lays a run out for a reader: by condition and variant, with the results of its trials.
//!
//! A cell's number is the median over its valid trials of each trial's own number; requests of different trials are never
//! pooled. `verdict` decides which variant is better, `warning` what to doubt.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Condition, Measure, Plan, Primary, Targets, Variant};

use crate::answer::{Answer, answer};
use crate::causes::RunBandTimes;
use crate::crossover::{Crossover, crossovers};
use crate::family::correct;
use crate::quantile::{Quantile, Sample};
use crate::stats::effect::Effect;
use crate::threshold::{Reading, Threshold};
use crate::trial::{Interval, Intervals, TrialStats};
use crate::value::{Value, measure_name};
use crate::verdict::{ComparisonPlan, Verdict, log_nanos, verdicts};
use crate::warning::{Warning, warnings};
use crate::window_rate::WindowRate;

/// One number over the trials of a cell: the median, the range, and how certain the median is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread<T> {
    /// The median over the trials.
    pub median: T,
    /// The smallest of the trials.
    pub low: T,
    /// The largest of the trials.
    pub high: T,
    /// The 95 % interval of the median. With six trials or more, it covers the median over such trials; with a single
    /// trial, the variation by chance within it. `None` for two to five trials, and where a value is not known exactly.
    pub interval: Option<Interval<T>>,
}

/// A figure of a trial's latencies: how to read its value, and its interval within the trial.
struct LatencyColumn {
    value: fn(&TrialStats) -> Option<Quantile>,
    within: fn(&Intervals) -> Option<Interval<Quantile>>,
}

impl Spread<Quantile> {
    /// The spread over the trials that have the value; `None` if no trial has it.
    fn of_column<'a>(
        trials: impl Iterator<Item = &'a TrialStats>,
        column: &LatencyColumn,
    ) -> Option<Spread<Quantile>> {
        let known: Vec<(&TrialStats, Quantile)> = trials
            .filter_map(|trial| Some((trial, (column.value)(trial)?)))
            .collect();
        let sample: Sample = known.iter().map(|(_, value)| *value).collect();
        let interval = match known.as_slice() {
            [(trial, _)] => (column.within)(&trial.intervals),
            _ => {
                let logs = known.iter().map(|(_, value)| value.exact().map(log_nanos));
                let logs: Option<Vec<f64>> = logs.collect();
                let end =
                    |log: f64| Quantile::Exact(Duration::from_nanos(log.exp().round() as u64));
                logs.and_then(|logs| Effect::of_pairs(&logs)?.interval)
                    .map(|(low, high)| Interval {
                        low: end(low),
                        high: end(high),
                    })
            }
        };
        Some(Spread {
            median: sample.median()?,
            low: sample.min()?,
            high: sample.max()?,
            interval,
        })
    }
}

impl Spread<f64> {
    /// The spread of `values`; `None` if there are no values.
    fn of_numbers(values: impl Iterator<Item = f64>) -> Option<Spread<f64>> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread {
            median,
            low,
            high,
            interval: Effect::of_pairs(&sorted)
                .and_then(|effect| effect.interval)
                .map(|(low, high)| Interval { low, high }),
        })
    }
}

/// All trials of one variant under one condition.
///
/// Spreads are over the valid trials, and `None` if no valid trial has the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The variant's name.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// Every trial that has a record, including invalid ones, in order of repetition.
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
    /// The 75th percentile of the response time less the 25th.
    pub interquartile_range: Option<Spread<Quantile>>,
    /// 90th percentile of the response time.
    pub p90: Option<Spread<Quantile>>,
    /// 95th percentile of the response time.
    pub p95: Option<Spread<Quantile>>,
    /// 99th percentile of the response time.
    pub p99: Option<Spread<Quantile>>,
    /// 99.9th percentile of the response time.
    pub p999: Option<Spread<Quantile>>,
    /// The longest response time.
    pub max: Option<Spread<Quantile>>,
    /// Median service time.
    pub service_median: Option<Spread<Quantile>>,
    /// Page times, for a load of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<CellPages>,
    /// Body bytes per second of the transfers.
    #[serde(default)]
    pub throughput_bytes_per_s: Option<Spread<f64>>,
    /// The throughput that flow control allows, to compare with the measured one; `None` if no window limits a transfer, or
    /// no window is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_rate: Option<WindowRate>,
    /// Connections opened.
    pub connections_opened: Option<Spread<f64>>,
    /// Requests per second that the schedule asked for while measuring.
    pub rate_asked_per_s: Option<Spread<f64>>,
    /// Successful requests per second within the measured window.
    pub rate_achieved_per_s: Option<Spread<f64>>,
}

impl CellSummary {
    /// The trials that count as evidence.
    pub fn valid_trials(&self) -> impl Iterator<Item = &TrialStats> + Clone {
        self.trials.iter().filter(|trial| trial.is_valid())
    }

    /// `16.8 Mbit/s, of 17.5 Mbit/s that a window of 65,535 bytes in a round trip of 30 ms allows (0.96x)`.
    pub fn beside_prediction(&self) -> Option<String> {
        let measured = self.throughput_bytes_per_s?.median;
        Some(self.window_rate?.beside(measured))
    }

    /// Those of `measures` that no other field holds: the name of each, and its median over the valid trials in words.
    pub fn measured(&self, measures: &[Measure]) -> Vec<(String, String)> {
        let is_elsewhere = |measure: &Measure| match measure {
            Measure::ResponseTime(_, targets) => *targets == Targets::ALL,
            Measure::PageTime(_) => true,
            _ => false,
        };
        let others = measures.iter().filter(|measure| !is_elsewhere(measure));
        let others = others.map(|&measure| {
            let values = self.valid_trials().filter_map(|trial| trial.value(measure));
            let median = Value::median(values).map(|value| value.in_words(measure.unit()));
            (
                measure_name(measure),
                median.unwrap_or_else(|| "n/a".to_owned()),
            )
        });
        others.collect()
    }

    fn of(variant: &str, condition: &Condition, mut trials: Vec<TrialStats>) -> CellSummary {
        trials.sort_by_key(|trial| trial.repetition);
        let valid = || trials.iter().filter(|trial| trial.is_valid());
        let spread = |value, within| {
            let column = LatencyColumn { value, within };
            Spread::of_column(valid(), &column)
        };
        let plain = |value| {
            let column = LatencyColumn {
                value,
                within: |_| None,
            };
            Spread::of_column(valid(), &column)
        };
        CellSummary {
            variant: variant.to_owned(),
            condition: condition.clone(),
            asked: valid().map(|trial| trial.asked).sum(),
            failed: valid().map(|trial| trial.failed).sum(),
            censored: valid().map(|trial| trial.censored).sum(),
            mean: spread(|trial| trial.mean, |within| within.mean),
            median: spread(|trial| trial.median, |within| within.median),
            interquartile_range: spread(
                |trial| trial.interquartile_range,
                |within| within.interquartile_range,
            ),
            p90: spread(|trial| trial.p90, |within| within.p90),
            p95: spread(|trial| trial.p95, |within| within.p95),
            p99: spread(|trial| trial.p99, |within| within.p99),
            p999: spread(|trial| trial.p999, |within| within.p999),
            max: plain(|trial| trial.max),
            service_median: plain(|trial| trial.service_median),
            pages: CellPages::of(&valid()),
            throughput_bytes_per_s: Spread::of_numbers(
                valid().filter_map(|trial| trial.throughput_bytes_per_s),
            ),
            // Identical in all trials: the plan sets the windows.
            window_rate: valid().find_map(|trial| trial.window_rate),
            connections_opened: Spread::of_numbers(
                valid().map(|trial| f64::from(trial.connections_opened)),
            ),
            rate_asked_per_s: Spread::of_numbers(valid().map(|trial| trial.rate_asked_per_s)),
            rate_achieved_per_s: Spread::of_numbers(valid().map(|trial| trial.rate_achieved_per_s)),
            trials,
        }
    }
}

/// The pages of a cell's valid trials: total counts, and the spread of each trial's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellPages {
    /// Pages of which every request succeeded.
    pub loaded: u64,
    /// Pages with a failed request.
    pub failed: u64,
    /// Pages that were cut off by the end of the load.
    pub unfinished: u64,
    /// Mean page time.
    pub mean: Option<Spread<Quantile>>,
    /// Median page time.
    pub median: Option<Spread<Quantile>>,
    /// 90th percentile of the page time.
    pub p90: Option<Spread<Quantile>>,
    /// 99th percentile of the page time.
    pub p99: Option<Spread<Quantile>>,
    /// The longest page time.
    pub max: Option<Spread<Quantile>>,
}

impl CellPages {
    /// `None` if no trial loads pages.
    fn of<'a>(valid: &(impl Iterator<Item = &'a TrialStats> + Clone)) -> Option<CellPages> {
        let pages = || valid.clone().filter_map(|trial| trial.pages.as_ref());
        pages().next()?;
        let spread = |value| {
            let column = LatencyColumn {
                value,
                within: |_| None,
            };
            Spread::of_column(valid.clone(), &column)
        };
        Some(CellPages {
            loaded: pages().map(|pages| pages.loaded).sum(),
            failed: pages().map(|pages| pages.failed).sum(),
            unfinished: pages().map(|pages| pages.unfinished).sum(),
            mean: spread(|trial| trial.pages.as_ref()?.mean),
            median: spread(|trial| trial.pages.as_ref()?.median),
            p90: spread(|trial| trial.pages.as_ref()?.p90),
            p99: spread(|trial| trial.pages.as_ref()?.p99),
            max: spread(|trial| trial.pages.as_ref()?.max),
        })
    }
}

/// All variants under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionSummary {
    /// The condition.
    pub condition: Condition,
    /// Its cells, in the order of the plan's variants; the first is the baseline.
    pub cells: Vec<CellSummary>,
    /// The verdicts, most important first.
    pub verdicts: Vec<Verdict>,
    /// How many connections it takes, if variants differ only in that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossovers: Vec<Crossover>,
}

impl ConditionSummary {
    /// True if no cell has a trial yet, as after an interrupted run.
    pub fn is_untried(&self) -> bool {
        self.cells.iter().all(|cell| cell.trials.is_empty())
    }
}

/// The environment of the run, as its trials recorded it. A list has several entries if trials differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnvironment {
    /// When the first trial began, in nanoseconds since 1970-01-01 UTC; `None` without trials.
    pub started_unix_ns: Option<u64>,
    /// The kernel's release.
    pub kernels: Vec<String>,
    /// Congestion control as read back from the sockets of both sides.
    pub congestion_controls: Vec<String>,
    /// The seeds of the links.
    pub seeds: Vec<u64>,
}

/// The results of a run, as written to summary.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The recipe's name.
    pub recipe: String,
    /// The question that the recipe asks.
    pub question: String,
    /// The measures that variants are compared by; the first answers the question.
    pub measures: Vec<Measure>,
    /// The comparison that the question is about, if the recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
    /// The answer to the question; `None` for a single variant.
    pub answer: Option<Answer>,
    /// The profile that was run.
    pub profile: String,
    /// The names of the variants; the first is the one that others are compared with.
    pub variants: Vec<String>,
    /// How many trials were planned.
    pub trials_planned: u64,
    /// The environment that the trials recorded.
    pub facts: RunEnvironment,
    /// Each condition, in the plan's order.
    pub conditions: Vec<ConditionSummary>,
    /// What the requests' time was spent on, as far as it is known. The caller, which has the rows, fills it in.
    #[serde(default)]
    pub causes: RunBandTimes,
    /// What a reader should doubt, and what to do about it.
    pub warnings: Vec<Warning>,
    /// The requested thresholds, checked for each cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<CellThreshold>,
}

/// A threshold, checked for one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellThreshold {
    /// The variant.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// The threshold, as it is written.
    pub threshold: String,
    /// The median over the cell's valid trials, in the unit of the threshold; a lower bound if part of it is hidden.
    pub measured: Option<f64>,
    /// True if the threshold certainly holds.
    pub holds: bool,
    /// The result as a sentence.
    pub sentence: String,
}

/// A trial's numbers, to be checked against thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialReadings {
    /// The trial's folder within the run.
    pub folder: String,
    /// The number for each threshold.
    pub readings: Vec<Reading>,
}

impl RunSummary {
    /// `No trials yet: ...` with the conditions that have no trial; `None` if all have some.
    pub fn untried(&self) -> Option<String> {
        let untried = self.conditions.iter().filter(|c| c.is_untried());
        let names: Vec<String> = untried.map(|c| c.condition.to_string()).collect();
        (!names.is_empty()).then(|| format!("No trials yet: {}", names.join("; ")))
    }
}

impl RunSummary {
    /// Checks `thresholds` for every cell that has trials, against the median over its valid trials of each trial's own
    /// number. Each trial has one reading per threshold, in the same order. A cell without a valid trial meets no
    /// threshold.
    pub fn check_thresholds(&mut self, thresholds: &[Threshold], trials: &[TrialReadings]) {
        let cells = self
            .conditions
            .iter()
            .flat_map(|condition| &condition.cells);
        let mut checked_cells = Vec::new();
        for cell in cells.filter(|cell| !cell.trials.is_empty()) {
            for (place, threshold) in thresholds.iter().enumerate() {
                let of_trial = |stats: &TrialStats| {
                    let trial = trials.iter().find(|trial| trial.folder == stats.folder)?;
                    trial.readings.get(place).copied()
                };
                let readings: Vec<Reading> = cell.valid_trials().filter_map(of_trial).collect();
                let checked = threshold.judge(Reading::median(&readings));
                checked_cells.push(CellThreshold {
                    variant: cell.variant.clone(),
                    condition: cell.condition.clone(),
                    threshold: threshold.to_string(),
                    measured: checked.measured,
                    holds: checked.holds,
                    sentence: format!(
                        "{} at {}: {}",
                        cell.variant,
                        cell.condition,
                        checked.sentence(threshold)
                    ),
                });
            }
        }
        self.thresholds = checked_cells;
    }
}

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
    let mut summary = RunSummary {
        recipe: plan.recipe.clone(),
        question: plan.question.clone(),
        measures: plan.measures.clone(),
        primary: plan.primary.clone(),
        answer: None,
        profile: plan.profile.clone(),
        variants: plan
            .variants
            .iter()
            .map(|variant| variant.name.clone())
            .collect(),
        trials_planned: plan.trials.len() as u64,
        facts,
        conditions,
        causes: RunBandTimes::default(),
        warnings: Vec::new(),
        thresholds: Vec::new(),
    };
    let conditions = summary.conditions.iter_mut();
    correct(conditions.flat_map(|condition| &mut condition.verdicts));
    summary.answer = answer(&summary);
    summary.warnings = warnings(&summary);
    summary
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
