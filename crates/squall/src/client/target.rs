//! Parses URLs and turns them into targets: the address to connect to, the certificates to trust there, and the
//! client's own certificate.
//!
//! `reach` chooses between several addresses.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use squall_base::plan::{Protocol, SideSettings};
use squall_base::secrets::redacted_text;
use squall_base::text::excerpt;
use squall_http::{Scheme, h3, tls};
use squall_linux::{clock, tls_session};
use squall_record::read_at_most;
use squall_stations::client::{Route, Target};

use super::flags::{ConnectionFlags, ProtocolChoice};
use super::proxy_url::{ProxyUrl, host_with_port};
use super::reach::{AddressBook, ProbeTransport, resolve};
use crate::limits;
use crate::outcome::BadInput;
use squall_http::values::alt_svc::Alternative;

#[derive(Clone, Debug)]
pub(crate) struct HttpUrl {
    pub(crate) scheme: Scheme,
    /// The host and, unless it is the scheme's default, the port: the authority of requests.
    pub(crate) authority: String,
    /// The host alone, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Path and query.
    pub(crate) target: String,
    /// An alternative service to use instead, if any.
    pub(crate) alternative: Option<Alternative>,
}

/// The certificates to trust, and the client's own certificate.
pub(crate) struct TlsCredentials {
    trust: tls::Trust,
    /// The file that `trust` was read from, if any.
    trusted_in: Option<PathBuf>,
    identity: Option<tls::Identity>,
}

/// What messages show of a URL that the user typed: no secrets, and not all of a long one. `whole` may begin with a scheme
/// that `text` lacks, which is not shown.
fn shown(text: &str, whole: &str) -> String {
    let scheme = whole.len() - text.len();
    excerpt(&redacted_text(whole)[scheme..])
}

impl HttpUrl {
    /// Parses `text`; the default scheme is http.
    pub(crate) fn parse(text: &str) -> Result<HttpUrl, BadInput> {
        let whole = if text.contains("://") || has_one_slash(text) {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let refused = |said: &str| {
            BadInput::new(format!(
                "{:?} is not a URL that can be requested: {said}, such as https://server:8443/path",
                shown(text, &whole)
            ))
        };
        if text.starts_with('/') {
            // Otherwise the path's first segment would be taken for the host.
            return Err(refused("it is a path without a server"));
        }
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
        Ok(HttpUrl {
            scheme,
            authority,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            target: url.path().to_owned() + &query.unwrap_or_default(),
            alternative: None,
        })
    }

    /// The same server with another path and query.
    pub(crate) fn with_target(&self, target: &str) -> HttpUrl {
        HttpUrl {
            target: target.to_owned(),
            ..self.clone()
        }
    }

    /// The port, if the URL names a service on this machine.
    pub(crate) fn local_port(&self) -> Option<u16> {
        let ip = self.host.parse::<IpAddr>();
        let is_local = self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
        is_local.then_some(self.port)
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn to_text(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}{}", self.authority, self.target)
    }

    /// The host and the port, as in the authority of a URL with a port.
    pub(super) fn host_and_port(&self) -> String {
        host_with_port((&self.host, self.port))
    }

    /// The name or address that the server's certificate must be valid for, wherever the connection goes.
    pub(crate) fn server_name(&self) -> &str {
        &self.host
    }

    /// The host and port to connect to: those of the alternative, of `--connect-to`, or the URL's own.
    pub(super) fn destination<'a>(
        &'a self,
        connect_to: Option<&'a str>,
    ) -> Result<(&'a str, u16), BadInput> {
        let (host, port) = match connect_to {
            Some(text) => host_and_port(text)?,
            None => (self.host.as_str(), self.port),
        };
        Ok(match &self.alternative {
            None => (host, port),
            Some(alternative) => {
                let host = alternative.host.as_deref().unwrap_or(host);
                (host, alternative.port)
            }
        })
    }

