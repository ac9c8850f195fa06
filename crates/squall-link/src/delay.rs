//! Delay: a packet leaves one delay after it arrived; jitter varies the delay, and some packets are held back.
//!
//! The planned time is the time of entry plus the delay, never "now" plus something, so one packet's lateness does not move the
//! next. Order is kept across all flows unless the settings allow packets to overtake: if a packet would leave too soon, it
//! leaves together with the one before it. That also holds when the delay gets shorter; a change applies to packets that arrive
//! after it.
//!
//! A held-back packet leaves that much later than it would have in order, and packets after it do not wait for it. How long a
//! delay with jitter is, is decided in `jitter`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use squall_base::{Duration, Time};

use crate::component::{Component, Exit, Packet};
use crate::jitter::Variation;
use crate::random::{Luck, Purpose};
use crate::settings::{LaneSettings, Reorder};

/// Packets being delayed.
#[derive(Debug)]
pub(crate) struct Delay {
    luck: Luck,
    delay: Duration,
    variation: Option<Variation>,
    reorder: Option<Reorder>,
    /// Packets in order of entry; their times never go back.
    in_order: VecDeque<(Time, u64, Packet)>,
    /// Packets that others may overtake, or that overtake others.
    out_of_order: BinaryHeap<Reverse<Loose>>,
    /// When the last packet that keeps order is due.
    last_due: Time,
    entered: u64,
}

/// A packet outside the order; compared by when it is due, then by entry.
#[derive(Debug)]
struct Loose {
    due: Time,
    entry: u64,
    packet: Packet,
}

impl PartialEq for Loose {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Loose {}

impl PartialOrd for Loose {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Loose {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.entry).cmp(&(other.due, other.entry))
    }
}

impl Delay {
    pub(crate) fn new(settings: &LaneSettings, luck: Luck) -> Delay {
        Delay {
            luck,
            delay: settings.delay,
            variation: settings.jitter.map(|jitter| Variation::new(jitter, luck)),
            reorder: settings.reorder,
            in_order: VecDeque::new(),
            out_of_order: BinaryHeap::new(),
            last_due: Time::ZERO,
            entered: 0,
        }
    }

    /// Whether the packet that is due first, by time and then by entry, is outside the order; `None` without packets.
    fn first_is_loose(&self) -> Option<bool> {
        let ordered = self.in_order.front().map(|(due, entry, _)| (*due, *entry));
        let loose = self.out_of_order.peek().map(|Reverse(l)| (l.due, l.entry));
        match (ordered, loose) {
            (None, None) => None,
            (Some(_), None) => Some(false),
            (None, Some(_)) => Some(true),
            (Some(ordered), Some(loose)) => Some(loose < ordered),
        }
    }

    fn let_loose(&mut self, due: Time, entry: u64, packet: Packet) {
        let loose = Loose { due, entry, packet };
        self.out_of_order.push(Reverse(loose));
    }

    /// The packet that is due first.
    fn pop(&mut self) -> Option<Packet> {
        if self.first_is_loose()? {
            self.out_of_order.pop().map(|Reverse(loose)| loose.packet)
        } else {
            self.in_order.pop_front().map(|(_, _, packet)| packet)
        }
    }
}

impl Component for Delay {
    fn enter(&mut self, now: Time, packet: Packet, _exit: &mut Exit) {
        let entry = self.entered;
        self.entered += 1;
        let varied = self.variation.as_mut().map_or(self.delay, |variation| {
            variation.vary(self.delay, packet.key)
        });
        let keeps_order = !self.variation.as_ref().is_some_and(Variation::may_reorder);
        let due = if keeps_order {
            self.last_due.max(now + varied)
        } else {
            now + varied
        };
        let is_held_back = |reorder: &Reorder| {
            self.luck
                .strikes(reorder.share, Purpose::Reorder, packet.key)
        };
        if let Some(Reorder { by, .. }) = self.reorder.filter(is_held_back) {
            self.let_loose(due + by, entry, packet);
        } else if keeps_order {
            self.last_due = due;
            self.in_order.push_back((due, entry, packet));
        } else {
            self.let_loose(due, entry, packet);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let ordered = self.in_order.front().map(|(due, _, _)| *due);
        let loose = self.out_of_order.peek().map(|Reverse(loose)| loose.due);
        ordered.into_iter().chain(loose).min()
    }

    fn wake(&mut self, now: Time, exit: &mut Exit) {
        while self.next_wake().is_some_and(|due| due <= now) {
            if let Some(packet) = self.pop() {
                exit.pass(packet);
            }
        }
    }

    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        self.delay = settings.delay;
        self.reorder = settings.reorder;
        if settings.jitter != self.variation.as_ref().map(Variation::settings) {
            self.variation = settings
                .jitter
                .map(|jitter| Variation::new(jitter, self.luck));
        }
    }

