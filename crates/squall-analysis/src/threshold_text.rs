//! How thresholds are written: `METRIC:AGGREGATE OPERATOR LIMIT`, after k6.
//!
//! The metric is the response time unless another is named; a latency limit is in milliseconds unless it has a unit.
//! Everything that can be parsed can also be written, in k6's notation without units. `threshold` says what a threshold
//! means.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use squall_base::Duration;

use crate::threshold::{Aggregate, Latency, Measure, Operator, Percentile, Threshold};

/// Of operators with a common prefix, the longer comes first.
const COMPARISONS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Below),
    (">", Operator::Above),
];

/// A text that is not a threshold: what is wrong, from which character on, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdError {
    /// The whole text.
    pub text: String,
    /// Where the fault begins, in characters from 0.
    pub column: usize,
    /// What is wrong there.
    pub fault: ThresholdFault,
}

/// What is wrong in a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdFault {
    /// There is no comparison.
    NoComparison,
    /// The metric is not known.
    Metric,
    /// The aggregate is not known.
    Aggregate,
    /// The percentile is not a number above 0 and below 100 with at most four decimals.
    Percentile,
    /// A latency has no count and no rate.
    CountOfLatency,
    /// Requests and errors have only a count and a rate.
    LatencyOfCount,
    /// The limit is not a number in a unit of the metric.
    Limit(Unit),
}

/// The units of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, or the unit that is written.
    Time,
    /// No unit.
    Count,
    /// Per second.
    PerSecond,
    /// A share.
    Share,
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: String = self.text.chars().skip(self.column).take(40).collect();
        write!(
            f,
            "cannot read the threshold {:?}: {} at character {} ({found:?}); {}",
            self.text,
            self.fault.words(),
            self.column + 1,
            self.fault.advice(),
        )
    }
}

impl Error for ThresholdError {}

impl ThresholdFault {
    const fn words(self) -> &'static str {
        match self {
            ThresholdFault::NoComparison => "there is no comparison",
            ThresholdFault::Metric => "there is no such metric",
            ThresholdFault::Aggregate => "there is no such aggregate",
            ThresholdFault::Percentile => "this is not a percentile",
            ThresholdFault::CountOfLatency => "a latency has neither a count nor a rate",
            ThresholdFault::LatencyOfCount => "requests and errors have only a count and a rate",
            ThresholdFault::Limit(_) => "this is not a limit",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            ThresholdFault::NoComparison => "write one of < <= > >= == !=, as in p(99)<50",
            ThresholdFault::Metric => {
                "write response_time, service_time, first_chunk, gap, requests or errors, as in service_time:p(99)<50"
            }
            ThresholdFault::Aggregate => {
                "write avg, min, max, med or p(N), as in p(99)<50, or count or rate, as in errors:rate<0.01"
            }
            ThresholdFault::Percentile => {
                "write a number above 0 and below 100 with at most four decimals, as in p(99.9)<50, or min or max"
            }
            ThresholdFault::CountOfLatency => {
                "write what is counted, as in errors:rate<0.01 or requests:rate>1000"
            }
            ThresholdFault::LatencyOfCount => "write count or rate, as in errors:count==0",
            ThresholdFault::Limit(Unit::Time) => {
                "write milliseconds or a unit, as in p(99)<50 or p(99)<1.5s"
            }
            ThresholdFault::Limit(Unit::Count) => "write a number, as in errors:count==0",
            ThresholdFault::Limit(Unit::PerSecond) => {
                "write a number a second, as in requests:rate>1000"
            }
            ThresholdFault::Limit(Unit::Share) => {
                "write a share, as in errors:rate<0.01 or errors:rate<1%"
            }
        }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        // Every part is a slice of `text`, so that its position is known.
        let fault = |part: &str, fault| {
            let offset = part.as_ptr() as usize - text.as_ptr() as usize;
            ThresholdError {
                text: text.to_owned(),
                column: text[..offset].chars().count(),
                fault,
            }
        };
        let Some(at) = text.find(['<', '>', '=', '!']) else {
            return Err(fault(&text[text.len()..], ThresholdFault::NoComparison));
        };
        let (left, right) = text.split_at(at);
        let (comparison, limit) = COMPARISONS
            .iter()
            .find_map(|(sign, comparison)| Some((*comparison, right.strip_prefix(sign)?.trim())))
            .ok_or_else(|| fault(right, ThresholdFault::NoComparison))?;
        let measure = measure(left).map_err(|(part, what)| fault(part, what))?;
        let unit = unit_of(measure);
        let limit =
            read_limit(limit, unit).ok_or_else(|| fault(limit, ThresholdFault::Limit(unit)))?;
        Ok(Threshold {
            measure,
            comparison,
            limit,
        })
    }
}

