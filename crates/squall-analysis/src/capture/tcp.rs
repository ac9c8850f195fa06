//! Turns a TCP connection that was seen at one point into packets that left one end and reached the other.
//!
//! Sequence numbers count from the first one that was seen in each direction, as the observer counts them. If a
//! connection's SYNs were not seen, they are added at the time of its first packet, so that its bytes have a position.
//! `losses` judges what was lost, and `causes` works out what that cost.

use std::collections::BTreeMap;

use squall_base::record::{Direction, Fate, PacketClass, PacketRecord, Way};
use squall_base::{Duration, Time};

use super::arrivals::{Arrivals, StreamKey};
use super::ends::{Ends, RankedPacket};
use super::losses::{Ack, Judgement, Sighting, judge};
use super::round_trips::{RoundTrips, minimum_round_trip};
use crate::causes::tcp::Offsets;
use crate::wire::{ACK, SYN};

struct ObservedDirection {
    direction: Direction,
    /// The sequence number of the first byte.
    origin: u32,
    sightings: Vec<Sighting>,
    /// Which packet of the connection each sighting was.
    packets: Vec<usize>,
    acknowledged: Vec<Ack>,
    /// When its SYN was first seen.
    syn: Option<u64>,
}

fn has(row: &PacketRecord, flag: u8) -> bool {
    row.tcp_flags & flag != 0
}

fn after_syn(row: &PacketRecord) -> u32 {
    row.seq.wrapping_add(u32::from(has(row, SYN)))
}

/// The number of a direction's first byte: that of its first packet or, for a server whose SYN was not seen, the number
/// that the client acknowledges.
fn origin(rows: &[PacketRecord], direction: Direction) -> Option<u32> {
    let opens = rows.iter().any(is_opening);
    rows.iter().find_map(|row| {
        let shows_origin = opens && direction == Direction::Down && has(row, ACK) && !has(row, SYN);
        if row.direction == direction {
            Some(after_syn(row))
        } else {
            shows_origin.then_some(row.ack)
        }
    })
}

fn is_opening(row: &PacketRecord) -> bool {
    row.direction == Direction::Up && has(row, SYN) && !has(row, ACK)
}

impl ObservedDirection {
    fn of(rows: &[PacketRecord], direction: Direction) -> Option<ObservedDirection> {
        let origin = origin(rows, direction)?;
        let mut seen = ObservedDirection {
            direction,
            origin,
            sightings: Vec::new(),
            packets: Vec::new(),
            acknowledged: Vec::new(),
            syn: None,
        };
        let [mut sent_offsets, mut acked_offsets] = [0, 1].map(|_| Offsets::new(origin, 0));
        let mut acknowledged = None;
        for (place, row) in rows.iter().enumerate() {
            let time = row.arrived.as_nanos();
            if row.direction != direction {
                let to = has(row, ACK)
                    .then(|| acked_offsets.offset(row.ack))
                    .flatten();
                if to > acknowledged {
                    acknowledged = to;
                    let to = to.unwrap_or(0);
                    seen.acknowledged.push(Ack { time, to });
                }
                continue;
            }
            if has(row, SYN) {
                seen.syn.get_or_insert(time);
            }
            if let Some(start) = sent_offsets
                .offset(after_syn(row))
                .filter(|_| row.payload_len > 0)
            {
                let end = start + u64::from(row.payload_len);
                seen.sightings.push(Sighting { start, end, time });
                seen.packets.push(place);
            }
        }
        Some(seen)
    }

    /// The minimum round trip to the end that receives this direction.
    fn round_trip(&self) -> Option<Duration> {
        let mut sent: Vec<(u64, u64)> = self.syn.map(|time| (0, time)).into_iter().collect();
        for own in &self.sightings {
            if sent.last().is_none_or(|(end, _)| *end < own.end) {
                sent.push((own.end, own.time));
            }
        }
        minimum_round_trip(&sent, &self.acknowledged)
    }

    fn judge_losses(&self, trips: &RoundTrips) -> Judgement {
        let whole = trips.whole().as_nanos();
        let trip = trips.earliest_reply(self.direction);
        judge(&self.sightings, whole, |(_, end, again)| {
            let before = self.acknowledged.partition_point(|ack| ack.to < end);
            let acknowledged = self.acknowledged.get(before);
            acknowledged.is_none_or(|ack| ack.time >= again.saturating_add(trip))
        })
    }
}

pub(super) fn round_trips(rows: &[PacketRecord]) -> RoundTrips {
    RoundTrips::of(|direction| ObservedDirection::of(rows, direction)?.round_trip())
}

