//! QUIC connections: which datagram on the link was which packet, and so carried which bytes of which stream.
//!
//! The link sees datagrams, and the sides' frames have packet numbers; no record has both. But a side sends its packets
//! in the order of their frames: one per datagram once the handshake is over, and several per datagram during it (RFC
//! 9000, section 12.2). So both lists are walked together, and the sizes must agree: a packet's frames give its minimum
//! length. From the first disagreement on, nothing is joined, and everything that depends on the join is unknown.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{Direction, Fate, FrameFacts, FrameLayer, PacketRef, Way};

use super::columns::PacketCells;
use super::packed::{Coder, PackedRows};
use super::path::Path;
use super::search::sort_nearly_sorted;
use super::sending::{Account, Acknowledgement, Departure, RepairPeriod, SenderEvidence};
use super::stream::{Stream, Transmission};
use super::walk::{NEVER, Span};
use crate::wire::quic::{ACKS, CONNECTION_CLOSE, CRYPTO, RESET_STREAM, STOP_SENDING, STREAM};

/// Headers of IPv4 and UDP.
const IP_UDP_BYTES: u64 = 28;
/// The minimum of a short header (a first byte, a packet number) and the tag of its AEAD.
const SHORT_BYTES: u64 = 2 + 16;
/// By how much a packet may exceed its minimum: connection ID, longer numbers, ranges of an ACK.
const SLACK_BYTES: u64 = 160;
/// By how much a frame without a length in its record may exceed its minimum: three numbers of eight bytes instead of one
/// (RESET_STREAM; RFC 9000, sections 16 and 19.4).
const FRAME_SLACK_BYTES: u64 = 21;
/// The size of a packet that a sender would fill if it could.
const PACKET_BYTES: u64 = 1_200;
/// A pause in sending that is certainly longer than a packet takes from its sender to the link, in nanoseconds.
const PAUSE_AT_LEAST: u64 = 3_000_000;
/// If the next datagram does not fit a packet, this many are searched for one that does.
const RESYNC_DATAGRAMS: usize = 4;

/// A datagram on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Datagram {
    packet: PacketRef,
    payload: u64,
    sent: u64,
    queueing: u64,
    due: u64,
    arrived: u64,
    fate: Fate,
}

/// The datagrams of one flow in the order in which they were recorded, packed.
#[derive(Debug)]
pub(super) struct PackedFlow {
    rows: PackedRows,
    /// The hop that the flow crosses.
    hop: u8,
    before: [Datagram; 2],
    /// The client's first datagram: its index, and when it was sent.
    first: Option<(u64, u64)>,
    /// When a datagram from the client first reached the server, or [`NEVER`].
    accepted: u64,
}

const NO_DATAGRAM: Datagram = Datagram {
    packet: PacketRef {
        hop: 0,
        direction: Direction::Up,
        index: 0,
    },
    payload: 0,
    sent: 0,
    queueing: 0,
    due: NEVER,
    arrived: NEVER,
    fate: Fate::Delivered,
};

impl Default for PackedFlow {
    fn default() -> PackedFlow {
        PackedFlow {
            rows: PackedRows::default(),
            hop: 0,
            before: [NO_DATAGRAM; 2],
            first: None,
            accepted: NEVER,
        }
    }
}

/// Codes a datagram relative to the one before it in its direction.
fn code(coder: &mut impl Coder, before: &[Datagram; 2], own: &mut Datagram) {
    let some = |time: u64| (time != NEVER).then_some(time);
    let (mut due, mut arrived) = (some(own.due), some(own.arrived));
    let presence = u64::from(due.is_some()) << 1 | u64::from(arrived.is_some()) << 2;
    let mut mask = own.packet.direction as u64 | presence | (own.fate as u64) << 3;
    coder.plain(&mut mask);
    own.packet.direction = Direction::ALL[(mask & 1) as usize];
    let before = &before[own.packet.direction as usize];
    coder.near(before.packet.index, &mut own.packet.index);
    coder.near(before.sent, &mut own.sent);
    coder.plain(&mut own.payload);
    coder.near(before.queueing, &mut own.queueing);
    let usual = before
        .due
        .wrapping_sub(before.sent)
        .wrapping_sub(before.queueing);
    let expected = own.sent.wrapping_add(own.queueing).wrapping_add(usual);
    coder.near_if(mask >> 1, expected, &mut due);
    coder.near_if(mask >> 2, due.unwrap_or(own.sent), &mut arrived);
    (own.due, own.arrived) = (due.unwrap_or(NEVER), arrived.unwrap_or(NEVER));
    let fate = Fate::ALL.get((mask >> 3) as usize);
    own.fate = fate.copied().unwrap_or(own.fate);
}

