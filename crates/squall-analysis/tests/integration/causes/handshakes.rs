//! Requests for which a connection is opened: connect, tls, and the lost packets that are responsible for them.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Extent, Outcome, Repair};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, clear, time,
};

const AT: u64 = 1_000_000;

/// The request that opened connection 0, ready at `ready`, and its exchange in cleartext.
fn exchange(world: &mut World, ready: u64) {
    let request = world.request(AT, ConnectionStream(0, 0));
    request.opened_connection = true;
    request.connected = Some(time(ready));
    world.bytes(Up, 0, ready, (0, 100), Delivered);
    let received = ready + DELAY + READ;
    world.bytes(Down, 0, received, (0, 100), Delivered);
    let times = Times {
        written: ready,
        received,
        answered: received,
        answered_last: received,
        end: received + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, 100), clear(0, 100));
}

#[test]
fn time_to_open_a_connection_is_connect() {
    let mut world = World::default();
    world.handshake(0, AT);
    exchange(&mut world, AT + 2 * DELAY + READ);
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Connect, 2 * DELAY + READ),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

#[test]
fn lost_syn_is_responsible_for_the_wait_until_the_next() {
    let mut world = World::default();
    let lost = world.syn(0, AT, LossDrop);
    let again = AT + 1_000_000;
    world.handshake(0, again);
    // Other packets are delivered, so the delay is known.
    exchange(&mut world, again + 2 * DELAY + READ);
    let found = world.attribute();
    assert_eq!(
        found.spans(0)[0],
        (Cause::Connect, 1_000_000 + 2 * DELAY + READ)
    );
    let cost = 1_000_000 + DELAY + READ;
    assert_eq!(found.victims(lost), [(0, Cause::Connect, cost)]);
    assert_eq!(found.row(0).responsible, Some(lost));
    assert_eq!(found.drop(lost).repair, Repair::SynTimer);
}

#[test]
fn lost_syn_ack_is_responsible_for_the_wait_until_the_next() {
    let mut world = World::default();
    world.syn(0, AT, Delivered);
    let lost = world.syn_ack(0, AT + DELAY, LossDrop);
    world.syn(0, AT + 1_000_000, Delivered);
    world.syn_ack(0, AT + 1_000_000 + DELAY, Delivered);
    let ready = AT + 1_000_000 + 2 * DELAY;
    world.ack(Up, 0, ready, 0);
    exchange(&mut world, ready);
    let found = world.attribute();
    assert_eq!(found.spans(0)[0], (Cause::Connect, 1_000_000 + 2 * DELAY));
    assert_eq!(found.victims(lost), [(0, Cause::Connect, 1_000_000)]);
    assert_eq!(found.drop(lost).repair, Repair::SynTimer);
}

/// A TLS handshake of one flight each way. With `again`, the client's flight is lost and retransmitted at that time.
fn secured(again: Option<u64>) -> (World, Option<squall_base::record::PacketRef>) {
    let mut world = World::default();
    world.handshake(0, AT);
    let connected = AT + 2 * DELAY;
    let hello = connected + 100;
    let lost = again.map(|again| {
        let lost = world.bytes(Up, 0, hello, (0, 300), LossDrop);
        world.bytes(Up, 0, again, (0, 300), Delivered);
        lost
    });
    if again.is_none() {
        world.bytes(Up, 0, hello, (0, 300), Delivered);
    }
    let flight = again.unwrap_or(hello) + DELAY;
    world.bytes(Down, 0, flight, (0, 1_000), Delivered);
    let ready = flight + DELAY;
    let request = world.request(AT, ConnectionStream(0, 0));
    request.opened_connection = true;
    request.connected = Some(time(connected));
    request.secured = Some(time(ready));
    let record = |base: u64| Extent {
        start: 0,
        end: 100,
        wire_start: Some(base),
        wire_end: Some(base + 122),
        record_first: Some(0),
        record_last: Some(0),
    };
    world.bytes(Up, 0, ready, (300, 422), Delivered);
    let received = ready + DELAY + READ;
    world.bytes(Down, 0, received, (1_000, 1_122), Delivered);
    let times = Times {
        written: ready,
        received,
        answered: received,
        answered_last: received,
        end: received + DELAY + READ,
    };
    world.exchange(Protocol::H1s, times, record(300), record(1_000));
    (world, lost)
}

#[test]
fn time_of_a_tls_handshake_is_tls() {
    let (world, _) = secured(None);
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Connect, 2 * DELAY),
            (Cause::Tls, 2 * DELAY + 100),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

#[test]
fn packet_lost_in_a_tls_handshake_is_responsible_for_its_cost() {
    let hello = AT + 2 * DELAY + 100;
    let (world, lost) = secured(Some(hello + 260_000));
    let found = world.attribute();
    assert_eq!(found.spans(0)[1], (Cause::Tls, 260_000 + 2 * DELAY + 100));
    let lost = lost.expect("it was lost");
    assert_eq!(found.victims(lost), [(0, Cause::Tls, 260_000)]);
    assert_eq!(found.row(0).responsible, Some(lost));
}

#[test]
fn existing_connection_costs_nothing() {
    let mut world = World::default();
    world.handshake(0, 0);
    exchange(&mut world, AT);
    world.requests[0].connected = Some(time(2 * DELAY));
    assert_eq!(
        world.attribute().spans(0),
        [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ)]
    );
}

/// A request whose connection never became ready, so that it names none.
fn never_ready(world: &mut World, end: u64, outcome: Outcome) {
    let request = world.request(AT, ConnectionStream(0, 0));
    (request.connection, request.stream) = (None, None);
    (
        request.connected,
        request.written_first,
        request.written_last,
    ) = (None, None, None);
    (request.end, request.outcome) = (time(end), outcome);
}

#[test]
fn time_of_a_request_that_never_connected_is_all_connect() {
    let mut world = World::default();
    let lost = world.syn(0, AT + 50, LossDrop);
    never_ready(&mut world, AT + 900_000, Outcome::Censored);
    let found = world.attribute();
    assert_eq!(found.spans(0), [(Cause::Connect, 900_000)]);
    assert_eq!(found.drop(lost).repair, Repair::Never);
    assert_eq!(found.row(0).responsible, Some(lost));
}

#[test]
fn time_of_a_refused_connection_is_all_connect() {
    let mut world = World::default();
    never_ready(&mut world, AT + 50_000, Outcome::ConnectFailed);
    assert_eq!(world.attribute().spans(0), [(Cause::Connect, 50_000)]);
}

#[test]
fn time_of_a_failed_tls_handshake_is_connect_and_tls() {
    let mut world = World::default();
    world.handshake(0, AT + 50);
    never_ready(&mut world, AT + 200_000, Outcome::TlsFailed);
    let connect = 50 + 2 * DELAY;
    assert_eq!(
        world.attribute().spans(0),
        [(Cause::Connect, connect), (Cause::Tls, 200_000 - connect)]
    );
}

// No connection has packets after the request's slot, so the handshake that it waited for is unknown.
#[test]
fn time_of_a_failed_handshake_without_packets_is_unknown() {
    let mut world = World::default();
    never_ready(&mut world, AT + 200_000, Outcome::TlsFailed);
    assert_eq!(world.attribute().spans(0), [(Cause::Unknown, 200_000)]);
    world.requests[0].slot = None;
    assert_eq!(world.attribute().spans(0), [(Cause::Queue, 200_000)]);
    let _ = Down;
}
