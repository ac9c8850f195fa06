//! Loss in bursts of packets: Gilbert and Elliott's two states, separately for each flow, direction and class.
//!
//! Elliott, "Estimates of error rates for codes on burst-noise channels", BSTJ 42 (1963); the parameters are those of
//! netem's gemodel. Before each packet the state may change, then the packet is lost with the state's probability. States
//! belong to a flow rather than the link, so that one flow's fates do not depend on another's packets. A flow's first
//! packet meets the bad state with its long-run share. If flows started in the good state, like netem's single chain, short
//! flows would lose much less than configured, and SYNs hardly any.

use std::collections::BTreeMap;

use squall_base::Probability;
use squall_base::record::PacketClass;

use crate::random::{Luck, PacketKey, Purpose};
use crate::settings::GilbertElliott;

/// The states of all flows.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    model: GilbertElliott,
    share_bad: Probability,
    luck: Luck,
    states: BTreeMap<(u32, PacketClass), State>,
}

/// The state of one flow and class.
#[derive(Clone, Copy, Debug)]
struct State {
    is_bad: bool,
    /// The packet before which it was last drawn.
    class_index: u32,
}

impl Bursts {
    pub(crate) fn new(model: GilbertElliott, luck: Luck) -> Bursts {
        let (to_bad, to_good) = (model.to_bad.get(), model.to_good.get());
        Bursts {
            model,
            // p / (p + r). If both are 0 there is no such share, and the state stays good.
            share_bad: Probability::new(to_bad / (to_bad + to_good)).unwrap_or(Probability::ZERO),
            luck,
            states: BTreeMap::new(),
        }
    }

