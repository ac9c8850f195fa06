//! TCP connections, made from the link's packets: both byte streams, the acknowledgements, the handshake, and what is known
//! of the senders.
//!
//! Sequence numbers become offsets of TCP's payload (RFC 9293, section 3.4: the first byte follows the SYN). A flow whose
//! ports are reused is several connections, each from its SYN on.

use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketRef};

use super::columns::PacketCells;
use super::packed::{Coder, PackedRows};
use super::path::Path;
use super::search::{sort_nearly_sorted, up_to};
use super::sending::{Account, Acknowledgement, Departure, RepairPeriod, SenderEvidence};
use super::stream::{Stream, Transmission};
use super::walk::{NEVER, Span};
use crate::wire::{ACK, SYN};

/// The acknowledgement that gets through first is among this number after a SYN: none overtakes that many others.
const FIRST_ACKS: u32 = 64;

/// A packet that may carry bytes, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    packet: PacketRef,
    arrived: u64,
    queueing: u64,
    due: u64,
    released: u64,
    seq: u32,
    payload: u16,
    flags: u8,
    fate: Fate,
}

/// An acknowledgement that got through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RawAck {
    sent: u64,
    arrived: u64,
    ack: u32,
    window: u32,
}

/// An acknowledgement, as an offset of the stream that it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// When its packet reached the link.
    pub(super) sent: u64,
    /// When it reached the sender of the bytes.
    pub(super) arrived: u64,
    /// All bytes before this one are acknowledged.
    pub(super) to: u64,
    /// The receive window from there on, in bytes.
    window: u32,
}

/// The packets of one flow, each list in its order.
#[derive(Debug, Default)]
pub(super) struct Flow {
    segments: [Vec<Segment>; 2],
    acks: [Vec<RawAck>; 2],
}

impl Default for Segment {
    fn default() -> Segment {
        Segment {
            packet: PacketRef {
                hop: 0,
                direction: Direction::Up,
                index: 0,
            },
            arrived: 0,
            queueing: 0,
            due: NEVER,
            released: NEVER,
            seq: 0,
            payload: 0,
            flags: 0,
            fate: Fate::Delivered,
        }
    }
}

/// What is kept of a packet: its segment, its acknowledgement, or both.
#[derive(Clone, Copy, Debug, Default)]
struct PacketRow {
    segment: Segment,
    has_segment: bool,
    ack: u32,
    window: u32,
    has_ack: bool,
}

/// The packets of one flow in the order in which they were recorded, packed.
#[derive(Debug, Default)]
pub(super) struct PackedFlow {
    rows: PackedRows,
    /// The hop that the flow crosses.
    hop: u8,
    /// Segments and acknowledgements, by direction.
    counts: [[usize; 2]; 2],
    /// The last row of each direction.
    before: [PacketRow; 2],
    /// The arrival of the flow's last row.
    last_arrival: u64,
    /// Each side's SYNs, by direction: index, arrival, initial sequence number.
    syns: [Vec<(u64, u64, u32)>; 2],
    /// The client's acknowledgement that got through first: when it was sent and arrived.
    first_ack: Option<(u64, u64)>,
    /// How many of the client's acknowledgements since the last SYN were kept: see [`PackedFlow::add_beginning`].
    acks_since_syn: u32,
}

