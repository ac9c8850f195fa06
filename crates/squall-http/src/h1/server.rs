//! The server's side of an HTTP/1.1 connection: reads requests, writes their responses in order.
//!
//! Requests may be pipelined; a response may begin before its request's body has ended. The engine itself answers
//! `Expect: 100-continue`, and it rejects ambiguous requests with an error response, after which it ends the
//! connection. A client of HTTP/1.0 may keep its connection (`connection: keep-alive`), but not pipeline.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::plan::{BodyFraming, Http1Settings};

use super::body::Body;
use super::fields::TrailerBuffer;
use super::head::{AnsweredMethod, HeadBuffer, RequestHead, parse_request};
use super::outgoing::{Outgoing, STREAM_BUFFER_BYTES, SendOptions};
use super::refusal::{REQUEST_TIMEOUT, Refusal, refusal_for};
use super::staged::StagedOutput;
use super::version::Version;
use super::{CLOSE_LINE, KEEP_ALIVE_LINE};
use crate::engine::{Engine, StreamIo};
use crate::error::{ConnectionError, CreateError, RespondError};
use crate::event::{ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Interim, Response, Trailers};

/// How many requests may wait for their responses; bounds the memory, and no well-behaved client reaches it.
pub const MAX_PIPELINED: usize = 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A server's connection.
#[derive(Debug)]
pub struct Server {
    settings: Http1Settings,
    next: StreamId,
    reading: ReadState,
    head: HeadBuffer,
    trailers: TrailerBuffer,
    /// Requests whose responses are not completely written, oldest first, without gaps.
    requests: VecDeque<PendingRequest>,
    failure: Option<ConnectionError>,
    /// A response delimited by the end of the connection was abandoned.
    has_cut_off: bool,
    /// Bytes written and read so far.
    sent: u64,
    received: u64,
}

/// What the next byte from the client belongs to.
#[derive(Debug)]
enum ReadState {
    /// The head of a request.
    Head,
    /// The body of a request; `then` says whether another request may follow.
    Body {
        stream: StreamId,
        body: Body,
        then: AfterRequest,
    },
    /// Nothing: this was the client's last request.
    Over,
}

/// What follows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRequest {
    Next,
    Close,
}

/// A request that waits for its response, or whose response is being written.
#[derive(Debug)]
struct PendingRequest {
    stream: StreamId,
    /// The client's version.
    peer_version: Version,
    answered: AnsweredMethod,
    then: AfterRequest,
    /// The unwritten rest of interim responses: the 100 (Continue) for which the client waits, or others.
    interim: StagedOutput,
    response_state: ResponseState,
}

#[derive(Debug)]
enum ResponseState {
    /// No response yet.
    Awaited,
    /// A response queued behind others that are not completely written. It is serialised only when its turn comes, so
    /// that of a thousand pipelined requests only one holds a buffer. `is_ended`: its streamed body was ended without
    /// any bytes.
    Queued {
        response: Arc<Response>,
        is_ended: bool,
    },
    /// The response, in its turn.
    Sending(Outgoing),
    /// Our own error response to a request that we reject.
    Refusal(Refusal),
}

impl Server {
    /// A new connection.
    pub fn new(settings: &Http1Settings) -> Result<Server, CreateError> {
        Ok(Server {
            settings: *settings,
            next: StreamId(0),
            reading: ReadState::Head,
            head: HeadBuffer::default(),
            trailers: TrailerBuffer::default(),
            requests: VecDeque::new(),
            failure: None,
            has_cut_off: false,
            sent: 0,
            received: 0,
        })
    }

    /// See [`crate::ServerConnection::must_reset`].
    pub fn must_reset(&self) -> bool {
        let next = self.requests.front();
        self.has_cut_off || next.is_some_and(PendingRequest::is_delimited_by_close)
    }

