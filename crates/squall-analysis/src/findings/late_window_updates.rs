//! A receiver that returns window credit so late that the sender gets only part of the window per round trip.

use squall_base::Duration;
use squall_base::record::{Cause, Side};

use super::case::{Case, TIME_AT_LEAST, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::frames::OutgoingData;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "late_window_updates",
    title: "Window updates come late",
    explanation: "The receiver returns its window in large steps, and holds back what is less than a step while the \
                  sender waits. So a stream carries much less than its window in a round trip, as little as half of \
                  it.",
    scope: Scope::Path,
    causes: &[Cause::WindowStream, Cause::WindowConnection],
    detect,
};

/// The sender gets at most this share of the window per round trip. Late updates leave it one half in the published case
/// (h2o issue 582: 1.25 MB/s of 256 KiB over 100 ms), prompt ones all of it. On a machine with eight others at work, prompt
/// updates left 0.73, because round trips took longer there than the link's.
const OF_WINDOW_AT_MOST: f64 = 0.65;
/// The sender waits for the window for at least this share of its time; otherwise something else sets its rate.
const BLOCKED_AT_LEAST: f64 = 0.6;
/// Updates return at least this share of the window; smaller ones are not late but frequent.
const STEP_AT_LEAST: f64 = 0.35;
/// At least this many round trips after the rate has settled; with fewer, the rate depends on where counting begins.
const ROUND_TRIPS_AT_LEAST: f64 = 3.0;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let mut costs = Costs::default();
    let mut worst: Option<(f64, u64, u8, Side)> = None;
    for (key, frames) in &case.records.frames {
        let round_trip = case.round_trip_at(key.0);
        // Streams that share a connection's window get only a part of it, whenever updates come.
        if round_trip.is_zero() || frames.connection.blocks > 0 {
            continue;
        }
        for (stream, outgoing) in &frames.outgoing {
            let Some(part) = part_of_window(outgoing, round_trip) else {
                continue;
            };
            if worst.is_none_or(|(least, ..)| part < least) {
                worst = Some((part, outgoing.window.unwrap_or(0), key.0, key.1));
            }
            if let Some(row) = case.measured_row(*key, *stream) {
                // What prompt updates would have saved.
                let saved = outgoing.blocked_ns as f64 * (1.0 - part);
                costs.add(row.request, Duration::from_nanos(saved as u64));
            }
        }
    }
    let (part, window, hop, sender) = worst?;
    let numbers = vec![
        number("stream window", window as f64, "bytes"),
        number("of it, sent in a round trip, at least", part * 100.0, "%"),
    ];
    let fix = case.fix(hop, sender.peer(), Knob::WindowUpdates);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

/// The share of its window that a stream sent per round trip, if its window updates were late.
fn part_of_window(outgoing: &OutgoingData, round_trip: Duration) -> Option<f64> {
    let window = outgoing.window.filter(|window| *window > 0)? as f64;
    let (from, before) = outgoing.steady_from?;
    let span = outgoing.last_sent?.since(from).as_nanos() as f64;
    let round_trips = span / round_trip.as_nanos() as f64;
    let is_long = round_trips >= ROUND_TRIPS_AT_LEAST;
    let step = outgoing.increments as f64 / outgoing.updates.max(1) as f64;
    let is_blocked = outgoing.blocked_ns as f64 >= BLOCKED_AT_LEAST * span;
    if !is_long || !is_blocked || step < STEP_AT_LEAST * window {
        return None;
    }
    let part = (outgoing.bytes - before) as f64 / round_trips / window;
    (part <= OF_WINDOW_AT_MOST).then_some(part)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame};
    use crate::wire::http2::DATA;

    /// A stream with a window of 64 KiB, which gets `step` bytes of it back every 50 ms.
    fn stream(step: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.data(1_000, Side::Server, Way::Sent, 1, (65_536, 0));
        for round in 1..20 {
            let time = 1_000 + 50 * round;
            made.update(time, Side::Server, Way::Received, 1, step);
            made.data(time, Side::Server, Way::Sent, 1, (step, 0));
        }
        made
    }

    #[test]
    fn half_a_window_per_round_trip_is_found() {
        let finding = stream(32_768).finding("late_window_updates").unwrap();
        let part = finding.evidence.numbers[3].value;
        assert!((part - 50.0).abs() < 0.1, "{part}");
        assert_eq!(finding.evidence.requests, [0]);
        assert_eq!(finding.fixes[0].station, "client");
        assert_eq!(
            finding.fixes[0].setting, "http2.window_updates: every quarter of the window",
            "it gives back half already"
        );
    }

    #[test]
    fn a_connection_window_shared_by_streams_is_not_reported() {
        let mut made = stream(32_768);
        let data = FrameFacts {
            stream_window: Some(1),
            connection_window: Some(0),
            ..frame(Way::Sent, DATA, 3, 100)
        };
        made.frame(3_000, Side::Server, data);
        assert_eq!(made.finding("late_window_updates"), None);
    }

    #[test]
    fn a_whole_window_or_small_steps_are_not_reported() {
        assert_eq!(stream(65_536).finding("late_window_updates"), None);
        assert_eq!(stream(4_096).finding("late_window_updates"), None);
    }
}
