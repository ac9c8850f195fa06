//! The proxy's delay: the head of each response is held for a time before it is passed on, as a filter that computes
//! would.
//!
//! The rest of the response waits as it would for room on the client's side, so memory stays bounded. Other exchanges
//! go on meanwhile. Interim responses, and responses that the proxy generates itself, are not held. `relay` passes
//! responses on.

use std::collections::VecDeque;

use squall_base::{Duration, Time};

use super::keys::ExchangeKey;

/// Exchanges whose responses are held, by due time.
#[derive(Debug, Default)]
pub(super) struct HeldResponses {
    delay: Duration,
    due: VecDeque<(Time, ExchangeKey)>,
}

impl HeldResponses {
    pub(super) fn new(delay: Duration) -> HeldResponses {
        HeldResponses {
            delay,
            due: VecDeque::new(),
        }
    }

    /// When the next response is due to be passed on.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.front().map(|&(due, _)| due)
    }

    /// Whether responses are held at all.
    pub(super) fn has_delay(&self) -> bool {
        !self.delay.is_zero()
    }

    /// Holds the response of an exchange that arrived now.
    pub(super) fn add(&mut self, key: ExchangeKey, now: Time) {
        self.due.push_back((now + self.delay, key));
    }

    /// The next exchange whose response is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<ExchangeKey> {
        if self.deadline()? > now {
            return None;
        }
        self.due.pop_front().map(|(_, key)| key)
    }
}
