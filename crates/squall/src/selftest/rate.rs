//! Whether bits leave a queue at the configured rate, neither more of them nor in bursts.
//!
//! A sender floods a drop-tail queue at one and a half times the rate, so that it is never empty. Counted is the
//! busiest whole second, because that is where a rate that is only right on average would show.

use anyhow::{Context, Result};
use squall_base::record::Direction;
use squall_base::{BitRate, Duration, Time};
use squall_link::LaneSettings;
use squall_link::settings::{Capacity, QueueSettings};

use super::bench::Bench;
use super::traffic::{self, Pace};
use super::{Group, Row, Target};

/// Megabits a second, and the bytes of each packet: so that a whole second has a thousand packets at least, of which
/// one more or less is not much.
const RATES: [(u64, usize); 4] = [(1, 125), (10, 1_250), (100, 1_250), (500, 1_250)];
const FLOOD: Duration = Duration::from_millis(1_400);
const SECOND: Duration = Duration::from_secs(1);
/// Long enough for the queue to drain at the slowest rate.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the queue lasts when its sender is held up (the kernel stops real-time threads that never sleep for 50 ms,
/// sched_rt_runtime_us), and the fewest packets in it.
const QUEUE: Duration = Duration::from_millis(100);
const QUEUE_PACKETS_AT_LEAST: u64 = 100;
/// The error of a rate over a second (docs/METHOD.md).
const ERROR_PERCENT: f64 = 0.5;

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (megabits, packet_bytes) in RATES {
        rows.extend(measure_rate(megabits, packet_bytes)?);
    }
    Ok(rows)
}

fn measure_rate(megabits: u64, packet_bytes: usize) -> Result<Vec<Row>> {
    let rate = BitRate::new(megabits * 1_000_000).context("a rate is more than none")?;
    let packet_time = rate.time_for(8 * packet_bytes as u64);
    let queue_packets = QUEUE.as_nanos() / packet_time.as_nanos();
    let bench = Bench::symmetric(LaneSettings {
        capacity: Capacity::Rate(rate),
        queue: QueueSettings {
            limit_packets: Some(queue_packets.max(QUEUE_PACKETS_AT_LEAST)),
            ..QueueSettings::default()
        },
        ..LaneSettings::default()
    })?;
    let trips = traffic::one_way(
        &bench.datagrams(PATIENCE)?,
        &flood(packet_time, packet_bytes),
    )?;
    let measured = bench.end()?;
    let mut served: Vec<Time> = measured
        .of(Direction::Up)
        .filter_map(|packet| packet.served)
        .collect();
    served.sort_unstable();
    let received: Vec<Time> = trips.iter().map(|trip| trip.received).collect();
    let error = |times: &[Time]| {
        let bits = busiest_second(times) * 8 * packet_bytes as u64;
        100.0 * (bits as f64 / rate.bits_per_s() as f64 - 1.0).abs()
    };
    let row = |what: &str, value, unit, target| {
        Row::judged(
            Group::Rate,
            format!("{megabits} Mbit/s: {what}"),
            value,
            unit,
            target,
        )
    };
    let most = Target::AtMost(ERROR_PERCENT);
    Ok(vec![
        row("error by the log", error(&served), "%", most),
        row("error by the receiver", error(&received), "%", most),
        row(
            "least time between packets",
            least_gap(&served).as_nanos() as f64 / packet_time.as_nanos() as f64,
            "packet times",
            Target::AtLeast(1.0),
        ),
    ])
}

/// One and a half times what the rate lets through, a millisecond's worth at a time.
fn flood(packet_time: Duration, packet_bytes: usize) -> Pace {
    let every = packet_time.as_nanos().max(1_000_000);
    let burst = (3 * every).div_ceil(2 * packet_time.as_nanos()) as u32;
    let bursts = FLOOD.as_nanos().div_ceil(every) as u32;
    Pace {
        packets: burst * bursts,
        burst,
        every: Duration::from_nanos(every),
        packet_bytes,
    }
}

/// The most of the times, which are in order, within any second.
fn busiest_second(times: &[Time]) -> u64 {
    let mut most = 0;
    for (first, start) in times.iter().enumerate() {
        let within = times[first..].partition_point(|time| time.since(*start) < SECOND);
        most = most.max(within);
    }
    most as u64
}

/// The shortest time between two neighbours; the longest there is if there are no two.
fn least_gap(times: &[Time]) -> Duration {
    let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    gaps.min().unwrap_or(Duration::from_nanos(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_millis(times: &[u64]) -> Vec<Time> {
        let millis = times.iter().copied().map(Duration::from_millis);
        millis.map(|after| Time::ZERO + after).collect()
    }

    #[test]
    fn a_second_ends_before_the_next_begins() {
        let times = at_millis(&[0, 500, 999, 1_000, 1_100, 2_500]);
        assert_eq!(busiest_second(&times), 4);
        assert_eq!(busiest_second(&at_millis(&[0, 1_000])), 1);
        assert_eq!(busiest_second(&[]), 0);
    }

    #[test]
    fn bursts_show_as_the_least_gap() {
        let times = at_millis(&[0, 10, 12, 30]);
        assert_eq!(least_gap(&times), Duration::from_millis(2));
    }

    #[test]
    fn the_flood_is_above_the_rate() {
        for packet_time in [20_000, 100_000, 1_000_000, 12_000_000].map(Duration::from_nanos) {
            let pace = flood(packet_time, 1_250);
            let offered = f64::from(pace.burst) * packet_time.as_secs_f64();
            assert!(offered >= 1.5 * pace.every.as_secs_f64(), "{pace:?}");
        }
    }
}
