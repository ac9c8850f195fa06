//! The bytes that wait for the socket, and the marks in them.
//!
//! nghttp2 says late that a frame was sent, and "sent" means handed to us. So each message's first and last
//! byte are found by walking over the frames that nghttp2 produced, and kept as offsets of the output
//! byte stream until the socket has taken that many bytes.

use std::collections::VecDeque;

use squall_nghttp2::{Error, FrameKind, Handler, Session};

use crate::frames::{FRAME_HEADER_BYTES, Frame, FrameWalker};

/// About how many bytes are held: enough for one write, little enough that the socket, not this buffer,
/// is where data waits.
const BUFFER_BYTES: usize = 64 * 1024;

/// The largest frame that is produced, as no other size is ever agreed (RFC 9113, section 4.2).
const MAX_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 16 * 1024;

/// How much room there is for more output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// About 64 KiB in all.
    Usual,
    /// As much again, however much is pending: for a GOAWAY that must be seen now.
    Beyond,
}

/// A place in the output that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The first byte of the stream's message.
    First(u32),
    /// Its last byte.
    Last(u32),
}

/// Output that the socket has not taken.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// How many of `bytes` the socket took.
    start: usize,
    /// How many bytes the socket took in all.
    taken: u64,
    walker: FrameWalker,
    marks: Marks,
}

/// The marks that are to come, each with the count of bytes that must be taken for it.
#[derive(Debug, Default)]
struct Marks {
    ahead: VecDeque<(u64, Mark)>,
    /// The stream that ends with a header section of which CONTINUATION frames are still missing.
    ends_with_headers: Option<u32>,
}

impl Output {
    /// For a client.
    pub(super) fn of_client() -> Output {
        Output::walked_by(FrameWalker::of_client())
    }

    /// For a server.
    pub(super) fn of_server() -> Output {
        Output::walked_by(FrameWalker::of_server())
    }

    fn walked_by(walker: FrameWalker) -> Output {
        Output {
            bytes: Vec::new(),
            start: 0,
            taken: 0,
            walker,
            marks: Marks::default(),
        }
    }

    /// The bytes for the socket.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Lets the session produce frames while there is room, and calls `on_last` for each message whose
    /// last frame is among them.
    pub(super) fn pull<H: Handler>(
        &mut self,
        room: Room,
        session: &mut Session<H>,
        mut on_last: impl FnMut(&mut H, u32),
    ) -> Result<(), Error> {
        let limit_bytes = match room {
            Room::Usual => BUFFER_BYTES,
            Room::Beyond => self.pending().len() + BUFFER_BYTES,
        };
        while self.pending().len() + MAX_FRAME_BYTES <= limit_bytes && session.wants_write() {
            self.reclaim();
            let before = self.bytes.len();
            if session.send(&mut self.bytes)? == 0 {
                break;
            }
            self.walker.walk(&self.bytes[before..], |frame| {
                if let Some(stream) = self.marks.note(frame) {
                    on_last(session.handler_mut(), stream);
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

    /// The socket took `n` bytes, at most all; calls `on_mark` for each mark among them.
    pub(super) fn advance(&mut self, n: usize, mut on_mark: impl FnMut(Mark)) {
        let n = n.min(self.pending().len());
        self.start += n;
        self.taken += n as u64;
        while let Some(&(due, mark)) = self.marks.ahead.front()
            && due <= self.taken
        {
            self.marks.ahead.pop_front();
            on_mark(mark);
        }
    }
}

impl Marks {
    /// Notes the marks of a frame; returns its stream if it is the last of a message.
    fn note(&mut self, frame: Frame) -> Option<u32> {
        if frame.kind == FrameKind::HEADERS {
            self.ahead
                .push_back((frame.offset + 1, Mark::First(frame.stream)));
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
        self.ahead
            .push_back((frame.end(), Mark::Last(frame.stream)));
        Some(frame.stream)
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

    #[test]
    fn a_message_lasts_from_its_headers_to_its_end() {
        let mut marks = Marks::default();
        assert_eq!(marks.note(frame(24, 0, FrameKind::SETTINGS, 1)), None);
        assert_eq!(marks.note(frame(33, 10, FrameKind::HEADERS, 4)), None);
        assert_eq!(marks.note(frame(52, 1, FrameKind::DATA, 1)), Some(1));
        assert_eq!(marks.ahead, [(34, Mark::First(1)), (62, Mark::Last(1))]);
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
        assert_eq!(marks.ahead, [(1, Mark::First(1)), (57, Mark::Last(1))]);
    }
}
