//! The delay that the link itself adds, and the accuracy of configured delays: idle, with all processors busy, and at a
//! high packet rate.
//!
//! A packet's error is the reader's timestamp minus the sender's minus the configured delay. It includes two system
//! calls and two wake-ups as well as the link. The lateness rows show the link's share alone.

use std::net::{Ipv4Addr, UdpSocket};

use anyhow::Result;
use squall_base::Duration;
use squall_base::record::Lateness;
use squall_link::LaneSettings;
use squall_linux::host::Host;
use squall_linux::scheduling::Scheduling;
use squall_linux::spans::DurationHistogram;
use squall_linux::{datagrams, veth};

use super::bench::Bench;
use super::row::{Group, Row, Target};
use super::statistics::{quantile, sorted};
use super::traffic::{self, Pace, Trip};
use crate::link::hosts::PREFIX_LEN;

const DELAYS_MS: [u64; 5] = [1, 10, 25, 100, 250];
/// Round trips without delay.
const ROUND_TRIPS: u32 = 3_000;
/// How much longer than the delay to wait for a datagram before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

// Targets: what a prototype of this link reached on a machine with two processors (docs/METHOD.md).
const ADDED_ROUND_TRIP_US: f64 = 60.0;
/// The prototype's round trip divided by that over a veth pair on the same machine, 32 us. On a slower machine, the target of
/// the round trip is this many times the one that is measured over a veth pair.
const ROUND_TRIP_OF_VETH: f64 = 60.0 / 32.0;
/// Targets of delay errors grow by this many times the machine's own error, measured over a veth pair in the same run: a packet
/// over the link is written twice and read twice, and wakes a thread up twice.
const WAYS_OF_VETH: f64 = 2.0;
const MEDIAN_US: f64 = 30.0;
const P99_US: f64 = 60.0;
/// Without real-time scheduling, as for an ordinary user.
const P99_UNPRIVILEGED_US: f64 = 700.0;

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = added()?;
    for scenario in Scenario::ALL {
        rows.extend(errors(scenario)?);
    }
    Ok(rows)
}

/// Round trips without delay, over the link and over a veth pair, the kernel's own way to join two hosts.
fn added() -> Result<Vec<Row>> {
    let bench = Bench::symmetric(LaneSettings::default())?;
    let link_us = median_round_trip_us(&bench.datagrams(PATIENCE)?)?;
    bench.end()?;
    let veth_us = median_round_trip_us(&datagrams_over_veth()?)?;
    let name = "round trip at no delay, median";
    Ok(vec![
        Row::judged(
            Group::Delay,
            name,
            link_us,
            "us",
            Target::AtMost(ADDED_ROUND_TRIP_US.max(ROUND_TRIP_OF_VETH * veth_us)),
        ),
        Row::note(
            Group::Delay,
            format!("{name}, over a veth pair"),
            veth_us,
            "us",
        ),
        Row::note(
            Group::Delay,
            format!("{name}, ratio of the two"),
            link_us / veth_us,
            "",
        ),
    ])
}

fn median_round_trip_us(sockets: &[UdpSocket; 2]) -> Result<f64> {
    let round_trips = traffic::ping_pong(sockets, ROUND_TRIPS)?;
    let micros = round_trips.iter().map(|span| span.as_nanos() as f64 / 1e3);
    Ok(quantile(&sorted(micros), 0.5))
}

/// Sockets in two hosts joined by the kernel alone. The sockets keep their hosts alive.
fn datagrams_over_veth() -> Result<[UdpSocket; 2]> {
    let addresses = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)];
    let (one, other) = (Host::create()?, Host::create()?);
    let ends = [(&one, addresses[0]), (&other, addresses[1])];
    veth::join("squall-veth", ends, PREFIX_LEN)?;
    Ok(datagrams::pair(ends[0], ends[1], PATIENCE)?)
}

/// What else happens while delays are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Idle,
    Busy,
    ManyPackets,
}

impl Scenario {
    const ALL: [Scenario; 3] = [Scenario::Idle, Scenario::Busy, Scenario::ManyPackets];

    const fn name(self) -> &'static str {
        match self {
            Scenario::Idle => "idle",
            Scenario::Busy => "1,000 requests/s, processors busy",
            Scenario::ManyPackets => "50,000 packets/s",
        }
    }

    const fn pace(self) -> Pace {
        let (packets, burst, every) = match self {
            Scenario::Idle => (200, 1, Duration::from_millis(2)),
            Scenario::Busy => (1_000, 1, Duration::from_millis(1)),
            // In small bursts: the sender sleeps between them and leaves its processor to the reader.
            Scenario::ManyPackets => (50_000, 5, Duration::from_micros(100)),
        };
        Pace {
            packets,
            burst,
            every,
            packet_bytes: 100,
        }
    }

    fn send(self, sockets: &[UdpSocket; 2]) -> Result<Vec<Trip>> {
        let pace = self.pace();
        match self {
            Scenario::Idle | Scenario::ManyPackets => traffic::one_way(sockets, &pace),
            Scenario::Busy => {
                let both = traffic::with_busy_processors(|| traffic::requests(sockets, &pace))?;
                Ok(both.concat())
            }
        }
    }
}

/// The errors of one delay in one scenario.
struct DelayErrors {
    delay_ms: u64,
    /// In microseconds, in rising order.
    errors_us: Vec<f64>,
}

impl DelayErrors {
    fn of(delay_ms: u64, trips: &[Trip]) -> DelayErrors {
        let delay = Duration::from_millis(delay_ms);
        let errors_us = trips.iter().map(|trip| trip.error_ns(delay) as f64 / 1e3);
        DelayErrors {
            delay_ms,
            errors_us: sorted(errors_us),
        }
    }
}

