//! How exchanges end, on either side, well or badly; and what follows for the other side.
//!
//! A request goes to another connection only if that is safe: it certainly was not acted on, or doing it twice is as good
//! as once and nothing of an answer came (RFC 9110, section 9.2.2).

use squall_base::Time;
use squall_base::plan::Version;
use squall_http::StreamId;
use squall_linux::clock;

use super::Core;
use super::access::entry;
use super::back::At;
use super::exchange::{Back, Exchange, Key};
use super::front::{FrontAt, Why};
use super::settings::Failure;

/// How often a request is given to an upstream in all.
const MAX_ATTEMPTS: u32 = 3;

impl Core {
    /// The client wants no answer any more.
    pub(super) fn client_gone(&mut self, key: Key, code: Option<u64>) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        if exchange.request.is_some() && !exchange.down.is_closed {
            *self.report.failures.entry(Failure::ClientGone).or_default() += 1;
        }
        self.cancel_back(key);
        self.finish_front(key, code, clock::now());
    }

    /// The client's request breaks the protocol, and its stream was given up.
    pub(super) fn client_broke(&mut self, key: Key, code: Option<u64>) {
        *self.report.failures.entry(Failure::BadRequest).or_default() += 1;
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.down.is_closed = true;
        }
        self.client_gone(key, code);
    }

    /// Takes an exchange from its upstream.
    pub(super) fn cancel_back(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let back = std::mem::replace(&mut exchange.back, Back::Over);
        let dropped = exchange.down.close();
        if let Some((at, stream)) = exchange.came_over {
            self.backs.consume(at, stream, dropped);
            self.backs.drop_backlog(at, dropped);
        }
        if let Some(lane) = back.lane() {
            self.backs.leave(lane);
        }
        match back {
            Back::Opening { at } => {
                if let Some(connection) = self.backs.connection_mut(at) {
                    connection.first = None;
                }
                self.backs.settle(at);
            }
            Back::Sent { at, stream } => {
                let code = self.backs.reset(at, stream);
                self.record_back(key, (at, stream), code);
            }
            // In the queue of its lane its key finds nothing to send.
            Back::Waiting { .. } | Back::Nowhere | Back::Over => {}
        }
    }

    /// What still comes of a request is not wanted.
    pub(super) fn discard_request(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let dropped = exchange.up.close();
        if let Some((front, stream)) = exchange.front {
            self.fronts.consume(front, stream, dropped);
            self.fronts.drop_backlog(front, dropped);
        }
    }

    /// The exchange is over on the side of its upstream, which has answered; early, if not all of the request was taken.
    pub(super) fn finish_back(&mut self, key: Key, reset: Option<u64>, is_early: bool) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Back::Sent { at, stream } = exchange.back else {
            return;
        };
        if is_early {
            self.backs.reset(at, stream);
        } else if let Some(connection) = self.backs.connection_mut(at) {
            connection.streams.remove(stream);
        }
        self.finish_back_record(key, (at, stream), reset);
        self.forget_if_over(key);
    }

    /// The exchange has left its upstream.
    pub(super) fn finish_back_record(&mut self, key: Key, at: (At, StreamId), reset: Option<u64>) {
        self.record_back(key, at, reset);
        self.backs.leave(at.0.lane);
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.back = Back::Over;
        }
    }

    fn record_back(&mut self, key: Key, (at, stream): (At, StreamId), reset: Option<u64>) {
        if self.backs.log.wants_exchanges()
            && let Some(exchange) = self.exchanges.get_mut(key)
        {
            let whose = self.backs.whose(at, stream);
            let row = exchange.record(self.backs.log.hop(), whose, reset);
            self.backs.log.exchange(row);
        }
    }

    /// The exchange is over on the side of its client.
    pub(super) fn finish_front(&mut self, key: Key, reset: Option<u64>, now: Time) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Some((at, stream)) = exchange.front.take() else {
            return;
        };
        let dropped = exchange.up.close();
        if self.fronts.log.wants_exchanges() {
            let whose = self.fronts.whose(at, stream);
            let row = exchange.record(self.fronts.log.hop(), whose, reset);
            self.fronts.log.exchange(row);
        }
        if let Some(access) = &mut self.access
            && let Some(peer) = address(&mut self.fronts, at)
        {
            let protocol = self.fronts.whose(at, stream).protocol;
            access.write(&entry(exchange, (peer, protocol), now));
        }
        self.fronts.forget(at, stream);
        self.fronts.drop_backlog(at, dropped);
        self.forget_if_over(key);
        self.serve_next(at);
    }

    /// HTTP/1.1: the next of the pipelined requests has its turn.
    fn serve_next(&mut self, at: FrontAt) {
        let FrontAt::Tcp(id) = at else {
            return;
        };
        let Some(front) = self.fronts.tcp_mut(id) else {
            return;
        };
        if front.version() != Version::Http1 {
            return;
        }
        front.is_serving = false;
        while let Some(next) = front.waiting.pop_front() {
            if self.exchanges.get_mut(next).is_some() {
                front.is_serving = true;
                if front.wants_to_go_on() {
                    self.fronts.hungry.push(id);
                }
                self.begin(next);
                return;
            }
        }
    }

    /// Its state goes with its last side.
    fn forget_if_over(&mut self, key: Key) {
        let is_over = |exchange: &mut Exchange| {
            exchange.front.is_none() && matches!(exchange.back, Back::Over | Back::Nowhere)
        };
        if self.exchanges.get_mut(key).is_some_and(is_over) {
            self.exchanges.remove(key);
        }
    }

    /// An upstream has lost an exchange, which is not there any more. It is sent again if that is safe; else the client is
    /// told, if it has not heard anything of an answer, or sees that it is cut off.
    pub(super) fn lost(
        &mut self,
        key: Key,
        failure: Failure,
        can_repeat: impl FnOnce(&mut Exchange) -> bool,
    ) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        if exchange.front.is_some()
            && !exchange.is_answered
            && exchange.attempts < MAX_ATTEMPTS
            && can_repeat(exchange)
        {
            exchange.back = Back::Nowhere;
            self.report.retries += 1;
            self.begin(key);
            return;
        }
        self.give_up_answer(key, failure);
    }

    /// There will be no whole answer of an upstream.
    pub(super) fn give_up_answer(&mut self, key: Key, failure: Failure) {
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
                Failure::ClientIdle => 408,
                Failure::BadRequest => 400,
                _ => 502,
            };
            self.answer(key, status, Some(failure));
            return;
        }
        *self.report.failures.entry(failure).or_default() += 1;
        let has_length = exchange.has_length;
        if let FrontAt::Tcp(id) = front
            && let Some(front) = self.fronts.tcp_mut(id)
            && front.version() == Version::Http1
        {
            // An HTTP/1.0 client takes a proper end of the connection for that of the body.
            front.is_cut |= !has_length;
        }
        let code = self.fronts.reset(front, stream, Why::CutOff);
        self.finish_front(key, Some(code), clock::now());
    }

    /// A connection to an upstream is over.
    pub(super) fn fail_back(&mut self, at: At, failure: Failure) {
        let Some(mut connection) = self.backs.remove(at) else {
            return;
        };
        let log = &mut self.backs.log;
        connection.transport.sample(connection.number, true, log);
        connection.transport.count_settings(&mut log.counts);
        log.keys(connection.transport.take_key_log());
        let failure = match connection.is_given_up {
            true => Failure::UpstreamClosed,
            false => failure,
        };
        let is_reused = connection.submitted > 1;
        let first = connection.first.take();
        let open: Vec<(StreamId, Key)> = connection.streams.drain().collect();
        connection.transport.close(&mut self.back_inbox);
        let last = &self.back_inbox.frames;
        (self.backs.log).frames(connection.number, clock::now(), last);
        self.back_inbox.clear();
        if let Some(key) = first {
            self.backs.leave(at.lane);
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.back = Back::Over;
            }
            // Nothing of it was sent: another upstream may have it, each once.
            let upstreams = self.backs.lanes.len();
            let can_repeat = |exchange: &mut Exchange| (exchange.attempts as usize) < upstreams;
            self.lost(key, failure, can_repeat);
        }
        for (stream, key) in open {
            self.finish_back_record(key, (at, stream), None);
            let can_repeat = |exchange: &mut Exchange| is_reused && exchange.is_repeatable();
            self.lost(key, failure, can_repeat);
        }
    }

    /// The streams of a client's connection that is over.
    pub(super) fn abandon(&mut self, open: Vec<(StreamId, Key)>) {
        for (_, key) in open {
            self.client_gone(key, None);
        }
    }
}

fn address(fronts: &mut super::front::Fronts, at: FrontAt) -> Option<std::net::SocketAddr> {
    match at {
        FrontAt::Tcp(id) => fronts.tcp_mut(id).map(|front| front.address),
        FrontAt::Quic {
            listener,
            connection,
        } => fronts.quic_mut(listener)?.address(connection),
    }
}
