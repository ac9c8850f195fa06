//! Drop-head: first in, first out; the oldest packets are dropped to make room for a new one.
//!
//! Senders learn of a full queue sooner than with drop-tail, since the missing packet is at its head (Lakshman, Neidhardt
//! and Ott, "The drop from front strategy in TCP and in TCP over ATM", INFOCOM 1996; in Linux it is pfifo_head_drop of
//! net/sched/sch_fifo.c).

use squall_base::Time;
use squall_base::record::Fate;

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit};
use crate::component::{Exit, Packet};

/// A queue that drops its oldest packets.
#[derive(Debug)]
pub(crate) struct DropHead {
    limit: Limit,
    waiting: Fifo,
}

impl DropHead {
    pub(crate) fn new(limit: Limit) -> DropHead {
        DropHead {
            limit,
            waiting: Fifo::default(),
        }
    }
}

impl Discipline for DropHead {
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        if !self.limit.can_ever_hold(&packet) {
            // Dropping others for it would gain nothing.
            return exit.drop(packet, Fate::QueueDrop);
        }
        while !self.limit.has_room(self.depth(), &packet) {
            match self.waiting.pop() {
                Some((_, oldest)) => exit.drop(oldest, Fate::QueueDrop),
                None => break,
            }
        }
        self.waiting.push(now, packet);
    }

    fn dequeue(&mut self, _now: Time, _exit: &mut Exit) -> Option<Packet> {
        self.waiting.pop().map(|(_, packet)| packet)
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
    use super::super::rig::{limit_bytes, packet};
    use super::*;

    #[test]
    fn the_oldest_are_dropped_and_an_oversized_packet_is_dropped_itself() {
        let mut queue = DropHead::new(limit_bytes(3_000));
        let mut exit = Exit::default();
        for (index, len) in [(0, 1_000), (1, 1_000), (2, 1_000), (3, 1_500), (4, 3_001)] {
            queue.enqueue(Time::ZERO, packet(0, index, len), &mut exit);
        }
        let dropped: Vec<u32> = exit.dropped.iter().map(|p| p.record.class_index).collect();
        assert_eq!(dropped, [0, 1, 4]);
        assert!(
            exit.dropped
                .iter()
                .all(|p| p.record.fate == Fate::QueueDrop)
        );
        let left: Vec<u32> = queue.drain().iter().map(|p| p.record.class_index).collect();
        assert_eq!(left, [2, 3]);
    }
}
