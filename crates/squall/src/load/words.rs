//! Parsers for the values of `squall load`'s flags: rates, versions, file formats. Stages and think times are
//! squall-base's, because recipes use them too.
//!
//! Each value is parsed once, here; errors say what was expected.

use std::path::PathBuf;
use std::str::FromStr;

use squall_base::Rate;
use squall_base::plan::Spacing;
use squall_base::{Duration, ParseQuantityError};
use squall_recipe::limits::{MAX_PER_SECOND, MAX_SPIN};

pub(super) use crate::client::{Http, positive_time};

/// A rate: `1000`, `1000/s` or `90/m`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateFlag(pub(super) Rate);

impl FromStr for RateFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<RateFlag, String> {
        let is_number = text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let whole = if is_number {
            format!("{text}/s")
        } else {
            text.to_owned()
        };
        let said =
            |error: ParseQuantityError| format!("{error}; a bare number is a rate per second");
        let rate: Rate = whole.parse().map_err(said)?;
        check_rate(rate)?;
        Ok(RateFlag(rate))
    }
}

/// Refuses a rate that no client can send.
pub(super) fn check_rate(rate: Rate) -> Result<(), String> {
    if rate.per_second() <= MAX_PER_SECOND {
        return Ok(());
    }
    Err(format!(
        "{rate} is out of range: expected at most {MAX_PER_SECOND}/s, which is more than one machine can send"
    ))
}

/// Parses the time to spin before a request.
pub(super) fn spin_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(time) if time <= MAX_SPIN => Ok(time),
        Ok(_) => Err(format!(
            "expected at most {MAX_SPIN}: a client that spins for longer does nothing else"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Spacing of requests in an open load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SpacingFlag {
    /// Evenly spaced
    Constant,
    /// Random, like the requests of many independent users
    Poisson,
}

impl From<SpacingFlag> for Spacing {
    fn from(flag: SpacingFlag) -> Spacing {
        match flag {
            SpacingFlag::Constant => Spacing::Constant,
            SpacingFlag::Poisson => Spacing::Poisson,
        }
    }
}

/// An output file for request rows, and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

/// Format of request rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Parquet,
    Csv,
    Vegeta,
    H2load,
    Hgrm,
    Hlog,
}

impl FromStr for OutputFile {
    type Err = String;

    fn from_str(text: &str) -> Result<OutputFile, String> {
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
        Ok(OutputFile { path, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_without_unit_is_per_second() {
        let rate = |text: &str| text.parse::<RateFlag>().map(|rate| rate.0.to_string());
        assert_eq!(rate("1000"), rate("1000/s"));
        assert_ne!(rate("90/m"), rate("90"));
        for bad in ["", "fast", "0", "-1", "1/h/s", "1k", "10rps"] {
            let said = rate(bad).unwrap_err();
            assert!(said.contains("a bare number"), "{bad}: {said}");
        }
        let said = rate("10rps").unwrap_err();
        assert!(said.contains("\"10rps\""), "{said}");
    }

    #[test]
    fn rates_and_times_beyond_the_limits_of_recipes_are_refused() {
        assert!("1000000".parse::<RateFlag>().is_ok());
        for text in ["1000001", "1000000000/s", "60000060/min"] {
            let said = text.parse::<RateFlag>().unwrap_err();
            assert!(said.contains("at most 1000000/s"), "{said}");
        }
        assert_eq!(spin_time("10ms"), Ok(MAX_SPIN));
        let said = spin_time("11ms").unwrap_err();
        assert!(said.contains("at most 10ms"), "{said}");
    }
}
