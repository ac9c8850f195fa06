//! Where the stations of a trial are: its hosts, their addresses, and the certificate that the stations share.
//!
//! Nothing is started here; `links` and `stations` do that.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use squall_base::plan::Variant;
use squall_http::tls;
use squall_linux::SetupError;
use squall_linux::host::Host;

/// Reserved for network benchmarks (RFC 2544, appendix C.2.2). Each link gets four of these addresses as its subnet.
const ADDRESSES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Port of the station after the client; each further station listens one port higher.
const FIRST_PORT: u16 = 8080;
/// The name of every listening station in certificates.
pub(super) const SERVER_NAME: &str = "server";

/// The hosts of a trial, from the client's on: a link leads from each to the next.
pub(super) struct Hosts(Vec<Host>);

impl Hosts {
    /// Makes the hosts that a path needs: one more than it has links.
    pub(super) fn create(variant: &Variant) -> Result<Hosts, SetupError> {
        let hosts = (0..=variant.links()).map(|_| Host::create());
        hosts.collect::<Result<_, _>>().map(Hosts)
    }

    pub(super) fn client(&self) -> &Host {
        &self.0[0]
    }

    /// All of them, from the client's on.
    pub(super) fn all(&self) -> &[Host] {
        &self.0
    }

    /// The host of a station, by its place on the path, counted from 0.
    pub(super) fn of(&self, variant: &Variant, station: usize) -> &Host {
        &self.0[variant.links_before(station)]
    }

    /// The hosts at the client's end and at the server's end of a link, by its place among the links, counted from 0.
    pub(super) fn ends(&self, link: usize) -> [&Host; 2] {
        [&self.0[link], &self.0[link + 1]]
    }
}

/// The addresses of a link's devices at its client's end and at its server's end.
pub(super) fn link_addresses(link: usize) -> [Ipv4Addr; 2] {
    let subnet = u32::from(ADDRESSES) + 4 * link as u32;
    [subnet + 1, subnet + 2].map(Ipv4Addr::from)
}

/// The name of a link's device in both of its hosts.
pub(super) fn device_name(link: usize) -> String {
    format!("squall{link}")
}

/// The address a station listens on, by its place on the path. The client, place 0, does not listen. A hop inside a
/// host uses its loopback device.
pub(super) fn address_of(variant: &Variant, station: usize) -> SocketAddrV4 {
    let address = if variant.hops[station - 1].across_link {
        let [_, server] = link_addresses(variant.links_before(station - 1));
        server
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
