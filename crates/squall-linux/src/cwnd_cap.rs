//! A cap of the congestion window of all TCP connections from one address to another, in the calling thread's host.
//!
//! The kernel takes it from the locked metric `cwnd` of a route (ip-route(8)), but by way of its cache of TCP metrics, and
//! only of an entry that is there before a connection begins (tcp_init_metrics, net/ipv4/tcp_metrics.c). An entry is made
//! when a connection of these two addresses has ended, so one ends here, over the loopback device and before the link has
//! its device. All other metrics are locked at zero, so nothing of that connection is remembered.
//!
//! The route across the link is `tun`'s; what a connection made of its cap, TCP_INFO tells (`tcp_info`).

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::error::SetupError;
use crate::host::NO_METRICS_SAVE;
use crate::netlink::{self, LOOPBACK_INDEX, Route};
use crate::sysctl;

/// Addresses by themselves, not subnets.
const PREFIX_LEN: u8 = 32;

/// Makes the kernel cap what connections from `own` to `peer` have in flight at so many segments. Neither address may be
/// on a device of this host yet.
pub fn remember(own: Ipv4Addr, peer: Ipv4Addr, segments: u32) -> Result<(), SetupError> {
    sysctl::write(NO_METRICS_SAVE, "0")?;
    let ended = end_a_connection(own, peer, segments);
    sysctl::write(NO_METRICS_SAVE, "1")?;
    ended.map_err(|source| SetupError::System {
        action: "cap the congestion window of a host",
        source,
    })
}

fn end_a_connection(own: Ipv4Addr, peer: Ipv4Addr, segments: u32) -> io::Result<()> {
    for address in [own, peer] {
        netlink::add_address(LOOPBACK_INDEX, address, PREFIX_LEN)?;
    }
    netlink::replace_route(
        &Route::to_own_address(own, peer),
        &netlink::capped(segments),
    )?;
    let listener = TcpListener::bind((peer, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    // The other end closes first, so nothing of this one remains.
    drop(far);
    near.read_to_end(&mut Vec::new())?;
    drop(near);
    for address in [own, peer] {
        netlink::remove_address(LOOPBACK_INDEX, address, PREFIX_LEN)?;
    }
    Ok(())
}
