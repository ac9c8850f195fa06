//! The peer's unidirectional streams: their types, and the content of the control stream (RFC 9114, section 6.2).
//!
//! Bytes are fed in and reported frame by frame; a protocol violation ends the connection. `connection` ensures that a
//! stream of each type exists only once and does not end. Pushes are not supported: neither side allows or sends them.

use super::announced::read_settings;
use super::code;
use super::inbound::{Role, Violation, violation};
use super::instructions::Instructions;
use super::wire::{self, Header, Item, Reader, STREAM_STEP};

/// The longest integer (RFC 9000, section 16).
const MAX_VARINT_BYTES: u64 = 8;

/// A unidirectional stream of the peer.
#[derive(Debug)]
pub(super) enum UniStream {
    /// A stream whose type has not arrived completely.
    Untyped(Vec<u8>),
    /// The control stream.
    Control(ControlStream),
    /// A QPACK stream, which may stay empty but must not end.
    Qpack(Instructions),
    /// A stream of an extension.
    Unknown,
}

/// Streams that may exist only once and must not end (RFC 9114, section 6.2.1; RFC 9204, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CriticalStream {
    Control,
    Encoder,
    Decoder,
}

/// The control stream after its type.
#[derive(Debug)]
pub(super) struct ControlStream {
    reader: Reader,
    has_settings: bool,
    /// The id of the last GOAWAY.
    goaway: Option<u64>,
    /// The id of the last MAX_PUSH_ID.
    max_push: Option<u64>,
}

/// An event of the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlEvent {
    /// A frame without effect.
    Frame(Header),
    /// SETTINGS with its entries.
    Settings(Header, Vec<(u64, u64)>),
    /// GOAWAY with its id.
    GoAway(Header, u64),
}

impl UniStream {
    pub(super) fn new() -> UniStream {
        UniStream::Untyped(Vec::new())
    }

    pub(super) fn critical(&self) -> Option<CriticalStream> {
        match self {
            UniStream::Control(_) => Some(CriticalStream::Control),
            UniStream::Qpack(Instructions::Encoder) => Some(CriticalStream::Encoder),
            UniStream::Qpack(Instructions::Decoder(_)) => Some(CriticalStream::Decoder),
            UniStream::Untyped(_) | UniStream::Unknown => None,
        }
    }

    /// Takes bytes and reports the control frames in them.
    pub(super) fn receive(
        &mut self,
        role: Role,
        mut input: &[u8],
        on: impl FnMut(ControlEvent),
    ) -> Result<(), Violation> {
        if let UniStream::Untyped(start) = self {
            let Some((kind, at)) = read_type(start, &mut input) else {
                return Ok(());
            };
            *self = match (kind, role) {
                (0x0, _) => UniStream::Control(ControlStream::new(at)),
                (0x1, Role::Client) => {
                    return Err(violation(code::ID_ERROR, "a push that was not allowed"));
                }
                (0x1, Role::Server) => {
                    return Err(violation(code::STREAM_CREATION_ERROR, "a client's push"));
                }
                (0x2, _) => UniStream::Qpack(Instructions::Encoder),
                (0x3, _) => UniStream::Qpack(Instructions::decoder()),
                _ => UniStream::Unknown,
            };
        }
        match self {
            UniStream::Control(stream) => stream.receive(role, input, on),
            UniStream::Qpack(instructions) => instructions.receive(input),
            UniStream::Untyped(_) | UniStream::Unknown => Ok(()),
        }
    }
}

/// Reads the stream's type; returns it and the offset after it.
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

impl ControlStream {
    /// A control stream whose type ended before byte `at`.
    fn new(at: u64) -> ControlStream {
        ControlStream {
            reader: Reader::new(at),
            has_settings: false,
            goaway: None,
            max_push: None,
        }
    }

