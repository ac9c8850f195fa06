//! Properties of the link that must hold exactly: drop lists, the same fates from the same seed, a recorded fate for
//! every packet, and the delivery opportunities of a trace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::record::{Direction, Fate};
use squall_base::{BitRate, Duration, Probability, Time};
use squall_link::LaneSettings;
use squall_link::settings::{Capacity, DropRule, GilbertElliott, Loss, QueueSettings};
use squall_link::trace::Trace;

use super::bench::{Bench, Retention, SEED};
use super::row::{Group, Row, Target};
use super::statistics::{quantile, sorted};
use super::traffic::{self, Pace, Trip};

/// After this long without a datagram, the rest of a group counts as lost.
const PATIENCE: Duration = Duration::from_millis(5);
const PACKET_BYTES: usize = 128;

pub(super) fn measure() -> Result<Vec<Row>> {
    // `conservation` spends seconds waiting. It can run beside the others because neither depends on timing.
    let (exact, conserved) = thread::scope(|scope| {
        let conserved = scope.spawn(conservation);
        let exact = drop_list().and_then(|drops| Ok([drops, reproducibility()?].concat()));
        let conserved = conserved.join();
        (exact, conserved)
    });
    let conserved = conserved.map_err(|_| anyhow!("a thread of the measurement panicked"))?;
    Ok([exact?, conserved?, trace()?].concat())
}

fn exactly(name: impl Into<String>, value: u64, unit: &'static str, wanted: u64) -> Row {
    let target = Target::Exactly(wanted as f64);
    Row::judged(Group::Exactness, name, value as f64, unit, target)
}

/// Drops packets by number, and every hundredth.
fn drop_list() -> Result<Vec<Row>> {
    const PACKETS: u32 = 1_000;
    const NAMED: [u64; 7] = [3, 5, 8, 63, 64, 65, 999];
    const EVERY: u64 = 100;
    let nth = |number| DropRule::Nth {
        number,
        class: None,
        flow: None,
    };
    let every = DropRule::Every {
        n: EVERY,
        class: None,
    };
    let lane = LaneSettings {
        drops: NAMED.into_iter().map(nth).chain([every]).collect(),
        ..LaneSettings::default()
    };
    let bench = Bench::symmetric(lane)?;
    let arrived = traffic::numbered(&bench.datagrams(PATIENCE)?, PACKETS, PACKET_BYTES)?;
    bench.end()?;
    // Rules count from 1, the sender from 0.
    let arrived: BTreeSet<u64> = arrived.into_iter().map(|n| u64::from(n) + 1).collect();
    let is_named = |n: &u64| NAMED.contains(n) || n.is_multiple_of(EVERY);
    let numbers = 1..=u64::from(PACKETS);
    let wrong = numbers.filter(|n| arrived.contains(n) == is_named(n));
    Ok(vec![exactly(
        "drop list: packets lost or spared by mistake, at the receiver",
        wrong.count() as u64,
        "packets",
        0,
    )])
}

/// Sends the same packets twice with one seed and once with another.
fn reproducibility() -> Result<Vec<Row>> {
    let (first, again) = (fates(SEED)?, fates(SEED)?);
    let other = fates(SEED + 1)?;
    let name = "fates that differ";
    Ok(vec![
        exactly(
            format!("{name}, same seed"),
            differing(&first, &again),
            "packets",
            0,
        ),
        Row::judged(
            Group::Exactness,
            format!("{name}, another seed"),
            differing(&first, &other) as f64,
            "packets",
            Target::AtLeast(1.0),
        ),
    ])
}

/// What happened to a packet: its fate, whether one of its bits was flipped, and whether it is a copy.
type PacketFate = (Fate, bool, bool);

/// What happens to numbered packets under every random setting that does not depend on time.
fn fates(seed: u64) -> Result<Vec<PacketFate>> {
    const PACKETS: u32 = 20_000;
    let share = |share| Probability::new(share).context("a share is a probability");
    let lane = LaneSettings {
        loss: Loss::GilbertElliott(GilbertElliott {
            to_bad: share(0.01)?,
            to_good: share(0.2)?,
            loss_in_bad: share(0.8)?,
            loss_in_good: share(0.01)?,
        }),
        corrupt: share(0.01)?,
        duplicate: share(0.01)?,
        ..LaneSettings::default()
    };
    let bench = Bench::start([lane.clone(), lane], seed, Retention::Records)?;
    traffic::numbered(&bench.datagrams(PATIENCE)?, PACKETS, PACKET_BYTES)?;
    let measured = bench.end()?;
    Ok(measured
        .of(Direction::Up)
        .map(|packet| (packet.fate, packet.is_corrupted, packet.is_copy))
        .collect())
}

