//! One request explained from the records near it: the result equals that from all records, or nothing is returned.

use std::collections::BTreeSet;

use squall_analysis::causes::{
    Attribution, FirstFrameCells, PathBeginnings, PathConnections, PathInputs, PathShape,
    attribute_path,
};
use squall_analysis::detail::{ChosenRequests, DetailBuilder, TrialDetail};
use squall_analysis::explain::{Explanation, NearRecords, Tables, explain, explain_near};
use squall_base::plan::Protocol;
use squall_base::record::{Cause, CausesRecord, Direction, Extent, RequestRecord, Side};
use squall_base::{Duration, Time};

use super::explained::hop;
use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, clear, first_seq,
};
use crate::support;

/// When the first request is due, and the time between two requests.
const AT: u64 = 1_000_000;
const APART: u64 = 200_000;
const REQUESTS: u64 = 60;
/// How much of the time before and after a request is read.
const AROUND: Duration = Duration::from_secs(1);

/// When an exchange was written, and when its response was sent and had arrived. The first transmission of every tenth
/// response is lost.
struct Course {
    at: u64,
    answered: u64,
    again: Option<u64>,
    end: u64,
}

impl Course {
    fn of(number: u64) -> Course {
        let at = AT + number * APART;
        let answered = at + DELAY + READ;
        let again = (number % 10 == 3).then_some(answered + 90_000);
        Course {
            at,
            answered,
            again,
            end: again.unwrap_or(answered) + DELAY + READ,
        }
    }

    fn times(&self) -> Times {
        Times {
            written: self.at,
            received: self.answered,
            answered: self.answered,
            answered_last: self.answered,
            end: self.end,
        }
    }
}

/// Requests in turn on two connections of HTTP/2, whose flows are numbered the other way round.
fn over_tcp() -> World {
    let mut world = World::default();
    let flows = [5, 2];
    for flow in flows {
        world.handshake(flow, u64::from(5 - flow) * 100);
    }
    for number in 0..REQUESTS {
        let connection = (number % 2) as usize;
        let (flow, before) = (flows[connection], number / 2);
        let course = Course::of(number);
        let (request, response) = (
            (before * 100, before * 100 + 100),
            (before * 900, before * 900 + 900),
        );
        world.request(
            course.at,
            ConnectionStream(connection as u32, 2 * before + 1),
        );
        let acknowledge = |world: &mut World, of: Direction, to: u64| {
            let packet = world.packets.last_mut().expect("there is one");
            packet.ack = first_seq(of).wrapping_add(to as u32);
        };
        world.bytes(Up, flow, course.at, request, Delivered);
        acknowledge(&mut world, Down, response.0);
        let fate = if course.again.is_some() {
            LossDrop
        } else {
            Delivered
        };
        world.bytes(Down, flow, course.answered, response, fate);
        acknowledge(&mut world, Up, request.1);
        if let Some(again) = course.again {
            world.bytes(Down, flow, again, response, Delivered);
            acknowledge(&mut world, Up, request.1);
        }
        world.ack(Up, flow, course.end, response.1);
        world.exchange(
            Protocol::H2c,
            course.times(),
            clear(request.0, request.1),
            clear(response.0, response.1),
        );
    }
    world
}

/// All bytes of a stream up to this one.
fn whole(end: u64) -> Extent {
    Extent {
        wire_start: None,
        wire_end: None,
        ..clear(0, end)
    }
}

/// Requests in turn on two connections of HTTP/3.
fn over_quic() -> World {
    let mut world = World::default();
    for number in 0..REQUESTS {
        let (flow, packet) = ((number % 2) as u32, number / 2 * 2);
        let stream = number / 2 * 4;
        let course = Course::of(number);
        let bytes = 300 + number * 10;
        world.request(course.at, ConnectionStream(flow, stream));
        world.quic(Up, flow, course.at, packet, (stream, 0, bytes), Delivered);
        let response = (stream, 0, bytes + 300);
        let fate = if course.again.is_some() {
            LossDrop
        } else {
            Delivered
        };
        world.quic(Down, flow, course.answered, packet, response, fate);
        world.quic_ack(Side::Client, flow, course.answered + DELAY, packet);
        if let Some(again) = course.again {
            world.quic(Down, flow, again, packet + 1, response, Delivered);
        }
        let last = packet + u64::from(course.again.is_some());
        world.quic_ack(Side::Server, flow, course.end + DELAY, last);
        world.exchange(
            Protocol::H3,
            course.times(),
            whole(bytes),
            whole(bytes + 300),
        );
    }
    world
}

