//! What a session tells its owner while it reads and writes.
//!
//! The handler only listens: it has no way to call the session back, so nghttp2 is never re-entered.

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
    /// Whether END_STREAM is set: only DATA and HEADERS have that flag.
    pub const fn ends_stream(self) -> bool {
        matches!(self.kind, FrameKind::DATA | FrameKind::HEADERS) && self.flags & 0x1 != 0
    }
}

/// A frame type by its number (RFC 9113, section 6), known to us or not.
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

    /// The name in capitals as RFC 9113 writes it, or `None` for an extension.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            FrameKind::DATA => "DATA",
            FrameKind::HEADERS => "HEADERS",
            FrameKind::PRIORITY => "PRIORITY",
            FrameKind::RST_STREAM => "RST_STREAM",
            FrameKind::SETTINGS => "SETTINGS",
            FrameKind::PUSH_PROMISE => "PUSH_PROMISE",
            FrameKind::PING => "PING",
            FrameKind::GOAWAY => "GOAWAY",
            FrameKind::WINDOW_UPDATE => "WINDOW_UPDATE",
            FrameKind::CONTINUATION => "CONTINUATION",
            _ => return None,
        })
    }
}

/// A whole frame that arrived and was valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A header section is complete: HEADERS with its CONTINUATION frames.
    Headers(FrameHeader),
    /// GOAWAY.
    GoAway {
        /// The last stream that the peer may have processed.
        last_stream: u32,
        /// Why (RFC 9113, section 7).
        code: u32,
    },
    /// Any other frame.
    Other(FrameHeader),
}

/// Whether a header section is heard to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    GoOn,
    /// It is not, and its stream is reset with INTERNAL_ERROR. HPACK makes much of few bytes, and nghttp2 does not
    /// limit it: whoever keeps fields has to.
    Refuse,
}

/// Hears what happens in a session. Every method may be left out.
///
/// A panic in a method stops nghttp2 in an orderly way and goes on in the caller of the session.
pub trait Handler {
    /// The header of a frame arrived; its payload has yet to come.
    fn frame_begun(&mut self, _frame: FrameHeader) {}

    /// A header section of a stream that is open begins.
    fn headers_begun(&mut self, _stream: u32) {}

    /// Whether it hears of fields other than pseudo-header fields. nghttp2 tells them anyway; a session that remembers
    /// sections saves telling the same ones again and again.
    fn wants_fields(&self) -> bool {
        true
    }

    /// A header field of a request or response, pseudo-header fields included.
    fn header(&mut self, _stream: u32, _name: &[u8], _value: &[u8]) -> Verdict {
        Verdict::GoOn
    }

    /// A piece of a body, as much of a DATA frame as has arrived.
    fn data(&mut self, _stream: u32, _bytes: &[u8]) {}

    /// A frame is complete. Called after the `header` or `data` calls of that frame.
    fn frame_received(&mut self, _frame: Received) {}

    /// A frame came that breaks the protocol: its stream, or the connection, ends. `reason` is nghttp2's.
    fn frame_refused(&mut self, _frame: FrameHeader, _reason: &'static str) {}

    /// A stream is closed in both directions. `code` is 0 unless it was reset or refused.
    fn stream_closed(&mut self, _stream: u32, _code: u32) {}

    /// We are about to send GOAWAY. With a `code` other than 0 the peer broke the protocol, as `reason`
    /// explains.
    fn goaway_sending(&mut self, _code: u32, _reason: &[u8]) {}
}
