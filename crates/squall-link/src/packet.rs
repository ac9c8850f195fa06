//! Reads what the link needs from an IP packet: its flow's addresses and ports, and its role in TCP.
//!
//! Anything but IPv4 with a complete TCP or UDP header is of class `Other`. Nothing is refused here and no input can cause
//! a panic. Of TCP's options only the window scale is read; checksums and payload are ignored.

use squall_base::record::PacketClass;

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// One end of a flow: IPv4 address and port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) address: [u8; 4],
    pub(crate) port: u16,
}

/// The link's view of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketInfo {
    pub(crate) protocol: u8,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) class: PacketClass,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) payload_len: u16,
    pub(crate) tcp_flags: u8,
    /// The raw window field of the header (RFC 9293, section 3.1).
    pub(crate) window: u16,
    /// The shift count of a SYN's window scale option (RFC 7323, section 2.2).
    pub(crate) window_shift: Option<u8>,
}

impl PacketInfo {
    /// The view of bytes that are not a packet.
    pub(crate) const UNREADABLE: PacketInfo = PacketInfo {
        protocol: 0,
        source: Endpoint {
            address: [0; 4],
            port: 0,
        },
        destination: Endpoint {
            address: [0; 4],
            port: 0,
        },
        class: PacketClass::Other,
        seq: 0,
        ack: 0,
        payload_len: 0,
        tcp_flags: 0,
        window: 0,
        window_shift: None,
    };

    /// Reads an IP packet (RFC 791, RFC 9293).
    pub(crate) fn of(packet: &[u8]) -> PacketInfo {
        parse_ipv4(packet).unwrap_or(PacketInfo::UNREADABLE)
    }
}

/// Length of the IPv4 header in bytes; the whole length if it cannot be read.
pub(crate) fn ip_header_len(packet: &[u8]) -> usize {
    match packet.first() {
        Some(first) if first >> 4 == 4 && first & 0x0f >= 5 => usize::from(first & 0x0f) * 4,
        _ => packet.len(),
    }
}

/// Marks an ECN-capable IPv4 packet as having met congestion (RFC 3168, section 5). `false` if it is not capable.
pub(crate) fn mark_congestion(packet: &mut [u8]) -> bool {
    const ECN: u8 = 0b11; // not capable 00, capable 01 and 10, congestion experienced 11
    let Some(header) = packet.first_chunk_mut::<20>() else {
        return false;
    };
    if header[0] >> 4 != 4 || header[1] & ECN == 0 {
        return false;
    }
    let before = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= ECN;
    let after = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    header[10..12].copy_from_slice(&updated_checksum(checksum, before, after).to_be_bytes());
    true
}

/// The checksum of a header in which one word has changed (RFC 1624, equation 3).
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn parse_ipv4(packet: &[u8]) -> Option<PacketInfo> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let address = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let info = PacketInfo {
        protocol: header[9],
        source: Endpoint {
            address: address(12),
            port: 0,
        },
        destination: Endpoint {
            address: address(16),
            port: 0,
        },
        ..PacketInfo::UNREADABLE
    };
    let transport = packet
        .get(header_len..total_len.min(packet.len()))
        .unwrap_or(&[]);
    if is_later_fragment {
        return Some(info);
    }
    match info.protocol {
        TCP => Some(read_tcp(info, transport).unwrap_or(info)),
        UDP => Some(read_ports(info, transport).unwrap_or(info)),
        _ => Some(info),
    }
}

fn read_ports(info: PacketInfo, transport: &[u8]) -> Option<PacketInfo> {
    let ports: &[u8; 4] = transport.first_chunk()?;
    Some(PacketInfo {
        source: Endpoint {
            port: u16::from_be_bytes([ports[0], ports[1]]),
            ..info.source
        },
        destination: Endpoint {
            port: u16::from_be_bytes([ports[2], ports[3]]),
            ..info.destination
        },
        ..info
    })
}

fn read_tcp(info: PacketInfo, transport: &[u8]) -> Option<PacketInfo> {
    let info = read_ports(info, transport)?;
    let header: &[u8; 20] = transport.first_chunk()?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let payload_len = transport.len().checked_sub(header_len)? as u16;
    let tcp_flags = header[13];
    let class = match tcp_flags {
        flags if flags & SYN != 0 => PacketClass::Syn,
        _ if payload_len > 0 => PacketClass::Data,
        flags if flags & (FIN | RST) != 0 => PacketClass::Close,
        _ => PacketClass::Ack,
    };
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    Some(PacketInfo {
        class,
        seq: word(4),
        ack: word(8),
        payload_len,
        tcp_flags,
        window: u16::from_be_bytes([header[14], header[15]]),
        window_shift: match class {
            PacketClass::Syn => window_shift(transport.get(20..header_len)?),
            _ => None,
        },
        ..info
    })
}

