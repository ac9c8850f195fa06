//! What events come to: each is passed from one side to the other, as far as there is room there.
//!
//! A body waits here only for room on the other side, and its sender gets no new window, or is not read from, until it has
//! left. How things fail is in `ends`.

use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Protocol, Version};
use squall_base::record::{Beginning, Way};
use squall_http::{
    Body, Bytes, ClientEvent, Field, Interim, Line, MessageError, Place, Request, Response, Scheme,
    ServerEvent, StreamId, Trailers, traced_request,
};
use squall_linux::clock;

use super::Core;
use super::back::At;
use super::canned;
use super::exchange::{Back, Exchange, Key};
use super::front::{FrontAt, Why};
use super::headers;
use super::settings::Failure;

/// Bodies that are complete, and not longer, go on as they are, with their heads.
const WHOLE_BYTES: u64 = 64 * 1024;

/// REFUSED_STREAM (RFC 9113, section 7): nothing was done.
const REFUSED_STREAM: u64 = 0x7;

/// What came with one read, or was marked by one write.
pub(super) struct News<'a, E> {
    pub(super) events: &'a mut [E],
    pub(super) bodies: &'a [u8],
    pub(super) trailers: &'a mut Vec<(StreamId, Vec<Field>)>,
}

impl<E> News<'_, E> {
    /// The next bytes of bodies.
    fn body(&mut self, len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (body, rest) = self.bodies.split_at(len.min(self.bodies.len()));
        self.bodies = rest;
        body
    }

    /// A body of so many bytes, if it may go on at once.
    fn whole(&mut self, stream: StreamId, len: u64) -> Option<Bytes> {
        let has_trailers = self.trailers.iter().any(|(of, _)| *of == stream);
        let is_whole = len <= WHOLE_BYTES && !has_trailers;
        is_whole.then(|| Bytes::copy_from_slice(self.body(len)))
    }

    fn trailers(&mut self, stream: StreamId) -> Option<Trailers> {
        let index = self.trailers.iter().position(|(of, _)| *of == stream)?;
        let fields = headers::of_trailers(self.trailers.remove(index).1);
        Trailers::relayed(fields).ok()
    }
}

impl News<'_, ServerEvent> {
    /// All of a request's body, if events from `next` on say that it is there and nothing follows it.
    fn whole_request(&mut self, next: usize, stream: StreamId) -> Option<Bytes> {
        let len = match self.events.get(next..)? {
            [ServerEvent::RequestEnd { stream: of, .. }, ..] if *of == stream => 0,
            [
                ServerEvent::RequestBody { stream: of, len },
                ServerEvent::RequestEnd { stream: end_of, .. },
                ..,
            ] if *of == stream && *end_of == stream => *len,
            _ => return None,
        };
        self.whole(stream, len)
    }
}

impl News<'_, ClientEvent> {
    /// All of a response's body, if events from `next` on say that it is there and nothing follows it.
    fn whole_response(&mut self, next: usize, stream: StreamId) -> Option<Bytes> {
        let len = match self.events.get(next..)? {
            [ClientEvent::ResponseEnd { stream: of, .. }, ..] if *of == stream => 0,
            [
                ClientEvent::ResponseBody { stream: of, len },
                ClientEvent::ResponseEnd { stream: end_of, .. },
                ..,
            ] if *of == stream && *end_of == stream => *len,
            _ => return None,
        };
        self.whole(stream, len)
    }
}

