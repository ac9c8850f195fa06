//! How many packets per second the pure model decides, without devices: `cargo bench -p squall-link`.
//!
//! Time inside the link is simulated, so this measures only the cost of its decisions. The cost of a whole link, system
//! calls included, is measured in squall-linux. Each case runs five times for a fixed span of real time; the median counts.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; the crate that it measures does not"
)]

use std::time::{Duration as Span, Instant};

use squall_base::record::Direction;
use squall_base::{BitRate, Duration, Probability, Time};
use squall_link::settings::{
    Blackout, Capacity, Discipline, DropRule, GilbertElliott, Jitter, JitterShape, LaneSettings,
    LinkSettings, Loss, QueueSettings, Reorder,
};
use squall_link::{Departure, Link};

const RUNS: usize = 5;
const RUN: Span = Span::from_millis(200);
const WARM_UP: Span = Span::from_millis(50);

/// Packets arrive as the driver reads them: a batch at a time. Each takes 1 us of the capacity, so a queue as long as a
/// batch forms, and is empty when the next batch arrives.
const BATCH: u64 = 64;
const PACKET_TIME: Duration = Duration::from_micros(1);

/// Enough for the packets in a millisecond of delay.
const DELAY: Duration = Duration::from_millis(1);

const HEADERS: usize = 40;

fn main() {
    println!(
        "{:<24} {:>6} {:>6} {:>11} {:>10}",
        "case", "bytes", "flows", "Mpackets/s", "ns/packet"
    );
    for len_bytes in [64, 1_500] {
        for flows in [1, 100] {
            for (name, lane) in cases(len_bytes) {
                let ns_per_packet = measure(&lane, len_bytes, flows);
                let millions_per_s = 1e3 / ns_per_packet;
                println!(
                    "{name:<24} {len_bytes:>6} {flows:>6} {millions_per_s:>11.2} {ns_per_packet:>10.0}"
                );
            }
        }
    }
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_default()
}

/// The rate at which a packet takes `PACKET_TIME`.
fn capacity(len_bytes: u64) -> Capacity {
    let bits_per_s = len_bytes * 8 * 1_000_000_000 / PACKET_TIME.as_nanos();
    BitRate::new(bits_per_s).map_or(Capacity::Unlimited, Capacity::Rate)
}

fn fq_codel() -> QueueSettings {
    QueueSettings {
        discipline: Discipline::FqCoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            quantum_bytes: 1_514,
        },
        ..QueueSettings::default()
    }
}

fn cases(len_bytes: u64) -> Vec<(&'static str, LaneSettings)> {
    let delay = LaneSettings {
        delay: DELAY,
        ..LaneSettings::default()
    };
    let one_percent = Loss::Independent(probability(0.01));
    let bursts = GilbertElliott::bursts(probability(0.01), 5.0).map(Loss::GilbertElliott);
    let bursts = bursts.unwrap_or(one_percent);
    let with_rate = LaneSettings {
        capacity: capacity(len_bytes),
        ..delay.clone()
    };
    let with_fq = LaneSettings {
        queue: fq_codel(),
        loss: bursts,
        ..with_rate.clone()
    };
    let everything = LaneSettings {
        blackouts: vec![Blackout {
            from: Duration::from_secs(1),
            length: Duration::from_micros(100),
            every: Some(Duration::from_secs(1)),
        }],
        drops: vec![DropRule::Every {
            n: 1_000,
            class: None,
        }],
        corrupt: probability(0.001),
        duplicate: probability(0.001),
        jitter: Some(Jitter {
            shape: JitterShape::Normal,
            spread: Duration::from_micros(100),
            correlation: probability(0.3),
            may_reorder: false,
        }),
        reorder: Some(Reorder {
            share: probability(0.001),
            by: Duration::from_micros(100),
        }),
        ..with_fq.clone()
    };
    vec![
        (
            "delay + loss",
            LaneSettings {
                loss: one_percent,
                ..delay.clone()
            },
        ),
        ("delay", delay),
        ("rate + drop-tail + delay", with_rate),
        ("rate + fq_codel + bursts", with_fq),
        ("everything", everything),
    ]
}

/// The median of the runs, in nanoseconds of real time per packet.
fn measure(lane: &LaneSettings, len_bytes: u64, flows: u64) -> f64 {
    let mut traffic = Traffic::new(lane, len_bytes, flows);
    traffic.run(WARM_UP);
    let mut runs: Vec<f64> = (0..RUNS).map(|_| traffic.run(RUN)).collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}

/// A link and its traffic, upstream only, because both directions cost the same.
struct Traffic {
    link: Link,
    now: Time,
    headers: Vec<[u8; HEADERS]>,
    len_bytes: usize,
    buffers: Vec<Vec<u8>>,
    sent: u64,
}

impl Traffic {
    fn new(lane: &LaneSettings, len_bytes: u64, flows: u64) -> Traffic {
        Traffic {
            link: Link::new(&LinkSettings::symmetric(lane.clone(), 1), Time::ZERO),
            now: Time::ZERO,
            headers: (0..flows).map(|flow| header(len_bytes, flow)).collect(),
            len_bytes: len_bytes as usize,
            buffers: Vec::new(),
            sent: 0,
        }
    }

    /// Sends batches for about `span` and returns the nanoseconds per packet.
    fn run(&mut self, span: Span) -> f64 {
        let (began, sent_before) = (Instant::now(), self.sent);
        while began.elapsed() < span {
            // The clock is read only once per 16 batches.
            for _ in 0..16 {
                self.send_a_batch();
            }
        }
        began.elapsed().as_nanos() as f64 / (self.sent - sent_before) as f64
    }

    /// One turn of the driver: a batch arrives, then the driver wakes for the packets that leave before the next one.
    fn send_a_batch(&mut self) {
        for _ in 0..BATCH {
            let header = &self.headers[(self.sent % self.headers.len() as u64) as usize];
            let mut buffer = self.buffers.pop().unwrap_or_default();
            buffer.resize(self.len_bytes, 0);
            buffer[..HEADERS].copy_from_slice(header);
            self.link.offer(self.now, Direction::Up, buffer);
            self.sent += 1;
        }
        let next_batch = self.now + Duration::from_nanos(PACKET_TIME.as_nanos() * BATCH);
        while let Some(due) = self.link.next_departure().filter(|due| *due < next_batch) {
            self.now = self.now.max(due);
            while let Some(Departure { packet, .. }) = self.link.take(self.now) {
                // Duplicated packets add buffers.
                if self.buffers.len() < 10_000 {
                    self.buffers.push(packet);
                }
            }
        }
        self.now = next_batch;
    }
}

/// IPv4 and TCP headers of a data packet; checksums are not looked at.
fn header(len_bytes: u64, flow: u64) -> [u8; HEADERS] {
    let mut header = [0; HEADERS];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(len_bytes as u16).to_be_bytes());
    header[9] = 6;
    header[20..22].copy_from_slice(&(40_000 + flow as u16).to_be_bytes());
    header[22..24].copy_from_slice(&80_u16.to_be_bytes());
    header[32] = 5 << 4;
    header[33] = 0x10;
    header
}
