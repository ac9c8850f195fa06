//! HTTP/3: packets joined with their frames, losses that hold up only one stream, windows.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Extent, FrameFacts, Repair, Side, Way};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, frame,
};

const AT: u64 = 1_000_000;
const MAX_DATA: u64 = 0x10;
const MAX_STREAM_DATA: u64 = 0x11;

fn extent(end: u64) -> Extent {
    Extent {
        end,
        ..Extent::default()
    }
}

fn times(written: u64, end: u64) -> Times {
    let received = written + DELAY + READ;
    Times {
        written,
        received,
        answered: received,
        answered_last: received,
        end,
    }
}

/// Sends a request of one packet on a stream; returns when the server has read it.
fn ask(world: &mut World, stream: u64, at: u64, number: u64) -> u64 {
    world.request(at, ConnectionStream(0, stream));
    world.quic(Up, 0, at, number, (stream, 0, 500), Delivered);
    at + DELAY + READ
}

#[test]
fn a_clean_exchange_is_distance_and_host() {
    let mut world = World::default();
    let at = ask(&mut world, 0, AT, 7);
    world.quic(Down, 0, at, 3, (0, 0, 900), Delivered);
    world.exchange(
        Protocol::H3,
        times(AT, at + DELAY + READ),
        extent(500),
        extent(900),
    );
    assert_eq!(
        world.attribute().spans(0),
        [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ)]
    );
}

// The client first opened the connection whose first packet came second, so its numbers differ from the order on the
// link.
#[test]
fn clients_numbers_may_differ_from_the_order_of_first_packets() {
    let mut world = World::default();
    for (flow, bytes) in [(0, 500), (1, 1_100)] {
        let at = AT + u64::from(flow);
        world.request(at, ConnectionStream(flow, 0));
        world.quic(Up, flow, at, 7, (0, 0, bytes), Delivered);
        let answered = at + DELAY + READ;
        world.quic(Down, flow, answered, 3, (0, 0, 900), Delivered);
        let end = answered + DELAY + READ;
        world.exchange(Protocol::H3, times(at, end), extent(bytes), extent(900));
    }
    let other = |connection: &mut u32| *connection = 1 - *connection;
    world
        .requests
        .iter_mut()
        .filter_map(|row| row.connection.as_mut())
        .for_each(other);
    let of_client = world
        .frames
        .iter_mut()
        .filter(|row| row.side == Side::Client);
    of_client.for_each(|row| other(&mut row.connection));
    let of_client = world
        .exchanges
        .iter_mut()
        .filter(|row| row.side == Side::Client);
    of_client.for_each(|row| other(&mut row.connection));
    let attributed = world.attribute();
    for request in 0..2 {
        assert_eq!(
            attributed.spans(request),
            [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ)]
        );
    }
}

// As in the test of HTTP/2 (`multiplexed`), but the second response does not wait for the first.
#[test]
fn streams_do_not_block_each_other() {
    let mut world = World::default();
    let first = ask(&mut world, 0, AT, 0);
    let lost = world.quic(Down, 0, first, 0, (0, 0, 900), LossDrop);
    let again = first + 90_000;
    let end = again + DELAY + READ;
    world.exchange(Protocol::H3, times(AT, end), extent(500), extent(900));
    let second = ask(&mut world, 4, AT + 10_000, 1);
    world.quic(Down, 0, second, 1, (4, 0, 900), Delivered);
    let end = second + DELAY + READ;
    world.exchange(
        Protocol::H3,
        times(AT + 10_000, end),
        extent(500),
        extent(900),
    );
    world.quic_ack(Side::Server, 0, second + 2 * DELAY, 1);
    world.quic(Down, 0, again, 2, (0, 0, 900), Delivered);
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 90_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(
        found.spans(1),
        [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ)]
    );
    assert_eq!(found.victims(lost), [(0, Cause::Loss, 90_000)]);
    let row = found.drop(lost);
    assert_eq!(
        (row.stream, row.start, row.end),
        (Some(0), Some(0), Some(900))
    );
    assert_eq!(
        (row.carried.as_slice(), row.repair),
        (&[0][..], Repair::TimeThreshold)
    );
}

