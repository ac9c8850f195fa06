//! The server's side of an HTTP/2 connection.
//!
//! It reads requests and sends the responses it is given, each as soon as windows allow. It answers
//! nothing by itself, and it does not hold a response back until its request has ended.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_nghttp2::{Body, FrameHeader, FrameKind, Handler, Received, Session, Verdict};

use super::ear::Ear;
use super::engine::{self, Engine};
use super::opened::Opened;
use super::output::{Mark, Output, Produced, Room};
use super::settings::{Role, Windows, announced, options};
use super::updates::Updates;
use crate::connection::Http2Announced;
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

/// What nghttp2 tells.
#[derive(Default)]
struct Listener {
    inbox: Inbox<ServerEvent>,
    streams: Streams<u32, Exchange>,
    opened: Opened,
    ear: Ear,
    /// How many requests may still come.
    requests_left: Option<u32>,
    /// The last of them, when it has come and before GOAWAY is submitted.
    last_stream: Option<u32>,
}

/// An open stream.
#[derive(Default)]
struct Exchange {
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
    /// RST_STREAM came.
    is_reset: bool,
    /// Interim responses that were not produced, and bytes of theirs since there was none of them.
    interims: u32,
    interim_bytes: usize,
}

/// How much of interim responses waits for a client that does not read, for each stream.
const MOST_INTERIM_BYTES: usize = 64 * 1024;

impl Server {
    /// A connection that has not been used.
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
            streams.any(|(_, exchange)| !exchange.is_answered || exchange.is_streamed)
        };
        !self.engine.has_failed() && (may_read || may_write || must_answer())
    }

    /// See [`crate::ServerConnection::respond`]. The response to HEAD has no body, even if it is streamed.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let not_waiting = RespondError::NotWaiting(stream);
        let id = engine::number(stream).ok_or(not_waiting)?;
        let exchange = self.engine.listener_mut().streams.find(id);
        let waiting = exchange.filter(|exchange| exchange.is_announced && !exchange.is_answered);
        let exchange = waiting.ok_or(not_waiting)?;
        exchange.is_answered = true;
        let none = bytes::Bytes::new();
        let body = match engine::body(response.body()) {
            _ if exchange.is_head => Body::Whole(&none),
            body => body,
        };
        exchange.is_streamed = matches!(body, Body::Streamed);
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
        let exchange = self.engine.listener_mut().streams.find(id);
        let waits = |exchange: &&mut Exchange| exchange.is_announced && !exchange.is_answered;
        let has_room = |exchange: &&mut Exchange| exchange.interim_bytes < MOST_INTERIM_BYTES;
        if let Some(exchange) = exchange.filter(waits).filter(has_room) {
            exchange.interims += 1;
            exchange.interim_bytes += interim.len_bytes();
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
        // If the peer broke the protocol, pulling produces the GOAWAY that says so.
        self.engine
            .receive(bytes, inbox, |engine| engine.pull(Room::Usual))
    }

    /// See [`crate::ServerConnection::receive_end`].
    pub fn receive_end(&mut self, inbox: &mut Inbox<ServerEvent>) -> Result<(), ConnectionError> {
        self.engine.hand_over(inbox);
        self.has_ended = true;
        let is_cut = {
            let mut streams = self.engine.listener().streams.iter();
            streams.any(|(_, exchange)| !exchange.has_ended)
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

    /// See [`crate::ServerConnection::holds_answer`].
    pub fn holds_answer(&self) -> bool {
        self.engine.holds_message()
    }

    /// See [`crate::ServerConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<ServerEvent>) {
        self.engine.advance_output(n, inbox);
    }

    /// How many bytes of a streamed body would be taken now: 0 while its buffer is full, or if the stream is gone.
    pub fn body_room(&self, stream: StreamId) -> usize {
        self.engine.body_room(stream)
    }

    /// Takes bytes of a streamed body, as many as there is room for, and returns how many.
    pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.engine.send_body(stream, bytes)
    }

    /// A streamed body is complete with what was taken.
    pub fn end_body(&mut self, stream: StreamId) {
        self.engine.end_body(stream);
    }

    /// The same with trailers behind the body.
    pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        self.engine.end_body_with(stream, trailers);
    }

    /// From now on the peer gets no new window for bytes of bodies until they are consumed. To be called at the start.
    pub fn set_manual_consumption(&mut self) {
        self.engine.set_manual_consumption();
    }

    /// The owner is done with so many bytes of a body. Those of a stream that was reset are consumed already.
    pub fn consume(&mut self, stream: StreamId, n: u64) {
        self.engine.consume(stream, n);
    }

    /// Gives an open stream up, by RST_STREAM.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.engine.reset(stream, code);
    }

    /// What both sides have announced and given up.
    pub fn announced(&self) -> Http2Announced<'_> {
        self.engine.announced()
    }
}

