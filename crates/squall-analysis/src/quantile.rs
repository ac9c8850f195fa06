//! What can be known of a latency, and of a quantile, when some requests never finished.
//!
//! A request that was abandoned took *longer* than its row says; one that failed has no latency at all. Leaving them out
//! would flatter exactly the worst variant, so they stay in, and every number says how much of it is known. Nothing is
//! estimated here: no model of the missing part, no interval. `trial` goes from requests to a trial's numbers.

use serde::{Deserialize, Serialize};
use squall_base::Duration;

/// The fewest requests that a p95 needs: see [`Sample::quantile`].
pub const P95_NEEDS: u64 = 72;

/// The fewest requests that a p99 needs: see [`Sample::quantile`].
pub const P99_NEEDS: u64 = 368;

/// Whether `count` values show anything about the quantile at `share`: all of them lie below the true one with probability
/// `share^count`, which must be small (see [`Sample::quantile`]).
pub(crate) fn suffices(count: u64, share: f64) -> bool {
    const FALLS_SHORT: f64 = 0.025;
    share.powf(count as f64) <= FALLS_SHORT
}

/// A latency, or a quantile of latencies, with how much of it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantile {
    /// Exactly this value.
    Exact(Duration),
    /// This value or more: unfinished requests hide how much more.
    AtLeast(Duration),
    /// Infinite: the request failed, or enough requests failed that the quantile is one of them.
    Never,
}

impl Quantile {
    /// The value or its lower bound; `None` if it is infinite.
    pub fn lower_bound(self) -> Option<Duration> {
        match self {
            Quantile::Exact(value) | Quantile::AtLeast(value) => Some(value),
            Quantile::Never => None,
        }
    }

    /// The value, if it is known exactly.
    pub fn exact(self) -> Option<Duration> {
        match self {
            Quantile::Exact(value) => Some(value),
            Quantile::AtLeast(_) | Quantile::Never => None,
        }
    }

    /// Orders by lower bound, the known before the unknown of the same value, `Never` last.
    fn order(self) -> (u8, Duration, u8) {
        match self {
            Quantile::Exact(value) => (0, value, 0),
            Quantile::AtLeast(value) => (0, value, 1),
            Quantile::Never => (1, Duration::ZERO, 0),
        }
    }

    /// The midpoint of two: a lower bound if either is one, `Never` if either is.
    fn midpoint(self, other: Quantile) -> Quantile {
        let (Some(a), Some(b)) = (self.lower_bound(), other.lower_bound()) else {
            return Quantile::Never;
        };
        let middle = Duration::from_nanos(a.as_nanos().midpoint(b.as_nanos()));
        match (self, other) {
            (Quantile::Exact(_), Quantile::Exact(_)) => Quantile::Exact(middle),
            _ => Quantile::AtLeast(middle),
        }
    }
}

/// Sorted latencies, to take quantiles from.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    sorted: Vec<Quantile>,
}

impl FromIterator<Quantile> for Sample {
    fn from_iter<I: IntoIterator<Item = Quantile>>(values: I) -> Sample {
        let mut sorted: Vec<Quantile> = values.into_iter().collect();
        sorted.sort_unstable_by_key(|value| value.order());
        Sample { sorted }
    }
}

impl Sample {
    /// How many latencies there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True if there are no latencies.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The nearest-rank quantile, such as 990 per mille for p99; below 1000.
    ///
    /// `None` if there are so few latencies that not even the largest is a 97.5 % upper bound of the true quantile. All `n`
    /// lie below it with probability `q^n`, which is at most 2.5 % from 368 for p99, 72 for p95 and 6 for the median (order
    /// statistics: David and Nagaraja, 2003, section 7.1). A smaller sample would yield a number that does not show how
    /// unreliable it is.
    pub fn quantile(&self, per_mille: u32) -> Option<Quantile> {
        let rank = (self.len() as u64 * u64::from(per_mille)).div_ceil(1000);
        self.at_rank_of(f64::from(per_mille) / 1000.0, rank as usize)
    }

    /// The nearest-rank quantile at a share, from 0 for the smallest latency to below 1; `None` as for
    /// [`Sample::quantile`].
    pub(crate) fn at_share(&self, share: f64) -> Option<Quantile> {
        // Less a rounding error, which must not add a rank.
        let rank = (self.len() as f64 * share - 1e-9).ceil() as usize;
        self.at_rank_of(share, rank)
    }

    /// The value at `rank`, which is that of the quantile at `share`.
    fn at_rank_of(&self, share: f64, rank: usize) -> Option<Quantile> {
        let is_shown = suffices(self.len() as u64, share);
        is_shown.then(|| self.at_rank(rank.max(1))).flatten()
    }

    /// The 75th percentile less the 25th; `None` below 13 values, or if the 25th is not known exactly.
    pub fn interquartile_range(&self) -> Option<Quantile> {
        let (low, high) = (self.quantile(250)?, self.quantile(750)?);
        match (low, high) {
            (Quantile::Exact(low), Quantile::Exact(high)) => Some(Quantile::Exact(high - low)),
            (Quantile::Exact(low), Quantile::AtLeast(high)) => Some(Quantile::AtLeast(high - low)),
            (Quantile::Exact(_), Quantile::Never) => Some(Quantile::Never),
            (Quantile::AtLeast(_) | Quantile::Never, _) => None,
        }
    }

    /// The largest.
    pub fn max(&self) -> Option<Quantile> {
        self.at_rank(self.len())
    }

