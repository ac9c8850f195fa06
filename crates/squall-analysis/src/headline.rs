//! The answer as one clause: which variant wins, by what, and under which condition.
//!
//! It decides nothing: `verdict` has the result, and `answer` chooses the comparison. `answer` also writes the sentence
//! with all numbers.

use squall_base::plan::Condition;

use crate::direction::variant_wins;
use crate::figure;
use crate::value::measure_name;
use crate::verdict::{Comparison, Difference, Overload};

/// `h1 wins: its p99 is 0.16x that of h2c x1, at delay 10ms, loss 3%`, without a full stop.
pub(crate) fn headline(comparison: &Comparison, at: &Condition) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    let what = measure_name(comparison.measure);
    let clause = match variant_wins(comparison) {
        Some(true) => format!("{variant} wins: its {what} is {}", than(comparison, true)),
        Some(false) => format!("{baseline} wins: its {what} is {}", than(comparison, false)),
        None => undecided(comparison, &what),
    };
    format!("{clause}, at {at}")
}

/// `0.16x that of h2c x1`: the winner's value beside the other's.
fn than(comparison: &Comparison, variant_wins: bool) -> String {
    let loser = if variant_wins {
        &comparison.baseline
    } else {
        &comparison.variant
    };
    if let Some(ratio) = comparison.ratio {
        let own = if variant_wins {
            ratio.median
        } else {
            1.0 / ratio.median
        };
        let limit = match (ratio.bound, own > 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        };
        return format!("{limit}{} that of {loser}", figure::ratio(own));
    }
    let direction = if comparison.measure.is_better_higher() {
        "higher"
    } else {
        "lower"
    };
    let is_overloaded = match comparison.overload {
        Some(Overload::Both) => ", and neither can carry the load",
        Some(Overload::Variant) if !variant_wins => ", which cannot carry the load",
        Some(Overload::Baseline) if variant_wins => ", which cannot carry the load",
        Some(_) => ", but it cannot carry the load",
        None => "",
    };
    format!("{direction} than that of {loser}{is_overloaded}")
}

fn undecided(comparison: &Comparison, what: &str) -> String {
    let (variant, baseline) = (&comparison.variant, &comparison.baseline);
    match comparison.finding {
        Difference::Unknown(_) | Difference::Disagree => {
            format!("It cannot be told whether {variant} or {baseline} has the better {what}")
        }
        _ => match comparison.largest_hidden() {
            Some(largest) => format!(
                "No winner: {variant} and {baseline} differ by at most {} in {what}",
                figure::ratio(largest)
            ),
            None => format!("No winner is shown between {variant} and {baseline} by {what}"),
        },
    }
}