    /// Whether the packet with this key is lost. A copy that follows its packet meets the same state and the same fate, and
    /// is not a step of the chain.
    pub(crate) fn loses(&mut self, key: PacketKey) -> bool {
        let Bursts {
            model,
            share_bad,
            luck,
            states,
        } = self;
        let state = states
            .entry((key.flow, key.class))
            .or_insert_with(|| State {
                is_bad: luck.strikes(*share_bad, Purpose::BurstChange, key),
                class_index: key.class_index,
            });
        if state.class_index != key.class_index {
            let change = if state.is_bad {
                model.to_good
            } else {
                model.to_bad
            };
            state.is_bad ^= luck.strikes(change, Purpose::BurstChange, key);
            state.class_index = key.class_index;
        }
        let loss = if state.is_bad {
            model.loss_in_bad
        } else {
            model.loss_in_good
        };
        luck.strikes(loss, Purpose::BurstLoss, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::tests::{GeometricFit, runs};
    use crate::random::tests::{assert_binomial, key};

    const PACKETS: u32 = 400_000;

    fn probability(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    fn simple(loss: f64, mean_length: f64) -> GilbertElliott {
        GilbertElliott::bursts(probability(loss), mean_length).unwrap()
    }

    fn general(to_bad: f64, to_good: f64, loss_in_bad: f64, loss_in_good: f64) -> GilbertElliott {
        GilbertElliott {
            to_bad: probability(to_bad),
            to_good: probability(to_good),
            loss_in_bad: probability(loss_in_bad),
            loss_in_good: probability(loss_in_good),
        }
    }

    fn fates(model: GilbertElliott, seed: u64, flow: u32) -> Vec<bool> {
        let mut bursts = Bursts::new(model, Luck::new(seed));
        (0..PACKETS).map(|n| bursts.loses(key(flow, n))).collect()
    }

    /// The Markov chain's predictions for a model: the share of packets lost, and the variance of their number in n
    /// packets, divided by n. With s the share, d the difference between the losses in the two states, b the share of bad
    /// states and x = 1 - p - r the correlation of neighbouring states, fates k packets apart have the covariance d^2 b
    /// (1-b) x^k, and so the sum over all pairs is s (1-s) + 2 d^2 b (1-b) x / (1-x).
    fn share_and_variance(model: GilbertElliott) -> (f64, f64) {
        let (p, r) = (model.to_bad.get(), model.to_good.get());
        let (bad, x) = (p / (p + r), 1.0 - p - r);
        let d = model.loss_in_bad.get() - model.loss_in_good.get();
        let share = model.loss_in_good.get() + d * bad;
        let of_pairs = 2.0 * d * d * bad * (1.0 - bad) * x / (1.0 - x);
        (share, share * (1.0 - share) + of_pairs)
    }

    /// In the simple form a burst of losses is a stay in the bad state, so its length is geometric with r, and the length
    /// of a gap is geometric with p. Chi-squared at 0.1 %, and the mean within 5 standard errors.
    #[test]
    fn bursts_and_gaps_of_the_simple_form_are_geometric() {
        for (loss, mean_length) in [(0.03, 5.0), (0.03, 1.5), (0.2, 3.0), (0.5, 10.0)] {
            let model = simple(loss, mean_length);
            for seed in 1..=3 {
                let fates = fates(model, seed, 0);
                for (lost, leaves) in [(true, model.to_good), (false, model.to_bad)] {
                    let fit = GeometricFit::of(&runs(&fates, lost), leaves.get());
                    assert!(
                        fit.is_good(),
                        "{loss} in {mean_length}, seed {seed}: {fit:?}"
                    );
                }
            }
        }
    }

    /// The test above must be able to fail: independent losses are not bursts of 5, and bursts of 5 are not bursts of 6.
    #[test]
    fn geometric_fit_tells_models_apart() {
        let lengths = runs(&fates(simple(0.03, 5.0), 1, 0), true);
        assert!(!GeometricFit::of(&lengths, 1.0 / 6.0).is_good());
        assert!(!GeometricFit::of(&lengths, 0.97).is_good());
    }

    #[test]
    fn share_of_lost_packets_is_that_of_the_model() {
        for model in [
            simple(0.03, 5.0),
            simple(0.3, 1.5),
            general(0.01, 0.1, 0.5, 0.0),
            general(0.05, 0.2, 0.8, 0.02),
            general(0.7, 0.9, 1.0, 0.1), // states that change more often than not
        ] {
            let (share, variance) = share_and_variance(model);
            let (mean, sd) = (
                f64::from(PACKETS) * share,
                (f64::from(PACKETS) * variance).sqrt(),
            );
            for seed in 1..=3 {
                let lost = fates(model, seed, 0).iter().filter(|lost| **lost).count() as f64;
                assert!(
                    (lost - mean).abs() < 5.0 * sd,
                    "{model:?}, seed {seed}: {lost} lost, expected {mean} +- {sd}"
                );
            }
        }
    }

    /// Flows of one or a few packets lose their share too.
    #[test]
    fn each_packet_of_a_short_flow_is_lost_with_the_long_run_share() {
        let flows = 100_000;
        let mut bursts = Bursts::new(simple(0.03, 5.0), Luck::new(1));
        let mut lost = [0; 3];
        for flow in 0..flows {
            for (n, lost) in lost.iter_mut().enumerate() {
                *lost += usize::from(bursts.loses(key(flow, n as u32)));
            }
        }
        for lost in lost {
            assert_binomial(lost, flows, 0.03);
        }
    }

    /// Two flows lose the same packet no more often than independent flows would: with s the share and c = s (1-s), the
    /// covariance of these coincidences k packets apart is (s^2 + c x^k)^2 - s^4, summed over k as geometric series.
    #[test]
    fn flows_have_independent_bursts() {
        let model = simple(0.2, 3.0);
        let (s, x) = (0.2, 1.0 - model.to_bad.get() - model.to_good.get());
        let c = s * (1.0 - s);
        let of_pairs = 2.0 * s * s * c * x / (1.0 - x) + c * c * x * x / (1.0 - x * x);
        let n = f64::from(PACKETS);
        let (mean, sd) = (
            n * s * s,
            (n * (s * s * (1.0 - s * s) + 2.0 * of_pairs)).sqrt(),
        );
        let (one, other) = (fates(model, 5, 0), fates(model, 5, 1));
        let both = one.iter().zip(&other).filter(|(a, b)| **a && **b).count() as f64;
        assert!(
            (both - mean).abs() < 5.0 * sd,
            "{both} lost in both, expected {mean} +- {sd}"
        );
    }

    #[test]
    fn other_flows_and_classes_and_copies_do_not_change_a_flows_losses() {
        let model = general(0.05, 0.2, 0.8, 0.02);
        let alone = fates(model, 3, 0);
        let mut bursts = Bursts::new(model, Luck::new(3));
        for n in 0..10_000 {
            let ack = PacketKey {
                class: PacketClass::Ack,
                ..key(0, n)
            };
            bursts.loses(key(1, n));
            bursts.loses(ack);
            assert_eq!(bursts.loses(key(0, n)), alone[n as usize]);
            assert_eq!(bursts.loses(key(0, n)), alone[n as usize], "the copy");
        }
    }

    #[test]
    fn models_with_probabilities_of_zero_and_one_are_exact() {
        let all = |model| fates(model, 1, 0).iter().all(|lost| *lost);
        let none = |model| fates(model, 1, 0).iter().all(|lost| !lost);
        assert!(none(general(0.0, 0.0, 1.0, 0.0)), "good for ever");
        assert!(none(general(0.0, 1.0, 1.0, 0.0)), "never bad");
        assert!(all(general(1.0, 0.0, 1.0, 0.0)), "always bad");
        let alternating = fates(general(1.0, 1.0, 1.0, 0.0), 1, 0);
        assert!(alternating.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
