//! The few rtnetlink requests that a host needs, addressed by interface index.
//!
//! It uses netlink rather than ioctl because SIOCSIFTXQLEN is refused in a user namespace and IFLA_TXQLEN is not.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// The loopback device: the first interface of every network namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Sets MTU and transmit queue length, and brings the interface up.
pub(crate) fn bring_up(index: u32, mtu_bytes: u32, queue_packets: u32) -> io::Result<()> {
    let attributes = vec![
        LinkAttribute::Mtu(mtu_bytes),
        LinkAttribute::TxQueueLen(queue_packets),
    ];
    bring_up_with(index, attributes)
}

/// Brings the loopback interface up, unchanged otherwise.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    bring_up_with(LOOPBACK_INDEX, Vec::new())
}

fn bring_up_with(index: u32, attributes: Vec<LinkAttribute>) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes = attributes;
    request(RouteNetlinkMessage::SetLink(message), 0)
}

/// Makes a veth pair with both devices called `name`: one in the calling thread's network namespace, the other in
/// `other_namespace`.
pub(crate) fn add_veth_pair(name: &str, other_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let mut other_end = LinkMessage::default();
    other_end.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::NetNsFd(other_namespace.as_raw_fd()),
    ];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other_end))),
        ]),
    ];
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    request(RouteNetlinkMessage::NewLink(message), flags)
}

/// Removes the interface's queueing discipline: packets go straight to the device.
pub(crate) fn remove_queue(index: u32) -> io::Result<()> {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![TcAttribute::Kind("noqueue".to_owned())];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    request(RouteNetlinkMessage::NewQueueDiscipline(message), flags)
}

/// Gives the interface an address; the kernel adds the route to its subnet.
pub(crate) fn add_address(index: u32, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
    let message = address_message(index, address, prefix_len);
    request(
        RouteNetlinkMessage::NewAddress(message),
        NLM_F_CREATE | NLM_F_EXCL,
    )
}

/// Removes the address, together with the kernel's routes to it.
pub(crate) fn remove_address(index: u32, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
    let message = address_message(index, address, prefix_len);
    request(RouteNetlinkMessage::DelAddress(message), 0)
}

fn address_message(index: u32, address: Ipv4Addr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(IpAddr::V4(address)),
        AddressAttribute::Address(IpAddr::V4(address)),
    ];
    message
}

/// A route that the kernel made when an interface got its address.
pub(crate) struct Route {
    index: u32,
    destination: Ipv4Addr,
    prefix_len: u8,
    /// The source address of packets whose sockets have not chosen one.
    source: Ipv4Addr,
    table: u8,
    scope: RouteScope,
    kind: RouteType,
}

impl Route {
    /// The route to the subnet of an interface's address.
    pub(crate) fn to_subnet(index: u32, address: Ipv4Addr, prefix_len: u8) -> Route {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix_len))
            .unwrap_or(0);
        Route {
            index,
            destination: Ipv4Addr::from(u32::from(address) & mask),
            prefix_len,
            source: address,
            table: RouteHeader::RT_TABLE_MAIN,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
        }
    }

    /// The route to one address of the loopback device from another.
    pub(crate) fn to_own_address(source: Ipv4Addr, destination: Ipv4Addr) -> Route {
        Route {
            index: LOOPBACK_INDEX,
            destination,
            prefix_len: 32,
            source,
            table: RT_TABLE_LOCAL,
            scope: RouteScope::Host,
            kind: RouteType::Local,
        }
    }
}

/// The table of routes to a host's local addresses (linux/rtnetlink.h).
const RT_TABLE_LOCAL: u8 = 255;

/// Metrics that cap the congestion window at this many segments, and lock at zero every other metric that the kernel may
/// remember (linux/rtnetlink.h).
pub(crate) fn capped(segments: u32) -> [RouteMetric; 2] {
    const RTAX_RTT: u32 = 4;
    const RTAX_RTTVAR: u32 = 5;
    const RTAX_SSTHRESH: u32 = 6;
    const RTAX_CWND: u32 = 7;
    const RTAX_REORDERING: u32 = 9;
    const LOCKED: u32 = 1 << RTAX_RTT
        | 1 << RTAX_RTTVAR
        | 1 << RTAX_SSTHRESH
        | 1 << RTAX_CWND
        | 1 << RTAX_REORDERING;
    [RouteMetric::Lock(LOCKED), RouteMetric::Cwnd(segments)]
}

/// Replaces the kernel's route by one with these metrics.
pub(crate) fn replace_route(route: &Route, metrics: &[RouteMetric]) -> io::Result<()> {
    let mut message = route_message(route);
    message
        .attributes
        .push(RouteAttribute::Metrics(metrics.to_vec()));
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    request(RouteNetlinkMessage::NewRoute(message), flags)
}

/// Removes a route.
pub(crate) fn remove_route(route: &Route) -> io::Result<()> {
    request(RouteNetlinkMessage::DelRoute(route_message(route)), 0)
}

fn route_message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = route.prefix_len;
    message.header.table = route.table;
    // As the kernel set it when the interface came up, so that the route is replaced rather than joined by a second one.
    message.header.protocol = RouteProtocol::Kernel;
    message.header.scope = route.scope;
    message.header.kind = route.kind;
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(route.destination)),
        RouteAttribute::Oif(route.index),
        RouteAttribute::PrefSource(RouteAddress::Inet(route.source)),
    ];
    message
}

/// Sends one request and waits for its acknowledgement.
fn request(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    header.sequence_number = 1;
    let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        NetlinkPayload::Error(_) => Ok(()),
        other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected an acknowledgement, got {other:?}"),
        )),
    }
}
