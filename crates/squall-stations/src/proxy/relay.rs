//! Acts on events: passes each from one side to the other, as far as there is room there.
//!
//! A body waits here only for room on the other side, and its sender gets no new window, or is not read from, until the
//! body has left. `ends` handles failures.

use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Protocol, Version};
use squall_base::record::{Beginning, Way};
use squall_http::{
    Body, Bytes, ClientEvent, Field, Interim, MessageError, Request, RequestLine, Response, Scheme,
    ServerEvent, StreamId, Trailers, WireExtent, traced_request,
};
use squall_linux::clock;

use super::back::Backs;
use super::canned::{self, Canned};
use super::event_batch::EventBatch;
use super::exchange::{BackState, ProxyExchange, ProxyExchanges, REFUSED};
use super::front::{Fronts, ResetReason};
use super::headers::{self, IdGenerator};
use super::hold::HeldResponses;
use super::keys::{BackKey, ExchangeKey, FrontKey};
use super::queue::{ClientHost, WaitingRequest};
use super::settings::{Failure, ProxyReport};
use crate::request_head::RequestHead;
use crate::server::AccessLog;

/// REFUSED_STREAM (RFC 9113, section 7): the request was not processed.
const REFUSED_STREAM: u64 = 0x7;

/// Passes messages between the two sides; holds both sides' connections, the open exchanges, and what passing them on
/// takes. `connections` reads and writes the sockets.
pub(super) struct Relay {
    pub(super) fronts: Fronts,
    pub(super) backs: Backs,
    pub(super) exchanges: ProxyExchanges,
    pub(super) holds: HeldResponses,
    pub(super) upstream_protocol: Protocol,
    /// The authority for requests that name none.
    pub(super) authority: String,
    pub(super) ids: IdGenerator,
    pub(super) canned: Canned,
    pub(super) access: Option<AccessLog>,
    pub(super) report: ProxyReport,
    /// When this turn began.
    pub(super) now: Time,
}

impl Relay {
    /// Applies what arrived from a client, or what its socket accepted.
    pub(super) fn apply_front(
        &mut self,
        at: FrontKey,
        now: Time,
        mut batch: EventBatch<'_, ServerEvent>,
    ) {
        while let Some(event) = batch.events.next() {
            match event {
                ServerEvent::RequestFirstByte { stream, offset } => {
                    let mut exchange = ProxyExchange::new(at, stream, now);
                    if self.fronts.log.wants_exchanges() {
                        let place = self.locate_front(at, Way::Received, offset);
                        exchange.front_marks.request.begin(now, offset, place);
                    } else {
                        exchange.front_marks.request.first = Some(now);
                    }
                    let key = self.exchanges.insert(exchange);
                    self.fronts.insert(at, stream, key);
                }
                ServerEvent::RequestHead {
                    stream,
                    method,
                    target,
                    fields,
                    ..
                } => {
                    let body = batch.whole_request(stream, self.exchanges.room());
                    let head = RequestHead::new(method, target, fields);
                    self.on_request(at, stream, now, head, body);
                }
                ServerEvent::RequestBody { stream, len } => {
                    let bytes = batch.body(len);
                    self.on_request_body(at, stream, now, bytes);
                }
                ServerEvent::RequestEnd { stream, end } => {
                    let trailers = batch.trailers(stream);
                    self.on_request_end(at, stream, now, end, trailers);
                }
                ServerEvent::StreamReset { stream, code } => {
                    if let Some(key) = self.fronts.key(at, stream) {
                        self.abort(key, Some(code));
                    }
                }
                ServerEvent::RequestBroken { stream, code } => {
                    if let Some(key) = self.fronts.key(at, stream) {
                        self.abort_broken_request(key, Some(code));
                    }
                }
                ServerEvent::ResponseFirstByteWritten { stream, offset } => {
                    if self.fronts.log.wants_exchanges() {
                        let place = self.locate_front(at, Way::Sent, offset);
                        if let Some(exchange) = self.exchange_of_front(at, stream) {
                            exchange.front_marks.response.begin(now, offset, place);
                        }
                    }
                }
                ServerEvent::ResponseWritten { stream, end } => {
                    self.on_response_written(at, stream, now, end);
                }
                ServerEvent::RequestRefused {
                    stream,
                    status,
                    end,
                } => self.on_request_refused(at, stream, now, status, end),
            }
        }
    }

