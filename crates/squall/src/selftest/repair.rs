//! What one lost packet of a response costs, and what repairs it: the kernel's TCP as it behaves over this link.
//!
//! A client asks over a warm connection; the link drops one segment of one response, by the bytes that it carries. What
//! was expected was measured once, over a prototype of this link on Linux 6.18: these rows are facts of the kernel, so
//! on one whose tick or settings differ they are told and not judged. What repaired the loss, the sending host's
//! counters say.

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

use super::bench::{Bench, Keep, SEED, SERVER_ADDRESS};
use super::statistics::{quantile, sorted};
use super::{Group, Row, Target};

/// TCP payload of a full segment: MTU 1500 less 20 of IPv4, 20 of TCP and 12 of its time stamps.
const SEGMENT_BYTES: usize = 1_448;
const REQUEST_BYTES: usize = 100;
/// Responses before the one that suffers: the round-trip time is known by then, and its variation forgotten, so that
/// the time-out is 200 ms above it.
const WARM_UP: usize = 16;
/// Those of the warm-up that are compared with: the last ones.
const COMPARED: usize = 8;
const REPETITIONS: u32 = 5;
const PORT: u16 = 8080;
const CONGESTION_CONTROL: &str = "cubic";
/// The longest answer that is waited for: three doubled time-outs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far from the expected span a cost may lie: a tick for repairs that take less than 200 ms.
const TOLERANCE_MS: f64 = 4.0;
/// The same for those that wait for a timer. 12 ms sooner is a round trip and 200 ms, which the kernel's timer never
/// undercuts; 32 ms later is the step of its timer wheel beyond 255 ms (HZ 250).
const TOLERANCE_OF_TIMERS_MS: (f64, f64) = (12.0, 32.0);
const TIMERS_FROM_MS: f64 = 200.0;

/// The kernel that the expectations are of.
const TICK: Duration = Duration::from_millis(4);
const SYSCTLS: [(&str, &str); 5] = [
    ("net.ipv4.tcp_rto_min_us", "200000"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_early_retrans", "3"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_timestamps", "1"),
];

/// What sends a segment again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    /// Acknowledgements of what came behind it: at once or when RACK's reordering window is over.
    Recovery,
    /// A probe, because nothing was heard (RFC 8985, section 7).
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

/// One loss to be provoked.
#[derive(Clone, Copy, Debug)]
struct Case {
    round_trip: Duration,
    /// Full segments of each response.
    segments: usize,
    /// Which one is lost, from 1.
    lost: usize,
    /// From the first to the second, in milliseconds.
    expected_ms: (f64, f64),
    mechanism: Mechanism,
}

const fn case(
    round_trip_ms: u64,
    (lost, segments): (usize, usize),
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

/// What it cost over the prototype (docs/METHOD.md).
const CASES: [Case; 8] = [
    case(40, (1, 4), (41.0, 41.0), Mechanism::Recovery),
    case(40, (2, 4), (54.0, 59.0), Mechanism::Recovery),
    case(40, (3, 4), (54.0, 59.0), Mechanism::Recovery),
    case(40, (4, 4), (285.0, 285.0), Mechanism::Probe),
    case(0, (1, 1), (212.0, 222.0), Mechanism::Probe),
    case(20, (1, 1), (232.0, 250.0), Mechanism::Probe),
    case(40, (1, 1), (251.0, 287.0), Mechanism::Probe),
    case(100, (1, 1), (312.0, 347.0), Mechanism::Probe),
];

pub(super) fn measure() -> Result<Vec<Row>> {
    let is_like_reference = is_like_reference()?;
    // Side by side, since each does little but wait.
    let provoked: Vec<Result<Provoked>> = thread::scope(|scope| {
        let running = CASES.map(|case| scope.spawn(move || provoke(&case)));
        let panicked = |_| anyhow!("a thread of the measurement panicked");
        running
            .into_iter()
            .map(|thread| thread.join().map_err(panicked)?)
            .collect()
    });
    let mut rows = Vec::new();
    for (case, provoked) in CASES.iter().zip(provoked) {
        rows.extend(rows_of(case, &provoked?));
    }
    Ok(if is_like_reference {
        rows
    } else {
        rows.into_iter().map(Row::unjudged).collect()
    })
}

/// Whether the kernel's tick and TCP settings are those of the machine that the expectations are from. A setting that
/// an older kernel does not have is as if it were at its default.
fn is_like_reference() -> Result<bool> {
    let host = Host::create()?;
    let are_same = host.run(|| {
        Ok(SYSCTLS
            .iter()
            .all(|(name, expected)| sysctl::read(name).map_or(true, |value| value == *expected)))
    })?;
    Ok(are_same && clock::tick()? == TICK)
}

/// What a loss came to over all repetitions.
#[derive(Clone, Copy, Debug)]
struct Provoked {
    /// The median, in milliseconds beyond that of undisturbed responses.
    cost_ms: f64,
    /// Repairs by probe, by recovery, and time-outs, by the server host's counters.
    probes: u64,
    recoveries: u64,
    timeouts: u64,
}

impl Provoked {
    /// How many losses were repaired so.
    fn repaired_by(&self, mechanism: Mechanism) -> u64 {
        match mechanism {
            Mechanism::Recovery => self.recoveries.saturating_sub(self.probes),
            Mechanism::Probe => self.probes,
        }
    }
}

fn rows_of(case: &Case, provoked: &Provoked) -> Vec<Row> {
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
            provoked.cost_ms,
            "ms",
            Target::Within(least - sooner, most + later),
        ),
        judged(
            &format!("repaired by {}", case.mechanism.name()),
            provoked.repaired_by(case.mechanism) as f64,
            "losses",
            Target::Exactly(f64::from(REPETITIONS)),
        ),
        judged(
            "time-outs",
            provoked.timeouts as f64,
            "losses",
            Target::Exactly(0.0),
        ),
    ]
}