/// The packet with the times at which it left its sender and reached its receiver.
pub(super) fn at_ends(row: &PacketRecord, ends: &Ends) -> PacketRecord {
    let sender = row.direction.sender();
    let released = ends.time(row.flow, sender.peer(), Way::Received, row.arrived);
    PacketRecord {
        arrived: ends.time(row.flow, sender, Way::Sent, row.arrived),
        planned: Some(released),
        released: Some(released),
        ..*row
    }
}

/// The same packet, but lost before it reached its receiver.
pub(super) fn lost(row: PacketRecord) -> PacketRecord {
    PacketRecord {
        released: None,
        fate: Fate::LossDrop,
        ..row
    }
}

/// Adds the packets of a connection, and when their bytes had arrived.
pub(super) fn place(
    number: u32,
    rows: &[PacketRecord],
    trips: &RoundTrips,
    ends: &Ends,
    placed: &mut Vec<RankedPacket>,
    arrivals: &mut BTreeMap<StreamKey, Arrivals>,
) {
    let first = placed.len();
    let mut origins = [None; 2];
    for direction in Direction::ALL {
        let Some(seen) = ObservedDirection::of(rows, direction) else {
            continue;
        };
        origins[direction as usize] = Some(seen.origin);
        let stream_arrivals = arrivals.entry((number, None, direction)).or_default();
        place_segments(&seen, rows, trips, ends, placed, stream_arrivals);
        stream_arrivals.compute_fronts();
    }
    let without_bytes = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.payload_len == 0);
    placed.extend(without_bytes.map(|(place, row)| RankedPacket {
        row: at_ends(row, ends),
        rank: 2 * place + 1,
    }));
    let beginning = placed[first..].iter().map(|it| it.row.arrived).min();
    for direction in Direction::ALL {
        let is_syn = |row: &&PacketRecord| {
            row.direction == direction && has(row, SYN) && row.payload_len == 0
        };
        let seen = rows.iter().find(is_syn);
        if let (None, Some(origin), Some(at)) = (seen, origins[direction as usize], beginning) {
            let flags = if direction == Direction::Up {
                SYN
            } else {
                SYN | ACK
            };
            placed.push(RankedPacket {
                row: syn(&rows[0], direction, origin, flags, at),
                rank: 0,
            });
        }
    }
}

fn place_segments(
    seen: &ObservedDirection,
    rows: &[PacketRecord],
    trips: &RoundTrips,
    ends: &Ends,
    placed: &mut Vec<RankedPacket>,
    arrivals: &mut Arrivals,
) {
    let judgement = seen.judge_losses(trips);
    let cut = |row: &PacketRecord, start: u64, end: u64| PacketRecord {
        // Modulo 2^32, as sequence numbers are.
        seq: seen.origin.wrapping_add(start as u32),
        tcp_flags: row.tcp_flags & !SYN,
        payload_len: u16::try_from(end - start).unwrap_or(u16::MAX),
        ..*row
    };
    for part in &judgement.parts {
        let place = seen.packets[part.place];
        let mut row = cut(&at_ends(&rows[place], ends), part.start, part.end);
        let mut rank = 2 * place + 1;
        if let Some(by) = part.overtaken_by {
            let by = seen.packets[by];
            row.arrived = at_ends(&rows[by], ends).arrived;
            rank = 2 * by;
        }
        if part.is_lost {
            row = lost(row);
        } else if let Some(time) = row.released {
            arrivals.add(part.start, part.end, time);
        }
        placed.push(RankedPacket { row, rank });
    }
    for missing in &judgement.missing {
        let before = seen.packets[missing.before];
        let shown_by = at_ends(&rows[before], ends);
        let mut start = missing.start;
        while start < missing.end {
            let end = missing.end.min(start + u64::from(u16::MAX));
            placed.push(RankedPacket {
                // Nothing is known of what it acknowledges.
                row: lost(PacketRecord {
                    tcp_flags: 0,
                    ..cut(&shown_by, start, end)
                }),
                rank: 2 * before,
            });
            start = end;
        }
    }
}

