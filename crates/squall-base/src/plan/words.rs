//! The notation of loads, shared by the command line and recipes: `100/s 10s, 100/s..1000/s 30s` and `0.5s..2s`.
//!
//! Only parses; where these texts may occur is decided elsewhere.

use std::str::FromStr;

use thiserror::Error;

use super::{Stage, Stages, StagesError, ThinkTime};
use crate::number::ParseQuantityError;
use crate::quantity::Rate;
use crate::time::Duration;

/// A text that is not a list of stages, or not a think time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseLoadError {
    /// A stage with missing parts.
    #[error("{0:?} is not a stage: expected \"100/s 10s\" or \"100/s..1000/s 30s\"")]
    Stage(String),
    /// Stages that cannot be computed exactly.
    #[error(transparent)]
    Stages(#[from] StagesError),
    /// An invalid quantity.
    #[error(transparent)]
    Quantity(#[from] ParseQuantityError),
    /// A range of times whose end is before its beginning.
    #[error("the shorter time comes first, such as 0.5s..2s")]
    Order,
}

impl FromStr for Stages {
    type Err = ParseLoadError;

    fn from_str(text: &str) -> Result<Stages, ParseLoadError> {
        let stages: Result<Vec<Stage>, ParseLoadError> = text.split(',').map(stage).collect();
        Ok(Stages::new(stages?)?)
    }
}

fn stage(text: &str) -> Result<Stage, ParseLoadError> {
    let text = text.trim();
    let unclear = || ParseLoadError::Stage(text.to_owned());
    let (rates, duration) = text.rsplit_once(' ').ok_or_else(unclear)?;
    let duration: Duration = duration.parse()?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let end = |text: &str| match text.trim() {
        "0" | "0/s" => Ok(None),
        text => rate(text).map(Some),
    };
    Ok(Stage::ramp(end(from)?, end(to)?, duration))
}

/// `1000/s`, `90/m`, or a bare number per second.
fn rate(text: &str) -> Result<Rate, ParseQuantityError> {
    if text.contains('/') {
        text.parse()
    } else {
        format!("{text}/s").parse()
    }
}

impl FromStr for ThinkTime {
    type Err = ParseLoadError;

    /// `1s`, any time within `0.5s..2s`, or `exp:1s`, exponential with that mean.
    fn from_str(text: &str) -> Result<ThinkTime, ParseLoadError> {
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(ThinkTime::Exponential(mean.parse()?));
        }
        if let Some((from, to)) = text.split_once("..") {
            let (from, to): (Duration, Duration) = (from.parse()?, to.parse()?);
            return if from <= to {
                Ok(ThinkTime::Uniform { from, to })
            } else {
                Err(ParseLoadError::Order)
            };
        }
        Ok(match text.parse()? {
            Duration::ZERO => ThinkTime::None,
            always => ThinkTime::Constant(always),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_parse_as_rates_ramps_and_pauses() {
        let stages: Stages = "100 10s, 100/s..1000/s 30s,0 5s".parse().unwrap();
        let [steady, ramp, pause] = stages.as_slice() else {
            panic!("{stages:?}");
        };
        assert_eq!(
            (steady.from, steady.duration),
            (steady.to, Duration::from_secs(10))
        );
        assert!(ramp.from.is_some() && ramp.from != ramp.to);
        assert_eq!((pause.from, pause.to), (None, None));
        for bad in ["", "100", "100 10s,", "fast 10s", "100.. 5s"] {
            assert!(bad.parse::<Stages>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn think_times_parse_as_constant_uniform_or_exponential() {
        let think = |text: &str| text.parse::<ThinkTime>();
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