/// Codes a packet relative to the one before it in its direction, which is in `before`, and in its flow.
fn code<C: Coder>(coder: &mut C, before: &[PacketRow; 2], last_arrival: u64, row: &mut PacketRow) {
    let mut mask = if C::WRITES {
        mask_of_row(before, row)
    } else {
        0
    };
    let PacketRow {
        segment: own,
        has_segment,
        ack,
        window,
        has_ack,
    } = row;
    let some = |time: u64| (time != NEVER).then_some(time);
    let (mut due, mut released) = (some(own.due), some(own.released));
    coder.plain(&mut mask);
    let direction = Direction::ALL[(mask & 1) as usize];
    own.packet.direction = direction;
    (*has_segment, *has_ack) = (mask & 2 != 0, mask & 4 != 0);
    let before = &before[direction as usize];
    let last = &before.segment;
    coder.near(last_arrival, &mut own.arrived);
    let transit = last.released.wrapping_sub(last.arrived);
    let mut known = own.arrived.wrapping_add(transit);
    if *has_segment {
        coder.near(last.packet.index, &mut own.packet.index);
        if mask >> 10 & 1 == 1 {
            own.queueing = last.queueing;
        } else {
            coder.near(last.queueing, &mut own.queueing);
        }
        let expected = predicted_due(last, own);
        if mask >> 8 & 1 == 1 {
            due = Some(expected);
        } else {
            coder.near_if(mask >> 5, expected, &mut due);
        }
        known = due.unwrap_or(known);
        let next = next_seq(last);
        own.seq = if mask >> 9 & 1 == 1 {
            next
        } else {
            near(coder, next, own.seq)
        };
        if mask >> 11 & 1 == 1 {
            own.payload = last.payload;
        } else {
            let mut payload = u64::from(own.payload);
            coder.plain(&mut payload);
            own.payload = payload as u16;
        }
        own.flags = [0, SYN, ACK, SYN | ACK][(mask >> 6 & 3) as usize];
        let fate = Fate::ALL.get((mask >> 12 & 0xf) as usize);
        own.fate = fate.copied().unwrap_or(own.fate);
    }
    coder.near_if(mask >> 3, known, &mut released);
    (own.due, own.released) = (due.unwrap_or(NEVER), released.unwrap_or(NEVER));
    if *has_ack {
        *ack = near(coder, before.ack, *ack);
        if mask >> 4 & 1 == 1 {
            let mut wide = u64::from(*window);
            coder.near(u64::from(before.window), &mut wide);
            *window = wide as u32;
        } else {
            *window = before.window;
        }
    }
}

/// Which parts a packet has, and which of them are as the packets before it in its direction predict.
fn mask_of_row(before: &[PacketRow; 2], row: &PacketRow) -> u64 {
    let own = &row.segment;
    let before = &before[own.packet.direction as usize];
    let last = &before.segment;
    let mut mask = own.packet.direction as u64
        | u64::from(row.has_segment) << 1
        | u64::from(row.has_ack) << 2
        | u64::from(own.released != NEVER) << 3
        // Below the bits of a segment, which a bare acknowledgement lacks.
        | u64::from(row.has_ack && row.window != before.window) << 4;
    if row.has_segment {
        let flags = u64::from(own.flags & SYN != 0) | u64::from(own.flags & ACK != 0) << 1;
        mask |= u64::from(own.due != NEVER) << 5 | flags << 6;
        // Usually all four are as predicted, and no number is written for them.
        mask |= u64::from(own.due != NEVER && own.due == predicted_due(last, own)) << 8;
        mask |= u64::from(own.seq == next_seq(last)) << 9;
        mask |= u64::from(own.queueing == last.queueing) << 10;
        mask |= u64::from(own.payload == last.payload) << 11;
        mask |= (own.fate as u64) << 12;
    }
    mask
}

/// When a packet would be due if the link delayed it like the one before.
fn predicted_due(last: &Segment, own: &Segment) -> u64 {
    let usual = last
        .due
        .wrapping_sub(last.arrived)
        .wrapping_sub(last.queueing);
    own.arrived.wrapping_add(own.queueing).wrapping_add(usual)
}

/// The sequence number after a segment's bytes.
fn next_seq(last: &Segment) -> u32 {
    last.seq.wrapping_add(u32::from(last.payload))
}

/// Codes a sequence number near to another one (RFC 9293, section 3.4: they wrap).
fn near(coder: &mut impl Coder, known: u32, number: u32) -> u32 {
    const MIDDLE: u64 = 1 << 31;
    let mut difference = u64::from(number.wrapping_sub(known).wrapping_add(1 << 31));
    coder.near(MIDDLE, &mut difference);
    known.wrapping_add((difference as u32).wrapping_sub(1 << 31))
}

