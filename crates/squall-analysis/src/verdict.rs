//! Which variant's p99 is better under a condition, by how much, how sure that is, and whether it can be said at all.
//!
//! Only pairs are compared: trials of one condition and repetition, whose links had the same seed. "Higher" and "lower" are
//! said only if the 95 % interval of the median ratio leaves out 1, chance alone would do as much in at most 5 % of runs
//! (sign flips, corrected for the number of comparisons of the run), and the difference is larger than squall's own
//! measurement error and than what the same variant differs from itself by, where the recipe has it twice (the noise
//! floor). Else at most "no difference larger than". Its size is given only if both variants carried the load. How the
//! numbers come about is in `stats`, sentences are in `sentence`, the answer to the recipe's question in `answer`.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::splitmix::splitmix64;

use crate::quantile::{Quantile, Sample};
use crate::stats::effect::Effect;
use crate::stats::holm::holm;
use crate::stats::sign_flip::{sign_flip, smallest_sign_flip};
use crate::summary::CellSummary;
use crate::tail::TailShare;
use crate::trial::{Interval, TrialStats};

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

/// A variant's p99 against another's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant.
    pub variant: String,
    /// What it is compared with: the plan's first variant, or one that is the same but for its name.
    pub baseline: String,
    /// True if both are the same variant under two names (A/A): what they differ by is noise.
    pub is_same_variant: bool,
    /// The pairs of valid trials that have a p99, in order of repetition.
    pub pairs: Vec<Pair>,
    /// Pairs left out because one of their trials is invalid.
    pub invalid_pairs: u64,
    /// Who of the two did not carry the load, if anybody; then no ratio is given.
    pub overload: Option<Overload>,
    /// Both p99s: medians over the pairs; `None` without pairs.
    pub p99s: Option<P99s>,
    /// By how much they differ; `None` if a p99 has no end, or grows with the duration ([`Overload`]).
    pub ratio: Option<Ratio>,
    /// How often chance alone would set equal variants as far apart; `None` if it cannot be known.
    pub p: Option<f64>,
    /// The same for all of the run's comparisons together (Holm).
    pub p_adjusted: Option<f64>,
    /// How many comparisons these are.
    pub comparisons: u64,
    /// Differences up to this ratio, 1 or more, are noise: the same variant shows them against itself. `None` if the
    /// recipe has no variant twice.
    pub noise_floor: Option<f64>,
    /// What makes up most of the longer tail; `None` if no cause leads, or causes are not known.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Which repetition.
    pub repetition: u32,
    /// The p99 of the variant's trial.
    pub variant_p99: Quantile,
    /// The p99 of the baseline's trial.
    pub baseline_p99: Quantile,
    /// The own measurement errors of both trials, added up.
    pub own_error: Duration,
}

/// What a single pair shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairResult {
    /// The variant's p99 is higher, beyond our own error.
    Higher,
    /// The variant's p99 is lower, beyond our own error.
    Lower,
    /// The difference is within our own error.
    Same,
    /// Unfinished or failed requests hide which is higher.
    Hidden,
}

/// The p99s of a comparison: medians over the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct P99s {
    /// The variant's.
    pub variant: Quantile,
    /// The baseline's.
    pub baseline: Quantile,
}

/// Ratios of the variant's p99 to the baseline's, over the pairs.
///
/// If `bound` is set, unfinished or failed requests hide part of a p99, and the ratios are limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median over the pairs.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// True if some p99 is only known to be at least so long.
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
    /// A higher p99.
    Higher,
    /// A lower p99.
    Lower,
    /// A higher p99, if this were the only comparison: of so many, chance alone shows as much too often.
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
    /// Part of a p99 is hidden or has no end, and the pairs point both ways.
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
    /// The pairs have fewer requests than a p99 needs.
    TooFewRequests,
    /// Unfinished or failed requests hide which p99 is higher.
    Hidden,
}

