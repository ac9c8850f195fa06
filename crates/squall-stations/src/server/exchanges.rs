//! The exchanges that are open on one of the server's connections: what arrived, what the response is, and their
//! records.
//!
//! This module works on the streams of any connection; `tcp` and `quic` move the bytes.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Side, Way};
use squall_http::{
    Bytes, Field, Inbox, Interim, ServerEvent, ServerStreams, StreamId, StreamIo, Streams,
    WireExtent, traced_request,
};

use super::access::{AccessEntry, AccessLog};
use super::site::{Answer, Site, SiteRequest};
use super::source::Source;
use crate::accept::HEAD_TIMEOUT;
use crate::exchange::MessageMarks;
use crate::log::StationLog;
use crate::memory::{HeldMemory, SCARCE_BYTES};
use crate::request_head::RequestHead;

/// The code for our own failure (RFC 9113, section 7: INTERNAL_ERROR).
const INTERNAL_ERROR: u64 = 0x2;

/// What the exchanges of all connections share.
pub(super) struct Service {
    pub(super) site: Site,
    pub(super) log: StationLog,
    pub(super) access: Option<AccessLog>,
    pub(super) responses_written: u64,
    /// Counts the bytes that the connections hold.
    pub(super) memory: HeldMemory,
}

/// The connection that exchanges belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeOwner {
    pub(super) connection: u32,
    pub(super) peer: std::net::SocketAddr,
    pub(super) protocol: Protocol,
}

/// One exchange.
#[derive(Default)]
struct ServerExchange {
    method: String,
    target: String,
    fields: Vec<Field>,
    received: MessageMarks,
    sent: MessageMarks,
    request_body_bytes: u64,
    response_body_bytes: u64,
    status: Option<u16>,
    /// When the response was passed to the engine; a full socket may hold it there.
    offered_at: Option<Time>,
    /// The source of the response's body, if it is streamed.
    source: Option<Source>,
    /// The client waits for a 100 (Continue), so the response waits for the body.
    awaits_body: bool,
}

/// A delayed response.
pub(super) struct DelayedAnswer {
    pub(super) due: Time,
    pub(super) stream: StreamId,
    answer: Answer,
}

/// The open exchanges of one connection.
#[derive(Default)]
pub(super) struct ServerExchanges {
    open: Streams<StreamId, Box<ServerExchange>>,
    /// Streams with a source, in the order in which they began.
    streaming: Vec<StreamId>,
    /// Streams whose next piece is not due yet, and when it is.
    paced: Vec<(Time, StreamId)>,
    delayed: Vec<DelayedAnswer>,
    /// Bytes of echoes that were received and are not sent yet.
    backlog_bytes: usize,
    /// Bytes of the heads of open requests.
    head_bytes: usize,
    /// Memory is scarce: little is prepared for each stream.
    is_scarce: bool,
}

