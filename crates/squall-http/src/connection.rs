//! A connection of either protocol, for stations that drive both alike.
//!
//! Only dispatch: the work is done in [`h1`] and [`h2`], and so are the exact meanings.

use std::sync::Arc;

use squall_base::plan::{Http2Settings, Protocol};

use crate::error::{ConnectionError, CreateError, RespondError, SubmitError};
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::message::{Request, Response};
use crate::{h1, h2};

/// The client's side of a connection.
pub enum ClientConnection {
    /// HTTP/1.1.
    H1(h1::Client),
    /// HTTP/2.
    H2(h2::Client),
}

/// The server's side of a connection.
pub enum ServerConnection {
    /// HTTP/1.1.
    H1(h1::Server),
    /// HTTP/2.
    H2(h2::Server),
}

/// Calls the same method of whichever protocol it is.
macro_rules! either {
    ($connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            Self::H1($inner) => $call,
            Self::H2($inner) => $call,
        }
    };
}

impl ClientConnection {
    /// A new connection; `http2` is used by HTTP/2 only.
    pub fn new(protocol: Protocol, http2: &Http2Settings) -> Result<Self, CreateError> {
        Ok(match protocol {
            Protocol::H1 => ClientConnection::H1(h1::Client::new()),
            Protocol::H2c => ClientConnection::H2(h2::Client::new(http2)?),
        })
    }

    /// Whether a request submitted now would be serialised at once, with nothing of an earlier request
    /// before it.
    pub fn is_ready(&self) -> bool {
        either!(self, connection => connection.is_ready())
    }

    /// How many exchanges have neither been answered nor failed: those that are lost if the connection
    /// ends now.
    pub fn in_flight(&self) -> usize {
        either!(self, connection => connection.in_flight())
    }

    /// False once it can never take another request. Exchanges in flight may still be answered, unless
    /// an error ended it.
    pub fn is_open(&self) -> bool {
        either!(self, connection => connection.is_open())
    }

    /// Takes a request, only when [`ClientConnection::is_ready`].
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        either!(self, connection => connection.submit(request))
    }

    /// Takes bytes from the server. After an error it stays in error, and what is in flight is lost;
    /// [`ClientConnection::output`] may still hold a last word for the peer.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        either!(self, connection => connection.receive(bytes, events))
    }

    /// The server closed its side: the proper end of some HTTP/1.1 responses, an error if anything else
    /// is in flight.
    pub fn receive_end(&mut self, events: &mut Vec<ClientEvent>) -> Result<(), ConnectionError> {
        either!(self, connection => connection.receive_end(events))
    }

    /// Bytes for the socket, empty if there are none now. The same bytes until they are taken.
    pub fn output(&mut self) -> &[u8] {
        either!(self, connection => connection.output())
    }

    /// The socket took the first `n` bytes of [`ClientConnection::output`]; at most its length counts.
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ClientEvent>) {
        either!(self, connection => connection.advance_output(n, events));
    }
}

impl ServerConnection {
    /// A new connection; `http2` is used by HTTP/2 only.
    pub fn new(protocol: Protocol, http2: &Http2Settings) -> Result<Self, CreateError> {
        Ok(match protocol {
            Protocol::H1 => ServerConnection::H1(h1::Server::new()),
            Protocol::H2c => ServerConnection::H2(h2::Server::new(http2)?),
        })
    }

    /// False once no more requests can come and every response was written: close it when
    /// [`ServerConnection::output`] is empty.
    pub fn is_open(&self) -> bool {
        either!(self, connection => connection.is_open())
    }

    /// Answers a request whose head has come, once. HTTP/1.1 sends answers in the order of requests.
    ///
    /// # Errors
    /// [`RespondError::NotWaiting`] is no fault of the caller's if the client has cancelled: one
    /// [`ServerConnection::receive`] may yield both the end of a request and its
    /// [`ServerEvent::StreamReset`], and a caller that answers at the end has not seen the reset yet.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        either!(self, connection => connection.respond(stream, response))
    }

    /// Takes bytes from the client. After an error it stays in error; [`ServerConnection::output`] may
    /// still hold a last word for the peer.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        either!(self, connection => connection.receive(bytes, events))
    }

    /// The client closed its side. Whole requests may still be answered.
    pub fn receive_end(&mut self, events: &mut Vec<ServerEvent>) -> Result<(), ConnectionError> {
        either!(self, connection => connection.receive_end(events))
    }

    /// Bytes for the socket, empty if there are none now. The same bytes until they are taken.
    pub fn output(&mut self) -> &[u8] {
        either!(self, connection => connection.output())
    }

    /// The socket took the first `n` bytes of [`ServerConnection::output`]; at most its length counts.
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ServerEvent>) {
        either!(self, connection => connection.advance_output(n, events));
    }
}
