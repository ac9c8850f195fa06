//! Where the stations of a trial are: the two hosts, their addresses, and the certificate that the stations share.
//!
//! Nothing is started here; `stations` does that.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use squall_base::plan::Variant;
use squall_http::tls;
use squall_linux::host::Host;

// 198.18.0.0/15 is reserved for network benchmarks (RFC 2544, appendix C.2.2).
pub(super) const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Port of the station behind the client; each further station listens one port higher.
const FIRST_PORT: u16 = 8080;
/// The name of every listening station in certificates.
pub(super) const SERVER_NAME: &str = "server";

/// The hosts on the two sides of the link.
pub(super) struct Hosts {
    pub(super) near: Host,
    pub(super) far: Host,
}

impl Hosts {
    /// The host of a station, by its place on the path, counted from 0.
    pub(super) fn of(&self, variant: &Variant, station: usize) -> &Host {
        if variant.is_behind_link(station) {
            &self.far
        } else {
            &self.near
        }
    }
}

/// The address a station listens on, by its place on the path. The client, place 0, does not listen. A hop inside a
/// host uses its loopback device.
pub(super) fn address_of(variant: &Variant, station: usize) -> SocketAddrV4 {
    let address = if variant.hops[station - 1].across_link {
        FAR_ADDRESS
    } else {
        Ipv4Addr::LOCALHOST
    };
    SocketAddrV4::new(address, FIRST_PORT + station as u16 - 1)
}

/// The certificate shared by all listening stations, if the path needs one.
pub(super) fn identity(variant: &Variant) -> Result<Option<tls::Identity>> {
    if !variant.hops.iter().any(|hop| hop.protocol.is_secure()) {
        return Ok(None);
    }
    let validity = crate::environment::certificate_validity();
    tls::Identity::self_signed(&[SERVER_NAME], validity)
        .map(Some)
        .context("cannot make the stations' certificate")
}
