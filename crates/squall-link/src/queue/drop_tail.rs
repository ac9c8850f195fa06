//! Drop-tail: first in, first out; a packet that finds no room is dropped.

use squall_base::Time;
use squall_base::record::Fate;

use super::fifo::Fifo;
use super::{Depth, Discipline, Limit};
use crate::component::{Exit, Packet};

/// A queue that drops packets that do not fit.
#[derive(Debug)]
pub(crate) struct DropTail {
    limit: Limit,
    waiting: Fifo,
}

impl DropTail {
    pub(crate) fn new(limit: Limit) -> DropTail {
        DropTail {
            limit,
            waiting: Fifo::default(),
        }
    }
}

impl Discipline for DropTail {
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
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
