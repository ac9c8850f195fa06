//! A queue that holds more than the path itself, and drops next to nothing.

use squall_base::Duration;
use squall_base::record::{Cause, Direction};

use super::case::{Case, count, number};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::flows::{BY_QUEUE, DirectionTotals};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "bufferbloat",
    title: "Bufferbloat",
    explanation: "Packets waited in a queue for longer than the whole round trip takes without it, and hardly any was \
                  dropped, so the senders kept it full. Every request behind that queue pays for it, even small ones.",
    scope: Scope::Link,
    causes: &[Cause::Link],
    detect,
};

/// A shorter wait does not count as bloat on any path: twice CoDel's target of 5 ms, the scale of a burst (RFC 8289,
/// section 4.2).
const WAIT_AT_LEAST: Duration = Duration::from_millis(10);
/// At least a tenth of the packets with data wait.
const OF_PACKETS_AT_LEAST: f64 = 0.1;
/// A queue that drops more is short.
const DROPS_AT_MOST: f64 = 0.01;
/// If causes are known, queues take at least a tenth of the response time.
const OF_TIME_AT_LEAST: f64 = 0.1;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let wait = case.round_trip().max(WAIT_AT_LEAST);
    let bloated = |direction| {
        let totals = case.flows().totals(direction);
        is_bloated(totals, wait).then_some((direction, totals))
    };
    let (direction, totals) = bloated(Direction::Down).or_else(|| bloated(Direction::Up))?;
    let sender = direction.sender();
    let late = totals.count_queued(wait);
    let drops = totals.drops(&BY_QUEUE);
    let numbers = vec![
        number(
            "median time in the queue",
            totals.median_queueing().as_millis_f64(),
            "ms",
        ),
        number(
            "round trip without it",
            case.round_trip().as_millis_f64(),
            "ms",
        ),
        count("packets that waited for longer", late),
        count("packets that the queue dropped", drops),
    ];
    let fixes = [Knob::QueueDiscipline, Knob::CongestionControl]
        .into_iter()
        .filter_map(|knob| case.link_fix(sender, knob))
        .collect::<Vec<_>>();
    if case.has_causes() {
        return case.detection_by_time(case.cost_of(Cause::Link), OF_TIME_AT_LEAST, numbers, fixes);
    }
    Some(Detection {
        part: late as f64 / totals.data_packets as f64,
        of: Whole::Packets,
        numbers,
        requests: Vec::new(),
        fixes,
    })
}

fn is_bloated(totals: &DirectionTotals, wait: Duration) -> bool {
    let drops = totals.drops(&BY_QUEUE);
    let late = totals.count_queued(wait) as f64;
    late > 0.0
        && late >= OF_PACKETS_AT_LEAST * totals.data_packets as f64
        && drops as f64 <= DROPS_AT_MOST * totals.packets as f64
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Fate};

    use super::super::Whole;
    use super::super::made::{TestTrial, is_near, ms};

    fn queued(millis: u64, drops: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.spend(0..100, Cause::Link, ms(millis));
        for n in 0..100 {
            let packet = made.packet(1_000_000 + n, Direction::Down, 0, 0, 1_000);
            packet.queueing = ms(millis);
            if n < drops {
                (packet.fate, packet.released) = (Fate::QueueDrop, None);
            }
        }
        made
    }

    #[test]
    fn waits_longer_than_the_round_trip_are_found() {
        let mut made = queued(60, 1);
        let finding = made.finding("bufferbloat").unwrap();
        assert!(is_near(finding.share.part, 60.0 / 110.0));
        made.is_attributed = false;
        let share = made.finding("bufferbloat").unwrap().share;
        assert_eq!(share.of, Whole::Packets);
        assert!(is_near(share.part, 0.99));
    }

    #[test]
    fn queue_and_congestion_control_already_in_force_are_not_proposed() {
        let fixes = |queue: &str, control: &str| {
            let mut made = queued(60, 1);
            let trial = &mut made.trial.trial;
            trial.condition.link = queue.to_owned().into();
            trial.variant.hops[0].server.tcp.congestion_control = Some(control.to_owned());
            let fixes = made.finding("bufferbloat").unwrap().fixes.into_iter();
            fixes.map(|fix| fix.station).collect::<Vec<_>>()
        };
        let codel = "rate 10mbit, queue codel target 500ms interval 1s";
        assert_eq!(fixes("queue 1MiB", "cubic"), ["the path", "server"]);
        assert_eq!(fixes(codel, "cubic"), ["server"]);
        assert_eq!(fixes("queue 1MiB", "bbr"), ["the path"]);
        assert!(fixes(codel, "bbr").is_empty());
    }

    #[test]
    fn short_waits_and_short_queues_are_not_reported() {
        assert_eq!(queued(49, 0).finding("bufferbloat"), None);
        assert_eq!(queued(60, 2).finding("bufferbloat"), None);
    }
}
