//! Decides which variant is better by a measure under a condition, by how much, how certain that is, and whether it can be
//! decided at all.
//!
//! Only pairs are compared: trials of one condition and repetition, whose links had the same seed. A variant is
//! "higher" or "lower" only if all of the following hold: the 95 % interval of the median ratio excludes 1; chance
//! alone would do as much in at most 5 % of runs (sign flips, corrected for the run's other comparisons); and the
//! difference exceeds both squall's own measurement error and the noise floor, which is the difference between two
//! copies of one variant, if the recipe has such copies. Otherwise the verdict is at most "no difference larger than".
//! The size of a difference is reported only if both variants carried the load.
//!
//! A pair with a doubtful trial counts only if its values differ by more than what squall itself added to them, and then by
//! what is left of the difference. That depends on the size of a difference, not on which variant it favours, so chance alone
//! still decides the signs of equal variants, and `stats::sign_flip` holds.
//!
//! `stats` computes the numbers, `value` has a trial's values, `family` the order in which a run's comparisons are tested,
//! `sentence` the sentences, and `answer` the answer to the recipe's question.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use squall_base::plan::{Measure, Targets, Unit};
use squall_base::splitmix::splitmix64;

use crate::cell::CellSummary;
use crate::figures::Interval;
use crate::stats::effect::Effect;
use crate::stats::sign_flip::{sign_flip, smallest_sign_flip};
use crate::tail::TailShare;
use crate::trial::TrialStats;
use crate::value::{Value, unit_name};

/// How often chance alone may make a run report a difference that does not exist.
pub const LEVEL: f64 = 0.05;

/// A variant that achieves less than this share of the rate asked for did not carry the load. Requests count if they
/// succeed within the measured window, whenever they were scheduled, so a punctual open-loop generator falls short only if
/// requests fail or pile up. 5 % leaves room for a stall at the window's end.
pub(crate) const CARRIED_SHARE: f64 = 0.95;

/// A statement about a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// Within the measured window, fewer than 95 % of the requests that were due succeeded.
    Overloaded {
        /// Which variant.
        variant: String,
        /// Successful requests per second within the measured window: median over its valid trials.
        achieved_per_s: f64,
        /// Requests per second that were due.
        asked_per_s: f64,
    },
    /// A comparison of two variants.
    Compared(Box<Comparison>),
}

/// A comparison of two variants by a measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The measure.
    pub measure: Measure,
    /// The requested measure, if trials have too few values for it and `measure` stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Measure>,
    /// The unit of all values: `ns`, `bytes_per_s`, `count` or `share` (from 0 to 1). Empty in summaries of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether it is the comparison that the recipe's question is about.
    #[serde(default)]
    pub is_primary: bool,
    /// The variant.
    pub variant: String,
    /// What it is compared with: the plan's first variant, the recipe's choice, or an identical one under another name.
    pub baseline: String,
    /// True if both are the same variant under two names (A/A): any difference between them is noise.
    pub is_same_variant: bool,
    /// The pairs that count, in order of repetition: pairs of valid trials that have a value, pairs with a doubtful trial whose
    /// difference squall itself cannot have made or hidden, and pairs with limits if these leave nothing open or there are no
    /// others.
    pub pairs: Vec<Pair>,
    /// Pairs left out because one of their trials is invalid.
    pub invalid_pairs: u64,
    /// Pairs left out because the emulated path itself was the bottleneck of one of their trials.
    #[serde(default)]
    pub limited_pairs: u64,
    /// Pairs left out because a trial is doubtful, and squall itself may have made or hidden their difference.
    #[serde(default)]
    pub doubtful_pairs: u64,
    /// Which of the two did not carry the load, if either; then there is no ratio.
    pub overload: Option<Overload>,
    /// Both values: medians over the pairs; `None` without pairs.
    pub values: Option<Values>,
    /// How much they differ; `None` if a value is infinite, is zero, or grows with the duration ([`Overload`]).
    pub ratio: Option<Ratio>,
    /// The p-value: how often chance alone would set equal variants as far apart. `None` if it cannot be known.
    pub p: Option<f64>,
    /// The p-value adjusted for all comparisons of the run that are tested with it (`family`).
    pub p_adjusted: Option<f64>,
    /// The number of those comparisons.
    pub comparisons: u64,
    /// Differences up to this ratio, 1 or more, are noise: a variant shows them against itself. `None` if the recipe does not
    /// have any variant twice.
    pub noise_floor: Option<f64>,
    /// The cause of most of the difference; `None` unless the measure is a high percentile of the response
    /// time, if no cause leads, or if causes are not known.
    pub tail: Option<TailShare>,
    /// The conclusion.
    pub finding: Difference,
}

