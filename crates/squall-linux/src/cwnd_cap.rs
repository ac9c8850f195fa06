//! Caps the congestion window of all TCP connections from one address to another, in the calling thread's host.
//!
//! The kernel takes the cap from the locked metric `cwnd` of a route (ip-route(8)), but only through its cache of TCP
//! metrics, and only if an entry exists before the connection begins (tcp_init_metrics, net/ipv4/tcp_metrics.c). The kernel
//! makes an entry when a connection between the two addresses ends. So this module ends one, over the loopback device and
//! before the link has its device. All other metrics are locked at zero, so nothing of that connection is remembered.
//!
//! The route across the link belongs to `tun`. TCP_INFO (`tcp_info`) shows whether a connection keeps to the cap.

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::error::SetupError;
use crate::host::NO_METRICS_SAVE;
use crate::netlink::{self, LOOPBACK_INDEX, Route};
use crate::sysctl;

/// Single addresses, not subnets.
const PREFIX_LEN: u8 = 32;

/// Makes the kernel cap the congestion window of connections from `own` to `peer` at this many segments. Neither address
/// may be on a device of this host yet.
pub fn remember(own: Ipv4Addr, peer: Ipv4Addr, segments: u32) -> Result<(), SetupError> {
    sysctl::write(NO_METRICS_SAVE, "0")?;
    let ended = end_a_connection(own, peer, segments);
    sysctl::write(NO_METRICS_SAVE, "1")?;
    ended.map_err(SetupError::system("cap the congestion window of a host"))
}

fn end_a_connection(own: Ipv4Addr, peer: Ipv4Addr, segments: u32) -> io::Result<()> {
    for address in [own, peer] {
        netlink::add_address(LOOPBACK_INDEX, address, PREFIX_LEN)?;
    }
    let route = Route::to_own_address(own, peer);
    netlink::replace_route(&route, &netlink::capped(segments))?;
    let listener = TcpListener::bind((peer, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    // The other end closes first, so no TIME_WAIT remains at this end.
    drop(far);
    near.read_to_end(&mut Vec::new())?;
    drop(near);
    // The route's source address differs from that of the kernel's own route, so removing the address would not remove the
    // route.
    netlink::remove_route(&route)?;
    for address in [own, peer] {
        netlink::remove_address(LOOPBACK_INDEX, address, PREFIX_LEN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{SockType, SockaddrIn, bind, connect};

    use super::*;
    use crate::host::Host;
    use crate::socket::open;
    use crate::tcp_info;

    const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

    /// The congestion window of a connection from `OWN` to `PEER` that has sent more than any window holds.
    fn window_of_a_connection() -> io::Result<u32> {
        for address in [OWN, PEER] {
            netlink::add_address(LOOPBACK_INDEX, address, PREFIX_LEN)?;
        }
        let listener = TcpListener::bind((PEER, 0))?;
        let port = listener.local_addr()?.port();
        let fd = open((PEER, port).into(), SockType::Stream)?;
        bind(
            fd.as_raw_fd(),
            &SockaddrIn::from(std::net::SocketAddrV4::new(OWN, 0)),
        )?;
        let peer = SockaddrIn::from(std::net::SocketAddrV4::new(PEER, port));
        // Over the loopback device the handshake is complete when this returns.
        let _in_progress = connect(fd.as_raw_fd(), &peer);
        let mut near = TcpStream::from(fd);
        near.set_nonblocking(false)?;
        let (mut far, _) = listener.accept()?;
        let reading = std::thread::spawn(move || io::copy(&mut far, &mut io::sink()));
        near.write_all(&vec![0; 16 << 20])?;
        let mut buffer = [0; tcp_info::TCP_INFO_BYTES];
        let info = tcp_info::tcp_info(&near, &mut buffer)?;
        // tcpi_snd_cwnd of `struct tcp_info` (linux/tcp.h): 8 bytes and 18 numbers precede it.
        let window = u32::from_ne_bytes(info[80..84].try_into().expect("four bytes"));
        drop(near);
        reading.join().expect("the reader ends")?;
        Ok(window)
    }

    #[test]
    fn a_congestion_window_grows_to_the_remembered_cap_and_no_further() {
        for cap in [None, Some(3)] {
            let host = match Host::create() {
                Ok(host) => host,
                Err(error) => return println!("skipped: {error}"),
            };
            let window = host.run(|| {
                cap.map_or(Ok(()), |cap| remember(OWN, PEER, cap))?;
                window_of_a_connection().map_err(SetupError::system("measure a window"))
            });
            match (cap, window.unwrap()) {
                (Some(cap), window) => assert_eq!(window, cap),
                (None, window) => assert!(window >= 10, "{window}"),
            }
        }
    }
}
