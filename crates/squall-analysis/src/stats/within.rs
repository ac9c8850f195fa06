//! The 95 % interval of a figure of one run, as far as chance within the run is concerned.
//!
//! The requests of a run are correlated, so they are grouped into batches, in the order of time, that are long enough to be
//! nearly uncorrelated (G. S. Fishman, "Grouping Observations in Digital Simulation", Management Science 24, 1978). The
//! scatter of the batches shows how far chance moves the whole; since they are few, Student's t applies. A mean's interval
//! follows directly. A few large values make it lopsided, which P. Hall's transformation corrects ("On the Removal of
//! Skewness by Transformation", JRSS B 54, 1992); each end is the outer one of the ends with and without it. The ends of a
//! quantile's interval are values at two ranks. To find them, the effective number of independent requests (from the
//! scatter of the share below the quantile) is compared with the binomial distribution, interpolated between ranks as in A.
//! D. Hutson, "Calculating Nonparametric Confidence Intervals for Quantiles Using Fractional Order Statistics" (Journal of
//! Applied Statistics 26, 1999). The interquartile range is treated as a mean too: that of how far each request moves it.
//!
//! A run that is too short has no interval: one with fewer than ten batches, or one where it is not 95 % certain that
//! enough independent requests lie beyond a quantile to bound it at all. `tests/integration/coverage.rs` simulates what such
//! intervals cover. What moves figures from run to run is not considered here: `effect` does that.

use squall_base::plan::Statistic;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

use super::effect::share_beyond;
use super::memory::reach;
use super::order::{MISSED_AT_AN_END, has_upper_bound};

/// With more batches the spread would hardly be better known (t is 2.05 for 30, 1.96 for any number). The batches would
/// also be shorter, so that undetected correlations would do more harm.
const BATCHES_AT_MOST: f64 = 30.0;

/// With fewer batches, the spread is a guess.
const BATCHES_AT_LEAST: f64 = 10.0;

/// Length of a batch, in autocorrelation lengths. At 23, the variance comes out at most 1 / 23 too small, and the interval
/// covers half a percent less: the density of the normal distribution at 1.96, 0.058, x 1.96 x 1 / 23.
const REACHES_OF_A_BATCH: f64 = 23.0;

/// The autocorrelation of longer runs is estimated from means of neighbours; their batches are far longer than those.
const LOOKED_AT: usize = 8_192;

/// How certain it must be that there are enough independent requests.
const SURE: f64 = 0.95;

/// By how much equal means may differ, relative to them.
const ROUNDING: f64 = 1e-12;

/// How exactly a share must be met: a rank is then known to a ten-millionth of how far such ranks scatter.
const SHARE_TOLERANCE: f64 = 1e-9;

/// About ten steps are usual. The search ends after this many, whatever the numbers.
const STEPS_AT_MOST: u32 = 60;

/// The highest quantile that a figure uses; `None` for the mean.
const fn quantile(figure: Statistic) -> Option<f64> {
    match figure {
        Statistic::Mean => None,
        Statistic::P50 => Some(0.5),
        Statistic::Iqr => Some(0.75),
        Statistic::P90 => Some(0.9),
        Statistic::P95 => Some(0.95),
        Statistic::P99 => Some(0.99),
        Statistic::P999 => Some(0.999),
    }
}

/// The 95 % interval of each figure of `series`, in the order of [`Statistic::ALL`]. `series` is in the order of time;
/// values of requests that never ended are infinite. Batches are at least `batch_at_least` values long. An end may be
/// infinite.
pub fn intervals(
    series: &[f64],
    batch_at_least: f64,
) -> [Option<(f64, f64)>; Statistic::ALL.len()] {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let run = RunSeries {
        series,
        sorted,
        batch_at_least,
    };
    Statistic::ALL.map(|figure| match figure {
        Statistic::Mean => run.of_mean(),
        Statistic::Iqr => run.of_range(),
        _ => run.of_quantile(quantile(figure)?),
    })
}

struct RunSeries<'a> {
    series: &'a [f64],
    sorted: Vec<f64>,
    batch_at_least: f64,
}

