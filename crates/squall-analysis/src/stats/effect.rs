//! How far runs lie apart, and how sure that is: a bootstrap of runs, then of blocks within them.
//!
//! Values are logarithms of ratios, so that twice and half as large are equally far from the same. Whether an effect
//! counts as a difference is `verdict`'s business; how often chance alone does as much is `sign_flip`'s.
//!
//! Runs are drawn with replacement, then each one's own uncertainty is drawn from its resamples (A. C. Davison and
//! D. V. Hinkley, *Bootstrap Methods and their Application*, 1997, section 3.8). What runs differ by already holds that
//! uncertainty; drawing it once more would make intervals too wide. So the deviations of the runs are shrunk before, such
//! that both together vary as the runs were seen to (J. R. Carpenter, H. Goldstein and J. Rasbash, Applied Statistics 52,
//! 2003). Few runs vary less than they should: the ends are taken further out, as far as t is beyond the normal
//! distribution (T. C. Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015,
//! section 3.2: expanded percentiles). Tests simulate what such intervals cover (`tests/coverage.rs`).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::order::{MISSED_AT_AN_END, interval_ranks};
use super::random::Random;
use super::series::quantile_of;

/// With so many runs, an interval of their median does not hang on single draws.
const DRAWS: usize = 2_000;

/// What a true effect must be, in standard errors, to be seen in 4 of 5 runs at a level of 5 %: 1.96 + 0.84.
const SEEN_FROM: f64 = 2.8;

/// Of two groups of unpaired runs, each needs so many: 4 against 4 can be dealt in 70 ways, which can prove 2.9 %; 3 against
/// 3 in 20.
const RUNS_OF_A_GROUP: usize = 4;

/// A run, or a pair of runs: its value, and how far chance within it may have moved that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// The value.
    pub value: f64,
    /// The value in each resample; empty if it is not known.
    pub resampled: Vec<f64>,
}

/// What runs came to together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median over the pairs, or the difference of the medians of two groups.
    pub median: f64,
    /// The 95 % interval of that; `None` if there are too few runs for one.
    pub interval: Option<(f64, f64)>,
    /// The smallest effect that so many such runs show in 4 of 5 cases: about 2.8 standard errors. `None` if a run is
    /// alone.
    pub least_visible: Option<f64>,
}

impl Effect {
    /// Of pairs; `None` without any. An interval takes six: with fewer, the median is outside of all of them in more
    /// than 5 % of cases.
    pub fn of_pairs(pairs: &[Unit], seed: u64) -> Option<Effect> {
        let group = Group::of(pairs)?;
        let mut random = Random::new(seed);
        let is_enough = interval_ranks(pairs.len() as u64, 0.5).high.is_some();
        let draws = is_enough.then(|| (0..DRAWS).map(|_| group.draw(&mut random)).collect());
        Some(Effect {
            median: group.median,
            interval: draws.and_then(|draws| interval(draws, (pairs.len() - 1) as f64)),
            least_visible: group.standard_error().map(|error| SEEN_FROM * error),
        })
    }

    /// Of two groups of runs that are no pairs, the first against the second; `None` if one is empty. An interval takes
    /// four of each.
    pub fn of_groups(a: &[Unit], b: &[Unit], seed: u64) -> Option<Effect> {
        let (first, second) = (Group::of(a)?, Group::of(b)?);
        let mut random = Random::new(seed);
        let fewest = a.len().min(b.len());
        let draws = (fewest >= RUNS_OF_A_GROUP).then(|| {
            (0..DRAWS)
                .map(|_| first.draw(&mut random) - second.draw(&mut random))
                .collect()
        });
        let errors = first.standard_error().zip(second.standard_error());
        Some(Effect {
            median: first.median - second.median,
            interval: draws.and_then(|draws| interval(draws, first.freedom_with(&second))),
            least_visible: errors.map(|(a, b)| SEEN_FROM * a.hypot(b)),
        })
    }
}

/// The ends of a 95 % interval of draws, whose spread is known with so many degrees of freedom.
fn interval(mut draws: Vec<f64>, freedom: f64) -> Option<(f64, f64)> {
    draws.sort_unstable_by(f64::total_cmp);
    let end = share_beyond(freedom)?;
    Some((quantile_of(&draws, end)?, quantile_of(&draws, 1.0 - end)?))
}

/// Which share of draws to leave out at each end of an interval, with so many degrees of freedom: 2.5 % with many, 0.5 %
/// with five; `None` of none.
pub fn share_beyond(freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(Normal::standard().cdf(-t.inverse_cdf(1.0 - MISSED_AT_AN_END)))
}

/// Runs ready to be drawn from.
struct Group<'a> {
    units: &'a [Unit],
    median: f64,
    /// Sample standard deviation of the values; `None` of one.
    deviation: Option<f64>,
    /// What a run's deviation from the median is multiplied by.
    of_runs: f64,
    /// What a resample's deviation from its run is multiplied by.
    of_blocks: f64,
    /// The mean of each run's resamples: a quantile of a resample is a little off in one direction.
    centres: Vec<f64>,
}

impl Group<'_> {
    fn of(units: &[Unit]) -> Option<Group<'_>> {
        let values: Vec<f64> = units.iter().map(|unit| unit.value).collect();
        let median = median(&values)?;
        let deviation = (values.len() > 1).then(|| variance(&values).sqrt());
        let seen = deviation.unwrap_or(0.0).powi(2);
        let centres = units.iter().map(|unit| mean(&unit.resampled)).collect();
        let within: Vec<f64> = units.iter().map(|unit| variance(&unit.resampled)).collect();
        let within = mean(&within);
        Some(Group {
            units,
            median,
            deviation,
            of_runs: ratio((seen - within).max(0.0), seen).sqrt(),
            of_blocks: ratio(seen, within).min(1.0).sqrt(),
            centres,
        })
    }

    /// The median of one resample.
    fn draw(&self, random: &mut Random) -> f64 {
        let mut values = Vec::with_capacity(self.units.len());
        for _ in self.units {
            let run = random.below(self.units.len());
            let unit = &self.units[run];
            let deviation = match unit.resampled.len() {
                0 => 0.0,
                count => unit.resampled[random.below(count)] - self.centres[run],
            };
            values.push(
                self.median
                    + self.of_runs * (unit.value - self.median)
                    + self.of_blocks * deviation,
            );
        }
        median(&values).unwrap_or(self.median)
    }

    /// The degrees of freedom of a difference (B. L. Welch, Biometrika 34, 1947): between those of the smaller group and
    /// those of both. Of groups that do not vary, all there are.
    fn freedom_with(&self, other: &Group<'_>) -> f64 {
        let part = |group: &Group<'_>| {
            let square = group.standard_error().unwrap_or(0.0).powi(2);
            (square, square * square / (group.units.len() - 1) as f64)
        };
        let ((a, a_part), (b, b_part)) = (part(self), part(other));
        match a_part + b_part {
            0.0 => (self.units.len() + other.units.len() - 2) as f64,
            parts => (a + b).powi(2) / parts,
        }
    }

    fn standard_error(&self) -> Option<f64> {
        Some(self.deviation? / (self.units.len() as f64).sqrt())
    }
}

/// 0 of nothing by nothing.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// 0 of none.
fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// Of a sample; 0 of fewer than two.
fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    ratio(squares, values.len().saturating_sub(1) as f64)
}

/// The middle one, or half way between the middle two; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(low.midpoint(sorted[sorted.len() / 2]))
}
