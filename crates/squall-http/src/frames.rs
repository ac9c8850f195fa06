//! Recognises HTTP/2 frames in a byte stream that arrives in arbitrary pieces.
//!
//! It reads the nine bytes of each frame header (RFC 9113, section 4.1) and skips the payload. It validates nothing and
//! keeps nothing, so it works for both directions, and garbage only produces garbage frames. The connections use it on
//! their own output; a recorder can use it on any tapped byte stream.
//!
//! [`FrameTap`] adds the facts of each frame and the resulting windows, for both directions of a connection.
//! [`Inflater`] decodes the header sections of one direction.

mod tap;
mod windows;

pub use squall_nghttp2::{FrameKind, Inflater};
pub use tap::{FrameTap, TapStep};

/// The client preface (RFC 9113, section 3.4).
pub const CLIENT_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header in bytes.
pub const FRAME_HEADER_BYTES: usize = 9;

const FLAG_END_STREAM: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;

/// The position of a frame and the content of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Offset of its first byte in the byte stream, counting the client preface.
    pub offset: u64,
    /// Payload length in bytes, without the frame header.
    pub length_bytes: u32,
    /// Its type.
    pub kind: FrameKind,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 for the connection.
    pub stream: u32,
}

impl Frame {
    /// Offset of the byte after the frame's last one.
    pub const fn end(&self) -> u64 {
        self.offset + FRAME_HEADER_BYTES as u64 + self.length_bytes as u64
    }

    /// The frame's length in bytes, header and payload.
    const fn len(&self) -> usize {
        FRAME_HEADER_BYTES + self.length_bytes as usize
    }

    /// Whether the frame ends its sender's side of the stream.
    pub const fn ends_stream(&self) -> bool {
        matches!(self.kind, FrameKind::DATA | FrameKind::HEADERS)
            && self.flags & FLAG_END_STREAM != 0
    }

    /// Whether the frame completes a header section.
    pub const fn ends_headers(&self) -> bool {
        matches!(self.kind, FrameKind::HEADERS | FrameKind::CONTINUATION)
            && self.flags & FLAG_END_HEADERS != 0
    }

    fn parse(offset: u64, header: [u8; FRAME_HEADER_BYTES]) -> Frame {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = header;
        Frame {
            offset,
            length_bytes: u32::from_be_bytes([0, l0, l1, l2]),
            kind: FrameKind(kind),
            flags,
            // The highest bit is reserved and ignored.
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }
}

/// Walks a byte stream from frame to frame.
#[derive(Clone, Debug)]
pub struct FrameWalker {
    /// Offset of the next byte.
    offset: u64,
    /// Bytes to skip before the next frame header.
    skip: u64,
    header: [u8; FRAME_HEADER_BYTES],
    header_len: usize,
}

/// One step of a [`FrameWalker`]: within a frame header, a payload or the preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes covered; at least 1 unless the input was empty.
    pub len: usize,
    /// The frame whose header this step completes.
    pub begun: Option<Frame>,
}

impl FrameWalker {
    /// A walker for the client's direction, in which `offset` bytes of HTTP/1.1 precede the preface.
    pub fn of_client(offset: u64) -> FrameWalker {
        FrameWalker::new(offset, CLIENT_PREFACE.len() as u64)
    }

    /// A walker for the server's direction, in which `offset` bytes of HTTP/1.1 precede the first frame.
    pub fn of_server(offset: u64) -> FrameWalker {
        FrameWalker::new(offset, 0)
    }

    fn new(offset: u64, skip: u64) -> FrameWalker {
        FrameWalker {
            offset,
            skip,
            header: [0; FRAME_HEADER_BYTES],
            header_len: 0,
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next piece of the byte stream and calls `on_frame` for each frame whose header it completes. The
    /// payload may still be outstanding: compare [`Frame::end`] with [`FrameWalker::offset`].
    pub fn walk(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(Frame)) {
        while !bytes.is_empty() {
            if let Some(frame) = self.step_over(bytes) {
                bytes = &bytes[frame.len()..];
                on_frame(frame);
                continue;
            }
            let step = self.step(bytes);
            bytes = &bytes[step.len..];
            if let Some(frame) = step.begun {
                on_frame(frame);
            }
        }
    }

    /// Takes the whole frame at the start of `bytes`, if it is complete. This is the usual case and takes one step.
    pub fn step_over(&mut self, bytes: &[u8]) -> Option<Frame> {
        let header = bytes.first_chunk()?;
        if self.skip > 0 || self.header_len > 0 {
            return None;
        }
        let frame = Frame::parse(self.offset, *header);
        if bytes.len() < frame.len() {
            return None;
        }
        self.offset = frame.end();
        Some(frame)
    }

    /// Takes bytes up to the end of the frame header or payload they start in.
    pub fn step(&mut self, bytes: &[u8]) -> Step {
        if self.skip > 0 {
            let len = self.skip.min(bytes.len() as u64);
            self.skip -= len;
            self.offset += len;
            return Step {
                len: len as usize,
                begun: None,
            };
        }
        // Usually the header is in one piece.
        if self.header_len == 0
            && let Some(header) = bytes.first_chunk()
        {
            return Step {
                len: FRAME_HEADER_BYTES,
                begun: Some(self.begin(*header)),
            };
        }
        let len = bytes.len().min(FRAME_HEADER_BYTES - self.header_len);
        self.header[self.header_len..][..len].copy_from_slice(&bytes[..len]);
        self.header_len += len;
        if self.header_len < FRAME_HEADER_BYTES {
            self.offset += len as u64;
            return Step { len, begun: None };
        }
        self.offset -= (FRAME_HEADER_BYTES - len) as u64;
        self.header_len = 0;
        let begun = Some(self.begin(self.header));
        Step { len, begun }
    }

    /// Begins the frame with this header, which is at the current offset.
    fn begin(&mut self, header: [u8; FRAME_HEADER_BYTES]) -> Frame {
        let frame = Frame::parse(self.offset, header);
        self.offset += FRAME_HEADER_BYTES as u64;
        self.skip = u64::from(frame.length_bytes);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(mut walker: FrameWalker, pieces: &[&[u8]]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for piece in pieces {
            walker.walk(piece, |frame| frames.push(frame));
        }
        frames
    }

    #[test]
    fn frames_are_the_same_however_the_stream_is_split() {
        let mut stream = CLIENT_PREFACE.to_vec();
        stream.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        stream.extend([0, 0, 2, 0, 1, 0x80, 0, 0, 5, b'h', b'i']);
        let whole = walk(FrameWalker::of_client(0), &[&stream]);
        let settings = Frame {
            offset: 24,
            length_bytes: 0,
            kind: FrameKind::SETTINGS,
            flags: 0,
            stream: 0,
        };
        let data = Frame {
            offset: 33,
            length_bytes: 2,
            kind: FrameKind::DATA,
            flags: 1,
            stream: 5,
        };
        assert_eq!(whole, [settings, data]);
        assert_eq!(data.end(), stream.len() as u64);
        assert!(data.ends_stream() && !settings.ends_stream());
        for at in 0..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                walk(FrameWalker::of_client(0), &[left, right]),
                whole,
                "split at {at}"
            );
        }
    }
}
