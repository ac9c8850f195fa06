//! Takes in the records of a trial for attribution: one by one, keeping only what it needs, by connection and packed.
//!
//! Nothing is joined here; `connection` does that. The rows of each table come in its order; the tables may come in any
//! order. `packed` says how rows are kept; `requests` and `request_marks`, `exchanges`, `frames`, `tcp` and `quic` say
//! what is kept of them.

use squall_base::Time;
use squall_base::record::{Fate, FrameRecord, PacketRef, Side};

use super::columns::{ExchangeCells, PacketCells, RequestCells, SocketCells};
use super::exchanges::Exchanges;
use super::frames::{self, SideRecords};
use super::near::NearConnections;
use super::numbered::NumberMap;
use super::path::Path;
use super::request_marks::RequestMarks;
use super::requests::Requests;
use super::sending::Account;
use super::{quic, tcp};
use crate::wire::{SYN, TCP, UDP};

/// A dropped packet that carried no bytes for which a request could wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct BareDrop {
    pub(super) packet: PacketRef,
    pub(super) flow: u32,
    pub(super) arrived: Time,
    pub(super) fate: Fate,
}

/// The packets of the hop's link, by flow.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) tcp: NumberMap<tcp::PackedFlow>,
    pub(super) udp: NumberMap<quic::PackedFlow>,
}

/// All records of a trial, or of a part of one in which every connection is whole: see [`attribute`].
///
/// [`attribute`]: super::attribute
#[derive(Debug, Default)]
pub struct Inputs {
    pub(super) requests: Requests,
    pub(super) exchanges: Exchanges,
    /// By side, and by that side's connection numbers.
    sides: [NumberMap<frames::PackedSideRecords>; 2],
    pub(super) quic_windows: [Option<(u64, u64)>; 2],
    pub(super) path: Path,
    pub(super) flows: Flows,
    pub(super) bare_drops: Vec<BareDrop>,
    /// Sides whose rows were derived from packets: their marks are the times of bytes on the wire, and both sides have the
    /// client's connection numbers. By contrast, our own stations record when their socket took the bytes, and our own
    /// server numbers connections in the order in which it accepts them.
    pub(super) is_observed: [bool; 2],
    /// Sides whose TCP is paced by its congestion control.
    pub(super) paces: [bool; 2],
    /// Whether packets were captured at one point between both sides. If so, the times at both ends are estimates, each
    /// flow is one connection, and both sides have the flow's number for it. Otherwise the order of connections on the
    /// link determines their numbers.
    pub(super) is_captured: bool,
    /// The only connections whose records are taken; `None` takes those of all connections.
    pub(super) near: Option<NearConnections>,
}

impl Inputs {
    /// Inputs without records.
    pub fn new() -> Inputs {
        Inputs::default()
    }

    /// QUIC: sets the limits with which `sender` began, in bytes: what its peer's transport parameters allow on each stream
    /// and on the connection (RFC 9000, section 18.2). No record has them; without them, the first wait for a window counts
    /// as one for the congestion window. Call it before adding frames.
    pub fn begin_quic_windows(&mut self, sender: Side, stream_bytes: u64, connection_bytes: u64) {
        self.quic_windows[sender as usize] = Some((stream_bytes, connection_bytes));
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: impl Into<RequestCells>) {
        self.add_marks(RequestMarks::of(&row.into()));
    }

    pub(super) fn add_marks(&mut self, marks: RequestMarks) {
        self.requests.add(marks);
    }

    /// Takes a row of exchanges.parquet, of either side.
    pub fn add_exchange(&mut self, row: impl Into<ExchangeCells>) {
        self.take_exchange(&row.into());
    }

    pub(super) fn take_exchange(&mut self, row: &ExchangeCells) {
        if let Some(near) = &mut self.near {
            near.add_offsets(row);
        }
        if self.takes(row.side, row.connection) {
            self.exchanges.add(row);
        }
    }

    /// Whether a side's records of its connection with this number are taken.
    fn takes(&self, side: Side, connection: u32) -> bool {
        let near = self.near.as_ref();
        near.is_none_or(|near| near.has(side, connection))
    }

