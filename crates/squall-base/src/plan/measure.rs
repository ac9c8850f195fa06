//! What a recipe measures, and the comparison that its question is about.
//!
//! Only the words and what follows from them: which values are better, and which measure stands in where a trial has too
//! few requests. How a trial's value comes about, and how trials are compared, is squall-analysis's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Condition;

/// Something of a trial that variants are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Measure {
    /// From when a request was due to the end of its response.
    ResponseTime(Statistic),
    /// From when a page was due to begin to the end of its last response.
    PageTime(Statistic),
    /// From a request's first byte written to its response's last byte read.
    TransferTime(Statistic),
    /// At the server across the link: from a request's first byte to its response's last byte.
    ServerTime(Statistic),
    /// Bytes of bodies, of both directions, in a second of transfers.
    Throughput,
    /// Connections that the client opened.
    Connections,
    /// Handshakes of TLS and QUIC that the client made.
    Handshakes,
    /// The share of requests that failed.
    FailedShare,
}

/// A figure of many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Their mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

/// What a measure's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes per second.
    BytesPerSecond,
    /// A number of things.
    Count,
    /// A share, from 0 to 1.
    Share,
}

impl Statistic {
    /// Every one, the one that needs the fewest values first.
    pub const ALL: [Statistic; 6] = [
        Statistic::Mean,
        Statistic::P50,
        Statistic::P90,
        Statistic::P95,
        Statistic::P99,
        Statistic::P999,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P95 => "p95",
            Statistic::P99 => "p99",
            Statistic::P999 => "p99.9",
        }
    }
}

impl Measure {
    /// The measure of loads whose requests do not wait for each other, if a recipe names none.
    pub const USUAL: Measure = Measure::ResponseTime(Statistic::P99);

    /// Every measure, in the order in which messages list them.
    pub fn all() -> impl Iterator<Item = Measure> {
        let times = [
            Measure::ResponseTime,
            Measure::PageTime,
            Measure::TransferTime,
            Measure::ServerTime,
        ];
        let times = times
            .into_iter()
            .flat_map(|of| Statistic::ALL.into_iter().map(of));
        times.chain([
            Measure::Throughput,
            Measure::Connections,
            Measure::Handshakes,
            Measure::FailedShare,
        ])
    }

    /// What its values are.
    pub const fn unit(self) -> Unit {
        match self {
            Measure::ResponseTime(_)
            | Measure::PageTime(_)
            | Measure::TransferTime(_)
            | Measure::ServerTime(_) => Unit::Time,
            Measure::Throughput => Unit::BytesPerSecond,
            Measure::Connections | Measure::Handshakes => Unit::Count,
            Measure::FailedShare => Unit::Share,
        }
    }

    /// Whether a higher value is the better one.
    pub const fn is_better_higher(self) -> bool {
        matches!(self, Measure::Throughput)
    }

    /// The figure of many values that it is, if it is one.
    pub const fn statistic(self) -> Option<Statistic> {
        match self {
            Measure::ResponseTime(statistic)
            | Measure::PageTime(statistic)
            | Measure::TransferTime(statistic)
            | Measure::ServerTime(statistic) => Some(statistic),
            _ => None,
        }
    }

    /// The measure, then those that stand in for it where trials have too few values: lower percentiles, then the mean.
    pub fn with_substitutes(self) -> Vec<Measure> {
        let Some(own) = self.statistic() else {
            return vec![self];
        };
        let fewer = Statistic::ALL
            .into_iter()
            .rev()
            .skip_while(|statistic| *statistic != own);
        fewer.map(|statistic| self.with(statistic)).collect()
    }

    fn with(self, statistic: Statistic) -> Measure {
        match self {
            Measure::ResponseTime(_) => Measure::ResponseTime(statistic),
            Measure::PageTime(_) => Measure::PageTime(statistic),
            Measure::TransferTime(_) => Measure::TransferTime(statistic),
            Measure::ServerTime(_) => Measure::ServerTime(statistic),
            other => other,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, statistic) = match self {
            Measure::ResponseTime(statistic) => ("response time", statistic),
            Measure::PageTime(statistic) => ("page time", statistic),
            Measure::TransferTime(statistic) => ("transfer time", statistic),
            Measure::ServerTime(statistic) => ("server time", statistic),
            Measure::Throughput => return f.write_str("throughput"),
            Measure::Connections => return f.write_str("connections"),
            Measure::Handshakes => return f.write_str("handshakes"),
            Measure::FailedShare => return f.write_str("failed share"),
        };
        write!(f, "{what} {}", statistic.name())
    }
}

/// A text that names no measure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no measure")]
pub struct UnknownMeasure(pub String);

impl FromStr for Measure {
    type Err = UnknownMeasure;

    fn from_str(text: &str) -> Result<Measure, UnknownMeasure> {
        Measure::all()
            .find(|measure| measure.to_string() == text)
            .ok_or_else(|| UnknownMeasure(text.to_owned()))
    }
}

impl TryFrom<String> for Measure {
    type Error = UnknownMeasure;

    fn try_from(text: String) -> Result<Measure, UnknownMeasure> {
        text.parse()
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> String {
        measure.to_string()
    }
}

/// The comparison that a recipe's question is about: it is tested first, at the full level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Primary {
    /// The name of the variant.
    pub variant: String,
    /// The name of the variant that it is compared with.
    pub baseline: String,
    /// Under which condition.
    pub condition: Condition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_read_as_it_is_written() {
        for measure in Measure::all() {
            assert_eq!(measure.to_string().parse(), Ok(measure));
        }
        let unknown = UnknownMeasure("response time p42".to_owned());
        assert_eq!("response time p42".parse::<Measure>(), Err(unknown));
    }

    #[test]
    fn lower_percentiles_and_the_mean_stand_in_for_a_percentile() {
        let names = |measure: Measure| -> Vec<String> {
            let all = measure.with_substitutes();
            all.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            names(Measure::PageTime(Statistic::P95)),
            [
                "page time p95",
                "page time p90",
                "page time p50",
                "page time mean"
            ]
        );
        assert_eq!(names(Measure::Connections), ["connections"]);
    }
}
