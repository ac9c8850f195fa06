//! Packets as they were captured, and their TCP or UDP headers.
//!
//! Covers IPv4 and IPv6 with their extension headers (RFC 791, RFC 8200), TCP (RFC 9293) and UDP (RFC 768). Fragments
//! are not reassembled: neither TCP nor QUIC produces any by itself. No input can cause a panic. Unreadable packets are
//! distinguished from irrelevant ones, and the observer counts both. `connection` and `quic` interpret the payload.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use squall_base::Time;
use squall_base::record::Direction;

use crate::connection_record::Transport;

/// One packet as seen at both ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedPacket<'a> {
    /// When it entered the link, just after leaving its sender.
    pub time_in: Time,
    /// When it left the link, just before its receiver; `None` if it never did. In a capture at a single point, this is
    /// `time_in`.
    pub release: Option<Time>,
    /// Its direction. For a capture, any rule will do that gives the two directions of a flow different values.
    pub direction: Direction,
    /// The IP packet, from the first byte of its header.
    pub bytes: &'a [u8],
}

/// Whether TCP and UDP checksums are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// A packet with a wrong checksum is ignored, just as its receiver ignores it. For a link that may corrupt packets.
    Verified,
    /// Checksums are not checked. For captures on a sender's own device, where offload fills them in later.
    Ignored,
}

/// The endpoints of a TCP or UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEndpoints {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// Its transport; [`Transport::Quic`] stands for all of UDP.
    pub transport: Transport,
    /// Whether it opens a new TCP connection: a SYN without an acknowledgement.
    pub is_syn: bool,
}

/// Reads the endpoints of an IP packet; `None` if it is neither TCP nor UDP, or a fragment.
///
/// ```
/// assert_eq!(squall_observe::flow_endpoints(b"no packet"), None);
/// ```
pub fn flow_endpoints(bytes: &[u8]) -> Option<FlowEndpoints> {
    match parse(bytes, Checksums::Ignored) {
        Packet::Tcp(segment) => Some(FlowEndpoints {
            source: segment.source,
            destination: segment.destination,
            transport: Transport::Tcp,
            is_syn: segment.syn && segment.ack.is_none(),
        }),
        Packet::Udp(datagram) => Some(FlowEndpoints {
            source: datagram.source,
            destination: datagram.destination,
            transport: Transport::Quic,
            is_syn: false,
        }),
        Packet::Fragment | Packet::Other | Packet::Corrupt | Packet::Unreadable => None,
    }
}

/// The header fields of a TCP or UDP packet that a link's record contains, except for the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeaders {
    /// The sender.
    pub source: SocketAddr,
    /// Length of the IP packet in bytes, including bytes that the capture cut off.
    pub length: usize,
    /// The TCP header; `None` for UDP.
    pub tcp: Option<TcpHeader>,
}

/// The header of a TCP segment (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number; 0 if the ACK flag is not set.
    pub ack: u32,
    /// Flags: byte 13 of the header.
    pub flags: u8,
    /// The window field, unscaled.
    pub window: u16,
    /// The window scale option of a SYN (RFC 7323, section 2).
    pub window_scale: Option<u8>,
    /// Payload length in bytes, including bytes that the capture cut off.
    pub payload_bytes: usize,
}

/// Reads the headers of an IP packet; `None` if it is neither TCP nor UDP, or a fragment.
///
/// ```
/// assert_eq!(squall_observe::packet_headers(b"no packet"), None);
/// ```
pub fn packet_headers(bytes: &[u8]) -> Option<PacketHeaders> {
    let (source, tcp) = match parse(bytes, Checksums::Ignored) {
        Packet::Tcp(segment) => {
            let header = TcpHeader {
                seq: segment.seq,
                ack: segment.ack.unwrap_or(0),
                flags: segment.flags,
                window: segment.window,
                window_scale: segment.window_scale,
                payload_bytes: segment.payload.len() + segment.missing_bytes,
            };
            (segment.source, Some(header))
        }
        Packet::Udp(datagram) => (datagram.source, None),
        Packet::Fragment | Packet::Other | Packet::Corrupt | Packet::Unreadable => return None,
    };
    Some(PacketHeaders {
        source,
        length: stated_length(bytes).max(bytes.len()),
        tcp,
    })
}