    /// Sorts the rows that are searched. Call this after the last row.
    pub(super) fn sort(&mut self) {
        self.path.sort();
    }

    /// The times at which a side's QUIC connections sent their first frames, and its numbers for them, in the order of these
    /// times.
    pub(super) fn first_sent(&mut self, side: Side) -> Vec<(u64, u32)> {
        let logs = self.sides[side as usize].iter_mut();
        let times = logs.filter_map(|(number, log)| Some((log.first_sent?, number)));
        let mut times: Vec<(u64, u32)> = times.collect();
        times.sort_unstable();
        times
    }

    fn side(&mut self, side: Side, connection: u32) -> &mut frames::PackedSideRecords {
        self.sides[side as usize].of(connection)
    }

    /// Takes out what a side recorded of a connection, by its number for it.
    pub(super) fn take_side(&mut self, side: Side, number: u32) -> Option<SideRecords> {
        let log = self.sides[side as usize].remove(number)?;
        Some(log.unpack(self.quic_windows[side as usize]))
    }

    /// Takes a row of frames.parquet, of either side.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        let frame = &row.frame;
        if frames::is_wanted(frame.way, frame.layer, frame.kind)
            && self.takes(row.side, row.connection)
        {
            self.side(row.side, row.connection).add(row);
        }
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: impl Into<PacketCells>) {
        let row = row.into();
        self.path.add(&row);
        if let Some(near) = &self.near
            && !near.has_flow(row.flow)
        {
            return;
        }
        let is_bare = row.protocol != UDP && row.payload_len == 0 && row.tcp_flags & SYN == 0;
        if is_bare && (row.fate.is_drop() || row.fate == Fate::WriteError) {
            self.bare_drops.push(BareDrop {
                packet: row.name(),
                flow: row.flow,
                arrived: row.arrived,
                fate: row.fate,
            });
        }
        match row.protocol {
            TCP => self.flows.tcp.of(row.flow).add(&row),
            UDP => self.flows.udp.of(row.flow).add(&row),
            _ => {}
        }
    }

    /// Takes a row of packets.parquet only to learn when connections began.
    pub(super) fn add_beginning(&mut self, row: &PacketCells) {
        match row.protocol {
            TCP => self.flows.tcp.of(row.flow).add_beginning(row),
            UDP => self.flows.udp.of(row.flow).add_beginning(row),
            _ => {}
        }
    }

    /// Takes a frame that a side sent over QUIC, only to learn when its connection sent its first one.
    pub(super) fn add_first_sent(&mut self, side: Side, connection: u32, time: u64) {
        self.side(side, connection).add_first_sent(time);
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: impl Into<SocketCells>) {
        let row = row.into();
        if !self.takes(row.side, row.connection) {
            return;
        }
        let paces = self.paces[row.side as usize];
        let side = &mut self.side(row.side, row.connection).side;
        if let Some(micros) = row.rto_us {
            let rto = micros.saturating_mul(1_000);
            side.least_rto = Some(side.least_rto.map_or(rto, |least| least.min(rto)));
        }
        if let Some(total) = row.total_rto {
            side.timeouts.add(row.time.as_nanos(), total);
        }
        if let Some(bytes) = row.quic_cwnd_bytes {
            side.quic.add_window(row.time.as_nanos(), bytes);
        } else {
            side.accounts.push(account(&row, paces));
        }
    }
}

/// What a TCP socket reported about itself. It is paced if its congestion control paces, or if a maximum pace was set.
fn account(row: &SocketCells, paces: bool) -> Account {
    let pace = match row.most_pace {
        Some(most) => Some(row.pace.map_or(most, |pace| pace.min(most))),
        None => row.pace.filter(|_| paces),
    };
    Account {
        time: row.time.as_nanos(),
        cwnd: row.cwnd,
        unsent_bytes: row.unsent_bytes,
        buffer_limited: row.buffer_limited_us.unwrap_or(0).saturating_mul(1_000),
        pace,
    }
}
