//! The loads that a client can run: open, closed, a script, pages.
//!
//! Only the vocabulary, checked; squall-load decides when each request is due, and for which user. A warm-up is always
//! the first part of a load, and is included in its length. Each `seed` decides what is random in its load, and nothing
//! else.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Page, ScriptStep, Stage, Stages};
use crate::number::{ParseQuantityError, split_number};
use crate::time::Duration;

/// What a client is to request, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Requests at their times, whatever happens to earlier ones.
    Open(OpenLoad),
    /// Users that wait for each response.
    Closed(ClosedLoad),
    /// What was recorded, at the recorded times.
    Script(ScriptLoad),
    /// Users that load pages.
    Pages(PageLoad),
}

/// An open load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoad {
    /// Its rate over time.
    pub stages: Stages,
    /// How requests are spaced at that rate.
    pub spacing: Spacing,
    /// The first part of the load: recorded, but not part of any statistic.
    pub warmup: Duration,
    /// How long to wait for unfinished requests after the last stage.
    pub drain: Duration,
    /// The requests.
    pub mix: Mix,
    /// Seed of random gaps and of the choice of requests.
    pub seed: u64,
}

impl OpenLoad {
    /// How long the load is active: from its start to the end of its last stage with requests, without trailing pauses. A
    /// load of evenly spaced requests at one constant rate is active at least until the one after the last would be due,
    /// so that n of them take n/rate.
    pub fn active_duration(&self) -> Duration {
        let stages = self.stages.as_slice();
        let has_requests = |stage: &Stage| stage.from.is_some() || stage.to.is_some();
        let last = stages.iter().rposition(has_requests);
        let active = last.map_or(stages, |last| &stages[..=last]);
        let nanos = active.iter().map(|stage| stage.duration.as_nanos());
        let length = Duration::from_nanos(nanos.sum());
        match (active, self.spacing) {
            ([stage], Spacing::Constant) if stage.from == stage.to => {
                stage.from.map_or(length, |rate| {
                    length.max(rate.offset_of(rate.events_in(length)))
                })
            }
            _ => length,
        }
    }
}

/// How the requests of an open load are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Evenly: one whenever the integrated rate has grown by one.
    #[default]
    Constant,
    /// Like those of many independent people: a Poisson process with that rate.
    Poisson,
}

/// A closed load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedLoad {
    /// The users, each with one request at a time.
    pub users: u32,
    /// From the end of a user's request to its next one.
    pub think: ThinkTime,
    /// User k of n begins k/n of this after the start.
    pub starts_over: Duration,
    /// The total number of requests; `None`: as many as the duration allows.
    pub requests: Option<u64>,
    /// For how long new requests are started; `None`: until all are done.
    pub duration: Option<Duration>,
    /// The first part of it.
    pub warmup: Warmup,
    /// How long to wait for unfinished requests when the duration is over.
    pub drain: Duration,
    /// The requests.
    pub mix: Mix,
    /// Seed of random think times and of the choice of requests.
    pub seed: u64,
}

impl ClosedLoad {
    /// A number of users that send the first request again and again, without a pause and without an end.
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
    /// No wait.
    #[default]
    None,
    /// Always this long.
    Constant(Duration),
    /// Any time between the two, all equally likely, both ends included.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

/// The first part of a load with users: recorded, but not part of any statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// Everything that begins within this time.
    Time(Duration),
    /// The first requests, or the first pages of a load of pages.
    First(u64),
}

impl Default for Warmup {
    /// No warm-up.
    fn default() -> Warmup {
        Warmup::First(0)
    }
}

/// A script that clients replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLoad {
    /// What each client sends, and when; a step's request refers to the caller's list.
    pub steps: Vec<ScriptStep>,
    /// The number of clients that replay it.
    pub clients: u32,
    /// Client k starts k times this after the first, whatever the speed.
    pub stagger: Duration,
    /// The replay speed, relative to the recording.
    pub speed: Speed,
    /// How many times each client replays the script.
    pub rounds: Rounds,
    /// No request is due at or after this time from the start; `None`: no limit.
    pub duration: Option<Duration>,
    /// The length of the warm-up, from the start of the load.
    pub warmup: Duration,
    /// How long to wait for unfinished requests after the last one.
    pub drain: Duration,
}

/// How many times a client replays its script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounds {
    /// Once.
    #[default]
    Once,
    /// Again and again.
    Again {
        /// From the start of a round to the next, in the script's own time; at least until its last step. A script that
        /// takes no time is replayed once.
        every: Duration,
        /// The total number of rounds; `None`: until the load's duration is over.
        at_most: Option<u64>,
    },
}

/// How much faster a script is replayed than it was recorded: a ratio, so that times are divided exactly. In text:
/// `10x`, `0.5x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    /// This much of the script's time ...
    pub script: NonZeroU32,
    /// ... passes in this much of the clock's.
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
            return Err(ParseQuantityError::unit(text, unit, EXPECTED, &["x"]));
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