/// How many requests [`busy_quic`] has, and the request before whose response the server pauses.
const BUSY_REQUESTS: u64 = 100;
const AFTER_PAUSE: u64 = 90;

/// Requests on one connection of HTTP/3, whose server sends a packet every 2 ms and pauses only once.
fn busy_quic() -> World {
    let mut world = World::default();
    for number in 0..BUSY_REQUESTS {
        let (stream, paused) = (4 * number, u64::from(number >= AFTER_PAUSE) * 10_000);
        let at = AT + number * 20_000 + paused;
        let answered = at + DELAY + READ;
        world.request(at, ConnectionStream(0, stream));
        world.quic(Up, 0, at, number, (stream, 0, 300), Delivered);
        world.quic_ack(Side::Client, 0, answered + DELAY, number);
        for piece in 0..10 {
            let (sent, packet) = (answered + piece * 2_000, number * 10 + piece);
            let bytes = (stream, piece * 1_000, piece * 1_000 + 1_000);
            world.quic(Down, 0, sent, packet, bytes, Delivered);
            world.quic_ack(Side::Server, 0, sent + 2 * DELAY, packet);
        }
        let times = Times {
            written: at,
            received: answered,
            answered,
            answered_last: answered + 18_000,
            end: answered + 18_000 + DELAY + READ,
        };
        world.exchange(Protocol::H3, times, whole(300), whole(10_000));
    }
    world.packets.sort_by_key(|row| row.arrived);
    world.frames.sort_by_key(|row| row.time);
    world
}

fn shape() -> PathShape {
    PathShape::direct(&hop())
}

/// What all records show of one request.
fn from_all(world: &World, request: u64) -> Explanation {
    let tables = Tables {
        requests: &world.requests,
        exchanges: &world.exchanges,
        frames: &world.frames,
        packets: &world.packets,
        sockets: &world.sockets,
    };
    let mut found = explain(&tables, &shape(), &BTreeSet::from([request]));
    found.pop().expect("the request is there")
}

fn all_inputs(world: &World) -> PathInputs {
    let mut inputs = PathInputs::new(shape());
    world
        .requests
        .iter()
        .for_each(|row| inputs.add_request(row));
    world
        .exchanges
        .iter()
        .for_each(|row| inputs.add_exchange(row));
    world.frames.iter().for_each(|row| inputs.add_frame(row));
    world.packets.iter().for_each(|row| inputs.add_packet(row));
    inputs
}

fn attributed(world: &World) -> Attribution {
    attribute_path(all_inputs(world))
}

fn connections(world: &World) -> PathConnections {
    let mut beginnings = PathBeginnings::new(shape());
    world
        .packets
        .iter()
        .for_each(|row| beginnings.add_packet(row));
    if beginnings.needs_frames() {
        for row in &world.frames {
            beginnings.add_frame(&FirstFrameCells::from(row));
        }
    }
    beginnings.connections()
}

/// The records near a request, and how many packets they have.
fn near(
    world: &World,
    connections: &PathConnections,
    attribution: &Attribution,
    row: &RequestRecord,
) -> (NearRecords, usize) {
    let from = row.intended.as_nanos().saturating_sub(AROUND.as_nanos());
    let (from, to) = (Time::from_nanos(from), row.end + AROUND);
    let is_near = |time: Time| from <= time && time <= to;
    let number = row.connection.expect("it has one");
    let numbers = BTreeSet::from([(1, number)]);
    let mut inputs = PathInputs::near(shape(), connections, &numbers, from);
    let in_flight = world.requests.iter().filter(|other| {
        other.connection == row.connection && other.intended <= to && from <= other.end
    });
    let requests: Vec<RequestRecord> = in_flight.cloned().collect();
    requests.iter().for_each(|row| inputs.add_request(row));
    let exchanges = world.exchanges.iter();
    exchanges
        .filter(|row| row.request_first.is_some_and(is_near))
        .for_each(|row| inputs.add_exchange(row));
    let frames = world.frames.iter().filter(|row| is_near(row.time));
    frames.for_each(|row| inputs.add_frame(row));
    let packets = world.packets.iter().filter(|row| is_near(row.arrived));
    let count = packets.clone().count();
    packets.for_each(|row| inputs.add_packet(row));
    let drops = attribution.drops.iter();
    let drops = drops.filter(|row| is_near(row.dropped_at)).cloned();
    let records = NearRecords {
        requests,
        inputs,
        drops: drops.collect(),
    };
    (records, count)
}

