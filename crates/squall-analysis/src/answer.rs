//! The answer to a recipe's question: one plain sentence with numbers, then how sure it is, then why.
//!
//! It says nothing beyond the verdicts of the conditions. If the recipe names a primary comparison, that comparison is the
//! answer. Otherwise it is the most certain difference in the leading measure; among equally certain ones, the largest. For the
//! individual conditions see `verdict`; for their sentences, `sentence`; for the answer as data, `summary`.

use std::collections::BTreeSet;

use squall_base::plan::{Measure, Statistic};

use crate::cell::CellSummary;
use crate::crossover::{ConnectionsNeeded, Crossover};
use crate::direction::{direction, variant_wins};
use crate::figure;
use crate::findings::{CellFindings, Finding, RunFinding, Severity, Whole, explains};
use crate::headline::headline;
use crate::stats::sign_flip::smallest_sign_flip;
pub use crate::summary::{Answer, AnswerResult, Confidence};
use crate::summary::{ConditionSummary, RunSummary};
use crate::value::{measure_name, unit_name};
use crate::verdict::{
    Comparison, Difference, LEVEL, Overload, PairResult, UnknownReason, Verdict, pairs_needed,
};
use crate::warning::{add_repetitions, repetitions};

impl Confidence {
    /// How certain this comparison is.
    pub(crate) fn of(comparison: &Comparison) -> Confidence {
        match comparison.finding {
            Difference::Higher | Difference::Lower => Confidence::Proven,
            Difference::SeemsHigher | Difference::SeemsLower => Confidence::Likely,
            Difference::TooFewPairs if direction(comparison).is_some() => Confidence::Likely,
            Difference::Same
            | Difference::WithinOwnError
            | Difference::WithinNoise
            | Difference::NoDifference
            | Difference::TooFewPairs => Confidence::NotShown,
            Difference::Disagree | Difference::Unknown(_) => Confidence::Unknown,
        }
    }
}

type ConditionComparison<'a> = (&'a ConditionSummary, &'a Comparison);

/// The answer; `None` if there is nothing to compare.
pub(crate) fn answer(
    measures: &[Measure],
    variants: &[String],
    conditions: &[ConditionSummary],
) -> Option<Answer> {
    let all = run_comparisons(conditions);
    let (condition, leading) = leading(measures, &all)?;
    let is_leading = |it: &Comparison| std::ptr::eq(it, leading);
    let others = all
        .iter()
        .filter(|(at, it)| at.condition == condition.condition && !is_leading(it))
        // Keep what bears on the question: comparisons by the leading measure, and other measures of the leading variant.
        .filter(|(_, it)| it.measure == leading.measure || it.variant == leading.variant)
        // If no pair of trials is valid, say so once, not for each measure.
        .filter(|(_, it)| {
            it.has_valid_pair() || it.requested_measure() == leading.requested_measure()
        })
        .map(|(at, it)| claim(at, it) + ".");
    let crossover = crossover_between(condition, leading);
    let result = result(condition, leading);
    let claim = claim(condition, leading);
    let claim = format!("{claim}, at {}.", condition.condition);
    let leading_why = why(leading);
    Some(Answer {
        headline: match crossover {
            Some(crossover) => format!("{}, at {}", crossover.sentence(), condition.condition),
            None => headline(leading, &condition.condition),
        },
        sentence: match crossover {
            Some(crossover) => format!("{}; {claim}", crossover.sentence()),
            None => claim,
        },
        confidence: Confidence::of(leading),
        how_sure: match repetitions_to_decide(condition, leading) {
            Some(repetitions) => format!("{} {}", how_sure(leading), add_repetitions(repetitions)),
            None => how_sure(leading),
        },
        reason: leading_why.clone(),
        why: leading_why,
        also: others
            .chain(crossovers(conditions, crossover))
            .chain(shown(&all))
            .chain(overloads(variants, conditions))
            .collect(),
        result: Some(result),
    })
}