/// Bytes of a stream in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) stream: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A packet that a side sent, as its frames show.
#[derive(Debug)]
struct SentPacket {
    number: u64,
    time: u64,
    least_bytes: u64,
    /// By how much the packet may exceed `least_bytes`.
    slack_bytes: u64,
    /// Whether it has frames that only packets with a short header may carry (RFC 9000, section 12.4).
    is_short: bool,
    has_crypto: bool,
    chunks: Vec<Chunk>,
}

/// An ACK that a side read, with the largest of that side's packet numbers that it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuicAck {
    pub(super) time: u64,
    pub(super) largest: u64,
}

/// What one side of a connection sent and received.
#[derive(Debug, Default)]
pub(super) struct SideFrames {
    sent: Vec<SentPacket>,
    acks: Vec<QuicAck>,
    /// Samples of the congestion window: time and bytes.
    windows: Vec<(u64, u64)>,
}

/// Packets of one direction, which count as in flight until they are acknowledged.
#[derive(Debug, Default)]
struct SendHistory {
    /// When each was sent, its number, and the total bytes up to it.
    sent: Vec<(u64, u64, u64)>,
    /// For each acknowledgement, its time and the largest number acknowledged by then.
    acked: Vec<(u64, u64)>,
    windows: Vec<(u64, u64)>,
}

impl SendHistory {
    fn new(
        packets: &[(Transmission, u64)],
        acks: &[QuicAck],
        windows: Vec<(u64, u64)>,
    ) -> SendHistory {
        let sent = packets.iter().scan(0, |bytes, (tx, number)| {
            *bytes += tx.end;
            Some((tx.sent, *number, *bytes))
        });
        let acked = acks.iter().scan(0, |largest: &mut u64, ack| {
            *largest = (*largest).max(ack.largest);
            Some((ack.time, *largest))
        });
        SendHistory {
            sent: sent.collect(),
            acked: acked.collect(),
            windows,
        }
    }

    /// The repairs of lost packets. A packet is settled once a later one is acknowledged, because its sender then considers
    /// it lost (RFC 9002, section 6.1).
    fn repairs(&self, packets: &[(Transmission, u64)]) -> Vec<RepairPeriod> {
        let lost = packets.iter().filter(|(tx, _)| tx.is_lost());
        let repair = lost.map(|(tx, number)| {
            let later = self.acked.partition_point(|(_, largest)| largest <= number);
            let settled = self.acked.get(later).map_or(NEVER, |(time, _)| *time);
            RepairPeriod {
                span: Span::new(tx.due, settled),
                settled,
                packet: tx.packet,
                bytes: Span::new(*number, number.saturating_add(1)),
            }
        });
        repair.collect()
    }
}

/// The packets of a datagram; `number` is that of the last one.
#[derive(Clone, Debug)]
pub(super) struct JoinedPacket {
    pub(super) number: u64,
    pub(super) has_crypto: bool,
    /// The bytes of streams that they carried.
    pub(super) chunks: Vec<Chunk>,
}

#[derive(Debug, Default)]
pub(super) struct QuicConnection {
    /// When its first datagram reached the link.
    pub(super) opened: u64,
    /// When the server had its first datagram, or [`NEVER`].
    pub(super) accepted: u64,
    /// Both directions of each stream.
    pub(super) streams: BTreeMap<u64, [Stream; 2]>,
    /// The datagrams that were lost, by direction.
    pub(super) lost: [Vec<Transmission>; 2],
    /// The packets in the lost datagrams, by datagram.
    pub(super) lost_packets: BTreeMap<PacketRef, JoinedPacket>,
    /// The ACKs that each direction's sender read.
    pub(super) acks: [Vec<QuicAck>; 2],
    /// When everything that had been sent was acknowledged, by direction.
    pub(super) idle: [Vec<Span>; 2],
    /// Whether all packets of a direction were matched with datagrams.
    pub(super) is_joined: [bool; 2],
    histories: [SendHistory; 2],
    /// The repairs of lost packets, by direction.
    repairs: [Vec<RepairPeriod>; 2],
}