/// What the next row of the direction is coded relative to: a segment's numbers stay until there is another segment.
fn update_base(before: &mut [PacketRow; 2], row: &PacketRow) {
    let last = &mut before[row.segment.packet.direction as usize];
    let was = last.segment;
    if row.has_ack {
        (last.ack, last.window) = (row.ack, row.window);
    }
    if row.has_segment && row.segment.due != NEVER && row.segment.released != NEVER {
        last.segment = row.segment;
    } else if row.has_segment {
        // A lost segment shows nothing of the link's delay.
        last.segment = Segment {
            packet: row.segment.packet,
            seq: row.segment.seq,
            payload: row.segment.payload,
            ..was
        };
    }
}

/// Where a connection begins in its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// From when its first SYN reached the link to when the next connection's did.
    pub(super) within: Span,
    /// The client's initial sequence number.
    isn: u32,
    /// The server's initial sequence number, if it answered.
    answered_isn: Option<u32>,
    /// When the server had the end of TCP's handshake, or [`NEVER`].
    pub(super) accepted: u64,
}

#[derive(Debug, Default)]
pub(super) struct TcpConnection {
    /// When a SYN-ACK first reached the client, or [`NEVER`].
    pub(super) answered: u64,
    /// By direction.
    pub(super) streams: [Stream; 2],
    /// Acknowledgements of the stream of each direction, by arrival.
    pub(super) acks: [Vec<Ack>; 2],
    /// SYNs and SYN-ACKs that were lost, with the times at which they would have arrived.
    pub(super) lost_syns: Vec<Transmission>,
    /// The repairs of lost bytes, by direction.
    repairs: [Vec<RepairPeriod>; 2],
}

impl TcpConnection {
    /// How many packets with new bytes had left by `time` and were not acknowledged.
    pub(super) fn in_flight(&self, direction: Direction, time: u64) -> u64 {
        let place = direction as usize;
        let acks = &self.acks[place];
        let received = up_to(acks, time, |ack| ack.arrived);
        let acknowledged = acks[..received].iter().map(|ack| ack.to).max().unwrap_or(0);
        let txs = &self.streams[place].txs;
        let sent = txs.partition_point(|tx| tx.sent <= time);
        let new = (0..sent)
            .rev()
            .filter(|&n| txs[n].end > self.streams[place].sent_before(n));
        new.take_while(|&n| txs[n].end > acknowledged).count() as u64
    }

    pub(super) fn evidence(&self, direction: Direction, accounts: Vec<Account>) -> SenderEvidence {
        let place = direction as usize;
        let stream = &self.streams[place];
        let mut departures: Vec<Departure> = Vec::with_capacity(stream.txs.len());
        let mut packet_bytes = 1;
        for (number, tx) in stream.txs.iter().enumerate() {
            packet_bytes = packet_bytes.max(tx.end - tx.start);
            if tx.end > stream.sent_before(number) {
                departures.push(Departure {
                    time: tx.sent,
                    end: tx.end,
                    weight: departures.len() as u64 + 1,
                });
            }
        }
        let acknowledgements = self.acks[place].iter().map(|ack| Acknowledgement {
            time: ack.arrived,
            to: ack.to,
            limit: ack.to.saturating_add(u64::from(ack.window)),
        });
        SenderEvidence {
            departures,
            acknowledgements: acknowledgements.collect(),
            repairs: self.repairs[place].clone(),
            is_held_by_repairs: true,
            accounts,
            packet_weight: 1,
            packet_bytes,
        }
    }
}

