//! Order statistics: between which values of a sample a true quantile lies, whatever the distribution.
//!
//! Exact for independent values (David and Nagaraja, *Order Statistics*, 3rd edition, 2003, section 7.1). The requests of a
//! run are not independent: for them, this only gives the minimum sample size, and `within` computes the interval.

use statrs::distribution::{Binomial, DiscreteCDF};

/// How often each end of a 95 % interval may miss by chance.
pub const MISSED_AT_AN_END: f64 = 0.025;

/// Two ranks, from 1, in a sorted sample; an end is `None` if the sample is too small for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// The true quantile is below this value in at most 2.5 % of samples.
    pub low: Option<u64>,
    /// The true quantile is above this value in at most 2.5 % of samples.
    pub high: Option<u64>,
}

/// The ranks of a 95 % interval of the `quantile` (above 0, below 1) in a sample of `count` independent values.
///
/// The value at rank `r` is above the true quantile if fewer than `r` values are below the quantile, and the number below
/// is binomial. So `low` is the last rank that is above it in at most 2.5 % of samples, and `high` the first that is below
/// it in at most 2.5 %. A p99 has a `high` from 368 values on, a p99.9 from 3,688.
pub fn interval_ranks(count: u64, quantile: f64) -> Ranks {
    let Ok(below) = Binomial::new(quantile, count) else {
        return Ranks::default();
    };
    // `cdf` grows with the rank, so both are found by bisection.
    let first = |holds: &dyn Fn(u64) -> bool| {
        let (mut low, mut high) = (0, count + 1);
        while low < high {
            let middle = low.midpoint(high);
            if holds(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    // The value at rank r is above the quantile with probability P(B <= r - 1), and below it with P(B >= r).
    let too_much = first(&|r| r > 0 && below.cdf(r - 1) > MISSED_AT_AN_END);
    let enough = first(&|r| r > 0 && below.sf(r - 1) <= MISSED_AT_AN_END);
    Ranks {
        low: Some(too_much - 1).filter(|&rank| rank >= 1),
        high: Some(enough).filter(|&rank| rank <= count),
    }
}

/// Whether a sample of `count` independent values can have an upper bound of the `quantile`, and [`interval_ranks`] a `high`:
/// all values are below the quantile in at most 2.5 % of samples.
pub fn has_upper_bound(count: u64, quantile: f64) -> bool {
    quantile.powf(count as f64) <= MISSED_AT_AN_END
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upper_bound_needs_a_minimum_number_of_values() {
        for (quantile, needs) in [
            (0.5, 6),
            (0.9, 36),
            (0.95, 72),
            (0.99, 368),
            (0.999, 3_688),
            (0.9999, 36_887),
        ] {
            assert_eq!(interval_ranks(needs - 1, quantile).high, None, "{quantile}");
            assert_eq!(interval_ranks(needs, quantile).high, Some(needs));
            assert!(!has_upper_bound(needs - 1, quantile) && has_upper_bound(needs, quantile));
        }
        assert!(!has_upper_bound(0, 0.5));
        assert_eq!(interval_ranks(0, 0.5), Ranks::default());
    }

    #[test]
    fn a_low_quantile_can_lack_a_lower_bound() {
        assert_eq!(interval_ranks(100, 0.01).low, None);
        let of_six = interval_ranks(6, 0.5);
        assert_eq!((of_six.low, of_six.high), (Some(1), Some(6)));
    }
}
