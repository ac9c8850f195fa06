//! One side of a connection, whichever HTTP version it speaks: the only place that chooses between the engines.
//!
//! [`ConnectionStreams`] chooses among the three versions for an owner, `TcpEngine` between the two that run over TCP.
//! Nothing here knows TLS or QUIC. The next file to read is `connection`, which puts TLS below an engine; then `h1`, `h2` and
//! `h3`.

use std::sync::Arc;

use squall_base::plan::{SideSettings, Version};

use crate::engine::{Engine, StreamIo};
use crate::error::{CreateError, RespondError, SubmitError};
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::message::{Interim, Request, Response, Trailers};
use crate::{h1, h2, h3};

/// The client or the server of a connection: its events and its engines.
pub trait Side: Sized {
    /// The events that the side's engines report.
    type Event;
    /// The side's engine for HTTP/1.1.
    type H1: Engine<Event = Self::Event>;
    /// The side's engine for HTTP/2.
    type H2: Engine<Event = Self::Event>;
    /// The side's engine for HTTP/3.
    type H3: StreamIo;

    /// A new HTTP/1.1 engine.
    fn http1(settings: &SideSettings) -> Result<Self::H1, CreateError>;
    /// A new HTTP/2 engine.
    fn http2(settings: &SideSettings) -> Result<Self::H2, CreateError>;
}

/// The side that sends requests.
pub enum Client {}

/// The side that responds.
pub enum Server {}

impl Side for Client {
    type Event = ClientEvent;
    type H1 = h1::Client;
    type H2 = h2::Client;
    type H3 = h3::Client;

    fn http1(settings: &SideSettings) -> Result<h1::Client, CreateError> {
        h1::Client::new(&settings.http1)
    }

    fn http2(settings: &SideSettings) -> Result<h2::Client, CreateError> {
        h2::Client::new(&settings.http2)
    }
}

impl Side for Server {
    type Event = ServerEvent;
    type H1 = h1::Server;
    type H2 = h2::Server;
    type H3 = h3::AcceptedConnection;

    fn http1(settings: &SideSettings) -> Result<h1::Server, CreateError> {
        h1::Server::new(&settings.http1)
    }

    fn http2(settings: &SideSettings) -> Result<h2::Server, CreateError> {
        h2::Server::new(&settings.http2)
    }
}

/// The engine of a TCP connection.
pub(crate) enum TcpEngine<S: Side> {
    H1(Box<S::H1>),
    H2(Box<S::H2>),
}

impl<S: Side> TcpEngine<S> {
    pub(crate) fn new(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(match version {
            Version::Http1 => TcpEngine::H1(Box::new(S::http1(settings)?)),
            Version::Http2 => TcpEngine::H2(Box::new(S::http2(settings)?)),
            Version::Http3 => return Err(CreateError::NotOverTcp),
        })
    }

    /// What both engines can do.
    pub(crate) fn common(&self) -> &dyn Engine<Event = S::Event> {
        match self {
            TcpEngine::H1(engine) => &**engine,
            TcpEngine::H2(engine) => &**engine,
        }
    }

    pub(crate) fn common_mut(&mut self) -> &mut dyn Engine<Event = S::Event> {
        match self {
            TcpEngine::H1(engine) => &mut **engine,
            TcpEngine::H2(engine) => &mut **engine,
        }
    }
}

