//! The frames that a client's session sends, one at a time: control frames first, then header sections, then bodies in
//! round-robin order.
//!
//! Each frame is chosen when output is requested, so nothing is written that a frame received meanwhile has made
//! obsolete.

use squall_nghttp2::{BodyRead, Error, FrameKind, Handler, HeaderBlock};

use super::ClientSession;
use crate::frames::{CLIENT_PREFACE, FRAME_HEADER_BYTES};

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const ACK: u8 = 0x1;

/// Header sections are sent in frames that every peer must accept (RFC 9113, section 4.2).
const FRAGMENT_BYTES: usize = 16_384;

/// A frame that is not part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// The connection preface, before SETTINGS.
    Preface,
    /// SETTINGS with this payload.
    Settings(Vec<u8>),
    SettingsAck,
    PingAck([u8; 8]),
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    Reset {
        stream: u32,
        code: u32,
    },
    GoAway {
        last: u32,
        code: u32,
        reason: &'static str,
    },
}

/// A queued header section.
#[derive(Clone, Debug)]
pub(super) enum Head {
    Request {
        stream: u32,
        /// `None`: the session's usual headers.
        headers: Option<HeaderBlock>,
        has_body: bool,
    },
    Trailers {
        stream: u32,
        headers: HeaderBlock,
    },
}

impl Head {
    pub(super) fn stream(&self) -> u32 {
        match self {
            Head::Request { stream, .. } | Head::Trailers { stream, .. } => *stream,
        }
    }
}

/// A frame header.
fn header(len: usize, kind: FrameKind, flags: u8, stream: u32) -> [u8; FRAME_HEADER_BYTES] {
    // Payloads have at most 2^24 - 1 bytes.
    let [_, l0, l1, l2] = (len as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [l0, l1, l2, kind.0, flags, s0, s1, s2, s3]
}

fn put(out: &mut Vec<u8>, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&header(payload.len(), kind, flags, stream));
    out.extend_from_slice(payload);
}