/// A SYN in place of one that was not seen: just before the byte `origin`.
fn syn(
    like: &PacketRecord,
    direction: Direction,
    origin: u32,
    flags: u8,
    at: Time,
) -> PacketRecord {
    PacketRecord {
        direction,
        class: PacketClass::Syn,
        seq: origin.wrapping_sub(1),
        ack: 0,
        payload_len: 0,
        tcp_flags: flags,
        arrived: at,
        planned: Some(at),
        released: Some(at),
        ..*like
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::made_packet;

    /// A packet of connection 0, seen at `time` microseconds, with its sequence number, its payload and the byte it awaits.
    fn row(
        direction: Direction,
        time: u64,
        bytes: (u32, u16),
        ack: u32,
        tcp_flags: u8,
    ) -> PacketRecord {
        PacketRecord {
            tcp_flags,
            ..made_packet(Time::from_nanos(time * 1_000), direction, bytes, ack)
        }
    }

    use Direction::{Down, Up};

    /// The round trip to the client is 1 ms, to the server 20 ms; sequence numbers wrap within the first segment.
    fn handshake() -> Vec<PacketRecord> {
        vec![
            row(Up, 0, (u32::MAX - 9, 0), 0, SYN),
            row(Down, 20_000, (499, 0), u32::MAX - 8, SYN | ACK),
            row(Up, 21_000, (u32::MAX - 8, 0), 500, ACK),
        ]
    }

    fn placed(rows: &[PacketRecord]) -> (RoundTrips, Vec<PacketRecord>, Arrivals) {
        let trips = round_trips(rows);
        let ends = Ends::of(&BTreeMap::from([(0, trips)]));
        let (mut all, mut arrivals) = (Vec::new(), BTreeMap::new());
        place(0, rows, &trips, &ends, &mut all, &mut arrivals);
        all.sort_by_key(|it| (it.row.arrived, it.rank));
        let rows = all.into_iter().map(|it| it.row).collect();
        (
            trips,
            rows,
            arrivals.remove(&(0, None, Up)).unwrap_or_default(),
        )
    }

    fn lost_payloads(rows: &[PacketRecord]) -> Vec<(u32, u16)> {
        let lost = rows.iter().filter(|row| row.released.is_none());
        lost.map(|row| (row.seq, row.payload_len)).collect()
    }

    #[test]
    fn a_needed_retransmission_delivers_the_bytes_when_it_arrives() {
        let first = u32::MAX - 8;
        let mut rows = handshake();
        rows.extend([
            row(Up, 21_100, (first, 100), 500, ACK),
            row(Up, 300_000, (first, 100), 500, ACK),
            row(Down, 320_000, (500, 0), first.wrapping_add(100), ACK),
        ]);
        let (trips, placed, arrivals) = placed(&rows);
        assert_eq!(trips.client, Some(Duration::from_millis(1)));
        assert_eq!(trips.server, Some(Duration::from_millis(20)));
        assert_eq!(lost_payloads(&placed), [(first, 100)]);
        // Times begin half of the longest round trip before the first packet: 10 ms.
        assert_eq!(
            arrivals.complete_at(100),
            Some(Time::from_nanos(320_000_000))
        );
    }

    #[test]
    fn a_needless_retransmission_is_not_a_loss() {
        let first = u32::MAX - 8;
        let mut rows = handshake();
        rows.extend([
            row(Up, 21_100, (first, 100), 500, ACK),
            row(Up, 60_000, (first, 100), 500, ACK),
            row(Down, 61_000, (500, 0), first.wrapping_add(100), ACK),
        ]);
        let (_, placed, arrivals) = placed(&rows);
        assert!(lost_payloads(&placed).is_empty());
        assert_eq!(
            arrivals.complete_at(100),
            Some(Time::from_nanos(41_100_000))
        );
    }

    #[test]
    fn a_missing_packet_leaves_before_the_packet_that_shows_it() {
        let first = u32::MAX - 8;
        let mut rows = handshake();
        rows.extend([
            row(Up, 21_100, (first.wrapping_add(100), 100), 500, ACK),
            row(Up, 300_000, (first, 100), 500, ACK),
        ]);
        let (_, placed, _) = placed(&rows);
        assert_eq!(lost_payloads(&placed), [(first, 100)]);
        let at = placed.iter().position(|row| row.released.is_none());
        let behind = &placed[at.expect("it is there") + 1];
        assert_eq!(behind.seq, first.wrapping_add(100));
        assert_eq!(behind.arrived, placed[at.unwrap_or(0)].arrived);
    }

    #[test]
    fn syns_are_added_to_a_connection_whose_beginning_was_missed() {
        let rows = [
            row(Down, 0, (900, 50), 70, ACK),
            row(Up, 500, (70, 30), 950, ACK),
        ];
        let (_, placed, _) = placed(&rows);
        let syns = placed.iter().filter(|row| row.tcp_flags & SYN != 0);
        let syns: Vec<(Direction, u32)> = syns.map(|row| (row.direction, row.seq)).collect();
        assert_eq!(syns, [(Up, 69), (Down, 899)]);
        assert!(placed.iter().all(|row| row.arrived >= placed[0].arrived));
    }
}
