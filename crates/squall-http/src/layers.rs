//! An HTTP engine over a byte stream, with or without TLS in between.
//!
//! The engine keeps its output until the *wire* has taken it, so its marks mean the same with and without TLS: a byte
//! of HTTP counts as written when the socket has taken the last byte of the record that holds it. Over TLS, ALPN
//! selects the protocol, so the engine is created when the handshake completes.

use squall_base::Time;
use squall_base::plan::{SideSettings, Version};
use squall_base::record::Way;

use crate::error::{ConnectionError, CreateError};
use crate::inbox::Inbox;
use crate::tls;

/// What the layers require of an engine; `h1` and `h2` document each method.
pub(crate) trait Engine: Sized {
    /// What its inbox holds.
    type Event;

    fn new(version: Version, settings: &SideSettings) -> Result<Self, CreateError>;
    fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<Self::Event>,
    ) -> Result<(), ConnectionError>;
    fn receive_end(&mut self, inbox: &mut Inbox<Self::Event>) -> Result<(), ConnectionError>;
    fn output(&mut self) -> &[u8];
    fn advance_output(&mut self, n: usize, inbox: &mut Inbox<Self::Event>);
    fn set_manual_consumption(&mut self);
    fn is_open(&self) -> bool;
}

/// What carries a byte of HTTP in the wire's byte stream: the byte itself in cleartext, a record over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireExtent {
    /// The TLS record, numbered among those that carry application data.
    pub record: Option<u64>,
    /// Offset of the first byte of the carrier.
    pub wire_start: u64,
    /// Offset just past its last byte.
    pub wire_end: u64,
}

/// An engine and the TLS session below it, if any.
pub(crate) struct Layers<E> {
    /// `None` until the TLS handshake has selected one.
    engine: Option<E>,
    tls: Option<Box<Tls>>,
    is_manual: bool,
}

/// The TLS session below an engine.
struct Tls {
    session: tls::Session,
    settings: SideSettings,
    /// How many bytes of the engine's output have been encrypted, and how many the engine knows the wire has taken.
    encrypted: u64,
    taken: u64,
    failure: Option<ConnectionError>,
}

impl<E: Engine> Layers<E> {
    pub(crate) fn plain(engine: E) -> Layers<E> {
        Layers {
            engine: Some(engine),
            tls: None,
            is_manual: false,
        }
    }

    pub(crate) fn secure(session: tls::Session, settings: &SideSettings) -> Layers<E> {
        Layers {
            engine: None,
            tls: Some(Box::new(Tls {
                session,
                settings: settings.clone(),
                encrypted: 0,
                taken: 0,
                failure: None,
            })),
            is_manual: false,
        }
    }

    pub(crate) fn engine(&self) -> Option<&E> {
        self.engine.as_ref()
    }

    pub(crate) fn engine_mut(&mut self) -> Option<&mut E> {
        self.engine.as_mut()
    }

    /// Replaces the engine, as after an upgrade.
    pub(crate) fn replace(&mut self, mut engine: E) {
        if self.is_manual {
            engine.set_manual_consumption();
        }
        self.engine = Some(engine);
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn is_open(&self) -> bool {
        let has_failed = self.tls.as_ref().is_some_and(|tls| tls.failure.is_some());
        !has_failed && self.engine.as_ref().is_none_or(E::is_open)
    }

    pub(crate) fn set_manual_consumption(&mut self) {
        self.is_manual = true;
        if let Some(engine) = &mut self.engine {
            engine.set_manual_consumption();
        }
    }

    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<E::Event>,
    ) -> Result<(), ConnectionError> {
        let Some(tls) = &mut self.tls else {
            return match &mut self.engine {
                Some(engine) => engine.receive(bytes, inbox),
                None => Ok(()),
            };
        };
        if let Some(failure) = &tls.failure {
            return Err(failure.clone());
        }
        if tls.session.received_close_notify() {
            return Ok(());
        }
        let result = Self::decrypt(tls, &mut self.engine, self.is_manual, bytes, inbox);
        if let Err(failure) = &result {
            tls.failure = Some(failure.clone());
        }
        result
    }