fn provoke(case: &Case) -> Result<Provoked> {
    let delay = Duration::from_nanos(case.round_trip.as_nanos() / 2);
    let up = LaneSettings {
        delay,
        ..LaneSettings::default()
    };
    // The bytes of the segment, counted from 1 over the stream of responses; the same on each connection.
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
    let bench = Bench::start([up, down], SEED, Keep::TotalsOnly)?;
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
    Ok(provoked(costs_ms, &before, &after))
}

fn provoked(costs_ms: Vec<f64>, before: &ProtocolCounters, after: &ProtocolCounters) -> Provoked {
    let growth = |name| after.growth(before, name);
    Provoked {
        cost_ms: quantile(&sorted(costs_ms), 0.5),
        probes: growth("TcpExtTCPLossProbes"),
        recoveries: growth("TcpExtTCPSackRecovery"),
        timeouts: growth("TcpExtTCPTimeouts"),
    }
}

/// Asks until the response that suffers; returns how much longer than the others it took.
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
        // Or the server would wait for more.
        drop(client);
        times_ms
    })?;
    let (suffering, warm_up) = times_ms.split_last().context("at least one response")?;
    let usual = sorted(warm_up[WARM_UP - COMPARED..].iter().copied());
    Ok(suffering - quantile(&usual, 0.5))
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

/// Answers each request with one write, until the client has gone.
fn answer(mut server: TcpStream, response_bytes: usize) {
    let response = vec![0; response_bytes];
    let mut request = [0; REQUEST_BYTES];
    // Why it ends, the client knows better.
    while server.read_exact(&mut request).is_ok() && server.write_all(&response).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const AS_EXPECTED: Provoked = Provoked {
        cost_ms: 285.0,
        probes: 5,
        recoveries: 0,
        timeouts: 0,
    };

    fn passes(case: &Case, provoked: Provoked) -> Vec<Option<bool>> {
        let rows = rows_of(case, &provoked);
        rows.iter().map(|row| row.pass).collect()
    }

    #[test]
    fn cost_and_mechanism_must_be_those_expected() {
        let last_of_four = &CASES[3];
        assert_eq!(passes(last_of_four, AS_EXPECTED), [Some(true); 3]);
        let too_soon = Provoked {
            cost_ms: 55.0,
            probes: 0,
            recoveries: 5,
            ..AS_EXPECTED
        };
        let missed = [Some(false), Some(false), Some(true)];
        assert_eq!(passes(last_of_four, too_soon), missed);
        let timed_out = Provoked {
            timeouts: 1,
            ..AS_EXPECTED
        };
        assert_eq!(passes(last_of_four, timed_out)[2], Some(false));
    }

    #[test]
    fn another_kernel_is_told_and_not_judged() {
        let rows = rows_of(&CASES[0], &AS_EXPECTED);
        let told: Vec<Row> = rows.into_iter().map(Row::unjudged).collect();
        assert!(
            told.iter()
                .all(|row| row.pass.is_none() && row.target.is_some())
        );
    }
}
