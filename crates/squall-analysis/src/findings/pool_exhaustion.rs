//! HTTP/1.1 requests waited because every connection of the pool was busy.

use squall_base::plan::{Connections, Version};
use squall_base::record::{Cause, Side};
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;
use super::records::RequestRow;

pub(super) const DETECTOR: Detector = Detector {
    name: "pool_exhaustion",
    title: "All connections of the pool are busy",
    explanation: "HTTP/1.1 carries one request at a time on a connection, and all that the client may open were in \
                  use. Further requests waited before any of their bytes was sent.",
    scope: Scope::Path,
    causes: &WAIT_CAUSES,
    detect,
};

/// What a wait for a connection or stream counts as: the wait itself, or what held up the requests ahead.
pub(super) const WAIT_CAUSES: [Cause; 7] = [
    Cause::Queue,
    Cause::Connect,
    Cause::Tls,
    Cause::Link,
    Cause::Distance,
    Cause::Server,
    Cause::Host,
];

/// Shorter waits are the ordinary turns of the client's event loop.
pub(super) const WAIT_AT_LEAST: Duration = Duration::from_millis(1);

/// How long a request waited for a connection or stream; zero if that is not worth counting.
pub(super) fn waited(row: &RequestRow) -> Duration {
    let wait = row.slot.unwrap_or(row.end).since(row.taken_up);
    if wait < WAIT_AT_LEAST || row.has_opened {
        return Duration::ZERO;
    }
    wait
}

/// The largest number of these requests that had a connection or stream at once.
pub(super) fn max_concurrency<'a>(rows: impl Iterator<Item = &'a RequestRow>) -> u64 {
    // Of changes at the same moment, ends come first: a connection can be reused immediately.
    let mut changes: Vec<(Time, i64)> = rows
        .filter_map(|row| Some((row.slot?, row.end)))
        .flat_map(|(slot, end)| [(slot, 1), (end, -1)])
        .collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0_i64, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    u64::try_from(most).unwrap_or(0)
}

/// What waits for a connection or stream cost, if the pool is the reason: that is, if the requests that held the
/// connections were delayed by nothing but their own round trips and the server. A wait behind a request that something
/// else held up counts for that cause.
pub(super) fn waits_behind_healthy_exchanges(case: &Case<'_>) -> Option<Costs> {
    let [_, healthy_causes @ ..] = &WAIT_CAUSES;
    if !case.has_causes() {
        let mut costs = Costs::default();
        case.measured()
            .for_each(|row| costs.add(row.request, waited(row)));
        return Some(costs);
    }
    let mut costs = Costs::default();
    let (mut all, mut healthy) = (Duration::ZERO, Duration::ZERO);
    for (row, causes) in case.attributed() {
        let waited = waited(row);
        if waited.is_zero() {
            continue;
        }
        let roots = &causes.queue_roots;
        let of_healthy = healthy_causes.iter().map(|cause| roots[*cause]);
        all = all + roots.total();
        healthy = of_healthy.fold(healthy, |sum, span| sum + span);
        costs.add(row.request, waited);
    }
    (healthy + healthy >= all).then_some(costs)
}

fn detect(case: &Case<'_>) -> Option<Detection> {
    let hop = case.trial.trial.variant.first_hop();
    if hop.protocol.version() != Version::Http1 {
        return None;
    }
    let (Connections::OnDemand { at_most } | Connections::Fixed(at_most)) = hop.connections;
    let at_once = max_concurrency(case.records.requests.iter());
    if at_once < u64::from(at_most) {
        return None;
    }
    let costs = waits_behind_healthy_exchanges(case)?;
    let numbers = vec![
        count("connections that the client may have", u64::from(at_most)),
        count("of them in use at once", at_once),
    ];
    let fix = case.fix(1, Side::Client, Knob::Connections);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{Connections, Protocol};
    use squall_base::record::Cause;

    use super::super::made::{TestTrial, is_near, ms};

    /// Healthy requests take 50 ms and come every 10 ms, so five are in flight. Ten of them wait 20 ms.
    fn pool(protocol: Protocol, at_most: u32) -> TestTrial {
        let mut made = TestTrial::healthy(protocol);
        made.trial.trial.variant.hops[0].connections = Connections::OnDemand { at_most };
        for row in &mut made.requests[20..30] {
            row.taken_up = row.intended;
            row.slot = Some(row.intended + ms(20));
        }
        made
    }

    #[test]
    fn waiting_at_the_cap_is_found() {
        let finding = pool(Protocol::H1, 5).finding("pool_exhaustion").unwrap();
        assert!(is_near(finding.share.part, 200.0 / 5_000.0));
        assert_eq!(finding.evidence.requests.len(), 10);
    }

    #[test]
    fn pool_behind_a_stalled_connection_is_not_to_blame() {
        let mut made = pool(Protocol::H1, 5);
        for causes in &mut made.causes[20..30] {
            causes.queue_roots[Cause::Cwnd] = ms(20);
        }
        assert_eq!(made.finding("pool_exhaustion"), None);
    }

    #[test]
    fn waits_below_the_cap_and_waits_for_streams_are_not_reported() {
        assert_eq!(pool(Protocol::H1, 6).finding("pool_exhaustion"), None);
        assert_eq!(pool(Protocol::H2, 5).finding("pool_exhaustion"), None);
    }
}
