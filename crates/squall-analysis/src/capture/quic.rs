//! A QUIC connection that was seen at one point, as datagrams that left one end and reached the other.
//!
//! Everything is made of its frames, which the observer has deciphered: each packet is one datagram, even where a capture
//! has several in one (UDP_SEGMENT). A packet number never comes twice, so what is missing shows in the streams: bytes that
//! were sent again were lost behind the point, bytes that came behind others were lost before it if a packet number is
//! missing there too. Of ACK the record has the largest number only, so whether a single packet was acknowledged is known
//! of the largest alone.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{
    Direction, Fate, FrameFacts, FrameLayer, FrameRecord, PacketClass, PacketRecord, Side, Way,
};
use squall_base::{Duration, Time};

use super::arrivals::Arrivals;
use super::ends::Ends;
use super::losses::{Acknowledged, Judged, Sighting, judge, nearly};
use super::round_trips::{RoundTrips, least};
use super::tcp::{at_ends, lost, sides};
use super::{Lane, Placed};
use crate::causes::quic::least_datagram_bytes;

/// Types of frames (RFC 9000, section 19).
const ACKS: [u64; 2] = [0x02, 0x03];
const STREAM: std::ops::RangeInclusive<u64> = 0x08..=0x0f;

/// How far below a packet its missing neighbour is looked for: more than are lost in a row and repaired one by one.
const NEIGHBOURS: u64 = 256;

/// A packet that was seen.
struct Sent {
    number: u64,
    time: u64,
    /// Places of its frames among the connection's.
    frames: std::ops::Range<usize>,
    /// Its bytes, as the frames have them.
    datagram_bytes: u64,
    /// Stream, start and end of the bytes that it carried.
    chunks: Vec<(u64, u64, u64)>,
}

/// Bytes of a stream that never reached the point.
struct Missing {
    stream: u64,
    start: u64,
    end: u64,
    /// The packet that shows it, by its place.
    before: usize,
    /// The missing number.
    number: u64,
}

/// One direction as it was seen.
struct Seen {
    direction: Direction,
    packets: Vec<Sent>,
    /// When each largest number was acknowledged, rising.
    acknowledged: Vec<Acknowledged>,
    /// Every number that an ACK named as its largest.
    named: BTreeSet<u64>,
}

fn is_sent(row: &FrameRecord, side: Side) -> bool {
    let frame = &row.frame;
    (row.side, frame.way, frame.layer) == (side, Way::Sent, FrameLayer::Quic)
}

impl Seen {
    fn of(frames: &[FrameRecord], direction: Direction) -> Seen {
        let [sender, receiver] = sides(direction);
        let acks = frames
            .iter()
            .filter(|row| is_sent(row, receiver) && ACKS.contains(&row.frame.kind));
        let acks = acks.filter_map(|row| Some((row.time.as_nanos(), row.frame.value?)));
        let (mut acknowledged, mut named) = (Vec::<Acknowledged>::new(), BTreeSet::new());
        for (time, largest) in acks {
            named.insert(largest);
            // After the packet's number, as after a byte.
            let to = largest.saturating_add(1);
            if acknowledged.last().is_none_or(|last| last.to < to) {
                acknowledged.push(Acknowledged { time, to });
            }
        }
        Seen {
            direction,
            packets: packets(frames, sender),
            acknowledged,
            named,
        }
    }

    /// The least round trip to the end that receives it. Handshakes count their packets for themselves (RFC 9000, section
    /// 12.3): a number that came more than once tells nothing.
    fn round_trip(&self) -> Option<Duration> {
        let mut times: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for packet in &self.packets {
            let time = times.entry(packet.number).or_insert(Some(packet.time));
            *time = time.filter(|time| *time == packet.time);
        }
        let of_largest = self.acknowledged.iter().filter_map(|ack| {
            let number = ack.to - 1;
            let sent = times.get(&number).copied().flatten()?;
            least(&[(ack.to, sent)], &[*ack])
        });
        of_largest.min()
    }

    /// Whether packet `place` was lost, of which bytes came again at `again`: nobody has acknowledged it by name, and when
    /// it went again a later one had been acknowledged, or nothing was until the second copy can have been.
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

