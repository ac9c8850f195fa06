//! Header sections that stay as long as the first one: the dynamic table does not hold them.

use super::case::{Case, count, number};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "hpack_eviction",
    title: "Header fields are not compressed",
    explanation: "Header sections stay as long as the first one on their connection, although a trial sends the same \
                  fields every time. The dynamic table of HPACK is too small to hold them, or is not used.",
    scope: Scope::Path,
    causes: &[],
    detect,
};

/// A shorter first section needs no compression: a section of a few fields fits into any packet.
const FIRST_AT_LEAST_BYTES: u64 = 100;
/// This many later sections on the connection show how well the table works.
const LATER_AT_LEAST: u64 = 10;
/// Half of them or more are at least half as long as the first; with a table, each field takes a byte or two (RFC 7541,
/// section 6.1).
const LONG_AT_LEAST: f64 = 0.5;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut long, mut all, mut first, mut at) = (0, 0, 0, None);
    for (key, frames) in &case.records.frames {
        let length = frames.first_headers.unwrap_or(0);
        if length < FIRST_AT_LEAST_BYTES || frames.later_headers < LATER_AT_LEAST {
            continue;
        }
        all += frames.later_headers;
        if frames.long_headers as f64 >= LONG_AT_LEAST * frames.later_headers as f64 {
            long += frames.long_headers;
            first = first.max(length);
            at.get_or_insert((key.0, key.1));
        }
    }
    let (hop, sender) = at?;
    Some(Detection {
        part: long as f64 / all as f64,
        of: Whole::Requests,
        numbers: vec![
            number("longest first header section", first as f64, "bytes"),
            count("later ones at least half as long as their first", long),
        ],
        requests: Vec::new(),
        fixes: case
            .fix(hop, sender.peer(), Knob::HeaderTable)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame};
    use crate::wire::http2::{END_STREAM, HEADERS};

    fn sections(first: u64, later: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        for n in 0..20 {
            let length = if n == 0 { first } else { later };
            let headers = FrameFacts {
                flags: END_STREAM,
                ..frame(Way::Sent, HEADERS, 2 * n + 1, length)
            };
            made.frame(1_000 + n, Side::Client, headers);
        }
        made
    }

    #[test]
    fn sections_that_stay_long_are_found() {
        let finding = sections(700, 650).finding("hpack_eviction").unwrap();
        assert_eq!(finding.evidence.numbers[1].value, 19.0);
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn compressed_and_short_sections_are_not_reported() {
        assert_eq!(sections(700, 40).finding("hpack_eviction"), None);
        assert_eq!(sections(60, 60).finding("hpack_eviction"), None);
    }
}
