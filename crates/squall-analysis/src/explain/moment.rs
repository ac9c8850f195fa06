//! One moment of a trial: which requests were in flight and what they waited for, what the link held, what it had just
//! dropped.
//!
//! Causes come from the requests' courses; everything else is looked up in the rows. What came before and after is
//! reported only as far as `around` reaches.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use squall_base::record::{
    Cause, Direction, DropRecord, FrameRecord, PacketRecord, RequestRecord, Side, SocketRecord,
    SocketSample,
};
use squall_base::{Duration, Time};

use super::{DroppedPacket, Tables};
use crate::causes::{Course, Detail, PathShape, Stage, follow_path};
use crate::wire::has_own_windows;
use crate::wire::http2::{DATA, END_STREAM};

/// A moment. Times count from the trial's epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// When.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// How far before and after it drops are reported.
    #[serde(rename = "around_ns")]
    pub around: Duration,
    /// What the requests in flight waited for, the most frequent first; empty if causes are not known.
    pub waiting: Vec<CauseCount>,
    /// The requests in flight, the earliest due first.
    pub in_flight: Vec<RequestInFlight>,
    /// The connections of these requests, in order.
    pub connections: Vec<ConnectionState>,
    /// Both directions of each link.
    pub link: Vec<LinkDirectionState>,
    /// What the links dropped about this time, and what was not repaired yet.
    pub drops: Vec<DroppedPacket>,
}

/// How many requests waited for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CauseCount {
    /// The cause.
    #[serde(serialize_with = "crate::causes::words::cause")]
    pub cause: Cause,
    /// How many.
    pub requests: usize,
}

/// A request that was due and had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestInFlight {
    /// The request, by its position in the schedule.
    pub request: u64,
    /// The client's connection; `None` if it never got one.
    pub connection: Option<u32>,
    /// Its stream.
    pub stream: Option<u64>,
    /// When it was due.
    #[serde(rename = "intended_ns")]
    pub intended: Time,
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// What it waited for at that moment; `None` if causes are not known.
    pub stage: Option<Stage>,
}

/// A connection with requests in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionState {
    /// The client's number for it.
    pub connection: u32,
    /// How many of the requests in flight were on it.
    pub requests: usize,
    /// The client's side, as a sender.
    pub client: SideState,
    /// The server's side; `None` if it is not known which of the server's connections it is.
    pub server: Option<SideState>,
}

/// The last known state of one side of a connection, as a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SideState {
    /// Bytes that HTTP/2's flow control still let it send on the connection; `None` if no frame had shown it.
    pub connection_window: Option<i64>,
    /// How many of its streams had an exhausted window.
    pub streams_without_window: usize,
    /// The latest sample of its transport.
    pub engine: Option<TransportSample>,
}

/// A sample of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TransportSample {
    /// When it was taken.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// TCP: the congestion window, in segments.
    pub cwnd_segments: Option<u64>,
    /// QUIC: the congestion window, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// TCP: segments that were sent but not acknowledged.
    pub unacknowledged_segments: Option<u64>,
    /// The smoothed round-trip time.
    #[serde(rename = "rtt_ns")]
    pub rtt: Option<Duration>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkDirectionState {
    /// The hop that crosses the link, from 1 at the client.
    pub hop: u8,
    /// The direction.
    pub direction: Direction,
    /// Packets that waited for the rate or were being sent at it; `None` if the link had no rate.
    pub queued_packets: Option<u64>,
    /// Their bytes.
    pub queued_bytes: Option<u64>,
    /// Packets inside the link, including those.
    pub inside_packets: u64,
    /// Packets that arrived at most `around` before or after the moment.
    pub arrived_around: u64,
    /// Of these, how many were dropped.
    pub dropped_around: u64,
}

