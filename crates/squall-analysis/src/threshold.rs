//! A condition on a measurement, in k6's notation: `p(99)<50`, `errors:rate<0.01`.
//!
//! This module decides what follows from a number that is known only in part: a lower bound above a limit breaks it, one
//! below proves nothing, and a condition on something that was not measured does not hold. A [`ThresholdSource`]
//! supplies the measurements. The caller decides which conditions there are, and what follows from one that does not
//! hold. `threshold_text` parses and writes conditions.
//!
//! ```
//! use squall_analysis::Threshold;
//!
//! let threshold: Threshold = "service_time: p(99.9) <= 1s".parse()?;
//! assert_eq!(threshold.to_string(), "service_time:p(99.9)<=1000");
//! # Ok::<(), squall_analysis::ThresholdError>(())
//! ```

use std::fmt;

use serde::Serialize;
use squall_base::Duration;

use crate::figure;
use crate::quantile::{Quantile, Sample, suffices};

/// The latencies that a threshold can apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latency {
    /// From a request's scheduled time to its end.
    ResponseTime,
    /// From when a request got a connection or stream to its end.
    ServiceTime,
    /// From a request's scheduled time to the first bytes of its response's body.
    FirstChunk,
    /// Between two arrivals of a response's body.
    Gap,
}

/// A percentile above 0 and below 100, with at most four decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile {
    per_million: u32,
}

/// How all latencies are condensed to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    /// The mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The median, equal to `p(50)`.
    Median,
    /// Another percentile.
    Percentile(Percentile),
}

/// A number that a threshold can apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// An aggregate of latencies, in milliseconds.
    Latency(Latency, Aggregate),
    /// The number of requests.
    RequestCount,
    /// Requests per second.
    RequestRate,
    /// The number of failed requests.
    ErrorCount,
    /// The share of failed requests, from 0 to 1.
    ErrorRate,
}

/// How a number is compared with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
}

/// A condition: a number, a comparison and a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// What is measured.
    pub measure: Measure,
    /// How it must compare with the limit.
    pub comparison: Operator,
    /// The limit: milliseconds, requests, requests per second, or a share, depending on the measure.
    pub limit: f64,
}

/// What a threshold is checked against: the measured phase of a load, without the warm-up.
///
/// Latencies are those of `trial_stats`: an abandoned request has a lower bound, a failed one is infinite, and none is left
/// out. `None` means that it was not measured, or that there are too few values.
pub trait ThresholdSource {
    /// The nearest-rank percentile; see [`Percentile::rank`].
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile>;

    /// The mean.
    fn mean(&self, of: Latency) -> Option<Quantile>;

    /// The smallest.
    fn min(&self, of: Latency) -> Option<Quantile>;

    /// The largest.
    fn max(&self, of: Latency) -> Option<Quantile>;

    /// The number of requests, including failed ones.
    fn requests(&self) -> u64;

    /// Successful requests per second.
    fn requests_per_s(&self) -> Option<f64>;

    /// The number of requests that failed.
    fn errors(&self) -> u64;
}

/// A measured number, in the unit of its measure; `None` if it was not measured, or there are too few values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// A latency.
    Latency(Option<Quantile>),
    /// Anything else.
    Number(Option<f64>),
}

/// The result of checking a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThresholdResult {
    /// The number, in the unit of the limit; a lower bound if `certainty` says so. `None` if there is no number.
    pub measured: Option<f64>,
    /// How much of it is known.
    pub certainty: Certainty,
    /// True if the threshold certainly holds.
    pub holds: bool,
}

/// How much of a measured number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// All of it.
    Exact,
    /// This value or more: unfinished requests hide how much more.
    LowerBound,
    /// Infinite: the percentile falls among the failed requests.
    Endless,
    /// It was not measured, or there are too few requests for it.
    Unmeasured,
}

impl Percentile {
    /// The 50th.
    pub const MEDIAN: Percentile = Percentile {
        per_million: 500_000,
    };

    /// From millionths; `None` for 0 and for 1,000,000 or more, which are `min` and `max`.
    pub const fn new(per_million: u32) -> Option<Percentile> {
        match per_million {
            1..1_000_000 => Some(Percentile { per_million }),
            _ => None,
        }
    }

    /// In millionths.
    pub const fn per_million(self) -> u32 {
        self.per_million
    }

    /// The rank, from 1, among `count` sorted values: the nearest rank, as in [`Sample`](crate::Sample). `None` if there
    /// are so few values that not even the largest is a 97.5 % upper bound of the true percentile
    /// ([`Sample::quantile`](crate::Sample::quantile) says why).
    pub fn rank(self, count: u64) -> Option<u64> {
        let rank = (u128::from(count) * u128::from(self.per_million)).div_ceil(1_000_000);
        suffices(count, f64::from(self.per_million) / 1e6).then_some(rank.max(1) as u64)
    }
}

impl Measure {
    /// The name of its unit in JSON.
    pub const fn unit_name(self) -> &'static str {
        match self {
            Measure::Latency(..) => "ms",
            Measure::RequestCount | Measure::ErrorCount => "count",
            Measure::RequestRate => "per_s",
            Measure::ErrorRate => "share",
        }
    }

    /// Reads the measure's number from `source`.
    pub fn read(self, source: &impl ThresholdSource) -> Reading {
        match self {
            Measure::Latency(of, aggregate) => Reading::Latency(aggregate.of(of, source)),
            Measure::RequestCount => Reading::Number(Some(source.requests() as f64)),
            Measure::RequestRate => Reading::Number(source.requests_per_s()),
            // Without requests none failed, but that does not show that all is well.
            _ if source.requests() == 0 => Reading::Number(None),
            Measure::ErrorCount => Reading::Number(Some(source.errors() as f64)),
            Measure::ErrorRate => {
                Reading::Number(Some(source.errors() as f64 / source.requests() as f64))
            }
        }
    }
}

