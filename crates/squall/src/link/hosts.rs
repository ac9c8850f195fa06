//! The two hosts of a single link, each with the link's device: those of `squall link` and of the self-test.
//!
//! Only the hosts and devices: the caller starts the link's thread. The hosts of trials, which may have several links,
//! are in `run::worker::place`.

use std::net::Ipv4Addr;

use squall_linux::SetupError;
use squall_linux::host::Host;
use squall_linux::link_thread::LinkDevices;
use squall_linux::tun::{Offload, Tun};

// 198.18.0.0/15 is reserved for network benchmarks (RFC 2544, appendix C.2.2).
pub(crate) const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(crate) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(crate) const PREFIX_LEN: u8 = 30;
/// The name of the link's device in both hosts.
pub(crate) const DEVICE: &str = "squall0";

/// Makes both hosts, the client first. Their connections use this congestion control, unless a socket sets its own.
pub(crate) fn make(
    congestion_control: &str,
    offload: Offload,
) -> Result<([Host; 2], LinkDevices), SetupError> {
    let hosts = [Host::create()?, Host::create()?];
    let end = |host: &Host, address| {
        host.run(|| {
            let device = Tun::create(DEVICE, address, PREFIX_LEN, offload)?;
            device.use_congestion_control(congestion_control)?;
            Ok(device)
        })
    };
    let devices = LinkDevices {
        client: end(&hosts[0], CLIENT_ADDRESS)?,
        server: end(&hosts[1], SERVER_ADDRESS)?,
    };
    Ok((hosts, devices))
}
