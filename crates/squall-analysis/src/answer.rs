//! The answer to a recipe's question, in one sentence: where the variants differ most, by how much, why, and how much of the
//! run says so.
//!
//! It says nothing that the verdicts of the conditions do not say, and takes the strongest that is proved; if nothing is, it
//! says that. Conditions one by one: `verdict`.

use crate::figure;
use crate::summary::{ConditionSummary, RunSummary};
use crate::verdict::{Comparison, Finding, Verdict, pairs_needed};

/// The sentence; `None` if there is nothing to compare.
pub(crate) fn answer(summary: &RunSummary) -> Option<String> {
    Some(compared_in_words(summary)? + &overloads(summary))
}

/// `; h2c x1 cannot carry the load under 1 of 2 conditions`, for each variant that cannot somewhere.
fn overloads(summary: &RunSummary) -> String {
    let tried = || {
        summary
            .conditions
            .iter()
            .filter(|condition| !condition.is_untried())
    };
    let all = figure::counted(tried().count() as u64, "condition", "conditions");
    let mut text = String::new();
    for name in &summary.variants {
        let is_overloaded = |verdict: &Verdict| matches!(verdict, Verdict::Overloaded { variant, .. } if variant == name);
        let count = tried()
            .filter(|condition| condition.verdicts.iter().any(is_overloaded))
            .count();
        if count > 0 {
            text += &format!("; {name} cannot carry the load under {count} of {all}");
        }
    }
    text
}

/// What the comparisons say together; `None` if there are none.
fn compared_in_words(summary: &RunSummary) -> Option<String> {
    let compared: Vec<(&ConditionSummary, &Comparison)> = summary
        .conditions
        .iter()
        .filter(|condition| !condition.is_untried())
        .flat_map(|condition| comparisons(condition).map(move |c| (condition, c)))
        .collect();
    if compared.is_empty() {
        return None;
    }
    let pick = |wanted: fn(&Comparison) -> bool| {
        let found = compared.iter().filter(|(_, comparison)| wanted(comparison));
        found
            .copied()
            .max_by(|a, b| size(a.1).total_cmp(&size(b.1)))
    };
    let is_shown = |c: &Comparison| matches!(c.finding, Finding::Higher | Finding::Lower);
    let shown = compared.iter().filter(|(_, c)| is_shown(c)).count();
    let of_all = format!(
        "a difference is shown in {shown} of {}",
        figure::counted(compared.len() as u64, "comparison", "comparisons")
    );
    if let Some((condition, comparison)) = pick(is_shown) {
        return Some(strongest(condition, comparison) + &format!("; {of_all}"));
    }
    let seems = |c: &Comparison| matches!(c.finding, Finding::SeemsHigher | Finding::SeemsLower);
    let needed = pairs_needed(compared.len() as u64);
    if let Some((condition, comparison)) = pick(seems) {
        return Some(format!(
            "Nothing is proved, as {} were made: {needed} pairs of each could; the strongest sign is at {}, where \
             {comparison}",
            figure::counted(compared.len() as u64, "comparison", "comparisons"),
            condition.condition,
        ));
    }
    let is_few = |c: &Comparison| c.finding == Finding::TooFewPairs;
    if let Some((condition, comparison)) = pick(is_few) {
        return Some(format!(
            "No answer yet, repeat each cell {needed} times; at {} {comparison}",
            condition.condition,
        ));
    }
    Some(nothing_shown(&compared))
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

/// The largest difference that is shown, with what the other variants do there.
fn strongest(condition: &ConditionSummary, comparison: &Comparison) -> String {
    let mut text = short(comparison, true);
    text += &format!(" at {}", condition.condition);
    if let Some(tail) = comparison.tail_in_words() {
        text += &format!("; {tail}");
    }
    let others = comparisons(condition).filter(|other| other.variant != comparison.variant);
    for other in others {
        text += &format!("; {}", short(other, false));
    }
    text
}

/// A comparison in as few words as it bears.
fn short(comparison: &Comparison, with_baseline: bool) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    let pairs = figure::counted(comparison.pairs.len() as u64, "pair", "pairs");
    let what = match with_baseline {
        true => "'s p99",
        false => "'s",
    };
    let than = match with_baseline {
        true => format!(" {baseline}'s"),
        false => String::new(),
    };
    let largest = comparison.largest_hidden();
    match (comparison.finding, comparison.ratio) {
        (Finding::Higher | Finding::Lower, Some(ratio)) => {
            let limit = match ratio.interval {
                Some(interval) => format!(
                    "{} to {}, {pairs}",
                    figure::ratio(interval.low),
                    figure::ratio(interval.high)
                ),
                None => format!("{pairs}, a limit"),
            };
            format!(
                "{variant}{what} is {}{than} ({limit})",
                figure::ratio(ratio.median)
            )
        }
        (Finding::Higher, None) => format!("{variant}{what} is higher{} ({pairs})", longer(&than)),
        (Finding::Lower, None) => format!("{variant}{what} is lower{} ({pairs})", longer(&than)),
        (Finding::SeemsHigher | Finding::SeemsLower, Some(ratio)) => format!(
            "{variant}{what} seems {}{than}, not proved",
            figure::ratio(ratio.median)
        ),
        (Finding::NoDifference, Some(_)) if largest.is_some() => format!(
            "{variant} shows no difference larger than {}",
            largest.map_or_else(String::new, figure::ratio)
        ),
        _ => format!("{variant} shows no difference"),
    }
}

fn longer(than: &str) -> String {
    match than {
        "" => String::new(),
        than => format!(" than{than}"),
    }
}

/// That nothing is shown, with what could hide all the same.
fn nothing_shown(compared: &[(&ConditionSummary, &Comparison)]) -> String {
    let is_unknown = |comparison: &Comparison| {
        matches!(comparison.finding, Finding::Unknown(_) | Finding::Disagree)
    };
    let known = || {
        compared
            .iter()
            .filter(|(_, comparison)| !is_unknown(comparison))
    };
    let count = figure::counted(compared.len() as u64, "comparison", "comparisons");
    let largest = known()
        .map(|(_, comparison)| comparison.largest_hidden())
        .collect::<Option<Vec<f64>>>()
        .and_then(|sizes| sizes.into_iter().reduce(f64::max));
    let mut text = match largest {
        Some(largest) => format!(
            "No difference of p99 larger than {} in any of {count}",
            figure::ratio(largest)
        ),
        None => format!("No difference of p99 is shown in any of {count}"),
    };
    let unknown = compared.len() - known().count();
    if unknown > 0 {
        text += &format!(
            "; {unknown} of them cannot be told, as unfinished or failed requests or invalid trials hide it"
        );
    }
    text
}