impl engine::Listener for Listener {
    type Event = ServerEvent;
    type Session = Session<Self>;

    fn inbox(&mut self) -> &mut Inbox<ServerEvent> {
        &mut self.inbox
    }

    fn ear(&mut self) -> &mut Ear {
        &mut self.ear
    }

    fn marked(mark: Mark) -> ServerEvent {
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

    /// Interim responses are produced in their order, before the final one.
    fn produced(&mut self, stream: u32, part: Produced) {
        if let Some(exchange) = self.streams.find(stream)
            && part == Produced::Head
        {
            exchange.interims = exchange.interims.saturating_sub(1);
            if exchange.interims == 0 {
                exchange.interim_bytes = 0;
            }
        }
    }

    fn is_out_of_order(&mut self, stream: u32) -> bool {
        self.opened.passed_over(stream)
    }

    fn take_last_stream(&mut self) -> Option<u32> {
        self.last_stream.take()
    }
}

impl Listener {
    fn on_end(&mut self, id: u32) {
        if let Some(exchange) = self.streams.find(id)
            && !exchange.has_ended
        {
            exchange.has_ended = true;
            self.inbox.push(ServerEvent::RequestEnd {
                stream: StreamId(u64::from(id)),
                end: self.ear.end(),
            });
        }
    }

    /// A header section is complete: the request's head, or trailers.
    fn on_headers(&mut self, id: u32) {
        let Some(exchange) = self.streams.find(id) else {
            return;
        };
        if exchange.is_announced {
            let fields = self.ear.take_fields();
            self.inbox.push_trailers(StreamId(u64::from(id)), fields);
        } else {
            exchange.is_announced = true;
            exchange.is_head = exchange.method == "HEAD";
            self.inbox.push(ServerEvent::RequestHead {
                stream: StreamId(u64::from(id)),
                method: mem::take(&mut exchange.method),
                target: mem::take(&mut exchange.target),
                fields: self.ear.take_fields(),
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
        self.ear.begin_section();
        let exchange = self.streams.find_or_insert(id);
        if !exchange.has_begun {
            exchange.has_begun = true;
            self.inbox.push(ServerEvent::RequestFirstByte {
                stream: StreamId(u64::from(id)),
                offset: self.ear.offset(),
            });
        }
    }

    fn header(&mut self, id: u32, name: &[u8], value: &[u8]) -> Verdict {
        let text = || String::from_utf8_lossy(value).into_owned();
        if let Some(exchange) = self.streams.find(id) {
            match name {
                b":method" => exchange.method = text(),
                b":path" => exchange.target = text(),
                _ => {}
            }
        }
        self.ear.field(name, value, self.inbox.wants().fields)
    }

    fn data(&mut self, id: u32, bytes: &[u8]) {
        self.ear.delivered_bytes += bytes.len() as u64;
        self.inbox.push_body(StreamId(u64::from(id)), bytes);
    }

    fn frame_received(&mut self, frame: Received) {
        match frame {
            Received::Headers(header) => {
                self.on_headers(header.stream);
                if header.ends_stream() {
                    self.on_end(header.stream);
                }
            }
            Received::Other(header) if header.ends_stream() => self.on_end(header.stream),
            Received::Other(FrameHeader {
                kind: FrameKind::RST_STREAM,
                stream,
                ..
            }) => {
                if let Some(exchange) = self.streams.find(stream) {
                    exchange.is_reset = true;
                }
            }
            // A client's GOAWAY only refuses pushes, which we never send.
            Received::Other(_) | Received::GoAway { .. } => {}
        }
    }

    fn frame_refused(&mut self, _frame: FrameHeader, reason: &'static str) {
        self.ear.refused(reason);
    }

    fn stream_closed(&mut self, id: u32, code: u32) {
        self.ear.closed.push((id, code));
        let Some(exchange) = self.streams.remove(id) else {
            return;
        };
        let is_complete =
            exchange.has_ended && exchange.is_answered && !exchange.is_reset && code == 0;
        if !is_complete {
            self.inbox.push(ServerEvent::StreamReset {
                stream: StreamId(u64::from(id)),
                code: u64::from(code),
            });
        }
    }

    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.ear.goaway(code, reason);
    }
}
