//! A veth pair: two hosts joined by the kernel alone.
//!
//! This is not a squall link, and its packets are not recorded. It is the baseline for a link: the least that connecting
//! two hosts on one machine costs. A link's devices are in `tun`.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use crate::error::SetupError;
use crate::host::Host;
use crate::netlink;
use crate::tun::{MTU_BYTES, QUEUE_PACKETS_OF_OLDER_KERNELS};

/// Joins two hosts by a pair of devices, both called `name`, with these addresses. The devices disappear with the hosts.
pub fn join(
    name: &str,
    [one, other]: [(&Host, Ipv4Addr); 2],
    prefix_len: u8,
) -> Result<(), SetupError> {
    let other_namespace = other.0.as_fd();
    one.0.run(|| {
        netlink::add_veth_pair(name, other_namespace)
            .map_err(SetupError::netlink("make the pair", name))
    })?;
    for (host, address) in [one, other] {
        host.run(|| {
            let index = nix::net::if_::if_nametoindex(name)
                .map_err(SetupError::netlink("find the index", name))?;
            netlink::add_address(index, address, prefix_len)
                .map_err(SetupError::netlink("set the address", name))?;
            netlink::bring_up(index, MTU_BYTES, QUEUE_PACKETS_OF_OLDER_KERNELS)
                .map_err(SetupError::netlink("set MTU, queue length and state", name))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    /// Needs the right to make namespaces, which root has.
    #[test]
    fn joined_hosts_reach_each_other() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let addresses = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)];
        let hosts = [(); 2].map(|()| Host::create().unwrap());
        join(
            "squall-veth",
            [(&hosts[0], addresses[0]), (&hosts[1], addresses[1])],
            30,
        )
        .unwrap();
        let socket = |which: usize| {
            let bind = || Ok(UdpSocket::bind((addresses[which], 0)).unwrap());
            hosts[which].run(bind).unwrap()
        };
        let (one, other) = (socket(0), socket(1));
        other
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        one.send_to(b"hello", other.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(other.recv(&mut buffer).unwrap(), 5);
    }
}
