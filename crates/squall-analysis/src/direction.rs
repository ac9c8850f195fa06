//! Which way a comparison points, if all measurements agree.
//!
//! It does not say how sure that is (`answer` does).

use crate::verdict::{Comparison, Difference, PairResult};

/// The direction of the difference, if all measurements agree on it.
pub(crate) fn direction(comparison: &Comparison) -> Option<PairResult> {
    let pairs = &comparison.pairs;
    let all = |result| !pairs.is_empty() && pairs.iter().all(|pair| pair.result() == result);
    match comparison.is_higher() {
        Some(true) => Some(PairResult::Higher),
        Some(false) => Some(PairResult::Lower),
        None if comparison.finding != Difference::TooFewPairs => None,
        None if all(PairResult::Higher) => Some(PairResult::Higher),
        None if all(PairResult::Lower) => Some(PairResult::Lower),
        None => None,
    }
}

/// Whether the variant's value is the better one, if all measurements agree on that.
pub(crate) fn variant_wins(comparison: &Comparison) -> Option<bool> {
    let is_higher = direction(comparison)? == PairResult::Higher;
    Some(is_higher == comparison.measure.is_better_higher())
}
