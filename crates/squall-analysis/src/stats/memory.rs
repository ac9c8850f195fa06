//! The autocorrelation length of a series.
//!
//! Requests that follow each other share a congestion window, a burst of losses, a queue. How far that reaches follows from
//! the series' autocorrelations, weighted and cut off as for the block length of a bootstrap (D. N. Politis and H. White,
//! "Automatic Block-Length Selection for the Dependent Bootstrap", Econometric Reviews 23, 2004, with the correction by
//! Patton, Politis and White, 28, 2009). `within` makes batches from it.

/// The autocorrelation length of `series`, in values: the mean lag of its correlations. That is the sum of lag x covariance
/// over the sum of covariances, both over all lags, positive and negative. It is 0 for independent values, 2 r / (1 - r^2)
/// where each value is `r` times the one before plus noise, and infinite if the sum vanishes.
///
/// The variance of means of batches of m values is too small by the share (reach / m) to stand for a longer run (H.-J. Song
/// and B. W. Schmeiser, "Optimal Mean-Squared-Error Batch Sizes", Management Science 41, 1995). Returns the larger of two
/// estimates: [`windowed_reach`], and one from the first lag alone, which scatters less.
pub fn reach(series: &[f64]) -> f64 {
    let Some(sums) = Autocovariances::of(series) else {
        return 0.0;
    };
    let next = sums.next.clamp(0.0, 1.0);
    sums.windowed_reach().max(2.0 * next / (1.0 - next * next))
}

/// The autocorrelation length under the window of Politis and White. Correlations count up to twice the lag after which
/// several in a row, at least 5, are no larger than chance makes them. Infinite if the sum of covariances is not positive.
pub fn windowed_reach(series: &[f64]) -> f64 {
    Autocovariances::of(series).map_or(0.0, |sums| sums.windowed_reach())
}

/// Sums of a series' autocovariances.
struct Autocovariances {
    /// The sum of lag x covariance.
    slope: f64,
    /// The sum of covariances: the spectrum at the origin.
    spectrum: f64,
    /// The correlation of neighbours.
    next: f64,
}

impl Autocovariances {
    fn windowed_reach(&self) -> f64 {
        if self.spectrum > 0.0 {
            self.slope / self.spectrum
        } else {
            f64::INFINITY
        }
    }

    /// `None` for a constant series, and for fewer than 8 values.
    fn of(series: &[f64]) -> Option<Autocovariances> {
        if series.len() < 8 {
            return None;
        }
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
        let (covariances, window) = covariances(&centred);
        let variance = covariances[0];
        if variance <= 0.0 {
            return None;
        }
        let (mut slope, mut spectrum) = (0.0, variance);
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
        Some(Autocovariances {
            slope,
            spectrum,
            next: covariances.get(1).copied().unwrap_or(0.0) / variance,
        })
    }
}

/// The autocovariances of a series with mean zero from lag 0 on, and the last lag that counts.
fn covariances(centred: &[f64]) -> (Vec<f64>, usize) {
    let count = centred.len();
    let n = count as f64;
    let in_a_row = ((n.log10()) as usize).max(5);
    let last = ((n.sqrt().ceil() as usize) + in_a_row).min(count - 2);
    let by_chance = 2.0 * (n.log10() / n).sqrt();
    let from_start = sums_of_squares(centred.iter());
    let from_end = sums_of_squares(centred.iter().rev());
    let mut covariances = Vec::new();
    let (mut quiet, mut window) = (0, last);
    for lag in 0..=last {
        let product = product(&centred[lag..], &centred[..count - lag]);
        covariances.push(product / n);
        // As in the reference implementation (the arch package of Python): a correlation of the overlapping parts.
        let overlap = count - lag - 1;
        let scale = (from_end[overlap] * from_start[overlap]).sqrt();
        let is_quiet = scale > 0.0 && (product.abs() / scale) < by_chance;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet >= in_a_row && window == last {
            // The first of these quiet lags follows the last lag that counts.
            window = (2 * (lag + 1 - in_a_row).max(1)).min(last);
        }
        if lag >= window {
            break;
        }
    }
    (covariances, window)
}

/// The sums of the squares of the first 0, 1, 2, ... values.
fn sums_of_squares<'a>(values: impl ExactSizeIterator<Item = &'a f64>) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for value in values {
        sum += value * value;
        sums.push(sum);
    }
    sums
}

/// The sum of the products of two series of the same length. It adds to four sums in turn, because each addition waits for the
/// one before.
fn product(one: &[f64], other: &[f64]) -> f64 {
    let (ones, one_rest) = one.as_chunks::<4>();
    let (others, other_rest) = other.as_chunks::<4>();
    let [mut first, mut second, mut third, mut fourth] = [0.0; 4];
    for (a, b) in ones.iter().zip(others) {
        first += a[0] * b[0];
        second += a[1] * b[1];
        third += a[2] * b[2];
        fourth += a[3] * b[3];
    }
    let rest: f64 = one_rest.iter().zip(other_rest).map(|(a, b)| a * b).sum();
    first + second + third + fourth + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_series_has_no_autocorrelation() {
        assert_eq!(reach(&[3.0; 100]), 0.0);
        assert_eq!(reach(&[1.0, 2.0]), 0.0);
        assert_eq!(windowed_reach(&[3.0; 100]), 0.0);
    }

    #[test]
    fn products_of_series_of_any_length_are_summed() {
        let series: Vec<f64> = (1..=11).map(f64::from).collect();
        for (length, sum) in [(0, 0.0), (1, 1.0), (4, 30.0), (7, 140.0), (11, 506.0)] {
            assert_eq!(product(&series[..length], &series[..length]), sum);
        }
        assert_eq!(
            sums_of_squares(series[..3].iter().rev()),
            [0.0, 9.0, 13.0, 14.0]
        );
    }
}
