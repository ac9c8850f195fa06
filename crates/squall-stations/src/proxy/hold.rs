//! The proxy's delay: the head of each response is held for a time before it is passed on, as a filter that computes
//! would.
//!
//! What follows the head waits behind it as it would for room on the client's side, so memory stays bounded. Other
//! exchanges go on meanwhile. Interim responses, and responses that the proxy generates itself, are not held. `relay`
//! passes responses on.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::{Duration, Time};
use squall_http::Response;
use squall_linux::clock;

use super::exchange::ExchangeKey;
use super::relay::Relay;

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

    fn take_due(&mut self, now: Time) -> Option<ExchangeKey> {
        if self.deadline()? > now {
            return None;
        }
        self.due.pop_front().map(|(_, key)| key)
    }
}

impl Relay {
    /// Passes an upstream's response on, now or after the delay.
    pub(super) fn respond_or_hold(&mut self, key: ExchangeKey, response: Arc<Response>) {
        if self.holds.delay == Duration::ZERO {
            self.respond(key, &response);
        } else if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.held = Some(response);
            let due = clock::now() + self.holds.delay;
            self.holds.due.push_back((due, key));
        }
    }

    /// Passes on the responses that are due. An exchange that is over, or was answered otherwise, has nothing left to
    /// pass on.
    pub(super) fn release_held(&mut self) {
        while let Some(key) = self.holds.take_due(self.now) {
            let Some(exchange) = self.exchanges.get_mut(key) else {
                continue;
            };
            exchange.last_progress = self.now;
            if let Some(response) = exchange.held.take() {
                self.respond(key, &response);
                self.pump_down(key);
            }
        }
    }
}
