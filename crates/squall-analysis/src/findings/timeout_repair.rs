//! Lost packets that no acknowledgement revealed, so that a timer had to.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::record::{Cause, Repair, Side};

use super::case::{Case, TIME_AT_LEAST, count};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "timeout_repair",
    title: "Tail loss repaired by a timer",
    explanation: "The last packets of a flight were lost, so no later one told the sender, which found out by a \
                  timer: a retransmission timeout of 200 ms or more, or a tail loss probe. Small responses on \
                  connections with little else in flight are hit most.",
    scope: Scope::Link,
    causes: &[Cause::Loss, Cause::Hol],
    detect,
};

fn is_timer(repair: Repair) -> bool {
    matches!(
        repair,
        Repair::Rto | Repair::Tlp | Repair::Timeout | Repair::ProbeTimeout
    )
}

fn detect(case: &Case<'_>) -> Option<Detection> {
    let mut by_request: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut timeouts, mut probes, mut either) = (0, 0, 0);
    for drop in case.drops().filter(|drop| is_timer(drop.repair)) {
        match drop.repair {
            Repair::Rto => timeouts += 1,
            Repair::Timeout => either += 1,
            _ => probes += 1,
        }
        for victim in &drop.victims {
            if case.row(victim.request).is_some_and(|row| row.is_measured) {
                *by_request.entry(victim.request).or_default() += victim.delay.as_nanos();
            }
        }
    }
    let mut costs = Costs::default();
    for (request, nanos) in by_request {
        costs.add(request, Duration::from_nanos(nanos));
    }
    let mut numbers = vec![
        count(
            "lost packets repaired by a retransmission timeout",
            timeouts,
        ),
        count("lost packets repaired by a probe", probes),
    ];
    if either > 0 {
        numbers.push(count("lost packets repaired by one or the other", either));
    }
    let fixes = case
        .link_fix(case.main_sender(), Knob::KeepInFlight)
        .into_iter()
        .chain(case.link_fix(Side::Client, Knob::OtherProtocol));
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fixes)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Repair};

    use super::super::made::{TestTrial, is_near, ms};

    #[test]
    fn repairs_by_timer_are_found_and_other_repairs_are_not() {
        for (repair, is_found) in [
            (Repair::Rto, true),
            (Repair::Tlp, true),
            (Repair::Timeout, true),
            (Repair::ProbeTimeout, true),
            (Repair::FastRetransmit, false),
            (Repair::Rack, false),
            (Repair::SynTimer, false),
        ] {
            let mut made = TestTrial::healthy(Protocol::H1);
            made.lose(3, Cause::Loss, ms(250), repair);
            // The tables have requests in the order in which they ended.
            made.requests.swap(3, 20);
            made.causes.swap(3, 20);
            let finding = made.finding("timeout_repair");
            assert_eq!(finding.is_some(), is_found, "{repair:?}");
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 250.0 / 5_250.0));
                assert_eq!(finding.evidence.requests, [3]);
            }
        }
    }
}