/// What happened at `at`. `path` is the trial's path, if its causes can be known; connections are those of its first hop.
pub fn moment(tables: &Tables<'_>, path: Option<&PathShape>, at: Time, around: Duration) -> Moment {
    let rows: Vec<&RequestRecord> = tables
        .requests
        .iter()
        .filter(|row| is_in_flight(row, at))
        .collect();
    let requests: BTreeSet<u64> = rows.iter().map(|row| row.request).collect();
    let (attribution, courses) = match path {
        Some(path) => follow_path(tables.inputs(path), &requests, Detail::Stages),
        None => Default::default(),
    };
    let courses: BTreeMap<u64, &Course> = courses
        .iter()
        .map(|course| (course.request, course))
        .collect();
    let mut in_flight: Vec<RequestInFlight> = rows
        .iter()
        .map(|row| RequestInFlight {
            request: row.request,
            connection: row.connection,
            stream: row.stream,
            intended: row.intended,
            end: row.end,
            stage: courses
                .get(&row.request)
                .and_then(|course| stage_at(course, at)),
        })
        .collect();
    in_flight.sort_by_key(|it| (it.intended, it.request));
    Moment {
        at,
        around,
        waiting: cause_counts(&in_flight),
        connections: connections(tables, &in_flight, &courses, at),
        link: link_hops(tables.packets, path)
            .into_iter()
            .flat_map(|hop| Direction::ALL.map(|direction| (hop, direction)))
            .map(|(hop, direction)| {
                link_direction_state(tables.packets, hop, direction, at, around)
            })
            .collect(),
        drops: drops(tables, &attribution.drops, path.is_some(), at, around),
        in_flight,
    }
}

fn is_in_flight(row: &RequestRecord, at: Time) -> bool {
    row.intended <= at && at < row.end
}

fn stage_at(course: &Course, at: Time) -> Option<Stage> {
    let mut stages = course.stages.iter();
    stages
        .find(|stage| stage.from <= at && at < stage.to)
        .copied()
}

fn cause_counts(in_flight: &[RequestInFlight]) -> Vec<CauseCount> {
    let mut counts = BTreeMap::<Cause, usize>::new();
    for stage in in_flight.iter().filter_map(|it| it.stage) {
        *counts.entry(stage.cause).or_default() += 1;
    }
    let counts = counts.into_iter();
    let mut cause_counts: Vec<CauseCount> = counts
        .map(|(cause, requests)| CauseCount { cause, requests })
        .collect();
    cause_counts.sort_by_key(|it| std::cmp::Reverse(it.requests));
    cause_counts
}

fn connections(
    tables: &Tables<'_>,
    in_flight: &[RequestInFlight],
    courses: &BTreeMap<u64, &Course>,
    at: Time,
) -> Vec<ConnectionState> {
    // With the server's number for it, which any of its exchanges shows.
    let mut found = BTreeMap::<u32, (usize, Option<u32>)>::new();
    for it in in_flight {
        let Some(connection) = it.connection else {
            continue;
        };
        let server = courses
            .get(&it.request)
            .and_then(|course| course.server?.connection);
        let (requests, known) = found.entry(connection).or_default();
        *requests += 1;
        *known = known.or(server);
    }
    let mut sides = BTreeMap::<(Side, u32), SideState>::new();
    for (client, (_, server)) in &found {
        sides.insert((Side::Client, *client), SideState::default());
        sides.extend(server.map(|server| ((Side::Server, server), SideState::default())));
    }
    add_windows(&mut sides, tables.frames, at);
    add_samples(&mut sides, tables.sockets, at);
    let states = found
        .into_iter()
        .map(|(connection, (requests, server))| ConnectionState {
            connection,
            requests,
            client: sides
                .get(&(Side::Client, connection))
                .copied()
                .unwrap_or_default(),
            server: server.and_then(|server| sides.get(&(Side::Server, server)).copied()),
        });
    states.collect()
}

fn add_windows(sides: &mut BTreeMap<(Side, u32), SideState>, frames: &[FrameRecord], at: Time) {
    let mut used_up = BTreeSet::<(Side, u32, u64)>::new();
    for row in frames.iter().filter(|row| row.hop == 1 && row.time <= at) {
        let (key, frame) = ((row.side, row.connection), &row.frame);
        if !has_own_windows(frame) {
            continue;
        }
        let Some(state) = sides.get_mut(&key) else {
            continue;
        };
        state.connection_window = frame.connection_window.or(state.connection_window);
        if let (Some(stream), Some(window)) = (frame.stream, frame.stream_window) {
            // After END_STREAM, the stream has nothing left to send.
            let is_over = frame.kind == DATA && frame.flags & END_STREAM != 0;
            if window <= 0 && !is_over {
                used_up.insert((row.side, row.connection, stream))
            } else {
                used_up.remove(&(row.side, row.connection, stream))
            };
        }
    }
    for (side, connection, _) in used_up {
        if let Some(state) = sides.get_mut(&(side, connection)) {
            state.streams_without_window += 1;
        }
    }
}