impl QuicConnection {
    /// A connection of which only these times are known.
    pub(super) fn begun(opened: u64, accepted: u64) -> QuicConnection {
        QuicConnection {
            opened,
            accepted,
            ..QuicConnection::default()
        }
    }

    /// What is known of the sender of a direction. Packet numbers stand in for offsets.
    pub(super) fn evidence(&self, direction: Direction) -> SenderEvidence {
        let history = &self.histories[direction as usize];
        let departures = history.sent.iter().map(|(time, number, bytes)| Departure {
            time: *time,
            end: number.saturating_add(1),
            weight: *bytes,
        });
        let acknowledgements = history.acked.iter().map(|(time, largest)| Acknowledgement {
            time: *time,
            to: largest.saturating_add(1),
            limit: NEVER,
        });
        let accounts = history.windows.iter().map(|(time, bytes)| Account {
            time: *time,
            cwnd: Some(*bytes),
            ..Account::default()
        });
        SenderEvidence {
            departures: departures.collect(),
            acknowledgements: acknowledgements.collect(),
            repairs: self.repairs[direction as usize].clone(),
            is_held_by_repairs: false,
            accounts: accounts.collect(),
            packet_weight: PACKET_BYTES,
            packet_bytes: 1,
        }
    }
}

impl SideFrames {
    pub(super) fn add_window(&mut self, time: u64, bytes: u64) {
        self.windows.push((time, bytes));
    }

    /// Puts everything into the order of time. An observer can read a packet only once it has the keys, which a program may
    /// log late. So the rows of 0-RTT packets may come after those of handshake packets that were sent later.
    fn sort(&mut self) {
        sort_nearly_sorted(&mut self.sent, |packet| packet.time);
        sort_nearly_sorted(&mut self.acks, |ack| ack.time);
    }

    pub(super) fn add(&mut self, time: u64, frame: &FrameFacts) {
        let (FrameLayer::Quic, Some(number)) = (frame.layer, frame.packet) else {
            return;
        };
        if frame.way == Way::Received {
            if ACKS.contains(&frame.kind)
                && let Some(largest) = frame.value
            {
                self.acks.push(QuicAck { time, largest });
            }
            return;
        }
        // Each packet number space counts separately (RFC 9000, section 12.3).
        let is_same = |last: &SentPacket| (last.number, last.time) == (number, time);
        if !self.sent.last().is_some_and(is_same) {
            self.sent.push(SentPacket {
                number,
                time,
                least_bytes: SHORT_BYTES,
                slack_bytes: SLACK_BYTES,
                is_short: false,
                has_crypto: false,
                chunks: Vec::new(),
            });
        }
        if let Some(packet) = self.sent.last_mut() {
            packet.add(frame);
        }
    }
}

impl SentPacket {
    fn add(&mut self, frame: &FrameFacts) {
        self.least_bytes = self.least_bytes.saturating_add(least_bytes(frame));
        let is_sized = frame.length > 0 || ACKS.contains(&frame.kind);
        self.slack_bytes += if is_sized { 0 } else { FRAME_SLACK_BYTES };
        self.has_crypto |= frame.kind == CRYPTO;
        let anywhere = [0x00, 0x01, ACKS[0], ACKS[1], CRYPTO, CONNECTION_CLOSE];
        self.is_short |= !anywhere.contains(&frame.kind);
        if STREAM.contains(&frame.kind)
            && let (Some(stream), Some(start)) = (frame.stream, frame.offset)
        {
            let end = start.saturating_add(frame.length);
            self.chunks.push(Chunk { stream, start, end });
        }
    }
}

/// The minimum size of a datagram with one packet of these frames, including the headers of IP and UDP. Attribution can
/// match a datagram of this size with these frames.
pub(crate) fn least_datagram_bytes<'a>(frames: impl Iterator<Item = &'a FrameFacts>) -> u64 {
    let of_frames = frames.fold(0, |sum: u64, frame| sum.saturating_add(least_bytes(frame)));
    (IP_UDP_BYTES + SHORT_BYTES).saturating_add(of_frames)
}

/// The minimum size of a frame (RFC 9000, section 19).
fn least_bytes(frame: &FrameFacts) -> u64 {
    match frame.kind {
        0x00 => frame.length,
        // In rows that quiche writes, the length is 0.
        kind if ACKS.contains(&kind) => frame.length.saturating_add(1).max(5),
        CRYPTO => frame.length.saturating_add(3),
        kind if STREAM.contains(&kind) => frame.length.saturating_add(2),
        RESET_STREAM => 4,
        STOP_SENDING => 3,
        _ => frame.length.saturating_add(1),
    }
}