    fn is_transparent(&self) -> bool {
        let changes_nothing =
            self.delay.is_zero() && self.variation.is_none() && self.reorder.is_none();
        changes_nothing && self.in_order.is_empty() && self.out_of_order.is_empty()
    }

    fn transit_at_least(&self) -> Duration {
        if self.variation.is_some() {
            Duration::ZERO
        } else {
            self.delay
        }
    }

    fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(packet) = self.pop() {
            packets.push(packet);
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::tests::{assert_binomial, key};
    use crate::settings::{Jitter, JitterShape};
    use squall_base::Probability;

    const MS: u64 = 1_000_000;

    fn settings(delay_ms: u64) -> LaneSettings {
        LaneSettings {
            delay: Duration::from_millis(delay_ms),
            ..LaneSettings::default()
        }
    }

    fn jitter(may_reorder: bool) -> Option<Jitter> {
        Some(Jitter {
            shape: JitterShape::Uniform,
            spread: Duration::from_millis(5),
            correlation: Probability::ZERO,
            may_reorder,
        })
    }

    fn reorder(share: f64, by_ms: u64) -> Option<Reorder> {
        Some(Reorder {
            share: Probability::new(share).unwrap(),
            by: Duration::from_millis(by_ms),
        })
    }

    /// A delay, and the packets that left it: times in nanoseconds, and numbers.
    struct Run {
        delay: Delay,
        left: Vec<(u64, u32)>,
    }

    impl Run {
        fn new(settings: &LaneSettings) -> Run {
            Run {
                delay: Delay::new(settings, Luck::new(1)),
                left: Vec::new(),
            }
        }

        fn advance(&mut self, until_ns: u64) {
            while let Some(at) = self
                .delay
                .next_wake()
                .filter(|at| at.as_nanos() <= until_ns)
            {
                let mut exit = Exit::default();
                self.delay.wake(at, &mut exit);
                assert!(!exit.passed.is_empty() && exit.dropped.is_empty());
                let numbers = exit.passed.iter().map(|packet| packet.key.class_index);
                self.left
                    .extend(numbers.map(|number| (at.as_nanos(), number)));
            }
        }

        fn enter(&mut self, at_ns: u64, number: u32) {
            self.advance(at_ns);
            let mut exit = Exit::default();
            let packet = Packet::bare(key(0, number), Vec::new());
            self.delay.enter(Time::from_nanos(at_ns), packet, &mut exit);
            assert!(exit.passed.is_empty() && exit.dropped.is_empty());
        }

        fn adopt(&mut self, at_ns: u64, settings: &LaneSettings) {
            self.advance(at_ns);
            let mut exit = Exit::default();
            self.delay
                .adopt(Time::from_nanos(at_ns), settings, &mut exit);
            assert!(exit.passed.is_empty() && exit.dropped.is_empty());
        }

        fn finish(mut self) -> Vec<(u64, u32)> {
            self.advance(u64::MAX);
            self.left
        }

        /// Sends `count` packets, one every `gap_ns`.
        fn steady(settings: &LaneSettings, gap_ns: u64, count: u32) -> Vec<(u64, u32)> {
            let mut run = Run::new(settings);
            for number in 0..count {
                run.enter(u64::from(number) * gap_ns, number);
            }
            run.finish()
        }
    }

    #[test]
    fn a_constant_delay_is_exact_and_keeps_the_order() {
        for gap_ns in [0, 1, 333, 40 * MS] {
            let left = Run::steady(&settings(25), gap_ns, 1_000);
            let due = (0..1_000).map(|number| (u64::from(number) * gap_ns + 25 * MS, number));
            assert!(left.into_iter().eq(due), "gap {gap_ns} ns");
        }
    }

    /// Uses the variation's own delays as the reference: each packet leaves at its time, but not before the one before it.
    #[test]
    fn jitter_keeps_the_order_unless_it_may_reorder() {
        let (count, gap_ns) = (10_000, 300_000);
        for may_reorder in [false, true] {
            let settings = LaneSettings {
                jitter: jitter(may_reorder),
                ..settings(10)
            };
            let mut variation = Variation::new(settings.jitter.unwrap(), Luck::new(1));
            let mut due: Vec<(u64, u32)> = (0..count)
                .map(|number| {
                    let varied = variation.vary(settings.delay, key(0, number));
                    (u64::from(number) * gap_ns + varied.as_nanos(), number)
                })
                .collect();
            let in_time = due.is_sorted();
            if may_reorder {
                due.sort_unstable();
            } else {
                let mut last = 0;
                due.iter_mut().for_each(|(at, _)| {
                    last = last.max(*at);
                    *at = last;
                });
            }
            assert!(!in_time, "a test without any early packet shows nothing");
            assert!(Run::steady(&settings, gap_ns, count) == due);
        }
    }

    /// The numbers of packets that a later one overtook.
    fn overtaken(left: &[(u64, u32)]) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::new();
        let mut highest = 0;
        for (_, number) in left {
            if *number < highest {
                numbers.push(*number);
            }
            highest = highest.max(*number);
        }
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn exactly_the_held_back_packets_are_overtaken() {
        let (count, share) = (100_000, 0.02);
        let settings = LaneSettings {
            reorder: reorder(share, 3),
            ..settings(10)
        };
        let left = Run::steady(&settings, MS, count);
        let is_held_back = |number: &u32| {
            Luck::new(1).strikes(
                Probability::new(share).unwrap(),
                Purpose::Reorder,
                key(0, *number),
            )
        };
        let held_back: Vec<u32> = (0..count).filter(is_held_back).collect();
        for (at, number) in &left {
            let held_ms = if is_held_back(number) { 3 } else { 0 };
            assert_eq!(*at, (u64::from(*number) + 10 + held_ms) * MS);
        }
        // A packet held back by 3 ms is overtaken by the two packets after it; the third one arrives in the same moment and
        // leaves after it. So packets are not overtaken if both of their followers are held back as well, nor are the last
        // ones.
        let is_passed = |number: &&u32| {
            (**number + 1..count.min(**number + 3)).any(|behind| !is_held_back(&behind))
        };
        let expected: Vec<u32> = held_back.iter().filter(is_passed).copied().collect();
        assert_eq!(overtaken(&left), expected);
        assert_binomial(held_back.len(), count, share);
    }

    /// A packet is held back for slightly less time than jitter would have made it wait, and still leaves after those before
    /// it.
    #[test]
    fn a_held_back_packet_does_not_overtake() {
        let settings = LaneSettings {
            jitter: jitter(false),
            reorder: reorder(0.2, 1),
            ..settings(10)
        };
        let left = Run::steady(&settings, MS / 10, 10_000);
        let is_held_back = |number: u32| {
            Luck::new(1).strikes(
                Probability::new(0.2).unwrap(),
                Purpose::Reorder,
                key(0, number),
            )
        };
        let passed = overtaken(&left);
        assert!(!passed.is_empty() && passed.into_iter().all(is_held_back));
        let mut last_held_back = 0;
        for (at, number) in left {
            if is_held_back(number) {
                assert!(at >= last_held_back, "held-back ones keep their order");
                last_held_back = at;
            }
        }
    }

    #[test]
    fn a_change_applies_to_packets_that_arrive_after_it() {
        let mut run = Run::new(&settings(10));
        run.enter(0, 0);
        run.enter(4 * MS, 1);
        run.adopt(5 * MS, &settings(50));
        run.enter(5 * MS, 2);
        run.enter(6 * MS, 3);
        run.adopt(7 * MS, &settings(2));
        run.enter(8 * MS, 4);
        run.enter(60 * MS, 5);
        let loose = LaneSettings {
            jitter: jitter(true),
            ..settings(20)
        };
        run.adopt(60 * MS, &settings(40));
        run.enter(60 * MS, 6);
        run.adopt(60 * MS, &loose);
        run.enter(60 * MS, 7);
        let left = run.finish();
        // Numbers 4 and 5 wait only for those before them; 7 may overtake 6.
        let ms: Vec<(u64, u32)> = left.iter().map(|(at, number)| (at / MS, *number)).collect();
        assert_eq!(
            ms[..6],
            [(10, 0), (14, 1), (55, 2), (56, 3), (56, 4), (62, 5)]
        );
        assert_eq!((ms[6].1, ms[7]), (7, (100, 6)));
    }

    #[test]
    fn a_delay_that_holds_packets_is_not_transparent() {
        let mut run = Run::new(&LaneSettings {
            reorder: reorder(1.0, 5),
            ..settings(0)
        });
        run.enter(0, 0);
        run.adopt(MS, &settings(1));
        run.enter(MS, 1);
        run.adopt(MS, &settings(0));
        assert!(!run.delay.is_transparent());
        let numbers = run
            .delay
            .drain()
            .into_iter()
            .map(|packet| packet.key.class_index);
        assert_eq!(
            numbers.collect::<Vec<u32>>(),
            [1, 0],
            "in the order of leaving"
        );
        assert!(run.delay.is_transparent() && run.delay.next_wake().is_none());
    }
}
