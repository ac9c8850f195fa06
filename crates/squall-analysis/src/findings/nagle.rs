//! Nagle's algorithm at one end meets delayed acknowledgements at the other.

use squall_base::record::{Direction, Side};
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count, side_with_more};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::flows::{Packet, SendState, SenderEvent, sender_events};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "nagle",
    title: "Nagle's algorithm meets delayed acknowledgements",
    explanation: "The sender held a small segment back until everything before it was acknowledged (RFC 896), and the \
                  receiver held that acknowledgement back for 40 ms or more. Each such message waits for a timer of \
                  its peer, on an idle network.",
    scope: Scope::Link,
    causes: &[],
    detect,
};

/// How long Linux delays an acknowledgement: TCP_DELACK_MIN and TCP_DELACK_MAX of include/net/tcp.h, with a tick of the
/// kernel's clock at 250 Hz and the link's own lateness.
const DELAYED_AT_LEAST: Duration = Duration::from_millis(35);
const DELAYED_AT_MOST: Duration = Duration::from_millis(220);
/// A segment that was held back leaves in the interrupt that brings the acknowledgement; the link forwards both.
const RELEASED_WITHIN: Duration = Duration::from_millis(1);
/// The segment had waited at least this long: a request that was only just made was not held back.
const HELD_AT_LEAST: Duration = Duration::from_millis(10);
/// Once or twice may be chance.
const STALLS_AT_LEAST: u64 = 3;

fn detect(case: &Case<'_>) -> Option<Detection> {
    // Flows have the numbers of the client's connections only on the client's own hop.
    if !case.is_tcp() || case.link_hop().0 != 1 {
        return None;
    }
    let (mut costs, mut stalls, mut sides) = (Costs::default(), 0, [0_u64; 2]);
    for (flow, packets) in case.flows().tcp() {
        for side in Side::ALL {
            let full = full_segment(case, side, &packets);
            for (time, waited) in delayed_segments(&packets, side.sends(), full) {
                stalls += 1;
                sides[side as usize] += 1;
                let mut rows = case.rows_of(flow).filter(|row| row.is_measured);
                let is_active = |slot: Time, end| slot + HELD_AT_LEAST <= time && time <= end;
                let hit = rows.find(|row| row.slot.is_some_and(|slot| is_active(slot, row.end)));
                if let Some(row) = hit {
                    costs.add(row.request, waited);
                }
            }
        }
    }
    if stalls < STALLS_AT_LEAST {
        return None;
    }
    let side = side_with_more(sides);
    let numbers = vec![count("segments that were held back", stalls)];
    let fix = case.link_fix(side, Knob::NoDelay);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

/// The most that a segment of that side holds: as its sockets report, otherwise as the flow shows.
fn full_segment(case: &Case<'_>, side: Side, packets: &[Packet]) -> u64 {
    let sockets = case.sockets_of(side);
    let reported = sockets.map(|socket| socket.mss_bytes).max();
    let observed = packets.iter().map(|packet| u64::from(packet.payload)).max();
    reported
        .filter(|bytes| *bytes > 0)
        .or(observed)
        .unwrap_or(0)
}

/// Small segments that left when a delayed acknowledgement of everything before them arrived: the time, and how long the
/// receiver had held that acknowledgement back.
fn delayed_segments(packets: &[Packet], direction: Direction, full: u64) -> Vec<(Time, Duration)> {
    let mut state = SendState::default();
    let mut stalls = Vec::new();
    // When the last data was delivered, and what acknowledged all of it.
    let mut delivered: Option<Time> = None;
    let mut acknowledged: Option<(Time, Duration)> = None;
    for (time, event) in sender_events(packets, direction) {
        match event {
            SenderEvent::AckReceived(packet) => {
                let is_new = state.acknowledge(packet);
                if is_new && packet.payload == 0 && state.in_flight() == 0 {
                    let waited = delivered.map(|delivered| packet.arrived.since(delivered));
                    acknowledged = waited.map(|waited| (time, waited));
                }
            }
            SenderEvent::DataSent(packet) => {
                let (_, is_again) = state.send(packet);
                if let Some((acknowledged_at, waited)) = acknowledged.take()
                    && !is_again
                    && u64::from(packet.payload) < full
                    && time.since(acknowledged_at) <= RELEASED_WITHIN
                    && waited >= DELAYED_AT_LEAST
                    && waited <= DELAYED_AT_MOST
                {
                    stalls.push((time, waited));
                }
                delivered = packet.released.or(delivered);
            }
        }
    }
    stalls
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Direction, Side};

    use super::super::made::{TestTrial, is_near};

    /// Five requests of 1,960 bytes: a full segment, and 500 bytes that follow the acknowledgement, which the receiver
    /// holds back for `delayed` microseconds.
    fn uploads(delayed: u64, between: u64) -> TestTrial {
        uploads_in_two(1_460, delayed, between)
    }

    /// Like [`uploads`], with `head` bytes in the first segment.
    fn uploads_in_two(head: u16, delayed: u64, between: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.trial.trial.variant.hops[0].client.tcp.no_delay = false;
        let both = u32::from(head) + 500;
        for n in 0..5_u32 {
            let row = (20 * n) as usize;
            let start = made.requests[row].intended.as_nanos() / 1_000;
            made.requests[row].end += super::super::made::ms(100);
            let seq = both * n;
            let middle = seq + u32::from(head);
            made.packet(start, Direction::Up, seq, 0, head);
            let acked = start + 25_000 + delayed;
            made.packet(acked, Direction::Down, 0, middle, 0);
            made.packet(acked + 25_000 + between, Direction::Up, middle, 0, 500);
            made.packet(acked + 52_000 + between, Direction::Down, 0, seq + both, 0);
        }
        made
    }

    #[test]
    fn small_segments_that_wait_for_delayed_acknowledgements_are_found() {
        let finding = uploads(40_000, 100).finding("nagle").unwrap();
        assert_eq!(finding.evidence.numbers[2].value, 5.0);
        assert!(is_near(finding.share.part, 200.0 / 5_500.0));
        assert_eq!(finding.fixes[0].station, "client");
    }

    #[test]
    fn disabling_nagle_is_not_proposed_where_it_is_already_off() {
        let mut made = uploads(40_000, 100);
        made.trial.trial.variant.hops[0].client.tcp.no_delay = true;
        assert!(made.finding("nagle").unwrap().fixes.is_empty());
    }

    /// A head, and a larger body that waits for the head's acknowledgement: nothing fills a segment.
    #[test]
    fn messages_without_a_full_segment_are_found_too() {
        let mut made = uploads_in_two(150, 40_000, 100);
        let unknown = "nothing tells the size of a segment";
        assert_eq!(made.finding("nagle"), None, "{unknown}");
        made.socket(Side::Client, &[("tcpi_snd_mss", 1_448)]);
        let finding = made.finding("nagle").unwrap();
        assert_eq!(finding.evidence.numbers[2].value, 5.0);
    }

    #[test]
    fn prompt_acknowledgements_and_later_segments_are_not_reported() {
        assert_eq!(uploads(1_000, 100).finding("nagle"), None);
        assert_eq!(uploads(40_000, 5_000).finding("nagle"), None);
    }
}