impl PackedFlow {
    /// Takes a packet for [`PackedFlow::begin`] only.
    pub(super) fn add_beginning(&mut self, packet: &PacketCells) {
        if packet.is_copy || packet.direction == Direction::Down {
            return;
        }
        let arrived = packet.got_through().map_or(NEVER, Time::as_nanos);
        self.accepted = self.accepted.min(arrived);
        let own = (packet.index, packet.arrived.as_nanos());
        self.first = Some(self.first.map_or(own, |first| first.min(own)));
    }

    pub(super) fn add(&mut self, packet: &PacketCells) {
        if packet.is_copy {
            return;
        }
        self.add_beginning(packet);
        self.hop = packet.hop;
        let arrived = packet.got_through().map_or(NEVER, Time::as_nanos);
        let mut datagram = Datagram {
            packet: packet.name(),
            payload: u64::from(packet.length).saturating_sub(IP_UDP_BYTES),
            sent: packet.arrived.as_nanos(),
            queueing: packet.queueing.as_nanos(),
            due: packet.planned.map_or(NEVER, Time::as_nanos),
            arrived,
            fate: packet.fate,
        };
        code(&mut self.rows.write(), &self.before, &mut datagram);
        self.before[packet.direction as usize] = datagram;
    }

    /// The connection, with only the times at which it began and at which the server received its first datagram. It is not
    /// known yet which frames belong to it.
    pub(super) fn begin(&self) -> QuicConnection {
        QuicConnection::begun(self.first.map_or(NEVER, |(_, sent)| sent), self.accepted)
    }

    /// The datagrams by direction, in the order of sending.
    fn unpack(&self) -> [Vec<Datagram>; 2] {
        let mut datagrams = [Vec::new(), Vec::new()];
        let mut reader = self.rows.read();
        let mut before = [NO_DATAGRAM; 2];
        while reader.has_more() {
            let mut own = NO_DATAGRAM;
            own.packet.hop = self.hop;
            code(&mut reader, &before, &mut own);
            let direction = own.packet.direction as usize;
            before[direction] = own;
            datagrams[direction].push(own);
        }
        for datagrams in &mut datagrams {
            datagrams.sort_by_key(|datagram| datagram.packet.index);
        }
        datagrams
    }

    /// Joins datagrams and frames: the client's frames with the datagrams sent up, the server's with those sent down. If
    /// `is_resumed`, the connection had sent others before.
    pub(super) fn join(
        self,
        connection: &mut QuicConnection,
        sides: [Option<SideFrames>; 2],
        is_resumed: bool,
        path: &Path,
    ) {
        let mut txs: BTreeMap<u64, [Vec<Transmission>; 2]> = BTreeMap::new();
        for ((direction, datagrams), frames) in
            Direction::ALL.into_iter().zip(self.unpack()).zip(sides)
        {
            let place = direction as usize;
            let datagrams: Vec<Transmission> = datagrams
                .iter()
                .map(|datagram| transmission(datagram, path))
                .collect();
            let mut frames = frames.unwrap_or_default();
            frames.sort();
            let (joined, is_whole) = if is_resumed {
                pair_around_pause(&datagrams, &mut frames.sent)
            } else {
                pair_datagrams(&datagrams, &frames.sent, false)
            };
            connection.is_joined[place] = is_whole && !frames.sent.is_empty();
            connection.acks[place] = frames.acks;
            let lost = datagrams.iter().filter(|tx| tx.is_lost());
            connection.lost[place] = lost.copied().map(without_size).collect();
            let mut last_numbers = Vec::new();
            for (datagram, packets) in joined {
                let tx = datagrams[datagram];
                let packets = &frames.sent[packets];
                if packets.iter().any(|packet| !packet.chunks.is_empty()) {
                    last_numbers.push((tx, packets.last().map_or(0, |last| last.number)));
                }
                add_chunks(&mut txs, tx, packets);
                if tx.is_lost() {
                    connection
                        .lost_packets
                        .insert(tx.packet, of_datagram(packets));
                }
            }
            connection.idle[place] = idle(&last_numbers, &connection.acks[place]);
            connection.histories[place] =
                SendHistory::new(&last_numbers, &connection.acks[place], frames.windows);
            connection.repairs[place] = connection.histories[place].repairs(&last_numbers);
        }
        connection.streams = txs
            .into_iter()
            .map(|(id, directions)| (id, directions.map(Stream::new)))
            .collect();
    }
}

