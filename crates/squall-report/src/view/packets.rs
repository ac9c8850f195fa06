//! All packets of a trial's links, and those of a time span: what was dropped, and what was retransmitted.
//!
//! A TCP packet is a retransmission if its payload begins below what its flow has sent before in that direction, or if it is
//! another SYN. QUIC does not retransmit packets, and which data its packets repeat is encrypted, so none of them is marked.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::projection;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord, TrialRecord};
use squall_base::{Duration, Time};

use super::region::Span;

/// The most packets in one answer: more than a reader reads.
const LISTED_AT_MOST: usize = 2_000;

projection! {
    /// A row of packets.parquet.
    #[derive(Clone, Copy, Debug)]
    pub struct PacketCells of row: PacketRecord {
        hop: u8 = row.hop, "hop";
        index: u64 = row.index, "index";
        direction: Direction = row.direction, "direction";
        flow: u32 = row.flow, "flow";
        class: PacketClass = row.class, "class";
        class_index: u32 = row.class_index, "class_index";
        length: u16 = row.length, "length_bytes";
        seq: u32 = row.seq, "seq";
        payload: u16 = row.payload_len, "payload_bytes";
        arrived: Time = row.arrived, "arrived_ns";
        fate: Fate = row.fate, "fate";
        is_copy: bool = row.is_copy, "copy";
    }
}

/// A packet of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShownPacket {
    /// When it reached the link, from the first arrival of the load; 0 if before.
    pub arrived_us: u64,
    /// The hop whose link it reached; 0 in records of paths with one link that do not say which hop that is.
    pub hop: u8,
    /// Its direction.
    pub direction: Direction,
    /// Its number among the packets of its link and direction.
    pub index: u64,
    /// Its flow.
    pub flow: u32,
    /// Its role in its flow.
    pub class: PacketClass,
    /// Bytes of the IP packet.
    pub length_bytes: u16,
    /// What the link did with it.
    pub fate: Fate,
    /// Whether TCP had sent its payload, or its SYN, before.
    pub is_retransmission: bool,
}

impl ShownPacket {
    /// Whether the packet is listed even if there are very many.
    fn is_unusual(&self) -> bool {
        self.fate != Fate::Delivered || self.is_retransmission
    }
}

/// The packets of a time span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketList {
    /// How many there are.
    pub total: usize,
    /// How many of them the link dropped.
    pub dropped: usize,
    /// How many of them TCP retransmitted.
    pub retransmitted: usize,
    /// Whether `packets` has all of them. Otherwise it has the first of those that were not delivered or were retransmitted.
    pub is_complete: bool,
    /// Packets in order of arrival.
    pub packets: Vec<ShownPacket>,
}

/// Collects the packets of a trial.
#[derive(Clone, Debug)]
pub struct PacketIndexBuilder {
    load_start: Duration,
    rows: Vec<PacketCells>,
}

/// All packets of a trial, in order of arrival.
#[derive(Clone, Debug)]
pub struct PacketIndex {
    packets: Vec<ShownPacket>,
}

impl PacketIndexBuilder {
    /// An empty index of the trial with this record.
    pub fn new(record: &TrialRecord) -> PacketIndexBuilder {
        PacketIndexBuilder {
            load_start: record.load_start,
            rows: Vec::new(),
        }
    }

    /// Adds a packet.
    pub fn add(&mut self, cells: PacketCells) {
        self.rows.push(cells);
    }

    /// The index of everything that was added, in any order.
    pub fn finish(mut self) -> PacketIndex {
        self.rows
            .sort_unstable_by_key(|row| (row.arrived, row.hop, row.direction, row.index));
        let mut sent = BTreeMap::new();
        let shown = self.rows.iter().map(|row| {
            let since_epoch = Duration::from_nanos(row.arrived.as_nanos());
            ShownPacket {
                arrived_us: (since_epoch - self.load_start).as_nanos() / 1_000,
                hop: row.hop,
                direction: row.direction,
                index: row.index,
                flow: row.flow,
                class: row.class,
                length_bytes: row.length,
                fate: row.fate,
                is_retransmission: is_retransmission(row, &mut sent),
            }
        });
        PacketIndex {
            packets: shown.collect(),
        }
    }
}

