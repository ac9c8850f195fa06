//! An engine of HTTP over a byte stream, with or without TLS between.
//!
//! The engine keeps what it gave out until the *wire* has taken it, so that its marks mean the same with and without TLS:
//! a byte of HTTP is written when the socket took the last byte of the record that holds it. What is spoken over TLS is
//! decided by ALPN, so there the engine is made when the handshake is done.

use squall_base::Time;
use squall_base::plan::{SideSettings, Version};
use squall_base::record::Way;

use crate::error::{ConnectionError, CreateError};
use crate::inbox::Inbox;
use crate::tls;

/// What the layers need of an engine; `h1` and `h2` say what each method means.
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

/// What carries a byte of HTTP, in the byte stream of the wire: itself in the clear, a record over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The TLS record, by number among those with application data.
    pub record: Option<u64>,
    /// Offset of the first byte that carries it.
    pub wire_start: u64,
    /// Offset after the last byte that carries it.
    pub wire_end: u64,
}

/// An engine and what is below it.
pub(crate) struct Layers<E> {
    /// `None` while the handshake has not said which.
    engine: Option<E>,
    tls: Option<Box<Tls>>,
    is_manual: bool,
}

/// TLS below an engine.
struct Tls {
    session: tls::Session,
    settings: SideSettings,
    /// How many bytes of the engine's output were encrypted, and how many of them the engine knows to be taken.
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

    /// Goes on with another engine.
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

    /// Hands each record's plaintext to the engine, which the end of the handshake makes, and close_notify as the end.
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
            outcome = made(engine, secured, settings, is_manual)
                .and_then(|engine| engine.receive(record.bytes, inbox));
        });
        // What the engine says comes first: a record that TLS cannot read came behind it.
        outcome?;
        received?;
        if let Some(secured) = tls.session.info() {
            made(engine, secured, settings, is_manual)?;
        }
        if !tls.session.received_close_notify() {
            return Ok(());
        }
        match engine {
            Some(engine) => engine.receive_end(inbox),
            // Not after a handshake; inside of one BoringSSL has failed before.
            None => Err(ConnectionError::UnexpectedEnd),
        }
    }

    /// Whether the peer said over TLS that nothing follows, and the engine knows.
    pub(crate) fn has_heard_end(&self) -> bool {
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
                    // The engine has known since then.
                    return Ok(());
                }
                tls.session.receive_end().err()
            }
            None => None,
        };
        match (&mut self.engine, truncated) {
            // An end that nothing vouches for does not end a message; if nothing was open, it does no harm.
            (Some(engine), None) => engine.receive_end(inbox),
            (Some(engine), Some(truncated)) => {
                // What was due before does not follow from this end.
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
                // It may have something to say all the same.
                engine.advance_output(0, inbox);
            }
            // An engine may give its output in pieces, and counts only within the one that it gives now.
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

    pub(crate) fn secured(&self) -> Option<&tls::Secured> {
        self.tls.as_ref()?.session.info()
    }

    pub(crate) fn take_key_log(&mut self) -> Vec<String> {
        self.tls
            .as_mut()
            .map_or_else(Vec::new, |tls| tls.session.take_key_log())
    }

    pub(crate) fn locate(&self, way: Way, offset: u64) -> Option<Place> {
        match &self.tls {
            None => Some(Place {
                record: None,
                wire_start: offset,
                wire_end: offset + 1,
            }),
            Some(tls) => tls.session.locate(way, offset).map(|place| Place {
                record: Some(place.record),
                wire_start: place.wire.start,
                wire_end: place.wire.end,
            }),
        }
    }
}

/// The engine that ALPN asks for, made if there is none yet.
fn made<'e, E: Engine>(
    engine: &'e mut Option<E>,
    secured: &tls::Secured,
    settings: &SideSettings,
    is_manual: bool,
) -> Result<&'e mut E, ConnectionError> {
    if engine.is_none() {
        let version = match secured.alpn.as_deref() {
            Some("h2") => Version::Http2,
            None | Some("http/1.1") => Version::Http1,
            Some(other) => return Err(ConnectionError::Alpn(other.to_owned())),
        };
        let mut made = E::new(version, settings)?;
        if is_manual {
            made.set_manual_consumption();
        }
        *engine = Some(made);
    }
    Ok(engine.as_mut().expect("made above"))
}
