//! Few connections carry everything on a path that loses packets: each loss cuts the window that all requests share.
//!
//! HTTP/1.1 uses one connection for each request in flight, so a loss stops one request. A single HTTP/2 connection stops
//! all of them, and what it can carry falls with the square root of the loss rate. The formulas of Mathis and of CUBIC
//! predict how much that is, and from that follows how many connections would carry the load. Loss that a queue caused is
//! left to `bufferbloat` and `burst_loss`.

use squall_base::plan::Version;
use squall_base::record::{Cause, Direction, DropRecord, Fate, Side};

use super::case::{Case, count, number};
use super::changes::more_connections;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Fix, Number};
use super::flows::{BY_QUEUE, SendState, SenderEvent, sender_events};
use super::knob::Knob;
use super::loss_based_control::LOSS_AT_LEAST;

pub(super) const DETECTOR: Detector = Detector {
    name: "single_connection",
    title: "One congestion window, cut by every loss, for all requests",
    explanation: "All requests share so few connections that each lost packet holds many of them up and shrinks the \
                  window of all. The path could carry the load over more connections, or with a congestion control that \
                  does not take each loss for congestion.",
    scope: Scope::Link,
    causes: &[Cause::Cwnd, Cause::Loss, Cause::Hol],
    detect,
};

/// The congestion window, the repair of losses and what they held up take at least this share of the response time.
/// Below it, a single connection is not a problem. The value is a judgement.
const OF_TIME_AT_LEAST: f64 = 0.1;
/// This many requests at once on a connection, on average, show that they share it.
const SHARED_BY_AT_LEAST: f64 = 2.0;
/// Controls that do not treat every loss as congestion.
const NOT_BY_LOSS: [&str; 3] = ["bbr", "bbr2", "vegas"];

/// The mean congestion window at a loss rate, in segments: sqrt(3 / (2 p)) (Mathis, Semke, Mahdavi and Ott, 1997), and for
/// CUBIC 1.054 (RTT / p)^(3/4) (RFC 9438, section 5.1), unless Reno would have more (section 4.3).
fn segments_per_round_trip(control: &str, loss: f64, round_trip_s: f64) -> f64 {
    let mathis = (1.5 / loss).sqrt();
    if control == "cubic" {
        mathis.max(1.054 * (round_trip_s / loss).powf(0.75))
    } else {
        mathis
    }
}

/// What the packets of one direction show.
#[derive(Default)]
struct Sender {
    connections: u64,
    in_flight: Vec<u64>,
    segment_bytes: u64,
    sent_bytes: u64,
    seconds: f64,
}

impl Sender {
    fn of(case: &Case<'_>, direction: Direction) -> Sender {
        let mut sender = Sender::default();
        let (mut first, mut last) = (u64::MAX, 0);
        for (_, packets) in case.flows().tcp() {
            let mut state = SendState::default();
            for (time, event) in sender_events(&packets, direction) {
                match event {
                    SenderEvent::DataSent(packet) => {
                        state.send(packet);
                        sender.in_flight.push(state.in_flight());
                        let payload = u64::from(packet.payload);
                        sender.segment_bytes = sender.segment_bytes.max(payload);
                        (first, last) = (first.min(time.as_nanos()), last.max(time.as_nanos()));
                    }
                    SenderEvent::AckReceived(packet) => {
                        state.acknowledge(packet);
                    }
                }
            }
            sender.connections += u64::from(state.sent > 0);
            sender.sent_bytes += state.sent;
        }
        sender.in_flight.sort_unstable();
        sender.seconds = last.saturating_sub(first) as f64 / 1e9;
        sender
    }

