//! A connection over TCP, of HTTP/1.1 or HTTP/2, in the clear or over TLS, for stations that drive all alike.
//!
//! Only layers and dispatch: the work is done in [`h1`], [`h2`] and [`tls`], and so are the exact meanings. Bytes are
//! those of the wire; offsets of events are those of HTTP, and [`ClientConnection::locate`] says which bytes of the wire
//! carried them. HTTP/3 has datagrams instead of a byte stream: see [`crate::h3`].

use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Http2Settings, Protocol, SideSettings, Version};
use squall_base::record::{Endings, Way};

use crate::error::{ConnectionError, CreateError, RespondError, SubmitError};
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::layers::{Engine, Layers, Place};
use crate::message::{Interim, Request, Response, Trailers};
use crate::{h1, h2, tls};

/// SETTINGS of both sides of an HTTP/2 connection, as identifiers and values, and what they have given up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Announced<'a> {
    /// Ours.
    pub sent: &'a [(u16, u32)],
    /// The peer's.
    pub received: &'a [(u16, u32)],
    /// Those of each of our newest SETTINGS frames, oldest first, at most eight.
    pub recent_sent: &'a [Vec<(u16, u32)>],
    /// Those of the peer's.
    pub recent_received: &'a [Vec<(u16, u32)>],
    /// GOAWAYs and resets so far.
    pub endings: Endings,
}

/// The client's side of a connection.
pub struct ClientConnection {
    layers: Layers<ClientEngine>,
    /// What a switch to HTTP/2 needs, while it may still come.
    upgrade: Option<Box<Upgrade>>,
}

/// A connection that asks for HTTP/2 with its first request.
struct Upgrade {
    settings: Http2Settings,
    request: Option<Arc<Request>>,
}

/// The server's side of a connection.
pub struct ServerConnection {
    layers: Layers<ServerEngine>,
}

/// The stream of the request that asked for HTTP/2 (RFC 7540, section 3.2).
const UPGRADED_STREAM: StreamId = StreamId(1);

enum ClientEngine {
    H1(Box<h1::Client>),
    H2(h2::Client),
}

enum ServerEngine {
    H1(Box<h1::Server>),
    H2(h2::Server),
}

/// Calls the same method of whichever protocol it is.
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
                $kind::make(version, settings)
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
    fn make(version: Version, settings: &SideSettings) -> Result<ClientEngine, CreateError> {
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
    fn make(version: Version, settings: &SideSettings) -> Result<ServerEngine, CreateError> {
        match version {
            Version::Http1 => Ok(ServerEngine::H1(Box::new(h1::Server::new(
                &settings.http1,
            )?))),
            Version::Http2 => Ok(ServerEngine::H2(h2::Server::new(&settings.http2)?)),
            Version::Http3 => Err(CreateError::NotOverTcp),
        }
    }
}

