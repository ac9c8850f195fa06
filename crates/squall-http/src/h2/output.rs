//! Output waiting for the socket, and the marks in it.
//!
//! nghttp2 reports late that a frame was sent, and by "sent" it means handed to us. So we find each message's first and
//! last byte by walking over the frames that nghttp2 produced. Their offsets in the output byte stream are kept until
//! the socket has taken that many bytes.

use std::collections::VecDeque;

use squall_nghttp2::{Error, FrameKind, Http2Session};

use super::allowance::SentContent;
use crate::frames::{FRAME_HEADER_BYTES, Frame, FrameWalker};

/// Roughly how many bytes to buffer: enough for one write, but few enough that data waits in the socket rather than
/// here.
const BUFFER_BYTES: usize = 64 * 1024;

/// The capacity that is kept while nothing waits. Many connections are idle most of the time.
const KEPT_BYTES: usize = 16 * 1024;

/// The largest frame other than DATA: nghttp2 splits header sections into frames that every peer must accept (RFC 9113,
/// section 4.2).
const HEADERS_BYTES: u32 = 16 * 1024;

/// How much more output may be buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferLimit {
    /// About 64 KiB in all.
    Usual,
    /// Twice that, for a GOAWAY that must be produced now.
    Beyond,
}

/// A significant position in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The first byte of the stream's message, and its offset.
    First { stream: u32, offset: u64 },
    /// The last byte of the stream's message, and the offset after it.
    Last { stream: u32, end: u64 },
}

/// A part of a message that nghttp2 has produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePart {
    /// The first frame of its header section.
    Head,
    /// The last frame of the message.
    Last,
}

/// Output that the socket has not taken.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// How many of `bytes` the socket took.
    start: usize,
    /// Whether the socket has been offered bytes that it has not taken.
    is_offered: bool,
    /// Offset of the next byte for the socket to take.
    taken: u64,
    walker: FrameWalker,
    /// The largest payload of a DATA frame, before the peer's limit is applied.
    data_bytes: u32,
    marks: Marks,
    /// The offset after the last frame that is part of a message.
    messages_end: u64,
    /// What was produced since it was last taken.
    content: SentContent,
}

/// The pending marks, each with the number of bytes that must be taken before it is reported.
#[derive(Debug, Default)]
struct Marks {
    ahead: VecDeque<(u64, Mark)>,
    /// The stream that ends with a header section whose CONTINUATION frames are still missing.
    ends_with_headers: Option<u32>,
    /// Streams that end with trailers.
    trailed: Vec<u32>,
}

impl Output {
    /// Output whose frames `walker` follows.
    pub(super) fn new(walker: FrameWalker, data_bytes: u32) -> Output {
        Output {
            bytes: Vec::new(),
            start: 0,
            is_offered: false,
            taken: walker.offset(),
            walker,
            data_bytes,
            marks: Marks::default(),
            messages_end: 0,
            content: SentContent::default(),
        }
    }

    /// The bytes for the socket.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The bytes for the socket, marked as offered.
    pub(super) fn offer(&mut self) -> &[u8] {
        self.is_offered = !self.pending().is_empty();
        self.pending()
    }

    /// Announces that the stream's message ends with trailers. Its first header section, already produced or not, does
    /// not carry END_STREAM.
    pub(super) fn expect_trailers(&mut self, stream: u32) {
        self.marks.trailed.push(stream);
    }

    /// Forgets the expectations of a closed stream.
    pub(super) fn forget(&mut self, stream: u32) {
        self.marks.trailed.retain(|id| *id != stream);
    }

    /// Whether the socket has been offered bytes that it has not taken.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Whether part of a message has not been taken by the socket.
    pub(super) fn holds_message(&self) -> bool {
        self.taken < self.messages_end
    }

    /// Lets the session produce frames while the buffer has room, and calls `on_produced` for the first and the last frame
    /// of each message.
    pub(super) fn pull<H>(
        &mut self,
        limit: BufferLimit,
        session: &mut impl Http2Session<H>,
        mut on_produced: impl FnMut(&mut H, u32, MessagePart),
    ) -> Result<(), Error> {
        let payload_bytes = self.data_bytes.min(session.peer_max_frame_bytes());
        let frame_bytes = FRAME_HEADER_BYTES + payload_bytes.max(HEADERS_BYTES) as usize;
        let usual_bytes = frame_bytes.max(BUFFER_BYTES);
        let limit_bytes = match limit {
            BufferLimit::Usual => usual_bytes,
            BufferLimit::Beyond => 2 * usual_bytes,
        };
        while self.pending().len() + frame_bytes <= limit_bytes && session.wants_write() {
            self.reclaim();
            let before = self.bytes.len();
            if session.send(&mut self.bytes)? == 0 {
                break;
            }
            self.walker.walk(&self.bytes[before..], |frame| {
                if is_of_message(frame.kind) {
                    self.messages_end = frame.end();
                }
                if frame.kind == FrameKind::HEADERS {
                    on_produced(session.handler_mut(), frame.stream, MessagePart::Head);
                }
                if frame.kind == FrameKind::DATA {
                    self.content.data_frames += 1;
                    self.content.data_bytes += u64::from(frame.length_bytes);
                }
                if let Some(stream) = self.marks.note(frame) {
                    self.content.messages += 1;
                    on_produced(session.handler_mut(), stream, MessagePart::Last);
                }
            });
        }
        self.release();
        Ok(())
    }

