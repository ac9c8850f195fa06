//! The server's side of an HTTP/2 connection.
//!
//! It reads requests and sends the responses it is given, each as soon as the windows allow. It never responds on its
//! own, and it does not hold a response back until its request has ended.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_nghttp2::{
    Body, FieldDecision, FrameHeader, FrameKind, Handler, Http2Session, ReceivedFrame, Session,
};

use super::connection::{self, Connection, Listener};
use super::listener_state::ListenerState;
use super::opened::ClientStreamIds;
use super::output::{BufferLimit, Mark, MessagePart};
use super::settings::{Role, announced, options};
use crate::error::{CreateError, RespondError};
use crate::event::{ServerEvent, StreamId};
use crate::frames::{FrameTap, FrameWalker};
use crate::inbox::Inbox;
use crate::message::{Interim, Response};
use crate::streams::Streams;

/// A server's connection.
pub type Server = Connection<ServerListener>;

/// Handles nghttp2's callbacks.
#[derive(Default)]
pub struct ServerListener {
    inbox: Inbox<ServerEvent>,
    streams: Streams<u32, StreamState>,
    stream_ids: ClientStreamIds,
    shared: ListenerState,
    /// How many more requests are accepted; `None` for no limit.
    requests_left: Option<u32>,
    /// The stream of the last accepted request, from its arrival until GOAWAY is submitted.
    last_stream: Option<u32>,
}

/// An open stream.
#[derive(Default)]
struct StreamState {
    method: String,
    target: String,
    is_head: bool,
    /// The request expects a 100 (Continue).
    expects_continue: bool,
    /// HEADERS began.
    has_begun: bool,
    /// The request's head was reported.
    is_announced: bool,
    /// The request is complete.
    has_ended: bool,
    is_answered: bool,
    /// The response's body is streamed.
    is_streamed: bool,
    /// The peer sent RST_STREAM.
    is_reset: bool,
    /// Interim responses not yet produced, and the bytes submitted since this count was last zero.
    interims: u32,
    interim_bytes: usize,
}

/// Limit per stream on interim responses queued for a client that does not read.
const MOST_INTERIM_BYTES: usize = 64 * 1024;

impl Server {
    /// A new connection.
    pub fn new(settings: &Http2Settings) -> Result<Server, CreateError> {
        let listener = ServerListener {
            requests_left: settings.goaway_after,
            ..ServerListener::default()
        };
        let mut session = Session::server(listener, &options(settings)?)?;
        session.submit_settings(&announced(Role::Server, settings)?)?;
        let tap = FrameTap::new(Way::Received);
        Connection::over(session, FrameWalker::of_server(0), tap, settings)
    }

    /// See [`crate::ServerStreams::respond`]. A response to HEAD has no body, even if it is streamed.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let not_waiting = RespondError::NotWaiting(stream);
        let id = connection::number(stream).ok_or(not_waiting)?;
        let state = self.listener_mut().streams.find(id);
        let waiting = state.filter(|state| state.is_announced && !state.is_answered);
        let state = waiting.ok_or(not_waiting)?;
        state.is_answered = true;
        let none = bytes::Bytes::new();
        let body = match connection::body(response.body()) {
            _ if state.is_head => Body::Whole(&none),
            body => body,
        };
        state.is_streamed = matches!(body, Body::Streamed);
        Ok(self.session.submit_response(id, response.h2(), body)?)
    }

    /// See [`crate::ServerStreams::inform`].
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        let Some(id) = connection::number(stream) else {
            return;
        };
        let state = self.listener_mut().streams.find(id);
        let waits = |state: &&mut StreamState| state.is_announced && !state.is_answered;
        let has_room = |state: &&mut StreamState| state.interim_bytes < MOST_INTERIM_BYTES;
        if let Some(state) = state.filter(waits).filter(has_room) {
            state.interims += 1;
            state.interim_bytes += interim.len_bytes();
            let result = self.session.submit_interim(id, &interim.block());
            self.note(result);
        }
    }

    /// See [`crate::ServerConnection::holds_response`].
    pub fn holds_response(&self) -> bool {
        self.holds_message()
    }

    /// See [`crate::ServerConnection::shut_down`].
    pub fn shut_down(&mut self) {
        if self.state().is_ok() {
            let last = self.session.last_processed_stream();
            let result = self.session.submit_goaway(last, 0);
            self.note(result);
        }
    }
}

impl Listener for ServerListener {
    type Event = ServerEvent;
    type Session = Session<Self>;

    fn inbox(&mut self) -> &mut Inbox<ServerEvent> {
        &mut self.inbox
    }

    fn shared(&mut self) -> &mut ListenerState {
        &mut self.shared
    }

    fn event_of(mark: Mark) -> ServerEvent {
        match mark {
            Mark::First { stream, offset } => ServerEvent::ResponseFirstByteWritten {
                stream: StreamId(u64::from(stream)),
                offset,
            },
            Mark::Last { stream, end } => ServerEvent::ResponseWritten {
                stream: StreamId(u64::from(stream)),
                end,
            },
        }
    }