/// The shift count of the window scale option among TCP's options, at most 14 (RFC 7323, section 2.3).
fn window_shift(mut options: &[u8]) -> Option<u8> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const WINDOW_SCALE: u8 = 3;
    const SHIFT_AT_MOST: u8 = 14;
    loop {
        options = match *options {
            [] | [END, ..] => return None,
            [NO_OPERATION, ref rest @ ..] => rest,
            [WINDOW_SCALE, 3, shift, ..] => return Some(shift.min(SHIFT_AT_MOST)),
            // An option's length counts its kind and itself.
            [_, length, ..] if length >= 2 => options.get(usize::from(length)..)?,
            _ => return None,
        };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 TCP packet with the given ports, flags and payload length; checksums left zero.
    pub(crate) fn tcp_packet(
        source_port: u16,
        destination_port: u16,
        flags: u8,
        payload_len: u16,
    ) -> Vec<u8> {
        let mut packet = vec![0_u8; 40 + usize::from(payload_len)];
        packet[0] = 0x45;
        let total_len = packet.len() as u16;
        packet[2..4].copy_from_slice(&total_len.to_be_bytes());
        packet[9] = TCP;
        packet[20..22].copy_from_slice(&source_port.to_be_bytes());
        packet[22..24].copy_from_slice(&destination_port.to_be_bytes());
        packet[24..28].copy_from_slice(&7_u32.to_be_bytes());
        packet[32] = 5 << 4;
        packet[33] = flags;
        packet
    }

    #[test]
    fn window_scale_is_read_from_the_options_of_a_syn() {
        let with_options = |flags: u8, options: &[u8]| {
            let mut packet = tcp_packet(1, 2, flags, options.len() as u16);
            packet[32] = (5 + options.len() as u8 / 4) << 4;
            packet[34..36].copy_from_slice(&0x1234_u16.to_be_bytes());
            packet[40..].copy_from_slice(options);
            PacketInfo::of(&packet)
        };
        // Linux: maximum segment size, selective acknowledgements, timestamps, padding, window scale.
        let linux = [
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let syn = with_options(SYN, &linux);
        assert_eq!((syn.window, syn.window_shift), (0x1234, Some(7)));
        assert_eq!(syn.payload_len, 0);
        assert_eq!(with_options(0x10, &linux).window_shift, None);
        assert_eq!(with_options(SYN, &[3, 3, 200, 0]).window_shift, Some(14));
        // Options that are cut short, empty or endless.
        for options in [
            [3, 3, 7, 3],
            [0, 3, 3, 7],
            [9, 0, 3, 3],
            [9, 200, 3, 3],
            [1, 1, 1, 3],
        ] {
            let shift = with_options(SYN, &options).window_shift;
            assert_eq!(shift, (options[0] == 3).then_some(7), "{options:?}");
        }
    }

    #[test]
    fn tcp_packets_are_classified_by_flags_and_payload() {
        let class = |flags, payload| PacketInfo::of(&tcp_packet(1, 2, flags, payload)).class;
        assert_eq!(class(SYN, 0), PacketClass::Syn);
        assert_eq!(class(SYN | 0x10, 0), PacketClass::Syn);
        assert_eq!(class(0x10, 0), PacketClass::Ack);
        assert_eq!(class(0x18, 100), PacketClass::Data);
        assert_eq!(class(0x11, 0), PacketClass::Close);
        assert_eq!(class(0x19, 3), PacketClass::Data);
        assert_eq!(class(RST, 0), PacketClass::Close);
    }

    #[test]
    fn tcp_header_fields_are_read() {
        let info = PacketInfo::of(&tcp_packet(40_000, 80, 0x18, 99));
        assert_eq!((info.source.port, info.destination.port), (40_000, 80));
        assert_eq!((info.seq, info.payload_len), (7, 99));
    }

    /// The ones' complement sum over a correct header is all ones (RFC 1071).
    fn header_sum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn marking_keeps_the_checksum_correct_and_skips_packets_without_ecn() {
        let mut packet = tcp_packet(1, 2, 0x18, 9);
        assert!(!mark_congestion(&mut packet.clone()));
        packet[1] = 0b10;
        let sum = !header_sum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(mark_congestion(&mut packet));
        assert_eq!((packet[1], header_sum(&packet[..20])), (0b11, 0xffff));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(packet in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = PacketInfo::of(&packet);
        }

        #[test]
        fn truncated_or_altered_packets_never_panic(
            cut in 0_usize..60, at in 0_usize..40, value in any::<u8>()
        ) {
            let mut packet = tcp_packet(1, 2, 0x18, 20);
            packet[at] = value;
            packet.truncate(cut);
            let _ = PacketInfo::of(&packet);
        }
    }
}
