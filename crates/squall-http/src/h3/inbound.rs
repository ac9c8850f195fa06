//! The receiving half of a stream that carries a message: a request or a response.
//!
//! Bytes are fed in and split into parts. Validating a head and acting on it is up to the client or the server.
//! `control` handles the peer's unidirectional streams.

use squall_base::record::{FrameFacts, FrameLayer, Way};

use super::code;
use super::wire::{self, Header, Item, Reader};

/// The peer broke HTTP/3: the connection must be closed with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: u64,
    pub(super) words: &'static str,
}

pub(super) const fn violation(code: u64, words: &'static str) -> Violation {
    Violation { code, words }
}

/// Which side we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// The receiving half of a stream that carries a message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) reader: Reader,
    phase: Phase,
    /// The length that the body must have.
    expected: Option<u64>,
    body: u64,
    consumed: u64,
    /// Bytes of an incomplete section, as the connection has counted them.
    pub(super) counted_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    Trailers,
}

/// A part of a message.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// An encoded header section.
    Head(Vec<u8>),
    /// Bytes of the body, at least 1.
    Body(&'a [u8]),
    /// An encoded trailer section.
    Trailers(Vec<u8>),
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Complete, after this many bytes of the stream.
    Whole(u64),
    /// Without a head.
    WithoutHead,
    /// With a body that does not match its content-length.
    WrongLength,
}

impl Message {
    pub(super) fn new() -> Message {
        Message {
            reader: Reader::new(0),
            phase: Phase::Head,
            expected: None,
            body: 0,
            consumed: 0,
            counted_bytes: 0,
        }
    }

    /// Whether nothing of the message has arrived.
    pub(super) fn is_new(&self) -> bool {
        self.reader.at() == 0
    }

    /// How many bytes may be read now, if at most `most` bytes of the body may wait for the owner to consume them.
    pub(super) fn allowance(&self, most: usize) -> usize {
        let ahead = self.body - self.consumed.min(self.body);
        usize::try_from(ahead).map_or(0, |ahead| most.saturating_sub(ahead))
    }

    pub(super) fn consume(&mut self, n: u64) {
        self.consumed = self.consumed.saturating_add(n);
    }

    /// The head was final: a body follows, of this length if it is known.
    pub(super) fn expect_body(&mut self, length: Option<u64>) {
        self.phase = Phase::Body;
        self.expected = length;
    }

    /// Takes the next part from `input`; `None` if more bytes are needed.
    pub(super) fn next<'a>(
        &mut self,
        role: Role,
        input: &mut &'a [u8],
        mut on_frame: impl FnMut(Header),
    ) -> Result<Option<Part<'a>>, Violation> {
        while let Some(item) = self.reader.next(input) {
            match item {
                Item::Header(header) => {
                    self.allow(role, header.kind)?;
                    on_frame(header);
                }
                Item::Data(bytes) => {
                    self.body += bytes.len() as u64;
                    return Ok(Some(Part::Body(bytes)));
                }
                Item::Payload(_, block) if self.phase == Phase::Head => {
                    return Ok(Some(Part::Head(block)));
                }
                Item::Payload(_, block) => {
                    self.phase = Phase::Trailers;
                    return Ok(Some(Part::Trailers(block)));
                }
                Item::TooLong(header) => {
                    self.allow(role, header.kind)?;
                    return Err(violation(
                        code::EXCESSIVE_LOAD,
                        "a head of more than 64 KiB",
                    ));
                }
            }
        }
        Ok(None)
    }

    /// Checks whether a frame is allowed here (RFC 9114, sections 4.1 and 7.2).
    fn allow(&self, role: Role, kind: u64) -> Result<(), Violation> {
        let unexpected = |words| Err(violation(code::FRAME_UNEXPECTED, words));
        match (kind, self.phase) {
            (wire::DATA, Phase::Head) => unexpected("DATA before HEADERS"),
            (wire::DATA | wire::HEADERS, Phase::Trailers) => unexpected("a frame after trailers"),
            (wire::PUSH_PROMISE, _) if role == Role::Client => {
                Err(violation(code::ID_ERROR, "a push that was not allowed"))
            }
            (
                wire::PUSH_PROMISE
                | wire::CANCEL_PUSH
                | wire::SETTINGS
                | wire::GOAWAY
                | wire::MAX_PUSH_ID,
                _,
            ) => unexpected("a frame of another stream in a message"),
            (kind, _) if wire::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
            _ => Ok(()),
        }
    }

    /// Whether the body exceeds its announced length.
    pub(super) fn is_too_long(&self) -> bool {
        self.expected.is_some_and(|expected| self.body > expected)
    }

    /// Handles the end of the stream.
    pub(super) fn end(&self) -> Result<Ending, Violation> {
        if !self.reader.is_between_frames() {
            return Err(violation(
                code::FRAME_ERROR,
                "a stream ended within a frame",
            ));
        }
        Ok(match (self.phase, self.expected) {
            (Phase::Head, _) => Ending::WithoutHead,
            (_, Some(expected)) if expected != self.body => Ending::WrongLength,
            _ => Ending::Whole(self.reader.at()),
        })
    }
}

/// The facts of a received frame.
pub(super) fn received(stream: u64, header: Header, value: Option<u64>) -> FrameFacts {
    FrameFacts {
        stream: Some(stream),
        offset: Some(header.offset),
        value,
        ..FrameFacts::new(Way::Received, FrameLayer::Http3, header.kind, header.length)
    }
}
