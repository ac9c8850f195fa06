//! What the link adds to a delay of none, and how exact other delays are: idle, with all processors busy, and under
//! many packets.
//!
//! The error of a packet is its reader's stamp less its sender's less the configured delay: it holds two system calls
//! and two wake-ups besides the link. What of it is the link's release alone, the rows of lateness say.

use std::net::{Ipv4Addr, UdpSocket};

use anyhow::Result;
use squall_base::Duration;
use squall_base::record::Lateness;
use squall_link::LaneSettings;
use squall_linux::host::Host;
use squall_linux::scheduling::Scheduling;
use squall_linux::spans::Spans;
use squall_linux::{datagrams, veth};

use super::bench::{Bench, PREFIX_LEN};
use super::statistics::{quantile, sorted};
use super::traffic::{self, Pace, Trip};
use super::{Group, Row, Target};

/// What is tried, in milliseconds.
const DELAYS_MS: [u64; 5] = [1, 10, 25, 100, 250];
/// Round trips at no delay.
const ROUND_TRIPS: u32 = 3_000;
/// How much longer than its delay a datagram may wait for its reader before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

// Targets: what a prototype of this link reached on a machine with two processors (docs/METHOD.md). What the machine
// itself takes to bring a datagram from one host to another is added, as the veth pair of the same run shows it: a
// packet over the link is written, read and woken up for twice.
const ADDED_ROUND_TRIP_US: f64 = 60.0;
/// The prototype's round trip over that of a veth pair beside it, 32 us.
const ROUND_TRIP_OF_VETH: f64 = 60.0 / 32.0;
const WAYS_OF_VETH: f64 = 2.0;
const MEDIAN_US: f64 = 30.0;
const P99_US: f64 = 60.0;
/// Without real-time scheduling, which an ordinary user does not get.
const P99_UNPRIVILEGED_US: f64 = 700.0;

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = added()?;
    for condition in Condition::ALL {
        rows.extend(errors(condition)?);
    }
    Ok(rows)
}

/// Round trips at no delay, over the link and over what the kernel has for joining two hosts.
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

/// Sockets in two hosts that live as long as they do, joined by the kernel alone.
fn datagrams_over_veth() -> Result<[UdpSocket; 2]> {
    let addresses = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)];
    let (one, other) = (Host::create()?, Host::create()?);
    let ends = [(&one, addresses[0]), (&other, addresses[1])];
    veth::join("squall-veth", ends, PREFIX_LEN)?;
    Ok(datagrams::pair(ends[0], ends[1], PATIENCE)?)
}

/// What goes on while delays are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Idle,
    Busy,
    ManyPackets,
}

impl Condition {
    const ALL: [Condition; 3] = [Condition::Idle, Condition::Busy, Condition::ManyPackets];

    const fn name(self) -> &'static str {
        match self {
            Condition::Idle => "idle",
            Condition::Busy => "1,000 requests/s, processors busy",
            Condition::ManyPackets => "50,000 packets/s",
        }
    }

    const fn pace(self) -> Pace {
        match self {
            Condition::Idle => Pace {
                packets: 200,
                burst: 1,
                every: Duration::from_millis(2),
                packet_bytes: 100,
            },
            Condition::Busy => Pace {
                packets: 1_000,
                burst: 1,
                every: Duration::from_millis(1),
                packet_bytes: 100,
            },
            // In small bursts, so that the sender sleeps between them and leaves its processor to the reader.
            Condition::ManyPackets => Pace {
                packets: 50_000,
                burst: 5,
                every: Duration::from_micros(100),
                packet_bytes: 100,
            },
        }
    }

    fn send(self, sockets: &[UdpSocket; 2]) -> Result<Vec<Trip>> {
        let pace = self.pace();
        match self {
            Condition::Idle | Condition::ManyPackets => traffic::one_way(sockets, &pace),
            Condition::Busy => {
                let both = traffic::with_busy_processors(|| traffic::requests(sockets, &pace))?;
                Ok(both.concat())
            }
        }
    }
}

/// What one delay came to under one condition.
struct Found {
    delay_ms: u64,
    /// In microseconds, in rising order.
    errors_us: Vec<f64>,
}