    /// All addresses to which connections over TCP may go, in the resolver's order; empty if they cannot be looked up.
    pub(crate) fn addresses(&self, flags: &ConnectionFlags) -> Vec<SocketAddr> {
        let destination = self.destination(flags.connect_to.as_deref());
        let found = destination.map(|(host, port)| resolve(host, port, flags.family()));
        found.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// The value of Alt-Used, if requests go to an alternative (RFC 7838, section 5).
    pub(super) fn alt_used(&self) -> Option<String> {
        let alternative = self.alternative.as_ref()?;
        let host = match &alternative.host {
            Some(host) if host.contains(':') => format!("[{host}]"),
            Some(host) => host.clone(),
            None => self.bare_authority().to_owned(),
        };
        Some(format!("{host}:{}", alternative.port))
    }

    /// The authority without the port.
    fn bare_authority(&self) -> &str {
        let port = format!(":{}", self.port);
        self.authority
            .strip_suffix(&port)
            .unwrap_or(&self.authority)
    }
}

/// Whether this is an http or https URL with one slash instead of two, which the URL standard and browsers accept.
fn has_one_slash(text: &str) -> bool {
    let begins = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    begins("http:/") || begins("https:/")
}

/// Parses `IP:PORT` or `NAME:PORT`.
fn host_and_port(text: &str) -> Result<(&str, u16), BadInput> {
    text.rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .map(|(host, port)| (host.trim_matches(['[', ']']), port))
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| {
            BadInput::new(format!(
                "--connect-to {text}: expected IP:PORT or NAME:PORT, such as 127.0.0.1:8443"
            ))
        })
}

impl TlsCredentials {
    /// The address to connect to, and what TLS offers there.
    pub(crate) fn target(
        flags: &ConnectionFlags,
        url: &HttpUrl,
        choice: ProtocolChoice,
        side: &SideSettings,
        address_book: &mut AddressBook,
    ) -> Result<Target> {
        let ProtocolChoice {
            protocol,
            is_strict,
        } = choice;
        let credentials = TlsCredentials::of(flags)?;
        let destination = url.destination(flags.connect_to.as_deref())?;
        let family = flags.family();
        let mut target = Target {
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            server_name: url.host.clone(),
            security: None,
            quic: None,
            route: Route::Direct,
        };
        let proxy = flags.proxy.as_deref().map(ProxyUrl::parse).transpose()?;
        if protocol == Protocol::H3 {
            if flags.lacks_udp() {
                let said = "--proxy and --unix-socket cannot carry UDP, which HTTP/3 needs: give --http 1.1 or 2";
                return Err(BadInput::new(said).into());
            }
            // The address is tried with a separate context, so that the measured connections do not resume its session.
            let mut probe_context = credentials.quic(side)?;
            let transport = ProbeTransport::Quic {
                context: &mut probe_context,
                server_name: &url.host,
            };
            target.address = address_book.address(destination, family, transport)?;
            target.quic = Some(Arc::new(Mutex::new(credentials.quic(side)?)));
            return Ok(target);
        }
        if let Some(path) = &flags.unix_socket {
            target.route = Route::UnixSocket(path.clone());
        } else {
            let mut next = destination;
            if let Some(proxy) = &proxy {
                target.route = proxy.route(destination, family, address_book)?;
                next = proxy.address();
            }
            target.address = address_book.address(next, family, ProbeTransport::Tcp)?;
        }
        if protocol.is_secure() {
            let offers: &[&str] = match (protocol, is_strict) {
                (Protocol::H1s, _) => &["http/1.1"],
                (_, true) => &["h2"],
                _ => &["h2", "http/1.1"],
            };
            target.security = Some(credentials.tls(side, offers)?);
        }
        Ok(target)
    }

