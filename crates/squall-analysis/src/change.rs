//! Compares a run with an earlier one: what changed in the cells that both have, and how certain that is.
//!
//! Cells are matched by variant name and condition. Where the repetitions of both runs share their seeds, trials are
//! compared as pairs, and a pair with a doubtful trial counts as it does within a run (`verdict`). Otherwise the
//! valid trials of the runs are compared as two groups, which takes more trials to show the same change. Doubtful trials are
//! not among them, because only for a pair is it known how far squall's lateness may have changed a difference. Figures that
//! are limits of the emulated path are left out.
//!
//! Holm's correction covers each figure separately, since a reader looks at one. `verdict` says what makes a verdict.
//! Whether the two runs were made on comparable machines is left to the caller.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use squall_base::Duration;
use squall_base::plan::{Condition, Measure as PlanMeasure, Statistic, Targets};
use squall_base::splitmix::splitmix64;

use crate::cell::CellSummary;
use crate::figure;
use crate::figures::Interval;
use crate::quantile::Quantile;
use crate::stats::effect::Effect;
use crate::stats::holm::holm;
use crate::stats::sign_flip::{permutation, sign_flip, smallest_permutation, smallest_sign_flip};
use crate::summary::RunSummary;
use crate::threshold::{Aggregate, Latency, Measure, Percentile, Reading, Threshold};
use crate::threshold_text::ThresholdError;
use crate::trial::TrialStats;
use crate::value::log_nanos;
use crate::verdict::{
    ComparedPairs, Difference, LEVEL, Overload, Pair, Ratio, TrialPair, UnknownReason, with_rates,
};

squall_base::words! {
    /// A figure that is compared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ChangeFigure {
        /// Mean response time.
        Mean = "mean",
        /// Median response time.
        Median = "median",
        /// The 90th percentile.
        P90 = "p90",
        /// The 95th percentile.
        P95 = "p95",
        /// The 99th percentile.
        P99 = "p99",
        /// The 99.9th percentile.
        P999 = "p99.9",
        /// Successful requests per second.
        Rate = "rate/s",
    }
}

/// All cells of two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// The cells that both have, in the order of the later run.
    pub cells: Vec<CellChange>,
    /// `VARIANT at CONDITION` of the cells that only one of them has.
    pub unmatched: Vec<String>,
}

/// One cell in two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellChange {
    /// The variant's name.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// True if the trials of both runs were paired by seed.
    pub is_paired: bool,
    /// Valid trials of the earlier run, and doubtful ones whose p99 is compared.
    pub trials_before: u64,
    /// The corresponding number for the later run.
    pub trials_after: u64,
    /// Which run could not carry the load, if either: the variant stands for the later run, the baseline for the earlier
    /// one. Under overload latencies grow with the duration, so a change is a change in how fast they grow.
    pub overload: Option<Overload>,
    /// Each figure, in the order of [`ChangeFigure`].
    pub figures: Vec<FigureChange>,
}

/// A figure of a cell, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// Which figure.
    pub figure: ChangeFigure,
    /// The unit of both values: `ns`, or `per_s` for the rate.
    pub unit: &'static str,
    /// The median over the trials of the earlier run.
    pub before: Reading,
    /// The median over the trials of the later run.
    pub after: Reading,
    /// After divided by before; `None` if either is infinite or unknown.
    pub ratio: Option<Ratio>,
    /// The p-value: how often chance alone produces a change this large. `None` if it cannot be known.
    pub p: Option<f64>,
    /// The p-value adjusted for testing this figure in all cells (Holm).
    pub p_adjusted: Option<f64>,
    /// The conclusion; [`Difference::Higher`] means higher after than before.
    pub finding: Difference,
}

/// A limit on how much a figure may change, as a ratio of after to before: `p(99)<=1.1x`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeThreshold {
    threshold: Threshold,
    figure: ChangeFigure,
}

/// Why a text is not a valid limit on a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeThresholdError {
    /// The text before the `x` is not a threshold.
    Threshold(ThresholdError),
    /// Changes of this figure are not compared.
    Figure(String),
    /// The limit has a unit, like the limits of a run; a ratio has none.
    Unit(String),
}

