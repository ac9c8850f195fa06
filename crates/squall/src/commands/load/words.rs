//! The words of `squall load`'s flags: rates, versions, kinds of files. Those of stages and think times, which recipes have
//! too, are squall-base's.
//!
//! Each is parsed once, here; an error says what was expected.

use std::path::PathBuf;
use std::str::FromStr;

use squall_base::plan::Spacing;
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

/// A time that is not 0.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("expected more than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
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
}
