//! When a load that ends by itself never would: none of its requests ends any more.
//!
//! A server that says nothing, or goes on for ever, would hold a load that is so many requests and not so much time. It
//! knows counts and times only: `mod` asks it now and then, and ends the load.

use squall_base::{Duration, Time};

/// How often it looks, in parts of the whole: a load is given up so much too late at most.
const LOOKS: u64 = 4;

/// Waits for requests to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    at_most: Duration,
    next_look: Time,
    /// How many had ended at the last look.
    ended: u64,
    /// The first look since when none has ended and nothing else was to come.
    in_vain_since: Option<Time>,
}

impl Patience {
    /// For a load that starts at `now`.
    pub(super) fn new(at_most: Duration, now: Time) -> Patience {
        Patience {
            at_most,
            next_look: now + look_every(at_most),
            ended: 0,
            in_vain_since: Some(now),
        }
    }

    /// When it wants to look again.
    pub(super) fn next_look(&self) -> Time {
        self.next_look
    }

    /// Looks: `ended` requests have ended so far, and `waits` is whether there is nothing to do but to wait for others.
    /// Gives whether it has been so in vain for too long.
    pub(super) fn is_over(&mut self, now: Time, ended: u64, waits: bool) -> bool {
        self.next_look = now + look_every(self.at_most);
        let is_in_vain = waits && ended == self.ended;
        self.ended = ended;
        self.in_vain_since = match self.in_vain_since {
            Some(since) if is_in_vain => Some(since),
            _ => waits.then_some(now),
        };
        (self.in_vain_since).is_some_and(|since| since + self.at_most <= now)
    }
}

fn look_every(at_most: Duration) -> Duration {
    Duration::from_nanos((at_most.as_nanos() / LOOKS).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_MOST: Duration = Duration::from_secs(8);

    fn at(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    /// When it was over: by second, how many requests had ended, and whether some were waited for.
    fn over_at(load: impl Fn(u64) -> (u64, bool)) -> Option<u64> {
        let mut patience = Patience::new(AT_MOST, Time::ZERO);
        (1..60).find(|&secs| {
            let (ended, waits) = load(secs);
            at(secs) >= patience.next_look() && patience.is_over(at(secs), ended, waits)
        })
    }

    #[test]
    fn waiting_in_vain_ends_it() {
        assert_eq!(over_at(|_| (0, true)), Some(8));
    }

    #[test]
    fn a_request_that_ends_begins_it_anew() {
        let ended_at_5 = |secs| (u64::from(secs >= 5), true);
        assert_eq!(over_at(ended_at_5), Some(14), "seen at 6");
        assert_eq!(over_at(|secs| (secs / 7, true)), None);
    }

    #[test]
    fn who_has_something_to_do_is_not_waiting() {
        assert_eq!(over_at(|_| (3, false)), None);
        let asked_at_21 = |secs| (0, secs >= 21);
        assert_eq!(over_at(asked_at_21), Some(30), "seen at 22");
    }
}
