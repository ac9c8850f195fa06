//! Loss in bursts of time: good and bad spells that affect all flows of the link alike.
//!
//! The states are Gilbert and Elliott's, but they change with time, after exponential spells. The state at a time depends
//! only on seed, direction, settings and the time since the link's start. Whatever is sent, and whenever these settings
//! took effect, the weather is the same. Bursts driven by packets are `burst`.
//!
//! Spells are not drawn one after the other: catching up with hours of silence in a weather of microseconds would stop the
//! link. Instead, time is divided into long cells. The states at their ends are independent, because their correlation is
//! below the resolution of a draw. Within a cell the state in the middle is drawn, given those at the ends, then the state
//! in the middle of the relevant half, and so on: a Markov chain's bridge, with the chain's exact distribution. So the
//! state at any time costs the same few draws. It is Lévy's construction of Brownian motion, for a chain of two states.

use std::array;

use squall_base::record::{Direction, PacketClass};
use squall_base::{Duration, Probability, Time};

use crate::random::{Luck, PacketKey, Purpose};
use crate::settings::Weather;

/// After this many relaxation times the correlation of the states, e^-45, is below 2^-64.
const CELL_IN_RELAXATIONS: f64 = 45.0;

/// How many times a cell is halved at most. The rest is less than a ten-thousandth of the shorter mean; a spell within it is
/// not seen.
const HALVINGS: u32 = 20;

/// The weather of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Spells {
    start: Time,
    weather: Weather,
    luck: Luck,
    share_bad: Probability,
    /// A cell lasts 2^`cell_bits` nanoseconds.
    cell_bits: u32,
    /// For each halving, the probability of a bad middle: by whether the beginning is bad, and whether the end is.
    middles: Vec<[[Probability; 2]; 2]>,
}

impl Spells {
    /// The weather of a link that started at `start`.
    pub(crate) fn new(start: Time, weather: Weather, luck: Luck) -> Spells {
        // A zero mean would lead to a division by zero; it becomes 1 ns.
        let mean_ns = |mean: Duration| mean.as_nanos().max(1) as f64;
        let (good_ns, bad_ns) = (mean_ns(weather.good), mean_ns(weather.bad));
        let shares = [good_ns / (good_ns + bad_ns), bad_ns / (good_ns + bad_ns)];
        // The correlation of the states falls by e in this time.
        let relaxation_ns = good_ns * shares[1];
        // 2^63 ns are 292 years: no link runs long enough to notice that longer cells are cut.
        let cell_bits = (CELL_IN_RELAXATIONS * relaxation_ns).log2().ceil();
        let cell_bits = cell_bits.clamp(0.0, 63.0) as u32;
        let halves_ns = (0..cell_bits).rev().map(|bits| (1_u64 << bits) as f64);
        Spells {
            start,
            weather,
            luck,
            share_bad: probability(shares[1]),
            cell_bits,
            middles: halves_ns
                .take(HALVINGS as usize)
                .map(|half_ns| bad_middles(shares, half_ns / relaxation_ns))
                .collect(),
        }
    }

    /// Whether the packet with this key is lost if it arrives at `now`.
    pub(crate) fn loses(&self, now: Time, key: PacketKey) -> bool {
        let since_start_ns = now.since(self.start).as_nanos();
        let loss = if self.is_bad(since_start_ns, key.direction) {
            self.weather.loss_in_bad
        } else {
            self.weather.loss_in_good
        };
        self.luck.strikes(loss, Purpose::WeatherLoss, key)
    }

    fn is_bad(&self, since_start_ns: u64, direction: Direction) -> bool {
        let draw = |bad: Probability, at_ns: u64| {
            let point = point(direction, at_ns);
            self.luck.strikes(bad, Purpose::Spell, point)
        };
        let mut length_ns = 1_u64 << self.cell_bits;
        let mut begins_ns = since_start_ns & !(length_ns - 1);
        let mut at_begin = draw(self.share_bad, begins_ns);
        let mut at_end = draw(self.share_bad, begins_ns.wrapping_add(length_ns));
        for bad_middle in &self.middles {
            length_ns /= 2;
            let middle_ns = begins_ns + length_ns;
            let bad = bad_middle[usize::from(at_begin)][usize::from(at_end)];
            let at_middle = draw(bad, middle_ns);
            if since_start_ns < middle_ns {
                at_end = at_middle;
            } else {
                (begins_ns, at_begin) = (middle_ns, at_middle);
            }
        }
        at_begin
    }
}

