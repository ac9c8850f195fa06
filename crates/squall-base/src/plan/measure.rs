//! What a recipe measures, for which requests, and the comparison that its question is about.
//!
//! Only the vocabulary and what follows from it: which values are better, and which measure substitutes for another
//! where a trial has too few requests. squall-analysis computes a trial's values and compares trials.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Condition;

/// A property of a trial by which variants are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Measure {
    /// From when a request was due to the end of its response.
    ResponseTime(Statistic, Targets),
    /// From when a page was due to begin to the end of its last response.
    PageTime(Statistic),
    /// From the first byte written of a request to the last byte read of its response.
    TransferTime(Statistic, Targets),
    /// At the server across the link: from the first byte of a request to the last byte of its response.
    ServerTime(Statistic, Targets),
    /// From when a request was due to the first bytes of its response's body.
    FirstChunkTime(Statistic, Targets),
    /// Between two arrivals of bytes of a response's body, at the client.
    Gap(Statistic),
    /// Bytes of bodies, in both directions, per second of transfer.
    Throughput,
    /// Connections that the client opened.
    Connections,
    /// TLS and QUIC handshakes that the client made.
    Handshakes,
    /// The share of requests that failed.
    FailedShare,
}

crate::words! {
    /// A statistic of many values. The percentiles are in order of how many values they need, fewest first: where there are
    /// too few values for one, a lower one substitutes for it ([`Measure::with_substitutes`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Statistic {
        /// Their mean.
        Mean = "mean",
        /// The median.
        P50 = "p50",
        /// The 90th percentile.
        P90 = "p90",
        /// The 95th percentile.
        P95 = "p95",
        /// The 99th percentile.
        P99 = "p99",
        /// The 99.9th percentile.
        P999 = "p99.9",
        /// The interquartile range: the 75th percentile minus the 25th.
        Iqr = "iqr",
    }
}

/// The requests that a measure covers: all, or those whose targets begin with a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The path, padded with zeros. It is stored inline so that measures can be copied like numbers.
    path: [u8; Targets::LONGEST],
    /// The path's length; 0: all requests.
    length: u8,
}

impl Targets {
    /// All requests.
    pub const ALL: Targets = Targets {
        path: [0; Targets::LONGEST],
        length: 0,
    };
    /// The length of the longest path.
    pub const LONGEST: usize = 32;

    /// Requests below `path`; `None` unless it begins with `/` and has at most 32 visible ASCII characters, without `?`
    /// and `#`.
    pub fn below(path: &str) -> Option<Targets> {
        let is_plain = |c: u8| c.is_ascii_graphic() && c != b'?' && c != b'#';
        let is_path = path.starts_with('/') && path.bytes().all(is_plain);
        if !is_path || path.len() > Targets::LONGEST {
            return None;
        }
        let mut below = Targets::ALL;
        below.path[..path.len()].copy_from_slice(path.as_bytes());
        below.length = path.len() as u8;
        Some(below)
    }

    /// The path that they begin with; `None` for all.
    pub fn path(&self) -> Option<&str> {
        let path = str::from_utf8(&self.path[..usize::from(self.length)]);
        path.ok().filter(|path| !path.is_empty())
    }

    /// Whether these targets include a request's target: `/video` covers `/video`, `/video?x` and `/video/1`, but not
    /// `/videos`.
    pub fn contains(&self, target: &str) -> bool {
        let Some(path) = self.path() else {
            return true;
        };
        let rest = target.strip_prefix(path);
        rest.is_some_and(|rest| {
            path.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?'])
        })
    }
}

/// The unit of a measure's values.
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

impl Measure {
    /// The default measure for loads whose requests do not depend on each other.
    pub const USUAL: Measure = Measure::ResponseTime(Statistic::P99, Targets::ALL);

