//! Bytes had arrived, but the rest of their TLS record had not.

use squall_base::record::Cause;

use super::case::{Case, TIME_AT_LEAST};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "record_wait",
    title: "Bytes wait for the rest of their TLS record",
    explanation: "The bytes of these requests had arrived in order, but a record can be decrypted only as a whole, \
                  and its last segment was still to come. So several messages in one large record wait for each \
                  other.",
    scope: Scope::Link,
    causes: &[Cause::Record],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (hop, sender) = (case.link_hop().0, case.main_sender());
    let fix = case.fix(hop, sender, Knob::ShortRecords);
    case.detection_by_time(case.cost_of(Cause::Record), TIME_AT_LEAST, Vec::new(), fix)
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::{Protocol, RecordSizes};
    use squall_base::record::Cause;

    use super::super::made::{TestTrial, is_near, ms};

    #[test]
    fn waiting_for_a_records_end_is_found_and_other_waits_are_not() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(0..10, Cause::Record, ms(10));
        let finding = made.finding("record_wait").unwrap();
        assert!(is_near(finding.share.part, 100.0 / 5_100.0));
        assert_eq!(finding.fixes[0].changes.len(), 1);
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tls.records = RecordSizes::Fixed(Bytes::new(4_096));
        assert!(made.finding("record_wait").unwrap().fixes.is_empty());
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(0..10, Cause::Link, ms(10));
        assert_eq!(made.finding("record_wait"), None);
    }
}
