//! The listeners of `squall serve` and `squall proxy`: where they listen, with which protocols and which certificate.
//!
//! Only the flags and what they turn into; squall-stations opens the sockets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Protocol, SideSettings, Version};
use squall_http::tls;
use squall_linux::socket::SocketError;
use squall_record::read_at_most;
use squall_stations::StationError;
use squall_stations::server::{Listener, ListenerProtocol};

use crate::environment::certificate_validity;
use crate::limits;
use crate::outcome::BadInput;
use crate::output::eprint;

/// Listening addresses: a port (of 127.0.0.1) or ADDRESS:PORT; port 0 takes any free port.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listeners: PORT or ADDRESS:PORT, each may be repeated")]
pub(super) struct Listeners {
    /// HTTP/1.1 without TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h1: Vec<SocketAddr>,
    /// HTTP/1.1 over TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h1s: Vec<SocketAddr>,
    /// HTTP/2 without TLS, with prior knowledge
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h2c: Vec<SocketAddr>,
    /// HTTP/2 over TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h2: Vec<SocketAddr>,
    /// HTTP/2 or HTTP/1.1 over TLS, as ALPN negotiates
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    https: Vec<SocketAddr>,
    /// HTTP/3
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h3: Vec<SocketAddr>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The certificate")]
pub(super) struct Certificate {
    /// Certificate with its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name or address to include in the generated certificate (may be repeated)
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
    /// Write the generated certificate to this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "cert")]
    write_cert: Option<PathBuf>,
}

/// A seed from the operating system's randomness: QUIC's connection ids and Retry tokens are derived from it, and clients
/// must not be able to guess them.
pub(super) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The requested listeners, in the order in which they are opened.
pub(super) struct RequestedListeners(Vec<(ListenerKind, SocketAddr)>);

impl RequestedListeners {
    /// The protocols whose settings the listeners need.
    pub(super) fn protocols(&self) -> Vec<Protocol> {
        let kinds = self.0.iter();
        kinds.flat_map(|(kind, _)| kind.protocols()).collect()
    }

    /// The certificate of the listeners; `None` if none needs one and none is to be written to a file.
    pub(super) fn identity(&self, certificate: &Certificate) -> Result<Option<tls::Identity>> {
        let is_secure = self.protocols().into_iter().any(Protocol::is_secure);
        let is_written = certificate.write_cert.is_some();
        if !is_secure && !is_written && certificate.is_described() {
            let said = "--cert, --key and --name are for listeners with TLS: add --h1s, --h2, --https or --h3";
            return Err(BadInput::new(said).into());
        }
        let is_needed = is_secure || is_written;
        is_needed.then(|| certificate.identity()).transpose()
    }

    /// The listeners with their settings.
    pub(super) fn set_up(
        &self,
        side: &SideSettings,
        identity: Option<&tls::Identity>,
    ) -> Result<Vec<Listener>> {
        let listener = |(kind, address): &(ListenerKind, SocketAddr)| {
            Ok(Listener {
                address: *address,
                protocol: kind.listener_protocol(side, identity)?,
            })
        };
        self.0.iter().map(listener).collect()
    }