impl Core {
    /// Applies what came from a client, or what its socket took.
    pub(super) fn apply_front(&mut self, at: FrontAt, now: Time, mut news: News<'_, ServerEvent>) {
        let mut skip_to = 0;
        for index in 0..news.events.len() {
            if index < skip_to {
                continue;
            }
            match std::mem::replace(&mut news.events[index], TAKEN_BY_SERVER) {
                ServerEvent::RequestFirstByte { stream, offset } => {
                    let mut exchange = Exchange::new(at, stream, now);
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
                } => {
                    let body = news.whole_request(index + 1, stream);
                    // What is told of a whole body is known by now.
                    skip_to =
                        index + 1 + usize::from(body.as_ref().is_some_and(|body| !body.is_empty()));
                    self.on_request(at, stream, now, (method, target, fields), body);
                }
                ServerEvent::RequestBody { stream, len } => {
                    let bytes = news.body(len);
                    self.on_request_body(at, stream, now, bytes);
                }
                ServerEvent::RequestEnd { stream, end } => {
                    let trailers = news.trailers(stream);
                    self.on_request_end(at, stream, now, end, trailers);
                }
                ServerEvent::StreamReset { stream, code } => {
                    if let Some(key) = self.fronts.key(at, stream) {
                        self.client_gone(key, Some(code));
                    }
                }
                ServerEvent::RequestBroken { stream, code } => {
                    if let Some(key) = self.fronts.key(at, stream) {
                        self.client_broke(key, Some(code));
                    }
                }
                ServerEvent::ResponseFirstByteWritten { stream, offset } => {
                    let wants = self.fronts.log.wants_exchanges();
                    let place = wants.then(|| self.locate_front(at, Way::Sent, offset));
                    if let (Some(place), Some(exchange)) =
                        (place, self.exchange_of_front(at, stream))
                    {
                        exchange.front_marks.response.begin(now, offset, place);
                    }
                }
                ServerEvent::ResponseWritten { stream, end } => {
                    self.on_response_written(at, stream, now, end);
                }
                ServerEvent::RequestRefused {
                    stream,
                    status,
                    end,
                } => self.on_request_refused(at, stream, now, (status, end)),
            }
        }
    }

    fn exchange_of_front(&mut self, at: FrontAt, stream: StreamId) -> Option<&mut Exchange> {
        let key = self.fronts.key(at, stream)?;
        self.exchanges.get_mut(key)
    }

    fn locate_front(&mut self, at: FrontAt, way: Way, offset: u64) -> Option<Place> {
        match at {
            FrontAt::Tcp(id) => self.fronts.tcp_mut(id)?.engine.locate(way, offset),
            // The table of frames says which packets carried which bytes of a stream.
            FrontAt::Quic { .. } => None,
        }
    }

    fn locate_back(&mut self, at: At, way: Way, offset: u64) -> Option<Place> {
        self.backs.connection_mut(at)?.transport.locate(way, offset)
    }

    /// A request's head came, with all of its body if that is known.
    fn on_request(
        &mut self,
        at: FrontAt,
        stream: StreamId,
        now: Time,
        (method, target, fields): (String, String, Vec<Field>),
        body: Option<Bytes>,
    ) {
        let Some(key) = self.fronts.key(at, stream) else {
            return;
        };
        let words = self
            .access
            .is_some()
            .then(|| (method.clone(), target.clone()));
        let whole_bytes = body.as_ref().map_or(0, |body| body.len() as u64);
        let version = self.fronts.version(at);
        let traced = match self.fronts.log.wants_exchanges() || self.backs.log.wants_exchanges() {
            true => traced_request(&fields),
            false => None,
        };
        let made = self.upstream_request(version, (method, target, fields), body);
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.words = words;
        exchange.traced = traced;
        exchange.last_progress = now;
        if whole_bytes > 0 {
            exchange.up.came_bytes = whole_bytes;
            exchange.up.went_bytes = whole_bytes;
        }
        match made {
            Ok((request, waits)) => {
                exchange.up.is_closed = !matches!(request.body(), Body::Streamed { .. });
                let waits = waits && !exchange.up.is_closed;
                exchange.request = Some(request);
                // Over HTTP/1.1 the engine has said it.
                if waits && version != Version::Http1 {
                    self.fronts.inform(at, stream, &self.go_on);
                }
                // It may share its window with nothing else here: it has left.
                self.fronts.consume(at, stream, whole_bytes);
                self.begin_or_wait(at, key);
            }
            Err(refusal) => {
                self.fronts.consume(at, stream, whole_bytes);
                self.answer(key, refusal, Some(Failure::BadRequest));
            }
        }
    }

    /// Makes the request that is passed on, and says whether its client waits to be told to continue.
    fn upstream_request(
        &mut self,
        version: Version,
        (method, target, fields): (String, String, Vec<Field>),
        body: Option<Bytes>,
    ) -> Result<(Arc<Request>, bool), u16> {
        let found = headers::of_request(fields, version, &mut self.ids).map_err(|_| 400_u16)?;
        let body = match (body, found.length) {
            (Some(body), _) => Body::Whole(body),
            (None, Some(0)) => Body::EMPTY,
            (None, length) => Body::Streamed { length },
        };
        let line = Line {
            method,
            scheme: match self.dialled.protocol.is_secure() {
                true => Scheme::Https,
                false => Scheme::Http,
            },
            authority: found
                .authority
                .unwrap_or_else(|| self.dialled.authority.clone()),
            target,
        };
        match Request::relayed(line, found.fields, body) {
            Ok(request) => Ok((Arc::new(request), found.expects_continue)),
            Err(MessageError::Connect) => Err(501),
            Err(_) => Err(400),
        }
    }

