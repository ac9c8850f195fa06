//! The words of loads, alike on the command line and in recipes: `100/s 10s, 100/s..1000/s 30s` and `0.5s..2s`.
//!
//! Only texts to values; where they may stand is said elsewhere.

use std::str::FromStr;

use thiserror::Error;

use super::{Stage, Stages, StagesError, ThinkTime};
use crate::quantity::{ParseQuantityError, Rate};
use crate::time::Duration;

/// A text that is no list of stages, or no think time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseWordsError {
    /// A stage without its parts.
    #[error("{text:?} is no stage: expected \"100/s 10s\" or \"100/s..1000/s 30s\"")]
    Stage {
        /// The stage.
        text: String,
    },
    /// Stages that cannot be computed.
    #[error(transparent)]
    Stages(#[from] StagesError),
    /// A quantity in it.
    #[error(transparent)]
    Quantity(#[from] ParseQuantityError),
    /// A range of times that ends before it begins.
    #[error("the shorter time comes first, such as 0.5s..2s")]
    Order,
}

impl FromStr for Stages {
    type Err = ParseWordsError;

    fn from_str(text: &str) -> Result<Stages, ParseWordsError> {
        let stages: Result<Vec<Stage>, ParseWordsError> = text.split(',').map(stage).collect();
        Ok(Stages::new(stages?)?)
    }
}

fn stage(text: &str) -> Result<Stage, ParseWordsError> {
    let text = text.trim();
    let unclear = || ParseWordsError::Stage {
        text: text.to_owned(),
    };
    let (rates, duration) = text.rsplit_once(' ').ok_or_else(unclear)?;
    let duration: Duration = duration.parse()?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let end = |text: &str| match text.trim() {
        "0" | "0/s" => Ok(None),
        text => rate(text).map(Some),
    };
    Ok(Stage::ramp(end(from)?, end(to)?, duration))
}

/// `1000/s`, `90/m`, and a bare number per second.
fn rate(text: &str) -> Result<Rate, ParseQuantityError> {
    match text.contains('/') {
        true => text.parse(),
        false => format!("{text}/s").parse(),
    }
}

impl FromStr for ThinkTime {
    type Err = ParseWordsError;

    /// `1s`, any time of `0.5s..2s`, or `exp:1s`, exponential with that mean.
    fn from_str(text: &str) -> Result<ThinkTime, ParseWordsError> {
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(ThinkTime::Exponential(mean.parse()?));
        }
        if let Some((from, to)) = text.split_once("..") {
            let (from, to): (Duration, Duration) = (from.parse()?, to.parse()?);
            return match from <= to {
                true => Ok(ThinkTime::Uniform { from, to }),
                false => Err(ParseWordsError::Order),
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
    fn stages_are_rates_ramps_and_pauses() {
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
    fn users_think_in_three_ways() {
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