fn result(condition: &ConditionSummary, comparison: &Comparison) -> AnswerResult {
    let ratio = comparison.ratio;
    AnswerResult {
        winner: variant_wins(comparison).map(|wins| {
            let winner = if wins {
                &comparison.variant
            } else {
                &comparison.baseline
            };
            winner.clone()
        }),
        variant: comparison.variant.clone(),
        baseline: comparison.baseline.clone(),
        measure: comparison.measure,
        unit: unit_name(comparison.measure.unit()).to_owned(),
        values: comparison.values,
        condition: condition.condition.clone(),
        ratio: ratio.map(|ratio| ratio.median),
        ratio_is_limit: ratio.is_some_and(|ratio| ratio.bound),
        ratio_interval_95: ratio.and_then(|ratio| ratio.interval),
        p_adjusted: comparison.p_adjusted,
        pairs: comparison.pairs.len() as u64,
    }
}

/// Adds the finding that explains the difference best to the answer's `why`. `cells` holds the findings of the run's cells.
pub fn add_findings(summary: &mut RunSummary, cells: &[CellFindings]) {
    let all = run_comparisons(&summary.conditions);
    let found = leading(&summary.measures, &all).and_then(|(condition, leading)| {
        let (worse, better) = if variant_wins(leading)? {
            (&leading.baseline, &leading.variant)
        } else {
            (&leading.variant, &leading.baseline)
        };
        let findings = ComparedCell::new(condition, cells, worse);
        let better = ComparedCell::new(condition, cells, better);
        let cause = leading.tail.as_ref().map(|tail| tail.cause.as_str());
        let finding = findings.explanation_against(&better, cause)?;
        let what_happens = finding.what_happens();
        // If a window is at fault, add the throughput that shows it.
        let is_window = ["stream_window", "connection_window"].contains(&finding.name.as_str());
        let beside = findings.summary.and_then(CellSummary::beside_prediction);
        let found = match beside.filter(|_| is_window) {
            Some(beside) => format!("{what_happens} Its throughput is {beside}."),
            None => what_happens.to_owned(),
        };
        Some((what_happens.to_owned(), found))
    });
    if let (Some(answer), Some((reason, found))) = (&mut summary.answer, found) {
        answer.reason = Some(reason);
        answer.why = Some(match answer.why.take() {
            Some(why) => format!("{why} {found}"),
            None => found,
        });
    }
}

/// One of the two cells of a comparison: its figures and its findings.
struct ComparedCell<'a> {
    summary: Option<&'a CellSummary>,
    /// The worst first.
    findings: &'a [RunFinding],
}

impl<'a> ComparedCell<'a> {
    fn new(
        condition: &'a ConditionSummary,
        cells: &'a [CellFindings],
        variant: &str,
    ) -> ComparedCell<'a> {
        let is_its =
            |cell: &&CellFindings| cell.variant == variant && cell.condition == condition.condition;
        let findings = cells.iter().find(is_its);
        ComparedCell {
            summary: condition.cells.iter().find(|cell| cell.variant == variant),
            findings: findings.map_or(&[], |cell| &cell.findings),
        }
    }

    /// The finding that best explains why this cell is slower than `faster`. If one cause leads where the two are compared, it
    /// is the worst finding about that cause, preferably one that costs response time. Otherwise it is the finding whose cost
    /// in response time exceeds its cost to `faster` by most. If no finding costs more response time here, it is the worst
    /// finding with a larger share of something else, such as packets, than in `faster`. Minor findings explain nothing.
    fn explanation_against(
        &self,
        faster: &ComparedCell<'_>,
        leading_cause: Option<&str>,
    ) -> Option<&'a Finding> {
        let is_time = |finding: &Finding| finding.share.of == Whole::ResponseTime;
        let counts = |finding: &&Finding| finding.severity != Severity::Minor;
        let findings = || self.findings.iter().map(|it| &it.finding).filter(counts);
        if let Some(cause) = leading_cause {
            let mut explaining = findings().filter(|finding| explains(finding, cause));
            let by_time = explaining.clone().find(|finding| is_time(finding));
            return by_time.or_else(|| explaining.next());
        }
        // Without both means, shares are compared.
        let means = self.mean_ns().zip(faster.mean_ns());
        let (own_mean, faster_mean) = means.unwrap_or((1.0, 1.0));
        let beyond = |finding: &Finding| {
            if is_time(finding) {
                self.share(finding) * own_mean - faster.share(finding) * faster_mean
            } else {
                self.share(finding) - faster.share(finding)
            }
        };
        let by_time = findings()
            .filter(|finding| is_time(finding) && beyond(finding) > 0.0)
            .max_by(|a, b| beyond(a).total_cmp(&beyond(b)));
        by_time.or_else(|| findings().find(|finding| !is_time(finding) && beyond(finding) > 0.0))
    }

    /// The share of the cell's own finding of this kind; 0 without one.
    fn share(&self, kind: &Finding) -> f64 {
        let mut own = self.findings.iter().map(|it| &it.finding);
        let own = own.find(|it| it.name == kind.name && it.hop == kind.hop);
        own.map_or(0.0, |own| own.share.part)
    }

    fn mean_ns(&self) -> Option<f64> {
        let mean = self.summary?.mean.as_ref()?.median.lower_bound()?;
        Some(mean.as_nanos() as f64)
    }
}

