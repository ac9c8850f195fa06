//! A SYN or SYN-ACK was lost: the connection waits for the longest of TCP's timers.

use squall_base::Duration;
use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;
use super::records::RequestRow;

pub(super) const DETECTOR: Detector = Detector {
    name: "syn_loss",
    title: "Lost SYN",
    explanation: "The packet that opens a connection was lost, and without a measured round trip TCP waits a whole \
                  second before it tries again (RFC 6298, section 2). Every request that had to wait for such a \
                  connection pays for it.",
    scope: Scope::Link,
    causes: &[Cause::Connect],
    detect,
};

/// TCP's first timeout (RFC 6298, section 2.1; TCP_TIMEOUT_INIT of include/net/tcp.h), minus a tick of the kernel's clock
/// at 100 Hz.
const FIRST_TIMEOUT: Duration = Duration::from_millis(990);

fn detect(case: &Case<'_>) -> Option<Detection> {
    let mut costs = Costs::default();
    let mut connections = 0;
    for (flow, packets) in case.flows().tcp() {
        let lost = packets.iter().any(|it| it.is_syn && it.fate.is_drop());
        if !lost {
            continue;
        }
        connections += 1;
        for row in case.rows_of(flow).filter(|row| row.is_measured) {
            costs.add(row.request, waited(row));
        }
    }
    if costs.count() == 0 {
        return None;
    }
    let numbers = vec![count("connections with a lost SYN or SYN-ACK", connections)];
    let fix = case.link_fix(Side::Client, Knob::Backlog);
    case.detection_by_time(costs, 0.0, numbers, fix)
}

/// How long a request waited for its connection; zero if that was too short for a timeout.
fn waited(row: &RequestRow) -> Duration {
    let from = row.slot.unwrap_or(row.intended);
    let span = row.connected.unwrap_or(row.end).since(from);
    if span >= FIRST_TIMEOUT {
        span
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Direction, Fate};

    use super::super::made::{TestTrial, ms};

    fn opened_after(millis: u64, is_lost: bool) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        let row = &mut made.requests[5];
        row.opened_connection = true;
        row.connected = Some(row.intended + ms(millis));
        row.end = row.intended + ms(millis + 50);
        let packet = made.packet(1_050_000, Direction::Up, 0, 0, 0);
        packet.tcp_flags = 0x02;
        if is_lost {
            packet.fate = Fate::ListDrop;
            packet.released = None;
        }
        made
    }

    #[test]
    fn a_second_of_waiting_after_a_lost_syn_is_found() {
        let finding = opened_after(1_050, true).finding("syn_loss").unwrap();
        assert_eq!(finding.evidence.requests, [5]);
    }

    #[test]
    fn slow_or_lossless_handshakes_are_not_reported() {
        assert_eq!(opened_after(500, true).finding("syn_loss"), None);
        assert_eq!(opened_after(1_050, false).finding("syn_loss"), None);
    }
}