    /// Prints the `addresses` that the listeners listen on, which are in the order of the listeners.
    pub(super) fn print_listening(&self, addresses: &[SocketAddr]) {
        for ((kind, _), address) in self.0.iter().zip(addresses) {
            eprint(format_args!("listening {} on {address}\n", kind.name()));
        }
    }
}

impl Listeners {
    /// The listeners that were asked for, or the usual three.
    pub(super) fn requested(&self) -> RequestedListeners {
        let all = [
            (ListenerKind::One(Protocol::H1), &self.h1),
            (ListenerKind::One(Protocol::H1s), &self.h1s),
            (ListenerKind::One(Protocol::H2c), &self.h2c),
            (ListenerKind::One(Protocol::H2), &self.h2),
            (ListenerKind::Https, &self.https),
            (ListenerKind::One(Protocol::H3), &self.h3),
        ];
        let requested: Vec<_> = all
            .into_iter()
            .flat_map(|(kind, addresses)| addresses.iter().map(move |address| (kind, *address)))
            .collect();
        if !requested.is_empty() {
            return RequestedListeners(requested);
        }
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        RequestedListeners(vec![
            (ListenerKind::One(Protocol::H1), local(8080)),
            (ListenerKind::Https, local(8443)),
            (ListenerKind::One(Protocol::H3), local(8443)),
        ])
    }
}

/// The error of listeners that could not be opened, with what to try.
pub(super) fn cannot_listen(error: StationError) -> anyhow::Error {
    let kind = match &error {
        StationError::Socket(SocketError::System { source, .. }) => Some(source.kind()),
        _ => None,
    };
    let advice = match kind {
        Some(ErrorKind::AddrInUse) => {
            "Another program uses this port (`ss -lntup` lists them): stop it, or choose another port; 0 is any free one"
        }
        Some(ErrorKind::AddrNotAvailable) => {
            "This machine has no such address (`ip address` lists them); a port alone means 127.0.0.1"
        }
        Some(ErrorKind::PermissionDenied) => {
            "Only root may use ports below 1024: choose a higher one"
        }
        _ => return error.into(),
    };
    anyhow!("{error}. {advice}")
}

impl Certificate {
    /// Whether a flag determines the certificate's content.
    fn is_described(&self) -> bool {
        self.cert.is_some() || !self.name.is_empty()
    }

    fn identity(&self) -> Result<tls::Identity> {
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            let read = |path: &PathBuf| {
                read_at_most(path, limits::CERTIFICATES).map_err(|error| {
                    BadInput::new(format!("cannot read {}: {error}", path.display()))
                })
            };
            return tls::Identity::from_pem(&read(cert)?, &read(key)?).map_err(|error| {
                BadInput::new(format!(
                    "cannot use the certificate {} with the key {}: {error}",
                    cert.display(),
                    key.display()
                ))
                .into()
            });
        }
        let mut names = vec!["localhost", "127.0.0.1", "::1"];
        names.extend(self.name.iter().map(String::as_str));
        tls::Identity::self_signed(&names, certificate_validity())
            .context("cannot make a certificate")
    }

    /// Writes the generated certificate to the file of `--write-cert`. Call this once the sockets listen: otherwise, a station
    /// whose port is taken replaces the certificate of the one that has the port.
    pub(super) fn write(&self, identity: Option<&tls::Identity>) -> Result<()> {
        let (Some(path), Some(identity)) = (&self.write_cert, identity) else {
            return Ok(());
        };
        let pem = identity.chain_pem().context("cannot write a certificate")?;
        std::fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerKind {
    One(Protocol),
    /// HTTP/2 or HTTP/1.1, as ALPN negotiates.
    Https,
}

impl ListenerKind {
    fn name(self) -> &'static str {
        match self {
            ListenerKind::One(protocol) => protocol.name(),
            ListenerKind::Https => "https",
        }
    }

    /// The protocols whose settings this kind of listener needs.
    fn protocols(self) -> Vec<Protocol> {
        match self {
            ListenerKind::One(protocol) => vec![protocol],
            ListenerKind::Https => vec![Protocol::H2, Protocol::H1s],
        }
    }

    fn listener_protocol(
        self,
        side: &SideSettings,
        identity: Option<&tls::Identity>,
    ) -> Result<ListenerProtocol> {
        let offers: &[&str] = match self {
            ListenerKind::One(Protocol::H1) => return Ok(ListenerProtocol::Plain(Version::Http1)),
            ListenerKind::One(Protocol::H2c) => return Ok(ListenerProtocol::Plain(Version::Http2)),
            ListenerKind::One(Protocol::H1s) => &["http/1.1"],
            ListenerKind::One(Protocol::H2) => &["h2"],
            ListenerKind::Https => &["h2", "http/1.1"],
            ListenerKind::One(Protocol::H3) => {
                let identity = identity.context("HTTP/3 needs a certificate")?;
                return Ok(ListenerProtocol::Quic(identity.clone()));
            }
        };
        let identity = identity.context("TLS needs a certificate")?;
        let context = tls::ServerContext::new(&side.tls, offers, identity);
        Ok(ListenerProtocol::Secure(
            context.context("cannot set up TLS")?,
        ))
    }
}

/// Parses a port of 127.0.0.1, or an address with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        "expected a port or an address with one, such as 8080 or [::1]:8080".to_owned()
    })
}
