//! The client's side of an HTTP/2 connection.
//!
//! Requests are handed to the session one at a time, and only when they would be serialised immediately. Otherwise the
//! session would silently queue requests over the server's limit, and would send all HEADERS before any DATA.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_nghttp2::{
    FieldDecision, FrameHeader, FrameKind, Handler, Http2Session, ReceivedFrame, Setting,
};

use super::client_session::ClientSession;
use super::connection::{self, Connection, Listener};
use super::listener_state::ListenerState;
use super::output::{BufferLimit, Mark, MessagePart};
use super::settings::{Role, announced, options};
use crate::engine::Engine;
use crate::error::{CreateError, SubmitError};
use crate::event::{ClientEvent, StreamId};
use crate::frames::{FrameTap, FrameWalker};
use crate::inbox::Inbox;
use crate::message::{Body, Request};
use crate::streams::Streams;

/// A client's connection.
pub type Client = Connection<ClientListener>;

/// Handles the session's callbacks.
#[derive(Default)]
pub struct ClientListener {
    inbox: Inbox<ClientEvent>,
    streams: Streams<u32, StreamState>,
    /// Streams that have received neither a complete response nor a reset.
    unanswered: usize,
    /// Streams whose requests the session has not fully produced. A streamed request counts only until its head is
    /// produced.
    unsent: usize,
    /// The last stream of the server's GOAWAY.
    goaway: Option<u32>,
    /// How many more requests the settings allow; `None`: any number.
    requests_left: Option<u32>,
    shared: ListenerState,
}

/// An open stream.
#[derive(Default)]
struct StreamState {
    is_streamed: bool,
    /// Part of its request has been produced.
    is_produced: bool,
    /// Other requests no longer have to wait for this one.
    is_sent: bool,
    has_begun: bool,
    /// Status of the header section being received.
    status: Option<u16>,
    is_answered: bool,
}

impl Client {
    /// A new connection; its output begins with the preface and SETTINGS. Until the server's SETTINGS arrive, our own limit
    /// on concurrent streams stands in for the server's.
    pub fn new(settings: &Http2Settings) -> Result<Client, CreateError> {
        let listener = ClientListener {
            requests_left: settings.requests_per_connection,
            ..ClientListener::default()
        };
        let mut session = ClientSession::new(listener, &options(settings)?)?;
        session.submit_settings(&announced(Role::Client, settings)?)?;
        let tap = FrameTap::new(Way::Sent);
        Connection::over(session, FrameWalker::of_client(0), tap, settings)
    }

    /// The value of HTTP2-Settings in an HTTP/1.1 request with `upgrade: h2c` (RFC 7540, section 3.2.1).
    pub fn upgrade_header(settings: &Http2Settings) -> Result<String, CreateError> {
        let payload = Setting::payload(&announced(Role::Client, settings)?)?;
        Ok(URL_SAFE_NO_PAD.encode(payload))
    }

    /// A connection that continues from HTTP/1.1 after `sent_bytes` and `received_bytes`. The server has answered a
    /// request, which carried [`Client::upgrade_header`], with status 101. The response arrives on stream 1; no more
    /// marks are reported for the request. `is_head` says whether its method is HEAD.
    pub fn upgraded(
        settings: &Http2Settings,
        is_head: bool,
        sent_bytes: u64,
        received_bytes: u64,
    ) -> Result<Client, CreateError> {
        let mut listener = ClientListener {
            requests_left: settings.requests_per_connection,
            ..ClientListener::default()
        };
        listener.count_request();
        *listener.streams.find_or_insert(1) = StreamState {
            is_produced: true,
            is_sent: true,
            ..StreamState::default()
        };
        listener.unanswered = 1;
        let mut session = ClientSession::new(listener, &options(settings)?)?;
        session.upgrade(&announced(Role::Client, settings)?, is_head)?;
        let walker = FrameWalker::of_client(sent_bytes);
        let tap = FrameTap::upgraded(Way::Sent, sent_bytes, received_bytes);
        Connection::over(session, walker, tap, settings)
    }