    /// Hands each record's plaintext to the engine, creating the engine when the handshake completes. Passes
    /// close_notify on as the end of the stream.
    fn decrypt(
        tls: &mut Tls,
        engine: &mut Option<E>,
        is_manual: bool,
        bytes: &[u8],
        inbox: &mut Inbox<E::Event>,
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
                .and_then(|engine| engine.receive(record.bytes, inbox));
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
            Some(engine) => engine.receive_end(inbox),
            // Cannot happen after a handshake; during one, BoringSSL has already failed.
            None => Err(ConnectionError::UnexpectedEnd),
        }
    }

    /// Whether the peer sent close_notify, which the engine then knows as the end of the stream.
    pub(crate) fn has_received_end(&self) -> bool {
        (self.tls.as_ref()).is_some_and(|tls| tls.session.received_close_notify())
    }

    pub(crate) fn receive_end(
        &mut self,
        inbox: &mut Inbox<E::Event>,
    ) -> Result<(), ConnectionError> {
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
            // An unauthenticated end must not complete a message. If nothing was open, it does no harm.
            (Some(engine), None) => engine.receive_end(inbox),
            (Some(engine), Some(truncated)) => {
                // Flush events already due, which this end did not cause.
                engine.advance_output(0, inbox);
                let before = inbox.events.len();
                engine.receive_end(inbox)?;
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

    pub(crate) fn output(&mut self, now: Time) -> &[u8] {
        let Some(tls) = &mut self.tls else {
            return self.engine.as_mut().map_or(&[], E::output);
        };
        if let Some(engine) = &mut self.engine {
            loop {
                let ahead = (tls.encrypted - tls.taken) as usize;
                let fresh = engine.output().get(ahead..).unwrap_or(&[]);
                let taken = tls.session.encrypt(fresh, now);
                if taken == 0 {
                    break;
                }
                tls.encrypted += taken as u64;
            }
        }
        tls.session.output()
    }

    pub(crate) fn advance_output(&mut self, n: usize, inbox: &mut Inbox<E::Event>) {
        let Some(tls) = &mut self.tls else {
            if let Some(engine) = &mut self.engine {
                engine.advance_output(n, inbox);
            }
            return;
        };
        tls.session.forget_before(Way::Sent, tls.taken);
        tls.session.advance_output(n);
        let written = tls.session.plain_written();
        if let Some(engine) = &mut self.engine {
            if written == tls.taken {
                // Nothing more was written, but the engine may still have events to report.
                engine.advance_output(0, inbox);
            }
            // An engine may hand out its output in pieces, and `advance_output` counts only within the current piece.
            while written > tls.taken {
                let piece = engine.output().len().min((written - tls.taken) as usize);
                if piece == 0 {
                    break;
                }
                engine.advance_output(piece, inbox);
                tls.taken += piece as u64;
            }
        }
    }

    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.close_notify();
        }
    }

    pub(crate) fn secured(&self) -> Option<&tls::HandshakeOutcome> {
        self.tls.as_ref()?.session.handshake_outcome()
    }

    pub(crate) fn take_key_log(&mut self) -> Vec<String> {
        self.tls
            .as_mut()
            .map_or_else(Vec::new, |tls| tls.session.take_key_log())
    }

    pub(crate) fn locate(&self, way: Way, offset: u64) -> Option<WireExtent> {
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
}

/// Returns the engine. The first call creates the one that ALPN selected.
fn engine_or_new<'e, E: Engine>(
    engine: &'e mut Option<E>,
    secured: &tls::HandshakeOutcome,
    settings: &SideSettings,
    is_manual: bool,
) -> Result<&'e mut E, ConnectionError> {
    if engine.is_none() {
        let version = match secured.alpn.as_deref() {
            Some("h2") => Version::Http2,
            None | Some("http/1.1") => Version::Http1,
            Some(other) => return Err(ConnectionError::Alpn(other.to_owned())),
        };
        let mut created = E::new(version, settings)?;
        if is_manual {
            created.set_manual_consumption();
        }
        *engine = Some(created);
    }
    Ok(engine.as_mut().expect("made above"))
}
