//! Whether bits leave a queue at the configured rate: no faster, and not in bursts.
//!
//! A sender floods a drop-tail queue at one and a half times the rate, so that it is never empty. The measure is the
//! busiest whole second, because a rate that is right only on average would show there.

use anyhow::{Context, Result};
use squall_base::record::Direction;
use squall_base::{BitRate, Duration, Time};
use squall_link::LaneSettings;
use squall_link::settings::{Capacity, QueueSettings};

use super::bench::Bench;
use super::row::{Group, Row, Target};
use super::traffic::{self, Pace};

/// Megabits per second, and the bytes of each packet. A whole second has at least a thousand packets, so that one
/// packet more or less matters little.
const RATES: [(u64, usize); 4] = [(1, 125), (10, 1_250), (100, 1_250), (500, 1_250)];
const FLOOD: Duration = Duration::from_millis(1_400);
const SECOND: Duration = Duration::from_secs(1);
/// Long enough for the queue to drain at the slowest rate.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the queue lasts while its sender is held up (the kernel suspends real-time threads that never sleep for 50
/// ms, sched_rt_runtime_us), and the fewest packets that it holds.
const QUEUE: Duration = Duration::from_millis(100);
const QUEUE_PACKETS_AT_LEAST: u64 = 100;
/// The allowed error of a rate over one second (docs/METHOD.md).
const ERROR_PERCENT: f64 = 0.5;

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (megabits, packet_bytes) in RATES {
        rows.extend(measure_rate(megabits, packet_bytes)?);
    }
    Ok(rows)
}

fn measure_rate(megabits: u64, packet_bytes: usize) -> Result<Vec<Row>> {
    let rate = BitRate::new(megabits * 1_000_000).context("a rate is more than 0")?;
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

/// One and a half times the link's rate, sent a millisecond's worth at a time.
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

/// The largest number of times within any one second. `times` is in rising order.
fn busiest_second(times: &[Time]) -> u64 {
    let mut most = 0;
    for (first, start) in times.iter().enumerate() {
        let within = times[first..].partition_point(|time| time.since(*start) < SECOND);
        most = most.max(within);
    }
    most as u64
}

/// The shortest gap between two neighbours; the largest possible duration if there are fewer than two times.
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
    fn busiest_second_excludes_its_end() {
        let times = at_millis(&[0, 500, 999, 1_000, 1_100, 2_500]);
        assert_eq!(busiest_second(&times), 4);
        assert_eq!(busiest_second(&at_millis(&[0, 1_000])), 1);
        assert_eq!(busiest_second(&[]), 0);
    }

    #[test]
    fn least_gap_is_the_shortest_between_neighbours() {
        let times = at_millis(&[0, 10, 12, 30]);
        assert_eq!(least_gap(&times), Duration::from_millis(2));
    }

    #[test]
    fn flood_offers_one_and_a_half_times_the_rate() {
        for packet_time in [20_000, 100_000, 1_000_000, 12_000_000].map(Duration::from_nanos) {
            let pace = flood(packet_time, 1_250);
            let offered = f64::from(pace.burst) * packet_time.as_secs_f64();
            assert!(offered >= 1.5 * pace.every.as_secs_f64(), "{pace:?}");
        }
    }
}
