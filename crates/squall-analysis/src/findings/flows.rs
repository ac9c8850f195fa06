//! The link's packets as findings need them: sums over all of them, and TCP's packets by flow in the order of time.
//!
//! There are millions of packets, so TCP's are kept packed, and only those of one flow at a time are unpacked. Copies
//! that the link made are left out.

use std::collections::BTreeMap;

use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{Duration, Time};

use crate::causes::packed::{Coder, PackedRows};
use crate::wire::{SYN, TCP};

/// A packet of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) arrived: Time,
    /// When it was delivered.
    pub(super) released: Option<Time>,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) payload: u16,
    pub(super) direction: Direction,
    pub(super) fate: Fate,
    pub(super) is_syn: bool,
}

/// The fates of packets that a queue dropped.
pub(super) const BY_QUEUE: [Fate; 2] = [Fate::QueueDrop, Fate::EarlyDrop];

/// Sums over the packets of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectionTotals {
    pub(super) packets: u64,
    /// Packets with data, of TCP or UDP.
    pub(super) data_packets: u64,
    /// The time in queues of each of these packets that got through, in microseconds.
    pub(super) queueing_us: Vec<u32>,
    drops: BTreeMap<Fate, u64>,
    /// When the queue had sent the last of the packets so far.
    last_served: Time,
    /// The largest packet so far.
    largest_bytes: u16,
    /// How long the queue was idle before large packets, from its first drop on. Idle time before small packets, such as
    /// acknowledgements and the end of a connection, is not a pause in a transfer.
    pub(super) idle_after_drop: Duration,
}

impl DirectionTotals {
    /// Takes a packet that got through; packets come in the order of their arrivals.
    fn serve(&mut self, row: &PacketRecord) {
        self.largest_bytes = self.largest_bytes.max(row.length);
        let is_large = row.length > self.largest_bytes / 2;
        if is_large && row.arrived > self.last_served && self.drops(&BY_QUEUE) > 0 {
            self.idle_after_drop = self.idle_after_drop + row.arrived.since(self.last_served);
        }
        self.last_served = self.last_served.max(row.arrived + row.queueing);
    }

    pub(super) fn drops(&self, fates: &[Fate]) -> u64 {
        fates.iter().filter_map(|fate| self.drops.get(fate)).sum()
    }

    /// Packets with data that spent at least this long in queues.
    pub(super) fn count_queued(&self, at_least: Duration) -> u64 {
        let at_least = u32::try_from(at_least.as_nanos() / 1_000).unwrap_or(u32::MAX);
        let waits = self.queueing_us.iter();
        waits.filter(|wait| **wait >= at_least).count() as u64
    }

    /// The median time in queues of packets with data.
    pub(super) fn median_queueing(&self) -> Duration {
        let mut waits = self.queueing_us.clone();
        if waits.is_empty() {
            return Duration::ZERO;
        }
        let middle = waits.len() / 2;
        let (_, median, _) = waits.select_nth_unstable(middle);
        Duration::from_micros(u64::from(*median))
    }
}

/// All packets of a link.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// By direction.
    totals: [DirectionTotals; Direction::ALL.len()],
    tcp: BTreeMap<u32, PackedFlow>,
}

/// The packets of one flow in the order in which they were recorded.
#[derive(Debug, Default)]
struct PackedFlow {
    rows: PackedRows,
    before: DeltaBase,
}

/// What the next packet of a flow is coded relative to.
#[derive(Debug, Default)]
struct DeltaBase {
    arrived: u64,
    transit: u64,
    /// By direction.
    next_seq: [u32; 2],
    ack: [u32; 2],
}

