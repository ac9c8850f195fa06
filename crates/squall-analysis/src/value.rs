//! A trial's value of a measure, with how much of it is known, and how values are written.
//!
//! Times are in nanoseconds here, so that `verdict` compares times, counts, rates and shares with the same code. What is
//! known of a single latency is in `quantile`.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Measure, Statistic, Unit};

use crate::figure;
use crate::quantile::Quantile;

/// A value in the unit of its measure: nanoseconds, bytes per second, a count or a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Exactly this value.
    Exact(f64),
    /// This value or more: unfinished requests hide how much more, or the emulated path itself was the bottleneck of a
    /// throughput.
    AtLeast(f64),
    /// This value or less: the emulated path itself was the bottleneck.
    AtMost(f64),
    /// Infinite: the requests that it depends on failed.
    Never,
}

impl From<Quantile> for Value {
    fn from(quantile: Quantile) -> Value {
        // At least 1 ns, so that ratios exist.
        let nanos = |span: Duration| span.as_nanos().max(1) as f64;
        match quantile {
            Quantile::Exact(span) => Value::Exact(nanos(span)),
            Quantile::AtLeast(span) => Value::AtLeast(nanos(span)),
            Quantile::Never => Value::Never,
        }
    }
}

impl Value {
    /// The value or the bound of it that is known; `None` if it is infinite.
    pub fn bound(self) -> Option<f64> {
        match self {
            Value::Exact(value) | Value::AtLeast(value) | Value::AtMost(value) => Some(value),
            Value::Never => None,
        }
    }

    /// What this value says about a faster path, if it was measured on an emulated path that was itself the bottleneck.
    /// `None` if it says nothing: on a faster path, unfinished requests might have finished.
    pub(crate) fn limited(self, unit: Unit) -> Option<Value> {
        match (self, unit) {
            (Value::Exact(value), Unit::Time | Unit::Share) => Some(Value::AtMost(value)),
            (Value::Exact(value), Unit::BytesPerSecond) => Some(Value::AtLeast(value)),
            (Value::Exact(_), Unit::Count) => Some(self),
            (Value::AtLeast(_) | Value::AtMost(_) | Value::Never, _) => None,
        }
    }

    /// This value less `amount`, or its bound less `amount`.
    pub(crate) fn less(self, amount: f64) -> Value {
        match self {
            Value::Exact(value) => Value::Exact(value - amount),
            Value::AtLeast(value) => Value::AtLeast(value - amount),
            Value::AtMost(value) => Value::AtMost(value - amount),
            Value::Never => Value::Never,
        }
    }

    /// The value, if it is known exactly.
    pub fn exact(self) -> Option<f64> {
        match self {
            Value::Exact(value) => Some(value),
            Value::AtLeast(_) | Value::AtMost(_) | Value::Never => None,
        }
    }

    /// The logarithm of the value or of its bound, for ratios; `None` if it is infinite or zero.
    pub(crate) fn log(self) -> Option<f64> {
        let value = self.bound()?;
        (value > 0.0).then(|| value.ln())
    }

    fn order(self) -> (bool, f64, u8) {
        match self {
            Value::AtMost(value) => (false, value, 0),
            Value::Exact(value) => (false, value, 1),
            Value::AtLeast(value) => (false, value, 2),
            Value::Never => (true, 0.0, 0),
        }
    }

    /// The middle value, or the midpoint of the middle two, which is as uncertain as the less certain of both. If the values
    /// are bounds on different sides, it counts as a lower bound.
    pub fn median(values: impl IntoIterator<Item = Value>) -> Option<Value> {
        let mut sorted: Vec<Value> = values.into_iter().collect();
        sorted.sort_by(|a, b| {
            a.order()
                .partial_cmp(&b.order())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let low = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
        let high = sorted[sorted.len() / 2];
        let (Some(a), Some(b)) = (low.bound(), high.bound()) else {
            return Some(Value::Never);
        };
        let middle = f64::midpoint(a, b);
        Some(match (low, high) {
            (Value::Exact(_), Value::Exact(_)) => Value::Exact(middle),
            (Value::AtMost(_), Value::Exact(_) | Value::AtMost(_))
            | (Value::Exact(_), Value::AtMost(_)) => Value::AtMost(middle),
            _ => Value::AtLeast(middle),
        })
    }

    /// The value with its unit, for a sentence: `212 ms`, `more than 4870 ms`, `at most 512 ms`, `42.5 Mbit/s`, `16`, `3 %`.
    pub fn in_words(self, unit: Unit) -> String {
        match self {
            Value::Exact(value) => format_value(value, unit),
            Value::AtLeast(value) => format!("more than {}", format_value(value, unit)),
            Value::AtMost(value) => format!("at most {}", format_value(value, unit)),
            Value::Never => "never answered".to_owned(),
        }
    }
}

/// The name of a unit in JSON.
pub(crate) const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "ns",
        Unit::BytesPerSecond => "bytes_per_s",
        Unit::Count => "count",
        Unit::Share => "share",
    }
}

