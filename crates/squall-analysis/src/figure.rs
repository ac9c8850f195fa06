//! How numbers are written, in every sentence and table alike.
//!
//! Three digits are kept where they mean something: a fourth would claim a precision that no trial has.
//! Columns, colours and HTML are up to squall-report.

use squall_base::Duration;

use crate::quantile::Quantile;

/// A span in milliseconds with three digits and without its unit: `0.31`, `4.87`, `21.4`, `212`, `1840`.
pub fn millis(span: Duration) -> String {
    three_digits(span.as_millis_f64())
}

/// A number with three digits: `0`, `0.031`, `0.31`, `4.87`, `21.4`, `212`, `1840`.
pub fn three_digits(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.1 => format!("{value:.3}"),
        // Rounding must not cross into the next row: 9.996 is 10.0, not 10.00.
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A quantile in milliseconds without its unit: `212`, `>212` for a lower bound, `never`.
pub fn quantile(value: Quantile) -> String {
    match value {
        Quantile::Exact(span) => millis(span),
        Quantile::AtLeast(span) => format!(">{}", millis(span)),
        Quantile::Never => "never".to_owned(),
    }
}

/// A span in the unit that suits it, for a sentence: `212 ms`, `85 us`.
pub fn span(span: Duration) -> String {
    if span < Duration::from_millis(1) && !span.is_zero() {
        format!("{} us", (span.as_nanos().div_ceil(1000)))
    } else {
        format!("{} ms", millis(span))
    }
}

/// A span as [`span`] writes it, but from one second on in seconds: `15.3 s`.
pub fn time(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        self::span(span)
    } else {
        format!("{} s", three_digits(span.as_secs_f64()))
    }
}

/// A ratio: `1.8x`, `0.55x`, `1.04x`, `12x`. The closer to 1, the more digits.
pub fn ratio(value: f64) -> String {
    let distance = (value - 1.0).abs();
    let digits = match value {
        _ if distance < 0.01 => 3,
        _ if distance < 0.1 || value < 1.0 => 2,
        value if value < 10.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}x")
}

/// A probability with two significant digits: `0.031`, `0.5`, `0.0020`, `below 0.0001`.
pub fn chance(p: f64) -> String {
    match p {
        p if p < 0.0001 => "below 0.0001".to_owned(),
        p if p < 0.001 => format!("{p:.5}"),
        p if p < 0.01 => format!("{p:.4}"),
        p if p < 0.1 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

/// Events per second: `42.5`, `998`, `12,000`.
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 && per_second.fract() != 0.0 {
        format!("{per_second:.1}")
    } else {
        count(per_second.round() as u64)
    }
}

/// A whole number with thousands separators: `30,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `word` for one, `words` for any other number: `1 trial`, `3 trials`.
pub fn counted(value: u64, word: &str, words: &str) -> String {
    format!("{} {}", count(value), if value == 1 { word } else { words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let us = |n| millis(Duration::from_micros(n));
        assert_eq!(us(4), "0.004");
        assert_eq!(us(310), "0.31");
        assert_eq!(us(9_996), "10.0");
        assert_eq!(us(99_960), "100");
        assert_eq!(us(1_840_300), "1840");
        assert_eq!(us(0), "0");
    }

    #[test]
    fn numbers_are_formatted_for_sentences() {
        assert_eq!(span(Duration::from_nanos(84_100)), "85 us");
        assert_eq!(time(Duration::from_millis(999)), "999 ms");
        assert_eq!(time(Duration::from_millis(15_260)), "15.3 s");
        assert_eq!(span(Duration::from_millis(212)), "212 ms");
        assert_eq!(
            [1.8, 0.553, 1.04, 12.3, 0.9951, 2.0].map(ratio),
            ["1.8x", "0.55x", "1.04x", "12x", "0.995x", "2.0x"]
        );
        assert_eq!(
            [42.46, 41.0, 99.96, 999.6, 12_000.4].map(rate),
            ["42.5", "41", "100", "1,000", "12,000"]
        );
        assert_eq!(
            [0.00002, 0.000_98, 0.001_95, 0.031_25, 0.5, 1.0].map(chance),
            ["below 0.0001", "0.00098", "0.0019", "0.031", "0.50", "1.00"]
        );
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "pair", "pairs"), "1 pair");
        assert_eq!(
            quantile(Quantile::AtLeast(Duration::from_millis(212))),
            ">212"
        );
    }
}
