//! How far runs lie apart, and how sure that is.
//!
//! Values are logarithms of ratios, so that twice and half as large are equally far from the same. Whether an effect
//! counts as a difference is `verdict`'s business; how often chance alone does as much is `sign_flip`'s.
//!
//! What runs differ by holds all that chance did, between runs and within each, so the runs' values are all it takes; how
//! far chance moves a single run is `within`'s. Of pairs, the interval of the median lies between two of them in order:
//! exact whatever the distribution, but for the step between neighbours, which is divided as T. P. Hettmansperger and S. J.
//! Sheather found ("Confidence Intervals Based on Interpolated Order Statistics", Statistics and Probability Letters 4,
//! 1986). A difference of two medians has no such interval, and draws with replacement make one that is too wide: a median
//! of few that are drawn scatters up to 1.17 times as much as it should. Runs that are no pairs have Welch's interval of
//! the difference of the means instead, the figure that the permutation test looks at (`sign_flip`). Tests simulate what
//! both cover (`tests/coverage.rs`).

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::order::{MISSED_AT_AN_END, interval_ranks};

/// What a true effect must be, in standard errors, to be seen in 4 of 5 runs at a level of 5 %: 1.96 + 0.84.
const SEEN_FROM: f64 = 2.8;

/// Of two groups of unpaired runs, each needs so many: 4 against 4 can be dealt in 70 ways, which can prove 2.9 %; 3 against
/// 3 in 20.
const RUNS_OF_A_GROUP: usize = 4;

/// What runs came to together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median over the pairs, or the difference of the medians of two groups.
    pub median: f64,
    /// The 95 % interval of that, or of the difference of the means of two groups; `None` if there are too few runs for one.
    pub interval: Option<(f64, f64)>,
    /// The smallest effect that so many such runs show in 4 of 5 cases: about 2.8 standard errors. `None` if a run is
    /// alone.
    pub least_visible: Option<f64>,
}

impl Effect {
    /// Of pairs; `None` without any. An interval takes six: with fewer, the median is outside of all of them in more
    /// than 5 % of cases.
    pub fn of_pairs(pairs: &[f64]) -> Option<Effect> {
        Some(Effect {
            median: median(pairs)?,
            interval: interval_of_median(pairs),
            least_visible: standard_error(pairs).map(|error| SEEN_FROM * error),
        })
    }

    /// Of two groups of runs that are no pairs, the first against the second; `None` if one is empty. An interval takes
    /// four of each.
    pub fn of_groups(a: &[f64], b: &[f64]) -> Option<Effect> {
        let median = median(a)? - median(b)?;
        let errors = standard_error(a).zip(standard_error(b));
        let error = errors.map(|(a, b)| a.hypot(b));
        let is_enough = a.len().min(b.len()) >= RUNS_OF_A_GROUP;
        let interval = errors.filter(|_| is_enough).and_then(|(of_a, of_b)| {
            let freedom = welch_freedom((of_a, a.len()), (of_b, b.len()));
            let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
            let reach = t.inverse_cdf(1.0 - MISSED_AT_AN_END) * of_a.hypot(of_b);
            let means = mean(a) - mean(b);
            // The medians are said beside it.
            Some((median.min(means - reach), median.max(means + reach)))
        });
        Some(Effect {
            median,
            interval,
            least_visible: error.map(|error| SEEN_FROM * error),
        })
    }
}

/// The 95 % interval of the median of a distribution from which these values are.
fn interval_of_median(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = interval_ranks(count as u64, 0.5).low? as usize;
    let below = Binomial::new(0.5, count as u64).ok()?;
    // Beyond the values at this place, from 1, and at its mirror image lies the median so often, and beyond the next ones.
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

/// Which share of a distribution to leave out at each end of an interval, with so many degrees of freedom: 2.5 % with many,
/// 0.5 % with five; `None` of none.
pub fn share_beyond(freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(Normal::standard().cdf(-t.inverse_cdf(1.0 - MISSED_AT_AN_END)))
}

/// The degrees of freedom of a difference of means of so large standard errors, of so many (B. L. Welch, Biometrika 34,
/// 1947): between those of the smaller group and those of both. Of groups that do not vary, all there are.
fn welch_freedom((a, of_a): (f64, usize), (b, of_b): (f64, usize)) -> f64 {
    let part = |error: f64, count: usize| error.powi(4) / (count - 1) as f64;
    match part(a, of_a) + part(b, of_b) {
        0.0 => (of_a + of_b - 2) as f64,
        parts => (a * a + b * b).powi(2) / parts,
    }
}

/// Of the mean; `None` of a single value.
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

/// The middle one, or half way between the middle two; `None` of none.
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
    fn an_interval_of_pairs_lies_between_two_of_them() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<f64>>();
        assert_eq!(interval_of_median(&values(5)), None);
        // Of six, the median is outside of all in 1 of 32 cases and outside of the middle four in 7 of 32: a tenth of the
        // step, which is 5 x 0.1 / (1 + 4 x 0.1) of the way.
        let (low, high) = interval_of_median(&values(6)).expect("six");
        assert!((low - (1.0 + 0.5 / 1.4)).abs() < 1e-9, "{low}");
        assert!((high - (6.0 - 0.5 / 1.4)).abs() < 1e-9, "{high}");
    }

    #[test]
    fn groups_that_do_not_vary_are_as_far_apart_as_they_are() {
        let effect = Effect::of_groups(&[2.0; 4], &[1.0; 5]).expect("both are there");
        assert_eq!(effect.interval, Some((1.0, 1.0)));
        assert_eq!(
            Effect::of_groups(&[2.0; 3], &[1.0; 5]).unwrap().interval,
            None
        );
    }
}
