//! How reliable the intervals are: how often they contain the truth, where the truth is known, and how often the least
//! visible effect is found. Simulated with fixed seeds, so that a failure repeats. How often equal variants are told apart
//! is tested in `a_a`.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::stats::effect::Effect;
use squall_analysis::stats::order::interval_ranks;
use squall_analysis::stats::random::Random;
use squall_analysis::stats::within::intervals;
use squall_base::plan::Statistic;
use statrs::distribution::{ContinuousCDF, Normal};

/// The number of simulated experiments. The promise is 95 %, so 95 % +- 2 of the intervals must contain the truth; 4,000
/// experiments measure the share to +- 0.7 % (two standard errors).
const EXPERIMENTS: u64 = 4_000;

fn check(what: &str, held: usize, experiments: u64) {
    check_within(what, held, experiments, 0.93..=0.97);
}

fn check_within(
    what: &str,
    held: usize,
    experiments: u64,
    expected: std::ops::RangeInclusive<f64>,
) {
    let share = held as f64 / experiments as f64;
    eprintln!("{what}: {:.1} %", 100.0 * share);
    assert!(expected.contains(&share), "{what}: {share}");
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.uniform()).cos()
}

/// Autocorrelated values: each is `memory` times the previous one plus noise. Their distribution is the standard normal
/// one.
fn autocorrelated(random: &mut Random, count: usize, memory: f64) -> Vec<f64> {
    let fresh = (1.0 - memory * memory).sqrt();
    let mut value = normal(random);
    let mut next = || {
        value = memory * value + fresh * normal(random);
        value
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn order_statistics_contain_the_quantile_of_independent_values() {
    for (count, quantile) in [(2_000u64, 0.5), (2_000, 0.95), (2_000, 0.99)] {
        let mut random = Random::new(31);
        let ranks = interval_ranks(count, quantile);
        let (low, high) = (ranks.low.unwrap() as usize, ranks.high.unwrap() as usize);
        let held = (0..EXPERIMENTS).filter(|_| {
            // The value at rank `low` is at most the quantile if that many are, and the one at `high` at least the quantile if
            // fewer are below it. So there is no need to sort.
            let (mut up_to, mut below) = (0, 0);
            for _ in 0..count {
                let value = random.uniform();
                up_to += usize::from(value <= quantile);
                below += usize::from(value < quantile);
            }
            low <= up_to && below < high
        });
        check(
            &format!("order statistics, {quantile}"),
            held.count(),
            EXPERIMENTS,
        );
    }
}

/// Series whose figures are known.
#[derive(Clone, Copy)]
enum Kind {
    /// exp of independent normal values: skewed, as latencies are.
    Independent,
    /// exp of autocorrelated normal values with this memory.
    Autocorrelated(f64),
    /// Autocorrelated normal values with this memory.
    Symmetric(f64),
    /// Pareto's distribution with exponent 3: its third moment is infinite.
    HeavyTail,
    /// Bursts of on average 8 values that are ten times as large, with on average 192 values between them.
    Bursts,
}

const BURST: f64 = 8.0;
const GAP: f64 = 192.0;
/// The standard deviation of the logarithm of values, within and between bursts.
const WIDTH: f64 = 0.3;

impl Kind {
    fn series(self, random: &mut Random, count: usize) -> Vec<f64> {
        match self {
            Kind::Independent => (0..count).map(|_| normal(random).exp()).collect(),
            Kind::Autocorrelated(memory) => {
                let series = autocorrelated(random, count, memory);
                series.into_iter().map(f64::exp).collect()
            }
            Kind::Symmetric(memory) => autocorrelated(random, count, memory),
            Kind::HeavyTail => {
                let value = |_| (1.0 - random.uniform()).powf(-1.0 / 3.0);
                (0..count).map(value).collect()
            }
            Kind::Bursts => {
                let mut is_slow = random.uniform() < BURST / (BURST + GAP);
                let value = |_| {
                    let lasts = if is_slow { BURST } else { GAP };
                    is_slow ^= random.uniform() < 1.0 / lasts;
                    let value = (WIDTH * normal(random)).exp();
                    if is_slow { 10.0 * value } else { value }
                };
                (0..count).map(value).collect()
            }
        }
    }

    fn quantile(self, quantile: f64) -> f64 {
        let standard = Normal::standard();
        let place = standard.inverse_cdf(quantile);
        match self {
            Kind::Independent | Kind::Autocorrelated(_) => place.exp(),
            Kind::Symmetric(_) => place,
            Kind::HeavyTail => (1.0 - quantile).powf(-1.0 / 3.0),
            Kind::Bursts => {
                let slow = BURST / (BURST + GAP);
                let below = |log: f64| {
                    let fast = (1.0 - slow) * standard.cdf(log / WIDTH);
                    fast + slow * standard.cdf((log - 10f64.ln()) / WIDTH)
                };
                let (mut low, mut high) = (-5.0, 10.0);
                for _ in 0..60 {
                    let log = f64::midpoint(low, high);
                    if below(log) < quantile {
                        low = log;
                    } else {
                        high = log;
                    }
                }
                low.exp()
            }
        }
    }

    fn truth(self, figure: Statistic) -> f64 {
        match figure {
            Statistic::Mean => match self {
                Kind::Independent | Kind::Autocorrelated(_) => 0.5f64.exp(),
                Kind::Symmetric(_) => 0.0,
                Kind::HeavyTail => 1.5,
                Kind::Bursts => {
                    let slow = BURST / (BURST + GAP);
                    (1.0 + 9.0 * slow) * (WIDTH * WIDTH / 2.0).exp()
                }
            },
            Statistic::Iqr => self.quantile(0.75) - self.quantile(0.25),
            Statistic::P50 => self.quantile(0.5),
            Statistic::P90 => self.quantile(0.9),
            Statistic::P95 => self.quantile(0.95),
            Statistic::P99 => self.quantile(0.99),
            Statistic::P999 => self.quantile(0.999),
        }
    }

    /// Checks how often the intervals of such runs contain the truth. If at least half of the runs have an interval, the
    /// `expected` share of these must. If fewer have one, the run is barely long enough and chance decides which runs have
    /// one; then wrong intervals must only not be more frequent among all runs than allowed.
    fn check(self, name: &str, count: usize, runs: u64, expected: &std::ops::RangeInclusive<f64>) {
        let mut random = Random::new(32);
        let truths = Statistic::ALL.map(|figure| self.truth(figure));
        let mut held = [(0usize, 0usize); Statistic::ALL.len()];
        for _ in 0..runs {
            let series = self.series(&mut random, count);
            for (place, interval) in intervals(&series, 1.0).into_iter().enumerate() {
                let Some((low, high)) = interval else {
                    continue;
                };
                held[place].0 += 1;
                held[place].1 += usize::from((low..=high).contains(&truths[place]));
            }
        }
        let mut off = Vec::new();
        for (figure, (given, held)) in Statistic::ALL.into_iter().zip(held) {
            let is_mostly = 2 * given as u64 >= runs;
            let share = held as f64 / given.max(1) as f64;
            let wrong = (given - held) as f64 / runs as f64;
            eprintln!(
                "{name}, {count} values, {figure:?}: {:.1} % of the {:.0} % given",
                100.0 * share,
                100.0 * given as f64 / runs as f64
            );
            if (is_mostly && !expected.contains(&share)) || wrong > 1.0 - expected.start() {
                off.push((figure, given, held));
            }
        }
        assert!(off.is_empty(), "{name}, {count} values: {off:?} of {runs}");
    }

    /// Expects 95 % +- 2; 4,000 runs measure a share to +- 0.7 % (two standard errors). Long series have fewer runs, to
    /// save time: 1,000 measure it to +- 1.4 %.
    fn check_all(self, name: &str, counts: &[usize]) {
        for &count in counts {
            self.check(name, count, 4_000, &PROMISED);
        }
        self.check(name, 10_000, 1_000, &(0.916..=0.984));
    }
}

const PROMISED: std::ops::RangeInclusive<f64> = 0.93..=0.97;

const KINDS: [(&str, Kind); 7] = [
    ("independent", Kind::Independent),
    ("memory 0.5", Kind::Autocorrelated(0.5)),
    ("memory 0.8", Kind::Autocorrelated(0.8)),
    ("symmetric, memory 0.5", Kind::Symmetric(0.5)),
    ("symmetric, memory 0.8", Kind::Symmetric(0.8)),
    ("heavy tail", Kind::HeavyTail),
    ("bursts", Kind::Bursts),
];

#[test]
fn intervals_within_a_run_contain_the_figures_of_independent_values() {
    Kind::Independent.check_all("independent", &[300, 1_000, 3_000]);
}

#[test]
fn intervals_within_a_run_contain_the_figures_of_autocorrelated_values() {
    Kind::Autocorrelated(0.5).check_all("memory 0.5", &[300, 1_000, 3_000]);
}

#[test]
fn intervals_within_a_run_contain_the_figures_of_strongly_autocorrelated_values() {
    Kind::Autocorrelated(0.8).check_all("memory 0.8", &[300, 1_000, 3_000]);
}

#[test]
fn intervals_within_a_run_contain_the_figures_of_symmetric_values() {
    Kind::Symmetric(0.5).check_all("symmetric, memory 0.5", &[300, 1_000, 3_000]);
    Kind::Symmetric(0.8).check_all("symmetric, memory 0.8", &[300, 1_000, 3_000]);
}

#[test]
fn intervals_within_a_run_contain_the_figures_of_a_heavy_tail() {
    Kind::HeavyTail.check_all("heavy tail", &[300, 1_000, 3_000]);
}

// A run of 1,000 values has five bursts, or none: no interval can cover what did not happen in its run (docs/METHOD.md).
#[test]
fn intervals_within_a_run_of_thirty_bursts_contain_the_figures() {
    Kind::Bursts.check_all("bursts", &[6_000]);
}

// Takes minutes: 4,000 runs of 10,000 values of each kind. The tests above have only 1,000 such runs.
#[test]
#[ignore = "takes minutes"]
fn intervals_within_long_runs_contain_the_truth() {
    for (name, kind) in KINDS {
        kind.check(name, 10_000, 4_000, &PROMISED);
    }
}

#[test]
fn intervals_without_batches_contain_the_truth_too_rarely() {
    // The reason for batches: intervals of the single values of the same data contain the truth far too rarely.
    let mut random = Random::new(33);
    let held = (0..200).filter(|_| {
        let series = autocorrelated(&mut random, 2_000, 0.9);
        let mut sorted = series.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let ranks = interval_ranks(2_000, 0.5);
        let (low, high) = (ranks.low.unwrap() as usize, ranks.high.unwrap() as usize);
        (sorted[low - 1]..=sorted[high - 1]).contains(&0.0)
    });
    let held = held.count();
    assert!(held < 140, "{held} of 200");
}

/// Draws one value.
type Draw = fn(&mut Random) -> f64;

/// A value that is an outlier now and then: Student's t with 3 degrees of freedom.
fn outlying(random: &mut Random) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
    normal(random) / (squares / 3.0).sqrt()
}

#[test]
fn intervals_over_pairs_contain_the_truth() {
    let kinds: [(&str, Draw); 3] = [
        ("normal", normal),
        ("outlying", outlying),
        ("skewed", |random| normal(random).exp() - 1.0),
    ];
    for count in [6, 7, 8, 9, 10, 11, 15, 20] {
        for (name, value) in kinds {
            let mut random = Random::new(34);
            let held = (0..EXPERIMENTS).filter(|_| {
                let pairs: Vec<f64> = (0..count).map(|_| value(&mut random)).collect();
                let (low, high) = Effect::of_pairs(&pairs).unwrap().interval.unwrap();
                low <= 0.0 && 0.0 <= high
            });
            check(&format!("{count} pairs, {name}"), held.count(), EXPERIMENTS);
        }
    }
}

fn share_of_groups(
    (a, b): (usize, usize),
    mut value: impl FnMut(&mut Random, usize) -> f64,
) -> usize {
    let mut random = Random::new(35);
    let mut group =
        |count, which| -> Vec<f64> { (0..count).map(|_| value(&mut random, which)).collect() };
    let held = (0..EXPERIMENTS).filter(|_| {
        let effect = Effect::of_groups(&group(a, 0), &group(b, 1)).unwrap();
        let (low, high) = effect.interval.unwrap();
        low <= 0.0 && 0.0 <= high
    });
    held.count()
}

#[test]
fn intervals_over_groups_contain_the_truth() {
    for (a, b) in [(4, 4), (5, 5), (4, 10), (6, 10), (7, 7), (10, 10), (20, 20)] {
        for spread in [1.0, 3.0] {
            let held = share_of_groups((a, b), |random, group| {
                normal(random) * if group == 0 { 1.0 } else { spread }
            });
            let what = format!("{a} against {b} runs, spread 1 and {spread}");
            check(&what, held, EXPERIMENTS);
        }
    }
}

// Runs with outliers: Student's t with 3 degrees of freedom. Their intervals err on the wide side.
#[test]
fn intervals_over_groups_with_outliers_err_on_the_wide_side() {
    for (a, b) in [(4, 4), (5, 5), (6, 10), (10, 10)] {
        let held = share_of_groups((a, b), |random, _| outlying(random));
        let what = format!("{a} against {b} runs with outliers");
        check_within(&what, held, EXPERIMENTS, 0.93..=0.985);
    }
}

#[test]
fn least_visible_effect_is_found_in_four_of_five_runs() {
    // The mean of 20 pairs of standard deviation 1, tested at a level of 5 %. The promised least effect is 2.8 / sqrt(20).
    let mut random = Random::new(36);
    let truth = 2.8 / 20f64.sqrt();
    let seen = (0..EXPERIMENTS).filter(|&seed| {
        let values: Vec<f64> = (0..20).map(|_| truth + normal(&mut random)).collect();
        squall_analysis::stats::sign_flip::sign_flip(&values, seed) <= 0.05
    });
    let share = seen.count() as f64 / EXPERIMENTS as f64;
    // 80 % by the normal distribution, a little less by Student's t.
    assert!((0.74..0.83).contains(&share), "{share}");
}