impl RunSeries<'_> {
    fn of_mean(&self) -> Option<(f64, f64)> {
        let ends = self.sorted.partition_point(|value| value.is_finite());
        if ends == 0 {
            return None;
        }
        let mean = self.sorted[..ends].iter().sum::<f64>() / ends as f64;
        // If some values are infinite, the mean is a ratio of two sums. This is how far each value moves it.
        let scale = self.series.len() as f64 / ends as f64;
        let moved = |value: &f64| {
            if value.is_finite() {
                scale * (value - mean)
            } else {
                0.0
            }
        };
        let moved: Vec<f64> = self.series.iter().map(moved).collect();
        let batches = Batches::of(&moved, self.batch_at_least)?;
        let (low, high) = batches.deviations()?;
        Some((mean - high, mean - low))
    }

    /// A share below a quantile moves the quantile by that share, divided by the density there.
    fn of_range(&self) -> Option<(f64, f64)> {
        if !has_upper_bound(self.series.len() as u64, 0.75) {
            return None;
        }
        let (low, high) = (self.value_at(0.25)?, self.value_at(0.75)?);
        let (at_low, at_high) = (self.sparsity(0.25)?, self.sparsity(0.75)?);
        let moved = |value: &f64| {
            let below = |end: f64, quantile: f64| quantile - f64::from(u8::from(*value <= end));
            at_high * below(high, 0.75) - at_low * below(low, 0.25)
        };
        let moved: Vec<f64> = self.series.iter().map(moved).collect();
        let batches = Batches::of(&moved, self.batch_at_least)?;
        let (below, above) = batches.deviations()?;
        let range = high - low;
        Some(((range - above).max(0.0), range - below))
    }

    fn of_quantile(&self, quantile: f64) -> Option<(f64, f64)> {
        let count = self.series.len() as f64;
        if !has_upper_bound(self.series.len() as u64, quantile) {
            return None;
        }
        let value = self.value_at(quantile)?;
        if self.sorted.first() == self.sorted.last() {
            return Some((value, value));
        }
        let below = self.below(value, quantile);
        let batches = Batches::of(&below, self.batch_at_least)?;
        let share = below.iter().sum::<f64>() / count;
        let independent = share * (1.0 - share) / batches.error.powi(2);
        if !is_enough(independent, quantile, batches.freedom()) {
            return None;
        }
        let outside = share_beyond(batches.freedom())?;
        let place = |missed: f64| {
            let place = place_of(independent, quantile, missed);
            place * (count + 1.0) / (independent + 1.0)
        };
        let (low, high) = batches.deviations()?;
        let low = place(outside).min(count * (quantile + low));
        let high = place(1.0 - outside).max(count * (quantile + high));
        Some((self.at_place(low)?, self.at_place(high)?))
    }

    /// The nearest-rank quantile, as everywhere.
    fn value_at(&self, quantile: f64) -> Option<f64> {
        let rank = (quantile * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.max(1) - 1).copied()
    }

    /// The value at a rank from 1, which may lie between two values; `None` outside.
    fn at_place(&self, place: f64) -> Option<f64> {
        if !(1.0..=self.sorted.len() as f64).contains(&place) {
            return None;
        }
        let low = self.sorted[place.floor() as usize - 1];
        let high = self.sorted[place.ceil() as usize - 1];
        Some(if low == high {
            low
        } else {
            low + (high - low) * place.fract()
        })
    }

    /// 1 for each value up to `value`, or for each value below it, whichever share is nearer to `quantile`: many values may
    /// be equal.
    fn below(&self, value: f64, quantile: f64) -> Vec<f64> {
        let count = self.sorted.len() as f64;
        let up_to = self.sorted.partition_point(|other| *other <= value) as f64 / count;
        let below = self.sorted.partition_point(|other| *other < value) as f64 / count;
        let is_with = (up_to - quantile).abs() <= (quantile - below).abs() && up_to < 1.0;
        let one = |other: &f64| {
            if is_with {
                *other <= value
            } else {
                *other < value
            }
        };
        let ones = self
            .series
            .iter()
            .map(|other| f64::from(u8::from(one(other))));
        ones.collect()
    }

    /// How much values grow per unit of share around a quantile. The width is that of P. Hall and S. J. Sheather ("On the
    /// Distribution of a Studentized Quantile", JRSS B 50, 1988), for the quartiles of the normal distribution.
    fn sparsity(&self, quantile: f64) -> Option<f64> {
        const DENSITY: f64 = 0.317_776_57;
        const PLACE: f64 = 0.674_489_75;
        let shape = 1.5 * DENSITY * DENSITY / (2.0 * PLACE * PLACE + 1.0);
        let count = self.sorted.len() as f64;
        let width = (1.96f64.powi(2) * shape / count).cbrt().min(0.2);
        let rise = self.value_at(quantile + width)? - self.value_at(quantile - width)?;
        rise.is_finite().then_some(rise / (2.0 * width))
    }
}

/// The means of a series' batches.
struct Batches {
    count: f64,
    /// Standard error of the overall mean.
    error: f64,
    /// Skewness of the batches' means.
    skewness: f64,
}

