//! Drop-tail and drop-head: first in, first out; packets are dropped only for lack of room.
//!
//! Drop-tail drops the packet that finds no room, drop-head the oldest ones to make room for it. With drop-head senders
//! learn of a full queue sooner, since the missing packet is at its head (Lakshman, Neidhardt and Ott, "The drop from front
//! strategy in TCP and in TCP over ATM", INFOCOM 1996; in Linux it is pfifo_head_drop of net/sched/sch_fifo.c).

use squall_base::Time;
use squall_base::record::Fate;

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit};
use crate::component::{Exit, Packet};

/// Where a full queue drops packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Head,
    Tail,
}

/// A queue that drops packets at one of its ends.
#[derive(Debug)]
pub(crate) struct Plain {
    limit: Limit,
    drops: End,
    waiting: Fifo,
}

impl Plain {
    pub(super) fn new(limit: Limit, drops: End) -> Plain {
        Plain {
            limit,
            drops,
            waiting: Fifo::default(),
        }
    }
}

impl Discipline for Plain {
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        // For a packet that never fits, dropping others would gain nothing.
        if self.drops == End::Head && self.limit.can_ever_hold(&packet) {
            while !self.limit.has_room(self.depth(), &packet)
                && let Some((_, oldest)) = self.waiting.pop()
            {
                exit.drop(oldest, Fate::QueueDrop);
            }
        }
        if !self.limit.has_room(self.depth(), &packet) {
            return exit.drop(packet, Fate::QueueDrop);
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
        let mut queue = Plain::new(limit_bytes(3_000), End::Head);
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
