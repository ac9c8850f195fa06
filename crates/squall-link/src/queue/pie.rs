//! PIE: arrivals are dropped with a probability that a controller adjusts so that the delay approaches the target.
//!
//! It is RFC 8033 with all its safeguards: bursts and small queues pass, the controller is slower while the probability
//! is small, and drops are spread out. The delay is that of the packet that left last, by its timestamp, or zero once
//! the queue is empty, as in Linux (net/sched/sch_pie.c without dq_rate_estimator): timestamps are exact here, and the
//! drain rate of a recorded link varies too much to be estimated.
//!
//! There is no timer: due updates are made before a packet enters or leaves. Their inputs do not change in between, so the
//! result is the same. Not implemented: Linux's extra step above 250 ms, the RFC's switching off of an idle PIE (section
//! 5.3), gains that follow a different update interval, and drops by packet size.

use squall_base::record::Fate;
use squall_base::{Duration, Probability, Time};

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit, MTU_BYTES, mark};
use crate::component::{Exit, Packet};
use crate::random::{Luck, PacketKey, Purpose};

/// How much an update adds to the probability per second of delay above the target (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
/// How much it adds per second by which the delay has grown since the last update.
const BETA: f64 = 1.25;
/// How long a burst may last before anything is dropped (section 4.4).
const MAX_BURST: Duration = Duration::from_millis(150);
/// Below each of these probabilities the controller moves that many times more slowly (section 4.2).
const SLOWER: [(f64, f64); 6] = [
    (0.000_001, 2_048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];
/// The most by which the probability grows at once when it is 0.1 or more (section 5.5).
const MAX_STEP: f64 = 0.02;
/// What is left of the probability after an update without delay (section 4.2).
const DECAY: f64 = 0.98;
/// Up to this probability, ECN-capable packets are marked; above it, they are dropped (section 5.1). At exactly this
/// probability they are marked, as in Linux.
const MAX_MARKED: f64 = 0.1;
/// No drop before the probabilities of the packets since the last one sum up to this (section 5.4).
const FIRST_DROP: f64 = 0.85;
/// A drop is certain when they sum up to this.
const LAST_DROP: f64 = 8.5;
/// The maximum number of missed updates to make up for: 150 s of 15 ms. By then every controller has settled, except one
/// that still creeps because the line is stalled; that one stays where it is.
const MAX_UPDATES_AT_ONCE: u64 = 10_000;

/// The controller: delays in, a probability out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Control {
    target: Duration,
    update: Duration,
    probability: f64,
    /// The delay at the last update.
    delay_before: Duration,
    /// The rest of the time in which nothing is dropped.
    burst_left: Duration,
}

impl Control {
    pub(super) fn new(target: Duration, update: Duration) -> Control {
        Control {
            target,
            // At least 1 ns, so that time advances.
            update: update.max(Duration::from_nanos(1)),
            probability: 0.0,
            delay_before: Duration::ZERO,
            burst_left: MAX_BURST,
        }
    }

