//! The records of a trial as attribution takes them in: one by one, keeping only what it needs.
//!
//! Nothing is joined here; that is `connection`'s. Rows of one table are taken in the order of the table, tables in any.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{
    Direction, ExchangeRecord, Extent, Fate, FrameLayer, FrameRecord, Outcome, PacketRecord,
    PacketRef, RequestRecord, Side, SocketRecord, SocketSample, Way,
};

use super::message::Bytes;
use super::path::Path;
use super::repair::Timeouts;
use super::timeline::ServerMarks;
use super::walk::{NEVER, Span};
use super::windows::Windows;
use super::{quic, tcp};

/// IP protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;

const SYN: u8 = 0x02;

/// Frames of HTTP/2 that are part of a message: DATA, HEADERS, CONTINUATION (RFC 9113, section 6).
const OF_MESSAGES: [u64; 3] = [0x0, 0x1, 0x9];
/// Header of a frame (RFC 9113, section 4.1).
const FRAME_HEADER_BYTES: u64 = 9;

/// The marks of a request that its timeline is made of, in nanoseconds where they may be missing.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    pub(super) request: u64,
    pub(super) intended: Time,
    pub(super) taken_up: Time,
    pub(super) end: Time,
    pub(super) slot: Option<u64>,
    pub(super) connected: Option<u64>,
    pub(super) secured: Option<u64>,
    pub(super) written_first: Option<u64>,
    pub(super) written_last: Option<u64>,
    pub(super) connection: Option<u32>,
    pub(super) stream: Option<u64>,
    pub(super) outcome: Outcome,
}

/// Where a request and its response lie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extents {
    request: Packed,
    response: Packed,
}

/// An extent or none, in half of the space: there are millions.
#[derive(Clone, Copy, Debug)]
struct Packed {
    start: u64,
    end: u64,
    wire: [u64; 2],
    records: [u32; 2],
}

impl Default for Packed {
    fn default() -> Packed {
        Packed::new(None)
    }
}

impl Packed {
    fn new(extent: Option<Extent>) -> Packed {
        let wire = |offset: Option<u64>| offset.unwrap_or(NEVER);
        let record = |number: Option<u64>| {
            let number = number.and_then(|number| u32::try_from(number).ok());
            number.unwrap_or(u32::MAX)
        };
        match extent {
            None => Packed {
                start: NEVER,
                end: NEVER,
                wire: [NEVER; 2],
                records: [u32::MAX; 2],
            },
            Some(extent) => Packed {
                start: extent.start,
                end: extent.end,
                wire: [extent.wire_start, extent.wire_end].map(wire),
                records: [extent.record_first, extent.record_last].map(record),
            },
        }
    }

    fn extent(&self) -> Option<Extent> {
        let [wire_start, wire_end] = self.wire.map(|offset| (offset != NEVER).then_some(offset));
        let number = |number: u32| (number != u32::MAX).then_some(u64::from(number));
        let [record_first, record_last] = self.records.map(number);
        (self.start != NEVER).then_some(Extent {
            start: self.start,
            end: self.end,
            wire_start,
            wire_end,
            record_first,
            record_last,
        })
    }
}

impl Extents {
    fn new(request: Option<Extent>, response: Option<Extent>) -> Extents {
        Extents {
            request: Packed::new(request),
            response: Packed::new(response),
        }
    }

    /// Where the message that went `direction` lies.
    pub(super) fn of(&self, direction: Direction) -> Option<Extent> {
        match direction {
            Direction::Up => self.request.extent(),
            Direction::Down => self.response.extent(),
        }
    }
}

/// What the server recorded of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerRow {
    connection: u32,
    stream: u64,
    pub(super) marks: ServerMarks,
    pub(super) extents: Extents,
}

/// What one side of a connection has recorded of its frames.
#[derive(Debug, Default)]
pub(super) struct SideLog {
    pub(super) windows: Windows,
    pub(super) quic: quic::SideFrames,
    /// HTTP/2: the bytes of each stream's frames that this side sent, neighbours joined.
    pub(super) frames: BTreeMap<u64, Vec<Bytes>>,
    /// The least retransmission timeout that the kernel told of.
    pub(super) least_rto: Option<u64>,
    /// The retransmission timeouts that it counted.
    pub(super) timeouts: Timeouts,
}

/// A dropped packet without bytes that anybody waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idler {
    pub(super) packet: PacketRef,
    pub(super) flow: u32,
    pub(super) arrived: u64,
    pub(super) fate: Fate,
}

/// The link's packets, by flow.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) tcp: BTreeMap<u32, tcp::Flow>,
    pub(super) udp: BTreeMap<u32, quic::Flow>,
}

/// All records of a trial, or of a part of one in which every connection is whole: see [`attribute`].
///
/// [`attribute`]: super::attribute
#[derive(Debug, Default)]
pub struct Inputs {
    pub(super) requests: Vec<Marks>,
    /// The client's, of each request.
    client: Vec<(u64, Extents)>,
    server: Vec<ServerRow>,
    pub(super) sides: [BTreeMap<u32, SideLog>; 2],
    quic_windows: [Option<(u64, u64)>; 2],
    pub(super) path: Path,
    pub(super) flows: Flows,
    pub(super) idlers: Vec<Idler>,
}

