//! What is told of single requests and moments: the same walk, with every stage, and whom it waited for.

use std::collections::BTreeSet;

use squall_analysis::causes::PathShape;
use squall_analysis::explain::{Explanation, Share, Tables, explain, moment, slowest};
use squall_base::plan::{Connections, Hop, PoolOrder, PoolSettings, Protocol, SideSettings};
use squall_base::record::{Cause, CauseSpans, Direction, PacketRef, Repair};
use squall_base::{Duration, Time};

use crate::world::{DELAY, Delivered, Down, LossDrop, On, READ, Times, Up, World, clear, time};

const AT: u64 = 1_000_000;

pub(crate) fn hop() -> Hop {
    Hop {
        protocol: Protocol::H2c,
        across_link: true,
        connections: Connections::Fixed(1),
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 0,
        },
        client: SideSettings::default(),
        server: SideSettings::default(),
    }
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

/// All requests of the world, with what always holds checked.
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
        for Share { cause, time } in &it.causes {
            assert_eq!(spans[*cause], *time, "{it:?}");
        }
        assert_eq!(spans.total(), it.latency, "{it:?}");
    }
    explanations
}

/// Two exchanges on a connection; the first one's response is lost and repaired 90 ms later, the second one's waits.
fn blocked() -> (World, PacketRef) {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, On(0, 1));
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
    world.request(AT + 10_000, On(0, 3));
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
fn a_blocked_request_is_told_by_whom() {
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
    assert_eq!(wait.packet, Some(lost.into()));
    let [hurt] = it.drops.as_slice() else {
        panic!("{:?}", it.drops);
    };
    assert!(!hurt.is_own && hurt.drop.victims == 2);
    assert_eq!(hurt.drop.repair, Repair::Rack);
    assert_eq!(
        hurt.cost,
        [Share {
            cause: Cause::Hol,
            time: Duration::from_micros(80_000)
        }]
    );
    assert_eq!(it.responsible, Some(lost.into()));
    assert_eq!(it.server_connection, Some(0));
    let names: Vec<&str> = it.marks.iter().map(|mark| mark.name).collect();
    assert!(
        names.contains(&"server_request_last") && names.last() == Some(&"end"),
        "{names:?}"
    );
    // Its own bytes: one packet each way, none lost.
    let ways = [&it.course.up, &it.course.down].map(|way| way.as_ref().expect("it is known"));
    assert!(
        ways.iter()
            .all(|way| way.packets.len() == 1 && way.packets[0].arrived.is_some())
    );
    // The other one's packets are its own, and the second has its bytes again.
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
fn a_moment_tells_what_everybody_waits_for() {
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
    // It was dropped 75 ms before, and is still missing.
    assert_eq!(moment.drops.len(), 1);
    assert_eq!(moment.drops[0].packet, lost.into());
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
fn without_a_hop_a_moment_has_what_rows_say() {
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
    assert_eq!((drop.packet, drop.repair), (lost.into(), Repair::Unknown));
    assert_eq!(moment.link[Direction::Down as usize].dropped_around, 1);
}

/// A queue of two packets at 1 ms each.
#[test]
fn a_moment_knows_the_queue() {
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
fn the_slowest_are_of_the_measured_ones() {
    let mut world = World::default();
    for (n, latency) in [(0, 5), (1, 9), (2, 9), (3, 7)] {
        let row = world.request(AT + n, On(0, n));
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