    fn exchange_of_front(&mut self, at: FrontKey, stream: StreamId) -> Option<&mut ProxyExchange> {
        let key = self.fronts.key(at, stream)?;
        self.exchanges.get_mut(key)
    }

    /// Where a byte is on the wire, if rows of exchanges are wanted.
    fn locate_front(&mut self, at: FrontKey, way: Way, offset: u64) -> Option<WireExtent> {
        match at {
            _ if !self.fronts.log.wants_exchanges() => None,
            FrontKey::Tcp(id) => self.fronts.tcp_mut(id)?.tcp.engine.locate(way, offset),
            // The frames table shows which packets carried which bytes of a stream.
            FrontKey::Quic { .. } => None,
        }
    }

    fn locate_back(&mut self, at: BackKey, way: Way, offset: u64) -> Option<WireExtent> {
        if !self.backs.log.wants_exchanges() {
            return None;
        }
        let connection = self.backs.connection_mut(at)?;
        connection.dialed.transport.locate(way, offset)
    }

    /// Handles a request's head, with the whole body if that is known.
    fn on_request(
        &mut self,
        at: FrontKey,
        stream: StreamId,
        now: Time,
        RequestHead {
            method,
            target,
            fields,
        }: RequestHead,
        body: Option<Bytes>,
    ) {
        let Some(key) = self.fronts.key(at, stream) else {
            return;
        };
        let request_line = self
            .access
            .is_some()
            .then(|| (method.clone(), target.clone()));
        let whole_bytes = body.as_ref().map_or(0, |body| body.len() as u64);
        let is_full = self.must_refuse();
        let head_bytes = method.len() + target.len() + fields_bytes(&fields);
        (self.exchanges).keep(key, head_bytes + whole_bytes as usize);
        let version = self.fronts.version(at);
        let traced = if self.fronts.log.wants_exchanges() || self.backs.log.wants_exchanges() {
            traced_request(&fields)
        } else {
            None
        };
        let made = if is_full {
            Err(503)
        } else {
            self.upstream_request(version, method, target, fields, body)
        };
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.request_line = request_line;
        exchange.traced = traced;
        exchange.last_progress = now;
        if whole_bytes > 0 {
            exchange.up.received_bytes = whole_bytes;
            exchange.up.sent_bytes = whole_bytes;
        }
        match made {
            Ok((request, waits)) => {
                exchange.up.is_closed = !matches!(request.body(), Body::Streamed { .. });
                let waits = waits && !exchange.up.is_closed;
                exchange.request = Some(request);
                // Over HTTP/1.1 the engine has sent the 100 (Continue).
                if waits && version != Version::Http1 {
                    self.fronts.inform(at, stream, &Interim::continue_100());
                }
                // A whole body does not wait here: its bytes return to the window immediately.
                self.fronts.consume(at, stream, whole_bytes);
                self.begin_or_wait(at, key);
            }
            Err(status) => {
                self.fronts.consume(at, stream, whole_bytes);
                let failure = (status >= 400 && !is_full).then_some(Failure::BadRequest);
                self.answer(key, status, failure);
            }
        }
    }

    /// Whether a request must be refused to save memory, which is counted.
    fn must_refuse(&mut self) -> bool {
        let is_full = self.exchanges.are_full();
        if is_full {
            let errors = &mut self.report.machine_errors;
            *errors.entry(REFUSED.to_owned()).or_default() += 1;
        }
        is_full
    }

    /// Builds the request that is passed on. Also returns whether its client waits for 100 (Continue). `Err`: the proxy
    /// itself responds, with this status.
    fn upstream_request(
        &mut self,
        version: Version,
        method: String,
        target: String,
        mut fields: Vec<Field>,
        body: Option<Bytes>,
    ) -> Result<(Arc<Request>, bool), u16> {
        if !headers::count_hop(&method, &mut fields) {
            // A response to TRACE would show what other hops added, such as credentials (RFC 9110, section 9.3.8).
            return Err(if method == "OPTIONS" { 200 } else { 501 });
        }
        let found = headers::of_request(fields, version, &mut self.ids).map_err(|_| 400_u16)?;
        let body = match (body, found.length) {
            (Some(body), _) => Body::Whole(body),
            (None, Some(0)) => Body::EMPTY,
            (None, length) => Body::Streamed { length },
        };
        let line = RequestLine {
            method,
            scheme: if self.upstream_protocol.is_secure() {
                Scheme::Https
            } else {
                Scheme::Http
            },
            authority: found.authority.unwrap_or_else(|| self.authority.clone()),
            target,
        };
        match Request::relayed(line, found.fields, body) {
            Ok(request) => Ok((Arc::new(request), found.expects_continue)),
            Err(MessageError::Connect) => Err(501),
            Err(_) => Err(400),
        }
    }

