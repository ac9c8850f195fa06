//! Limits the frames of a peer that cost processor time and carry nothing: WINDOW_UPDATE by one byte, PING, PRIORITY,
//! GOAWAY, ALTSVC, unknown types, and DATA that is mostly padding.
//!
//! It has no clock. Frames are paid for by useful traffic: messages and DATA frames that we send, and body bytes in
//! either direction. Limits on single kinds of frames (resets, acknowledgements, CONTINUATION) are the sessions' own.

use crate::frames::{Frame, FrameKind};

/// How many frames are allowed in advance. `squall serve` and `squall proxy` close a connection without progress after
/// 75 s by default, and 10,000 frames in that time are 133 a second; no peer has reason to send more than one or two. A
/// peer that sends PING every 10 s while its stream is silent takes more than a day to use them up.
const IN_ADVANCE: u64 = 10_000;

/// Frames earned by each message that we send: browsers add WINDOW_UPDATE, PRIORITY_UPDATE and SETTINGS to a request, at
/// most a handful of them.
const PER_MESSAGE: u64 = 100;

/// Frames earned by each DATA frame that we send. A receiver may update two windows for each, as Application Load
/// Balancer does. Envoy also allows ten WINDOW_UPDATE frames for each DATA frame.
const PER_DATA_FRAME: u64 = 10;

/// Bytes of bodies, in either direction, that earn a frame. A receiver that reads a large DATA frame in small pieces may
/// update its windows after each. nginx lets a peer send eight bytes for each byte of content.
const BYTES_PER_FRAME: u64 = 8;

const FLAG_PADDED: u8 = 0x8;

/// What we have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentContent {
    pub(super) messages: u64,
    pub(super) data_frames: u64,
    /// Bytes of DATA.
    pub(super) data_bytes: u64,
}

/// How many more frames the peer may send.
#[derive(Debug)]
pub(super) struct FrameAllowance {
    left: u64,
    /// Bytes that have not earned a frame yet.
    bytes: u64,
    /// The DATA frame being received has brought bytes of a body.
    has_content: bool,
}

impl FrameAllowance {
    pub(super) fn new() -> FrameAllowance {
        FrameAllowance {
            left: IN_ADVANCE,
            bytes: 0,
            has_content: false,
        }
    }

    /// Counts a frame of the peer; false if it is one too many.
    #[must_use]
    pub(super) fn take_frame(&mut self) -> bool {
        let is_allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }

    /// Counts bytes of a body in a DATA frame of the peer, without padding. A frame without padding that brings at least
    /// one byte costs nothing: a conversation may consist of such frames.
    pub(super) fn receive_data(&mut self, frame: Frame, body_bytes: u64, ends_frame: bool) {
        self.earn_bytes(body_bytes);
        self.has_content |= body_bytes > 0;
        if ends_frame {
            let has_content = std::mem::take(&mut self.has_content);
            let is_plain = frame.kind == FrameKind::DATA && frame.flags & FLAG_PADDED == 0;
            self.earn(u64::from(has_content && is_plain));
        }
    }

    /// Counts what we sent.
    pub(super) fn send(&mut self, sent: SentContent) {
        self.earn(sent.messages.saturating_mul(PER_MESSAGE));
        self.earn(sent.data_frames.saturating_mul(PER_DATA_FRAME));
        self.earn_bytes(sent.data_bytes);
    }

    fn earn_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.earn(self.bytes / BYTES_PER_FRAME);
        self.bytes %= BYTES_PER_FRAME;
    }

    fn earn(&mut self, frames: u64) {
        self.left = self.left.saturating_add(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(length_bytes: u32, flags: u8) -> Frame {
        Frame {
            offset: 0,
            length_bytes,
            kind: FrameKind::DATA,
            flags,
            stream: 1,
        }
    }

    /// How many more frames without content the allowance accepts.
    fn left(mut allowance: FrameAllowance) -> u64 {
        let mut frames = 0;
        while allowance.take_frame() {
            frames += 1;
        }
        frames
    }

    #[test]
    fn frames_without_content_are_limited() {
        assert_eq!(left(FrameAllowance::new()), IN_ADVANCE);
    }

    #[test]
    fn bodies_and_messages_earn_frames() {
        let mut allowance = FrameAllowance::new();
        allowance.send(SentContent {
            messages: 2,
            data_frames: 3,
            data_bytes: 4 * BYTES_PER_FRAME + 1,
        });
        assert_eq!(left(allowance), IN_ADVANCE + 200 + 30 + 4);
    }

    #[test]
    fn a_byte_of_data_pays_for_its_frame_but_not_for_padding() {
        // 800 bytes earn 100 frames.
        for (flags, expected) in [(0, IN_ADVANCE + 100), (FLAG_PADDED, IN_ADVANCE - 700)] {
            let mut allowance = FrameAllowance::new();
            for _ in 0..800 {
                assert!(allowance.take_frame());
                // The body's byte and the end of the frame may arrive in pieces.
                allowance.receive_data(data(100, flags), 1, false);
                allowance.receive_data(data(100, flags), 0, true);
            }
            assert_eq!(left(allowance), expected);
        }
    }
}
