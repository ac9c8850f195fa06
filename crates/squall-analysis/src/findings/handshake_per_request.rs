//! Most requests open a new connection.

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Fix};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "handshake_per_request",
    title: "A handshake for most requests",
    explanation: "Connections carried one or two requests, and then new ones were opened. Each time the request waits \
                  a round trip for TCP and one or two for TLS before its first byte can leave.",
    scope: Scope::Path,
    causes: &[Cause::Connect, Cause::Tls],
    detect,
};

/// The pathology is nearly one connection per request; half of that is already far more than a reused pool needs.
const OPENED_AT_LEAST: f64 = 0.5;
/// With fewer requests, the pool may just be filling.
const REQUESTS_AT_LEAST: u64 = 20;

/// How many measured requests opened a connection, and how long each waited for it: for the TCP handshake and for the TLS or
/// QUIC handshake.
pub(super) fn openings(case: &Case<'_>) -> (u64, Costs) {
    let mut costs = Costs::default();
    let mut opened = 0;
    for row in case.measured().filter(|row| row.has_opened) {
        opened += 1;
        let from = row.slot.unwrap_or(row.taken_up);
        let to = row.secured.or(row.connected);
        costs.add(row.request, to.unwrap_or(from).since(from));
    }
    (opened, costs)
}

fn detect(case: &Case<'_>) -> Option<Detection> {
    let requests = case.measured_count();
    let (opened, costs) = openings(case);
    if requests < REQUESTS_AT_LEAST || (opened as f64) < OPENED_AT_LEAST * requests as f64 {
        return None;
    }
    let numbers = vec![
        count("requests that opened a connection", opened),
        count("requests", requests),
    ];
    // More connections alone do not help: the client has to reuse them.
    let connections = case.fix(1, Side::Client, Knob::Connections);
    let connections = connections.map(|fix| Fix {
        changes: Vec::new(),
        ..fix
    });
    let fixes = case
        .fix(1, Side::Server, Knob::RequestsPerConnection)
        .into_iter()
        .chain(connections);
    case.detection_by_time(costs, 0.0, numbers, fixes)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;

    use super::super::made::{TestTrial, is_near, ms};

    fn opening(count: usize) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1s);
        for row in &mut made.requests[..count] {
            row.opened_connection = true;
            row.connected = Some(row.intended + ms(50));
            row.secured = Some(row.intended + ms(100));
            row.end += ms(100);
        }
        made
    }

    #[test]
    fn a_handshake_for_half_of_the_requests_is_found() {
        let finding = opening(50).finding("handshake_per_request").unwrap();
        assert!(is_near(finding.share.part, 5_000.0 / 10_000.0));
    }

    #[test]
    fn lifting_a_request_limit_is_not_proposed_where_connections_have_none() {
        let fixes = |limit| {
            let mut made = opening(50);
            let server = &mut made.trial.trial.variant.hops[0].server;
            server.http1.requests_per_connection = limit;
            made.finding("handshake_per_request").unwrap().fixes
        };
        assert_eq!(fixes(Some(1)).len(), 2);
        let left = fixes(None);
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].setting.starts_with("connections: "), "{left:?}");
    }

    #[test]
    fn fewer_handshakes_are_not_reported() {
        assert_eq!(opening(49).finding("handshake_per_request"), None);
    }
}
