//! What one lost packet of a response costs, and what repairs it: the kernel's TCP as it behaves over this link.
//!
//! A client sends requests over a warm connection, and the link drops one segment of one response, chosen by the bytes
//! it carries. The expected values were measured once, over a prototype of this link on Linux 6.18. They describe the
//! kernel, so on a kernel with another tick or other settings they are printed but not judged. The sending host's
//! counters show what repaired the loss.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use squall_base::Duration;
use squall_link::LaneSettings;
use squall_link::settings::DropRule;
use squall_linux::counters::ProtocolCounters;
use squall_linux::host::Host;
use squall_linux::{clock, socket, sysctl};

use super::bench::{Bench, Retention, SEED};
use super::row::{Group, Row, Target};
use super::statistics::{quantile, sorted};
use crate::link::hosts::SERVER_ADDRESS;

/// TCP payload of a full segment: MTU 1500 minus 20 for IPv4, 20 for TCP and 12 for its timestamps.
const SEGMENT_BYTES: usize = 1_448;
const REQUEST_BYTES: usize = 100;
/// Responses before the one that loses a segment. By then the sender knows the round-trip time and its variance has
/// decayed, so that the retransmission timeout is 200 ms above the round-trip time.
const WARM_UP: usize = 16;
/// How many of the last warm-up responses serve as the baseline.
const COMPARED: usize = 8;
const REPETITIONS: u32 = 5;
const PORT: u16 = 8080;
const CONGESTION_CONTROL: &str = "cubic";
/// How long to wait for a response: covers three successive timeouts, each twice the one before.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far a cost may lie outside the expected range: one tick, for repairs that take less than 200 ms.
const TOLERANCE_MS: f64 = 4.0;
/// Tolerance below and above the expected range for repairs that wait for a timer. 12 ms earlier is one round trip plus
/// 200 ms, the least that the kernel's timer waits; 32 ms later is one step of its timer wheel above 255 ms (HZ 250).
const TOLERANCE_OF_TIMERS_MS: (f64, f64) = (12.0, 32.0);
const TIMERS_FROM_MS: f64 = 200.0;

/// Tick and settings of the kernel on which the expected values were measured.
const TICK: Duration = Duration::from_millis(4);
const SYSCTLS: [(&str, &str); 5] = [
    ("net.ipv4.tcp_rto_min_us", "200000"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_early_retrans", "3"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_timestamps", "1"),
];

/// What triggers the retransmission of a lost segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    /// Acknowledgements of later segments: immediately, or after RACK's reordering window.
    Recovery,
    /// A probe, sent because no acknowledgement arrived (RFC 8985, section 7).
    Probe,
}

impl Mechanism {
    const fn name(self) -> &'static str {
        match self {
            Mechanism::Recovery => "fast recovery (RACK)",
            Mechanism::Probe => "a tail loss probe",
        }
    }
}

/// One loss to provoke.
#[derive(Clone, Copy, Debug)]
struct Case {
    round_trip: Duration,
    /// Full segments in each response.
    segments: usize,
    /// Which segment is lost, counted from 1.
    lost: usize,
    /// Least and greatest expected cost, in milliseconds.
    expected_ms: (f64, f64),
    mechanism: Mechanism,
}

const fn case(
    round_trip_ms: u64,
    lost: usize,
    segments: usize,
    expected_ms: (f64, f64),
    mechanism: Mechanism,
) -> Case {
    Case {
        round_trip: Duration::from_millis(round_trip_ms),
        segments,
        lost,
        expected_ms,
        mechanism,
    }
}

/// Costs measured over the prototype (docs/METHOD.md).
const CASES: [Case; 8] = [
    case(40, 1, 4, (41.0, 41.0), Mechanism::Recovery),
    case(40, 2, 4, (54.0, 59.0), Mechanism::Recovery),
    case(40, 3, 4, (54.0, 59.0), Mechanism::Recovery),
    case(40, 4, 4, (285.0, 285.0), Mechanism::Probe),
    case(0, 1, 1, (212.0, 222.0), Mechanism::Probe),
    case(20, 1, 1, (232.0, 250.0), Mechanism::Probe),
    case(40, 1, 1, (251.0, 287.0), Mechanism::Probe),
    case(100, 1, 1, (312.0, 347.0), Mechanism::Probe),
];

