//! The loads that a client can be told to run: open, closed, a script, pages.
//!
//! Only the words, checked: when each request is due, and for whom, is squall-load's. A warm-up is always the first
//! part of a load, and counted in its length. Every `seed` decides what is random in its load, and nothing else.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Page, ScriptStep, Stages};
use crate::quantity::{ParseQuantityError, split_number};
use crate::time::Duration;

/// What a client shall ask for, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Requests at their times, whatever becomes of earlier ones.
    Open(OpenLoad),
    /// Users who wait for each answer.
    Closed(ClosedLoad),
    /// What was recorded, at the recorded times.
    Script(ScriptLoad),
    /// Users who load pages.
    Pages(PageLoad),
}

/// An open load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoad {
    /// Its rate over time.
    pub stages: Stages,
    /// How requests follow each other at that rate.
    pub spacing: Spacing,
    /// The first part of it: recorded, but in no statistic.
    pub warmup: Duration,
    /// How long after the last stage unfinished requests are waited for.
    pub drain: Duration,
    /// What is asked for.
    pub mix: Mix,
    /// Decides random gaps and what is asked for.
    pub seed: u64,
}

/// How the requests of an open load follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Evenly: one whenever the integrated rate has grown by one.
    #[default]
    Constant,
    /// As those of many independent people do: a Poisson process with that rate.
    Poisson,
}

/// A closed load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedLoad {
    /// Who asks: each one request at a time.
    pub users: u32,
    /// From the end of a user's request to its next one.
    pub think: ThinkTime,
    /// User k of n begins k/n of this after the start.
    pub starts_over: Duration,
    /// Requests in all; `None`: as many as the duration allows.
    pub requests: Option<u64>,
    /// How long requests are begun; `None`: until all are done.
    pub duration: Option<Duration>,
    /// The first part of it.
    pub warmup: Warmup,
    /// How long unfinished ones are waited for when the duration is over.
    pub drain: Duration,
    /// What is asked for.
    pub mix: Mix,
    /// Decides random think times and what is asked for.
    pub seed: u64,
}

impl ClosedLoad {
    /// So many users who ask for the first request again and again, without a pause and without an end.
    pub fn of(users: u32) -> ClosedLoad {
        ClosedLoad {
            users,
            think: ThinkTime::None,
            starts_over: Duration::ZERO,
            requests: None,
            duration: None,
            warmup: Warmup::default(),
            drain: Duration::ZERO,
            mix: Mix::default(),
            seed: 0,
        }
    }
}

/// How long a user waits between the end of one thing and the start of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTime {
    /// Not at all.
    #[default]
    None,
    /// Always as long.
    Constant(Duration),
    /// Any time between the two, each as likely; both can come.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

/// The first part of a load with users: recorded, but in no statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// What is begun in so long a time.
    Time(Duration),
    /// The first so many requests, or pages of a load of pages.
    First(u64),
}

impl Default for Warmup {
    /// None.
    fn default() -> Warmup {
        Warmup::First(0)
    }
}

/// A script that clients replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLoad {
    /// What each of them sends when; a step's request is one of the caller's.
    pub steps: Vec<ScriptStep>,
    /// How many replay it.
    pub clients: u32,
    /// Client k starts k times this after the first, whatever the speed.
    pub stagger: Duration,
    /// How much faster than recorded.
    pub speed: Speed,
    /// How often each of them does so.
    pub rounds: Rounds,
    /// No request is due so long after the start, or later; `None`: all are.
    pub duration: Option<Duration>,
    /// The first part of it, from the start of the load.
    pub warmup: Duration,
    /// How long after the last request unfinished ones are waited for.
    pub drain: Duration,
}

/// How often a client replays its script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounds {
    /// Once.
    #[default]
    Once,
    /// Again and again.
    Again {
        /// From the start of a round to the next, in the script's own time; at least until its last step. A script that
        /// takes no time at all is replayed once.
        every: Duration,
        /// How often in all; `None`: until the load's duration is over.
        at_most: Option<u64>,
    },
}

