//! Turns a QUIC connection that was seen at one point into datagrams that left one end and reached the other.
//!
//! Everything is derived from its frames, which the observer has decrypted. Each packet counts as one datagram, even if a
//! capture has several in one (UDP_SEGMENT). A packet number is never used twice, so losses show in the streams: if bytes
//! were retransmitted, they were lost beyond the point; if bytes came after later ones and a packet number is missing there
//! too, they were lost before it. The record has only the largest number of each ACK, so only that packet is known to be
//! acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{
    Direction, Fate, FrameFacts, FrameLayer, FrameRecord, PacketClass, PacketRecord, Side, Way,
};
use squall_base::{Duration, Time};

use super::arrivals::{Arrivals, StreamKey};
use super::ends::{Ends, RankedPacket};
use super::losses::{Ack, Judgement, Sighting, judge};
use super::round_trips::{RoundTrips, minimum_round_trip};
use super::tcp::{at_ends, lost};
use crate::causes::quic::least_datagram_bytes;
use crate::wire::quic::{ACKS, STREAM};

/// How far below a packet's number a missing number is searched for: farther than any number of packets that are lost in a
/// row and repaired one by one.
const NEIGHBOURS: u64 = 256;

/// A packet that was seen.
#[derive(Default)]
struct SentPacket {
    number: u64,
    time: u64,
    /// Positions of its frames among the connection's.
    frames: std::ops::Range<usize>,
    /// Its size, according to its frames.
    datagram_bytes: u64,
    /// Stream, start and end of the bytes that it carried.
    chunks: Vec<(u64, u64, u64)>,
}

/// Bytes of a stream that never reached the point.
struct MissingStreamBytes {
    stream: u64,
    start: u64,
    end: u64,
    /// The position of the packet that reveals the gap.
    before: usize,
    /// The packet number that is missing.
    number: u64,
}

struct ObservedDirection {
    direction: Direction,
    packets: Vec<SentPacket>,
    /// When each largest number was acknowledged, ascending.
    acknowledged: Vec<Ack>,
    /// Every number that an ACK named as its largest.
    named: BTreeSet<u64>,
}

fn is_sent(row: &FrameRecord, side: Side) -> bool {
    let frame = &row.frame;
    (row.side, frame.way, frame.layer) == (side, Way::Sent, FrameLayer::Quic)
}

impl ObservedDirection {
    fn of(frames: &[FrameRecord], direction: Direction) -> ObservedDirection {
        let sender = direction.sender();
        let acks = frames
            .iter()
            .filter(|row| is_sent(row, sender.peer()) && ACKS.contains(&row.frame.kind));
        let acks = acks.filter_map(|row| Some((row.time.as_nanos(), row.frame.value?)));
        let (mut acknowledged, mut named) = (Vec::<Ack>::new(), BTreeSet::new());
        for (time, largest) in acks {
            named.insert(largest);
            // Exclusive, like the end of a range of bytes.
            let to = largest.saturating_add(1);
            if acknowledged.last().is_none_or(|last| last.to < to) {
                acknowledged.push(Ack { time, to });
            }
        }
        ObservedDirection {
            direction,
            packets: packets(frames, sender),
            acknowledged,
            named,
        }
    }

    /// The minimum round trip to the end that receives this direction. Handshakes number their packets separately (RFC
    /// 9000, section 12.3), so a number that occurs more than once says nothing.
    fn round_trip(&self) -> Option<Duration> {
        let mut times: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for packet in &self.packets {
            let time = times.entry(packet.number).or_insert(Some(packet.time));
            *time = time.filter(|time| *time == packet.time);
        }
        let of_largest = self.acknowledged.iter().filter_map(|ack| {
            let number = ack.to - 1;
            let sent = times.get(&number).copied().flatten()?;
            minimum_round_trip(&[(ack.to, sent)], &[*ack])
        });
        of_largest.min()
    }