/// What both sides have, over the layers.
macro_rules! common {
    ($connection:ident, $kind:ident, $event:ty) => {
        impl $connection {
            /// The peer closed its side: the proper end of some HTTP/1.1 messages, an error inside of others, and over
            /// TLS without its close_notify.
            pub fn receive_end(
                &mut self,
                inbox: &mut Inbox<$event>,
            ) -> Result<(), ConnectionError> {
                self.layers.receive_end(inbox)
            }

            /// Whether the peer said over TLS that nothing follows (close_notify). It may wait for the same from us,
            /// and keep its side of the TCP connection open until then (RFC 8446, section 6.1). To `receive` it is
            /// what the end of the byte stream is to `receive_end`, and everything behind it is ignored.
            pub fn has_heard_end(&self) -> bool {
                self.layers.has_heard_end()
            }

            /// Bytes for the socket, empty if there are none now; at least those of before until they are taken. Over
            /// TLS, `now` decides on the sizes of new records (`RecordSizes::Dynamic`).
            pub fn output(&mut self, now: Time) -> &[u8] {
                self.layers.output(now)
            }

            /// The socket took the first `n` bytes of the output; at most its length counts.
            pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<$event>) {
                self.layers.advance_output(n, inbox);
            }

            /// From now on, body bytes count against the peer's flow-control windows until
            /// `consume` gives them back. HTTP/1.1 has no windows: not reading the socket is its way.
            pub fn set_manual_consumption(&mut self) {
                self.layers.set_manual_consumption();
            }

            /// The owner is done with `n` body bytes of this stream.
            pub fn consume(&mut self, stream: StreamId, n: u64) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.consume(stream, n));
                }
            }

            /// How many bytes of a streamed body would be taken now.
            pub fn body_room(&self, stream: StreamId) -> usize {
                self.layers
                    .engine()
                    .map_or(0, |engine| either!($kind, engine, engine => engine.body_room(stream)))
            }

            /// Takes the next bytes of a streamed body and says how many; none if there is no room, or no such body.
            pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
                self.layers.engine_mut().map_or(
                    0,
                    |engine| either!($kind, engine, engine => engine.send_body(stream, bytes)),
                )
            }

            /// The streamed body is complete.
            pub fn end_body(&mut self, stream: StreamId) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.end_body(stream));
                }
            }

            /// The same with trailers behind the body. HTTP/1.1 leaves them out if it does not send chunks.
            pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.end_body_with(stream, trailers));
                }
            }

            /// Gives an exchange up. HTTP/1.1 can only give its connection up.
            pub fn reset(&mut self, stream: StreamId, code: u64) {
                if let Some(engine) = self.layers.engine_mut() {
                    either!($kind, engine, engine => engine.reset(stream, code));
                }
            }

            /// What is really spoken; `None` until a TLS handshake has decided.
            pub fn protocol(&self) -> Option<Protocol> {
                let is_http2 = matches!(self.layers.engine()?, $kind::H2(_));
                Some(match (is_http2, self.layers.is_tls()) {
                    (false, false) => Protocol::H1,
                    (false, true) => Protocol::H1s,
                    (true, false) => Protocol::H2c,
                    (true, true) => Protocol::H2,
                })
            }

            /// What the TLS handshake has agreed on; `None` before and without TLS.
            pub fn secured(&self) -> Option<&tls::Secured> {
                self.layers.secured()
            }

            /// New lines of the TLS key log (the format of NSS, SSLKEYLOGFILE).
            pub fn take_key_log(&mut self) -> Vec<String> {
                self.layers.take_key_log()
            }

            /// Which bytes of the wire carried one byte of HTTP. Over TLS only for bytes of the last call of `receive` or
            /// `advance_output`, whose events say where they are; `None` for others.
            pub fn locate(&self, way: Way, offset: u64) -> Option<Place> {
                self.layers.locate(way, offset)
            }

            /// SETTINGS of both sides of HTTP/2, as far as they were sent and came.
            pub fn http2_settings(&self) -> Option<Http2Announced<'_>> {
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
    /// A connection in the clear.
    pub fn plain(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(ClientConnection {
            layers: Layers::plain(ClientEngine::make(version, settings)?),
            upgrade: None,
        })
    }

    /// A connection of HTTP/1.1 in the clear that asks for HTTP/2 with its first request (RFC 7540, section 3.2; RFC
    /// 9113 has dropped it, servers have not). If the server does not want it, it stays HTTP/1.1.
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

    /// A connection over TLS to the server of that name, if it has one; HTTP's version is what ALPN says, HTTP/1.1 if it
    /// says nothing.
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

    /// Takes bytes that the server sent over the wire. After an error it stays in error, and what is in flight is lost;
    /// `output` may still hold a last word for the server.
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

    /// Goes on with HTTP/2, if the server has just said so.
    fn switch(&mut self, inbox: &mut Inbox<ClientEvent>) -> Result<(), ConnectionError> {
        let Some(ClientEngine::H1(engine)) = self.layers.engine_mut() else {
            return Ok(());
        };
        let switched = engine.take_switched();
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
            // It was answered in HTTP/1.1, and so will be the rest.
            self.upgrade = None;
        }
        Ok(())
    }

    /// Whether a request submitted now would be serialised at once, with nothing of an earlier request
    /// before it.
    pub fn is_ready(&self) -> bool {
        self.layers
            .engine()
            .is_some_and(|engine| either!(ClientEngine, engine, engine => engine.is_ready()))
    }

    /// Serialises what was submitted, so that other requests can share its write; true if one may be submitted now,
    /// though [`ClientConnection::is_ready`] is false until the socket has taken all. It ends with the next output.
    pub fn gather(&mut self) -> bool {
        self.layers
            .engine_mut()
            .is_some_and(|engine| either!(ClientEngine, engine, engine => engine.gather()))
    }

    /// Whether nothing of the server is still to come that requests hang on: its handshake is done and, of HTTP/2, its
    /// SETTINGS have come, without which a request has only the windows that every connection begins with (RFC 9113,
    /// section 3.4).
    pub fn is_settled(&self) -> bool {
        match self.layers.engine() {
            None => false,
            Some(ClientEngine::H1(_)) => true,
            Some(ClientEngine::H2(engine)) => engine.is_settled(),
        }
    }

    /// How many exchanges have neither been answered nor failed: those that are lost if the connection
    /// ends now.
    pub fn in_flight(&self) -> usize {
        self.layers.engine().map_or(
            0,
            |engine| either!(ClientEngine, engine, engine => engine.in_flight()),
        )
    }

    /// False once it can never take another request. Exchanges in flight may still be answered, unless
    /// an error ended it.
    pub fn is_open(&self) -> bool {
        self.layers.is_open()
    }

    /// Over TLS: says goodbye (close_notify) behind everything that is in `output` by now.
    pub fn close(&mut self) {
        self.layers.close();
    }

    /// Over HTTP/1.1: the head with which it sends the request that it took last, which is `request`.
    pub fn sent_head(&self, request: &Request) -> Option<Vec<u8>> {
        match self.layers.engine()? {
            ClientEngine::H1(engine) => Some(engine.sent_head(request)),
            ClientEngine::H2(_) => None,
        }
    }

    /// Takes a request, only when [`ClientConnection::is_ready`] or as [`ClientConnection::gather`] says.
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
    /// Sends an interim response (RFC 9110, section 15.2) before the final one. A stream that is gone or answered gets
    /// none, nor does a client of HTTP/1.0. One for which there is no room, because the client does not read, is dropped.
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        if let Some(engine) = self.layers.engine_mut() {
            either!(ServerEngine, engine, engine => engine.inform(stream, interim));
        }
    }

    /// Takes bytes that the client sent over the wire. After an error it stays in error, and what is in flight is lost;
    /// `output` may still hold a last word for the client.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        self.layers.receive(bytes, inbox)
    }

    /// A connection in the clear.
    pub fn plain(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(ServerConnection {
            layers: Layers::plain(ServerEngine::make(version, settings)?),
        })
    }

    /// A connection over TLS; HTTP's version is what ALPN says, HTTP/1.1 if it says nothing.
    pub fn secure(
        context: &tls::ServerContext,
        settings: &SideSettings,
    ) -> Result<Self, CreateError> {
        let session = tls::Session::server(context)?;
        Ok(ServerConnection {
            layers: Layers::secure(session, settings),
        })
    }

    /// False once no more requests can come and every response was written: close it when
    /// [`ServerConnection::output`] is empty.
    pub fn is_open(&self) -> bool {
        self.layers.is_open()
    }

    /// Whether something of an answer is in what the socket has not taken. What HTTP/2 says about a connection, such as
    /// the acknowledgement of a PING, is none.
    pub fn holds_answer(&self) -> bool {
        (self.layers.engine())
            .is_some_and(|engine| either!(ServerEngine, engine, engine => engine.holds_answer()))
    }

    /// HTTP/2: says by GOAWAY that no further request is taken, as one does before closing (RFC 9113, section 9.1).
    /// HTTP/1.1 has no words for it.
    pub fn shut_down(&mut self) {
        if let Some(ServerEngine::H2(engine)) = self.layers.engine_mut() {
            engine.shut_down();
        }
    }

    /// Whether the end of the connection would complete an answer that is not complete: its body goes to that end, because
    /// it has no length and its client knows no chunks (RFC 9112, section 6.3). What is left then is to reset the
    /// connection.
    pub fn cuts_off(&self) -> bool {
        match self.layers.engine() {
            Some(ServerEngine::H1(engine)) => engine.cuts_off(),
            Some(ServerEngine::H2(_)) | None => false,
        }
    }

    /// Over TLS: says goodbye (close_notify) behind everything that is in `output` by now, unless that would be false
    /// ([`ServerConnection::cuts_off`]).
    pub fn close(&mut self) {
        if !self.cuts_off() {
            self.layers.close();
        }
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
        let engine = self
            .layers
            .engine_mut()
            .ok_or(RespondError::NotWaiting(stream))?;
        either!(ServerEngine, engine, engine => engine.respond(stream, response))
    }
}
