//! Independent loss: each packet is lost independently, with the same probability.
//!
//! Bursts are `burst` (driven by packets) and `weather` (driven by time); the component that uses one of the three is the
//! folder's `mod.rs`.

use squall_base::Probability;

use crate::random::{Luck, PacketKey, Purpose};

/// Independent loss of each packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndependentLoss {
    luck: Luck,
    loss: Probability,
}

impl IndependentLoss {
    /// Loss with probability `loss`.
    pub(crate) fn new(loss: Probability, luck: Luck) -> IndependentLoss {
        IndependentLoss { luck, loss }
    }

    /// Whether the packet with this key is lost.
    pub(crate) fn loses(&self, key: PacketKey) -> bool {
        self.luck.strikes(self.loss, Purpose::Loss, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_base::record::{Direction, PacketClass};

    fn fates(loss: f64, seed: u64, flow: u32, count: u32) -> Vec<bool> {
        let loss = IndependentLoss::new(Probability::new(loss).unwrap(), Luck::new(seed));
        (0..count)
            .map(|class_index| {
                loss.loses(PacketKey {
                    direction: Direction::Up,
                    flow,
                    class: PacketClass::Data,
                    class_index,
                })
            })
            .collect()
    }

    #[test]
    fn never_and_always_are_exact() {
        assert!(fates(0.0, 7, 0, 10_000).iter().all(|lost| !lost));
        assert!(fates(1.0, 7, 0, 10_000).iter().all(|lost| *lost));
    }

    /// Binomial bound: over n = 10^5 packets the count lies within 5 standard deviations of n*p; by the normal
    /// approximation a correct generator fails one of these nine checks for one seed in 190,000.
    #[test]
    fn the_share_lost_is_the_probability() {
        let n = 100_000;
        for p in [0.01, 0.03, 0.3] {
            for seed in 1..=3 {
                let lost = fates(p, seed, 0, n).iter().filter(|lost| **lost).count() as f64;
                let (mean, sd) = (f64::from(n) * p, (f64::from(n) * p * (1.0 - p)).sqrt());
                assert!(
                    (lost - mean).abs() < 5.0 * sd,
                    "p {p}, seed {seed}: {lost} lost, expected {mean} +- {sd}"
                );
            }
        }
    }

    /// Wald and Wolfowitz's runs test: with independent fates the number of runs is close to normal with
    /// mean 2 n p q + 1 and variance near 4 n p q (1 - 3 p q).
    #[test]
    fn losses_are_independent_in_order() {
        let (n, p) = (100_000, 0.03);
        for seed in 1..=3 {
            let fates = fates(p, seed, 1, n);
            let share = fates.iter().filter(|lost| **lost).count() as f64 / f64::from(n);
            let pq = share * (1.0 - share);
            let runs = 1.0 + fates.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
            let mean = 2.0 * f64::from(n) * pq + 1.0;
            let sd = (4.0 * f64::from(n) * pq * (1.0 - 3.0 * pq)).sqrt();
            assert!(
                (runs - mean).abs() < 5.0 * sd,
                "seed {seed}: {runs} runs, expected {mean} +- {sd}"
            );
        }
    }

    /// Flows must not share their draws: where one flow loses a packet, another loses its own no more often than elsewhere.
    #[test]
    fn flows_are_independent() {
        let n = 100_000;
        let (one, other) = (fates(0.1, 5, 0, n), fates(0.1, 5, 1, n));
        let both = one.iter().zip(&other).filter(|(a, b)| **a && **b).count() as f64;
        let (mean, sd) = (f64::from(n) * 0.01, (f64::from(n) * 0.01 * 0.99).sqrt());
        assert!(
            (both - mean).abs() < 5.0 * sd,
            "{both} lost in both, expected {mean} +- {sd}"
        );
    }
}
