//! Explanations of single requests and moments: the walk of attribution with every stage, and the requests waited for.

use std::collections::BTreeSet;

use squall_analysis::causes::PathShape;
use squall_analysis::explain::{CauseTime, Explanation, Tables, explain, moment, slowest};
use squall_base::plan::{Hop, Protocol};
use squall_base::record::{Cause, CauseSpans, Direction, PacketRef, Repair};
use squall_base::{Duration, Time};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, clear, time,
};

const AT: u64 = 1_000_000;

pub(crate) fn hop() -> Hop {
    squall_made::hop(Protocol::H2c)
}

fn tables(world: &World) -> Tables<'_> {
    Tables {
        requests: &world.requests,
        exchanges: &world.exchanges,
        frames: &world.frames,
        packets: &world.packets,
        sockets: &[],
    }
}

/// Explains all requests of the world, and checks what always holds.
pub(crate) fn explained(world: &World) -> Vec<Explanation> {
    let all: BTreeSet<u64> = world.requests.iter().map(|row| row.request).collect();
    let explanations = explain(&tables(world), &PathShape::direct(&hop()), &all);
    assert_eq!(explanations.len(), world.requests.len());
    for (row, it) in world.requests.iter().zip(&explanations) {
        assert_eq!((it.request, it.latency), (row.request, row.response_time()));
        let mut at = row.intended;
        let mut spans = CauseSpans::default();
        for stage in &it.course.stages {
            assert_eq!(stage.from, at, "stages have no gaps: {it:?}");
            assert!(stage.to > stage.from, "{it:?}");
            spans[stage.cause] = spans[stage.cause] + stage.to.since(stage.from);
            at = stage.to;
        }
        assert_eq!(at, row.end.max(row.intended), "{it:?}");
        for CauseTime { cause, time } in &it.causes {
            assert_eq!(spans[*cause], *time, "{it:?}");
        }
        assert_eq!(spans.total(), it.latency, "{it:?}");
    }
    explanations
}

/// Two exchanges on a connection. The first response is lost and repaired 90 ms later; the second waits for that.
pub(crate) fn blocked() -> (World, PacketRef) {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 1));
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    let first = AT + DELAY + READ;
    let again = first + 90_000;
    let lost = world.bytes(Down, 0, first, (0, 900), LossDrop);
    let end = again + DELAY + READ;
    let times = |written: u64| Times {
        written,
        received: written + DELAY + READ,
        answered: written + DELAY + READ,
        answered_last: written + DELAY + READ,
        end,
    };
    world.exchange(Protocol::H2c, times(AT), clear(0, 100), clear(0, 900));
    world.request(AT + 10_000, ConnectionStream(0, 3));
    world.bytes(Up, 0, AT + 10_000, (100, 200), Delivered);
    world.bytes(Down, 0, first + 10_000, (900, 1_800), Delivered);
    world.ack(Up, 0, first + 10_000 + DELAY, 0);
    world.bytes(Down, 0, again, (0, 900), Delivered);
    world.exchange(
        Protocol::H2c,
        times(AT + 10_000),
        clear(100, 200),
        clear(900, 1_800),
    );
    (world, lost)
}

#[test]
fn blocked_request_names_the_request_that_blocks_it() {
    let (world, lost) = blocked();
    let explanations = explained(&world);
    let it = &explanations[1];
    let causes: Vec<Cause> = it.course.stages.iter().map(|stage| stage.cause).collect();
    assert_eq!(
        causes,
        [
            Cause::Distance,
            Cause::Host,
            Cause::Distance,
            Cause::Hol,
            Cause::Host
        ]
    );
    let [wait] = it.waited_for.as_slice() else {
        panic!("{:?}", it.waited_for);
    };
    assert_eq!((wait.cause, wait.request), (Cause::Hol, 0));
    assert_eq!(wait.packet, Some(lost));
    let [impact] = it.drops.as_slice() else {
        panic!("{:?}", it.drops);
    };
    assert!(!impact.is_own && impact.drop.victims == 2);
    assert_eq!(impact.drop.repair, Repair::Rack);
    assert_eq!(
        impact.cost,
        [CauseTime {
            cause: Cause::Hol,
            time: Duration::from_micros(80_000)
        }]
    );
    assert_eq!(it.responsible, Some(lost));
    assert_eq!(it.server_connection, Some(0));
    let names: Vec<&str> = it.marks.iter().map(|mark| mark.name).collect();
    assert!(
        names.contains(&"server_request_last") && names.last() == Some(&"end"),
        "{names:?}"
    );
    // Its own bytes took one packet each way, and none was lost.
    let ways = [&it.course.up, &it.course.down].map(|way| way.as_ref().expect("it is known"));
    assert!(
        ways.iter()
            .all(|way| way.packets.len() == 1 && way.packets[0].arrived.is_some())
    );
    // The first request has its own packets, the second of which is the retransmission.
    let down = explanations[0].course.down.as_ref().expect("it is known");
    let sent: Vec<(bool, bool)> = down
        .packets
        .iter()
        .map(|it| (it.is_again, it.arrived.is_some()))
        .collect();
    assert_eq!(sent, [(false, false), (true, true)]);
    assert!(explanations[0].drops[0].is_own);
}

