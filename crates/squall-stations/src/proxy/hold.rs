//! The delay of a proxy: the head of each response is held for a time before it is passed on, as by a filter that computes.
//!
//! What follows the head waits behind it as for room on the client's side, so memory stays as bounded as ever. Other
//! exchanges go on meanwhile. Interim responses, and what the proxy answers by itself, are not held. How responses are passed
//! on is in `relay`.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::{Duration, Time};
use squall_http::Response;
use squall_linux::clock;

use super::Core;
use super::exchange::Key;

/// Exchanges whose responses are held, in the order in which they are due.
#[derive(Debug, Default)]
pub(super) struct Holds {
    delay: Duration,
    due: VecDeque<(Time, Key)>,
}

impl Holds {
    pub(super) fn new(delay: Duration) -> Holds {
        Holds {
            delay,
            due: VecDeque::new(),
        }
    }

    /// When the next response is passed on.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.front().map(|&(due, _)| due)
    }

    fn take_due(&mut self, now: Time) -> Option<Key> {
        if self.deadline()? > now {
            return None;
        }
        self.due.pop_front().map(|(_, key)| key)
    }
}

impl Core {
    /// Passes an upstream's answer on, now or when it was held.
    pub(super) fn respond_or_hold(&mut self, key: Key, response: Arc<Response>) {
        if self.holds.delay == Duration::ZERO {
            self.respond(key, &response);
        } else if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.held = Some(response);
            let due = clock::now() + self.holds.delay;
            self.holds.due.push_back((due, key));
        }
    }

    /// Passes on what was held long enough. An exchange that is over, or was answered otherwise,
    /// has nothing left to pass on.
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