/// The total length that the IP header states. A super-packet captured before segmentation may state less than its real
/// length.
fn stated_length(bytes: &[u8]) -> usize {
    const IPV6_HEADER: usize = 40;
    let word = |at: usize| {
        let field = bytes.get(at..at + 2).and_then(|bytes| bytes.first_chunk());
        field.map_or(0, |field| usize::from(u16::from_be_bytes(*field)))
    };
    match bytes.first().map(|first| first >> 4) {
        Some(4) => word(2),
        _ => word(4) + IPV6_HEADER,
    }
}

/// The two ends of a flow, the smaller address first, so that both directions have the same key.
pub(crate) type FlowKey = (SocketAddr, SocketAddr);

/// The key of a flow between these addresses.
pub(crate) fn flow_key(source: SocketAddr, destination: SocketAddr) -> FlowKey {
    if source <= destination {
        (source, destination)
    } else {
        (destination, source)
    }
}

/// A parsed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Tcp(Segment<'a>),
    Udp(Datagram<'a>),
    /// A fragment of an IP packet.
    Fragment,
    /// Another protocol.
    Other,
    /// TCP or UDP with a wrong checksum.
    Corrupt,
    /// Not IP, or truncated within a header.
    Unreadable,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    /// All flags: byte 13 of the header.
    pub(crate) flags: u8,
    /// The header field, unscaled.
    pub(crate) window: u16,
    /// The window scale option of a SYN (RFC 7323, section 2).
    pub(crate) window_scale: Option<u8>,
    pub(crate) payload: &'a [u8],
    /// Bytes of payload after `payload` that the capture cut off.
    pub(crate) missing_bytes: usize,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: &'a [u8],
    /// Payload length in bytes, including bytes that the capture cut off.
    pub(crate) payload_bytes: usize,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The fields of an IP header.
struct Ip<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// The captured part of the payload.
    payload: &'a [u8],
    /// Payload length in bytes according to the header.
    payload_bytes: usize,
}

/// Parses an IP packet.
pub(crate) fn parse(bytes: &[u8], checksums: Checksums) -> Packet<'_> {
    let ip = match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes),
        Some(6) => ipv6(bytes),
        _ => None,
    };
    let Some((ip, is_fragment)) = ip else {
        return Packet::Unreadable;
    };
    if is_fragment {
        return Packet::Fragment;
    }
    if !matches!(ip.protocol, TCP | UDP) {
        return Packet::Other;
    }
    if checksums == Checksums::Verified && !has_right_checksum(&ip) {
        return Packet::Corrupt;
    }
    let parsed = if ip.protocol == TCP {
        segment(&ip).map(Packet::Tcp)
    } else {
        datagram(&ip).map(Packet::Udp)
    };
    parsed.unwrap_or(Packet::Unreadable)
}

/// Parses IPv4. Returns the packet and whether it is a fragment.
fn ipv4(bytes: &[u8]) -> Option<(Ip<'_>, bool)> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let stated = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // A super-packet captured before the device segmented it may state a length of 0.
    let total = if stated == 0 { bytes.len() } else { stated };
    if header_bytes < 20 || total < header_bytes {
        return None;
    }
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let ip = Ip {
        source: address(12).into(),
        destination: address(16).into(),
        protocol: header[9],
        payload: bytes.get(header_bytes..total.min(bytes.len()))?,
        payload_bytes: total - header_bytes,
    };
    // Set for a fragment: the More Fragments flag or an offset.
    Some((ip, flags & 0x3fff != 0))
}