impl PackedFlow {
    pub(super) fn add(&mut self, packet: &PacketCells) {
        self.hop = packet.hop;
        let direction = packet.direction;
        let arrived = packet.arrived.as_nanos();
        let released = packet.got_through().map_or(NEVER, Time::as_nanos);
        let flags = packet.tcp_flags & (SYN | ACK);
        let mut row = PacketRow {
            segment: Segment {
                packet: packet.name(),
                arrived,
                queueing: packet.queueing.as_nanos(),
                due: packet.planned.map_or(NEVER, Time::as_nanos),
                released,
                seq: packet.seq,
                payload: packet.payload_len,
                flags,
                fate: packet.fate,
            },
            has_segment: packet.payload_len > 0 || flags & SYN != 0,
            ack: packet.ack,
            window: packet.window_bytes,
            has_ack: flags & ACK != 0 && released != NEVER,
        };
        if !row.has_segment && !row.has_ack {
            return;
        }
        if flags & SYN != 0 && (direction == Direction::Down || flags == SYN) {
            self.syns[direction as usize].push((packet.index, arrived, packet.seq));
        }
        if direction == Direction::Up && row.has_ack {
            let is_first = |(sent, first): (u64, u64)| (released, arrived) < (first, sent);
            if self.first_ack.is_none_or(is_first) {
                self.first_ack = Some((arrived, released));
            }
        }
        let [segments, acks] = &mut self.counts[direction as usize];
        *segments += usize::from(row.has_segment);
        *acks += usize::from(row.has_ack);
        code(
            &mut self.rows.write(),
            &self.before,
            self.last_arrival,
            &mut row,
        );
        update_base(&mut self.before, &row);
        self.last_arrival = arrived;
    }

    /// Takes a packet for [`PackedFlow::openings`] only. It keeps SYNs and the client's first acknowledgements after each,
    /// of which one is the first to get through.
    pub(super) fn add_beginning(&mut self, packet: &PacketCells) {
        if packet.tcp_flags & SYN != 0 {
            self.acks_since_syn = 0;
        } else {
            let is_first = self.acks_since_syn < FIRST_ACKS;
            let is_ack = packet.direction == Direction::Up && packet.tcp_flags & ACK != 0;
            if !is_first || !is_ack || packet.got_through().is_none() {
                return;
            }
            self.acks_since_syn += 1;
        }
        self.add(packet);
    }

    pub(super) fn unpack(&self) -> Flow {
        let mut flow = Flow {
            segments: self
                .counts
                .map(|[segments, _]| Vec::with_capacity(segments)),
            acks: self.counts.map(|[_, acks]| Vec::with_capacity(acks)),
        };
        let mut reader = self.rows.read();
        let (mut before, mut last_arrival) = ([PacketRow::default(); 2], 0);
        while reader.has_more() {
            let mut row = PacketRow::default();
            row.segment.packet.hop = self.hop;
            code(&mut reader, &before, last_arrival, &mut row);
            update_base(&mut before, &row);
            last_arrival = row.segment.arrived;
            let direction = row.segment.packet.direction as usize;
            if row.has_ack {
                flow.acks[direction].push(RawAck {
                    sent: row.segment.arrived,
                    arrived: row.segment.released,
                    ack: row.ack,
                    window: row.window,
                });
            }
            if row.has_segment {
                flow.segments[direction].push(row.segment);
            }
        }
        for direction in Direction::ALL {
            sort_nearly_sorted(&mut flow.segments[direction as usize], |s| s.packet.index);
            sort_nearly_sorted(&mut flow.acks[direction as usize], |ack| {
                (ack.arrived, ack.sent)
            });
        }
        flow
    }

