//! Writes the packets of a capture's connections as rows of packets.parquet.
//!
//! A row has what was seen: the packet's header, when it passed the capture point, and its connection, in place of the
//! flow. It counts as having arrived and been delivered at that one time; what happened to it beyond the capture point
//! is not recorded here. Packets that belong to no connection have no row.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use squall_base::Duration;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_observe::{ConnectionRecord, ObservedPacket, TcpHeader, packet_headers};
use squall_record::PacketWriter;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Rows per write.
const ROWS_A_CHUNK: usize = 4096;

pub(super) struct PacketTable<'a> {
    writer: PacketWriter,
    rows: Vec<PacketRecord>,
    connections: BTreeMap<u32, Flow<'a>>,
    /// Number of packets so far, including those of no connection.
    count: u64,
}

/// A connection, and what its packets have shown so far.
struct Flow<'a> {
    connection: &'a ConnectionRecord,
    /// The shifts of the SYNs' window scale options, by direction.
    shifts: [Option<u8>; 2],
    /// Number of packets by direction and class.
    counts: [[u32; PacketClass::ALL.len()]; 2],
}

impl Flow<'_> {
    /// The receive window in bytes. It is scaled if both SYNs had the option, and never in a SYN (RFC 7323, section
    /// 2.2).
    fn window_bytes(&mut self, direction: Direction, tcp: &TcpHeader) -> u32 {
        let window = u32::from(tcp.window);
        let place = direction as usize;
        if tcp.flags & SYN != 0 {
            self.shifts[place] = tcp.window_scale;
            return window;
        }
        match self.shifts {
            [Some(up), Some(down)] => window << [up, down][place],
            _ => window,
        }
    }

    fn class_index(&mut self, direction: Direction, class: PacketClass) -> u32 {
        let count = &mut self.counts[direction as usize][class as usize];
        *count += 1;
        *count - 1
    }
}

impl<'a> PacketTable<'a> {
    pub(super) fn create(folder: &Path, connections: &'a [ConnectionRecord]) -> Result<Self> {
        let flow = |connection: &'a ConnectionRecord| Flow {
            connection,
            shifts: [None; 2],
            counts: Default::default(),
        };
        let flows = connections.iter().map(|it| (it.connection, flow(it)));
        Ok(PacketTable {
            writer: PacketWriter::create(folder.join("packets.parquet"))?,
            rows: Vec::with_capacity(ROWS_A_CHUNK),
            connections: flows.collect(),
            count: 0,
        })
    }

    /// Adds the next packet, in time order, with the number of its connection.
    pub(super) fn add(
        &mut self,
        packet: &ObservedPacket<'_>,
        connection: Option<u32>,
    ) -> Result<()> {
        let index = self.count;
        self.count += 1;
        let flow = connection.and_then(|number| self.connections.get_mut(&number));
        self.rows
            .extend(flow.and_then(|flow| row(flow, index, packet)));
        if self.rows.len() == ROWS_A_CHUNK {
            self.writer.append(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.writer.append(&self.rows)?;
        self.writer.finish()?;
        Ok(())
    }
}

fn row(flow: &mut Flow<'_>, index: u64, packet: &ObservedPacket<'_>) -> Option<PacketRecord> {
    let headers = packet_headers(packet.bytes)?;
    let direction = if headers.source == flow.connection.server {
        Direction::Down
    } else {
        // Any other source is the client, because a QUIC client may change its address.
        Direction::Up
    };
    let class = headers.tcp.as_ref().map_or(PacketClass::Other, class);
    let at_most = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    let tcp = headers.tcp.as_ref();
    Some(PacketRecord {
        hop: 1,
        index,
        direction,
        flow: flow.connection.connection,
        client_port: flow.connection.client.port(),
        class,
        class_index: flow.class_index(direction, class),
        length: at_most(headers.length),
        protocol: if tcp.is_some() { TCP } else { UDP },
        seq: tcp.map_or(0, |tcp| tcp.seq),
        ack: tcp.map_or(0, |tcp| tcp.ack),
        payload_len: tcp.map_or(0, |tcp| at_most(tcp.payload_bytes)),
        tcp_flags: tcp.map_or(0, |tcp| tcp.flags),
        window_bytes: tcp.map_or(0, |tcp| flow.window_bytes(direction, tcp)),
        arrived: packet.time_in,
        queue_bytes: 0,
        queueing: Duration::ZERO,
        served: None,
        planned: Some(packet.time_in),
        released: Some(packet.time_in),
        fate: Fate::Delivered,
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
    })
}

fn class(tcp: &TcpHeader) -> PacketClass {
    match tcp.flags {
        flags if flags & SYN != 0 => PacketClass::Syn,
        _ if tcp.payload_bytes > 0 => PacketClass::Data,
        flags if flags & (FIN | RST) != 0 => PacketClass::Close,
        _ => PacketClass::Ack,
    }
}
