//! The stationary block bootstrap: resamples of a series whose values hang together.
//!
//! Requests that follow each other share a congestion window, a burst of losses, a queue. Drawing them one by one would
//! tear that apart and promise intervals that are far too narrow; so blocks of random, geometric length are drawn instead
//! (D. N. Politis and J. P. Romano, "The Stationary Bootstrap", JASA 89, 1994). How long they should be follows from the
//! series itself (D. N. Politis and H. White, "Automatic Block-Length Selection for the Dependent Bootstrap", Econometric
//! Reviews 23, 2004, with the correction by Patton, Politis and White, 28, 2009).

use std::ops::Range;

use super::random::Random;

/// The mean length of blocks for `series`, in values: 1 for independent ones; at most 3 sqrt(n) and a third of it.
///
/// As Politis and White: correlations count up to twice the lag after which several in a row, at least 5, are no larger
/// than chance makes them, under a flat-top window.
pub fn automatic_length(series: &[f64]) -> f64 {
    let count = series.len();
    if count < 8 {
        return 1.0;
    }
    let n = count as f64;
    let mean = series.iter().sum::<f64>() / n;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let longest = (3.0 * n.sqrt()).min(n / 3.0).ceil();
    let (covariances, window) = covariances(&centred);
    if covariances[0] <= 0.0 {
        return 1.0;
    }
    let (mut slope, mut spectrum) = (0.0, covariances[0]);
    for (lag, covariance) in covariances.iter().enumerate().take(window + 1).skip(1) {
        let place = lag as f64 / window as f64;
        let weight = if place <= 0.5 {
            1.0
        } else {
            2.0 * (1.0 - place)
        };
        slope += 2.0 * weight * lag as f64 * covariance;
        spectrum += 2.0 * weight * covariance;
    }
    let length = (slope * slope / (spectrum * spectrum)).cbrt() * n.cbrt();
    // A spectrum of zero at the origin says nothing of the length.
    if length.is_finite() {
        length.clamp(1.0, longest)
    } else {
        longest
    }
}

/// The autocovariances of a series with mean zero from lag 0 on, and up to which lag they count.
fn covariances(centred: &[f64]) -> (Vec<f64>, usize) {
    let count = centred.len();
    let n = count as f64;
    let in_a_row = ((n.log10()) as usize).max(5);
    let last = ((n.sqrt().ceil() as usize) + in_a_row).min(count - 2);
    let by_chance = 2.0 * (n.log10() / n).sqrt();
    let mut covariances = Vec::new();
    let (mut quiet, mut window) = (0, last);
    for lag in 0..=last {
        let ahead = &centred[lag..];
        let product: f64 = ahead.iter().zip(centred).map(|(a, b)| a * b).sum();
        covariances.push(product / n);
        // As the reference implementation (the arch package of Python): a correlation between the parts that overlap.
        let squares = |part: &[f64]| part.iter().map(|a| a * a).sum::<f64>();
        let scale = (squares(&centred[lag + 1..]) * squares(&centred[..count - lag - 1])).sqrt();
        let is_quiet = scale > 0.0 && (product.abs() / scale) < by_chance;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet >= in_a_row && window == last {
            // The first of them is the lag after the last that counts.
            window = (2 * (lag + 1 - in_a_row).max(1)).min(last);
        }
        if lag >= window {
            break;
        }
    }
    (covariances, window)
}

/// One resample of a series of `count` values, as ranges of its indices; blocks wrap around at its end.
pub struct Resample<'a> {
    random: &'a mut Random,
    mean_length: f64,
    count: usize,
    left: usize,
    /// What of a block lies beyond the end, to be taken from the start.
    wrapped: usize,
}

/// Draws one resample with blocks of geometric length, `mean_length` values in the mean.
pub fn resample(random: &mut Random, count: usize, mean_length: f64) -> Resample<'_> {
    Resample {
        random,
        mean_length: mean_length.max(1.0),
        count,
        left: count,
        wrapped: 0,
    }
}

impl Iterator for Resample<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if self.left == 0 {
            return None;
        }
        let (start, length) = match self.wrapped {
            0 => {
                let start = self.random.below(self.count);
                let length = self.random.tries(1.0 / self.mean_length);
                (start, length.min(self.left))
            }
            wrapped => (0, wrapped),
        };
        let end = (start + length).min(self.count);
        self.wrapped = length - (end - start);
        self.left -= end - start;
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resample_is_as_long_as_its_series() {
        let mut random = Random::new(1);
        for (count, length) in [(1, 4.0), (10, 1.0), (1_000, 37.0), (100, 1e9)] {
            let mut drawn = vec![0; count];
            for range in resample(&mut random, count, length) {
                drawn[range].iter_mut().for_each(|times| *times += 1);
            }
            assert_eq!(drawn.iter().sum::<i32>(), count as i32);
        }
        assert_eq!(resample(&mut random, 0, 5.0).count(), 0);
    }

    #[test]
    fn every_place_is_drawn_as_often() {
        // Each of about 5 blocks covers a place with a probability of 1 in 5: the variance of a resample is near 1, so five
        // standard deviations of 4,000 of them are 5 x sqrt(4,000) = 316.
        let mut random = Random::new(2);
        let mut drawn = [0f64; 50];
        for _ in 0..4_000 {
            for range in resample(&mut random, 50, 10.0) {
                drawn[range].iter_mut().for_each(|times| *times += 1.0);
            }
        }
        for times in drawn {
            assert!((times - 4_000.0).abs() < 316.0, "{times}");
        }
    }

    #[test]
    fn a_constant_has_nothing_that_hangs_together() {
        assert_eq!(automatic_length(&[3.0; 100]), 1.0);
        assert_eq!(automatic_length(&[1.0, 2.0]), 1.0);
    }
}
