//! Queues: which packets wait, in which order they leave, and which are dropped or marked. Each discipline has its own
//! file, but drop-tail and drop-head share `plain`.
//!
//! A discipline does not know the rate: `bottleneck` decides when a packet may leave. Limits apply to the waiting packets,
//! after every call. A packet that finds no room, or is evicted to make room, is a `QueueDrop`. If a discipline drops a packet
//! although there was room, that is an `EarlyDrop`; only such drops can be replaced by ECN marks (RFC 3168).

mod codel;
mod fifo;
mod fq_codel;
mod pie;
mod plain;
mod red;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;

use std::fmt;

use squall_base::Time;

use crate::component::{Exit, Packet};
use crate::packet::mark_congestion;
use crate::random::Luck;
use crate::settings::{self, QueueSettings};

use codel::{CoDel, Law};
use fq_codel::FqCoDel;
use pie::Pie;
use plain::{End, Plain};
use red::Red;

/// The largest packet of the hosts' devices, a parameter of CoDel and PIE.
const MTU_BYTES: u64 = 1_500;

/// How much is waiting in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Depth {
    /// Adds `packet`.
    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len();
    }

    /// Removes `packet`.
    pub(crate) fn remove(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= packet.len();
    }
}

/// The most that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    packets: u64,
    bytes: u64,
}

impl Limit {
    pub(crate) fn of(settings: &QueueSettings) -> Limit {
        Limit {
            packets: settings.limit_packets.unwrap_or(u64::MAX),
            bytes: settings.limit_bytes.unwrap_or(u64::MAX),
        }
    }

    /// Whether `packet` may join the waiting packets.
    pub(crate) fn has_room(&self, waiting: Depth, packet: &Packet) -> bool {
        waiting.packets < self.packets && waiting.bytes + packet.len() <= self.bytes
    }

    /// Whether `packet` fits into an empty queue.
    fn can_ever_hold(&self, packet: &Packet) -> bool {
        self.has_room(Depth::default(), packet)
    }

    /// Whether the queue is within the limit.
    fn holds(&self, waiting: Depth) -> bool {
        waiting.packets <= self.packets && waiting.bytes <= self.bytes
    }
}

/// How a queue treats packets.
pub(crate) trait Discipline: fmt::Debug + Send {
    /// Takes a packet, or drops it or others.
    fn enqueue(&mut self, now: Time, packet: Packet, exit: &mut Exit);

    /// The packet whose turn it is; some may be dropped on the way.
    fn dequeue(&mut self, now: Time, exit: &mut Exit) -> Option<Packet>;

    /// How much is waiting.
    fn depth(&self) -> Depth;

    /// Removes and returns all packets, in the order in which they would leave, dropping none.
    fn drain(&mut self) -> Vec<Packet>;
}

/// Marks a packet instead of dropping it. Returns `false`, and does nothing, if its flow is not ECN-capable.
fn mark(packet: &mut Packet) -> bool {
    let is_capable = mark_congestion(&mut packet.bytes);
    packet.record.is_marked |= is_capable;
    is_capable
}

/// An empty queue.
pub(crate) fn new(now: Time, settings: &QueueSettings, luck: Luck) -> Box<dyn Discipline> {
    let (limit, marks_ecn) = (Limit::of(settings), settings.marks_ecn);
    match settings.discipline {
        settings::Discipline::DropTail => Box::new(Plain::new(limit, End::Tail)),
        settings::Discipline::DropHead => Box::new(Plain::new(limit, End::Head)),
        settings::Discipline::Red {
            min_bytes,
            max_bytes,
            probability,
        } => {
            let curve = red::Curve::new(min_bytes, max_bytes, probability);
            Box::new(Red::new(limit, curve, marks_ecn, luck))
        }
        settings::Discipline::CoDel { target, interval } => {
            Box::new(CoDel::new(limit, Law::new(target, interval, marks_ecn)))
        }
        settings::Discipline::Pie { target, update } => {
            let control = pie::Control::new(target, update);
            Box::new(Pie::new(now, limit, control, marks_ecn, luck))
        }
        settings::Discipline::FqCoDel {
            target,
            interval,
            quantum_bytes,
        } => {
            let law = Law::new(target, interval, marks_ecn);
            Box::new(FqCoDel::new(limit, law, quantum_bytes))
        }
    }
}
