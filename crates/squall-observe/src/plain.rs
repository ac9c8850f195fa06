//! HTTP bytes, cleartext or decrypted: detects the protocol and feeds its parser (`http1` or `http2`).
//!
//! The client's first bytes decide: the HTTP/2 preface cannot be an HTTP/1.1 request (RFC 9113, section 3.4). A server
//! may speak first, so its bytes are held until then. Nothing here parses messages.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::Way;
use squall_http::frames::CLIENT_PREFACE;

use crate::connection_record::OpaqueReason;
use crate::exchange::{Sink, Trails, opposite};
use crate::http1::Http1;
use crate::http2::Http2;
use crate::trail::{Carrier, Piece};

/// Limit for server bytes held until the client's first bytes: more than any SETTINGS frame, and than any first flight.
const MAX_HELD_BYTES: usize = 256 * 1024;

/// What is known about the beginning of the byte streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStart {
    /// The first byte seen is the connection's first; this is the direction of the client's bytes.
    Seen(Way),
    /// The beginning was missed; reading starts at the first piece that begins with a request. The direction of the
    /// client's bytes may be known.
    Missed(Option<Way>),
}

/// The HTTP byte streams of a connection.
pub(crate) struct Plaintext {
    is_secure: bool,
    state: State,
    trails: Trails,
}

enum State {
    Detecting(Detection),
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    Ended,
}

/// Pieces held until the protocol is clear.
struct Detection {
    start: StreamStart,
    /// In order of arrival.
    held: Vec<(Way, Vec<u8>, Carrier)>,
    held_bytes: usize,
    /// The client's first bytes, at most as many as the preface has.
    first: Vec<u8>,
}

/// What the client's first bytes look like.
enum ProtocolGuess {
    Http1,
    Http2,
    Unclear,
}

impl Plaintext {
    pub(crate) fn new(is_secure: bool, start: StreamStart) -> Plaintext {
        Plaintext {
            is_secure,
            state: State::Detecting(Detection {
                start,
                held: Vec::new(),
                held_bytes: 0,
                first: Vec::new(),
            }),
            trails: Trails::default(),
        }
    }