fn transmission(datagram: &Datagram, path: &Path) -> Transmission {
    let mut tx = Transmission {
        packet: datagram.packet,
        start: 0,
        end: datagram.payload,
        sent: datagram.sent,
        queueing: datagram.queueing,
        due: datagram.due,
        arrived: datagram.arrived,
        fate: datagram.fate,
    };
    path.fill_in(&mut tx);
    tx
}

/// The transmission without its size, because a datagram's bytes are not those of a stream.
fn without_size(tx: Transmission) -> Transmission {
    Transmission { end: 0, ..tx }
}

fn of_datagram(packets: &[SentPacket]) -> JoinedPacket {
    let chunks = packets.iter().flat_map(|packet| &packet.chunks);
    JoinedPacket {
        number: packets.last().map_or(0, |last| last.number),
        has_crypto: packets.iter().any(|packet| packet.has_crypto),
        chunks: chunks.copied().collect(),
    }
}

fn add_chunks(
    txs: &mut BTreeMap<u64, [Vec<Transmission>; 2]>,
    datagram: Transmission,
    packets: &[SentPacket],
) {
    for chunk in packets.iter().flat_map(|packet| &packet.chunks) {
        let of_stream =
            &mut txs.entry(chunk.stream).or_default()[datagram.packet.direction as usize];
        of_stream.push(Transmission {
            start: chunk.start,
            end: chunk.end,
            ..datagram
        });
    }
}

/// Positions of datagrams with the packets in each, and whether all packets found one.
type DatagramPairs = (Vec<(usize, std::ops::Range<usize>)>, bool);

/// Pairs lists that begin in the middle of a connection, where the partner of a packet or datagram may not be in the other
/// list. After a pause that is longer than any packet takes from its sender to the link, both lists go on with the same
/// packet: from there they are paired forwards, and backwards as far as they fit. Without a pause, nothing is paired.
fn pair_around_pause(datagrams: &[Transmission], packets: &mut Vec<SentPacket>) -> DatagramPairs {
    let is_pause = |pair: &[SentPacket]| pair[1].time.saturating_sub(pair[0].time) > PAUSE_AT_LEAST;
    let seen = datagrams.first().map_or(NEVER, |datagram| datagram.sent);
    packets.retain(|packet| packet.time >= seen);
    let Some(before) = packets.windows(2).position(is_pause) else {
        return (Vec::new(), false);
    };
    let (earlier, later) = packets.split_at(before + 1);
    let resumed = later.first().map_or(NEVER, |packet| packet.time);
    let first = datagrams.partition_point(|datagram| datagram.sent < resumed);
    let mut pairs = pair_backwards(&datagrams[..first], earlier);
    let (forwards, is_whole) = pair_datagrams(&datagrams[first..], later, true);
    let skipped = earlier.len();
    pairs.extend(forwards.into_iter().map(|(datagram, packets)| {
        let packets = packets.start + skipped..packets.end + skipped;
        (datagram + first, packets)
    }));
    (pairs, is_whole)
}

/// Pairs the last packets with the last datagrams, until a packet fits into no datagram. After the handshake, each packet
/// has a datagram of its own, which reaches the link after it was sent.
fn pair_backwards(
    datagrams: &[Transmission],
    packets: &[SentPacket],
) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut pairs = Vec::new();
    let mut rest = datagrams.len();
    for (number, packet) in packets.iter().enumerate().rev() {
        let fits = |&place: &usize| {
            let Transmission { sent, end, .. } = datagrams[place];
            let most = packet.least_bytes.saturating_add(packet.slack_bytes);
            packet.time <= sent && packet.least_bytes <= end && (!packet.is_short || end <= most)
        };
        let mut window = rest.saturating_sub(RESYNC_DATAGRAMS)..rest;
        let Some(datagram) = window.rfind(fits) else {
            break;
        };
        pairs.push((datagram, number..number + 1));
        rest = datagram;
    }
    pairs.reverse();
    pairs
}

