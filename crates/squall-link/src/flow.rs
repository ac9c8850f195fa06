//! Flows in the order in which the link first saw them, and how many packets of each class they have sent.
//!
//! A flow is identified by its order of appearance, not by its ports, because the kernel picks different ports in every run. A
//! client that opens its connections one after the other then meets the same fates in every run. A client's SYN with a new
//! sequence number begins a new flow, even if its port was used before. Flows are never forgotten: a trial has thousands at
//! most.

use std::collections::BTreeMap;

use squall_base::record::{Direction, PacketClass};

use crate::packet::{Endpoint, PacketInfo};
use crate::random::PacketKey;

/// The two ends of a flow, client's first, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowEnds {
    client: Endpoint,
    server: Endpoint,
    protocol: u8,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    ordinal: u32,
    /// The sequence number of the client's SYN, if it was seen.
    syn_seq: Option<u32>,
    /// The shift counts from the SYNs' window scale options, by direction.
    window_shifts: [Option<u8>; 2],
    /// Packets so far, by direction and class.
    counts: [[u32; PacketClass::ALL.len()]; 2],
}

impl Flow {
    fn new(ordinal: u32) -> Flow {
        Flow {
            ordinal,
            syn_seq: None,
            window_shifts: [None; 2],
            counts: [[0; PacketClass::ALL.len()]; 2],
        }
    }

    /// The window field in bytes. It is scaled if both SYNs had the option, and never in a SYN (RFC 7323, section 2.2).
    fn window_bytes(&mut self, direction: Direction, info: &PacketInfo) -> u32 {
        let window = u32::from(info.window);
        if info.class == PacketClass::Syn {
            self.window_shifts[direction as usize] = info.window_shift;
            return window;
        }
        match self.window_shifts {
            [Some(up), Some(down)] => window << [up, down][direction as usize],
            _ => window,
        }
    }
}

/// A packet's place in its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPacket {
    pub(crate) key: PacketKey,
    pub(crate) client_port: u16,
    /// TCP: how many bytes, from the acknowledgement number on, its sender is ready to receive.
    pub(crate) window_bytes: u32,
}

/// All flows of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    by_ends: BTreeMap<FlowEnds, Flow>,
    /// Flows seen so far.
    met: u32,
}

impl Flows {
    /// Counts a packet.
    pub(crate) fn count(&mut self, direction: Direction, info: &PacketInfo) -> FlowPacket {
        let (client, server) = match direction {
            Direction::Up => (info.source, info.destination),
            Direction::Down => (info.destination, info.source),
        };
        let ends = FlowEnds {
            client,
            server,
            protocol: info.protocol,
        };
        let is_opening = info.class == PacketClass::Syn && direction == Direction::Up;
        let syn_seq = is_opening.then_some(info.seq);
        let met = self.met;
        let flow = self.by_ends.entry(ends).or_insert(Flow::new(met));
        if matches!((flow.syn_seq, syn_seq), (Some(before), Some(now)) if before != now) {
            *flow = Flow::new(met);
        }
        if flow.ordinal == met {
            self.met += 1;
        }
        flow.syn_seq = flow.syn_seq.or(syn_seq);
        let count = &mut flow.counts[direction as usize][info.class as usize];
        let class_index = *count;
        *count += 1;
        FlowPacket {
            key: PacketKey {
                direction,
                flow: flow.ordinal,
                class: info.class,
                class_index,
            },
            client_port: client.port,
            window_bytes: flow.window_bytes(direction, info),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::tcp_packet;

    #[test]
    fn both_directions_of_a_connection_are_one_flow_with_separate_counts() {
        let mut flows = Flows::default();
        let up = PacketInfo::of(&tcp_packet(40_000, 80, 0x18, 10));
        let down = PacketInfo::of(&tcp_packet(80, 40_000, 0x18, 10));
        let first = flows.count(Direction::Up, &up);
        let answer = flows.count(Direction::Down, &down);
        let second = flows.count(Direction::Up, &up).key;
        assert_eq!((first.client_port, answer.client_port), (40_000, 40_000));
        let (first, answer) = (first.key, answer.key);
        assert_eq!((first.flow, answer.flow, second.flow), (0, 0, 0));
        assert_eq!(
            (first.class_index, answer.class_index, second.class_index),
            (0, 0, 1)
        );
    }

    #[test]
    fn windows_are_scaled_if_both_sides_offered_scaling() {
        let syn = |shift: Option<u8>| PacketInfo {
            class: PacketClass::Syn,
            window: 100,
            window_shift: shift,
            ..PacketInfo::of(&tcp_packet(40_000, 80, 2, 0))
        };
        let info = PacketInfo {
            window: 100,
            ..PacketInfo::of(&tcp_packet(40_000, 80, 0x10, 0))
        };
        let mut flows = Flows::default();
        let mut window = |direction: Direction, info: &PacketInfo| {
            let reversed = PacketInfo {
                source: info.destination,
                destination: info.source,
                ..*info
            };
            let info = match direction {
                Direction::Up => *info,
                Direction::Down => reversed,
            };
            flows.count(direction, &info).window_bytes
        };
        assert_eq!(window(Direction::Up, &syn(Some(3))), 100);
        assert_eq!(window(Direction::Down, &syn(None)), 100);
        assert_eq!(window(Direction::Up, &info), 100);
        assert_eq!(window(Direction::Down, &syn(Some(7))), 100);
        assert_eq!(window(Direction::Up, &info), 800);
        assert_eq!(window(Direction::Down, &info), 12_800);
    }

    #[test]
    fn flows_are_numbered_in_order_of_appearance_not_by_port() {
        for ports in [[40_000_u16, 50_000], [50_000, 40_000]] {
            let mut flows = Flows::default();
            let ordinals = ports.map(|p| {
                flows
                    .count(Direction::Up, &PacketInfo::of(&tcp_packet(p, 80, 2, 0)))
                    .key
                    .flow
            });
            assert_eq!(ordinals, [0, 1]);
        }
    }

    #[test]
    fn a_reused_port_begins_a_new_flow_but_a_repeated_syn_does_not() {
        let mut flows = Flows::default();
        let mut flow_of =
            |packet: &[u8]| flows.count(Direction::Up, &PacketInfo::of(packet)).key.flow;
        let syn = tcp_packet(40_000, 80, 2, 0);
        let mut later_syn = syn.clone();
        later_syn[27] ^= 1; // the last byte of the sequence number
        assert_eq!((flow_of(&syn), flow_of(&syn)), (0, 0));
        assert_eq!(flow_of(&tcp_packet(40_000, 80, 0x18, 5)), 0);
        assert_eq!(
            (
                flow_of(&later_syn),
                flow_of(&tcp_packet(40_000, 80, 0x18, 5))
            ),
            (1, 1)
        );
    }
}