    /// The protocol, once it is clear.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match (&self.state, self.is_secure) {
            (State::Http1(_), false) => Some(Protocol::H1),
            (State::Http1(_), true) => Some(Protocol::H1s),
            (State::Http2(_), false) => Some(Protocol::H2c),
            (State::Http2(_), true) => Some(Protocol::H2),
            (State::Detecting(_) | State::Ended, _) => None,
        }
    }

    /// The direction of the client's bytes, if it is known.
    pub(crate) fn client(&self) -> Option<Way> {
        match &self.state {
            State::Detecting(detection) => match detection.start {
                StreamStart::Seen(client) => Some(client),
                StreamStart::Missed(client) => client,
            },
            State::Http1(http1) => Some(http1.client()),
            State::Http2(http2) => Some(http2.client()),
            State::Ended => None,
        }
    }

    /// Whether it is still looking for a request to start at, after the true beginning was missed.
    pub(crate) fn is_out_of_sync(&self) -> bool {
        matches!(&self.state, State::Detecting(detection) if matches!(detection.start, StreamStart::Missed(_)))
    }

    /// Reads the next bytes of a direction.
    ///
    /// # Errors
    /// Nothing more of this connection can be read; the rows of open exchanges have been written.
    pub(crate) fn feed(
        &mut self,
        piece: &Piece<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        let result = self.try_feed(piece, sink);
        if result.is_err() {
            self.abandon(sink);
        }
        result
    }

    fn try_feed(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        match &mut self.state {
            State::Detecting(_) => self.detect(piece, sink),
            State::Http1(_) | State::Http2(_) => self.read(piece, sink),
            State::Ended => Ok(()),
        }
    }

    /// Passes a piece to the parser.
    fn read(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        let way = piece.way;
        let trail = self.trails.of_mut(way);
        trail.push(piece.bytes.len(), piece.carrier.clone());
        match &mut self.state {
            State::Http1(http1) => {
                if let Some(upgrade) = http1.feed(way, piece.bytes, &self.trails, sink)? {
                    let client = http1.client();
                    let mut http2 = Http2::upgraded(
                        client,
                        upgrade.requests,
                        upgrade.responses,
                        upgrade.exchange,
                    )?;
                    let rest = &piece.bytes[upgrade.used.min(piece.bytes.len())..];
                    http2.feed(way, rest, &piece.carrier, &self.trails, sink)?;
                    self.state = State::Http2(Box::new(http2));
                }
                let trail = self.trails.of_mut(way);
                trail.forget_before(trail.end());
            }
            State::Http2(http2) => {
                http2.feed(way, piece.bytes, &piece.carrier, &self.trails, sink)?;
                let from = http2.keeps_from(way);
                self.trails.of_mut(way).forget_before(from);
            }
            State::Detecting(_) | State::Ended => {}
        }
        Ok(())
    }

    fn detect(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        let State::Detecting(detection) = &mut self.state else {
            return Ok(());
        };
        let client = match detection.start {
            StreamStart::Seen(client) => client,
            // A request is recognized only at the start of a piece.
            StreamStart::Missed(known)
                if known.is_none_or(|client| client == piece.way) && is_request(piece.bytes) =>
            {
                detection.first.clear();
                detection.start = StreamStart::Seen(piece.way);
                piece.way
            }
            StreamStart::Missed(_) => return Ok(()),
        };
        detection.held_bytes += piece.bytes.len();
        if detection.held_bytes > MAX_HELD_BYTES && piece.way != client {
            return Err(OpaqueReason::Overfull);
        }
        detection
            .held
            .push((piece.way, piece.bytes.to_vec(), piece.carrier.clone()));
        if piece.way != client {
            return Ok(());
        }
        let room = CLIENT_PREFACE.len() - detection.first.len();
        detection
            .first
            .extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        let protocol = match guess_protocol(&detection.first)? {
            ProtocolGuess::Unclear => return Ok(()),
            ProtocolGuess::Http1 if self.is_secure => Protocol::H1s,
            ProtocolGuess::Http1 => Protocol::H1,
            ProtocolGuess::Http2 if self.is_secure => Protocol::H2,
            ProtocolGuess::Http2 => Protocol::H2c,
        };
        let held = std::mem::take(&mut detection.held);
        let offset = |way| self.trails.of(way).end();
        self.state = match protocol {
            Protocol::H2 | Protocol::H2c => State::Http2(Box::new(Http2::new(client, protocol)?)),
            _ => State::Http1(Box::new(Http1::new(
                client,
                protocol,
                offset(client),
                offset(opposite(client)),
            ))),
        };
        for (way, bytes, carrier) in held {
            let bytes = &bytes;
            self.read(
                &Piece {
                    way,
                    bytes,
                    carrier,
                },
                sink,
            )?;
        }
        Ok(())
    }

    /// Skips missing bytes. What follows can be read from the next request on, if at all.
    ///
    /// # Errors
    /// Nothing more can be read.
    pub(crate) fn gap(&mut self, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        let client = self.client();
        let may_go_on = match &self.state {
            State::Http1(_) => true,
            State::Detecting(_) => self.is_out_of_sync(),
            State::Http2(_) | State::Ended => false,
        };
        self.abandon(sink);
        if may_go_on && !self.is_secure {
            *self = Plaintext {
                trails: std::mem::take(&mut self.trails),
                ..Plaintext::new(self.is_secure, StreamStart::Missed(client))
            };
            return Ok(());
        }
        Err(OpaqueReason::Gap)
    }

    /// The direction `way` was closed in order.
    pub(crate) fn end(&mut self, way: Way, now: Time, sink: &mut Sink<'_>) {
        if let State::Http1(http1) = &mut self.state {
            http1.end(way, now, &self.trails, sink);
        }
    }

    /// The connection is gone, or nothing more of it can be read: writes the rows of open exchanges.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Http1(mut http1) => http1.abandon(sink),
            State::Http2(mut http2) => http2.abandon(sink),
            State::Detecting(_) | State::Ended => {}
        }
    }
}

/// Guesses the protocol from a client's first bytes.
fn guess_protocol(first: &[u8]) -> Result<ProtocolGuess, OpaqueReason> {
    if first.len() <= CLIENT_PREFACE.len() && CLIENT_PREFACE.starts_with(first) {
        let is_whole = first.len() == CLIENT_PREFACE.len();
        return Ok(if is_whole {
            ProtocolGuess::Http2
        } else {
            ProtocolGuess::Unclear
        });
    }
    // A method is a token, and empty lines may precede it (RFC 9112, sections 2.2 and 3).
    match first.first() {
        Some(b'\r' | b'\n') => Ok(ProtocolGuess::Http1),
        Some(byte) if byte.is_ascii_alphabetic() => Ok(ProtocolGuess::Http1),
        Some(_) => Err(OpaqueReason::NotHttp),
        None => Ok(ProtocolGuess::Unclear),
    }
}

/// Whether these bytes begin with an HTTP/1 request line: a method in capitals, as all registered methods are (IANA's
/// HTTP Method Registry), a target and the version.
fn is_request(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or(&[]);
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or(&[]);
    let is_method = !method.is_empty()
        && method
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || *byte == b'-');
    let has_target = words.next().is_some_and(|target| !target.is_empty());
    is_method
        && has_target
        && words
            .next()
            .is_some_and(|version| version.starts_with(b"HTTP/1."))
}
