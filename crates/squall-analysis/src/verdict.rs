//! Which variant is better by a measure under a condition, by how much, how sure that is, and whether it can be said at all.
//!
//! Only pairs are compared: trials of one condition and repetition, whose links had the same seed. "Higher" and "lower" are
//! said only if the 95 % interval of the median ratio leaves out 1, chance alone would do as much in at most 5 % of runs
//! (sign flips, corrected for the run's other comparisons), and the difference is larger than squall's own
//! measurement error and than what the same variant differs from itself by, where the recipe has it twice (the noise
//! floor). Else at most "no difference larger than". Its size is given only if both variants carried the load. How the
//! numbers come about is in `stats`, what a trial's values are in `value`, in which order a run's comparisons are tested in
//! `family`, sentences are in `sentence`, the answer to the recipe's question in `answer`.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Measure, Statistic, Targets, Unit};
use squall_base::splitmix::splitmix64;

use crate::stats::effect::Effect;
use crate::stats::sign_flip::{sign_flip, smallest_sign_flip};
use crate::summary::CellSummary;
use crate::tail::TailShare;
use crate::trial::{Interval, TrialStats};
use crate::value::Value;

/// How often chance alone may make a run call a difference that is none.
pub const LEVEL: f64 = 0.05;

/// Below this share of the rate asked for, a variant did not carry the load. Requests count that succeed
/// while the measured window lasts, whenever they were asked for, so an open-loop generator that is on time
/// falls short only where requests fail or pile up. 5 % leaves room for a stall at the window's end.
const CARRIED_SHARE: f64 = 0.95;

/// Something that can be said about a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// Within the measured window, fewer than 95 % of the requests that were asked for succeeded.
    Overloaded {
        /// Which.
        variant: String,
        /// Requests a second that succeeded within the measured window: median over its valid trials.
        achieved_per_s: f64,
        /// Requests a second that the schedule asked for.
        asked_per_s: f64,
    },
    /// A variant against another.
    Compared(Box<Comparison>),
}

/// A variant against another one, by a measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The measure.
    pub measure: Measure,
    /// The measure that was asked for, if trials have too few values for it and `measure` stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Measure>,
    /// Whether it is the comparison that the recipe's question is about.
    #[serde(default)]
    pub is_primary: bool,
    /// The variant.
    pub variant: String,
    /// What it is compared with: the plan's first variant, the recipe's choice, or one that is the same but for its name.
    pub baseline: String,
    /// True if both are the same variant under two names (A/A): what they differ by is noise.
    pub is_same_variant: bool,
    /// The pairs of valid trials that have a value, in order of repetition.
    pub pairs: Vec<Pair>,
    /// Pairs left out because one of their trials is invalid.
    pub invalid_pairs: u64,
    /// Who of the two did not carry the load, if anybody; then no ratio is given.
    pub overload: Option<Overload>,
    /// Both values: medians over the pairs; `None` without pairs.
    pub values: Option<Values>,
    /// By how much they differ; `None` if a value has no end, is zero, or grows with the duration ([`Overload`]).
    pub ratio: Option<Ratio>,
    /// How often chance alone would set equal variants as far apart; `None` if it cannot be known.
    pub p: Option<f64>,
    /// The same for all comparisons of the run that are tested with it (`family`).
    pub p_adjusted: Option<f64>,
    /// How many comparisons these are.
    pub comparisons: u64,
    /// Differences up to this ratio, 1 or more, are noise: the same variant shows them against itself. `None` if the
    /// recipe has no variant twice.
    pub noise_floor: Option<f64>,
    /// What makes up most of the longer tail; `None` of other measures, if no cause leads, or if causes are not known.
    pub tail: Option<TailShare>,
    /// What all that shows.
    pub finding: Finding,
}

/// Who of a comparison did not carry the load. Requests pile up there for as long as the load lasts, and with
/// them the p99: it is a number of the trial's duration as much as of the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// The variant.
    Variant,
    /// The baseline.
    Baseline,
    /// Neither did.
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
    /// The own measurement errors of both trials, added up, in the unit of the values.
    pub own_error: f64,
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
    /// Unfinished or failed requests hide which is higher.
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
/// If `bound` is set, unfinished or failed requests hide part of a value, and the ratios are limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median over the pairs.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// True if some value is only known to be at least so high.
    pub bound: bool,
    /// The 95 % interval of the median; `None` below six pairs, and of limits.
    pub interval: Option<Interval<f64>>,
    /// The smallest ratio above 1 that so many such pairs show in 4 of 5 runs (the minimum detectable effect); `None` of
    /// one pair, and of limits.
    pub least_visible: Option<f64>,
}

