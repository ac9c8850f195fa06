//! The client's side of an HTTP/1.1 connection: one request, its response, the next request.
//!
//! It does not pipeline, and it does not wait for a 100 (Continue) before it sends a body. It can ask for HTTP/2 with
//! its first request ([`Client::with_upgrade`]); what comes of that is up to its owner.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http1Settings;

use super::CLOSE_LINE;
use super::body::Body;
use super::fields::TrailerBuffer;
use super::head::{HeadBuffer, LastHead, ResponseHead, ToHead, parse_response};
use super::outgoing::{Manner, Outgoing};
use super::version::Version;
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
    /// The lines by which the first request asks for HTTP/2.
    upgrade: Option<String>,
    /// To the request that it took last.
    added: Added,
    next: StreamId,
    upload: Option<Upload>,
    reading: Reading,
    head: HeadBuffer,
    last_head: LastHead,
    trailers: TrailerBuffer,
    /// Whether both sides let us use the connection again.
    is_kept_alive: bool,
    failure: Option<ConnectionError>,
    /// Bytes written and read so far.
    sent: u64,
    received: u64,
}

/// The server switched to HTTP/2: everything behind its 101 (Switching Protocols) belongs to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The exchange whose request asked for it. Its response comes as that of HTTP/2's stream 1.
    pub stream: StreamId,
    /// Bytes of HTTP/2 that were received already.
    pub unread: Vec<u8>,
    /// The offset at which HTTP/2 begins in what is sent.
    pub sent: u64,
    /// The offset of `unread` in what is received.
    pub received: u64,
}

/// A request on its way to the socket.
#[derive(Debug)]
struct Upload {
    stream: StreamId,
    message: Outgoing,
}

/// The lines that a connection adds to a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    Nothing,
    /// That it is the last one.
    Close,
    /// That HTTP/2 may follow.
    Upgrade,
}

/// What the next byte from the server belongs to.
#[derive(Debug)]
enum Reading {
    /// Nothing: no request is in flight.
    Idle,
    /// The head of the response, or of an interim one.
    Head(Awaited),
    /// Its body.
    Body { stream: StreamId, body: Body },
    /// HTTP/2.
    Switched(Switched),
}

/// A response of which no final head has come.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    stream: StreamId,
    to_head: ToHead,
    has_begun: bool,
    interim_responses: u32,
    may_switch: bool,
}

impl Client {
    /// A connection that has not been used.
    pub fn new(settings: &Http1Settings) -> Result<Client, CreateError> {
        Ok(Client::unused(settings, None))
    }

