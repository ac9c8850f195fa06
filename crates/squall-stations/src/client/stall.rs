//! Decides when to give up a load whose open requests never end.
//!
//! A server that stays silent, or sends forever, would hold up a load that is limited by a number of requests rather
//! than by time. This module knows only counts and times; `mod` asks it now and then, and ends the load.

use squall_base::{Duration, Time};

/// Number of checks within the time limit: a load is given up at most a quarter of it too late.
const CHECKS: u64 = 4;

/// Waits for requests to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallTimeout {
    at_most: Duration,
    next_check: Time,
    /// How many requests had ended at the last check.
    ended: u64,
    /// Since when no request has ended although nothing was left to do but wait; `None` while something else is left.
    stalled_since: Option<Time>,
}

impl StallTimeout {
    /// A timeout for a load that starts at `now`.
    pub(super) fn new(at_most: Duration, now: Time) -> StallTimeout {
        StallTimeout {
            at_most,
            next_check: now + check_interval(at_most),
            ended: 0,
            stalled_since: Some(now),
        }
    }

    /// When to check next.
    pub(super) fn next_check(&self) -> Time {
        self.next_check
    }

    /// Checks for progress. `ended` is how many requests have ended so far; `is_waiting` is whether nothing is left to do
    /// but wait for the rest. Returns whether the load has waited for too long.
    pub(super) fn has_expired(&mut self, now: Time, ended: u64, is_waiting: bool) -> bool {
        self.next_check = now + check_interval(self.at_most);
        let is_stalled = is_waiting && ended == self.ended;
        self.ended = ended;
        self.stalled_since = match self.stalled_since {
            Some(since) if is_stalled => Some(since),
            _ => is_waiting.then_some(now),
        };
        (self.stalled_since).is_some_and(|since| since + self.at_most <= now)
    }
}

fn check_interval(at_most: Duration) -> Duration {
    Duration::from_nanos((at_most.as_nanos() / CHECKS).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_MOST: Duration = Duration::from_secs(8);

    fn at(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    /// The second in which the load was given up. `load` returns, by second, how many requests had ended and whether the
    /// load only waited for the rest.
    fn over_at(load: impl Fn(u64) -> (u64, bool)) -> Option<u64> {
        let mut timeout = StallTimeout::new(AT_MOST, Time::ZERO);
        (1..60).find(|&secs| {
            let (ended, is_waiting) = load(secs);
            at(secs) >= timeout.next_check() && timeout.has_expired(at(secs), ended, is_waiting)
        })
    }

    #[test]
    fn load_without_progress_is_given_up() {
        assert_eq!(over_at(|_| (0, true)), Some(8));
    }

    #[test]
    fn ended_request_restarts_the_waiting_time() {
        let ended_at_5 = |secs| (u64::from(secs >= 5), true);
        assert_eq!(over_at(ended_at_5), Some(14), "seen at 6");
        assert_eq!(over_at(|secs| (secs / 7, true)), None);
    }

    #[test]
    fn load_with_something_to_do_is_not_waiting() {
        assert_eq!(over_at(|_| (3, false)), None);
        let asked_at_21 = |secs| (0, secs >= 21);
        assert_eq!(over_at(asked_at_21), Some(30), "seen at 22");
    }
}
