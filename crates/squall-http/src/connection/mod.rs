//! A TCP connection that speaks HTTP/1.1 or HTTP/2, in cleartext or over TLS, behind one interface for stations.
//!
//! Bytes in and out are those of the wire. Event offsets count bytes of HTTP, and [`Connection::locate`] maps them to
//! wire bytes. The engine keeps its output until the *wire* has taken it, so its marks mean the same with and without
//! TLS: a byte of HTTP counts as written when the socket has taken the last byte of the record that holds it. Over TLS,
//! ALPN selects the protocol, so the engine is created when the handshake completes.
//!
//! This module only adds the TLS layer. [`h1`](crate::h1), [`h2`](crate::h2) and [`tls`] do the work; `client` and `server`
//! hold what only one side does. HTTP/3 uses datagrams instead of a byte stream: see [`crate::h3`].

mod client;
mod server;

use squall_base::Time;
use squall_base::plan::{Http2Settings, Protocol, SideSettings, Version};
use squall_base::record::Way;

use crate::engine::{Engine, Http2Announcements};
use crate::error::{ConnectionError, CreateError};
use crate::handshake::HandshakeFacts;
use crate::inbox::Inbox;
use crate::side::{Client, ConnectionStreams, Server, Side, TcpEngine};
use crate::tls;

/// What carries a byte of HTTP in the wire's byte stream: the byte itself in cleartext, a record over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireExtent {
    /// The TLS record, numbered among those that carry application data.
    pub record: Option<u64>,
    /// Offset of the first byte of the carrier.
    pub wire_start: u64,
    /// Offset just past the carrier's last byte.
    pub wire_end: u64,
}

/// One side of a connection: an engine, and the TLS session below it, if any.
pub struct Connection<S: Side> {
    /// `None` until the TLS handshake has selected the protocol.
    engine: Option<TcpEngine<S>>,
    tls: Option<Box<Tls>>,
    is_manual: bool,
    /// A client's settings for HTTP/2, while HTTP/1.1 may still switch to it.
    upgrade: Option<Box<Http2Settings>>,
}

/// The client's side of a connection.
pub type ClientConnection = Connection<Client>;

/// The server's side of a connection.
pub type ServerConnection = Connection<Server>;

/// The TLS session below an engine.
struct Tls {
    session: tls::Session,
    settings: SideSettings,
    /// How many bytes of the engine's output have been encrypted, and how many the engine knows the wire has taken.
    encrypted: u64,
    taken: u64,
    failure: Option<ConnectionError>,
}

impl<S: Side> Connection<S> {
    /// A cleartext connection.
    pub fn plain(version: Version, settings: &SideSettings) -> Result<Self, CreateError> {
        Ok(Connection::speaking(TcpEngine::new(version, settings)?))
    }

    fn speaking(engine: TcpEngine<S>) -> Self {
        Connection {
            engine: Some(engine),
            tls: None,
            is_manual: false,
            upgrade: None,
        }
    }

    /// A connection over TLS. ALPN selects the HTTP version; without ALPN it is HTTP/1.1.
    fn over(session: tls::Session, settings: &SideSettings) -> Self {
        Connection {
            engine: None,
            tls: Some(Box::new(Tls {
                session,
                settings: settings.clone(),
                encrypted: 0,
                taken: 0,
                failure: None,
            })),
            is_manual: false,
            upgrade: None,
        }
    }

