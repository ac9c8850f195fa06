//! Bodies were cut into DATA frames smaller than what their headers cost.

use super::case::{Case, count};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "tiny_data_frames",
    title: "Tiny DATA frames",
    explanation: "Bodies were sent in DATA frames of less than 64 bytes, each with its own header, and often its own \
                  record and packet. A sender does this if it sends every few bytes as soon as the window or its \
                  source provides them.",
    scope: Scope::Path,
    causes: &[],
    detect,
};

/// A tenth of all DATA frames: single tiny ones occur at the edges of windows.
const OF_DATA_AT_LEAST: f64 = 0.1;
const FRAMES_AT_LEAST: u64 = 10;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut tiny, mut data, mut all, mut at) = (0, 0, 0, None);
    for (key, frames) in &case.records.frames {
        all += frames.total;
        if frames.tiny_data_sent as f64 >= OF_DATA_AT_LEAST * frames.data_sent.max(1) as f64 {
            tiny += frames.tiny_data_sent;
            data += frames.data_sent;
            at.get_or_insert((key.0, key.1));
        }
    }
    let (hop, side) = at.filter(|_| tiny >= FRAMES_AT_LEAST)?;
    Some(Detection {
        part: tiny as f64 / all.max(1) as f64,
        of: Whole::Frames,
        numbers: vec![
            count(
                "DATA frames below 64 bytes, not counting the last of each stream",
                tiny,
            ),
            count("DATA frames sent there", data),
        ],
        requests: Vec::new(),
        fixes: case.fix(hop, side, Knob::DataSize).into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame, is_near};
    use crate::wire::http2::DATA;

    fn sent(length: u64, flags: u8) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2c);
        made.trial.trial.variant.hops[0].client.http2.data_size = Bytes::new(length);
        for n in 0..20 {
            let data = FrameFacts {
                flags,
                stream_window: Some(10_000),
                connection_window: Some(10_000),
                ..frame(Way::Sent, DATA, 2 * n + 1, length)
            };
            made.frame(1_000, Side::Client, data);
        }
        made
    }

    #[test]
    fn frames_of_a_few_bytes_are_found() {
        let finding = sent(63, 0).finding("tiny_data_frames").unwrap();
        assert!(is_near(finding.share.part, 1.0));
        assert_eq!(finding.fixes[0].station, "client");
    }

    #[test]
    fn full_data_frames_already_in_force_are_not_proposed() {
        let mut made = sent(63, 0);
        made.trial.trial.variant.hops[0].client.http2.data_size = Bytes::new(16_384);
        assert!(made.finding("tiny_data_frames").unwrap().fixes.is_empty());
    }

    #[test]
    fn small_bodies_and_larger_frames_are_not_reported() {
        assert_eq!(sent(63, 1).finding("tiny_data_frames"), None);
        assert_eq!(sent(64, 0).finding("tiny_data_frames"), None);
    }
}
