//! All trials of one variant under one condition, and each figure's spread over them.
//!
//! A cell's number is the median over its valid trials of each trial's own number; requests of different trials are never
//! pooled. Cells are not compared here: `verdict` does that, and `summary` has the cells of a run.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Condition, Measure, Targets};
use squall_base::record::Validity;

use crate::figures::Interval;
use crate::quantile::{Quantile, Sample};
use crate::stats::effect::Effect;
use crate::trial::{Intervals, TrialStats};
use crate::value::{Value, log_nanos, measure_name};
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

impl Spread<Quantile> {
    /// The median and the range; `None` for an empty sample.
    pub(crate) fn of_sample(sample: &Sample) -> Option<Spread<Quantile>> {
        Some(Spread {
            median: sample.median()?,
            low: sample.min()?,
            high: sample.max()?,
            interval: None,
        })
    }

    /// The spread over the trials that have the value; `None` if no trial has it. `within` is the value's interval within a
    /// trial.
    fn of_column<'a>(
        trials: impl Iterator<Item = &'a TrialStats>,
        value: fn(&TrialStats) -> Option<Quantile>,
        within: fn(&Intervals) -> Option<Interval<Quantile>>,
    ) -> Option<Spread<Quantile>> {
        let known: Vec<(&TrialStats, Quantile)> = trials
            .filter_map(|trial| Some((trial, value(trial)?)))
            .collect();
        let sample: Sample = known.iter().map(|(_, value)| *value).collect();
        let interval = match known.as_slice() {
            [(trial, _)] => within(&trial.intervals),
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
            interval,
            ..Spread::of_sample(&sample)?
        })
    }
}

