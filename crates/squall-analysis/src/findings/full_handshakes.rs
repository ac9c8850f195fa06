//! New connections begin with a full TLS handshake although the client has been there before.

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "full_handshakes",
    title: "TLS sessions are not resumed",
    explanation: "The client opened connection after connection to the same server, and most of them exchanged and \
                  checked certificates anew. A ticket from the first one would have saved that work, and with TLS 1.2 \
                  a round trip.",
    scope: Scope::Path,
    causes: &[Cause::Tls],
    detect,
};

/// Connections that a pool opens together have no ticket yet; this many handshakes show a pattern.
const HANDSHAKES_AT_LEAST: u64 = 20;
/// Below this, resumption works for most.
const FULL_AT_LEAST: f64 = 0.5;
/// It matters if a tenth of the requests wait for a handshake.
const OPENED_AT_LEAST: f64 = 0.1;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let hop = case.trial.hops.iter().find(|hop| hop.hop == 1)?;
    let client = hop.client.as_ref()?;
    let (full, resumed) = (client.tls_full, client.tls_resumed);
    let opened = case.measured().filter(|row| row.has_opened).count() as f64;
    let opened = opened / case.measured_count().max(1) as f64;
    let is_habit = full >= HANDSHAKES_AT_LEAST && opened >= OPENED_AT_LEAST;
    if !is_habit || (full as f64) < FULL_AT_LEAST * (full + resumed) as f64 {
        return None;
    }
    Some(Detection {
        part: opened * full as f64 / (full + resumed) as f64,
        of: Whole::Requests,
        numbers: vec![
            count("full handshakes", full),
            count("resumed handshakes", resumed),
        ],
        requests: Vec::new(),
        fixes: [Side::Server, Side::Client]
            .into_iter()
            .filter_map(|side| case.fix(1, side, Knob::Resumption))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;

    use super::super::made::{TestTrial, is_near};

    fn handshakes(full: u64, resumed: u64, opened: usize) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        let client = made.trial.hops[0].client.as_mut().unwrap();
        (client.tls_full, client.tls_resumed) = (full, resumed);
        for row in &mut made.requests[..opened] {
            row.opened_connection = true;
        }
        made
    }

    #[test]
    fn repeated_full_handshakes_are_found() {
        let finding = handshakes(30, 10, 40).finding("full_handshakes").unwrap();
        assert!(is_near(finding.share.part, 0.3));
    }

    #[test]
    fn resumption_is_proposed_to_the_sides_that_lack_it() {
        let cases: [(bool, bool, &[&str]); 4] = [
            (false, true, &["client"]),
            (true, false, &["server"]),
            (false, false, &["server", "client"]),
            (true, true, &[]),
        ];
        for (client, server, stations) in cases {
            let mut made = handshakes(30, 10, 40);
            let hop = &mut made.trial.trial.variant.hops[0];
            hop.client.tls.resumption = client;
            hop.server.tls.resumption = server;
            let fixes = made.finding("full_handshakes").unwrap().fixes;
            let named: Vec<&str> = fixes.iter().map(|fix| fix.station.as_str()).collect();
            assert_eq!(named, stations);
            assert!(fixes.iter().all(|fix| !fix.changes.is_empty()));
        }
    }

    #[test]
    fn resumed_or_rare_handshakes_are_not_reported() {
        assert_eq!(handshakes(20, 21, 40).finding("full_handshakes"), None);
        assert_eq!(handshakes(19, 0, 40).finding("full_handshakes"), None);
        assert_eq!(handshakes(30, 0, 9).finding("full_handshakes"), None);
    }
}
