//! Decides when to look for requests that have taken too long ([`super::ClientSettings::request_timeout`]).
//!
//! It knows only times; `dispatch` looks, and `connection` cancels. It keeps no timer per request: all have the same
//! time limit, so it is enough to check when the oldest one reaches it.

use squall_base::record::Outcome;
use squall_base::{Duration, Time};

use super::requests::RequestFailure;

/// Requests that reach their limit within this time are cancelled together, at most this much too late.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The time limit of each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimeout {
    /// Counted from when the request was due; `None`: no limit.
    at_most: Option<Duration>,
    /// When the oldest request reaches its limit, if there is one.
    next_look: Option<Time>,
}

impl RequestTimeout {
    pub(super) fn new(at_most: Option<Duration>) -> RequestTimeout {
        RequestTimeout {
            at_most,
            next_look: None,
        }
    }

    /// When to look for overdue requests next.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Notes a request that was due at `intended`.
    pub(super) fn watch(&mut self, intended: Time) {
        if let Some(at_most) = self.at_most {
            let end = intended + at_most;
            self.next_look = Some(self.next_look.map_or(end, |next| next.min(end)));
        }
    }

    /// The latest due time that is overdue at `now`: requests due then or earlier have timed out. `None` if no look is due.
    pub(super) fn overdue(&self, now: Time) -> Option<Time> {
        self.next_look.filter(|next| *next <= now)?;
        let nanos = now.as_nanos().checked_sub(self.at_most?.as_nanos())?;
        Some(Time::from_nanos(nanos))
    }

    /// Notes that overdue requests were looked for at `now`. `oldest` is when the oldest remaining request was due.
    pub(super) fn looked(&mut self, now: Time, oldest: Option<Time>) {
        let next = oldest.zip(self.at_most);
        self.next_look = next.map(|(due, at_most)| (due + at_most).max(now + MIN_LOOK_INTERVAL));
    }

    /// The failure that overdue requests end with.
    pub(super) fn failure(&self) -> RequestFailure {
        let at_most = self.at_most.unwrap_or_default();
        let message = format!("no complete response within {at_most}");
        RequestFailure::new(Outcome::TimedOut, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn timeouts_are_checked_when_the_oldest_request_is_overdue() {
        let mut timeout = RequestTimeout::new(Some(Duration::from_millis(100)));
        assert_eq!(
            (timeout.next_look(), timeout.overdue(at(500))),
            (None, None)
        );
        timeout.watch(at(20));
        timeout.watch(at(30));
        timeout.watch(at(10));
        assert_eq!(timeout.next_look(), Some(at(110)));
        assert_eq!(timeout.overdue(at(109)), None);
        assert_eq!(timeout.overdue(at(112)), Some(at(12)));
        timeout.looked(at(112), Some(at(20)));
        assert_eq!(timeout.next_look(), Some(at(120)));
        // Looks are at least 1 ms apart, so requests that time out shortly after each other share one.
        timeout.looked(at(120), Some(at(20)));
        assert_eq!(timeout.next_look(), Some(at(121)));
        timeout.looked(at(130), None);
        assert_eq!(timeout.next_look(), None);
    }

    #[test]
    fn without_a_time_limit_nothing_is_checked() {
        let mut timeout = RequestTimeout::new(None);
        timeout.watch(at(1));
        assert_eq!(timeout.next_look(), None);
        timeout.looked(at(1), Some(at(1)));
        assert_eq!(timeout.next_look(), None);
    }
}
