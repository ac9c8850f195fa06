//! HTTP/2 with prior knowledge: looks at the heads of frames alone, and never at what a request asks for.
//!
//! It answers each stream that its client ends, as far as the connection's window lets it, and gives credit for what it is
//! sent. A stream's own window (RFC 9113, section 6.9.2: 65,535 bytes or what the client says) is taken to hold an answer.

use std::collections::VecDeque;

use super::PAGE_BYTES;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const FIRST_WINDOW: i64 = 65_535;
/// Credit is given for as much at once: half of the window, as nghttp2 does.
const CREDIT_BYTES: usize = 32 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Of DATA and HEADERS.
const END_STREAM: u8 = 1;
/// Of HEADERS.
const END_HEADERS: u8 = 4;
/// Of SETTINGS and PING.
const ACK: u8 = 1;

/// The indices of nghttpd's fields in the static table (RFC 7541, appendix A), and their values.
const FIELDS: [(u8, &str); 5] = [
    (54, "least"),
    (24, "max-age=3600"),
    (33, "Mon, 23 Nov 2026 12:00:00 GMT"),
    (28, "1024"),
    (44, "Mon, 23 Nov 2026 11:00:00 GMT"),
];
/// `:status 200`, and the five fields once the first answer has put them into the dynamic table, the last one first.
const SECTION: [u8; 6] = [0x88, 0x80 | 66, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];

pub(super) struct Talk {
    /// What came and is no whole frame yet.
    rest: Vec<u8>,
    /// How many bytes of the frame's payload are still to come, which nobody looks at.
    skipped: usize,
    has_begun: bool,
    has_answered: bool,
    /// What the client lets us send.
    window: i64,
    /// Streams that wait for the window.
    waiting: VecDeque<u32>,
    uncredited: usize,
    body: Vec<u8>,
}

impl super::Talk for Talk {
    fn begin() -> Talk {
        Talk {
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

    fn take(&mut self, came: &[u8], answer: &mut Vec<u8>) {
        if self.rest.is_empty() {
            let read = self.read(came, answer);
            self.rest.extend_from_slice(&came[read..]);
        } else {
            let mut bytes = std::mem::take(&mut self.rest);
            bytes.extend_from_slice(came);
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

impl Talk {
    /// Reads whole frames, and gives how many bytes they were.
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

/// `:status 200` and all fields, as literals that go into the dynamic table (RFC 7541, section 6.2.1).
fn first_section() -> Vec<u8> {
    let mut section = vec![0x88];
    for (index, value) in FIELDS {
        section.extend([0x40 | index, value.len() as u8]);
        section.extend(value.bytes());
    }
    section
}