fn check_every_request(world: &World) {
    let connections = connections(world);
    let attribution = attributed(world);
    let written: Vec<CausesRecord> = attribution.causes.iter().collect();
    for (row, written) in world.requests.iter().zip(&written) {
        let (records, packets) = near(world, &connections, &attribution, row);
        // Five requests before and five after it, of three packets or four.
        assert!(packets <= 60, "{packets}");
        let found = explain_near(records, written).expect("the same causes");
        assert_eq!(found, from_all(world, row.request));
    }
    let lost = written.iter().filter(|row| row.responsible.is_some());
    assert!(lost.count() >= 5, "losses cost time");
}

/// Without the whole lives of connections, which records near a request do not have.
fn without_lives(mut detail: TrialDetail) -> TrialDetail {
    for connection in &mut detail.connections {
        connection.trace.life = None;
        connection.life_senders = Default::default();
    }
    detail
}

/// The details, with the frames and sockets of their time.
fn finished(world: &World, mut builder: DetailBuilder) -> TrialDetail {
    let (from, to) = builder.span().expect("there is a request");
    let frames = world.frames.iter();
    let frames = frames.filter(|row| from <= row.time && row.time <= to);
    frames.for_each(|row| builder.add_frame(row));
    builder.finish()
}

/// The details of a request: from the records near it, and from all records.
fn both_details(
    world: &World,
    connections: &PathConnections,
    attribution: &Attribution,
    request: u64,
) -> [TrialDetail; 2] {
    let record = support::record(&support::plan(1).trials[0]);
    let place = usize::try_from(request).expect("a small number");
    let row = &world.requests[place];
    let written = attribution.causes.get(place).expect("each has a row");
    let (records, _) = near(world, connections, attribution, row);
    let found = DetailBuilder::near(&record, records, &written).expect("the same causes");
    let chosen = ChosenRequests::from([(request, Vec::new())]);
    let all = DetailBuilder::new(&record, &world.requests, all_inputs(world), &chosen);
    [found, all].map(|builder| finished(world, builder))
}

fn check_every_detail(world: &World) {
    let (connections, attribution) = (connections(world), attributed(world));
    for request in 0..REQUESTS {
        let [found, all] = both_details(world, &connections, &attribution, request);
        assert_eq!(found.connections.len(), 1);
        assert!(found.connections[0].trace.life.is_none());
        assert_eq!(found, without_lives(all), "request {request}");
    }
}

#[test]
fn request_over_tcp_has_the_same_details_from_nearby_records_as_from_all() {
    check_every_detail(&over_tcp());
}

#[test]
fn request_over_quic_has_the_same_details_from_nearby_records_as_from_all() {
    check_every_detail(&over_quic());
}

/// The packets from before the pause are still in flight after it.
#[test]
fn near_records_of_a_busy_quic_connection_show_all_packets_and_bytes_in_flight() {
    let world = busy_quic();
    let (connections, attribution) = (connections(&world), attributed(&world));
    for request in AFTER_PAUSE..AFTER_PAUSE + 4 {
        let details = both_details(&world, &connections, &attribution, request);
        let [found, all] = details.map(|detail| {
            let window = &detail.connections[0].trace.windows[0];
            let [_, down] = &window.directions;
            (down.packets.clone(), down.in_flight.clone())
        });
        assert_eq!(found, all, "request {request}");
        let most = all.1.kept.iter().map(|it| it.bytes).max();
        assert!(most >= Some(20_000), "{most:?}");
    }
}

#[test]
fn request_over_tcp_is_explained_the_same_from_nearby_records_as_from_all() {
    check_every_request(&over_tcp());
}

#[test]
fn request_over_quic_is_explained_the_same_from_nearby_records_as_from_all() {
    check_every_request(&over_quic());
}

#[test]
fn records_that_show_other_causes_explain_nothing() {
    let world = over_tcp();
    let (connections, attribution) = (connections(&world), attributed(&world));
    let row = &world.requests[33];
    let written = attribution.causes.get(33).expect("each request has a row");
    let explained = |written: &CausesRecord| {
        let (records, _) = near(&world, &connections, &attribution, row);
        explain_near(records, written).is_some()
    };
    assert!(explained(&written));
    let mut other = written;
    other.spans[Cause::Host] = other.spans[Cause::Host] + Duration::from_nanos(1);
    assert!(!explained(&other));
    assert!(written.responsible.is_some(), "its response was lost");
    let other = CausesRecord {
        responsible: None,
        ..written
    };
    assert!(!explained(&other));
}