    /// Whether packet `place` was lost, given that its bytes were retransmitted at `again`. It was lost if no ACK named it, and
    /// either a later packet was acknowledged by then, or none was before the second copy can have been acknowledged.
    fn is_lost(&self, place: usize, again: u64, trip: u64) -> bool {
        let number = self.packets[place].number;
        if self.named.contains(&number) {
            return false;
        }
        let before = self.acknowledged.partition_point(|ack| ack.to <= number);
        let Some(next) = self.acknowledged.get(before) else {
            return true;
        };
        next.time <= again || next.time >= again.saturating_add(trip)
    }

    /// Which packets were lost beyond the point, and which bytes before it.
    fn judge_losses(&self, trips: &RoundTrips) -> (BTreeSet<usize>, Vec<MissingStreamBytes>) {
        let whole = trips.whole().as_nanos();
        let trip = trips.earliest_reply(self.direction);
        let mut streams: BTreeMap<u64, Vec<(Sighting, usize)>> = BTreeMap::new();
        for (place, packet) in self.packets.iter().enumerate() {
            for &(stream, start, end) in &packet.chunks {
                let time = packet.time;
                let sighting = Sighting { start, end, time };
                streams.entry(stream).or_default().push((sighting, place));
            }
        }
        let mut gaps = Gaps::of(&self.packets);
        let (mut lost, mut missing) = (BTreeSet::new(), Vec::new());
        for (stream, all) in streams {
            let sightings: Vec<Sighting> = all.iter().map(|(sighting, _)| *sighting).collect();
            let Judgement {
                parts,
                missing: holes,
            } = judge(&sightings, whole, |(own, _, again)| {
                self.is_lost(all[own].1, again, trip)
            });
            let lost_parts = parts.iter().filter(|part| part.is_lost);
            lost.extend(lost_parts.map(|part| all[part.place].1));
            missing.extend(holes.into_iter().filter_map(|hole| {
                let before = all[hole.before].1;
                Some(MissingStreamBytes {
                    stream,
                    start: hole.start,
                    end: hole.end,
                    before,
                    number: gaps.below(self.packets[before].number)?,
                })
            }));
        }
        (lost, missing)
    }
}

/// Packet numbers that were not seen.
struct Gaps(BTreeSet<u64>);

impl Gaps {
    fn of(packets: &[SentPacket]) -> Gaps {
        Gaps(packets.iter().map(|packet| packet.number).collect())
    }

    /// The nearest unseen number below `number`; each is returned only once.
    fn below(&mut self, number: u64) -> Option<u64> {
        let near = number.saturating_sub(NEIGHBOURS)..number;
        let gap = near.rev().find(|number| !self.0.contains(number))?;
        self.0.insert(gap);
        Some(gap)
    }
}

fn packets(frames: &[FrameRecord], sender: Side) -> Vec<SentPacket> {
    let mut packets: Vec<SentPacket> = Vec::new();
    for (place, row) in frames.iter().enumerate() {
        let (true, Some(number)) = (is_sent(row, sender), row.frame.packet) else {
            continue;
        };
        let time = row.time.as_nanos();
        match packets.last_mut() {
            Some(last) if (last.number, last.time) == (number, time) => last.frames.end = place + 1,
            _ => packets.push(SentPacket {
                number,
                time,
                frames: place..place + 1,
                datagram_bytes: 0,
                chunks: Vec::new(),
            }),
        }
    }
    for packet in &mut packets {
        let own = frames[packet.frames.clone()].iter();
        let own = own.filter(|row| is_sent(row, sender)).map(|row| &row.frame);
        packet.datagram_bytes = least_datagram_bytes(own.clone());
        packet.chunks = own.filter_map(chunk).collect();
    }
    packets
}

fn chunk(frame: &FrameFacts) -> Option<(u64, u64, u64)> {
    let start = frame.offset.filter(|_| STREAM.contains(&frame.kind))?;
    Some((frame.stream?, start, start.saturating_add(frame.length)))
}

pub(super) fn round_trips(frames: &[FrameRecord]) -> RoundTrips {
    RoundTrips::of(|direction| ObservedDirection::of(frames, direction).round_trip())
}