impl Batches {
    /// `None` if fewer than ten batches fit, or if all batches have the same mean.
    fn of(series: &[f64], batch_at_least: f64) -> Option<Batches> {
        // Such a series is too short, whatever its autocorrelation.
        if series.len() as f64 / batch_at_least < BATCHES_AT_LEAST {
            return None;
        }
        let length = (REACHES_OF_A_BATCH * reach_of_long(series)).max(batch_at_least);
        let count = (series.len() as f64 / length).min(BATCHES_AT_MOST).floor();
        if count < BATCHES_AT_LEAST || series.len() as f64 <= BATCHES_AT_MOST {
            return None;
        }
        let means = means(series, count as usize);
        let mean = means.iter().sum::<f64>() / count;
        let moment = |power| {
            let deviations = means.iter().map(|value| (value - mean).powi(power));
            deviations.sum::<f64>()
        };
        let deviation = (moment(2) / (count - 1.0)).sqrt();
        // Means that should be equal can differ by rounding, as in a series that repeats every few values.
        let largest = means
            .iter()
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        (deviation > ROUNDING * largest).then(|| Batches {
            count,
            error: deviation / count.sqrt(),
            skewness: moment(3) / count / deviation.powi(3),
        })
    }

    fn freedom(&self) -> f64 {
        self.count - 1.0
    }

    /// How far off the overall mean is in 95 % of runs, below and above: the outer of the ends by t and of those by t under
    /// Hall's transformation.
    fn deviations(&self) -> Option<(f64, f64)> {
        let t = StudentsT::new(0.0, 1.0, self.freedom()).ok()?;
        let t = t.inverse_cdf(1.0 - MISSED_AT_AN_END);
        let low = (-t).min(self.skewed(-t));
        let high = t.max(self.skewed(t));
        Some((self.error * low, self.error * high))
    }

    /// The inverse of Hall's transformation (1992, section 2): maps a point of a symmetric distribution to one with this
    /// skewness.
    fn skewed(&self, place: f64) -> f64 {
        let third = self.skewness / 3.0;
        if third.abs() < 1e-9 {
            return place;
        }
        let root = self.count.sqrt();
        let inner = 1.0 + 3.0 * third * (place / root - self.skewness / (6.0 * self.count));
        root * (inner.cbrt() - 1.0) / third
    }
}

/// The means of `batches` batches of nearly equal length.
fn means(series: &[f64], batches: usize) -> Vec<f64> {
    let end = |batch: usize| batch * series.len() / batches;
    let mean = |batch| {
        let values = &series[end(batch)..end(batch + 1)];
        values.iter().sum::<f64>() / values.len() as f64
    };
    (0..batches).map(mean).collect()
}

/// The autocorrelation length of a series of any length, in values.
fn reach_of_long(series: &[f64]) -> f64 {
    let together = series.len().div_ceil(LOOKED_AT);
    if together <= 1 {
        return reach(series);
    }
    together as f64 * reach(&means(series, series.len() / together))
}

/// Whether it is 95 % certain that this many independent values bound a quantile at all: n of them do if the larger of the
/// quantile's two shares, to the power n, is at most 2.5 % (`order`). The number of independent values is only as certain
/// as the variance that it is derived from. That variance comes from few batches, and it is chance which of them have the
/// values beyond the quantile (the variance of a variance has a term from the kurtosis, which for a few rare values is the
/// inverse of their number).
fn is_enough(independent: f64, quantile: f64, freedom: f64) -> bool {
    let beyond = independent * quantile.min(1.0 - quantile);
    let freedom = 2.0 / (2.0 / freedom + 1.0 / beyond);
    let Ok(known) = ChiSquared::new(freedom) else {
        return false;
    };
    let needed = MISSED_AT_AN_END.ln() / quantile.max(1.0 - quantile).ln();
    // Whether the number is at least `needed` with certainty `SURE`: `independent * known.inverse_cdf(1.0 - SURE) / freedom`.
    known.cdf(needed * freedom / independent) <= 1.0 - SURE
}

