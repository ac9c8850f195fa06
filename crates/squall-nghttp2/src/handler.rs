//! What a session reports to its owner while it reads and writes.
//!
//! The handler only listens. It cannot call the session back, so nghttp2 is never re-entered.

/// The nine bytes at the start of a frame (RFC 9113, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Payload length in bytes.
    pub length_bytes: u32,
    /// The frame's type.
    pub kind: FrameKind,
    /// The frame's flags.
    pub flags: u8,
    /// The stream, 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Whether END_STREAM is set; only DATA and HEADERS have that flag.
    pub const fn ends_stream(self) -> bool {
        matches!(self.kind, FrameKind::DATA | FrameKind::HEADERS) && self.flags & 0x1 != 0
    }
}

/// A frame type by its number (RFC 9113, section 6), including unknown ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// DATA.
    pub const DATA: FrameKind = FrameKind(0x0);
    /// HEADERS.
    pub const HEADERS: FrameKind = FrameKind(0x1);
    /// PRIORITY.
    pub const PRIORITY: FrameKind = FrameKind(0x2);
    /// RST_STREAM.
    pub const RST_STREAM: FrameKind = FrameKind(0x3);
    /// SETTINGS.
    pub const SETTINGS: FrameKind = FrameKind(0x4);
    /// PUSH_PROMISE.
    pub const PUSH_PROMISE: FrameKind = FrameKind(0x5);
    /// PING.
    pub const PING: FrameKind = FrameKind(0x6);
    /// GOAWAY.
    pub const GOAWAY: FrameKind = FrameKind(0x7);
    /// WINDOW_UPDATE.
    pub const WINDOW_UPDATE: FrameKind = FrameKind(0x8);
    /// CONTINUATION.
    pub const CONTINUATION: FrameKind = FrameKind(0x9);
}

/// A complete, valid frame from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedFrame {
    /// A complete header section: HEADERS with its CONTINUATION frames.
    Headers(FrameHeader),
    /// GOAWAY.
    GoAway {
        /// The last stream that the peer may have processed.
        last_stream: u32,
        /// The error code (RFC 9113, section 7).
        code: u32,
    },
    /// Any other frame.
    Other(FrameHeader),
}

/// Whether to go on with a header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldDecision {
    /// Go on.
    Continue,
    /// Ignore the rest, and reset the stream with INTERNAL_ERROR. HPACK can expand a few bytes into many, and nghttp2 does
    /// not limit that: a handler that stores fields has to.
    Refuse,
}

/// Receives the events of a session. Every method is optional.
///
/// A panic in a method stops nghttp2 in an orderly way and resumes in the session's caller.
pub trait Handler {
    /// A frame header arrived; the payload is still to come. Only other engines report it, not [`crate::Session`].
    fn frame_begun(&mut self, _frame: FrameHeader) {}

    /// A header section begins on an open stream.
    fn headers_begun(&mut self, _stream: u32) {}

    /// Whether the handler needs fields other than pseudo-header fields. nghttp2 reports them anyway, but a session that
    /// caches header sections can skip reporting repeated ones.
    fn wants_fields(&self) -> bool {
        true
    }

    /// A header field of a request or response, pseudo-header fields included. Malformed fields are not reported: the
    /// stream is reset, or the connection ends.
    fn header(&mut self, _stream: u32, _name: &[u8], _value: &[u8]) -> FieldDecision {
        FieldDecision::Continue
    }

    /// A piece of a body: as much of a DATA frame as has arrived.
    fn data(&mut self, _stream: u32, _bytes: &[u8]) {}

    /// A frame is complete. Called after the `header` or `data` calls for that frame.
    fn frame_received(&mut self, _frame: ReceivedFrame) {}

    /// A frame violated the protocol, so its stream, or the connection, ends. `reason` is nghttp2's.
    fn frame_refused(&mut self, _frame: FrameHeader, _reason: &'static str) {}

    /// A stream has closed in both directions. `code` is 0 unless it was reset or refused.
    fn stream_closed(&mut self, _stream: u32, _code: u32) {}

    /// We are about to send GOAWAY. A `code` other than 0 means that the peer broke the protocol, as `reason` explains.
    fn goaway_sending(&mut self, _code: u32, _reason: &[u8]) {}
}