/// Parses the text before the comparison; the error is the part of it that is wrong.
fn measure(text: &str) -> Result<Measure, (&str, ThresholdFault)> {
    let (metric, aggregate) = match text.split_once(':') {
        Some((metric, aggregate)) => (metric.trim(), aggregate.trim()),
        None => ("response_time", text.trim()),
    };
    let latency = match metric {
        "response_time" => Latency::ResponseTime,
        "service_time" => Latency::ServiceTime,
        "first_chunk" => Latency::FirstChunk,
        "gap" => Latency::Gap,
        "requests" | "errors" => {
            return match (metric, aggregate) {
                ("requests", "count") => Ok(Measure::RequestCount),
                ("requests", "rate") => Ok(Measure::RequestRate),
                (_, "count") => Ok(Measure::ErrorCount),
                (_, "rate") => Ok(Measure::ErrorRate),
                _ => Err((aggregate, ThresholdFault::LatencyOfCount)),
            };
        }
        _ => return Err((metric, ThresholdFault::Metric)),
    };
    let aggregate = match aggregate {
        "avg" => Aggregate::Mean,
        "min" => Aggregate::Min,
        "max" => Aggregate::Max,
        "med" => Aggregate::Median,
        "count" | "rate" => return Err((aggregate, ThresholdFault::CountOfLatency)),
        _ => {
            let inner = aggregate
                .strip_prefix("p(")
                .and_then(|rest| rest.strip_suffix(')'));
            let inner = inner.ok_or((aggregate, ThresholdFault::Aggregate))?;
            let percentile = percentile(inner.trim());
            Aggregate::Percentile(percentile.ok_or((inner, ThresholdFault::Percentile))?)
        }
    };
    Ok(Measure::Latency(latency, aggregate))
}

/// Parses `99.9` exactly, because a neighbouring percentile is a different one.
fn percentile(text: &str) -> Option<Percentile> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = |digits: &str, most| {
        (1..=most).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_plain(whole, 2) || !is_plain(decimals, 4) {
        return None;
    }
    let per_million: u32 = format!("{whole}{decimals:0<4}").parse().ok()?;
    Percentile::new(per_million)
}

fn unit_of(measure: Measure) -> Unit {
    match measure {
        Measure::Latency(..) => Unit::Time,
        Measure::RequestCount | Measure::ErrorCount => Unit::Count,
        Measure::RequestRate => Unit::PerSecond,
        Measure::ErrorRate => Unit::Share,
    }
}

/// Parses a limit in the unit of the measure: milliseconds, a count, a rate per second, a share.
fn read_limit(text: &str, unit: Unit) -> Option<f64> {
    let number = |text: &str| {
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        is_plain
            .then(|| text.parse::<f64>().ok())
            .flatten()
            .filter(|limit| limit.is_finite())
    };
    match unit {
        Unit::Time => {
            let with_unit = || text.parse().ok().map(Duration::as_millis_f64);
            number(text).or_else(with_unit)
        }
        Unit::Count => number(text),
        Unit::PerSecond => number(text.strip_suffix("/s").unwrap_or(text).trim_end()),
        Unit::Share => match text.strip_suffix('%') {
            // Parsed as the nearest float; dividing by 100 would round twice.
            Some(percent) => number(percent).and_then(|_| format!("{percent}e-2").parse().ok()),
            None => number(text),
        },
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signs = COMPARISONS.iter();
        let sign = signs
            .filter(|(_, comparison)| *comparison == self.comparison)
            .map(|(sign, _)| *sign);
        write!(
            f,
            "{}{}{}",
            self.measure,
            sign.collect::<String>(),
            self.limit
        )
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Latency(Latency::ResponseTime, aggregate) => aggregate.fmt(f),
            Measure::Latency(Latency::ServiceTime, aggregate) => {
                write!(f, "service_time:{aggregate}")
            }
            Measure::Latency(Latency::FirstChunk, aggregate) => {
                write!(f, "first_chunk:{aggregate}")
            }
            Measure::Latency(Latency::Gap, aggregate) => write!(f, "gap:{aggregate}"),
            Measure::RequestCount => f.write_str("requests:count"),
            Measure::RequestRate => f.write_str("requests:rate"),
            Measure::ErrorCount => f.write_str("errors:count"),
            Measure::ErrorRate => f.write_str("errors:rate"),
        }
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aggregate::Mean => f.write_str("avg"),
            Aggregate::Min => f.write_str("min"),
            Aggregate::Max => f.write_str("max"),
            Aggregate::Median => f.write_str("med"),
            Aggregate::Percentile(percentile) => write!(f, "p({percentile})"),
        }
    }
}

/// In percent, as in `p(99.9)`.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.per_million() / 10_000, self.per_million() % 10_000);
        let decimals = format!("{rest:04}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            decimals => write!(f, "{whole}.{decimals}"),
        }
    }
}
