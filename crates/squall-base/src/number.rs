//! Reads the number in front of a unit exactly, or says why a text is not the expected quantity.
//!
//! The units of each quantity are defined by `quantity` and `time`, not here.

use thiserror::Error;

/// Why a text is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseQuantityError {
    /// A number is missing.
    #[error("{text:?} is not {expected}")]
    NotANumber {
        /// The text.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The number has no unit, and this quantity needs one.
    #[error("no unit in {text:?}: expected {expected}")]
    NoUnit {
        /// The text.
        text: String,
        /// The same number with units that it may have: `"25ms" or "25s"`.
        expected: String,
    },
    /// The number has a unit that this quantity does not have.
    #[error("unknown unit {unit:?} in {text:?}: expected {expected}")]
    Unit {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The value is out of range.
    #[error("{text:?} is out of range: expected {expected}")]
    Range {
        /// The text.
        text: String,
        /// The range.
        expected: &'static str,
    },
}

impl ParseQuantityError {
    /// The error for a unit that this quantity does not have. If there is no unit at all, the error suggests the number
    /// with each of the `likely` units.
    pub(crate) fn unit(text: &str, unit: &str, expected: &'static str, likely: &[&str]) -> Self {
        if !unit.is_empty() {
            return Self::Unit {
                text: text.to_owned(),
                unit: unit.to_owned(),
                expected,
            };
        }
        let number = text.trim();
        let with_units = likely.iter().map(|unit| format!("\"{number}{unit}\""));
        Self::NoUnit {
            text: text.to_owned(),
            expected: with_units.collect::<Vec<_>>().join(" or "),
        }
    }

    pub(crate) fn range(text: &str, expected: &'static str) -> Self {
        Self::Range {
            text: text.to_owned(),
            expected,
        }
    }

    fn not_a_number(text: &str, expected: &'static str) -> Self {
        Self::NotANumber {
            text: text.to_owned(),
            expected,
        }
    }
}

/// A decimal number, exact: `digits / 10^decimals`. In floating point, 8.2 MB would be a fraction of a byte less than
/// 8,200,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    decimals: u32,
}

impl Decimal {
    /// A number of this many digits times the largest unit, nanoseconds in an hour (3.6e12), fits into 128 bits.
    const MAX_DIGITS: usize = 25;

    /// Only digits and one point make a number here: signs, exponents, `inf` and `nan` are mistakes in a recipe. `None`
    /// for anything else, or for too many digits.
    fn parse(text: &str) -> Option<Decimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let all = [whole.trim_start_matches('0'), fraction].concat();
        let is_plain = all.len() <= Decimal::MAX_DIGITS && all.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| Decimal {
            digits: all.parse().unwrap_or(0),
            decimals: fraction.len() as u32,
        })
    }

    /// This number times `units`, or `None` if that is not a whole number.
    pub(crate) fn times(self, units: u64) -> Option<u128> {
        let (product, divisor) = (self.digits * u128::from(units), self.divisor());
        product.is_multiple_of(divisor).then(|| product / divisor)
    }

    /// This number times `units`, rounded to the nearest whole number.
    pub(crate) fn times_rounded(self, units: u64) -> u128 {
        let (product, divisor) = (self.digits * u128::from(units), self.divisor());
        product / divisor + u128::from(product % divisor >= divisor.div_ceil(2))
    }

    /// This number divided by `10^places`, as the nearest `f64`.
    pub(crate) fn shifted_f64(self, places: u32) -> f64 {
        let text = format!("{}e-{}", self.digits, self.decimals + places);
        text.parse().unwrap_or(f64::NAN)
    }

    fn divisor(self) -> u128 {
        10_u128.pow(self.decimals)
    }
}

/// Splits `12.5ms` into its number and its unit.
pub(crate) fn split_number<'a>(
    text: &'a str,
    expected: &'static str,
) -> Result<(Decimal, &'a str), ParseQuantityError> {
    let text_trimmed = text.trim();
    let end = text_trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text_trimmed.len());
    let (number, unit) = text_trimmed.split_at(end);
    match Decimal::parse(number) {
        Some(value) => Ok((value, unit.trim_start())),
        None => Err(ParseQuantityError::not_a_number(text, expected)),
    }
}