/// The comparisons of different variants, with their conditions; conditions without trials are skipped.
fn run_comparisons(conditions: &[ConditionSummary]) -> Vec<ConditionComparison<'_>> {
    let tried = conditions.iter().filter(|it| !it.is_untried());
    let compared =
        tried.flat_map(|condition| comparisons(condition).map(move |it| (condition, it)));
    compared.collect()
}

/// The crossover that answers how many connections it takes, if both variants of a comparison are rungs of one ladder of
/// connection counts.
fn crossover_between<'a>(
    condition: &'a ConditionSummary,
    comparison: &Comparison,
) -> Option<&'a Crossover> {
    let both = [&comparison.variant, &comparison.baseline];
    condition.crossovers.iter().find(|crossover| {
        let is_tried = |name: &String| crossover.tried.iter().any(|rung| rung.variant == *name);
        crossover.takes != ConnectionsNeeded::Unclear && both.into_iter().all(is_tried)
    })
}

/// How many connections it takes to match a baseline: one sentence for each condition and baseline, except for the crossover
/// that was already `said`.
fn crossovers<'a>(
    conditions: &'a [ConditionSummary],
    said: Option<&'a Crossover>,
) -> impl Iterator<Item = String> + 'a {
    let is_said = move |it: &Crossover| said.is_some_and(|said| std::ptr::eq(said, it));
    conditions.iter().flat_map(move |of| {
        let further = of.crossovers.iter().filter(move |it| !is_said(it));
        further.map(|it| format!("{}, at {}.", it.sentence(), of.condition))
    })
}

/// `A difference is proven in 3 of 8 comparisons.`; `None` for a single comparison.
fn shown(all: &[ConditionComparison<'_>]) -> Option<String> {
    let is_shown = |(_, it): &&ConditionComparison<'_>| Confidence::of(it) == Confidence::Proven;
    let shown = all.iter().filter(is_shown).count();
    (all.len() > 1).then(|| {
        format!(
            "A difference is proven in {shown} of {} comparisons.",
            all.len()
        )
    })
}

/// The comparison that answers the question.
fn leading<'a>(
    measures: &[Measure],
    all: &[ConditionComparison<'a>],
) -> Option<ConditionComparison<'a>> {
    if let Some(primary) = all.iter().find(|(_, it)| it.is_primary) {
        return Some(*primary);
    }
    let first = *measures.first()?;
    let is_by_first = |it: &Comparison| it.requested_measure() == first;
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
pub(crate) fn comparisons(condition: &ConditionSummary) -> impl Iterator<Item = &Comparison> {
    let all = condition.comparisons();
    all.filter(|comparison| !comparison.is_same_variant)
}

/// The size of a difference, for ranking. A value that never ends ranks above every ratio; one that only grows with the
/// duration ranks below.
fn size(comparison: &Comparison) -> f64 {
    match (comparison.ratio, comparison.overload) {
        (Some(ratio), _) => ratio.size(),
        (None, None) => f64::INFINITY,
        (None, Some(_)) => 0.0,
    }
}

/// `two envoys h2c is slower than two envoys h1: p99 2100 ms against 66 ms, 32x`, without a full stop.
fn claim(condition: &ConditionSummary, comparison: &Comparison) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    let what = measure_name(comparison.measure);
    let values = match comparison.values_in_words() {
        none if none.is_empty() => String::new(),
        values => format!(": {what} {values}{}", incomplete(condition, comparison)),
    };
    let Some(direction) = direction(comparison) else {
        return without_direction(comparison, &values);
    };
    let mut text = format!(
        "{variant} {} {baseline}{values}",
        verb(comparison.measure, direction == PairResult::Higher)
    );
    if let Some(ratio) = comparison.ratio {
        text += &format!(", {}{}", ratio.limit(), figure::ratio(ratio.median));
    }
    match comparison.overload {
        Some(Overload::Variant) => text += &format!(" ({variant} cannot carry the load)"),
        Some(Overload::Baseline) => text += &format!(" ({baseline} cannot carry the load)"),
        Some(Overload::Both) => text += " (neither can carry the load)",
        None => {}
    }
    text
}