fn differing(one: &[PacketFate], other: &[PacketFate]) -> u64 {
    let pairs = one.iter().zip(other).filter(|(a, b)| a != b);
    (pairs.count() + one.len().abs_diff(other.len())) as u64
}

/// A link that drops, duplicates and queues packets, and is stopped while some are still in flight.
fn conservation() -> Result<Vec<Row>> {
    const PACKETS: u32 = 2_000;
    let share = |share| Probability::new(share).context("a share is a probability");
    let lane = |bits_per_s| -> Result<LaneSettings> {
        Ok(LaneSettings {
            loss: Loss::Independent(share(0.05)?),
            duplicate: share(0.05)?,
            capacity: Capacity::Rate(BitRate::new(bits_per_s).context("a rate is more than 0")?),
            queue: QueueSettings {
                limit_packets: Some(100),
                ..QueueSettings::default()
            },
            ..LaneSettings::default()
        })
    };
    // 100 packets of 128 bytes take 5 s at 20 kbit/s, which is longer than the link waits for silence.
    let lanes = [lane(20_000)?, lane(100_000_000)?];
    let bench = Bench::start(lanes, SEED, Retention::TotalsOnly)?;
    let [client, server] = bench.datagrams(PATIENCE)?;
    let pace = Pace {
        packets: PACKETS,
        burst: 20,
        every: Duration::from_millis(2),
        packet_bytes: PACKET_BYTES,
    };
    let back = [server, client];
    traffic::one_way(&back, &pace)?;
    let [server, client] = back;
    traffic::one_way(&[client, server], &pace)?;
    let measured = bench.end()?;
    let row = |name: &str, direction| {
        let name = format!("packets unaccounted for, {name}");
        exactly(name, measured.unaccounted(direction), "packets", 0)
    };
    let in_flight = measured.totals.of(Direction::Up).count(Fate::InFlight);
    Ok(vec![
        row(
            "up (loss, copies, full queue, stopped early)",
            Direction::Up,
        ),
        row("down (loss, copies)", Direction::Down),
        Row::note(
            Group::Exactness,
            "packets in flight at the end, up",
            in_flight as f64,
            "packets",
        ),
    ])
}

/// Delivery opportunities of the test trace: one second of bursts, up to three opportunities per millisecond, with idle
/// gaps of up to 200 ms between them.
fn made_trace_ms() -> Vec<u64> {
    let bursts = [
        (1, 60, 1),
        (150, 100, 3),
        (300, 80, 2),
        (600, 150, 1),
        (990, 11, 1),
    ];
    let mut times = Vec::new();
    for (from, lasts, each) in bursts {
        for at in from..from + lasts {
            times.extend(std::iter::repeat_n(at, each));
        }
    }
    times
}

/// Keeps the queue full over two periods of the trace.
fn trace() -> Result<Vec<Row>> {
    /// Each packet uses exactly one opportunity: 1,500 bytes and the 4 that mahimahi adds.
    const FULL_PACKET_BYTES: usize = 1_500;
    let times_ms = made_trace_ms();
    let text: Vec<String> = times_ms.iter().map(u64::to_string).collect();
    let trace = Trace::parse(&text.join("\n")).context("the made trace is one")?;
    let period_ms = trace.duration().as_nanos() / 1_000_000;
    let lane = LaneSettings {
        capacity: Capacity::Trace(Arc::new(trace)),
        queue: QueueSettings {
            limit_packets: None,
            ..QueueSettings::default()
        },
        ..LaneSettings::default()
    };
    let packets = times_ms.len() as u32 * 2;
    let bench = Bench::symmetric(lane)?;
    let start = bench.started;
    let pace = Pace {
        packets,
        burst: packets,
        every: Duration::ZERO,
        packet_bytes: FULL_PACKET_BYTES,
    };
    let trips = traffic::one_way(&bench.datagrams(Duration::from_secs(1))?, &pace)?;
    let measured = bench.end()?;
    let opportunities = Opportunities {
        times_ms,
        period_ms,
        start,
    };
    let served: Vec<Time> = measured
        .of(Direction::Up)
        .filter_map(|packet| packet.served)
        .collect();
    let received: Vec<Time> = trips.iter().map(|trip: &Trip| trip.received).collect();
    // One delayed read by the receiver does not mean that the link was wrong, hence p99 rather than the maximum.
    let row = |name: &str, times: &[Time], q| {
        Row::judged(
            Group::Exactness,
            format!("trace: packets off the opportunities, {name}"),
            quantile(&opportunities.deviations(times), q),
            "packets",
            Target::AtMost(1.0),
        )
    };
    Ok(vec![
        row("most by the log", &served, 1.0),
        row("p99 at the receiver", &received, 0.99),
    ])
}

