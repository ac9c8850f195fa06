//! The record of one exchange: a request and its response as one side of one hop saw them, with the bytes that
//! carried them.
//!
//! Ranges are `[start, end)`. A side's byte streams are counted from 0 at the connection's first byte, each
//! direction by itself; what lies between the ends of a range may belong to other exchanges of the connection.

use crate::plan::Protocol;
use crate::side::Side;
use crate::time::Time;

/// Where a message lies in its direction's byte stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset of its first byte: in HTTP's bytes (over TLS, the plaintext); for HTTP/3, in its stream.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Offset in TCP's payload of the first byte of what carries its first byte: the same as `start` in the clear, the
    /// beginning of a TLS record over TLS. `None` for HTTP/3.
    pub wire_start: Option<u64>,
    /// Offset in TCP's payload after the last byte of what carries its last byte.
    pub wire_end: Option<u64>,
    /// The TLS record with its first byte, by number among those with application data, from 0.
    pub record_first: Option<u64>,
    /// The TLS record with its last byte.
    pub record_last: Option<u64>,
}

/// How the client side of a hop came to send a request: what requests.parquet says of the path's own client. All `None`
/// for that client and for server sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// When it was to be sent: its head had come from the hop before. Nobody sees that of a real program.
    pub offered: Option<Time>,
    /// When a connection was its own, or one was being opened for it. Nobody sees that of a real program.
    pub slot: Option<Time>,
    /// When its connection was begun.
    pub opened: Option<Time>,
    /// When its connection was connected.
    pub connected: Option<Time>,
    /// When the handshake of TLS or QUIC of its connection was done.
    pub secured: Option<Time>,
}

/// One exchange. Times and extents that never came are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// The hop of the path, from 1 at the client.
    pub hop: u8,
    /// Which side recorded it.
    pub side: Side,
    /// Which connection of that side.
    pub connection: u32,
    /// The stream: HTTP/2's and HTTP/3's id, HTTP/1.1's ordinal.
    pub stream: u64,
    /// The protocol that was really spoken.
    pub protocol: Protocol,
    /// The request, by its place in the schedule: the client's own, or the one that its `traceparent` names.
    pub request: Option<u64>,
    /// How the client side of a later hop came to send it.
    pub beginning: Beginning,
    /// When the first byte of the request was written or read.
    pub request_first: Option<Time>,
    /// When its last byte was.
    pub request_last: Option<Time>,
    /// When the first byte of the response was.
    pub response_first: Option<Time>,
    /// When its last byte was.
    pub response_last: Option<Time>,
    /// Where the request lies.
    pub request_extent: Option<Extent>,
    /// Where the response lies.
    pub response_extent: Option<Extent>,
    /// Bytes of the request's body that were written or read.
    pub request_body_bytes: u64,
    /// Bytes of the response's body that were.
    pub response_body_bytes: u64,
    /// The status of the response.
    pub status: Option<u16>,
    /// The error code with which the stream was reset (RFC 9113, section 7; RFC 9114, section 8.1), by whomever.
    pub reset: Option<u64>,
}

impl ExchangeRecord {
    /// Counts all of its times from `epoch` instead of their clock's origin.
    pub fn count_from(&mut self, epoch: Time) {
        let times = [
            &mut self.request_first,
            &mut self.request_last,
            &mut self.response_first,
            &mut self.response_last,
            &mut self.beginning.offered,
            &mut self.beginning.slot,
            &mut self.beginning.opened,
            &mut self.beginning.connected,
            &mut self.beginning.secured,
        ];
        for time in times.into_iter().flatten() {
            *time = time.relative_to(epoch);
        }
    }
}