/// The rank, from 0 to `count` + 1, of the value that is above the quantile in a share `missed` of samples of `count`
/// independent values. Neither the rank nor `count` need be whole.
///
/// By false position with the Illinois rule (M. Dowell and P. Jarratt, "A Modified Regula Falsi Method for Computing the Root
/// of an Equation", BIT 11, 1971): when the same end of the bracket stays once more, its excess counts half.
fn place_of(count: f64, quantile: f64, missed: f64) -> f64 {
    let end = count + 1.0;
    // By how much the share at a place exceeds `missed`: the higher the place, the more.
    let excess = |place: f64| {
        if place <= 0.0 {
            -missed
        } else if place >= end {
            1.0 - missed
        } else {
            1.0 - beta_reg(place, end - place, quantile) - missed
        }
    };
    let (mut low, mut high) = ((0.0, -missed), (end, 1.0 - missed));
    let mut was_low = None;
    // The normal approximation is a good first guess.
    let spread = (end * quantile * (1.0 - quantile)).sqrt();
    let guess = end * quantile + spread * Normal::standard().inverse_cdf(missed);
    let mut place = guess.clamp(0.0, end);
    for _ in 0..STEPS_AT_MOST {
        let found = excess(place);
        if found.abs() <= SHARE_TOLERANCE {
            break;
        }
        let is_low = found < 0.0;
        let stays = if is_low {
            low = (place, found);
            &mut high
        } else {
            high = (place, found);
            &mut low
        };
        if was_low.replace(is_low) == Some(is_low) {
            stays.1 /= 2.0;
        }
        place = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn whole_ranks_match_the_binomial_distribution() {
        // P(Bin(20, 0.5) < 6) = 0.0207: the 6th of 20 is above the median in that share of samples.
        let place = place_of(20.0, 0.5, 0.020_694_732_666_015_625);
        assert!((place - 6.0).abs() < 1e-6, "{place}");
        let place = place_of(20.0, 0.5, 1.0 - 0.020_694_732_666_015_625);
        assert!((place - 15.0).abs() < 1e-6, "{place}");
    }

    #[test]
    fn place_is_met_exactly_at_either_end_of_few_and_many_values() {
        for count in [36.5, 368.0, 10_000.0] {
            for quantile in [0.5, 0.9, 0.99] {
                for missed in [0.005, 0.025, 0.5, 0.975, 0.995] {
                    let place = place_of(count, quantile, missed);
                    let share = |place: f64| 1.0 - beta_reg(place, count + 1.0 - place, quantile);
                    let what = format!("{count}, {quantile}, {missed}: {place}");
                    assert!((share(place) - missed).abs() < 1e-8, "{what}");
                }
            }
        }
    }

    #[test]
    fn skewness_moves_both_ends_the_same_way() {
        let batches = |skewness| Batches {
            count: 25.0,
            error: 1.0,
            skewness,
        };
        assert!((batches(0.0).skewed(2.0) - 2.0).abs() < 1e-12);
        assert!((batches(1e-6).skewed(2.0) - 2.0).abs() < 1e-6);
        // Hall (1992): to first order, both ends move by skewness (2 z^2 + 1) / 6 sqrt(n) towards the other side.
        let (low, high) = (batches(0.01).skewed(-2.0), batches(0.01).skewed(2.0));
        assert!(low < -2.0 && high < 2.0, "{low} {high}");
    }

    #[test]
    fn ten_values_beyond_a_quantile_bound_it_and_five_do_not() {
        for quantile in [0.9, 0.99, 0.999] {
            assert!(is_enough(10.0 / (1.0 - quantile), quantile, 29.0));
            assert!(!is_enough(5.0 / (1.0 - quantile), quantile, 29.0));
        }
    }

    #[test]
    fn requests_that_never_end_are_beyond_every_value() {
        // One in 100, at random, never ends.
        let mut random = Random::new(4);
        let value = |_| match random.below(100) {
            0 => f64::INFINITY,
            other => other as f64,
        };
        let series: Vec<f64> = (0..5_000).map(value).collect();
        let found = intervals(&series, 1.0);
        let high = |figure: Statistic| found[figure as usize].map(|(_, high)| high);
        assert_eq!(high(Statistic::P99), Some(f64::INFINITY));
        assert!(high(Statistic::P95).is_some_and(f64::is_finite));
        assert!(high(Statistic::Mean).is_some_and(f64::is_finite));
        assert_eq!(high(Statistic::P999), None);
    }

    #[test]
    fn few_batches_and_constants_have_no_spread() {
        let mut random = Random::new(6);
        let series: Vec<f64> = (0..1_000).map(|_| random.uniform()).collect();
        assert!(Batches::of(&series, 100.0).is_some());
        assert!(Batches::of(&series, 101.0).is_none());
        assert!(Batches::of(&[3.0; 1_000], 1.0).is_none());
        assert_eq!(intervals(&[], 1.0), [None; 7]);
        let found = intervals(&[3.0; 1_000], 1.0);
        assert_eq!(found[Statistic::P90 as usize], Some((3.0, 3.0)));
    }

    #[test]
    fn averaging_a_long_series_keeps_its_autocorrelation_length() {
        // Each value is 0.9 of the one before plus noise: the autocorrelation length is 2 x 0.9 / 0.19 = 9.5.
        let mut random = Random::new(7);
        let mut value = 0.0;
        let mut next = || {
            value = 0.9 * value + random.uniform() - 0.5;
            value
        };
        let long: Vec<f64> = (0..40_000).map(|_| next()).collect();
        let (whole, parts) = (reach(&long), reach_of_long(&long));
        assert!((7.0..13.0).contains(&whole), "{whole}");
        assert!((5.0..20.0).contains(&parts), "{parts}");
    }
}