    /// What was produced since the last call.
    pub(super) fn take_content(&mut self) -> SentContent {
        std::mem::take(&mut self.content)
    }

    /// Frees the space of taken bytes, without moving bytes for every small write.
    fn reclaim(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start >= BUFFER_BYTES / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Gives back the memory of a buffer that has grown, while there is nothing to send.
    fn release(&mut self) {
        if self.start == self.bytes.len() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
            self.start = 0;
        }
    }

    /// Records that the socket took `n` bytes, at most all; calls `on_mark` for each mark among them. Returns the
    /// bytes.
    pub(super) fn advance(&mut self, n: usize, mut on_mark: impl FnMut(Mark)) -> &[u8] {
        let n = n.min(self.pending().len());
        self.start += n;
        self.taken += n as u64;
        self.is_offered &= self.start < self.bytes.len();
        while let Some(&(due, mark)) = self.marks.ahead.front()
            && due <= self.taken
        {
            self.marks.ahead.pop_front();
            on_mark(mark);
        }
        &self.bytes[self.start - n..self.start]
    }
}

/// Whether such frames are part of a request or response (RFC 9113, section 8.1) rather than connection-level.
fn is_of_message(kind: FrameKind) -> bool {
    [FrameKind::HEADERS, FrameKind::CONTINUATION, FrameKind::DATA].contains(&kind)
}

impl Marks {
    /// Records the marks of a frame; returns its stream if the frame is the last of a message.
    fn note(&mut self, frame: Frame) -> Option<u32> {
        if frame.kind == FrameKind::HEADERS {
            let (stream, offset) = (frame.stream, frame.offset);
            let trailed = self.trailed.iter().position(|id| *id == stream);
            match trailed.filter(|_| frame.ends_stream()) {
                Some(index) => drop(self.trailed.swap_remove(index)),
                None => self
                    .ahead
                    .push_back((offset + 1, Mark::First { stream, offset })),
            }
            if frame.ends_stream() && !frame.ends_headers() {
                self.ends_with_headers = Some(frame.stream);
                return None;
            }
        }
        let is_last = frame.ends_stream()
            || (frame.ends_headers() && self.ends_with_headers == Some(frame.stream));
        if !is_last {
            return None;
        }
        self.ends_with_headers = None;
        let (stream, end) = (frame.stream, frame.end());
        self.ahead.push_back((end, Mark::Last { stream, end }));
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(offset: u64, length_bytes: u32, kind: FrameKind, flags: u8) -> Frame {
        Frame {
            offset,
            length_bytes,
            kind,
            flags,
            stream: 1,
        }
    }

    fn first(offset: u64) -> (u64, Mark) {
        (offset + 1, Mark::First { stream: 1, offset })
    }

    fn last(end: u64) -> (u64, Mark) {
        (end, Mark::Last { stream: 1, end })
    }

    #[test]
    fn a_message_spans_from_its_headers_to_end_stream() {
        let mut marks = Marks::default();
        assert_eq!(marks.note(frame(24, 0, FrameKind::SETTINGS, 1)), None);
        assert_eq!(marks.note(frame(33, 10, FrameKind::HEADERS, 4)), None);
        assert_eq!(marks.note(frame(52, 1, FrameKind::DATA, 1)), Some(1));
        assert_eq!(marks.ahead, [first(33), last(62)]);
    }

    #[test]
    fn output_that_was_taken_keeps_little_memory() {
        let mut output = Output::new(FrameWalker::of_server(0), 16_384);
        output.bytes = vec![0; 100_000];
        output.advance(50_000, |_| {});
        output.release();
        assert_eq!(output.pending().len(), 50_000);
        output.advance(50_000, |_| {});
        output.release();
        assert_eq!((output.pending().len(), output.bytes.capacity()), (0, 0));
    }

    #[test]
    fn a_message_ends_with_its_last_continuation() {
        let mut marks = Marks::default();
        assert_eq!(marks.note(frame(0, 10, FrameKind::HEADERS, 1)), None);
        assert_eq!(marks.note(frame(19, 10, FrameKind::CONTINUATION, 0)), None);
        assert_eq!(
            marks.note(frame(38, 10, FrameKind::CONTINUATION, 4)),
            Some(1)
        );
        assert_eq!(marks.ahead, [first(0), last(57)]);
    }
}