    /// The connection's streams.
    pub fn streams(&mut self) -> ConnectionStreams<'_, S> {
        match &mut self.engine {
            Some(TcpEngine::H1(h1)) => ConnectionStreams::H1(&mut **h1),
            Some(TcpEngine::H2(h2)) => ConnectionStreams::H2(&mut **h2),
            None => ConnectionStreams::None,
        }
    }

    /// Whether the connection can still be used. A client's cannot once it can take no further request (with the exception
    /// in [`Engine::is_open`]); responses in flight may still arrive, unless an error ended the connection. A server's
    /// cannot once no more requests can arrive and every response has been written: close it when [`Connection::output`]
    /// is empty.
    pub fn is_open(&self) -> bool {
        let has_failed = self.tls.as_ref().is_some_and(|tls| tls.failure.is_some());
        !has_failed
            && self
                .engine
                .as_ref()
                .is_none_or(|engine| engine.common().is_open())
    }

    /// Makes body bytes count against the peer's flow-control windows until they are consumed. HTTP/1.1 has no windows;
    /// there, the caller stops reading the socket instead.
    pub fn set_manual_consumption(&mut self) {
        self.is_manual = true;
        if let Some(engine) = &mut self.engine {
            engine.common_mut().set_manual_consumption();
        }
    }

    /// Takes bytes from the wire.
    fn take(&mut self, bytes: &[u8], inbox: &mut Inbox<S::Event>) -> Result<(), ConnectionError> {
        let Some(tls) = &mut self.tls else {
            return match &mut self.engine {
                Some(engine) => engine.common_mut().receive(bytes, inbox),
                None => Ok(()),
            };
        };
        if let Some(failure) = &tls.failure {
            return Err(failure.clone());
        }
        if tls.session.received_close_notify() {
            return Ok(());
        }
        let result = decrypt(tls, &mut self.engine, self.is_manual, bytes, inbox);
        if let Err(failure) = &result {
            tls.failure = Some(failure.clone());
        }
        result
    }

    /// Whether the peer sent a TLS close_notify. The peer may wait for ours and keep its side of the TCP connection
    /// open until then (RFC 8446, section 6.1). `receive` treats close_notify as `receive_end` treats the end of the
    /// byte stream, and ignores everything after it.
    pub fn has_received_end(&self) -> bool {
        (self.tls.as_ref()).is_some_and(|tls| tls.session.received_close_notify())
    }

    /// Handles the peer closing its side. That properly ends some HTTP/1.1 messages. It is an error inside other
    /// messages, and over TLS if no close_notify preceded it.
    pub fn receive_end(&mut self, inbox: &mut Inbox<S::Event>) -> Result<(), ConnectionError> {
        let truncated = match &mut self.tls {
            Some(tls) => {
                if let Some(failure) = &tls.failure {
                    return Err(failure.clone());
                }
                if tls.session.received_close_notify() {
                    // The engine has known since close_notify arrived.
                    return Ok(());
                }
                tls.session.receive_end().err()
            }
            None => None,
        };
        match (&mut self.engine, truncated) {
            (Some(engine), None) => engine.common_mut().receive_end(inbox),
            // An unauthenticated end must not complete a message. If no message was open, it does no harm.
            (Some(engine), Some(truncated)) => {
                // Flush events already due, which this end did not cause.
                engine.common_mut().advance_output(0, inbox);
                let before = inbox.events.len();
                engine.common_mut().receive_end(inbox)?;
                if inbox.events.len() > before {
                    inbox.events.truncate(before);
                    return Err(truncated.into());
                }
                Ok(())
            }
            (None, Some(truncated)) => Err(truncated.into()),
            (None, None) => Err(ConnectionError::UnexpectedEnd),
        }
    }

    /// How many bytes wait here: output, plaintext or encrypted, streamed bodies and an incomplete head. Whole bodies
    /// that are not copied do not count.
    pub fn buffered_bytes(&self) -> usize {
        let engine = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.common().buffered_bytes());
        let encrypted = (self.tls.as_ref()).map_or(0, |tls| tls.session.output().len());
        engine + encrypted
    }

    /// Bytes to write to the socket; empty if there are none now. Bytes stay in the output until they are taken. Over
    /// TLS, `now` determines the sizes of new records (`RecordSizes::Dynamic`).
    pub fn output(&mut self, now: Time) -> &[u8] {
        let Some(tls) = &mut self.tls else {
            return self
                .engine
                .as_mut()
                .map_or(&[], |engine| engine.common_mut().output());
        };
        if let Some(engine) = &mut self.engine {
            loop {
                let ahead = (tls.encrypted - tls.taken) as usize;
                let fresh = engine.common_mut().output().get(ahead..).unwrap_or(&[]);
                let taken = tls.session.encrypt(fresh, now);
                if taken == 0 {
                    break;
                }
                tls.encrypted += taken as u64;
            }
        }
        tls.session.output()
    }

    /// Reports that the socket took the first `n` bytes of the output, capped at its length.
    pub fn advance_output(&mut self, n: usize, inbox: &mut Inbox<S::Event>) {
        let Some(tls) = &mut self.tls else {
            if let Some(engine) = &mut self.engine {
                engine.common_mut().advance_output(n, inbox);
            }
            return;
        };
        tls.session.forget_before(Way::Sent, tls.taken);
        tls.session.advance_output(n);
        let written = tls.session.plain_written();
        if let Some(engine) = &mut self.engine {
            if written == tls.taken {
                // Nothing more was written, but the engine may still have events to report.
                engine.common_mut().advance_output(0, inbox);
            }
            // An engine may hand out its output in pieces, and `advance_output` counts only within the current piece.
            while written > tls.taken {
                let piece = engine
                    .common_mut()
                    .output()
                    .len()
                    .min((written - tls.taken) as usize);
                if piece == 0 {
                    break;
                }
                engine.common_mut().advance_output(piece, inbox);
                tls.taken += piece as u64;
            }
        }
    }

    /// Over TLS: sends close_notify after everything currently in `output`.
    fn send_close_notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.close_notify();
        }
    }

    /// The protocol in use; `None` until a TLS handshake has selected it.
    pub fn protocol(&self) -> Option<Protocol> {
        Some(match (self.engine.as_ref()?, &self.tls) {
            (TcpEngine::H1(_), None) => Protocol::H1,
            (TcpEngine::H1(_), Some(_)) => Protocol::H1s,
            (TcpEngine::H2(_), None) => Protocol::H2c,
            (TcpEngine::H2(_), Some(_)) => Protocol::H2,
        })
    }

    /// The outcome of the TLS handshake; `None` before it completes and without TLS.
    pub fn secured(&self) -> Option<&tls::HandshakeOutcome> {
        self.tls.as_ref()?.session.handshake_outcome()
    }

    /// What a client's TLS handshake showed of the server; `None` before it completes and without TLS.
    pub fn handshake_facts(&self) -> Option<HandshakeFacts> {
        let session = &self.tls.as_ref()?.session;
        Some(HandshakeFacts {
            group: session.handshake_outcome()?.group,
            client_hello_bytes: Some(session.client_hello_bytes() as u64),
            certificates: session.certificates(),
            transport: None,
        })
    }

    /// New lines of the TLS key log (the NSS format used by SSLKEYLOGFILE).
    pub fn take_key_log(&mut self) -> Vec<String> {
        (self.tls.as_mut()).map_or_else(Vec::new, |tls| tls.session.take_key_log())
    }

    /// Which bytes of the wire carried one byte of HTTP. Over TLS, only bytes reported by events of the last call of
    /// `receive` or `advance_output` can be located; the result is `None` for others.
    pub fn locate(&self, way: Way, offset: u64) -> Option<WireExtent> {
        match &self.tls {
            None => Some(WireExtent {
                record: None,
                wire_start: offset,
                wire_end: offset + 1,
            }),
            Some(tls) => tls.session.locate(way, offset).map(|location| WireExtent {
                record: Some(location.record),
                wire_start: location.wire.start,
                wire_end: location.wire.end,
            }),
        }
    }

    /// Over TLS: the records of application data that the last call of `receive` completed. Each has its number, from 0, and
    /// the length of its plaintext in bytes.
    pub fn received_records(&self) -> Vec<(u64, u64)> {
        (self.tls.as_ref()).map_or_else(Vec::new, |tls| tls.session.received_records().collect())
    }

    /// The HTTP/2 SETTINGS sent and received so far.
    pub fn http2_settings(&self) -> Option<Http2Announcements<'_>> {
        match self.engine.as_ref()? {
            TcpEngine::H1(_) => None,
            TcpEngine::H2(h2) => h2.http2_settings(),
        }
    }
}