impl Spread<f64> {
    /// The median and the range; `None` without numbers.
    pub(crate) fn of_sorted(sorted: &[f64]) -> Option<Spread<f64>> {
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Spread {
            median: f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]),
            low,
            high,
            interval: None,
        })
    }

    /// The spread of `values`; `None` if there are no values.
    fn of_numbers(values: impl Iterator<Item = f64>) -> Option<Spread<f64>> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let interval = Effect::of_pairs(&sorted).and_then(|effect| effect.interval);
        Some(Spread {
            interval: interval.map(|(low, high)| Interval { low, high }),
            ..Spread::of_sorted(&sorted)?
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
    #[serde(rename = "mean_ns", alias = "mean")]
    pub mean: Option<Spread<Quantile>>,
    /// Median response time.
    #[serde(rename = "median_ns", alias = "median")]
    pub median: Option<Spread<Quantile>>,
    /// The 75th percentile of the response time less the 25th.
    #[serde(rename = "interquartile_range_ns", alias = "interquartile_range")]
    pub interquartile_range: Option<Spread<Quantile>>,
    /// 90th percentile of the response time.
    #[serde(rename = "p90_ns", alias = "p90")]
    pub p90: Option<Spread<Quantile>>,
    /// 95th percentile of the response time.
    #[serde(rename = "p95_ns", alias = "p95")]
    pub p95: Option<Spread<Quantile>>,
    /// 99th percentile of the response time.
    #[serde(rename = "p99_ns", alias = "p99")]
    pub p99: Option<Spread<Quantile>>,
    /// 99.9th percentile of the response time.
    #[serde(rename = "p999_ns", alias = "p999")]
    pub p999: Option<Spread<Quantile>>,
    /// The longest response time.
    #[serde(rename = "max_ns", alias = "max")]
    pub max: Option<Spread<Quantile>>,
    /// Median service time.
    #[serde(rename = "service_median_ns", alias = "service_median")]
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
    /// Requests per second that were due in the measured phase.
    pub rate_asked_per_s: Option<Spread<f64>>,
    /// Successful requests per second within the measured window.
    pub rate_achieved_per_s: Option<Spread<f64>>,
}

impl CellSummary {
    /// The trials that count as evidence.
    pub fn valid_trials(&self) -> impl Iterator<Item = &TrialStats> + Clone {
        self.trials.iter().filter(|trial| trial.is_valid())
    }

    /// Of the valid trials, the middle one by mean response time; `None` without any.
    pub fn middle_trial(&self) -> Option<&TrialStats> {
        let mut trials: Vec<&TrialStats> = self.valid_trials().collect();
        trials.sort_by_key(|trial| {
            let mean = trial.mean.and_then(Quantile::lower_bound);
            (mean.is_none(), mean)
        });
        let last = trials.len().checked_sub(1)?;
        trials.get(last / 2).copied()
    }

    /// The trials whose figures say something about the variant: the valid ones or, if there are none of those, the ones whose
    /// figures are limits. Empty if all trials are invalid.
    pub fn evidence(&self) -> Vec<&TrialStats> {
        let valid: Vec<&TrialStats> = self.valid_trials().collect();
        if valid.is_empty() {
            let trials = self.trials.iter();
            trials.filter(|trial| trial.validity.is_limited()).collect()
        } else {
            valid
        }
    }

    /// Whether its figures are limits: no trial is valid, and in some the emulated path itself was the bottleneck.
    pub fn is_limited(&self) -> bool {
        self.evidence().iter().any(|trial| !trial.is_valid())
    }

    /// Whether its figures are at best doubtful: no trial is valid or a limit, and some are doubtful.
    pub fn is_doubtful(&self) -> bool {
        let is_doubtful = |trial: &TrialStats| trial.validity.is_doubtful();
        self.evidence().is_empty() && self.trials.iter().any(is_doubtful)
    }

    /// The trials that say most about the cell if none is valid: the limits, or else the doubtful ones, or else all.
    fn best_trials(&self) -> impl Iterator<Item = &TrialStats> {
        let (is_limited, is_doubtful) = (self.is_limited(), self.is_doubtful());
        self.trials.iter().filter(move |trial| {
            (!is_limited || trial.validity.is_limited())
                && (!is_doubtful || trial.validity.is_doubtful())
        })
    }

    /// The cell as it would be if its trials were valid, for a report that marks these figures as doubtful, or as limits;
    /// `None` if a trial is valid, or if there is no trial. Where figures are limits or doubtful, invalid trials stay out of
    /// them. Comparisons never use these figures.
    pub fn as_if_valid(&self) -> Option<CellSummary> {
        if self.trials.is_empty() || self.valid_trials().next().is_some() {
            return None;
        }
        let as_if_valid = |trial: &TrialStats| TrialStats {
            validity: Validity::Valid,
            ..trial.clone()
        };
        let trials = self.best_trials().map(as_if_valid).collect();
        Some(CellSummary::of(&self.variant, &self.condition, trials))
    }

    /// The first reason why a trial is invalid or doubtful, or its figures are limits, as its record has it; `None` if no
    /// trial has such a reason.
    pub fn first_doubt(&self) -> Option<&str> {
        let mut trials = self.best_trials();
        trials.find_map(|trial| trial.validity.reasons().first().map(String::as_str))
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

    pub(crate) fn of(
        variant: &str,
        condition: &Condition,
        mut trials: Vec<TrialStats>,
    ) -> CellSummary {
        trials.sort_by_key(|trial| trial.repetition);
        let valid = || trials.iter().filter(|trial| trial.is_valid());
        let spread = |value, within| Spread::of_column(valid(), value, within);
        let plain = |value| spread(value, |_| None);
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
    #[serde(rename = "mean_ns", alias = "mean")]
    pub mean: Option<Spread<Quantile>>,
    /// Median page time.
    #[serde(rename = "median_ns", alias = "median")]
    pub median: Option<Spread<Quantile>>,
    /// 90th percentile of the page time.
    #[serde(rename = "p90_ns", alias = "p90")]
    pub p90: Option<Spread<Quantile>>,
    /// 99th percentile of the page time.
    #[serde(rename = "p99_ns", alias = "p99")]
    pub p99: Option<Spread<Quantile>>,
    /// The longest page time.
    #[serde(rename = "max_ns", alias = "max")]
    pub max: Option<Spread<Quantile>>,
}

impl CellPages {
    /// `None` if no trial loads pages.
    fn of<'a>(valid: &(impl Iterator<Item = &'a TrialStats> + Clone)) -> Option<CellPages> {
        let pages = || valid.clone().filter_map(|trial| trial.pages.as_ref());
        pages().next()?;
        let spread = |value| Spread::of_column(valid.clone(), value, |_| None);
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
