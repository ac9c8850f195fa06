//! Super-packets are split into what the wire would have shown, and only packets that belong together are rejoined.
//!
//! Expected packets are built from scratch here, with an independent checksum after RFC 1071.

use proptest::prelude::*;
use squall_linux::offload::join::PacketRun;
use squall_linux::offload::split::{SplitError, split};
use squall_linux::offload::{VIRTIO_HEADER_BYTES, VirtioHeader};

const TCP: u8 = 6;
const UDP: u8 = 17;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP: u8 = 1;
const GSO_UDP: u8 = 5;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// RFC 1071, section 4.1, word for word.
fn checksum(bytes: impl Iterator<Item = u8>) -> u16 {
    let bytes: Vec<u8> = bytes.collect();
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The fields in which one packet of a flow differs from the others.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    id: u16,
    seq: u32,
    flags: u8,
    payload: &'a [u8],
}

/// A packet of the flow with correct checksums; for TCP, with `options` 32-bit words of options.
fn packet(protocol: u8, options: usize, part: Part<'_>) -> Vec<u8> {
    let mut transport = vec![0x9c, 0x40, 0, 80];
    if protocol == TCP {
        transport.extend(part.seq.to_be_bytes());
        transport.extend(99_u32.to_be_bytes());
        transport.extend([((5 + options) as u8) << 4, part.flags, 1, 2, 0, 0, 0, 0]);
        transport.extend(vec![1; options * 4]); // no-operation
    } else {
        transport.extend((8 + part.payload.len() as u16).to_be_bytes());
        transport.extend([0, 0]);
    }
    transport.extend(part.payload);
    let mut ip = vec![0x45, 0];
    ip.extend((20 + transport.len() as u16).to_be_bytes());
    ip.extend(part.id.to_be_bytes());
    ip.extend([
        0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 255, 254,
    ]);
    let ip_checksum = checksum(ip.iter().copied());
    ip[10..12].copy_from_slice(&ip_checksum.to_be_bytes());
    let field = if protocol == TCP { 16 } else { 6 };
    let checksum = match transport_checksum(&ip, &transport) {
        0 => 0xffff,
        checksum => checksum,
    };
    transport[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    [ip, transport].concat()
}

fn transport_checksum(ip: &[u8], transport: &[u8]) -> u16 {
    let pseudo = [0, ip[9]]
        .into_iter()
        .chain((transport.len() as u16).to_be_bytes());
    checksum(
        ip[12..20]
            .iter()
            .copied()
            .chain(pseudo)
            .chain(transport.iter().copied()),
    )
}

fn has_right_checksums(packet: &[u8]) -> bool {
    let (ip, transport) = packet.split_at(20);
    checksum(ip.iter().copied()) == 0 && transport_checksum(ip, transport) == 0
}

fn super_header(protocol: u8, gso_size: u16) -> VirtioHeader {
    VirtioHeader {
        flags: NEEDS_CHECKSUM,
        gso_type: if protocol == TCP { GSO_TCP } else { GSO_UDP },
        gso_size,
        ..VirtioHeader::default()
    }
}

fn split_all(header: VirtioHeader, packet: &[u8]) -> Result<Vec<Vec<u8>>, SplitError> {
    let mut wire_packets = split(header, packet)?;
    let (mut all, mut next) = (Vec::new(), vec![7; 3]);
    while wire_packets.next_into(&mut next) {
        all.push(next.clone());
    }
    Ok(all)
}

/// Joins as many packets as fit into one run, starting with the first, and splits the result.
fn join_and_split(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut run = PacketRun::begin(&packets[0]).expect("the first packet may be in a run");
    let more = packets[1..]
        .iter()
        .take_while(|packet| run.add(packet))
        .count();
    let (header, headers) = run.headers();
    let mut joined = headers.as_ref().to_vec();
    for packet in &packets[..=more] {
        joined.extend_from_slice(&packet[run.headers_len()..]);
    }
    split_all(header, &joined).expect("what was joined can be split")
}

/// A protocol, words of TCP options, the payload of a super-packet and the size of its packets' payloads.
fn super_packets() -> impl Strategy<Value = (u8, usize, Vec<u8>, u16)> {
    (
        prop_oneof![Just(TCP), Just(UDP)],
        0_usize..=10,
        proptest::collection::vec(any::<u8>(), 1..20_000),
        160_u16..1461,
    )
}

proptest! {
    #[test]
    fn a_super_packet_is_split_into_its_wire_packets(
        (protocol, options, payload, size) in super_packets(),
        id in any::<u16>(), seq in any::<u32>(), flags in any::<u8>()
    ) {
        let whole = packet(protocol, options, Part { id, seq, flags, payload: &payload });
        let pieces = payload.chunks(usize::from(size)).enumerate();
        let last = payload.len().div_ceil(usize::from(size)) - 1;
        let expected: Vec<Vec<u8>> = pieces
            .map(|(n, payload)| {
                let not_last = if n < last { FIN | PSH } else { 0 };
                let not_first = if n > 0 { CWR } else { 0 };
                packet(protocol, options, Part {
                    id: id.wrapping_add(n as u16),
                    seq: seq.wrapping_add(n as u32 * u32::from(size)),
                    flags: flags & !not_last & !not_first,
                    payload,
                })
            })
            .collect();
        let found = split_all(super_header(protocol, size), &whole).expect("it is well-formed");
        prop_assert!(found == expected);
        prop_assert!(found.iter().all(|packet| has_right_checksums(packet)));
    }

    #[test]
    fn joining_and_splitting_restores_the_same_packets(
        (protocol, options, payload, size) in super_packets(),
        id in any::<u16>(), seq in any::<u32>(), last_flags in prop_oneof![Just(0), Just(FIN), Just(PSH)]
    ) {
        let part = Part { id, seq, flags: ACK | last_flags, payload: &payload };
        let whole = packet(protocol, options, part);
        let packets = split_all(super_header(protocol, size), &whole).expect("it is well-formed");
        prop_assert!(join_and_split(&packets) == packets);
    }

    #[test]
    fn a_packet_with_one_flipped_bit_is_not_joined(
        protocol in prop_oneof![Just(TCP), Just(UDP)], bit in any::<prop::sample::Index>()
    ) {
        let payload = [5; 300];
        let packets = split_all(
            super_header(protocol, 100),
            &packet(protocol, 3, Part { id: 1, seq: 1, flags: ACK, payload: &payload }),
        ).expect("it is well-formed");
        let mut altered = packets[1].clone();
        let bit = bit.index(altered.len() * 8);
        altered[bit / 8] ^= 1 << (bit % 8);
        let mut run = PacketRun::begin(&packets[0]).expect("it may be in a run");
        prop_assert!(!run.add(&altered));
        prop_assert!(PacketRun::begin(&altered).is_none());
        prop_assert!(run.add(&packets[1]));
    }

    #[test]
    fn arbitrary_bytes_and_headers_never_panic(
        header in any::<[u8; VIRTIO_HEADER_BYTES]>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        let _ = split_all(VirtioHeader::from_bytes(header), &bytes);
        if let Some(mut run) = PacketRun::begin(&bytes) {
            let _ = run.add(&bytes);
        }
    }

    #[test]
    fn altered_packets_never_panic(
        (protocol, options, payload, _) in super_packets(), size in any::<u16>(), gso_type in 0_u8..8,
        (at, value) in (0_usize..60, any::<u8>()), cut in any::<prop::sample::Index>()
    ) {
        let part = Part { id: 1, seq: 2, flags: ACK, payload: &payload[..payload.len().min(500)] };
        let mut packet = packet(protocol, options, part);
        if let Some(byte) = packet.get_mut(at) {
            *byte = value;
        }
        packet.truncate(cut.index(packet.len() * 2).max(1));
        let header = VirtioHeader { gso_type, ..super_header(protocol, size) };
        if let Ok(packets) = split_all(header, &packet) {
            prop_assert!(packets.iter().all(|one| one.len() <= packet.len()));
        }
        let _ = PacketRun::begin(&packet);
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    let part = Part {
        id: 1,
        seq: 2,
        flags: ACK,
        payload: b"odd",
    };
    let right = packet(TCP, 3, part);
    // The checksum as the kernel leaves it: only the sum of the pseudo-header.
    let mut partial = right.clone();
    partial[36..38].copy_from_slice(&[0, 0]);
    let pseudo = [0, TCP].into_iter().chain(35_u16.to_be_bytes());
    let sum = !checksum(right[12..20].iter().copied().chain(pseudo));
    partial[36..38].copy_from_slice(&sum.to_be_bytes());
    let header = VirtioHeader {
        flags: NEEDS_CHECKSUM,
        checksum_start: 20,
        checksum_offset: 16,
        ..VirtioHeader::default()
    };
    assert_eq!(split_all(header, &partial), Ok(vec![right.clone()]));
    // Without the flag the packet stays as it is, whether its checksum is correct or not.
    assert_eq!(
        split_all(VirtioHeader::default(), &partial),
        Ok(vec![partial])
    );
    let outside = VirtioHeader {
        checksum_start: 54,
        ..header
    };
    assert_eq!(split_all(outside, &right), Err(SplitError::Checksum));
}

#[test]
fn malformed_super_packets_are_refused() {
    let part = Part {
        id: 1,
        seq: 2,
        flags: ACK,
        payload: &[0; 99],
    };
    let packet = packet(TCP, 0, part);
    let refused = |gso_type, gso_size, packet: &[u8]| {
        let header = VirtioHeader {
            gso_type,
            ..super_header(TCP, gso_size)
        };
        split_all(header, packet).expect_err("it is malformed")
    };
    let unknown = SplitError::UnknownType { gso_type: 4 };
    assert_eq!(refused(4, 10, &packet), unknown);
    assert_eq!(refused(GSO_UDP, 10, &packet), SplitError::Headers);
    assert_eq!(refused(GSO_TCP, 10, &packet[..98]), SplitError::Headers);
    assert_eq!(refused(GSO_TCP, 0, &packet), SplitError::NoSize);
}

#[test]
fn a_run_takes_only_packets_that_continue_it() {
    let part = |id, seq, flags, payload| Part {
        id,
        seq,
        flags,
        payload,
    };
    let of = |part| packet(TCP, 3, part);
    let payload: &[u8] = &[1; 100];
    let first = of(part(1, 1000, ACK, payload));
    let adds = |packet: &[u8]| PacketRun::begin(&first).is_some_and(|mut run| run.add(packet));
    assert!(adds(&of(part(2, 1100, ACK, payload))));
    assert!(adds(&of(part(2, 1100, ACK, &payload[..1]))));
    assert!(adds(&of(part(2, 1100, ACK | PSH, payload))));
    assert!(!adds(&of(part(3, 1100, ACK, payload))), "a gap in the ids");
    assert!(!adds(&of(part(2, 1200, ACK, payload))), "a lost packet");
    assert!(!adds(&first), "a second copy");
    assert!(
        !adds(&of(part(2, 1100, ACK, &[1; 101]))),
        "longer than the first"
    );
    assert!(
        !adds(&of(part(2, 1100, ACK, &[]))),
        "an acknowledgement alone"
    );
    assert!(
        !adds(&of(part(2, 1100, ACK | CWR, payload))),
        "its window was reduced"
    );
    assert!(
        !adds(&packet(TCP, 4, part(2, 1100, ACK, payload))),
        "other options"
    );
    let mut run = PacketRun::begin(&of(part(1, 1000, ACK | PSH, payload))).expect("a run of one");
    assert!(
        !run.add(&of(part(2, 1100, ACK, payload))),
        "PSH is the last one's"
    );
    assert!(
        PacketRun::begin(&of(part(1, 1, 0x02, payload))).is_none(),
        "a SYN with data"
    );
}

#[test]
fn a_run_stays_below_64_kb() {
    let payload = vec![3; 1448];
    let numbered = |n: u16| {
        packet(
            TCP,
            3,
            Part {
                id: n,
                seq: u32::from(n) * 1448,
                flags: ACK,
                payload: &payload,
            },
        )
    };
    let mut run = PacketRun::begin(&numbered(0)).expect("a run of one");
    let more = (1..100).take_while(|n| run.add(&numbered(*n))).count();
    // 52 bytes of headers and 45 times 1,448 are 65,212 bytes.
    assert_eq!(more, 44);
}