/// ` over 6 of 8 pairs`, if the table of the condition shows medians over more trials than those of the comparison's pairs,
/// or ` over 6 pairs of which 1 is doubtful`, which the table does not say; otherwise empty.
fn incomplete(condition: &ConditionSummary, comparison: &Comparison) -> String {
    let names = [&comparison.variant, &comparison.baseline];
    let cells = || {
        let cells = condition.cells.iter();
        cells.filter(|cell| names.contains(&&cell.variant))
    };
    let pairs = comparison.pairs.len();
    let doubtful = comparison.pairs.iter().filter(|pair| pair.is_doubtful);
    let doubtful = doubtful.count();
    if doubtful > 0 {
        let is = if doubtful == 1 { "is" } else { "are" };
        let all = figure::counted(pairs as u64, "pair", "pairs");
        return format!(" over {all} of which {doubtful} {is} doubtful");
    }
    if cells().all(|cell| cell.evidence().len() == pairs) {
        return String::new();
    }
    let trials = cells().flat_map(|cell| &cell.trials);
    let repetitions: BTreeSet<u32> = trials.map(|trial| trial.repetition).collect();
    let all = figure::counted(repetitions.len() as u64, "pair", "pairs");
    format!(" over {pairs} of {all}")
}

fn is_range(measure: Measure) -> bool {
    measure.statistic() == Some(Statistic::Iqr)
}

/// The words between the names of the variant and the baseline.
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
    let what = measure_name(comparison.measure);
    match comparison.finding {
        Difference::Unknown(UnknownReason::NoPair) => format!(
            "{variant} and {baseline} cannot be compared, because no pair of their trials is valid"
        ),
        Difference::Unknown(reason) => {
            format!("{variant} and {baseline} cannot be compared by {what}, because {reason}")
        }
        Difference::Disagree => format!(
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
        let interval = interval.in_words();
        format!("; the ratio is {interval} with 95 % confidence")
    });
    let chance = |p: f64| format!("chance alone does as much in {} % of runs", percent(p));
    let sure = match Confidence::of(comparison) {
        Confidence::Proven => match comparison.p_adjusted.or(comparison.p) {
            Some(p) => format!("Proven by {of_pairs}: {}{interval}", chance(p)),
            None => format!("Proven by {of_pairs}{interval}"),
        },
        Confidence::Likely if comparison.finding == Difference::TooFewPairs => {
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
        Some(requested) => {
            format!(
                "{sure}. The trials have too few values for a {}",
                measure_name(requested)
            ) + "."
        }
        None => sure + ".",
    }
}

/// How many repetitions each cell needs for the comparison to have a chance of being decided: as many as a proof takes, or
/// twice as many as before if those were not enough. Disturbed trials are repeated anyway. `None` if the comparison is
/// decided, or if something other than chance hides the difference.
fn repetitions_to_decide(condition: &ConditionSummary, comparison: &Comparison) -> Option<u64> {
    let fewest = pairs_needed(comparison.comparisons.max(1));
    let needed = match comparison.finding {
        Difference::TooFewPairs
        | Difference::Unknown(UnknownReason::NoPair | UnknownReason::Doubtful) => fewest,
        Difference::SeemsHigher
        | Difference::SeemsLower
        | Difference::NoDifference
        | Difference::Disagree => fewest.max(2 * comparison.pairs.len() as u64),
        Difference::Higher
        | Difference::Lower
        | Difference::Same
        | Difference::WithinOwnError
        | Difference::WithinNoise
        | Difference::Unknown(
            UnknownReason::TooFewRequests | UnknownReason::Hidden | UnknownReason::Limited,
        ) => return None,
    };
    let names = [&comparison.variant, &comparison.baseline];
    let cells = condition.cells.iter();
    let own = cells.filter(|cell| names.contains(&&cell.variant));
    Some(needed.max(repetitions(own)))
}

