//! Packets in order of arrival, with their times: the building block of all disciplines.
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
    /// Appends a packet.
    pub(super) fn push(&mut self, now: Time, packet: Packet) {
        self.depth.add(&packet);
        self.waiting.push_back((now, packet));
    }

    /// The oldest packet, and when it arrived.
    pub(super) fn pop(&mut self) -> Option<(Time, Packet)> {
        let (since, packet) = self.waiting.pop_front()?;
        self.depth.remove(&packet);
        Some((since, packet))
    }

    /// How much is waiting.
    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// All packets, the oldest first.
    pub(super) fn drain(&mut self) -> Vec<Packet> {
        self.depth = Depth::default();
        self.waiting.drain(..).map(|(_, packet)| packet).collect()
    }
}