    /// If the peer broke the protocol, pulling produces the GOAWAY that reports it.
    fn on_received(connection: &mut Server) {
        connection.pull(BufferLimit::Usual);
    }

    fn is_usable(connection: &Server) -> bool {
        let session = &connection.session;
        let may_read = !connection.has_ended && session.wants_read();
        let may_write = session.wants_write() || !connection.pending().is_empty();
        // A client that has ended its side opens no more windows, so a body that waits for one would wait forever.
        let may_continue = |id| !connection.has_ended || session.send_window(id) > 0;
        let must_answer = || {
            let mut streams = connection.listener().streams.iter();
            streams.any(|(id, state)| !state.is_answered || (state.is_streamed && may_continue(id)))
        };
        may_read || may_write || must_answer()
    }

    fn is_inside_exchange(&self) -> bool {
        self.streams.iter().any(|(_, state)| !state.has_ended)
    }

    fn open_streams(&self) -> usize {
        self.streams.len()
    }

    fn is_open(&mut self, stream: u32) -> bool {
        self.streams.find(stream).is_some()
    }

    /// Interim responses are produced in order, before the final one.
    fn on_produced(&mut self, stream: u32, part: MessagePart) {
        if let Some(state) = self.streams.find(stream)
            && part == MessagePart::Head
        {
            state.interims = state.interims.saturating_sub(1);
            if state.interims == 0 {
                state.interim_bytes = 0;
            }
        }
    }

    fn is_out_of_order(&mut self, stream: u32) -> bool {
        self.stream_ids.record(stream)
    }

    fn take_last_stream(&mut self) -> Option<u32> {
        self.last_stream.take()
    }
}

impl ServerListener {
    fn on_end(&mut self, id: u32) {
        if let Some(state) = self.streams.find(id)
            && !state.has_ended
        {
            state.has_ended = true;
            self.inbox.push(ServerEvent::RequestEnd {
                stream: StreamId(u64::from(id)),
                end: self.shared.end(),
            });
        }
    }

    /// Handles a complete header section: the request's head, or trailers. `is_last`: nothing of the request follows.
    fn on_headers(&mut self, id: u32, is_last: bool) {
        let Some(state) = self.streams.find(id) else {
            return;
        };
        if state.is_announced {
            let fields = self.shared.take_fields();
            self.inbox.push_trailers(StreamId(u64::from(id)), fields);
        } else {
            state.is_announced = true;
            state.is_head = state.method == "HEAD";
            self.inbox.push(ServerEvent::RequestHead {
                stream: StreamId(u64::from(id)),
                method: mem::take(&mut state.method),
                target: mem::take(&mut state.target),
                fields: self.shared.take_fields(),
                expects_continue: state.expects_continue && !is_last,
            });
            if let Some(left) = &mut self.requests_left {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.requests_left = None;
                    self.last_stream = Some(id);
                }
            }
        }
    }
}

impl Handler for ServerListener {
    fn headers_begun(&mut self, id: u32) {
        self.shared.begin_section();
        let state = self.streams.find_or_insert(id);
        if !state.has_begun {
            state.has_begun = true;
            self.inbox.push(ServerEvent::RequestFirstByte {
                stream: StreamId(u64::from(id)),
                offset: self.shared.offset(),
            });
        }
    }

    fn header(&mut self, id: u32, name: &[u8], value: &[u8]) -> FieldDecision {
        let text = || String::from_utf8_lossy(value).into_owned();
        if let Some(state) = self.streams.find(id) {
            match name {
                b":method" => state.method = text(),
                b":path" => state.target = text(),
                b"expect" => {
                    state.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
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
                self.on_headers(header.stream, header.ends_stream());
                if header.ends_stream() {
                    self.on_end(header.stream);
                }
            }
            ReceivedFrame::Other(header) if header.ends_stream() => self.on_end(header.stream),
            ReceivedFrame::Other(FrameHeader {
                kind: FrameKind::RST_STREAM,
                stream,
                ..
            }) => {
                if let Some(state) = self.streams.find(stream) {
                    state.is_reset = true;
                }
            }
            // A client's GOAWAY only refuses pushes, which we never send.
            ReceivedFrame::Other(_) | ReceivedFrame::GoAway { .. } => {}
        }
    }

    fn frame_refused(&mut self, _frame: FrameHeader, reason: &'static str) {
        self.shared.refused(reason);
    }

    fn stream_closed(&mut self, id: u32, code: u32) {
        self.shared.closed.push((id, code));
        let Some(state) = self.streams.remove(id) else {
            return;
        };
        let is_complete = state.has_ended && state.is_answered && !state.is_reset && code == 0;
        if !is_complete {
            self.inbox.push(ServerEvent::StreamReset {
                stream: StreamId(u64::from(id)),
                code: u64::from(code),
            });
        }
    }

    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.shared.goaway(code, reason);
    }
}
