//! Congestion control that treats every loss as congestion, on a path that loses packets at random.

use squall_base::Duration;
use squall_base::record::{Cause, Fate};

use super::case::{Case, count, number};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::flows::BY_QUEUE;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "loss_based_control",
    title: "Loss taken for congestion",
    explanation: "Packets were lost although no queue had built up, and a loss-based congestion control shrank its \
                  window each time. Data waited in the sender on a path that was free.",
    scope: Scope::Link,
    causes: &[Cause::Cwnd],
    detect,
};

/// One packet in a thousand: clean paths lose fewer.
pub(super) const LOSS_AT_LEAST: f64 = 0.001;
/// At least a tenth of the response time is spent waiting for the congestion window.
const OF_TIME_AT_LEAST: f64 = 0.1;
/// Loss-based controls, by their names in the kernel and in quiche.
const BY_LOSS: [&str; 7] = [
    "cubic",
    "reno",
    "bic",
    "htcp",
    "westwood",
    "highspeed",
    "scalable",
];
/// A queue of up to half a round trip is not one that a sender must drain. A judgement.
const OF_ROUND_TRIP_AT_MOST: f64 = 0.5;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let sender = case.main_sender();
    let control = case.congestion_control(sender);
    if !BY_LOSS.contains(&control) {
        return None;
    }
    let totals = case.flows().totals(sender.sends());
    let random = totals.drops(&[Fate::LossDrop, Fate::BurstDrop]);
    let by_queue = totals.drops(&BY_QUEUE);
    let queueing = totals.median_queueing();
    let queue_at_most = case.round_trip().as_nanos() as f64 * OF_ROUND_TRIP_AT_MOST;
    let is_random = random as f64 >= LOSS_AT_LEAST * totals.packets.max(1) as f64 && by_queue == 0;
    if !is_random || queueing > Duration::from_nanos(queue_at_most as u64) {
        return None;
    }
    let numbers = vec![
        number(
            "packets lost at random",
            random as f64 / totals.packets as f64 * 100.0,
            "%",
        ),
        count("dropped by a queue", by_queue),
        number("median time in queues", queueing.as_millis_f64(), "ms"),
    ];
    let fix = case.link_fix(sender, Knob::CongestionControl);
    case.detection_by_time(case.cost_of(Cause::Cwnd), OF_TIME_AT_LEAST, numbers, fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Fate};

    use super::super::made::{TestTrial, is_near, ms};

    fn lossy(fate: Fate, control: &str) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.spend(0..50, Cause::Cwnd, ms(50));
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tcp.congestion_control = Some(control.to_owned());
        for n in 0..100 {
            let packet = made.packet(1_000_000 + n, Direction::Down, 0, 0, 1_000);
            if n % 10 == 0 {
                (packet.fate, packet.released) = (fate, None);
            }
        }
        made
    }

    #[test]
    fn random_loss_that_holds_cubic_back_is_found() {
        let finding = lossy(Fate::LossDrop, "cubic")
            .finding("loss_based_control")
            .unwrap();
        assert!(is_near(finding.share.part, 2_500.0 / 7_500.0));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn bbr_and_full_queues_are_not_reported() {
        for (fate, control) in [(Fate::LossDrop, "bbr"), (Fate::QueueDrop, "cubic")] {
            assert_eq!(lossy(fate, control).finding("loss_based_control"), None);
        }
    }
}
