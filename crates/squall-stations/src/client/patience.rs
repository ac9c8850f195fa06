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
    /// Since when none has, while some were under way.
    silent_since: Time,
}

impl Patience {
    /// For a load that starts at `now`.
    pub(super) fn new(at_most: Duration, now: Time) -> Patience {
        Patience {
            at_most,
            next_look: now + look_every(at_most),
            ended: 0,
            silent_since: now,
        }
    }

    /// When it wants to look again.
    pub(super) fn next_look(&self) -> Time {
        self.next_look
    }

    /// Whether no request has ended for so long although some are under way. Counts are of the whole load.
    pub(super) fn is_over(&mut self, now: Time, ended: u64, under_way: u64) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + look_every(self.at_most);
        if ended != self.ended || under_way == 0 {
            self.ended = ended;
            self.silent_since = now;
        }
        self.silent_since + self.at_most <= now
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

    /// The first of these looks at which it was over; each is a time, how many had ended and how many were under way.
    fn over_at(looks: impl Iterator<Item = (u64, u64, u64)>) -> Option<u64> {
        let mut patience = Patience::new(AT_MOST, Time::ZERO);
        let mut over =
            looks.filter(|(secs, ended, open)| patience.is_over(at(*secs), *ended, *open));
        over.next().map(|(secs, ..)| secs)
    }

    #[test]
    fn silence_ends_it() {
        assert_eq!(over_at((1..60).map(|secs| (secs, 0, 1))), Some(8));
    }

    #[test]
    fn a_request_that_ends_begins_it_anew() {
        let looks = (1..60).map(|secs| (secs, u64::from(secs >= 5), 1));
        assert_eq!(over_at(looks), Some(14), "seen at 6");
        assert_eq!(over_at((1..60).map(|secs| (secs, secs / 7, 1))), None);
    }

    #[test]
    fn who_asks_for_nothing_is_not_silent() {
        assert_eq!(over_at((1..60).map(|secs| (secs, 3, 0))), None);
        let looks = (1..60).map(|secs| (secs, 0, u64::from(secs > 20)));
        assert_eq!(over_at(looks), Some(28));
    }
}