/// Which side of a comparison did not carry the load. Its requests pile up for as long as the load lasts, and its p99 grows
/// with them: the p99 depends on the trial's duration as much as on the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// The variant.
    Variant,
    /// The baseline.
    Baseline,
    /// Neither carried it.
    Both,
}

/// Two trials of the same condition, repetition and seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Which repetition.
    pub repetition: u32,
    /// The value of the variant's trial.
    pub variant: Value,
    /// The value of the baseline's trial.
    pub baseline: Value,
    /// Our measurement errors in both trials, added up, in the unit of the values.
    pub own_error: f64,
    /// Whether a trial is doubtful: the pair counts with the values' difference less `own_error`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_doubtful: bool,
    /// Whether the emulated path itself was the bottleneck of a trial, so that its value is a limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_limited: bool,
}

/// What a single pair shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairResult {
    /// The variant's value is higher, beyond our own error.
    Higher,
    /// The variant's value is lower, beyond our own error.
    Lower,
    /// The difference is within our own error.
    Same,
    /// Unfinished or failed requests, or limits, hide which is higher.
    Hidden,
}

/// The values of a comparison: medians over the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// The variant's.
    pub variant: Value,
    /// The baseline's.
    pub baseline: Value,
}

/// Ratios of the variant's value to the baseline's, over the pairs.
///
/// If `bound` is set, unfinished or failed requests hide part of a value, and the ratios are only limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median over the pairs.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// True if some value is only a lower bound.
    pub bound: bool,
    /// The 95 % interval of the median; `None` below six pairs, and for limits.
    pub interval: Option<Interval<f64>>,
    /// The minimum detectable effect: the smallest ratio above 1 that this many such pairs show in 4 of 5 runs, and that our
    /// own error does not hide. `None` for one pair, and for limits.
    pub least_visible: Option<f64>,
}

/// What the pairs of a comparison show together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Difference {
    /// A higher value.
    Higher,
    /// A lower value.
    Lower,
    /// A higher value, if this were the only comparison. Among all of them, chance alone shows as much too often.
    SeemsHigher,
    /// A lower value, if this were the only comparison.
    SeemsLower,
    /// There are so few pairs that chance could produce whatever they show.
    TooFewPairs,
    /// No pair shows a difference beyond our own error.
    Same,
    /// A difference, but no larger than our own error.
    WithinOwnError,
    /// A difference, but no larger than the noise floor.
    WithinNoise,
    /// No difference that chance would not show as well.
    NoDifference,
    /// Some values are only bounds or infinite, so the pairs show only a direction, and they disagree on it.
    Disagree,
    /// Nothing can be concluded.
    Unknown(UnknownReason),
}

/// Why nothing can be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum UnknownReason {
    /// There is no pair of valid trials.
    NoPair,
    /// Not every pair has the requests, pages or exchanges that the measure needs.
    TooFewRequests,
    /// Unfinished or failed requests hide which value is higher.
    Hidden,
    /// The emulated path itself was the bottleneck, and the limits of both values leave open which is higher.
    Limited,
    /// All pairs are doubtful, and squall itself may have made or hidden their differences.
    Doubtful,
}

impl Pair {
    /// What this pair shows.
    pub fn result(&self) -> PairResult {
        use Value::{AtLeast, AtMost, Exact, Never};
        match (self.variant, self.baseline) {
            (Exact(a) | AtLeast(a), Exact(b) | AtMost(b)) if a > b + self.own_error => {
                PairResult::Higher
            }
            (Exact(a) | AtMost(a), Exact(b) | AtLeast(b)) if b > a + self.own_error => {
                PairResult::Lower
            }
            (Exact(_), Exact(_)) => PairResult::Same,
            (Never, Exact(_) | AtMost(_)) => PairResult::Higher,
            (Exact(_) | AtMost(_), Never) => PairResult::Lower,
            _ => PairResult::Hidden,
        }
    }

