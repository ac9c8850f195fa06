//! How far apart runs are, and how certain that is.
//!
//! Values are logarithms of ratios, so that twice and half are equally far from equal. Whether an effect counts as a
//! difference is decided in `verdict`; how often chance alone does as much is computed in `sign_flip`.
//!
//! The differences between runs contain everything that chance did, between runs and within each, so the runs' values are
//! all it takes. How far chance moves a single run is in `within`. For pairs, the interval of the median lies between two
//! of the sorted values. It is exact whatever the distribution, except for the step between neighbours, which is
//! interpolated as in T. P. Hettmansperger and S. J. Sheather, "Confidence Intervals Based on Interpolated Order
//! Statistics", Statistics and Probability Letters 4, 1986. A difference of two medians has no such interval, and a
//! bootstrap makes one that is too wide: the median of a few values drawn with replacement scatters up to 1.17 times as
//! much as it should. Unpaired runs therefore get Welch's interval of the difference of the means, the figure that the
//! permutation test uses (`sign_flip`). `tests/integration/coverage.rs` simulates the coverage of both.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::order::{MISSED_AT_AN_END, interval_ranks};

/// How large a true effect must be, in standard errors, to be seen in 4 of 5 runs at a level of 5 %: 1.96 + 0.84.
const SEEN_FROM: f64 = 2.8;

/// The fewest runs in each of two unpaired groups: 4 against 4 can be dealt in 70 ways, which can prove 2.9 %; 3 against 3
/// only in 20.
const RUNS_OF_A_GROUP: usize = 4;

/// What several runs show together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median over the pairs, or the difference of the medians of two groups.
    pub median: f64,
    /// The 95 % interval of that, or of the difference of the means of two groups; `None` if there are too few runs.
    pub interval: Option<(f64, f64)>,
    /// The smallest effect that this many such runs show in 4 of 5 cases: about 2.8 standard errors. `None` for a single
    /// run.
    pub least_visible: Option<f64>,
}

impl Effect {
    /// The effect of pairs; `None` without pairs. An interval takes six: with fewer, the median is outside all of them in
    /// more than 5 % of cases.
    pub fn of_pairs(pairs: &[f64]) -> Option<Effect> {
        Some(Effect {
            median: median(pairs)?,
            interval: interval_of_median(pairs),
            least_visible: standard_error(pairs).map(|error| SEEN_FROM * error),
        })
    }

    /// The effect between two groups of unpaired runs, the first against the second; `None` if either is empty. An interval
    /// takes four of each.
    pub fn of_groups(a: &[f64], b: &[f64]) -> Option<Effect> {
        let median = median(a)? - median(b)?;
        let errors = standard_error(a).zip(standard_error(b));
        let error = errors.map(|(a, b)| a.hypot(b));
        let is_enough = a.len().min(b.len()) >= RUNS_OF_A_GROUP;
        let interval = errors.filter(|_| is_enough).and_then(|(of_a, of_b)| {
            let freedom = welch_freedom(of_a, a.len(), of_b, b.len());
            let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
            let reach = t.inverse_cdf(1.0 - MISSED_AT_AN_END) * of_a.hypot(of_b);
            let means = mean(a) - mean(b);
            // Widened to include the difference of the medians, which is shown next to it.
            Some((median.min(means - reach), median.max(means + reach)))
        });
        Some(Effect {
            median,
            interval,
            least_visible: error.map(|error| SEEN_FROM * error),
        })
    }
}

/// The 95 % interval of the median of the distribution that these values are drawn from.
fn interval_of_median(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = interval_ranks(count as u64, 0.5).low? as usize;
    let below = Binomial::new(0.5, count as u64).ok()?;
    // How often the median lies outside the values at this rank (from 1) and at its mirror image, and outside the next
    // ones.
    let outside = |place: usize| 2.0 * below.cdf(place as u64 - 1);
    let (here, next) = (outside(place), outside(place + 1));
    let step = (2.0 * MISSED_AT_AN_END - here) / (next - here);
    let (place_of, rest) = (place as f64, (count - place) as f64);
    let part = rest * step / (place_of + (rest - place_of) * step);
    let between = |outer: usize, inner: usize| {
        let (outer, inner) = (sorted.get(outer)?, sorted.get(inner)?);
        Some(outer + part * (inner - outer))
    };
    Some((
        between(place - 1, place)?,
        between(count - place, count - place - 1)?,
    ))
}

/// The share of a distribution to leave out at each end of an interval, given the degrees of freedom: 2.5 % with many, 0.5
/// % with five; `None` with zero.
pub fn share_beyond(freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(Normal::standard().cdf(-t.inverse_cdf(1.0 - MISSED_AT_AN_END)))
}

/// The degrees of freedom of a difference of means, from the standard error and the size of each group (B. L. Welch,
/// Biometrika 34, 1947). They lie between those of the smaller group and those of both together, which is also the value
/// for groups without variation.
fn welch_freedom(a: f64, of_a: usize, b: f64, of_b: usize) -> f64 {
    let part = |error: f64, count: usize| error.powi(4) / (count - 1) as f64;
    match part(a, of_a) + part(b, of_b) {
        0.0 => (of_a + of_b - 2) as f64,
        parts => (a * a + b * b).powi(2) / parts,
    }
}

/// The standard error of the mean; `None` for a single value.
fn standard_error(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let (count, centre) = (values.len() as f64, mean(values));
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((squares / (count - 1.0) / count).sqrt())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle value, or the midpoint of the middle two; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(low.midpoint(sorted[sorted.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_the_median_is_interpolated_between_order_statistics() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<f64>>();
        assert_eq!(interval_of_median(&values(5)), None);
        // With six values, the median is outside all of them in 1 of 32 cases and outside the middle four in 7 of 32. The
        // interval takes a tenth of that step, which is 5 x 0.1 / (1 + 4 x 0.1) of the way.
        let (low, high) = interval_of_median(&values(6)).expect("six");
        assert!((low - (1.0 + 0.5 / 1.4)).abs() < 1e-9, "{low}");
        assert!((high - (6.0 - 0.5 / 1.4)).abs() < 1e-9, "{high}");
    }

    #[test]
    fn groups_without_variation_have_an_interval_of_zero_width() {
        let effect = Effect::of_groups(&[2.0; 4], &[1.0; 5]).expect("both are there");
        assert_eq!(effect.interval, Some((1.0, 1.0)));
        assert_eq!(
            Effect::of_groups(&[2.0; 3], &[1.0; 5]).unwrap().interval,
            None
        );
    }
}
