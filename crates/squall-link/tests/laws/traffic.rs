//! Random traffic: packets of a few flows in both directions, with times that often coincide.
//!
//! Most packets are TCP with correct checksums, so that marking can be checked; some are just bytes.

use proptest::prelude::*;
use squall_base::record::Direction;
use squall_base::{Duration, Time};

/// Links of these tests start here, and not at the clock's origin.
pub(crate) const START: Time = Time::from_nanos(7_000_000_123);

/// Flows that the traffic may have.
pub(crate) const FLOWS: u16 = 5;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN_ACK: u8 = 0x11;

/// A packet that arrives at the link.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) direction: Direction,
    pub(crate) packet: Vec<u8>,
}

/// The content of a packet; ports follow from its direction.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Tcp {
        flow: u16,
        flags: u8,
        payload_len: u16,
        ecn: u8,
        seq: u32,
    },
    Bytes(Vec<u8>),
}

impl Content {
    fn packet(&self, direction: Direction) -> Vec<u8> {
        match self {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Tcp {
                flow,
                flags,
                payload_len,
                ecn,
                seq,
            } => {
                let (client, server) = (40_000 + flow, 80);
                let ports = match direction {
                    Direction::Up => [client, server],
                    Direction::Down => [server, client],
                };
                tcp_packet(ports, *flags, *payload_len, *ecn, *seq)
            }
        }
    }
}

/// The first packet of a flow, from the client.
pub(crate) fn opening(flow: u16) -> Vec<u8> {
    tcp_packet([40_000 + flow, 80], SYN, 0, 0, 0)
}

/// An IPv4 TCP packet; the IP header's checksum is correct, the segment's is left zero.
pub(crate) fn tcp_packet(
    ports: [u16; 2],
    flags: u8,
    payload_len: u16,
    ecn: u8,
    seq: u32,
) -> Vec<u8> {
    let total_len = 40 + payload_len;
    let mut packet: Vec<u8> = (0..total_len).map(|n| n as u8).collect();
    packet[..40].fill(0);
    packet[0] = 0x45;
    packet[1] = ecn;
    packet[2..4].copy_from_slice(&total_len.to_be_bytes());
    packet[9] = 6;
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = flags;
    let checksum = !header_sum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The ones' complement sum over the first 20 bytes; all ones if the checksum is correct (RFC 1071).
pub(crate) fn header_sum(packet: &[u8]) -> u16 {
    let words = packet[..20]
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A readable packet. Sequence numbers of SYNs vary, so that new flows reuse ports.
pub(crate) fn tcp() -> impl Strategy<Value = Content> {
    let kind = prop_oneof![
        1 => (Just(SYN), Just(0_u16)),
        5 => (Just(ACK), 1_u16..1_400),
        3 => (Just(ACK), Just(0_u16)),
        1 => (Just(FIN_ACK), Just(0_u16)),
    ];
    (0..FLOWS, kind, 0_u8..4, 0_u32..20_000).prop_map(|(flow, (flags, payload_len), ecn, seq)| {
        Content::Tcp {
            flow,
            flags,
            payload_len,
            ecn,
            seq: if flags == SYN { seq % 3 } else { seq },
        }
    })
}

/// Arbitrary bytes, some of which begin like IPv4.
pub(crate) fn bytes() -> impl Strategy<Value = Content> {
    let first = prop_oneof![any::<u8>(), Just(0x45), Just(0x4f), Just(0x40), Just(0x60)];
    (first, proptest::collection::vec(any::<u8>(), 0..90)).prop_map(|(first, mut bytes)| {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        Content::Bytes(bytes)
    })
}

/// A time gap: often zero, or a multiple of 0.1 ms like the delays of `world`, so that events coincide.
fn gap() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(0_u64),
        3 => (0_u64..10).prop_map(|n| n * 100_000),
        2 => 0_u64..2_000_000,
    ]
    .prop_map(Duration::from_nanos)
}

/// Packets with `content`, in order of time, starting slightly after the start.
pub(crate) fn traffic_of(
    content: impl Strategy<Value = Content>,
) -> impl Strategy<Value = Vec<Arrival>> {
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down)];
    proptest::collection::vec((gap(), direction, content), 0..120).prop_map(|packets| {
        let mut at = START;
        let arrival = |(gap, direction, content): (Duration, Direction, Content)| {
            at += gap;
            Arrival {
                at,
                direction,
                packet: content.packet(direction),
            }
        };
        packets.into_iter().map(arrival).collect()
    })
}

/// Traffic of every kind.
pub(crate) fn traffic() -> impl Strategy<Value = Vec<Arrival>> {
    traffic_of(prop_oneof![8 => tcp(), 2 => bytes()])
}

/// The packets of `arrivals` that travel in `direction`.
pub(crate) fn going(arrivals: &[Arrival], direction: Direction) -> Vec<&Arrival> {
    let goes = |arrival: &&Arrival| arrival.direction == direction;
    arrivals.iter().filter(goes).collect()
}
