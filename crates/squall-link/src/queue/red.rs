//! Random early detection: arrivals are dropped with a probability that grows with the average queue.
//!
//! Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM Transactions on Networking
//! 1(4), 1993, with Floyd's gentle slope (note of March 2000; ns-2's gentle_): between max and twice max the probability
//! rises from its maximum to 1 rather than jumping there. The average is in bytes, but a small packet is dropped as often
//! as a large one, as in Linux (net/sched/sch_red.c). Not implemented: the adaptive variant.
//!
//! While the line is idle, no arrivals age the average; the paper then ages it by the number of packets that could have
//! been sent. Linux needs the line's rate from the user for that (include/net/red.h, Stab). Here it is measured: when a
//! packet leaves while others wait, the next departure shows how long one takes. The line counts as idle from the time at
//! which it asks for a packet and gets none.

use squall_base::record::Fate;
use squall_base::{Duration, Probability, Time};

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit, mark};
use crate::component::{Exit, Packet};
use crate::random::{Luck, PacketKey, Purpose};

/// Weight of an arrival in the average (the paper's w_q, section 6).
const WEIGHT: f64 = 0.002;
/// Weight of a packet in the average time per packet: that of RFC 6298 for round trips, so that it follows a changing rate.
const PACKET_TIME_WEIGHT: f64 = 0.125;

/// The drop probability as a function of the average queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    min_bytes: f64,
    max_bytes: f64,
    at_max: f64,
}

impl Curve {
    pub(super) fn new(min_bytes: u64, max_bytes: u64, at_max: Probability) -> Curve {
        Curve {
            min_bytes: min_bytes as f64,
            max_bytes: max_bytes as f64,
            at_max: at_max.get(),
        }
    }

    /// The paper's p_b, before drops are spread evenly.
    fn probability(&self, average_bytes: f64) -> f64 {
        let Curve {
            min_bytes,
            max_bytes,
            at_max,
        } = *self;
        match average_bytes {
            average if average < min_bytes => 0.0,
            average if average < max_bytes => {
                at_max * (average - min_bytes) / (max_bytes - min_bytes)
            }
            average if average < 2.0 * max_bytes => {
                at_max + (1.0 - at_max) * (average - max_bytes) / max_bytes
            }
            _ => 1.0,
        }
    }
}

/// The queue's view of the line that it feeds.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// When it asked for a packet and got none; `None` while it is busy.
    idle_since: Option<Time>,
    /// When the last packet left, if others waited after it.
    took_at: Option<Time>,
    /// How long a packet takes, in nanoseconds; `None` before one has been seen.
    packet_time_ns: Option<f64>,
}

impl Line {
    /// A packet leaves, and `waiting` remains.
    fn takes(&mut self, now: Time, waiting: Depth) {
        if let Some(before) = self.took_at {
            let time_ns = now.since(before).as_nanos() as f64;
            let mean_ns = self.packet_time_ns.get_or_insert(time_ns);
            *mean_ns += PACKET_TIME_WEIGHT * (time_ns - *mean_ns);
        }
        self.took_at = (waiting.packets > 0).then_some(now);
    }

    /// Notes that the line asked for a packet while the queue was empty.
    fn falls_idle(&mut self, now: Time) {
        self.took_at = None;
        self.idle_since.get_or_insert(now);
    }

    /// How many packets the line could have sent in `idle`: the paper's m. Zero if the time per packet is unknown; then
    /// hardly anything has ever waited, and the average has almost nothing to forget.
    fn packets_in(&self, idle: Duration) -> f64 {
        self.packet_time_ns
            .map_or(0.0, |time_ns| idle.as_nanos() as f64 / time_ns.max(1.0))
    }
}

/// A queue that drops early, by its average length.
#[derive(Debug)]
pub(crate) struct Red {
    limit: Limit,
    curve: Curve,
    marks_ecn: bool,
    luck: Luck,
    waiting: Fifo,
    average_bytes: f64,
    /// Arrivals since the last early drop or mark, or since the average rose above min.
    spared: u32,
    line: Line,
}