    /// Reads the certificates that the flags name.
    pub(super) fn of(flags: &ConnectionFlags) -> Result<TlsCredentials, BadInput> {
        let read = |path: &Path| {
            read_at_most(path, limits::CERTIFICATES)
                .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))
        };
        let trust = match (&flags.cacert, flags.insecure) {
            (_, true) => tls::Trust::Anyone,
            (None, false) => tls::Trust::System,
            (Some(path), false) => tls::Trust::Pem(read(path)?),
        };
        let identity = match &flags.cert {
            None => None,
            Some(path) => {
                let chain = read(path)?;
                let key = flags.key.as_deref().map(read).transpose()?;
                let identity = tls::Identity::from_pem(&chain, key.as_ref().unwrap_or(&chain));
                let said = |error| {
                    let advice = match key {
                        None => ". Without --key the key is expected in the same file",
                        Some(_) => "",
                    };
                    BadInput::new(format!("--cert {}: {error}{advice}", path.display()))
                };
                Some(identity.map_err(said)?)
            }
        };
        Ok(TlsCredentials {
            trusted_in: match trust {
                tls::Trust::Pem(_) => flags.cacert.clone(),
                tls::Trust::Anyone | tls::Trust::System => None,
            },
            trust,
            identity,
        })
    }

    /// The TLS context for connections over TCP.
    fn tls(&self, side: &SideSettings, offers: &[&str]) -> Result<tls::ClientContext, BadInput> {
        let identity = self.identity.as_ref();
        tls::ClientContext::with_identity(&side.tls, offers, &self.trust, identity)
            .map(|context| context.resuming_with(tls_session::offer))
            .map_err(|error| self.unusable("TLS", &error))
    }

    /// The error for a TLS context that cannot be made, with the file that is the reason.
    fn unusable(&self, what: &str, error: &tls::SetupError) -> BadInput {
        BadInput::new(match (&self.trusted_in, error) {
            (Some(path), tls::SetupError::NoRoots) => {
                format!(
                    "cannot set up {what}: {error} (--cacert {})",
                    path.display()
                )
            }
            _ => format!("cannot set up {what}: {error}"),
        })
    }

    pub(super) fn quic(&self, side: &SideSettings) -> Result<h3::ClientContext, BadInput> {
        let identity = self.identity.as_ref();
        let seed = clock::unix_nanos();
        h3::ClientContext::with_identity(&side.http3, &side.tls, &self.trust, identity, seed)
            .map_err(|error| match &error {
                h3::SetupError::Tls(error) => self.unusable("QUIC", error),
                _ => BadInput::new(format!("cannot set up QUIC: {error}")),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_no_password_of_a_url() {
        for text in [
            "http://me:hidden@server/",
            "me:hidden@server",
            "/a?token=hidden",
        ] {
            let said = HttpUrl::parse(text).expect_err("it is refused").to_string();
            assert!(said.contains("[redacted]"), "{said}");
            assert!(!said.contains("hidden"), "{said}");
        }
    }

    #[test]
    fn urls_are_split_into_their_parts() {
        let url = HttpUrl::parse("https://server:8443/a?b=c#d").unwrap();
        assert_eq!(url.authority, "server:8443");
        assert_eq!((url.host.as_str(), url.port), ("server", 8443));
        assert_eq!(url.target, "/a?b=c");
        for one_slash in ["HTTP:/server:81/a", "http:/server:81/a"] {
            let url = HttpUrl::parse(one_slash).unwrap();
            assert_eq!((url.host.as_str(), url.port), ("server", 81));
        }
        let url = HttpUrl::parse("http:81/a").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("http", 81));
        let url = HttpUrl::parse("[::1]").unwrap();
        assert_eq!((url.scheme, url.port), (Scheme::Http, 80));
        assert_eq!((url.host.as_str(), url.target.as_str()), ("::1", "/"));
        for bad in [
            "",
            "/a/b",
            "ftp://a/",
            "http://",
            "http://a:b@c/",
            "http://a b/",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn services_on_this_machine_are_recognised() {
        let port = |text| HttpUrl::parse(text).unwrap().local_port();
        assert_eq!(port("https://localhost/"), Some(443));
        assert_eq!(port("http://127.0.0.1:8080/"), Some(8_080));
        assert_eq!(port("http://[::1]:8080/"), Some(8_080));
        assert_eq!(port("https://server/"), None);
        assert_eq!(port("https://192.0.2.1/"), None);
    }

    #[test]
    fn alternative_changes_the_address_and_sets_alt_used() {
        let mut url = HttpUrl::parse("https://server:8443/").unwrap();
        assert_eq!(url.destination(None).unwrap(), ("server", 8443));
        assert_eq!(url.destination(Some("[::1]:1")).unwrap(), ("::1", 1));
        assert_eq!(url.alt_used(), None);
        let mut alternative = Alternative {
            protocol: b"h3".to_vec(),
            host: None,
            port: 443,
            max_age_s: 60,
            persist: false,
        };
        url.alternative = Some(alternative.clone());
        assert_eq!(url.destination(None).unwrap(), ("server", 443));
        assert_eq!(
            url.destination(Some("10.0.0.1:1")).unwrap(),
            ("10.0.0.1", 443)
        );
        assert_eq!(url.alt_used().as_deref(), Some("server:443"));
        alternative.host = Some("::2".to_owned());
        url.alternative = Some(alternative);
        assert_eq!(url.destination(Some("10.0.0.1:1")).unwrap(), ("::2", 443));
        assert_eq!(url.alt_used().as_deref(), Some("[::2]:443"));
        for bad in ["", "host", "host:", ":80", "host:99999"] {
            assert!(url.destination(Some(bad)).is_err(), "{bad}");
        }
    }
}