    /// Every measure over all requests, in the order in which messages list them.
    pub fn all() -> impl Iterator<Item = Measure> {
        let times: [fn(Statistic) -> Measure; 6] = [
            |statistic| Measure::ResponseTime(statistic, Targets::ALL),
            Measure::PageTime,
            |statistic| Measure::TransferTime(statistic, Targets::ALL),
            |statistic| Measure::ServerTime(statistic, Targets::ALL),
            |statistic| Measure::FirstChunkTime(statistic, Targets::ALL),
            Measure::Gap,
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

    /// The unit of its values.
    pub const fn unit(self) -> Unit {
        match self {
            Measure::ResponseTime(..)
            | Measure::PageTime(_)
            | Measure::TransferTime(..)
            | Measure::ServerTime(..)
            | Measure::FirstChunkTime(..)
            | Measure::Gap(_) => Unit::Time,
            Measure::Throughput => Unit::BytesPerSecond,
            Measure::Connections | Measure::Handshakes => Unit::Count,
            Measure::FailedShare => Unit::Share,
        }
    }

    /// Whether higher values are better.
    pub const fn is_better_higher(self) -> bool {
        matches!(self, Measure::Throughput)
    }

    /// The measure's statistic, if it has one.
    pub const fn statistic(self) -> Option<Statistic> {
        match self {
            Measure::ResponseTime(statistic, _)
            | Measure::PageTime(statistic)
            | Measure::TransferTime(statistic, _)
            | Measure::ServerTime(statistic, _)
            | Measure::FirstChunkTime(statistic, _)
            | Measure::Gap(statistic) => Some(statistic),
            _ => None,
        }
    }

    /// The requests that it covers; `None` for a measure that is not a time of single requests.
    pub const fn targets(self) -> Option<Targets> {
        match self {
            Measure::ResponseTime(_, targets)
            | Measure::TransferTime(_, targets)
            | Measure::ServerTime(_, targets)
            | Measure::FirstChunkTime(_, targets) => Some(targets),
            _ => None,
        }
    }

    /// This measure for these requests only; `None` for a measure that is not a time of single requests.
    #[must_use]
    pub const fn of(self, targets: Targets) -> Option<Measure> {
        Some(match self {
            Measure::ResponseTime(statistic, _) => Measure::ResponseTime(statistic, targets),
            Measure::TransferTime(statistic, _) => Measure::TransferTime(statistic, targets),
            Measure::ServerTime(statistic, _) => Measure::ServerTime(statistic, targets),
            Measure::FirstChunkTime(statistic, _) => Measure::FirstChunkTime(statistic, targets),
            _ => return None,
        })
    }

    /// The measure and its substitutes for trials with too few values: lower percentiles, then the mean.
    pub fn with_substitutes(self) -> Vec<Measure> {
        // No other statistic measures the spread of values.
        let Some(own) = self.statistic().filter(|own| *own != Statistic::Iqr) else {
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
            Measure::ResponseTime(_, of) => Measure::ResponseTime(statistic, of),
            Measure::PageTime(_) => Measure::PageTime(statistic),
            Measure::TransferTime(_, of) => Measure::TransferTime(statistic, of),
            Measure::ServerTime(_, of) => Measure::ServerTime(statistic, of),
            Measure::FirstChunkTime(_, of) => Measure::FirstChunkTime(statistic, of),
            Measure::Gap(_) => Measure::Gap(statistic),
            other => other,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, statistic) = match self {
            Measure::ResponseTime(statistic, _) => ("response time", statistic),
            Measure::PageTime(statistic) => ("page time", statistic),
            Measure::TransferTime(statistic, _) => ("transfer time", statistic),
            Measure::ServerTime(statistic, _) => ("server time", statistic),
            Measure::FirstChunkTime(statistic, _) => ("first chunk time", statistic),
            Measure::Gap(statistic) => ("gap", statistic),
            Measure::Throughput => return f.write_str("throughput"),
            Measure::Connections => return f.write_str("connections"),
            Measure::Handshakes => return f.write_str("handshakes"),
            Measure::FailedShare => return f.write_str("failed share"),
        };
        write!(f, "{what} {}", statistic.name())?;
        let targets = self.targets().unwrap_or_default();
        targets
            .path()
            .map_or(Ok(()), |path| write!(f, " of {path}"))
    }
}

/// A text that does not name a measure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a measure")]
pub struct UnknownMeasure(pub String);

impl FromStr for Measure {
    type Err = UnknownMeasure;

    fn from_str(text: &str) -> Result<Measure, UnknownMeasure> {
        let (of_all, path) = match text.split_once(" of ") {
            Some((of_all, path)) => (of_all, Some(path)),
            None => (text, None),
        };
        let found = Measure::all().find(|measure| measure.to_string() == of_all);
        let found = match path {
            None => found,
            Some(path) => found.and_then(|found| found.of(Targets::below(path)?)),
        };
        found.ok_or_else(|| UnknownMeasure(text.to_owned()))
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

/// The comparison that a recipe's question is about; it is tested first, at the full level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Primary {
    /// The name of the variant.
    pub variant: String,
    /// The name of the variant to compare it with.
    pub baseline: String,
    /// The condition.
    pub condition: Condition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_parses_as_it_prints() {
        let video = Targets::below("/video").expect("a path");
        let of_video = Measure::all().filter_map(|measure| measure.of(video));
        for measure in Measure::all().chain(of_video) {
            assert_eq!(measure.to_string().parse(), Ok(measure));
        }
        let longest = "/".repeat(Targets::LONGEST);
        assert!(
            format!("server time p50 of {longest}")
                .parse::<Measure>()
                .is_ok()
        );
        for unknown in [
            "response time p42",
            "page time p50 of /video",
            "connections of /video",
            "gap p99 of /video",
            "gap",
            "server time p50 of video",
            "server time p50 of /video?size=1",
            "server time p50 of ",
            &format!("server time p50 of {longest}/"),
        ] {
            let error = UnknownMeasure(unknown.to_owned());
            assert_eq!(unknown.parse::<Measure>(), Err(error));
        }
    }

    #[test]
    fn path_covers_the_targets_below_it() {
        let video = Targets::below("/video").expect("a path");
        for target in ["/video", "/video/1.m4s?size=3", "/video?size=3"] {
            assert!(video.contains(target), "{target}");
        }
        for target in ["/videos/1", "/audio/1", "/?of=/video", "/"] {
            assert!(!video.contains(target), "{target}");
        }
        assert!(Targets::ALL.contains("/anything"));
        let root = Targets::below("/").expect("a path");
        assert!(root.contains("/?size=1"));
    }

    #[test]
    fn lower_percentiles_and_the_mean_substitute_for_a_percentile() {
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
        let spread = Measure::ResponseTime(Statistic::Iqr, Targets::ALL);
        assert_eq!(names(spread), ["response time iqr"]);
        let video = Targets::below("/video").expect("a path");
        assert_eq!(
            names(Measure::ServerTime(Statistic::P50, video)),
            ["server time p50 of /video", "server time mean of /video"]
        );
    }
}
