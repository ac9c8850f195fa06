//! The records of a trial as findings take them in: row by row, keeping only what a detector reads.
//!
//! The rows of each table come in its order; the tables may come in any order. Nothing is judged here.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{
    ExchangeRecord, FrameRecord, Outcome, PacketRecord, Phase, RequestRecord, Side, SocketRecord,
};

use super::flows::Flows;
use super::frames::ConnectionFrames;
use super::sockets::Sockets;

/// One connection as one side of a hop sees it: hop, side, number.
pub(super) type ConnectionKey = (u8, Side, u32);

/// A request, without the fields that no detector reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestRow {
    pub(super) request: u64,
    pub(super) is_measured: bool,
    pub(super) intended: Time,
    pub(super) taken_up: Time,
    pub(super) slot: Option<Time>,
    pub(super) connected: Option<Time>,
    pub(super) secured: Option<Time>,
    pub(super) end: Time,
    pub(super) connection: Option<u32>,
    pub(super) stream: Option<u64>,
    pub(super) has_opened: bool,
    pub(super) outcome: Outcome,
    pub(super) request_body_bytes: u64,
    pub(super) response_body_bytes: u64,
    /// Whether the machine had no port left for its connection.
    pub(super) has_no_port: bool,
}

/// How TLS records carried a message; only for large messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageRecords {
    pub(super) hop: u8,
    pub(super) request: Option<u64>,
    /// Whether the client sent the message.
    pub(super) is_request: bool,
    pub(super) wire_bytes: u64,
    pub(super) records: u64,
}

/// Messages below this say nothing about the size of records: one record holds 16 KiB (RFC 8446, section 5.1).
const LARGE_MESSAGE_BYTES: u64 = 16 * 1024;

/// Error texts of a connection that found no local port: the kernel's for TCP (connect(2), EADDRNOTAVAIL), and our own
/// client's for TCP and QUIC alike (squall-linux `SocketError::NoLocalPort`; bind(2) reports EADDRINUSE).
const NO_PORT: [&str; 2] = ["Cannot assign requested address", "no local port is free"];

/// A message that one side wrote in several calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageWrite {
    pub(super) first: Time,
    pub(super) last: Time,
    pub(super) request: Option<u64>,
}

/// How many bytes of a proxy's header fields differ in each request, in HPACK's code for strings: `traceparent` (55
/// characters) and `x-request-id` (32 to 36).
const IDS_BYTES: u64 = 75;

/// The records of one trial.
#[derive(Debug, Default)]
pub struct Records {
    pub(super) requests: Vec<RequestRow>,
    pub(super) message_records: Vec<MessageRecords>,
    /// Messages that took a while to write, by the side that wrote them, in the order in which they ended.
    pub(super) writes: BTreeMap<ConnectionKey, Vec<MessageWrite>>,
    pub(super) frames: BTreeMap<ConnectionKey, ConnectionFrames>,
    pub(super) sockets: BTreeMap<ConnectionKey, Sockets>,
    /// The packets of each link, by its hop.
    pub(super) flows: BTreeMap<u8, Flows>,
}

impl Records {
    /// No rows so far.
    pub fn new() -> Records {
        Records::default()
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: &RequestRecord) {
        let says_no_port = |error: &String| NO_PORT.iter().any(|words| error.contains(words));
        self.requests.push(RequestRow {
            request: row.request,
            is_measured: row.phase == Phase::Measure,
            intended: row.intended,
            taken_up: row.taken_up,
            slot: row.slot,
            connected: row.connected,
            secured: row.secured,
            end: row.end,
            connection: row.connection,
            stream: row.stream,
            has_opened: row.opened_connection,
            outcome: row.outcome,
            request_body_bytes: row.request_body_bytes,
            response_body_bytes: row.response_body_bytes,
            has_no_port: row.error.as_ref().is_some_and(says_no_port),
        });
    }

    /// Takes a row of exchanges.parquet, of either side.
    pub fn add_exchange(&mut self, row: &ExchangeRecord) {
        let times = match row.side {
            Side::Client => row.request_first.zip(row.request_last),
            Side::Server => row.response_first.zip(row.response_last),
        };
        if let Some((first, last)) = times.filter(|(first, last)| first < last) {
            let key = (row.hop, row.side, row.connection);
            self.writes.entry(key).or_default().push(MessageWrite {
                first,
                last,
                request: row.request,
            });
        }
        if row.side != Side::Client {
            return;
        }
        let extents = [(row.request_extent, true), (row.response_extent, false)];
        for (extent, is_request) in extents {
            let Some(extent) = extent else { continue };
            let wire = extent.wire_start.zip(extent.wire_end);
            let records = extent.record_first.zip(extent.record_last);
            let (Some((from, to)), Some((first, last))) = (wire, records) else {
                continue;
            };
            let wire_bytes = to.saturating_sub(from);
            if wire_bytes >= LARGE_MESSAGE_BYTES {
                self.message_records.push(MessageRecords {
                    hop: row.hop,
                    request: row.request,
                    is_request,
                    wire_bytes,
                    records: last.saturating_sub(first) + 1,
                });
            }
        }
    }

    /// Takes a row of frames.parquet, of either side.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        let key = (row.hop, row.side, row.connection);
        let frames = self.frames.entry(key).or_default();
        if row.hop > 1 && row.side == Side::Client {
            frames.unique_header_bytes = IDS_BYTES;
        }
        frames.add(row.time, &row.frame);
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: &PacketRecord) {
        self.flows.entry(row.hop).or_default().add(row);
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: &SocketRecord) {
        let key = (row.hop, row.side, row.connection);
        self.sockets.entry(key).or_default().add(row);
    }
}
