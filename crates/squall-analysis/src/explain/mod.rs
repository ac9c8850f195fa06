//! Explains one request, or one moment: takes a trial's records and returns plain structures.
//!
//! The causes of a request are derived again (`causes`), this time with every stage, packet and window behind them, so
//! that a reader can check them. `request` explains one request; `near` explains one request of a long trial without
//! reading the whole trial; `moment` explains a point in time. Nothing here reads a file or draws a line: squall-report's
//! `explain` writes the text.

mod moment;
mod near;
mod request;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Serialize;
pub use squall_base::record::PacketRef as PacketName;
use squall_base::record::{
    DropRecord, ExchangeRecord, Fate, FrameRecord, PacketRecord, Phase, Repair, RequestRecord,
    SocketRecord,
};
use squall_base::{Duration, Time};

pub use crate::causes::CauseTime;
use crate::causes::{PathInputs, PathShape, bare_drop};
pub use moment::{
    CauseCount, ConnectionState, LinkDirectionState, Moment, RequestInFlight, SideState,
    TransportSample, moment,
};
pub(crate) use near::follow_near;
pub use near::{NearRecords, explain_near};
pub(crate) use request::follow_requests;
pub use request::{Blocker, DropImpact, Explanation, GapCauses, HopTime, Mark, explain};

/// The tables of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// requests.parquet.
    pub requests: &'a [RequestRecord],
    /// exchanges.parquet.
    pub exchanges: &'a [ExchangeRecord],
    /// frames.parquet.
    pub frames: &'a [FrameRecord],
    /// packets.parquet.
    pub packets: &'a [PacketRecord],
    /// sockets.parquet.
    pub sockets: &'a [SocketRecord],
}

impl Tables<'_> {
    /// All rows, as inputs for causes over this path.
    fn inputs(&self, path: &PathShape) -> PathInputs {
        let mut inputs = PathInputs::new(path.clone());
        self.requests.iter().for_each(|row| inputs.add_request(row));
        self.packets.iter().for_each(|row| inputs.add_packet(row));
        self.exchanges
            .iter()
            .for_each(|row| inputs.add_exchange(row));
        self.frames.iter().for_each(|row| inputs.add_frame(row));
        self.sockets.iter().for_each(|row| inputs.add_socket(row));
        inputs
    }
}

/// The `count` measured requests with the longest response times, the longest first, whatever their outcome. Among equals,
/// the earlier comes first.
pub fn slowest(requests: &[RequestRecord], count: usize) -> Vec<&RequestRecord> {
    let measured = requests.iter().filter(|row| row.phase == Phase::Measure);
    let mut slowest: Vec<&RequestRecord> = measured.collect();
    slowest.sort_by_key(|row| (Reverse(row.response_time()), row.request));
    slowest.truncate(count);
    slowest
}

/// A packet that was dropped, or arrived damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DroppedPacket {
    /// The packet.
    #[serde(flatten)]
    pub packet: PacketName,
    /// When it reached the link, in nanoseconds from the trial's epoch.
    #[serde(rename = "dropped_at_ns")]
    pub dropped_at: Time,
    /// What happened to it.
    pub fate: Fate,
    /// The connection of the hop's client; `None` if it belongs to no connection.
    pub connection: Option<u32>,
    /// QUIC: the stream of its first stream bytes.
    pub stream: Option<u64>,
    /// The first byte that it carried; `None` if it carried no bytes.
    pub start: Option<u64>,
    /// One past the last byte.
    pub end: Option<u64>,
    /// The requests whose bytes it carried.
    pub carried: Vec<u64>,
    /// How its bytes were retransmitted.
    #[serde(serialize_with = "crate::causes::words::repair")]
    pub repair: Repair,
    /// When the last of them finally arrived.
    #[serde(rename = "repaired_at_ns")]
    pub repaired_at: Option<Time>,
    /// The packet of the same direction that brought the last of them.
    pub repaired_by: Option<u64>,
    /// How many requests it delayed.
    pub victims: usize,
    /// The total delay of all those requests.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
}

impl DroppedPacket {
    fn of(row: &DropRecord) -> DroppedPacket {
        let victims: BTreeSet<u64> = row.victims.iter().map(|victim| victim.request).collect();
        let delays = row.victims.iter().map(|victim| victim.delay);
        DroppedPacket {
            packet: row.packet,
            dropped_at: row.dropped_at,
            fate: row.fate,
            connection: row.connection,
            stream: row.stream,
            start: row.start,
            end: row.end,
            carried: row.carried.clone(),
            repair: row.repair,
            repaired_at: row.repaired_at,
            repaired_by: row.repaired_by,
            victims: victims.len(),
            delay: delays.fold(Duration::ZERO, |sum, delay| sum + delay),
        }
    }

    /// For a packet of which no more is known.
    fn of_packet(packet: &PacketRecord) -> DroppedPacket {
        let name = PacketName {
            hop: packet.hop,
            direction: packet.direction,
            index: packet.index,
        };
        DroppedPacket::of(&DropRecord {
            repair: Repair::Unknown,
            ..bare_drop(name, packet.arrived, packet.fate, None)
        })
    }
}
