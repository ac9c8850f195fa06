//! The server's side of an HTTP/1.1 connection: reads requests, writes their responses in order.
//!
//! Requests may be pipelined; a response may begin before its request's body has ended. By itself it answers
//! `Expect: 100-continue`, and requests that could be understood in two ways: those it refuses, and ends the
//! connection.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::plan::{BodyFraming, Http1Settings};

use super::CLOSE_LINE;
use super::body::Body;
use super::fields::TrailerBuffer;
use super::head::{HeadBuffer, RequestHead, ToHead, parse_request};
use super::outgoing::{Manner, Outgoing, STREAM_BUFFER_BYTES};
use super::refusal::{Refusal, last_word};
use super::staged::Staged;
use super::version::Version;
use crate::error::{ConnectionError, CreateError, RespondError};
use crate::event::{ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Interim, Response, Trailers};

/// How many requests may wait for their answers; a bound of memory that no decent client reaches.
pub const MAX_PIPELINED: usize = 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A server's connection.
#[derive(Debug)]
pub struct Server {
    settings: Http1Settings,
    next: StreamId,
    reading: Reading,
    head: HeadBuffer,
    trailers: TrailerBuffer,
    /// Requests whose responses are not wholly written, oldest first, without a gap.
    exchanges: VecDeque<Exchange>,
    failure: Option<ConnectionError>,
    /// An answer that goes to the end of the connection was given up.
    has_cut_off: bool,
    /// Bytes written and read so far.
    sent: u64,
    received: u64,
}

/// What the next byte from the client belongs to.
#[derive(Debug)]
enum Reading {
    /// The head of a request.
    Head,
    /// The body of a request, and whether another request may follow.
    Body {
        stream: StreamId,
        body: Body,
        then: Then,
    },
    /// Nothing: the client said or showed that this was all.
    Over,
}

/// What follows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

/// A request that waits for its response, or whose response is being written.
#[derive(Debug)]
struct Exchange {
    stream: StreamId,
    /// In which version the client speaks.
    reader: Version,
    to_head: ToHead,
    then: Then,
    /// What is left of interim responses: of the 100 (Continue) for which the client waits, or of others.
    interim: Staged,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// None yet.
    Awaited,
    /// A response behind others that are not wholly written. It takes its form, and body, when its turn comes: of a
    /// thousand pipelined requests only one holds a buffer. `is_ended`: of its streamed body nothing will come.
    Waiting {
        response: Arc<Response>,
        is_ended: bool,
    },
    /// The response, at its turn.
    Response(Outgoing),
    /// Our own response to a request that we refuse.
    Refusal(Refusal),
}

impl Server {
    /// A connection that has not been used.
    pub fn new(settings: &Http1Settings) -> Result<Server, CreateError> {
        Ok(Server {
            settings: *settings,
            next: StreamId(0),
            reading: Reading::Head,
            head: HeadBuffer::default(),
            trailers: TrailerBuffer::default(),
            exchanges: VecDeque::new(),
            failure: None,
            has_cut_off: false,
            sent: 0,
            received: 0,
        })
    }

    /// See [`crate::ServerConnection::is_open`]. After a request was refused, it is open until the refusal is written.
    pub fn is_open(&self) -> bool {
        let next = self.exchanges.front();
        !matches!(self.reading, Reading::Over) || next.is_some_and(|exchange| !exchange.is_done())
    }

    /// See [`crate::ServerConnection::cuts_off`].
    pub fn cuts_off(&self) -> bool {
        let next = self.exchanges.front();
        self.has_cut_off || next.is_some_and(Exchange::goes_to_the_end)
    }

