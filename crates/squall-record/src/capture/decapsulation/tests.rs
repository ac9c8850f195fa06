//! Hand-made headers of every kind, nested and truncated, and arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// In place of two Ethernet addresses.
const ADDRESSES: [u8; 12] = [2; 12];

fn ipv4_of(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let start = [0x45, 0, length[0], length[1], 0, 0, 0x40, 0];
    let rest = [64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&start[..], &rest, payload].concat()
}

fn ipv6_of(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let header = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    [&header[..], &[0xfd; 32], payload].concat()
}

/// A datagram to this port.
fn udp_to(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let [high, low] = port.to_be_bytes();
    let header = [0x15, 0xb3, high, low, length[0], length[1], 0, 0];
    [&header[..], payload].concat()
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ADDRESSES[..], &ether_type.to_be_bytes(), payload].concat()
}

/// The packet that every tunnel contains: TCP, of which only the first byte matters.
fn inner() -> Vec<u8> {
    ipv4_of(6, &[0xaa; 20])
}

fn inner_frame() -> Vec<u8> {
    ethernet(0x0800, &inner())
}

/// IP packets around [`inner`], by the name of the tunnel.
fn tunnels_over_ip() -> Vec<(&'static str, Vec<u8>)> {
    let vxlan = [&[0x08, 0, 0, 0, 0, 0, 1, 0][..], &inner_frame()].concat();
    let with_policy = [&[0x88, 0, 0, 5, 0, 0, 1, 0][..], &inner_frame()].concat();
    // One option of 4 bytes.
    let geneve = [
        &[0x01, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4][..],
        &inner_frame(),
    ]
    .concat();
    let geneve_of_ip = [&[0, 0, 0x08, 0, 0, 0, 1, 0][..], &inner()].concat();
    let gtp = [&[0x30, 255, 0, 40, 0, 0, 0, 7][..], &inner()].concat();
    // A sequence number; then an extension header of 4 bytes.
    let gtp_with_more = [
        &[0x36, 255, 0, 48, 0, 0, 0, 7][..],
        &[0, 1, 0, 0x85, 1, 0, 9, 0],
        &inner(),
    ]
    .concat();
    let gre = [&[0, 0, 0x08, 0][..], &inner()].concat();
    // A checksum, a key and a sequence number.
    let gre_with_all = [&[0xb0, 0, 0x08, 0][..], &[7; 12], &inner()].concat();
    let gre_bridge = [&[0x20, 0, 0x65, 0x58][..], &[7; 4], &inner_frame()].concat();
    let labels = [&[0, 1, 0, 64, 0, 2, 1, 64][..], &inner()].concat();
    let mut tunnels = vec![
        ("VXLAN", ipv4_of(UDP, &udp_to(4789, &vxlan))),
        ("VXLAN", ipv6_of(UDP, &udp_to(8472, &vxlan))),
        ("VXLAN", ipv4_of(UDP, &udp_to(4789, &with_policy))),
        ("Geneve", ipv4_of(UDP, &udp_to(6081, &geneve))),
        ("Geneve", ipv4_of(UDP, &udp_to(6081, &geneve_of_ip))),
        ("GTP-U", ipv4_of(UDP, &udp_to(2152, &gtp))),
        ("GTP-U", ipv4_of(UDP, &udp_to(2152, &gtp_with_more))),
        ("MPLS", ipv4_of(UDP, &udp_to(6635, &labels))),
        ("MPLS", ipv4_of(137, &labels)),
        ("GRE", ipv4_of(47, &gre)),
        ("GRE", ipv6_of(47, &gre_with_all)),
        ("GRE", ipv4_of(47, &gre_bridge)),
        ("IP in IP", ipv4_of(4, &inner())),
        ("6in4", ipv4_of(41, &ipv6_of(4, &inner()))),
        // Destination options, and a fragment header of a whole packet.
        (
            "IP in IP",
            ipv6_of(
                60,
                &[
                    &[44, 0, 1, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 1][..],
                    &inner(),
                ]
                .concat(),
            ),
        ),
    ];
    tunnels.extend(erspan().map(|frame| ("ERSPAN", ipv4_of(47, &frame))));
    tunnels
}

/// ERSPAN I, II and III, the last with and without a subheader.
fn erspan() -> [Vec<u8>; 4] {
    let erspan1 = [&[0, 0, 0x88, 0xbe][..], &inner_frame()].concat();
    let erspan2 = [
        &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1][..],
        &[0x10; 8],
        &inner_frame(),
    ]
    .concat();
    let erspan3 = [
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..],
        &[0x20; 10],
        &[0, 0],
        &inner_frame(),
    ]
    .concat();
    let erspan3_with_more = [
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..],
        &[0x20; 10],
        &[0, 1],
        &[3; 8],
        &inner_frame(),
    ]
    .concat();
    [erspan1, erspan2, erspan3, erspan3_with_more]
}

/// What is found in a frame of Ethernet: the bytes of the IP packet, and what is not read.
fn found(frame: &[u8]) -> (Option<&[u8]>, Option<UnreadProtocol>) {
    let Unwrapped { ip_start, unread } = decapsulate(frame, Header::Ethernet, 0);
    (ip_start.map(|start| &frame[start..]), unread)
}

#[test]
fn packet_in_a_tunnel_over_ip_is_found() {
    for (name, packet) in tunnels_over_ip() {
        for ether_type in [0x0800, 0x86DD] {
            let frame = ethernet(ether_type, &packet);
            assert_eq!(found(&frame), (Some(&inner()[..]), None), "{name}");
        }
        // The tunnel itself in another one.
        let nested = ethernet(
            0x0800,
            &ipv4_of(47, &[&[0, 0, 0x08, 0][..], &packet].concat()),
        );
        assert_eq!(found(&nested), (Some(&inner()[..]), None), "{name} in GRE");
    }
}

