//! The figures of one run, and how far each may be off by chance: resampled in blocks.
//!
//! A run is a series of latencies in the order in which its requests were wanted. Each resample (`blocks`) gives every
//! figure once, so all of them cost one pass; how the figures scatter over the resamples is how far chance moves them
//! within such a run. What moves them from one run to the next is not in here: `effect` sees that.

use super::blocks::{automatic_length, resample};
use super::order::{MISSED_AT_AN_END, interval_ranks};
use super::random::Random;

/// An interval is given only if so many blocks of the mean length fit into the run: the spread over fewer is a guess.
const BLOCKS_AT_LEAST: f64 = 10.0;

/// The resamples of a run: 400, or so many values in all of longer runs, but at least 100 (a 95 % interval takes the
/// values that 2.5 % are beyond).
const RESAMPLES: usize = 400;
const RESAMPLES_AT_LEAST: usize = 100;
const VALUES_DRAWN: usize = 200_000_000;

/// Longer runs are put in order only so far: to one 65,536th of them, far below what chance does to a quantile.
const PLACES: usize = 1 << 16;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeriesFigure {
    /// The mean of those values that have an end.
    Mean,
    /// The median.
    Median,
    /// The 75th percentile less the 25th.
    InterquartileRange,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

impl SeriesFigure {
    /// Every figure, in the order of this enum.
    pub const ALL: [SeriesFigure; 7] = [
        SeriesFigure::Mean,
        SeriesFigure::Median,
        SeriesFigure::InterquartileRange,
        SeriesFigure::P90,
        SeriesFigure::P95,
        SeriesFigure::P99,
        SeriesFigure::P999,
    ];

    /// The highest quantile that it takes; `None` for the mean.
    const fn quantile(self) -> Option<f64> {
        match self {
            SeriesFigure::Mean => None,
            SeriesFigure::Median => Some(0.5),
            SeriesFigure::InterquartileRange => Some(0.75),
            SeriesFigure::P90 => Some(0.9),
            SeriesFigure::P95 => Some(0.95),
            SeriesFigure::P99 => Some(0.99),
            SeriesFigure::P999 => Some(0.999),
        }
    }
}

/// How the figures of a run scatter over its resamples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resamples {
    /// For each figure, in the order of [`SeriesFigure::ALL`], its value in each resample.
    figures: [Vec<f64>; SeriesFigure::ALL.len()],
    /// How many values the run has.
    count: u64,
    /// The mean length of the blocks, in values.
    block_length: f64,
}

impl Resamples {
    /// Resamples `series`, in the order of time; a value without an end is infinite. Blocks are as long as the series
    /// asks for, and at least `block_at_least` values in the mean.
    pub fn of(series: &[f64], block_at_least: f64, seed: u64) -> Resamples {
        if series.is_empty() {
            return Resamples::default();
        }
        let finite: Vec<f64> = series.iter().copied().filter(|v| v.is_finite()).collect();
        let largest = finite.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let bounded: Vec<f64> = series.iter().map(|value| value.min(largest)).collect();
        let block_length = automatic_length(&bounded).max(block_at_least).max(1.0);
        let ordered = Ordered::of(series);
        let mut random = Random::new(seed);
        let mut figures: [Vec<f64>; SeriesFigure::ALL.len()] = Default::default();
        let mut drawn = vec![0u32; ordered.values.len()];
        let wanted = (VALUES_DRAWN / series.len()).clamp(RESAMPLES_AT_LEAST, RESAMPLES);
        for _ in 0..wanted {
            drawn.fill(0);
            let (mut sum, mut ends) = (0.0, 0);
            for range in resample(&mut random, series.len(), block_length) {
                sum += ordered.sums[range.end] - ordered.sums[range.start];
                ends += ordered.ends[range.end] - ordered.ends[range.start];
                for &place in &ordered.places[range] {
                    drawn[place as usize] += 1;
                }
            }
            let mean = if ends > 0 {
                sum / f64::from(ends)
            } else {
                f64::INFINITY
            };
            for (values, value) in
                figures
                    .iter_mut()
                    .zip(ordered.figures(&drawn, series.len(), mean))
            {
                values.push(value);
            }
        }
        Resamples {
            figures,
            count: series.len() as u64,
            block_length,
        }
    }

    /// A figure's value in each resample; empty without a run.
    pub fn figure(&self, figure: SeriesFigure) -> &[f64] {
        &self.figures[figure as usize]
    }

    /// The mean length of the blocks, in values.
    pub fn block_length(&self) -> f64 {
        self.block_length
    }

    /// Between which values a figure lies in 95 % of resamples: what chance within the run leaves open. `None` if the
    /// run is too short for it: the quantile has no upper bound (`order`), or fewer than 10 blocks fit into it. An end
    /// may be infinite.
    pub fn interval(&self, figure: SeriesFigure) -> Option<(f64, f64)> {
        let has_bound = match figure.quantile() {
            Some(quantile) => interval_ranks(self.count, quantile).high.is_some(),
            None => self.count > 0,
        };
        if !has_bound || (self.count as f64) < BLOCKS_AT_LEAST * self.block_length {
            return None;
        }
        let mut values = self.figure(figure).to_vec();
        values.sort_unstable_by(f64::total_cmp);
        Some((
            quantile_of(&values, MISSED_AT_AN_END)?,
            quantile_of(&values, 1.0 - MISSED_AT_AN_END)?,
        ))
    }
}