    /// HTTP/1.1 responds in the order of requests, so the proxy passes on one request at a time per HTTP/1.1
    /// connection.
    fn begin_or_wait(&mut self, at: FrontKey, key: ExchangeKey) {
        if let FrontKey::Tcp(id) = at
            && let Some(front) = self.fronts.tcp_mut(id)
            && front.version() == Version::Http1
        {
            if front.is_serving {
                front.waiting.push_back(key);
                return;
            }
            front.is_serving = true;
        }
        self.begin(key);
    }

    /// Assigns an exchange to an upstream.
    pub(super) fn begin(&mut self, key: ExchangeKey) {
        let upstream = self.backs.choose();
        let wants = self.backs.log.wants_exchanges();
        if let Some(exchange) = self.exchanges.get_mut(key) {
            // Each attempt has a separate row.
            exchange.beginning = Beginning {
                offered: wants.then(clock::now),
                ..Beginning::default()
            };
            let address = exchange.front.and_then(|(at, _)| self.fronts.address(at));
            exchange.client = address.map_or(ClientHost::UNKNOWN, ClientHost::of);
            exchange.back = BackState::Waiting { upstream };
            exchange.last_progress = self.now;
            exchange.attempts += 1;
            let client = exchange.client;
            self.backs.enqueue(upstream, WaitingRequest { key, client });
        }
    }

    fn on_request_body(&mut self, at: FrontKey, stream: StreamId, now: Time, bytes: &[u8]) {
        let Some(key) = self.fronts.key(at, stream) else {
            // Part of a request that was already answered.
            self.fronts.consume(at, stream, bytes.len() as u64);
            return;
        };
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.up.received_bytes += bytes.len() as u64;
        exchange.last_progress = now;
        if exchange.up.is_closed {
            self.fronts.consume(at, stream, bytes.len() as u64);
            return;
        }
        let mut taken = 0;
        if let (BackState::Sent { at: back, stream }, true) =
            (exchange.back, exchange.up.waiting.is_empty())
        {
            taken = self.backs.send_body(back, stream, bytes);
            exchange.up.sent_bytes += taken as u64;
        }
        self.fronts.consume(at, stream, taken as u64);
        let rest = &bytes[taken..];
        if !rest.is_empty() {
            exchange.up.waiting.extend(rest);
            self.fronts.add_backlog(at, rest.len());
            self.block_up(key);
        }
    }

    fn on_request_end(
        &mut self,
        at: FrontKey,
        stream: StreamId,
        now: Time,
        end: u64,
        trailers: Option<Trailers>,
    ) {
        let place = self.locate_front(at, Way::Received, end.saturating_sub(1));
        let Some(key) = self.fronts.key(at, stream) else {
            return;
        };
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.front_marks.request.end(now, end, place);
        exchange.last_progress = now;
        exchange.up.has_ended = true;
        exchange.up.trailers = trailers;
        self.pump_up(key);
    }

    fn on_response_written(&mut self, at: FrontKey, stream: StreamId, now: Time, end: u64) {
        self.report.responses_written += 1;
        let Some(key) = self.mark_written(at, stream, now, end) else {
            return;
        };
        let is_request_complete =
            (self.exchanges.get_mut(key)).is_some_and(|exchange| exchange.up.has_ended);
        self.finish_front(key, None, now);
        if !is_request_complete && self.fronts.version(at) == Version::Http2 {
            // The rest of the request is not wanted (RFC 9113, section 8.1).
            self.fronts.reset(at, stream, ResetReason::Done);
        }
    }

