//! Own bytes are lost: what that costs, which packet answers for it, and how it was repaired.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, PacketRef, Repair};

use crate::world::{
    DELAY, Delivered, Down, Found, LossDrop, MSS, On, READ, Times, Up, World, clear, time,
};

const AT: u64 = 1_000_000;
const ASKED: u64 = 500;
/// When the server has the request.
const RECEIVED: u64 = AT + DELAY + READ;

/// A response of four segments of which one is lost and arrives again when it is sent again at `again`.
fn one_of_four(lost: u64, again: u64) -> (Found, PacketRef) {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, On(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    let mut dropped = None;
    for n in 0..4 {
        let bytes = (n * MSS, (n + 1) * MSS);
        if n == lost {
            dropped = Some(world.bytes(Down, 0, RECEIVED + n, bytes, LossDrop));
        } else {
            world.bytes(Down, 0, RECEIVED + n, bytes, Delivered);
            // Each is acknowledged at once, up to the gap.
            let to = if n < lost { (n + 1) * MSS } else { lost * MSS };
            world.ack(Up, 0, RECEIVED + n + DELAY, to);
        }
    }
    world.bytes(Down, 0, again, (lost * MSS, (lost + 1) * MSS), Delivered);
    let times = Times {
        written: AT,
        received: RECEIVED,
        answered: RECEIVED,
        answered_last: RECEIVED,
        end: again + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 4 * MSS));
    (world.attribute(), dropped.expect("one was dropped"))
}

/// The loss costs from when the segment would have arrived until it did.
fn check(lost: u64, again: u64, repair: Repair) {
    let (found, dropped) = one_of_four(lost, again);
    let cost = again - (RECEIVED + lost);
    let between = lost; // the segments are a microsecond apart
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, cost),
            (Cause::Host, 2 * READ + between),
        ],
        "{lost}"
    );
    assert_eq!(found.row(0).responsible, Some(dropped));
    assert_eq!(found.victims(dropped), [(0, Cause::Loss, cost)]);
    let row = found.drop(dropped);
    assert_eq!(
        (row.start, row.end),
        (Some(lost * MSS), Some((lost + 1) * MSS))
    );
    assert_eq!(
        (row.connection, row.carried.as_slice()),
        (Some(0), &[0][..])
    );
    assert_eq!(row.repaired_at, Some(time(again + DELAY)));
    assert_eq!(row.repaired_by, Some(5));
    assert_eq!(row.repair, repair, "{lost}");
}

#[test]
fn the_first_of_four_is_sent_again_at_once() {
    // Three later segments were acknowledged.
    check(0, RECEIVED + 3 + 2 * DELAY, Repair::FastRetransmit);
}

#[test]
fn the_second_and_third_wait_for_the_reordering_timer() {
    let timer = 2 * DELAY / 4 + 2_000;
    check(1, RECEIVED + 3 + 2 * DELAY + timer, Repair::Rack);
    check(2, RECEIVED + 3 + 2 * DELAY + timer, Repair::Rack);
}

#[test]
fn the_last_waits_for_the_probe() {
    check(3, RECEIVED + 3 + 2 * 2 * DELAY + 200_000, Repair::Tlp);
}

// The only segment of a response, its probe and its first retransmission are lost.
#[test]
fn a_lost_probe_waits_for_the_timeout() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, On(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    let sent = [RECEIVED, RECEIVED + 250_000, RECEIVED + 500_000];
    let first = world.bytes(Down, 0, sent[0], (0, 900), LossDrop);
    let probe = world.bytes(Down, 0, sent[1], (0, 900), LossDrop);
    world.bytes(Down, 0, sent[2], (0, 900), Delivered);
    let times = Times {
        written: AT,
        received: RECEIVED,
        answered: RECEIVED,
        answered_last: RECEIVED,
        end: sent[2] + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 900));
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 500_000),
            (Cause::Host, 2 * READ),
        ]
    );
    // Each answers until the next would have arrived.
    assert_eq!(found.victims(first), [(0, Cause::Loss, 250_000)]);
    assert_eq!(found.victims(probe), [(0, Cause::Loss, 250_000)]);
    assert_eq!(found.drop(first).repair, Repair::Tlp);
    assert_eq!(found.drop(probe).repair, Repair::Rto);
}

// While the second flight is held back because the first one's acknowledgements do not come, the loss is the cause.
#[test]
fn a_sender_that_misses_acknowledgements_sends_no_more_because_of_the_loss() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, On(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    let dropped = world.bytes(Down, 0, RECEIVED, (0, MSS), LossDrop);
    let again = RECEIVED + 250_000;
    world.bytes(Down, 0, again, (0, MSS), Delivered);
    world.ack(Up, 0, again + DELAY, MSS);
    let second = again + 2 * DELAY;
    world.bytes(Down, 0, second, (MSS, 2 * MSS), Delivered);
    let times = Times {
        written: AT,
        received: RECEIVED,
        answered: RECEIVED,
        answered_last: RECEIVED,
        end: second + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 2 * MSS));
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            // There and back of the first segment, which the window would have waited for anyway.
            (Cause::Cwnd, 2 * DELAY),
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 250_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(found.victims(dropped), [(0, Cause::Loss, 250_000)]);
}

#[test]
fn damaged_bytes_are_lost_bytes() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, On(0, 0));
    let damaged = world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    world.packets.last_mut().expect("it").is_corrupted = true;
    world.bytes(Up, 0, AT + 240_000, (0, ASKED), Delivered);
    let received = AT + 240_000 + DELAY + READ;
    world.bytes(Down, 0, received, (0, 900), Delivered);
    let times = Times {
        written: AT,
        received,
        answered: received,
        answered_last: received,
        end: received + DELAY + READ,
    };
    world.exchange(Protocol::H1, times, clear(0, ASKED), clear(0, 900));
    let found = world.attribute();
    assert_eq!(found.spans(0)[1], (Cause::Loss, 240_000));
    assert_eq!(found.victims(damaged), [(0, Cause::Loss, 240_000)]);
    assert_eq!(found.drop(damaged).repair, Repair::Tlp);
}

#[test]
fn a_lost_acknowledgement_needs_no_repair() {
    let mut world = World::default();
    world.handshake(0, 0);
    let packet = world.packet(Up, 0, AT, LossDrop);
    let lost = PacketRef {
        direction: Up,
        index: packet.index,
    };
    let found = world.attribute();
    let row = found.drop(lost);
    assert_eq!((row.connection, row.repair), (Some(0), Repair::NotNeeded));
    assert!(row.victims.is_empty() && row.carried.is_empty());
}