fn add_samples(sides: &mut BTreeMap<(Side, u32), SideState>, sockets: &[SocketRecord], at: Time) {
    for row in sockets.iter().filter(|row| row.hop == 1 && row.time <= at) {
        if let Some(state) = sides.get_mut(&(row.side, row.connection))
            && state.engine.is_none_or(|engine| engine.at <= row.time)
        {
            state.engine = Some(transport_sample(row));
        }
    }
}

fn transport_sample(row: &SocketRecord) -> TransportSample {
    match &row.sample {
        SocketSample::Tcp(info) => TransportSample {
            at: row.time,
            cwnd_segments: info.get("tcpi_snd_cwnd"),
            cwnd_bytes: None,
            unacknowledged_segments: info.get("tcpi_unacked"),
            rtt: info.get("tcpi_rtt").map(Duration::from_micros),
        },
        SocketSample::Quic(path) => TransportSample {
            at: row.time,
            cwnd_segments: None,
            cwnd_bytes: Some(path.cwnd_bytes),
            unacknowledged_segments: None,
            rtt: Some(path.rtt),
        },
    }
}

fn is_around(time: Time, at: Time, around: Duration) -> bool {
    time.since(at) <= around && at.since(time) <= around
}

/// The hops across links: those of the path or, if it is not known, those of the packets.
fn link_hops(packets: &[PacketRecord], path: Option<&PathShape>) -> BTreeSet<u8> {
    match path {
        Some(path) => path.link_hops().collect(),
        None => packets.iter().map(|packet| packet.hop).collect(),
    }
}

fn link_direction_state(
    packets: &[PacketRecord],
    hop: u8,
    direction: Direction,
    at: Time,
    around: Duration,
) -> LinkDirectionState {
    let is_of_link = |packet: &&PacketRecord| [hop, PacketRecord::ONLY_LINK].contains(&packet.hop);
    let mut state = LinkDirectionState {
        hop,
        direction,
        queued_packets: None,
        queued_bytes: None,
        inside_packets: 0,
        arrived_around: 0,
        dropped_around: 0,
    };
    for packet in packets
        .iter()
        .filter(is_of_link)
        .filter(|packet| packet.direction == direction)
    {
        let is_there = packet.arrived <= at;
        if let Some(served) = packet.served {
            let (queued, bytes) = (
                state.queued_packets.get_or_insert(0),
                state.queued_bytes.get_or_insert(0),
            );
            if is_there && at < served {
                *queued += 1;
                *bytes += u64::from(packet.length);
            }
        }
        state.inside_packets +=
            u64::from(is_there && packet.released.is_some_and(|time| at < time));
        if is_around(packet.arrived, at, around) {
            state.arrived_around += 1;
            state.dropped_around += u64::from(packet.fate.is_drop());
        }
    }
    state
}

/// Without causes it is not known how a drop was repaired; then only what the packets show is reported.
fn drops(
    tables: &Tables<'_>,
    known: &[DropRecord],
    has_causes: bool,
    at: Time,
    around: Duration,
) -> Vec<DroppedPacket> {
    if has_causes {
        let is_open = |row: &DropRecord| {
            row.dropped_at <= at && row.repaired_at.is_some_and(|repaired| at < repaired)
        };
        let near = known
            .iter()
            .filter(|row| is_around(row.dropped_at, at, around) || is_open(row));
        return near.map(DroppedPacket::of).collect();
    }
    let near = tables
        .packets
        .iter()
        .filter(|packet| packet.fate.is_drop() && is_around(packet.arrived, at, around));
    let mut drops: Vec<DroppedPacket> = near.map(DroppedPacket::of_packet).collect();
    drops.sort_by_key(|drop| drop.dropped_at);
    drops
}
