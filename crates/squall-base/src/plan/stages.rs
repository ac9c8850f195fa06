//! The rate of an open load over time: stages with a constant rate, linear ramps, and pauses.
//!
//! Only the vocabulary, checked to be small enough for exact arithmetic; squall-load computes when each request is due.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quantity::Rate;
use crate::time::Duration;

/// A part of a load whose rate changes linearly, or is constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The rate at its beginning; `None`: no requests.
    pub from: Option<Rate>,
    /// The rate at its end.
    pub to: Option<Rate>,
    /// Its length. A stage of length zero has no requests.
    pub duration: Duration,
}

impl Stage {
    /// A constant rate. Several of these make steps.
    pub const fn constant(rate: Rate, duration: Duration) -> Stage {
        Stage::ramp(Some(rate), Some(rate), duration)
    }

    /// A linear change from one rate to another.
    pub const fn ramp(from: Option<Rate>, to: Option<Rate>, duration: Duration) -> Stage {
        Stage { from, to, duration }
    }

    /// No requests.
    pub const fn pause(duration: Duration) -> Stage {
        Stage::ramp(None, None, duration)
    }
}

/// A sequence of stages whose integrated rate can be computed without rounding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Stage>", into = "Vec<Stage>")]
pub struct Stages {
    stages: Vec<Stage>,
    period: u64,
}

/// Why stages cannot be computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StagesError {
    /// Their rates have no common period of a reasonable length, or are absurdly high.
    #[error("the rates of the stages have no common period, or one is above 2^62 in it")]
    Rates,
    /// They are too long, or have too many requests.
    #[error("the stages take more than 2^64 ns, or have more than 2^64 requests")]
    Length,
}

impl Stages {
    /// The common period is at least this long, so that fractions of a request, which random arrivals need, are
    /// fine-grained: half of 2^-32 of a request.
    const PERIOD_AT_LEAST: u64 = 1 << 32;
    const PERIOD_AT_MOST: u64 = 1 << 62;
    const EVENTS_AT_MOST: u64 = 1 << 62;

    /// Checks `stages`. Rates per second and per minute of at most 10^9 always fit.
    pub fn new(stages: Vec<Stage>) -> Result<Stages, StagesError> {
        let rates = stages.iter().flat_map(|stage| [stage.from, stage.to]);
        let mut period = 1_u64;
        for rate in rates.flatten() {
            let (_, own) = lowest_terms(rate);
            let factor = own / greatest_common_divisor(period, own);
            period = period.checked_mul(factor).ok_or(StagesError::Rates)?;
        }
        if period > Stages::PERIOD_AT_MOST {
            return Err(StagesError::Rates);
        }
        period *= Stages::PERIOD_AT_LEAST.div_ceil(period);
        let stages = Stages { stages, period };
        stages.check()?;
        Ok(stages)
    }

    /// The stages, in their order.
    pub fn as_slice(&self) -> &[Stage] {
        &self.stages
    }

    /// The total duration.
    pub fn duration(&self) -> Duration {
        // The sum fits, or `check` would have failed.
        let nanos = self.stages.iter().map(|stage| stage.duration.as_nanos());
        Duration::from_nanos(nanos.sum())
    }

    /// A period in which each of the rates has a whole number of requests.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Requests in one [`Stages::period`] at `rate`, which must be a rate of these stages.
    pub fn requests_per_period(&self, rate: Option<Rate>) -> u64 {
        self.events(rate).unwrap_or(u64::MAX)
    }

    fn events(&self, rate: Option<Rate>) -> Option<u64> {
        let Some(rate) = rate else { return Some(0) };
        let (events, period) = lowest_terms(rate);
        events.checked_mul(self.period / period)
    }

    fn check(&self) -> Result<(), StagesError> {
        let (mut nanos, mut twice_requests) = (0_u64, 0_u128);
        for stage in &self.stages {
            let duration = stage.duration.as_nanos();
            nanos = nanos.checked_add(duration).ok_or(StagesError::Length)?;
            for rate in [stage.from, stage.to] {
                let events = self.events(rate).ok_or(StagesError::Rates)?;
                if events > Stages::EVENTS_AT_MOST {
                    return Err(StagesError::Rates);
                }
                // Twice the number of a ramp's requests is the sum of its first and last rate times its length.
                twice_requests = u128::from(events)
                    .checked_mul(u128::from(duration))
                    .and_then(|product| twice_requests.checked_add(product))
                    .ok_or(StagesError::Length)?;
            }
        }
        let requests = twice_requests.div_ceil(2 * u128::from(self.period));
        u64::try_from(requests).map_err(|_| StagesError::Length)?;
        Ok(())
    }
}

impl TryFrom<Vec<Stage>> for Stages {
    type Error = StagesError;

    fn try_from(stages: Vec<Stage>) -> Result<Stages, StagesError> {
        Stages::new(stages)
    }
}

impl From<Stages> for Vec<Stage> {
    fn from(stages: Stages) -> Vec<Stage> {
        stages.stages
    }
}

fn lowest_terms(rate: Rate) -> (u64, u64) {
    let (events, period) = (rate.events(), rate.period().as_nanos());
    let divisor = greatest_common_divisor(events, period);
    (events / divisor, period / divisor)
}

/// Euclid's algorithm, for positive numbers.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Option<Rate> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn rates_per_second_and_per_minute_have_a_common_period() {
        let hour = Duration::from_secs(3_600);
        let (slow, fast) = (rate("7/min"), rate("1000000000/s"));
        let stages = Stages::new(vec![Stage::ramp(slow, fast, hour), Stage::pause(hour)]).unwrap();
        assert_eq!(stages.duration(), Duration::from_secs(7_200));
        assert!(stages.period() >= Duration::from_nanos(1 << 32));
        let ratio = stages.requests_per_period(fast) / stages.requests_per_period(slow);
        assert_eq!(ratio, 60 * 1_000_000_000 / 7);
        assert_eq!(stages.requests_per_period(None), 0);
    }

    #[test]
    fn stages_that_cannot_be_computed_exactly_are_refused() {
        let refused = |stages| Stages::new(stages).unwrap_err();
        let second = Duration::from_secs(1);
        let odd = |period| Rate::new(1, Duration::from_nanos(period));
        // Their rates are two large primes.
        let primes = Stage::ramp(odd(4_294_967_291), odd(4_294_967_279), second);
        assert_eq!(refused(vec![primes]), StagesError::Rates);
        let absurd = Rate::new(u64::MAX, second).unwrap();
        assert_eq!(
            refused(vec![Stage::constant(absurd, second)]),
            StagesError::Rates
        );
        let endless = Stage::pause(Duration::from_nanos(u64::MAX));
        assert_eq!(
            refused(vec![endless, Stage::pause(second)]),
            StagesError::Length
        );
        let many = Rate::new(1 << 30, Duration::from_nanos(1)).unwrap();
        let long = Duration::from_secs(1 << 30);
        assert_eq!(
            refused(vec![Stage::constant(many, long)]),
            StagesError::Length
        );
    }
}
