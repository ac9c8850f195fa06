//! The answer to a recipe's question: one plain sentence with numbers, then how sure it is, then why.
//!
//! It says nothing that the verdicts of the conditions do not say. If the recipe names a primary comparison, that is the
//! answer; else the strongest difference by the leading measure that is proven, or seems to be there. Conditions one by one:
//! `verdict`; their sentences: `sentence`.

use serde::{Deserialize, Serialize};
use squall_base::plan::{Measure, Statistic};

use crate::crossover::Crossover;
use crate::figure;
use crate::findings::{CellFindings, Severity};
use crate::stats::sign_flip::smallest_sign_flip;
use crate::summary::{ConditionSummary, RunSummary};
use crate::value::name;
use crate::verdict::{
    Comparison, Finding, LEVEL, Overload, PairResult, Unfit, Verdict, pairs_needed,
};

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer in one sentence.
    pub sentence: String,
    /// How sure it is, in a word.
    pub confidence: Confidence,
    /// The same in a sentence with numbers.
    pub how_sure: String,
    /// Why it is so: the cause that leads; `None` if no cause leads, or causes are not known.
    pub why: Option<String>,
    /// What else these two variants differ by, and what the others do, a sentence each.
    pub also: Vec<String>,
}

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Chance alone does as much in at most 5 % of runs.
    Proven,
    /// All that was measured says so, and more repetitions could prove it.
    Likely,
    /// There may be no difference: what was measured shows none.
    NotShown,
    /// What was measured cannot say.
    Unknown,
}

impl Confidence {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Proven => "proven",
            Confidence::Likely => "likely",
            Confidence::NotShown => "not shown",
            Confidence::Unknown => "cannot be told",
        }
    }

    fn of(comparison: &Comparison) -> Confidence {
        match comparison.finding {
            Finding::Higher | Finding::Lower => Confidence::Proven,
            Finding::SeemsHigher | Finding::SeemsLower => Confidence::Likely,
            Finding::TooFewPairs if direction(comparison).is_some() => Confidence::Likely,
            Finding::Same
            | Finding::WithinOwnError
            | Finding::WithinNoise
            | Finding::NoDifference
            | Finding::TooFewPairs => Confidence::NotShown,
            Finding::Disagree | Finding::Unknown(_) => Confidence::Unknown,
        }
    }
}

/// A comparison and its condition.
type At<'a> = (&'a ConditionSummary, &'a Comparison);

/// The answer; `None` if there is nothing to compare.
pub(crate) fn answer(summary: &RunSummary) -> Option<Answer> {
    let all = compared(summary);
    let (condition, leading) = leading(summary, &all)?;
    let is_leading = |it: &Comparison| std::ptr::eq(it, leading);
    let others = all
        .iter()
        .filter(|(at, it)| at.condition == condition.condition && !is_leading(it))
        // Of the other measures, those that say something about this question.
        .filter(|(_, it)| it.measure == leading.measure || it.variant == leading.variant)
        .map(|(_, it)| claim(it) + ".");
    Some(Answer {
        sentence: format!("{}, at {}.", claim(leading), condition.condition),
        confidence: Confidence::of(leading),
        how_sure: how_sure(leading),
        why: why(leading),
        also: others
            .chain(crossovers(summary))
            .chain(shown(&all))
            .chain(overloads(summary))
            .collect(),
    })
}

/// Says why with the worst finding of the slower variant, too. `cells` are the findings of the run's cells.
pub fn add_findings(summary: &mut RunSummary, cells: &[CellFindings]) {
    let found = leading(summary, &compared(summary)).and_then(|(condition, leading)| {
        let worse = match direction(leading)? {
            PairResult::Higher if !leading.measure.is_better_higher() => &leading.variant,
            PairResult::Lower if leading.measure.is_better_higher() => &leading.variant,
            _ => &leading.baseline,
        };
        let is_its =
            |cell: &&CellFindings| cell.variant == *worse && cell.condition == condition.condition;
        let worst = &cells.iter().find(is_its)?.findings.first()?.finding;
        if worst.severity == Severity::Minor {
            return None;
        }
        let what_happens = worst.what_happens();
        let cell = condition.cells.iter().find(|cell| cell.variant == *worse)?;
        // The number that says so, where a window is what is wrong.
        let is_window = ["stream_window", "connection_window"].contains(&worst.name.as_str());
        Some(match cell.beside_prediction().filter(|_| is_window) {
            Some(beside) => format!("{what_happens} Its throughput is {beside}."),
            None => what_happens.to_owned(),
        })
    });
    if let (Some(answer), Some(found)) = (&mut summary.answer, found) {
        answer.why = Some(match answer.why.take() {
            Some(why) => format!("{why} {found}"),
            None => found,
        });
    }
}