impl Inputs {
    /// Nothing yet.
    pub fn new() -> Inputs {
        Inputs::default()
    }

    /// QUIC: with which limits `sender` began, in bytes: what its peer's transport parameters allow on each stream and
    /// on the connection (RFC 9000, section 18.2). They are in no record; without them the first wait for a window counts
    /// as one for the congestion window. Call it before the frames.
    pub fn begin_quic_windows(&mut self, sender: Side, stream_bytes: u64, connection_bytes: u64) {
        self.quic_windows[sender as usize] = Some((stream_bytes, connection_bytes));
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: &RequestRecord) {
        let nanos = |time: Option<Time>| time.map(Time::as_nanos);
        self.requests.push(Marks {
            request: row.request,
            intended: row.intended,
            taken_up: row.taken_up,
            end: row.end,
            slot: nanos(row.slot),
            connected: nanos(row.connected),
            secured: nanos(row.secured),
            written_first: nanos(row.written_first),
            written_last: nanos(row.written_last),
            connection: row.connection,
            stream: row.stream,
            outcome: row.outcome,
        });
    }

    /// Takes a row of exchanges.parquet, of either side.
    pub fn add_exchange(&mut self, row: &ExchangeRecord) {
        let extents = Extents::new(row.request_extent, row.response_extent);
        match (row.side, row.request) {
            (Side::Client, Some(request)) => {
                self.client.push((request, extents));
            }
            (Side::Client, None) => {}
            (Side::Server, _) => {
                let marks = ServerMarks {
                    request_last: row.request_last.map(Time::as_nanos),
                    response_first: row.response_first.map(Time::as_nanos),
                    response_last: row.response_last.map(Time::as_nanos),
                };
                self.server.push(ServerRow {
                    connection: row.connection,
                    stream: row.stream,
                    marks,
                    extents,
                });
            }
        }
    }

    /// After the last row: puts in order what is looked up.
    pub(super) fn sort(&mut self) {
        self.path.sort();
        self.client.sort_by_key(|(request, _)| *request);
        self.server.sort_by_key(|row| (row.connection, row.stream));
    }

    /// What the client recorded of a request.
    pub(super) fn client_row(&self, request: u64) -> Option<&Extents> {
        let place = self.client.binary_search_by_key(&request, |(of, _)| *of);
        place.ok().map(|place| &self.client[place].1)
    }

    /// What the server recorded of a stream of its connection.
    pub(super) fn server_row(&self, connection: u32, stream: u64) -> Option<&ServerRow> {
        let key = |row: &ServerRow| (row.connection, row.stream);
        let place = self.server.binary_search_by_key(&(connection, stream), key);
        place.ok().map(|place| &self.server[place])
    }

    /// Takes a row of frames.parquet, of either side.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        let side = self.sides[row.side as usize]
            .entry(row.connection)
            .or_default();
        let (time, frame) = (row.time.as_nanos(), &row.frame);
        if frame.layer == FrameLayer::Quic
            && let Some((stream, connection)) = self.quic_windows[row.side as usize]
        {
            side.windows.begin_quic(stream, connection);
        }
        side.windows.add(time, frame);
        side.quic.add(time, frame);
        let is_of_message = frame.layer == FrameLayer::Http2
            && frame.way == Way::Sent
            && OF_MESSAGES.contains(&frame.kind);
        if is_of_message && let (Some(stream), Some(from)) = (frame.stream, frame.offset) {
            let to = from
                .saturating_add(FRAME_HEADER_BYTES)
                .saturating_add(frame.length);
            let frames = side.frames.entry(stream).or_default();
            match frames.last_mut() {
                Some(last) if last.to == from => last.to = to,
                _ => frames.push(Span { from, to }),
            }
        }
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: &PacketRecord) {
        self.path.add(row);
        let is_idle = row.protocol != UDP && row.payload_len == 0 && row.tcp_flags & SYN == 0;
        if is_idle && (row.fate.is_drop() || row.fate == Fate::WriteError) {
            self.idlers.push(Idler {
                packet: PacketRef {
                    direction: row.direction,
                    index: row.index,
                },
                flow: row.flow,
                arrived: row.arrived.as_nanos(),
                fate: row.fate,
            });
        }
        match row.protocol {
            TCP => self.flows.tcp.entry(row.flow).or_default().add(row),
            UDP => self.flows.udp.entry(row.flow).or_default().add(row),
            _ => {}
        }
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: &SocketRecord) {
        let side = self.sides[row.side as usize]
            .entry(row.connection)
            .or_default();
        match &row.sample {
            SocketSample::Tcp(info) => {
                if let Some(micros) = info.get("tcpi_rto") {
                    let rto = micros.saturating_mul(1_000);
                    side.least_rto = Some(side.least_rto.map_or(rto, |least| least.min(rto)));
                }
                if let Some(total) = info.get("tcpi_total_rto") {
                    side.timeouts.add(row.time.as_nanos(), total);
                }
            }
            SocketSample::Quic(path) => {
                side.quic.add_window(row.time.as_nanos(), path.cwnd_bytes);
            }
        }
    }
}
