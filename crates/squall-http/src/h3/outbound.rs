//! What one stream has to send: pieces waiting for room in quiche's buffer, and the frames they form.
//!
//! quiche accepts only what the congestion window and the peer's windows will soon let through, so bytes wait here.

use std::collections::VecDeque;

use bytes::Bytes;
use squall_base::record::{FrameFacts, FrameLayer, Way};

use super::head;
use super::pieces::Edge;
use super::wire::{self, DATA};
use crate::message::{Body, Trailers};

/// The sending half of a stream.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// How many bytes quiche has taken.
    taken_bytes: u64,
    /// Whether nothing follows the waiting bytes.
    is_ended: bool,
    /// Whether the waiting bytes are a streamed body's, which were copied.
    is_streamed: bool,
    /// Whether the stream is in the connection's queue for its turn.
    pub(super) is_queued: bool,
    /// Whether the stream's first byte was sent.
    pub(super) has_begun: bool,
    /// The stream's frames whose last byte has not been sent, if frames are wanted.
    frames: VecDeque<FrameFacts>,
    logs_frames: bool,
}

/// A piece for quiche.
pub(super) struct Portion {
    pub(super) bytes: Bytes,
    /// Which end of the message the portion is, if any.
    pub(super) edge: Option<Edge>,
}

impl Outbound {
    /// A stream with nothing to send yet; keeps the facts of its frames if `frames` asks for them.
    pub(super) fn new(frames: Frames) -> Outbound {
        Outbound {
            logs_frames: frames == Frames::Logged,
            ..Outbound::default()
        }
    }

    /// The stream's total length, as far as it is known.
    pub(super) fn end(&self) -> u64 {
        self.taken_bytes + self.waiting_bytes as u64
    }

    /// Adds bytes without a frame around them.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.waiting_bytes += bytes.len();
        if !bytes.is_empty() {
            self.waiting.push_back(bytes);
        }
    }

    /// Adds a complete frame; `value` goes into its facts.
    pub(super) fn push_frame(&mut self, frame: Bytes, value: Option<u64>) {
        if let Some((kind, first)) = wire::varint(&frame)
            && let Some((length, _)) = wire::varint(&frame[first..])
        {
            self.log(kind, length, value);
        }
        self.push(frame);
    }

    /// Adds a DATA frame.
    pub(super) fn push_data(&mut self, body: Bytes) {
        let length = body.len() as u64;
        self.log(DATA, length, None);
        self.push(wire::frame_header(DATA, length).into());
        self.push(body);
    }

    /// Adds a message: all of it, or only its head if the body is streamed.
    pub(super) fn push_message(&mut self, head: Bytes, body: &Body) {
        self.push_frame(head, None);
        if let Body::Whole(bytes) = body {
            if !bytes.is_empty() {
                self.push_data(bytes.clone());
            }
            self.end_here();
        }
    }

    /// Adds as much of a streamed body as there is room for if at most `most` bytes may wait, and returns how much.
    pub(super) fn push_some(&mut self, bytes: &[u8], most: usize) -> usize {
        let n = bytes.len().min(self.room(most));
        if n > 0 {
            self.is_streamed = true;
            self.push_data(Bytes::copy_from_slice(&bytes[..n]));
        }
        n
    }

    /// How much of a streamed body could be taken now if at most `most` bytes may wait.
    pub(super) fn room(&self, most: usize) -> usize {
        if self.is_ended {
            0
        } else {
            most.saturating_sub(self.waiting_bytes)
        }
    }

    /// The bytes that wait in memory of their own: those of a streamed body.
    pub(super) fn held_bytes(&self) -> usize {
        if self.is_streamed {
            self.waiting_bytes
        } else {
            0
        }
    }

    /// Adds trailers and ends the message.
    pub(super) fn push_trailers(&mut self, trailers: &Trailers) {
        if !self.is_ended && !trailers.fields().is_empty() {
            self.push_frame(head::encode(trailers.pairs()), None);
        }
        self.end_here();
    }

    /// Ends the message. If quiche has already taken everything, an empty DATA frame carries the end of the stream,
    /// because quiche does not report when it sends an end on its own.
    pub(super) fn end_here(&mut self) {
        if self.waiting.is_empty() && !self.is_ended {
            self.push_data(Bytes::new());
        }
        self.is_ended = true;
    }

    /// Whether quiche has taken everything available so far.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes at most `most` bytes, at least 1; the last byte of the message is a separate portion.
    pub(super) fn take(&mut self, most: usize) -> Option<Portion> {
        let front = self.waiting.front_mut()?;
        let len = front.len();
        let mut n = most.clamp(1, len);
        let is_tail = self.waiting.len() == 1 && self.is_ended;
        let front = self.waiting.front_mut()?;
        if is_tail && n == len && len > 1 {
            n -= 1;
        }
        let bytes = front.split_to(n);
        if front.is_empty() {
            self.waiting.pop_front();
        }
        let edge = match (self.taken_bytes, self.waiting.is_empty() && self.is_ended) {
            (_, true) => Some(Edge::Last),
            (0, false) => Some(Edge::First),
            _ => None,
        };
        self.waiting_bytes -= n;
        self.taken_bytes += n as u64;
        Some(Portion { bytes, edge })
    }

    fn log(&mut self, kind: u64, length: u64, value: Option<u64>) {
        if self.logs_frames {
            self.frames.push_back(FrameFacts {
                offset: Some(self.end()),
                value,
                ..FrameFacts::new(Way::Sent, FrameLayer::Http3, kind, length)
            });
        }
    }

    /// Takes the next frame that is complete once the stream was sent up to `end`.
    pub(super) fn sent_frame(&mut self, end: u64) -> Option<FrameFacts> {
        let frame = self.frames.front()?;
        let start = frame.offset.unwrap_or(0);
        let header = wire::frame_header(frame.kind, frame.length).len() as u64;
        if start + header + frame.length > end {
            return None;
        }
        self.frames.pop_front()
    }
}

/// Whether the facts of frames are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    Ignored,
    Logged,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_is_a_separate_portion() {
        let mut out = Outbound::new(Frames::Logged);
        out.push_frame(wire::frame(wire::HEADERS, b"head"), None);
        out.push_data(Bytes::from_static(b"body"));
        out.end_here();
        assert_eq!(out.end(), 12);
        let mut taken = Vec::new();
        while let Some(portion) = out.take(5) {
            taken.push((portion.bytes.len(), portion.edge));
        }
        assert_eq!(
            taken,
            [
                (5, Some(Edge::First)),
                (1, None),
                (2, None),
                (3, None),
                (1, Some(Edge::Last))
            ]
        );
        assert_eq!(out.sent_frame(5), None);
        assert_eq!(
            out.sent_frame(6).map(|f| (f.kind, f.offset)),
            Some((1, Some(0)))
        );
        assert_eq!(
            out.sent_frame(12).map(|f| (f.kind, f.offset)),
            Some((0, Some(6)))
        );
    }

    #[test]
    fn a_late_end_is_sent_as_an_empty_data_frame() {
        let mut out = Outbound::new(Frames::Ignored);
        out.push_frame(wire::frame(wire::HEADERS, b"head"), None);
        while out.take(100).is_some() {}
        assert_eq!(out.room(100), 100);
        out.end_here();
        assert_eq!((out.end(), out.room(100)), (8, 0));
        assert_eq!(out.take(100).map(|p| p.edge), Some(None));
        assert_eq!(out.take(100).map(|p| p.edge), Some(Some(Edge::Last)));
    }
}
