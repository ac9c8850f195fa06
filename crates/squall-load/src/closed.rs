//! A closed loop: so many users, each of whom asks again as soon as the answer has come.
//!
//! A request is due the moment its user is free, so there is no schedule to be late for: what such a load measures is
//! the system's speed, not the latency that independent users would see.

use squall_base::record::Phase;
use squall_base::{Duration, Time};

use crate::schedule::Arrival;

/// When a closed loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSettings {
    /// Requests at once.
    pub users: u64,
    /// Requests in all; `None`: as many as the duration allows.
    pub requests: Option<u64>,
    /// How long requests are begun; `None`: until all are done.
    pub duration: Option<Duration>,
    /// How long unfinished ones are waited for when the duration is over.
    pub drain: Duration,
}

/// A closed loop under way.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    settings: ClosedSettings,
    start: Time,
    begun: u64,
}

impl ClosedLoop {
    /// A loop whose first requests are due at `start`.
    pub fn new(settings: ClosedSettings, start: Time) -> ClosedLoop {
        ClosedLoop {
            settings,
            start,
            begun: 0,
        }
    }

    /// Requests that have been due so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The next request, if a user is free at `now` while `unfinished` requests are under way.
    pub fn take_due(&mut self, now: Time, unfinished: u64) -> Option<Arrival> {
        if !self.has_due(now, unfinished) {
            return None;
        }
        let arrival = Arrival {
            request: self.begun,
            intended: now,
            phase: Phase::Measure,
        };
        self.begun += 1;
        Some(arrival)
    }

    /// Whether a user is free at `now` while `unfinished` requests are under way, and still asks.
    pub fn has_due(&self, now: Time, unfinished: u64) -> bool {
        now >= self.start && !self.is_over(now) && unfinished < self.settings.users
    }

    /// Whether no request will ever be due again.
    pub fn is_over(&self, now: Time) -> bool {
        let all_begun = self.settings.requests.is_some_and(|all| self.begun >= all);
        all_begun || self.last_begin().is_some_and(|last| now >= last)
    }

    /// When it next matters what time it is.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        match self.last_begin() {
            _ if now < self.start => Some(self.start),
            Some(last) if now < last => Some(last),
            _ => self.deadline(),
        }
    }

    /// When the load gives up on what is unfinished; `None` without a duration.
    pub fn deadline(&self) -> Option<Time> {
        Some(self.last_begin()? + self.settings.drain)
    }

    fn last_begin(&self) -> Option<Time> {
        Some(self.start + self.settings.duration?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000);

    #[test]
    fn there_are_never_more_than_the_users() {
        let settings = ClosedSettings {
            users: 2,
            requests: Some(3),
            duration: None,
            drain: Duration::ZERO,
        };
        let mut closed = ClosedLoop::new(settings, START);
        assert_eq!(closed.take_due(Time::ZERO, 0), None);
        let numbers = |arrival: Option<Arrival>| arrival.map(|a| a.request);
        assert_eq!(numbers(closed.take_due(START, 0)), Some(0));
        assert_eq!(numbers(closed.take_due(START, 1)), Some(1));
        assert_eq!(numbers(closed.take_due(START, 2)), None);
        assert_eq!(numbers(closed.take_due(START, 1)), Some(2));
        assert!(closed.is_over(START));
        assert_eq!(numbers(closed.take_due(START, 0)), None);
        assert_eq!((closed.begun(), closed.deadline()), (3, None));
    }

    #[test]
    fn it_ends_with_its_duration() {
        let settings = ClosedSettings {
            users: 1,
            requests: None,
            duration: Some(Duration::from_secs(1)),
            drain: Duration::from_secs(2),
        };
        let mut closed = ClosedLoop::new(settings, START);
        let last = START + Duration::from_secs(1);
        assert_eq!(closed.next_change(Time::ZERO), Some(START));
        assert_eq!(closed.next_change(START), Some(last));
        assert!(closed.take_due(START, 0).is_some());
        assert!(closed.is_over(last) && closed.take_due(last, 0).is_none());
        assert_eq!(
            closed.next_change(last),
            Some(last + Duration::from_secs(2))
        );
    }
}
