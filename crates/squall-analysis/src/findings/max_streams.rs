//! Requests waited because every connection was at the server's stream limit.

use std::collections::BTreeSet;

use squall_base::plan::{Implementation, Version};
use squall_base::record::Side;

use super::case::{Case, TIME_AT_LEAST, count};
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;
use super::pool_exhaustion::{WAIT_CAUSES, max_concurrency, waits_behind_healthy_exchanges};

pub(super) const DETECTOR: Detector = Detector {
    name: "max_streams",
    title: "All streams of the connections are in use",
    explanation: "As many requests were in flight on the connections as the server's limit or the client's own \
                  allows. Further ones waited before any of their bytes was sent.",
    scope: Scope::Path,
    causes: &WAIT_CAUSES,
    detect,
};

/// The setting's name in HTTP/2 (RFC 9113, section 6.5.2), as trial.json has it.
const SETTING: &str = "MAX_CONCURRENT_STREAMS=";

fn detect(case: &Case<'_>) -> Option<Detection> {
    let limit = limit(case)?;
    let connections: BTreeSet<u32> = case
        .records
        .requests
        .iter()
        .filter_map(|row| row.connection)
        .collect();
    let at_once = connections
        .iter()
        .map(|number| max_concurrency(case.rows_of(*number)));
    let at_once = at_once.max().unwrap_or(0);
    if at_once < limit {
        return None;
    }
    let costs = waits_behind_healthy_exchanges(case)?;
    let numbers = vec![
        count("streams that may be open at once on a connection", limit),
        count("of them in use at once", at_once),
    ];
    let hop = case.trial.trial.variant.first_hop();
    let own = hop.pool.streams_at_most;
    let side = match own {
        Some(own) if u64::from(own) <= limit => Side::Client,
        _ => Side::Server,
    };
    case.detection_by_time(
        costs,
        TIME_AT_LEAST,
        numbers,
        case.fix(1, side, Knob::MaxStreams),
    )
}

/// The limit on the client's hop; `None` if it has no streams, or the limit is unknown.
fn limit(case: &Case<'_>) -> Option<u64> {
    let variant = &case.trial.trial.variant;
    let hop = variant.first_hop();
    let own = hop.pool.streams_at_most.map(u64::from);
    let is_ours = variant
        .stations
        .get(1)
        .is_some_and(|it| it.runs == Implementation::Embedded);
    let servers = match hop.protocol.version() {
        Version::Http1 => return None,
        Version::Http2 if is_ours => Some(u64::from(hop.server.http2.max_concurrent_streams)),
        Version::Http3 if is_ours => Some(u64::from(hop.server.http3.max_concurrent_streams)),
        _ => announced(case),
    };
    match (own, servers) {
        (Some(own), Some(servers)) => Some(own.min(servers)),
        (one, other) => one.or(other),
    }
}

/// The lowest limit that servers have announced on the client's hop.
fn announced(case: &Case<'_>) -> Option<u64> {
    let hop = case.trial.hops.iter().find(|hop| hop.hop == 1)?;
    let sets = hop.client.as_ref()?.settings_received.keys();
    let words = sets.flat_map(|set| set.split(' '));
    let values = words.filter_map(|word| word.rsplit_once(SETTING)?.1.parse().ok());
    values.min()
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{Implementation, Protocol};

    use super::super::made::{TestTrial, is_near, ms};

    /// Five requests are in flight at once, and ten requests wait 20 ms.
    fn streams(allowed: u32) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.trial.trial.variant.hops[0]
            .server
            .http2
            .max_concurrent_streams = allowed;
        for row in &mut made.requests[20..30] {
            row.slot = Some(row.intended + ms(20));
        }
        made
    }

    #[test]
    fn waiting_at_the_limit_is_found() {
        let finding = streams(5).finding("max_streams").unwrap();
        assert!(is_near(finding.share.part, 200.0 / 5_000.0));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn waiting_below_the_limit_is_not_reported() {
        assert_eq!(streams(6).finding("max_streams"), None);
    }

    #[test]
    fn a_third_party_servers_limit_is_the_announced_one() {
        let mut made = streams(100);
        made.trial.trial.variant.stations[1].runs = Implementation::Program {
            program: "nginx".to_owned(),
        };
        assert_eq!(made.finding("max_streams"), None, "the limit is unknown");
        let client = made.trial.hops[0].client.as_mut().unwrap();
        let set = "SETTINGS_MAX_CONCURRENT_STREAMS=5 SETTINGS_MAX_FRAME_SIZE=16384";
        client.settings_received.insert(set.to_owned(), 1);
        let finding = made.finding("max_streams").unwrap();
        assert_eq!(finding.fixes[0].setting, "http2_max_concurrent_streams");
    }
}