    fn median_in_flight(&self) -> u64 {
        let middle = self.in_flight.len() / 2;
        self.in_flight.get(middle).copied().unwrap_or(0)
    }
}

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (_, hop) = case.link_hop();
    if hop.protocol.version() != Version::Http2 {
        return None;
    }
    let costs = case.cost_of_all(DETECTOR.causes);
    let (side, direction, sender) = busiest_lossy_sender(case)?;
    let at_once = case.mean_concurrency() / sender.connections.max(1) as f64;
    if at_once < SHARED_BY_AT_LEAST {
        return None;
    }
    let loss = loss_rate(case, direction);
    let control = case.congestion_control(side);
    let round_trip_s = case.round_trip().as_nanos() as f64 / 1e9;
    let segments = segments_per_round_trip(control, loss, round_trip_s);
    let predicted = segments * sender.segment_bytes as f64 / round_trip_s;
    let answered = case.records.requests.len().max(1) as f64;
    let wanted = case.health().rate_asked_per_s * sender.sent_bytes as f64 / answered;
    // A connection that is full all the time leaves no room for a burst, so half of its capacity is a usual load.
    let needed = (2.0 * wanted / predicted).ceil();
    if sender.connections as f64 >= needed {
        return None;
    }
    let mut numbers = delays(case.drops());
    numbers.extend([
        count("connections that carried everything", sender.connections),
        number("requests at once on each, on average", at_once, ""),
        number("packets lost at random", loss * 100.0, "%"),
        number(
            "in flight, median",
            sender.median_in_flight() as f64 / 1e3,
            "kB",
        ),
        number(
            "throughput that a connection can have at this loss (Mathis, CUBIC)",
            predicted / 1e3,
            "kB/s",
        ),
        number(
            "throughput of a connection, measured",
            sender.sent_bytes as f64
                / sender.seconds.max(1e-9)
                / sender.connections.max(1) as f64
                / 1e3,
            "kB/s",
        ),
        number("throughput that the load needs", wanted / 1e3, "kB/s"),
        number("connections that would carry it", needed, ""),
    ]);
    numbers.extend(windows_around_losses(case, side));
    case.detection_by_time(costs, OF_TIME_AT_LEAST, numbers, fixes(case, side, needed))
}

/// Of the directions that lost packets at random, the one that sent the most; `None` if neither lost any.
fn busiest_lossy_sender(case: &Case<'_>) -> Option<(Side, Direction, Sender)> {
    let sides = Side::ALL.map(|side| (side, side.sends()));
    let lossy = sides.into_iter().filter(|(_, direction)| {
        let totals = case.flows().totals(*direction);
        let by_queue = totals.drops(&BY_QUEUE);
        by_queue == 0 && loss_rate(case, *direction) >= LOSS_AT_LEAST
    });
    let senders = lossy.map(|(side, direction)| (side, direction, Sender::of(case, direction)));
    senders.max_by_key(|(_, _, sender)| sender.sent_bytes)
}

/// The congestion window in the samples before and after each loss, as medians; empty if there are too few samples.
fn windows_around_losses(case: &Case<'_>, side: Side) -> Vec<Number> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for sockets in case.sockets_of(side) {
        for drop in case.drops() {
            let windows = &sockets.congestion_windows;
            let next = windows.partition_point(|(time, _)| *time <= drop.dropped_at);
            let last = next.checked_sub(1).and_then(|place| windows.get(place));
            if let (Some((_, last)), Some((_, next))) = (last, windows.get(next)) {
                before.push(*last);
                after.push(*next);
            }
        }
    }
    if before.is_empty() {
        return Vec::new();
    }
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        all[all.len() / 2] as f64
    };
    vec![
        number(
            "congestion window before a loss, median",
            median(before),
            "segments",
        ),
        number("after it", median(after), "segments"),
    ]
}

fn loss_rate(case: &Case<'_>, direction: Direction) -> f64 {
    let totals = case.flows().totals(direction);
    let lost = totals.drops(&[
        Fate::LossDrop,
        Fate::BurstDrop,
        Fate::ListDrop,
        Fate::BlackoutDrop,
    ]);
    lost as f64 / totals.packets.max(1) as f64
}

