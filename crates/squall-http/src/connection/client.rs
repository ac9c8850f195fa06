//! What only the client's side of a connection does: readiness for requests, and the switch from HTTP/1.1 to HTTP/2.
//!
//! It submits nothing itself: see [`Connection::streams`].

use squall_base::plan::SideSettings;

use super::{ClientConnection, Connection};
use crate::engine::Engine;
use crate::error::{ConnectionError, CreateError};
use crate::event::{ClientEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::Request;
use crate::side::TcpEngine;
use crate::{h1, h2, tls};

/// The stream on which the response to the upgrade request arrives (RFC 7540, section 3.2).
const UPGRADED_STREAM: StreamId = StreamId(1);

impl ClientConnection {
    /// A cleartext HTTP/1.1 connection that requests HTTP/2 with its first request (RFC 7540, section 3.2). RFC 9113
    /// dropped this mechanism, but servers have not. If the server declines, the connection stays on HTTP/1.1.
    pub fn upgrading(settings: &SideSettings) -> Result<Self, CreateError> {
        let header = h2::Client::upgrade_header(&settings.http2)?;
        let engine = h1::Client::with_upgrade(&settings.http1, &header)?;
        Ok(ClientConnection {
            upgrade: Some(Box::new(settings.http2)),
            ..Connection::speaking(TcpEngine::H1(Box::new(engine)))
        })
    }

    /// A connection over TLS to the server named `server_name`, if it has a name. ALPN selects the HTTP version;
    /// without ALPN it is HTTP/1.1.
    pub fn secure(
        context: &tls::ClientContext,
        server_name: Option<&str>,
        settings: &SideSettings,
    ) -> Result<Self, CreateError> {
        let session = tls::Session::client(context, server_name)?;
        Ok(Connection::over(session, settings))
    }

    /// Takes bytes that the server sent over the wire. After an error the connection stays failed and its exchanges in
    /// flight are lost; `output` may still hold a final message for the server.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        self.take(bytes, inbox)?;
        match self.upgrade {
            None => Ok(()),
            Some(_) => self.switch(inbox),
        }
    }

    /// Continues with HTTP/2 if the server has just switched.
    fn switch(&mut self, inbox: &mut Inbox<ClientEvent>) -> Result<(), ConnectionError> {
        let Some(TcpEngine::H1(engine)) = &mut self.engine else {
            return Ok(());
        };
        if let (Some(switched), Some(settings)) = (engine.take_switch(), &self.upgrade) {
            let (sent, received) = (switched.sent, switched.received);
            let mut http2 = h2::Client::upgraded(settings, switched.is_head, sent, received)?;
            if self.is_manual {
                http2.set_manual_consumption();
            }
            self.engine = Some(TcpEngine::H2(Box::new(http2)));
            self.upgrade = None;
            inbox.push(ClientEvent::Switched {
                from: switched.stream,
                to: UPGRADED_STREAM,
            });
            return self.take(&switched.unread, inbox);
        }
        if engine.is_answered() {
            // The server responded in HTTP/1.1, so the connection stays on it.
            self.upgrade = None;
        }
        Ok(())
    }

    /// Whether a request submitted now would be serialised immediately, with no bytes of an earlier request before it.
    pub fn is_ready(&self) -> bool {
        match &self.engine {
            None => false,
            Some(TcpEngine::H1(h1)) => h1.is_ready(),
            Some(TcpEngine::H2(h2)) => h2.is_ready(),
        }
    }

    /// Serialises submitted requests so that more requests can share their write. Returns true if another request may be
    /// submitted now, even though [`ClientConnection::is_ready`] stays false until the socket has taken everything. The
    /// next call of `output` ends the batch.
    pub fn gather(&mut self) -> bool {
        match &mut self.engine {
            None => false,
            // Requests never share a write, because there is no pipelining.
            Some(TcpEngine::H1(h1)) => h1.is_ready(),
            Some(TcpEngine::H2(h2)) => h2.gather(),
        }
    }

    /// Whether everything that requests depend on has arrived from the server: its handshake is complete and, with
    /// HTTP/2, so are its SETTINGS. Before the SETTINGS, a request has only the initial windows of every connection
    /// (RFC 9113, section 3.4).
    pub fn is_settled(&self) -> bool {
        match &self.engine {
            None => false,
            Some(TcpEngine::H1(_)) => true,
            Some(TcpEngine::H2(h2)) => h2.is_settled(),
        }
    }

    /// How many exchanges have neither completed nor failed. These are lost if the connection ends now.
    pub fn in_flight(&self) -> usize {
        match &self.engine {
            None => 0,
            Some(TcpEngine::H1(h1)) => h1.in_flight(),
            Some(TcpEngine::H2(h2)) => h2.in_flight(),
        }
    }

    /// Over TLS: sends close_notify after everything currently in `output`.
    pub fn close(&mut self) {
        self.send_close_notify();
    }

    /// HTTP/1.1: the head sent on this connection for `request`, which must be the last request submitted.
    pub fn sent_head(&self, request: &Request) -> Option<Vec<u8>> {
        match self.engine.as_ref()? {
            TcpEngine::H1(h1) => Some(h1.sent_head(request)),
            TcpEngine::H2(_) => None,
        }
    }
}