impl ChangeFigure {
    /// Its statistic of response times; `None` for the rate, which is not a latency.
    fn statistic(self) -> Option<Statistic> {
        Some(match self {
            ChangeFigure::Mean => Statistic::Mean,
            ChangeFigure::Median => Statistic::P50,
            ChangeFigure::P90 => Statistic::P90,
            ChangeFigure::P95 => Statistic::P95,
            ChangeFigure::P99 => Statistic::P99,
            ChangeFigure::P999 => Statistic::P999,
            ChangeFigure::Rate => return None,
        })
    }

    /// The name of its unit in JSON.
    const fn unit_name(self) -> &'static str {
        match self {
            ChangeFigure::Rate => "per_s",
            _ => "ns",
        }
    }

    /// A trial's value; `None` for the rate.
    fn latency(self, trial: &TrialStats) -> Option<Option<Quantile>> {
        Some(trial.response().get(self.statistic()?))
    }

    /// How far squall itself may have moved a trial's value, in nanoseconds.
    fn own_error_ns(self, trial: &TrialStats) -> f64 {
        let error = self.statistic().map(|it| trial.own_error_of_response(it));
        error.map_or(0.0, |error| error.as_nanos() as f64)
    }

    fn reading(self, trial: &TrialStats) -> Reading {
        match self.latency(trial) {
            Some(value) => Reading::Latency(value),
            None => Reading::Number(Some(trial.rate_achieved_per_s)),
        }
    }

    fn of(measure: Measure) -> Option<ChangeFigure> {
        let percentile = |per_million: u32| match per_million {
            500_000 => Some(ChangeFigure::Median),
            900_000 => Some(ChangeFigure::P90),
            950_000 => Some(ChangeFigure::P95),
            990_000 => Some(ChangeFigure::P99),
            999_000 => Some(ChangeFigure::P999),
            _ => None,
        };
        match measure {
            Measure::Latency(Latency::ResponseTime, Aggregate::Mean) => Some(ChangeFigure::Mean),
            Measure::Latency(Latency::ResponseTime, Aggregate::Median) => {
                Some(ChangeFigure::Median)
            }
            Measure::Latency(Latency::ResponseTime, Aggregate::Percentile(p)) => {
                percentile(Percentile::per_million(p))
            }
            Measure::RequestRate => Some(ChangeFigure::Rate),
            _ => None,
        }
    }
}

/// Compares `after` with `before`.
pub fn changes(before: &RunSummary, after: &RunSummary) -> Changes {
    let mut cells = Vec::new();
    let mut unmatched = Vec::new();
    let name = |cell: &CellSummary| format!("{} at {}", cell.variant, cell.condition);
    for cell in all_cells(after) {
        match all_cells(before).find(|other| is_same_cell(other, cell)) {
            Some(earlier) => cells.push(CellChange::of(earlier, cell)),
            None => unmatched.push(name(cell) + ", only after"),
        }
    }
    for cell in all_cells(before) {
        if !all_cells(after).any(|other| is_same_cell(other, cell)) {
            unmatched.push(name(cell) + ", only before");
        }
    }
    for place in 0..ChangeFigure::ALL.len() {
        let mut family: Vec<&mut FigureChange> = cells
            .iter_mut()
            .map(|cell| &mut cell.figures[place])
            .filter(|change| change.p.is_some())
            .collect();
        let p_values: Vec<f64> = family.iter().filter_map(|change| change.p).collect();
        for (change, p) in family.iter_mut().zip(holm(&p_values)) {
            change.p_adjusted = Some(p);
            change.finding = match change.finding {
                Difference::Higher if p > LEVEL => Difference::SeemsHigher,
                Difference::Lower if p > LEVEL => Difference::SeemsLower,
                finding => finding,
            };
        }
    }
    Changes { cells, unmatched }
}

fn all_cells(summary: &RunSummary) -> impl Iterator<Item = &CellSummary> {
    let cells = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.cells);
    cells.filter(|cell| !cell.trials.is_empty())
}

fn is_same_cell(a: &CellSummary, b: &CellSummary) -> bool {
    a.variant == b.variant && a.condition == b.condition
}

