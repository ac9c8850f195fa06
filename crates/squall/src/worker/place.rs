//! Where the stations of a trial are: the two hosts, their addresses, and the certificate that they share.
//!
//! Nothing is started here; `stations` does that.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use squall_base::plan::Variant;
use squall_http::tls;
use squall_linux::host::Host;

// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544, appendix C.2.2).
pub(super) const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Where the station behind the client listens; each further one a port higher.
const FIRST_PORT: u16 = 8080;
/// What clients call every station that listens: its name in certificates.
pub(super) const SERVER_NAME: &str = "server";

/// The hosts on both sides of the link.
pub(super) struct Hosts {
    pub(super) near: Host,
    pub(super) far: Host,
}

impl Hosts {
    /// The host of a station, by its place on the path from 0.
    pub(super) fn of(&self, variant: &Variant, station: usize) -> &Host {
        if variant.is_behind_link(station) {
            &self.far
        } else {
            &self.near
        }
    }
}

/// Where a station listens, by its place on the path; the client, place 0, does not. A hop inside a host is over its
/// loopback device.
pub(super) fn address_of(variant: &Variant, station: usize) -> SocketAddrV4 {
    let address = if variant.hops[station - 1].across_link {
        FAR_ADDRESS
    } else {
        Ipv4Addr::LOCALHOST
    };
    SocketAddrV4::new(address, FIRST_PORT + station as u16 - 1)
}

/// The certificate of all stations that listen, if the path needs one.
pub(super) fn identity(variant: &Variant) -> Result<Option<tls::Identity>> {
    if !variant.hops.iter().any(|hop| hop.protocol.is_secure()) {
        return Ok(None);
    }
    let validity = crate::environment::certificate_validity();
    tls::Identity::self_made(&[SERVER_NAME], validity)
        .map(Some)
        .context("cannot make the stations' certificate")
}