    /// One update (section 4.2, and 4.4 for bursts).
    fn step(&mut self, delay: Duration) {
        let above_target = delay.as_secs_f64() - self.target.as_secs_f64();
        let growth = delay.as_secs_f64() - self.delay_before.as_secs_f64();
        let slower = SLOWER.iter().find(|(below, _)| self.probability < *below);
        let divisor = slower.map_or(1.0, |(_, divisor)| *divisor);
        let mut step = (ALPHA * above_target + BETA * growth) / divisor;
        if self.probability >= 0.1 {
            step = step.min(MAX_STEP);
        }
        self.probability += step;
        if delay.is_zero() && self.delay_before.is_zero() {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let is_over = self.probability <= 0.0 && self.is_short(delay) && self.was_short();
        self.burst_left = if is_over {
            MAX_BURST
        } else {
            self.burst_left - self.update
        };
        self.delay_before = delay;
    }

    /// Whether the delay was short at the last update.
    fn was_short(&self) -> bool {
        self.is_short(self.delay_before)
    }

    fn is_short(&self, delay: Duration) -> bool {
        delay.as_nanos() < self.target.as_nanos() / 2
    }
}

/// A queue that drops early, by its delay.
#[derive(Debug)]
pub(crate) struct Pie {
    limit: Limit,
    control: Control,
    marks_ecn: bool,
    luck: Luck,
    waiting: Fifo,
    /// How long the packet that left last had waited; zero if nothing waited after it.
    delay: Duration,
    next_update: Time,
    /// Sum of the probabilities of all arrivals since the last drop or mark.
    accumulated: f64,
}

impl Pie {
    pub(super) fn new(
        now: Time,
        limit: Limit,
        control: Control,
        marks_ecn: bool,
        luck: Luck,
    ) -> Pie {
        Pie {
            limit,
            control,
            marks_ecn,
            luck,
            waiting: Fifo::default(),
            delay: Duration::ZERO,
            next_update: now + control.update,
            accumulated: 0.0,
        }
    }

    /// Makes the updates that are due at `now`.
    fn catch_up(&mut self, now: Time) {
        if now < self.next_update {
            return;
        }
        let update_ns = self.control.update.as_nanos();
        let due = now.since(self.next_update).as_nanos() / update_ns + 1;
        for _ in 0..due.min(MAX_UPDATES_AT_ONCE) {
            let before = self.control;
            self.control.step(self.delay);
            if self.control == before {
                // The controller is at rest: further updates would change nothing.
                break;
            }
        }
        self.next_update += Duration::from_nanos(due * update_ns);
    }

