//! Where a URL leads: its parts, an address, and whom TLS shall trust.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::{Scheme, h3, tls};
use squall_linux::{clock, tls_session};
use squall_stations::client::Target;

use super::ConnectionFlags;
use crate::BadInput;

/// A URL, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) scheme: Scheme,
    /// Host and, unless it is the scheme's own, port: what requests state.
    pub(crate) authority: String,
    /// The host alone, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Path and query.
    pub(crate) target: String,
}

/// Whom the person trusts.
pub(crate) struct Trusting;

impl Place {
    /// Takes `text` apart; without a scheme it is http.
    pub(crate) fn parse(text: &str) -> Result<Place, BadInput> {
        let whole = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let refused = |said: &str| {
            BadInput::new(format!(
                "{text:?} is not a URL that can be asked: {said}, such as https://server:8443/path"
            ))
        };
        let url = url::Url::parse(&whole).map_err(|error| refused(&error.to_string()))?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(refused("expected http or https")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(
                "a name or password in it is not sent; use -H 'authorization: ...'",
            ));
        }
        let host = url.host_str().ok_or_else(|| refused("it has no host"))?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let port = url
            .port_or_known_default()
            .ok_or_else(|| refused("it has no port"))?;
        let query = url.query().map(|query| format!("?{query}"));
        Ok(Place {
            scheme,
            authority,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            target: url.path().to_owned() + &query.unwrap_or_default(),
        })
    }

    /// The same server with another path and query.
    pub(crate) fn with_target(&self, target: &str) -> Place {
        Place {
            target: target.to_owned(),
            ..self.clone()
        }
    }

    /// As a URL.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}{}", self.authority, self.target)
    }

    /// Where it is: the first address that its name has, or that of `--connect-to`.
    fn address(&self, connect_to: Option<&str>) -> Result<SocketAddr, BadInput> {
        let (what, found) = match connect_to {
            Some(text) => (text.to_owned(), text.to_socket_addrs()),
            None => (
                self.host.clone(),
                (self.host.as_str(), self.port).to_socket_addrs(),
            ),
        };
        let mut found =
            found.map_err(|error| BadInput::new(format!("cannot find {what}: {error}")))?;
        found
            .next()
            .ok_or_else(|| BadInput::new(format!("{what} has no address")))
    }
}

impl Trusting {
    /// Whom to connect to, and what TLS offers there.
    pub(crate) fn target(
        flags: &ConnectionFlags,
        place: &Place,
        (protocol, is_strict): (Protocol, bool),
        side: &SideSettings,
    ) -> Result<Target> {
        let trust = match (&flags.cacert, flags.insecure) {
            (_, true) => tls::Trust::Anyone,
            (None, false) => tls::Trust::System,
            (Some(path), false) => tls::Trust::Pem(std::fs::read(path).map_err(|error| {
                BadInput::new(format!("cannot read {}: {error}", path.display()))
            })?),
        };
        let mut target = Target {
            address: place.address(flags.connect_to.as_deref())?,
            server_name: place.host.clone(),
            security: None,
            quic: None,
        };
        let failed = |error: tls::SetupError| BadInput::new(format!("cannot set up TLS: {error}"));
        match protocol {
            Protocol::H1 | Protocol::H2c => {}
            Protocol::H3 => {
                let context =
                    h3::ClientContext::new(&side.http3, &side.tls, &trust, clock::unix_nanos());
                let context = context
                    .map_err(|error| BadInput::new(format!("cannot set up QUIC: {error}")))?;
                target.quic = Some(Arc::new(Mutex::new(context)));
            }
            Protocol::H1s | Protocol::H2 => {
                let offers: &[&str] = match (protocol, is_strict) {
                    (Protocol::H1s, _) => &["http/1.1"],
                    (_, true) => &["h2"],
                    _ => &["h2", "http/1.1"],
                };
                let context = tls::ClientContext::new(&side.tls, offers, &trust);
                let context = context.map_err(failed)?;
                target.security = Some(context.resuming_with(tls_session::offer));
            }
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let place = Place::parse("https://server:8443/a?b=c#d").unwrap();
        assert_eq!(place.authority, "server:8443");
        assert_eq!((place.host.as_str(), place.port), ("server", 8443));
        assert_eq!(place.target, "/a?b=c");
        let place = Place::parse("[::1]").unwrap();
        assert_eq!((place.scheme, place.port), (Scheme::Http, 80));
        assert_eq!((place.host.as_str(), place.target.as_str()), ("::1", "/"));
        for bad in ["", "ftp://a/", "http://", "http://a:b@c/", "http://a b/"] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }
}
