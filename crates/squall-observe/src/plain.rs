//! HTTP's own bytes, in the clear or deciphered: which protocol they are, and its parser.
//!
//! What a client sends first decides (RFC 9113, section 3.4: the preface cannot be a request of HTTP/1.1). A server may
//! speak before it, so its first bytes are kept until then.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::Way;
use squall_http::frames::CLIENT_PREFACE;

use crate::connection_record::Opaque;
use crate::exchange::{Sink, Trails, against};
use crate::http1::Http1;
use crate::http2::Http2;
use crate::trail::{Carrier, Piece};

/// What of a server's bytes waits for the client's first: more than any SETTINGS, and than any first flight.
const MAX_HELD_BYTES: usize = 256 * 1024;

/// What is known of the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The first byte is that of the connection, and this is how the client's bytes go.
    Seen(Way),
    /// It was before what is seen: the first request that begins a piece is waited for. How the client's bytes go may
    /// be known.
    Missed(Option<Way>),
}

/// The HTTP of a connection.
pub(crate) struct Plain {
    is_secure: bool,
    state: State,
    trails: Trails,
}

enum State {
    Seeking(Seeking),
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    Over,
}

/// Pieces until the protocol is clear.
struct Seeking {
    beginning: Beginning,
    /// In their order.
    held: Vec<(Way, Vec<u8>, Carrier)>,
    held_bytes: usize,
    /// The client's first bytes, as many as the preface has.
    first: Vec<u8>,
}

/// What the client's first bytes are.
enum Looks {
    Http1,
    Http2,
    Unclear,
}

impl Plain {
    pub(crate) fn new(is_secure: bool, beginning: Beginning) -> Plain {
        Plain {
            is_secure,
            state: State::Seeking(Seeking {
                beginning,
                held: Vec::new(),
                held_bytes: 0,
                first: Vec::new(),
            }),
            trails: Trails::default(),
        }
    }

    /// What is spoken, once that is clear.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match (&self.state, self.is_secure) {
            (State::Http1(_), false) => Some(Protocol::H1),
            (State::Http1(_), true) => Some(Protocol::H1s),
            (State::Http2(_), false) => Some(Protocol::H2c),
            (State::Http2(_), true) => Some(Protocol::H2),
            (State::Seeking(_) | State::Over, _) => None,
        }
    }

    /// How the client's bytes go, if a request has told so.
    pub(crate) fn client(&self) -> Option<Way> {
        match &self.state {
            State::Seeking(seeking) => match seeking.beginning {
                Beginning::Seen(client) => Some(client),
                Beginning::Missed(client) => client,
            },
            State::Http1(http1) => Some(http1.client()),
            State::Http2(http2) => Some(http2.client()),
            State::Over => None,
        }
    }

    /// Whether it waits for a beginning, after the true one was missed.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(&self.state, State::Seeking(seeking) if matches!(seeking.beginning, Beginning::Missed(_)))
    }

    /// Takes the next bytes of a way.
    ///
    /// # Errors
    /// Nothing more can be read of this connection; what was open is written down.
    pub(crate) fn feed(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), Opaque> {
        let result = self.try_feed(piece, sink);
        if result.is_err() {
            self.abandon(sink);
        }
        result
    }

    fn try_feed(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), Opaque> {
        match &mut self.state {
            State::Seeking(_) => self.seek(piece, sink),
            State::Http1(_) | State::Http2(_) => self.read(piece, sink),
            State::Over => Ok(()),
        }
    }

    /// Gives a piece to the parser.
    fn read(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), Opaque> {
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
            State::Seeking(_) | State::Over => {}
        }
        Ok(())
    }

    fn seek(&mut self, piece: &Piece<'_>, sink: &mut Sink<'_>) -> Result<(), Opaque> {
        let State::Seeking(seeking) = &mut self.state else {
            return Ok(());
        };
        let client = match seeking.beginning {
            Beginning::Seen(client) => client,
            // Only what begins a piece can be told from the middle of something.
            Beginning::Missed(known)
                if known.is_none_or(|client| client == piece.way) && is_request(piece.bytes) =>
            {
                seeking.first.clear();
                seeking.beginning = Beginning::Seen(piece.way);
                piece.way
            }
            Beginning::Missed(_) => return Ok(()),
        };
        seeking.held_bytes += piece.bytes.len();
        if seeking.held_bytes > MAX_HELD_BYTES && piece.way != client {
            return Err(Opaque::Overfull);
        }
        seeking
            .held
            .push((piece.way, piece.bytes.to_vec(), piece.carrier.clone()));
        if piece.way != client {
            return Ok(());
        }
        let room = CLIENT_PREFACE.len() - seeking.first.len();
        seeking
            .first
            .extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        let protocol = match looks(&seeking.first)? {
            Looks::Unclear => return Ok(()),
            Looks::Http1 if self.is_secure => Protocol::H1s,
            Looks::Http1 => Protocol::H1,
            Looks::Http2 if self.is_secure => Protocol::H2,
            Looks::Http2 => Protocol::H2c,
        };
        let held = std::mem::take(&mut seeking.held);
        let offset = |way| self.trails.of(way).end();
        self.state = match protocol {
            Protocol::H2 | Protocol::H2c => State::Http2(Box::new(Http2::new(client, protocol)?)),
            _ => State::Http1(Box::new(Http1::new(
                client,
                protocol,
                offset(client),
                offset(against(client)),
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

    /// Bytes are missing: what follows can be read from the next request on, if at all.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn gap(&mut self, sink: &mut Sink<'_>) -> Result<(), Opaque> {
        let client = self.client();
        let may_go_on = match &self.state {
            State::Http1(_) => true,
            State::Seeking(_) => self.is_lost(),
            State::Http2(_) | State::Over => false,
        };
        self.abandon(sink);
        if may_go_on && !self.is_secure {
            *self = Plain {
                trails: std::mem::take(&mut self.trails),
                ..Plain::new(self.is_secure, Beginning::Missed(client))
            };
            return Ok(());
        }
        Err(Opaque::Gap)
    }

    /// What goes `way` has ended in order.
    pub(crate) fn end(&mut self, way: Way, now: Time, sink: &mut Sink<'_>) {
        if let State::Http1(http1) = &mut self.state {
            http1.end(way, now, &self.trails, sink);
        }
    }

    /// The connection is gone, or nothing more of it can be read: writes down what was open.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Http1(mut http1) => http1.abandon(sink),
            State::Http2(mut http2) => http2.abandon(sink),
            State::Seeking(_) | State::Over => {}
        }
    }
}

/// What these first bytes of a client are.
fn looks(first: &[u8]) -> Result<Looks, Opaque> {
    if first.len() <= CLIENT_PREFACE.len() && CLIENT_PREFACE.starts_with(first) {
        let is_whole = first.len() == CLIENT_PREFACE.len();
        return Ok(if is_whole {
            Looks::Http2
        } else {
            Looks::Unclear
        });
    }
    // A method is a token, and empty lines may precede it (RFC 9112, sections 2.2 and 3).
    match first.first() {
        Some(b'\r' | b'\n') => Ok(Looks::Http1),
        Some(byte) if byte.is_ascii_alphabetic() => Ok(Looks::Http1),
        Some(_) => Err(Opaque::NotHttp),
        None => Ok(Looks::Unclear),
    }
}

/// Whether these bytes begin with the line of a request of HTTP/1: a method in capitals, as all registered ones are
/// (IANA's HTTP Method Registry), a target, the version.
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
