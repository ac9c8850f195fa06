//! The client's side of an HTTP/1.1 connection: one request, its response, the next request.
//!
//! It does not pipeline. Its owner waits for a 100 (Continue), if at all, before it passes on a body. It can request
//! HTTP/2 with its first request ([`Client::with_upgrade`]); its owner handles the switch.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http1Settings;

use super::CLOSE_LINE;
use super::body::Body;
use super::fields::TrailerBuffer;
use super::head::{AnsweredMethod, HeadBuffer, LastHead, ResponseHead, parse_response};
use super::outgoing::{Outgoing, SendOptions};
use super::version::Version;
use crate::engine::{Engine, StreamIo};
use crate::error::{ConnectionError, CreateError, MessageError, SubmitError};
use crate::event::{ClientEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Request, Trailers};

/// How many interim (1xx) responses may precede a response; more than any server has reason to send.
pub const MAX_INTERIM_RESPONSES: u32 = 100;

/// A client's connection.
#[derive(Debug)]
pub struct Client {
    settings: Http1Settings,
    /// The lines with which the first request asks for HTTP/2.
    upgrade: Option<String>,
    /// The lines added to the last request.
    extra_lines: ExtraLines,
    next: StreamId,
    upload: Option<Upload>,
    reading: ReadState,
    head: HeadBuffer,
    last_head: LastHead,
    trailers: TrailerBuffer,
    /// Whether both sides allow the connection to be reused.
    is_kept_alive: bool,
    failure: Option<ConnectionError>,
    /// Bytes written and read so far.
    sent: u64,
    received: u64,
}

/// The server switched to HTTP/2: everything after its 101 (Switching Protocols) is HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolSwitch {
    /// The exchange whose request asked for it. Its response arrives on HTTP/2's stream 1.
    pub stream: StreamId,
    /// Bytes of HTTP/2 that have already been received.
    pub unread: Vec<u8>,
    /// The offset at which HTTP/2 begins in the sent bytes.
    pub sent: u64,
    /// The offset of `unread` in the received bytes.
    pub received: u64,
    /// Whether the request's method is HEAD.
    pub is_head: bool,
}

/// A request on its way to the socket.
#[derive(Debug)]
struct Upload {
    stream: StreamId,
    message: Outgoing,
}

/// The lines that a connection adds to a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtraLines {
    Nothing,
    /// For the last request that the settings allow.
    Close,
    /// For a request that asks for HTTP/2.
    Upgrade,
}

/// What the next byte from the server belongs to.
#[derive(Debug)]
enum ReadState {
    /// Nothing: no request is in flight.
    Idle,
    /// The head of the response, or of an interim one.
    Head(PendingResponse),
    /// The response's body.
    Body { stream: StreamId, body: Body },
    /// HTTP/2.
    Switched(ProtocolSwitch),
}

/// A response whose final head has not arrived.
#[derive(Clone, Copy, Debug)]
struct PendingResponse {
    stream: StreamId,
    answered: AnsweredMethod,
    has_begun: bool,
    interim_responses: u32,
    may_switch: bool,
}

impl Client {
    /// A new connection.
    pub fn new(settings: &Http1Settings) -> Result<Client, CreateError> {
        Ok(Client::unused(settings, None))
    }

    /// A connection whose first request asks the server to switch to HTTP/2 (RFC 7540, section 3.2). `http2_settings`
    /// is the value of its HTTP2-Settings field, in base64url. If the server ignores the request to switch, the
    /// connection stays on HTTP/1.1; otherwise [`Client::take_switch`] reports the switch.
    ///
    /// # Errors
    /// [`MessageError::HeaderValue`] if the value is not base64url.
    pub fn with_upgrade(
        settings: &Http1Settings,
        http2_settings: &str,
    ) -> Result<Client, MessageError> {
        let is_base64url = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !http2_settings.bytes().all(is_base64url) {
            return Err(MessageError::HeaderValue("http2-settings".to_owned()));
        }
        let lines = format!(
            "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: {http2_settings}\r\n"
        );
        Ok(Client::unused(settings, Some(lines)))
    }