fn pair_datagrams(
    datagrams: &[Transmission],
    packets: &[SentPacket],
    mut has_sent_short: bool,
) -> DatagramPairs {
    let mut pairs = Vec::new();
    let (mut at, mut next) = (0, 0);
    while next < packets.len() {
        let fits = |&place: &usize| {
            let payload = datagrams[place].end;
            payload >= packets[next].least_bytes
        };
        let window = at..(at + RESYNC_DATAGRAMS).min(datagrams.len());
        let Some(datagram) = window.into_iter().find(fits) else {
            return (pairs, false);
        };
        let payload = datagrams[datagram].end;
        let first = next;
        let mut bytes = packets[next].least_bytes;
        let mut most = bytes + packets[next].slack_bytes;
        next += 1;
        let holds_all = has_own_time(datagrams, datagram, packets[first].time);
        // Packets share a datagram during the handshake; one with a short header is its last.
        while next < packets.len()
            && packets[next].time == packets[next - 1].time
            && payload >= bytes.saturating_add(packets[next].least_bytes)
            && (holds_all
                || !packets[next - 1].is_short
                    && (!has_sent_short || packets[first].has_crypto || payload > most))
        {
            bytes += packets[next].least_bytes;
            most += packets[next].least_bytes + packets[next].slack_bytes;
            next += 1;
        }
        has_sent_short |= packets[next - 1].is_short;
        let is_too_large = payload > most && packets[next - 1].is_short;
        if is_too_large {
            return (pairs, false);
        }
        pairs.push((datagram, first..next));
        at = datagram + 1;
    }
    (pairs, true)
}

/// Whether exactly one datagram was sent at this time. If so, an observer wrote the rows of the packets (a station's own
/// rows are earlier than its datagrams on the link), and all packets of this time are in the datagram.
fn has_own_time(datagrams: &[Transmission], place: usize, time: u64) -> bool {
    let mut around = datagrams[place.saturating_sub(1)..].iter().take(3);
    datagrams[place].sent == time
        && around.all(|it| it.sent != time || it.packet == datagrams[place].packet)
}

