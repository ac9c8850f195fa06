//! Random quantities have the distributions they claim. Seeds are fixed, so a bound either always holds or never does.

use squall_base::plan::{Mix, OpenLoad, Spacing, Stage, Stages, Workload};
use squall_base::{Duration, Rate};
use squall_load::{Arrival, Arrivals, Share};

use super::drive::START;

const RATE: u64 = 1_000;

fn poisson(seed: u64, stages: Vec<Stage>) -> Vec<Arrival> {
    let workload = Workload::Open(OpenLoad {
        stages: Stages::new(stages).unwrap(),
        spacing: Spacing::Poisson,
        warmup: Duration::ZERO,
        drain: Duration::ZERO,
        mix: Mix::new(vec![1, 3]).unwrap(),
        seed,
    });
    let mut load = Arrivals::new(&workload, START, Share::WHOLE);
    let far = START + Duration::from_secs(1_000_000);
    std::iter::from_fn(|| load.take_due(far)).collect()
}

fn rate() -> Option<Rate> {
    Rate::new(RATE, Duration::from_secs(1))
}

fn seconds(arrival: &Arrival) -> f64 {
    arrival.intended.since(START).as_secs_f64()
}

/// The largest distance between the samples' distribution and `expected`, times the square root of their number
/// (Kolmogorov). It exceeds 1.63 for one seed in 100.
fn distance(mut samples: Vec<f64>, expected: impl Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let each = samples.iter().enumerate().map(|(index, sample)| {
        let (below, expected) = (index as f64 / count, expected(*sample));
        (expected - below)
            .abs()
            .max((below + 1.0 / count - expected).abs())
    });
    each.fold(0.0, f64::max) * count.sqrt()
}

#[test]
fn poisson_counts_have_their_mean_and_variance() {
    const LOADS: u64 = 100;
    let stage = Stage::ramp(rate(), rate(), Duration::from_secs(2));
    let counts = (0..LOADS).map(|seed| poisson(seed, vec![stage]).len() as f64);
    let counts: Vec<f64> = counts.collect();
    let mean = counts.iter().sum::<f64>() / LOADS as f64;
    let variance = counts
        .iter()
        .map(|count| (count - mean).powi(2))
        .sum::<f64>()
        / LOADS as f64;
    // Four standard errors: of the mean sqrt(2,000 / 100), of the variance 2,000 * sqrt(2 / 100).
    assert!((mean - 2_000.0).abs() < 18.0, "{mean}");
    assert!((variance - 2_000.0).abs() < 1_132.0, "{variance}");
}

#[test]
fn poisson_gaps_are_exponential_and_independent() {
    for seed in 0..5 {
        let arrivals = poisson(
            seed,
            vec![Stage::ramp(rate(), rate(), Duration::from_secs(20))],
        );
        let times: Vec<f64> = arrivals.iter().map(seconds).collect();
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) * RATE as f64)
            .collect();
        let covariance = gaps
            .windows(2)
            .map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0))
            .sum::<f64>();
        // Four standard errors of a correlation.
        assert!(
            covariance.abs() < 4.0 * (gaps.len() as f64).sqrt(),
            "{covariance}"
        );
        let distance = distance(gaps, |gap| 1.0 - (-gap).exp());
        assert!(distance < 1.63, "seed {seed}: {distance}");
    }
}

/// Given their number, the times of a Poisson process are independent, with a density proportional to its rate.
#[test]
fn poisson_times_in_a_ramp_follow_the_ramp() {
    let ten = Duration::from_secs(10);
    for seed in 0..5 {
        let rising: Vec<f64> = poisson(seed, vec![Stage::ramp(None, rate(), ten)])
            .iter()
            .map(seconds)
            .collect();
        assert!((rising.len() as f64 - 5_000.0).abs() < 4.0 * 5_000_f64.sqrt());
        let distance_up = distance(rising, |t| t * t / 100.0);
        let falling = poisson(seed, vec![Stage::ramp(rate(), None, ten)]);
        let distance_down = distance(falling.iter().map(seconds).collect(), |t| {
            (20.0 - t) * t / 100.0
        });
        assert!(
            distance_up < 1.63 && distance_down < 1.63,
            "{distance_up}, {distance_down}"
        );
    }
}

/// What a request asks for does not depend on when it is due.
#[test]
fn the_mix_is_independent_of_the_gaps() {
    let arrivals = poisson(
        1,
        vec![Stage::ramp(rate(), rate(), Duration::from_secs(20))],
    );
    let times: Vec<f64> = arrivals.iter().map(seconds).collect();
    let after = |what| {
        let pairs = times.windows(2).zip(&arrivals[1..]);
        let gaps: Vec<f64> = pairs
            .filter(|(_, arrival)| arrival.what == what)
            .map(|(pair, _)| (pair[1] - pair[0]) * RATE as f64)
            .collect();
        (gaps.len(), distance(gaps, |gap| 1.0 - (-gap).exp()))
    };
    let ((rare, rare_distance), (often, often_distance)) = (after(0), after(1));
    let share = rare as f64 / (rare + often) as f64;
    // Four standard errors: 4 * sqrt(0.25 * 0.75 / 20,000).
    assert!((share - 0.25).abs() < 0.0123, "{share}");
    assert!(
        rare_distance < 1.63 && often_distance < 1.63,
        "{rare_distance}, {often_distance}"
    );
}