/// Parses IPv6. Returns the packet and whether it is a fragment.
fn ipv6(bytes: &[u8]) -> Option<(Ip<'_>, bool)> {
    let header: &[u8; 40] = bytes.first_chunk()?;
    let stated = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut rest = &bytes[40..];
    let mut payload_bytes = if stated == 0 { rest.len() } else { stated };
    rest = &rest[..rest.len().min(payload_bytes)];
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(octets).into())
    };
    let (source, destination) = (address(8)?, address(24)?);
    let mut next = header[6];
    let mut is_fragment = false;
    // Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4). Each shortens the rest, so the
    // loop ends.
    loop {
        let length = match next {
            0 | 43 | 60 => 8 * (usize::from(*rest.get(1)?) + 1),
            44 => {
                let fields = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
                is_fragment |= fields & 0xfff9 != 0;
                8
            }
            _ => break,
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
        payload_bytes = payload_bytes.checked_sub(length)?;
    }
    let ip = Ip {
        source,
        destination,
        protocol: next,
        payload: rest,
        payload_bytes,
    };
    Some((ip, is_fragment))
}

/// Whether the checksum over pseudo-header and payload is right (RFC 1071; RFC 9293, section 3.1; RFC 8200, section
/// 8.1). A truncated packet cannot be checked and passes, as does UDP without a checksum.
fn has_right_checksum(ip: &Ip<'_>) -> bool {
    if ip.payload.len() < ip.payload_bytes {
        return true;
    }
    if ip.protocol == UDP && ip.payload.get(6..8) == Some(&[0, 0]) {
        return true;
    }
    let mut sum = u64::from(ip.protocol) + ip.payload_bytes as u64;
    let mut add = |bytes: &[u8]| {
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
    };
    for address in [ip.source, ip.destination] {
        match address {
            IpAddr::V4(address) => add(&address.octets()),
            IpAddr::V6(address) => add(&address.octets()),
        }
    }
    add(ip.payload);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

fn segment<'a>(ip: &Ip<'a>) -> Option<Segment<'a>> {
    let header: &[u8; 20] = ip.payload.first_chunk()?;
    let header_bytes = usize::from(header[12] >> 4) * 4;
    if header_bytes < 20 || header_bytes > ip.payload_bytes {
        return None;
    }
    let options = ip.payload.get(20..header_bytes)?;
    let payload = &ip.payload[header_bytes..];
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let flags = header[13];
    Some(Segment {
        source: SocketAddr::new(ip.source, u16::from_be_bytes([header[0], header[1]])),
        destination: SocketAddr::new(ip.destination, u16::from_be_bytes([header[2], header[3]])),
        seq: word(4),
        ack: (flags & 0x10 != 0).then(|| word(8)),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        flags,
        window: u16::from_be_bytes([header[14], header[15]]),
        window_scale: window_scale(options),
        payload,
        missing_bytes: ip.payload_bytes - header_bytes - payload.len(),
    })
}