impl CellChange {
    fn of(before: &CellSummary, after: &CellSummary) -> CellChange {
        let old: Vec<&TrialStats> = before.valid_trials().collect();
        let new: Vec<&TrialStats> = after.valid_trials().collect();
        // A trial without a partner is left out of the pairs. Where the runs share seeds, a missing partner was invalid.
        let shared = all_seeds_shared(before, after);
        let pairs = if shared {
            pairs_of(before, after)
        } else {
            Vec::new()
        };
        let figures = ChangeFigure::ALL.map(|figure| {
            if shared {
                FigureChange::of_pairs(figure, &pairs)
            } else {
                FigureChange::of_groups(figure, &old, &new)
            }
        });
        let compared = ComparedPairs::of(PlanMeasure::USUAL, &pairs);
        let doubtful = |trial: &TrialStats| u64::from(trial.validity.is_doubtful());
        let trials = compared.trials.iter();
        let (more_new, more_old) = trials.fold((0, 0), |(new, old), (after, before)| {
            (new + doubtful(after), old + doubtful(before))
        });
        CellChange {
            variant: after.variant.clone(),
            condition: after.condition.clone(),
            is_paired: shared,
            trials_before: old.len() as u64 + more_old,
            trials_after: new.len() as u64 + more_new,
            overload: Overload::of(&with_rates(after), &with_rates(before)),
            figures: figures.to_vec(),
        }
    }

    /// Whether it has so few trials that no change, however large, could be told from chance.
    fn has_few_trials(&self) -> bool {
        let [before, after] = [self.trials_before, self.trials_after].map(|count| count as usize);
        let smallest = if self.is_paired {
            smallest_sign_flip(before.min(after))
        } else {
            smallest_permutation(after, before)
        };
        smallest > LEVEL
    }

    /// One of its figures.
    pub fn figure(&self, figure: ChangeFigure) -> &FigureChange {
        &self.figures[figure as usize]
    }
}

/// The trials of both cells that may count, later run first, in pairs of equal seeds.
fn pairs_of<'a>(before: &'a CellSummary, after: &'a CellSummary) -> Vec<TrialPair<'a>> {
    let counts = |trial: &&TrialStats| trial.is_valid() || trial.validity.is_doubtful();
    let pair = |a: &'a TrialStats| {
        let same = |b: &&TrialStats| b.repetition == a.repetition && b.seed == a.seed;
        let partner = before.trials.iter().filter(counts).find(same)?;
        Some((a, partner))
    };
    after
        .trials
        .iter()
        .filter(counts)
        .filter_map(pair)
        .collect()
}

/// True if the cells have a repetition in common, and each common repetition has the same seed in both.
fn all_seeds_shared(before: &CellSummary, after: &CellSummary) -> bool {
    let mut both = after.trials.iter().filter_map(|a| {
        let same = |b: &&TrialStats| b.repetition == a.repetition;
        let b = before.trials.iter().find(same)?;
        Some(a.seed == b.seed)
    });
    let first = both.next().unwrap_or(false);
    first && both.all(|is_same| is_same)
}

/// A seed for resampling, derived from the trials: the same trials always yield the same numbers.
fn seed_of<'a>(trials: impl Iterator<Item = &'a TrialStats>) -> u64 {
    trials.fold(0, |seed, trial| splitmix64(seed, trial.seed))
}

