//! The congestion window was thrown away because the connection had been idle.

use std::collections::BTreeMap;

use squall_base::record::{Cause, Direction, Side};
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count, number};
use super::costs::Costs;
use super::flows::{Met, Packet, Sending, met};
use super::knob::Knob;
use super::{Detector, Found};

pub(super) const DETECTOR: Detector = Detector {
    name: "slow_start_after_idle",
    title: "Slow start after idle",
    explanation: "The connection had sent large flights before it was idle for longer than a retransmission timeout, \
                  and began again with a small one while more data waited. The kernel forgets the congestion window \
                  by default, and the next message pays round trips to get it back.",
    detect,
};

/// Without a sample of the socket's own: the least timeout of Linux (TCP_RTO_MIN of include/net/tcp.h).
const LEAST_RTO: Duration = Duration::from_millis(200);
/// The flight after the idle time is at most so much of the largest before it: the kernel halves the window for each
/// timeout that passed (tcp_cwnd_restart), and what was under way before need not have filled it.
const OF_FLIGHT_AT_MOST: f64 = 0.75;
/// More data leaves so soon after the first acknowledgement: it had waited.
const WAITED_WITHIN: Duration = Duration::from_millis(1);

fn detect(case: &Case<'_>) -> Option<Found> {
    let (hop, _) = case.link_hop();
    // The link's connections are not those of requests where another hop is before it.
    if hop != 1 {
        return None;
    }
    let mut costs = Costs::default();
    let (mut restarts, mut side_of, mut example) = (0, Side::Server, None);
    let spent: BTreeMap<u64, Duration> = case
        .attributed()
        .map(|(row, causes)| (row.request, causes.root_spans()[Cause::Cwnd]))
        .collect();
    for (side, direction) in [
        (Side::Client, Direction::Up),
        (Side::Server, Direction::Down),
    ] {
        // Their own control of the window has no such rule (tcp_slow_start_after_idle_check: cong_control).
        if !case.is_tcp() || case.congestion_control(side).starts_with("bbr") {
            continue;
        }
        // A sender that sees reordering takes segments for lost that are not, and shrinks its window for that.
        let sockets = case.records.sockets.iter();
        let mut of_side = sockets.filter(|((on, of, _), _)| *on == hop && *of == side);
        if of_side.any(|(_, socket)| socket.reorderings > 0) {
            continue;
        }
        let sockets = case.records.sockets.iter();
        let rtos = sockets.filter(|((on, of, _), _)| *on == hop && *of == side);
        let rto = rtos.filter_map(|(_, socket)| socket.least_rto_us).min();
        let rto = rto.map_or(LEAST_RTO, Duration::from_micros);
        for (flow, packets) in case.records.flows.tcp() {
            for restart in restarts_of(&packets, direction, rto) {
                restarts += 1;
                (side_of, example) = (side, Some(restart));
                let rows = case.rows_of(flow).filter(|row| row.is_measured);
                let is_under_way = |slot: Time, end| slot <= restart.at && restart.at <= end;
                for row in
                    rows.filter(|row| row.slot.is_some_and(|slot| is_under_way(slot, row.end)))
                {
                    costs.add(
                        row.request,
                        spent.get(&row.request).copied().unwrap_or_default(),
                    );
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
    let fixes = vec![case.link_fix(side_of, Knob::SlowStartAfterIdle)];
    case.of_time(costs, TIME_AT_LEAST, numbers, fixes)
}

/// A busy time that began with a smaller flight than the one before it had reached.
#[derive(Clone, Copy, Debug)]
struct Restart {
    at: Time,
    before: u64,
    after: u64,
}

/// A time with data under way.
#[derive(Clone, Copy, Debug)]
struct Busy {
    began: Time,
    /// The most that was under way.
    largest: u64,
    /// What was sent before the first acknowledgement, and when that came.
    first: u64,
    answered: Option<Time>,
    /// Data that had waited followed that acknowledgement.
    had_waited: bool,
    was_lossy: bool,
}

fn restarts_of(packets: &[Packet], direction: Direction, rto: Duration) -> Vec<Restart> {
    let mut sending = Sending::default();
    let (mut last, mut before, mut now): (Option<Time>, Option<Busy>, Option<Busy>) =
        Default::default();
    let mut restarts = Vec::new();
    for (time, event) in met(packets, direction) {
        match event {
            Met::Hears(packet) => {
                let is_news = sending.acknowledge(packet);
                if let Some(busy) = now.as_mut().filter(|_| is_news) {
                    busy.answered.get_or_insert(time);
                }
            }
            Met::Sends(packet) => {
                let is_idle = sending.in_flight() == 0;
                let was_long = last.is_none_or(|last| time.since(last) >= rto);
                let (_, is_again) = sending.send(packet);
                if is_idle && was_long {
                    restarts.extend(compare(before, now));
                    before = now.or(before);
                    now = Some(Busy {
                        began: time,
                        largest: 0,
                        first: 0,
                        answered: None,
                        had_waited: false,
                        was_lossy: false,
                    });
                }
                if let Some(busy) = &mut now {
                    let length = u64::from(packet.payload);
                    match busy.answered {
                        None => busy.first += length,
                        Some(answered) => {
                            busy.had_waited |= time.since(answered) <= WAITED_WITHIN;
                        }
                    }
                    busy.largest = busy.largest.max(sending.in_flight());
                    busy.was_lossy |= is_again || packet.fate.is_drop();
                }
                last = Some(time);
            }
        }
    }
    restarts.extend(compare(before, now));
    restarts
}

fn compare(before: Option<Busy>, after: Option<Busy>) -> Option<Restart> {
    let (before, after) = (before?, after?);
    let is_smaller = after.first as f64 <= OF_FLIGHT_AT_MOST * before.largest as f64;
    let is_clean = !before.was_lossy && !after.was_lossy;
    (is_smaller && is_clean && after.had_waited).then_some(Restart {
        at: after.began,
        before: before.largest,
        after: after.first,
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Side};

    use super::super::made::{Made, is_near, ms};

    /// A response in two flights of 20 segments each, and 500 ms later one that begins with `first` segments and has
    /// the others after the first acknowledgement.
    fn responses(first: u64) -> Made {
        let mut made = Made::healthy(Protocol::H1);
        let mut seq = 0_u32;
        let mut flight = |made: &mut Made, start_us: u64, segments: u64| {
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
        let finding = responses(15).found("slow_start_after_idle").unwrap();
        assert_eq!(finding.evidence.numbers[2].value, 1.0);
        assert_eq!(finding.evidence.requests, [60]);
        assert!(is_near(finding.share.part, 150.0 / 5_150.0));
        assert_eq!(finding.fixes[0].station, "server");
    }

    #[test]
    fn a_flight_as_large_as_before_is_none() {
        assert_eq!(responses(16).found("slow_start_after_idle"), None);
    }

    #[test]
    fn a_sender_that_saw_reordering_is_none() {
        let mut made = responses(10);
        made.socket(Side::Server, &[("tcpi_reord_seen", 1)]);
        assert_eq!(made.found("slow_start_after_idle"), None);
    }

    #[test]
    fn control_that_has_no_such_rule_is_none() {
        let mut made = responses(10);
        let server = &mut made.trial.trial.variant.hops[0].server;
        server.tcp.congestion_control = "bbr".to_owned();
        assert_eq!(made.found("slow_start_after_idle"), None);
    }
}
