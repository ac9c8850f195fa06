//! Data waited because the connection's flow-control window was exhausted, while its stream's was not.

use squall_base::record::Cause;

use super::case::{Case, TIME_AT_LEAST, number};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "connection_window",
    title: "Connection window too small",
    explanation: "The window that all streams of the connection share was used up, while streams still had some of \
                  their own. So requests wait for each other although each stream was promised more.",
    scope: Scope::Link,
    causes: &[Cause::WindowConnection],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let sender = case.most_blocked(|frames| frames.connection.blocked_ns);
    let mut frames = case.frames();
    let of_sender = frames.find(|((_, side, _), _)| *side == sender);
    let window = of_sender.and_then(|(_, frames)| frames.connection.window);
    let numbers = window.map(|bytes| number("connection window", bytes as f64, "bytes"));
    let fix = case.link_fix(sender.peer(), Knob::ConnectionWindow);
    let costs = case.cost_of(Cause::WindowConnection);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers.into_iter().collect(), fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Cause;

    use super::super::made::{TestTrial, is_near, ms};

    #[test]
    fn waiting_for_the_connections_window_is_found() {
        let mut made = TestTrial::healthy(Protocol::H3);
        made.spend(10..12, Cause::WindowConnection, ms(250));
        let finding = made.finding("connection_window").unwrap();
        assert!(is_near(finding.share.part, 500.0 / 5_500.0));
        assert_eq!(finding.evidence.requests, [10, 11]);
        assert!(finding.fixes[0].setting.contains("http3.connection_window"));
    }

    #[test]
    fn waiting_for_the_streams_window_is_not_reported() {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(10..12, Cause::WindowStream, ms(250));
        assert_eq!(made.finding("connection_window"), None);
    }
}
