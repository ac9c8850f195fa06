//! HTTP bytes, cleartext or decrypted: detects the protocol and feeds its parser (`http1` or `http2`).
//!
//! The client's first bytes decide: the HTTP/2 preface cannot be an HTTP/1.1 request (RFC 9113, section 3.4), and a connection
//! that begins with neither that nor a request line is not HTTP. A server may speak first, so its bytes are held until then.
//! `first_bytes` recognizes beginnings; nothing here parses messages.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::Way;

use crate::connection_record::OpaqueReason;
use crate::exchange::{Sink, Trails};
use crate::first_bytes::{
    MAX_LINE_BYTES, ProtocolGuess, begins_request, begins_settings, guess_protocol, starts_preface,
};
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
    /// The beginning was missed; reading starts at the first piece that [`Plaintext::join`] recognizes. The direction of
    /// the client's bytes may be known.
    Missed(Option<Way>),
}

/// The HTTP byte streams of a connection.
pub(crate) struct Plaintext {
    is_secure: bool,
    state: State,
    trails: Trails,
    /// The server of an HTTP/2 connection that was joined. Its first bytes have not been seen, and must be SETTINGS (RFC
    /// 9113, section 3.4): later ones could be the middle of a frame.
    unproven_server: Option<Way>,
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
    /// The client's first bytes, at most [`MAX_LINE_BYTES`].
    first: Vec<u8>,
    /// While the beginning is missed: the direction that is held, because it began with SETTINGS of HTTP/2.
    settings_from: Option<Way>,
    /// Whether the beginning was missed, but then found.
    is_joined: bool,
}

impl Detection {
    /// Holds what a server of HTTP/2 sends before the client's preface arrives.
    fn hold_settings(&mut self, piece: &Piece<'_>) {
        if self.settings_from.is_none() && begins_settings(piece.bytes) {
            self.settings_from = Some(piece.way);
        }
        if self.settings_from != Some(piece.way) {
            return;
        }
        self.hold(piece);
        if self.held_bytes > MAX_HELD_BYTES {
            self.release();
        }
    }

    fn hold(&mut self, piece: &Piece<'_>) {
        self.held_bytes += piece.bytes.len();
        self.held
            .push((piece.way, piece.bytes.to_vec(), piece.carrier.clone()));
    }

    /// Drops the held pieces.
    fn release(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.settings_from = None;
    }
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
                settings_from: None,
                is_joined: false,
            }),
            trails: Trails::default(),
            unproven_server: None,
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

    /// Whether it is still looking for a place to start at, after the true beginning was missed.
    pub(crate) fn is_out_of_sync(&self) -> bool {
        matches!(&self.state, State::Detecting(detection) if matches!(detection.start, StreamStart::Missed(_)))
    }

    /// Whether nothing has been read yet.
    pub(crate) fn is_unread(&self) -> bool {
        Way::ALL.iter().all(|way| self.trails.of(*way).end() == 0)
    }

    /// Why nothing was read by the end of the connection, if anything was there to read.
    pub(crate) fn why_undetected(&self) -> Option<OpaqueReason> {
        let State::Detecting(detection) = &self.state else {
            return None;
        };
        match detection.start {
            StreamStart::Missed(_) => Some(OpaqueReason::BeganBefore),
            StreamStart::Seen(_) if detection.first.is_empty() => None,
            StreamStart::Seen(_) => Some(OpaqueReason::unclear(
                "the client sent no complete request line",
            )),
        }
    }

    /// If the beginning was missed and a client begins a request or an HTTP/2 connection at `bytes`, the next bytes of the
    /// direction `way`: starts reading there. Returns whether it does; the caller then feeds them.
    pub(crate) fn join(&mut self, way: Way, bytes: &[u8]) -> bool {
        let is_http2 = self.is_unread() && starts_preface(bytes);
        let State::Detecting(detection) = &mut self.state else {
            return false;
        };
        let StreamStart::Missed(known) = detection.start else {
            return false;
        };
        let may_be_client = known.is_none_or(|client| client == way);
        if !may_be_client || !(is_http2 || begins_request(bytes)) {
            return false;
        }
        // What precedes an HTTP/1.1 request is the end of an earlier response.
        if !is_http2 || detection.settings_from == Some(way) {
            detection.release();
        }
        detection.start = StreamStart::Seen(way);
        detection.is_joined = true;
        true
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
        if self.unproven_server == Some(way) {
            self.unproven_server = None;
            if !begins_settings(piece.bytes) {
                return Err(OpaqueReason::Gap);
            }
        }
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
                    let rest = &piece.bytes[upgrade.http1_bytes.min(piece.bytes.len())..];
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
            StreamStart::Missed(_) => {
                detection.hold_settings(piece);
                return Ok(());
            }
        };
        detection.hold(piece);
        if piece.way != client {
            return match detection.held_bytes {
                0..=MAX_HELD_BYTES => Ok(()),
                _ => Err(OpaqueReason::Overfull),
            };
        }
        let room = MAX_LINE_BYTES - detection.first.len();
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
        if detection.is_joined && matches!(protocol, Protocol::H2 | Protocol::H2c) {
            self.unproven_server = Some(client.opposite());
        }
        let offset = |way| self.trails.of(way).end();
        self.state = match protocol {
            Protocol::H2 | Protocol::H2c => State::Http2(Box::new(Http2::new(client, protocol)?)),
            _ => State::Http1(Box::new(Http1::new(
                client,
                protocol,
                offset(client),
                offset(client.opposite()),
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

    /// Skips missing bytes. Parsing can resume only at the next request.
    ///
    /// # Errors
    /// Nothing more can be read.
    pub(crate) fn gap(&mut self, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        let client = self.client();
        let may_go_on = match &self.state {
            State::Http1(_) | State::Detecting(_) => true,
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
