//! The frames that a client's session receives: their validity (RFC 9113, section 6) and their effects.
//!
//! Bytes arrive in arbitrary pieces. DATA payloads are passed on as they arrive. Other payloads are buffered until
//! complete; our own SETTINGS_MAX_FRAME_SIZE limits their size. `sections` and `stream` validate responses; `settings`
//! handles SETTINGS.

use squall_nghttp2::{Error, FieldDecision, FrameHeader, FrameKind, Handler, ReceivedFrame};

use super::ClientSession;
use super::send::{ACK, Control, END_HEADERS, END_STREAM};
use crate::frames::FRAME_HEADER_BYTES;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Error codes (RFC 9113, section 7).
pub(super) const PROTOCOL_ERROR: u32 = 0x1;
const INTERNAL_ERROR: u32 = 0x2;
pub(super) const FLOW_CONTROL_ERROR: u32 = 0x3;
const STREAM_CLOSED: u32 = 0x5;
pub(super) const FRAME_SIZE_ERROR: u32 = 0x6;
const REFUSED_STREAM: u32 = 0x7;
const COMPRESSION_ERROR: u32 = 0x9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Limits against floods, the same as nghttp2's: queued acknowledgements, CONTINUATION frames per section, and
/// consecutive empty DATA frames.
const MAX_QUEUED_ACKNOWLEDGEMENTS: usize = 1_000;
const MAX_CONTINUATIONS: u32 = 8;
const MAX_EMPTY_FRAMES: u32 = 1_000;

/// The longest encoded header section: four times the limit we announce for the decoded one, because the Huffman codes
/// of rare characters are up to that long.
const MAX_BLOCK_BYTES: usize = 4 * super::super::MAX_HEADER_LIST_BYTES as usize;

/// The session's position in the byte stream.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The bytes of an incomplete frame header.
    header: Vec<u8>,
    frame: Option<Frame>,
    /// The received part of a payload that is buffered until complete.
    buffered: Vec<u8>,
    section: Option<OpenSection>,
    has_begun: bool,
}

/// A frame whose payload is being received.
#[derive(Clone, Copy, Debug)]
struct Frame {
    header: FrameHeader,
    /// Payload bytes still to come.
    left: usize,
    payload: Payload,
}

/// How a payload is handled.
#[derive(Clone, Copy, Debug)]
enum Payload {
    Buffered,
    /// DATA whose padding length is not known yet.
    Padded,
    /// DATA whose payload ends with `padding` bytes of padding.
    Data {
        padding: usize,
    },
    Skipped,
}

/// A header section whose CONTINUATION frames are still to come.
#[derive(Debug)]
struct OpenSection {
    header: FrameHeader,
    block: Vec<u8>,
    continuations: u32,
}

