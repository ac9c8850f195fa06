//! What each request of a load asks for. The draw depends only on the request's number, so the thread count does not change
//! it.

use squall_base::plan::Mix;
use squall_base::splitmix::splitmix64;

/// A mix, prepared for drawing.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    /// Cumulative sums of the weights; empty if there is nothing to choose from.
    sums: Vec<u64>,
    /// What every request asks for in that case.
    only: u32,
    seed: u64,
}

impl Draw {
    pub(super) fn new(mix: &Mix, seed: u64) -> Draw {
        let add = |sum: &mut u64, weight: &u32| {
            *sum += u64::from(*weight);
            Some(*sum)
        };
        let positive = |weight: &u32| *weight > 0;
        let weights = mix.weights();
        let first = weights.iter().position(positive).unwrap_or(0);
        let has_choice = weights.iter().copied().filter(|w| positive(w)).count() > 1;
        Draw {
            sums: if has_choice {
                weights.iter().scan(0, add).collect()
            } else {
                Vec::new()
            },
            only: first as u32,
            seed,
        }
    }

    /// What request `n` asks for.
    pub(super) fn what(&self, n: u64) -> u32 {
        let Some(sum) = self.sums.last() else {
            return self.only;
        };
        // The high half of the product: each number below the sum comes from 2^64 / sum of the generator's outputs, give or
        // take one.
        let drawn = (u128::from(splitmix64(self.seed, n)) * u128::from(*sum)) >> 64;
        self.sums.partition_point(|sum| u128::from(*sum) <= drawn) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let draw = Draw::new(&Mix::new(vec![0, 1, 3, 0, 4, 0]).unwrap(), 5);
        let mut counts = [0_i32; 6];
        for n in 0..80_000 {
            counts[draw.what(n) as usize] += 1;
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
    fn a_single_choice_is_always_drawn() {
        let draw = Draw::new(&Mix::new(vec![0, 0, 9, 0]).unwrap(), 5);
        assert!((0..100).all(|n| draw.what(n) == 2));
        assert_eq!(Draw::new(&Mix::default(), 0).what(7), 0);
        let draw = Draw::new(&Mix::new(vec![u32::MAX; 3]).unwrap(), 1);
        assert!((0..100).all(|n| draw.what(n) < 3));
    }
}
