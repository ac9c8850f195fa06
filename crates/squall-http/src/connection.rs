//! A TCP connection that speaks HTTP/1.1 or HTTP/2, in cleartext or over TLS, behind one interface for stations.
//!
//! This is only layering and dispatch. [`h1`], [`h2`] and [`tls`] do the work and document the details. Bytes in and
//! out are those of the wire. Event offsets count bytes of HTTP, and [`ClientConnection::locate`] maps them to wire
//! bytes. HTTP/3 uses datagrams instead of a byte stream: see [`crate::h3`].

use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Http2Settings, Protocol, SideSettings, Version};
use squall_base::record::{EndingCounts, Way};

use crate::error::{ConnectionError, CreateError, RespondError, SubmitError};
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::layers::{Engine, Layers, WireExtent};
use crate::message::{Interim, Request, Response, Trailers};
use crate::{h1, h2, tls};

/// The SETTINGS of both sides of an HTTP/2 connection, as identifiers and values, and counts of GOAWAYs and resets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Announcements<'a> {
    /// The settings we sent.
    pub sent: &'a [(u16, u32)],
    /// The settings the peer sent.
    pub received: &'a [(u16, u32)],
    /// The settings of each of our most recent SETTINGS frames, oldest first, at most eight.
    pub recent_sent: &'a [Vec<(u16, u32)>],
    /// The settings of each of the peer's most recent SETTINGS frames.
    pub recent_received: &'a [Vec<(u16, u32)>],
    /// GOAWAYs and resets so far.
    pub endings: EndingCounts,
}

/// The client's side of a connection.
pub struct ClientConnection {
    layers: Layers<ClientEngine>,
    /// State for a switch to HTTP/2, while one is still possible.
    upgrade: Option<Box<Upgrade>>,
}

/// A connection that requests HTTP/2 with its first request.
struct Upgrade {
    settings: Http2Settings,
    request: Option<Arc<Request>>,
}

/// The server's side of a connection.
pub struct ServerConnection {
    layers: Layers<ServerEngine>,
}

/// The stream of the request that requested HTTP/2 (RFC 7540, section 3.2).
const UPGRADED_STREAM: StreamId = StreamId(1);

enum ClientEngine {
    H1(Box<h1::Client>),
    H2(h2::Client),
}

enum ServerEngine {
    H1(Box<h1::Server>),
    H2(h2::Server),
}

/// Calls the same method on either protocol's engine.
macro_rules! either {
    ($kind:ident, $connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            $kind::H1($inner) => $call,
            $kind::H2($inner) => $call,
        }
    };
}

macro_rules! engine {
    ($kind:ident, $event:ty) => {
        impl Engine for $kind {
            type Event = $event;

            fn new(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
                $kind::create(version, settings)
            }

            fn receive(
                &mut self,
                bytes: &[u8],
                inbox: &mut Inbox<$event>,
            ) -> Result<(), ConnectionError> {
                either!($kind, self, engine => engine.receive(bytes, inbox))
            }

            fn receive_end(&mut self, inbox: &mut Inbox<$event>) -> Result<(), ConnectionError> {
                either!($kind, self, engine => engine.receive_end(inbox))
            }

            fn output(&mut self) -> &[u8] {
                either!($kind, self, engine => engine.output())
            }

            fn advance_output(&mut self, n: usize, inbox: &mut Inbox<$event>) {
                either!($kind, self, engine => engine.advance_output(n, inbox));
            }

            fn set_manual_consumption(&mut self) {
                either!($kind, self, engine => engine.set_manual_consumption());
            }

            fn is_open(&self) -> bool {
                either!($kind, self, engine => engine.is_open())
            }
        }
    };
}

engine!(ClientEngine, ClientEvent);
engine!(ServerEngine, ServerEvent);

impl ClientEngine {
    fn create(version: Version, settings: &SideSettings) -> Result<ClientEngine, CreateError> {
        match version {
            Version::Http1 => Ok(ClientEngine::H1(Box::new(h1::Client::new(
                &settings.http1,
            )?))),
            Version::Http2 => Ok(ClientEngine::H2(h2::Client::new(&settings.http2)?)),
            Version::Http3 => Err(CreateError::NotOverTcp),
        }
    }
}