/// Each point in time has its own draw: its nanoseconds take the place of a packet's flow and number.
fn point(direction: Direction, at_ns: u64) -> PacketKey {
    PacketKey {
        direction,
        flow: (at_ns >> 32) as u32,
        class: PacketClass::Other,
        class_index: at_ns as u32,
    }
}

/// The probability that the middle of a span is bad, by the states at its ends. `shares` are the long-run shares of good
/// and bad, and `half` is half the span in relaxation times.
fn bad_middles(shares: [f64; 2], half: f64) -> [[Probability; 2]; 2] {
    let forgotten = -(-half).exp_m1();
    let moves = |from: usize, to: usize| {
        let stays = if from == to { 1.0 - forgotten } else { 0.0 };
        stays + shares[to] * forgotten
    };
    array::from_fn(|begin| {
        array::from_fn(|end| {
            let [good, bad] = [0, 1].map(|middle| moves(begin, middle) * moves(middle, end));
            probability(bad / (good + bad))
        })
    })
}

fn probability(share: f64) -> Probability {
    Probability::new(share).expect("a part of a sum of positive numbers is a share of it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::tests::{GeometricFit, runs};
    use crate::random::tests::{assert_binomial, key};

    fn weather(good: Duration, bad: Duration) -> Weather {
        Weather {
            good,
            bad,
            loss_in_bad: probability(1.0),
            loss_in_good: Probability::ZERO,
        }
    }

    fn micros(good: u64, bad: u64) -> Weather {
        weather(Duration::from_micros(good), Duration::from_micros(bad))
    }

    fn spells(weather: Weather, seed: u64) -> Spells {
        Spells::new(Time::ZERO, weather, Luck::new(seed))
    }

    /// The state every `step` for `count` steps.
    fn states(weather: Weather, seed: u64, step: Duration, count: u64) -> Vec<bool> {
        let spells = spells(weather, seed);
        (0..count)
            .map(|n| spells.is_bad(n * step.as_nanos(), Direction::Up))
            .collect()
    }

    /// Seen every h, the weather is a Markov chain with the correlation x = e^(-h/relaxation): the number of bad
    /// points among n has the variance n b (1-b) (1+x) / (1-x), with b the share of bad time. 5 standard deviations.
    #[test]
    fn the_share_of_bad_time_follows_from_the_means() {
        let (step, count) = (Duration::from_micros(50), 100_000);
        for (good, bad) in [
            (900, 100),
            (50, 50),
            (97_000, 3_000),
            (10, 2_000),
            (40_000, 200),
        ] {
            let b = bad as f64 / (good + bad) as f64;
            let relaxation_ns = 1_000.0 * good as f64 * b;
            let x = (-(step.as_nanos() as f64) / relaxation_ns).exp();
            let (mean, variance) = (count as f64 * b, count as f64 * b * (1.0 - b));
            let sd = (variance * (1.0 + x) / (1.0 - x)).sqrt();
            for seed in 1..=3 {
                let found = states(micros(good, bad), seed, step, count);
                let found = found.iter().filter(|is_bad| **is_bad).count() as f64;
                assert!(
                    (found - mean).abs() < 5.0 * sd,
                    "{good} and {bad}, seed {seed}: {found}, expected {mean} +- {sd}"
                );
            }
        }
    }

    /// Seen every h, an exponential spell becomes a geometric one that ends with probability
    /// (share of the other state) (1 - e^(-h/relaxation)). Chi-squared at 0.1 %.
    #[test]
    fn spells_are_exponential() {
        for (good, bad, step, count) in [
            (900_u64, 100_u64, 10_u64, 300_000),
            (50, 50, 1, 300_000),
            (200, 1_000, 60, 100_000),
        ] {
            let share_bad = bad as f64 / (good + bad) as f64;
            let forgotten = 1.0 - (-(step as f64) / (good as f64 * share_bad)).exp();
            for seed in 1..=3 {
                let step = Duration::from_micros(step);
                let found = states(micros(good, bad), seed, step, count);
                for (is_bad, other) in [(true, 1.0 - share_bad), (false, share_bad)] {
                    let fit = GeometricFit::of(&runs(&found, is_bad), other * forgotten);
                    assert!(fit.is_good(), "{good} and {bad}, seed {seed}: {fit:?}");
                }
            }
        }
    }

    /// Two protocols send different packets at different times: at the times they have in common, both lose or neither
    /// does.
    #[test]
    fn the_weather_does_not_depend_on_the_traffic() {
        let spells = spells(micros(900, 300), 7);
        let at = |micros: u64| Time::ZERO + Duration::from_micros(micros);
        let dense: Vec<bool> = (0..40_000)
            .map(|n| spells.loses(at(u64::from(n)), key(0, n)))
            .collect();
        let mut lost = 0;
        for n in 0..300 {
            let sent = u64::from(n) * 133;
            let is_lost = spells.loses(at(sent), key(1 + n % 6, n));
            assert_eq!(is_lost, dense[sent as usize]);
            lost += u32::from(is_lost);
        }
        assert!((1..300).contains(&lost));
    }

    #[test]
    fn the_weather_counts_from_the_start_of_the_link() {
        let late = Time::from_nanos(123_456_789_012);
        let weather = micros(900, 300);
        let (early, later) = (spells(weather, 7), Spells::new(late, weather, Luck::new(7)));
        for n in 0..1_000 {
            let (after, key) = (Duration::from_micros(100), key(0, n));
            let since = Duration::from_nanos(after.as_nanos() * u64::from(n));
            assert_eq!(
                early.loses(Time::ZERO + since, key),
                later.loses(late + since, key)
            );
        }
    }

    /// Points so far apart (20 relaxation times) that they are independent.
    #[test]
    fn the_two_directions_have_independent_weather() {
        let spells = spells(micros(100, 100), 1);
        let n = 20_000_u32;
        let both = (0..n).filter(|n| {
            let at_ns = u64::from(*n) * 1_000_000;
            spells.is_bad(at_ns, Direction::Up) && spells.is_bad(at_ns, Direction::Down)
        });
        assert_binomial(both.count(), n, 0.25);
    }

    #[test]
    fn losses_within_a_spell_have_its_probability() {
        let weather = Weather {
            loss_in_bad: probability(0.6),
            loss_in_good: probability(0.1),
            ..micros(500, 500)
        };
        let spells = spells(weather, 3);
        for (is_bad, p) in [(true, 0.6), (false, 0.1)] {
            let (mut lost, mut met) = (0, 0);
            for n in 0..100_000_u32 {
                let at_ns = u64::from(n) * 10_000;
                if spells.is_bad(at_ns, Direction::Up) == is_bad {
                    met += 1;
                    lost += usize::from(spells.loses(Time::from_nanos(at_ns), key(0, n)));
                }
            }
            assert_binomial(lost, met, p);
        }
    }

    /// Hours and years of silence in a weather of nanoseconds, and weather of years, cost no more than any other.
    #[test]
    fn extreme_means_and_times_cost_no_more() {
        let means = [0, 1, 2, 1_000, 3_600_000_000_000, u64::MAX].map(Duration::from_nanos);
        for good in means {
            for bad in means {
                let spells = spells(weather(good, bad), 1);
                assert!(spells.middles.len() <= HALVINGS as usize);
                for at_ns in [0, 1, 3_600_000_000_000, u64::MAX - 1, u64::MAX] {
                    spells.is_bad(at_ns, Direction::Down);
                }
            }
        }
        let rarely_bad = spells(weather(means[5], means[1]), 1);
        assert!((0..1_000).all(|hour| !rarely_bad.is_bad(hour * 3_600_000_000_000, Direction::Up)));
    }
}