impl Red {
    pub(super) fn new(limit: Limit, curve: Curve, marks_ecn: bool, luck: Luck) -> Red {
        Red {
            limit,
            curve,
            marks_ecn,
            luck,
            waiting: Fifo::default(),
            average_bytes: 0.0,
            spared: 0,
            line: Line::default(),
        }
    }

    /// Updates the average for an arrival, which itself is not counted.
    fn average(&mut self, now: Time) {
        match self.line.idle_since.take() {
            Some(since) => {
                let missed = self.line.packets_in(now.since(since));
                self.average_bytes *= (1.0 - WEIGHT).powf(missed);
            }
            None => {
                let waiting_bytes = self.waiting.depth().bytes as f64;
                self.average_bytes += WEIGHT * (waiting_bytes - self.average_bytes);
            }
        }
    }

    /// Whether an arrival is dropped or marked early. The count of those spared makes the gaps between drops uniform rather
    /// than geometric (section 7 of the paper): 1 to 1/p_b packets from one to the next.
    fn strikes(&mut self, key: PacketKey) -> bool {
        let basic = self.curve.probability(self.average_bytes);
        if basic <= 0.0 {
            self.spared = 0;
            return false;
        }
        let unspent = 1.0 - f64::from(self.spared) * basic;
        let probability = if unspent > basic {
            basic / unspent
        } else {
            1.0
        };
        let probability = Probability::new(probability).unwrap_or_default();
        let is_struck = self.luck.strikes(probability, Purpose::Early, key);
        self.spared = if is_struck { 0 } else { self.spared + 1 };
        is_struck
    }
}

impl Discipline for Red {
    fn enqueue(&mut self, now: Time, mut packet: Packet, exit: &mut Exit) {
        self.average(now);
        let is_struck = self.strikes(packet.key);
        if !self.limit.has_room(self.depth(), &packet) {
            return exit.drop(packet, Fate::QueueDrop);
        }
        if is_struck && !(self.marks_ecn && mark(&mut packet)) {
            return exit.drop(packet, Fate::EarlyDrop);
        }
        self.waiting.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _exit: &mut Exit) -> Option<Packet> {
        let Some((_, packet)) = self.waiting.pop() else {
            self.line.falls_idle(now);
            return None;
        };
        self.line.takes(now, self.waiting.depth());
        Some(packet)
    }

    fn depth(&self) -> Depth {
        self.waiting.depth()
    }

