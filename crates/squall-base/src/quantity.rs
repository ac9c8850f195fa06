//! Sizes, rates and probabilities, and their notation.
//!
//! Each type has one notation, shared by recipes and the command line. Errors state what was expected but not where;
//! the recipe parser adds file, line and column. `number` reads the number in front of a unit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::number::{ParseQuantityError, split_number};
use crate::time::Duration;

/// A number of bytes. In text: `1024`, `1KiB`, `64KiB`, `1MB`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

/// A probability from 0 to 1. In text: `3%`, `0.03`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Probability(f64);

/// A number of events per period, kept as a ratio so that the time of the n-th event is exact. In text: `1000/s`,
/// `90/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    events: u64,
    period: Duration,
}

/// Bits per second, more than zero. In text: `20mbit`, `500kbit`, `1.5gbit`, `20Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(u64);

impl Bytes {
    /// `count` bytes.
    pub const fn new(count: u64) -> Bytes {
        Bytes(count)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n > 0 && n % (1 << 30) == 0 => write!(f, "{}GiB", n >> 30),
            n if n > 0 && n % (1 << 20) == 0 => write!(f, "{}MiB", n >> 20),
            n if n > 0 && n % (1 << 10) == 0 => write!(f, "{}KiB", n >> 10),
            n => write!(f, "{n}B"),
        }
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        const EXPECTED: &str = "a size, such as \"1024\", \"1KiB\" or \"64KiB\"";
        const MAX_COUNT: u128 = 1_000_000_000_000_000;
        let (number, unit) = split_number(text, EXPECTED)?;
        let bytes_per_unit = match unit {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(ParseQuantityError::unit(text, unit, EXPECTED, &["B"])),
        };
        match number.times(bytes_per_unit) {
            Some(count) if count <= MAX_COUNT => Ok(Bytes(count as u64)),
            _ => Err(ParseQuantityError::range(
                text,
                "a whole number of bytes, at most 1 PB",
            )),
        }
    }
}

impl Probability {
    /// Zero.
    pub const ZERO: Probability = Probability(0.0);

    /// The probability `value`, or `None` if it is not between 0 and 1.
    pub fn new(value: f64) -> Option<Probability> {
        (0.0..=1.0).contains(&value).then_some(Probability(value))
    }

    /// The value, from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded at 1e-9 so that 0.03 prints as 3%, not 3.0000000000000004%.
        write!(f, "{}%", (self.0 * 1e11).round() / 1e9)
    }
}

impl FromStr for Probability {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Probability, ParseQuantityError> {
        const EXPECTED: &str = "a share, such as \"3%\" or \"0.03\"";
        let (number, unit) = split_number(text, EXPECTED)?;
        let value = match unit {
            "%" => number.shifted_f64(2),
            "" => number.shifted_f64(0),
            _ => return Err(ParseQuantityError::unit(text, unit, EXPECTED, &["%"])),
        };
        // A bare 1 may mean one per cent, as in tc, or everything.
        let is_ambiguous = unit.is_empty() && value == 1.0;
        if is_ambiguous {
            let expected = "\"1%\" or \"100%\": a bare 1 may be meant as either";
            return Err(ParseQuantityError::range(text, expected));
        }
        if unit.is_empty() && value > 1.0 && value <= 100.0 {
            return Err(ParseQuantityError::unit(text, unit, EXPECTED, &["%"]));
        }
        Probability::new(value).ok_or_else(|| ParseQuantityError::range(text, "0% to 100%"))
    }
}

impl Rate {
    /// `events` in each `period`, or `None` if either is zero.
    pub fn new(events: u64, period: Duration) -> Option<Rate> {
        (events > 0 && !period.is_zero()).then_some(Rate { events, period })
    }

    /// Events in each period.
    pub const fn events(self) -> u64 {
        self.events
    }

    /// The period over which the events are counted.
    pub const fn period(self) -> Duration {
        self.period
    }