    fn is_hidden(&self) -> bool {
        self.result() == PairResult::Hidden
    }

    fn of(measure: Measure, variant: &TrialStats, baseline: &TrialStats) -> Option<Pair> {
        Some(Pair {
            repetition: variant.repetition,
            variant: variant.value(measure)?,
            baseline: baseline.value(measure)?,
            own_error: variant.own_error_of(measure) + baseline.own_error_of(measure),
            is_doubtful: [variant, baseline]
                .iter()
                .any(|trial| trial.validity.is_doubtful()),
            is_limited: measure.unit() != Unit::Count
                && [variant, baseline]
                    .iter()
                    .any(|trial| trial.validity.is_limited()),
        })
    }

    /// Whether what squall itself added to the values may have made or hidden their difference.
    fn is_open_to_doubt(&self) -> bool {
        let is_clear = matches!(self.result(), PairResult::Higher | PairResult::Lower);
        self.is_doubtful && !(is_clear && self.own_error.is_finite())
    }

    /// Both values as they count: in a doubtful pair, the higher one is reduced by all that squall itself may have added.
    fn counted(&self) -> (Value, Value) {
        match self.result() {
            PairResult::Higher if self.is_doubtful => {
                (self.variant.less(self.own_error), self.baseline)
            }
            PairResult::Lower if self.is_doubtful => {
                (self.variant, self.baseline.less(self.own_error))
            }
            _ => (self.variant, self.baseline),
        }
    }

    /// The logarithm of the ratio of both values' known parts; `None` if either is infinite or zero.
    fn log_ratio(&self) -> Option<f64> {
        let (variant, baseline) = self.counted();
        Some(variant.log()? - baseline.log()?)
    }

    /// The logarithm of the ratio, if both values are known exactly.
    pub(crate) fn exact_log_ratio(&self) -> Option<f64> {
        self.variant.exact()?;
        self.baseline.exact()?;
        self.log_ratio()
    }

    /// How much further apart the values are than our own error; negative if they are closer. `None` if either is infinite.
    fn beyond_error(&self) -> Option<f64> {
        let (a, b) = (self.variant.bound()?, self.baseline.bound()?);
        Some((a - b).abs() - self.own_error)
    }
}

impl Ratio {
    /// `effect` is the effect of the pairs, if all of them are exact.
    pub(crate) fn of(pairs: &[Pair], effect: Option<&Effect>) -> Option<Ratio> {
        let logs: Vec<f64> = pairs.iter().map(Pair::log_ratio).collect::<Option<_>>()?;
        let end = |pick: fn(f64, f64) -> f64| logs.iter().copied().reduce(pick).map(f64::exp);
        let interval = effect.and_then(|effect| effect.interval);
        Some(Ratio {
            median: crate::stats::effect::median(&logs)?.exp(),
            low: end(f64::min)?,
            high: end(f64::max)?,
            bound: effect.is_none(),
            interval: interval.map(Interval::of_logs),
            least_visible: effect
                .and_then(|effect| effect.least_visible)
                .map(|least| hidden_by_own_error(pairs).max(least.exp())),
        })
    }

    /// `at least ` or `at most ` if the ratio is only a limit, otherwise empty.
    pub(crate) fn limit(&self) -> &'static str {
        match (self.bound, self.median > 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        }
    }

    /// The ratio or its inverse, whichever is above 1.
    pub(crate) fn size(&self) -> f64 {
        self.median.max(1.0 / self.median)
    }

    /// The largest difference, as a ratio above 1, that the pairs cannot rule out: the minimum detectable effect or the far
    /// end of the interval, whichever is larger.
    fn largest_hidden(&self) -> Option<f64> {
        let interval = self.interval?;
        let ends = interval.high.max(1.0 / interval.low);
        Some(self.least_visible?.max(ends))
    }
}

