//! The record of one frame of HTTP/2, HTTP/3 or QUIC, as one side of a hop sent or received it.
//!
//! Frames are recorded where they meet the socket; docs/METHOD.md explains the times.

use crate::side::Side;
use crate::time::Time;

crate::words! {
    /// The direction of something, seen from the side that recorded it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Way {
        /// To the peer.
        Sent = "sent",
        /// From the peer.
        Received = "received",
    }
}

impl Way {
    /// The opposite direction.
    pub const fn opposite(self) -> Way {
        match self {
            Way::Sent => Way::Received,
            Way::Received => Way::Sent,
        }
    }
}

/// One value per direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerWay<T> {
    /// The value for what was sent.
    pub sent: T,
    /// The value for what was received.
    pub received: T,
}

impl<T> PerWay<T> {
    /// Two values.
    pub const fn new(sent: T, received: T) -> PerWay<T> {
        PerWay { sent, received }
    }

    /// The value of one direction.
    pub const fn of(&self, way: Way) -> &T {
        match way {
            Way::Sent => &self.sent,
            Way::Received => &self.received,
        }
    }

    /// The value of one direction, to be changed.
    pub const fn of_mut(&mut self, way: Way) -> &mut T {
        match way {
            Way::Sent => &mut self.sent,
            Way::Received => &mut self.received,
        }
    }
}

crate::words! {
    /// The protocol layer of a frame: each layer numbers its types separately.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FrameLayer {
        /// HTTP/2 (RFC 9113, section 6).
        Http2 = "http2",
        /// HTTP/3 (RFC 9114, section 7.2).
        Http3 = "http3",
        /// QUIC (RFC 9000, section 19).
        Quic = "quic",
    }
}

/// The content of a frame, without the time and the side that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// Whether it was sent or received.
    pub way: Way,
    /// Its layer.
    pub layer: FrameLayer,
    /// Its type, as numbered by the layer.
    pub kind: u64,
    /// Its flags; 0 where the layer has none.
    pub flags: u8,
    /// Its stream; 0 for HTTP/2's connection, `None` for QUIC frames without a stream.
    pub stream: Option<u64>,
    /// HTTP/2: the offset of its first byte in the byte stream of its direction. HTTP/3 and QUIC's STREAM: the offset
    /// of its first byte in its stream.
    pub offset: Option<u64>,
    /// Bytes of its payload.
    pub length: u64,
    /// QUIC: the number of the packet that carried it.
    pub packet: Option<u64>,
    /// Its content as one number: the increment of WINDOW_UPDATE, the error code of RST_STREAM and GOAWAY, the limit of
    /// MAX_DATA and similar frames.
    pub value: Option<u64>,
    /// HTTP/2: what the sender of DATA may still send on this stream after this frame, for DATA, WINDOW_UPDATE and
    /// RST_STREAM frames of a stream.
    pub stream_window: Option<i64>,
    /// HTTP/2: what the sender of DATA may still send on the connection after this frame, for DATA and WINDOW_UPDATE.
    pub connection_window: Option<i64>,
}

impl FrameFacts {
    /// A frame without flags and without anything that only some frames have.
    pub const fn new(way: Way, layer: FrameLayer, kind: u64, length: u64) -> FrameFacts {
        FrameFacts {
            way,
            layer,
            kind,
            flags: 0,
            stream: None,
            offset: None,
            length,
            packet: None,
            value: None,
            stream_window: None,
            connection_window: None,
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// When the socket had accepted its last byte, or when its header was read.
    pub time: Time,
    /// The hop of the path, from 1 at the client.
    pub hop: u8,
    /// The side that recorded it.
    pub side: Side,
    /// The connection, by its number on that side, from 0 in the order of opening or accepting.
    pub connection: u32,
    /// The frame.
    pub frame: FrameFacts,
}

impl FrameRecord {
    /// Converts its time to count from `epoch` instead of its clock's origin.
    pub fn count_from(&mut self, epoch: Time) {
        self.time = self.time.relative_to(epoch);
    }
}

/// The name of a frame type in capitals, as in its RFC; `None` for an extension.
pub const fn frame_name(layer: FrameLayer, kind: u64) -> Option<&'static str> {
    match layer {
        FrameLayer::Http2 => http2_name(kind),
        FrameLayer::Http3 => http3_name(kind),
        FrameLayer::Quic => quic_name(kind),
    }
}

const fn http2_name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x0 => "DATA",
        0x1 => "HEADERS",
        0x2 => "PRIORITY",
        0x3 => "RST_STREAM",
        0x4 => "SETTINGS",
        0x5 => "PUSH_PROMISE",
        0x6 => "PING",
        0x7 => "GOAWAY",
        0x8 => "WINDOW_UPDATE",
        0x9 => "CONTINUATION",
        0xa => "ALTSVC",
        0xc => "ORIGIN",
        0x10 => "PRIORITY_UPDATE",
        _ => return None,
    })
}

const fn http3_name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x0 => "DATA",
        0x1 => "HEADERS",
        0x3 => "CANCEL_PUSH",
        0x4 => "SETTINGS",
        0x5 => "PUSH_PROMISE",
        0x7 => "GOAWAY",
        0xd => "MAX_PUSH_ID",
        0xf0700 => "PRIORITY_UPDATE",
        _ => return None,
    })
}

const fn quic_name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x00 => "PADDING",
        0x01 => "PING",
        0x02 | 0x03 => "ACK",
        0x04 => "RESET_STREAM",
        0x05 => "STOP_SENDING",
        0x06 => "CRYPTO",
        0x07 => "NEW_TOKEN",
        0x08..=0x0f => "STREAM",
        0x10 => "MAX_DATA",
        0x11 => "MAX_STREAM_DATA",
        0x12 | 0x13 => "MAX_STREAMS",
        0x14 => "DATA_BLOCKED",
        0x15 => "STREAM_DATA_BLOCKED",
        0x16 | 0x17 => "STREAMS_BLOCKED",
        0x18 => "NEW_CONNECTION_ID",
        0x19 => "RETIRE_CONNECTION_ID",
        0x1a => "PATH_CHALLENGE",
        0x1b => "PATH_RESPONSE",
        0x1c | 0x1d => "CONNECTION_CLOSE",
        0x1e => "HANDSHAKE_DONE",
        0x30 | 0x31 => "DATAGRAM",
        _ => return None,
    })
}