    /// Which packets were lost behind the point, and what was lost before it.
    fn judged(&self, trips: &RoundTrips) -> (BTreeSet<usize>, Vec<Missing>) {
        let trip = match self.direction {
            Direction::Up => trips.server,
            Direction::Down => trips.client,
        };
        let trip = nearly(trip.map_or(0, Duration::as_nanos));
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
            let whole = trips.whole().as_nanos();
            let Judged {
                parts,
                missing: holes,
            } = judge(&sightings, whole, |(own, _, again)| {
                self.is_lost(all[own].1, again, trip)
            });
            lost.extend(
                parts
                    .iter()
                    .filter(|part| part.is_lost)
                    .map(|part| all[part.place].1),
            );
            missing.extend(holes.into_iter().filter_map(|hole| {
                let before = all[hole.before].1;
                Some(Missing {
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
    fn of(packets: &[Sent]) -> Gaps {
        Gaps(packets.iter().map(|packet| packet.number).collect())
    }

    /// The nearest below a number, once.
    fn below(&mut self, number: u64) -> Option<u64> {
        let near = number.saturating_sub(NEIGHBOURS)..number;
        let gap = near.rev().find(|number| !self.0.contains(number))?;
        self.0.insert(gap);
        Some(gap)
    }
}

fn packets(frames: &[FrameRecord], sender: Side) -> Vec<Sent> {
    let mut packets: Vec<Sent> = Vec::new();
    for (place, row) in frames.iter().enumerate() {
        let (true, Some(number)) = (is_sent(row, sender), row.frame.packet) else {
            continue;
        };
        let time = row.time.as_nanos();
        match packets.last_mut() {
            Some(last) if (last.number, last.time) == (number, time) => last.frames.end = place + 1,
            _ => packets.push(Sent {
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

/// How far the point is from both ends.
pub(super) fn round_trips(frames: &[FrameRecord]) -> RoundTrips {
    let of = |direction| Seen::of(frames, direction).round_trip();
    RoundTrips {
        client: of(Direction::Down),
        server: of(Direction::Up),
    }
}

/// Adds the packets of a connection, and when the bytes of its streams were there; `frames` gets those of packets that the
/// capture lacks.
pub(super) fn place(
    rows: &[PacketRecord],
    frames: &mut Vec<FrameRecord>,
    trips: &RoundTrips,
    ends: &Ends,
    placed: &mut Vec<Placed>,
    arrivals: &mut BTreeMap<Lane, Arrivals>,
) {
    let Some(like) = rows.first() else { return };
    let mut lacking: Vec<(usize, FrameRecord)> = Vec::new();
    for direction in Direction::ALL {
        let seen = Seen::of(frames, direction);
        let (lost_packets, missing) = seen.judged(trips);
        for (place, packet) in seen.packets.iter().enumerate() {
            let mut row = at_ends(&datagram(like, rows, direction, packet), ends);
            if lost_packets.contains(&place) {
                row = lost(row);
            } else if let Some(time) = row.released {
                for &(stream, start, end) in &packet.chunks {
                    let lane = (like.flow, Some(stream), direction);
                    arrivals.entry(lane).or_default().add(start, end, time);
                }
            }
            let rank = 2 * packet.frames.start + 1;
            placed.push(Placed { row, rank });
        }
        for missing in missing {
            let before = &seen.packets[missing.before];
            let frame = FrameRecord {
                time: Time::from_nanos(before.time),
                frame: stream_frame(&missing),
                ..frames[before.frames.start]
            };
            let packet = Sent {
                datagram_bytes: least_datagram_bytes([&frame.frame].into_iter()),
                ..unseen(before.time)
            };
            let row = lost(at_ends(&datagram(like, rows, direction, &packet), ends));
            let rank = 2 * before.frames.start;
            placed.push(Placed { row, rank });
            lacking.push((before.frames.start, frame));
        }
    }
    insert(frames, lacking);
    let of_connection =
        (like.flow, None, Direction::Up)..(like.flow.saturating_add(1), None, Direction::Up);
    for (_, arrivals) in arrivals.range_mut(of_connection) {
        arrivals.settle();
    }
}

/// A packet without frames.
fn unseen(time: u64) -> Sent {
    Sent {
        number: 0,
        time,
        frames: 0..0,
        datagram_bytes: 0,
        chunks: Vec::new(),
    }
}

fn stream_frame(missing: &Missing) -> FrameFacts {
    FrameFacts {
        way: Way::Sent,
        layer: FrameLayer::Quic,
        kind: *STREAM.start(),
        flags: 0,
        stream: Some(missing.stream),
        offset: Some(missing.start),
        length: missing.end - missing.start,
        packet: Some(missing.number),
        value: None,
        stream_window: None,
        connection_window: None,
    }
}

/// Puts frames before those at their places.
fn insert(frames: &mut Vec<FrameRecord>, mut lacking: Vec<(usize, FrameRecord)>) {
    if lacking.is_empty() {
        return;
    }
    lacking.sort_by_key(|(place, _)| *place);
    let mut lacking = lacking.into_iter().peekable();
    let mut all = Vec::with_capacity(frames.len() + lacking.len());
    for (place, row) in frames.drain(..).enumerate() {
        while let Some((_, frame)) = lacking.next_if(|(before, _)| *before <= place) {
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
    packet: &Sent,
) -> PacketRecord {
    let time = Time::from_nanos(packet.time);
    let from = rows.partition_point(|row| row.arrived < time);
    let mut at_once = rows[from..].iter().take_while(|row| row.arrived == time);
    let captured = at_once.find(|row| row.direction == direction);
    PacketRecord {
        index: captured.map_or(like.index, |row| row.index),
        direction,
        class: PacketClass::Other,
        length: u16::try_from(packet.datagram_bytes).unwrap_or(u16::MAX),
        arrived: time,
        fate: Fate::Delivered,
        ..*like
    }
}
