//! Random loss: the component and its models. Independent loss takes a single draw; the models with states are `burst`,
//! driven by packets, and `weather`, driven by time.
//!
//! A packet's fate is decided as it enters the link, before any queue, so that it does not depend on the traffic around
//! it. Losses by name are in `drop_list`, those in windows of time in `blackout`.

mod burst;
mod weather;

use squall_base::record::Fate;
use squall_base::{Probability, Time};

use crate::component::{Component, Exit, Packet};
use crate::random::{Luck, Purpose};
use crate::settings::{LaneSettings, Loss};

use burst::Bursts;
use weather::Spells;

/// Random loss by one of the models.
#[derive(Debug)]
pub(crate) struct RandomLoss {
    /// The link's start, from which weather counts.
    start: Time,
    luck: Luck,
    settings: Loss,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Independent(Probability),
    Bursts(Bursts),
    Weather(Spells),
}

impl RandomLoss {
    /// Loss in a link that starts at `start`.
    pub(crate) fn new(start: Time, settings: Loss, luck: Luck) -> RandomLoss {
        RandomLoss {
            start,
            luck,
            settings,
            model: Model::of(start, settings, luck),
        }
    }
}

impl Model {
    fn of(start: Time, settings: Loss, luck: Luck) -> Model {
        match settings {
            Loss::Independent(loss) => Model::Independent(loss),
            Loss::GilbertElliott(states) => Model::Bursts(Bursts::new(states, luck)),
            Loss::Weather(weather) => Model::Weather(Spells::new(start, weather, luck)),
        }
    }
}

impl Component for RandomLoss {
    fn enter(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        let (is_lost, fate) = match &mut self.model {
            Model::Independent(loss) => {
                let is_lost = self.luck.strikes(*loss, Purpose::Loss, packet.key);
                (is_lost, Fate::LossDrop)
            }
            Model::Bursts(model) => (model.loses(packet.key), Fate::BurstDrop),
            Model::Weather(model) => (model.loses(now, packet.key), Fate::BurstDrop),
        };
        if is_lost {
            exit.drop(packet, fate);
        } else {
            exit.pass(packet);
        }
    }

    /// Only the weather counts time.
    fn begin(&mut self, now: Time) {
        self.start = now;
        if let Loss::Weather(_) = self.settings {
            *self = RandomLoss::new(now, self.settings, self.luck);
        }
    }