impl Pair {
    /// What this pair shows.
    pub fn result(&self) -> PairResult {
        match (self.variant_p99, self.baseline_p99) {
            (Quantile::Exact(a), Quantile::Exact(b)) if a > b + self.own_error => {
                PairResult::Higher
            }
            (Quantile::Exact(a), Quantile::Exact(b)) if b > a + self.own_error => PairResult::Lower,
            (Quantile::Exact(_), Quantile::Exact(_)) => PairResult::Same,
            (Quantile::AtLeast(a), Quantile::Exact(b)) if a > b + self.own_error => {
                PairResult::Higher
            }
            (Quantile::Exact(a), Quantile::AtLeast(b)) if b > a + self.own_error => {
                PairResult::Lower
            }
            (Quantile::Never, Quantile::Exact(_)) => PairResult::Higher,
            (Quantile::Exact(_), Quantile::Never) => PairResult::Lower,
            _ => PairResult::Hidden,
        }
    }

    fn of(variant: &TrialStats, baseline: &TrialStats) -> Option<Pair> {
        Some(Pair {
            repetition: variant.repetition,
            variant_p99: variant.p99?,
            baseline_p99: baseline.p99?,
            own_error: variant.own_error + baseline.own_error,
        })
    }

    /// The logarithm of the ratio of both p99s' known parts; `None` if one has no end.
    fn log_ratio(&self) -> Option<f64> {
        let log = |p99: Quantile| p99.lower_bound().map(log_nanos);
        Some(log(self.variant_p99)? - log(self.baseline_p99)?)
    }

    /// The same if both are known whole.
    pub(crate) fn exact_log_ratio(&self) -> Option<f64> {
        let log = |p99: Quantile| p99.exact().map(log_nanos);
        Some(log(self.variant_p99)? - log(self.baseline_p99)?)
    }

