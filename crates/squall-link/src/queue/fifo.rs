//! Packets in the order in which they came, with the times: what all disciplines are made of.
//!
//! It has no limit and drops nothing.

use std::collections::VecDeque;

use squall_base::Time;

use super::Depth;
use crate::component::Packet;

/// A plain first-in, first-out queue.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    depth: Depth,
    waiting: VecDeque<(Time, Packet)>,
}

impl Fifo {
    /// Puts a packet behind the others.
    pub(super) fn push(&mut self, now: Time, packet: Packet) {
        self.depth.add(&packet);
        self.waiting.push_back((now, packet));
    }

    /// The oldest packet, and when it came.
    pub(super) fn pop(&mut self) -> Option<(Time, Packet)> {
        let (since, packet) = self.waiting.pop_front()?;
        self.depth.remove(&packet);
        Some((since, packet))
    }

    /// What waits.
    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// All packets, the oldest first.
    pub(super) fn drain(&mut self) -> Vec<Packet> {
        self.depth = Depth::default();
        self.waiting.drain(..).map(|(_, packet)| packet).collect()
    }
}
