//! A queue overflowed because a sender sent whole flights back to back.

use squall_base::record::{Cause, Direction, Fate, Side};
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count, side_with_more};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::flows::Packet;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "burst_loss",
    title: "Bursts overflow the queue",
    explanation: "The queue dropped packets that came back to back behind many others of the same flow. A sender that \
                  spaces its packets over the round trip would have fitted the same data into the same queue.",
    scope: Scope::Link,
    causes: &[Cause::Loss, Cause::Hol],
    detect,
};

/// Packets of one flow that are closer together than this are a burst; with 1,500 bytes that is 60 Mbit/s.
const GAP_AT_MOST: Duration = Duration::from_micros(200);
/// A burst has at least as many packets as TCP sends back to back on a fresh connection (RFC 6928).
const BURST_AT_LEAST: u64 = 10;
/// Fewer drops do not show a pattern.
const DROPS_AT_LEAST: u64 = 5;
/// At least this share of the queue's drops follow a burst.
const OF_DROPS_AT_LEAST: f64 = 0.5;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut drops, mut in_bursts, mut by_side) = (0, 0, [0_u64; 2]);
    for (_, packets) in case.flows().tcp() {
        for side in Side::ALL {
            let (all, bursts) = count_drops(&packets, side.sends());
            drops += all;
            in_bursts += bursts;
            by_side[side as usize] += bursts;
        }
    }
    if in_bursts < DROPS_AT_LEAST || (in_bursts as f64) < OF_DROPS_AT_LEAST * drops as f64 {
        return None;
    }
    let costs = case.cost_of_all(&[Cause::Loss, Cause::Hol]);
    let sender = side_with_more(by_side);
    let numbers = vec![
        count("packets dropped by the queue", drops),
        count("of them, behind ten or more back to back", in_bursts),
    ];
    let fixes = [Knob::Pacing, Knob::QueueDiscipline]
        .into_iter()
        .filter_map(|knob| case.link_fix(sender, knob));
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fixes)
}

/// How many packets of one direction of a flow the queue dropped, and how many of them in a burst.
fn count_drops(packets: &[Packet], direction: Direction) -> (u64, u64) {
    let (mut all, mut in_bursts, mut burst) = (0, 0, 0);
    let mut last: Option<Time> = None;
    for packet in packets {
        if packet.direction != direction || packet.payload == 0 {
            continue;
        }
        let is_close = last.is_some_and(|last| packet.arrived.since(last) <= GAP_AT_MOST);
        burst = if is_close { burst + 1 } else { 0 };
        last = Some(packet.arrived);
        if packet.fate == Fate::QueueDrop {
            all += 1;
            in_bursts += u64::from(burst >= BURST_AT_LEAST);
        }
    }
    (all, in_bursts)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Fate};

    use super::super::made::{TestTrial, is_near, ms};

    /// Flights of 15 packets, of which the last two are dropped.
    fn flights(gap_us: u64, fate: Fate) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.spend(0..10, Cause::Loss, ms(50));
        for flight in 0..5_u64 {
            for n in 0..15_u64 {
                let arrived = 1_000_000 + flight * 100_000 + n * gap_us;
                let packet = made.packet(arrived, Direction::Down, 0, 0, 1_000);
                if n >= 13 {
                    (packet.fate, packet.released) = (fate, None);
                }
            }
        }
        made
    }

    #[test]
    fn dropped_ends_of_flights_are_found() {
        let finding = flights(20, Fate::QueueDrop).finding("burst_loss").unwrap();
        assert_eq!(finding.evidence.numbers[3].value, 10.0);
        assert!(is_near(finding.share.part, 500.0 / 5_500.0));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn pacing_and_active_queue_already_in_force_are_not_proposed() {
        let fixes = |queue: &str, control: &str| {
            let mut made = flights(20, Fate::QueueDrop);
            let trial = &mut made.trial.trial;
            trial.condition.link.down = queue.to_owned();
            trial.variant.hops[0].server.tcp.congestion_control = Some(control.to_owned());
            let fixes = made.finding("burst_loss").unwrap().fixes.into_iter();
            fixes.map(|fix| fix.station).collect::<Vec<_>>()
        };
        assert_eq!(fixes("queue 20 packets", "cubic"), ["server", "the path"]);
        assert_eq!(fixes("queue pie 20 packets", "cubic"), ["server"]);
        assert_eq!(fixes("queue 20 packets", "bbr"), ["the path"]);
    }

    #[test]
    fn paced_flights_and_random_loss_are_not_reported() {
        assert_eq!(flights(2_000, Fate::QueueDrop).finding("burst_loss"), None);
        assert_eq!(flights(20, Fate::LossDrop).finding("burst_loss"), None);
    }
}
