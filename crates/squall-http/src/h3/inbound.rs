//! What one stream brings: a request or a response, or what a unidirectional stream of the peer is for.
//!
//! Bytes are fed in; what they are is said item by item. Whether a head is one, and what follows from it, is the
//! client's or the server's affair.

use squall_base::record::{FrameFacts, FrameLayer, Way};

use super::announced::read_settings;
use super::code;
use super::wire::{self, Header, Item, Reader, STREAM_STEP};

/// How far a message is read ahead of its owner if it consumes by hand.
const READ_AHEAD_BYTES: u64 = 64 * 1024;

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

/// The receiving half of a stream with a message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) reader: Reader,
    phase: Phase,
    /// How long the body must be.
    expected: Option<u64>,
    body: u64,
    consumed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    Trailers,
}

/// What a message consists of.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// A header section, encoded.
    Head(Vec<u8>),
    /// Bytes of the body, at least 1.
    Body(&'a [u8]),
    /// A trailer section, encoded.
    Trailers(Vec<u8>),
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Whole, after so many bytes of the stream.
    Whole(u64),
    /// Without a head.
    WithoutHead,
    /// With a body of another length than its content-length.
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
        }
    }

    /// Whether nothing of it has come.
    pub(super) fn is_new(&self) -> bool {
        self.reader.at() == 0
    }

    /// How many bytes may be read before the owner has consumed some.
    pub(super) fn allowance(&self) -> usize {
        let ahead = self.body - self.consumed.min(self.body);
        usize::try_from(READ_AHEAD_BYTES.saturating_sub(ahead)).unwrap_or(usize::MAX)
    }

    pub(super) fn consume(&mut self, n: u64) {
        self.consumed = self.consumed.saturating_add(n);
    }

    /// The head was a final one: a body follows, of this length if it is known.
    pub(super) fn expect_body(&mut self, length: Option<u64>) {
        self.phase = Phase::Body;
        self.expected = length;
    }

    /// The next part in `input`, which it is taken from; `None` if more bytes are needed.
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
                Item::TooLong(_) => {
                    return Err(violation(
                        code::EXCESSIVE_LOAD,
                        "a head of more than 64 KiB",
                    ));
                }
            }
        }
        Ok(None)
    }

    /// Whether a frame may stand here (RFC 9114, sections 4.1 and 7.2).
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

    /// The stream ended.
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

/// A unidirectional stream of the peer (RFC 9114, section 6.2).
#[derive(Debug)]
pub(super) enum Uni {
    /// Its type is not complete.
    Untyped(Vec<u8>),
    /// The control stream.
    Control {
        reader: Reader,
        has_settings: bool,
        /// The id of the GOAWAY that came last.
        goaway: Option<u64>,
    },
    /// QPACK's, which may be empty but not end.
    Qpack,
    /// An extension's.
    Unknown,
}

/// What the control stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// A frame without consequences.
    Frame(Header),
    /// SETTINGS with its entries.
    Settings(Header, Vec<(u64, u64)>),
    /// GOAWAY with its id.
    GoAway(Header, u64),
}

impl Uni {
    pub(super) fn new() -> Uni {
        Uni::Untyped(Vec::new())
    }

    /// Whether it must not end (RFC 9114, section 6.2.1; RFC 9204, section 4.2).
    pub(super) fn is_critical(&self) -> bool {
        matches!(self, Uni::Control { .. } | Uni::Qpack)
    }

    /// Takes bytes, and tells what they say.
    pub(super) fn receive(
        &mut self,
        role: Role,
        mut input: &[u8],
        mut on: impl FnMut(Control),
    ) -> Result<(), Violation> {
        if let Uni::Untyped(start) = self {
            let Some((kind, at)) = read_type(start, &mut input) else {
                return Ok(());
            };
            *self = match (kind, role) {
                (0x0, _) => Uni::Control {
                    reader: Reader::new(at),
                    has_settings: false,
                    goaway: None,
                },
                (0x1, Role::Client) => {
                    return Err(violation(code::ID_ERROR, "a push that was not allowed"));
                }
                (0x1, Role::Server) => {
                    return Err(violation(code::STREAM_CREATION_ERROR, "a client's push"));
                }
                (0x2 | 0x3, _) => Uni::Qpack,
                _ => Uni::Unknown,
            };
        }
        let Uni::Control {
            reader,
            has_settings,
            goaway,
        } = self
        else {
            return Ok(());
        };
        while let Some(item) = reader.next(&mut input) {
            match item {
                Item::Header(header) => {
                    allow_control(header.kind, *has_settings)?;
                    *has_settings = true;
                    if !matches!(header.kind, wire::SETTINGS | wire::GOAWAY) {
                        on(Control::Frame(header));
                    }
                }
                Item::Payload(header, payload) if header.kind == wire::GOAWAY => {
                    match wire::varint(&payload) {
                        Some((id, len)) if len == payload.len() => {
                            check_goaway(role, id, goaway.replace(id))?;
                            on(Control::GoAway(header, id));
                        }
                        _ => return Err(violation(code::FRAME_ERROR, "a malformed GOAWAY")),
                    }
                }
                Item::Payload(header, payload) => {
                    let settings = read_settings(&payload)?;
                    on(Control::Settings(header, settings));
                }
                Item::TooLong(_) => {
                    return Err(violation(
                        code::EXCESSIVE_LOAD,
                        "a frame of more than 64 KiB",
                    ));
                }
                Item::Data(_) => {}
            }
        }
        Ok(())
    }
}