    /// See [`crate::ClientConnection::is_ready`]. Not ready while output waits for the socket, or while an earlier
    /// request still has bytes that its windows let it send. A request that is streamed, or whose body is blocked by
    /// flow control, does not delay others.
    pub fn is_ready(&self) -> bool {
        self.pending().is_empty() && self.has_place()
    }

    /// See [`crate::ClientConnection::gather`].
    pub fn gather(&mut self) -> bool {
        self.pull(BufferLimit::Usual);
        self.may_join()
    }

    /// Whether a request could join others in the next output offered to the socket.
    fn may_join(&self) -> bool {
        !self.is_offered() && self.has_place()
    }

    /// Whether another stream may be opened, and no earlier request has bytes left that its windows let it send.
    fn has_place(&self) -> bool {
        let session = &self.session;
        let listener = self.listener();
        let limit = session.peer_max_concurrent_streams() as usize;
        self.is_open()
            && listener.requests_left != Some(0)
            && listener.streams.len() < limit
            && (listener.unsent == 0 || !session.wants_write())
    }

    /// See [`crate::ClientConnection::is_settled`].
    pub fn is_settled(&self) -> bool {
        self.session.is_settled()
    }

    /// See [`crate::ClientConnection::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.listener().unanswered
    }

    /// See [`crate::ClientStreams::submit`].
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        if !self.may_join() {
            return Err(SubmitError::NotReady);
        }
        let body = connection::body(request.body());
        let id = self.session.submit_request(request.h2(), body)?;
        let is_streamed = matches!(request.body(), Body::Streamed { .. });
        let listener = self.listener_mut();
        *listener.streams.find_or_insert(id) = StreamState {
            is_streamed,
            ..StreamState::default()
        };
        listener.unanswered += 1;
        listener.unsent += 1;
        listener.count_request();
        Ok(StreamId(u64::from(id)))
    }
}

impl Listener for ClientListener {
    type Event = ClientEvent;
    type Session = ClientSession<Self>;

    fn inbox(&mut self) -> &mut Inbox<ClientEvent> {
        &mut self.inbox
    }

    fn shared(&mut self) -> &mut ListenerState {
        &mut self.shared
    }

    fn event_of(mark: Mark) -> ClientEvent {
        match mark {
            Mark::First { stream, offset } => ClientEvent::RequestFirstByteWritten {
                stream: StreamId(u64::from(stream)),
                offset,
            },
            Mark::Last { stream, end } => ClientEvent::RequestWritten {
                stream: StreamId(u64::from(stream)),
                end,
            },
        }
    }

    fn on_received(connection: &mut Client) {
        if !connection.session.is_request_allowed() {
            // GOAWAY arrived, or must be sent because the peer broke the protocol. Producing output shows which.
            connection.pull(BufferLimit::Beyond);
        }
    }

    fn is_usable(connection: &Client) -> bool {
        let listener = connection.listener();
        let is_used_up = listener.requests_left == Some(0) && listener.unanswered == 0;
        !connection.has_ended && !is_used_up && connection.session.is_request_allowed()
    }

    fn is_inside_exchange(&self) -> bool {
        self.unanswered > 0
    }

    fn open_streams(&self) -> usize {
        self.streams.len()
    }

    fn is_open(&mut self, stream: u32) -> bool {
        self.streams.find(stream).is_some()
    }

    fn on_produced(&mut self, stream: u32, part: MessagePart) {
        let Some(state) = self.streams.find(stream) else {
            return;
        };
        state.is_produced = true;
        // The owner may take its time with a streamed body, so other requests do not wait for it.
        if !state.is_sent && (part == MessagePart::Last || state.is_streamed) {
            state.is_sent = true;
            self.unsent -= 1;
        }
    }
}

impl ClientListener {
    /// Counts a request towards the number that the settings allow.
    fn count_request(&mut self) {
        self.requests_left = self.requests_left.map(|left| left.saturating_sub(1));
    }

