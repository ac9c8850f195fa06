//! TCP delivers in order: data that had arrived waited for missing bytes of other requests.

use squall_base::record::{Cause, Side};

use super::case::{Case, TIME_AT_LEAST, count};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "head_of_line",
    title: "TCP head-of-line blocking",
    explanation: "Bytes of these requests had arrived, but TCP held them back because bytes of other requests before \
                  them were missing. So one lost packet delays every request that shares its connection.",
    scope: Scope::Link,
    causes: &[Cause::Hol],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    if !case.is_tcp() {
        return None;
    }
    let (mut guilty, mut most) = (0, 0);
    for drop in case.drops() {
        let victims = drop.victims.iter();
        let behind = victims.filter(|victim| victim.cause == Cause::Hol).count() as u64;
        guilty += u64::from(behind > 0);
        most = most.max(behind);
    }
    let numbers = vec![
        count("lost packets that delayed others", guilty),
        count("requests that one of them delayed, at most", most),
    ];
    let fixes = case
        .link_fix(Side::Client, Knob::OtherProtocol)
        .into_iter()
        .chain(case.link_fix(case.main_sender(), Knob::CongestionControl));
    case.detection_by_time(case.cost_of(Cause::Hol), TIME_AT_LEAST, numbers, fixes)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Repair};

    use super::super::made::{TestTrial, is_near, ms};

    #[test]
    fn bbr_is_not_proposed_where_it_is_already_in_force() {
        let is_bbr_named = |control: &str| {
            let mut made = TestTrial::healthy(Protocol::H2);
            made.lose(7, Cause::Hol, ms(500), Repair::FastRetransmit);
            let hop = &mut made.trial.trial.variant.hops[0];
            for side in [&mut hop.client, &mut hop.server] {
                side.tcp.congestion_control = Some(control.to_owned());
            }
            let finding = made.finding("head_of_line").unwrap();
            finding.fixes.iter().any(|fix| fix.setting.contains("bbr"))
        };
        assert!(is_bbr_named("cubic"));
        assert!(!is_bbr_named("bbr"));
    }

    #[test]
    fn waiting_for_lost_bytes_of_other_requests_is_found() {
        let mut made = TestTrial::healthy(Protocol::H2c);
        made.lose(7, Cause::Hol, ms(500), Repair::FastRetransmit);
        let finding = made.finding("head_of_line").unwrap();
        assert!(is_near(finding.share.part, 500.0 / 5_500.0));
        assert_eq!(finding.evidence.requests, [7]);
        assert_eq!(finding.evidence.numbers[2].value, 1.0);
    }

    #[test]
    fn own_loss_and_quic_are_not_reported() {
        let mut made = TestTrial::healthy(Protocol::H2c);
        made.lose(7, Cause::Loss, ms(500), Repair::FastRetransmit);
        assert_eq!(made.finding("head_of_line"), None);
        let mut made = TestTrial::healthy(Protocol::H3);
        made.lose(7, Cause::Hol, ms(500), Repair::PacketThreshold);
        assert_eq!(made.finding("head_of_line"), None);
    }
}