/// The window scale option, at most 14 (RFC 7323, section 2.3).
fn window_scale(mut options: &[u8]) -> Option<u8> {
    loop {
        match *options {
            [] | [0, ..] => return None,
            [1, ref rest @ ..] => options = rest,
            [3, 3, shift, ..] => return Some(shift.min(14)),
            [_, length, ..] if length >= 2 => options = options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

fn datagram<'a>(ip: &Ip<'a>) -> Option<Datagram<'a>> {
    let header: &[u8; 8] = ip.payload.first_chunk()?;
    Some(Datagram {
        source: SocketAddr::new(ip.source, u16::from_be_bytes([header[0], header[1]])),
        destination: SocketAddr::new(ip.destination, u16::from_be_bytes([header[2], header[3]])),
        payload: &ip.payload[8..],
        payload_bytes: ip.payload_bytes.checked_sub(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4, TCP with a window scale of 7 and the payload "hi"; captured by Linux 6.12 on a TUN device.
    fn ipv4_segment() -> Vec<u8> {
        let mut bytes = vec![
            0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IP
            0x30, 0x39, 0, 80, 0, 0, 0, 9, 0, 0, 0, 7, 0x60, 0x18, 1, 0, 0, 0, 0, 0, // TCP
            1, 3, 3, 7, b'h', b'i',
        ];
        let sum = !checksum(&bytes, 20, 6);
        bytes[36..38].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The checksum of RFC 1071, in its plainest form.
    fn checksum(packet: &[u8], at: usize, protocol: u8) -> u16 {
        let mut words = packet[12..].to_vec();
        let length = (packet.len() - at) as u16;
        words.extend([0, protocol]);
        words.extend(length.to_be_bytes());
        let sum = words
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum::<u32>();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn ipv4_segment_is_parsed() {
        let bytes = ipv4_segment();
        let Packet::Tcp(segment) = parse(&bytes, Checksums::Verified) else {
            panic!("no TCP");
        };
        assert_eq!(segment.source, "10.0.0.1:12345".parse().unwrap());
        assert_eq!(segment.destination, "10.0.0.2:80".parse().unwrap());
        assert_eq!(
            (segment.seq, segment.ack, segment.window),
            (9, Some(7), 256)
        );
        assert_eq!(
            (segment.syn, segment.fin, segment.rst),
            (false, false, false)
        );
        assert_eq!(segment.window_scale, Some(7));
        assert_eq!((segment.payload, segment.missing_bytes), (&b"hi"[..], 0));
    }

    #[test]
    fn wire_facts_of_a_truncated_packet_equal_those_of_the_whole() {
        let bytes = ipv4_segment();
        let whole = packet_headers(&bytes).unwrap();
        assert_eq!(whole.length, 46);
        let tcp = whole.tcp.unwrap();
        assert_eq!((tcp.seq, tcp.ack, tcp.flags), (9, 7, 0x18));
        assert_eq!((tcp.window, tcp.window_scale), (256, Some(7)));
        assert_eq!(tcp.payload_bytes, 2);
        assert_eq!(packet_headers(&bytes[..45]), Some(whole));
    }

    #[test]
    fn flipped_bit_is_detected_only_if_checksums_are_verified() {
        let mut bytes = ipv4_segment();
        bytes[45] ^= 1;
        assert_eq!(parse(&bytes, Checksums::Verified), Packet::Corrupt);
        assert!(matches!(parse(&bytes, Checksums::Ignored), Packet::Tcp(_)));
    }

    #[test]
    fn bytes_cut_off_by_the_capture_are_counted() {
        let bytes = ipv4_segment();
        let Packet::Tcp(segment) = parse(&bytes[..45], Checksums::Verified) else {
            panic!("no TCP");
        };
        assert_eq!((segment.payload, segment.missing_bytes), (&b"h"[..], 1));
        for length in 0..44 {
            assert_eq!(
                parse(&bytes[..length], Checksums::Ignored),
                Packet::Unreadable
            );
        }
    }

    #[test]
    fn ipv6_extension_headers_are_skipped() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 26, 0, 64];
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend([60, 0, 1, 4, 0, 0, 0, 0]); // hop-by-hop
        bytes.extend([17, 0, 1, 4, 0, 0, 0, 0]); // destination options
        bytes.extend([1, 187, 0, 9, 0, 10, 0, 0, b'h', b'i']);
        let Packet::Udp(datagram) = parse(&bytes, Checksums::Verified) else {
            panic!("no UDP");
        };
        assert_eq!(datagram.source, "[::1]:443".parse().unwrap());
        assert_eq!((datagram.payload, datagram.payload_bytes), (&b"hi"[..], 2));
        // The first extension header turned into a fragment header.
        bytes[6] = 44;
        bytes[43] = 1;
        assert_eq!(parse(&bytes, Checksums::Verified), Packet::Fragment);
    }

    #[test]
    fn other_protocols_fragments_and_garbage_are_distinguished() {
        let mut bytes = ipv4_segment();
        bytes[9] = 1;
        assert_eq!(parse(&bytes, Checksums::Ignored), Packet::Other);
        bytes[6] = 0x20;
        assert_eq!(parse(&bytes, Checksums::Ignored), Packet::Fragment);
        assert_eq!(parse(&[0; 60], Checksums::Ignored), Packet::Unreadable);
        assert_eq!(parse(&[], Checksums::Ignored), Packet::Unreadable);
    }
}