/// One packet retransmits lost bytes and carries the message's last bytes for the first time. Those would have been in
/// flight for as long without a loss.
#[test]
fn loss_ends_when_a_packet_with_lost_and_last_bytes_leaves() {
    let mut world = World::default();
    let at = ask(&mut world, 0, AT, 0);
    let lost = world.quic(Down, 0, at, 0, (0, 0, 900), LossDrop);
    let again = at + 90_000;
    world.quic(Down, 0, again, 1, (0, 0, 1_200), Delivered);
    let end = again + DELAY + READ;
    world.exchange(Protocol::H3, times(AT, end), extent(500), extent(1_200));
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            (Cause::Cwnd, DELAY),
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 90_000 - DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(found.victims(lost), [(0, Cause::Loss, 90_000 - DELAY)]);
}

#[test]
fn acknowledgements_distinguish_the_kinds_of_repair() {
    for (acked, repair) in [
        (None, Repair::ProbeTimeout),
        (Some(1), Repair::TimeThreshold),
        (Some(3), Repair::PacketThreshold),
    ] {
        let mut world = World::default();
        let at = ask(&mut world, 0, AT, 0);
        let lost = world.quic(Down, 0, at, 0, (0, 0, 900), LossDrop);
        for number in 1..4 {
            world.quic(
                Down,
                0,
                at,
                number,
                (0, number * 900, (number + 1) * 900),
                Delivered,
            );
        }
        if let Some(acked) = acked {
            world.quic_ack(Side::Server, 0, at + 2 * DELAY, acked);
        }
        let again = at + 80_000;
        world.quic(Down, 0, again, 4, (0, 0, 900), Delivered);
        let end = again + DELAY + READ;
        world.exchange(Protocol::H3, times(AT, end), extent(500), extent(3_600));
        let found = world.attribute();
        assert_eq!(found.drop(lost).repair, repair, "{acked:?}");
        assert_eq!(found.victims(lost), [(0, Cause::Loss, 80_000)]);
    }
}

fn limit(kind: u64, stream: Option<u64>, value: u64) -> FrameFacts {
    FrameFacts {
        way: Way::Received,
        layer: squall_base::record::FrameLayer::Quic,
        stream,
        offset: None,
        packet: Some(50),
        value: Some(value),
        ..frame(kind, 0, 0, 0)
    }
}

/// A response of which the first limit allows 900 bytes; the rest follows a round trip later.
fn held(windows: (u64, u64), raised: FrameFacts) -> Vec<(Cause, u64)> {
    let mut world = World {
        quic_windows: Some(windows),
        ..World::default()
    };
    let at = ask(&mut world, 0, AT, 0);
    world.quic(Down, 0, at, 0, (0, 0, 900), Delivered);
    world.quic_ack(Side::Server, 0, at + 2 * DELAY, 0);
    let open = at + 2 * DELAY + 300;
    world.http2(Side::Server, 0, open, raised);
    world.quic(Down, 0, open, 1, (0, 900, 1_800), Delivered);
    let end = open + DELAY + READ;
    world.exchange(Protocol::H3, times(AT, end), extent(500), extent(1_800));
    world.attribute().spans(0)
}

#[test]
fn stream_and_connection_windows_are_distinguished() {
    let expected = |cause| {
        [
            (cause, 2 * DELAY + 300),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    };
    let stream = held((900, 5_000), limit(MAX_STREAM_DATA, Some(0), 2_000));
    assert_eq!(stream, expected(Cause::WindowStream));
    let connection = held((5_000, 900), limit(MAX_DATA, None, 2_000));
    assert_eq!(connection, expected(Cause::WindowConnection));
}

// Frames and datagrams do not match, so nothing is joined and the time that depends on it is unknown.
#[test]
fn time_is_unknown_if_packets_do_not_match_their_frames() {
    let mut world = World::default();
    let at = ask(&mut world, 0, AT, 0);
    world.quic(Down, 0, at, 0, (0, 0, 900), Delivered);
    world.packets.last_mut().expect("it").length = 60;
    world.exchange(
        Protocol::H3,
        times(AT, at + DELAY + READ),
        extent(500),
        extent(900),
    );
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Distance, DELAY),
            (Cause::Host, READ),
            (Cause::Unknown, DELAY + READ),
        ]
    );
}
