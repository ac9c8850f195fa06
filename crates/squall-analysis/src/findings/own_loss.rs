//! Requests waited for bytes of their own that were lost.

use squall_base::record::{Cause, Fate};

use super::case::{Case, TIME_AT_LEAST, count};
use super::knob::Knob;
use super::{Detector, Found};

pub(super) const DETECTOR: Detector = Detector {
    name: "own_loss",
    title: "Loss of a request's own packets",
    explanation: "Packets of these requests were lost, and each waited until its own bytes had been sent again. That \
                  takes at least a round trip, and much longer where nothing follows that would reveal the gap.",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Found> {
    let drops = case.drops().iter();
    let costly = drops.filter(|drop| drop.victims.iter().any(|it| it.cause == Cause::Loss));
    let by_queue = |fate| matches!(fate, Fate::QueueDrop | Fate::EarlyDrop);
    let (mut queue, mut all) = (0, 0);
    for drop in costly {
        all += 1;
        queue += u64::from(by_queue(drop.fate));
    }
    let numbers = vec![
        count("lost packets that delayed their own request", all),
        count("of them, dropped by a queue", queue),
    ];
    let sender = case.main_sender();
    let mut fixes = vec![case.link_fix(sender, Knob::CongestionControl)];
    if 2 * queue > all {
        fixes.insert(0, case.link_fix(sender, Knob::QueueDiscipline));
    }
    case.of_time(case.cost_of(Cause::Loss), TIME_AT_LEAST, numbers, fixes)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Repair};

    use super::super::made::{Made, is_near, ms};

    #[test]
    fn own_loss_is_found_from_a_hundredth_of_the_time_on() {
        let mut made = Made::healthy(Protocol::H3);
        made.lose(3, Cause::Loss, ms(49), Repair::PacketThreshold);
        assert_eq!(made.found("own_loss"), None);
        made.lose(4, Cause::Loss, ms(51), Repair::ProbeTimeout);
        let finding = made.found("own_loss").unwrap();
        assert!(is_near(finding.share.part, 100.0 / 5_100.0));
        assert_eq!(finding.evidence.requests, [4, 3]);
    }

    #[test]
    fn waiting_for_others_is_none() {
        let mut made = Made::healthy(Protocol::H2);
        made.lose(3, Cause::Hol, ms(490), Repair::FastRetransmit);
        assert_eq!(made.found("own_loss"), None);
    }
}
