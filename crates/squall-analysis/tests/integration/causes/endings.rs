//! Requests that were given up or failed: they are attributed up to the point that they reached.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Outcome, Repair};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, MSS, READ, Times, Up, World, clear,
};

const AT: u64 = 1_000_000;
const END: u64 = AT + 3_000_000;

fn asked() -> World {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
    world
}

fn times(received: u64) -> Times {
    Times {
        written: AT,
        received,
        answered: received,
        answered_last: received,
        end: END,
    }
}

#[test]
fn response_that_is_never_repaired_is_loss_until_the_end() {
    let mut world = asked();
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    let received = AT + DELAY + READ;
    let lost = world.bytes(Down, 0, received, (0, 900), LossDrop);
    world.exchange(Protocol::H1, times(received), clear(0, 100), clear(0, 900));
    world.unfinished(END, Outcome::Censored);
    let found = world.attribute();
    let rest = 3_000_000 - 2 * DELAY - READ;
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, rest),
            (Cause::Host, READ),
        ]
    );
    assert_eq!(found.drop(lost).repair, Repair::Never);
    assert_eq!(found.victims(lost), [(0, Cause::Loss, rest)]);
}

#[test]
fn time_of_a_request_that_never_arrives_is_loss() {
    let mut world = asked();
    // No side recorded the request's extent, so it is everything that was sent.
    let lost = world.bytes(Up, 0, AT, (0, 100), LossDrop);
    let request = world.requests.last_mut().expect("it");
    (request.end, request.outcome) = (super::world::time(END), Outcome::Censored);
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [(Cause::Distance, DELAY), (Cause::Loss, 3_000_000 - DELAY)]
    );
    assert_eq!(found.row(0).responsible, Some(lost));
}

#[test]
fn time_waiting_for_a_server_that_never_answers_is_server() {
    let mut world = asked();
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    let received = AT + DELAY + READ;
    world.exchange(Protocol::H1, times(received), clear(0, 100), clear(0, 0));
    for row in &mut world.exchanges {
        (row.response_first, row.response_last, row.response_extent) = (None, None, None);
    }
    world.unfinished(END, Outcome::Censored);
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Distance, DELAY),
            (Cause::Server, 3_000_000 - DELAY - READ),
            (Cause::Host, READ),
        ]
    );
    // A failed request may have waited for the failure to travel back.
    world.requests[0].outcome = Outcome::StreamReset;
    assert_eq!(
        world.attribute().spans(0)[2],
        (Cause::Unknown, 3_000_000 - DELAY - READ)
    );
}

// Part of the response has arrived, the rest waits in the server's socket.
#[test]
fn waiting_for_a_response_that_was_never_sent_completely_is_cwnd() {
    let mut world = asked();
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    let received = AT + DELAY + READ;
    world.bytes(Down, 0, received, (0, MSS), Delivered);
    world.exchange(
        Protocol::H1,
        times(received),
        clear(0, 100),
        clear(0, 10 * MSS),
    );
    world.unfinished(END, Outcome::Censored);
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::Cwnd, 3_000_000 - DELAY - READ),
            (Cause::Distance, DELAY),
            (Cause::Host, READ),
        ]
    );
}

#[test]
fn time_on_a_connection_without_packets_is_unknown() {
    let mut world = World::default();
    world.request(AT, ConnectionStream(4, 0));
    let received = AT + DELAY + READ;
    world.exchange(Protocol::H1, times(received), clear(0, 100), clear(0, 100));
    assert_eq!(world.attribute().spans(0), [(Cause::Unknown, 3_000_000)]);
}

#[test]
fn request_that_ended_before_it_was_due_took_no_time() {
    let mut world = asked();
    world.requests[0].end = super::world::time(AT - 10);
    assert_eq!(world.attribute().spans(0), []);
}