/// The largest difference that our own error may hide in one of these pairs, as a ratio of at least 1.
fn hidden_by_own_error(pairs: &[Pair]) -> f64 {
    let ratios = pairs.iter().map(|pair| {
        let values = [pair.variant, pair.baseline].into_iter();
        let lower = values.filter_map(Value::bound).reduce(f64::min);
        1.0 + pair.own_error / lower.unwrap_or(0.0).max(1.0)
    });
    ratios.fold(1.0, f64::max)
}

impl Overload {
    pub(crate) fn of(variant: &CellSummary, baseline: &CellSummary) -> Option<Overload> {
        match (overloaded(variant), overloaded(baseline)) {
            (Some(_), Some(_)) => Some(Overload::Both),
            (Some(_), None) => Some(Overload::Variant),
            (None, Some(_)) => Some(Overload::Baseline),
            (None, None) => None,
        }
    }
}

impl Difference {
    /// What the pairs show by themselves, and the p-value of that. The other comparisons and the noise are not yet
    /// considered.
    pub(crate) fn of(
        pairs: &[Pair],
        effect: Option<&Effect>,
        seed: u64,
    ) -> (Difference, Option<f64>) {
        let all = |result| pairs.iter().all(|pair| pair.result() == result);
        let one_way = all(PairResult::Higher) || all(PairResult::Lower);
        let is_few = smallest_sign_flip(pairs.len()) > LEVEL;
        if pairs.is_empty() {
            return (Difference::Unknown(UnknownReason::NoPair), None);
        }
        if let Some(hidden) = pairs.iter().find(|pair| pair.is_hidden()) {
            let reason = if hidden.is_limited {
                UnknownReason::Limited
            } else {
                UnknownReason::Hidden
            };
            return (Difference::Unknown(reason), None);
        }
        let Some(effect) = effect else {
            // Lower bounds and infinite values show only the direction: this is the sign test, for pairs that all agree.
            let p = smallest_sign_flip(pairs.len());
            return match () {
                () if all(PairResult::Same) => (Difference::Same, None),
                () if !one_way => (Difference::Disagree, None),
                () if is_few => (Difference::TooFewPairs, Some(p)),
                () if all(PairResult::Higher) => (Difference::Higher, Some(p)),
                () => (Difference::Lower, Some(p)),
            };
        };
        let logs: Vec<f64> = pairs.iter().filter_map(Pair::log_ratio).collect();
        let p = sign_flip(&logs, seed);
        let beyond: Vec<f64> = pairs.iter().filter_map(Pair::beyond_error).collect();
        let is_beyond = crate::stats::effect::median(&beyond).is_some_and(|ns| ns > 0.0);
        let finding = match Difference::of_interval(effect.interval, is_few, p) {
            _ if all(PairResult::Same) => Difference::Same,
            Difference::Higher | Difference::Lower if !is_beyond => Difference::WithinOwnError,
            finding => finding,
        };
        (finding, Some(p))
    }

    /// What an effect shows, by its interval and its p-value. `is_few`: there are so few runs that chance could produce
    /// whatever they show.
    pub(crate) fn of_interval(interval: Option<(f64, f64)>, is_few: bool, p: f64) -> Difference {
        match interval.filter(|_| !is_few) {
            None => Difference::TooFewPairs,
            Some((low, high)) if (low <= 0.0 && high >= 0.0) || p > LEVEL => {
                Difference::NoDifference
            }
            Some((low, _)) if low > 0.0 => Difference::Higher,
            Some(_) => Difference::Lower,
        }
    }
}

