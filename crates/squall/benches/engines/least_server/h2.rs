//! HTTP/2 with prior knowledge: looks only at frame headers, and never at what a request asks for.
//!
//! It answers each stream that the client ends, as far as the connection's window allows, and returns flow control
//! credit for what it receives. A stream's own window (RFC 9113, section 6.9.2: 65,535 bytes or what the client
//! announces) is assumed to hold a response.

use std::collections::VecDeque;

use super::PAGE_BYTES;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const FIRST_WINDOW: i64 = 65_535;
/// Bytes after which credit is returned: half of the window, as in nghttp2.
const CREDIT_BYTES: usize = 32 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Flag of DATA and HEADERS.
const END_STREAM: u8 = 1;
/// Flag of HEADERS.
const END_HEADERS: u8 = 4;
/// Flag of SETTINGS and PING.
const ACK: u8 = 1;

/// The fields that nghttpd sends: indices into the static table (RFC 7541, appendix A), and values.
const FIELDS: [(u8, &str); 5] = [
    (54, "least"),
    (24, "max-age=3600"),
    (33, "Mon, 23 Nov 2026 12:00:00 GMT"),
    (28, "1024"),
    (44, "Mon, 23 Nov 2026 11:00:00 GMT"),
];
/// `:status 200`, then the five fields once the first response has put them into the dynamic table, the last one first.
const SECTION: [u8; 6] = [0x88, 0x80 | 66, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];

pub(super) struct Connection {
    /// Received bytes that are not yet a whole frame.
    rest: Vec<u8>,
    /// Bytes of the current frame's payload that are still to be received and skipped.
    skipped: usize,
    has_begun: bool,
    has_answered: bool,
    /// The connection's send window.
    window: i64,
    /// Streams waiting for the window.
    waiting: VecDeque<u32>,
    uncredited: usize,
    body: Vec<u8>,
}

impl super::ServerProtocol for Connection {
    fn begin() -> Connection {
        Connection {
            rest: Vec::new(),
            skipped: 0,
            has_begun: false,
            has_answered: false,
            window: FIRST_WINDOW,
            waiting: VecDeque::new(),
            uncredited: 0,
            body: super::page().collect(),
        }
    }

    fn receive(&mut self, received: &[u8], answer: &mut Vec<u8>) {
        if self.rest.is_empty() {
            let read = self.read(received, answer);
            self.rest.extend_from_slice(&received[read..]);
        } else {
            let mut bytes = std::mem::take(&mut self.rest);
            bytes.extend_from_slice(received);
            let read = self.read(&bytes, answer);
            bytes.drain(..read);
            self.rest = bytes;
        }
        while self.window >= PAGE_BYTES as i64
            && let Some(stream) = self.waiting.pop_front()
        {
            self.window -= PAGE_BYTES as i64;
            self.respond(stream, answer);
        }
    }
}

impl Connection {
    /// Reads whole frames; returns how many bytes they took.
    fn read(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> usize {
        let mut at = 0;
        if !self.has_begun {
            if bytes.len() < PREFACE.len() {
                return 0;
            }
            self.has_begun = true;
            at = PREFACE.len();
            frame(answer, SETTINGS, 0, 0, &[]);
        }
        loop {
            let skipped = self.skipped.min(bytes.len() - at);
            self.skipped -= skipped;
            at += skipped;
            let Some((head, payload)) = bytes[at..].split_first_chunk::<HEAD_BYTES>() else {
                return at;
            };
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let is_short = matches!(kind, SETTINGS | PING | WINDOW_UPDATE);
            if is_short && payload.len() < length {
                return at;
            }
            at += HEAD_BYTES;
            self.skipped = length;
            let stream = u32::from_be_bytes(stream);
            match kind {
                SETTINGS if flags & ACK == 0 => frame(answer, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(answer, PING, ACK, 0, &payload[..length]),
                WINDOW_UPDATE if stream == 0 => {
                    let credit = payload[..4].try_into().map_or(0, u32::from_be_bytes);
                    self.window += i64::from(credit);
                }
                DATA => self.credit(length, answer),
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                self.waiting.push_back(stream);
            }
        }
    }

    fn credit(&mut self, length: usize, answer: &mut Vec<u8>) {
        self.uncredited += length;
        if self.uncredited >= CREDIT_BYTES {
            let credit = (self.uncredited as u32).to_be_bytes();
            frame(answer, WINDOW_UPDATE, 0, 0, &credit);
            self.uncredited = 0;
        }
    }

    fn respond(&mut self, stream: u32, answer: &mut Vec<u8>) {
        if self.has_answered {
            frame(answer, HEADERS, END_HEADERS, stream, &SECTION);
        } else {
            self.has_answered = true;
            frame(answer, HEADERS, END_HEADERS, stream, &first_section());
        }
        frame(answer, DATA, END_STREAM, stream, &self.body);
    }
}

fn frame(answer: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    answer.extend([a, b, c, kind, flags]);
    answer.extend(stream.to_be_bytes());
    answer.extend_from_slice(payload);
}

/// `:status 200` and all fields, as literals that enter the dynamic table (RFC 7541, section 6.2.1).
fn first_section() -> Vec<u8> {
    let mut section = vec![0x88];
    for (index, value) in FIELDS {
        section.extend([0x40 | index, value.len() as u8]);
        section.extend(value.bytes());
    }
    section
}