/// When the packets of a full queue should leave.
struct Opportunities {
    times_ms: Vec<u64>,
    period_ms: u64,
    /// The link's start, from which the times of its trace count.
    start: Time,
}

impl Opportunities {
    /// The number of opportunities from the link's start until `time`.
    fn until(&self, time: Time) -> u64 {
        let millis = time.since(self.start).as_nanos() / 1_000_000;
        let (periods, within) = (millis / self.period_ms, millis % self.period_ms);
        let begun = self.times_ms.partition_point(|at| *at <= within);
        periods * self.times_ms.len() as u64 + begun as u64
    }

    /// The differences between deliveries and opportunities, in rising order. Both are counted from the first delivery,
    /// and compared in the middle of each millisecond until the last delivery.
    fn deviations(&self, deliveries: &[Time]) -> Vec<f64> {
        const MILLISECOND: Duration = Duration::from_millis(1);
        const HALF: Duration = Duration::from_micros(500);
        let (Some(first), Some(last)) = (deliveries.first(), deliveries.last()) else {
            return Vec::new();
        };
        let whole_ms = first.since(self.start).as_nanos() / 1_000_000;
        let mut look = self.start + Duration::from_millis(whole_ms) + HALF;
        // A delivery uses the first opportunity of its millisecond.
        let used_before = self.until(Time::from_nanos(look.as_nanos() - MILLISECOND.as_nanos()));
        let mut deviations = Vec::new();
        while look < *last {
            let delivered = deliveries.partition_point(|at| *at <= look) as u64;
            let offered = self.until(look) - used_before;
            deviations.push(delivered.abs_diff(offered) as f64);
            look += MILLISECOND;
        }
        sorted(deviations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_micros(times: &[u64]) -> Vec<Time> {
        let micros = times.iter().copied().map(Duration::from_micros);
        micros
            .map(|after| Time::from_nanos(1_000_000_000) + after)
            .collect()
    }

    fn opportunities() -> Opportunities {
        Opportunities {
            times_ms: vec![1, 1, 4, 10],
            period_ms: 10,
            start: Time::from_nanos(1_000_000_000),
        }
    }

    fn most_off(deliveries: &[Time]) -> f64 {
        quantile(&opportunities().deviations(deliveries), 1.0)
    }

    #[test]
    fn deliveries_at_the_opportunities_are_exact() {
        let exact = at_micros(&[1_010, 1_020, 4_100, 10_050, 11_001, 11_002, 14_300]);
        assert_eq!(most_off(&exact), 0.0);
        let begun_later = at_micros(&[4_100, 10_050, 11_001, 11_002, 14_300]);
        assert_eq!(most_off(&begun_later), 0.0);
    }

    #[test]
    fn late_and_early_deliveries_are_detected() {
        let late = at_micros(&[1_010, 1_020, 9_000, 10_050, 14_300]);
        assert_eq!(most_off(&late), 2.0);
        let early = at_micros(&[1_010, 1_020, 1_030, 1_040, 14_300]);
        assert_eq!(most_off(&early), 2.0);
        assert!(most_off(&[]).is_nan());
    }

    #[test]
    fn fates_are_compared_one_by_one() {
        let (kept, lost) = (
            (Fate::Delivered, false, false),
            (Fate::BurstDrop, false, false),
        );
        assert_eq!(differing(&[kept, lost], &[kept, lost]), 0);
        assert_eq!(differing(&[kept, lost], &[lost, lost]), 1);
        assert_eq!(differing(&[kept], &[kept, lost]), 1);
    }
}