    /// A connection whose first request asks the server to switch to HTTP/2 (RFC 7540, section 3.2). `http2_settings`
    /// is the value of its HTTP2-Settings field, in base64url. If the server answers as if it had not been asked, the
    /// connection stays HTTP/1.1; otherwise [`Client::take_switched`] tells.
    ///
    /// # Errors
    /// [`MessageError::HeaderValue`] if that is no base64url.
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
            added: Added::Nothing,
            next: StreamId(0),
            upload: None,
            reading: Reading::Idle,
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
        self.is_open() && self.upload.is_none() && matches!(self.reading, Reading::Idle)
    }

    /// See [`crate::ClientConnection::gather`]: never, as there is no pipelining.
    pub fn gather(&mut self) -> bool {
        self.is_ready()
    }

    /// See [`crate::ClientConnection::is_open`].
    pub fn is_open(&self) -> bool {
        self.is_kept_alive && self.failure.is_none()
    }

    /// See [`crate::ClientConnection::in_flight`]: 0 or 1.
    pub fn in_flight(&self) -> usize {
        usize::from(!matches!(self.reading, Reading::Idle))
    }

    /// See [`crate::ClientConnection::submit`]. The last request that the settings allow says `connection: close`,
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
        self.added = match &self.upgrade {
            Some(_) if is_first => Added::Upgrade,
            _ if self.is_kept_alive => Added::Nothing,
            _ => Added::Close,
        };
        let message = Outgoing::new(request.h1(), self.manner());
        self.upload = Some(Upload { stream, message });
        let to_head = if request.is_head() {
            ToHead::Yes
        } else {
            ToHead::No
        };
        self.reading = Reading::Head(Awaited {
            stream,
            to_head,
            has_begun: false,
            interim_responses: 0,
            may_switch: self.added == Added::Upgrade,
        });
        Ok(stream)
    }

    /// How the request that it took last is sent.
    fn manner(&self) -> Manner<'_> {
        Manner {
            framing: self.settings.framing,
            reader: Version::Http11,
            to_head: ToHead::No,
            extra: match self.added {
                Added::Nothing => "",
                Added::Close => CLOSE_LINE,
                Added::Upgrade => self.upgrade.as_deref().unwrap_or_default(),
            },
        }
    }

    /// The head of the request that it took last, as this connection sends it: that is `request`.
    pub fn sent_head(&self, request: &Request) -> Vec<u8> {
        let message = Outgoing::new(request.h1(), self.manner());
        let begin = message.pending();
        let end = begin.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        begin[..end.map_or(begin.len(), |at| at + 4)].to_vec()
    }

    /// How many bytes of a request's streamed body would be taken now.
    pub fn body_room(&self, stream: StreamId) -> usize {
        let upload = self.upload.as_ref();
        upload
            .filter(|upload| upload.stream == stream)
            .map_or(0, |upload| upload.message.room())
    }

    /// Takes some bytes of a request's streamed body; returns how many, 0 if the request is over. What exceeds the
    /// announced length is never taken.
    pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.message_mut(stream)
            .and_then(Outgoing::stream)
            .map_or(0, |body| body.send(bytes))
    }

    /// No more of a request's streamed body will come. If that is less than was announced, the connection fails, as if
    /// this client had gone away.
    pub fn end_body(&mut self, stream: StreamId) {
        let body = self.message_mut(stream).and_then(Outgoing::stream);
        if body.is_some_and(|body| body.end().is_err()) {
            self.fail(ConnectionError::GivenUp);
        }
    }

    /// The same with trailers behind the body, which are left out if it is not sent in chunks.
    pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        if let Some(body) = self.message_mut(stream).and_then(Outgoing::stream) {
            body.set_trailers(trailers.lines());
        }
        self.end_body(stream);
    }

    /// HTTP/1.1 has no windows: an owner that wants no more bodies stops reading, and this changes nothing.
    pub fn set_manual_consumption(&mut self) {}

    /// As [`Client::set_manual_consumption`].
    pub fn consume(&mut self, _stream: StreamId, _n: u64) {}

    /// Gives an exchange up and with it, as HTTP/1.1 has no other way, the connection. The code is not sent.
    pub fn reset(&mut self, stream: StreamId, _code: u64) {
        if self.message_mut(stream).is_some() || self.reading.stream() == Some(stream) {
            self.fail(ConnectionError::GivenUp);
        }
    }

    /// Tells once that the server switched to HTTP/2: ask after each [`Client::receive`] that followed the request.
    /// This connection takes no more bytes from then on.
    pub fn take_switched(&mut self) -> Option<Switched> {
        match mem::replace(&mut self.reading, Reading::Idle) {
            Reading::Switched(switched) => Some(switched),
            other => {
                self.reading = other;
                None
            }
        }
    }

    /// See [`crate::ClientConnection::receive`].
    pub fn receive(
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

    fn read(
        &mut self,
        mut bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                Reading::Idle | Reading::Switched(_) => {
                    return Err(ConnectionError::UnexpectedBytes);
                }
                Reading::Head(awaited) => {
                    let awaited = *awaited;
                    self.read_head(awaited, bytes, inbox)?
                }
                Reading::Body { stream, body } => {
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
        mut awaited: Awaited,
        bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<usize, ConnectionError> {
        let unsent = self.upload.as_ref();
        if unsent.is_some_and(|upload| !upload.message.has_begun()) {
            // It cannot be the answer to a request that has not left.
            return Err(ConnectionError::UnexpectedBytes);
        }
        let skipped = self.head.skip_empty_lines(bytes);
        if skipped > 0 {
            self.received += skipped as u64;
            return Ok(skipped);
        }
        if !awaited.has_begun {
            awaited.has_begun = true;
            self.reading = Reading::Head(awaited);
            inbox.push(ClientEvent::ResponseFirstByte {
                stream: awaited.stream,
                offset: self.received - self.head.len(),
            });
        }
        let wants = inbox.wants();
        let is_in_one_piece = self.head.len() == 0 && !wants.fields;
        if is_in_one_piece
            && let Some((used, head)) = self.last_head.repeated(bytes, awaited.to_head)
        {
            self.received += used as u64;
            self.on_final_head(awaited.stream, head, inbox);
            return Ok(used);
        }
        let (used, head) = self
            .head
            .take(bytes, |bytes| parse_response(bytes, awaited.to_head, wants))?;
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
                self.reading = Reading::Head(awaited);
                Ok(used)
            }
            Some(head) => {
                if is_in_one_piece {
                    self.last_head
                        .remember(&bytes[..used], awaited.to_head, &head);
                }
                self.on_final_head(awaited.stream, head, inbox);
                Ok(used)
            }
        }
    }

    fn switch(
        &mut self,
        awaited: Awaited,
        head: &ResponseHead,
        unread: &[u8],
    ) -> Result<(), ConnectionError> {
        // HTTP/2 cannot begin inside of a request (RFC 7540, section 3.2).
        if !awaited.may_switch || !head.upgrades_to_h2c || self.upload.is_some() {
            return Err(ConnectionError::UnexpectedUpgrade);
        }
        self.is_kept_alive = false;
        self.reading = Reading::Switched(Switched {
            stream: awaited.stream,
            unread: unread.to_vec(),
            sent: self.sent,
            received: self.received,
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
        match Body::of(head.framing) {
            Some(body) => self.reading = Reading::Body { stream, body },
            None => self.end_response(stream, inbox),
        }
    }

    fn end_response(&mut self, stream: StreamId, inbox: &mut Inbox<ClientEvent>) {
        self.reading = Reading::Idle;
        inbox.push(ClientEvent::ResponseEnd {
            stream,
            end: self.received,
        });
    }

    /// See [`crate::ClientConnection::receive_end`].
    pub fn receive_end(&mut self, inbox: &mut Inbox<ClientEvent>) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.is_kept_alive = false;
        match self.reading {
            Reading::Idle => Ok(()),
            Reading::Body {
                stream,
                body: Body::UntilEnd,
            } => {
                self.end_response(stream, inbox);
                Ok(())
            }
            Reading::Head(_) | Reading::Body { .. } | Reading::Switched(_) => {
                self.fail(ConnectionError::UnexpectedEnd);
                Err(ConnectionError::UnexpectedEnd)
            }
        }
    }

    /// See [`crate::ClientConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        match &self.upload {
            Some(upload) => upload.message.pending(),
            None => &[],
        }
    }

    /// See [`crate::ClientConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ClientEvent>) {
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

    fn fail(&mut self, error: ConnectionError) {
        self.failure = Some(error);
        self.upload = None;
    }

    /// The request of this exchange, if it is still being written.
    fn message_mut(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        let upload = self.upload.as_mut();
        upload
            .filter(|upload| upload.stream == stream)
            .map(|upload| &mut upload.message)
    }
}

impl Reading {
    /// Whose response it is.
    fn stream(&self) -> Option<StreamId> {
        match self {
            Reading::Idle => None,
            Reading::Head(awaited) => Some(awaited.stream),
            Reading::Body { stream, .. } => Some(*stream),
            Reading::Switched(switched) => Some(switched.stream),
        }
    }
}
