//! Reconstructs both ends from a capture at one point of the path: delays and losses beyond the point.
//!
//! An import has, for both sides, the times at which packets passed the point. First the minimum round trip between the
//! point and each end is found (`round_trips`), and each end is placed half of it away (`ends`, the only place that shifts
//! a time). Transmissions that were lost on either side of the point are then told apart from needless repetitions
//! (`losses`). Which packet carried which bytes is written down as the link of a trial would record it (`tcp`, `quic`), and
//! frames get the order of their end (`windows`). After that, `causes` follows it like any trial. docs/METHOD.md has the
//! rule and its error ("Captures from elsewhere"). No file is read here, and no row of an import is changed on disk.

mod arrivals;
mod ends;
mod losses;
mod quic;
mod round_trips;
mod tcp;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{
    Direction, ExchangeRecord, FrameRecord, Outcome, PacketRecord, RequestRecord, Side, Way,
};
use squall_base::{Duration, Time};

use crate::causes::PathShape;
use crate::explain::{self, Explanation, Moment, PacketName, Tables};
use crate::wire::TCP;
use arrivals::{Arrivals, StreamKey};
use ends::{Ends, RankedPacket};
pub use round_trips::RoundTrips;

/// What `squall import pcap` wrote.
#[derive(Clone, Debug, Default)]
pub struct CaptureTables {
    /// requests.parquet.
    pub requests: Vec<RequestRecord>,
    /// exchanges.parquet.
    pub exchanges: Vec<ExchangeRecord>,
    /// frames.parquet.
    pub frames: Vec<FrameRecord>,
    /// packets.parquet.
    pub packets: Vec<PacketRecord>,
}

/// The reconstructed record of both ends. Its times count from [`Capture::origin`] before the capture's first packet.
#[derive(Clone, Debug)]
pub struct Capture {
    ends: CaptureTables,
    origin: Duration,
    round_trips: BTreeMap<u32, RoundTrips>,
    /// By direction, each packet's number in the capture.
    numbers: [Vec<u64>; 2],
}

impl Capture {
    /// Works out what happened at both ends.
    pub fn of(recorded: CaptureTables) -> Capture {
        let flows = grouped(recorded.packets, |row| row.flow);
        let mut frames = grouped(recorded.frames, |row| row.connection);
        let round_trips: BTreeMap<u32, RoundTrips> = flows
            .iter()
            .map(|(number, rows)| {
                let trips = if is_tcp(rows) {
                    tcp::round_trips(rows)
                } else {
                    quic::round_trips(frames.get(number).map_or(&[], Vec::as_slice))
                };
                (*number, trips)
            })
            .collect();
        let ends = Ends::of(&round_trips);
        let mut placed = Vec::with_capacity(flows.values().map(Vec::len).sum());
        let mut arrivals: BTreeMap<StreamKey, Arrivals> = BTreeMap::new();
        for (number, rows) in &flows {
            let trips = round_trips.get(number).copied().unwrap_or_default();
            if is_tcp(rows) {
                tcp::place(*number, rows, &trips, &ends, &mut placed, &mut arrivals);
            } else if let Some(frames) = frames.get_mut(number) {
                quic::place(rows, frames, &trips, &ends, &mut placed, &mut arrivals);
            }
        }
        let (packets, numbers) = numbered(placed);
        for rows in frames.values_mut() {
            for row in rows.iter_mut() {
                row.time = ends.time(row.connection, row.side, row.frame.way, row.time);
            }
            windows::reorder(rows);
        }
        let frames: Vec<FrameRecord> = frames.into_values().flatten().collect();
        let shifter = MarkShifter {
            ends: &ends,
            arrivals: &arrivals,
        };
        let exchanges = recorded.exchanges.into_iter();
        let exchanges: Vec<ExchangeRecord> = exchanges.map(|row| shifter.exchange(row)).collect();
        let of_client = exchanges.iter().filter(|row| row.side == Side::Client);
        let by_request: BTreeMap<u64, &ExchangeRecord> = of_client
            .filter_map(|row| Some((row.request?, row)))
            .collect();
        let requests = recorded.requests.into_iter();
        let requests = requests.map(|row| {
            let exchange = by_request.get(&row.request).copied();
            shifter.request(row, exchange)
        });
        Capture {
            origin: ends.origin(),
            ends: CaptureTables {
                requests: requests.collect(),
                exchanges,
                frames,
                packets,
            },
            round_trips,
            numbers,
        }
    }