/// A load of users that load a page again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLoad {
    /// The page.
    pub page: Page,
    /// The users, each with one page at a time.
    pub users: u32,
    /// From the end of a user's page to its next one.
    pub think: ThinkTime,
    /// User k of n begins k/n of this after the start.
    pub starts_over: Duration,
    /// The total number of pages; `None`: as many as the duration allows.
    pub pages: Option<u64>,
    /// For how long new pages are started; `None`: until all are done.
    pub duration: Option<Duration>,
    /// The warm-up. All requests of a page belong to the same phase.
    pub warmup: Warmup,
    /// How long to wait for unfinished pages when the duration is over.
    pub drain: Duration,
    /// Seed of random think times.
    pub seed: u64,
}

/// Which of the caller's requests each request of a load is a copy of. In JSON, weights are a list and an order is a
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Mix {
    /// One at random, determined by the load's seed.
    Drawn(Weights),
    /// One after the other, then from the first again; the number is how many there are.
    InOrder(NonZeroU32),
}

/// The relative frequency of each of the caller's requests. At least one is greater than zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Weights(Vec<u32>);

/// Weights that are all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at least one weight must be more than 0")]
pub struct MixError;

impl Mix {
    /// The mix that draws with these weights, in the order of the caller's requests; `None` if all are zero.
    pub fn new(weights: Vec<u32>) -> Option<Mix> {
        Weights::try_from(weights).ok().map(Mix::Drawn)
    }
}

impl Default for Mix {
    /// Always the first request.
    fn default() -> Mix {
        Mix::Drawn(Weights(vec![1]))
    }
}

impl Weights {
    /// The weights, in the order of the caller's requests.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

impl TryFrom<Vec<u32>> for Weights {
    type Error = MixError;

    fn try_from(weights: Vec<u32>) -> Result<Weights, MixError> {
        if weights.iter().any(|weight| *weight > 0) {
            Ok(Weights(weights))
        } else {
            Err(MixError)
        }
    }
}

impl From<Weights> for Vec<u32> {
    fn from(weights: Weights) -> Vec<u32> {
        weights.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Rate;

    #[test]
    fn speeds_parse_as_exact_ratios() {
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

    fn open(stages: Vec<Stage>) -> OpenLoad {
        OpenLoad {
            stages: Stages::new(stages).unwrap(),
            spacing: Spacing::Constant,
            warmup: Duration::ZERO,
            drain: Duration::ZERO,
            mix: Mix::default(),
            seed: 0,
        }
    }

    #[test]
    fn n_evenly_spaced_requests_are_active_for_n_over_the_rate() {
        let ms = Duration::from_millis;
        for (rate, length, active) in [
            ("1/s", ms(2_000), ms(2_000)),
            ("1/s", ms(5_000), ms(5_000)),
            ("1/s", ms(10_000), ms(10_000)),
            // The stage has three requests, the last one due half a second before the end.
            ("1/s", ms(2_500), ms(3_000)),
            ("4/s", ms(600), ms(750)),
            (
                "90/min",
                Duration::from_nanos(3_333_333_333),
                Duration::from_nanos(3_333_333_333),
            ),
        ] {
            let rate: Rate = rate.parse().unwrap();
            let load = open(vec![Stage::constant(rate, length)]);
            assert_eq!(load.active_duration(), active, "{rate} {length}");
            let random = OpenLoad {
                spacing: Spacing::Poisson,
                ..load
            };
            assert_eq!(random.active_duration(), length);
        }
    }

    #[test]
    fn trailing_pauses_do_not_count_in_the_active_duration() {
        let [one, two] = [1, 2].map(Duration::from_secs);
        let ten: Rate = "10/s".parse().unwrap();
        let load = open(vec![
            Stage::pause(one),
            Stage::constant(ten, two),
            Stage::ramp(Some(ten), None, one),
            Stage::pause(two),
        ]);
        assert_eq!(load.active_duration(), Duration::from_secs(4));
        let load = open(vec![Stage::constant(ten, one), Stage::pause(two)]);
        assert_eq!(load.active_duration(), one);
        assert_eq!(open(vec![Stage::pause(one)]).active_duration(), one);
    }

    #[test]
    fn mix_needs_a_positive_weight() {
        assert_eq!((Mix::new(vec![]), Mix::new(vec![0, 0])), (None, None));
        let Some(Mix::Drawn(weights)) = Mix::new(vec![0, 3]) else {
            panic!("it is drawn");
        };
        assert_eq!(weights.as_slice(), [0, 3]);
    }

    #[test]
    fn mixes_are_written_as_lists_of_weights_or_as_counts() {
        let in_order = Mix::InOrder(NonZeroU32::new(6).unwrap());
        for (mix, text) in [(Mix::new(vec![3, 1]).unwrap(), "[3,1]"), (in_order, "6")] {
            assert_eq!(serde_json::to_string(&mix).unwrap(), text);
            assert_eq!(serde_json::from_str::<Mix>(text).unwrap(), mix);
        }
        for text in ["[0,0]", "[]", "0"] {
            assert!(serde_json::from_str::<Mix>(text).is_err(), "{text}");
        }
    }
}
