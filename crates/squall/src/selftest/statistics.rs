//! Statistical tests for random loss; the distributions are those of statrs.
//!
//! Pure: numbers in, a probability out. A p-value is the probability that a correct link would produce a result at
//! least this unusual. `loss` decides which value is too small.

use std::f64::consts::SQRT_2;

use statrs::function::gamma::gamma_ur;

/// The nearest-rank quantile of values in rising order; NaN if there are no values.
pub(super) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Values in rising order.
pub(super) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The exact two-sided binomial test of `hits` in `draws` against `probability`: the total probability of all outcomes
/// that are no more likely than the observed one, as in R's binom.test. `probability` must be above 0 and below 1.
pub(super) fn binomial_p(hits: u64, draws: u64, probability: f64) -> f64 {
    /// Floating-point tolerance between two equally likely outcomes (the same as R's).
    const EQUALLY_LIKELY: f64 = 1.0 + 1e-7;
    let log_odds = probability.ln() - (-probability).ln_1p();
    let mut log_likelihood = draws as f64 * (-probability).ln_1p();
    let mut likelihoods = Vec::with_capacity(draws as usize + 1);
    for hit in 0..=draws {
        likelihoods.push(log_likelihood.exp());
        log_likelihood += ((draws - hit) as f64 / (hit + 1) as f64).ln() + log_odds;
    }
    let observed = likelihoods.get(hits as usize).copied().unwrap_or(0.0);
    let as_odd = likelihoods
        .iter()
        .filter(|likelihood| **likelihood <= observed * EQUALLY_LIKELY);
    as_odd.sum::<f64>().min(1.0)
}

/// Wald and Wolfowitz's runs test, two-sided: whether the order of the outcomes is random ("On a test whether two
/// samples are from the same population", Annals of Mathematical Statistics 11, 1940). NaN if all outcomes are equal.
pub(super) fn runs_p(outcomes: &[bool]) -> f64 {
    let hits = outcomes.iter().filter(|hit| **hit).count() as f64;
    let (draws, misses) = (outcomes.len() as f64, outcomes.len() as f64 - hits);
    let changes = outcomes
        .windows(2)
        .filter(|pair| pair[0] != pair[1])
        .count();
    let mean = 2.0 * hits * misses / draws + 1.0;
    let variance = (mean - 1.0) * (mean - 2.0) / (draws - 1.0);
    if hits == 0.0 || misses == 0.0 || variance <= 0.0 {
        return f64::NAN;
    }
    let deviations = (changes as f64 + 1.0 - mean).abs() / variance.sqrt();
    normal_two_sided_p(deviations)
}

/// The lengths of all complete runs of `outcome`; a run cut off by the end of the data does not count.
pub(super) fn run_lengths(outcomes: &[bool], outcome: bool) -> Vec<u64> {
    let mut lengths = Vec::new();
    let mut length = 0;
    for each in outcomes {
        if *each == outcome {
            length += 1;
        } else if length > 0 {
            lengths.push(length);
            length = 0;
        }
    }
    lengths
}

/// Pearson's chi-squared test of lengths (1 or more) against the geometric distribution that ends with probability
/// `end` after each step. NaN if there are too few lengths for two classes.
pub(super) fn geometric_p(lengths: &[u64], end: f64) -> f64 {
    /// The usual minimum expectation of a class is 5 (Cochran 1954); the tail is coarser here.
    const LEAST_EXPECTED: f64 = 10.0;
    /// More classes would detect finer differences but make the test less sensitive overall.
    const CLASSES_AT_MOST: f64 = 20.0;
    let total = lengths.len() as f64;
    let wanted = (total / CLASSES_AT_MOST).max(LEAST_EXPECTED);
    let longer_than = |length: u64| (1.0 - end).powf(length as f64);
    let mut upper_ends = Vec::new();
    let mut below = 0;
    for upper in 1_u64.. {
        let (within, beyond) = (longer_than(below) - longer_than(upper), longer_than(upper));
        if beyond * total < wanted {
            break;
        }
        if within * total >= wanted {
            upper_ends.push(upper);
            below = upper;
        }
    }
    upper_ends.push(u64::MAX);
    if upper_ends.len() < 2 {
        return f64::NAN;
    }
    let mut statistic = 0.0;
    let mut below = 0;
    for upper in &upper_ends {
        let expected = total * (longer_than(below) - longer_than(*upper));
        let class = lengths
            .iter()
            .filter(|length| below < **length && **length <= *upper);
        statistic += (class.count() as f64 - expected).powi(2) / expected;
        below = *upper;
    }
    chi_squared_p(statistic, upper_ends.len() - 1)
}

/// The probability that chi-squared with this many degrees of freedom exceeds `statistic`.
fn chi_squared_p(statistic: f64, degrees_of_freedom: usize) -> f64 {
    upper_gamma(degrees_of_freedom as f64 / 2.0, statistic / 2.0)
}

