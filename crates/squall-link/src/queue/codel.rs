//! CoDel: packets are dropped at the head when every packet of an interval has waited longer than the target.
//!
//! The state machine is the pseudocode of RFC 8289 (sections 5.2 to 5.6) with the marks of Linux
//! (include/net/codel_impl.h): a packet that can be marked is not dropped, but counts as a drop. `fq_codel` shares it:
//! there each flow has a `State` and all share one `Law`. Not implemented: Linux's ce_threshold, which marks every packet
//! that waits longer than a fixed time, and its fixed-point square root.

use squall_base::record::Fate;
use squall_base::{Duration, Time};

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit, MTU_BYTES, mark};
use crate::component::{Exit, Packet};

/// The parameters, which do not change from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    target: Duration,
    interval: Duration,
    marks_ecn: bool,
    /// The largest packet so far, but at least the MTU (the pseudocode's maxpacket, which "SHOULD use
    /// interface MTU").
    largest_bytes: u64,
}

impl Law {
    pub(super) fn new(target: Duration, interval: Duration, marks_ecn: bool) -> Law {
        Law {
            target,
            interval,
            marks_ecn,
            largest_bytes: MTU_BYTES,
        }
    }

    /// When the next drop is due after one at `at`: the control law (RFC 8289, section 5.6).
    fn next_drop(&self, at: Time, count: u32) -> Time {
        let gap_ns = self.interval.as_nanos() as f64 / f64::from(count).sqrt();
        at + Duration::from_nanos(gap_ns as u64)
    }

    fn marks(&self, packet: &mut Packet) -> bool {
        self.marks_ecn && mark(packet)
    }
}

/// A packet from the head of the queue.
#[derive(Debug)]
pub(super) struct HeadPacket {
    /// When it arrived.
    pub(super) since: Time,
    pub(super) packet: Packet,
    /// Bytes still waiting.
    pub(super) backlog_bytes: u64,
}

/// The verdict on the head of the queue.
enum Head {
    Empty,
    /// It waited less than the target, or the queue has not been above the target for long enough.
    Good(Packet),
    /// The queue has been above the target for an interval (the pseudocode's ok_to_drop).
    Late(Packet),
}

impl Head {
    fn packet(self) -> Option<Packet> {
        match self {
            Head::Empty => None,
            Head::Good(packet) | Head::Late(packet) => Some(packet),
        }
    }
}

/// CoDel's state for one queue. The names are the pseudocode's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// When packets may be dropped, if the wait stays above the target until then.
    first_above: Option<Time>,
    is_dropping: bool,
    drop_next: Time,
    /// Drops since dropping began, with a start value that may exceed 1.
    count: u32,
    /// `count` when dropping last began.
    last_count: u32,
}

impl State {
    /// The next packet to leave (section 5.5). `take` pops the head of the queue.
    pub(super) fn dequeue(
        &mut self,
        now: Time,
        law: &mut Law,
        exit: &mut Exit,
        mut take: impl FnMut() -> Option<HeadPacket>,
    ) -> Option<Packet> {
        let mut packet = match self.judge(now, law, take()) {
            Head::Late(packet) => packet,
            head => {
                self.is_dropping = false;
                return head.packet();
            }
        };
        if !self.is_dropping {
            return self.begin_to_drop(now, law, exit, packet, take);
        }
        while now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if law.marks(&mut packet) {
                self.drop_next = law.next_drop(self.drop_next, self.count);
                break;
            }
            exit.drop(packet, Fate::EarlyDrop);
            packet = match self.judge(now, law, take()) {
                Head::Late(next) => next,
                head => {
                    self.is_dropping = false;
                    return head.packet();
                }
            };
            self.drop_next = law.next_drop(self.drop_next, self.count);
        }
        Some(packet)
    }

    fn begin_to_drop(
        &mut self,
        now: Time,
        law: &mut Law,
        exit: &mut Exit,
        mut late: Packet,
        mut take: impl FnMut() -> Option<HeadPacket>,
    ) -> Option<Packet> {
        let next = if law.marks(&mut late) {
            Some(late)
        } else {
            exit.drop(late, Fate::EarlyDrop);
            self.judge(now, law, take()).packet()
        };
        self.is_dropping = true;
        // The rate that recently controlled the queue is a good start for controlling it now.
        self.count = if self.remembers(now, law) {
            self.count - self.last_count
        } else {
            1
        };
        self.last_count = self.count;
        self.drop_next = law.next_drop(now, self.count);
        next
    }

    /// Whether the previous dropping phase still matters if dropping begins at `now`. Once it does not, it never will
    /// again.
    pub(super) fn remembers(&self, now: Time, law: &Law) -> bool {
        let is_recent = now.since(self.drop_next).as_nanos() / 16 < law.interval.as_nanos();
        self.count - self.last_count > 1 && is_recent
    }

    /// The pseudocode's dodequeue (section 5.6).
    fn judge(&mut self, now: Time, law: &mut Law, taken: Option<HeadPacket>) -> Head {
        let Some(taken) = taken else {
            self.first_above = None;
            return Head::Empty;
        };
        law.largest_bytes = law.largest_bytes.max(taken.packet.len());
        if now.since(taken.since) < law.target || taken.backlog_bytes <= law.largest_bytes {
            self.first_above = None;
            return Head::Good(taken.packet);
        }
        match self.first_above {
            Some(first_above) if now >= first_above => Head::Late(taken.packet),
            Some(_) => Head::Good(taken.packet),
            None => {
                self.first_above = Some(now + law.interval);
                Head::Good(taken.packet)
            }
        }
    }
}

