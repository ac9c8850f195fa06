//! A range in the settings of a link, such as `delay 10..200ms`: its condition, and the values to probe.
//!
//! It knows only the units of the conditions that can have a range. Everything else in a link's settings is parsed by
//! `link/`, with each value in place of the range. `sweep` runs the probes.

use crate::outcome::BadInput;

/// Units with their sizes, from the smallest one.
type Units = &'static [(&'static str, f64)];

const TIMES: Units = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 6e10),
    ("h", 3.6e12),
];
/// A share without a unit is a fraction, such as 0.01.
const SHARES: Units = &[("%", 0.01), ("", 1.0)];
const RATES: Units = &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// The conditions that can have a range.
const CONDITIONS: [(&str, Units); 4] = [
    ("delay", TIMES),
    ("jitter", TIMES),
    ("loss", SHARES),
    ("rate", RATES),
];

/// The most values if the user did not say how many.
const VALUES_AT_MOST: usize = 7;
/// In a range from zero, the second value is the last one divided by this.
const FROM_ZERO: f64 = 20.0;
/// A round number is left out if its ratio to an end of the range is less than this.
const APART: f64 = 1.2;

/// A link whose settings have a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The condition that varies, such as `delay`.
    pub(super) condition: String,
    /// The values to probe, as in settings of links: `10ms`.
    pub(super) values: Vec<String>,
    before: String,
    after: String,
}

impl Range {
    /// Finds the range in a link's settings, if it has one. `count` is the number of values, if the user chose it.
    ///
    /// # Errors
    /// The range cannot be understood, or is not one of delay, jitter, loss and rate; or there are several.
    pub(super) fn find(link: &str, count: Option<usize>) -> Result<Option<Range>, BadInput> {
        let mut found = words(link).filter(|(_, word)| is_range(word));
        let Some((at, word)) = found.next() else {
            return Ok(None);
        };
        if found.next().is_some() {
            return Err(BadInput::new(format!(
                "--behind '{link}': only one condition can have a range, because each value takes a whole probe"
            )));
        }
        let setting = link[..at].rfind(',').map_or(0, |comma| comma + 1);
        let name = link[setting..at].split_whitespace().next().unwrap_or("");
        let known = CONDITIONS.iter().find(|(known, _)| *known == name);
        let Some(&(condition, units)) = known else {
            return Err(BadInput::new(format!(
                "--behind '{link}': {word} is not in a setting that can have a range: delay, jitter, loss or rate, as in \
                 'delay 10..200ms'"
            )));
        };
        let ends = Ends::parse(word, units).map_err(|why| {
            BadInput::new(format!("--behind '{link}': {word} of {condition}: {why}"))
        })?;
        Ok(Some(Range {
            condition: condition.to_owned(),
            values: ends.values(count, units),
            before: link[..at].to_owned(),
            after: link[at + word.len()..].to_owned(),
        }))
    }

    /// The settings with a value in place of the range.
    pub(super) fn link_at(&self, value: &str) -> String {
        format!("{}{value}{}", self.before, self.after)
    }
}

/// The words of a list of settings, each with its place.
fn words(link: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = link.split([' ', ',', '\t']);
    parts.scan(0, |at, word| {
        let place = *at;
        // Separators are one byte long.
        *at += word.len() + 1;
        Some((place, word))
    })
}

/// Whether both sides of `..` begin with a number. A name such as `../lte.trace` does not.
fn is_range(word: &str) -> bool {
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    word.split_once("..")
        .is_some_and(|(low, high)| is_number(low) && is_number(high))
}

/// Both ends of a range, in the smallest unit, and as they were written.
struct Ends<'a> {
    low: f64,
    high: f64,
    low_text: String,
    high_text: &'a str,
}