impl ServerExchanges {
    /// Applies and empties the inbox, and returns the responses to what can be answered.
    pub(super) fn apply(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
        now: Time,
        owner: ExchangeOwner,
        locate: impl Fn(Way, u64) -> Option<WireExtent>,
        service: &mut Service,
    ) -> Answers {
        if !inbox.frames.is_empty() {
            service
                .log
                .record_frames(owner.connection, now, &inbox.frames);
        }
        let mut answers = Answers::default();
        let mut bodies = Bytes::new();
        if !inbox.bodies.is_empty() {
            bodies = std::mem::take(&mut inbox.bodies).into();
        }
        for event in inbox.events.drain(..) {
            match event {
                ServerEvent::RequestFirstByte { stream, offset } => {
                    let mut exchange = ServerExchange::default();
                    let place = locate(Way::Received, offset);
                    exchange.received.begin(now, offset, place);
                    self.open.insert(stream, Box::new(exchange));
                }
                ServerEvent::RequestHead {
                    stream,
                    method,
                    target,
                    fields,
                    expects_continue,
                } => {
                    let head = RequestHead::new(method, target, fields);
                    self.on_head(stream, head, expects_continue, service, &mut answers);
                }
                ServerEvent::RequestBody { stream, len } => {
                    let piece = bodies.split_to(bodies.len().min(len as usize));
                    self.on_body(stream, len, piece, service, &mut answers);
                }
                ServerEvent::RequestEnd { stream, end } => {
                    self.on_end(stream, end, now, &locate, service, &mut answers);
                }
                ServerEvent::StreamReset { stream, code }
                | ServerEvent::RequestBroken { stream, code } => {
                    self.on_reset(stream, code, now, owner, service);
                }
                ServerEvent::ResponseFirstByteWritten { stream, offset } => {
                    if let Some(exchange) = self.open.find(stream) {
                        exchange.sent.begin(now, offset, locate(Way::Sent, offset));
                    }
                }
                ServerEvent::ResponseWritten { stream, end } => {
                    service.responses_written += 1;
                    let place = locate(Way::Sent, end.saturating_sub(1));
                    self.on_written(stream, None, (now, end, place), owner, service);
                }
                ServerEvent::RequestRefused {
                    stream,
                    status,
                    end,
                } => {
                    let place = locate(Way::Sent, end.saturating_sub(1));
                    self.on_written(stream, Some(status), (now, end, place), owner, service);
                }
            }
        }
        inbox.clear();
        answers
    }

    /// Ends the exchange of a stream that was reset, without the response that may still be due.
    fn on_reset(
        &mut self,
        stream: StreamId,
        code: u64,
        now: Time,
        owner: ExchangeOwner,
        service: &mut Service,
    ) {
        self.delayed.retain(|delayed| delayed.stream != stream);
        if let Some(exchange) = self.remove(stream) {
            exchange.finish(stream, Some(code), now, owner, service);
        }
    }

    /// Handles the last written byte of a response: the site's or, if `refusal_status` is given, the engine's own.
    fn on_written(
        &mut self,
        stream: StreamId,
        refusal_status: Option<u16>,
        (now, end, place): (Time, u64, Option<WireExtent>),
        owner: ExchangeOwner,
        service: &mut Service,
    ) {
        let Some(mut exchange) = self.remove(stream) else {
            return;
        };
        if let Some(status) = refusal_status {
            exchange.refuse(status);
        }
        exchange.sent.end(now, end, place);
        exchange.finish(stream, None, now, owner, service);
    }

    fn on_head(
        &mut self,
        stream: StreamId,
        head: RequestHead,
        expects_continue: bool,
        service: &Service,
        answers: &mut Answers,
    ) {
        answers.wait_if(expects_continue, stream);
        let Some(exchange) = self.open.find(stream) else {
            return;
        };
        (exchange.method, exchange.target, exchange.fields) =
            (head.method, head.target, head.fields);
        self.head_bytes += exchange.head_bytes();
        exchange.awaits_body = expects_continue && service.site.answers_early();
        if service.site.answers_early() && !expects_continue {
            let answer = service.site.answer(&exchange.site_request());
            answers.due.push((stream, answer));
        }
    }

    /// Answers a client that waited for a 100 (Continue), now that it sends. A proxy that got both at once might take the
    /// response for the end of the request (HAProxy 2.6 does).
    fn answer_awaited(&mut self, stream: StreamId, service: &Service, answers: &mut Answers) {
        let exchange = self.open.find(stream);
        if let Some(exchange) = exchange.filter(|exchange| exchange.awaits_body) {
            exchange.awaits_body = false;
            let answer = service.site.answer(&exchange.site_request());
            answers.due.push((stream, answer));
        }
    }

    fn on_body(
        &mut self,
        stream: StreamId,
        len: u64,
        piece: Bytes,
        service: &Service,
        answers: &mut Answers,
    ) {
        answers.stop_waiting(stream);
        self.answer_awaited(stream, service, answers);
        let Some(exchange) = self.open.find(stream) else {
            return;
        };
        exchange.request_body_bytes += len;
        match &mut exchange.source {
            Some(Source::Echo { waiting, .. }) => {
                self.backlog_bytes += piece.len();
                waiting.extend(&piece[..]);
            }
            // A response found in this same call is not set up yet.
            _ if !piece.is_empty() => answers.early_bodies.push((stream, piece)),
            _ => {}
        }
    }

