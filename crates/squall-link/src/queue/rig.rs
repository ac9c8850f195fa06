//! Helpers for the tests of the disciplines: packets, and a server of constant rate.

use squall_base::{Duration, Time};

use super::{Discipline, Limit};
use crate::component::{Exit, Packet};
use crate::random::tests::key;

pub(super) const UNLIMITED: Limit = Limit {
    packets: u64::MAX,
    bytes: u64::MAX,
};

pub(super) fn limit_packets(packets: u64) -> Limit {
    Limit {
        packets,
        ..UNLIMITED
    }
}

pub(super) fn limit_bytes(bytes: u64) -> Limit {
    Limit { bytes, ..UNLIMITED }
}

pub(super) fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Packet number `index` of `flow`: an IPv4 header that is not ECN-capable, and zeros.
pub(super) fn packet(flow: u32, index: u32, len: usize) -> Packet {
    let mut bytes = vec![0; len];
    bytes[0] = 0x45;
    Packet::bare(key(flow, index), bytes)
}

/// As `packet`, but ECN-capable.
pub(super) fn ecn_packet(flow: u32, index: u32, len: usize) -> Packet {
    let mut packet = packet(flow, index, len);
    packet.bytes[1] = 0b10;
    packet
}

/// The output of a queue, in order of time.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Packets with the time at which they left the queue.
    pub(super) left: Vec<(Time, Packet)>,
    /// Packets with the time at which they were dropped.
    pub(super) dropped: Vec<(Time, Packet)>,
}

/// Sends `arrivals`, which are in order of time, through a queue before a server that takes `ns_per_byte`. Like the
/// bottleneck, the server asks for a packet when one is through, and when one arrives while it is idle.
pub(super) fn serve(
    queue: &mut dyn Discipline,
    arrivals: impl Iterator<Item = (Time, Packet)>,
    ns_per_byte: u64,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut busy_until: Option<Time> = None;
    let mut arrivals = arrivals.peekable();
    loop {
        let arrival = arrivals.peek().map(|(at, _)| *at);
        let mut exit = Exit::default();
        let now = match (busy_until, arrival) {
            (Some(free), next) if next.is_none_or(|at| free <= at) => {
                busy_until = None;
                free
            }
            (_, Some(at)) => {
                if let Some((_, mut packet)) = arrivals.next() {
                    packet.record.arrived = at;
                    queue.enqueue(at, packet, &mut exit);
                }
                at
            }
            _ => return outcome,
        };
        if busy_until.is_none()
            && let Some(packet) = queue.dequeue(now, &mut exit)
        {
            busy_until = Some(now + Duration::from_nanos(packet.len() * ns_per_byte));
            outcome.left.push((now, packet));
        }
        outcome
            .dropped
            .extend(exit.dropped.into_iter().map(|packet| (now, packet)));
    }
}

impl Outcome {
    /// How long each packet of `flow` that left had waited.
    pub(super) fn waits(&self, flow: u32) -> Vec<Duration> {
        let of_flow = self.left.iter().filter(|(_, p)| p.record.flow == flow);
        of_flow
            .map(|(at, packet)| at.since(packet.record.arrived))
            .collect()
    }
}