/// Codes a packet relative to those before it.
fn code(coder: &mut impl Coder, before: &mut DeltaBase, packet: &mut Packet) {
    let mut mask = packet.direction as u64
        | u64::from(packet.is_syn) << 1
        | u64::from(packet.released.is_some()) << 2
        | (packet.fate as u64) << 3;
    coder.plain(&mut mask);
    packet.direction = Direction::ALL[(mask & 1) as usize];
    packet.is_syn = mask & 2 != 0;
    let fate = Fate::ALL.get((mask >> 3) as usize);
    packet.fate = fate.copied().unwrap_or(packet.fate);
    let mut arrived = packet.arrived.as_nanos();
    coder.near(before.arrived, &mut arrived);
    let mut released = packet.released.map(Time::as_nanos);
    let usual = arrived.wrapping_add(before.transit);
    coder.near_if(mask >> 2, usual, &mut released);
    let place = packet.direction as usize;
    packet.seq = near(coder, before.next_seq[place], packet.seq);
    packet.ack = near(coder, before.ack[place], packet.ack);
    let mut payload = u64::from(packet.payload);
    coder.plain(&mut payload);
    packet.payload = payload as u16;
    (packet.arrived, packet.released) = (Time::from_nanos(arrived), released.map(Time::from_nanos));
    before.arrived = arrived;
    if let Some(released) = released {
        before.transit = released.wrapping_sub(arrived);
    }
    before.next_seq[place] = packet.seq.wrapping_add(u32::from(packet.payload));
    before.ack[place] = packet.ack;
}

fn near(coder: &mut impl Coder, known: u32, number: u32) -> u32 {
    let mut number = u64::from(number);
    coder.near(u64::from(known), &mut number);
    number as u32
}

impl PackedFlow {
    fn add(&mut self, mut packet: Packet) {
        code(&mut self.rows.write(), &mut self.before, &mut packet);
    }

    /// Returns the packets in the order of their arrivals; the rows are in the order in which their fates became known.
    fn unpack(&self) -> Vec<Packet> {
        let mut packets = Vec::with_capacity(self.rows.rows());
        let (mut reader, mut before) = (self.rows.read(), DeltaBase::default());
        while reader.has_more() {
            let mut packet = NO_PACKET;
            code(&mut reader, &mut before, &mut packet);
            packets.push(packet);
        }
        packets.sort_by_key(|packet| packet.arrived);
        packets
    }
}

const NO_PACKET: Packet = Packet {
    arrived: Time::ZERO,
    released: None,
    seq: 0,
    ack: 0,
    payload: 0,
    direction: Direction::Up,
    fate: Fate::Delivered,
    is_syn: false,
};

impl Flows {
    pub(super) fn add(&mut self, row: &PacketRecord) {
        if row.is_copy {
            return;
        }
        let totals = &mut self.totals[row.direction as usize];
        totals.packets += 1;
        if row.fate != Fate::Delivered {
            *totals.drops.entry(row.fate).or_default() += 1;
        }
        if row.released.is_some() {
            totals.serve(row);
        }
        if matches!(row.class, PacketClass::Data | PacketClass::Other) {
            totals.data_packets += 1;
            if row.released.is_some() {
                let micros = row.queueing.as_nanos() / 1_000;
                let micros = u32::try_from(micros).unwrap_or(u32::MAX);
                totals.queueing_us.push(micros);
            }
        }
        if row.protocol == TCP {
            self.tcp.entry(row.flow).or_default().add(Packet {
                arrived: row.arrived,
                released: row.released,
                seq: row.seq,
                ack: row.ack,
                payload: row.payload_len,
                direction: row.direction,
                fate: row.fate,
                is_syn: row.tcp_flags & SYN != 0,
            });
        }
    }

    pub(super) fn totals(&self, direction: Direction) -> &DirectionTotals {
        &self.totals[direction as usize]
    }

    /// TCP's flows by number; for the client's hop, that is the number of the connection (docs/RECORD.md). The packets of
    /// each are in the order of their arrivals; a flow is unpacked only when the iterator reaches it.
    pub(super) fn tcp(&self) -> impl Iterator<Item = (u32, Vec<Packet>)> {
        let flows = self.tcp.iter();
        flows.map(|(number, packets)| (*number, packets.unpack()))
    }
}

/// Data of one direction as its sender sees it: how much was sent, and how much of it was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendState {
    first_seq: Option<u32>,
    /// One past the last byte that was sent, counted from the flow's first.
    pub(super) sent: u64,
    /// Bytes that were acknowledged, as far as acknowledgements have reached the sender.
    pub(super) acknowledged: u64,
}

