//! The numbers by which protocols name packets and frames on the wire, as far as analysis reads them.
//!
//! Only numbers, and one question that several readers ask about a frame; its other meanings are worked out by its readers.
//! Frames are written and parsed in squall-http.

use squall_base::record::{FrameFacts, FrameLayer, Way};

/// IP protocols.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Flags of TCP (RFC 9293, section 3.1).
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// Types, flags and settings of HTTP/2's frames (RFC 9113, section 6).
pub(crate) mod http2 {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const RST_STREAM: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    /// In HTTP/3, too (RFC 9114, section 7.2.6).
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const WINDOW_UPDATE: u64 = 0x8;
    pub(crate) const CONTINUATION: u64 = 0x9;
    pub(crate) const END_STREAM: u8 = 0x1;
    /// Of SETTINGS: it acknowledges the peer's.
    pub(crate) const ACK: u8 = 0x1;
    /// A setting (RFC 9113, section 6.5.2).
    pub(crate) const INITIAL_WINDOW_SIZE: u64 = 0x4;
}

/// Types of QUIC's frames (RFC 9000, section 19).
pub(crate) mod quic {
    pub(crate) const ACKS: [u64; 2] = [0x02, 0x03];
    pub(crate) const RESET_STREAM: u64 = 0x04;
    pub(crate) const STOP_SENDING: u64 = 0x05;
    pub(crate) const CRYPTO: u64 = 0x06;
    pub(crate) const STREAM: std::ops::RangeInclusive<u64> = 0x08..=0x0f;
    /// A bit of STREAM's type.
    pub(crate) const FIN: u64 = 0x1;
    pub(crate) const MAX_DATA: u64 = 0x10;
    pub(crate) const MAX_STREAM_DATA: u64 = 0x11;
    pub(crate) const DATA_BLOCKED: u64 = 0x14;
    pub(crate) const STREAM_DATA_BLOCKED: u64 = 0x15;
    pub(crate) const CONNECTION_CLOSE: u64 = 0x1c;
}

/// HTTP/2: whether the windows of a frame limit what the side that recorded it sends.
pub(crate) fn has_own_windows(frame: &FrameFacts) -> bool {
    let is_own = matches!(
        (frame.way, frame.kind),
        (Way::Sent, http2::DATA) | (Way::Received, http2::WINDOW_UPDATE)
    );
    is_own && frame.layer == FrameLayer::Http2
}