    fn drain(&mut self) -> Vec<Packet> {
        self.line.took_at = None;
        self.waiting.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{UNLIMITED, at_ms, ecn_packet, packet};
    use super::*;

    const LEN: usize = 100;

    /// A minimum of 1,000 bytes, and a maximum of 3,000 bytes at which the probability is 4 %.
    fn red(marks_ecn: bool) -> Red {
        let curve = Curve::new(1_000, 3_000, Probability::new(0.04).unwrap());
        Red::new(UNLIMITED, curve, marks_ecn, Luck::new(5))
    }

    /// Keeps `depth` packets in the queue while others come and go, long enough for the average to reach `depth`, and then
    /// for `arrivals` more. Returns for each of these whether it was dropped early.
    fn steady(queue: &mut Red, depth: u32, arrivals: u32) -> Vec<bool> {
        // 0.998^20,000 is 4e-18: nothing of the start is left.
        const WARM_UP: u32 = 20_000;
        let mut exit = Exit::default();
        let mut fates = Vec::new();
        for index in 0..WARM_UP + arrivals {
            queue.enqueue(Time::ZERO, packet(0, index, LEN), &mut exit);
            let is_dropped = exit.dropped.pop().is_some();
            if queue.depth().packets > u64::from(depth) {
                queue.dequeue(Time::ZERO, &mut exit);
            }
            if index >= WARM_UP {
                fates.push(is_dropped);
            }
        }
        fates
    }

    /// At 2,000 bytes p_b is 0.02, so that gaps are uniform from 1 to 50. Chi-squared with 49 degrees of freedom
    /// exceeds 85.4 once in 1,000.
    #[test]
    fn gaps_between_drops_are_uniform() {
        let fates = steady(&mut red(false), 20, 500_000);
        let at: Vec<usize> = (0..fates.len()).filter(|i| fates[*i]).collect();
        let mut counts = [0_u32; 50];
        for pair in at.windows(2) {
            counts[pair[1] - pair[0] - 1] += 1;
        }
        let expected = f64::from(counts.iter().sum::<u32>()) / 50.0;
        let chi_squared: f64 = counts
            .iter()
            .map(|count| (f64::from(*count) - expected).powi(2) / expected)
            .sum();
        assert!(chi_squared < 85.4, "{chi_squared}: {counts:?}");
    }

    /// A gap is n with probability p_b for each n up to 1/p_b, and the remainder falls on the next n. By the central limit
    /// theorem for renewals the number of drops in N arrivals has mean N/m and variance N s^2/m^3, with m and s^2 of the
    /// gaps; the bound is 5 standard deviations.
    #[test]
    fn the_share_dropped_follows_the_curve() {
        let arrivals = 200_000;
        for (depth, basic) in [(15, 0.01), (25, 0.03), (30, 0.04), (36, 0.232), (45, 0.52)] {
            let fates = steady(&mut red(false), depth, arrivals);
            let dropped = fates.iter().filter(|is_dropped| **is_dropped).count() as f64;
            let whole = (1.0 / basic + 1e-9_f64).floor() as u32;
            let rest = 1.0 - basic * f64::from(whole);
            let moment = |power: i32| {
                let of = |n: u32| f64::from(n).powi(power);
                (1..=whole).map(|n| basic * of(n)).sum::<f64>() + rest * of(whole + 1)
            };
            let (mean, variance) = (moment(1), moment(2) - moment(1).powi(2));
            let n = f64::from(arrivals);
            let (expected, sd) = (n / mean, (n * variance / mean.powi(3)).sqrt());
            assert!(
                (dropped - expected).abs() < 5.0 * sd,
                "depth {depth}: {dropped} dropped, expected {expected} +- {sd}"
            );
        }
    }

    #[test]
    fn nothing_is_dropped_below_min_and_everything_above_twice_max() {
        assert!(!steady(&mut red(false), 9, 10_000).contains(&true));
        let mut queue = red(false);
        queue.average_bytes = 6_100.0;
        let mut exit = Exit::default();
        queue.enqueue(Time::ZERO, packet(0, 0, LEN), &mut exit);
        assert_eq!(exit.dropped[0].record.fate, Fate::EarlyDrop);
    }

    #[test]
    fn marks_replace_early_drops() {
        let mut queue = red(true);
        queue.average_bytes = 7_000.0;
        let mut exit = Exit::default();
        queue.enqueue(Time::ZERO, ecn_packet(0, 0, LEN), &mut exit);
        queue.enqueue(Time::ZERO, packet(0, 1, LEN), &mut exit);
        assert_eq!(exit.dropped.len(), 1);
        assert!(!exit.dropped[0].record.is_marked);
        let left = queue.dequeue(Time::ZERO, &mut exit).unwrap();
        assert!(left.record.is_marked);
        assert_eq!(left.bytes[1] & 0b11, 0b11);
    }

    /// Packets take 2 ms each; 1 s without any counts as 500 of them on an empty queue: 0.998^500 = 0.36752.
    #[test]
    fn the_average_ages_while_the_line_is_idle() {
        let mut queue = red(false);
        let mut exit = Exit::default();
        for index in 0..20 {
            queue.enqueue(Time::ZERO, packet(0, index, LEN), &mut exit);
        }
        for turn in 0..=20 {
            queue.dequeue(at_ms(2 * turn), &mut exit);
        }
        let before = queue.average_bytes;
        queue.enqueue(at_ms(40 + 1_000), packet(0, 20, LEN), &mut exit);
        assert!(before > 1.0);
        assert!((queue.average_bytes / before - 0.367_52).abs() < 1e-5);
    }
}