fn percent(p: f64) -> String {
    match p * 100.0 {
        percent if percent < 0.01 => "less than 0.01".to_owned(),
        percent => figure::three_digits(percent),
    }
}

/// The cause that leads where the variants are compared, as a sentence.
fn why(comparison: &Comparison) -> Option<String> {
    let tail = comparison.tail.as_ref()?;
    let direction = direction(comparison)?;
    let (whose, other) = match direction {
        PairResult::Lower => (&comparison.baseline, &comparison.variant),
        _ => (&comparison.variant, &comparison.baseline),
    };
    // Rounded down: `100 %` would hide that there are other causes.
    let percent = (tail.share * 100.0).floor();
    Some(format!(
        "{percent} % of what {whose} takes longer than {other} at the {} is {}.",
        comparison.measure.statistic()?.name(),
        tail.words()
    ))
}

/// `h2c x1 cannot carry the load under 1 of 2 conditions.`, for each variant that is overloaded under some condition.
fn overloads(names: &[String], conditions: &[ConditionSummary]) -> impl Iterator<Item = String> {
    let tried = || conditions.iter().filter(|it| !it.is_untried());
    let all = figure::counted(tried().count() as u64, "condition", "conditions");
    names.iter().filter_map(move |name| {
        let is_overloaded = |verdict: &Verdict| matches!(verdict, Verdict::Overloaded { variant, .. } if variant == name);
        let count = tried()
            .filter(|condition| condition.verdicts.iter().any(is_overloaded))
            .count();
        (count > 0).then(|| format!("{name} cannot carry the load under {count} of {all}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{CostShare, Evidence};

    fn finding(name: &str, part: f64, of: Whole) -> RunFinding {
        RunFinding {
            trials: 1,
            of: 1,
            folder: String::new(),
            finding: Finding {
                name: name.to_owned(),
                title: String::new(),
                severity: Severity::of(part),
                share: CostShare { part, of },
                evidence: Evidence::default(),
                explanation: String::new(),
                fixes: Vec::new(),
                hop: None,
            },
        }
    }

    fn explanation<'a>(
        slower: &'a [RunFinding],
        faster: &[RunFinding],
        cause: Option<&str>,
    ) -> Option<&'a str> {
        let (summary, findings) = (None, slower);
        let slower = ComparedCell { summary, findings };
        let (summary, findings) = (None, faster);
        let faster = ComparedCell { summary, findings };
        let explanation = slower.explanation_against(&faster, cause);
        explanation.map(|finding| finding.name.as_str())
    }

    #[test]
    fn the_answer_explains_a_difference_by_what_the_slower_variant_has_more_of() {
        let slower = [
            finding("hpack_eviction", 1.0, Whole::Requests),
            finding("timeout_repair", 0.33, Whole::ResponseTime),
            finding("own_loss", 0.32, Whole::ResponseTime),
            finding("head_of_line", 0.06, Whole::ResponseTime),
        ];
        let faster = [
            finding("own_loss", 0.43, Whole::ResponseTime),
            finding("timeout_repair", 0.41, Whole::ResponseTime),
        ];
        assert_eq!(explanation(&slower, &faster, None), Some("head_of_line"));
        assert_eq!(explanation(&slower, &[], None), Some("timeout_repair"));
        // If no finding costs more time, something else may be the reason.
        assert_eq!(
            explanation(&slower[..3], &faster, None),
            Some("hpack_eviction")
        );
        assert_eq!(explanation(&slower[1..3], &faster, None), None);
    }

    #[test]
    fn the_answer_names_the_worst_finding_about_the_leading_cause() {
        let slower = [
            finding("hpack_eviction", 1.0, Whole::Requests),
            finding("head_of_line", 0.4, Whole::ResponseTime),
            finding("timeout_repair", 0.33, Whole::ResponseTime),
            finding("own_loss", 0.32, Whole::ResponseTime),
        ];
        assert_eq!(
            explanation(&slower, &slower, Some("loss")),
            Some("timeout_repair")
        );
        assert_eq!(explanation(&slower, &[], Some("host")), None);
        let minor = [finding("own_loss", 0.01, Whole::ResponseTime)];
        assert_eq!(explanation(&minor, &[], Some("loss")), None);
    }
}
