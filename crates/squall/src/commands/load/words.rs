//! The words of `squall load`'s flags: rates, stages, think times, versions, kinds of files.
//!
//! Each is parsed once, here; an error says what was expected.

use std::path::PathBuf;
use std::str::FromStr;

use squall_base::plan::{Spacing, Stage, Stages, ThinkTime};
use squall_base::{Duration, Rate};

pub(super) use crate::client::Http;

/// `1000`, `1000/s`, `90/m`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateFlag(pub(super) Rate);

impl FromStr for RateFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<RateFlag, String> {
        let whole = match text.contains('/') {
            true => text.to_owned(),
            false => format!("{text}/s"),
        };
        let said = |error| format!("{error}; a bare number is a rate per second");
        whole.parse().map(RateFlag).map_err(said)
    }
}

/// How requests of an open load follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Gaps {
    /// Evenly
    Constant,
    /// As those of many independent people do
    Poisson,
}

impl From<Gaps> for Spacing {
    fn from(gaps: Gaps) -> Spacing {
        match gaps {
            Gaps::Constant => Spacing::Constant,
            Gaps::Poisson => Spacing::Poisson,
        }
    }
}

/// `100/s 10s, 100/s..1000/s 30s, 0 5s`.
#[derive(Clone, Debug)]
pub(super) struct StageList(pub(super) Stages);

impl FromStr for StageList {
    type Err = String;

    fn from_str(text: &str) -> Result<StageList, String> {
        let stages: Result<Vec<Stage>, String> = text.split(',').map(stage).collect();
        Stages::new(stages?)
            .map(StageList)
            .map_err(|error| error.to_string())
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    let text = text.trim();
    let unclear =
        || format!("{text:?} is no stage: expected \"100/s 10s\" or \"100/s..1000/s 30s\"");
    let (rates, duration) = text.rsplit_once(' ').ok_or_else(unclear)?;
    let duration: Duration = duration.parse().map_err(|error| format!("{error}"))?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let end = |text: &str| match text.trim() {
        "0" | "0/s" => Ok(None),
        text => text.parse::<RateFlag>().map(|rate| Some(rate.0)),
    };
    Ok(Stage::ramp(end(from)?, end(to)?, duration))
}

/// `1s`, `0.5s..2s`, `exp:1s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Think(pub(super) ThinkTime);

impl FromStr for Think {
    type Err = String;

    fn from_str(text: &str) -> Result<Think, String> {
        let time = |text: &str| text.parse::<Duration>().map_err(|error| error.to_string());
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(Think(ThinkTime::Exponential(time(mean)?)));
        }
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (time(from)?, time(to)?);
            return match from <= to {
                true => Ok(Think(ThinkTime::Uniform { from, to })),
                false => Err("the shorter time comes first, such as 0.5s..2s".to_owned()),
            };
        }
        Ok(Think(match time(text)? {
            Duration::ZERO => ThinkTime::None,
            always => ThinkTime::Constant(always),
        }))
    }
}

/// A file for rows of requests, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

/// How rows of requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Parquet,
    Csv,
    Vegeta,
    H2load,
    Hgrm,
    Hlog,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Output, String> {
        let path = PathBuf::from(text);
        let format = match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => Format::Parquet,
            Some("csv") => Format::Csv,
            Some("vegeta") => Format::Vegeta,
            Some("h2load") => Format::H2load,
            Some("hgrm") => Format::Hgrm,
            Some("hlog") => Format::Hlog,
            _ => {
                return Err(
                    "the ending says how rows are written: .parquet, .csv, .vegeta, .h2load, .hgrm or .hlog"
                        .to_owned(),
                );
            }
        };
        Ok(Output { path, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_unless_they_say_otherwise() {
        let rate = |text: &str| text.parse::<RateFlag>().map(|rate| rate.0.to_string());
        assert_eq!(rate("1000"), rate("1000/s"));
        assert_ne!(rate("90/m"), rate("90"));
        for bad in ["", "fast", "0", "-1", "1/h/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stages_are_rates_ramps_and_pauses() {
        let stages: StageList = "100 10s, 100/s..1000/s 30s,0 5s".parse().unwrap();
        let [steady, ramp, pause] = stages.0.as_slice() else {
            panic!("{stages:?}");
        };
        assert_eq!(
            (steady.from, steady.duration),
            (steady.to, Duration::from_secs(10))
        );
        assert!(ramp.from.is_some() && ramp.from != ramp.to);
        assert_eq!((pause.from, pause.to), (None, None));
        for bad in ["", "100", "100 10s,", "fast 10s", "100.. 5s"] {
            assert!(bad.parse::<StageList>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn users_think_in_three_ways() {
        let think = |text: &str| text.parse::<Think>().map(|think| think.0);
        let (half, two) = (Duration::from_millis(500), Duration::from_secs(2));
        assert_eq!(think("0s"), Ok(ThinkTime::None));
        assert_eq!(think("2s"), Ok(ThinkTime::Constant(two)));
        assert_eq!(
            think("0.5s..2s"),
            Ok(ThinkTime::Uniform {
                from: half,
                to: two
            })
        );
        assert_eq!(think("exp:2s"), Ok(ThinkTime::Exponential(two)));
        for bad in ["", "2s..1s", "exp:", "soon"] {
            assert!(think(bad).is_err(), "{bad:?}");
        }
    }
}