/// Why a connection ends: the code and reason of our GOAWAY.
pub(super) type Offence = (u32, &'static str);

/// Why a frame ends the connection.
pub(super) enum Fault {
    Offence(Offence),
    /// An error that no GOAWAY can report.
    Session(Error),
}

impl From<Offence> for Fault {
    fn from(offence: Offence) -> Fault {
        Fault::Offence(offence)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Session(error)
    }
}

fn parse(header: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
    let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *header;
    FrameHeader {
        length_bytes: u32::from_be_bytes([0, l0, l1, l2]),
        kind: FrameKind(kind),
        flags,
        stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_be_bytes)
}

impl<H: Handler> ClientSession<H> {
    /// Takes bytes from the peer. A protocol violation ends the session with a GOAWAY; an error is returned only if no
    /// GOAWAY can report it.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !self.has_failed && !bytes.is_empty() {
            bytes = match self.input.frame {
                None => self.take_header(bytes),
                Some(frame) => self.take_payload(frame, bytes)?,
            };
            // A frame without a payload is already complete.
            if let Some(frame) = self.input.frame.filter(|frame| frame.left == 0) {
                self.take_payload(frame, &[])?;
            }
        }
        Ok(())
    }

    /// Ends the session: from now on only GOAWAY is sent.
    pub(super) fn offend(&mut self, code: u32, reason: &'static str) {
        if self.has_failed {
            return;
        }
        self.has_failed = true;
        self.heads.clear();
        self.ready.clear();
        let is_first =
            |control: &Control| matches!(control, Control::Preface | Control::Settings(_));
        self.controls.retain(is_first);
        self.controls.push_back(Control::GoAway {
            last: 0,
            code,
            reason,
        });
    }

    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let input = &mut self.input;
        let (header, rest) = match bytes.split_first_chunk() {
            Some((header, rest)) if input.header.is_empty() => (*header, rest),
            _ => {
                let missing = FRAME_HEADER_BYTES - input.header.len();
                let (now, rest) = bytes.split_at(missing.min(bytes.len()));
                input.header.extend_from_slice(now);
                let Some(header) = input.header.first_chunk() else {
                    return rest;
                };
                let header = *header;
                input.header.clear();
                (header, rest)
            }
        };
        let header = parse(&header);
        self.handler.frame_begun(header);
        match self.begin(header) {
            Ok(payload) => {
                self.input.frame = Some(Frame {
                    header,
                    left: header.length_bytes as usize,
                    payload,
                });
            }
            Err((code, reason)) => self.offend(code, reason),
        }
        rest
    }

    /// Validates a frame by its header.
    fn begin(&mut self, header: FrameHeader) -> Result<Payload, Offence> {
        let FrameHeader {
            length_bytes,
            kind,
            stream,
            ..
        } = header;
        if !self.input.has_begun && (kind != FrameKind::SETTINGS || header.flags & ACK != 0) {
            return Err((PROTOCOL_ERROR, "the first frame is not SETTINGS"));
        }
        self.input.has_begun = true;
        if length_bytes > self.max_frame_bytes {
            return Err((FRAME_SIZE_ERROR, "a frame beyond SETTINGS_MAX_FRAME_SIZE"));
        }
        let of_section = self.input.section.as_ref().map(|open| open.header.stream);
        let is_continuation = kind == FrameKind::CONTINUATION;
        if of_section.is_some_and(|open| !is_continuation || open != stream) {
            return Err((PROTOCOL_ERROR, "a frame inside a header section"));
        }
        if of_section.is_none() && is_continuation {
            return Err((PROTOCOL_ERROR, "a CONTINUATION outside of a header section"));
        }
        let is_of_stream = stream != 0;
        let (must_be_of_stream, length) = match kind {
            FrameKind::DATA => (true, None),
            FrameKind::HEADERS | FrameKind::CONTINUATION => (true, None),
            // RFC 9113, section 6.3: a wrong length is only a stream error.
            FrameKind::PRIORITY => (true, None),
            FrameKind::RST_STREAM => (true, Some(4)),
            FrameKind::SETTINGS | FrameKind::GOAWAY => (false, None),
            FrameKind::PING => (false, Some(8)),
            FrameKind::WINDOW_UPDATE => (is_of_stream, Some(4)),
            FrameKind::PUSH_PROMISE => return Err((PROTOCOL_ERROR, "a push, which is disabled")),
            _ => return Ok(Payload::Skipped),
        };
        if must_be_of_stream != is_of_stream {
            return Err((
                PROTOCOL_ERROR,
                "a frame of the connection on a stream, or the reverse",
            ));
        }
        if length.is_some_and(|length| length != length_bytes) {
            return Err((FRAME_SIZE_ERROR, "a frame of a wrong size"));
        }
        if is_of_stream && kind != FrameKind::PRIORITY && !self.was_opened(stream) {
            return Err((PROTOCOL_ERROR, "a frame of a stream that is idle"));
        }
        match kind {
            FrameKind::DATA => self.begin_data(header),
            _ => Ok(Payload::Buffered),
        }
    }

    /// Whether a request has been sent on this stream. Even ids belong to the server and would be pushes.
    fn was_opened(&self, stream: u32) -> bool {
        let unsent = self.heads.iter().find_map(|head| match head {
            super::Head::Request { stream, .. } => Some(*stream),
            super::Head::Trailers { .. } => None,
        });
        stream % 2 == 1 && stream < unsent.unwrap_or(self.next_stream)
    }

    fn begin_data(&mut self, header: FrameHeader) -> Result<Payload, Offence> {
        let len = header.length_bytes;
        if !self.to_receive.take(len) {
            return Err((FLOW_CONTROL_ERROR, "DATA beyond the connection's window"));
        }
        if len == 0 && header.flags & END_STREAM == 0 {
            self.empty_frames += 1;
            if self.empty_frames > MAX_EMPTY_FRAMES {
                return Err((ENHANCE_YOUR_CALM, "endless empty DATA"));
            }
        } else {
            self.empty_frames = 0;
        }
        let is_padded = header.flags & PADDED != 0;
        if is_padded && len == 0 {
            return Err((FRAME_SIZE_ERROR, "padding without its length"));
        }
        let Some(stream) = self.streams.find(header.stream) else {
            return Ok(Payload::Skipped);
        };
        if stream.is_reset {
            return Ok(Payload::Skipped);
        }
        if stream.is_answered {
            return Err((STREAM_CLOSED, "DATA after the end of its stream"));
        }
        if !stream.to_receive.take(len) {
            self.give_up(header.stream, FLOW_CONTROL_ERROR);
            return Ok(Payload::Skipped);
        }
        Ok(if is_padded {
            Payload::Padded
        } else {
            Payload::Data { padding: 0 }
        })
    }

    /// Resets a stream because of an error by the peer.
    fn give_up(&mut self, id: u32, code: u32) {
        if let Some(stream) = self.streams.find(id)
            && !stream.is_reset
        {
            stream.is_reset = true;
            self.controls.push_back(Control::Reset { stream: id, code });
        }
    }

    /// Takes the available part of a frame's payload.
    fn take_payload<'a>(&mut self, frame: Frame, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let (now, rest) = bytes.split_at(frame.left.min(bytes.len()));
        let left = frame.left - now.len();
        self.input.frame = (left > 0).then_some(Frame { left, ..frame });
        match frame.payload {
            Payload::Skipped => {}
            Payload::Buffered if left == 0 && self.input.buffered.is_empty() => {
                self.frame(frame.header, now)?;
            }
            Payload::Buffered => {
                self.input.buffered.extend_from_slice(now);
                if left == 0 {
                    let mut buffered = std::mem::take(&mut self.input.buffered);
                    self.frame(frame.header, &buffered)?;
                    buffered.clear();
                    self.input.buffered = buffered;
                }
            }
            Payload::Padded => self.take_padded(frame, now, left),
            Payload::Data { padding } => self.take_data(frame.header, padding, now, left),
        }
        Ok(rest)
    }

    /// Takes the start of padded DATA, whose first byte is the padding length.
    fn take_padded(&mut self, frame: Frame, now: &[u8], left: usize) {
        let Some((padding, now)) = now.split_first() else {
            return;
        };
        let padding = usize::from(*padding);
        if padding > now.len() + left {
            self.offend(PROTOCOL_ERROR, "more padding than payload");
            return;
        }
        let payload = Payload::Data { padding };
        if let Some(frame) = &mut self.input.frame {
            frame.payload = payload;
        }
        self.take_data(frame.header, padding, now, left);
    }

    fn take_data(&mut self, header: FrameHeader, padding: usize, now: &[u8], left: usize) {
        let body = &now[..now.len() - padding.saturating_sub(left).min(now.len())];
        let Some(stream) = self.streams.find(header.stream) else {
            return;
        };
        if stream.is_reset {
            return;
        }
        let mut result = if body.is_empty() && left > 0 {
            Ok(())
        } else {
            stream.response.body(body.len() as u64)
        };
        let ends_stream = left == 0 && header.flags & END_STREAM != 0;
        if ends_stream {
            result = result.and_then(|()| stream.response.end());
        }
        if result.is_err() {
            self.give_up(header.stream, PROTOCOL_ERROR);
            return;
        }
        if !body.is_empty() {
            self.handler.data(header.stream, body);
        }
        if left == 0 {
            self.handler.frame_received(ReceivedFrame::Other(header));
        }
        if ends_stream {
            self.answered(header.stream);
        }
    }

    /// Handles END_STREAM.
    fn answered(&mut self, id: u32) {
        if let Some(stream) = self.streams.find(id) {
            stream.is_answered = true;
            if stream.is_sent {
                self.close(id, 0);
            }
        }
    }

    /// Handles a complete frame other than DATA.
    fn frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Error> {
        let result = match header.kind {
            FrameKind::HEADERS => self.headers(header, payload),
            FrameKind::CONTINUATION => self.continuation(header, payload),
            FrameKind::SETTINGS => self.settings(header, payload),
            FrameKind::PING => self.ping(header, payload),
            FrameKind::GOAWAY => self.goaway(payload).map_err(Fault::from),
            FrameKind::WINDOW_UPDATE => self.window_update(header, payload).map_err(Fault::from),
            FrameKind::RST_STREAM => {
                self.handler.frame_received(ReceivedFrame::Other(header));
                self.close(header.stream, word(payload, 0));
                Ok(())
            }
            FrameKind::PRIORITY if payload.len() != 5 => {
                self.give_up(header.stream, FRAME_SIZE_ERROR);
                Ok(())
            }
            _ => Ok(()),
        };
        match result {
            Err(Fault::Offence((code, reason))) => self.offend(code, reason),
            Err(Fault::Session(error)) => return Err(error),
            Ok(()) => {}
        }
        Ok(())
    }

    fn headers(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let mut fragment = payload;
        let mut padding = 0;
        if header.flags & PADDED != 0 {
            let Some((length, rest)) = fragment.split_first() else {
                return Err((FRAME_SIZE_ERROR, "padding without its length").into());
            };
            (padding, fragment) = (usize::from(*length), rest);
        }
        if header.flags & PRIORITY != 0 {
            let Some(rest) = fragment.get(5..) else {
                return Err((FRAME_SIZE_ERROR, "a priority that is cut off").into());
            };
            fragment = rest;
        }
        let Some(len) = fragment.len().checked_sub(padding) else {
            return Err((PROTOCOL_ERROR, "more padding than payload").into());
        };
        let fragment = &fragment[..len];
        if header.flags & END_HEADERS != 0 {
            return self.section(header, fragment);
        }
        self.input.section = Some(OpenSection {
            header,
            block: fragment.to_vec(),
            continuations: 0,
        });
        Ok(())
    }

    fn continuation(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let Some(mut open) = self.input.section.take() else {
            return Ok(());
        };
        open.continuations += 1;
        if open.continuations > MAX_CONTINUATIONS
            || open.block.len() + payload.len() > MAX_BLOCK_BYTES
        {
            return Err(Error::FLOODED.into());
        }
        open.block.extend_from_slice(payload);
        if header.flags & END_HEADERS != 0 {
            return self.section(open.header, &open.block);
        }
        self.input.section = Some(open);
        Ok(())
    }

    /// Handles a complete header section.
    fn section(&mut self, header: FrameHeader, block: &[u8]) -> Result<(), Fault> {
        let id = header.stream;
        if block.len() > MAX_BLOCK_BYTES {
            return Err(Error::FLOODED.into());
        }
        // Decode it in any case, for its effect on the dynamic table.
        let section = match self.sections.decode(block) {
            Ok(section) => section,
            Err(error) if error == Error::FLOODED => return Err(error.into()),
            Err(_) => {
                return Err((COMPRESSION_ERROR, "a header section with invalid HPACK").into());
            }
        };
        let Some(stream) = self.streams.find(id).filter(|stream| !stream.is_reset) else {
            return Ok(());
        };
        if stream.is_answered {
            return Err((STREAM_CLOSED, "HEADERS after the end of its stream").into());
        }
        if section.is_too_long() {
            self.give_up(id, INTERNAL_ERROR);
            return Ok(());
        }
        let ends_stream = header.flags & END_STREAM != 0;
        let mut result = stream.response.head(section.facts, ends_stream);
        if stream.response.has_too_many_interims() {
            let reason = "more than 100 interim responses to one request";
            return Err((ENHANCE_YOUR_CALM, reason).into());
        }
        if ends_stream {
            result = result.and_then(|()| stream.response.end());
        }
        if result.is_err() {
            self.give_up(id, PROTOCOL_ERROR);
            return Ok(());
        }
        self.handler.headers_begun(id);
        let handler = &mut self.handler;
        let wants_all = handler.wants_fields();
        // Pseudo-header fields come first.
        let is_told = |(name, _): &(&[u8], _)| wants_all || name.first() == Some(&b':');
        let mut fields = section.fields().take_while(is_told);
        let is_refused =
            fields.any(|(name, value)| handler.header(id, name, value) == FieldDecision::Refuse);
        drop(fields);
        if is_refused {
            self.give_up(id, INTERNAL_ERROR);
            return Ok(());
        }
        self.handler.frame_received(ReceivedFrame::Headers(header));
        if ends_stream {
            self.answered(id);
        }
        Ok(())
    }

    fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.flags & ACK == 0
            && let Ok(payload) = payload.try_into()
        {
            self.queue_acknowledgement(Control::PingAck(payload))?;
        }
        Ok(())
    }

    pub(super) fn queue_acknowledgement(&mut self, control: Control) -> Result<(), Error> {
        if self.queued_acknowledgements >= MAX_QUEUED_ACKNOWLEDGEMENTS {
            return Err(Error::FLOODED);
        }
        self.queued_acknowledgements += 1;
        self.controls.push_back(control);
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8]) -> Result<(), Offence> {
        if payload.len() < 8 {
            return Err((FRAME_SIZE_ERROR, "a GOAWAY that is cut off"));
        }
        let (last_stream, code) = (word(payload, 0) & 0x7fff_ffff, word(payload, 4));
        if self.goaway.is_some_and(|before| last_stream > before) {
            return Err((
                PROTOCOL_ERROR,
                "a GOAWAY with a higher last stream than an earlier one",
            ));
        }
        self.goaway = Some(last_stream);
        self.handler
            .frame_received(ReceivedFrame::GoAway { last_stream, code });
        let open = self.streams.iter().map(|(id, _)| id);
        let refused: Vec<u32> = open.filter(|id| *id > last_stream).collect();
        for id in refused {
            self.close(id, REFUSED_STREAM);
        }
        // Queued requests will never be sent.
        for head in std::mem::take(&mut self.heads) {
            match head {
                super::Head::Request { stream, .. } => {
                    self.bodies.remove(stream);
                    self.handler.stream_closed(stream, REFUSED_STREAM);
                }
                super::Head::Trailers { .. } => self.heads.push_back(head),
            }
        }
        Ok(())
    }

    fn window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Offence> {
        let increment = word(payload, 0) & 0x7fff_ffff;
        if header.stream == 0 {
            if increment == 0 {
                return Err((PROTOCOL_ERROR, "a WINDOW_UPDATE of 0 bytes"));
            }
            let too_large = (FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1 bytes");
            return (self.to_send.change(i64::from(increment))).map_err(|_| too_large);
        }
        let Some(stream) = self.streams.find(header.stream) else {
            return Ok(());
        };
        if increment == 0 {
            self.give_up(header.stream, PROTOCOL_ERROR);
        } else if stream.to_send.change(i64::from(increment)).is_err() {
            self.give_up(header.stream, FLOW_CONTROL_ERROR);
        } else {
            self.enqueue_if_it_has_a_body(header.stream);
        }
        Ok(())
    }

    /// After a window grew: queues a body that was waiting for it.
    pub(super) fn enqueue_if_it_has_a_body(&mut self, id: u32) {
        if self.bodies.has(id) {
            self.enqueue(id);
        }
    }
}