    fn unused(settings: &Http1Settings, upgrade: Option<String>) -> Client {
        Client {
            settings: *settings,
            upgrade,
            extra_lines: ExtraLines::Nothing,
            next: StreamId(0),
            upload: None,
            reading: ReadState::Idle,
            head: HeadBuffer::default(),
            last_head: LastHead::default(),
            trailers: TrailerBuffer::default(),
            is_kept_alive: true,
            failure: None,
            sent: 0,
            received: 0,
        }
    }

    /// See [`crate::ClientConnection::is_ready`].
    pub fn is_ready(&self) -> bool {
        self.is_open() && self.upload.is_none() && matches!(self.reading, ReadState::Idle)
    }

    /// See [`crate::ClientConnection::in_flight`]: 0 or 1.
    pub fn in_flight(&self) -> usize {
        usize::from(!matches!(self.reading, ReadState::Idle))
    }

    /// See [`crate::ClientStreams::submit`]. The last request that the settings allow carries `connection: close`,
    /// unless it asks for HTTP/2.
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        if !self.is_ready() {
            return Err(SubmitError::NotReady);
        }
        let stream = self.next;
        self.next = StreamId(stream.0.wrapping_add(1));
        let limit = self.settings.requests_per_connection;
        self.is_kept_alive = limit.is_none_or(|limit| self.next.0 < u64::from(limit));
        let is_first = stream == StreamId(0);
        self.extra_lines = match &self.upgrade {
            Some(_) if is_first => ExtraLines::Upgrade,
            _ if self.is_kept_alive => ExtraLines::Nothing,
            _ => ExtraLines::Close,
        };
        let message = Outgoing::new(request.h1(), self.send_options());
        self.upload = Some(Upload { stream, message });
        self.reading = ReadState::Head(PendingResponse {
            stream,
            answered: AnsweredMethod::of(request.is_head()),
            has_begun: false,
            interim_responses: 0,
            may_switch: self.extra_lines == ExtraLines::Upgrade,
        });
        Ok(stream)
    }

    /// How the last request is sent.
    fn send_options(&self) -> SendOptions<'_> {
        SendOptions {
            framing: self.settings.framing,
            peer_version: Version::Http11,
            answered: AnsweredMethod::Other,
            extra: match self.extra_lines {
                ExtraLines::Nothing => "",
                ExtraLines::Close => CLOSE_LINE,
                ExtraLines::Upgrade => self.upgrade.as_deref().unwrap_or_default(),
            },
        }
    }

    /// The head as this connection sends it for `request`, which must be the last request it took.
    pub fn sent_head(&self, request: &Request) -> Vec<u8> {
        let message = Outgoing::new(request.h1(), self.send_options());
        let begin = message.pending();
        let end = begin.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        begin[..end.map_or(begin.len(), |at| at + 4)].to_vec()
    }

    /// Whether a request has been answered and none is in flight.
    pub(crate) fn is_answered(&self) -> bool {
        self.next != StreamId(0) && self.in_flight() == 0
    }

    /// Reports once that the server switched to HTTP/2: call it after each [`Engine::receive`] that follows the
    /// request. After the switch this connection takes no more bytes.
    pub fn take_switch(&mut self) -> Option<ProtocolSwitch> {
        match mem::replace(&mut self.reading, ReadState::Idle) {
            ReadState::Switched(switched) => Some(switched),
            other => {
                self.reading = other;
                None
            }
        }
    }

    fn read(
        &mut self,
        mut bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                ReadState::Idle | ReadState::Switched(_) => {
                    return Err(ConnectionError::UnexpectedBytes);
                }
                ReadState::Head(awaited) => {
                    let awaited = *awaited;
                    self.read_head(awaited, bytes, inbox)?
                }
                ReadState::Body { stream, body } => {
                    let stream = *stream;
                    let taken = body.take(bytes, |data| inbox.push_body(stream, data))?;
                    self.received += taken.used as u64;
                    if inbox.wants().fields {
                        self.trailers.add(&bytes[..taken.used], taken.trailer_bytes);
                    }
                    if taken.is_done {
                        inbox.push_trailers(stream, self.trailers.take());
                        self.end_response(stream, inbox);
                    }
                    taken.used
                }
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn read_head(
        &mut self,
        mut awaited: PendingResponse,
        bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<usize, ConnectionError> {
        let unsent = self.upload.as_ref();
        if unsent.is_some_and(|upload| !upload.message.has_begun()) {
            // Bytes that arrive before any of the request was sent cannot be its response.
            return Err(ConnectionError::UnexpectedBytes);
        }
        let skipped = self.head.skip_empty_lines(bytes);
        if skipped > 0 {
            self.received += skipped as u64;
            return Ok(skipped);
        }
        if !awaited.has_begun {
            awaited.has_begun = true;
            self.reading = ReadState::Head(awaited);
            inbox.push(ClientEvent::ResponseFirstByte {
                stream: awaited.stream,
                offset: self.received - self.head.len(),
            });
        }
        let wants = inbox.wants();
        let is_in_one_piece = self.head.len() == 0 && !wants.fields;
        if is_in_one_piece
            && let Some((used, head)) = self.last_head.repeated(bytes, awaited.answered)
        {
            self.received += used as u64;
            self.on_final_head(awaited.stream, head, inbox);
            return Ok(used);
        }
        let parse = |bytes: &[u8]| parse_response(bytes, awaited.answered, wants);
        let (used, head) = self.head.take(bytes, parse)?;
        self.received += used as u64;
        match head {
            None => Ok(used),
            Some(head) if head.status == 101 => {
                self.switch(awaited, &head, &bytes[used..])?;
                Ok(bytes.len())
            }
            Some(head) if head.status < 200 => {
                awaited.interim_responses += 1;
                if awaited.interim_responses > MAX_INTERIM_RESPONSES {
                    return Err(ConnectionError::TooManyInterim);
                }
                if wants.fields {
                    inbox.push(ClientEvent::Interim {
                        stream: awaited.stream,
                        status: head.status,
                        fields: head.fields,
                    });
                }
                self.reading = ReadState::Head(awaited);
                Ok(used)
            }
            Some(head) => {
                if is_in_one_piece {
                    self.last_head
                        .remember(&bytes[..used], awaited.answered, &head);
                }
                self.on_final_head(awaited.stream, head, inbox);
                Ok(used)
            }
        }
    }

    fn switch(
        &mut self,
        awaited: PendingResponse,
        head: &ResponseHead,
        unread: &[u8],
    ) -> Result<(), ConnectionError> {
        // HTTP/2 cannot begin inside a request (RFC 7540, section 3.2).
        if !awaited.may_switch || !head.upgrades_to_h2c || self.upload.is_some() {
            return Err(ConnectionError::UnexpectedUpgrade);
        }
        self.is_kept_alive = false;
        self.reading = ReadState::Switched(ProtocolSwitch {
            stream: awaited.stream,
            unread: unread.to_vec(),
            sent: self.sent,
            received: self.received,
            is_head: awaited.answered == AnsweredMethod::Head,
        });
        Ok(())
    }

    fn on_final_head(
        &mut self,
        stream: StreamId,
        head: ResponseHead,
        inbox: &mut Inbox<ClientEvent>,
    ) {
        inbox.push(ClientEvent::ResponseHeaders {
            stream,
            status: head.status,
            fields: head.fields,
        });
        self.is_kept_alive &= head.keeps_alive;
        match head.body {
            Some(body) => self.reading = ReadState::Body { stream, body },
            None => self.end_response(stream, inbox),
        }
    }

    fn end_response(&mut self, stream: StreamId, inbox: &mut Inbox<ClientEvent>) {
        self.reading = ReadState::Idle;
        inbox.push(ClientEvent::ResponseEnd {
            stream,
            end: self.received,
        });
    }

    fn fail(&mut self, error: ConnectionError) {
        self.failure = Some(error);
        self.upload = None;
    }

    /// The request of this exchange, if it is still being written.
    fn message(&self, stream: StreamId) -> Option<&Outgoing> {
        let upload = self.upload.as_ref()?;
        (upload.stream == stream).then_some(&upload.message)
    }

    fn message_mut(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        let upload = self.upload.as_mut()?;
        (upload.stream == stream).then_some(&mut upload.message)
    }
}

impl StreamIo for Client {
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

    /// If the body is shorter than announced, the connection fails, as if this client had disconnected.
    fn end_body(&mut self, stream: StreamId) {
        let body = self.message_mut(stream).and_then(Outgoing::stream);
        if body.is_some_and(|body| body.end().is_err()) {
            self.fail(ConnectionError::GivenUp);
        }
    }

    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        if let Some(body) = self.message_mut(stream).and_then(Outgoing::stream) {
            body.set_trailers(trailers.lines());
        }
        self.end_body(stream);
    }

    fn reset(&mut self, stream: StreamId, _code: u64) {
        if self.message_mut(stream).is_some() || self.reading.stream() == Some(stream) {
            self.fail(ConnectionError::GivenUp);
        }
    }
}

