//! Messages on fresh connections waited for the congestion window to grow.

use std::collections::BTreeSet;

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;
use super::receive_window::limited;
use super::records::RequestRow;

pub(super) const DETECTOR: Detector = Detector {
    name: "slow_start",
    title: "Slow start on fresh connections",
    explanation: "These messages are larger than the ten segments that a fresh connection may send, and each further \
                  flight waits a round trip for acknowledgements. Nothing was lost: the congestion window just has \
                  not grown yet.",
    scope: Scope::Link,
    causes: &[Cause::Cwnd],
    detect,
};

/// At least a tenth of the time: slow start ends by itself, and a little of it is how TCP begins.
const OF_TIME_AT_LEAST: f64 = 0.1;
/// Ten segments of 1,460 bytes (RFC 6928): smaller messages leave immediately.
const INITIAL_WINDOW_BYTES: u64 = 14_600;
/// After this many round trips of doubling, ten segments are 14 MB: slow start is no longer the reason.
const ROUND_TRIPS: u64 = 10;

fn detect(case: &Case<'_>) -> Option<Detection> {
    // If another hop comes before it, the link's connections are not those of the requests.
    if case.link_hop().0 != 1 {
        return None;
    }
    // The cause covers everything that the socket had and did not send, so other limits must be ruled out.
    let others = [
        limited(case, |socket| socket.rwnd_limited_us),
        limited(case, |socket| socket.sndbuf_limited_us),
    ];
    if others.iter().any(Option::is_some) {
        return None;
    }
    let lossy: BTreeSet<u32> = case.drops().filter_map(|drop| drop.connection).collect();
    let mut costs = Costs::default();
    for (row, causes) in case.attributed() {
        let is_clean = row.connection.is_some_and(|it| !lossy.contains(&it));
        if is_clean && is_young(case, row) && is_large(row) {
            costs.add(row.request, causes.root_spans()[Cause::Cwnd]);
        }
    }
    let numbers = vec![count(
        "connections with a loss, left out",
        lossy.len() as u64,
    )];
    let fix = case.link_fix(Side::Client, Knob::Backlog);
    case.detection_by_time(costs, OF_TIME_AT_LEAST, numbers, fix)
}

/// Whether its connection was fresh when the request was sent.
fn is_young(case: &Case<'_>, row: &RequestRow) -> bool {
    let ready = row.secured.or(row.connected);
    let (Some(ready), Some(slot)) = (ready, row.slot) else {
        return false;
    };
    slot.since(ready).as_nanos() <= ROUND_TRIPS * case.round_trip().as_nanos()
}

fn is_large(row: &RequestRow) -> bool {
    row.request_body_bytes.max(row.response_body_bytes) > INITIAL_WINDOW_BYTES
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Repair, Side};

    use super::super::made::{TestTrial, is_near, ms};

    /// Twenty large responses that wait 100 ms each.
    fn growing() -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.spend(0..20, Cause::Cwnd, ms(100));
        for row in &mut made.requests[..20] {
            row.connected = row.slot;
            row.response_body_bytes = 100_000;
        }
        made
    }

    #[test]
    fn flights_of_a_fresh_connection_are_found() {
        let finding = growing().finding("slow_start").unwrap();
        assert!(is_near(finding.share.part, 2_000.0 / 7_000.0));
    }

    #[test]
    fn small_old_lossy_and_otherwise_limited_transfers_are_not_reported() {
        let mut made = growing();
        made.requests
            .iter_mut()
            .for_each(|row| row.response_body_bytes = 14_600);
        assert_eq!(made.finding("slow_start"), None);
        let mut made = growing();
        for row in &mut made.requests {
            row.connected = Some(super::super::made::at(1));
        }
        assert_eq!(made.finding("slow_start"), None);
        let mut made = growing();
        made.lose(50, Cause::Loss, ms(1), Repair::Rack);
        assert_eq!(made.finding("slow_start"), None);
        let mut made = growing();
        let fields = [
            ("tcpi_busy_time", 1_000_000),
            ("tcpi_rwnd_limited", 900_000),
        ];
        made.socket(Side::Server, &fields);
        assert_eq!(made.finding("slow_start"), None);
    }
}