#[test]
fn moment_lists_what_each_request_waits_for() {
    let (world, lost) = blocked();
    let at = time(AT + 100_000);
    let moment = moment(
        &tables(&world),
        Some(&PathShape::direct(&hop())),
        at,
        Duration::from_millis(10),
    );
    let waiting: Vec<(Cause, usize)> = moment
        .waiting
        .iter()
        .map(|it| (it.cause, it.requests))
        .collect();
    assert_eq!(waiting, [(Cause::Loss, 1), (Cause::Hol, 1)]);
    let in_flight: Vec<u64> = moment.in_flight.iter().map(|it| it.request).collect();
    assert_eq!(in_flight, [0, 1]);
    // The packet was dropped 75 ms before, and is still missing.
    assert_eq!(moment.drops.len(), 1);
    assert_eq!(moment.drops[0].packet, lost);
    assert_eq!(moment.connections.len(), 1);
    assert_eq!(moment.connections[0].requests, 2);
    assert!(
        moment
            .link
            .iter()
            .all(|lane| lane.queued_packets.is_none() && lane.inside_packets == 0)
    );
    assert_eq!(moment.link[Direction::Down as usize].arrived_around, 0);
}

#[test]
fn moment_without_a_path_has_only_recorded_facts() {
    let (world, lost) = blocked();
    let at = world
        .packets
        .iter()
        .find(|packet| packet.fate == LossDrop)
        .expect("one")
        .arrived;
    let moment = moment(&tables(&world), None, at, Duration::ZERO);
    assert!(moment.waiting.is_empty());
    assert!(moment.in_flight.iter().all(|it| it.stage.is_none()));
    let [drop] = moment.drops.as_slice() else {
        panic!("{:?}", moment.drops);
    };
    assert_eq!((drop.packet, drop.repair), (lost, Repair::Unknown));
    assert_eq!(moment.link[Direction::Down as usize].dropped_around, 1);
}

/// A queue of three packets that takes 1 ms for each.
#[test]
fn moment_counts_the_packets_in_the_queue() {
    let mut world = World::default();
    for n in 0..3 {
        world.packet(Down, 0, AT, Delivered);
        world.queued(1_000 * (n + 1));
    }
    let lane = |micros: u64| {
        let moment = moment(&tables(&world), None, time(micros), Duration::ZERO);
        let lane = moment.link[Direction::Down as usize];
        (lane.queued_packets, lane.queued_bytes, lane.inside_packets)
    };
    assert_eq!(lane(AT - 1), (Some(0), Some(0), 0));
    assert_eq!(lane(AT), (Some(3), Some(3 * 52), 3));
    assert_eq!(lane(AT + 1_500), (Some(2), Some(2 * 52), 3));
    assert_eq!(lane(AT + DELAY + 1_000), (Some(0), Some(0), 2));
}

#[test]
fn slowest_requests_are_chosen_from_the_measured_phase() {
    let mut world = World::default();
    for (n, latency) in [(0, 5), (1, 9), (2, 9), (3, 7)] {
        let row = world.request(AT + n, ConnectionStream(0, n));
        row.end = row.intended + Duration::from_millis(latency);
    }
    world.requests[1].phase = squall_base::record::Phase::Warmup;
    let names = |count: usize| -> Vec<u64> {
        slowest(&world.requests, count)
            .iter()
            .map(|row| row.request)
            .collect()
    };
    assert_eq!(names(2), [2, 3]);
    assert_eq!(names(9), [2, 3, 0]);
    let none: Vec<Time> = slowest(&[], 3).iter().map(|row| row.end).collect();
    assert!(none.is_empty());
}