pub(super) fn measure() -> Result<Vec<Row>> {
    let is_like_reference = is_like_reference()?;
    // The cases run in parallel, because each does little but wait.
    let loss_costs: Vec<Result<LossCost>> = thread::scope(|scope| {
        let running = CASES.map(|case| scope.spawn(move || measure_loss(&case)));
        let panicked = |_| anyhow!("a thread of the measurement panicked");
        running
            .into_iter()
            .map(|thread| thread.join().map_err(panicked)?)
            .collect()
    });
    let mut rows = Vec::new();
    for (case, loss_cost) in CASES.iter().zip(loss_costs) {
        rows.extend(rows_of(case, &loss_cost?));
    }
    Ok(if is_like_reference {
        rows
    } else {
        rows.into_iter().map(Row::unjudged).collect()
    })
}

/// Whether the kernel's tick and TCP settings are those of the machine that produced the expected values. A setting
/// that an older kernel lacks counts as being at its default.
fn is_like_reference() -> Result<bool> {
    let host = Host::create()?;
    let are_same = host.run(|| {
        Ok(SYSCTLS
            .iter()
            .all(|(name, expected)| sysctl::read(name).map_or(true, |value| value == *expected)))
    })?;
    Ok(are_same && clock::tick()? == TICK)
}

/// What a loss cost, over all repetitions.
#[derive(Clone, Copy, Debug)]
struct LossCost {
    /// The median cost, in milliseconds beyond the time of an undisturbed response.
    cost_ms: f64,
    /// Probes, recoveries and timeouts, from the server host's counters.
    probes: u64,
    recoveries: u64,
    timeouts: u64,
}

impl LossCost {
    /// How many losses this mechanism repaired.
    fn repaired_by(&self, mechanism: Mechanism) -> u64 {
        match mechanism {
            Mechanism::Recovery => self.recoveries.saturating_sub(self.probes),
            Mechanism::Probe => self.probes,
        }
    }
}

fn rows_of(case: &Case, loss_cost: &LossCost) -> Vec<Row> {
    let name = format!(
        "round trip {} ms, segment {} of {} lost",
        case.round_trip.as_millis_f64(),
        case.lost,
        case.segments
    );
    let (least, most) = case.expected_ms;
    let (sooner, later) = if least < TIMERS_FROM_MS {
        (TOLERANCE_MS, TOLERANCE_MS)
    } else {
        TOLERANCE_OF_TIMERS_MS
    };
    let judged = |what: &str, value, unit, target| {
        Row::judged(
            Group::Repair,
            format!("{name}: {what}"),
            value,
            unit,
            target,
        )
    };
    vec![
        judged(
            "cost",
            loss_cost.cost_ms,
            "ms",
            Target::Within(least - sooner, most + later),
        ),
        judged(
            &format!("repaired by {}", case.mechanism.name()),
            loss_cost.repaired_by(case.mechanism) as f64,
            "losses",
            Target::Exactly(f64::from(REPETITIONS)),
        ),
        judged(
            "time-outs",
            loss_cost.timeouts as f64,
            "losses",
            Target::Exactly(0.0),
        ),
    ]
}

fn measure_loss(case: &Case) -> Result<LossCost> {
    let delay = Duration::from_nanos(case.round_trip.as_nanos() / 2);
    let up = LaneSettings {
        delay,
        ..LaneSettings::default()
    };
    // The bytes of the segment, counted from 1 over the stream of responses. Every connection has the same ones.
    let before = (WARM_UP * case.segments + case.lost - 1) * SEGMENT_BYTES;
    let down = LaneSettings {
        drops: vec![DropRule::Sequence {
            from: before as u32 + 1,
            to: (before + SEGMENT_BYTES) as u32,
            times: 1,
            flow: None,
        }],
        ..up.clone()
    };
    let bench = Bench::start([up, down], SEED, Retention::TotalsOnly)?;
    let listener = bench
        .server
        .run(|| Ok(TcpListener::bind((SERVER_ADDRESS, PORT))))?
        .context("cannot listen")?;
    let before = bench.server.protocol_counters()?;
    let response_bytes = case.segments * SEGMENT_BYTES;
    let mut costs_ms = Vec::new();
    for _ in 0..REPETITIONS {
        let client = bench
            .client
            .run(|| Ok(TcpStream::connect((SERVER_ADDRESS, PORT))))?
            .context("cannot connect over the link")?;
        let (server, _) = listener.accept().context("cannot accept")?;
        costs_ms.push(cost_ms(client, server, response_bytes)?);
    }
    let after = bench.server.protocol_counters()?;
    bench.end()?;
    Ok(loss_cost(costs_ms, &before, &after))
}

