//! The client's side of an HTTP/2 connection.
//!
//! One request at a time is handed to nghttp2, and only when it would be serialised at once: nghttp2 would
//! queue requests over the server's limit without a word, and send all HEADERS before any DATA.

use std::mem;
use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_nghttp2::{FrameHeader, FrameKind, Handler, Received, Session, Setting};

use super::output::{Mark, Output, Room};
use super::streams::Streams;
use super::{Offence, Windows};
use crate::error::{ConnectionError, CreateError, SubmitError};
use crate::event::{ClientEvent, StreamId, push_response_body};
use crate::message::Request;

/// A client's connection.
pub struct Client {
    session: Session<Listener>,
    output: Output,
    has_ended: bool,
    failure: Option<ConnectionError>,
}

/// What nghttp2 tells.
#[derive(Default)]
struct Listener {
    events: Vec<ClientEvent>,
    streams: Streams<Exchange>,
    /// Streams of which neither a whole response nor a reset came.
    unanswered: usize,
    /// Streams whose requests nghttp2 has not wholly produced.
    unsent: usize,
    offence: Offence,
}

/// An open stream.
#[derive(Default)]
struct Exchange {
    is_sent: bool,
    has_begun: bool,
    /// Of the header section that is arriving.
    status: Option<u16>,
    is_answered: bool,
}

impl Client {
    /// A connection that has not been used; its output begins with the preface and SETTINGS. Until the
    /// server's SETTINGS arrive, our own limit of concurrent streams stands for the server's.
    pub fn new(settings: &Http2Settings) -> Result<Client, CreateError> {
        let windows = Windows::of(settings)?;
        let mut session = Session::client(Listener::default(), settings.max_concurrent_streams)?;
        windows.announce(&mut session, Setting::EnablePush(false))?;
        Ok(Client {
            session,
            output: Output::of_client(),
            has_ended: false,
            failure: None,
        })
    }

    /// See [`crate::ClientConnection::is_ready`]. It is not while output waits for the socket, nor while
    /// an earlier request has more to send that its windows allow; a request whose body is blocked by
    /// flow control holds nobody up.
    pub fn is_ready(&self) -> bool {
        let listener = self.session.handler();
        let limit = self.session.peer_max_concurrent_streams() as usize;
        self.is_open()
            && listener.streams.len() < limit
            && self.output.pending().is_empty()
            && (listener.unsent == 0 || !self.session.wants_write())
    }

    /// See [`crate::ClientConnection::is_open`].
    pub fn is_open(&self) -> bool {
        self.failure.is_none() && !self.has_ended && self.session.is_request_allowed()
    }

    /// See [`crate::ClientConnection::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.session.handler().unanswered
    }

    /// See [`crate::ClientConnection::submit`].
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        if !self.is_ready() {
            return Err(SubmitError::NotReady);
        }
        let id = self
            .session
            .submit_request(request.h2(), Some(request.body()))?;
        let listener = self.session.handler_mut();
        *listener.streams.find_or_insert(id) = Exchange::default();
        listener.unanswered += 1;
        listener.unsent += 1;
        Ok(StreamId(id))
    }

    /// See [`crate::ClientConnection::receive`].
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        // The listener adds to the caller's list itself.
        self.hand_over(events);
        mem::swap(&mut self.session.handler_mut().events, events);
        let result = self.session.receive(bytes);
        mem::swap(&mut self.session.handler_mut().events, events);
        if result.is_ok() && !self.session.is_request_allowed() {
            // GOAWAY came, or must go because the peer broke the protocol: producing it tells which.
            self.pull(Room::Beyond);
            self.hand_over(events);
        }
        if let Err(error) = result {
            self.fail(error.into());
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// See [`crate::ClientConnection::receive_end`].
    pub fn receive_end(&mut self, events: &mut Vec<ClientEvent>) -> Result<(), ConnectionError> {
        self.hand_over(events);
        self.has_ended = true;
        if self.in_flight() > 0 {
            self.fail(ConnectionError::UnexpectedEnd);
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// See [`crate::ClientConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        if self.failure.is_none() {
            self.pull(Room::Usual);
        }
        self.output.pending()
    }

    /// See [`crate::ClientConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ClientEvent>) {
        self.output.advance(n, |mark| {
            events.push(match mark {
                Mark::First(id) => ClientEvent::RequestFirstByteWritten {
                    stream: StreamId(id),
                },
                Mark::Last(id) => ClientEvent::RequestWritten {
                    stream: StreamId(id),
                },
            });
        });
        self.hand_over(events);
    }

    /// Passes on what happened while output was produced.
    fn hand_over(&mut self, events: &mut Vec<ClientEvent>) {
        events.append(&mut self.session.handler_mut().events);
    }

    fn pull(&mut self, room: Room) {
        let result = self.output.pull(room, &mut self.session, Listener::on_sent);
        if let Err(error) = result {
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
    /// The last frame of a request was produced.
    fn on_sent(&mut self, id: u32) {
        if let Some(exchange) = self.streams.find(id)
            && !exchange.is_sent
        {
            exchange.is_sent = true;
            self.unsent -= 1;
        }
    }

    fn on_answered(&mut self, id: u32) {
        if let Some(exchange) = self.streams.find(id)
            && !exchange.is_answered
        {
            exchange.is_answered = true;
            self.unanswered -= 1;
            self.events.push(ClientEvent::ResponseEnd {
                stream: StreamId(id),
            });
        }
    }
}

impl Handler for Listener {
    fn frame_begun(&mut self, frame: FrameHeader) {
        if frame.kind == FrameKind::HEADERS
            && let Some(exchange) = self.streams.find(frame.stream)
            && !exchange.has_begun
        {
            exchange.has_begun = true;
            self.events.push(ClientEvent::ResponseFirstByte {
                stream: StreamId(frame.stream),
            });
        }
    }

    fn header(&mut self, id: u32, name: &[u8], value: &[u8]) {
        if name == b":status"
            && let Some(exchange) = self.streams.find(id)
        {
            // nghttp2 lets three digits pass and nothing else.
            exchange.status = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
        }
    }

    fn data(&mut self, id: u32, bytes: &[u8]) {
        push_response_body(&mut self.events, StreamId(id), bytes.len());
    }

    fn frame_received(&mut self, frame: Received) {
        match frame {
            Received::Headers(header) => {
                let status = self
                    .streams
                    .find(header.stream)
                    .and_then(|e| e.status.take());
                // Interim responses are skipped, trailers have no status.
                if let Some(status) = status.filter(|status| *status >= 200) {
                    let stream = StreamId(header.stream);
                    self.events
                        .push(ClientEvent::ResponseHeaders { stream, status });
                }
                if header.ends_stream() {
                    self.on_answered(header.stream);
                }
            }
            Received::Other(header) if header.ends_stream() => self.on_answered(header.stream),
            Received::Other(_) => {}
            Received::GoAway { last_stream, code } => {
                let last_stream = StreamId(last_stream);
                self.events.push(ClientEvent::GoAway { last_stream, code });
            }
        }
    }

    fn stream_closed(&mut self, id: u32, code: u32) {
        let Some(exchange) = self.streams.remove(id) else {
            return;
        };
        self.unsent -= usize::from(!exchange.is_sent);
        if !exchange.is_answered {
            self.unanswered -= 1;
            self.events.push(ClientEvent::StreamReset {
                stream: StreamId(id),
                code,
            });
        }
    }

    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.offence.note(code, reason);
    }
}