    /// The smallest.
    pub fn min(&self) -> Option<Quantile> {
        self.at_rank(1)
    }

    /// The middle value, or the midpoint of the middle two. Meant for few values, such as one per trial.
    pub fn median(&self) -> Option<Quantile> {
        let low = self.at_rank(self.len().div_ceil(2))?;
        let high = self.at_rank(self.len() / 2 + 1)?;
        Some(low.midpoint(high))
    }

    /// The mean. If requests failed or are unfinished it is a lower bound: the mean of those that did not fail. (One failed
    /// request makes the true mean infinite, so any value bounds it. With the mean of the others, a variant gains nothing
    /// by failing fast.)
    pub fn mean(&self) -> Option<Quantile> {
        let bounds: Vec<u64> = self
            .sorted
            .iter()
            .filter_map(|value| value.lower_bound())
            .map(Duration::as_nanos)
            .collect();
        if bounds.is_empty() {
            return (!self.is_empty()).then_some(Quantile::Never);
        }
        let sum: u128 = bounds.iter().copied().map(u128::from).sum();
        // The mean of u64 values is a u64.
        let mean = Duration::from_nanos((sum / bounds.len() as u128) as u64);
        if self.sorted.iter().all(|value| value.exact().is_some()) {
            Some(Quantile::Exact(mean))
        } else {
            Some(Quantile::AtLeast(mean))
        }
    }

    /// The value at `rank` (from 1) in sorted order.
    ///
    /// The sorted lower bounds never exceed the sorted true latencies, so the bound at this rank is never above the true
    /// value. It is the true value if `rank` latencies are known to be no larger. Otherwise the unfinished requests may all
    /// be slower, and the true value larger.
    pub(crate) fn at_rank(&self, rank: usize) -> Option<Quantile> {
        let found = *self.sorted.get(rank.checked_sub(1)?)?;
        let Some(bound) = found.lower_bound() else {
            return Some(Quantile::Never);
        };
        let known = self
            .sorted
            .iter()
            .take_while(|value| value.lower_bound().is_some_and(|b| b <= bound))
            .filter(|value| value.exact().is_some())
            .count();
        Some(if known >= rank {
            Quantile::Exact(bound)
        } else {
            Quantile::AtLeast(bound)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(ms: u64) -> Quantile {
        Quantile::Exact(Duration::from_millis(ms))
    }

    fn at_least(ms: u64) -> Quantile {
        Quantile::AtLeast(Duration::from_millis(ms))
    }

    #[test]
    fn quantiles_are_nearest_rank() {
        let sample: Sample = (1..=400).map(exact).collect();
        assert_eq!(sample.quantile(500), Some(exact(200)));
        assert_eq!(sample.quantile(990), Some(exact(396)));
        assert_eq!(sample.max(), Some(exact(400)));
    }

    #[test]
    fn quantiles_are_withheld_below_the_minimum_sample_size() {
        let of = |n: u64| (1..=n).map(exact).collect::<Sample>();
        for (per_mille, needs) in [(990, P99_NEEDS), (950, P95_NEEDS), (500, 6)] {
            assert_eq!(of(needs - 1).quantile(per_mille), None);
            assert!(of(needs).quantile(per_mille).is_some());
        }
        assert_eq!(of(1_000).quantile(1000), None);
        assert_eq!(Sample::default().quantile(500), None);
        assert_eq!(Sample::default().max(), None);
        assert_eq!(Sample::default().mean(), None);
    }

    #[test]
    fn interquartile_range_is_only_as_certain_as_its_ends() {
        let sample: Sample = (1..=100).map(exact).collect();
        assert_eq!(sample.interquartile_range(), Some(exact(50)));
        let sample: Sample = (1..=70)
            .map(exact)
            .chain((71..=100).map(at_least))
            .collect();
        assert_eq!(sample.interquartile_range(), Some(at_least(50)));
        let sample: Sample = (1..=100).map(at_least).collect();
        assert_eq!(sample.interquartile_range(), None);
        assert_eq!(
            (1..=12)
                .map(exact)
                .collect::<Sample>()
                .interquartile_range(),
            None
        );
    }

    #[test]
    fn median_is_exact_if_enough_exact_values_support_it() {
        // Whether the unknown one is 1 or 10, the middle of the three is 5.
        let sample: Sample = [at_least(1), exact(5), exact(5)].into_iter().collect();
        assert_eq!(sample.median(), Some(exact(5)));
        let sample: Sample = [at_least(1), exact(5), exact(6)].into_iter().collect();
        assert_eq!(sample.median(), Some(at_least(5)));
    }

    #[test]
    fn means_with_unfinished_or_failed_requests_are_lower_bounds() {
        let mean = |values: &[Quantile]| values.iter().copied().collect::<Sample>().mean();
        assert_eq!(mean(&[exact(2), exact(4)]), Some(exact(3)));
        assert_eq!(mean(&[exact(2), at_least(4)]), Some(at_least(3)));
        assert_eq!(
            mean(&[exact(2), exact(4), Quantile::Never]),
            Some(at_least(3))
        );
        assert_eq!(mean(&[Quantile::Never]), Some(Quantile::Never));
    }

    #[test]
    fn a_median_of_two_lies_between_them() {
        let median = |values: [Quantile; 2]| values.into_iter().collect::<Sample>().median();
        assert_eq!(median([exact(2), exact(4)]), Some(exact(3)));
        assert_eq!(median([exact(2), at_least(4)]), Some(at_least(3)));
        assert_eq!(median([exact(2), Quantile::Never]), Some(Quantile::Never));
    }
}