/// Adds the packets of a connection, and when the bytes of its streams had arrived. `frames` gets the frames of packets
/// that the capture lacks.
pub(super) fn place(
    rows: &[PacketRecord],
    frames: &mut Vec<FrameRecord>,
    trips: &RoundTrips,
    ends: &Ends,
    placed: &mut Vec<RankedPacket>,
    arrivals: &mut BTreeMap<StreamKey, Arrivals>,
) {
    let Some(like) = rows.first() else { return };
    let mut inserted: Vec<(usize, FrameRecord)> = Vec::new();
    for direction in Direction::ALL {
        let seen = ObservedDirection::of(frames, direction);
        let (lost_packets, missing) = seen.judge_losses(trips);
        for (place, packet) in seen.packets.iter().enumerate() {
            let mut row = at_ends(&datagram(like, rows, direction, packet), ends);
            if lost_packets.contains(&place) {
                row = lost(row);
            } else if let Some(time) = row.released {
                for &(stream, start, end) in &packet.chunks {
                    let key = (like.flow, Some(stream), direction);
                    arrivals.entry(key).or_default().add(start, end, time);
                }
            }
            let rank = 2 * packet.frames.start + 1;
            placed.push(RankedPacket { row, rank });
        }
        for missing in missing {
            let before = &seen.packets[missing.before];
            let frame = FrameRecord {
                time: Time::from_nanos(before.time),
                frame: stream_frame(&missing),
                ..frames[before.frames.start]
            };
            let packet = SentPacket {
                datagram_bytes: least_datagram_bytes([&frame.frame].into_iter()),
                time: before.time,
                ..SentPacket::default()
            };
            let row = lost(at_ends(&datagram(like, rows, direction, &packet), ends));
            let rank = 2 * before.frames.start;
            placed.push(RankedPacket { row, rank });
            inserted.push((before.frames.start, frame));
        }
    }
    insert(frames, inserted);
    let of_connection =
        (like.flow, None, Direction::Up)..(like.flow.saturating_add(1), None, Direction::Up);
    for (_, arrivals) in arrivals.range_mut(of_connection) {
        arrivals.compute_fronts();
    }
}

fn stream_frame(missing: &MissingStreamBytes) -> FrameFacts {
    let length = missing.end - missing.start;
    FrameFacts {
        stream: Some(missing.stream),
        offset: Some(missing.start),
        packet: Some(missing.number),
        ..FrameFacts::new(Way::Sent, FrameLayer::Quic, *STREAM.start(), length)
    }
}

/// Inserts frames before those at their positions.
fn insert(frames: &mut Vec<FrameRecord>, mut inserted: Vec<(usize, FrameRecord)>) {
    if inserted.is_empty() {
        return;
    }
    inserted.sort_by_key(|(place, _)| *place);
    let mut inserted = inserted.into_iter().peekable();
    let mut all = Vec::with_capacity(frames.len() + inserted.len());
    for (place, row) in frames.drain(..).enumerate() {
        while let Some((_, frame)) = inserted.next_if(|(before, _)| *before <= place) {
            all.push(frame);
        }
        all.push(row);
    }
    *frames = all;
}

/// The datagram of a packet, under the number of the captured packet that it was seen in.
fn datagram(
    like: &PacketRecord,
    rows: &[PacketRecord],
    direction: Direction,
    packet: &SentPacket,
) -> PacketRecord {
    let time = Time::from_nanos(packet.time);
    let from = rows.partition_point(|row| row.arrived < time);
    let mut at_once = rows[from..].iter().take_while(|row| row.arrived == time);
    let captured = at_once.find(|row| row.direction == direction);
    PacketRecord {
        hop: 1,
        index: captured.map_or(like.index, |row| row.index),
        direction,
        class: PacketClass::Other,
        length: u16::try_from(packet.datagram_bytes).unwrap_or(u16::MAX),
        arrived: time,
        fate: Fate::Delivered,
        ..*like
    }
}
