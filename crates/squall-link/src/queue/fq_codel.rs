//! FQ-CoDel: a queue for each flow, served in turn by bytes, new flows first, with CoDel in each (RFC 8290).
//!
//! Flows are the link's, by addresses, protocol and ports, not hashed into 1,024 queues: two flows never share a queue.
//! When there is no room, packets are dropped from the head of the fattest flow, as many as needed (section 5.2.3). Linux
//! drops up to 64 at a time to save work (section 4.1; net/sched/sch_fq_codel.c also makes CoDel count them). As in Linux,
//! CoDel's test for a small backlog uses all flows' bytes. Turns count the bytes of IP packets. CoDel's state machine is
//! `codel`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use squall_base::Time;
use squall_base::record::Fate;

use super::codel::{HeadPacket, Law, State};
use super::fifo::Fifo;
use super::{Depth, Discipline, Limit};
use crate::component::{Exit, Packet};

/// The queue of one flow.
#[derive(Debug, Default)]
struct Flow {
    waiting: Fifo,
    codel: State,
    /// Bytes that it may still send in its turn; negative if its last packet exceeded that.
    credit_bytes: i64,
    /// Whether it is in the list of new or old flows, and so has turns.
    is_listed: bool,
}

/// A queue for each flow.
#[derive(Debug)]
pub(crate) struct FqCoDel {
    limit: Limit,
    law: Law,
    quantum_bytes: i64,
    depth: Depth,
    /// Flows that have turns, or whose CoDel state may matter again.
    flows: BTreeMap<u32, Flow>,
    /// Flows that became active with nothing waiting, in order of their turns.
    new: VecDeque<u32>,
    /// Flows that have already had a turn.
    old: VecDeque<u32>,
}

impl FqCoDel {
    pub(super) fn new(limit: Limit, law: Law, quantum_bytes: u32) -> FqCoDel {
        FqCoDel {
            limit,
            law,
            // At least 1, so that turns end.
            quantum_bytes: i64::from(quantum_bytes.max(1)),
            depth: Depth::default(),
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// The flow whose turn it is: the first with credit among the new flows, otherwise among the old (section 4.2).
    fn turn(&mut self) -> Option<u32> {
        loop {
            let list = if self.new.is_empty() {
                &mut self.old
            } else {
                &mut self.new
            };
            let number = *list.front()?;
            let flow = self.flows.entry(number).or_default();
            if flow.credit_bytes > 0 {
                return Some(number);
            }
            flow.credit_bytes += self.quantum_bytes;
            list.pop_front();
            self.old.push_back(number);
        }
    }

    /// Ends the turn of a flow that has nothing left. A new flow gets one more turn among the old, because otherwise it
    /// could starve them by returning as new each time (section 4.2). Returns whether that was its last turn.
    fn end_turn(&mut self, number: u32) -> bool {
        let was_new = self.new.pop_front().is_some();
        if was_new {
            self.old.push_back(number);
        } else {
            self.old.pop_front();
        }
        !was_new
    }

    /// Removes a flow from those that have turns; it is new when it returns.
    fn retire(&mut self, now: Time, number: u32) {
        let flow = self.flows.entry(number).or_default();
        flow.is_listed = false;
        if !flow.codel.remembers(now, &self.law) {
            self.flows.remove(&number);
        }
    }

    /// Drops the oldest packet of the flow with the most bytes; among several, the first.
    fn drop_from_fattest(&mut self, exit: &mut Exit) {
        let busy = self
            .flows
            .iter_mut()
            .filter(|(_, flow)| flow.waiting.depth().packets > 0);
        let fattest =
            busy.max_by_key(|(number, flow)| (flow.waiting.depth().bytes, Reverse(**number)));
        if let Some((_, packet)) = fattest.and_then(|(_, flow)| flow.waiting.pop()) {
            self.depth.remove(&packet);
            exit.drop(packet, Fate::QueueDrop);
        }
    }
}

impl Discipline for FqCoDel {
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        if !self.limit.can_ever_hold(&packet) {
            // Dropping others for it would gain nothing.
            return exit.drop(packet, Fate::QueueDrop);
        }
        let number = packet.record.flow;
        let flow = self.flows.entry(number).or_default();
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit_bytes = self.quantum_bytes;
            self.new.push_back(number);
        }
        self.depth.add(&packet);
        flow.waiting.push(now, packet);
        while !self.limit.holds(self.depth) {
            self.drop_from_fattest(exit);
        }
    }

