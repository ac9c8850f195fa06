//! One side of a connection, whichever HTTP version it speaks: the only place that chooses between the engines.
//!
//! [`ConnectionStreams`] chooses among the three versions for an owner, `TcpEngine` between the two that run over TCP.
//! Nothing here knows TLS or QUIC. The next file to read is `connection`, which puts TLS below an engine; then `h1`, `h2` and
//! `h3`.

use std::sync::Arc;

use squall_base::plan::{SideSettings, Version};

use crate::engine::{Engine, StreamIo};
use crate::error::{ConnectionError, CreateError, RespondError, SubmitError};
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Interim, Request, Response, Trailers};
use crate::{h1, h2, h3};

/// The client or the server of a connection: its events and its engines.
pub trait Side: Sized {
    /// What its inbox holds.
    type Event;
    /// Its side of an HTTP/1.1 connection.
    type H1: Engine<Event = Self::Event>;
    /// Its side of an HTTP/2 connection.
    type H2: Engine<Event = Self::Event>;
    /// Its side of an HTTP/3 connection.
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

/// Calls the same method of either engine.
macro_rules! either {
    ($engine:expr, $inner:ident => $call:expr) => {
        match $engine {
            TcpEngine::H1($inner) => $call,
            TcpEngine::H2($inner) => $call,
        }
    };
}

impl<S: Side> TcpEngine<S> {
    pub(crate) fn new(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(match version {
            Version::Http1 => TcpEngine::H1(Box::new(S::http1(settings)?)),
            Version::Http2 => TcpEngine::H2(Box::new(S::http2(settings)?)),
            Version::Http3 => return Err(CreateError::NotOverTcp),
        })
    }

    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<S::Event>,
    ) -> Result<(), ConnectionError> {
        either!(self, engine => engine.receive(bytes, inbox))
    }

    pub(crate) fn receive_end(
        &mut self,
        inbox: &mut Inbox<S::Event>,
    ) -> Result<(), ConnectionError> {
        either!(self, engine => engine.receive_end(inbox))
    }

    pub(crate) fn output(&mut self) -> &[u8] {
        either!(self, engine => engine.output())
    }

    pub(crate) fn advance_output(&mut self, n: usize, inbox: &mut Inbox<S::Event>) {
        either!(self, engine => engine.advance_output(n, inbox));
    }

    pub(crate) fn set_manual_consumption(&mut self) {
        either!(self, engine => engine.set_manual_consumption());
    }

    pub(crate) fn is_open(&self) -> bool {
        either!(self, engine => engine.is_open())
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        either!(self, engine => engine.buffered_bytes())
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
    /// There are none: the connection has no protocol yet, or is gone.
    None,
}

/// The streams of a client's connection.
pub type ClientStreams<'a> = ConnectionStreams<'a, Client>;

/// The streams of a server's connection.
pub type ServerStreams<'a> = ConnectionStreams<'a, Server>;

/// Calls the same method of the streams of any version. If there are none, the result is `$none`.
macro_rules! any {
    ($streams:expr, $inner:ident => $call:expr, $none:expr) => {
        match $streams {
            ConnectionStreams::H1($inner) => $call,
            ConnectionStreams::H2($inner) => $call,
            ConnectionStreams::H3($inner) => $call,
            ConnectionStreams::None => $none,
        }
    };
}

impl<S: Side> StreamIo for ConnectionStreams<'_, S> {
    fn body_room(&self, stream: StreamId) -> usize {
        any!(self, streams => streams.body_room(stream), 0)
    }

    fn body_waiting(&self, stream: StreamId) -> usize {
        any!(self, streams => streams.body_waiting(stream), 0)
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        any!(self, streams => streams.send_body(stream, bytes), 0)
    }

    fn end_body(&mut self, stream: StreamId) {
        any!(self, streams => streams.end_body(stream), ());
    }

    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        any!(self, streams => streams.end_body_with(stream, trailers), ());
    }

    fn consume(&mut self, stream: StreamId, n: u64) {
        any!(self, streams => streams.consume(stream, n), ());
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        any!(self, streams => streams.reset(stream, code), ());
    }
}

impl h3::Client {
    /// Its streams.
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
        any!(self, streams => streams.submit(request), Err(SubmitError::NotReady))
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
        any!(self, streams => streams.respond(stream, response), Err(RespondError::NotWaiting(stream)))
    }

    /// Sends an interim response (RFC 9110, section 15.2) before the final one. Does nothing if the stream is gone or
    /// already answered, or if the client speaks HTTP/1.0. Drops the response if there is no room because the client is
    /// not reading.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        any!(self, streams => streams.inform(stream, interim), ());
    }
}