    /// An unchanged model keeps its states. A new one starts afresh, except the weather, which counts from the link's
    /// start.
    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        if settings.loss != self.settings {
            *self = RandomLoss::new(self.start, settings.loss, self.luck);
        }
    }

    fn is_transparent(&self) -> bool {
        self.settings == Loss::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop_list::tests::Sender;
    use crate::packet::tests::tcp_packet;
    use crate::random::tests::{assert_binomial, key};
    use crate::settings::{GilbertElliott, Weather};
    use squall_base::Duration;

    /// The lengths of all runs of `state`, except the first and the last run, which may be truncated.
    pub(super) fn runs(states: &[bool], state: bool) -> Vec<u64> {
        let chunks: Vec<&[bool]> = states.chunk_by(|a, b| a == b).collect();
        let whole = chunks.get(1..chunks.len() - 1).unwrap_or_default();
        let of_state = whole.iter().filter(|run| run[0] == state);
        of_state.map(|run| run.len() as u64).collect()
    }

    /// How well lengths, counted from 1, follow the geometric distribution that ends with probability `p` after each step.
    #[derive(Debug)]
    pub(super) struct GeometricFit {
        chi_squared: f64,
        /// The value that a correct model exceeds once in 1,000 times.
        critical: f64,
        /// Distance of the mean from 1/p in standard errors; the variance is (1-p)/p^2.
        mean_off_by: f64,
    }

    impl GeometricFit {
        pub(super) fn of(lengths: &[u64], p: f64) -> GeometricFit {
            // Cochran's rule asks for 5 expected per class; 20 is on the safe side.
            const EXPECTED_AT_LEAST: f64 = 20.0;
            let n = lengths.len() as f64;
            let longer_than = |length: u64| n * (1.0 - p).powf(length as f64);
            let found = |from: u64, to: u64| {
                let within = lengths.iter().filter(|l| (from..=to).contains(*l));
                within.count() as f64
            };
            let (mut chi_squared, mut classes, mut from) = (0.0, 0.0, 1);
            while from < u64::MAX {
                let left = longer_than(from - 1);
                // The smallest `to` such that enough values lie from `from` to `to`, and enough beyond.
                let to = f64::ln((left - EXPECTED_AT_LEAST) / n) / f64::ln(1.0 - p);
                let mut to = (to.ceil() as u64).max(from);
                let is_last = left < 2.0 * EXPECTED_AT_LEAST || longer_than(to) < EXPECTED_AT_LEAST;
                if is_last {
                    to = u64::MAX - 1;
                }
                let expected = left - longer_than(to);
                chi_squared += (found(from, to) - expected).powi(2) / expected;
                classes += 1.0;
                from = to + 1;
            }
            let sum: u64 = lengths.iter().sum();
            GeometricFit {
                chi_squared,
                critical: chi_squared_critical(classes - 1.0),
                mean_off_by: (sum as f64 / n - 1.0 / p) / ((1.0 - p) / (p * p) / n).sqrt(),
            }
        }

        pub(super) fn is_good(&self) -> bool {
            self.chi_squared < self.critical && self.mean_off_by.abs() < 5.0
        }
    }

    /// The 99.9 % point of chi-squared, by Wilson and Hilferty's cube root (PNAS 17, 1931): 3 % too large for one
    /// degree of freedom, and soon exact.
    fn chi_squared_critical(degrees: f64) -> f64 {
        let a = 2.0 / (9.0 * degrees);
        degrees * (1.0 - a + 3.0902 * a.sqrt()).powi(3)
    }

    /// Values from the table of Abramowitz and Stegun, 26.8.
    #[test]
    fn critical_values_match_the_table() {
        for (degrees, value) in [(1.0, 10.828), (10.0, 29.588), (100.0, 149.449)] {
            let found = chi_squared_critical(degrees);
            assert!((found / value - 1.0).abs() < 0.031, "{degrees}: {found}");
        }
    }

    #[test]
    fn first_and_last_runs_are_omitted_as_possibly_truncated() {
        let states = [true, false, false, true, true, true, false, true];
        assert_eq!(runs(&states, true), [3]);
        assert_eq!(runs(&states, false), [2, 1]);
        assert!(runs(&[true; 5], true).is_empty());
    }

    fn probability(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    fn bursts() -> Loss {
        Loss::GilbertElliott(GilbertElliott::bursts(probability(0.3), 4.0).unwrap())
    }

    fn weather() -> Loss {
        Loss::Weather(Weather {
            good: Duration::from_millis(5),
            bad: Duration::from_millis(5),
            loss_in_bad: probability(1.0),
            loss_in_good: Probability::ZERO,
        })
    }

    /// The fates of 1,000 packets, a millisecond apart, with each of these settings adopted before the packet it is listed
    /// with.
    fn fates(first: Loss, adopted: &[(u64, Loss)]) -> Vec<Fate> {
        let start = Time::from_nanos(17);
        let mut loss = RandomLoss::new(start, first, Luck::new(1));
        let mut sender = Sender::default();
        let mut fate = |n: u64| {
            let now = start + Duration::from_millis(n);
            let mut exit = Exit::default();
            for (_, model) in adopted.iter().filter(|(at, _)| *at == n) {
                let settings = LaneSettings {
                    loss: *model,
                    ..LaneSettings::default()
                };
                loss.adopt(now, &settings, &mut exit);
            }
            loss.enter(now, sender.packet(tcp_packet(1, 2, 0x10, 1)), &mut exit);
            let mut all = exit.passed.iter().chain(&exit.dropped);
            all.next().map(|packet| packet.record.fate).unwrap()
        };
        (0..1_000).map(&mut fate).collect()
    }

    /// Whether each of the first `count` packets of `flow` is lost, independently with probability `loss`.
    fn independently_lost(loss: f64, seed: u64, flow: u32, count: u32) -> Vec<bool> {
        let loss = Loss::Independent(probability(loss));
        let mut loss = RandomLoss::new(Time::ZERO, loss, Luck::new(seed));
        let is_lost = |number: u32| {
            let packet = Packet::bare(key(flow, number), Vec::new());
            let mut exit = Exit::default();
            loss.enter(Time::ZERO, packet, &mut exit);
            exit.passed.is_empty()
        };
        (0..count).map(is_lost).collect()
    }

    #[test]
    fn probabilities_of_zero_and_one_are_exact() {
        let fates = |loss| independently_lost(loss, 7, 0, 10_000);
        assert!(fates(0.0).iter().all(|lost| !lost));
        assert!(fates(1.0).iter().all(|lost| *lost));
    }

    /// By the normal approximation a correct generator fails one of these nine checks for one seed in 190,000.
    #[test]
    fn the_share_lost_is_the_probability() {
        let n = 100_000;
        for p in [0.01, 0.03, 0.3] {
            for seed in 1..=3 {
                let lost = independently_lost(p, seed, 0, n);
                assert_binomial(lost.iter().filter(|lost| **lost).count(), n, p);
            }
        }
    }

    /// Wald and Wolfowitz's runs test: with independent fates the number of runs is close to normal with
    /// mean 2 n p q + 1 and variance near 4 n p q (1 - 3 p q).
    #[test]
    fn losses_are_independent_in_order() {
        let (n, p) = (100_000, 0.03);
        for seed in 1..=3 {
            let fates = independently_lost(p, seed, 1, n);
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
    fn flows_have_independent_losses() {
        let n = 100_000;
        let [one, other] = [0, 1].map(|flow| independently_lost(0.1, 5, flow, n));
        let both = one.iter().zip(&other).filter(|(a, b)| **a && **b).count();
        assert_binomial(both, n, 0.01);
    }

    #[test]
    fn each_model_drops_with_its_own_fate() {
        for (model, fate) in [
            (Loss::Independent(probability(0.3)), Fate::LossDrop),
            (bursts(), Fate::BurstDrop),
            (weather(), Fate::BurstDrop),
        ] {
            let fates = fates(model, &[]);
            assert!(fates.contains(&fate) && fates.contains(&Fate::InFlight));
            assert!(fates.iter().all(|f| [fate, Fate::InFlight].contains(f)));
        }
    }

    #[test]
    fn adopting_the_same_loss_changes_nothing() {
        for model in [bursts(), weather()] {
            let often: Vec<(u64, Loss)> = (0..1_000).map(|n| (n, model)).collect();
            assert_eq!(fates(model, &often), fates(model, &[]));
        }
    }

    #[test]
    fn a_new_loss_applies_from_its_adoption() {
        let never = Loss::default();
        let bursts_then_none = fates(bursts(), &[(500, never)]);
        assert_eq!(bursts_then_none[..500], fates(bursts(), &[])[..500]);
        assert!(bursts_then_none[500..].iter().all(|f| *f == Fate::InFlight));
        // The weather is where it would be if it had been set from the start.
        let none_then_weather = fates(never, &[(500, weather())]);
        assert!(
            none_then_weather[..500]
                .iter()
                .all(|f| *f == Fate::InFlight)
        );
        assert_eq!(none_then_weather[500..], fates(weather(), &[])[500..]);
    }

    #[test]
    fn loss_is_transparent_only_if_it_is_never_lossy() {
        let is_transparent =
            |model| RandomLoss::new(Time::ZERO, model, Luck::new(1)).is_transparent();
        assert!(is_transparent(Loss::default()));
        assert!(!is_transparent(bursts()));
        assert!(!is_transparent(Loss::Independent(probability(1.0))));
    }
}
