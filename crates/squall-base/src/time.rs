//! Points in time and spans of time, in whole nanoseconds.
//!
//! Both are plain integers: no clock is read here (squall-linux does that), and floating point cannot make a sum of
//! causes miss its total. A `Time` counts from an origin that its holder states: that of CLOCK_MONOTONIC while a trial
//! runs, the trial's own epoch in its records.

use std::fmt;
use std::num::NonZero;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::number::{ParseQuantityError, split_number};

/// A point in time: nanoseconds since the origin of its clock, less than `u64::MAX`.
///
/// It is stored plus one, so that zero can stand for no time: an `Option<Time>` takes eight bytes, and records have
/// many of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Time(NonZero<u64>);

/// A span of time in nanoseconds, never negative.
///
/// In text it is a number with a unit: `250us`, `25ms`, `1.5s`, `15min`, `1h`; rounded to whole nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Duration(u64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(NonZero::<u64>::MIN);

    /// The point `nanos` nanoseconds after the origin. Only `u64::MAX`, after 584 years, is too large: it becomes one
    /// less.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(NonZero::<u64>::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// The span from `earlier` to `self`; zero if `earlier` is actually later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// This instant counted from `epoch` instead of the clock's origin; zero if it is before `epoch`.
    pub const fn relative_to(self, epoch: Time) -> Time {
        Time::from_nanos(self.since(epoch).as_nanos())
    }
}

impl Duration {
    /// A span of length zero.
    pub const ZERO: Duration = Duration(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Duration {
        Duration(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Duration {
        Duration(micros * 1_000)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Duration {
        Duration(millis * 1_000_000)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Duration {
        Duration(secs * 1_000_000_000)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds with their fraction, for display and statistics.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds with their fraction, for display and statistics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// True for the empty span.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    /// Saturating, because records may have any times.
    fn add(self, span: Duration) -> Time {
        Time::from_nanos(self.as_nanos().saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Default for Time {
    fn default() -> Time {
        Time::ZERO
    }
}

impl From<u64> for Time {
    fn from(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }
}

impl From<Time> for u64 {
    fn from(time: Time) -> u64 {
        time.as_nanos()
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.as_nanos()).finish()
    }
}

impl Add for Duration {
    type Output = Duration;
    /// Saturating, because records may have any times.
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    /// Saturating: a span is never negative.
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> Self {
        std::time::Duration::from_nanos(span.0)
    }
}

/// Uses the largest unit that keeps the number exact and short: `25ms`, `1.5s`, `250us`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (decimals, unit) = match self.0 {
            0 => return f.write_str("0ms"),
            n if n % 60_000_000_000 == 0 => return write!(f, "{}min", n / 60_000_000_000),
            n if n >= 1_000_000_000 => (9, "s"),
            n if n >= 1_000_000 => (6, "ms"),
            n if n >= 1_000 => (3, "us"),
            n => return write!(f, "{n}ns"),
        };
        let nanos_per_unit = 10_u64.pow(decimals);
        let (whole, rest) = (self.0 / nanos_per_unit, self.0 % nanos_per_unit);
        let rest = format!("{rest:0width$}", width = decimals as usize);
        match rest.trim_end_matches('0') {
            "" => write!(f, "{whole}{unit}"),
            rest => write!(f, "{whole}.{rest}{unit}"),
        }
    }
}

impl FromStr for Duration {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Duration, ParseQuantityError> {
        const EXPECTED: &str = "a time with its unit, such as \"25ms\", \"1.5s\" or \"15min\"";
        /// 31.7 years: the sum of a few still fits.
        const MAX_NANOS: u128 = 1_000_000_000_000_000_000;
        let (number, unit) = split_number(text, EXPECTED)?;
        let nanos_per_unit = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60 * 1_000_000_000,
            "h" => 3_600 * 1_000_000_000,
            _ => {
                let likely = &["ms", "s"];
                return Err(ParseQuantityError::unit(text, unit, EXPECTED, likely));
            }
        };
        let nanos = number.times_rounded(nanos_per_unit);
        if nanos > MAX_NANOS {
            return Err(ParseQuantityError::range(text, "at most 30 years"));
        }
        Ok(Duration(nanos as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_the_largest_time_saturate() {
        let most = Duration::from_nanos(u64::MAX);
        assert_eq!(most + Duration::from_nanos(1), most);
        assert_eq!((Time::from_nanos(1) + most).as_nanos(), u64::MAX - 1);
    }

    #[test]
    fn durations_parse_as_they_print() {
        for text in [
            "250us",
            "25ms",
            "1.5s",
            "15min",
            "7ns",
            "0ms",
            "1.001us",
            // This has more digits than an `f64`.
            "9007199.254740993s",
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        assert_eq!("1h".parse::<Duration>().unwrap(), Duration::from_secs(3600));
    }

    #[test]
    fn durations_are_exact_to_the_nanosecond() {
        for (text, nanos) in [
            ("0.1ms", 100_000),
            ("0.3s", 300_000_000),
            ("1.001us", 1_001),
            ("9007199.254740993s", 9_007_199_254_740_993),
            ("0.4ns", 0),
            ("0.5ns", 1),
        ] {
            assert_eq!(text.parse(), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        assert!("30.1min".parse::<Duration>().is_ok());
        assert!("300000h".parse::<Duration>().is_err());
    }

    #[test]
    fn durations_need_a_known_unit_and_a_plain_number() {
        for text in [
            "",
            "25",
            "ms",
            "25 parsecs",
            "-1ms",
            "1e3ms",
            "nanms",
            "infs",
            "1.2.3s",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn since_never_goes_negative() {
        let (early, late) = (Time::from_nanos(5), Time::from_nanos(9));
        assert_eq!(late.since(early), Duration::from_nanos(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