fn loss_cost(costs_ms: Vec<f64>, before: &ProtocolCounters, after: &ProtocolCounters) -> LossCost {
    let growth = |name| after.growth(before, name);
    LossCost {
        cost_ms: quantile(&sorted(costs_ms), 0.5),
        probes: growth("TcpExtTCPLossProbes"),
        recoveries: growth("TcpExtTCPSackRecovery"),
        timeouts: growth("TcpExtTCPTimeouts"),
    }
}

/// Sends requests until the response that loses a segment; returns how much longer than the others it took.
fn cost_ms(mut client: TcpStream, server: TcpStream, response_bytes: usize) -> Result<f64> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE.into()))?;
        let used = socket::congestion_control(stream)?;
        if used != CONGESTION_CONTROL {
            bail!("a socket uses the congestion control {used} instead of {CONGESTION_CONTROL}");
        }
    }
    let times_ms = thread::scope(|scope| {
        scope.spawn(move || answer(server, response_bytes));
        let times_ms: Result<Vec<f64>> = (0..=WARM_UP)
            .map(|_| ask(&mut client, response_bytes))
            .collect();
        // Otherwise the server would wait for another request.
        drop(client);
        times_ms
    })?;
    let (disturbed, warm_up) = times_ms.split_last().context("at least one response")?;
    let undisturbed = sorted(warm_up[WARM_UP - COMPARED..].iter().copied());
    Ok(disturbed - quantile(&undisturbed, 0.5))
}

/// Sends a request and reads its response; returns how long that took.
fn ask(client: &mut TcpStream, response_bytes: usize) -> Result<f64> {
    let mut response = vec![0; response_bytes];
    let began = clock::now();
    client.write_all(&[0; REQUEST_BYTES])?;
    client
        .read_exact(&mut response)
        .context("a response did not come")?;
    Ok(clock::now().since(began).as_millis_f64())
}

/// Answers each request with one write, until the client closes the connection.
fn answer(mut server: TcpStream, response_bytes: usize) {
    let response = vec![0; response_bytes];
    let mut request = [0; REQUEST_BYTES];
    // The client reports why the connection ended.
    while server.read_exact(&mut request).is_ok() && server.write_all(&response).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const AS_EXPECTED: LossCost = LossCost {
        cost_ms: 285.0,
        probes: 5,
        recoveries: 0,
        timeouts: 0,
    };

    fn passes(case: &Case, loss_cost: LossCost) -> Vec<Option<bool>> {
        let rows = rows_of(case, &loss_cost);
        rows.iter().map(|row| row.pass).collect()
    }

    #[test]
    fn unexpected_cost_mechanism_or_timeout_fails() {
        let last_of_four = &CASES[3];
        assert_eq!(passes(last_of_four, AS_EXPECTED), [Some(true); 3]);
        let too_soon = LossCost {
            cost_ms: 55.0,
            probes: 0,
            recoveries: 5,
            ..AS_EXPECTED
        };
        let missed = [Some(false), Some(false), Some(true)];
        assert_eq!(passes(last_of_four, too_soon), missed);
        let timed_out = LossCost {
            timeouts: 1,
            ..AS_EXPECTED
        };
        assert_eq!(passes(last_of_four, timed_out)[2], Some(false));
    }

    #[test]
    fn rows_of_another_kernel_are_shown_but_not_judged() {
        let rows = rows_of(&CASES[0], &AS_EXPECTED);
        let told: Vec<Row> = rows.into_iter().map(Row::unjudged).collect();
        assert!(
            told.iter()
                .all(|row| row.pass.is_none() && row.target.is_some())
        );
    }
}
