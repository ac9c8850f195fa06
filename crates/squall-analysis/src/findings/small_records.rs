//! Large messages went out in small TLS records.

use std::collections::BTreeSet;

use squall_base::record::{Cause, Side};

use super::case::{Case, count, number};
use super::costs::SHOWN;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "small_records",
    title: "Small TLS records",
    explanation: "Large bodies, or their first megabyte, went out in records of about a packet each, because their \
                  size is fixed and small, or because records start small on connections that are fresh or were idle. \
                  Each record costs at least 22 bytes on the wire and one pass of the cipher at both ends.",
    scope: Scope::Path,
    causes: &[Cause::Record],
    detect,
};

/// Small records have 1,186 to 1,378 bytes in Go, nghttpx and h2o. nghttpx sends 1 MiB of them after each second of silence:
/// a body of up to 4 MB stays below this mean even if the rest is in full records. Records of 4 KiB, the smallest that nginx
/// recommends, have 4,118 bytes on the wire.
const MEAN_RECORD_BELOW: u64 = 4_096;
/// At least a tenth of the large messages.
const OF_MESSAGES_AT_LEAST: f64 = 0.1;
const MEGABYTE: f64 = 1e6;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut messages, mut small, mut bytes, mut records) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut requests, mut at) = (BTreeSet::new(), None);
    for message in &case.records.message_records {
        messages += 1;
        // The last record holds only what is left, so it does not count as full.
        if message.wire_bytes >= MEAN_RECORD_BELOW * (message.records - 1) {
            continue;
        }
        small += 1;
        bytes += message.wire_bytes;
        records += message.records;
        let sender = if message.is_request {
            Side::Client
        } else {
            Side::Server
        };
        at.get_or_insert((message.hop, sender));
        if requests.len() < SHOWN {
            requests.extend(message.request);
        }
    }
    let (hop, sender) = at?;
    if (small as f64) < OF_MESSAGES_AT_LEAST * messages as f64 {
        return None;
    }
    let all = case.records.requests.len().max(1) as f64;
    Some(Detection {
        part: (small as f64 / all).min(1.0),
        of: Whole::Requests,
        numbers: vec![
            count("large messages in small records", small),
            count("large messages", messages),
            number(
                "records a megabyte in them",
                records as f64 / bytes as f64 * MEGABYTE,
                "",
            ),
        ],
        requests: requests.into_iter().collect(),
        fixes: case
            .fix(hop, sender, Knob::RecordSize)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::{Protocol, RecordSizes};
    use squall_base::record::{ExchangeRecord, Extent, Side};

    use super::super::made::{TestTrial, is_near};

    /// Ten responses of that many bytes in that many records.
    fn responses(bytes: u64, records: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tls.records = RecordSizes::Fixed(Bytes::new(1_300));
        for n in 0..10 {
            made.exchanges.push(ExchangeRecord {
                request: Some(n),
                response_extent: Some(Extent {
                    start: 0,
                    end: bytes,
                    wire_start: Some(1_000_000 * n),
                    wire_end: Some(1_000_000 * n + bytes),
                    record_first: Some(1_000 * n),
                    record_last: Some(1_000 * n + records - 1),
                }),
                response_body_bytes: bytes,
                status: Some(200),
                ..ExchangeRecord::unseen(Side::Client, 0, 2 * n + 1, Protocol::H2)
            });
        }
        made
    }

    #[test]
    fn records_of_packet_size_are_found() {
        let finding = responses(132_200, 100).finding("small_records").unwrap();
        assert!(is_near(finding.share.part, 0.1));
        assert_eq!(finding.fixes[0].station, "server");
        assert_eq!(finding.evidence.requests.len(), 10);
    }

    #[test]
    fn large_records_already_in_force_are_not_proposed() {
        let mut made = responses(132_200, 100);
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tls.records = RecordSizes::Fixed(RecordSizes::LARGEST);
        assert!(made.finding("small_records").unwrap().fixes.is_empty());
    }

    /// As nghttpx sends a video segment on a connection that was idle: 1 MiB in records of 1,300 bytes, then full ones.
    #[test]
    fn body_that_begins_with_a_megabyte_of_small_records_is_found() {
        let (small, full) = (1_322 * 807, 16_406 * 161);
        let finding = responses(small + full, 807 + 161).finding("small_records");
        assert!(is_near(finding.unwrap().share.part, 0.1));
    }

    #[test]
    fn large_records_and_small_messages_are_not_reported() {
        assert_eq!(responses(132_200, 33).finding("small_records"), None);
        assert_eq!(responses(1_322, 1).finding("small_records"), None);
    }
}
