//! Data waited because its stream's flow-control window was exhausted.

use squall_base::Duration;
use squall_base::record::{Cause, Side};

use super::case::{Case, TIME_AT_LEAST, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Number};
use super::knob::Knob;
use crate::window_rate::WindowRate;

pub(super) const DETECTOR: Detector = Detector {
    name: "stream_window",
    title: "Stream window too small",
    explanation: "The sender had data, and the stream's flow-control window was used up until an update came back. So \
                  a stream carries at most one window in a round trip, whatever the link could do.",
    scope: Scope::Link,
    causes: &[Cause::WindowStream],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let sender = case.most_blocked(|frames| {
        let streams = frames.outgoing.values();
        streams.map(|stream| stream.blocked_ns).sum()
    });
    // Without causes only the client's own hop is known.
    let (costs, hop) = if case.has_causes() {
        (case.cost_of(Cause::WindowStream), case.link_hop().0)
    } else {
        (by_frames(case), 1)
    };
    let fix = case.fix(hop, sender.peer(), Knob::StreamWindow);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers(case, sender), fix)
}

/// Used if causes are not known: what the client's own frames show of its uploads.
fn by_frames(case: &Case<'_>) -> Costs {
    let mut costs = Costs::default();
    for (key, frames) in case.frames() {
        if key.1 != Side::Client {
            continue;
        }
        for (stream, outgoing) in &frames.outgoing {
            if let Some(row) = case.measured_row(*key, *stream) {
                costs.add(row.request, Duration::from_nanos(outgoing.blocked_ns));
            }
        }
    }
    costs
}

/// The window, and the rate that it allows.
fn numbers(case: &Case<'_>, sender: Side) -> Vec<Number> {
    let frames = case.frames();
    let of_sender = frames.filter(|((_, side, _), _)| *side == sender);
    let mut streams = of_sender.flat_map(|(_, frames)| frames.outgoing.values());
    let Some(window) = streams.find_map(|stream| stream.window) else {
        return Vec::new();
    };
    let mut numbers = vec![number("stream window", window as f64, "bytes")];
    if let Some(rate) = WindowRate::of(window, case.round_trip()) {
        numbers.push(number(
            "at most, by window over round trip",
            rate.at_most_bytes_per_s,
            "bytes/s",
        ));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Side, Way};

    use super::super::made::{TestTrial, frame, is_near, ms};
    use crate::wire::http2::HEADERS;

    #[test]
    fn waiting_for_the_streams_window_is_found() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(0..10, Cause::WindowStream, ms(50));
        made.data(1_000, Side::Server, Way::Sent, 1, (16_384, 0));
        let finding = made.finding("stream_window").unwrap();
        assert!(is_near(finding.share.part, 500.0 / 5_500.0));
        let mut numbers = finding.evidence.numbers.iter();
        assert!(numbers.any(|it| it.what == "stream window"));
        assert_eq!(finding.fixes[0].station, "client");
        assert!(finding.fixes[0].setting.contains("http2.stream_window"));
        let changes = finding.fixes[0].changes.iter().map(ToString::to_string);
        assert_eq!(
            changes.collect::<Vec<_>>(),
            [
                "http2.stream_window = 1MiB",
                "http2.connection_window = 1MiB"
            ]
        );
    }

    #[test]
    fn waiting_for_the_connections_window_is_not_reported() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(0..10, Cause::WindowConnection, ms(50));
        assert_eq!(made.finding("stream_window"), None);
    }

    #[test]
    fn without_causes_the_clients_own_frames_show_blocked_uploads() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.is_attributed = false;
        made.frame(1_000, Side::Client, frame(Way::Sent, HEADERS, 1, 30));
        made.data(1_000, Side::Client, Way::Sent, 1, (65_535, 0));
        assert_eq!(
            made.finding("stream_window"),
            None,
            "it was never given more"
        );
        made.update(1_200, Side::Client, Way::Received, 1, 65_535);
        let finding = made.finding("stream_window").unwrap();
        assert!(is_near(finding.share.part, 200.0 / 5_000.0));
        assert_eq!(finding.evidence.requests, [0]);
        assert_eq!(finding.fixes[0].station, "server");
    }
}
