//! A receiver responds to every DATA frame with a WINDOW_UPDATE.

use super::case::{Case, count, number};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "update_per_data",
    title: "A window update for every DATA frame",
    explanation: "The receiver returns the window of each DATA frame by itself, long before the sender could run \
                  short of it. Every update is a frame, often a packet and a wake-up at both ends, and none of them \
                  is needed.",
    scope: Scope::Path,
    causes: &[],
    detect,
};

/// Nearly one update for each frame: the last frame of a stream gets none.
const UPDATES_PER_DATA: f64 = 0.8;
/// This many DATA frames are a pattern.
const DATA_AT_LEAST: u64 = 100;
/// An update of less than a third of the window comes earlier than any sender needs it (half is customary: nghttp2, Go).
const STEP_AT_MOST: f64 = 1.0 / 3.0;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut data, mut updates, mut frames_of_all, mut increments) = (0, 0, 0, 0);
    let mut at = None;
    for (key, frames) in &case.records.frames {
        let window = frames.granted_window.unwrap_or(0) as f64;
        let step = frames.increments_sent as f64 / frames.updates_sent.max(1) as f64;
        let is_each = frames.updates_sent as f64 >= UPDATES_PER_DATA * frames.data_received as f64;
        if frames.updates_sent > 0 && is_each && step <= STEP_AT_MOST * window {
            data += frames.data_received;
            updates += frames.updates_sent;
            increments += frames.increments_sent;
            at.get_or_insert((key.0, key.1));
        }
        frames_of_all += frames.total;
    }
    let (hop, side) = at.filter(|_| data >= DATA_AT_LEAST)?;
    Some(Detection {
        part: updates as f64 / frames_of_all.max(1) as f64,
        of: Whole::Frames,
        numbers: vec![
            count("DATA frames received", data),
            count("WINDOW_UPDATE frames of streams sent", updates),
            number(
                "mean increment",
                increments as f64 / updates as f64,
                "bytes",
            ),
        ],
        requests: Vec::new(),
        fixes: case
            .fix(hop, side, Knob::WindowUpdates)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Side, Way};

    use super::super::made::{TestTrial, is_near};

    /// 100 DATA frames, with an update after every `each` of them.
    fn received(each: u64, window: i64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        for n in 0..100 {
            let time = 1_000 + n;
            made.data(
                time,
                Side::Server,
                Way::Received,
                1,
                (8_192, window - 8_192),
            );
            if n % each == 0 {
                made.update(time, Side::Server, Way::Sent, 1, 8_192 * each);
            }
        }
        made
    }

    #[test]
    fn an_update_for_every_frame_is_found() {
        let finding = received(1, 65_535).finding("update_per_data").unwrap();
        assert!(is_near(finding.share.part, 0.5));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn updates_for_every_second_frame_or_in_two_frame_windows_are_not_reported() {
        assert_eq!(received(2, 65_535).finding("update_per_data"), None);
        assert_eq!(received(1, 16_384).finding("update_per_data"), None);
    }
}
