//! Random numbers from a seed: a stream of SplitMix64 (`squall_base::splitmix`).
//!
//! It serves the relabellings of `sign_flip` and simulations. The link's own draws do not use it, because they must not
//! depend on their order.

use squall_base::splitmix::splitmix64;

/// A stream of random numbers; the same seed gives the same stream.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random { seed, drawn: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let bits = splitmix64(self.seed, self.drawn);
        self.drawn += 1;
        bits
    }

    /// A number from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        // The 53 bits of a double's significand.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from 0 to below `end`; 0 if `end` is 0. By multiplication (Lemire 2019, without the rejection: the
    /// bias is `end` in 2^64).
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_expected_mean() {
        let mut random = Random::new(5);
        let count = 100_000;
        let sum: usize = (0..count).map(|_| random.below(10)).sum();
        let mean = sum as f64 / f64::from(count);
        // Five standard errors of the mean: 5 x sqrt(99 / 12 / 100,000).
        assert!((mean - 4.5).abs() < 0.046, "{mean}");
        assert_eq!(random.below(0), 0);
    }
}