/// How much faster a script is replayed than it was recorded: a ratio, so that times are divided exactly.
/// In text: `10x`, `0.5x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    /// So much of the script's time ...
    pub script: NonZeroU32,
    /// ... passes in so much of the clock's.
    pub clock: NonZeroU32,
}

impl Speed {
    /// As recorded.
    pub const AS_RECORDED: Speed = Speed {
        script: NonZeroU32::MIN,
        clock: NonZeroU32::MIN,
    };
}

impl Default for Speed {
    fn default() -> Speed {
        Speed::AS_RECORDED
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}x",
            f64::from(self.script.get()) / f64::from(self.clock.get())
        )
    }
}

impl FromStr for Speed {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Speed, ParseQuantityError> {
        const EXPECTED: &str = "a speed, such as \"10x\" or \"0.5x\"";
        const CLOCK: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not 0");
        let (number, unit) = split_number(text, EXPECTED)?;
        if unit != "x" {
            return Err(ParseQuantityError::unit(text, unit, EXPECTED));
        }
        let script = number.times(u64::from(CLOCK.get()));
        let script = script.and_then(|script| NonZeroU32::new(u32::try_from(script).ok()?));
        match script {
            Some(script) => Ok(Speed {
                script,
                clock: CLOCK,
            }),
            None => Err(ParseQuantityError::range(
                text,
                "0.0001x to 400000x, with at most four decimals",
            )),
        }
    }
}

/// A load of users who load a page again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLoad {
    /// What each of them loads.
    pub page: Page,
    /// Who loads: each one page at a time.
    pub users: u32,
    /// From the end of a user's page to its next one.
    pub think: ThinkTime,
    /// User k of n begins k/n of this after the start.
    pub starts_over: Duration,
    /// Pages in all; `None`: as many as the duration allows.
    pub pages: Option<u64>,
    /// How long pages are begun; `None`: until all are done.
    pub duration: Option<Duration>,
    /// The first part of it. A page belongs to one phase with all its requests.
    pub warmup: Warmup,
    /// How long unfinished ones are waited for when the duration is over.
    pub drain: Duration,
    /// Decides random think times.
    pub seed: u64,
}

/// How often each of the caller's requests is asked for, relative to the others. One of them is more than none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Mix(Vec<u32>);

/// Weights that leave nothing to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at least one weight must be more than 0")]
pub struct NoWeight;

impl Mix {
    /// The mix with these weights, or `None` if nothing would be asked for.
    pub fn new(weights: Vec<u32>) -> Option<Mix> {
        weights
            .iter()
            .any(|weight| *weight > 0)
            .then_some(Mix(weights))
    }

    /// Its weights, in the order of the caller's requests.
    pub fn weights(&self) -> &[u32] {
        &self.0
    }
}

impl Default for Mix {
    /// Always the first.
    fn default() -> Mix {
        Mix(vec![1])
    }
}

impl TryFrom<Vec<u32>> for Mix {
    type Error = NoWeight;

    fn try_from(weights: Vec<u32>) -> Result<Mix, NoWeight> {
        Mix::new(weights).ok_or(NoWeight)
    }
}

impl From<Mix> for Vec<u32> {
    fn from(mix: Mix) -> Vec<u32> {
        mix.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_ratios() {
        let ratio = |text: &str| {
            let speed: Speed = text.parse().unwrap();
            (u64::from(speed.script.get()), u64::from(speed.clock.get()))
        };
        for (text, times) in [("10x", 10), ("1x", 1), ("400000x", 400_000)] {
            let (script, clock) = ratio(text);
            assert_eq!(script, times * clock, "{text}");
        }
        let (script, clock) = ratio("0.25x");
        assert_eq!(4 * script, clock);
        assert_eq!("1.5x".parse::<Speed>().unwrap().to_string(), "1.5x");
        for text in ["0x", "10", "x", "0.00001x", "1000000x", "-1x"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mix_asks_for_something() {
        assert_eq!((Mix::new(vec![]), Mix::new(vec![0, 0])), (None, None));
        assert_eq!(Mix::new(vec![0, 3]).unwrap().weights(), [0, 3]);
    }
}
