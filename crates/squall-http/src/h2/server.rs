//! The server's side of an HTTP/2 connection.
//!
//! It reads requests and sends the responses it is given, each as soon as the windows allow. It never responds on its
//! own, and it does not hold a response back until its request has ended.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_nghttp2::{
    Body, FieldDecision, FrameHeader, FrameKind, Handler, ReceivedFrame, Session,
};

use super::ear::ListenerState;
use super::engine::{self, Engine};
use super::opened::ClientStreamIds;
use super::output::{BufferLimit, Mark, MessagePart, Output};
use super::settings::{Role, Windows, announced, options};
use super::updates::Updates;
use crate::connection::Http2Announcements;
use crate::error::{ConnectionError, CreateError, RespondError};
use crate::event::{ServerEvent, StreamId};
use crate::frames::{FrameTap, FrameWalker};
use crate::inbox::Inbox;
use crate::message::{Interim, Response, Trailers};
use crate::streams::Streams;

/// A server's connection.
pub struct Server {
    engine: Box<Engine<Listener>>,
    has_ended: bool,
}

/// Handles nghttp2's callbacks.
#[derive(Default)]
struct Listener {
    inbox: Inbox<ServerEvent>,
    streams: Streams<u32, StreamState>,
    stream_ids: ClientStreamIds,
    shared: ListenerState,
    /// How many more requests are accepted; `None` for no limit.
    requests_left: Option<u32>,
    /// The stream of the last one, from its arrival until GOAWAY is submitted.
    last_stream: Option<u32>,
}

/// An open stream.
#[derive(Default)]
struct StreamState {
    method: String,
    target: String,
    is_head: bool,
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
        let windows = Windows::of(settings)?;
        let options = options(settings)?;
        let listener = Listener {
            requests_left: settings.goaway_after,
            ..Listener::default()
        };
        let mut session = Session::server(listener, &options)?;
        session.submit_settings(&announced(Role::Server, settings)?)?;
        windows.announce(&mut session)?;
        let output = Output::new(FrameWalker::of_server(), options.data_bytes);
        let updates = Updates::new(settings.window_updates, windows);
        Ok(Server {
            engine: Box::new(Engine::new(session, output, FrameTap::of_server(), updates)),
            has_ended: false,
        })
    }

    /// See [`crate::ServerConnection::is_open`].
    pub fn is_open(&self) -> bool {
        let session = &self.engine.session;
        let may_read = !self.has_ended && session.wants_read();
        let may_write = session.wants_write() || !self.engine.pending().is_empty();
        let must_answer = || {
            let mut streams = self.engine.listener().streams.iter();
            streams.any(|(_, state)| !state.is_answered || state.is_streamed)
        };
        !self.engine.has_failed() && (may_read || may_write || must_answer())
    }

    /// See [`crate::ServerConnection::respond`]. A response to HEAD has no body, even if it is streamed.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let not_waiting = RespondError::NotWaiting(stream);
        let id = engine::number(stream).ok_or(not_waiting)?;
        let state = self.engine.listener_mut().streams.find(id);
        let waiting = state.filter(|state| state.is_announced && !state.is_answered);
        let state = waiting.ok_or(not_waiting)?;
        state.is_answered = true;
        let none = bytes::Bytes::new();
        let body = match engine::body(response.body()) {
            _ if state.is_head => Body::Whole(&none),
            body => body,
        };
        state.is_streamed = matches!(body, Body::Streamed);
        Ok(self
            .engine
            .session
            .submit_response(id, response.h2(), body)?)
    }

    /// See [`crate::ServerConnection::inform`].
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        let Some(id) = engine::number(stream) else {
            return;
        };
        let state = self.engine.listener_mut().streams.find(id);
        let waits = |state: &&mut StreamState| state.is_announced && !state.is_answered;
        let has_room = |state: &&mut StreamState| state.interim_bytes < MOST_INTERIM_BYTES;
        if let Some(state) = state.filter(waits).filter(has_room) {
            state.interims += 1;
            state.interim_bytes += interim.len_bytes();
            self.engine.inform(id, interim);
        }
    }

    /// See [`crate::ServerConnection::shut_down`].
    pub fn shut_down(&mut self) {
        self.engine.shut_down();
    }

    /// See [`crate::ServerConnection::receive`].
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        // If the peer broke the protocol, pulling produces the GOAWAY that reports it.
        self.engine
            .receive(bytes, inbox, |engine| engine.pull(BufferLimit::Usual))
    }

    /// See [`crate::ServerConnection::receive_end`].
    pub fn receive_end(&mut self, inbox: &mut Inbox<ServerEvent>) -> Result<(), ConnectionError> {
        self.engine.move_events(inbox);
        self.has_ended = true;
        let is_cut = {
            let mut streams = self.engine.listener().streams.iter();
            streams.any(|(_, state)| !state.has_ended)
        };
        if is_cut {
            self.engine.fail(ConnectionError::UnexpectedEnd);
        }
        self.engine.state()
    }

    /// See [`crate::ServerConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        self.engine.output()
    }

    /// See [`crate::ServerConnection::holds_response`].
    pub fn holds_response(&self) -> bool {
        self.engine.holds_message()
    }

    /// See [`crate::ServerConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ServerEvent>) {
        self.engine.advance_output(n, inbox);
    }

    /// How many bytes of a streamed body could be taken now: 0 if its buffer is full or the stream is gone.
    pub fn body_room(&self, stream: StreamId) -> usize {
        self.engine.body_room(stream)
    }

    /// Takes as many bytes of a streamed body as there is room for, and returns how many.
    pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.engine.send_body(stream, bytes)
    }

    /// Completes a streamed body.
    pub fn end_body(&mut self, stream: StreamId) {
        self.engine.end_body(stream);
    }

    /// Completes a streamed body with trailers.
    pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        self.engine.end_body_with(stream, trailers);
    }

    /// Stops returning window to the peer for body bytes until they are consumed. Call it at the start of the
    /// connection.
    pub fn set_manual_consumption(&mut self) {
        self.engine.set_manual_consumption();
    }

    /// Returns `n` body bytes to the peer's windows. Bytes of a reset stream count as consumed already.
    pub fn consume(&mut self, stream: StreamId, n: u64) {
        self.engine.consume(stream, n);
    }

    /// Abandons an open stream with RST_STREAM.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.engine.reset(stream, code);
    }

    /// The SETTINGS of both sides, and counts of GOAWAYs and resets.
    pub fn announced(&self) -> Http2Announcements<'_> {
        self.engine.announced()
    }
}

impl engine::Listener for Listener {
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

impl Listener {
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

    /// Handles a complete header section: the request's head, or trailers.
    fn on_headers(&mut self, id: u32) {
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

impl Handler for Listener {
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
                self.on_headers(header.stream);
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
