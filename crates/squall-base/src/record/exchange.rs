//! The record of one exchange: a request and its response as one side of one hop saw them, with the bytes that carried
//! them.
//!
//! Ranges are `[start, end)`. A side's byte streams are counted from 0 at the connection's first byte, separately for
//! each direction. Bytes within a range may belong to other exchanges of the connection.

use crate::plan::Protocol;
use crate::side::Side;
use crate::time::Time;

/// Where a message lies in the byte stream of its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The offset of its first byte: in HTTP's bytes (over TLS, the plaintext); for HTTP/3, in its stream.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
    /// The offset in TCP's payload at which the carrier of its first byte begins: `start` in cleartext, the beginning
    /// of the TLS record over TLS. `None` for HTTP/3.
    pub wire_start: Option<u64>,
    /// The offset in TCP's payload after the carrier of its last byte.
    pub wire_end: Option<u64>,
    /// The TLS record with its first byte, by number among the records with application data, from 0.
    pub record_first: Option<u64>,
    /// The TLS record with its last byte.
    pub record_last: Option<u64>,
}

/// The steps that led the client side of a hop to send a request. All are `None` for squall's own client, whose steps are
/// in requests.parquet. A server side has only `offered`, and another program's client has what its packets
/// show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// When the request was due to be sent: its head had arrived from the previous hop. Not visible for a real program.
    pub offered: Option<Time>,
    /// When a connection was assigned to it, or one was being opened for it. Not visible for a real program.
    pub slot: Option<Time>,
    /// When opening its connection began.
    pub opened: Option<Time>,
    /// When its connection was connected.
    pub connected: Option<Time>,
    /// When the TLS or QUIC handshake of its connection completed.
    pub secured: Option<Time>,
}

/// One exchange. Times and extents of events that never happened are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// The hop of the path, from 1 at the client.
    pub hop: u8,
    /// The side that recorded it.
    pub side: Side,
    /// The connection, by its number on that side.
    pub connection: u32,
    /// The stream: HTTP/2's and HTTP/3's id; for HTTP/1.1, the ordinal of the exchange.
    pub stream: u64,
    /// The protocol that was actually spoken.
    pub protocol: Protocol,
    /// The request, by its place in the schedule: the client's own, or the one that `traceparent` names.
    pub request: Option<u64>,
    /// The steps before it was sent, for the client side of a later hop.
    pub beginning: Beginning,
    /// When the first byte of the request was written or read.
    pub request_first: Option<Time>,
    /// When its last byte was written or read.
    pub request_last: Option<Time>,
    /// When the first byte of the response was written or read.
    pub response_first: Option<Time>,
    /// When its last byte was written or read.
    pub response_last: Option<Time>,
    /// The extent of the request.
    pub request_extent: Option<Extent>,
    /// The extent of the response.
    pub response_extent: Option<Extent>,
    /// Bytes of the request's body that were written or read.
    pub request_body_bytes: u64,
    /// Bytes of the response's body that were written or read.
    pub response_body_bytes: u64,
    /// The status of the response.
    pub status: Option<u16>,
    /// The error code with which either side reset the stream (RFC 9113, section 7; RFC 9114, section 8.1).
    pub reset: Option<u64>,
}

impl ExchangeRecord {
    /// An exchange on the first hop. Nothing of it has been seen yet.
    pub fn unseen(side: Side, connection: u32, stream: u64, protocol: Protocol) -> ExchangeRecord {
        ExchangeRecord {
            hop: 1,
            side,
            connection,
            stream,
            protocol,
            request: None,
            beginning: Beginning::default(),
            request_first: None,
            request_last: None,
            response_first: None,
            response_last: None,
            request_extent: None,
            response_extent: None,
            request_body_bytes: 0,
            response_body_bytes: 0,
            status: None,
            reset: None,
        }
    }

    /// Converts all of its times to count from `epoch` instead of their clock's origin.
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