fn errors(scenario: Scenario) -> Result<Vec<Row>> {
    let mut errors = Vec::new();
    let mut lateness = DurationHistogram::new();
    let mut scheduling = Scheduling::Fifo;
    let mut early_releases = 0;
    for delay_ms in DELAYS_MS {
        let delay = Duration::from_millis(delay_ms);
        let bench = Bench::symmetric(LaneSettings {
            delay,
            ..LaneSettings::default()
        })?;
        let trips = scenario.send(&bench.datagrams(delay + PATIENCE)?)?;
        let measured = bench.end()?;
        for packet in &measured.packets {
            if let (Some(planned), Some(released)) = (packet.planned, packet.released) {
                lateness.add(released.since(planned));
                early_releases += u64::from(released < planned);
            }
        }
        scheduling = measured.report.scheduling;
        errors.push(DelayErrors::of(delay_ms, &trips));
    }
    // The same datagrams without a link show the machine's share of an error.
    let veth = DelayErrors::of(0, &scenario.send(&datagrams_over_veth()?)?);
    let mut rows = rows_of_errors(scenario, &errors, &veth, p99_us(scheduling));
    rows.extend(rows_of_veth(scenario, &veth));
    rows.push(Row::judged(
        Group::Delay,
        format!("released early, {}", scenario.name()),
        early_releases as f64,
        "packets",
        Target::Exactly(0.0),
    ));
    rows.extend(rows_of_lateness(
        scenario,
        lateness.lateness(),
        p99_us(scheduling),
    ));
    Ok(rows)
}

const fn p99_us(scheduling: Scheduling) -> f64 {
    match scheduling {
        Scheduling::Fifo => P99_US,
        Scheduling::Other => P99_UNPRIVILEGED_US,
    }
}

fn rows_of_errors(
    scenario: Scenario,
    errors: &[DelayErrors],
    veth: &DelayErrors,
    p99_us: f64,
) -> Vec<Row> {
    let machine_us = |q| {
        if veth.errors_us.is_empty() {
            0.0
        } else {
            WAYS_OF_VETH * quantile(&veth.errors_us, q)
        }
    };
    let mut rows = Vec::new();
    for (name, q, target) in [
        ("median", 0.5, Target::AtMost(MEDIAN_US + machine_us(0.5))),
        ("p99", 0.99, Target::AtMost(p99_us + machine_us(0.99))),
        ("least", 0.0, Target::AtLeast(0.0)),
    ] {
        rows.extend(errors.iter().map(|errors| {
            Row::judged(
                Group::Delay,
                format!(
                    "error of {} ms, {name}, {}",
                    errors.delay_ms,
                    scenario.name()
                ),
                quantile(&errors.errors_us, q),
                "us",
                target,
            )
        }));
    }
    rows
}

fn rows_of_veth(scenario: Scenario, veth: &DelayErrors) -> Vec<Row> {
    let row = |name: &str, q| {
        let name = format!("way over a veth pair, {name}, {}", scenario.name());
        Row::note(Group::Delay, name, quantile(&veth.errors_us, q), "us")
    };
    vec![row("median", 0.5), row("p99", 0.99)]
}

fn rows_of_lateness(scenario: Scenario, lateness: Lateness, p99_us: f64) -> Vec<Row> {
    let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
    let row = |name: &str, span: Duration| {
        let name = format!("link lateness, {name}, {}", scenario.name());
        Row::note(Group::Delay, name, micros(span), "us")
    };
    vec![
        row("p50", lateness.p50),
        Row::judged(
            Group::Delay,
            format!("link lateness, p99, {}", scenario.name()),
            micros(lateness.p99),
            "us",
            Target::AtMost(p99_us),
        ),
        row("p99.9", lateness.p999),
        row("max", lateness.max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_and_late_packets_fail() {
        let judged_beside = |veth_us: &[f64], errors_us: Vec<f64>| {
            let errors = DelayErrors {
                delay_ms: 10,
                errors_us: sorted(errors_us),
            };
            let veth = DelayErrors {
                delay_ms: 0,
                errors_us: sorted(veth_us.iter().copied()),
            };
            let rows = rows_of_errors(Scenario::Idle, &[errors], &veth, P99_US);
            rows.iter().map(|row| row.pass).collect::<Vec<_>>()
        };
        let judged = |errors_us| judged_beside(&[], errors_us);
        let all = [Some(true); 3];
        assert_eq!(judged_beside(&[10.0], vec![50.0; 200]), all);
        assert_eq!(
            judged_beside(&[9.0], vec![50.0; 200]),
            [Some(false), all[1], all[2]]
        );
        assert_eq!(judged(vec![20.0; 200]), all);
        assert_eq!(
            judged(vec![-0.001, 20.0, 20.0]),
            [all[0], all[1], Some(false)]
        );
        assert_eq!(
            judged(vec![20.0, 20.0, 61.0]),
            [all[0], Some(false), all[2]]
        );
        assert_eq!(judged(vec![31.0; 3]), [Some(false), all[1], all[2]]);
        assert_eq!(judged(Vec::new()), [Some(false); 3]);
    }

    #[test]
    fn without_real_time_scheduling_the_p99_limit_is_looser() {
        assert_eq!(p99_us(Scheduling::Fifo), P99_US);
        assert_eq!(p99_us(Scheduling::Other), P99_UNPRIVILEGED_US);
    }
}