/// The logarithm of a span in nanoseconds; a span below 1 ns counts as 1 ns.
pub(crate) fn log_nanos(span: Duration) -> f64 {
    (span.as_nanos().max(1) as f64).ln()
}

/// A value with its unit: `212 ms`, `42.5 Mbit/s`, `16`, `3 %`.
pub(crate) fn format_value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Time => figure::span(Duration::from_nanos(value.max(0.0).round() as u64)),
        Unit::BytesPerSecond => format!("{} Mbit/s", figure::three_digits(value * 8.0 / 1e6)),
        Unit::Count => figure::rate(value),
        Unit::Share => format!("{} %", figure::three_digits(value * 100.0)),
    }
}

/// The name of a measure after a variant's name: `p99`, `median page time`, `mean response time`.
pub(crate) fn measure_name(measure: Measure) -> String {
    let targets = measure.targets().unwrap_or_default();
    let (of, statistic) = match measure {
        Measure::ResponseTime(statistic, _) => match statistic {
            Statistic::Mean | Statistic::P50 | Statistic::Iqr => ("response time", statistic),
            // A percentile of nothing in particular is one of the response time.
            percentile if targets.path().is_none() => return percentile.name().to_owned(),
            percentile => ("response time", percentile),
        },
        Measure::PageTime(statistic) => ("page time", statistic),
        Measure::TransferTime(statistic, _) => ("transfer time", statistic),
        Measure::ServerTime(statistic, _) => ("server time", statistic),
        Measure::FirstChunkTime(statistic, _) => ("time to the first chunk", statistic),
        Measure::Gap(statistic) => ("gap", statistic),
        Measure::Throughput => return "throughput".to_owned(),
        Measure::Connections => return "number of connections".to_owned(),
        Measure::Handshakes => return "number of handshakes".to_owned(),
        Measure::FailedShare => return "share of failed requests".to_owned(),
    };
    let below = targets.path().map(|path| format!(" of {path}"));
    let below = below.unwrap_or_default();
    match statistic {
        Statistic::Mean => format!("mean {of}{below}"),
        Statistic::P50 => format!("median {of}{below}"),
        Statistic::Iqr => format!("IQR of the {of}{below}"),
        percentile => format!("{} of the {of}{below}", percentile.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_their_units() {
        let ms = |n| Quantile::Exact(Duration::from_millis(n));
        assert_eq!(Value::from(ms(212)).in_words(Unit::Time), "212 ms");
        let more = Quantile::AtLeast(Duration::from_millis(4_870));
        assert_eq!(Value::from(more).in_words(Unit::Time), "more than 4870 ms");
        let words = |value, unit| Value::Exact(value).in_words(unit);
        assert_eq!(words(5_312_500.0, Unit::BytesPerSecond), "42.5 Mbit/s");
        assert_eq!(words(16.0, Unit::Count), "16");
        assert_eq!(words(0.031, Unit::Share), "3.10 %");
    }

    #[test]
    fn values_measured_over_a_slow_emulated_path_are_bounds() {
        let seen = Value::Exact(5.0);
        assert_eq!(seen.limited(Unit::Time), Some(Value::AtMost(5.0)));
        let rate = seen.limited(Unit::BytesPerSecond);
        assert_eq!(rate, Some(Value::AtLeast(5.0)));
        assert_eq!(seen.limited(Unit::Count), Some(seen));
        assert_eq!(Value::Never.limited(Unit::Time), None);
    }

    #[test]
    fn measures_have_names_that_fit_into_sentences() {
        for (measure, expected) in [
            ("response time p99", "p99"),
            ("response time p50", "median response time"),
            ("response time iqr", "IQR of the response time"),
            ("response time p99 of /a", "p99 of the response time of /a"),
            ("server time p50 of /video", "median server time of /video"),
            (
                "server time iqr of /video",
                "IQR of the server time of /video",
            ),
            ("connections", "number of connections"),
            ("first chunk time p95", "p95 of the time to the first chunk"),
            ("gap p99", "p99 of the gap"),
        ] {
            assert_eq!(measure_name(measure.parse().expect("a measure")), expected);
        }
    }

    #[test]
    fn median_is_as_uncertain_as_the_values_it_is_taken_from() {
        use Value::{AtLeast, AtMost, Exact, Never};
        let median = |values: &[Value]| Value::median(values.iter().copied());
        assert_eq!(median(&[Exact(3.0), Exact(1.0), Never]), Some(Exact(3.0)));
        assert_eq!(median(&[Exact(1.0), AtLeast(3.0)]), Some(AtLeast(2.0)));
        assert_eq!(median(&[Exact(1.0), Never]), Some(Never));
        assert_eq!(median(&[AtMost(1.0), Exact(3.0)]), Some(AtMost(2.0)));
        assert_eq!(median(&[]), None);
    }
}