impl FigureChange {
    fn of_pairs(figure: ChangeFigure, pairs: &[TrialPair<'_>]) -> FigureChange {
        match figure.statistic() {
            Some(statistic) => {
                let measure = PlanMeasure::ResponseTime(statistic, Targets::ALL);
                FigureChange::of_latencies(figure, measure, pairs)
            }
            None => FigureChange::of_rates(figure, pairs),
        }
    }

    fn of_latencies(
        figure: ChangeFigure,
        measure: PlanMeasure,
        pairs: &[TrialPair<'_>],
    ) -> FigureChange {
        let has_value = |trial: &TrialStats| trial.value(measure).is_some();
        if !(pairs.iter()).all(|(after, before)| has_value(after) && has_value(before)) {
            return FigureChange {
                finding: Difference::Unknown(UnknownReason::TooFewRequests),
                ..FigureChange::unjudged(figure, pairs)
            };
        }
        let compared = ComparedPairs::of(measure, pairs);
        if compared.pairs.is_empty() && compared.doubtful > 0 {
            return FigureChange {
                finding: Difference::Unknown(UnknownReason::Doubtful),
                ..FigureChange::unjudged(figure, pairs)
            };
        }
        let mut change = FigureChange::unjudged(figure, &compared.trials);
        let logs: Option<Vec<f64>> = (compared.pairs.iter()).map(Pair::exact_log_ratio).collect();
        let effect = logs.and_then(|logs| Effect::of_pairs(&logs));
        let seed = seed_of(compared.trials.iter().map(|(after, _)| *after));
        (change.finding, change.p) = Difference::of(&compared.pairs, effect.as_ref(), seed);
        // If nothing can be concluded, there is no ratio either.
        if !matches!(change.finding, Difference::Unknown(_)) {
            change.ratio = Ratio::of(&compared.pairs, effect.as_ref());
        }
        change
    }

    /// How far squall's lateness changed a rate is not known, so only valid trials count.
    fn of_rates(figure: ChangeFigure, pairs: &[TrialPair<'_>]) -> FigureChange {
        let is_valid = |(after, before): &&TrialPair<'_>| after.is_valid() && before.is_valid();
        let valid: Vec<TrialPair<'_>> = pairs.iter().filter(is_valid).copied().collect();
        if valid.is_empty() && !pairs.is_empty() {
            return FigureChange {
                finding: Difference::Unknown(UnknownReason::Doubtful),
                ..FigureChange::unjudged(figure, pairs)
            };
        }
        let mut change = FigureChange::unjudged(figure, &valid);
        let logs: Option<Vec<f64>> = (valid.iter())
            .map(|(after, before)| Some(log(figure, after)? - log(figure, before)?))
            .collect();
        let effect = logs.as_ref().and_then(|logs| Effect::of_pairs(logs));
        let seed = seed_of(valid.iter().map(|(after, _)| *after));
        change.judge_rates(&logs.unwrap_or_default(), effect, seed);
        change
    }

    fn of_groups(figure: ChangeFigure, old: &[&TrialStats], new: &[&TrialStats]) -> FigureChange {
        let mut change = FigureChange::empty(figure, old, new);
        if old.is_empty() || new.is_empty() {
            return change;
        }
        let seed = seed_of(old.iter().chain(new).copied());
        let logs = |trials: &[&TrialStats]| -> Option<Vec<f64>> {
            trials.iter().map(|trial| log(figure, trial)).collect()
        };
        let (Some(a), Some(b)) = (logs(new), logs(old)) else {
            change.finding = Difference::Unknown(if has_all(figure, old) && has_all(figure, new) {
                UnknownReason::Hidden
            } else {
                UnknownReason::TooFewRequests
            });
            return change;
        };
        let Some(effect) = Effect::of_groups(&a, &b) else {
            return change;
        };
        let p = permutation(&a, &b, seed);
        let own_error = |trials: &[&TrialStats]| {
            let errors = trials.iter().map(|trial| figure.own_error_ns(trial));
            errors.fold(0.0, f64::max)
        };
        let own_error = own_error(old) + own_error(new);
        let is_few = smallest_permutation(a.len(), b.len()) > LEVEL;
        let is_beyond = change.apart_ns().is_none_or(|apart| apart > own_error);
        let mut ratio = Ratio::of_effect(&effect, None);
        let hidden = change.hidden_by(own_error);
        ratio.least_visible = ratio.least_visible.map(|least| least.max(hidden));
        change.p = Some(p);
        change.ratio = Some(ratio);
        change.finding = if is_beyond {
            Difference::of_interval(effect.interval, is_few, p)
        } else {
            Difference::Same
        };
        change
    }

    /// A figure with the medians of these pairs, and no conclusion yet.
    fn unjudged(figure: ChangeFigure, pairs: &[TrialPair<'_>]) -> FigureChange {
        let (new, old): (Vec<&TrialStats>, Vec<&TrialStats>) = pairs.iter().copied().unzip();
        FigureChange::empty(figure, &old, &new)
    }

    /// A figure with its medians, and no conclusion yet.
    fn empty(figure: ChangeFigure, old: &[&TrialStats], new: &[&TrialStats]) -> FigureChange {
        let reading = |trials: &[&TrialStats]| {
            let readings: Vec<Reading> = trials.iter().map(|trial| figure.reading(trial)).collect();
            Reading::median(&readings)
        };
        FigureChange {
            figure,
            unit: figure.unit_name(),
            before: reading(old),
            after: reading(new),
            ratio: None,
            p: None,
            p_adjusted: None,
            finding: Difference::Unknown(UnknownReason::NoPair),
        }
    }

    /// Judges pairs of rates. They are counts, so no measurement error of ours applies.
    fn judge_rates(&mut self, logs: &[f64], effect: Option<Effect>, seed: u64) {
        let Some(effect) = effect else {
            return;
        };
        let p = sign_flip(logs, seed);
        self.p = Some(p);
        self.ratio = Some(Ratio::of_effect(&effect, Some(logs)));
        let is_few = smallest_sign_flip(logs.len()) > LEVEL;
        self.finding = Difference::of_interval(effect.interval, is_few, p);
    }

    /// The medians of a latency, after and before; `None` if the figure is not a latency, or a median is not known exactly.
    fn medians_ns(&self) -> Option<(f64, f64)> {
        let nanos = |reading| match reading {
            Reading::Latency(Some(Quantile::Exact(span))) => Some(Duration::as_nanos(span) as f64),
            _ => None,
        };
        Some((nanos(self.after)?, nanos(self.before)?))
    }

    /// How far apart the medians of a latency are, if they are known.
    fn apart_ns(&self) -> Option<f64> {
        let (after, before) = self.medians_ns()?;
        Some((after - before).abs())
    }

    /// The largest difference of the medians that our own error of `own_error_ns` may hide, as a ratio of at least 1.
    fn hidden_by(&self, own_error_ns: f64) -> f64 {
        let medians = self.medians_ns();
        medians.map_or(1.0, |(after, before)| {
            1.0 + own_error_ns / after.min(before).max(1.0)
        })
    }

    /// The finding in a word or two, for a table.
    pub fn words(&self) -> &'static str {
        match self.finding {
            Difference::Higher => "higher",
            Difference::Lower => "lower",
            Difference::SeemsHigher => "seems higher",
            Difference::SeemsLower => "seems lower",
            Difference::TooFewPairs => "too few trials",
            Difference::Same
            | Difference::WithinOwnError
            | Difference::Unknown(UnknownReason::Doubtful) => "within our own error",
            Difference::WithinNoise => "within noise",
            Difference::NoDifference => "no difference",
            Difference::Disagree => "trials disagree",
            Difference::Unknown(UnknownReason::NoPair) => "no valid trials",
            Difference::Unknown(UnknownReason::TooFewRequests) => "too few requests",
            Difference::Unknown(UnknownReason::Hidden) => "hidden by unfinished requests",
            Difference::Unknown(UnknownReason::Limited) => "limited by the emulated path",
        }
    }
}

/// The logarithm of a trial's value; `None` if the value is not known exactly, or is zero.
fn log(figure: ChangeFigure, trial: &TrialStats) -> Option<f64> {
    match figure.latency(trial) {
        Some(value) => Some(log_nanos(value?.exact()?)),
        None => (trial.rate_achieved_per_s > 0.0).then(|| trial.rate_achieved_per_s.ln()),
    }
}

/// Whether every trial has the figure, even if only as a lower bound.
fn has_all(figure: ChangeFigure, trials: &[&TrialStats]) -> bool {
    let has = |trial: &&TrialStats| figure.latency(trial).is_none_or(|value| value.is_some());
    trials.iter().all(has)
}

impl Changes {
    /// How the p99s changed, in one sentence: `p99 is higher than before in 1 of 4 cells (...)`.
    pub fn sentence(&self) -> String {
        let p99s = || {
            let cells = self.cells.iter();
            cells.map(|cell| (cell, cell.figure(ChangeFigure::P99)))
        };
        let of_all = figure::counted(self.cells.len() as u64, "cell", "cells");
        let mut parts = Vec::new();
        for (finding, word) in [(Difference::Higher, "higher"), (Difference::Lower, "lower")] {
            let found = || p99s().filter(move |(_, change)| change.finding == finding);
            let size = |change: &FigureChange| change.ratio.map_or(f64::INFINITY, |r| r.size());
            let most = found().max_by(|a, b| size(a.1).total_cmp(&size(b.1)));
            let Some((cell, change)) = most else {
                continue;
            };
            let mut ratio = word.to_owned();
            if let Some(found) = change.ratio {
                ratio = figure::ratio(found.median);
                if let Some(interval) = found.interval {
                    ratio += &format!(", 95 % {}", interval.in_words());
                }
            }
            parts.push(format!(
                "{word} than before in {} of {of_all} (most: {} at {}: {ratio})",
                found().count(),
                cell.variant,
                cell.condition,
            ));
        }
        if parts.is_empty() {
            let few = p99s().filter(|(_, change)| change.finding == Difference::TooFewPairs);
            return match few.count() {
                0 => format!("No change of p99 is shown in any of {of_all}"),
                few => format!(
                    "No change of p99 can be shown in {few} of {of_all}: too few trials (it takes at least 6 pairs of \
                     the same seeds, or 4 against 4 of others)"
                ),
            };
        }
        format!("p99 is {}", parts.join(", and "))
    }

    /// The cells about whose p99 nothing can be said, each with the reason, such as `h1 at loss 3%: too few trials`. They
    /// include the cells that only one run has.
    pub fn without_verdict(&self) -> Vec<String> {
        let said = self.cells.iter().filter_map(|cell| {
            let change = cell.figure(ChangeFigure::P99);
            let words = match change.finding {
                Difference::TooFewPairs | Difference::Unknown(_) => change.words(),
                _ if cell.has_few_trials() => "too few trials",
                _ => return None,
            };
            Some(format!("{} at {}: {words}", cell.variant, cell.condition))
        });
        said.chain(self.unmatched.iter().cloned()).collect()
    }

    /// True if some cell's p99 is shown to be higher than before.
    pub fn is_worse(&self) -> bool {
        let mut p99s = self.cells.iter().map(|cell| cell.figure(ChangeFigure::P99));
        p99s.any(|change| change.finding == Difference::Higher)
    }
}

impl ChangeThreshold {
    /// One sentence for a cell, and whether the limit certainly holds, that is, holds for the whole interval.
    pub fn check(&self, cell: &CellChange) -> (String, bool) {
        let change = cell.figure(self.figure);
        let place = format!("{self} for {} at {}", cell.variant, cell.condition);
        let Some(ratio) = change.ratio.filter(|ratio| !ratio.bound) else {
            return (format!("{place}: FAILED, {}", change.words()), false);
        };
        let measured = figure::ratio(ratio.median);
        let Some(interval) = ratio.interval else {
            return (
                format!("{place}: FAILED, {measured}, but from too few trials to be sure"),
                false,
            );
        };
        let limit = self.threshold.limit;
        let holds = self
            .threshold
            .comparison
            .holds_all(interval.low, interval.high, limit);
        let result = if holds { "holds" } else { "FAILED" };
        let interval = interval.in_words();
        let text = format!("{place}: {result}, {measured} (95 % {interval})");
        (text, holds)
    }
}

impl FromStr for ChangeThreshold {
    type Err = ChangeThresholdError;

    fn from_str(text: &str) -> Result<ChangeThreshold, ChangeThresholdError> {
        let trimmed = text.trim_end();
        let number = trimmed.strip_suffix('x').unwrap_or(trimmed);
        let threshold: Threshold = number.parse().map_err(ChangeThresholdError::Threshold)?;
        let limit = number.rsplit(['<', '>', '=']).next().unwrap_or_default();
        let limit = limit.trim();
        if !limit.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(ChangeThresholdError::Unit(limit.to_owned()));
        }
        let figure = ChangeFigure::of(threshold.measure)
            .ok_or_else(|| ChangeThresholdError::Figure(threshold.measure.to_string()))?;
        Ok(ChangeThreshold { threshold, figure })
    }
}

impl fmt::Display for ChangeThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.threshold)
    }
}

impl fmt::Display for ChangeThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeThresholdError::Threshold(error) => error.fmt(f),
            ChangeThresholdError::Unit(limit) => write!(
                f,
                "a change is a ratio without a unit, and {limit:?} has one: write p(99)<=1.1x"
            ),
            ChangeThresholdError::Figure(figure) => write!(
                f,
                "no change of {figure:?} is compared; write avg, med, p(90), p(95), p(99), p(99.9) or requests:rate, as \
                 in p(99)<=1.1x"
            ),
        }
    }
}

impl std::error::Error for ChangeThresholdError {}

impl Ratio {
    /// The ratio of an effect that is fully known; `logs` are the pairs' log ratios, if it is an effect of pairs.
    fn of_effect(effect: &Effect, logs: Option<&[f64]>) -> Ratio {
        let end = |pick: fn(f64, f64) -> f64| {
            let logs = logs.into_iter().flatten().copied();
            logs.reduce(pick).unwrap_or(effect.median).exp()
        };
        Ratio {
            median: effect.median.exp(),
            low: end(f64::min),
            high: end(f64::max),
            bound: false,
            interval: effect.interval.map(Interval::of_logs),
            least_visible: effect.least_visible.map(f64::exp),
        }
    }
}
