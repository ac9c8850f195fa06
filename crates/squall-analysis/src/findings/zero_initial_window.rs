//! Uploads could not begin with their request: the server's initial window is next to nothing.

use squall_base::Duration;
use squall_base::record::{Cause, Side};

use super::case::{Case, TIME_AT_LEAST, count, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::frames::TINY_WINDOW_BYTES;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "zero_initial_window",
    title: "Uploads wait for their first window",
    explanation: "The server announced an initial stream window that holds next to nothing, so no body could follow \
                  its header section. Every upload waits for the first update, a round trip or more.",
    scope: Scope::Path,
    causes: &[Cause::WindowStream],
    detect,
};

/// The shortest wait that counts, as a share of a round trip: an update that was already on its way costs less.
const WAIT_AT_LEAST: f64 = 0.5;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let mut costs = Costs::default();
    let (mut streams, mut window, mut on_hop) = (0, 0, 1);
    for (key, frames) in &case.records.frames {
        if key.1 != Side::Client {
            continue;
        }
        let round_trip_ns = case.round_trip_at(key.0).as_nanos();
        let at_least = (round_trip_ns as f64 * WAIT_AT_LEAST) as u64;
        for (stream, outgoing) in &frames.outgoing {
            let wait = outgoing.first_wait(TINY_WINDOW_BYTES);
            let Some(wait) = wait.filter(|wait| *wait > at_least) else {
                continue;
            };
            streams += 1;
            (window, on_hop) = (outgoing.window.unwrap_or(0), key.0);
            if let Some(row) = case.measured_row(*key, *stream) {
                costs.add(row.request, Duration::from_nanos(wait));
            }
        }
    }
    let numbers = vec![
        count("uploads that waited for their first window", streams),
        number("initial window", window as f64, "bytes"),
    ];
    let fix = case.fix(on_hop, Side::Server, Knob::StreamWindow);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame, is_near};
    use crate::wire::http2::{DATA, END_STREAM, HEADERS};

    /// Ten uploads: `window` bytes may follow immediately, the rest 50 ms later.
    fn uploads(window: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        for n in 0..10 {
            let (stream, time) = (2 * n + 1, 1_000 + 10 * n);
            let headers = frame(Way::Sent, HEADERS, stream, 30);
            made.frame(time, Side::Client, headers);
            if window > 0 {
                made.data(time, Side::Client, Way::Sent, stream, (window, 0));
            }
            made.update(time + 50, Side::Client, Way::Received, stream, 65_535);
            let rest = FrameFacts {
                flags: END_STREAM,
                stream_window: Some(0),
                connection_window: Some(1 << 20),
                ..frame(Way::Sent, DATA, stream, 65_535)
            };
            made.frame(time + 50, Side::Client, rest);
        }
        made
    }

    #[test]
    fn waiting_a_round_trip_for_the_first_update_is_found() {
        for window in [0, 1, 1_000] {
            let finding = uploads(window).finding("zero_initial_window").unwrap();
            assert!(is_near(finding.share.part, 0.1), "{window}");
            assert_eq!(finding.fixes[0].station, "server");
        }
    }

    #[test]
    fn a_usable_initial_window_is_not_reported() {
        assert_eq!(uploads(16_384).finding("zero_initial_window"), None);
    }
}