/// The stream's type and where it ends.
fn read_type(start: &mut Vec<u8>, input: &mut &[u8]) -> Option<(u64, u64)> {
    loop {
        if let Some((kind, len)) = wire::varint(start) {
            return Some((kind, len as u64));
        }
        let (next, rest) = input.split_first()?;
        start.push(*next);
        *input = rest;
    }
}

fn allow_control(kind: u64, has_settings: bool) -> Result<(), Violation> {
    let unexpected = |words| Err(violation(code::FRAME_UNEXPECTED, words));
    match (kind, has_settings) {
        (wire::SETTINGS, true) => unexpected("SETTINGS twice"),
        (wire::SETTINGS, false) => Ok(()),
        (_, false) => Err(violation(
            code::MISSING_SETTINGS,
            "the first frame is not SETTINGS",
        )),
        (wire::DATA | wire::HEADERS | wire::PUSH_PROMISE, _) => {
            unexpected("a frame of a message on the control stream")
        }
        (kind, _) if wire::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
        _ => Ok(()),
    }
}

/// A server names a stream of a request, and nobody takes back what was given up (RFC 9114, section 5.2).
fn check_goaway(role: Role, id: u64, before: Option<u64>) -> Result<(), Violation> {
    if role == Role::Client && !id.is_multiple_of(STREAM_STEP) {
        return Err(violation(code::ID_ERROR, "a GOAWAY that names no request"));
    }
    if before.is_some_and(|before| id > before) {
        return Err(violation(code::ID_ERROR, "a GOAWAY beyond the one before"));
    }
    Ok(())
}

/// The facts of a received frame.
pub(super) fn received(stream: u64, header: Header, value: Option<u64>) -> FrameFacts {
    FrameFacts {
        way: Way::Received,
        layer: FrameLayer::Http3,
        kind: header.kind,
        flags: 0,
        stream: Some(stream),
        offset: Some(header.offset),
        length: header.length,
        packet: None,
        value,
        stream_window: None,
        connection_window: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a control stream with SETTINGS and then these bytes comes to.
    fn control(role: Role, then: &[u8]) -> Result<Vec<Control>, Violation> {
        let mut heard = Vec::new();
        let bytes = [&[0x0, 0x4, 0x0], then].concat();
        let mut uni = Uni::new();
        uni.receive(role, &bytes, |control| heard.push(control))?;
        Ok(heard)
    }

    fn refusal(role: Role, then: &[u8]) -> u64 {
        control(role, then)
            .expect_err("it breaks the protocol")
            .code
    }

    const GOAWAY_OF_8: [u8; 3] = [0x7, 0x1, 0x8];
    const GOAWAY_OF_4: [u8; 3] = [0x7, 0x1, 0x4];
    const GOAWAY_OF_5: [u8; 3] = [0x7, 0x1, 0x5];

    #[test]
    fn goaway_gives_up_more_and_more() {
        let heard = control(
            Role::Client,
            &[GOAWAY_OF_8, GOAWAY_OF_4, GOAWAY_OF_4].concat(),
        );
        let ids = heard
            .expect("it may")
            .into_iter()
            .filter_map(|control| match control {
                Control::GoAway(_, id) => Some(id),
                Control::Frame(_) | Control::Settings(..) => None,
            });
        assert_eq!(ids.collect::<Vec<_>>(), [8, 4, 4]);
        for role in [Role::Client, Role::Server] {
            let back = [GOAWAY_OF_4, GOAWAY_OF_8].concat();
            assert_eq!(refusal(role, &back), code::ID_ERROR);
        }
    }

    #[test]
    fn a_servers_goaway_names_a_stream_of_a_request() {
        assert_eq!(refusal(Role::Client, &GOAWAY_OF_5), code::ID_ERROR);
        // A client's names a push.
        assert!(control(Role::Server, &GOAWAY_OF_5).is_ok());
    }

    #[test]
    fn settings_come_first_and_once() {
        let mut uni = Uni::new();
        let first = uni.receive(Role::Client, &[&[0x0], &GOAWAY_OF_8[..]].concat(), |_| ());
        assert_eq!(
            first.expect_err("SETTINGS are missing").code,
            code::MISSING_SETTINGS
        );
        assert_eq!(refusal(Role::Client, &[0x4, 0x0]), code::FRAME_UNEXPECTED);
        // PRIORITY of HTTP/2.
        assert_eq!(refusal(Role::Client, &[0x2, 0x0]), code::FRAME_UNEXPECTED);
    }
}
