//! Loss of a request's own bytes: what it costs, which packet is responsible for it, and how it was repaired.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::plan::Protocol;
use squall_base::record::{Cause, PacketRef, Repair};

use super::world::{
    self, AttributionResult, ConnectionStream, DELAY, Delivered, Down, LossDrop, MSS, READ, Times,
    Up, World, clear, time,
};

const AT: u64 = 1_000_000;
const ASKED: u64 = 500;
/// When the server has the request.
const RECEIVED: u64 = AT + DELAY + READ;

/// A response of four segments, one of which is lost and retransmitted at `again`.
fn one_of_four(lost: u64, again: u64) -> (AttributionResult, PacketRef) {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    let mut dropped = None;
    for n in 0..4 {
        let bytes = (n * MSS, (n + 1) * MSS);
        if n == lost {
            dropped = Some(world.bytes(Down, 0, RECEIVED + n, bytes, LossDrop));
        } else {
            world.bytes(Down, 0, RECEIVED + n, bytes, Delivered);
            // Each is acknowledged immediately, up to the gap.
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

/// The loss costs the time from when the segment would have arrived until it did.
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
fn first_of_four_segments_is_repaired_by_fast_retransmit() {
    // Three later segments were acknowledged.
    check(0, RECEIVED + 3 + 2 * DELAY, Repair::FastRetransmit);
}

#[test]
fn second_and_third_of_four_segments_wait_for_the_reordering_timer() {
    let timer = 2 * DELAY / 4 + 2_000;
    check(1, RECEIVED + 3 + 2 * DELAY + timer, Repair::Rack);
    check(2, RECEIVED + 3 + 2 * DELAY + timer, Repair::Rack);
}

#[test]
fn last_of_four_segments_waits_for_the_probe_or_timeout() {
    // A single segment was in flight by then. The timeout would fire at the same time, and only the socket knows which
    // of the two it was.
    check(3, RECEIVED + 3 + 2 * 2 * DELAY + 200_000, Repair::Timeout);
}

/// The repairs of a response of `segments` segments whose last `lost` are lost. `again` has the time and segment of each
/// retransmission, `counts` the time and value of each sample of the socket's count of timeouts.
fn tail(segments: u64, lost: u64, again: &[(u64, u64)], counts: &[(u64, u64)]) -> Vec<Repair> {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
    world.bytes(Up, 0, AT, (0, ASKED), Delivered);
    let mut dropped = Vec::new();
    for n in 0..segments {
        let bytes = (n * MSS, (n + 1) * MSS);
        if n + lost < segments {
            world.bytes(Down, 0, RECEIVED + n, bytes, Delivered);
            world.ack(Up, 0, RECEIVED + n + DELAY, (n + 1) * MSS);
        } else {
            dropped.push(world.bytes(Down, 0, RECEIVED + n, bytes, LossDrop));
        }
    }
    for (at, segment) in again {
        let bytes = (segment * MSS, (segment + 1) * MSS);
        world.bytes(Down, 0, RECEIVED + at, bytes, Delivered);
    }
    for (at, total) in counts {
        world.timeouts(RECEIVED + at, *total);
    }
    let (last, _) = again.last().expect("they were sent again");
    let times = Times {
        written: AT,
        received: RECEIVED,
        answered: RECEIVED,
        answered_last: RECEIVED,
        end: RECEIVED + last + DELAY + READ,
    };
    let response = clear(0, segments * MSS);
    world.exchange(Protocol::H1, times, clear(0, ASKED), response);
    let found = world.attribute();
    let kinds = dropped.iter().map(|packet| found.drop(*packet).repair);
    kinds.collect()
}

// tcp_send_loss_probe sends the last segment, tcp_retransmit_timer the first.
#[test]
fn a_probe_sends_the_last_segment_and_a_timeout_the_first() {
    assert_eq!(
        tail(4, 2, &[(102_000, 3), (154_000, 2)], &[]),
        // This world has no acknowledgement of the probe, so what follows it is unknown.
        [Repair::Unknown, Repair::Tlp]
    );
    assert_eq!(
        tail(4, 2, &[(260_000, 2), (310_000, 3)], &[]),
        [Repair::Rto, Repair::Rto]
    );
}

#[test]
fn timeout_count_of_the_socket_distinguishes_timeout_and_probe() {
    let again = 240_000;
    let of = |counts: &[(u64, u64)]| tail(1, 1, &[(again, 0)], counts)[0];
    // No timeout before or after; or no more after than before.
    assert_eq!(of(&[(200_000, 0), (300_000, 0)]), Repair::Tlp);
    assert_eq!(of(&[(300_000, 0)]), Repair::Tlp);
    assert_eq!(of(&[(200_000, 3), (300_000, 3)]), Repair::Tlp);
    // One more timeout.
    assert_eq!(of(&[(200_000, 0), (300_000, 1)]), Repair::Rto);
    // Timeouts of the handshake count too: without a sample between the handshake and the loss, or without a later
    // sample, the kind of timer is unknown.
    assert_eq!(of(&[(300_000, 1)]), Repair::Timeout);
    assert_eq!(of(&[(200_000, 1)]), Repair::Timeout);
    assert_eq!(of(&[]), Repair::Timeout);
    // Two more timeouts cannot both be this one.
    assert_eq!(of(&[(200_000, 0), (900_000, 2)]), Repair::Timeout);
    // The sample was taken after the count was raised and before the packet was sent.
    assert_eq!(of(&[(239_900, 1), (300_000, 1)]), Repair::Timeout);
}

#[test]
fn one_timeout_for_two_retransmissions_is_assigned_to_neither() {
    let mut world = World::default();
    world.handshake(0, 0);
    let first = world.bytes(Down, 0, AT, (0, MSS), LossDrop);
    world.bytes(Down, 0, AT + 240_000, (0, MSS), Delivered);
    world.ack(Up, 0, AT + 240_000 + DELAY, MSS);
    let second = world.bytes(Down, 0, AT + 400_000, (MSS, 2 * MSS), LossDrop);
    world.bytes(Down, 0, AT + 640_000, (MSS, 2 * MSS), Delivered);
    world.timeouts(AT, 0);
    world.timeouts(AT + 700_000, 1);
    let found = world.attribute();
    for packet in [first, second] {
        assert_eq!(found.drop(packet).repair, Repair::Timeout);
    }
}

// RFC 6298, section 5.5: a timeout doubles the next one.
#[test]
fn time_to_the_next_retransmission_distinguishes_timeout_and_probe() {
    for (second, kind) in [(240_000, Repair::Tlp), (480_000, Repair::Timeout)] {
        let mut world = World::default();
        world.handshake(0, 0);
        let first = world.bytes(Down, 0, AT, (0, 900), LossDrop);
        let probe = world.bytes(Down, 0, AT + 240_000, (0, 900), LossDrop);
        world.bytes(Down, 0, AT + 240_000 + second, (0, 900), Delivered);
        let found = world.attribute();
        assert_eq!(found.drop(first).repair, kind);
        // Only one probe is in flight at a time (tcp_send_loss_probe).
        assert_eq!(found.drop(probe).repair, Repair::Rto);
    }
}

#[test]
fn segments_in_flight_at_a_timeout_are_repaired_by_it() {
    // All of three segments are lost. The timer retransmits the first; the others follow when it is acknowledged.
    let mut world = World::default();
    world.handshake(0, 0);
    let dropped = [0, 1, 2].map(|n| {
        let bytes = (n * MSS, (n + 1) * MSS);
        world.bytes(Down, 0, AT + n, bytes, LossDrop)
    });
    let timer = AT + 260_000;
    world.bytes(Down, 0, timer, (0, MSS), Delivered);
    world.ack(Up, 0, timer + DELAY, MSS);
    for n in [1, 2] {
        let bytes = (n * MSS, (n + 1) * MSS);
        world.bytes(Down, 0, timer + 2 * DELAY + n, bytes, Delivered);
    }
    let found = world.attribute();
    for packet in dropped {
        assert_eq!(found.drop(packet).repair, Repair::Rto);
    }
}

// In recovery RACK's reordering window is zero (tcp_rack_reo_wnd): it retransmits immediately, although there are too few
// segments for RFC 6675.
#[test]
fn two_later_segments_do_not_trigger_fast_retransmit() {
    for (segments, kind) in [(3, Repair::Rack), (4, Repair::FastRetransmit)] {
        let mut world = World::default();
        world.handshake(0, 0);
        let lost = world.bytes(Down, 0, AT, (0, MSS), LossDrop);
        for n in 1..segments {
            let bytes = (n * MSS, (n + 1) * MSS);
            world.bytes(Down, 0, AT + n, bytes, Delivered);
            world.ack(Up, 0, AT + n + DELAY, 0);
        }
        let again = AT + segments - 1 + 2 * DELAY;
        world.bytes(Down, 0, again, (0, MSS), Delivered);
        assert_eq!(world.attribute().drop(lost).repair, kind, "{segments}");
    }
}

#[test]
fn retransmissions_do_not_count_as_later_segments() {
    let mut world = World::default();
    world.handshake(0, 0);
    let lost = world.bytes(Down, 0, AT, (0, MSS), LossDrop);
    world.bytes(Down, 0, AT + 1, (MSS, 2 * MSS), Delivered);
    world.ack(Up, 0, AT + 1 + DELAY, 0);
    for n in 2..5 {
        world.bytes(Down, 0, AT + n, (MSS, 2 * MSS), Delivered);
        world.ack(Up, 0, AT + n + DELAY, 0);
    }
    world.bytes(Down, 0, AT + 4 + 2 * DELAY, (0, MSS), Delivered);
    assert_eq!(world.attribute().drop(lost).repair, Repair::Rack);
}

// An acknowledgement that reaches the link just after three segments left it may have been sent after only the first.
#[test]
fn acknowledgement_right_after_three_segments_may_cover_fewer() {
    for (after, kind) in [(0, Repair::Rack), (200, Repair::FastRetransmit)] {
        let mut world = World::default();
        world.handshake(0, 0);
        let lost = world.bytes(Down, 0, AT, (0, MSS), LossDrop);
        for n in 1..4 {
            let bytes = (n * MSS, (n + 1) * MSS);
            world.bytes(Down, 0, AT + n, bytes, Delivered);
        }
        // The other two acknowledgements were lost.
        let acknowledged = AT + 3 + DELAY + after;
        world.ack(Up, 0, acknowledged, 0);
        world.bytes(Down, 0, acknowledged + DELAY, (0, MSS), Delivered);
        assert_eq!(world.attribute().drop(lost).repair, kind, "{after}");
    }
}

// A segment that was retransmitted in two packets, because a SACK block of the other direction left less room in the first.
#[test]
fn repair_in_two_packets_is_named_after_the_first() {
    let mut world = World::default();
    world.handshake(0, 0);
    let lost = world.bytes(Down, 0, AT, (0, MSS), LossDrop);
    for n in 1..3 {
        world.bytes(Down, 0, AT + n, (n * MSS, (n + 1) * MSS), Delivered);
        world.ack(Up, 0, AT + n + DELAY, 0);
    }
    world.bytes(Down, 0, AT + 500, (3 * MSS, 4 * MSS), Delivered);
    world.ack(Up, 0, AT + 500 + DELAY, 0);
    // RACK's timer retransmits the first part before the third segment is acknowledged; the rest follows after that.
    world.bytes(Down, 0, AT + 400 + 2 * DELAY, (0, MSS - 12), Delivered);
    world.bytes(Down, 0, AT + 500 + 2 * DELAY, (MSS - 12, MSS), Delivered);
    let found = world.attribute();
    let row = found.drop(lost);
    assert_eq!(row.repair, Repair::Rack);
    assert_eq!(row.repaired_at, Some(time(AT + 500 + 3 * DELAY)));
}

/// A segment of a flight, the fate of its acknowledgement, and when it is retransmitted if it was lost.
#[derive(Clone, Copy, Debug)]
struct FlightSegment {
    gap: u64,
    is_lost: bool,
    is_ack_lost: bool,
    again: u64,
}

fn flight() -> impl Strategy<Value = Vec<FlightSegment>> {
    let sent = (
        0..400_u64,
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
    );
    let sent =
        (sent, 45_000..60_000_u64).prop_map(|((gap, is_lost, is_ack_lost), again)| FlightSegment {
            gap,
            is_lost,
            is_ack_lost,
            again,
        });
    vec(sent, 1..12)
}

/// The world of a flight, and its lost segments: index, packet, time of the retransmission.
fn flown(flight: &[FlightSegment]) -> (World, Vec<(u64, PacketRef, u64)>) {
    enum Event {
        Segment(u64, bool),
        Ack(bool),
    }
    let mut events = Vec::new();
    let mut at = AT;
    let mut again = Vec::new();
    for (n, sent) in (0..).zip(flight) {
        at += sent.gap;
        events.push((at, Event::Segment(n, !sent.is_lost)));
        if sent.is_lost {
            again.push((n, at + sent.again));
            events.push((at + sent.again, Event::Segment(n, true)));
        } else {
            events.push((at + DELAY, Event::Ack(!sent.is_ack_lost)));
        }
    }
    events.sort_by_key(|(at, _)| *at);
    let mut world = World::default();
    world.handshake(0, 0);
    let mut lost = Vec::new();
    for (at, event) in events {
        match event {
            Event::Segment(n, true) => {
                world.bytes(Down, 0, at, (n * MSS, (n + 1) * MSS), Delivered);
            }
            Event::Segment(n, false) => {
                let packet = world.bytes(Down, 0, at, (n * MSS, (n + 1) * MSS), LossDrop);
                let again = again.iter().find(|(of, _)| *of == n);
                lost.push((n, packet, again.expect("it goes again").1));
            }
            Event::Ack(true) => world.ack(Up, 0, at, 0),
            Event::Ack(false) => {
                world.packet(Up, 0, at, LossDrop);
            }
        }
    }
    (world, lost)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // RFC 6675's threshold, checked by brute force on the packets.
    #[test]
    fn no_fast_retransmit_with_fewer_than_three_later_segments(flight in flight()) {
        let (world, lost) = flown(&flight);
        let found = world.attribute();
        for (place, packet, again) in lost {
            let acks = world.packets.iter().filter(|p| p.direction == Up && p.payload_len == 0);
            let heard = acks
                .filter(|p| p.tcp_flags & 0x10 != 0 && p.released.is_some_and(|at| at <= time(again)))
                .max_by_key(|p| p.released);
            let known = heard.map_or(time(0), |p| p.arrived);
            let above: BTreeSet<u32> = world
                .packets
                .iter()
                .filter(|p| p.direction == Down && p.released.is_some_and(|at| at <= known))
                .map(|p| p.seq.wrapping_sub(world::first_seq(Down)))
                .filter(|offset| u64::from(*offset) > place * MSS && *offset < u32::MAX / 2)
                .collect();
            let repair = found.drop(packet).repair;
            if repair == Repair::FastRetransmit {
                prop_assert!(above.len() >= 3, "{place}: {above:?}");
            }
        }
    }
}

// The only segment of a response and its probe are lost.
#[test]
fn a_lost_probe_is_repaired_by_the_timeout() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
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
    // Each lost packet is responsible until the next transmission would have arrived.
    assert_eq!(found.victims(first), [(0, Cause::Loss, 250_000)]);
    assert_eq!(found.victims(probe), [(0, Cause::Loss, 250_000)]);
    assert_eq!(found.drop(first).repair, Repair::Tlp);
    assert_eq!(found.drop(probe).repair, Repair::Rto);
}

// While the second flight is held back because the acknowledgements of the first are missing, the cause is loss.
#[test]
fn waiting_for_acknowledgements_delayed_by_a_loss_counts_as_loss() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
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
            // The round trip of the first segment, for which the window would have waited anyway.
            (Cause::Cwnd, 2 * DELAY),
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 250_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(found.victims(dropped), [(0, Cause::Loss, 250_000)]);
}

#[test]
fn damaged_packets_count_as_lost() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 0));
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
    assert_eq!(found.drop(damaged).repair, Repair::Timeout);
}

#[test]
fn a_lost_acknowledgement_needs_no_repair() {
    let mut world = World::default();
    world.handshake(0, 0);
    let packet = world.packet(Up, 0, AT, LossDrop);
    let lost = squall_made::packet_ref(Up, packet.index);
    let found = world.attribute();
    let row = found.drop(lost);
    assert_eq!((row.connection, row.repair), (Some(0), Repair::NotNeeded));
    assert!(row.victims.is_empty() && row.carried.is_empty());
}
