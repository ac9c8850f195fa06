//! What each request of a load asks for: the caller's requests in order, or one chosen at random. It depends only on
//! the request's number, so the thread count does not change it.

use squall_base::plan::Mix;
use squall_base::splitmix::splitmix64;

/// A mix, prepared for use.
#[derive(Clone, Debug)]
pub(super) enum Draw {
    /// Every request asks for this one.
    Only(u32),
    /// Request n asks for number n modulo this count.
    InOrder(u64),
    /// Request n asks for what the `n`-th output of the seed falls on.
    Random {
        /// Cumulative sums of the weights.
        sums: Vec<u64>,
        seed: u64,
    },
}

impl Draw {
    pub(super) fn new(mix: &Mix, seed: u64) -> Draw {
        let weights = match mix {
            Mix::InOrder(count) => return Draw::InOrder(u64::from(count.get())),
            Mix::Drawn(weights) => weights.as_slice(),
        };
        let positive = |weight: &u32| *weight > 0;
        if weights.iter().copied().filter(|w| positive(w)).count() > 1 {
            let add = |sum: &mut u64, weight: &u32| {
                *sum += u64::from(*weight);
                Some(*sum)
            };
            let sums = weights.iter().scan(0, add).collect();
            Draw::Random { sums, seed }
        } else {
            Draw::Only(weights.iter().position(positive).unwrap_or(0) as u32)
        }
    }

    /// What request `n` asks for.
    #[inline]
    pub(super) fn choice(&self, n: u64) -> u32 {
        match self {
            Draw::Only(what) => *what,
            Draw::InOrder(count) => (n % count) as u32,
            Draw::Random { sums, seed } => {
                let sum = sums.last().copied().unwrap_or(0);
                // The high half of the product: each number below the sum comes from 2^64 / sum of the generator's
                // outputs, give or take one.
                let drawn = (u128::from(splitmix64(*seed, n)) * u128::from(sum)) >> 64;
                sums.partition_point(|sum| u128::from(*sum) <= drawn) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let draw = Draw::new(&Mix::new(vec![0, 1, 3, 0, 4, 0]).unwrap(), 5);
        let mut counts = [0_i32; 6];
        for n in 0..80_000 {
            counts[draw.choice(n) as usize] += 1;
        }
        for (count, expected) in counts
            .into_iter()
            .zip([0, 10_000, 30_000, 0, 40_000, 0_i32])
        {
            // Five standard deviations of a binomial count are at most 5 * sqrt(80,000 / 4) = 707.
            assert!(
                (count - expected).abs() <= 707 * expected.signum(),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn requests_in_order_wrap_around_after_the_last() {
        let six = NonZeroU32::new(6).unwrap();
        for seed in [0, 5] {
            let draw = Draw::new(&Mix::InOrder(six), seed);
            let asked: Vec<u32> = (0..8).map(|n| draw.choice(n)).collect();
            assert_eq!(asked, [0, 1, 2, 3, 4, 5, 0, 1]);
        }
    }

    #[test]
    fn the_only_request_with_a_weight_is_always_drawn_and_large_weights_work() {
        let draw = Draw::new(&Mix::new(vec![0, 0, 9, 0]).unwrap(), 5);
        assert!((0..100).all(|n| draw.choice(n) == 2));
        assert_eq!(Draw::new(&Mix::default(), 0).choice(7), 0);
        let draw = Draw::new(&Mix::new(vec![u32::MAX; 3]).unwrap(), 1);
        assert!((0..100).all(|n| draw.choice(n) < 3));
    }
}
