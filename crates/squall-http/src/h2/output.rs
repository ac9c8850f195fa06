//! The bytes that wait for the socket, and the marks in them.
//!
//! nghttp2 says late that a frame was sent, and "sent" means handed to us. So each message's first and last
//! byte are found by walking over the frames that nghttp2 produced, and kept as offsets of the output
//! byte stream until the socket has taken that many bytes.

use std::collections::VecDeque;

use squall_nghttp2::{Error, FrameKind};

use super::protocol::Session;
use crate::frames::{FRAME_HEADER_BYTES, Frame, FrameWalker};

/// About how many bytes are held: enough for one write, little enough that the socket, not this buffer,
/// is where data waits.
const BUFFER_BYTES: usize = 64 * 1024;

/// The largest frame besides DATA that is produced: nghttp2 cuts header sections into frames that everybody takes
/// (RFC 9113, section 4.2).
const HEADERS_BYTES: u32 = 16 * 1024;

/// How much room there is for more output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// About 64 KiB in all.
    Usual,
    /// Twice that: for a GOAWAY that must be seen now.
    Beyond,
}

/// A place in the output that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The first byte of the stream's message, and its offset.
    First { stream: u32, offset: u64 },
    /// Its last byte, and the offset after it.
    Last { stream: u32, end: u64 },
}

/// What nghttp2 has produced of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Produced {
    /// The first frame of its header section.
    Head,
    /// Its last frame.
    Last,
}

/// Output that the socket has not taken.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// How many of `bytes` the socket took.
    start: usize,
    /// Whether the socket was offered something that it has not taken.
    is_offered: bool,
    /// Offset of the next byte that the socket takes.
    taken: u64,
    walker: FrameWalker,
    /// The largest payload of a DATA frame, but for the peer's limit.
    data_bytes: u32,
    marks: Marks,
    /// The offset after the last frame that is part of a message.
    messages_end: u64,
}

/// The marks that are to come, each with the count of bytes that must be taken for it.
#[derive(Debug, Default)]
struct Marks {
    ahead: VecDeque<(u64, Mark)>,
    /// The stream that ends with a header section of which CONTINUATION frames are still missing.
    ends_with_headers: Option<u32>,
    /// Streams whose last header section is not their first.
    trailed: Vec<u32>,
}

impl Output {
    /// For what `walker` walks over.
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
        }
    }

    /// The bytes for the socket.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The same, for the socket to take.
    pub(super) fn offer(&mut self) -> &[u8] {
        self.is_offered = !self.pending().is_empty();
        self.pending()
    }

    /// The stream's message, whose header section comes or has come without the end of the stream, ends with trailers.
    pub(super) fn expect_trailers(&mut self, stream: u32) {
        self.marks.trailed.push(stream);
    }

    /// A stream is gone, and with it what was expected of it.
    pub(super) fn forget(&mut self, stream: u32) {
        self.marks.trailed.retain(|id| *id != stream);
    }

    /// Whether the socket was offered something that it has not taken.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Whether something of a message is in what the socket has not taken.
    pub(super) fn holds_message(&self) -> bool {
        self.taken < self.messages_end
    }

    /// Lets the session produce frames while there is room, and calls `on_produced` for the first and the last frame
    /// of each message.
    pub(super) fn pull<H>(
        &mut self,
        room: Room,
        session: &mut impl Session<H>,
        mut on_produced: impl FnMut(&mut H, u32, Produced),
    ) -> Result<(), Error> {
        let payload_bytes = self.data_bytes.min(session.peer_max_frame_bytes());
        let frame_bytes = FRAME_HEADER_BYTES + payload_bytes.max(HEADERS_BYTES) as usize;
        let usual_bytes = frame_bytes.max(BUFFER_BYTES);
        let limit_bytes = match room {
            Room::Usual => usual_bytes,
            Room::Beyond => 2 * usual_bytes,
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
                    on_produced(session.handler_mut(), frame.stream, Produced::Head);
                }
                if let Some(stream) = self.marks.note(frame) {
                    on_produced(session.handler_mut(), stream, Produced::Last);
                }
            });
        }
        Ok(())
    }

    /// Makes room of what was taken, without moving bytes for every small write.
    fn reclaim(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start >= BUFFER_BYTES / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// The socket took `n` bytes, at most all; calls `on_mark` for each mark among them. Returns the bytes.
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

/// Whether such frames are parts of requests and answers (RFC 9113, section 8.1), and not about the connection.
fn is_of_message(kind: FrameKind) -> bool {
    [FrameKind::HEADERS, FrameKind::CONTINUATION, FrameKind::DATA].contains(&kind)
}

impl Marks {
    /// Notes the marks of a frame; returns its stream if it is the last of a message.
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
    fn a_message_lasts_from_its_headers_to_its_end() {
        let mut marks = Marks::default();
        assert_eq!(marks.note(frame(24, 0, FrameKind::SETTINGS, 1)), None);
        assert_eq!(marks.note(frame(33, 10, FrameKind::HEADERS, 4)), None);
        assert_eq!(marks.note(frame(52, 1, FrameKind::DATA, 1)), Some(1));
        assert_eq!(marks.ahead, [first(33), last(62)]);
    }

    #[test]
    fn continuations_belong_to_their_headers() {
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
