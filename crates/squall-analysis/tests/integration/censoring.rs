//! The property of censored quantiles: whatever the true latencies were and whichever requests were given up, an exact
//! quantile is the true one and a lower bound is not above it.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use squall_analysis::{Quantile, Sample};
use squall_base::Duration;

/// What really happened to a request, and how long we waited for it.
#[derive(Clone, Copy, Debug)]
struct Truth {
    /// `None`: no response would ever have arrived.
    latency: Option<u64>,
    /// `Some`: we gave up after this time, which is at most the latency.
    given_up: Option<u64>,
}

impl Truth {
    fn seen(self) -> Quantile {
        match (self.latency, self.given_up) {
            (_, Some(waited)) => Quantile::AtLeast(Duration::from_nanos(waited)),
            (Some(latency), None) => Quantile::Exact(Duration::from_nanos(latency)),
            (None, None) => Quantile::Never,
        }
    }
}

/// Few distinct values, so that ties are common, because they are where the rule could go wrong.
fn truth() -> impl Strategy<Value = Truth> {
    (0u64..20, 0u64..20, 0u8..10).prop_map(|(latency, waited, kind)| match kind {
        0 => Truth {
            latency: None,
            given_up: None,
        },
        1 => Truth {
            latency: None,
            given_up: Some(waited),
        },
        2..=4 => Truth {
            latency: Some(latency.max(waited)),
            given_up: Some(waited.min(latency)),
        },
        _ => Truth {
            latency: Some(latency),
            given_up: None,
        },
    })
}

fn true_at_rank(truths: &[Truth], rank: usize) -> Option<u64> {
    let mut latencies: Vec<u64> = truths
        .iter()
        .map(|t| t.latency.unwrap_or(u64::MAX))
        .collect();
    latencies.sort_unstable();
    Some(latencies[rank - 1]).filter(|&latency| latency != u64::MAX)
}

fn check(seen: Quantile, truth: Option<u64>) -> Result<(), TestCaseError> {
    match (seen, truth) {
        (Quantile::Exact(value), Some(truth)) => prop_assert_eq!(value.as_nanos(), truth),
        (Quantile::Exact(value), None) => prop_assert!(false, "{} is never", value),
        (Quantile::AtLeast(value), Some(truth)) => prop_assert!(value.as_nanos() <= truth),
        (Quantile::AtLeast(_), None) => {}
        (Quantile::Never, truth) => prop_assert_eq!(truth, None),
    }
    Ok(())
}

proptest! {
    #[test]
    fn quantiles_never_claim_more_than_the_truth(
        truths in prop::collection::vec(truth(), 1..500),
        per_mille in 1u32..1000,
    ) {
        let sample: Sample = truths.iter().map(|t| t.seen()).collect();
        if let Some(seen) = sample.quantile(per_mille) {
            let rank = (truths.len() * per_mille as usize).div_ceil(1000);
            check(seen, true_at_rank(&truths, rank))?;
        }
        check(sample.max().unwrap(), true_at_rank(&truths, truths.len()))?;
        check(sample.min().unwrap(), true_at_rank(&truths, 1))?;
    }

    /// The rule is not too cautious either: where it says "at least", slower unfinished requests would really have moved
    /// the quantile.
    #[test]
    fn quantile_is_a_lower_bound_only_if_unfinished_requests_could_move_it(
        truths in prop::collection::vec(truth(), 2..60),
        per_mille in 1u32..1000,
    ) {
        let sample: Sample = truths.iter().map(|t| t.seen()).collect();
        if let Some(Quantile::AtLeast(value)) = sample.quantile(per_mille) {
            let slowest: Vec<Truth> = truths
                .iter()
                .map(|t| if t.given_up.is_some() { Truth { latency: None, ..*t } } else { *t })
                .collect();
            let rank = (truths.len() * per_mille as usize).div_ceil(1000);
            prop_assert_ne!(true_at_rank(&slowest, rank), Some(value.as_nanos()));
        }
    }

    #[test]
    fn means_never_claim_more_than_the_truth(truths in prop::collection::vec(truth(), 1..60)) {
        let sample: Sample = truths.iter().map(|t| t.seen()).collect();
        let truth = truths
            .iter()
            .try_fold(0, |sum, t| t.latency.map(|latency| sum + latency))
            .map(|sum| sum / truths.len() as u64);
        check(sample.mean().unwrap(), truth)?;
    }
}
