//! The records of a trial as findings take them in: row by row, keeping only what a detector reads.
//!
//! Rows of one table come in the order of the table, tables in any order. Nothing is judged here.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{
    ExchangeRecord, FrameRecord, Outcome, PacketRecord, Phase, RequestRecord, Side, SocketRecord,
};

use super::flows::Flows;
use super::frames::Frames;
use super::sockets::Sockets;

/// One connection as one side of a hop sees it: hop, side, number.
pub(super) type Place = (u8, Side, u32);

/// A request, without what no detector reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
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
    pub(super) opened: bool,
    pub(super) outcome: Outcome,
    pub(super) request_body_bytes: u64,
    pub(super) response_body_bytes: u64,
    /// The machine had no port left for its connection.
    pub(super) lacked_port: bool,
}

/// How records of TLS carried a message: only of large ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) hop: u8,
    pub(super) request: Option<u64>,
    /// The client sent it.
    pub(super) is_request: bool,
    pub(super) wire_bytes: u64,
    pub(super) records: u64,
}

/// Messages below this say nothing about the size of records: one record holds 16 KiB (RFC 8446, section 5.1).
const LARGE_MESSAGE_BYTES: u64 = 16 * 1024;

/// What the kernel says of a connection without a port to begin from (connect(2), EADDRNOTAVAIL).
const NO_PORT: &str = "Cannot assign requested address";

/// The records of one trial.
#[derive(Debug, Default)]
pub struct Records {
    pub(super) requests: Vec<Row>,
    pub(super) recorded: Vec<Recorded>,
    pub(super) frames: BTreeMap<Place, Frames>,
    pub(super) sockets: BTreeMap<Place, Sockets>,
    pub(super) flows: Flows,
}

impl Records {
    /// Nothing yet.
    pub fn new() -> Records {
        Records::default()
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: &RequestRecord) {
        let says_no_port = |error: &String| error.contains(NO_PORT);
        self.requests.push(Row {
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
            opened: row.opened_connection,
            outcome: row.outcome,
            request_body_bytes: row.request_body_bytes,
            response_body_bytes: row.response_body_bytes,
            lacked_port: row.error.as_ref().is_some_and(says_no_port),
        });
    }

    /// Takes a row of exchanges.parquet, of either side.
    pub fn add_exchange(&mut self, row: &ExchangeRecord) {
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
                self.recorded.push(Recorded {
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
        let place = (row.hop, row.side, row.connection);
        let frames = self.frames.entry(place).or_default();
        frames.add(row.time, &row.frame);
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: &PacketRecord) {
        self.flows.add(row);
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: &SocketRecord) {
        let place = (row.hop, row.side, row.connection);
        self.sockets.entry(place).or_default().add(&row.sample);
    }
}