/// What the pairs of a comparison show together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Finding {
    /// A higher value.
    Higher,
    /// A lower value.
    Lower,
    /// A higher value, if this were the only comparison: of so many, chance alone shows as much too often.
    SeemsHigher,
    /// The same of a lower one.
    SeemsLower,
    /// Whatever they show, so few pairs could have come about by chance.
    TooFewPairs,
    /// No pair shows a difference beyond our own error.
    Same,
    /// A difference, but no larger than our own error.
    WithinOwnError,
    /// A difference, but no larger than the noise floor.
    WithinNoise,
    /// None that chance would not show as well.
    NoDifference,
    /// Part of a value is hidden or has no end, and the pairs point both ways.
    Disagree,
    /// Nothing can be said.
    Unknown(Unfit),
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum Unfit {
    /// There is no pair of valid trials.
    NoPair,
    /// Not every pair has the requests, pages or exchanges that the measure needs.
    TooFewRequests,
    /// Unfinished or failed requests hide which value is higher.
    Hidden,
}

impl Pair {
    /// What this pair shows.
    pub fn result(&self) -> PairResult {
        match (self.variant, self.baseline) {
            (Value::Exact(a), Value::Exact(b)) if a > b + self.own_error => PairResult::Higher,
            (Value::Exact(a), Value::Exact(b)) if b > a + self.own_error => PairResult::Lower,
            (Value::Exact(_), Value::Exact(_)) => PairResult::Same,
            (Value::AtLeast(a), Value::Exact(b)) if a > b + self.own_error => PairResult::Higher,
            (Value::Exact(a), Value::AtLeast(b)) if b > a + self.own_error => PairResult::Lower,
            (Value::Never, Value::Exact(_)) => PairResult::Higher,
            (Value::Exact(_), Value::Never) => PairResult::Lower,
            _ => PairResult::Hidden,
        }
    }

    fn of(measure: Measure, variant: &TrialStats, baseline: &TrialStats) -> Option<Pair> {
        let own_error = match measure.unit() {
            Unit::Time => (variant.own_error + baseline.own_error).as_nanos() as f64,
            // Counts are exact; how late squall was moves a rate by no more than that share of a transfer.
            Unit::BytesPerSecond | Unit::Count | Unit::Share => 0.0,
        };
        Some(Pair {
            repetition: variant.repetition,
            variant: variant.value(measure)?,
            baseline: baseline.value(measure)?,
            own_error,
        })
    }

    /// The logarithm of the ratio of both values' known parts; `None` if one has no end.
    fn log_ratio(&self) -> Option<f64> {
        Some(self.variant.log()? - self.baseline.log()?)
    }

    /// The same if both are known whole.
    pub(crate) fn exact_log_ratio(&self) -> Option<f64> {
        self.variant.exact()?;
        self.baseline.exact()?;
        self.log_ratio()
    }

    /// By how much the values are further apart than our own error; negative if they are not. `None` if one has no end.
    fn beyond_error(&self) -> Option<f64> {
        let (a, b) = (self.variant.lower_bound()?, self.baseline.lower_bound()?);
        Some((a - b).abs() - self.own_error)
    }
}

/// A span's logarithm; that of less than a nanosecond is a nanosecond's.
pub(crate) fn log_nanos(span: Duration) -> f64 {
    (span.as_nanos().max(1) as f64).ln()
}