impl ServerEngine {
    fn create(version: Version, settings: &SideSettings) -> Result<ServerEngine, CreateError> {
        match version {
            Version::Http1 => Ok(ServerEngine::H1(Box::new(h1::Server::new(
                &settings.http1,
            )?))),
            Version::Http2 => Ok(ServerEngine::H2(h2::Server::new(&settings.http2)?)),
            Version::Http3 => Err(CreateError::NotOverTcp),
        }
    }
}

/// Methods that both sides share.
macro_rules! common {
    ($connection:ident, $kind:ident, $event:ty) => {
        impl $connection {
            /// Handles the peer closing its side. That properly ends some HTTP/1.1 messages. It is an error inside
            /// other messages, and over TLS if no close_notify preceded it.
            pub fn receive_end(
                &mut self,
                inbox: &mut Inbox<$event>,
            ) -> Result<(), ConnectionError> {
                self.layers.receive_end(inbox)
            }

            /// Whether the peer sent a TLS close_notify. The peer may wait for ours and keep its side of the TCP
            /// connection open until then (RFC 8446, section 6.1). `receive` treats close_notify as `receive_end`
            /// treats the end of the byte stream, and ignores everything after it.
            pub fn has_received_end(&self) -> bool {
                self.layers.has_received_end()
            }

            /// Bytes to write to the socket; empty if there are none now. Bytes stay in the output until they are
            /// taken. Over TLS, `now` determines the sizes of new records (`RecordSizes::Dynamic`).
            pub fn output(&mut self, now: Time) -> &[u8] {
                self.layers.output(now)
            }

            /// Reports that the socket took the first `n` bytes of the output, capped at its length.
            pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<$event>) {
                self.layers.advance_output(n, inbox);
            }

            /// Makes body bytes count against the peer's flow-control windows until `consume` returns them. HTTP/1.1
            /// has no windows; there, the caller stops reading the socket instead.
            pub fn set_manual_consumption(&mut self) {
                self.layers.set_manual_consumption();
            }

            /// Returns `n` body bytes of this stream to the peer's windows.
            pub fn consume(&mut self, stream: StreamId, n: u64) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.consume(stream, n));
                }
            }

            /// How many bytes of a streamed body could be taken now.
            pub fn body_room(&self, stream: StreamId) -> usize {
                self.layers
                    .engine()
                    .map_or(0, |engine| either!($kind, engine, engine => engine.body_room(stream)))
            }

            /// Takes the next bytes of a streamed body and returns how many; 0 if there is no room or no such body.
            pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
                self.layers.engine_mut().map_or(
                    0,
                    |engine| either!($kind, engine, engine => engine.send_body(stream, bytes)),
                )
            }

            /// Completes a streamed body.
            pub fn end_body(&mut self, stream: StreamId) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.end_body(stream));
                }
            }

            /// Completes a streamed body with trailers. HTTP/1.1 drops the trailers if the body is not chunked.
            pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.end_body_with(stream, trailers));
                }
            }

            /// Abandons an exchange. HTTP/1.1 can only do so by abandoning the connection.
            pub fn reset(&mut self, stream: StreamId, code: u64) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.reset(stream, code));
                }
            }

            /// The protocol in use; `None` until a TLS handshake has selected it.
            pub fn protocol(&self) -> Option<Protocol> {
                let is_http2 = matches!(self.layers.engine()?, $kind::H2(_));
                Some(match (is_http2, self.layers.is_tls()) {
                    (false, false) => Protocol::H1,
                    (false, true) => Protocol::H1s,
                    (true, false) => Protocol::H2c,
                    (true, true) => Protocol::H2,
                })
            }

            /// The outcome of the TLS handshake; `None` before it completes and without TLS.
            pub fn secured(&self) -> Option<&tls::HandshakeOutcome> {
                self.layers.secured()
            }

            /// New lines of the TLS key log (the NSS format used by SSLKEYLOGFILE).
            pub fn take_key_log(&mut self) -> Vec<String> {
                self.layers.take_key_log()
            }

            /// Which bytes of the wire carried one byte of HTTP. Over TLS, only bytes reported by events of the last
            /// call of `receive` or `advance_output` can be located; the result is `None` for others.
            pub fn locate(&self, way: Way, offset: u64) -> Option<WireExtent> {
                self.layers.locate(way, offset)
            }

            /// The HTTP/2 SETTINGS sent and received so far.
            pub fn http2_settings(&self) -> Option<Http2Announcements<'_>> {
                match self.layers.engine()? {
                    $kind::H1(_) => None,
                    $kind::H2(engine) => Some(engine.announced()),
                }
            }
        }
    };
}