/// The quantile of values in order, half way between neighbours where it falls between them (Hyndman and Fan 1996, type
/// 7, which NumPy and R take too). `None` of no values.
pub(crate) fn quantile_of(sorted: &[f64], quantile: f64) -> Option<f64> {
    let place = quantile * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    Some(if low == high {
        low
    } else {
        low + (high - low) * place.fract()
    })
}

/// A series with what a resample needs of it at hand.
struct Ordered {
    /// The values in order; of long series one for each place.
    values: Vec<f64>,
    /// For each value in the order of time, its place in `values`.
    places: Vec<u32>,
    /// Sum of the values that have an end, of all before each index.
    sums: Vec<f64>,
    /// How many values have an end, of all before each index.
    ends: Vec<u32>,
}

impl Ordered {
    fn of(series: &[f64]) -> Ordered {
        let count = series.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by(|&a, &b| series[a as usize].total_cmp(&series[b as usize]));
        let places_in_all = count.min(PLACES);
        let mut places = vec![0; count];
        for (rank, &index) in order.iter().enumerate() {
            places[index as usize] = (rank * places_in_all / count) as u32;
        }
        let middle = |place: usize| order[(2 * place + 1) * count / (2 * places_in_all)];
        let values = (0..places_in_all).map(|place| series[middle(place) as usize]);
        let (mut sums, mut ends) = (vec![0.0], vec![0]);
        let (mut sum, mut ended) = (0.0, 0);
        for value in series {
            if value.is_finite() {
                sum += value;
                ended += 1;
            }
            sums.push(sum);
            ends.push(ended);
        }
        Ordered {
            values: values.collect(),
            places,
            sums,
            ends,
        }
    }

    /// The figures of a resample of which each place was drawn so often.
    fn figures(&self, drawn: &[u32], count: usize, mean: f64) -> [f64; SeriesFigure::ALL.len()] {
        const QUANTILES: [f64; 7] = [0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
        let mut found = [f64::INFINITY; QUANTILES.len()];
        let (mut next, mut below) = (0, 0u64);
        for (value, times) in self.values.iter().zip(drawn) {
            below += u64::from(*times);
            // Nearest rank, as everywhere.
            while next < QUANTILES.len() && below as f64 >= (QUANTILES[next] * count as f64).ceil()
            {
                found[next] = *value;
                next += 1;
            }
        }
        let [p25, median, p75, p90, p95, p99, p999] = found;
        let range = if p75.is_finite() {
            p75 - p25
        } else {
            f64::INFINITY
        };
        [mean, median, range, p90, p95, p99, p999]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_series_drawn_once_each_are_its_own() {
        let series: Vec<f64> = (1..=1_000).rev().map(f64::from).collect();
        let ordered = Ordered::of(&series);
        assert_eq!(
            ordered.figures(&vec![1; 1_000], 1_000, 500.5),
            [500.5, 500.0, 500.0, 900.0, 950.0, 990.0, 999.0]
        );
        assert_eq!(
            (ordered.sums[1_000], ordered.ends[1_000]),
            (500_500.0, 1_000)
        );
    }

    #[test]
    fn what_never_ends_is_beyond_every_value() {
        let mut series = vec![5.0; 500];
        series[490..].fill(f64::INFINITY);
        let resamples = Resamples::of(&series, 1.0, 1);
        let (low, high) = resamples.interval(SeriesFigure::P99).unwrap();
        assert_eq!((low, high), (5.0, f64::INFINITY));
        assert_eq!(resamples.interval(SeriesFigure::Mean), Some((5.0, 5.0)));
        assert_eq!(resamples.interval(SeriesFigure::P999), None);
        assert_eq!(
            Resamples::of(&[], 1.0, 1).interval(SeriesFigure::Mean),
            None
        );
    }

    #[test]
    fn a_run_of_few_blocks_has_no_interval() {
        let series: Vec<f64> = (0..1_000).map(|n| f64::from(n % 97)).collect();
        assert!(
            Resamples::of(&series, 100.0, 1)
                .interval(SeriesFigure::P95)
                .is_some()
        );
        assert_eq!(
            Resamples::of(&series, 101.0, 1).interval(SeriesFigure::P95),
            None
        );
    }

    #[test]
    fn long_runs_lose_nothing_that_matters() {
        let series: Vec<f64> = (0..200_000u64)
            .map(|n| (n * 7_919 % 200_000) as f64)
            .collect();
        let ordered = Ordered::of(&series);
        let mut drawn = vec![0; ordered.values.len()];
        ordered
            .places
            .iter()
            .for_each(|&place| drawn[place as usize] += 1);
        let figures = ordered.figures(&drawn, series.len(), 0.0);
        for (found, expected) in figures[3..]
            .iter()
            .zip([180_000.0, 190_000.0, 198_000.0, 199_800.0])
        {
            assert!((found - expected).abs() <= 4.0, "{found} for {expected}");
        }
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        assert_eq!(quantile_of(&[1.0, 2.0, 4.0, 8.0], 0.5), Some(3.0));
        assert_eq!(quantile_of(&[0.0, 8.0], 0.125), Some(1.0));
        assert_eq!(quantile_of(&[], 0.5), None);
    }
}
