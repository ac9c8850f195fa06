//! Requests that the server refused before it processed any part of them.

use squall_base::record::Side;

use super::case::{Case, count};
use super::costs::SHOWN;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "refused_streams",
    title: "Refused streams",
    explanation: "The server reset requests with REFUSED_STREAM, which says that it has not processed them (RFC 9113, \
                  section 8.7). A client may send them again, at least a round trip later, if it does so at all.",
    scope: Scope::Path,
    causes: &[],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut refused, mut requests, mut at) = (0, Vec::new(), None);
    for (key, frames) in &case.records.frames {
        if key.1 != Side::Client || frames.refused.is_empty() {
            continue;
        }
        at.get_or_insert(key.0);
        refused += frames.refused.len() as u64;
        let rows = frames
            .refused
            .iter()
            .filter_map(|stream| case.row_of_stream(*key, *stream));
        requests.extend(rows.map(|row| row.request));
    }
    let hop = at?;
    requests.truncate(SHOWN);
    let all = case.records.requests.len().max(1) as f64;
    Some(Detection {
        part: (refused as f64 / all).min(1.0),
        of: Whole::Requests,
        numbers: vec![count("streams refused", refused)],
        requests,
        fixes: [
            case.fix(hop, Side::Server, Knob::MaxStreams),
            case.fix(hop, Side::Client, Knob::RespectLimits),
        ]
        .into_iter()
        .flatten()
        .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame, is_near};
    use crate::wire::http2::RST_STREAM;

    #[test]
    fn refused_streams_are_found_and_cancelled_ones_are_not() {
        for (code, is_found) in [(7, true), (8, false)] {
            let mut made = TestTrial::healthy(Protocol::H2c);
            let reset = FrameFacts {
                value: Some(code),
                ..frame(Way::Received, RST_STREAM, 5, 4)
            };
            made.frame(1_000, Side::Client, reset);
            let finding = made.finding("refused_streams");
            assert_eq!(finding.is_some(), is_found, "{code}");
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 0.01));
                assert_eq!(finding.evidence.requests, [2]);
                // The client assumes no more than the server allows.
                assert_eq!(finding.fixes.len(), 1);
                assert_eq!(finding.fixes[0].station, "server");
            }
        }
    }
}