    /// When the `n`-th event (from 0) is due, counted from the start: floor(n * period / events), exact.
    pub fn offset_of(self, n: u64) -> Duration {
        let nanos = u128::from(n) * u128::from(self.period.as_nanos()) / u128::from(self.events);
        Duration::from_nanos(nanos as u64)
    }

    /// How many events are due within `span`: those with `offset_of(n) < span`.
    pub fn events_in(self, span: Duration) -> u64 {
        let product = u128::from(span.as_nanos()) * u128::from(self.events);
        product.div_ceil(u128::from(self.period.as_nanos())) as u64
    }

    /// Events per second.
    pub fn per_second(self) -> f64 {
        self.events as f64 / self.period.as_secs_f64()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.period == Duration::from_secs(1) {
            write!(f, "{}/s", self.events)
        } else if self.period == Duration::from_secs(60) {
            write!(f, "{}/min", self.events)
        } else {
            write!(f, "{}/{}", self.events, self.period)
        }
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Rate, ParseQuantityError> {
        const EXPECTED: &str = "a rate, such as \"1000/s\" or \"90/min\"";
        const MAX_EVENTS: u128 = 1_000_000_000;
        let (number, unit) = split_number(text, EXPECTED)?;
        let period = match unit {
            "/s" => Duration::from_secs(1),
            "/m" | "/min" => Duration::from_secs(60),
            _ => {
                let likely = &["/s", "/min"];
                return Err(ParseQuantityError::unit(text, unit, EXPECTED, likely));
            }
        };
        match number.times(1) {
            Some(events) if events <= MAX_EVENTS => Rate::new(events as u64, period)
                .ok_or_else(|| ParseQuantityError::range(text, "more than 0")),
            _ => Err(ParseQuantityError::range(
                text,
                "a whole number of at most 1e9",
            )),
        }
    }
}

impl BitRate {
    /// `bits_per_s` bits per second, or `None` if that is zero.
    pub const fn new(bits_per_s: u64) -> Option<BitRate> {
        match bits_per_s {
            0 => None,
            bits_per_s => Some(BitRate(bits_per_s)),
        }
    }

    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// How long `bits` bits take, rounded up to whole nanoseconds.
    pub fn time_for(self, bits: u64) -> Duration {
        let nanos = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{}gbit", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{}mbit", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{}kbit", n as f64 / 1e3),
            n => write!(f, "{n}bit"),
        }
    }
}