    fn on_answered(&mut self, id: u32) {
        if let Some(state) = self.streams.find(id)
            && !state.is_answered
        {
            state.is_answered = true;
            self.unanswered -= 1;
            self.inbox.push(ClientEvent::ResponseEnd {
                stream: StreamId(u64::from(id)),
                end: self.shared.end(),
            });
        }
    }
}

impl Handler for ClientListener {
    fn frame_begun(&mut self, frame: FrameHeader) {
        if frame.kind == FrameKind::HEADERS
            && let Some(state) = self.streams.find(frame.stream)
            && !state.has_begun
        {
            state.has_begun = true;
            self.inbox.push(ClientEvent::ResponseFirstByte {
                stream: StreamId(u64::from(frame.stream)),
                offset: self.shared.offset(),
            });
        }
    }

    fn headers_begun(&mut self, _id: u32) {
        self.shared.begin_section();
    }

    fn wants_fields(&self) -> bool {
        self.inbox.wants().fields
    }

    fn header(&mut self, id: u32, name: &[u8], value: &[u8]) -> FieldDecision {
        if name == b":status"
            && let Some(state) = self.streams.find(id)
        {
            // The session only accepts three digits.
            let digit = |byte: u8| u16::from(byte.wrapping_sub(b'0'));
            state.status = match *value {
                [a, b, c] => Some(100 * digit(a) + 10 * digit(b) + digit(c)),
                _ => None,
            };
        }
        self.shared.field(name, value, self.inbox.wants().fields)
    }

    fn data(&mut self, id: u32, bytes: &[u8]) {
        self.shared.delivered_bytes += bytes.len() as u64;
        self.inbox.push_body(StreamId(u64::from(id)), bytes);
    }

    fn frame_received(&mut self, frame: ReceivedFrame) {
        match frame {
            ReceivedFrame::Headers(header) => {
                let status = self
                    .streams
                    .find(header.stream)
                    .and_then(|e| e.status.take());
                let stream = StreamId(u64::from(header.stream));
                match status {
                    Some(..200) if !self.inbox.wants().fields => {}
                    Some(status @ ..200) => self.inbox.push(ClientEvent::Interim {
                        stream,
                        status,
                        fields: self.shared.take_fields(),
                    }),
                    Some(status) => self.inbox.push(ClientEvent::ResponseHeaders {
                        stream,
                        status,
                        fields: self.shared.take_fields(),
                    }),
                    None => {
                        let fields = self.shared.take_fields();
                        self.inbox.push_trailers(stream, fields);
                    }
                }
                if header.ends_stream() {
                    self.on_answered(header.stream);
                }
            }
            ReceivedFrame::Other(header) if header.ends_stream() => self.on_answered(header.stream),
            ReceivedFrame::Other(_) => {}
            ReceivedFrame::GoAway { last_stream, code } => {
                self.goaway = Some(last_stream);
                let last_stream = StreamId(u64::from(last_stream));
                self.inbox.push(ClientEvent::GoAway {
                    last_stream,
                    code: u64::from(code),
                });
            }
        }
    }

    fn stream_closed(&mut self, id: u32, code: u32) {
        self.shared.closed.push((id, code));
        let Some(state) = self.streams.remove(id) else {
            return;
        };
        self.unsent -= usize::from(!state.is_sent);
        if !state.is_answered {
            self.unanswered -= 1;
            let stream = StreamId(u64::from(id));
            // On GOAWAY the session closes all these streams immediately, so none of them can still be reset.
            let is_refused = |last| id > last || !state.is_produced;
            self.inbox.push(if self.goaway.is_some_and(is_refused) {
                ClientEvent::RequestRefused { stream }
            } else {
                ClientEvent::StreamReset {
                    stream,
                    code: u64::from(code),
                }
            });
        }
    }

    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.shared.goaway(code, reason);
    }
}