common!(ClientConnection, ClientEngine, ClientEvent);
common!(ServerConnection, ServerEngine, ServerEvent);

impl ClientConnection {
    /// A cleartext connection.
    pub fn plain(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(ClientConnection {
            layers: Layers::plain(ClientEngine::create(version, settings)?),
            upgrade: None,
        })
    }

    /// A cleartext HTTP/1.1 connection that requests HTTP/2 with its first request (RFC 7540, section 3.2). RFC 9113
    /// dropped this mechanism, but servers have not. If the server declines, the connection stays on HTTP/1.1.
    pub fn upgrading(settings: &SideSettings) -> Result<Self, CreateError> {
        let header = h2::Client::upgrade_header(&settings.http2)?;
        let engine = h1::Client::with_upgrade(&settings.http1, &header)?;
        Ok(ClientConnection {
            layers: Layers::plain(ClientEngine::H1(Box::new(engine))),
            upgrade: Some(Box::new(Upgrade {
                settings: settings.http2,
                request: None,
            })),
        })
    }

    /// A connection over TLS to the server of that name, if it has one. ALPN selects the HTTP version; without ALPN it
    /// is HTTP/1.1.
    pub fn secure(
        context: &tls::ClientContext,
        server_name: Option<&str>,
        settings: &SideSettings,
    ) -> Result<Self, CreateError> {
        let session = tls::Session::client(context, server_name)?;
        Ok(ClientConnection {
            layers: Layers::secure(session, settings),
            upgrade: None,
        })
    }

    /// Takes bytes that the server sent over the wire. After an error the connection stays failed and its exchanges in
    /// flight are lost; `output` may still hold a final message for the server.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        self.layers.receive(bytes, inbox)?;
        match self.upgrade {
            None => Ok(()),
            Some(_) => self.switch(inbox),
        }
    }

    /// Continues with HTTP/2 if the server has just switched.
    fn switch(&mut self, inbox: &mut Inbox<ClientEvent>) -> Result<(), ConnectionError> {
        let Some(ClientEngine::H1(engine)) = self.layers.engine_mut() else {
            return Ok(());
        };
        let switched = engine.take_switch();
        let is_answered = switched.is_none() && engine.in_flight() == 0;
        let request = self.upgrade.as_ref().and_then(|u| u.request.clone());
        if let (Some(switched), Some(upgrade), Some(request)) = (switched, &self.upgrade, request) {
            let (sent, received) = (switched.sent, switched.received);
            let http2 = h2::Client::upgraded(&upgrade.settings, &request, sent, received)?;
            self.layers.replace(ClientEngine::H2(http2));
            self.upgrade = None;
            inbox.push(ClientEvent::Switched {
                from: switched.stream,
                to: UPGRADED_STREAM,
            });
            return self.layers.receive(&switched.unread, inbox);
        }
        if is_answered && self.upgrade.as_ref().is_some_and(|u| u.request.is_some()) {
            // The server responded in HTTP/1.1, so the connection stays on it.
            self.upgrade = None;
        }
        Ok(())
    }

    /// Whether a request submitted now would be serialised immediately, with no bytes of an earlier request before it.
    pub fn is_ready(&self) -> bool {
        self.layers
            .engine()
            .is_some_and(|engine| either!(ClientEngine, engine, engine => engine.is_ready()))
    }

    /// Serialises submitted requests so that more requests can share their write. Returns true if another may be
    /// submitted now, even though [`ClientConnection::is_ready`] stays false until the socket has taken everything. The
    /// next call of `output` ends the batch.
    pub fn gather(&mut self) -> bool {
        self.layers
            .engine_mut()
            .is_some_and(|engine| either!(ClientEngine, engine, engine => engine.gather()))
    }

    /// Whether everything that requests depend on has arrived from the server: its handshake is complete and, with
    /// HTTP/2, so are its SETTINGS. Before the SETTINGS, a request has only the initial windows of every connection
    /// (RFC 9113, section 3.4).
    pub fn is_settled(&self) -> bool {
        match self.layers.engine() {
            None => false,
            Some(ClientEngine::H1(_)) => true,
            Some(ClientEngine::H2(engine)) => engine.is_settled(),
        }
    }

    /// How many exchanges have neither completed nor failed. These are lost if the connection ends now.
    pub fn in_flight(&self) -> usize {
        self.layers.engine().map_or(
            0,
            |engine| either!(ClientEngine, engine, engine => engine.in_flight()),
        )
    }

    /// False once it can never take another request. Responses in flight may still arrive, unless an error ended it.
    pub fn is_open(&self) -> bool {
        self.layers.is_open()
    }

    /// Over TLS: sends close_notify after everything currently in `output`.
    pub fn close(&mut self) {
        self.layers.close();
    }

    /// HTTP/1.1: the head it sends for `request`, which must be the request it took last.
    pub fn sent_head(&self, request: &Request) -> Option<Vec<u8>> {
        match self.layers.engine()? {
            ClientEngine::H1(engine) => Some(engine.sent_head(request)),
            ClientEngine::H2(_) => None,
        }
    }

    /// Takes a request; only allowed when [`ClientConnection::is_ready`] or [`ClientConnection::gather`] returns true.
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        let engine = self.layers.engine_mut().ok_or(SubmitError::NotReady)?;
        let stream = either!(ClientEngine, engine, engine => engine.submit(request))?;
        if let Some(upgrade) = &mut self.upgrade
            && upgrade.request.is_none()
        {
            upgrade.request = Some(Arc::clone(request));
        }
        Ok(stream)
    }
}