/// The streams of one connection, borrowed, whichever HTTP version it speaks.
pub enum ConnectionStreams<'a, S: Side> {
    /// Over HTTP/1.1.
    H1(&'a mut S::H1),
    /// Over HTTP/2.
    H2(&'a mut S::H2),
    /// Over HTTP/3.
    H3(&'a mut S::H3),
    /// No streams: the connection has no protocol yet, or is gone.
    None,
}

/// The streams of a client's connection.
pub type ClientStreams<'a> = ConnectionStreams<'a, Client>;

/// The streams of a server's connection.
pub type ServerStreams<'a> = ConnectionStreams<'a, Server>;

impl<S: Side> ConnectionStreams<'_, S> {
    fn common(&self) -> Option<&dyn StreamIo> {
        match self {
            ConnectionStreams::H1(streams) => Some(&**streams),
            ConnectionStreams::H2(streams) => Some(&**streams),
            ConnectionStreams::H3(streams) => Some(&**streams),
            ConnectionStreams::None => None,
        }
    }

    fn common_mut(&mut self) -> Option<&mut dyn StreamIo> {
        match self {
            ConnectionStreams::H1(streams) => Some(&mut **streams),
            ConnectionStreams::H2(streams) => Some(&mut **streams),
            ConnectionStreams::H3(streams) => Some(&mut **streams),
            ConnectionStreams::None => None,
        }
    }
}

/// Without streams, there is no room for a body, and every other call does nothing.
impl<S: Side> StreamIo for ConnectionStreams<'_, S> {
    fn body_room(&self, stream: StreamId) -> usize {
        self.common().map_or(0, |streams| streams.body_room(stream))
    }

    fn body_waiting(&self, stream: StreamId) -> usize {
        self.common()
            .map_or(0, |streams| streams.body_waiting(stream))
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.common_mut()
            .map_or(0, |streams| streams.send_body(stream, bytes))
    }

    fn end_body(&mut self, stream: StreamId) {
        if let Some(streams) = self.common_mut() {
            streams.end_body(stream);
        }
    }

    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        if let Some(streams) = self.common_mut() {
            streams.end_body_with(stream, trailers);
        }
    }

    fn consume(&mut self, stream: StreamId, n: u64) {
        if let Some(streams) = self.common_mut() {
            streams.consume(stream, n);
        }
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        if let Some(streams) = self.common_mut() {
            streams.reset(stream, code);
        }
    }
}

impl h3::Client {
    /// The connection's streams.
    pub fn streams(&mut self) -> ClientStreams<'_> {
        ConnectionStreams::H3(self)
    }
}

impl h3::Server {
    /// The streams of a connection, which then gets a turn in [`h3::Server::output`].
    pub fn streams(&mut self, connection: u32) -> ServerStreams<'_> {
        self.accepted(connection)
            .map_or(ConnectionStreams::None, ConnectionStreams::H3)
    }
}

impl ClientStreams<'_> {
    /// Takes a request; only allowed when the connection is ready or gathers requests
    /// ([`crate::ClientConnection::is_ready`], [`crate::ClientConnection::gather`]).
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        match self {
            ConnectionStreams::H1(streams) => streams.submit(request),
            ConnectionStreams::H2(streams) => streams.submit(request),
            ConnectionStreams::H3(streams) => streams.submit(request),
            ConnectionStreams::None => Err(SubmitError::NotReady),
        }
    }
}

impl ServerStreams<'_> {
    /// Answers a request whose head has arrived, once. HTTP/1.1 sends responses in the order of the requests.
    ///
    /// # Errors
    /// [`RespondError::NotWaiting`] is not the caller's fault if the client has cancelled or is gone. One call of
    /// `receive` may yield both the end of a request and its [`ServerEvent::StreamReset`], and a caller that responds
    /// at the end has not seen the reset yet.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        match self {
            ConnectionStreams::H1(streams) => streams.respond(stream, response),
            ConnectionStreams::H2(streams) => streams.respond(stream, response),
            ConnectionStreams::H3(streams) => streams.respond(stream, response),
            ConnectionStreams::None => Err(RespondError::NotWaiting(stream)),
        }
    }

    /// Sends an interim response (RFC 9110, section 15.2) before the final one. Does nothing if the stream is gone or
    /// already answered, or if the client speaks HTTP/1.0. Drops the response if there is no room because the client is
    /// not reading.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        match self {
            ConnectionStreams::H1(streams) => streams.inform(stream, interim),
            ConnectionStreams::H2(streams) => streams.inform(stream, interim),
            ConnectionStreams::H3(streams) => streams.inform(stream, interim),
            ConnectionStreams::None => {}
        }
    }
}
