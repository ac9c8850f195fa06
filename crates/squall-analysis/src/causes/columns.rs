//! The columns that attribution reads, and row types with only these columns.
//!
//! Each declaration is both the list of columns and the row type, so a column that was not read cannot be used; reading one
//! more column takes one more line here. For causes, frames are read whole, because attribution uses all of their columns.
//! docs/RECORD.md defines the columns; `intake` says what is kept of a row.

use squall_base::projection;
use squall_base::record::{
    Beginning, Direction, ExchangeRecord, Extent, Fate, FrameLayer, FrameRecord, Outcome,
    PacketRecord, PacketRef, RequestRecord, Side, SocketRecord, SocketSample, TcpInfo, Way,
};
use squall_base::{Duration, Time};

projection! {
    /// A row of requests.parquet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RequestCells of row: RequestRecord {
        pub(super) request: u64 = row.request, "request";
        pub(super) intended: Time = row.intended, "intended_ns";
        pub(super) taken_up: Time = row.taken_up, "taken_up_ns";
        pub(super) slot: Option<Time> = row.slot, "slot_ns";
        pub(super) connected: Option<Time> = row.connected, "connected_ns";
        pub(super) secured: Option<Time> = row.secured, "secured_ns";
        pub(super) written_first: Option<Time> = row.written_first, "written_first_ns";
        pub(super) written_last: Option<Time> = row.written_last, "written_last_ns";
        pub(super) end: Time = row.end, "end_ns";
        pub(super) connection: Option<u32> = row.connection, "connection";
        pub(super) stream: Option<u64> = row.stream, "stream";
        pub(super) outcome: Outcome = row.outcome, "outcome";
    }
}

projection! {
    /// A row of packets.parquet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PacketCells of row: PacketRecord {
        pub(super) hop: u8 = row.hop, "hop";
        pub(super) index: u64 = row.index, "index";
        pub(super) direction: Direction = row.direction, "direction";
        pub(super) flow: u32 = row.flow, "flow";
        pub(super) length: u16 = row.length, "length_bytes";
        pub(super) protocol: u8 = row.protocol, "protocol";
        pub(super) seq: u32 = row.seq, "seq";
        pub(super) ack: u32 = row.ack, "ack";
        pub(super) payload_len: u16 = row.payload_len, "payload_bytes";
        pub(super) tcp_flags: u8 = row.tcp_flags, "tcp_flags";
        pub(super) window_bytes: u32 = row.window_bytes, "window_bytes";
        pub(super) arrived: Time = row.arrived, "arrived_ns";
        pub(super) queueing: Duration = row.queueing, "queueing_ns";
        pub(super) served: Option<Time> = row.served, "served_ns";
        pub(super) planned: Option<Time> = row.planned, "planned_ns";
        pub(super) released: Option<Time> = row.released, "released_ns";
        pub(super) fate: Fate = row.fate, "fate";
        pub(super) is_corrupted: bool = row.is_corrupted, "corrupted";
        pub(super) is_copy: bool = row.is_copy, "copy";
    }
}

impl PacketCells {
    /// The packet's identity among the packets of all links.
    #[inline]
    pub(super) fn name(&self) -> PacketRef {
        PacketRef {
            hop: self.hop,
            direction: self.direction,
            index: self.index,
        }
    }

    /// When the packet reached its receiver undamaged. A corrupted packet fails TCP's or UDP's checksum, or its AEAD.
    #[inline]
    pub(super) fn got_through(&self) -> Option<Time> {
        self.released.filter(|_| !self.is_corrupted)
    }
}

projection! {
    /// A row of frames.parquet, for the time of a QUIC connection's first frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FirstFrameCells of row: FrameRecord {
        pub(super) time: Time = row.time, "time_ns";
        pub(super) hop: u8 = row.hop, "hop";
        pub(super) side: Side = row.side, "side";
        pub(super) connection: u32 = row.connection, "connection";
        way: Way = row.frame.way, "way";
        layer: FrameLayer = row.frame.layer, "layer";
    }
}

impl FirstFrameCells {
    /// Whether this row can be the first frame that a side sent on a QUIC connection.
    pub(super) fn is_first(&self) -> bool {
        self.way == Way::Sent && self.layer == FrameLayer::Quic
    }
}

projection! {
    /// A row of exchanges.parquet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExchangeCells of row: ExchangeRecord {
        pub(super) hop: u8 = row.hop, "hop";
        pub(super) side: Side = row.side, "side";
        pub(super) connection: u32 = row.connection, "connection";
        pub(super) stream: u64 = row.stream, "stream";
        pub(super) request: Option<u64> = row.request, "request";
        pub(super) beginning: Beginning = row.beginning,
            "offered_ns", "slot_ns", "opened_ns", "connected_ns", "secured_ns";
        pub(super) request_first: Option<Time> = row.request_first, "request_first_ns";
        pub(super) request_last: Option<Time> = row.request_last, "request_last_ns";
        pub(super) response_first: Option<Time> = row.response_first, "response_first_ns";
        pub(super) response_last: Option<Time> = row.response_last, "response_last_ns";
        pub(super) request_extent: Option<Extent> = row.request_extent,
            "request_start", "request_end", "request_wire_start", "request_wire_end",
            "request_record_first", "request_record_last";
        pub(super) response_extent: Option<Extent> = row.response_extent,
            "response_start", "response_end", "response_wire_start", "response_wire_end",
            "response_record_first", "response_record_last";
    }
}

/// Declares [`SocketCells`] with these fields of the kernel's TCP_INFO, each `None` if the kernel did not know it or the
/// socket is QUIC's.
macro_rules! socket_cells {
    ($($field:ident: $column:literal;)+) => {
        projection! {
            /// A row of sockets.parquet.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct SocketCells of row: SocketRecord {
                pub(super) time: Time = row.time, "time_ns";
                pub(super) hop: u8 = row.hop, "hop";
                pub(super) side: Side = row.side, "side";
                pub(super) connection: u32 = row.connection, "connection";
                pub(super) quic_cwnd_bytes: Option<u64> = quic_cwnd_bytes(row),
                    "quic_recv", "quic_cwnd_bytes";
                $(
                    pub(super) $field: Option<u64> =
                        tcp_info(row, const { TcpInfo::index_of($column) }), $column;
                )+
            }
        }
    };
}

socket_cells! {
    rto_us: "tcpi_rto";
    total_rto: "tcpi_total_rto";
    cwnd: "tcpi_snd_cwnd";
    unsent_bytes: "tcpi_notsent_bytes";
    buffer_limited_us: "tcpi_sndbuf_limited";
    pace: "tcpi_pacing_rate";
    most_pace: "tcpi_max_pacing_rate";
}

fn tcp_info(row: &SocketRecord, place: usize) -> Option<u64> {
    match &row.sample {
        SocketSample::Tcp(info) => info.value(place),
        SocketSample::Quic(_) => None,
    }
}

fn quic_cwnd_bytes(row: &SocketRecord) -> Option<u64> {
    match &row.sample {
        SocketSample::Tcp(_) => None,
        SocketSample::Quic(path) => Some(path.cwnd_bytes),
    }
}