impl Comparison {
    /// Compares two cells of one condition by a measure, or by a substitute that all of their trials have.
    pub(crate) fn of(
        variant: &CellSummary,
        baseline: &CellSummary,
        requested: Measure,
        is_same_variant: bool,
    ) -> Comparison {
        let matched = matched_trials(variant, baseline);
        let usable = matched
            .iter()
            .filter(|(a, b)| !a.validity.is_invalid() && !b.validity.is_invalid());
        let usable: Vec<TrialPair<'_>> = usable.copied().collect();
        let measure = first_available(requested, &usable);
        let compared = ComparedPairs::of(measure, &usable);
        let logs = compared.pairs.iter().map(Pair::exact_log_ratio);
        let logs: Option<Vec<f64>> = logs.collect();
        let effect = logs.and_then(|logs| Effect::of_pairs(&logs));
        let (finding, p) = compared.finding(effect.as_ref(), !usable.is_empty());
        let ComparedPairs { pairs, trials, .. } = compared;
        // Only times grow while requests pile up.
        let overload = Overload::of(&with_rates(variant), &with_rates(baseline))
            .filter(|_| measure.unit() == Unit::Time);
        let median = |value: fn(&Pair) -> Value| Value::median(pairs.iter().map(value));
        let values = median(|pair| pair.variant).zip(median(|pair| pair.baseline));
        let ratio = match (overload, finding) {
            (Some(_), _) | (_, Difference::Unknown(_)) => None,
            _ => Ratio::of(&pairs, effect.as_ref()),
        };
        let is_shorter = values.is_some_and(|(variant, baseline)| {
            variant.bound() < baseline.bound() && variant.bound().is_some()
        });
        let tail = match measure {
            // The causes are those of requests to all targets; they would not explain a subset of the targets.
            Measure::ResponseTime(statistic, Targets::ALL) => {
                let tails = trials.iter().map(|(a, b)| {
                    let (a, b) = (a.tails.at(statistic), b.tails.at(statistic));
                    if is_shorter { (b, a) } else { (a, b) }
                });
                TailShare::of(&tails.collect::<Vec<_>>())
            }
            _ => None,
        };
        Comparison {
            measure,
            instead_of: (measure != requested).then_some(requested),
            unit: unit_name(measure.unit()).to_owned(),
            is_primary: false,
            variant: variant.variant.clone(),
            baseline: baseline.variant.clone(),
            is_same_variant,
            invalid_pairs: (matched.len() - usable.len()) as u64,
            limited_pairs: compared.limited,
            doubtful_pairs: compared.doubtful,
            overload,
            values: values.map(|(variant, baseline)| Values { variant, baseline }),
            ratio,
            p,
            p_adjusted: None,
            comparisons: 0,
            noise_floor: None,
            tail,
            finding,
            pairs,
        }
    }

    pub(crate) fn requested_measure(&self) -> Measure {
        self.instead_of.unwrap_or(self.measure)
    }

    /// False if no pair of trials is valid, so that nothing is compared.
    pub(crate) fn has_valid_pair(&self) -> bool {
        self.finding != Difference::Unknown(UnknownReason::NoPair)
    }

    /// Whether the variant's value is the higher one; `None` if neither was found to be.
    pub(crate) fn is_higher(&self) -> Option<bool> {
        match self.finding {
            Difference::Higher | Difference::SeemsHigher => Some(true),
            Difference::Lower | Difference::SeemsLower => Some(false),
            _ => None,
        }
    }

    /// The largest difference, as a ratio above 1, that may exist undetected: one that the pairs cannot rule out, that our
    /// own error may hide, or that is no more than noise. `None` if there is no interval.
    pub fn largest_hidden(&self) -> Option<f64> {
        let by_pairs = self.ratio?.largest_hidden()?;
        let noise = self.noise_floor.unwrap_or(1.0);
        Some(hidden_by_own_error(&self.pairs).max(by_pairs).max(noise))
    }

    /// How much equal variants differ, from an A/A comparison: the end of the interval that is further from 1, or of the
    /// pairs' range if there are too few pairs for an interval.
    fn noise(&self) -> Option<f64> {
        let ratio = self.ratio.filter(|ratio| !ratio.bound)?;
        let (low, high) = match ratio.interval {
            Some(interval) => (interval.low, interval.high),
            None => (ratio.low, ratio.high),
        };
        Some(high.max(1.0 / low))
    }