/// How many requests each lost packet delayed.
fn delays<'d>(drops: impl Iterator<Item = &'d DropRecord>) -> Vec<Number> {
    let mut delayed: Vec<u64> = drops
        .map(|drop| drop.victims.len() as u64)
        .filter(|victims| *victims > 0)
        .collect();
    delayed.sort_unstable();
    let median = delayed.get(delayed.len() / 2).copied().unwrap_or(0);
    let most = delayed.last().copied().unwrap_or(0);
    vec![
        count("lost packets that delayed requests", delayed.len() as u64),
        count("requests that each of them delayed, median", median),
        count("requests that one of them delayed, at most", most),
    ]
}

fn fixes(case: &Case<'_>, side: Side, needed: f64) -> Vec<Fix> {
    let connections = case.link_fix(Side::Client, Knob::MoreConnections);
    let connections = connections.map(|fix| Fix {
        setting: format!("{} (about {needed:.0})", fix.setting),
        changes: more_connections(&case.trial.trial, case.link_hop().0, needed),
        ..fix
    });
    let control = case.link_fix(side, Knob::CongestionControl);
    let control = control.filter(|_| !NOT_BY_LOSS.contains(&case.congestion_control(side)));
    connections.into_iter().chain(control).collect()
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Cause, Direction, Fate, Repair};

    use super::super::made::{TestTrial, is_near, ms};
    use super::*;

    /// 100 requests that take 500 ms each, 50 at once, on a connection that loses a packet in ten.
    fn lossy(protocol: Protocol, control: &str) -> TestTrial {
        let mut made = TestTrial::healthy(protocol);
        made.spend(0..100, Cause::Cwnd, ms(400));
        made.lose(7, Cause::Hol, ms(50), Repair::FastRetransmit);
        let hop = &mut made.trial.trial.variant.hops[0];
        for side in [&mut hop.client, &mut hop.server] {
            side.tcp.congestion_control = Some(control.to_owned());
        }
        for n in 0..100 {
            let seq = n * 1_000;
            let packet = made.packet(1_000_000 + u64::from(n), Direction::Down, seq, 0, 1_000);
            if n % 10 == 0 {
                (packet.fate, packet.released) = (Fate::LossDrop, None);
            }
        }
        made
    }

    #[test]
    fn shared_connection_under_loss_is_found_with_its_fixes() {
        let finding = lossy(Protocol::H2c, "cubic")
            .finding("single_connection")
            .unwrap();
        assert!(is_near(finding.share.part, 40_050.0 / 45_050.0));
        let fixes: Vec<&str> = finding.fixes.iter().map(|it| it.setting.as_str()).collect();
        assert_eq!(fixes.len(), 2, "{fixes:?}");
        assert!(fixes[0].starts_with("connections = "), "{fixes:?}");
        assert!(fixes[1].contains("bbr"), "{fixes:?}");
    }

    #[test]
    fn bbr_is_not_proposed_where_it_is_already_in_force() {
        let finding = lossy(Protocol::H2c, "bbr").finding("single_connection");
        assert_eq!(finding.unwrap().fixes.len(), 1);
    }

    #[test]
    fn http1_and_quic_are_not_reported() {
        for protocol in [Protocol::H1, Protocol::H3] {
            assert_eq!(lossy(protocol, "cubic").finding("single_connection"), None);
        }
    }

    #[test]
    fn clean_paths_are_not_reported() {
        let mut made = lossy(Protocol::H2c, "cubic");
        for packet in &mut made.packets {
            (packet.fate, packet.released) = (Fate::Delivered, packet.planned);
        }
        assert_eq!(made.finding("single_connection"), None);
    }

    #[test]
    fn throughput_formulas_yield_the_published_windows() {
        // RFC 9438, section 5.2, table 1, for a round trip of 0.1 s.
        let reno = segments_per_round_trip("reno", 0.01, 0.1);
        assert!((reno - 12.2).abs() < 0.1, "{reno}");
        let cubic = segments_per_round_trip("cubic", 1e-8, 0.1);
        assert!((cubic / 187_400.0 - 1.0).abs() < 0.01, "{cubic}");
    }
}