/// The comparisons of different variants that were tried, with their conditions.
fn compared(summary: &RunSummary) -> Vec<At<'_>> {
    let tried = summary
        .conditions
        .iter()
        .filter(|condition| !condition.is_untried());
    let compared =
        tried.flat_map(|condition| comparisons(condition).map(move |it| (condition, it)));
    compared.collect()
}

/// How many connections it takes, a sentence for each condition and each variant that they are held against.
fn crossovers(summary: &RunSummary) -> impl Iterator<Item = String> {
    let conditions = summary.conditions.iter();
    conditions.flat_map(|of| {
        let sentences = of.crossovers.iter().map(Crossover::sentence);
        sentences.map(move |sentence| format!("{sentence}, at {}.", of.condition))
    })
}

/// `A difference is proven in 3 of 8 comparisons.`; nothing of a single one.
fn shown(all: &[At<'_>]) -> Option<String> {
    let is_shown = |(_, it): &&At<'_>| Confidence::of(it) == Confidence::Proven;
    let shown = all.iter().filter(is_shown).count();
    (all.len() > 1).then(|| {
        format!(
            "A difference is proven in {shown} of {} comparisons.",
            all.len()
        )
    })
}

/// The comparison that answers the question.
fn leading<'a>(summary: &RunSummary, all: &[At<'a>]) -> Option<At<'a>> {
    if let Some(primary) = all.iter().find(|(_, it)| it.is_primary) {
        return Some(*primary);
    }
    let first = *summary.measures.first()?;
    let is_by_first = |it: &Comparison| it.asked() == first;
    let candidates = || all.iter().filter(|(_, it)| is_by_first(it)).copied();
    let rank = |it: &Comparison| match Confidence::of(it) {
        Confidence::Proven => 3,
        Confidence::Likely => 2,
        Confidence::NotShown => 1,
        Confidence::Unknown => 0,
    };
    candidates().max_by(|(_, a), (_, b)| {
        let sizes = || size(a).total_cmp(&size(b));
        rank(a).cmp(&rank(b)).then_with(sizes)
    })
}

/// The comparisons of different variants.
fn comparisons(condition: &ConditionSummary) -> impl Iterator<Item = &Comparison> {
    let compared = condition
        .verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::Compared(comparison) => Some(comparison.as_ref()),
            Verdict::Overloaded { .. } => None,
        });
    compared.filter(|comparison| !comparison.is_same_variant)
}

/// What never ends differs more than any ratio; what only grows with the duration less than any.
fn size(comparison: &Comparison) -> f64 {
    match (comparison.ratio, comparison.overload) {
        (Some(ratio), _) => ratio.size(),
        (None, None) => f64::INFINITY,
        (None, Some(_)) => 0.0,
    }
}

/// Which way the variant's value differs, if all that was measured agrees on it.
fn direction(comparison: &Comparison) -> Option<PairResult> {
    let pairs = &comparison.pairs;
    let all = |result| !pairs.is_empty() && pairs.iter().all(|pair| pair.result() == result);
    match comparison.is_higher() {
        Some(true) => Some(PairResult::Higher),
        Some(false) => Some(PairResult::Lower),
        None if comparison.finding != Finding::TooFewPairs => None,
        None if all(PairResult::Higher) => Some(PairResult::Higher),
        None if all(PairResult::Lower) => Some(PairResult::Lower),
        None => None,
    }
}

/// `two envoys h2c is slower than two envoys h1: p99 2100 ms against 66 ms, 32x`, without a full stop.
fn claim(comparison: &Comparison) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    let what = name(comparison.measure);
    let values = match comparison.against() {
        none if none.is_empty() => String::new(),
        values => format!(": {what} {values}"),
    };
    let Some(direction) = direction(comparison) else {
        return without_direction(comparison, &values);
    };
    let mut text = format!(
        "{variant} {} {baseline}{values}",
        verb(comparison.measure, direction == PairResult::Higher)
    );
    if let Some(ratio) = comparison.ratio {
        let limit = match (ratio.bound, ratio.median > 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        };
        text += &format!(", {limit}{}", figure::ratio(ratio.median));
    }
    match comparison.overload {
        Some(Overload::Variant) => text += &format!(" ({variant} cannot carry the load)"),
        Some(Overload::Baseline) => text += &format!(" ({baseline} cannot carry the load)"),
        Some(Overload::Both) => text += " (neither can carry the load)",
        None => {}
    }
    text
}

fn is_range(measure: Measure) -> bool {
    measure.statistic() == Some(Statistic::Iqr)
}

