//! What only the server's side of a connection does, mostly to end it.
//!
//! It responds to nothing itself: see [`Connection::streams`].

use squall_base::plan::SideSettings;

use super::{Connection, ServerConnection};
use crate::error::{ConnectionError, CreateError};
use crate::event::ServerEvent;
use crate::inbox::Inbox;
use crate::side::TcpEngine;
use crate::tls;

impl ServerConnection {
    /// A connection over TLS. ALPN selects the HTTP version; without ALPN it is HTTP/1.1.
    pub fn secure(
        context: &tls::ServerContext,
        settings: &SideSettings,
    ) -> Result<Self, CreateError> {
        let session = tls::Session::server(context)?;
        Ok(Connection::over(session, settings))
    }

    /// Takes bytes that the client sent over the wire. After an error the connection stays failed and its exchanges in
    /// flight are lost; `output` may still hold a final message for the client.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        self.take(bytes, inbox)
    }

    /// Whether the output not yet taken by the socket contains part of a response. Connection-level HTTP/2 frames, such as
    /// a PING acknowledgement, do not count.
    pub fn holds_response(&self) -> bool {
        match &self.engine {
            None => false,
            Some(TcpEngine::H1(h1)) => h1.holds_response(),
            Some(TcpEngine::H2(h2)) => h2.holds_response(),
        }
    }

    /// HTTP/2: announces with GOAWAY that no further requests are accepted, as is recommended before closing (RFC 9113,
    /// section 9.1). HTTP/1.1 has no equivalent, so nothing happens.
    pub fn shut_down(&mut self) {
        if let Some(TcpEngine::H2(h2)) = &mut self.engine {
            h2.shut_down();
        }
    }

    /// HTTP/1.1: answers a request whose head is incomplete with 408 (Request Timeout), after the responses before it.
    /// The connection then ends, and anything else the client sends is ignored. Returns whether there is such a request.
    /// Always false over HTTP/2: until a head is complete nothing else can be read, so the connection can only be closed.
    pub fn time_out_head(&mut self) -> bool {
        match &mut self.engine {
            Some(TcpEngine::H1(h1)) => h1.time_out_head(),
            Some(TcpEngine::H2(_)) | None => false,
        }
    }

    /// Whether closing the connection now would make an incomplete response look complete. That is so when the
    /// connection's end delimits the body, because the body has no length and the client does not support chunks (RFC
    /// 9112, section 6.3). The only safe way to end is then to reset the connection.
    pub fn must_reset(&self) -> bool {
        match &self.engine {
            Some(TcpEngine::H1(h1)) => h1.must_reset(),
            Some(TcpEngine::H2(_)) | None => false,
        }
    }

    /// Over TLS: sends close_notify after everything currently in `output`, unless that would make a truncated response
    /// look complete ([`ServerConnection::must_reset`]).
    pub fn close(&mut self) {
        if !self.must_reset() {
            self.send_close_notify();
        }
    }
}
