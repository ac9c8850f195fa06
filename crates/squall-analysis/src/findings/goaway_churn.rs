//! The server ends connections again and again, and clients pay for new ones.

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::handshake_per_request::openings;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "goaway_churn",
    title: "GOAWAY after a few requests",
    explanation: "The server ended its connections with GOAWAY while the load went on. Each time a request had to wait \
                  for a new connection with its handshakes, and for its congestion window to grow again.",
    scope: Scope::Path,
    causes: &[Cause::Connect, Cause::Tls],
    detect,
};

/// One or two may be a restart; three are a pattern.
const GOAWAYS_AT_LEAST: u64 = 3;
/// A new connection for every hundredth request; what costs less is lost in the noise.
const NEW_CONNECTIONS_AT_LEAST: f64 = 0.01;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let clients = case.records.frames.iter();
    let clients = clients.filter(|((hop, side, _), _)| *hop == 1 && *side == Side::Client);
    let goaways: u64 = clients.map(|(_, frames)| frames.goaways_received).sum();
    let (opened, costs) = openings(case);
    let requests = case.measured_count();
    let is_churn = opened as f64 >= NEW_CONNECTIONS_AT_LEAST * requests as f64 && opened > 0;
    if goaways < GOAWAYS_AT_LEAST || !is_churn {
        return None;
    }
    let numbers = vec![
        count("GOAWAY received", goaways),
        count("requests that opened a connection", opened),
        count("requests", requests),
    ];
    let fix = case.fix(1, Side::Server, Knob::RequestsPerConnection);
    case.detection_by_time(costs, 0.0, numbers, fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{FrameFacts, Side, Way};

    use super::super::made::{TestTrial, frame, is_near, ms};
    use crate::wire::http2::GOAWAY;

    fn churn(goaways: usize, code: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        for n in 0..goaways {
            let row = &mut made.requests[10 * n];
            row.opened_connection = true;
            row.connected = Some(row.intended + ms(50));
            row.secured = Some(row.intended + ms(100));
            row.end += ms(100);
            let goaway = FrameFacts {
                value: Some(code),
                ..frame(Way::Received, GOAWAY, 0, 8)
            };
            made.frame(1_000, Side::Client, goaway);
        }
        made
    }

    #[test]
    fn repeated_goaways_are_found() {
        let finding = churn(10, 0).finding("goaway_churn").unwrap();
        assert!(is_near(finding.share.part, 1_000.0 / 6_000.0));
        assert_eq!(finding.evidence.requests.len(), 10);
    }

    #[test]
    fn one_restart_and_errors_are_not_reported() {
        assert_eq!(churn(2, 0).finding("goaway_churn"), None);
        assert_eq!(churn(10, 1).finding("goaway_churn"), None);
    }
}
