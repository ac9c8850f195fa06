//! Requests waited for bytes of their own that were lost.
//!
//! Packets that a full queue drops from the only transfer cost no time as long as the queue has something to send:
//! meanwhile the link carries other bytes of that transfer, and no sender would be faster.

use squall_base::record::{Cause, Side};

use super::case::{Case, TIME_AT_LEAST, count};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::flows::BY_QUEUE;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "own_loss",
    title: "Loss of a request's own packets",
    explanation: "Packets of these requests were lost, and each waited until its own bytes had been sent again. That \
                  takes at least a round trip, and much longer where nothing follows that would reveal the gap.",
    scope: Scope::Link,
    causes: &[Cause::Loss],
    detect,
};

/// Up to this mean number of requests in flight, transfers hardly ever overlap. A judgement.
const AT_ONCE_AT_MOST: f64 = 1.1;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let drops = case.drops();
    let costly = drops.filter(|drop| drop.victims.iter().any(|it| it.cause == Cause::Loss));
    let (mut queue, mut all) = (0, 0);
    for drop in costly {
        all += 1;
        queue += u64::from(BY_QUEUE.contains(&drop.fate));
    }
    let sender = case.main_sender();
    if queue == all && is_full(case, sender) {
        return None;
    }
    let numbers = vec![
        count("lost packets that delayed their own request", all),
        count("of them, dropped by a queue", queue),
    ];
    // Congestion control sends less into a queue that overflows. It does not make up for what a link loses: over HTTP/1.1,
    // the same share of time is lost with BBR as with CUBIC (`squall run twilio-bbr`).
    let knobs = if 2 * queue > all {
        &[Knob::QueueDiscipline, Knob::CongestionControl][..]
    } else {
        &[Knob::KeepInFlight]
    };
    let fixes = knobs.iter().filter_map(|knob| case.link_fix(sender, *knob));
    case.detection_by_time(case.cost_of(Cause::Loss), TIME_AT_LEAST, numbers, fixes)
}

/// Whether there was only one transfer at a time, and it kept the queue busy after the first drop.
fn is_full(case: &Case<'_>, sender: Side) -> bool {
    let totals = case.flows().totals(sender.sends());
    let idle = totals.idle_after_drop.as_nanos();
    case.mean_concurrency() <= AT_ONCE_AT_MOST && case.share_of_time(idle) < TIME_AT_LEAST
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Fate, Repair};

    use super::super::made::{TestTrial, is_near, ms};

    #[test]
    fn own_loss_is_found_above_one_percent_of_the_time() {
        let mut made = TestTrial::healthy(Protocol::H3);
        made.lose(3, Cause::Loss, ms(49), Repair::PacketThreshold);
        assert_eq!(made.finding("own_loss"), None);
        made.lose(4, Cause::Loss, ms(51), Repair::ProbeTimeout);
        let finding = made.finding("own_loss").unwrap();
        assert!(is_near(finding.share.part, 100.0 / 5_100.0));
        let fixes: Vec<_> = finding.fixes.iter().map(|fix| &fix.setting).collect();
        assert_eq!(fixes.len(), 1, "{fixes:?}");
        assert!(!fixes[0].contains("congestion_control"), "{fixes:?}");
        assert_eq!(finding.evidence.requests, [4, 3]);
    }

    /// A hundred requests, each `apart_ms` after the one before. Every `gap_ms` a packet arrives that takes 10 ms; the
    /// first one is dropped.
    fn full(gap_ms: u64, apart_ms: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H3);
        made.lose(3, Cause::Loss, ms(49), Repair::PacketThreshold);
        made.lose(4, Cause::Loss, ms(51), Repair::PacketThreshold);
        for request in &mut made.requests {
            let later = ms((apart_ms - 10) * request.request);
            (request.intended, request.end) = (request.intended + later, request.end + later);
        }
        for drop in &mut made.drops {
            drop.fate = Fate::QueueDrop;
        }
        for n in 0..100 {
            let arrived_us = n * gap_ms * 1_000;
            let packet = made.packet(arrived_us, Direction::Down, 0, 0, 1_000);
            packet.queueing = ms(10);
            if n == 0 {
                (packet.fate, packet.released) = (Fate::QueueDrop, None);
            }
        }
        made
    }

    #[test]
    fn drops_of_a_queue_that_never_empties_cost_the_only_transfer_nothing() {
        assert_eq!(full(10, 110).finding("own_loss"), None);
    }

    #[test]
    fn drops_of_a_queue_that_empties_cost_time() {
        assert!(full(11, 110).finding("own_loss").is_some());
    }

    #[test]
    fn drops_of_a_full_queue_cost_time_where_several_transfers_share_it() {
        assert!(full(10, 25).finding("own_loss").is_some());
    }

    #[test]
    fn waiting_for_other_requests_is_not_reported() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.lose(3, Cause::Hol, ms(490), Repair::FastRetransmit);
        assert_eq!(made.finding("own_loss"), None);
    }
}