/// Hands each record's plaintext to the engine, creating the engine when the handshake completes. Passes close_notify
/// on as the end of the stream.
fn decrypt<S: Side>(
    tls: &mut Tls,
    engine: &mut Option<TcpEngine<S>>,
    is_manual: bool,
    bytes: &[u8],
    inbox: &mut Inbox<S::Event>,
) -> Result<(), ConnectionError> {
    let seen = tls.session.plain_received();
    tls.session.forget_before(Way::Received, seen);
    let settings = &tls.settings;
    let mut outcome = Ok(());
    let received = tls.session.receive(bytes, |secured, record| {
        if outcome.is_err() {
            return;
        }
        outcome = engine_or_new(engine, secured, settings, is_manual)
            .and_then(|engine| engine.common_mut().receive(record.bytes, inbox));
    });
    // The engine's error comes first: a record that TLS cannot read came after the data the engine rejected.
    outcome?;
    received?;
    if let Some(secured) = tls.session.handshake_outcome() {
        engine_or_new(engine, secured, settings, is_manual)?;
    }
    if !tls.session.received_close_notify() {
        return Ok(());
    }
    match engine {
        Some(engine) => engine.common_mut().receive_end(inbox),
        // Cannot happen after a handshake; during one, BoringSSL has already failed.
        None => Err(ConnectionError::UnexpectedEnd),
    }
}

/// Returns the engine. The first call creates the one that ALPN selected.
fn engine_or_new<'e, S: Side>(
    engine: &'e mut Option<TcpEngine<S>>,
    secured: &tls::HandshakeOutcome,
    settings: &SideSettings,
    is_manual: bool,
) -> Result<&'e mut TcpEngine<S>, ConnectionError> {
    if engine.is_none() {
        let version = match secured.alpn.as_deref() {
            Some("h2") => Version::Http2,
            None | Some("http/1.1") => Version::Http1,
            Some(other) => return Err(ConnectionError::Alpn(other.to_owned())),
        };
        let mut created = TcpEngine::new(version, settings)?;
        if is_manual {
            created.common_mut().set_manual_consumption();
        }
        *engine = Some(created);
    }
    Ok(engine.as_mut().expect("made above"))
}
