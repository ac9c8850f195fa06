//! Whether squall's own machinery spoils a trial's response times.
//!
//! A response time counts from the intended time, so it includes the generator's lag, and what a late link added. What matters
//! is their share of it. The rule is here because the trial's worker and the finding that names a late generator both apply it.
//! docs/METHOD.md, "Our own error", explains it.

use super::Lateness;
use crate::Duration;

/// The largest share of a percentile of response times that squall itself may have added.
const SHARE_AT_MOST: f64 = 0.05;

/// Lag up to this never invalidates a trial. Without delay, 5 % of the median (0.09 ms) would be less than any wake-up takes.
/// The 99.9th percentile of an idle machine was 0.04 to 0.54 ms over six trials, none of which was repeated or left out; this
/// is about twice the worst of them. The value is a judgement call: what protects the verdict at such latencies is the rule
/// that a difference must exceed squall's own error.
const ALWAYS_SOUND: Duration = Duration::from_millis(1);

/// Below this number of requests, the 99.9th percentile would be the maximum, and the 99th takes its place.
const FOR_P999: u64 = 1_000;

/// The percentiles that squall itself may change by 5 %.
pub const LAG_QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// A lag that is not sound, with the limit that it exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagFault {
    /// The percentile of the lag: "p99" or "p99.9".
    pub percentile: &'static str,
    /// The lag at that percentile.
    pub lag: Duration,
    /// The most that would always be sound.
    pub at_most: Duration,
}

/// Whether lag and lateness changed the response times so little that they do not matter: `response` are the percentiles of
/// the response times at [`LAG_QUANTILES`], `without_own` those of the same times without each request's own lag and
/// without the times at which the links ran late while it was in flight.
pub fn is_slight(response: [Duration; 3], without_own: [Duration; 3]) -> bool {
    response.iter().zip(without_own).all(|(with, without)| {
        let added = (*with - without).as_nanos() as f64;
        added <= with.as_nanos() as f64 * SHARE_AT_MOST
    })
}

/// Judges a trial's lag. `response` and `without_own` are as in [`is_slight`]; `without_own` is called only if needed.
///
/// A lag at the 99.9th percentile of at most 5 % of the median, or of 1 ms, is sound. A longer one is sound, too, if none of
/// the percentiles would be 5 % smaller without it.
pub fn lag_fault(
    lag: &Lateness,
    response: [Duration; 3],
    without_own: impl FnOnce() -> [Duration; 3],
) -> Option<LagFault> {
    let (percentile, tail) = match lag.count {
        0..FOR_P999 => ("p99", lag.p99),
        _ => ("p99.9", lag.p999),
    };
    let median_ns = response[0].as_nanos() as f64;
    let at_most = Duration::from_nanos((median_ns * SHARE_AT_MOST) as u64);
    let at_most = at_most.max(ALWAYS_SOUND);
    if tail <= at_most || is_slight(response, without_own()) {
        return None;
    }
    Some(LagFault {
        percentile,
        lag: tail,
        at_most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(count: u64, p99_us: u64, p999_us: u64) -> Lateness {
        Lateness {
            count,
            p99: Duration::from_micros(p99_us),
            p999: Duration::from_micros(p999_us),
            ..Lateness::default()
        }
    }

    const fn ms(times: [u64; 3]) -> [Duration; 3] {
        let [p50, p90, p99] = times;
        [
            Duration::from_millis(p50),
            Duration::from_millis(p90),
            Duration::from_millis(p99),
        ]
    }

    const TIMES: [Duration; 3] = ms([20, 21, 268]);

    #[test]
    fn a_twentieth_of_the_median_or_a_millisecond_is_sound() {
        assert_eq!(lag_fault(&lag(5_000, 400, 1_000), TIMES, || TIMES), None);
        let fast = ms([0, 1, 2]);
        assert_eq!(lag_fault(&lag(5_000, 1_000, 1_000), fast, || fast), None);
        let slow = ms([200, 201, 202]);
        assert_eq!(lag_fault(&lag(5_000, 10_000, 10_000), slow, || slow), None);
    }

    #[test]
    fn a_longer_lag_is_sound_if_it_changes_no_percentile() {
        assert_eq!(lag_fault(&lag(5_000, 400, 1_341), TIMES, || TIMES), None);
        assert_eq!(lag_fault(&lag(5_000, 1_007, 9_000), TIMES, || TIMES), None);
        let changed = ms([20, 21, 250]);
        let fault = lag_fault(&lag(5_000, 400, 1_341), TIMES, || changed).expect("a fault");
        assert_eq!(fault.percentile, "p99.9");
        assert_eq!(fault.at_most, ALWAYS_SOUND);
    }

    #[test]
    fn below_a_thousand_requests_the_p99_of_the_lag_is_judged() {
        let changed = ms([18, 21, 268]);
        let fault = lag_fault(&lag(999, 1_001, 0), TIMES, || changed).expect("a fault");
        assert_eq!(
            (fault.percentile, fault.lag),
            ("p99", Duration::from_micros(1_001))
        );
    }

    #[test]
    fn five_percent_of_any_percentile_is_too_much() {
        assert!(is_slight(TIMES, TIMES));
        assert!(is_slight(ms([20, 40, 100]), ms([19, 38, 95])));
        assert!(!is_slight(ms([20, 40, 100]), ms([18, 38, 95])));
        assert!(!is_slight(ms([20, 40, 100]), ms([19, 38, 94])));
        assert!(is_slight(ms([0, 0, 0]), ms([0, 0, 0])));
    }
}