impl FromStr for BitRate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<BitRate, ParseQuantityError> {
        const EXPECTED: &str = "a rate in bits, such as \"20mbit\" or \"500kbit\"";
        const MAX_BITS_PER_S: u128 = 1_000_000_000_000;
        let (number, unit) = split_number(text, EXPECTED)?;
        let bare = unit.strip_suffix("/s").unwrap_or(unit);
        let bits_per_unit = match bare.to_ascii_lowercase().as_str() {
            "bit" => 1,
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            _ => {
                let likely = &["mbit", "kbit"];
                return Err(ParseQuantityError::unit(text, unit, EXPECTED, likely));
            }
        };
        let bits_per_s = number.times_rounded(bits_per_unit);
        u64::try_from(bits_per_s)
            .ok()
            .filter(|_| bits_per_s <= MAX_BITS_PER_S)
            .and_then(BitRate::new)
            .ok_or_else(|| ParseQuantityError::range(text, "1 bit/s to 1 Tbit/s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_and_print() {
        assert_eq!("1KiB".parse::<Bytes>().unwrap(), Bytes::new(1024));
        assert_eq!("1.5kB".parse::<Bytes>().unwrap(), Bytes::new(1500));
        assert_eq!(Bytes::new(65_535).to_string(), "65535B");
        assert_eq!("3%".parse::<Probability>().unwrap().to_string(), "3%");
        assert_eq!("0.03".parse::<Probability>().unwrap().to_string(), "3%");
        assert_eq!("1000/s".parse::<Rate>().unwrap().to_string(), "1000/s");
        assert_eq!("90/m".parse::<Rate>().unwrap().to_string(), "90/min");
        for (text, bits_per_s, printed) in [
            ("20mbit", 20_000_000, "20mbit"),
            ("1.5Gbit/s", 1_500_000_000, "1.5gbit"),
            ("300bit", 300, "300bit"),
        ] {
            let rate = text.parse::<BitRate>().unwrap();
            assert_eq!(
                (rate.bits_per_s(), rate.to_string()),
                (bits_per_s, printed.to_owned())
            );
        }
        for text in ["20", "20mb", "0mbit", "2000gbit", "-1mbit", "mbit"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn decimal_quantities_are_exact() {
        for (text, count) in [
            ("8.2MB", 8_200_000),
            ("1.001kB", 1_001),
            ("1.005MB", 1_005_000),
            ("0.5KiB", 512),
            ("007.000", 7),
            (".5kB", 500),
            ("1000000GB", 1_000_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes::new(count)), "{text}");
        }
        for text in ["2.50", "1.0001kB", "1000000.000000001GB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for (percent, fraction) in [("0.7%", "0.007"), ("1.1%", "0.011"), ("99%", "0.99")] {
            let parse = |text: &str| text.parse::<Probability>().unwrap();
            assert_eq!(parse(percent), parse(fraction), "{percent}");
            assert_eq!(parse(percent).to_string(), percent);
        }
    }

    #[test]
    fn numbers_of_any_length_neither_panic_nor_wrap() {
        for digits in [24, 25, 26, 40, 400] {
            let (large, small) = ("9".repeat(digits), format!("0.{}", "3".repeat(digits)));
            for unit in ["", "GiB", "h", "%", "/s"] {
                for number in [&large, &small] {
                    let text = format!("{number}{unit}");
                    assert!(text.parse::<Bytes>().is_err(), "{text}");
                    assert!(text.parse::<Rate>().is_err(), "{text}");
                    let _ = (text.parse::<Duration>(), text.parse::<Probability>());
                }
            }
        }
        for text in ["", ".", "1..2", "1.2.3"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?}");
        }
        assert!("0".repeat(400).parse::<Bytes>().is_ok());
    }

    #[test]
    fn missing_unit_error_suggests_the_number_with_units() {
        fn said<T: FromStr<Err = ParseQuantityError>>(text: &str) -> String {
            text.parse::<T>().err().expect("no unit").to_string()
        }
        for (found, expected) in [
            (said::<Probability>("3"), r#"no unit in "3": expected "3%""#),
            (
                said::<Probability>("2.5"),
                r#"no unit in "2.5": expected "2.5%""#,
            ),
            (
                said::<Duration>(" 25 "),
                r#"no unit in " 25 ": expected "25ms" or "25s""#,
            ),
            (
                said::<Rate>("100"),
                r#"no unit in "100": expected "100/s" or "100/min""#,
            ),
            (
                said::<BitRate>("20"),
                r#"no unit in "20": expected "20mbit" or "20kbit""#,
            ),
        ] {
            assert_eq!(found, expected);
        }
        // These are not percentages.
        for text in ["101", "1"] {
            let said = said::<Probability>(text);
            assert!(said.contains("out of range"), "{said}");
        }
    }

    #[test]
    fn impossible_quantities_are_refused() {
        assert!("101%".parse::<Probability>().is_err());
        assert!("1".parse::<Probability>().is_err() && "0.99".parse::<Probability>().is_ok());
        assert!("-1%".parse::<Probability>().is_err());
        assert!("0.5B".parse::<Bytes>().is_err());
        assert!("0/s".parse::<Rate>().is_err());
        assert!("1000".parse::<Rate>().is_err());
    }

    #[test]
    fn events_of_a_rate_do_not_drift() {
        let rate = "7/s".parse::<Rate>().unwrap();
        assert_eq!(
            rate.offset_of(7_000_000_000),
            Duration::from_secs(1_000_000_000)
        );
        assert_eq!(rate.events_in(Duration::from_secs(3)), 21);
        assert_eq!(rate.events_in(Duration::from_nanos(1)), 1);
        assert_eq!(rate.events_in(Duration::ZERO), 0);
    }
}
