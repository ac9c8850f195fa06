//! Packets whose fates become final in any order, passed on in order of arrival.
//!
//! A link logs a packet when it releases or drops it, which for a delayed packet is long after it arrived. This buffer
//! holds packets back until no earlier one can follow; it needs as much memory as the packets inside the link itself.
//! It does not look into packets: that is `Observer`'s job.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::Direction;

use crate::packet::ObservedPacket;

/// Packets waiting for earlier ones.
#[derive(Debug, Default)]
pub struct ReorderBuffer {
    waiting: BTreeMap<(Time, u64), PendingPacket>,
    pushed: u64,
}

#[derive(Debug)]
struct PendingPacket {
    release: Option<Time>,
    direction: Direction,
    bytes: Vec<u8>,
}

impl ReorderBuffer {
    /// Adds a packet. Packets that arrived at the same time keep the order in which they were added.
    pub fn push(
        &mut self,
        time_in: Time,
        release: Option<Time>,
        direction: Direction,
        bytes: Vec<u8>,
    ) {
        let packet = PendingPacket {
            release,
            direction,
            bytes,
        };
        self.waiting.insert((time_in, self.pushed), packet);
        self.pushed += 1;
    }

    /// Passes on all packets that arrived before `complete_until`. The caller guarantees that no more of those will
    /// follow.
    pub fn deliver_until(
        &mut self,
        complete_until: Time,
        mut on_packet: impl FnMut(&ObservedPacket<'_>),
    ) {
        while let Some(first) = self.waiting.first_entry() {
            let (time_in, _) = *first.key();
            if time_in >= complete_until {
                break;
            }
            let packet = first.remove();
            on_packet(&ObservedPacket {
                time_in,
                release: packet.release,
                direction: packet.direction,
                bytes: &packet.bytes,
            });
        }
    }

    /// Passes on all remaining packets.
    pub fn finish(mut self, on_packet: impl FnMut(&ObservedPacket<'_>)) {
        self.deliver_until(Time::from_nanos(u64::MAX), on_packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_passed_on_in_order_of_arrival() {
        let mut order = ReorderBuffer::default();
        let mut seen: Vec<u8> = Vec::new();
        for (at, name) in [(30, b"c"), (10, b"a"), (20, b"b"), (30, b"d")] {
            order.push(Time::from_nanos(at), None, Direction::Up, name.to_vec());
        }
        order.deliver_until(Time::from_nanos(30), |packet| seen.extend(packet.bytes));
        assert_eq!(seen, b"ab");
        order.finish(|packet| seen.extend(packet.bytes));
        assert_eq!(seen, b"abcd");
    }
}
