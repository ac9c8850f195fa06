//! Which variant's p99 is better under a condition, by how much, and whether that can be said at all.
//!
//! Only pairs are compared: trials of one condition and repetition, whose links had the same seed. A
//! difference is stated only if every pair shows it, in the same direction and beyond squall's own
//! measurement error in both trials; its size only if both variants carried the load. There is no confidence
//! interval here; `warning` says how little a few pairs can prove. Their sentences are in `sentence`.

use serde::{Deserialize, Serialize};
use squall_base::Duration;

use crate::quantile::{Quantile, Sample};
use crate::summary::CellSummary;
use crate::trial::TrialStats;

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
    /// A variant against the baseline.
    Compared(Comparison),
}

/// A variant's p99 against the baseline's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant.
    pub variant: String,
    /// What it is compared with: the plan's first variant.
    pub baseline: String,
    /// The pairs of valid trials that have a p99, in order of repetition.
    pub pairs: Vec<Pair>,
    /// Pairs left out because one of their trials is invalid.
    pub invalid_pairs: u64,
    /// Who of the two did not carry the load, if anybody; then no ratio is given.
    pub overload: Option<Overload>,
    /// What they show.
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
}

/// A difference that every pair shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The variant's p99: median over the pairs.
    pub variant_p99: Quantile,
    /// The baseline's p99: median over the pairs.
    pub baseline_p99: Quantile,
    /// By how much; `None` if a p99 has no end, or grows with the duration ([`Overload`]).
    pub ratio: Option<Ratio>,
}

/// What the pairs of a comparison show together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Finding {
    /// Every pair shows a higher p99.
    Higher(Difference),
    /// Every pair shows a lower p99.
    Lower(Difference),
    /// No pair shows a difference beyond our own error.
    Same {
        /// The largest own error of the pairs.
        own_error: Duration,
    },
    /// The pairs do not agree.
    Mixed {
        /// The range that they cover; `None` if part of a p99 is hidden, has no end, or grows with the duration.
        ratio: Option<Ratio>,
    },
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

    /// The ratio of both p99s' known parts; `None` if one has no end or the baseline's is zero.
    fn ratio(&self) -> Option<f64> {
        let (a, b) = (
            self.variant_p99.lower_bound()?,
            self.baseline_p99.lower_bound()?,
        );
        (!b.is_zero()).then(|| a.as_secs_f64() / b.as_secs_f64())
    }

    fn is_exact(&self) -> bool {
        self.variant_p99.exact().is_some() && self.baseline_p99.exact().is_some()
    }
}

impl Ratio {
    fn of(pairs: &[Pair]) -> Option<Ratio> {
        let mut ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect::<Option<_>>()?;
        ratios.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*ratios.first()?, *ratios.last()?);
        // Half way between two ratios is their geometric mean: 0.5 and 2 cancel out.
        let median = (ratios[(ratios.len() - 1) / 2] * ratios[ratios.len() / 2]).sqrt();
        Some(Ratio {
            median,
            low,
            high,
            bound: pairs.iter().any(|pair| !pair.is_exact()),
        })
    }
}

impl Overload {
    fn of(variant: &CellSummary, baseline: &CellSummary) -> Option<Overload> {
        match (overloaded(variant), overloaded(baseline)) {
            (Some(_), Some(_)) => Some(Overload::Both),
            (Some(_), None) => Some(Overload::Variant),
            (None, Some(_)) => Some(Overload::Baseline),
            (None, None) => None,
        }
    }
}

impl Finding {
    fn of(pairs: &[Pair], overload: Option<Overload>) -> Finding {
        let all = |result| pairs.iter().all(|pair| pair.result() == result);
        let median =
            |p99: fn(&Pair) -> Quantile| pairs.iter().map(p99).collect::<Sample>().median();
        let (Some(variant_p99), Some(baseline_p99)) =
            (median(|p| p.variant_p99), median(|p| p.baseline_p99))
        else {
            return Finding::Unknown(Unfit::NoPair);
        };
        let ratio = match overload {
            None => Ratio::of(pairs),
            Some(_) => None,
        };
        let difference = Difference {
            variant_p99,
            baseline_p99,
            ratio,
        };
        if all(PairResult::Higher) {
            Finding::Higher(difference)
        } else if all(PairResult::Lower) {
            Finding::Lower(difference)
        } else if all(PairResult::Same) {
            Finding::Same {
                own_error: pairs
                    .iter()
                    .map(|pair| pair.own_error)
                    .max()
                    .unwrap_or_default(),
            }
        } else if pairs.iter().any(|pair| pair.result() == PairResult::Hidden) {
            Finding::Unknown(Unfit::Hidden)
        } else {
            // A limit among the ratios would make their range a guess.
            Finding::Mixed {
                ratio: ratio.filter(|ratio| !ratio.bound),
            }
        }
    }
}

impl Comparison {
    fn of(variant: &CellSummary, baseline: &CellSummary) -> Comparison {
        let matched = || {
            variant.trials.iter().filter_map(|a| {
                let b = baseline
                    .trials
                    .iter()
                    .find(|b| b.repetition == a.repetition && b.seed == a.seed)?;
                Some((a, b))
            })
        };
        let valid: Vec<_> = matched()
            .filter(|(a, b)| a.is_valid() && b.is_valid())
            .collect();
        let pairs: Vec<Pair> = valid.iter().filter_map(|(a, b)| Pair::of(a, b)).collect();
        let overload = Overload::of(variant, baseline);
        let finding = if pairs.is_empty() && !valid.is_empty() {
            Finding::Unknown(Unfit::TooFewRequests)
        } else {
            Finding::of(&pairs, overload)
        };
        Comparison {
            variant: variant.variant.clone(),
            baseline: baseline.variant.clone(),
            invalid_pairs: (matched().count() - valid.len()) as u64,
            pairs,
            overload,
            finding,
        }
    }
}

/// What can be said about the cells of one condition: first who did not carry the load, then each variant
/// against the first.
pub(crate) fn verdicts(cells: &[CellSummary]) -> Vec<Verdict> {
    let overloaded = cells.iter().filter_map(overloaded);
    let compared = cells
        .iter()
        .skip(1)
        .map(|cell| Verdict::Compared(Comparison::of(cell, &cells[0])));
    overloaded.chain(compared).collect()
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