    /// HTTP/1.1 answers in the order of requests: one at a time is passed on for each of its clients.
    fn begin_or_wait(&mut self, at: FrontAt, key: Key) {
        if let FrontAt::Tcp(id) = at
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

    /// Gives an exchange to an upstream.
    pub(super) fn begin(&mut self, key: Key) {
        let lane = self.backs.choose();
        let wants = self.backs.log.wants_exchanges();
        if let Some(exchange) = self.exchanges.get_mut(key) {
            // Each attempt has a row of its own.
            exchange.beginning = Beginning {
                offered: wants.then(clock::now),
                ..Beginning::default()
            };
            exchange.back = Back::Waiting { lane };
            exchange.attempts += 1;
            self.backs.enqueue(lane, key);
        }
    }

    fn on_request_body(&mut self, at: FrontAt, stream: StreamId, now: Time, bytes: &[u8]) {
        let Some(key) = self.fronts.key(at, stream) else {
            // Of a request that was answered already.
            self.fronts.consume(at, stream, bytes.len() as u64);
            return;
        };
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        exchange.up.came_bytes += bytes.len() as u64;
        exchange.last_progress = now;
        if exchange.up.is_closed {
            self.fronts.consume(at, stream, bytes.len() as u64);
            return;
        }
        let mut taken = 0;
        if let (Back::Sent { at: back, stream }, true) =
            (exchange.back, exchange.up.pieces.is_empty())
        {
            taken = self.backs.send_body(back, stream, bytes);
            exchange.up.went_bytes += taken as u64;
        }
        self.fronts.consume(at, stream, taken as u64);
        let rest = &bytes[taken..];
        if !rest.is_empty() {
            exchange.up.pieces.push_back(Bytes::copy_from_slice(rest));
            self.fronts.add_backlog(at, rest.len());
            self.block_up(key);
        }
    }

    fn on_request_end(
        &mut self,
        at: FrontAt,
        stream: StreamId,
        now: Time,
        end: u64,
        trailers: Option<Trailers>,
    ) {
        let place = match self.fronts.log.wants_exchanges() {
            true => self.locate_front(at, Way::Received, end.saturating_sub(1)),
            false => None,
        };
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

    fn on_response_written(&mut self, at: FrontAt, stream: StreamId, now: Time, end: u64) {
        self.report.responses_written += 1;
        let Some(key) = self.mark_written(at, stream, now, end) else {
            return;
        };
        let is_heard = (self.exchanges.get_mut(key)).is_some_and(|exchange| exchange.up.has_ended);
        self.finish_front(key, None, now);
        if !is_heard && self.fronts.version(at) == Version::Http2 {
            // What it still sends is not wanted (RFC 9113, section 8.1).
            self.fronts.reset(at, stream, Why::Done);
        }
    }

    /// The engine has told the client that its request breaks the protocol (`Core::break_front`).
    fn on_request_refused(
        &mut self,
        at: FrontAt,
        stream: StreamId,
        now: Time,
        (status, end): (u16, u64),
    ) {
        let Some(key) = self.mark_written(at, stream, now, end) else {
            return;
        };
        if let Some(exchange) = self.exchanges.get_mut(key) {
            exchange.status = Some(status);
        }
        self.finish_front(key, None, now);
    }

    /// Notes where the last byte of an answer went, and whose it was.
    fn mark_written(&mut self, at: FrontAt, stream: StreamId, now: Time, end: u64) -> Option<Key> {
        let place = match self.fronts.log.wants_exchanges() {
            true => self.locate_front(at, Way::Sent, end.saturating_sub(1)),
            false => None,
        };
        let key = self.fronts.key(at, stream)?;
        let exchange = self.exchanges.get_mut(key)?;
        exchange.front_marks.response.end(now, end, place);
        Some(key)
    }

    /// Sends what waits of a request's body as far as there is room.
    pub(super) fn pump_up(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Back::Sent { at, stream } = exchange.back else {
            return;
        };
        let flow = &mut exchange.up;
        let moved = flow.give(|piece| self.backs.send_body(at, stream, piece));
        if flow.pieces.is_empty() && flow.has_ended && !flow.is_closed {
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

    /// It has its turn again when there may be room on its upstream's connection.
    fn block_up(&mut self, key: Key) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let Back::Sent { at, .. } = exchange.back
            && exchange.up.has_news()
            && !exchange.up.is_blocked
            && let Some(connection) = self.backs.connection_mut(at)
        {
            exchange.up.is_blocked = true;
            connection.blocked.push(key);
        }
    }

    /// Lets those that wait for room on an upstream's connection try again.
    pub(super) fn pump_blocked_up(&mut self, at: At) {
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

    /// Applies what came from an upstream, or what its socket took.
    pub(super) fn apply_back(&mut self, at: At, now: Time, mut news: News<'_, ClientEvent>) {
        let wants = self.backs.log.wants_exchanges();
        let mut skip_to = 0;
        for index in 0..news.events.len() {
            if index < skip_to {
                continue;
            }
            match std::mem::replace(&mut news.events[index], TAKEN_BY_CLIENT) {
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
                    let place = match wants {
                        true => self.locate_back(at, Way::Received, offset),
                        false => None,
                    };
                    if let Some((_, exchange)) = self.exchange_of_back(at, stream) {
                        exchange.is_answer_begun = true;
                        exchange.last_progress = now;
                        exchange.back_marks.response.begin(now, offset, place);
                    }
                }
                ClientEvent::Interim {
                    stream,
                    status,
                    fields,
                } => self.on_interim(at, stream, now, (status, fields)),
                ClientEvent::ResponseHeaders {
                    stream,
                    status,
                    fields,
                } => {
                    let body = news.whole_response(index + 1, stream);
                    // What is told of a whole body is known by now.
                    skip_to =
                        index + 1 + usize::from(body.as_ref().is_some_and(|body| !body.is_empty()));
                    self.on_response(at, stream, now, (status, fields), body);
                }
                ClientEvent::ResponseBody { stream, len } => {
                    let bytes = news.body(len);
                    self.on_response_body(at, stream, now, bytes);
                }
                ClientEvent::ResponseEnd { stream, end } => {
                    let trailers = news.trailers(stream);
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
        at: At,
        stream: StreamId,
    ) -> Option<(Key, &mut Exchange)> {
        let connection = self.backs.connection_mut(at)?;
        let key = *connection.streams.find(stream)?;
        Some((key, self.exchanges.get_mut(key)?))
    }

    /// An interim response came: it is passed on (RFC 9110, section 15.2), but for 100 (Continue), which upstreams are
    /// not asked for: the client that waits for it has heard it from here.
    fn on_interim(
        &mut self,
        at: At,
        stream: StreamId,
        now: Time,
        (status, fields): (u16, Vec<Field>),
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
        // What cannot be passed on is left out: the answer is still to come.
        if let Ok(interim) = Interim::relayed(status, found.fields) {
            self.fronts.inform(front, stream, &interim);
        }
    }

    /// An answer's head came, with all of its body if that is there.
    fn on_response(
        &mut self,
        at: At,
        stream: StreamId,
        now: Time,
        (status, fields): (u16, Vec<Field>),
        body: Option<Bytes>,
    ) {
        let version = self.backs.connection_mut(at).map(|back| back.version());
        let whole_bytes = body.as_ref().map_or(0, |body| body.len() as u64);
        self.backs.consume(at, stream, whole_bytes);
        let Some((key, exchange)) = self.exchange_of_back(at, stream) else {
            return;
        };
        exchange.last_progress = now;
        exchange.back_status = Some(status);
        exchange.down.came_bytes = whole_bytes;
        exchange.down.went_bytes = whole_bytes;
        let is_head = |request: &Arc<Request>| request.method() == "HEAD";
        let is_head = exchange.request.as_ref().is_some_and(is_head);
        let found = headers::of_response(fields, version.unwrap_or(Version::Http1));
        let body = match (body, found.length) {
            _ if matches!(status, 204 | 304) => Body::EMPTY,
            // What a GET would have got.
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
            Err(_) => self.give_up_answer(key, Failure::UpstreamProtocol),
        }
    }

    /// Hands an answer to the client's connection.
    pub(super) fn respond(&mut self, key: Key, response: &Arc<Response>) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let Some((front, stream)) = exchange.front
        {
            exchange.is_answered = true;
            exchange.status = Some(response.status());
            self.fronts.respond(front, stream, response);
        }
    }

    /// Answers in the place of an upstream.
    pub(super) fn answer(&mut self, key: Key, status: u16, why: Option<Failure>) {
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
            exchange.down.went_bytes = len;
        }
        self.respond(key, &response);
    }

    fn on_response_body(&mut self, at: At, stream: StreamId, now: Time, bytes: &[u8]) {
        let found = self.exchange_of_back(at, stream);
        let Some((key, exchange)) = found.filter(|(_, exchange)| !exchange.down.is_closed) else {
            self.backs.consume(at, stream, bytes.len() as u64);
            return;
        };
        exchange.down.came_bytes += bytes.len() as u64;
        exchange.last_progress = now;
        let has_room = exchange.held.is_none() && exchange.down.pieces.is_empty();
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
        exchange.down.went_bytes += taken as u64;
        if !rest.is_empty() {
            exchange.down.pieces.push_back(Bytes::copy_from_slice(rest));
            self.backs.add_backlog(at, rest.len());
            self.block_down(key);
        }
    }

    fn on_response_end(
        &mut self,
        at: At,
        stream: StreamId,
        now: Time,
        end: u64,
        trailers: Option<Trailers>,
    ) {
        let place = match self.backs.log.wants_exchanges() {
            true => self.locate_back(at, Way::Received, end.saturating_sub(1)),
            false => None,
        };
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

    /// Sends what waits of an answer's body as far as there is room.
    pub(super) fn pump_down(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let Some((front, stream)) = exchange.front.filter(|_| exchange.held.is_none()) else {
            return;
        };
        let flow = &mut exchange.down;
        let moved = flow.give(|piece| self.fronts.send_body(front, stream, piece));
        if flow.pieces.is_empty() && flow.has_ended && !flow.is_closed {
            flow.is_closed = true;
            self.fronts.end_body(front, stream, flow.trailers.as_ref());
        }
        if moved > 0 {
            exchange.last_progress = self.now;
            if let Some((at, stream)) = exchange.came_over {
                self.backs.consume(at, stream, moved);
                self.backs.drop_backlog(at, moved);
            }
        }
        self.block_down(key);
    }

    fn block_down(&mut self, key: Key) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && let Some((front, _)) = exchange.front
            && exchange.held.is_none()
            && exchange.down.has_news()
            && !exchange.down.is_blocked
        {
            exchange.down.is_blocked = true;
            self.fronts.block(front, key);
        }
    }

    /// Lets these, which wait for room on a client's connection, try again.
    pub(super) fn pump_blocked_down(&mut self, blocked: Vec<Key>) {
        for key in blocked {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.down.is_blocked = false;
                self.pump_down(key);
            }
        }
    }

    /// The upstream ended a stream, by a reset with this code, be it ours because of what it sent, or (`None`) by a GOAWAY
    /// that refuses the request.
    fn on_upstream_reset(&mut self, at: At, stream: StreamId, code: Option<u64>, failure: Failure) {
        let Some((key, _)) = self.exchange_of_back(at, stream) else {
            return;
        };
        if let Some(connection) = self.backs.connection_mut(at) {
            connection.streams.remove(stream);
        }
        let refused = match self.dialled.protocol {
            Protocol::H3 => squall_http::h3::code::REQUEST_REJECTED,
            _ => REFUSED_STREAM,
        };
        let is_untouched = code.is_none_or(|code| code == refused);
        self.finish_back_record(key, (at, stream), code);
        let can_repeat = |exchange: &mut Exchange| is_untouched && exchange.is_resendable();
        self.lost(key, failure, can_repeat);
    }
}

/// What is in the place of an event that was taken.
const TAKEN_BY_SERVER: ServerEvent = ServerEvent::StreamReset {
    stream: StreamId(u64::MAX),
    code: 0,
};
const TAKEN_BY_CLIENT: ClientEvent = ClientEvent::StreamReset {
    stream: StreamId(u64::MAX),
    code: 0,
};