    fn on_end(
        &mut self,
        stream: StreamId,
        end: u64,
        now: Time,
        locate: &impl Fn(Way, u64) -> Option<WireExtent>,
        service: &Service,
        answers: &mut Answers,
    ) {
        if let Some(exchange) = self.open.find(stream) {
            let place = locate(Way::Received, end.saturating_sub(1));
            exchange.received.end(now, end, place);
        }
        answers.stop_waiting(stream);
        self.answer_awaited(stream, service, answers);
        let Some(exchange) = self.open.find(stream) else {
            return;
        };
        if service.site.answers_early() {
            match &mut exchange.source {
                Some(Source::Echo { has_ended, .. }) => *has_ended = true,
                _ => answers.ended_early.push(stream),
            }
        } else {
            let answer = service.site.answer(&exchange.site_request());
            answers.due.push((stream, answer));
        }
    }

    /// Passes responses to the engine, or keeps them until they are due; then sends what sources have. A client that waits
    /// for a 100 (Continue) gets it first.
    pub(super) fn respond(&mut self, answers: Answers, now: Time, engine: &mut ServerStreams<'_>) {
        for stream in answers.waiting_clients {
            engine.inform(stream, &Interim::continue_100());
        }
        for (stream, answer) in answers.due {
            if answer.delay > squall_base::Duration::ZERO {
                self.delayed.push(DelayedAnswer {
                    due: now + answer.delay,
                    stream,
                    answer,
                });
            } else {
                self.begin(stream, answer, now, engine);
            }
        }
        for (stream, piece) in answers.early_bodies {
            let len = piece.len();
            if let Some(Source::Echo { waiting, .. }) = self.source(stream) {
                waiting.extend(&piece[..]);
                self.backlog_bytes += len;
            }
        }
        for stream in answers.ended_early {
            if let Some(Source::Echo { has_ended, .. }) = self.source(stream) {
                *has_ended = true;
            }
        }
        self.stream(engine);
    }

    /// Begins the responses that are due. Returns when the next one will be.
    pub(super) fn respond_delayed(
        &mut self,
        now: Time,
        engine: &mut ServerStreams<'_>,
    ) -> Option<Time> {
        while let Some(index) = self.delayed.iter().position(|delayed| delayed.due <= now) {
            let DelayedAnswer { stream, answer, .. } = self.delayed.remove(index);
            self.begin(stream, answer, now, engine);
        }
        self.release_pieces(now);
        self.stream(engine);
        self.next_due()
    }

    /// When the next response is due, or the next piece of one.
    pub(super) fn next_due(&self) -> Option<Time> {
        let delayed = self.delayed.iter().map(|delayed| delayed.due);
        delayed.chain(self.paced.iter().map(|(due, _)| *due)).min()
    }

    /// Lets the sources with pauses send what is due.
    fn release_pieces(&mut self, now: Time) {
        let ServerExchanges { open, paced, .. } = self;
        paced.retain_mut(|(due, stream)| {
            if *due > now {
                return true;
            }
            // A client may have reset the stream meanwhile.
            let next = open
                .find(*stream)
                .and_then(|exchange| exchange.release(now));
            *due = next.unwrap_or(*due);
            next.is_some()
        });
    }

    fn source(&mut self, stream: StreamId) -> Option<&mut Source> {
        self.open.find(stream)?.source.as_mut()
    }

    fn begin(
        &mut self,
        stream: StreamId,
        answer: Answer,
        now: Time,
        engine: &mut ServerStreams<'_>,
    ) {
        // A client may have reset the stream meanwhile.
        let Some(exchange) = self.open.find(stream) else {
            return;
        };
        exchange.status = Some(answer.response.status());
        exchange.offered_at = Some(now);
        exchange.response_body_bytes = answer.response.body().length().unwrap_or(0);
        if exchange.method == "HEAD" {
            exchange.response_body_bytes = 0;
        }
        // Fails only if the client has reset the stream meanwhile, or is gone.
        let _ = engine.respond(stream, &answer.response);
        if let Some(source) = answer.source {
            if exchange.method == "HEAD" {
                engine.end_body(stream);
                return;
            }
            exchange.source = Some(source);
            exchange.response_body_bytes = 0;
            let next = exchange.release(now);
            self.paced.extend(next.map(|due| (due, stream)));
            self.streaming.push(stream);
        }
    }