    /// The connections of the flow, in the order of opening. Packets before the first SYN belong to no connection.
    pub(super) fn openings(&mut self) -> Vec<Opening> {
        for syns in &mut self.syns {
            syns.sort_by_key(|(index, ..)| *index);
        }
        let [syns, answers] = &self.syns;
        let mut openings: Vec<(u64, u32)> = Vec::new();
        for &(_, arrived, seq) in syns {
            if openings.last().is_none_or(|last| last.1 != seq) {
                openings.push((arrived, seq));
            }
        }
        // If there is a single connection, the flow's first acknowledgement is its own, unless the acknowledgement came
        // before the connection.
        let first_ack = self.first_ack;
        let is_its_own = |(sent, _): (u64, u64)| openings.iter().all(|(from, _)| *from <= sent);
        if openings.len() == 1 && first_ack.is_none_or(is_its_own) {
            let (from, isn) = openings[0];
            let mut answers = answers.iter().filter(|(_, arrived, _)| from <= *arrived);
            return vec![Opening {
                within: Span { from, to: NEVER },
                isn,
                answered_isn: answers.next().map(|(.., seq)| *seq),
                accepted: first_ack.map_or(NEVER, |(_, arrived)| arrived),
            }];
        }
        self.unpack().openings(&openings)
    }
}

impl Flow {
    /// The connections that begin with these SYNs.
    fn openings(&self, openings: &[(u64, u32)]) -> Vec<Opening> {
        let numbers = 0..openings.len();
        let opening = |n: usize| {
            let (from, isn) = openings[n];
            let to = openings.get(n + 1).map_or(NEVER, |next| next.0);
            let mut acks = self.acks[Direction::Up as usize].iter();
            let first = acks.find(|ack| (from..to).contains(&ack.sent));
            let mut answers = self.segments[Direction::Down as usize].iter();
            let answer = answers
                .find(|answer| answer.flags & SYN != 0 && (from..to).contains(&answer.arrived));
            Opening {
                within: Span { from, to },
                isn,
                answered_isn: answer.map(|answer| answer.seq),
                accepted: first.map_or(NEVER, |ack| ack.arrived),
            }
        };
        numbers.map(opening).collect()
    }

    /// Makes one of the connections. If its first packets are missing, `resumed` has a stream offset for each direction,
    /// less than 2 GiB from where the packets begin.
    pub(super) fn connection(
        &self,
        opening: Opening,
        resumed: Option<[u64; 2]>,
        path: &Path,
    ) -> TcpConnection {
        let Opening { within, isn, .. } = opening;
        let is_within = |time: u64| within.from <= time && time < within.to;
        let of = |direction: Direction| {
            self.segments[direction as usize]
                .iter()
                .filter(|segment| is_within(segment.arrived))
        };
        let mut connection = TcpConnection {
            answered: NEVER,
            ..TcpConnection::default()
        };
        let down_syn = of(Direction::Down).find(|s| s.flags & SYN != 0);
        let answered_isn = down_syn.map_or(opening.answered_isn, |segment| Some(segment.seq));
        let isns = [Some(isn), answered_isn];
        for direction in Direction::ALL {
            let place = direction as usize;
            let Some(isn) = isns[place] else { continue };
            let acks = self.acks[direction.opposite() as usize].iter();
            let near = resumed.map_or(0, |near| near[place]);
            let offsets = || Offsets::new(isn.wrapping_add(1), near);
            connection.acks[place] =
                acks_at_offsets(acks.filter(|ack| is_within(ack.sent)), offsets());
            let txs = transmissions(of(direction), offsets(), path);
            connection.streams[place] = match resumed {
                Some(_) => Stream::resumed(txs),
                None => Stream::new(txs),
            };
            connection.repairs[place] =
                repairs(&connection.streams[place], &connection.acks[place]);
        }
        let syns = Direction::ALL.into_iter().flat_map(of);
        let syns = syns.filter(|segment| segment.flags & SYN != 0);
        for tx in syns.map(|segment| transmission(segment, 0, path)) {
            if tx.is_lost() {
                connection.lost_syns.push(tx);
            } else if tx.packet.direction == Direction::Down {
                connection.answered = connection.answered.min(tx.arrived);
            }
        }
        connection.lost_syns.sort_by_key(|tx| tx.sent);
        connection
    }
}