impl ServerConnection {
    /// Sends an interim response (RFC 9110, section 15.2) before the final one. Does nothing if the stream is gone or
    /// already answered, or if the client speaks HTTP/1.0. Drops the response if there is no room because the client is
    /// not reading.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        if let Some(engine) = self.layers.engine_mut() {
            either!(ServerEngine, engine, engine => engine.inform(stream, interim));
        }
    }

    /// Takes bytes that the client sent over the wire. After an error the connection stays failed and its exchanges in
    /// flight are lost; `output` may still hold a final message for the client.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        self.layers.receive(bytes, inbox)
    }

    /// A cleartext connection.
    pub fn plain(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(ServerConnection {
            layers: Layers::plain(ServerEngine::create(version, settings)?),
        })
    }

    /// A connection over TLS. ALPN selects the HTTP version; without ALPN it is HTTP/1.1.
    pub fn secure(
        context: &tls::ServerContext,
        settings: &SideSettings,
    ) -> Result<Self, CreateError> {
        let session = tls::Session::server(context)?;
        Ok(ServerConnection {
            layers: Layers::secure(session, settings),
        })
    }

    /// False once no more requests can arrive and every response has been written. Close it when
    /// [`ServerConnection::output`] is empty.
    pub fn is_open(&self) -> bool {
        self.layers.is_open()
    }

    /// Whether the output not yet taken by the socket contains part of a response. HTTP/2 frames about the connection,
    /// such as a PING acknowledgement, do not count.
    pub fn holds_response(&self) -> bool {
        (self.layers.engine())
            .is_some_and(|engine| either!(ServerEngine, engine, engine => engine.holds_response()))
    }

    /// HTTP/2: announces with GOAWAY that no further requests are accepted, as is recommended before closing (RFC 9113,
    /// section 9.1). HTTP/1.1 has no equivalent, so nothing happens.
    pub fn shut_down(&mut self) {
        if let Some(ServerEngine::H2(engine)) = self.layers.engine_mut() {
            engine.shut_down();
        }
    }

    /// Whether closing the connection now would make an incomplete response look complete. That is so when the
    /// connection's end delimits the body, because the body has no length and the client does not support chunks (RFC
    /// 9112, section 6.3). The only safe way to end is then to reset the connection.
    pub fn must_reset(&self) -> bool {
        match self.layers.engine() {
            Some(ServerEngine::H1(engine)) => engine.must_reset(),
            Some(ServerEngine::H2(_)) | None => false,
        }
    }

    /// Over TLS: sends close_notify after everything currently in `output`, unless that would make a truncated response
    /// look complete ([`ServerConnection::must_reset`]).
    pub fn close(&mut self) {
        if !self.must_reset() {
            self.layers.close();
        }
    }

    /// Answers a request whose head has arrived, once. HTTP/1.1 sends responses in the order of the requests.
    ///
    /// # Errors [`RespondError::NotWaiting`] is not the caller's fault if the client has cancelled. One
    /// [`ServerConnection::receive`] may yield both the end of a request and its [`ServerEvent::StreamReset`], and a
    /// caller that responds at the end has not seen the reset yet.
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let engine = self
            .layers
            .engine_mut()
            .ok_or(RespondError::NotWaiting(stream))?;
        either!(ServerEngine, engine, engine => engine.respond(stream, response))
    }
}