    /// Sends what sources have, as far as there is room. Call it whenever there may be room again.
    pub(super) fn stream(&mut self, engine: &mut ServerStreams<'_>) {
        let ServerExchanges {
            open,
            streaming,
            backlog_bytes,
            is_scarce,
            ..
        } = self;
        let at_most = if *is_scarce { SCARCE_BYTES } else { usize::MAX };
        streaming.retain(|&stream| {
            open.find(stream)
                .is_some_and(|exchange| exchange.stream(stream, engine, at_most, backlog_bytes))
        });
    }

    /// The requests whose heads have been arriving for too long at `now`.
    pub(super) fn slow_heads(&self, now: Time) -> Vec<StreamId> {
        let open = self.open.iter();
        open.filter(|(_, exchange)| exchange.has_slow_head(now))
            .map(|(stream, _)| stream)
            .collect()
    }

    /// Ends an exchange whose stream is being reset with this code.
    pub(super) fn give_up(
        &mut self,
        stream: StreamId,
        code: u64,
        now: Time,
        owner: ExchangeOwner,
        service: &mut Service,
    ) {
        if let Some(exchange) = self.remove(stream) {
            exchange.finish(stream, Some(code), now, owner, service);
        }
    }

    /// Removes an exchange. Echoed bytes that it had not sent are gone.
    fn remove(&mut self, stream: StreamId) -> Option<Box<ServerExchange>> {
        let exchange = self.open.remove(stream)?;
        self.head_bytes = self.head_bytes.saturating_sub(exchange.head_bytes());
        if let Some(Source::Echo { waiting, .. }) = &exchange.source {
            self.backlog_bytes = self.backlog_bytes.saturating_sub(waiting.len());
        }
        Some(exchange)
    }

    /// Sets whether memory is scarce, so that little should be prepared for each stream.
    pub(super) fn set_scarce(&mut self, is_scarce: bool) {
        self.is_scarce = is_scarce;
    }

    /// Bytes that these exchanges hold: heads of requests, and echoes.
    pub(super) fn held_bytes(&self) -> usize {
        self.head_bytes + self.backlog_bytes
    }

    /// Bytes of echoes that wait to be sent.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Whether a source waits for room.
    pub(super) fn is_streaming(&self) -> bool {
        !self.streaming.is_empty()
    }

    /// Ends everything that was open on a connection that is gone.
    pub(super) fn abandon(&mut self, now: Time, owner: ExchangeOwner, service: &mut Service) {
        for (stream, exchange) in self.open.drain() {
            exchange.finish(stream, None, now, owner, service);
        }
        (self.head_bytes, self.backlog_bytes) = (0, 0);
    }
}

/// What a batch of events requires.
#[derive(Default)]
pub(super) struct Answers {
    /// Streams whose clients wait for a 100 (Continue).
    waiting_clients: Vec<StreamId>,
    due: Vec<(StreamId, Answer)>,
    /// Pieces of bodies, and ends of requests, whose responses are in `due`.
    early_bodies: Vec<(StreamId, Bytes)>,
    ended_early: Vec<StreamId>,
}

impl Answers {
    /// Notes that a client waits for a 100 (Continue), if it does.
    fn wait_if(&mut self, expects_continue: bool, stream: StreamId) {
        self.waiting_clients
            .extend(expects_continue.then_some(stream));
    }

    /// More of a request has arrived, so its client is not waiting for a 100.
    fn stop_waiting(&mut self, stream: StreamId) {
        self.waiting_clients.retain(|waiting| *waiting != stream);
    }
}