    /// Withdraws a finding that does not exceed the noise floor.
    fn withdraw_within_noise(&mut self, floor: f64) {
        self.noise_floor = Some(floor);
        let logs: Vec<f64> = self.pairs.iter().filter_map(Pair::log_ratio).collect();
        let size = crate::stats::effect::median(&logs).map(|log| log.abs().exp());
        if matches!(self.finding, Difference::Higher | Difference::Lower)
            && logs.len() == self.pairs.len()
            && size.is_some_and(|size| size <= floor)
        {
            self.finding = Difference::WithinNoise;
        }
    }

    /// Withdraws a finding that this many comparisons show by chance alone.
    pub(crate) fn apply_correction(&mut self, p_adjusted: f64, comparisons: usize) {
        self.p_adjusted = Some(p_adjusted);
        self.comparisons = comparisons as u64;
        if p_adjusted > LEVEL {
            self.finding = match self.finding {
                Difference::Higher => Difference::SeemsHigher,
                Difference::Lower => Difference::SeemsLower,
                finding => finding,
            };
        }
    }
}

/// A variant's trial and that of its baseline.
pub(crate) type TrialPair<'a> = (&'a TrialStats, &'a TrialStats);

/// The pairs that are compared, with their trials, and how many were left out.
pub(crate) struct ComparedPairs<'a> {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) trials: Vec<TrialPair<'a>>,
    /// Pairs left out because the emulated path itself was the bottleneck. They count if their limits leave nothing open, or if
    /// there are no others.
    limited: u64,
    /// Pairs left out because squall itself may have made or hidden their difference.
    pub(crate) doubtful: u64,
}

