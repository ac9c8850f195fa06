//! HTTP/3 on a stream (RFC 9114, section 7): variable-length integers, frames, and the reader that finds them.
//!
//! This module handles bytes only. Whether a frame is allowed and what it means is up to `inbound` and `control`, and
//! to squall-observe, which reads the streams of other programs with the same reader.

use bytes::Bytes;

/// DATA.
pub const DATA: u64 = 0x0;
/// HEADERS.
pub const HEADERS: u64 = 0x1;
/// CANCEL_PUSH.
pub const CANCEL_PUSH: u64 = 0x3;
/// SETTINGS.
pub const SETTINGS: u64 = 0x4;
/// PUSH_PROMISE.
pub const PUSH_PROMISE: u64 = 0x5;
/// GOAWAY.
pub const GOAWAY: u64 = 0x7;
/// MAX_PUSH_ID.
pub const MAX_PUSH_ID: u64 = 0xd;

/// Ids of request streams are multiples of this (RFC 9000, section 2.1).
pub const STREAM_STEP: u64 = 4;

/// The longest frame payload that is buffered whole; the limit for heads in HTTP/1.1 and HTTP/2 is the same.
pub const MAX_KEPT_BYTES: u64 = 64 * 1024;

/// The largest variable-length integer (RFC 9000, section 16).
const MAX_VARINT: u64 = (1 << 62) - 1;

/// Whether this is a frame type of HTTP/2 that HTTP/3 forbids (RFC 9114, section 7.2.8).
pub fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Appends an integer in its shortest form.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX_VARINT);
    let bytes = value.to_be_bytes();
    let (len, mark) = match value {
        0..=0x3f => (1, 0x00),
        0x40..=0x3fff => (2, 0x40),
        0x4000..=0x3fff_ffff => (4, 0x80),
        _ => (8, 0xc0),
    };
    let first = out.len();
    out.extend_from_slice(&bytes[8 - len..]);
    out[first] |= mark;
}

/// The integer at the start of `bytes` and its length in bytes; `None` if it is incomplete.
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let len = 1 << (bytes.first()? >> 6);
    let value = bytes
        .get(..len)?
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some((value & (MAX_VARINT >> (62 - (8 * len - 2))), len))
}

/// A frame header.
pub fn frame_header(kind: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    put_varint(&mut out, kind);
    put_varint(&mut out, length);
    out
}

/// A whole frame.
pub fn frame(kind: u64, payload: &[u8]) -> Bytes {
    let mut out = frame_header(kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out.into()
}

/// An item found in a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A complete frame header.
    Header(Header),
    /// Bytes of DATA.
    Data(&'a [u8]),
    /// The complete payload of a buffered frame.
    Payload(Header, Vec<u8>),
    /// A frame that would be buffered, but is too long.
    TooLong(Header),
}

/// A frame header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The frame's type.
    pub kind: u64,
    /// Offset of the frame's first byte in its stream.
    pub offset: u64,
    /// Payload length in bytes.
    pub length: u64,
}

/// Finds frames in the bytes of a stream, which may arrive in any pieces.
#[derive(Debug)]
pub struct Reader {
    /// Offset of the next byte.
    at: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// In a header, of which `len` bytes have arrived.
    Header { bytes: [u8; 16], len: usize },
    /// In the payload of DATA.
    Data { left: u64 },
    /// In a payload that is buffered.
    Kept { header: Header, bytes: Vec<u8> },
    /// In a payload that is ignored.
    Skipped { left: u64 },
}

const BETWEEN: State = State::Header {
    bytes: [0; 16],
    len: 0,
};

impl Reader {
    /// A reader whose input begins at byte `at` of its stream.
    pub fn new(at: u64) -> Reader {
        Reader { at, state: BETWEEN }
    }

    /// Offset after the last byte read.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes of an incomplete payload that are buffered.
    pub fn kept_bytes(&self) -> usize {
        match &self.state {
            State::Kept { bytes, .. } => bytes.len(),
            State::Header { .. } | State::Data { .. } | State::Skipped { .. } => 0,
        }
    }