    /// How long before the capture's first packet its times begin.
    pub fn origin(&self) -> Duration {
        self.origin
    }

    /// The requests, with the times of their client.
    pub fn requests(&self) -> &[RequestRecord] {
        &self.ends.requests
    }

    /// How far the point is from the ends of a connection.
    pub fn round_trips(&self, connection: u32) -> RoundTrips {
        let known = self.round_trips.get(&connection);
        known.copied().unwrap_or_default()
    }

    /// Explains requests; requests that the capture does not have are left out.
    pub fn explain(&self, requests: &BTreeSet<u64>) -> Vec<Explanation> {
        let mut explanations = explain::explain(&self.tables(), &PathShape::captured(), requests);
        explanations
            .iter_mut()
            .for_each(|it| self.restore_numbers(it));
        explanations
    }

    /// What happened at a time that counts from the capture's first packet.
    pub fn moment(&self, at: Duration, around: Duration) -> Moment {
        let at = Time::from_nanos(self.origin.as_nanos()) + at;
        let path = PathShape::captured();
        let mut moment = explain::moment(&self.tables(), Some(&path), at, around);
        for drop in &mut moment.drops {
            self.restore_drop_numbers(drop);
        }
        moment
    }

    fn tables(&self) -> Tables<'_> {
        Tables {
            requests: &self.ends.requests,
            exchanges: &self.ends.exchanges,
            frames: &self.ends.frames,
            packets: &self.ends.packets,
            sockets: &[],
        }
    }

    /// Restores the numbers that packets have in the capture. A packet that the capture lacks gets the number of the packet
    /// that reveals the gap: the next one that was captured.
    fn restore_numbers(&self, explanation: &mut Explanation) {
        let names = [&mut explanation.responsible];
        let waited_for = explanation.waited_for.iter_mut().map(|it| &mut it.packet);
        for name in names.into_iter().chain(waited_for).flatten() {
            *name = self.captured_name(*name);
        }
        let passages = [&mut explanation.course.up, &mut explanation.course.down];
        for (direction, passage) in Direction::ALL.into_iter().zip(passages) {
            for packet in passage.iter_mut().flat_map(|passage| &mut passage.packets) {
                packet.index = self.captured_number(direction, packet.index);
            }
        }
        for impact in &mut explanation.drops {
            self.restore_drop_numbers(&mut impact.drop);
        }
    }

    fn restore_drop_numbers(&self, drop: &mut explain::DroppedPacket) {
        let direction = drop.packet.direction;
        drop.packet = self.captured_name(drop.packet);
        let by = drop.repaired_by;
        drop.repaired_by = by.map(|index| self.captured_number(direction, index));
    }

    fn captured_name(&self, name: PacketName) -> PacketName {
        let index = self.captured_number(name.direction, name.index);
        PacketName { index, ..name }
    }

    fn captured_number(&self, direction: Direction, index: u64) -> u64 {
        let numbers = &self.numbers[direction as usize];
        numbers.get(index as usize).copied().unwrap_or(index)
    }
}

fn is_tcp(rows: &[PacketRecord]) -> bool {
    rows.first().is_some_and(|row| row.protocol == TCP)
}

fn grouped<T>(rows: Vec<T>, number: fn(&T) -> u32) -> BTreeMap<u32, Vec<T>> {
    let mut groups: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for row in rows {
        groups.entry(number(&row)).or_default().push(row);
    }
    groups
}

