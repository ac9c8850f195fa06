//! Compares the statistics with SciPy, statsmodels and arch on fixed data; fixtures/statistics.py computed their results.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use squall_analysis::stats::effect::{Effect, median, share_beyond};
use squall_analysis::stats::holm::holm;
use squall_analysis::stats::memory::windowed_reach;
use squall_analysis::stats::order::interval_ranks;
use squall_analysis::stats::sign_flip::{permutation, sign_flip};

fn expected() -> Value {
    serde_json::from_str(include_str!("fixtures/statistics.json")).unwrap()
}

fn rows<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    let rows = of[name].as_array().unwrap();
    assert!(!rows.is_empty());
    rows
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|v| v.as_f64().unwrap()).collect()
}

fn near(found: f64, expected: f64) {
    let off = (found - expected).abs();
    assert!(
        off <= 1e-9 * expected.abs().max(1e-3),
        "{found} for {expected}"
    );
}

#[test]
fn quantile_intervals_match_scipy() {
    for row in rows(&expected(), "order_intervals") {
        let (count, quantile) = (row[0].as_u64().unwrap(), row[1].as_f64().unwrap());
        let found = interval_ranks(count, quantile);
        assert_eq!(
            (found.low, found.high),
            (row[2].as_u64(), row[3].as_u64()),
            "{row}"
        );
    }
}

#[test]
fn reach_matches_the_block_lengths_of_arch() {
    for row in rows(&expected(), "block_lengths") {
        let length = row["length"].as_f64().unwrap();
        let series = numbers(&row["series"]);
        // Politis and White, section 3.2: the length is the cube root of n times the square of the reach, up to a maximum.
        let count = series.len() as f64;
        let longest = (3.0 * count.sqrt()).min(count / 3.0).ceil();
        let found = (windowed_reach(&series).powi(2) * count).cbrt();
        near(found.min(longest), length);
    }
}

#[test]
fn exact_tests_match_scipy() {
    for row in rows(&expected(), "sign_flips") {
        near(sign_flip(&numbers(&row[0]), 1), row[1].as_f64().unwrap());
    }
    for row in rows(&expected(), "permutations") {
        let found = permutation(&numbers(&row[0]), &numbers(&row[1]), 1);
        near(found, row[2].as_f64().unwrap());
    }
}

#[test]
fn sampled_sign_flips_come_close_to_the_exact_test() {
    for row in rows(&expected(), "sign_flips_of_many") {
        let exact = row[1].as_f64().unwrap();
        let found = sign_flip(&numbers(&row[0]), 3);
        // Five standard errors of a share of 20,000.
        let error = (exact * (1.0 - exact) / 20_000.0).sqrt();
        assert!((found - exact).abs() < 5.0 * error, "{found} for {exact}");
        assert_eq!(found, sign_flip(&numbers(&row[0]), 3));
    }
}

#[test]
fn holm_correction_matches_statsmodels() {
    for row in rows(&expected(), "holm") {
        let found = holm(&numbers(&row[0]));
        for (found, expected) in found.into_iter().zip(numbers(&row[1])) {
            near(found, expected);
        }
    }
    assert_eq!(holm(&[]), [0.0; 0]);
}

#[test]
fn effects_match_numpy() {
    for row in rows(&expected(), "effects") {
        let values = numbers(&row[0]);
        let effect = Effect::of_pairs(&values).unwrap();
        near(effect.median, row[1].as_f64().unwrap());
        assert_eq!(median(&values), Some(effect.median));
        near(effect.least_visible.unwrap(), row[2].as_f64().unwrap());
        assert_eq!(effect.interval.is_some(), values.len() >= 6);
        let share = row[3].as_f64().unwrap();
        if share > 1e-9 {
            let found = share_beyond(values.len() as f64 - 1.0).unwrap();
            assert!((found / share - 1.0).abs() < 1e-6, "{found} for {share}");
        }
    }
}