impl<'a> Ends<'a> {
    fn parse(word: &'a str, units: Units) -> Result<Ends<'a>, String> {
        let (low_text, high_text) = word.split_once("..").unwrap_or((word, ""));
        let (low, own_unit) = number(low_text)?;
        let (high, high_unit) = number(high_text)?;
        let digits = &low_text[..low_text.len() - own_unit.len()];
        let low_unit = if own_unit.is_empty() {
            high_unit
        } else {
            own_unit
        };
        let size = |unit: &str| {
            let plain = unit.trim_end_matches("/s").to_ascii_lowercase();
            let found = units.iter().find(|(name, _)| *name == plain);
            found.map(|(_, size)| *size).ok_or_else(|| {
                let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
                let known = names.join(", ");
                format!("expected the unit at the end, as in 10..200ms, out of {known}")
            })
        };
        let ends = Ends {
            low: low * size(low_unit)?,
            high: high * size(high_unit)?,
            low_text: format!("{digits}{low_unit}"),
            high_text,
        };
        if ends.low < ends.high {
            Ok(ends)
        } else {
            Err("expected a lower value before the higher one".to_owned())
        }
    }

    /// The values to probe, from low to high; both ends are among them.
    fn values(&self, count: Option<usize>, units: Units) -> Vec<String> {
        let between = match count {
            Some(count) => self.spread(count.saturating_sub(2)),
            None => self.round_numbers(),
        };
        let mut values = vec![self.low_text.clone()];
        values.extend(between.into_iter().map(|value| text(value, units)));
        values.push(self.high_text.to_owned());
        values
    }

    /// The value from which the others grow by a factor.
    fn least(&self) -> f64 {
        if self.low > 0.0 {
            self.low
        } else {
            self.high / FROM_ZERO
        }
    }

    /// The round numbers between the ends: 1, 2 and 5 x 10^n, or fewer of them if those are many.
    fn round_numbers(&self) -> Vec<f64> {
        let all: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let least = if self.low > 0.0 {
            self.low
        } else {
            // Less than `least`, so that this can be the first value after zero.
            self.high / (FROM_ZERO * APART * 1.01)
        };
        let within = |value: &f64| *value > least * APART && *value < self.high / APART;
        for digits in all {
            let numbers = (-4..=15).flat_map(|n| digits.iter().map(move |it| it * 10f64.powi(n)));
            let numbers: Vec<f64> = numbers.filter(within).collect();
            if numbers.is_empty() {
                return self.spread(1);
            }
            if numbers.len() <= VALUES_AT_MOST - 2 {
                return numbers;
            }
        }
        self.spread(VALUES_AT_MOST - 2)
    }

    /// This many values between the ends, each larger than the one before by the same factor, with two digits.
    fn spread(&self, count: usize) -> Vec<f64> {
        let from_zero = self.low <= 0.0;
        let steps = if from_zero { count } else { count + 1 };
        let factor = (self.high / self.least()).powf(1.0 / steps.max(1) as f64);
        let first = if from_zero { 0 } else { 1 };
        let values =
            (first..first + count).map(|n| two_digits(self.least() * factor.powi(n as i32)));
        values.collect()
    }
}

fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// A number and what follows it.
fn number(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    number
        .parse::<f64>()
        .map(|number| (number, unit))
        .map_err(|_| format!("{text} is not a number with a unit"))
}

/// A value in the largest unit in which it is at least 1. Minutes, hours and shares without a percent sign are not used.
fn text(value: f64, units: Units) -> String {
    let usual = units
        .iter()
        .filter(|(name, _)| !["min", "h", ""].contains(name));
    let mut fitting = usual.filter(|(_, size)| value >= *size * (1.0 - 1e-9));
    let (name, size) = fitting
        .next_back()
        .or(units.first())
        .copied()
        .unwrap_or(("", 1.0));
    // Without the rounding error of binary fractions.
    let number = (value / size * 1e6).round() / 1e6;
    format!("{number}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(link: &str) -> Vec<String> {
        let range = Range::find(link, None).expect("it can be read");
        range.expect("a range").values
    }

    #[test]
    fn values_are_round_numbers_between_the_ends() {
        for (link, expected) in [
            ("delay 10..200ms", "10ms 20ms 50ms 100ms 200ms"),
            ("loss 1%, delay 500us..20ms", "500us 1ms 2ms 5ms 10ms 20ms"),
            ("delay 1..1000ms", "1ms 3ms 10ms 30ms 100ms 300ms 1000ms"),
            ("loss 0.1..5%", "0.1% 0.2% 0.5% 1% 2% 5%"),
            (
                "rate 1..100mbit, queue 64KiB",
                "1mbit 2mbit 5mbit 10mbit 20mbit 50mbit 100mbit",
            ),
            ("delay 10..15ms", "10ms 12ms 15ms"),
            ("delay 0..200ms", "0ms 10ms 20ms 50ms 100ms 200ms"),
        ] {
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(values(link), expected, "{link}");
        }
    }

    #[test]
    fn user_can_choose_how_many_values_there_are() {
        let of = |link, count| Range::find(link, Some(count)).unwrap().unwrap().values;
        assert_eq!(of("delay 10..200ms", 2), ["10ms", "200ms"]);
        assert_eq!(of("delay 10..1000ms", 3), ["10ms", "100ms", "1000ms"]);
        assert_eq!(of("loss 0..2%", 3), ["0%", "0.1%", "2%"]);
        assert_eq!(of("delay 10..200ms", 12).len(), 12);
    }

    #[test]
    fn each_value_takes_the_place_of_the_range() {
        let range = Range::find("loss 1%, delay 10..200ms, queue codel", None);
        let range = range.unwrap().unwrap();
        assert_eq!(range.condition, "delay");
        assert_eq!(range.link_at("20ms"), "loss 1%, delay 20ms, queue codel");
    }

    #[test]
    fn no_range_is_found_in_settings_without_one() {
        for link in [
            "delay 30ms",
            "../lte.trace",
            "drop seq 1-1448",
            "rate 2mbit",
        ] {
            assert_eq!(Range::find(link, None).unwrap(), None, "{link}");
        }
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        for (link, said) in [
            ("delay 10..200", "expected the unit"),
            ("delay 200..10ms", "lower value"),
            ("delay 1..2mbit", "out of ns"),
            ("delay 1.2.3..5ms", "not a number"),
            ("duplicate 1..5%", "delay, jitter, loss or rate"),
            ("delay 1..5ms, loss 1..5%", "only one condition"),
        ] {
            let error = Range::find(link, None).unwrap_err().to_string();
            assert!(error.contains(said), "{link}: {error}");
        }
    }
}
