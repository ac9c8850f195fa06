//! The numbers by which one header names the next, and the names of protocols that are not read.
//!
//! Only tables: `decapsulation` reads the headers themselves. The numbers are those of the IANA registries "IEEE 802
//! Numbers", "Protocol Numbers", "PPP DLL Protocol Numbers" and "Service Name and Transport Protocol Port Numbers".

use std::fmt;

use super::{Header, Next};

/// A protocol that is not read, as its number or name; it prints as a name, such as `ARP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreadProtocol {
    /// One with a well-known name.
    Named(&'static str),
    /// An EtherType without a name here.
    EtherType(u16),
    /// A protocol over IP without a name here.
    Ip(u8),
    /// A protocol over PPP.
    Ppp(u16),
}

impl fmt::Display for UnreadProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadProtocol::Named(name) => f.write_str(name),
            UnreadProtocol::EtherType(number) => write!(f, "EtherType {number:#06x}"),
            UnreadProtocol::Ip(number) => write!(f, "IP protocol {number}"),
            UnreadProtocol::Ppp(number) => write!(f, "PPP protocol {number:#06x}"),
        }
    }
}

const fn header(header: Header) -> Next {
    Next::Header(header)
}

const fn unread(name: &'static str) -> Next {
    Next::Unread(UnreadProtocol::Named(name))
}

const ETHER_TYPES: &[(u16, Next)] = &[
    (0x0800, header(Header::Ip)),
    (0x86DD, header(Header::Ip)),
    (0x8100, header(Header::Vlan)),
    (0x88A8, header(Header::Vlan)),
    (0x9100, header(Header::Vlan)),
    (0x8847, header(Header::Mpls)),
    (0x8848, header(Header::Mpls)),
    (0x8864, header(Header::Pppoe)),
    // Transparent Ethernet Bridging, in GRE and Geneve.
    (0x6558, header(Header::Ethernet)),
    (0x0806, unread("ARP")),
    (0x8035, unread("RARP")),
    (0x8809, unread("LACP")),
    (0x8863, unread("PPPoE discovery")),
    (0x888E, unread("EAPOL")),
    (0x88CC, unread("LLDP")),
    (0x88E5, unread("MACsec")),
    (0x88F7, unread("PTP")),
    (0x894F, unread("NSH")),
];

const IP_PROTOCOLS: &[(u8, Next)] = &[
    (4, header(Header::Ip)),
    (41, header(Header::Ip)),
    (47, header(Header::Gre)),
    (137, header(Header::Mpls)),
    (1, unread("ICMP")),
    (2, unread("IGMP")),
    (33, unread("DCCP")),
    (50, unread("ESP")),
    (51, unread("AH")),
    (58, unread("ICMPv6")),
    (88, unread("EIGRP")),
    (89, unread("OSPF")),
    (97, unread("EtherIP")),
    (103, unread("PIM")),
    (112, unread("VRRP")),
    (115, unread("L2TP")),
    (132, unread("SCTP")),
    (136, unread("UDP-Lite")),
];

/// Tunnels by the destination port of UDP.
const UDP_PORTS: &[(u16, Next)] = &[
    (2152, header(Header::GtpU)),
    (4789, header(Header::Vxlan)),
    (6081, header(Header::Geneve)),
    (6635, header(Header::Mpls)),
    // The port of VXLAN before it was standardized, still the default of Linux and of Flannel.
    (8472, header(Header::Vxlan)),
    (1701, unread("L2TP")),
    (3544, unread("Teredo")),
    (4500, unread("IPsec in UDP")),
    (4790, unread("VXLAN-GPE")),
    (6080, unread("GUE")),
];

const PPP_PROTOCOLS: &[(u16, Next)] = &[(0x0021, header(Header::Ip)), (0x0057, header(Header::Ip))];

fn find<N: Copy + PartialEq>(table: &[(N, Next)], number: N) -> Option<Next> {
    let entry = table.iter().find(|(known, _)| *known == number);
    entry.map(|(_, next)| *next)
}

pub(super) fn of_ether_type(number: u16) -> Next {
    // Smaller numbers are the length of a frame of IEEE 802.3, with a header of IEEE 802.2 (LLC).
    const SMALLEST: u16 = 0x0600;
    find(ETHER_TYPES, number).unwrap_or(match number {
        ..SMALLEST => unread("LLC"),
        _ => Next::Unread(UnreadProtocol::EtherType(number)),
    })
}

pub(super) fn of_ip_protocol(number: u8) -> Next {
    find(IP_PROTOCOLS, number).unwrap_or(Next::Unread(UnreadProtocol::Ip(number)))
}

pub(super) fn of_udp_port(number: u16) -> Next {
    find(UDP_PORTS, number).unwrap_or(Next::End)
}

pub(super) fn of_ppp(number: u16) -> Next {
    find(PPP_PROTOCOLS, number).unwrap_or(Next::Unread(UnreadProtocol::Ppp(number)))
}