impl<'a> ComparedPairs<'a> {
    pub(crate) fn of(measure: Measure, trials: &[TrialPair<'a>]) -> ComparedPairs<'a> {
        let with_value = trials
            .iter()
            .filter_map(|(a, b)| Some((Pair::of(measure, a, b)?, (*a, *b))));
        let mut all: Vec<(Pair, _)> = with_value.collect();
        let count = all.len();
        all.retain(|(it, _)| !it.is_open_to_doubt());
        let without_doubt = all.len();
        let has_open_limit = all.iter().any(|(it, _)| it.is_limited && it.is_hidden());
        if has_open_limit && all.iter().any(|(it, _)| !it.is_limited) {
            all.retain(|(it, _)| !it.is_limited);
        }
        let limited = (without_doubt - all.len()) as u64;
        let (pairs, trials) = all.into_iter().unzip();
        ComparedPairs {
            pairs,
            trials,
            limited,
            doubtful: (count - without_doubt) as u64,
        }
    }

    /// What the pairs show, and the p-value of that. `has_trials`: there are pairs of trials, with or without a value.
    fn finding(&self, effect: Option<&Effect>, has_trials: bool) -> (Difference, Option<f64>) {
        if self.pairs.is_empty() && self.doubtful > 0 {
            return (Difference::Unknown(UnknownReason::Doubtful), None);
        }
        if self.pairs.is_empty() && has_trials {
            return (Difference::Unknown(UnknownReason::TooFewRequests), None);
        }
        // A seed derived from the pairs: the same pairs always yield the same numbers.
        let seed = self.trials.iter();
        let seed = seed.fold(self.pairs.len() as u64, |seed, (a, _)| {
            splitmix64(seed, a.seed)
        });
        Difference::of(&self.pairs, effect, seed)
    }
}

/// The cell, with the rates of its doubtful trials if it has no better ones.
pub(crate) fn with_rates(cell: &CellSummary) -> Cow<'_, CellSummary> {
    match cell.as_if_valid() {
        Some(shown) if cell.is_doubtful() => Cow::Owned(shown),
        _ => Cow::Borrowed(cell),
    }
}

/// The trials of two cells that have the same repetition and seed.
fn matched_trials<'a>(variant: &'a CellSummary, baseline: &'a CellSummary) -> Vec<TrialPair<'a>> {
    variant
        .trials
        .iter()
        .filter_map(|a| {
            let same = |b: &&TrialStats| b.repetition == a.repetition && b.seed == a.seed;
            Some((a, baseline.trials.iter().find(same)?))
        })
        .collect()
}

/// The first of a measure and its substitutes for which all of these trials have a value; `requested` if none
/// qualifies.
fn first_available(requested: Measure, pairs: &[TrialPair<'_>]) -> Measure {
    let has = |trial: &TrialStats, measure: Measure| trial.value(measure).is_some();
    let all_have = |measure: &Measure| {
        let mut trials = pairs.iter().flat_map(|(a, b)| [a, b]);
        !pairs.is_empty() && trials.all(|trial| has(trial, *measure))
    };
    let candidates = requested.with_substitutes();
    candidates.into_iter().find(all_have).unwrap_or(requested)
}

/// What to compare under a condition.
pub(crate) struct ComparisonPlan<'a> {
    /// The measures, the leading one first.
    pub(crate) measures: &'a [Measure],
    /// For each cell, the position of an earlier cell with the same variant, if any.
    pub(crate) copies: &'a [Option<usize>],
    /// The positions of the primary comparison's variant and baseline, if it is under this condition.
    pub(crate) primary: Option<(usize, usize)>,
}

/// The verdicts on the cells of one condition: first the variants that did not carry the load, then for each measure the
/// primary comparison and each variant against the first, or against the one that it is a copy of.
pub(crate) fn verdicts(cells: &[CellSummary], plan: &ComparisonPlan<'_>) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = cells.iter().filter_map(overloaded).collect();
    for (place, measure) in plan.measures.iter().enumerate() {
        let mut compared = compare_cells(cells, *measure, plan, place == 0);
        let noise = compared
            .iter()
            .filter(|comparison| comparison.is_same_variant);
        if let Some(floor) = noise.filter_map(Comparison::noise).reduce(f64::max) {
            let others = compared
                .iter_mut()
                .filter(|comparison| !comparison.is_same_variant);
            others.for_each(|comparison| comparison.withdraw_within_noise(floor));
        }
        let compared = compared.into_iter().map(Box::new);
        verdicts.extend(compared.map(Verdict::Compared));
    }
    verdicts
}

fn compare_cells(
    cells: &[CellSummary],
    measure: Measure,
    plan: &ComparisonPlan<'_>,
    is_leading: bool,
) -> Vec<Comparison> {
    let mut compared = Vec::new();
    if let Some((variant, baseline)) = plan.primary {
        let (variant, baseline) = (&cells[variant], &cells[baseline]);
        compared.push(Comparison {
            is_primary: is_leading,
            ..Comparison::of(variant, baseline, measure, false)
        });
    }
    for (place, copy) in plan.copies.iter().enumerate().skip(1) {
        let baseline = copy.unwrap_or(0);
        let is_there = plan
            .primary
            .is_some_and(|primary| [(place, baseline), (baseline, place)].contains(&primary));
        if !is_there {
            let (cell, baseline) = (&cells[place], &cells[baseline]);
            compared.push(Comparison::of(cell, baseline, measure, copy.is_some()));
        }
    }
    compared
}

/// How many pairs each of this many comparisons needs to prove a difference that all of its pairs agree on.
pub(crate) fn pairs_needed(comparisons: u64) -> u64 {
    let proves = |pairs: &usize| smallest_sign_flip(*pairs) * comparisons.max(1) as f64 <= LEVEL;
    // 2^-63 is enough for any number of comparisons that a run can have.
    (1..64usize).find(proves).unwrap_or(64) as u64
}

/// The verdict that a cell's variant did not carry the load, if it did not.
fn overloaded(cell: &CellSummary) -> Option<Verdict> {
    let achieved_per_s = cell.rate_achieved_per_s?.median;
    let asked_per_s = cell.rate_asked_per_s?.median;
    (achieved_per_s < asked_per_s * CARRIED_SHARE).then(|| Verdict::Overloaded {
        variant: cell.variant.clone(),
        achieved_per_s,
        asked_per_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_zero_on_both_sides_are_the_same() {
        let pair = |repetition| Pair {
            repetition,
            variant: Value::Exact(0.0),
            baseline: Value::Exact(0.0),
            own_error: 0.0,
            is_doubtful: false,
            is_limited: false,
        };
        // Their ratio is unknown, so there is no effect.
        let pairs = [pair(0), pair(1)];
        assert_eq!(Difference::of(&pairs, None, 1), (Difference::Same, None));
    }
}
