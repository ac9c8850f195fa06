//! The congestion window was discarded because the connection had been idle.

use std::collections::BTreeMap;

use squall_base::record::{Cause, Direction, Side};
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::flows::{Packet, SendState, SenderEvent, sender_events};
use super::knob::Knob;
use super::records::RequestRow;

pub(super) const DETECTOR: Detector = Detector {
    name: "slow_start_after_idle",
    title: "Slow start after idle",
    explanation: "The connection had sent large flights before it was idle for longer than a retransmission timeout, \
                  and began again with a small one while more data waited. The kernel forgets the congestion window \
                  by default, and the next message pays round trips to get it back.",
    scope: Scope::Link,
    causes: &[Cause::Cwnd],
    detect,
};

/// The timeout if no socket was sampled: Linux's minimum (TCP_RTO_MIN of include/net/tcp.h).
const LEAST_RTO: Duration = Duration::from_millis(200);
/// The flight after the idle time is at most this share of the largest one before it. The kernel halves the window for each
/// timeout that passed (tcp_cwnd_restart), and the earlier flight need not have filled the window.
const OF_FLIGHT_AT_MOST: f64 = 0.75;
/// If more data leaves this soon after the first acknowledgement, it had been waiting.
const WAITED_WITHIN: Duration = Duration::from_millis(1);