fn transmission(segment: &Segment, start: u64, path: &Path) -> Transmission {
    let mut tx = Transmission {
        packet: segment.packet,
        start,
        end: start.saturating_add(u64::from(segment.payload)),
        sent: segment.arrived,
        queueing: segment.queueing,
        due: segment.due,
        arrived: segment.released,
        fate: segment.fate,
    };
    path.fill_in(&mut tx);
    tx
}

/// Turns sequence numbers, which wrap, into offsets (RFC 9293, section 3.4).
pub(crate) struct Offsets {
    first: u32,
    latest: u64,
}

impl Offsets {
    /// `first` is the number of the first byte, `latest` an offset within 2 GiB of the next one.
    pub(crate) fn new(first: u32, latest: u64) -> Offsets {
        Offsets { first, latest }
    }

    /// `None` for a number before the first.
    #[inline]
    pub(crate) fn offset(&mut self, seq: u32) -> Option<u64> {
        // Modulo 2^32, as sequence numbers are.
        let latest = (self.latest as u32).wrapping_add(self.first);
        let ahead = i64::from(seq.wrapping_sub(latest).cast_signed());
        let offset = self.latest.checked_add_signed(ahead)?;
        self.latest = self.latest.max(offset);
        Some(offset)
    }
}

fn transmissions<'a>(
    segments: impl Iterator<Item = &'a Segment>,
    mut offsets: Offsets,
    path: &Path,
) -> Vec<Transmission> {
    let mut txs = Vec::with_capacity(segments.size_hint().1.unwrap_or(0));
    let with_payload = segments.filter(|segment| segment.payload > 0);
    txs.extend(with_payload.map(|segment| {
        // A SYN takes up the number before the first byte.
        let seq = match segment.flags & SYN {
            0 => segment.seq,
            _ => segment.seq.wrapping_add(1),
        };
        transmission(segment, offsets.offset(seq).unwrap_or(0), path)
    }));
    txs
}

fn acks_at_offsets<'a>(acks: impl Iterator<Item = &'a RawAck>, mut offsets: Offsets) -> Vec<Ack> {
    let mut all = Vec::with_capacity(acks.size_hint().1.unwrap_or(0));
    all.extend(acks.map(|ack| Ack {
        sent: ack.sent,
        arrived: ack.arrived,
        to: offsets.offset(ack.ack).unwrap_or(0),
        window: ack.window,
    }));
    all
}