impl<H: Handler> ClientSession<H> {
    /// Appends the next frame that can be sent now and returns its size; 0 if nothing can be sent.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> Result<usize, Error> {
        let start = out.len();
        while out.len() == start && self.write_next(out)? {}
        Ok(out.len() - start)
    }

    /// Handles the next queued item, which may write nothing; returns false if there was none.
    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        if let Some((stream, block)) = self.continuation.take() {
            self.write_section(out, FrameKind::CONTINUATION, 0, stream, block);
            return Ok(true);
        }
        if let Some(control) = self.controls.pop_front() {
            self.write_control(control, out);
            return Ok(true);
        }
        if let Some(head) = self.heads.pop_front() {
            self.write_head(&head, out)?;
            return Ok(true);
        }
        Ok(self.write_data(out))
    }

    fn write_control(&mut self, control: Control, out: &mut Vec<u8>) {
        match control {
            Control::Preface => {
                out.extend_from_slice(CLIENT_PREFACE);
                // SETTINGS must follow immediately.
                if let Some(settings) = self.controls.pop_front() {
                    self.write_control(settings, out);
                }
            }
            Control::Settings(payload) => put(out, FrameKind::SETTINGS, 0, 0, &payload),
            Control::SettingsAck => {
                self.queued_acknowledgements -= 1;
                put(out, FrameKind::SETTINGS, ACK, 0, &[]);
            }
            Control::PingAck(payload) => {
                self.queued_acknowledgements -= 1;
                put(out, FrameKind::PING, ACK, 0, &payload);
            }
            Control::WindowUpdate { stream, increment } => {
                let open = self.streams.find(stream);
                if stream == 0 || open.is_some_and(|open| !open.is_reset) {
                    let increment = increment.to_be_bytes();
                    put(out, FrameKind::WINDOW_UPDATE, 0, stream, &increment);
                }
            }
            Control::Reset { stream, code } => match self.streams.find(stream) {
                Some(_) => {
                    put(out, FrameKind::RST_STREAM, 0, stream, &code.to_be_bytes());
                    self.close(stream, code);
                }
                // The stream closed in the meantime, or was never opened; the handler reports it once either way.
                None => self.handler.stream_closed(stream, code),
            },
            Control::GoAway { last, code, reason } => {
                self.has_sent_goaway = true;
                self.handler.goaway_sending(code, reason.as_bytes());
                let (last, code) = (last.to_be_bytes(), code.to_be_bytes());
                let payload = [&last[..], &code, reason.as_bytes()].concat();
                put(out, FrameKind::GOAWAY, 0, 0, &payload);
            }
        }
    }

    fn write_head(&mut self, head: &Head, out: &mut Vec<u8>) -> Result<(), Error> {
        let (stream, own, flags) = match head {
            Head::Request {
                stream,
                headers,
                has_body,
            } => {
                let own = headers.as_ref();
                let is_head = own.or(self.usual_headers.as_ref()).is_some_and(is_head);
                self.open(*stream, is_head);
                (stream, own, if *has_body { 0 } else { END_STREAM })
            }
            Head::Trailers { stream, headers } => match self.streams.find(*stream) {
                Some(open) if !open.is_reset => (stream, Some(headers), END_STREAM),
                _ => return Ok(()),
            },
        };
        let headers = own
            .or(self.usual_headers.as_ref())
            .expect("requests have no headers of their own only if there are usual ones");
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        self.encoder.encode(headers, out)?;
        let len = out.len() - start - FRAME_HEADER_BYTES;
        if len <= FRAGMENT_BYTES {
            let header = header(len, FrameKind::HEADERS, flags | END_HEADERS, *stream);
            out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&header);
        } else {
            let block = out.split_off(start + FRAME_HEADER_BYTES);
            out.truncate(start);
            self.write_section(out, FrameKind::HEADERS, flags, *stream, block);
        }
        match flags & END_STREAM {
            0 => self.enqueue(*stream),
            _ => self.ended(*stream),
        }
        Ok(())
    }

    /// Writes one frame of a header section, and keeps what does not fit.
    fn write_section(
        &mut self,
        out: &mut Vec<u8>,
        kind: FrameKind,
        flags: u8,
        stream: u32,
        mut block: Vec<u8>,
    ) {
        let rest = block.split_off(block.len().min(FRAGMENT_BYTES));
        if rest.is_empty() {
            put(out, kind, flags | END_HEADERS, stream, &block);
        } else {
            put(out, kind, flags, stream, &block);
            self.continuation = Some((stream, rest));
        }
    }

    /// Writes a DATA frame of the next stream in turn; returns false if no stream can send.
    fn write_data(&mut self, out: &mut Vec<u8>) -> bool {
        if self.to_send.0 <= 0 {
            return false;
        }
        let Some(id) = self.ready.pop_front() else {
            return false;
        };
        let Some(stream) = self.streams.find(id) else {
            return true;
        };
        stream.is_queued = false;
        let window = self.to_send.0.min(stream.to_send.0);
        if window <= 0 || stream.is_reset {
            return true;
        }
        let limit = self.data_bytes.min(self.peer.max_frame_bytes);
        let at_most = window.min(i64::from(limit)) as usize;
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        let piece = self
            .bodies
            .read(id, at_most, |bytes| out.extend_from_slice(bytes));
        let (len, flags) = match piece {
            None | Some(BodyRead::Later) => {
                out.truncate(start);
                return true;
            }
            Some(BodyRead::Some(len)) => (len, 0),
            Some(BodyRead::Last(len)) => (len, END_STREAM),
            Some(BodyRead::LastBeforeTrailers(len)) => {
                let trailers = self.bodies.take_trailers(id);
                self.heads.extend(trailers.map(|headers| Head::Trailers {
                    stream: id,
                    headers,
                }));
                (len, 0)
            }
        };
        stream.to_send.0 -= len as i64;
        self.to_send.0 -= len as i64;
        if len == 0 && flags == 0 {
            out.truncate(start);
            return true;
        }
        let header = header(len, FrameKind::DATA, flags, id);
        out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&header);
        match piece {
            Some(BodyRead::Some(_)) => self.enqueue(id),
            Some(BodyRead::Last(_)) => self.ended(id),
            _ => {}
        }
        true
    }

    /// Handles END_STREAM having been sent.
    fn ended(&mut self, id: u32) {
        if let Some(stream) = self.streams.find(id) {
            stream.is_sent = true;
            if stream.is_answered {
                self.close(id, 0);
            }
        }
    }
}

fn is_head(headers: &HeaderBlock) -> bool {
    let method = headers.fields().find(|(name, _)| *name == b":method");
    method.is_some_and(|(_, value)| value == b"HEAD")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use squall_nghttp2::{Body, Inflater, Options};

    use super::*;

    struct Silent;

    impl Handler for Silent {}

    /// Neither the usual headers at the time of a request nor later changes to them affect the request's own headers.
    #[test]
    fn queued_requests_keep_their_own_headers() {
        let block = |path: &str| HeaderBlock::new([(":method", "GET"), (":path", path)]).unwrap();
        let (a, b, none) = (block("/a"), block("/b"), Bytes::new());
        let mut session = ClientSession::new(Silent, &Options::default()).unwrap();
        let mut inflater = Inflater::of_endpoint().unwrap();
        for round in [["/a", "/b", "/a"], ["/b", "/b", "/a"]] {
            for path in round {
                let headers = if path == "/a" { &a } else { &b };
                session.submit_request(headers, Body::Whole(&none)).unwrap();
            }
            let (mut paths, mut frame) = (Vec::new(), Vec::new());
            while session.write(&mut frame).unwrap() > 0 {
                if FrameKind(frame[3]) == FrameKind::HEADERS {
                    let mut take = |name: &[u8], value: &[u8]| {
                        if name == b":path" {
                            paths.push(String::from_utf8(value.to_vec()).unwrap());
                        }
                    };
                    inflater
                        .inflate(&frame[FRAME_HEADER_BYTES..], true, &mut take)
                        .unwrap();
                }
                frame.clear();
            }
            assert_eq!(paths, round);
        }
    }
}
