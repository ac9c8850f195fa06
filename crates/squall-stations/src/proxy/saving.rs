//! Frees memory when the proxy's connections hold too much for their peers, by giving up those that hold the most.
//!
//! The earlier measures are elsewhere: reading less from each connection in `front` and `back`, and refusing requests in
//! `relay`. `crate::memory` has the limits.

use super::Connections;
use super::keys::FrontKey;
use super::settings::Failure;
use crate::memory;

impl Connections {
    /// While client connections hold too much, closes the one that holds the most. While too many response bytes wait for
    /// clients, ends the exchange with the most. Returns whether it gave up anything.
    pub(super) fn save_memory(&mut self) -> bool {
        let mut closed = 0;
        while self.relay.fronts.memory.is_exceeded()
            && let Some(at) = self.relay.fronts.largest()
        {
            self.close_front(at);
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

    /// Closes a client's connection in such a way that the client does not take a cut response for a complete one.
    fn close_front(&mut self, at: FrontKey) {
        if let FrontKey::Tcp(id) = at
            && let Some(front) = self.relay.fronts.tcp_mut(id)
        {
            front.is_cut_off = true;
        }
        for key in self.relay.fronts.open_exchanges(at) {
            if let Some(exchange) = self.relay.exchanges.get_mut(key)
                && exchange.request.is_some()
                && !exchange.down.is_closed
            {
                // The proxy ends this exchange, so it must not count as cancelled by the client.
                exchange.down.is_closed = true;
                let failures = &mut self.relay.report.failures;
                *failures.entry(Failure::TooMuchHeld).or_default() += 1;
            }
        }
        match at {
            FrontKey::Tcp(id) => self.drop_front(id),
            FrontKey::Quic {
                listener,
                connection,
            } => {
                let open = self.relay.fronts.give_up_quic(listener, connection);
                self.relay.abandon(open);
            }
        }
    }
}