/// The repairs of the stream's lost bytes, one for each lost transmission of them.
fn repairs(stream: &Stream, acks: &[Ack]) -> Vec<RepairPeriod> {
    let lost = stream
        .pieces
        .iter()
        .filter(|piece| !piece.lost().is_empty());
    let repairs = lost.flat_map(|piece| {
        let bytes = Span::new(piece.start, piece.end);
        let first = stream.missing(piece).map_or(0, |missing| missing.from);
        let later = acks[up_to(acks, first, |ack| ack.arrived)..].iter();
        let covering = later.clone().find(|ack| ack.to >= piece.end);
        let settled = covering.map_or(NEVER, |ack| ack.arrived);
        stream.losses(piece).map(move |(tx, span)| RepairPeriod {
            span,
            settled,
            packet: stream.txs[tx as usize].packet,
            bytes,
        })
    });
    repairs.collect()
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;
    use squall_base::splitmix::splitmix64;

    use super::*;

    /// Any packet: some of its numbers are near to those of others, some far from them.
    fn packet(n: u64) -> PacketCells {
        let draw = |of: u64| splitmix64(of, n);
        let number = |of: u64| match draw(of) % 4 {
            0 => draw(of + 1) >> 1,
            _ => n * 1_000 + draw(of + 1) % 500,
        };
        let maybe = |of: u64| (draw(of) % 5 > 0).then(|| Time::from_nanos(number(of + 1)));
        PacketCells {
            hop: 1,
            index: number(10),
            direction: Direction::ALL[(draw(20) % 2) as usize],
            flow: 0,
            length: 0,
            protocol: 6,
            seq: number(30) as u32,
            ack: number(40) as u32,
            payload_len: (draw(50) % 3 * (draw(51) % 20_000)) as u16,
            tcp_flags: draw(60) as u8,
            window_bytes: (draw(130) % 3 * (draw(131) % 70_000)) as u32,
            arrived: Time::from_nanos(number(70)),
            queueing: Duration::from_nanos(number(80)),
            served: None,
            planned: maybe(90),
            released: maybe(100),
            fate: Fate::ALL[(draw(110) % 9) as usize],
            is_corrupted: draw(120) % 20 == 0,
            is_copy: false,
        }
    }

    #[test]
    fn packed_packets_are_unpacked_in_order() {
        let packets: Vec<PacketCells> = (0..5_000).map(packet).collect();
        let mut log = PackedFlow::default();
        packets.iter().for_each(|packet| log.add(packet));
        let flow = log.unpack();
        for direction in Direction::ALL {
            let own = packets.iter().filter(|p| p.direction == direction);
            let released = |p: &PacketCells| {
                if p.is_corrupted {
                    NEVER
                } else {
                    p.released.map_or(NEVER, Time::as_nanos)
                }
            };
            let mut segments: Vec<Segment> = own
                .clone()
                .filter(|p| p.payload_len > 0 || p.tcp_flags & SYN != 0)
                .map(|p| Segment {
                    packet: PacketRef {
                        hop: 1,
                        direction,
                        index: p.index,
                    },
                    arrived: p.arrived.as_nanos(),
                    queueing: p.queueing.as_nanos(),
                    due: p.planned.map_or(NEVER, Time::as_nanos),
                    released: released(p),
                    seq: p.seq,
                    payload: p.payload_len,
                    flags: p.tcp_flags & (SYN | ACK),
                    fate: p.fate,
                })
                .collect();
            segments.sort_by_key(|segment| segment.packet.index);
            assert_eq!(flow.segments[direction as usize], segments);
            let mut acks: Vec<RawAck> = own
                .filter(|p| p.tcp_flags & ACK != 0 && released(p) != NEVER)
                .map(|p| RawAck {
                    sent: p.arrived.as_nanos(),
                    arrived: released(p),
                    ack: p.ack,
                    window: p.window_bytes,
                })
                .collect();
            acks.sort_by_key(|ack| (ack.arrived, ack.sent));
            assert_eq!(flow.acks[direction as usize], acks);
        }
    }

    #[test]
    fn a_connection_is_accepted_at_the_first_acknowledgement_after_its_syn() {
        let packet = |index: u64, flags: u8, at: u64| PacketCells {
            hop: 1,
            index,
            direction: Direction::Up,
            seq: index as u32,
            payload_len: 0,
            tcp_flags: flags,
            window_bytes: 1 << 20,
            arrived: Time::from_nanos(at),
            released: Some(Time::from_nanos(at + 100)),
            is_corrupted: false,
            ..packet(1)
        };
        let within = |packets: &[PacketCells]| {
            let mut log = PackedFlow::default();
            packets.iter().for_each(|packet| log.add(packet));
            let openings = log.openings().into_iter();
            let facts = openings.map(|it| (it.within.from, it.within.to, it.accepted));
            facts.collect::<Vec<_>>()
        };
        let (syn, ack) = (packet(5, SYN, 50), packet(6, ACK, 60));
        assert_eq!(within(&[syn]), [(50, NEVER, NEVER)]);
        assert_eq!(within(&[ack, syn]), [(50, NEVER, 160)]);
        // An acknowledgement from before the SYN belongs to no connection.
        let early = packet(4, ACK, 40);
        assert_eq!(within(&[early, syn, ack]), [(50, NEVER, 160)]);
        // With reused ports, each SYN begins a connection.
        let (syn_again, ack_again) = (packet(7, SYN, 70), packet(8, ACK, 80));
        let both = [(50, 70, 160), (70, NEVER, 180)];
        assert_eq!(within(&[syn, ack, syn_again, ack_again]), both);
    }
}