    /// See [`crate::ServerStreams::respond`]. The response to the last request that the settings allow carries
    /// `connection: close`, and so does a 408 (Request Timeout) to a request that is still arriving: the rest of it is
    /// ignored.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let framing = self.settings.framing;
        let place = self.place(stream);
        let request = place.and_then(|place| self.requests.get_mut(place));
        let request =
            request.filter(|request| matches!(request.response_state, ResponseState::Awaited));
        let request = request.ok_or(RespondError::NotWaiting(stream))?;
        if request.is_ended_by_close(response) {
            // While an HTTP/1.0 request has no response, no later request is read, so reading can end now, or with this
            // request's body.
            request.then = AfterRequest::Close;
            match &mut self.reading {
                ReadState::Head => self.reading = ReadState::Over,
                ReadState::Body { then, .. } => *then = AfterRequest::Close,
                ReadState::Over => {}
            }
        }
        let is_arriving =
            matches!(self.reading, ReadState::Body { stream: now, .. } if now == stream);
        if is_arriving && response.status() == 408 {
            request.then = AfterRequest::Close;
            self.reading = ReadState::Over;
        }
        request.response_state = if place == Some(0) {
            ResponseState::Sending(request.outgoing(response, framing))
        } else {
            ResponseState::Queued {
                response: Arc::clone(response),
                is_ended: false,
            }
        };
        request.drop_interim();
        Ok(())
    }

    /// See [`crate::ServerStreams::inform`]. The interim response waits for the responses before it.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        if let Some(request) = self.request_mut(stream)
            && let (ResponseState::Awaited, Version::Http11) =
                (&request.response_state, request.peer_version)
            && request.interim.pending().len() < STREAM_BUFFER_BYTES
        {
            request.interim.push(&interim.lines());
        }
    }

    fn read(
        &mut self,
        mut bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                ReadState::Head => self.read_head(bytes, inbox)?,
                ReadState::Body { stream, body, then } => {
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
                // Anything after the last request is ignored (RFC 9112, section 9.6).
                ReadState::Over => bytes.len(),
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
        if let Some(last) = self.requests.back_mut()
            && last.peer_version == Version::Http10
        {
            // HTTP/1.0 has no pipelining: the connection ends after the response, and the rest is ignored.
            last.then = AfterRequest::Close;
            self.reading = ReadState::Over;
            return Ok(bytes.len());
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
        if self.requests.len() >= MAX_PIPELINED {
            return Err(ConnectionError::TooManyPipelined);
        }
        let stream = self.next;
        self.next = StreamId(stream.0.wrapping_add(1));
        let limit = self.settings.requests_per_connection;
        let is_last = limit.is_some_and(|limit| self.next.0 >= u64::from(limit));
        let then = if head.keeps_alive && !is_last {
            AfterRequest::Next
        } else {
            AfterRequest::Close
        };
        let waits = head.expects_continue && head.body.is_some();
        self.requests.push_back(PendingRequest {
            stream,
            peer_version: head.version,
            answered: AnsweredMethod::of(head.method == "HEAD"),
            then,
            interim: StagedOutput::new(if waits { CONTINUE.to_vec() } else { Vec::new() }),
            response_state: ResponseState::Awaited,
        });
        inbox.push(ServerEvent::RequestHead {
            stream,
            method: head.method,
            target: head.target,
            fields: head.fields,
            expects_continue: false,
        });
        match head.body {
            Some(body) => self.reading = ReadState::Body { stream, body, then },
            None => self.end_request(stream, then, inbox),
        }
        Ok(())
    }

    fn end_request(
        &mut self,
        stream: StreamId,
        then: AfterRequest,
        inbox: &mut Inbox<ServerEvent>,
    ) {
        self.reading = match then {
            AfterRequest::Next => ReadState::Head,
            AfterRequest::Close => ReadState::Over,
        };
        inbox.push(ServerEvent::RequestEnd {
            stream,
            end: self.received,
        });
    }

    /// Handles the start of a request's body: the client no longer waits for a 100 (Continue).
    fn stop_waiting(&mut self, stream: StreamId) {
        if let Some(request) = self.requests.back_mut()
            && request.stream == stream
        {
            request.drop_interim();
        }
    }

    /// See [`crate::ServerConnection::time_out_head`].
    pub fn time_out_head(&mut self) -> bool {
        let is_arriving = matches!(self.reading, ReadState::Head) && self.head.has_begun();
        if is_arriving {
            self.refuse_with(ConnectionError::GivenUp, REQUEST_TIMEOUT);
        }
        is_arriving
    }

    /// Ends the connection because of an error in a request: after an error response, if there is one for it.
    fn refuse(&mut self, error: &ConnectionError) {
        match refusal_for(error) {
            Some(refusal) => self.refuse_with(error.clone(), refusal),
            None => self.fail(error.clone()),
        }
    }

    /// Ends the connection after an error response, unless the request has already been answered.
    fn refuse_with(&mut self, error: ConnectionError, refusal: Refusal) {
        self.failure = Some(error);
        match std::mem::replace(&mut self.reading, ReadState::Over) {
            ReadState::Head => self.requests.push_back(PendingRequest {
                stream: self.next,
                peer_version: Version::Http11,
                answered: AnsweredMethod::Other,
                then: AfterRequest::Close,
                interim: StagedOutput::new(Vec::new()),
                response_state: ResponseState::Refusal(refusal),
            }),
            ReadState::Body { stream, .. } => {
                if let Some(request) = self.request_mut(stream)
                    && let ResponseState::Awaited = request.response_state
                {
                    request.response_state = ResponseState::Refusal(refusal);
                    request.drop_interim();
                }
            }
            ReadState::Over => {}
        }
    }

    /// Ends the connection without an error response.
    fn fail(&mut self, error: ConnectionError) {
        self.has_cut_off = self.must_reset();
        self.failure = Some(error);
        self.reading = ReadState::Over;
        self.requests.clear();
    }

    /// See [`crate::ServerConnection::holds_response`]. Nothing but responses is ever written.
    pub fn holds_response(&self) -> bool {
        (self.requests.front()).is_some_and(|request| !request.pending().is_empty())
    }

    /// Removes the first exchange once its response has been written, and starts the next.
    fn settle(&mut self, inbox: &mut Inbox<ServerEvent>) {
        let Some(request) = self.requests.front().filter(|next| next.is_done()) else {
            return;
        };
        let (stream, end) = (request.stream, self.sent);
        match &request.response_state {
            ResponseState::Sending(_) => inbox.push(ServerEvent::ResponseWritten { stream, end }),
            ResponseState::Refusal(refusal) => inbox.push(ServerEvent::RequestRefused {
                stream,
                status: refusal.status,
                end,
            }),
            ResponseState::Awaited | ResponseState::Queued { .. } => {}
        }
        self.requests.pop_front();
        self.begin_next();
    }

    /// Serialises the first response, if it was waiting for its turn.
    fn begin_next(&mut self) {
        let framing = self.settings.framing;
        let Some(request) = self.requests.front_mut() else {
            return;
        };
        let ResponseState::Queued { response, is_ended } = &request.response_state else {
            return;
        };
        let is_ended = *is_ended;
        let message = request.outgoing(response, framing);
        let stream = request.stream;
        request.response_state = ResponseState::Sending(message);
        if is_ended {
            self.end_body(stream);
        }
    }

    /// The index at which the exchange would be.
    fn place(&self, stream: StreamId) -> Option<usize> {
        let first = self.requests.front()?.stream;
        usize::try_from(stream.0.checked_sub(first.0)?).ok()
    }

    fn request_mut(&mut self, stream: StreamId) -> Option<&mut PendingRequest> {
        let index = self.place(stream)?;
        self.requests.get_mut(index)
    }

    /// The response on its way to the socket, if it is this exchange's turn.
    fn message(&self, stream: StreamId) -> Option<&Outgoing> {
        match &self.requests.get(self.place(stream)?)?.response_state {
            ResponseState::Sending(message) => Some(message),
            _ => None,
        }
    }

    fn message_mut(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        match &mut self.request_mut(stream)?.response_state {
            ResponseState::Sending(message) => Some(message),
            ResponseState::Awaited | ResponseState::Queued { .. } | ResponseState::Refusal(_) => {
                None
            }
        }
    }
}

impl StreamIo for Server {
    /// The response to a HEAD request takes no bytes, and neither does any response while those before it are not
    /// completely written.
    fn body_room(&self, stream: StreamId) -> usize {
        self.message(stream).map_or(0, Outgoing::room)
    }

    fn body_waiting(&self, stream: StreamId) -> usize {
        self.message(stream).map_or(0, Outgoing::buffered_bytes)
    }

    /// Bytes beyond the announced length are never taken.
    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.message_mut(stream)
            .and_then(Outgoing::stream)
            .map_or(0, |body| body.send(bytes))
    }

    /// If the body is shorter than announced, the connection fails, as if this server had disconnected.
    ///
    /// For an HTTP/1.0 client, the end of the connection delimits a body of unknown length. There may then be nothing
    /// left to write, and [`ServerEvent::ResponseWritten`] is reported by the next call that takes an inbox.
    fn end_body(&mut self, stream: StreamId) {
        if let Some(request) = self.request_mut(stream)
            && let ResponseState::Queued { is_ended, .. } = &mut request.response_state
        {
            *is_ended = true;
        }
        let body = self.message_mut(stream).and_then(Outgoing::stream);
        if body.is_some_and(|body| body.end().is_err()) {
            self.fail(ConnectionError::GivenUp);
        }
    }

    /// The trailers are also dropped if the body still waits for its turn.
    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        if let Some(body) = self.message_mut(stream).and_then(Outgoing::stream) {
            body.set_trailers(trailers.lines());
        }
        self.end_body(stream);
    }

    fn reset(&mut self, stream: StreamId, _code: u64) {
        let is_read = match self.reading {
            ReadState::Head => self.head.has_begun() && self.next == stream,
            ReadState::Body { stream: now, .. } => now == stream,
            ReadState::Over => false,
        };
        if is_read || self.request_mut(stream).is_some() {
            self.fail(ConnectionError::GivenUp);
        }
    }
}