    /// See [`crate::ServerConnection::respond`]. The response to the last request that the settings allow says
    /// `connection: close`.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let framing = self.settings.framing;
        let place = self.place(stream);
        let exchange = place.and_then(|place| self.exchanges.get_mut(place));
        let exchange = exchange.filter(|exchange| matches!(exchange.answer, Answer::Awaited));
        let exchange = exchange.ok_or(RespondError::NotWaiting(stream))?;
        exchange.answer = if place == Some(0) {
            Answer::Response(exchange.outgoing(response, framing))
        } else {
            Answer::Waiting {
                response: Arc::clone(response),
                is_ended: false,
            }
        };
        exchange.drop_interim();
        Ok(())
    }

    /// See [`crate::ServerConnection::inform`]. It waits for the responses before it.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        if let Some(exchange) = self.exchange_mut(stream)
            && let (Answer::Awaited, Version::Http11) = (&exchange.answer, exchange.reader)
            && exchange.interim.pending().len() < STREAM_BUFFER_BYTES
        {
            exchange.interim.push(&interim.lines());
        }
    }

    /// How many bytes of a response's streamed body would be taken now. None is taken in answer to a HEAD request, nor
    /// while responses before it are not wholly written.
    pub fn body_room(&self, stream: StreamId) -> usize {
        let exchange = self
            .place(stream)
            .and_then(|index| self.exchanges.get(index));
        match exchange.map(|exchange| &exchange.answer) {
            Some(Answer::Response(message)) => message.room(),
            _ => 0,
        }
    }

    /// Takes some bytes of a response's streamed body; returns how many, 0 if the response is over. What exceeds the
    /// announced length is never taken.
    pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.message_mut(stream)
            .and_then(Outgoing::stream)
            .map_or(0, |body| body.send(bytes))
    }

    /// No more of a response's streamed body will come. If that is less than was announced, the connection fails, as
    /// if this server had gone away.
    ///
    /// To an HTTP/1.0 client the connection's end is that of a body of unknown length: there may be nothing to write
    /// then, and [`ServerEvent::ResponseWritten`] comes with the next call that takes an inbox.
    pub fn end_body(&mut self, stream: StreamId) {
        if let Some(exchange) = self.exchange_mut(stream)
            && let Answer::Waiting { is_ended, .. } = &mut exchange.answer
        {
            *is_ended = true;
        }
        let body = self.message_mut(stream).and_then(Outgoing::stream);
        if body.is_some_and(|body| body.end().is_err()) {
            self.die(ConnectionError::GivenUp);
        }
    }

    /// The same with trailers behind the body, which are left out if it is not sent in chunks, or waits for its turn.
    pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        if let Some(body) = self.message_mut(stream).and_then(Outgoing::stream) {
            body.set_trailers(trailers.lines());
        }
        self.end_body(stream);
    }

    /// HTTP/1.1 has no windows: an owner that wants no more bodies stops reading, and this changes nothing.
    pub fn set_manual_consumption(&mut self) {}

    /// As [`Server::set_manual_consumption`].
    pub fn consume(&mut self, _stream: StreamId, _n: u64) {}

    /// Gives an exchange up and with it, as HTTP/1.1 has no other way, the connection. The code is not sent.
    pub fn reset(&mut self, stream: StreamId, _code: u64) {
        let is_read = match self.reading {
            Reading::Head => self.head.has_begun() && self.next == stream,
            Reading::Body { stream: now, .. } => now == stream,
            Reading::Over => false,
        };
        if is_read || self.exchange_mut(stream).is_some() {
            self.die(ConnectionError::GivenUp);
        }
    }

    /// See [`crate::ServerConnection::receive`]. A request that is refused gets its answer from here, behind the
    /// answers of those before it.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        self.settle(inbox);
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => self.read(bytes, inbox).inspect_err(|error| {
                self.refuse(error);
            }),
        }
    }

    fn read(
        &mut self,
        mut bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                Reading::Head => self.read_head(bytes, inbox)?,
                Reading::Body { stream, body, then } => {
                    let (stream, then) = (*stream, *then);
                    let taken = body.take(bytes, |data| inbox.push_body(stream, data))?;
                    self.received += taken.used as u64;
                    if inbox.wants().fields {
                        self.trailers.add(&bytes[..taken.used], taken.trailer_bytes);
                    }
                    if taken.is_done {
                        inbox.push_trailers(stream, self.trailers.take());
                        self.end_request(stream, then, inbox);
                    }
                    self.stop_waiting(stream);
                    taken.used
                }
                // What follows the last request is ignored (RFC 9112, section 9.6).
                Reading::Over => bytes.len(),
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn read_head(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<usize, ConnectionError> {
        let skipped = self.head.skip_empty_lines(bytes);
        if skipped > 0 {
            self.received += skipped as u64;
            return Ok(skipped);
        }
        if !self.head.has_begun() {
            inbox.push(ServerEvent::RequestFirstByte {
                stream: self.next,
                offset: self.received - self.head.len(),
            });
        }
        let wants = inbox.wants();
        let (used, head) = self.head.take(bytes, |bytes| parse_request(bytes, wants))?;
        self.received += used as u64;
        if let Some(head) = head {
            self.on_head(head, inbox)?;
        }
        Ok(used)
    }

    fn on_head(
        &mut self,
        head: RequestHead,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        if self.exchanges.len() >= MAX_PIPELINED {
            return Err(ConnectionError::TooManyPipelined);
        }
        let stream = self.next;
        self.next = StreamId(stream.0.wrapping_add(1));
        let limit = self.settings.requests_per_connection;
        let is_last = limit.is_some_and(|limit| self.next.0 >= u64::from(limit));
        let then = if head.keeps_alive && !is_last {
            Then::Next
        } else {
            Then::Close
        };
        let body = Body::of(head.framing);
        let waits = head.expects_continue && body.is_some();
        let to_head = if head.method == "HEAD" {
            ToHead::Yes
        } else {
            ToHead::No
        };
        self.exchanges.push_back(Exchange {
            stream,
            reader: head.version,
            to_head,
            then,
            interim: Staged::new(if waits { CONTINUE.to_vec() } else { Vec::new() }),
            answer: Answer::Awaited,
        });
        inbox.push(ServerEvent::RequestHead {
            stream,
            method: head.method,
            target: head.target,
            fields: head.fields,
        });
        match body {
            Some(body) => self.reading = Reading::Body { stream, body, then },
            None => self.end_request(stream, then, inbox),
        }
        Ok(())
    }

    fn end_request(&mut self, stream: StreamId, then: Then, inbox: &mut Inbox<ServerEvent>) {
        self.reading = match then {
            Then::Next => Reading::Head,
            Then::Close => Reading::Over,
        };
        inbox.push(ServerEvent::RequestEnd {
            stream,
            end: self.received,
        });
    }

    /// The client sends its body, so it does not wait for a 100 (Continue) any more.
    fn stop_waiting(&mut self, stream: StreamId) {
        if let Some(exchange) = self.exchanges.back_mut()
            && exchange.stream == stream
        {
            exchange.drop_interim();
        }
    }

    /// Ends the connection behind an answer that says why, unless the request has its answer already.
    fn refuse(&mut self, error: &ConnectionError) {
        let Some(refusal) = last_word(error) else {
            self.die(error.clone());
            return;
        };
        self.failure = Some(error.clone());
        match std::mem::replace(&mut self.reading, Reading::Over) {
            Reading::Head => self.exchanges.push_back(Exchange {
                stream: self.next,
                reader: Version::Http11,
                to_head: ToHead::No,
                then: Then::Close,
                interim: Staged::new(Vec::new()),
                answer: Answer::Refusal(refusal),
            }),
            Reading::Body { stream, .. } => {
                if let Some(exchange) = self.exchange_mut(stream)
                    && let Answer::Awaited = exchange.answer
                {
                    exchange.answer = Answer::Refusal(refusal);
                    exchange.drop_interim();
                }
            }
            Reading::Over => {}
        }
    }

    /// Ends the connection without a word.
    fn die(&mut self, error: ConnectionError) {
        self.has_cut_off = self.cuts_off();
        self.failure = Some(error);
        self.reading = Reading::Over;
        self.exchanges.clear();
    }

    /// See [`crate::ServerConnection::receive_end`].
    pub fn receive_end(&mut self, inbox: &mut Inbox<ServerEvent>) -> Result<(), ConnectionError> {
        self.settle(inbox);
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let is_between_requests = match self.reading {
            Reading::Head => !self.head.has_begun(),
            Reading::Body { .. } => false,
            Reading::Over => true,
        };
        if is_between_requests {
            self.reading = Reading::Over;
            Ok(())
        } else {
            self.die(ConnectionError::UnexpectedEnd);
            Err(ConnectionError::UnexpectedEnd)
        }
    }

    /// See [`crate::ServerConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        self.exchanges.front().map_or(&[], Exchange::pending)
    }

    /// See [`crate::ServerConnection::holds_answer`]: nothing else is ever written.
    pub fn holds_answer(&self) -> bool {
        (self.exchanges.front()).is_some_and(|exchange| !exchange.pending().is_empty())
    }

    /// See [`crate::ServerConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ServerEvent>) {
        let n = n.min(self.output().len());
        if n > 0
            && let Some(exchange) = self.exchanges.front_mut()
        {
            let stream = exchange.stream;
            if exchange.advance(n) == Mark::FirstByte {
                inbox.push(ServerEvent::ResponseFirstByteWritten {
                    stream,
                    offset: self.sent,
                });
            }
            self.sent += n as u64;
        }
        self.settle(inbox);
    }

    /// Takes leave of the exchange whose answer is written: the next has its turn.
    fn settle(&mut self, inbox: &mut Inbox<ServerEvent>) {
        let Some(exchange) = self.exchanges.front().filter(|next| next.is_done()) else {
            return;
        };
        let (stream, end) = (exchange.stream, self.sent);
        match &exchange.answer {
            Answer::Response(_) => inbox.push(ServerEvent::ResponseWritten { stream, end }),
            Answer::Refusal(refusal) => inbox.push(ServerEvent::RequestRefused {
                stream,
                status: refusal.status,
                end,
            }),
            Answer::Awaited | Answer::Waiting { .. } => {}
        }
        self.exchanges.pop_front();
        self.begin_next();
    }

    /// Gives the first response its form, if it has waited for its turn.
    fn begin_next(&mut self) {
        let framing = self.settings.framing;
        let Some(exchange) = self.exchanges.front_mut() else {
            return;
        };
        let Answer::Waiting { response, is_ended } = &exchange.answer else {
            return;
        };
        let is_ended = *is_ended;
        let message = exchange.outgoing(response, framing);
        let stream = exchange.stream;
        exchange.answer = Answer::Response(message);
        if is_ended {
            self.end_body(stream);
        }
    }

    /// Where among the exchanges it would be.
    fn place(&self, stream: StreamId) -> Option<usize> {
        let first = self.exchanges.front()?.stream;
        usize::try_from(stream.0.checked_sub(first.0)?).ok()
    }

    fn exchange_mut(&mut self, stream: StreamId) -> Option<&mut Exchange> {
        let index = self.place(stream)?;
        self.exchanges.get_mut(index)
    }

    fn message_mut(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        match &mut self.exchange_mut(stream)?.answer {
            Answer::Response(message) => Some(message),
            Answer::Awaited | Answer::Waiting { .. } | Answer::Refusal(_) => None,
        }
    }
}