    /// Whether an arrival is dropped or marked early (section 4.1, and 5.4 for the sum). "A couple of packets" means two of
    /// the MTU, as in Linux, not two of a mean size, which would have to be guessed.
    fn strikes(&mut self, key: PacketKey) -> bool {
        let Control {
            probability,
            burst_left,
            ..
        } = self.control;
        let is_calm = self.control.was_short() && probability < 0.2;
        if !burst_left.is_zero() || is_calm || self.waiting.depth().bytes <= 2 * MTU_BYTES {
            return false;
        }
        self.accumulated = if probability > 0.0 {
            self.accumulated + probability
        } else {
            0.0
        };
        if self.accumulated < FIRST_DROP {
            return false;
        }
        let probability = Probability::new(probability).unwrap_or_default();
        self.accumulated >= LAST_DROP || self.luck.strikes(probability, Purpose::Early, key)
    }
}

impl Discipline for Pie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, exit: &mut Exit) {
        self.catch_up(now);
        if !self.limit.has_room(self.depth(), &packet) {
            self.accumulated = 0.0;
            return exit.drop(packet, Fate::QueueDrop);
        }
        if self.strikes(packet.key) {
            self.accumulated = 0.0;
            let may_mark = self.marks_ecn && self.control.probability <= MAX_MARKED;
            if !(may_mark && mark(&mut packet)) {
                return exit.drop(packet, Fate::EarlyDrop);
            }
        }
        self.waiting.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _exit: &mut Exit) -> Option<Packet> {
        self.catch_up(now);
        let (since, packet) = self.waiting.pop()?;
        self.delay = match self.waiting.depth().packets {
            0 => Duration::ZERO,
            _ => now.since(since),
        };
        Some(packet)
    }

    fn depth(&self) -> Depth {
        self.waiting.depth()
    }

    fn drain(&mut self) -> Vec<Packet> {
        self.delay = Duration::ZERO;
        self.waiting.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{UNLIMITED, at_ms, ecn_packet, packet, serve};
    use super::*;

    const FIFTEEN_MS: Duration = Duration::from_millis(15);

    fn pie(marks_ecn: bool) -> Pie {
        let control = Control::new(FIFTEEN_MS, FIFTEEN_MS);
        Pie::new(Time::ZERO, UNLIMITED, control, marks_ecn, Luck::new(3))
    }

    /// A queue of 100 full packets with this probability, a delay of 20 ms and no burst left.
    fn loaded(marks_ecn: bool, probability: f64) -> Pie {
        let mut queue = pie(marks_ecn);
        for index in 0..100 {
            queue.enqueue(Time::ZERO, packet(0, index, 1_500), &mut Exit::default());
        }
        queue.control.probability = probability;
        queue.control.delay_before = Duration::from_millis(20);
        queue.control.burst_left = Duration::ZERO;
        queue
    }

    /// By hand from section 4.2: (0.125 * (delay - 0.015) + 1.25 * growth) / divisor.
    #[test]
    fn the_probability_moves_as_computed_by_hand() {
        let mut control = Control::new(FIFTEEN_MS, FIFTEEN_MS);
        for (delay_ms, expected) in [
            // (0.000625 + 0.025) / 2048
            (20, 0.000_012_512_2),
            // + 0.000625 / 128
            (20, 0.000_017_395_0),
            // + (0.010625 + 0.1) / 128
            (100, 0.000_881_652_8),
            // + 0.010625 / 32
            (100, 0.001_213_684_1),
            // + (0.035625 + 0.25) / 8
            (300, 0.036_916_809),
            // + 0.035625 / 2
            (300, 0.054_729_309),
            // + (0.073125 + 0.375) / 2
            (600, 0.278_791_809),
            // + 0.073125, but 0.02 at most
            (600, 0.298_791_809),
            // - 0.001875 - 0.75, but 0 at least
            (0, 0.0),
        ] {
            control.step(Duration::from_millis(delay_ms));
            assert!(
                (control.probability - expected).abs() < 1e-8 * expected.max(0.1),
                "{} instead of {expected}",
                control.probability
            );
        }
    }

    /// From 1, with 600 ms before: 1 - 0.751875 = 0.248125, then (0.248125 - 0.001875) * 0.98 = 0.241325.
    #[test]
    fn without_delay_the_probability_decays_to_zero_and_bursts_are_allowed_again() {
        let mut queue = pie(false);
        queue.control.probability = 1.0;
        queue.control.delay_before = Duration::from_millis(600);
        queue.control.burst_left = Duration::ZERO;
        for (at, expected) in [(15, 0.248_125), (30, 0.241_325)] {
            queue.catch_up(at_ms(at));
            assert!((queue.control.probability - expected).abs() < 1e-12);
        }
        queue.catch_up(at_ms(60_000));
        assert_eq!(queue.control.probability, 0.0);
        assert_eq!(queue.control.burst_left, MAX_BURST);
        assert_eq!(queue.next_update, at_ms(60_015));
        // Years later, at once.
        queue.catch_up(Time::from_nanos(u64::MAX / 2));
    }

    /// Updates made late, all at once, have the same result as updates made in time.
    #[test]
    fn late_updates_have_the_same_result_as_punctual_ones() {
        let (mut late, mut in_time) = (loaded(false, 0.3), loaded(false, 0.3));
        for queue in [&mut late, &mut in_time] {
            queue.dequeue(at_ms(14), &mut Exit::default());
        }
        (15..900).for_each(|ms| in_time.catch_up(at_ms(ms)));
        late.catch_up(at_ms(899));
        assert_eq!(late.control, in_time.control);
        assert_eq!(late.next_update, in_time.next_update);
    }

    /// A queue that is empty for long, then bursts: nothing is dropped in the first 150 ms of delay.
    #[test]
    fn nothing_is_dropped_in_the_first_150_ms_of_a_burst() {
        let mut queue = pie(false);
        // Packets arrive at twice the rate of a server that takes 1 ms for each.
        let arrivals = (0..2_000_u32).map(|i| {
            let at = Time::from_nanos(u64::from(i) * 500_000);
            (at, packet(0, i, 1_000))
        });
        let outcome = serve(&mut queue, arrivals, 1_000);
        assert!(outcome.dropped.iter().all(|(at, _)| *at >= at_ms(150)));
        assert!(!outcome.dropped.is_empty());
    }

    /// Half of the arrivals must be dropped, which takes a probability between 0.1 and 1. There the controller is an
    /// integrator without a divisor, and over n updates the probability moves by n * 0.125/s * (mean delay - target) +
    /// 1.25/s * (last - first delay). It moves by less than 1, so 3,333 updates bound the mean's distance by 2.4 ms, and
    /// the second term adds 0.2 ms with delays below 60 ms. No step reaches its cap: the delay grows by at most 7.5 ms per
    /// update, which makes 0.0094 + 0.0056.
    #[test]
    fn a_twofold_overload_is_held_at_the_target() {
        let mut queue = pie(false);
        let arrivals = (0..140_000_u32).map(|i| {
            let at = Time::from_nanos(u64::from(i) * 500_000);
            (at, packet(0, i, 1_000))
        });
        let outcome = serve(&mut queue, arrivals, 1_000);
        let waits = outcome.waits(0);
        let settled = &waits[20_000..70_000];
        let longest = settled.iter().max().unwrap().as_millis_f64();
        let sum: f64 = settled.iter().map(|wait| wait.as_millis_f64()).sum();
        let mean = sum / settled.len() as f64;
        assert!(
            (mean - 15.0).abs() < 2.6 && longest < 60.0,
            "{mean} {longest}"
        );
    }

    /// With probability p, packets are spared until the sum reaches 0.85, then dropped with p each, and for certain when
    /// the sum reaches 8.5. So p = 0.5 spares the first of each gap and has a mean gap of 1 + 2 (the certain drop after 17
    /// changes this by 2^-15). The variance of a geometric gap is (1-p)/p^2 = 2, so N arrivals have N/3 drops with a
    /// variance of N * 2/27; the bound is 5 standard deviations.
    #[test]
    fn early_drops_are_spread_out() {
        let mut queue = loaded(false, 0.5);
        let (arrivals, mut exit) = (100_000_u32, Exit::default());
        for index in 0..arrivals {
            queue.enqueue(Time::ZERO, packet(0, 100 + index, 1_500), &mut exit);
        }
        let n = f64::from(arrivals);
        let dropped = exit.dropped.len() as f64;
        let sd = (n * 2.0 / 27.0).sqrt();
        assert!((dropped - n / 3.0).abs() < 5.0 * sd, "{dropped} +- {sd}");
        let together = exit
            .dropped
            .windows(2)
            .any(|pair| pair[1].record.class_index - pair[0].record.class_index == 1);
        assert!(!together);
    }

    #[test]
    fn marks_replace_drops_up_to_a_tenth() {
        for (probability, marks_ecn, is_marked) in
            [(0.1, true, true), (0.11, true, false), (0.1, false, false)]
        {
            let mut queue = loaded(marks_ecn, probability);
            let mut exit = Exit::default();
            for index in 0..1_000 {
                queue.enqueue(Time::ZERO, ecn_packet(0, 100 + index, 1_500), &mut exit);
            }
            assert_eq!(exit.dropped.is_empty(), is_marked);
            let marked = queue.drain().iter().filter(|p| p.record.is_marked).count();
            assert_eq!(marked > 0, is_marked);
        }
    }

    #[test]
    fn small_queues_and_short_delays_cause_no_early_drops() {
        for (waiting, delay_ms, probability, is_spared) in [
            (2, 20, 1.0, true),
            (3, 20, 1.0, false),
            (3, 7, 0.19, true),
            (3, 7, 1.0, false),
        ] {
            let mut queue = loaded(false, probability);
            while queue.depth().packets > waiting {
                queue.waiting.pop();
            }
            queue.control.delay_before = Duration::from_millis(delay_ms);
            queue.accumulated = LAST_DROP;
            let mut exit = Exit::default();
            queue.enqueue(Time::ZERO, packet(0, 100, 1_500), &mut exit);
            assert_eq!(exit.dropped.is_empty(), is_spared);
        }
    }
}