impl Reading {
    /// The median of several trials' readings, which are all of the same kind. Unmeasured if any of them is, because
    /// otherwise the trials with the fewest responses would be missing.
    pub fn median(readings: &[Reading]) -> Reading {
        let latencies: Option<Sample> = readings
            .iter()
            .map(|reading| match reading {
                Reading::Latency(latency) => *latency,
                Reading::Number(_) => None,
            })
            .collect();
        let numbers: Option<Vec<f64>> = readings
            .iter()
            .map(|reading| match reading {
                Reading::Number(number) => *number,
                Reading::Latency(_) => None,
            })
            .collect();
        match numbers {
            Some(numbers) if !numbers.is_empty() => {
                Reading::Number(crate::stats::effect::median(&numbers))
            }
            _ => Reading::Latency(latencies.and_then(|sample| sample.median())),
        }
    }
}

impl Threshold {
    /// Checks what `source` measured against the limit.
    pub fn check(&self, source: &impl ThresholdSource) -> ThresholdResult {
        self.judge(self.measure.read(source))
    }

    /// Checks a reading against the limit.
    pub fn judge(&self, reading: Reading) -> ThresholdResult {
        match reading {
            Reading::Latency(latency) => self.latency(latency),
            Reading::Number(number) => {
                number.map_or(ThresholdResult::UNMEASURED, |n| self.known(n))
            }
        }
    }

    fn latency(&self, measured: Option<Quantile>) -> ThresholdResult {
        match measured {
            None => ThresholdResult::UNMEASURED,
            Some(Quantile::Exact(value)) => self.known(value.as_millis_f64()),
            Some(Quantile::AtLeast(bound)) => {
                let bound = bound.as_millis_f64();
                ThresholdResult {
                    measured: Some(bound),
                    certainty: Certainty::LowerBound,
                    holds: self.comparison.holds_from(bound, self.limit),
                }
            }
            Some(Quantile::Never) => ThresholdResult {
                measured: None,
                certainty: Certainty::Endless,
                holds: false,
            },
        }
    }

    fn known(&self, measured: f64) -> ThresholdResult {
        ThresholdResult {
            measured: Some(measured),
            certainty: Certainty::Exact,
            holds: self.comparison.holds(measured, self.limit),
        }
    }
}

impl Aggregate {
    fn of(self, latency: Latency, source: &impl ThresholdSource) -> Option<Quantile> {
        match self {
            Aggregate::Mean => source.mean(latency),
            Aggregate::Min => source.min(latency),
            Aggregate::Max => source.max(latency),
            Aggregate::Median => source.percentile(latency, Percentile::MEDIAN),
            Aggregate::Percentile(percentile) => source.percentile(latency, percentile),
        }
    }
}

impl Operator {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Operator::Below => measured < limit,
            Operator::AtMost => measured <= limit,
            Operator::Above => measured > limit,
            Operator::AtLeast => measured >= limit,
            Operator::Equal => measured == limit,
            Operator::Unequal => measured != limit,
        }
    }

    /// True if every number from `low` to `high` holds.
    pub(crate) fn holds_all(self, low: f64, high: f64, limit: f64) -> bool {
        match self {
            Operator::Unequal => limit < low || limit > high,
            _ => self.holds(low, limit) && self.holds(high, limit),
        }
    }

    /// True if every number from `bound` on holds.
    fn holds_from(self, bound: f64, limit: f64) -> bool {
        match self {
            Operator::Above | Operator::Unequal => bound > limit,
            Operator::AtLeast => bound >= limit,
            Operator::Below | Operator::AtMost | Operator::Equal => false,
        }
    }
}

impl ThresholdResult {
    const UNMEASURED: ThresholdResult = ThresholdResult {
        measured: None,
        certainty: Certainty::Unmeasured,
        holds: false,
    };

    /// The result as a sentence: `p(99)<50: holds, 31.2 ms`.
    pub fn sentence(&self, threshold: &Threshold) -> String {
        let verdict = if self.holds { "holds" } else { "FAILED" };
        let found = match (self.measured, self.certainty) {
            (Some(measured), Certainty::LowerBound) => {
                format!(
                    "{} or more, unfinished requests hide the rest",
                    Figure(threshold.measure, measured)
                )
            }
            (Some(measured), _) => Figure(threshold.measure, measured).to_string(),
            (None, Certainty::Endless) => "unbounded, too many requests failed".to_owned(),
            (None, _) if matches!(threshold.measure, Measure::Latency(Latency::Gap, _)) => {
                "not measured, or too few gaps for it".to_owned()
            }
            (None, _) => "not measured, or too few requests for it".to_owned(),
        };
        format!("{threshold}: {verdict}, {found}")
    }
}

/// A number with its unit.
struct Figure(Measure, f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure(measure, value) = *self;
        f.write_str(&match measure {
            Measure::Latency(..) => {
                figure::span(Duration::from_nanos((value * 1e6).round() as u64))
            }
            Measure::RequestCount => figure::counted(value as u64, "request", "requests"),
            Measure::RequestRate => format!("{} requests a second", figure::rate(value)),
            Measure::ErrorCount => figure::counted(value as u64, "error", "errors"),
            // Enough digits for one error in a million.
            Measure::ErrorRate => format!("{} % errors", (value * 1e6).round() / 1e4),
        })
    }
}