/// The probability that a normal variable is at least this many standard deviations from its mean, on either side.
fn normal_two_sided_p(deviations: f64) -> f64 {
    let x = deviations / SQRT_2;
    upper_gamma(0.5, x * x)
}

/// The regularised upper incomplete gamma function Q(a, x), which is 1 for all `x` up to 0.
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 { 1.0 } else { gamma_ur(a, x) }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    fn assert_close(value: f64, known: f64) {
        assert!(
            (value - known).abs() <= 1e-9 + 1e-6 * known.abs(),
            "{value} instead of {known}"
        );
    }

    /// Table values (chi-squared at 5 %) and closed forms: Q(1, x) = exp(-x), Q(2, x) = (1 + x) exp(-x).
    #[test]
    fn chi_squared_tails_match_published_tables() {
        assert_close(chi_squared_p(3.841_458_820_694_124, 1), 0.05);
        assert_close(chi_squared_p(18.307_038_053_275_146, 10), 0.05);
        assert_close(chi_squared_p(124.342_113_404_004_08, 100), 0.05);
        for x in [0.1, 1.0, 2.9, 3.1, 30.0] {
            assert_close(chi_squared_p(2.0 * x, 2), (-x).exp());
            assert_close(chi_squared_p(2.0 * x, 4), (1.0 + x) * (-x).exp());
        }
        assert_close(chi_squared_p(0.0, 3), 1.0);
        assert_close(normal_two_sided_p(1.959_963_984_540_054), 0.05);
        assert_close(normal_two_sided_p(3.0), 0.002_699_796_063_260_189);
    }

    /// By hand: 3 heads or fewer, or 7 or more, in 10 tosses are 352 of 1,024 outcomes. The values for unequal
    /// probabilities were summed in exact fractions.
    #[test]
    fn binomial_test_counts_all_outcomes_no_more_likely_than_the_observed() {
        assert_close(binomial_p(7, 10, 0.5), 352.0 / 1_024.0);
        assert_close(binomial_p(10, 10, 0.5), 2.0 / 1_024.0);
        assert_close(binomial_p(5, 10, 0.5), 1.0);
        assert_close(binomial_p(7, 20, 0.3), 0.6294979666766777);
        assert_close(binomial_p(40, 1_000, 0.03), 0.07701516306997899);
        // Close to the normal distribution for many draws: 3,000 of 100,000 expected, one deviation is 53.9.
        assert_close(binomial_p(3_000, 100_000, 0.03), 1.0);
        let two_deviations_off = binomial_p(3_108, 100_000, 0.03);
        assert!(
            (0.04..0.05).contains(&two_deviations_off),
            "{two_deviations_off}"
        );
        assert!(binomial_p(3_400, 100_000, 0.03) < 1e-11);
    }

    #[test]
    fn runs_test_distinguishes_patterns_from_chance() {
        let alternating: Vec<bool> = (0..1_000).map(|n| n % 2 == 0).collect();
        let in_blocks: Vec<bool> = (0..1_000).map(|n| n % 100 < 50).collect();
        let by_chance: Vec<bool> = (0..1_000)
            .map(|n| splitmix64(7, n).is_multiple_of(3))
            .collect();
        assert!(runs_p(&alternating) < 1e-6);
        assert!(runs_p(&in_blocks) < 1e-6);
        assert!(runs_p(&by_chance) > 0.01);
        assert!(runs_p(&[true; 10]).is_nan());
        // By hand: 5 hits, 5 misses, 2 runs; mean 6, variance 20/9.
        let halves: Vec<bool> = (0..10).map(|n| n < 5).collect();
        let deviations = 4.0 / (20.0_f64 / 9.0).sqrt();
        assert_close(runs_p(&halves), normal_two_sided_p(deviations));
    }

    #[test]
    fn only_complete_runs_have_lengths() {
        let outcomes = [true, true, false, true, false, false, false, true];
        assert_eq!(run_lengths(&outcomes, true), [2, 1]);
        assert_eq!(run_lengths(&outcomes, false), [1, 3]);
    }

    #[test]
    fn geometric_test_distinguishes_distributions() {
        // Inverse transform: 1 + floor(ln u / ln (1 - end)).
        let lengths: Vec<u64> = (0..5_000)
            .map(|n| {
                let uniform = (splitmix64(3, n) >> 11) as f64 / (1_u64 << 53) as f64;
                1 + (uniform.ln() / 0.8_f64.ln()) as u64
            })
            .collect();
        assert!(geometric_p(&lengths, 0.2) > 0.01);
        assert!(geometric_p(&lengths, 0.22) < 1e-3);
        assert!(geometric_p(&[3; 5_000], 0.2) < 1e-9);
        assert!(geometric_p(&[1, 2], 0.2).is_nan());
    }

    #[test]
    fn quantiles_use_the_nearest_rank() {
        let values = sorted([3.0, 1.0, 2.0]);
        assert_eq!(
            [0.0, 0.5, 0.99].map(|q| quantile(&values, q)),
            [1.0, 2.0, 3.0]
        );
        assert!(quantile(&[], 0.5).is_nan());
    }
}