impl Found {
    fn of(delay_ms: u64, trips: &[Trip]) -> Found {
        let delay = Duration::from_millis(delay_ms);
        let errors_us = trips.iter().map(|trip| trip.error_ns(delay) as f64 / 1e3);
        Found {
            delay_ms,
            errors_us: sorted(errors_us),
        }
    }
}

fn errors(condition: Condition) -> Result<Vec<Row>> {
    let mut found = Vec::new();
    let mut lateness = Spans::new();
    let mut scheduling = Scheduling::Fifo;
    let mut early_releases = 0;
    for delay_ms in DELAYS_MS {
        let delay = Duration::from_millis(delay_ms);
        let bench = Bench::symmetric(LaneSettings {
            delay,
            ..LaneSettings::default()
        })?;
        let trips = condition.send(&bench.datagrams(delay + PATIENCE)?)?;
        let measured = bench.end()?;
        for packet in &measured.packets {
            if let (Some(planned), Some(released)) = (packet.planned, packet.released) {
                lateness.add(released.since(planned));
                early_releases += u64::from(released < planned);
            }
        }
        scheduling = measured.report.scheduling;
        found.push(Found::of(delay_ms, &trips));
    }
    // The same datagrams where there is no link: what of an error is the machine's.
    let veth = Found::of(0, &condition.send(&datagrams_over_veth()?)?);
    let mut rows = rows_of_errors(condition, &found, &veth, p99_us(scheduling));
    rows.extend(rows_of_veth(condition, &veth));
    rows.push(Row::judged(
        Group::Delay,
        format!("released early, {}", condition.name()),
        early_releases as f64,
        "packets",
        Target::Exactly(0.0),
    ));
    rows.extend(rows_of_lateness(
        condition,
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

fn rows_of_errors(condition: Condition, found: &[Found], veth: &Found, p99_us: f64) -> Vec<Row> {
    let machine_us = |q| match veth.errors_us.is_empty() {
        true => 0.0,
        false => WAYS_OF_VETH * quantile(&veth.errors_us, q),
    };
    let mut rows = Vec::new();
    for (name, q, target) in [
        ("median", 0.5, Target::AtMost(MEDIAN_US + machine_us(0.5))),
        ("p99", 0.99, Target::AtMost(p99_us + machine_us(0.99))),
        ("least", 0.0, Target::AtLeast(0.0)),
    ] {
        rows.extend(found.iter().map(|found| {
            Row::judged(
                Group::Delay,
                format!(
                    "error of {} ms, {name}, {}",
                    found.delay_ms,
                    condition.name()
                ),
                quantile(&found.errors_us, q),
                "us",
                target,
            )
        }));
    }
    rows
}

fn rows_of_veth(condition: Condition, veth: &Found) -> Vec<Row> {
    let row = |name: &str, q| {
        let name = format!("way over a veth pair, {name}, {}", condition.name());
        Row::note(Group::Delay, name, quantile(&veth.errors_us, q), "us")
    };
    vec![row("median", 0.5), row("p99", 0.99)]
}

fn rows_of_lateness(condition: Condition, lateness: Lateness, p99_us: f64) -> Vec<Row> {
    let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
    let row = |name: &str, span: Duration| {
        let name = format!("link lateness, {name}, {}", condition.name());
        Row::note(Group::Delay, name, micros(span), "us")
    };
    vec![
        row("p50", lateness.p50),
        Row::judged(
            Group::Delay,
            format!("link lateness, p99, {}", condition.name()),
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
    fn an_early_packet_fails_and_a_late_one_too() {
        let judged_beside = |veth_us: &[f64], errors_us: Vec<f64>| {
            let found = Found {
                delay_ms: 10,
                errors_us: sorted(errors_us),
            };
            let veth = Found {
                delay_ms: 0,
                errors_us: sorted(veth_us.iter().copied()),
            };
            let rows = rows_of_errors(Condition::Idle, &[found], &veth, P99_US);
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
    fn without_real_time_more_lateness_is_expected() {
        assert_eq!(p99_us(Scheduling::Fifo), P99_US);
        assert_eq!(p99_us(Scheduling::Other), P99_UNPRIVILEGED_US);
    }
}
