//! One request at a time on an HTTP/1.1 connection: each cause without other requests in the way.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Direction};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, MSS, READ, Times, Up, World, clear, time,
};

/// When the requests of these tests are due.
const AT: u64 = 1_000_000;
/// The size of the request in bytes.
const ASKED: u64 = 500;

/// A warm connection with a request on it, and when the server's application has read the request.
fn asked() -> (World, u64) {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    (world, AT + DELAY + READ)
}

fn times(received: u64, answered: u64, end: u64) -> Times {
    Times {
        written: AT,
        received,
        answered,
        answered_last: answered,
        end,
    }
}

#[test]
fn a_clean_exchange_is_distance_server_and_host() {
    let mut world = World::default();
    world.handshake(0, 0);
    let request = world.request(AT, ConnectionStream(0, 0));
    request.taken_up = time(AT + 20);
    request.slot = Some(time(AT + 40));
    // The packet is on the link before the call that wrote it returns.
    world.bytes(Up, 0, AT + 90, (0, ASKED), Delivered);
    let received = AT + 90 + DELAY + READ;
    world.bytes(Down, 0, received + 2_990, (0, 900), Delivered);
    let end = received + 2_990 + DELAY + READ;
    let times = Times {
        written: AT + 100,
        received,
        answered: received + 3_000,
        answered_last: received + 3_000,
        end,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 900));
    let found = world.attribute();
    let host = 20 + 50 + READ + READ;
    assert_eq!(
        found.spans(0),
        [
            (Cause::Queue, 20),
            (Cause::Distance, 2 * DELAY),
            (Cause::Server, 2_990),
            (Cause::Host, host),
        ]
    );
    assert_eq!(found.row(0).responsible, None);
    assert_eq!(found.0.drops, []);
}

#[test]
fn waiting_for_a_connection_is_queue() {
    let (mut world, received) = asked();
    world.requests[0].intended = time(AT - 40_000);
    world.requests[0].taken_up = time(AT - 40_000);
    world.bytes(Down, 0, received, (0, 900), Delivered);
    let end = received + DELAY + READ;
    world.exchange(
        Protocol::H1,
        times(received, received, end),
        clear(0, ASKED),
        clear(0, 900),
    );
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Queue, 40_000),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

#[test]
fn queueing_at_the_link_is_link() {
    let (mut world, received) = asked();
    world.bytes(Down, 0, received, (0, 900), Delivered);
    world.queued(7_000);
    let end = received + 7_000 + DELAY + READ;
    world.exchange(
        Protocol::H1,
        times(received, received, end),
        clear(0, ASKED),
        clear(0, 900),
    );
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Link, 7_000),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

#[test]
fn late_delivery_by_the_link_is_host() {
    let (mut world, received) = asked();
    world.bytes(Down, 0, received, (0, 900), Delivered);
    let late = world.packets.last_mut().expect("the response");
    late.released = Some(time(received + DELAY + 400));
    let end = received + DELAY + 400 + READ;
    world.exchange(
        Protocol::H1,
        times(received, received, end),
        clear(0, ASKED),
        clear(0, 900),
    );
    assert_eq!(
        world.attribute().spans(0),
        [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ + 400)]
    );
}

// Ten segments leave immediately; their acknowledgement lets the rest go a round trip later.
#[test]
fn waiting_for_the_congestion_window_is_cwnd() {
    let (mut world, received) = asked();
    for n in 0..10 {
        world.bytes(Down, 0, received, (n * MSS, (n + 1) * MSS), Delivered);
    }
    world.ack(Up, 0, received + DELAY, 10 * MSS);
    let second = received + 2 * DELAY;
    for n in 10..12 {
        world.bytes(Down, 0, second, (n * MSS, (n + 1) * MSS), Delivered);
    }
    let end = second + DELAY + READ;
    world.exchange(
        Protocol::H1,
        times(received, received, end),
        clear(0, ASKED),
        clear(0, 12 * MSS),
    );
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Cwnd, 2 * DELAY),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

// The server writes the head immediately and the rest 80 ms later, when nothing is in flight any more.
#[test]
fn pause_of_the_server_within_its_response_is_server() {
    let (mut world, received) = asked();
    world.bytes(Down, 0, received, (0, 300), Delivered);
    world.ack(Up, 0, received + DELAY, 300);
    let last = received + 80_000;
    world.bytes(Down, 0, last, (300, 600), Delivered);
    let end = last + DELAY + READ;
    let times = Times {
        answered_last: last,
        ..times(received, received, end)
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 600));
    let found = world.attribute();
    let spans = found.spans(0);
    // No acknowledgement released the second part, so the socket would have accepted it earlier.
    assert_eq!(
        spans,
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Server, 80_000),
            (Cause::Host, 2 * READ),
        ]
    );
}

// The server answers as soon as it has the head, and the exchange ends before the request's last byte has arrived.
#[test]
fn early_response_does_not_wait_for_the_request() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
    world.bytes(Up, 0, AT, (0, MSS), Delivered);
    let answered = AT + DELAY + READ;
    world.bytes(Down, 0, answered, (0, 900), Delivered);
    world.bytes(Up, 0, AT + 2 * DELAY, (MSS, 2 * MSS), Delivered);
    let times = Times {
        written: AT,
        received: AT + 3 * DELAY + READ,
        answered,
        answered_last: answered,
        end: answered + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, 2 * MSS), clear(0, 900));
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Server, READ),
            (Cause::Host, READ),
        ]
    );
}

// A second connection within the same trial uses the ports of the first.
#[test]
fn reused_ports_are_another_connection() {
    let (mut world, received) = asked();
    world.bytes(Down, 0, received, (0, 900), Delivered);
    let end = received + DELAY + READ;
    world.exchange(
        Protocol::H1,
        times(received, received, end),
        clear(0, ASKED),
        clear(0, 900),
    );
    let again = 2 * AT;
    let first_of_second = world.packets.len();
    world.handshake(0, again - 2 * DELAY);
    world.request(again, ConnectionStream(1, 0));
    world.bytes(Up, 0, again, (0, ASKED), Delivered);
    for packet in &mut world.packets[first_of_second..] {
        let by = 77_777_u32;
        packet.seq = packet
            .seq
            .wrapping_add(if packet.direction == Direction::Up {
                by
            } else {
                0
            });
        packet.ack = packet
            .ack
            .wrapping_add(if packet.direction == Direction::Down {
                by
            } else {
                0
            });
    }
    let received = again + DELAY + READ;
    world.bytes(Down, 0, received, (0, 900), Delivered);
    let times = Times {
        written: again,
        received,
        answered: received,
        answered_last: received,
        end: received + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 900));
    let found = world.attribute();
    for request in 0..2 {
        assert_eq!(
            found.spans(request),
            [(Cause::Distance, 2 * DELAY), (Cause::Host, 2 * READ)],
            "{request}"
        );
    }
}