/// When everything that a direction had sent was acknowledged.
fn idle(sent: &[(Transmission, u64)], acks: &[QuicAck]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut acks = acks.iter().peekable();
    let (mut largest_sent, mut largest_acked, mut since) = (0, None, Some(0));
    let sent = sent.iter().map(|(tx, number)| (tx.sent, *number));
    for (to, number) in sent.chain([(NEVER, 0)]) {
        while let Some(ack) = acks.next_if(|ack| ack.time <= to) {
            largest_acked = largest_acked.max(Some(ack.largest));
            if largest_acked >= Some(largest_sent) && since.is_none() {
                since = Some(ack.time);
            }
        }
        spans.extend(since.take().map(|from| Span { from, to }));
        largest_sent = largest_sent.max(number);
    }
    spans
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    /// A datagram with a payload of this many bytes.
    fn datagram(payload: u64) -> Transmission {
        Transmission {
            packet: NO_DATAGRAM.packet,
            start: 0,
            end: payload,
            sent: 0,
            queueing: 0,
            due: 0,
            arrived: 0,
            fate: Fate::Delivered,
        }
    }

    /// A frame that a side sent in this packet.
    fn sent(kind: u64, length: u64, packet: u64) -> FrameFacts {
        FrameFacts {
            stream: (kind == STREAM_FRAME).then_some(0),
            offset: Some(0),
            packet: Some(packet),
            ..FrameFacts::new(Way::Sent, FrameLayer::Quic, kind, length)
        }
    }

    const STREAM_FRAME: u64 = 0x0a;

    /// As recorded when an Envoy resumed a session: the key of packet 2 was known only after packet 3 had been read.
    #[test]
    fn zero_rtt_packets_read_late_are_joined_with_their_datagrams() {
        let mut frames = SideFrames::default();
        frames.add(10, &sent(CRYPTO, 1_200, 1));
        frames.add(40, &sent(0x00, 1_144, 3));
        frames.add(11, &sent(STREAM_FRAME, 44, 2));
        frames.add(41, &sent(CRYPTO, 36, 4));
        frames.add(42, &sent(STREAM_FRAME, 742, 5));
        frames.sort();
        let datagrams = [1_250, 80, 1_250, 78, 774].map(datagram);
        let (pairs, is_whole) = pair_datagrams(&datagrams, &frames.sent, false);
        assert!(is_whole);
        let numbers = |packets: &std::ops::Range<usize>| frames.sent[packets.start].number;
        let joined: Vec<(usize, u64)> = pairs.iter().map(|(at, of)| (*at, numbers(of))).collect();
        assert_eq!(joined, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    }

    /// As recorded between two Envoys on a busy machine: a packet of 0-RTT (2) shares a datagram with a Handshake packet (3)
    /// whose row comes before its own, and a packet with a short header (1) came before them.
    #[test]
    fn packets_sent_at_one_time_are_in_the_only_datagram_of_that_time() {
        let mut frames = SideFrames::default();
        frames.add(10, &sent(STREAM_FRAME, 1_200, 1));
        frames.add(20, &sent(0x00, 1_132, 3));
        frames.add(20, &sent(STREAM_FRAME, 53, 2));
        frames.add(30, &sent(0x02, 4, 4));
        frames.add(30, &sent(STREAM_FRAME, 700, 5));
        frames.sort();
        // The last two datagrams were sent at the same time, as by sendmmsg(2).
        let times = [(10, 1_250), (20, 1_250), (30, 31), (30, 730)];
        let mut datagrams = times.map(|(sent, payload)| Transmission {
            sent,
            ..datagram(payload)
        });
        for (index, datagram) in (0..).zip(&mut datagrams) {
            datagram.packet.index = index;
        }
        let (pairs, is_whole) = pair_datagrams(&datagrams, &frames.sent, false);
        assert!(is_whole);
        let joined: Vec<(usize, usize)> = pairs.iter().map(|(at, of)| (*at, of.len())).collect();
        assert_eq!(joined, [(0, 1), (1, 2), (2, 1), (3, 1)]);
    }

    /// The records begin with a datagram whose packet was sent before them.
    #[test]
    fn packets_before_the_first_pause_are_joined_with_their_datagrams() {
        let mut frames = SideFrames::default();
        let packets = [
            (110, 600, 7),
            (120, 700, 8),
            (6_000_000, 800, 9),
            (6_000_010, 900, 10),
        ];
        for (time, length, number) in packets {
            frames.add(time, &sent(STREAM_FRAME, length, number));
        }
        let sizes = [
            (100, 540),
            (111, 640),
            (121, 740),
            (6_000_001, 840),
            (6_000_011, 940),
        ];
        let datagrams = sizes.map(|(sent, payload)| Transmission {
            sent,
            ..datagram(payload)
        });
        let (pairs, is_whole) = pair_around_pause(&datagrams, &mut frames.sent);
        assert!(is_whole);
        let numbers = |packets: &std::ops::Range<usize>| frames.sent[packets.start].number;
        let joined: Vec<(usize, u64)> = pairs.iter().map(|(at, of)| (*at, numbers(of))).collect();
        assert_eq!(joined, [(1, 7), (2, 8), (3, 9), (4, 10)]);
    }

    #[test]
    fn packed_datagrams_are_unpacked_unchanged() {
        let datagram = |n: u64| {
            let draw = |of: u64| splitmix64(of, n);
            let number = |of: u64| match draw(of) % 4 {
                0 => draw(of + 1) >> 1,
                _ => n * 1_000 + draw(of + 1) % 500,
            };
            let maybe = |of: u64| match draw(of) % 5 {
                0 => NEVER,
                _ => number(of + 1),
            };
            Datagram {
                packet: PacketRef {
                    hop: 0,
                    direction: Direction::ALL[(draw(1) % 2) as usize],
                    index: number(10),
                },
                payload: draw(20) % 2_000,
                sent: number(30),
                queueing: number(40),
                due: maybe(50),
                arrived: maybe(60),
                fate: Fate::ALL[(draw(70) % 9) as usize],
            }
        };
        let datagrams: Vec<Datagram> = (0..5_000).map(datagram).collect();
        let mut packed = PackedRows::default();
        let mut before = [NO_DATAGRAM; 2];
        for datagram in &datagrams {
            let mut own = *datagram;
            code(&mut packed.write(), &before, &mut own);
            assert_eq!(own, *datagram, "writing changes nothing");
            before[own.packet.direction as usize] = own;
        }
        let mut reader = packed.read();
        let mut before = [NO_DATAGRAM; 2];
        for expected in datagrams {
            assert!(reader.has_more());
            let mut own = NO_DATAGRAM;
            code(&mut reader, &before, &mut own);
            assert_eq!(own, expected);
            before[own.packet.direction as usize] = own;
        }
    }
}