    /// Whether the stream may end here, which it must not do inside a frame.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header { len: 0, .. })
    }

    /// Takes the next item from `input`; `None` if more bytes are needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Item<'a>> {
        loop {
            match &mut self.state {
                State::Header { bytes, len } => {
                    let header = read_header(bytes, len, &mut self.at, input)?;
                    self.state = state_after(header);
                    return Some(match self.state {
                        State::Skipped { .. } if is_kept(header.kind) => Item::TooLong(header),
                        _ => Item::Header(header),
                    });
                }
                State::Data { left: 0 } | State::Skipped { left: 0 } => self.state = BETWEEN,
                State::Data { left } => {
                    return match take(input, left, &mut self.at) {
                        [] => None,
                        bytes => Some(Item::Data(bytes)),
                    };
                }
                State::Skipped { left } => {
                    if take(input, left, &mut self.at).is_empty() {
                        return None;
                    }
                }
                State::Kept { header, bytes } => {
                    let mut left = header.length - bytes.len() as u64;
                    bytes.extend_from_slice(take(input, &mut left, &mut self.at));
                    if left > 0 {
                        return None;
                    }
                    let item = Item::Payload(*header, std::mem::take(bytes));
                    self.state = BETWEEN;
                    return Some(item);
                }
            }
        }
    }
}

/// Takes bytes of a header until it is complete.
fn read_header(
    bytes: &mut [u8; 16],
    len: &mut usize,
    at: &mut u64,
    input: &mut &[u8],
) -> Option<Header> {
    loop {
        if let Some((kind, first)) = varint(&bytes[..*len])
            && let Some((length, second)) = varint(&bytes[first..*len])
        {
            let offset = *at - (first + second) as u64;
            return Some(Header {
                kind,
                offset,
                length,
            });
        }
        let (next, rest) = input.split_first()?;
        // Two integers of at most 8 bytes are complete before the array is full.
        bytes[*len] = *next;
        *len += 1;
        *at += 1;
        *input = rest;
    }
}

/// Whether a frame's payload is buffered because it is interpreted; DATA is not.
pub fn is_kept(kind: u64) -> bool {
    matches!(
        kind,
        HEADERS | SETTINGS | GOAWAY | CANCEL_PUSH | MAX_PUSH_ID
    )
}

fn state_after(header: Header) -> State {
    let left = header.length;
    match header.kind {
        DATA => State::Data { left },
        kind if is_kept(kind) && left <= MAX_KEPT_BYTES => State::Kept {
            header,
            bytes: Vec::new(),
        },
        _ => State::Skipped { left },
    }
}

/// Takes up to `left` bytes.
fn take<'a>(input: &mut &'a [u8], left: &mut u64, at: &mut u64) -> &'a [u8] {
    let n = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    let (taken, rest) = input.split_at(n);
    *input = rest;
    *left -= n as u64;
    *at += n as u64;
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_match_the_examples_of_the_rfc() {
        // RFC 9000, appendix A.1.
        for (value, bytes) in [
            (37, &[0x25][..]),
            (15_293, &[0x7b, 0xbd]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (
                151_288_809_941_952_652,
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
            ),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(varint(bytes), Some((value, bytes.len())));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
    }

    /// Headers, bytes of DATA, and payloads.
    type Parsed = (Vec<(u64, u64, u64)>, Vec<u8>, Vec<Vec<u8>>);

    /// What a reader finds if the bytes arrive in pieces of `step`.
    fn read(bytes: &[u8], step: usize) -> Parsed {
        let (mut headers, mut data, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        let mut reader = Reader::new(0);
        for mut input in bytes.chunks(step.max(1)) {
            while let Some(item) = reader.next(&mut input) {
                match item {
                    Item::Header(h) | Item::TooLong(h) => {
                        headers.push((h.kind, h.offset, h.length));
                    }
                    Item::Data(bytes) => data.extend_from_slice(bytes),
                    Item::Payload(_, bytes) => payloads.push(bytes),
                }
            }
            assert!(input.is_empty());
        }
        assert_eq!(reader.at(), bytes.len() as u64);
        (headers, data, payloads)
    }

    proptest! {
        #[test]
        fn splitting_the_input_makes_no_difference(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..40) {
            prop_assert_eq!(read(&bytes, step), read(&bytes, bytes.len()));
        }

        #[test]
        fn written_frames_are_read_back(lens in proptest::collection::vec((0_u64..6, 0_usize..200), 0..10), step in 1_usize..90) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (kind, len) in lens {
                expected.push((kind, bytes.len() as u64, len as u64));
                bytes.extend_from_slice(&frame(kind, &vec![7; len]));
            }
            prop_assert_eq!(read(&bytes, step).0, expected);
        }
    }
}