impl SendState {
    /// Takes a packet with data; returns the offset of its first byte, and whether it is a retransmission.
    pub(super) fn send(&mut self, packet: &Packet) -> (u64, bool) {
        let first = *self.first_seq.get_or_insert(packet.seq);
        let start = unwrapped(packet.seq.wrapping_sub(first), self.sent);
        let is_again = start < self.sent;
        self.sent = self.sent.max(start + u64::from(packet.payload));
        (start, is_again)
    }

    /// Takes an acknowledgement that has reached the sender; returns whether it acknowledges anything new.
    pub(super) fn acknowledge(&mut self, packet: &Packet) -> bool {
        let Some(first) = self.first_seq else {
            return false;
        };
        let upto = unwrapped(packet.ack.wrapping_sub(first), self.acknowledged);
        let is_new = upto > self.acknowledged && upto <= self.sent;
        if is_new {
            self.acknowledged = upto;
        }
        is_new
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.sent - self.acknowledged
    }
}

/// The offset nearest to `near` whose low 32 bits are `low`.
fn unwrapped(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32).cast_signed();
    near.saturating_add_signed(i64::from(distance))
}

/// An event at the sender's end of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) enum SenderEvent<'a> {
    DataSent(&'a Packet),
    /// An acknowledgement, with data or without, reaches it.
    AckReceived(&'a Packet),
}

/// The events at the sender of `direction` on a flow, with the time of each.
pub(super) fn sender_events(
    packets: &[Packet],
    direction: Direction,
) -> Vec<(Time, SenderEvent<'_>)> {
    let mut events: Vec<(Time, SenderEvent<'_>)> = packets
        .iter()
        .filter_map(|packet| {
            if packet.direction != direction {
                let is_ack = !packet.is_syn;
                return Some((packet.released?, SenderEvent::AckReceived(packet)))
                    .filter(|_| is_ack);
            }
            (packet.payload > 0 && !packet.is_syn)
                .then_some((packet.arrived, SenderEvent::DataSent(packet)))
        })
        .collect();
    events.sort_by_key(|(time, _)| *time);
    events
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn packed_packets_come_back_in_the_order_of_arrivals() {
        let packet = |n: u64| {
            let draw = |of: u64| splitmix64(of, n);
            let number = |of: u64| match draw(of) % 4 {
                0 => draw(of + 1) >> 1,
                _ => n * 1_000 + draw(of + 1) % 500,
            };
            Packet {
                arrived: Time::from_nanos(number(1)),
                released: (draw(3) % 5 > 0).then(|| Time::from_nanos(number(4))),
                seq: number(6) as u32,
                ack: number(8) as u32,
                payload: (draw(10) % 3 * (draw(11) % 20_000)) as u16,
                direction: Direction::ALL[(draw(12) % 2) as usize],
                fate: Fate::ALL[(draw(13) % 9) as usize],
                is_syn: draw(14) % 2 == 0,
            }
        };
        let mut packets: Vec<Packet> = (0..5_000).map(packet).collect();
        let mut log = PackedFlow::default();
        packets.iter().for_each(|packet| log.add(*packet));
        packets.sort_by_key(|packet| packet.arrived);
        assert_eq!(log.unpack(), packets);
    }

    #[test]
    fn offsets_go_on_where_sequence_numbers_wrap() {
        let packet = |seq: u32, payload| Packet {
            seq,
            ack: seq,
            payload,
            ..NO_PACKET
        };
        let mut state = SendState::default();
        let near_end = u32::MAX - 99;
        assert_eq!(state.send(&packet(near_end, 1_000)), (0, false));
        assert_eq!(state.send(&packet(900, 1_000)), (1_000, false));
        assert_eq!(state.send(&packet(near_end, 1_000)), (0, true));
        assert!(state.acknowledge(&packet(900, 0)));
        assert!(!state.acknowledge(&packet(900, 0)));
        assert_eq!(state.in_flight(), 1_000);
        // An acknowledgement of data that was never sent is ignored.
        assert!(!state.acknowledge(&packet(5_000, 0)));
    }
}