/// What an advance of the output has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    FirstByte,
    None,
}

impl Exchange {
    /// The response as this client is to get it.
    fn outgoing(&self, response: &Response, framing: BodyFraming) -> Outgoing {
        let manner = Manner {
            framing,
            reader: self.reader,
            to_head: self.to_head,
            extra: match self.then {
                Then::Next => "",
                Then::Close => CLOSE_LINE,
            },
        };
        Outgoing::new(response.h1(), manner)
    }

    /// A final answer, or a body that comes unasked, makes the interim one needless, unless that has begun.
    fn drop_interim(&mut self) {
        if self.interim.pending() == CONTINUE {
            self.interim.take(CONTINUE.len());
        }
    }

    /// Whether the answer is wholly written.
    fn is_done(&self) -> bool {
        match &self.answer {
            Answer::Awaited | Answer::Waiting { .. } => false,
            Answer::Response(message) => message.is_done(),
            Answer::Refusal(refusal) => refusal.pending().is_empty(),
        }
    }

    /// Whether nothing but the end of the connection can say that the answer is over, and it is not.
    fn goes_to_the_end(&self) -> bool {
        match &self.answer {
            Answer::Response(message) => message.goes_to_the_end() && !message.is_done(),
            Answer::Awaited | Answer::Waiting { .. } | Answer::Refusal(_) => false,
        }
    }

    fn pending(&self) -> &[u8] {
        match &self.answer {
            _ if !self.interim.is_empty() => self.interim.pending(),
            Answer::Awaited | Answer::Waiting { .. } => &[],
            Answer::Response(message) => message.pending(),
            Answer::Refusal(refusal) => refusal.pending(),
        }
    }

    /// Counts the first `n` bytes of what is pending, more than none.
    fn advance(&mut self, n: usize) -> Mark {
        match &mut self.answer {
            _ if !self.interim.is_empty() => self.interim.take(n),
            Answer::Awaited | Answer::Waiting { .. } => {}
            Answer::Response(message) => {
                if message.advance(n).is_first {
                    return Mark::FirstByte;
                }
            }
            Answer::Refusal(refusal) => {
                let is_first = !refusal.has_begun();
                refusal.advance(n);
                if is_first {
                    return Mark::FirstByte;
                }
            }
        }
        Mark::None
    }
}