/// How a variant differs from a baseline that it is said before.
fn verb(measure: Measure, is_higher: bool) -> &'static str {
    match (measure, is_higher) {
        (Measure::Throughput, true) => "has a higher throughput than",
        (Measure::Throughput, false) => "has a lower throughput than",
        (Measure::Connections, true) => "opens more connections than",
        (Measure::Connections, false) => "opens fewer connections than",
        (Measure::Handshakes, true) => "makes more handshakes than",
        (Measure::Handshakes, false) => "makes fewer handshakes than",
        (Measure::FailedShare, true) => "fails more requests than",
        (Measure::FailedShare, false) => "fails fewer requests than",
        (measure, true) if is_range(measure) => "varies more than",
        (measure, false) if is_range(measure) => "varies less than",
        (_, true) => "is slower than",
        (_, false) => "is faster than",
    }
}

fn without_direction(comparison: &Comparison, values: &str) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    let what = name(comparison.measure);
    match comparison.finding {
        Finding::Unknown(Unfit::NoPair) => format!(
            "{variant} and {baseline} cannot be compared, because no pair of their trials is valid"
        ),
        Finding::Unknown(unfit) => {
            format!("{variant} and {baseline} cannot be compared by {what}, because {unfit}")
        }
        Finding::Disagree => format!(
            "The trials of {variant} and {baseline} disagree on which is better by {what}{values}"
        ),
        _ => match comparison.largest_hidden() {
            Some(largest) => format!(
                "{variant} and {baseline} do not differ by more than {}{values}",
                figure::ratio(largest)
            ),
            None => format!("No difference is shown between {variant} and {baseline}{values}"),
        },
    }
}

/// The numbers behind the confidence.
fn how_sure(comparison: &Comparison) -> String {
    let pairs = comparison.pairs.len();
    let of_pairs = figure::counted(pairs as u64, "pair of trials", "pairs of trials");
    let interval = comparison.ratio.and_then(|ratio| ratio.interval);
    let interval = interval.map_or_else(String::new, |interval| {
        let (low, high) = (figure::ratio(interval.low), figure::ratio(interval.high));
        format!("; the ratio is {low} to {high} with 95 % confidence")
    });
    let chance = |p: f64| format!("chance alone does as much in {} % of runs", percent(p));
    let sure = match Confidence::of(comparison) {
        Confidence::Proven => match comparison.p_adjusted.or(comparison.p) {
            Some(p) => format!("Proven by {of_pairs}: {}{interval}", chance(p)),
            None => format!("Proven by {of_pairs}{interval}"),
        },
        Confidence::Likely if comparison.finding == Finding::TooFewPairs => {
            let needed = pairs_needed(comparison.comparisons.max(1));
            let agree = if pairs == 1 { "says so" } else { "all say so" };
            format!("Likely, but not proven: {of_pairs} {agree}, and it takes {needed}")
        }
        Confidence::Likely => format!(
            "Likely, but not proven: among {}, chance shows one so large in {} % of runs{interval}",
            figure::counted(comparison.comparisons, "comparison", "comparisons"),
            percent(comparison.p_adjusted.unwrap_or(1.0)),
        ),
        Confidence::NotShown => {
            let few = smallest_sign_flip(pairs) > LEVEL;
            let few = if few { ", which prove nothing" } else { "" };
            format!("Not shown: {of_pairs}{few}{interval}")
        }
        Confidence::Unknown => format!("Cannot be told from {of_pairs}"),
    };
    match comparison.instead_of {
        Some(asked) => {
            format!(
                "{sure}. The trials have too few values for a {}",
                name(asked)
            ) + "."
        }
        None => sure + ".",
    }
}

fn percent(p: f64) -> String {
    match p * 100.0 {
        percent if percent < 0.01 => "less than 0.01".to_owned(),
        percent => figure::three_digits(percent),
    }
}

/// The cause that leads.
fn why(comparison: &Comparison) -> Option<String> {
    let tail = comparison.tail.as_ref()?;
    let direction = direction(comparison)?;
    let (whose, other) = match direction {
        PairResult::Lower => (&comparison.baseline, &comparison.variant),
        _ => (&comparison.variant, &comparison.baseline),
    };
    // A share that is rounded up to all of it would hide the rest.
    let percent = (tail.share * 100.0).floor();
    Some(format!(
        "{percent} % of what the slowest requests of {whose} take longer than those of {other} is {}.",
        tail.words()
    ))
}

/// `h2c x1 cannot carry the load under 1 of 2 conditions.`, for each variant that cannot somewhere.
fn overloads(summary: &RunSummary) -> impl Iterator<Item = String> {
    let tried = || {
        summary
            .conditions
            .iter()
            .filter(|condition| !condition.is_untried())
    };
    let all = figure::counted(tried().count() as u64, "condition", "conditions");
    summary.variants.iter().filter_map(move |name| {
        let is_overloaded = |verdict: &Verdict| matches!(verdict, Verdict::Overloaded { variant, .. } if variant == name);
        let count = tried()
            .filter(|condition| condition.verdicts.iter().any(is_overloaded))
            .count();
        (count > 0).then(|| format!("{name} cannot carry the load under {count} of {all}."))
    })
}