impl Ratio {
    /// `effect` is that of the pairs if all of them are exact.
    pub(crate) fn of(pairs: &[Pair], effect: Option<&Effect>) -> Option<Ratio> {
        let logs: Vec<f64> = pairs.iter().map(Pair::log_ratio).collect::<Option<_>>()?;
        let end = |pick: fn(f64, f64) -> f64| logs.iter().copied().reduce(pick).map(f64::exp);
        let interval = effect.and_then(|effect| effect.interval);
        Some(Ratio {
            median: crate::stats::effect::median(&logs)?.exp(),
            low: end(f64::min)?,
            high: end(f64::max)?,
            bound: effect.is_none(),
            interval: interval.map(|(low, high)| Interval {
                low: low.exp(),
                high: high.exp(),
            }),
            least_visible: effect.and_then(|effect| effect.least_visible).map(f64::exp),
        })
    }

    /// The ratio or its inverse, whichever is above 1: so much larger or smaller.
    pub(crate) fn size(&self) -> f64 {
        self.median.max(1.0 / self.median)
    }

    /// The largest difference, as a ratio above 1, that the pairs leave room for: what they would hardly have shown, and
    /// what their interval does not exclude.
    fn largest_hidden(&self) -> Option<f64> {
        let interval = self.interval?;
        let ends = interval.high.max(1.0 / interval.low);
        Some(self.least_visible?.max(ends))
    }
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

impl Finding {
    /// What pairs show by themselves, and the p-value of that; before it is known how many other comparisons there are,
    /// and how much noise.
    pub(crate) fn of(pairs: &[Pair], effect: Option<&Effect>, seed: u64) -> (Finding, Option<f64>) {
        let all = |result| pairs.iter().all(|pair| pair.result() == result);
        let one_way = all(PairResult::Higher) || all(PairResult::Lower);
        let is_few = smallest_sign_flip(pairs.len()) > LEVEL;
        if pairs.is_empty() {
            return (Finding::Unknown(Unfit::NoPair), None);
        }
        if pairs.iter().any(|pair| pair.result() == PairResult::Hidden) {
            return (Finding::Unknown(Unfit::Hidden), None);
        }
        let Some(effect) = effect else {
            // Of limits and of what has no end only the direction is known: the sign test, where all agree.
            let p = smallest_sign_flip(pairs.len());
            return match () {
                () if !one_way => (Finding::Disagree, None),
                () if is_few => (Finding::TooFewPairs, Some(p)),
                () if all(PairResult::Higher) => (Finding::Higher, Some(p)),
                () => (Finding::Lower, Some(p)),
            };
        };
        let logs: Vec<f64> = pairs.iter().filter_map(Pair::log_ratio).collect();
        let p = sign_flip(&logs, seed);
        let beyond: Vec<f64> = pairs.iter().filter_map(Pair::beyond_error).collect();
        let is_beyond = crate::stats::effect::median(&beyond).is_some_and(|ns| ns > 0.0);
        let finding = match effect.interval {
            _ if all(PairResult::Same) => Finding::Same,
            _ if is_few => Finding::TooFewPairs,
            None => Finding::TooFewPairs,
            Some((low, high)) if (low <= 0.0 && high >= 0.0) || p > LEVEL => Finding::NoDifference,
            Some(_) if !is_beyond => Finding::WithinOwnError,
            Some((low, _)) if low > 0.0 => Finding::Higher,
            Some(_) => Finding::Lower,
        };
        (finding, Some(p))
    }
}

impl Comparison {
    fn of(
        variant: &CellSummary,
        baseline: &CellSummary,
        asked: Measure,
        is_same_variant: bool,
    ) -> Comparison {
        let matched: Vec<_> = variant
            .trials
            .iter()
            .filter_map(|a| {
                let same = |b: &&TrialStats| b.repetition == a.repetition && b.seed == a.seed;
                Some((a, baseline.trials.iter().find(same)?))
            })
            .collect();
        let valid = matched.iter().filter(|(a, b)| a.is_valid() && b.is_valid());
        let valid: Vec<(&TrialStats, &TrialStats)> = valid.copied().collect();
        let measure = measured(asked, &valid);
        let with_value = valid
            .iter()
            .filter_map(|(a, b)| Some((Pair::of(measure, a, b)?, (*a, *b))));
        let (pairs, trials): (Vec<Pair>, Vec<_>) = with_value.unzip();
        // The same pairs give the same numbers.
        let seed = pairs.len() as u64;
        let seed = trials
            .iter()
            .fold(seed, |seed, (a, _)| splitmix64(seed, a.seed));
        let logs = pairs.iter().map(Pair::exact_log_ratio);
        let logs: Option<Vec<f64>> = logs.collect();
        let effect = logs.and_then(|logs| Effect::of_pairs(&logs));
        // Only times grow for as long as requests pile up.
        let overload = Overload::of(variant, baseline).filter(|_| measure.unit() == Unit::Time);
        let (finding, p) = if pairs.is_empty() && !valid.is_empty() {
            (Finding::Unknown(Unfit::TooFewRequests), None)
        } else {
            Finding::of(&pairs, effect.as_ref(), seed)
        };
        let median = |value: fn(&Pair) -> Value| Value::median(pairs.iter().map(value));
        let values = median(|pair| pair.variant).zip(median(|pair| pair.baseline));
        let ratio = match (overload, finding) {
            (Some(_), _) | (_, Finding::Unknown(_)) => None,
            _ => Ratio::of(&pairs, effect.as_ref()),
        };
        let is_shorter = values.is_some_and(|(variant, baseline)| {
            variant.lower_bound() < baseline.lower_bound() && variant.lower_bound().is_some()
        });
        let tails = trials.iter().map(|(a, b)| {
            if is_shorter {
                (b.tail.as_ref(), a.tail.as_ref())
            } else {
                (a.tail.as_ref(), b.tail.as_ref())
            }
        });
        // The slowest requests say nothing about a mean, a median or a count, and those of all targets nothing about some.
        let is_of_all = measure.targets().unwrap_or_default() == Targets::ALL;
        let tail = match measure.statistic() {
            None | Some(Statistic::Mean | Statistic::P50 | Statistic::Iqr) => None,
            Some(_) if !is_of_all => None,
            Some(_) => TailShare::of(&tails.collect::<Vec<_>>()),
        };
        Comparison {
            measure,
            instead_of: (measure != asked).then_some(asked),
            is_primary: false,
            variant: variant.variant.clone(),
            baseline: baseline.variant.clone(),
            is_same_variant,
            invalid_pairs: (matched.len() - valid.len()) as u64,
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

    /// The measure that was asked for.
    pub(crate) fn asked(&self) -> Measure {
        self.instead_of.unwrap_or(self.measure)
    }

    /// Whether the variant's value is the higher one, if that was found.
    pub(crate) fn is_higher(&self) -> Option<bool> {
        match self.finding {
            Finding::Higher | Finding::SeemsHigher => Some(true),
            Finding::Lower | Finding::SeemsLower => Some(false),
            _ => None,
        }
    }

    /// The largest difference, as a ratio above 1, that may be there all the same: what the pairs leave room for, what our
    /// own error may hide, and what is noise. `None` if no interval is known.
    pub fn largest_hidden(&self) -> Option<f64> {
        let by_pairs = self.ratio?.largest_hidden()?;
        let errors = self.pairs.iter().map(|pair| {
            let values = [pair.variant, pair.baseline].into_iter();
            let lower = values.filter_map(Value::lower_bound).reduce(f64::min);
            1.0 + pair.own_error / lower.unwrap_or(0.0).max(1.0)
        });
        let noise = self.noise_floor.unwrap_or(1.0);
        Some(errors.fold(by_pairs.max(noise), f64::max))
    }

    /// What equal variants differ by, of a comparison of such: the end of the interval that is further from 1, or of the
    /// pairs themselves where there are too few for one.
    fn noise(&self) -> Option<f64> {
        let ratio = self.ratio.filter(|ratio| !ratio.bound)?;
        let (low, high) = match ratio.interval {
            Some(interval) => (interval.low, interval.high),
            None => (ratio.low, ratio.high),
        };
        Some(high.max(1.0 / low))
    }

    /// Takes back what is no more than noise.
    fn hold_against_noise(&mut self, floor: f64) {
        self.noise_floor = Some(floor);
        let logs: Vec<f64> = self.pairs.iter().filter_map(Pair::log_ratio).collect();
        let size = crate::stats::effect::median(&logs).map(|log| log.abs().exp());
        if matches!(self.finding, Finding::Higher | Finding::Lower)
            && logs.len() == self.pairs.len()
            && size.is_some_and(|size| size <= floor)
        {
            self.finding = Finding::WithinNoise;
        }
    }

    /// Takes back what so many comparisons show by chance alone.
    pub(crate) fn hold_against_others(&mut self, p_adjusted: f64, comparisons: usize) {
        self.p_adjusted = Some(p_adjusted);
        self.comparisons = comparisons as u64;
        if p_adjusted > LEVEL {
            self.finding = match self.finding {
                Finding::Higher => Finding::SeemsHigher,
                Finding::Lower => Finding::SeemsLower,
                finding => finding,
            };
        }
    }
}

/// The first of a measure and its substitutes that all of these pairs of trials have; if there is none, the one that was
/// asked for.
fn measured(asked: Measure, pairs: &[(&TrialStats, &TrialStats)]) -> Measure {
    let has = |trial: &TrialStats, measure: Measure| trial.value(measure).is_some();
    let all_have = |measure: &Measure| {
        let mut trials = pairs.iter().flat_map(|(a, b)| [a, b]);
        !pairs.is_empty() && trials.all(|trial| has(trial, *measure))
    };
    let candidates = asked.with_substitutes();
    candidates.into_iter().find(all_have).unwrap_or(asked)
}

/// What is compared under a condition.
pub(crate) struct Asked<'a> {
    /// By what, the leading measure first.
    pub(crate) measures: &'a [Measure],
    /// For each cell the place of the one before it that is the same variant.
    pub(crate) copies: &'a [Option<usize>],
    /// The places of the primary comparison's variant and baseline, if it is under this condition.
    pub(crate) primary: Option<(usize, usize)>,
}

/// What can be said about the cells of one condition: first which did not carry the load, then by each measure the primary
/// comparison and each variant against the first, or against the one that it is a copy of.
pub(crate) fn verdicts(cells: &[CellSummary], asked: &Asked<'_>) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = cells.iter().filter_map(overloaded).collect();
    for (place, measure) in asked.measures.iter().enumerate() {
        let mut compared = compared(cells, *measure, asked, place == 0);
        let noise = compared
            .iter()
            .filter(|comparison| comparison.is_same_variant);
        if let Some(floor) = noise.filter_map(Comparison::noise).reduce(f64::max) {
            let others = compared
                .iter_mut()
                .filter(|comparison| !comparison.is_same_variant);
            others.for_each(|comparison| comparison.hold_against_noise(floor));
        }
        let compared = compared.into_iter().map(Box::new);
        verdicts.extend(compared.map(Verdict::Compared));
    }
    verdicts
}

fn compared(
    cells: &[CellSummary],
    measure: Measure,
    asked: &Asked<'_>,
    is_leading: bool,
) -> Vec<Comparison> {
    let mut compared = Vec::new();
    if let Some((variant, baseline)) = asked.primary {
        let (variant, baseline) = (&cells[variant], &cells[baseline]);
        compared.push(Comparison {
            is_primary: is_leading,
            ..Comparison::of(variant, baseline, measure, false)
        });
    }
    for (place, copy) in asked.copies.iter().enumerate().skip(1) {
        let baseline = copy.unwrap_or(0);
        let is_there = asked
            .primary
            .is_some_and(|primary| [(place, baseline), (baseline, place)].contains(&primary));
        if !is_there {
            let (cell, baseline) = (&cells[place], &cells[baseline]);
            compared.push(Comparison::of(cell, baseline, measure, copy.is_some()));
        }
    }
    compared
}

/// How many pairs each of so many comparisons needs at least, to show a difference that all of its pairs agree on.
pub(crate) fn pairs_needed(comparisons: u64) -> u64 {
    let proves = |pairs: &usize| smallest_sign_flip(*pairs) * comparisons.max(1) as f64 <= LEVEL;
    // 2^-63 is enough for any number of comparisons that a run can have.
    (1..64usize).find(proves).unwrap_or(64) as u64
}

/// That a cell's variant did not carry the load, if so.
fn overloaded(cell: &CellSummary) -> Option<Verdict> {
    let achieved_per_s = cell.rate_achieved_per_s?.median;
    let asked_per_s = cell.rate_asked_per_s?.median;
    (achieved_per_s < asked_per_s * CARRIED_SHARE).then(|| Verdict::Overloaded {
        variant: cell.variant.clone(),
        achieved_per_s,
        asked_per_s,
    })
}