impl Engine for Server {
    type Event = ServerEvent;

    /// A rejected request is answered from here, after the responses to the requests before it.
    fn receive(
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

    fn receive_end(&mut self, inbox: &mut Inbox<ServerEvent>) -> Result<(), ConnectionError> {
        self.settle(inbox);
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let is_between_requests = match self.reading {
            ReadState::Head => !self.head.has_begun(),
            ReadState::Body { .. } => false,
            ReadState::Over => true,
        };
        if is_between_requests {
            self.reading = ReadState::Over;
            Ok(())
        } else {
            self.fail(ConnectionError::UnexpectedEnd);
            Err(ConnectionError::UnexpectedEnd)
        }
    }

    fn output(&mut self) -> &[u8] {
        self.requests.front().map_or(&[], PendingRequest::pending)
    }

    fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ServerEvent>) {
        let n = n.min(self.output().len());
        if n > 0
            && let Some(request) = self.requests.front_mut()
        {
            let stream = request.stream;
            if request.advance(n) == Mark::FirstByte {
                inbox.push(ServerEvent::ResponseFirstByteWritten {
                    stream,
                    offset: self.sent,
                });
            }
            self.sent += n as u64;
        }
        self.settle(inbox);
    }

    fn buffered_bytes(&self) -> usize {
        let of = |request: &PendingRequest| {
            let message = match &request.response_state {
                ResponseState::Sending(message) => message.buffered_bytes(),
                ResponseState::Awaited
                | ResponseState::Queued { .. }
                | ResponseState::Refusal(_) => 0,
            };
            request.interim.pending().len() + message
        };
        let head = usize::try_from(self.head.len()).unwrap_or(usize::MAX);
        self.requests.iter().map(of).sum::<usize>() + head
    }