/// The sequence number after the last byte that a flow has sent, by hop, flow and direction.
type SentUpTo = BTreeMap<(u8, u32, Direction), u32>;

/// Whether a packet repeats what its flow has sent before. Call it for each packet, in order.
fn is_retransmission(row: &PacketCells, sent: &mut SentUpTo) -> bool {
    // The link made the copy, not the sender.
    if row.is_copy {
        return false;
    }
    if row.class == PacketClass::Syn {
        return row.class_index > 0;
    }
    if row.class != PacketClass::Data {
        return false;
    }
    let end = row.seq.wrapping_add(u32::from(row.payload));
    let next = sent
        .entry((row.hop, row.flow, row.direction))
        .or_insert(row.seq);
    // Sequence numbers wrap around (RFC 9293, section 3.4).
    let is_before = |one: u32, other: u32| (1..1 << 31).contains(&other.wrapping_sub(one));
    let repeats = is_before(row.seq, *next);
    if is_before(*next, end) {
        *next = end;
    }
    repeats
}

impl PacketIndex {
    /// The packets that reached a link in this time.
    pub fn packets(&self, span: Span) -> PacketList {
        let packets = span.part(&self.packets, |packet| packet.arrived_us);
        let count = |is: fn(&ShownPacket) -> bool| packets.iter().filter(|it| is(it)).count();
        let is_complete = packets.len() <= LISTED_AT_MOST;
        PacketList {
            total: packets.len(),
            dropped: count(|packet| packet.fate.is_drop()),
            retransmitted: count(|packet| packet.is_retransmission),
            is_complete,
            packets: (packets.iter().copied())
                .filter(|packet| is_complete || packet.is_unusual())
                .take(LISTED_AT_MOST)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(at_us: u64, index: u64, seq: u32, payload: u16) -> PacketCells {
        PacketCells {
            hop: 1,
            index,
            direction: Direction::Up,
            flow: 0,
            class: PacketClass::Data,
            class_index: 0,
            length: payload + 40,
            seq,
            payload,
            arrived: Time::from_nanos(at_us * 1_000),
            fate: Fate::Delivered,
            is_copy: false,
        }
    }

    fn index(rows: Vec<PacketCells>) -> PacketIndex {
        let load_start = Duration::from_micros(100);
        PacketIndexBuilder { load_start, rows }.finish()
    }

    const ALL: Span = Span {
        from_us: 0,
        to_us: u64::MAX,
    };

    #[test]
    fn packets_that_repeat_sent_bytes_are_retransmissions() {
        let start = u32::MAX - 99;
        let mut down = data(150, 0, start, 100);
        down.direction = Direction::Down;
        let mut copy = data(161, 1, start, 100);
        copy.is_copy = true;
        let mut syn = data(110, 9, 7, 0);
        (syn.class, syn.class_index) = (PacketClass::Syn, 1);
        let list = index(vec![
            data(140, 0, start, 100),
            down,
            // Across the wrap of sequence numbers.
            data(160, 1, 0, 100),
            copy,
            data(180, 3, start, 100),
            // The SYN arrived before the others, but is added after them.
            syn,
            data(190, 4, 100, 100),
        ])
        .packets(ALL);
        let repeated: Vec<u64> = (list.packets.iter())
            .filter(|packet| packet.is_retransmission)
            .map(|packet| packet.index)
            .collect();
        assert_eq!(repeated, [9, 3]);
        assert_eq!((list.total, list.retransmitted), (7, 2));
        assert!(list.is_complete && list.packets[0].arrived_us == 10);
    }

    #[test]
    fn only_unusual_packets_are_listed_if_there_are_very_many() {
        let rows = (0..5_000).map(|n| {
            let mut row = data(100 + n, n, n as u32 * 10, 10);
            if n % 100 == 0 {
                row.fate = Fate::LossDrop;
            }
            row
        });
        let index = index(rows.collect());
        let all = index.packets(ALL);
        assert_eq!(
            (all.total, all.dropped, all.is_complete),
            (5_000, 50, false)
        );
        assert_eq!(all.packets.len(), 50);
        let few = index.packets(Span {
            from_us: 1_000,
            to_us: 1_009,
        });
        assert_eq!((few.total, few.is_complete), (10, true));
    }
}
