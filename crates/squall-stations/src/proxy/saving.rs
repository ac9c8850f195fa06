//! What the proxy gives up when its connections hold too much for their peers: whatever holds the most.
//!
//! Long before that, less is read from each connection (`front`, `back`) and requests are refused (`relay`).
//! `crate::memory` has the limits.

use super::Connections;
use super::exchange::ExchangeKey;
use super::settings::Failure;
use crate::memory;

impl Connections {
    /// While client connections hold too much, closes those that hold the most. While too much of responses waits for clients,
    /// ends the exchanges with the most bytes waiting. Returns whether there were any.
    pub(super) fn save_memory(&mut self) -> bool {
        let mut closed = 0;
        while self.relay.fronts.memory.is_exceeded()
            && let Some(id) = self.relay.fronts.largest()
        {
            self.close_front(id);
            closed += 1;
        }
        while self.relay.backs.memory.is_exceeded()
            && let Some(key) = self.relay.exchanges.longest_wait()
        {
            self.relay.give_up_response(key, Failure::TooMuchHeld);
            closed += 1;
        }
        if closed > 0 {
            let errors = &mut self.relay.report.machine_errors;
            *errors.entry(memory::CLOSED.to_owned()).or_default() += closed;
        }
        closed > 0
    }

    /// Closes a client's connection so that its client takes no response on it for complete.
    fn close_front(&mut self, id: u32) {
        let Some(front) = self.relay.fronts.tcp_mut(id) else {
            return;
        };
        front.is_cut_off = true;
        let open: Vec<ExchangeKey> = front.open.streams.iter().map(|(_, key)| *key).collect();
        for key in open {
            if let Some(exchange) = self.relay.exchanges.get_mut(key)
                && exchange.request.is_some()
                && !exchange.down.is_closed
            {
                // The client is not to blame for this end, as it would be for that of a connection that it closed.
                exchange.down.is_closed = true;
                let failures = &mut self.relay.report.failures;
                *failures.entry(Failure::TooMuchHeld).or_default() += 1;
            }
        }
        self.drop_front(id);
    }
}