    fn dequeue(&mut self, now: Time, exit: &mut Exit) -> Option<Packet> {
        while let Some(number) = self.turn() {
            let (depth, flow) = (&mut self.depth, self.flows.entry(number).or_default());
            let waiting = &mut flow.waiting;
            let next = flow.codel.dequeue(now, &mut self.law, exit, || {
                let (since, packet) = waiting.pop()?;
                depth.remove(&packet);
                Some(HeadPacket {
                    since,
                    packet,
                    backlog_bytes: depth.bytes,
                })
            });
            if let Some(packet) = next {
                flow.credit_bytes -= packet.len() as i64;
                return Some(packet);
            }
            if self.end_turn(number) {
                self.retire(now, number);
            }
        }
        None
    }

    fn depth(&self) -> Depth {
        self.depth
    }

    /// In the order in which they would leave if CoDel dropped nothing.
    fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(number) = self.turn() {
            let flow = self.flows.entry(number).or_default();
            match flow.waiting.pop() {
                Some((_, packet)) => {
                    flow.credit_bytes -= packet.len() as i64;
                    packets.push(packet);
                }
                None => {
                    self.end_turn(number);
                }
            }
        }
        self.flows.clear();
        self.depth = Depth::default();
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{UNLIMITED, at_ms, ecn_packet, limit_packets, packet, serve};
    use super::*;
    use squall_base::Duration;

    const QUANTUM: u32 = 1_514;

    fn fq(limit: Limit, target: Duration, marks_ecn: bool) -> FqCoDel {
        let law = Law::new(target, Duration::from_millis(100), marks_ecn);
        FqCoDel::new(limit, law, QUANTUM)
    }

    /// Effectively without CoDel, since no packet waits as long as its target.
    fn round_robin() -> FqCoDel {
        fq(UNLIMITED, Duration::from_secs(1_000), false)
    }

    /// At 1 ms per full packet, a bulk flow (flow 0) overloads the queue for 2 s, and a thin flow sends a packet of 100
    /// bytes every 10 ms.
    fn bulk_and_thin(make: fn(u32, u32, usize) -> Packet) -> Vec<(Time, Packet)> {
        let bulk =
            (0..4_000_u32).map(|i| (Time::from_nanos(u64::from(i) * 500_000), make(0, i, 1_500)));
        let thin = (0..200_u32).map(|i| (at_ms(u64::from(i) * 10 + 5), make(1, i, 100)));
        let mut arrivals: Vec<_> = bulk.chain(thin).collect();
        arrivals.sort_by_key(|(at, _)| *at);
        arrivals
    }

    const NS_PER_BYTE: u64 = 667;

    /// A thin flow waits for the packet being sent and, if its last turn was among the old flows, for a quantum of the bulk
    /// flow: two full packets at most.
    #[test]
    fn a_bulk_flow_does_not_delay_a_thin_flow() {
        let mut queue = round_robin();
        let outcome = serve(&mut queue, bulk_and_thin(packet).into_iter(), NS_PER_BYTE);
        let full_packet = Duration::from_nanos(1_500 * NS_PER_BYTE);
        assert_eq!(outcome.waits(1).len(), 200);
        assert!(
            outcome
                .waits(1)
                .iter()
                .all(|wait| *wait <= full_packet + full_packet + full_packet)
        );
        assert!(outcome.waits(0).iter().max().unwrap() > &Duration::from_secs(1));
    }

