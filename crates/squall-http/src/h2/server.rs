//! The server's side of an HTTP/2 connection.
//!
//! It reads requests and sends the responses it is given, each as soon as windows allow. It answers
//! nothing by itself, and it does not hold a response back until its request has ended.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_nghttp2::{FrameHeader, FrameKind, Handler, Received, Session, Setting};

use super::output::{Mark, Output, Room};
use super::streams::Streams;
use super::{Offence, Windows};
use crate::error::{ConnectionError, CreateError, RespondError};
use crate::event::{ServerEvent, StreamId, push_request_body};
use crate::message::Response;

/// A server's connection.
pub struct Server {
    session: Session<Listener>,
    output: Output,
    has_ended: bool,
    failure: Option<ConnectionError>,
}

/// What nghttp2 tells.
#[derive(Default)]
struct Listener {
    events: Vec<ServerEvent>,
    streams: Streams<Exchange>,
    offence: Offence,
}

/// An open stream.
#[derive(Default)]
struct Exchange {
    method: String,
    target: String,
    is_head: bool,
    /// The request's head was reported.
    is_announced: bool,
    /// The request is complete.
    has_ended: bool,
    is_answered: bool,
    /// RST_STREAM came.
    is_reset: bool,
}

impl Server {
    /// A connection that has not been used.
    pub fn new(settings: &Http2Settings) -> Result<Server, CreateError> {
        let windows = Windows::of(settings)?;
        let mut session = Session::server(Listener::default())?;
        let limit = Setting::MaxConcurrentStreams(settings.max_concurrent_streams);
        windows.announce(&mut session, limit)?;
        Ok(Server {
            session,
            output: Output::of_server(),
            has_ended: false,
            failure: None,
        })
    }

    /// See [`crate::ServerConnection::is_open`].
    pub fn is_open(&self) -> bool {
        let may_read = !self.has_ended && self.session.wants_read();
        let may_write = self.session.wants_write() || !self.output.pending().is_empty();
        let must_answer = || {
            self.session
                .handler()
                .streams
                .iter()
                .any(|(_, exchange)| !exchange.is_answered)
        };
        self.failure.is_none() && (may_read || may_write || must_answer())
    }

    /// See [`crate::ServerConnection::respond`].
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let exchange = self.session.handler_mut().streams.find(stream.0);
        let waiting = exchange.filter(|exchange| exchange.is_announced && !exchange.is_answered);
        let exchange = waiting.ok_or(RespondError::NotWaiting(stream))?;
        exchange.is_answered = true;
        let body = (!exchange.is_head).then(|| response.body());
        Ok(self
            .session
            .submit_response(stream.0, response.h2(), body)?)
    }

    /// See [`crate::ServerConnection::receive`].
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        // The listener adds to the caller's list itself.
        self.hand_over(events);
        mem::swap(&mut self.session.handler_mut().events, events);
        let result = self.session.receive(bytes);
        mem::swap(&mut self.session.handler_mut().events, events);
        match result {
            // If the peer broke the protocol, this produces the GOAWAY that says so.
            Ok(()) => self.pull(),
            Err(error) => self.fail(error.into()),
        }
        self.hand_over(events);
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// See [`crate::ServerConnection::receive_end`].
    pub fn receive_end(&mut self, events: &mut Vec<ServerEvent>) -> Result<(), ConnectionError> {
        self.hand_over(events);
        self.has_ended = true;
        if self
            .session
            .handler()
            .streams
            .iter()
            .any(|(_, exchange)| !exchange.has_ended)
        {
            self.fail(ConnectionError::UnexpectedEnd);
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// See [`crate::ServerConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        if self.failure.is_none() {
            self.pull();
        }
        self.output.pending()
    }

    /// See [`crate::ServerConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ServerEvent>) {
        self.output.advance(n, |mark| {
            events.push(match mark {
                Mark::First(id) => ServerEvent::ResponseFirstByteWritten {
                    stream: StreamId(id),
                },
                Mark::Last(id) => ServerEvent::ResponseWritten {
                    stream: StreamId(id),
                },
            });
        });
        self.hand_over(events);
    }

    /// Passes on what happened while output was produced.
    fn hand_over(&mut self, events: &mut Vec<ServerEvent>) {
        events.append(&mut self.session.handler_mut().events);
    }

    fn pull(&mut self) {
        // When a response's last frame is produced matters to nobody here, only when it is taken.
        if let Err(error) = self.output.pull(Room::Usual, &mut self.session, |_, _| {}) {
            self.fail(error.into());
        }
        if let Some(offence) = self.session.handler_mut().offence.0.take() {
            self.fail(offence);
        }
    }

    fn fail(&mut self, error: ConnectionError) {
        self.failure.get_or_insert(error);
    }
}

impl Listener {
    fn on_end(&mut self, id: u32) {
        if let Some(exchange) = self.streams.find(id)
            && !exchange.has_ended
        {
            exchange.has_ended = true;
            self.events.push(ServerEvent::RequestEnd {
                stream: StreamId(id),
            });
        }
    }

    /// A header section is complete: the request's head, or trailers.
    fn on_headers(&mut self, id: u32) {
        if let Some(exchange) = self.streams.find(id)
            && !exchange.is_announced
        {
            exchange.is_announced = true;
            exchange.is_head = exchange.method == "HEAD";
            self.events.push(ServerEvent::RequestHead {
                stream: StreamId(id),
                method: mem::take(&mut exchange.method),
                target: mem::take(&mut exchange.target),
            });
        }
    }
}

impl Handler for Listener {
    fn header(&mut self, id: u32, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b":method" => self.streams.find_or_insert(id).method = text(),
            b":path" => self.streams.find_or_insert(id).target = text(),
            _ => {}
        }
    }

    fn data(&mut self, id: u32, bytes: &[u8]) {
        push_request_body(&mut self.events, StreamId(id), bytes.len());
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

    fn stream_closed(&mut self, id: u32, code: u32) {
        let Some(exchange) = self.streams.remove(id) else {
            return;
        };
        let is_complete =
            exchange.has_ended && exchange.is_answered && !exchange.is_reset && code == 0;
        if exchange.is_announced && !is_complete {
            self.events.push(ServerEvent::StreamReset {
                stream: StreamId(id),
                code,
            });
        }
    }

    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.offence.note(code, reason);
    }
}