fn detect(case: &Case<'_>) -> Option<Detection> {
    // If another hop comes before it, the link's connections are not those of the requests.
    if case.link_hop().0 != 1 {
        return None;
    }
    let mut costs = Costs::default();
    let (mut restarts, mut side_of, mut example) = (0, Side::Server, None);
    let spent: BTreeMap<u64, Duration> = case
        .attributed()
        .map(|(row, causes)| (row.request, causes.root_spans()[Cause::Cwnd]))
        .collect();
    for side in Side::ALL {
        // BBR controls the window by itself and has no such rule (tcp_slow_start_after_idle_check: cong_control).
        if !case.is_tcp() || case.congestion_control(side).starts_with("bbr") {
            continue;
        }
        // A sender that sees reordering may take segments for lost that are not, and shrink its window.
        let mut sockets = case.sockets_of(side);
        if sockets.any(|socket| socket.reorderings > 0) {
            continue;
        }
        let sockets = case.sockets_of(side);
        let rto = sockets.filter_map(|socket| socket.least_rto_us).min();
        let rto = rto.map_or(LEAST_RTO, Duration::from_micros);
        for (flow, packets) in case.flows().tcp() {
            for restart in restarts_of(&packets, side.sends(), rto) {
                restarts += 1;
                (side_of, example) = (side, Some(restart));
                let rows = case.rows_of(flow).filter(|row| row.is_measured);
                let is_active = |slot: Time, end| slot <= restart.at && restart.at <= end;
                let hit = |row: &&RequestRow| row.slot.is_some_and(|it| is_active(it, row.end));
                for row in rows.filter(hit) {
                    let spent = spent.get(&row.request).copied();
                    costs.add(row.request, spent.unwrap_or_default());
                }
            }
        }
    }
    let example = example?;
    let numbers = vec![
        count("restarts after idle time", restarts),
        number("a flight before one", example.before as f64, "bytes"),
        number("the flight after it", example.after as f64, "bytes"),
    ];
    let fix = case.link_fix(side_of, Knob::SlowStartAfterIdle);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

/// A busy period that began with a smaller flight than the period before it had reached.
#[derive(Clone, Copy, Debug)]
struct Restart {
    at: Time,
    before: u64,
    after: u64,
}

/// A period with data in flight.
#[derive(Clone, Copy, Debug, Default)]
struct BusyPeriod {
    began: Time,
    /// The most that was in flight.
    largest_flight: u64,
    /// Bytes that were sent before the first acknowledgement, and when that arrived.
    first_flight: u64,
    acknowledged_at: Option<Time>,
    /// Whether data that had waited followed that acknowledgement.
    has_backlog: bool,
    is_lossy: bool,
}

fn restarts_of(packets: &[Packet], direction: Direction, rto: Duration) -> Vec<Restart> {
    let mut state = SendState::default();
    let (mut last, mut before, mut now): (Option<Time>, Option<BusyPeriod>, Option<BusyPeriod>) =
        Default::default();
    let mut restarts = Vec::new();
    for (time, event) in sender_events(packets, direction) {
        match event {
            SenderEvent::AckReceived(packet) => {
                let is_new = state.acknowledge(packet);
                if let Some(busy) = now.as_mut().filter(|_| is_new) {
                    busy.acknowledged_at.get_or_insert(time);
                }
            }
            SenderEvent::DataSent(packet) => {
                let is_idle = state.in_flight() == 0;
                let was_long = last.is_none_or(|last| time.since(last) >= rto);
                let (_, is_again) = state.send(packet);
                if is_idle && was_long {
                    restarts.extend(compare(before, now));
                    before = now.or(before);
                    now = Some(BusyPeriod {
                        began: time,
                        ..BusyPeriod::default()
                    });
                }
                if let Some(busy) = &mut now {
                    let length = u64::from(packet.payload);
                    match busy.acknowledged_at {
                        None => busy.first_flight += length,
                        Some(acknowledged_at) => {
                            busy.has_backlog |= time.since(acknowledged_at) <= WAITED_WITHIN;
                        }
                    }
                    busy.largest_flight = busy.largest_flight.max(state.in_flight());
                    busy.is_lossy |= is_again || packet.fate.is_drop();
                }
                last = Some(time);
            }
        }
    }
    restarts.extend(compare(before, now));
    restarts
}

fn compare(before: Option<BusyPeriod>, after: Option<BusyPeriod>) -> Option<Restart> {
    let (before, after) = (before?, after?);
    let is_smaller = after.first_flight as f64 <= OF_FLIGHT_AT_MOST * before.largest_flight as f64;
    let is_clean = !before.is_lossy && !after.is_lossy;
    (is_smaller && is_clean && after.has_backlog).then_some(Restart {
        at: after.began,
        before: before.largest_flight,
        after: after.first_flight,
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Side};

    use super::super::made::{TestTrial, is_near, ms};

    /// A response in two flights of 20 segments each, and 500 ms later one that begins with `first` segments and sends the
    /// others after the first acknowledgement.
    fn responses(first: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        let mut seq = 0_u32;
        let mut flight = |made: &mut TestTrial, start_us: u64, segments: u64| {
            for n in 0..segments {
                made.packet(start_us + n, Direction::Down, seq, 0, 1_000);
                seq += 1_000;
            }
            made.packet(start_us + 25_100, Direction::Up, 0, seq, 0);
            start_us + 50_200
        };
        let next = flight(&mut made, 1_000_000, 20);
        flight(&mut made, next, 20);
        let next = flight(&mut made, 1_600_000, first);
        flight(&mut made, next, 20);
        made.spend(60..61, Cause::Cwnd, ms(150));
        made
    }

    #[test]
    fn a_smaller_flight_after_idle_is_found() {
        let finding = responses(15).finding("slow_start_after_idle").unwrap();
        assert_eq!(finding.evidence.numbers[2].value, 1.0);
        assert_eq!(finding.evidence.requests, [60]);
        assert!(is_near(finding.share.part, 150.0 / 5_150.0));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn a_flight_nearly_as_large_as_before_is_not_reported() {
        assert_eq!(responses(16).finding("slow_start_after_idle"), None);
    }

    #[test]
    fn senders_that_saw_reordering_are_not_reported() {
        let mut made = responses(10);
        made.socket(Side::Server, &[("tcpi_reord_seen", 1)]);
        assert_eq!(made.finding("slow_start_after_idle"), None);
    }

    #[test]
    fn congestion_control_without_the_idle_rule_is_not_reported() {
        let mut made = responses(10);
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tcp.congestion_control = Some("bbr".to_owned());
        assert_eq!(made.finding("slow_start_after_idle"), None);
    }
}