/// One queue for all flows, controlled by its delay.
#[derive(Debug)]
pub(crate) struct CoDel {
    limit: Limit,
    law: Law,
    state: State,
    waiting: Fifo,
}

impl CoDel {
    pub(super) fn new(limit: Limit, law: Law) -> CoDel {
        CoDel {
            limit,
            law,
            state: State::default(),
            waiting: Fifo::default(),
        }
    }
}

impl Discipline for CoDel {
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        if !self.limit.has_room(self.depth(), &packet) {
            return exit.drop(packet, Fate::QueueDrop);
        }
        self.waiting.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, exit: &mut Exit) -> Option<Packet> {
        let waiting = &mut self.waiting;
        self.state.dequeue(now, &mut self.law, exit, || {
            let (since, packet) = waiting.pop()?;
            Some(HeadPacket {
                since,
                packet,
                backlog_bytes: waiting.depth().bytes,
            })
        })
    }

    fn depth(&self) -> Depth {
        self.waiting.depth()
    }

    fn drain(&mut self) -> Vec<Packet> {
        self.waiting.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{UNLIMITED, at_ms, ecn_packet, packet};
    use super::*;

    fn codel(marks_ecn: bool) -> CoDel {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        CoDel::new(UNLIMITED, Law::new(target, interval, marks_ecn))
    }

    /// Enqueues 1,000 full packets at `from` and dequeues one each millisecond until `to`. Returns the milliseconds at
    /// which packets were dropped, and those at which marked packets left.
    fn signals(queue: &mut CoDel, from: u64, to: u64, make: fn(u32) -> Packet) -> [Vec<u64>; 2] {
        let mut signals = [Vec::new(), Vec::new()];
        let mut exit = Exit::default();
        for index in 0..1_000 {
            queue.enqueue(at_ms(from), make(index), &mut exit);
        }
        for ms in from + 1..=to {
            let left = queue.dequeue(at_ms(ms), &mut exit).unwrap();
            if left.record.is_marked {
                signals[1].push(ms);
            }
            for dropped in exit.dropped.drain(..) {
                assert_eq!(dropped.record.fate, Fate::EarlyDrop);
                signals[0].push(ms);
            }
        }
        signals
    }

    fn full(index: u32) -> Packet {
        packet(0, index, 1_500)
    }

    fn full_ecn(index: u32) -> Packet {
        ecn_packet(0, index, 1_500)
    }

    /// The wait reaches 5 ms at 5, so the first drop is at 105 and the next at 205. From there on the n-th is due
    /// 100/sqrt(n) after the (n-1)-th: 70.71, 57.74, 50, 44.72, 40.82, 37.80, 35.36 ms. Due at 275.71, 333.45, 383.45,
    /// 428.17, 468.99, 506.79, 542.14; each happens at the next whole millisecond.
    const SCHEDULE_MS: [u64; 9] = [105, 205, 276, 334, 384, 429, 469, 507, 543];

    #[test]
    fn drops_start_after_an_interval_and_follow_the_control_law() {
        let [dropped, marked] = signals(&mut codel(true), 0, 560, full);
        assert_eq!(dropped, SCHEDULE_MS);
        assert_eq!(marked, []);
    }

    #[test]
    fn marks_replace_drops_if_both_flow_and_queue_support_ecn() {
        assert_eq!(
            signals(&mut codel(true), 0, 560, full_ecn),
            [Vec::new(), SCHEDULE_MS.to_vec()]
        );
        assert_eq!(
            signals(&mut codel(false), 0, 560, full_ecn),
            [SCHEDULE_MS.to_vec(), Vec::new()]
        );
    }

    /// After the schedule above the count is 9, 8 more than at its beginning. If dropping resumes within 16 intervals, the
    /// count begins at 8: 100/sqrt(8) = 35.36 ms to the second drop, 100/sqrt(9) = 33.33 to the third, 100/sqrt(10) = 31.62
    /// to the fourth. If it resumes later, the count begins at 1.
    #[test]
    fn dropping_resumes_at_its_last_rate_if_it_stopped_recently() {
        for (back, expected) in [
            (600, [705, 741, 774, 806]),
            (3_000, [3_105, 3_205, 3_276, 3_334]),
        ] {
            let mut queue = codel(false);
            signals(&mut queue, 0, 560, full);
            while queue.dequeue(at_ms(560), &mut Exit::default()).is_some() {}
            let [dropped, _] = signals(&mut queue, back, back + 340, full);
            assert_eq!(dropped[..4], expected);
        }
    }

    /// Nothing is dropped, however long packets wait: at most one packet is left after the one that leaves, and dropping it
    /// would leave the line idle.
    #[test]
    fn nothing_is_dropped_from_a_queue_of_one_packet() {
        let mut queue = codel(false);
        let mut exit = Exit::default();
        queue.enqueue(at_ms(0), full(0), &mut exit);
        for step in 1..100 {
            queue.enqueue(at_ms(step * 50), full(step as u32), &mut exit);
            assert!(queue.dequeue(at_ms(step * 50), &mut exit).is_some());
        }
        assert!(exit.dropped.is_empty());
    }

    /// After one packet below the target, the interval starts anew.
    #[test]
    fn a_single_good_packet_resets_the_interval() {
        let mut queue = codel(false);
        let mut exit = Exit::default();
        let mut index = 0;
        for ms in 0..1_000 {
            // A burst every 90 ms that takes 60 ms to leave: its wait is above the target for less than an interval.
            if ms % 90 == 0 {
                for _ in 0..60 {
                    queue.enqueue(at_ms(ms), full(index), &mut exit);
                    index += 1;
                }
            }
            queue.dequeue(at_ms(ms), &mut exit);
        }
        assert!(exit.dropped.is_empty());
    }
}