impl ServerExchange {
    fn site_request(&self) -> SiteRequest<'_> {
        SiteRequest {
            method: &self.method,
            target: &self.target,
            fields: &self.fields,
            body_bytes: self.request_body_bytes,
        }
    }

    /// Whether its request's head has been arriving for too long.
    fn has_slow_head(&self, now: Time) -> bool {
        let began = self.received.first.filter(|_| self.method.is_empty());
        began.is_some_and(|began| began + HEAD_TIMEOUT <= now)
    }

    /// Lets a source with pauses send the pieces that are due. Returns when the next piece is due.
    fn release(&mut self, now: Time) -> Option<Time> {
        match &mut self.source {
            Some(Source::Paced(paced)) => paced.release(now),
            _ => None,
        }
    }

    /// How many bytes the request's head takes.
    fn head_bytes(&self) -> usize {
        let fields = self.fields.iter();
        let fields: usize = fields
            .map(|field| field.name.len() + field.value.len())
            .sum();
        self.method.len() + self.target.len() + fields
    }

    /// Sends what the source has, as far as no more than `at_most` bytes wait; false when the source is finished.
    /// Nothing is read from the source before there is room for it.
    fn stream(
        &mut self,
        stream: StreamId,
        engine: &mut ServerStreams<'_>,
        at_most: usize,
        backlog_bytes: &mut usize,
    ) -> bool {
        let Some(source) = &mut self.source else {
            return false;
        };
        let is_echo = matches!(source, Source::Echo { .. });
        loop {
            if source.has_ended() {
                engine.end_body(stream);
                return false;
            }
            let unused = at_most.saturating_sub(engine.body_waiting(stream));
            let room = engine.body_room(stream).min(unused);
            if room == 0 {
                return true;
            }
            let piece = match source.piece(room) {
                Ok([]) => return true,
                Ok(piece) => piece,
                Err(_) => {
                    engine.reset(stream, INTERNAL_ERROR);
                    return false;
                }
            };
            let taken = engine.send_body(stream, piece);
            if taken == 0 {
                return true;
            }
            source.advance(taken);
            self.response_body_bytes += taken as u64;
            if is_echo {
                engine.consume(stream, taken as u64);
                *backlog_bytes = backlog_bytes.saturating_sub(taken);
            }
        }
    }

    /// The engine has responded; nothing of the site's response was sent.
    fn refuse(&mut self, status: u16) {
        self.status = Some(status);
        self.response_body_bytes = 0;
    }

    /// Records an exchange that has ended: with its last byte, by a reset or with its connection.
    fn finish(
        self: Box<Self>,
        stream: StreamId,
        reset: Option<u64>,
        now: Time,
        owner: ExchangeOwner,
        service: &mut Service,
    ) {
        if let Some(access) = &mut service.access {
            access.write(&AccessEntry {
                peer: owner.peer,
                protocol: owner.protocol,
                method: or_unknown(&self.method),
                target: or_unknown(&self.target),
                status: self.status.filter(|_| self.sent.last.is_some()),
                request_body_bytes: self.request_body_bytes,
                response_body_bytes: self.response_body_bytes,
                began: self.received.first.unwrap_or(now),
                ended: self.sent.last.unwrap_or(now),
            });
        }
        if service.log.wants_exchanges() {
            service.log.record_exchange(ExchangeRecord {
                hop: service.log.hop(),
                side: Side::Server,
                connection: owner.connection,
                stream: stream.0,
                protocol: owner.protocol,
                request: traced_request(&self.fields),
                beginning: Beginning {
                    offered: self.offered_at,
                    ..Beginning::default()
                },
                request_first: self.received.first,
                request_last: self.received.last,
                response_first: self.sent.first,
                response_last: self.sent.last,
                request_extent: self.received.extent(),
                response_extent: self.sent.extent(),
                request_body_bytes: self.request_body_bytes,
                response_body_bytes: self.response_body_bytes,
                status: self.status,
                reset,
            });
        }
    }
}

/// A word of the head for the access log; `-` if the head was not understood.
fn or_unknown(word: &str) -> &str {
    if word.is_empty() { "-" } else { word }
}
