//! How exchanges end, on either side, successfully or not, and what follows for the other side.
//!
//! A request moves to another connection only if that is safe: it was certainly not processed, or it is idempotent and
//! no part of a response has arrived (RFC 9110, section 9.2.2).

use squall_base::Time;
use squall_base::plan::Version;
use squall_http::{Inbox, StreamId};
use squall_linux::clock;

use super::access::entry;
use super::exchange::{BackState, ProxyExchange};
use super::front::ResetReason;
use super::keys::{BackKey, ExchangeKey, FrontKey};
use super::relay::Relay;
use super::settings::Failure;

/// Most attempts to send a request to an upstream.
const MAX_ATTEMPTS: u32 = 3;

impl Relay {
    /// Ends an exchange whose client no longer wants a response.
    pub(super) fn abort(&mut self, key: ExchangeKey, code: Option<u64>) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        if exchange.request.is_some() && !exchange.down.is_closed {
            *self.report.failures.entry(Failure::ClientGone).or_default() += 1;
        }
        self.cancel_back(key);
        self.finish_front(key, code, clock::now());
    }

    /// Ends an exchange whose request violates the protocol and whose stream was reset.
    pub(super) fn abort_broken_request(&mut self, key: ExchangeKey, code: Option<u64>) {
        *self.report.failures.entry(Failure::BadRequest).or_default() += 1;
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.down.is_closed = true;
        }
        self.abort(key, code);
    }

    /// Withdraws an exchange from its upstream.
    pub(super) fn cancel_back(&mut self, key: ExchangeKey) {
        let back = self.leave_back(key);
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let dropped = exchange.down.close();
        if let Some((at, stream)) = exchange.upstream_stream {
            self.backs.consume(at, stream, dropped);
            self.backs.drop_backlog(at, dropped);
        }
        match back {
            BackState::Opening { at } => {
                if let Some(connection) = self.backs.connection_mut(at) {
                    connection.dialed.first = None;
                }
                self.backs.settle(at);
            }
            BackState::Sent { at, stream } => {
                let code = self.backs.reset(at, stream);
                self.record_back(key, at, stream, code);
            }
            // The upstream's queue still has the key, which will find no exchange to send.
            BackState::Waiting { upstream } => {
                let waiting = &mut self.backs.pools.get_mut(upstream).waiting;
                waiting.note_gone(|key| self.exchanges.waits(key, upstream));
            }
            BackState::Unassigned | BackState::Over => {}
        }
    }

    /// Notes that an exchange is over on the upstream side. Returns the state that it had there.
    pub(super) fn leave_back(&mut self, key: ExchangeKey) -> BackState {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return BackState::Over;
        };
        let was = std::mem::replace(&mut exchange.back, BackState::Over);
        self.backs.leave(was, exchange.client);
        was
    }

    /// Discards the rest of a request.
    pub(super) fn discard_request(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let dropped = exchange.up.close();
        if let Some((front, stream)) = exchange.front {
            self.fronts.consume(front, stream, dropped);
            self.fronts.drop_backlog(front, dropped);
        }
    }

    /// Ends the exchange on the upstream side after the response; early, if the upstream did not take the whole
    /// request.
    pub(super) fn finish_back(&mut self, key: ExchangeKey, reset: Option<u64>, is_early: bool) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let BackState::Sent { at, stream } = exchange.back else {
            return;
        };
        if is_early {
            self.backs.reset(at, stream);
        } else if let Some(connection) = self.backs.connection_mut(at) {
            connection.streams.remove(stream);
        }
        self.finish_back_record(key, at, stream, reset);
        self.forget_if_over(key);
    }

    /// Records that the exchange has left its upstream.
    pub(super) fn finish_back_record(
        &mut self,
        key: ExchangeKey,
        at: BackKey,
        stream: StreamId,
        reset: Option<u64>,
    ) {
        self.record_back(key, at, stream, reset);
        self.leave_back(key);
    }

    fn record_back(&mut self, key: ExchangeKey, at: BackKey, stream: StreamId, reset: Option<u64>) {
        if self.backs.log.wants_exchanges()
            && let Some(exchange) = self.exchanges.get_mut(key)
        {
            let owner = self.backs.owner(at, stream);
            let row = exchange.record(self.backs.log.hop(), owner, reset);
            self.backs.log.record_exchange(row);
        }
    }

    /// Ends the exchange on the client side.
    pub(super) fn finish_front(&mut self, key: ExchangeKey, reset: Option<u64>, now: Time) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Some((at, stream)) = exchange.front.take() else {
            return;
        };
        let dropped = exchange.up.close();
        if self.fronts.log.wants_exchanges() {
            let owner = self.fronts.owner(at, stream);
            let row = exchange.record(self.fronts.log.hop(), owner, reset);
            self.fronts.log.record_exchange(row);
        }
        if let Some(access) = &mut self.access
            && let Some(peer) = self.fronts.address(at)
        {
            let protocol = self.fronts.owner(at, stream).protocol;
            access.write(&entry(exchange, peer, protocol, now));
        }
        self.fronts.forget(at, stream);
        self.fronts.drop_backlog(at, dropped);
        self.forget_if_over(key);
        self.serve_next(at);
    }

    /// HTTP/1.1: starts the next of the pipelined requests.
    fn serve_next(&mut self, at: FrontKey) {
        let FrontKey::Tcp(id) = at else {
            return;
        };
        let is_scarce = self.fronts.memory.is_scarce();
        let Some(front) = self.fronts.tcp_mut(id) else {
            return;
        };
        if front.version() != Version::Http1 {
            return;
        }
        front.is_serving = false;
        while let Some(next) = front.waiting.pop_front() {
            let exchange = self.exchanges.get_mut(next);
            // The proxy may have answered it already: its body did not arrive in time.
            if exchange.is_some_and(|exchange| !exchange.is_answered) {
                front.is_serving = true;
                if front.may_read(is_scarce) {
                    self.fronts.pending_reads.push(id);
                }
                self.begin(next);
                return;
            }
        }
    }

    /// Removes the exchange when both sides are over.
    fn forget_if_over(&mut self, key: ExchangeKey) {
        let is_over = |exchange: &mut ProxyExchange| {
            exchange.front.is_none()
                && matches!(exchange.back, BackState::Over | BackState::Unassigned)
        };
        if self.exchanges.get_mut(key).is_some_and(is_over) {
            self.exchanges.remove(key);
        }
    }

    /// Handles an exchange that failed at its upstream and is no longer there. The request is retried if that is safe.
    /// Otherwise the client gets an error response, or is cut off if part of a response has already been passed on.
    pub(super) fn retry_or_give_up(
        &mut self,
        key: ExchangeKey,
        failure: Failure,
        can_repeat: impl FnOnce(&mut ProxyExchange) -> bool,
    ) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        if exchange.front.is_some()
            && !exchange.is_answered
            && exchange.attempts < MAX_ATTEMPTS
            && can_repeat(exchange)
        {
            exchange.back = BackState::Unassigned;
            self.report.retries += 1;
            self.begin(key);
            return;
        }
        self.give_up_response(key, failure);
    }

    /// Ends the wait for a complete response from an upstream.
    pub(super) fn give_up_response(&mut self, key: ExchangeKey, failure: Failure) {
        self.cancel_back(key);
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Some((front, stream)) = exchange.front else {
            self.forget_if_over(key);
            return;
        };
        if !exchange.is_answered {
            let status = match failure {
                Failure::ConnectTimeout | Failure::AnswerTimeout => 504,
                Failure::ClientIdle | Failure::ClientSlow => 408,
                Failure::BadRequest => 400,
                Failure::TooMuchHeld | Failure::NoResources => 503,
                _ => 502,
            };
            self.answer(key, status, Some(failure));
            return;
        }
        *self.report.failures.entry(failure).or_default() += 1;
        let has_length = exchange.has_length;
        if let FrontKey::Tcp(id) = front
            && let Some(front) = self.fronts.tcp_mut(id)
            && front.version() == Version::Http1
        {
            // An HTTP/1.0 client takes a clean end of the connection for the end of the body.
            front.is_cut_off |= !has_length;
        }
        let code = self.fronts.reset(front, stream, ResetReason::CutOff);
        self.finish_front(key, Some(code), clock::now());
    }

    /// Handles the end of a connection to an upstream.
    pub(super) fn fail_back(&mut self, at: BackKey, failure: Failure) {
        let Some(mut connection) = self.backs.remove(at) else {
            return;
        };
        let log = &mut self.backs.log;
        let (number, transport) = (connection.dialed.number, &mut connection.dialed.transport);
        transport.sample(number, true, log);
        transport.count_settings(&mut log.counts);
        log.record_keys(transport.take_key_log());
        let failure = if connection.is_given_up {
            Failure::UpstreamClosed
        } else {
            failure
        };
        let is_reused = connection.submitted > 1;
        let first = connection.dialed.first.take();
        let open: Vec<(StreamId, ExchangeKey)> = connection.streams.drain().collect();
        let mut inbox = Inbox::new(self.backs.wants);
        connection.dialed.transport.close(&mut inbox);
        (self.backs.log).record_frames(number, clock::now(), &inbox.frames);
        if let Some(key) = first {
            self.leave_back(key);
            // Nothing was sent, so the request may try each of the other upstreams once.
            let upstreams = self.backs.pools.len();
            let can_repeat =
                |exchange: &mut ProxyExchange| (exchange.attempts as usize) < upstreams;
            self.retry_or_give_up(key, failure, can_repeat);
        }
        for (stream, key) in open {
            self.finish_back_record(key, at, stream, None);
            let can_repeat = |exchange: &mut ProxyExchange| is_reused && exchange.is_repeatable();
            self.retry_or_give_up(key, failure, can_repeat);
        }
    }

    /// Abandons the streams of a client's connection that is over.
    pub(super) fn abandon(&mut self, open: Vec<(StreamId, ExchangeKey)>) {
        for (_, key) in open {
            self.abort(key, None);
        }
    }
}