#[test]
fn packet_after_labels_and_session_headers_is_found() {
    let labels = [&[0, 1, 0, 64, 0, 2, 1, 64][..], &inner()].concat();
    // A control word, then a frame of Ethernet.
    let pseudowire = [&[0, 2, 1, 64, 0, 0, 0, 0][..], &inner_frame()].concat();
    let session = [&[0x11, 0, 0, 1, 0, 42, 0, 0x21][..], &inner()].concat();
    let tagged = [&[0, 5, 0x88, 0x64][..], &session].concat();
    for frame in [
        ethernet(0x8847, &labels),
        ethernet(0x8848, &pseudowire),
        ethernet(0x8864, &session),
        ethernet(0x8100, &tagged),
    ] {
        assert_eq!(found(&frame), (Some(&inner()[..]), None), "{frame:x?}");
    }
}

#[test]
fn unsupported_protocols_are_named() {
    let l2tp = ipv4_of(UDP, &udp_to(1701, &[0; 12]));
    let pptp = ipv4_of(47, &[0x30, 1, 0x88, 0x0b, 0, 0, 0, 1]);
    // ARP in VXLAN.
    let arp = [
        &[0x08, 0, 0, 0, 0, 0, 1, 0][..],
        &ethernet(0x0806, &[0; 28]),
    ]
    .concat();
    let arp = ipv4_of(UDP, &udp_to(4789, &arp));
    // The flag for a valid network identifier is missing.
    let no_vxlan = ipv4_of(UDP, &udp_to(4789, &[0; 30]));
    for (packet, name) in [
        (l2tp, "L2TP"),
        (ipv4_of(115, &[0; 12]), "L2TP"),
        (pptp, "PPTP"),
        (ipv6_of(58, &[0; 8]), "ICMPv6"),
        (ipv4_of(253, &[]), "IP protocol 253"),
        (arp, "ARP"),
        (no_vxlan, "VXLAN"),
        (ipv4_of(4, &[]), "IP in IP"),
    ] {
        let frame = ethernet(0x0800, &packet);
        let (ip, unread) = found(&frame);
        assert_eq!(ip, Some(&packet[..]), "{name}");
        assert_eq!(
            unread.as_ref().map(ToString::to_string).as_deref(),
            Some(name)
        );
    }
    for (ether_type, name) in [(0x0806, "ARP"), (0x88b8, "EtherType 0x88b8"), (38, "LLC")] {
        let frame = ethernet(ether_type, &[0x55; 40]);
        let (ip, unread) = found(&frame);
        assert_eq!(ip, None, "{name}");
        assert_eq!(
            unread.as_ref().map(ToString::to_string).as_deref(),
            Some(name)
        );
    }
    let lcp = ethernet(0x8864, &[0x11, 0, 0, 1, 0, 6, 0xc0, 0x21, 1, 1, 0, 4]);
    let (_, unread) = found(&lcp);
    assert_eq!(unread, Some(UnreadProtocol::Ppp(0xc021)));
}

#[test]
fn transports_and_fragments_are_not_unwrapped() {
    let mut fragment = ipv4_of(47, &[&[0, 0, 0x08, 0][..], &inner()].concat());
    fragment[6] = 0x20;
    let more = ipv6_of(
        44,
        &[&[47, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x08, 0][..], &inner()].concat(),
    );
    for packet in [
        inner(),
        ipv4_of(UDP, &udp_to(443, &inner())),
        fragment,
        more,
    ] {
        let frame = ethernet(0x0800, &packet);
        assert_eq!(found(&frame), (Some(&packet[..]), None));
    }
}

#[test]
fn truncated_tunnel_yields_the_packet_around_it() {
    for (name, packet) in tunnels_over_ip() {
        for length in 0..packet.len() {
            let frame = ethernet(0x0800, &packet[..length]);
            let (ip, _) = found(&frame);
            // The outer packet, or one further inside; never anything else.
            assert_eq!(ip.is_some(), length > 0, "{name}: {length}");
            let is_ip = ip.is_none_or(|ip| matches!(ip[0] >> 4, 4 | 6));
            assert!(is_ip, "{name}: {length}");
        }
    }
}

#[test]
fn unwrapping_of_endless_nesting_ends() {
    let mut packet = inner();
    for _ in 0..2 * MAX_HEADERS {
        packet = ipv4_of(4, &packet);
    }
    let frame = ethernet(0x0800, &packet);
    let (ip, _) = found(&frame);
    assert!(ip.is_some_and(|ip| ip.len() < packet.len() && ip.len() > inner().len()));
    // A stack of MPLS labels without a last one.
    assert_eq!(found(&ethernet(0x8847, &[0; 1_000])), (None, None));
}

proptest! {
    #[test]
    fn arbitrary_bytes_yield_an_ip_packet_or_nothing(
        bytes in vec(any::<u8>(), 0..80),
        tunnel in any::<prop::sample::Index>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ether_type: u16,
    ) {
        let tunnels = tunnels_over_ip();
        let mut damaged = tunnels[tunnel.index(tunnels.len())].1.clone();
        for (at, byte) in damage {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        for frame in [ethernet(ether_type, &bytes), ethernet(0x0800, &bytes), ethernet(0x0800, &damaged)] {
            let (ip, _) = found(&frame);
            prop_assert!(ip.is_none_or(|ip| matches!(ip[0] >> 4, 4 | 6)));
        }
    }
}