    /// After a request was rejected, the connection stays open until the error response has been written.
    fn is_open(&self) -> bool {
        let next = self.requests.front();
        !matches!(self.reading, ReadState::Over) || next.is_some_and(|request| !request.is_done())
    }
}

/// The mark that an advance of the output has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    FirstByte,
    None,
}

impl PendingRequest {
    /// The response in the form for this client.
    fn outgoing(&self, response: &Response, framing: BodyFraming) -> Outgoing {
        let options = SendOptions {
            framing,
            peer_version: self.peer_version,
            answered: self.answered,
            extra: match (self.then, self.peer_version) {
                (AfterRequest::Close, _) => CLOSE_LINE,
                (AfterRequest::Next, Version::Http10) => KEEP_ALIVE_LINE,
                (AfterRequest::Next, Version::Http11) => "",
            },
        };
        Outgoing::new(response.h1(), options)
    }

    /// Whether only the end of the connection can delimit this response: HTTP/1.0 has no chunks.
    fn is_ended_by_close(&self, response: &Response) -> bool {
        // The serialised form would show this too, but making it copies part of the body, which can wait for the response's
        // turn.
        response.body().length().is_none() && self.peer_version == Version::Http10
    }

    /// Drops a 100 (Continue) that a final response or an early body has made unnecessary, unless it is already partly
    /// written.
    fn drop_interim(&mut self) {
        if self.interim.pending() == CONTINUE {
            self.interim.take(CONTINUE.len());
        }
    }

    /// Whether the response is completely written.
    fn is_done(&self) -> bool {
        match &self.response_state {
            ResponseState::Awaited | ResponseState::Queued { .. } => false,
            ResponseState::Sending(message) => message.is_done(),
            ResponseState::Refusal(refusal) => refusal.pending().is_empty(),
        }
    }

    /// Whether the response is incomplete and only the end of the connection can delimit it.
    fn is_delimited_by_close(&self) -> bool {
        match &self.response_state {
            ResponseState::Sending(message) => {
                message.is_delimited_by_close() && !message.is_done()
            }
            ResponseState::Awaited | ResponseState::Queued { .. } | ResponseState::Refusal(_) => {
                false
            }
        }
    }

    fn pending(&self) -> &[u8] {
        match &self.response_state {
            _ if !self.interim.is_empty() => self.interim.pending(),
            ResponseState::Awaited | ResponseState::Queued { .. } => &[],
            ResponseState::Sending(message) => message.pending(),
            ResponseState::Refusal(refusal) => refusal.pending(),
        }
    }

    /// Records that the first `n` pending bytes were written; `n` is at least 1.
    fn advance(&mut self, n: usize) -> Mark {
        match &mut self.response_state {
            _ if !self.interim.is_empty() => self.interim.take(n),
            ResponseState::Awaited | ResponseState::Queued { .. } => {}
            ResponseState::Sending(message) => {
                if message.advance(n).is_first {
                    return Mark::FirstByte;
                }
            }
            ResponseState::Refusal(refusal) => {
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