    /// The engine has refused a request that violates the protocol (`Connections::break_front`).
    fn on_request_refused(
        &mut self,
        at: FrontKey,
        stream: StreamId,
        now: Time,
        status: u16,
        end: u64,
    ) {
        let Some(key) = self.mark_written(at, stream, now, end) else {
            return;
        };
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.status = Some(status);
        }
        self.finish_front(key, None, now);
    }

    /// Records where the last byte of a response went. Returns the exchange.
    fn mark_written(
        &mut self,
        at: FrontKey,
        stream: StreamId,
        now: Time,
        end: u64,
    ) -> Option<ExchangeKey> {
        let place = self.locate_front(at, Way::Sent, end.saturating_sub(1));
        let key = self.fronts.key(at, stream)?;
        let exchange = self.exchanges.get_mut(key)?;
        exchange.front_marks.response.end(now, end, place);
        Some(key)
    }

    /// Sends what waits of a request's body, as far as there is room.
    pub(super) fn pump_up(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let BackState::Sent { at, stream } = exchange.back else {
            return;
        };
        let flow = &mut exchange.up;
        let moved = flow.drain_into(|piece| self.backs.send_body(at, stream, piece));
        if flow.waiting.is_empty() && flow.has_ended && !flow.is_closed {
            flow.is_closed = true;
            self.backs.end_body(at, stream, flow.trailers.as_ref());
        }
        if moved > 0 {
            exchange.last_progress = self.now;
            if let Some((front, stream)) = exchange.front {
                self.fronts.consume(front, stream, moved);
                self.fronts.drop_backlog(front, moved);
            }
        }
        self.block_up(key);
    }

    /// Queues the exchange for another attempt when its upstream's connection may have room.
    fn block_up(&mut self, key: ExchangeKey) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let BackState::Sent { at, .. } = exchange.back
            && exchange.up.has_pending()
            && !exchange.up.is_blocked
            && let Some(connection) = self.backs.connection_mut(at)
        {
            exchange.up.is_blocked = true;
            connection.blocked.push(key);
        }
    }

    /// Lets exchanges that wait for room on an upstream's connection try again.
    pub(super) fn pump_blocked_up(&mut self, at: BackKey) {
        let Some(connection) = self.backs.connection_mut(at) else {
            return;
        };
        if connection.blocked.is_empty() {
            return;
        }
        let mut blocked = std::mem::take(&mut connection.blocked);
        for key in blocked.drain(..) {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.up.is_blocked = false;
                self.pump_up(key);
            }
        }
    }

    /// Applies what arrived from an upstream, or what its socket accepted.
    pub(super) fn apply_back(
        &mut self,
        at: BackKey,
        now: Time,
        mut batch: EventBatch<'_, ClientEvent>,
    ) {
        let wants = self.backs.log.wants_exchanges();
        while let Some(event) = batch.events.next() {
            match event {
                ClientEvent::RequestFirstByteWritten { stream, offset } if wants => {
                    let place = self.locate_back(at, Way::Sent, offset);
                    if let Some((_, exchange)) = self.exchange_of_back(at, stream) {
                        exchange.back_marks.request.begin(now, offset, place);
                    }
                }
                ClientEvent::RequestWritten { stream, end } if wants => {
                    let place = self.locate_back(at, Way::Sent, end.saturating_sub(1));
                    if let Some((_, exchange)) = self.exchange_of_back(at, stream) {
                        exchange.back_marks.request.end(now, end, place);
                    }
                }
                ClientEvent::ResponseFirstByte { stream, offset } => {
                    let place = self.locate_back(at, Way::Received, offset);
                    if let Some((_, exchange)) = self.exchange_of_back(at, stream) {
                        exchange.has_response_begun = true;
                        exchange.last_progress = now;
                        exchange.back_marks.response.begin(now, offset, place);
                    }
                }
                ClientEvent::Interim {
                    stream,
                    status,
                    fields,
                } => self.on_interim(at, stream, now, status, fields),
                ClientEvent::ResponseHeaders {
                    stream,
                    status,
                    fields,
                } => {
                    let body = batch.whole_response(stream, self.exchanges.room());
                    self.on_response(at, stream, now, status, fields, body);
                }
                ClientEvent::ResponseBody { stream, len } => {
                    let bytes = batch.body(len);
                    self.on_response_body(at, stream, now, bytes);
                }
                ClientEvent::ResponseEnd { stream, end } => {
                    let trailers = batch.trailers(stream);
                    self.on_response_end(at, stream, now, end, trailers);
                }
                ClientEvent::StreamReset { stream, code } => {
                    self.on_upstream_reset(at, stream, Some(code), Failure::UpstreamReset);
                }
                ClientEvent::ResponseRefused { stream, code } => {
                    self.on_upstream_reset(at, stream, Some(code), Failure::UpstreamProtocol);
                }
                ClientEvent::RequestRefused { stream } => {
                    self.on_upstream_reset(at, stream, None, Failure::UpstreamReset);
                }
                ClientEvent::RequestFirstByteWritten { .. }
                | ClientEvent::RequestWritten { .. }
                | ClientEvent::Switched { .. }
                | ClientEvent::GoAway { .. } => {}
            }
        }
    }

    pub(super) fn exchange_of_back(
        &mut self,
        at: BackKey,
        stream: StreamId,
    ) -> Option<(ExchangeKey, &mut ProxyExchange)> {
        let connection = self.backs.connection_mut(at)?;
        let key = *connection.streams.find(stream)?;
        Some((key, self.exchanges.get_mut(key)?))
    }

    /// Passes on an interim response (RFC 9110, section 15.2), except for 100 (Continue), which upstreams are not asked
    /// for: a client that waits for it has received it from the proxy.
    fn on_interim(
        &mut self,
        at: BackKey,
        stream: StreamId,
        now: Time,
        status: u16,
        fields: Vec<Field>,
    ) {
        let version = self.backs.connection_mut(at).map(|back| back.version());
        let Some((_, exchange)) = self.exchange_of_back(at, stream) else {
            return;
        };
        exchange.last_progress = now;
        let Some((front, stream)) = exchange.front.filter(|_| status != 100) else {
            return;
        };
        let found = headers::of_response(fields, version.unwrap_or(Version::Http1));
        // An interim response that cannot be passed on is dropped: the final response is still to come.
        if let Ok(interim) = Interim::relayed(status, found.fields) {
            self.fronts.inform(front, stream, &interim);
        }
    }

    /// Handles a response's head, with the whole body if that is there.
    fn on_response(
        &mut self,
        at: BackKey,
        stream: StreamId,
        now: Time,
        status: u16,
        fields: Vec<Field>,
        body: Option<Bytes>,
    ) {
        let version = self.backs.connection_mut(at).map(|back| back.version());
        let whole_bytes = body.as_ref().map_or(0, |body| body.len() as u64);
        self.backs.consume(at, stream, whole_bytes);
        let Some((key, _)) = self.exchange_of_back(at, stream) else {
            return;
        };
        self.exchanges.keep(key, whole_bytes as usize);
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.last_progress = now;
        exchange.back_status = Some(status);
        exchange.down.received_bytes = whole_bytes;
        exchange.down.sent_bytes = whole_bytes;
        let is_head = |request: &Arc<Request>| request.method() == "HEAD";
        let is_head = exchange.request.as_ref().is_some_and(is_head);
        let found = headers::of_response(fields, version.unwrap_or(Version::Http1));
        let has_no_body = is_head || matches!(status, 204 | 304);
        if found.is_coded && !has_no_body {
            self.give_up_response(key, Failure::UpstreamProtocol);
            return;
        }
        let body = match (body, found.length) {
            _ if matches!(status, 204 | 304) => Body::EMPTY,
            // The length that a GET would have got.
            (_, length) if is_head => Body::Streamed { length },
            (Some(body), _) => Body::Whole(body),
            (None, Some(0)) => Body::EMPTY,
            (None, length) => Body::Streamed { length },
        };
        if is_head || !matches!(body, Body::Streamed { .. }) {
            exchange.down.is_closed = true;
        }
        exchange.has_length = body.length().is_some();
        match Response::relayed(status, found.fields, body) {
            Ok(response) => self.respond_or_hold(key, Arc::new(response)),
            Err(_) => self.give_up_response(key, Failure::UpstreamProtocol),
        }
    }

    /// Passes an upstream's response on, now or after the delay.
    fn respond_or_hold(&mut self, key: ExchangeKey, response: Arc<Response>) {
        if !self.holds.has_delay() {
            self.respond(key, &response);
        } else if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.held = Some(response);
            self.holds.add(key, clock::now());
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

    /// Passes a response to the client's connection.
    pub(super) fn respond(&mut self, key: ExchangeKey, response: &Arc<Response>) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let Some((front, stream)) = exchange.front
        {
            exchange.is_answered = true;
            exchange.status = Some(response.status());
            self.fronts.respond(front, stream, response);
        }
    }

    /// Responds in place of an upstream.
    pub(super) fn answer(&mut self, key: ExchangeKey, status: u16, why: Option<Failure>) {
        if let Some(why) = why {
            *self.report.failures.entry(why).or_default() += 1;
        }
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.held = None;
        exchange.down.is_closed = true;
        self.discard_request(key);
        let response = canned::response(&mut self.canned, status);
        let len = response.body().length().unwrap_or(0);
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.down.sent_bytes = len;
        }
        self.respond(key, &response);
    }

    fn on_response_body(&mut self, at: BackKey, stream: StreamId, now: Time, bytes: &[u8]) {
        let found = self.exchange_of_back(at, stream);
        let Some((key, exchange)) = found.filter(|(_, exchange)| !exchange.down.is_closed) else {
            self.backs.consume(at, stream, bytes.len() as u64);
            return;
        };
        exchange.down.received_bytes += bytes.len() as u64;
        exchange.last_progress = now;
        let has_room = exchange.held.is_none() && exchange.down.waiting.is_empty();
        let front = exchange.front;
        let mut taken = 0;
        if let (Some((front, stream)), true) = (front, has_room) {
            taken = self.fronts.send_body(front, stream, bytes);
        }
        self.backs.consume(at, stream, taken as u64);
        let rest = &bytes[taken..];
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.down.sent_bytes += taken as u64;
        if !rest.is_empty() {
            exchange.down.waiting.extend(rest);
            self.backs.add_backlog(at, rest.len());
            self.block_down(key);
        }
    }

    fn on_response_end(
        &mut self,
        at: BackKey,
        stream: StreamId,
        now: Time,
        end: u64,
        trailers: Option<Trailers>,
    ) {
        let place = self.locate_back(at, Way::Received, end.saturating_sub(1));
        let Some((key, exchange)) = self.exchange_of_back(at, stream) else {
            return;
        };
        exchange.back_marks.response.end(now, end, place);
        exchange.down.has_ended = true;
        exchange.down.trailers = trailers;
        let is_early = !exchange.up.is_closed;
        self.finish_back(key, None, is_early);
        if is_early {
            self.discard_request(key);
        }
        self.pump_down(key);
    }

    /// Sends what waits of a response's body, as far as there is room.
    pub(super) fn pump_down(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Some((front, stream)) = exchange.front.filter(|_| exchange.held.is_none()) else {
            return;
        };
        let flow = &mut exchange.down;
        let moved = flow.drain_into(|piece| self.fronts.send_body(front, stream, piece));
        if flow.waiting.is_empty() && flow.has_ended && !flow.is_closed {
            flow.is_closed = true;
            self.fronts.end_body(front, stream, flow.trailers.as_ref());
        }
        if moved > 0 {
            exchange.last_progress = self.now;
            if let Some((at, stream)) = exchange.upstream_stream {
                self.backs.consume(at, stream, moved);
                self.backs.drop_backlog(at, moved);
            }
        }
        self.block_down(key);
    }

    fn block_down(&mut self, key: ExchangeKey) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let Some((front, _)) = exchange.front
            && exchange.held.is_none()
            && exchange.down.has_pending()
            && !exchange.down.is_blocked
        {
            exchange.down.is_blocked = true;
            self.fronts.block(front, key);
        }
    }

    /// Lets exchanges that wait for room on a client's connection try again.
    pub(super) fn pump_blocked_down(&mut self, blocked: Vec<ExchangeKey>) {
        for key in blocked {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.down.is_blocked = false;
                self.pump_down(key);
            }
        }
    }

    /// Handles a stream that ended early: by a reset with this code, the upstream's or ours because of what it sent, or
    /// (`None`) by a GOAWAY that refuses the request.
    fn on_upstream_reset(
        &mut self,
        at: BackKey,
        stream: StreamId,
        code: Option<u64>,
        failure: Failure,
    ) {
        let Some((key, _)) = self.exchange_of_back(at, stream) else {
            return;
        };
        if let Some(connection) = self.backs.connection_mut(at) {
            connection.streams.remove(stream);
        }
        let refused = match self.upstream_protocol {
            Protocol::H3 => squall_http::h3::code::REQUEST_REJECTED,
            _ => REFUSED_STREAM,
        };
        let is_untouched = code.is_none_or(|code| code == refused);
        self.finish_back_record(key, at, stream, code);
        let can_repeat = |exchange: &mut ProxyExchange| is_untouched && exchange.is_resendable();
        self.retry_or_give_up(key, failure, can_repeat);
    }
}

fn fields_bytes(fields: &[Field]) -> usize {
    let bytes = |field: &Field| field.name.len() + field.value.len();
    fields.iter().map(bytes).sum()
}