    fn receive(
        &mut self,
        role: Role,
        mut input: &[u8],
        mut on: impl FnMut(ControlEvent),
    ) -> Result<(), Violation> {
        while let Some(item) = self.reader.next(&mut input) {
            match item {
                Item::Header(header) => {
                    allow(role, header, self.has_settings)?;
                    self.has_settings = true;
                    if !wire::is_kept(header.kind) {
                        on(ControlEvent::Frame(header));
                    }
                }
                Item::Payload(header, payload) => on(self.interpret(role, header, &payload)?),
                Item::TooLong(header) => {
                    allow(role, header, self.has_settings)?;
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

    /// Interprets a complete frame.
    fn interpret(
        &mut self,
        role: Role,
        header: Header,
        payload: &[u8],
    ) -> Result<ControlEvent, Violation> {
        if header.kind == wire::SETTINGS {
            return Ok(ControlEvent::Settings(header, read_settings(payload)?));
        }
        let Some((id, _)) = wire::varint(payload).filter(|(_, len)| *len == payload.len()) else {
            return Err(violation(code::FRAME_ERROR, "a malformed id"));
        };
        match header.kind {
            wire::GOAWAY => {
                check_goaway(role, id, self.goaway.replace(id))?;
                Ok(ControlEvent::GoAway(header, id))
            }
            // RFC 9114, section 7.2.7.
            wire::MAX_PUSH_ID if self.max_push.replace(id).is_some_and(|before| id < before) => {
                Err(violation(
                    code::ID_ERROR,
                    "a MAX_PUSH_ID below an earlier one",
                ))
            }
            // RFC 9114, section 7.2.3: no push was promised or allowed.
            wire::CANCEL_PUSH => Err(violation(code::ID_ERROR, "a push that does not exist")),
            _ => Ok(ControlEvent::Frame(header)),
        }
    }
}

/// Checks whether a frame is allowed here (RFC 9114, sections 6.2.1 and 7.2).
fn allow(role: Role, header: Header, has_settings: bool) -> Result<(), Violation> {
    let unexpected = |words| Err(violation(code::FRAME_UNEXPECTED, words));
    match (header.kind, has_settings) {
        (wire::SETTINGS, true) => unexpected("SETTINGS twice"),
        (wire::SETTINGS, false) => Ok(()),
        (_, false) => Err(violation(
            code::MISSING_SETTINGS,
            "the first frame is not SETTINGS",
        )),
        (wire::DATA | wire::HEADERS | wire::PUSH_PROMISE, _) => {
            unexpected("a frame of a message on the control stream")
        }
        (wire::MAX_PUSH_ID, _) if role == Role::Client => unexpected("MAX_PUSH_ID of a server"),
        (kind, _) if wire::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
        (wire::GOAWAY | wire::MAX_PUSH_ID | wire::CANCEL_PUSH, _)
            if header.length > MAX_VARINT_BYTES =>
        {
            Err(violation(code::FRAME_ERROR, "more than an id"))
        }
        _ => Ok(()),
    }
}

/// A server's GOAWAY must name a request stream, and no later GOAWAY of either side may raise the id (RFC 9114, section
/// 5.2).
fn check_goaway(role: Role, id: u64, before: Option<u64>) -> Result<(), Violation> {
    if role == Role::Client && !id.is_multiple_of(STREAM_STEP) {
        return Err(violation(code::ID_ERROR, "a GOAWAY that names no request"));
    }
    if before.is_some_and(|before| id > before) {
        return Err(violation(
            code::ID_ERROR,
            "a GOAWAY with a higher id than the previous one",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a control stream with SETTINGS followed by these bytes.
    fn control(role: Role, then: &[u8]) -> Result<Vec<ControlEvent>, Violation> {
        let mut heard = Vec::new();
        let bytes = [&[0x0, 0x4, 0x0], then].concat();
        let mut uni = UniStream::new();
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
    fn a_later_goaway_may_only_lower_the_id() {
        let heard = control(
            Role::Client,
            &[GOAWAY_OF_8, GOAWAY_OF_4, GOAWAY_OF_4].concat(),
        );
        let ids = heard
            .expect("it may")
            .into_iter()
            .filter_map(|control| match control {
                ControlEvent::GoAway(_, id) => Some(id),
                ControlEvent::Frame(_) | ControlEvent::Settings(..) => None,
            });
        assert_eq!(ids.collect::<Vec<_>>(), [8, 4, 4]);
        for role in [Role::Client, Role::Server] {
            let back = [GOAWAY_OF_4, GOAWAY_OF_8].concat();
            assert_eq!(refusal(role, &back), code::ID_ERROR);
        }
    }

    #[test]
    fn a_servers_goaway_must_name_a_request_stream() {
        assert_eq!(refusal(Role::Client, &GOAWAY_OF_5), code::ID_ERROR);
        // A client's GOAWAY names a push.
        assert!(control(Role::Server, &GOAWAY_OF_5).is_ok());
    }

    #[test]
    fn settings_must_come_first_and_only_once() {
        let mut uni = UniStream::new();
        let first = uni.receive(Role::Client, &[&[0x0], &GOAWAY_OF_8[..]].concat(), |_| ());
        assert_eq!(
            first.expect_err("SETTINGS are missing").code,
            code::MISSING_SETTINGS
        );
        assert_eq!(refusal(Role::Client, &[0x4, 0x0]), code::FRAME_UNEXPECTED);
        // PRIORITY of HTTP/2.
        assert_eq!(refusal(Role::Client, &[0x2, 0x0]), code::FRAME_UNEXPECTED);
    }

    #[test]
    fn pushes_are_refused_and_max_push_id_may_only_grow() {
        const CANCEL_PUSH_OF_0: [u8; 3] = [0x3, 0x1, 0x0];
        const MAX_PUSH_ID_OF_4: [u8; 3] = [0xd, 0x1, 0x4];
        for role in [Role::Client, Role::Server] {
            assert_eq!(refusal(role, &CANCEL_PUSH_OF_0), code::ID_ERROR);
        }
        let of_a_server = refusal(Role::Client, &MAX_PUSH_ID_OF_4);
        assert_eq!(of_a_server, code::FRAME_UNEXPECTED);
        let more = [MAX_PUSH_ID_OF_4, [0xd, 0x1, 0x4], [0xd, 0x1, 0x5]].concat();
        assert_eq!(control(Role::Server, &more).map(|heard| heard.len()), Ok(4));
        let less = [MAX_PUSH_ID_OF_4, [0xd, 0x1, 0x3]].concat();
        assert_eq!(refusal(Role::Server, &less), code::ID_ERROR);
    }

    #[test]
    fn frames_with_an_id_must_contain_nothing_else() {
        for kind in [0x3, 0x7, 0xd] {
            for wrong in [&[kind, 0x0][..], &[kind, 0x2, 0x0, 0x0], &[kind, 0x1, 0x40]] {
                assert_eq!(refusal(Role::Server, wrong), code::FRAME_ERROR, "{wrong:?}");
            }
            // Refused before any payload has arrived.
            let long = refusal(Role::Server, &[kind, 0xc0, 0, 0, 0, 0x40, 0, 0, 0]);
            assert_eq!(long, code::FRAME_ERROR);
        }
    }
}