impl Engine for Client {
    type Event = ClientEvent;

    fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => self.read(bytes, inbox).inspect_err(|error| {
                self.fail(error.clone());
            }),
        }
    }

    fn receive_end(&mut self, inbox: &mut Inbox<ClientEvent>) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.is_kept_alive = false;
        match self.reading {
            ReadState::Idle => Ok(()),
            ReadState::Body {
                stream,
                body: Body::UntilEnd,
            } => {
                self.end_response(stream, inbox);
                Ok(())
            }
            ReadState::Head(_) | ReadState::Body { .. } | ReadState::Switched(_) => {
                self.fail(ConnectionError::UnexpectedEnd);
                Err(ConnectionError::UnexpectedEnd)
            }
        }
    }

    fn buffered_bytes(&self) -> usize {
        let upload = self.upload.as_ref();
        let upload = upload.map_or(0, |upload| upload.message.buffered_bytes());
        upload + usize::try_from(self.head.len()).unwrap_or(usize::MAX)
    }

    fn output(&mut self) -> &[u8] {
        match &self.upload {
            Some(upload) => upload.message.pending(),
            None => &[],
        }
    }

    fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ClientEvent>) {
        let n = n.min(self.output().len());
        let Some(upload) = self.upload.as_mut().filter(|_| n > 0) else {
            return;
        };
        let stream = upload.stream;
        let advance = upload.message.advance(n);
        if advance.is_first {
            inbox.push(ClientEvent::RequestFirstByteWritten {
                stream,
                offset: self.sent,
            });
        }
        self.sent += n as u64;
        if advance.is_done {
            inbox.push(ClientEvent::RequestWritten {
                stream,
                end: self.sent,
            });
            self.upload = None;
        }
    }

    fn is_open(&self) -> bool {
        let is_last_in_flight = self.extra_lines == ExtraLines::Close && self.in_flight() > 0;
        (self.is_kept_alive || is_last_in_flight) && self.failure.is_none()
    }
}

impl ReadState {
    /// The exchange that is waiting for a response.
    fn stream(&self) -> Option<StreamId> {
        match self {
            ReadState::Idle => None,
            ReadState::Head(awaited) => Some(awaited.stream),
            ReadState::Body { stream, .. } => Some(*stream),
            ReadState::Switched(switched) => Some(switched.stream),
        }
    }
}
