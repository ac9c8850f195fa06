//! Where a URL leads: its parts, where they are reached, whom TLS shall trust there, and who we are.
//!
//! Which of several addresses is taken is `reach`'s to say.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::{Scheme, h3, tls};
use squall_linux::{clock, tls_session};
use squall_stations::client::Target;

use super::ConnectionFlags;
use super::reach::{Over, Reach};
use crate::BadInput;
use squall_http::values::alt_svc::Alternative;

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
    /// Where it is asked instead, if anywhere.
    pub(crate) alternative: Option<Alternative>,
}

/// Whom the person trusts, and who they are.
pub(crate) struct Trusting {
    trust: tls::Trust,
    identity: Option<tls::Identity>,
}

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
            alternative: None,
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

    /// The name or address for which its certificate must be, whoever is asked.
    pub(super) fn server_name(&self) -> &str {
        &self.host
    }

    /// The host to connect to and its port: those of `--connect-to`, of the alternative, or its own.
    pub(super) fn reached<'a>(
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

    /// Its authority without the port.
    fn bare_authority(&self) -> &str {
        let port = format!(":{}", self.port);
        self.authority
            .strip_suffix(&port)
            .unwrap_or(&self.authority)
    }
}

/// `IP:PORT` or `NAME:PORT`.
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

impl Trusting {
    /// Whom to connect to, and what TLS offers there.
    pub(crate) fn target(
        flags: &ConnectionFlags,
        place: &Place,
        (protocol, is_strict): (Protocol, bool),
        side: &SideSettings,
        reach: &mut Reach,
    ) -> Result<Target> {
        let trust = Trusting::of(flags)?;
        let whither = place.reached(flags.connect_to.as_deref())?;
        let family = flags.family();
        let mut target = Target {
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            server_name: place.host.clone(),
            security: None,
            quic: None,
        };
        if protocol == Protocol::H3 {
            // Tried with a context of its own, so that no session of the trial is resumed.
            let mut trying = trust.quic(side)?;
            let over = Over::Quic {
                context: &mut trying,
                server_name: &place.host,
            };
            target.address = reach.address(whither, family, over)?;
            target.quic = Some(Arc::new(Mutex::new(trust.quic(side)?)));
            return Ok(target);
        }
        target.address = reach.address(whither, family, Over::Tcp)?;
        if protocol.is_secure() {
            let offers: &[&str] = match (protocol, is_strict) {
                (Protocol::H1s, _) => &["http/1.1"],
                (_, true) => &["h2"],
                _ => &["h2", "http/1.1"],
            };
            target.security = Some(trust.tls(side, offers)?);
        }
        Ok(target)
    }

    /// What the flags say.
    pub(super) fn of(flags: &ConnectionFlags) -> Result<Trusting, BadInput> {
        let read = |path: &Path| {
            std::fs::read(path)
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
        Ok(Trusting { trust, identity })
    }

    /// What TLS over TCP offers.
    fn tls(&self, side: &SideSettings, offers: &[&str]) -> Result<tls::ClientContext, BadInput> {
        let identity = self.identity.as_ref();
        tls::ClientContext::with_identity(&side.tls, offers, &self.trust, identity)
            .map(|context| context.resuming_with(tls_session::offer))
            .map_err(|error| BadInput::new(format!("cannot set up TLS: {error}")))
    }

    /// What QUIC offers.
    pub(super) fn quic(&self, side: &SideSettings) -> Result<h3::ClientContext, BadInput> {
        let who = (&self.trust, self.identity.as_ref());
        h3::ClientContext::with_identity(&side.http3, &side.tls, who, clock::unix_nanos())
            .map_err(|error| BadInput::new(format!("cannot set up QUIC: {error}")))
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

    #[test]
    fn an_alternative_is_reached_elsewhere_and_says_so() {
        let mut place = Place::parse("https://server:8443/").unwrap();
        assert_eq!(place.reached(None).unwrap(), ("server", 8443));
        assert_eq!(place.reached(Some("[::1]:1")).unwrap(), ("::1", 1));
        assert_eq!(place.alt_used(), None);
        let mut alternative = Alternative {
            protocol: b"h3".to_vec(),
            host: None,
            port: 443,
            max_age_s: 60,
            persist: false,
        };
        place.alternative = Some(alternative.clone());
        assert_eq!(place.reached(None).unwrap(), ("server", 443));
        assert_eq!(
            place.reached(Some("10.0.0.1:1")).unwrap(),
            ("10.0.0.1", 443)
        );
        assert_eq!(place.alt_used().as_deref(), Some("server:443"));
        alternative.host = Some("::2".to_owned());
        place.alternative = Some(alternative);
        assert_eq!(place.reached(Some("10.0.0.1:1")).unwrap(), ("::2", 443));
        assert_eq!(place.alt_used().as_deref(), Some("[::2]:443"));
        for bad in ["", "host", "host:", ":80", "host:99999"] {
            assert!(place.reached(Some(bad)).is_err(), "{bad}");
        }
    }
}