/// Numbers the packets of each direction in the order of leaving; also returns their numbers in the capture.
fn numbered(mut placed: Vec<RankedPacket>) -> (Vec<PacketRecord>, [Vec<u64>; 2]) {
    placed.sort_by_key(|it| (it.row.arrived, it.rank));
    let mut numbers = [Vec::new(), Vec::new()];
    let rows = placed.into_iter().map(|RankedPacket { mut row, .. }| {
        let of_direction: &mut Vec<u64> = &mut numbers[row.direction as usize];
        of_direction.push(row.index);
        row.index = of_direction.len() as u64 - 1;
        row
    });
    (rows.collect(), numbers)
}

/// Moves the marks of exchanges and requests to the ends. Bytes lost beyond the point reached their
/// receiver only with the retransmission.
struct MarkShifter<'a> {
    ends: &'a Ends,
    arrivals: &'a BTreeMap<StreamKey, Arrivals>,
}

impl MarkShifter<'_> {
    fn exchange(&self, mut row: ExchangeRecord) -> ExchangeRecord {
        let (connection, side) = (row.connection, row.side);
        let [request, response] = match side {
            Side::Client => [Way::Sent, Way::Received],
            Side::Server => [Way::Received, Way::Sent],
        };
        let marks = [
            (&mut row.request_first, request),
            (&mut row.request_last, request),
            (&mut row.response_first, response),
            (&mut row.response_last, response),
            (&mut row.beginning.opened, Way::Sent),
            (&mut row.beginning.connected, Way::Received),
            (&mut row.beginning.secured, Way::Received),
        ];
        for (mark, way) in marks {
            *mark = mark.map(|time| self.ends.time(connection, side, way, time));
        }
        let (direction, extent) = match side {
            Side::Client => (Direction::Down, row.response_extent),
            Side::Server => (Direction::Up, row.request_extent),
        };
        let Some(extent) = extent else { return row };
        let (key, start, end) = match (extent.wire_start, extent.wire_end) {
            (Some(start), Some(end)) => ((connection, None, direction), start, end),
            _ => {
                let key = (connection, Some(row.stream), direction);
                (key, extent.start, extent.end)
            }
        };
        let (first, last) = match side {
            Side::Client => (&mut row.response_first, &mut row.response_last),
            Side::Server => (&mut row.request_first, &mut row.request_last),
        };
        for (mark, byte) in [(first, start.saturating_add(1)), (last, end)] {
            let complete_at = self.arrivals.get(&key).and_then(|it| it.complete_at(byte));
            *mark = mark.map(|time| time.max(complete_at.unwrap_or(time)));
        }
        row
    }

    /// A request, with the marks of its client's exchange.
    fn request(&self, mut row: RequestRecord, exchange: Option<&ExchangeRecord>) -> RequestRecord {
        let connection = row.connection.unwrap_or(0);
        let at_client = |way: Way, time: Time| self.ends.time(connection, Side::Client, way, time);
        for mark in [&mut row.intended, &mut row.taken_up] {
            *mark = at_client(Way::Sent, *mark);
        }
        row.end = at_client(Way::Received, row.end);
        let first = row.intended;
        let handshakes = [&mut row.connected, &mut row.secured];
        for mark in handshakes {
            *mark = mark.map(|time| at_client(Way::Received, time).min(first));
        }
        let sent = [&mut row.slot, &mut row.written_first, &mut row.written_last];
        for mark in sent {
            *mark = mark.map(|time| at_client(Way::Sent, time));
        }
        row.answered_first = row.answered_first.map(|it| at_client(Way::Received, it));
        if let Some(exchange) = exchange {
            row.answered_first = exchange.response_first;
            if row.outcome == Outcome::Answered {
                row.end = exchange.response_last.unwrap_or(row.end);
            }
        }
        row
    }
}