    /// By how much the p99s are further apart than our own error, in ns; negative if they are not. `None` if one has no
    /// end.
    fn beyond_error_ns(&self) -> Option<f64> {
        let (a, b) = (
            self.variant_p99.lower_bound()?,
            self.baseline_p99.lower_bound()?,
        );
        let apart = (a.as_nanos() as f64 - b.as_nanos() as f64).abs();
        Some(apart - self.own_error.as_nanos() as f64)
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
        let beyond: Vec<f64> = pairs.iter().filter_map(Pair::beyond_error_ns).collect();
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
    fn of(variant: &CellSummary, baseline: &CellSummary, is_same_variant: bool) -> Comparison {
        let matched: Vec<_> = variant
            .trials
            .iter()
            .filter_map(|a| {
                let same = |b: &&TrialStats| b.repetition == a.repetition && b.seed == a.seed;
                Some((a, baseline.trials.iter().find(same)?))
            })
            .collect();
        let valid = matched.iter().filter(|(a, b)| a.is_valid() && b.is_valid());
        let valid: Vec<_> = valid.copied().collect();
        let with_p99 = valid
            .iter()
            .filter_map(|(a, b)| Some((Pair::of(a, b)?, *a, *b)));
        let (pairs, trials): (Vec<Pair>, Vec<_>) =
            with_p99.map(|(pair, a, b)| (pair, (a, b))).unzip();
        // The same pairs give the same numbers.
        let seed = pairs.len() as u64;
        let seed = trials
            .iter()
            .fold(seed, |seed, (a, _)| splitmix64(seed, a.seed));
        let logs = pairs.iter().map(Pair::exact_log_ratio);
        let logs: Option<Vec<f64>> = logs.collect();
        let effect = logs.and_then(|logs| Effect::of_pairs(&logs));
        let overload = Overload::of(variant, baseline);
        let (finding, p) = match pairs.is_empty() && !valid.is_empty() {
            true => (Finding::Unknown(Unfit::TooFewRequests), None),
            false => Finding::of(&pairs, effect.as_ref(), seed),
        };
        let median =
            |p99: fn(&Pair) -> Quantile| pairs.iter().map(p99).collect::<Sample>().median();
        let p99s = median(|pair| pair.variant_p99).zip(median(|pair| pair.baseline_p99));
        let ratio = match (overload, finding) {
            (Some(_), _) | (_, Finding::Unknown(_)) => None,
            _ => Ratio::of(&pairs, effect.as_ref()),
        };
        let tails = trials.iter().map(|(a, b)| match ratio {
            Some(ratio) if ratio.median < 1.0 => (b.tail.as_ref(), a.tail.as_ref()),
            _ => (a.tail.as_ref(), b.tail.as_ref()),
        });
        Comparison {
            variant: variant.variant.clone(),
            baseline: baseline.variant.clone(),
            is_same_variant,
            invalid_pairs: (matched.len() - valid.len()) as u64,
            overload,
            p99s: p99s.map(|(variant, baseline)| P99s { variant, baseline }),
            ratio,
            p,
            p_adjusted: None,
            comparisons: 0,
            noise_floor: None,
            tail: TailShare::of(&tails.collect::<Vec<_>>()),
            finding,
            pairs,
        }
    }

    /// The largest difference, as a ratio above 1, that may be there all the same: what the pairs leave room for, what our
    /// own error may hide, and what is noise. `None` if no interval is known.
    pub fn largest_hidden(&self) -> Option<f64> {
        let by_pairs = self.ratio?.largest_hidden()?;
        let errors = self.pairs.iter().map(|pair| {
            let p99s = [pair.variant_p99, pair.baseline_p99];
            let shorter = p99s.into_iter().filter_map(Quantile::lower_bound).min();
            let shorter = shorter.unwrap_or_default().as_secs_f64().max(1e-9);
            1.0 + pair.own_error.as_secs_f64() / shorter
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
    fn hold_against_others(&mut self, p_adjusted: f64, comparisons: usize) {
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

/// What can be said about the cells of one condition: first who did not carry the load, then each variant against the
/// first, or against the one that it is a copy of. `copies` has for each cell the place of the one before it that is the
/// same variant.
pub(crate) fn verdicts(cells: &[CellSummary], copies: &[Option<usize>]) -> Vec<Verdict> {
    let compared = cells.iter().zip(copies).skip(1).map(|(cell, copy)| {
        let baseline = &cells[copy.unwrap_or(0)];
        Comparison::of(cell, baseline, copy.is_some())
    });
    let mut compared: Vec<Comparison> = compared.collect();
    let noise = compared
        .iter()
        .filter(|comparison| comparison.is_same_variant);
    if let Some(floor) = noise.filter_map(Comparison::noise).reduce(f64::max) {
        let others = compared
            .iter_mut()
            .filter(|comparison| !comparison.is_same_variant);
        others.for_each(|comparison| comparison.hold_against_noise(floor));
    }
    let overloaded = cells.iter().filter_map(overloaded);
    overloaded
        .chain(
            compared
                .into_iter()
                .map(|comparison| Verdict::Compared(Box::new(comparison))),
        )
        .collect()
}

/// Corrects the comparisons of a run for their number: those of different variants, and by themselves those of the same.
pub(crate) fn correct<'a>(verdicts: impl Iterator<Item = &'a mut Verdict>) {
    let compared = verdicts.filter_map(|verdict| match verdict {
        Verdict::Compared(comparison) if comparison.p.is_some() => Some(comparison.as_mut()),
        _ => None,
    });
    let (same, different): (Vec<_>, Vec<_>) =
        compared.partition(|comparison| comparison.is_same_variant);
    for family in [same, different] {
        let p_values: Vec<f64> = family
            .iter()
            .filter_map(|comparison| comparison.p)
            .collect();
        let count = p_values.len();
        for (comparison, p) in family.into_iter().zip(holm(&p_values)) {
            comparison.hold_against_others(p, count);
        }
    }
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