    #[test]
    fn a_new_flow_goes_before_old_ones_once() {
        let mut queue = round_robin();
        let mut exit = Exit::default();
        for index in 0..4 {
            queue.enqueue(Time::ZERO, packet(0, index, 1_500), &mut exit);
            queue.enqueue(Time::ZERO, packet(1, index, 1_500), &mut exit);
        }
        let mut next =
            |queue: &mut FqCoDel| queue.dequeue(at_ms(1), &mut exit).unwrap().record.flow;
        // A quantum is 1,514 bytes, so that each flow sends two full packets the first time.
        let first: Vec<u32> = (0..4).map(|_| next(&mut queue)).collect();
        assert_eq!(first, [0, 0, 1, 1]);
        let arrive = |queue: &mut FqCoDel, index| {
            queue.enqueue(at_ms(1), packet(2, index, 100), &mut Exit::default());
        };
        arrive(&mut queue, 0);
        assert_eq!(next(&mut queue), 2);
        // For its second packet, this flow is among the old ones: 0 and 1 go first.
        assert_eq!(next(&mut queue), 0);
        arrive(&mut queue, 1);
        let then: Vec<u32> = (0..2).map(|_| next(&mut queue)).collect();
        assert_eq!(then, [1, 2]);
    }

    /// While all flows have packets waiting, a flow has sent the quanta of its ended turns and less than a packet more, and
    /// the numbers of turns differ by at most one. So the bytes differ by less than a quantum plus the largest packet.
    #[test]
    fn flows_share_the_line_by_bytes_not_packets() {
        let mut queue = round_robin();
        let mut exit = Exit::default();
        let lens = [1_500, 500, 100];
        for (flow, len) in (0..).zip(lens) {
            for index in 0..(300_000 / len) {
                queue.enqueue(Time::ZERO, packet(flow, index as u32, len), &mut exit);
            }
        }
        let mut sent_bytes = [0_u64; 3];
        while sent_bytes.iter().all(|bytes| *bytes < 250_000) {
            let left = queue.dequeue(at_ms(1), &mut exit).unwrap();
            sent_bytes[left.record.flow as usize] += left.len();
            let (least, most) = (sent_bytes.iter().min(), sent_bytes.iter().max());
            assert!(
                most.unwrap() - least.unwrap() < u64::from(QUANTUM) + 1_500,
                "{sent_bytes:?}"
            );
        }
    }

    /// CoDel acts only on the flow that fills its queue; with ECN its packets are marked instead.
    #[test]
    fn codel_acts_only_on_the_bulk_flow() {
        let target = Duration::from_millis(5);
        let mut plain = fq(UNLIMITED, target, true);
        let outcome = serve(&mut plain, bulk_and_thin(packet).into_iter(), NS_PER_BYTE);
        assert!(outcome.dropped.len() > 10);
        let is_right = |p: &Packet| p.record.flow == 0 && p.record.fate == Fate::EarlyDrop;
        assert!(outcome.dropped.iter().all(|(_, packet)| is_right(packet)));
        let mut marking = fq(UNLIMITED, target, true);
        let outcome = serve(
            &mut marking,
            bulk_and_thin(ecn_packet).into_iter(),
            NS_PER_BYTE,
        );
        assert!(outcome.dropped.is_empty());
        let marked = outcome
            .left
            .iter()
            .filter(|(_, packet)| packet.record.is_marked);
        let flows: Vec<u32> = marked.map(|(_, packet)| packet.record.flow).collect();
        assert!(flows.len() > 10 && flows.iter().all(|flow| *flow == 0));
    }

    #[test]
    fn a_full_queue_drops_the_head_of_the_fattest_flow() {
        let mut queue = fq(limit_packets(10), Duration::from_millis(5), false);
        let mut exit = Exit::default();
        for index in 0..8 {
            queue.enqueue(Time::ZERO, packet(3, index, 1_500), &mut exit);
        }
        for flow in [0, 1, 4] {
            queue.enqueue(Time::ZERO, packet(flow, 0, 1_000), &mut exit);
        }
        let dropped = &exit.dropped[..];
        assert_eq!(dropped.len(), 1);
        let record = dropped[0].record;
        assert_eq!(
            (record.flow, record.class_index, record.fate),
            (3, 0, Fate::QueueDrop)
        );
    }

    /// No state is kept for flows that are gone and that CoDel left alone.
    #[test]
    fn flows_without_packets_are_forgotten() {
        let mut queue = round_robin();
        let mut exit = Exit::default();
        for flow in 0..100 {
            queue.enqueue(at_ms(1), packet(flow, 0, 100), &mut exit);
        }
        while queue.dequeue(at_ms(2), &mut exit).is_some() {}
        assert!(queue.flows.is_empty());
    }
}
