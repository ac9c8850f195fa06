//! Packets whose fates become final in any order, handed on in the order of their arrival.
//!
//! A link logs a packet when it is released or dropped, which for a delayed one is long after it came. They are held
//! back until no earlier one can follow; the memory is that of what the link itself holds.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::Direction;

use crate::packet::SeenPacket;

/// Packets that wait for earlier ones.
#[derive(Debug, Default)]
pub struct InArrivalOrder {
    waiting: BTreeMap<(Time, u64), Held>,
    taken: u64,
}

#[derive(Debug)]
struct Held {
    release: Option<Time>,
    direction: Direction,
    bytes: Vec<u8>,
}

impl InArrivalOrder {
    /// Takes a packet. Of those with the same time of arrival the first one given is first.
    pub fn push(
        &mut self,
        time_in: Time,
        release: Option<Time>,
        direction: Direction,
        bytes: Vec<u8>,
    ) {
        let held = Held {
            release,
            direction,
            bytes,
        };
        self.waiting.insert((time_in, self.taken), held);
        self.taken += 1;
    }

    /// Hands on all packets that came before `complete_until`: the caller's word that no such one will follow.
    pub fn hand_on(&mut self, complete_until: Time, mut on_packet: impl FnMut(&SeenPacket<'_>)) {
        while let Some(first) = self.waiting.first_entry() {
            let (time_in, _) = *first.key();
            if time_in >= complete_until {
                break;
            }
            let held = first.remove();
            on_packet(&SeenPacket {
                time_in,
                release: held.release,
                direction: held.direction,
                bytes: &held.bytes,
            });
        }
    }

    /// Hands on all that is left.
    pub fn finish(mut self, on_packet: impl FnMut(&SeenPacket<'_>)) {
        self.hand_on(Time::from_nanos(u64::MAX), on_packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_in_the_order_in_which_they_came() {
        let mut order = InArrivalOrder::default();
        let mut seen: Vec<u8> = Vec::new();
        for (at, name) in [(30, b"c"), (10, b"a"), (20, b"b"), (30, b"d")] {
            order.push(Time::from_nanos(at), None, Direction::Up, name.to_vec());
        }
        order.hand_on(Time::from_nanos(30), |packet| seen.extend(packet.bytes));
        assert_eq!(seen, b"ab");
        order.finish(|packet| seen.extend(packet.bytes));
        assert_eq!(seen, b"abcd");
    }
}
