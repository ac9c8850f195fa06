//! `--proxy`: the URL of a proxy, and the way through it to a server.
//!
//! Messages never show the user name or the password of a URL. The handshakes with proxies are in squall-stations (`dial`).

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use squall_base::text::excerpt;
use squall_http::values::percent;
use squall_stations::client::{Route, SocksDestination, SocksLogin, SocksRoute};
use url::Url;

use super::reach::{AddressBook, Family, ProbeTransport};
use crate::outcome::BadInput;

/// The default ports of HTTP and SOCKS (RFC 1928, section 3).
const HTTP_PORT: u16 = 80;
const SOCKS_PORT: u16 = 1_080;

pub(super) struct ProxyUrl {
    kind: Kind,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

enum Kind {
    /// `http`: opens a tunnel (CONNECT).
    Http,
    /// `socks5`, or `socks5h` if the proxy resolves the names of servers.
    Socks {
        login: Option<SocksLogin>,
        resolves: bool,
    },
}

impl ProxyUrl {
    pub(super) fn parse(text: &str) -> Result<ProxyUrl, BadInput> {
        let refused = |expected: &str| {
            BadInput::new(format!(
                "--proxy {}: expected {expected}",
                excerpt(&without_login(text))
            ))
        };
        let unknown = || {
            refused(
                "http://HOST:PORT without a name or password, or socks5://USER:PASSWORD@HOST:PORT, or socks5h:// to let \
                 the proxy resolve names; special characters of a name or password as %XX",
            )
        };
        let url = Url::parse(text).map_err(|_| unknown())?;
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none();
        let host = url.host_str().map(|host| host.trim_matches(['[', ']']));
        let (Some(host), true, None) = (host, is_bare, url.fragment()) else {
            return Err(unknown());
        };
        let has_login = !url.username().is_empty() || url.password().is_some();
        let (kind, port) = match url.scheme() {
            "http" if !has_login => (Kind::Http, HTTP_PORT),
            scheme @ ("socks5" | "socks5h") => {
                let expected = "a user name of 1 to 255 bytes, and a password of at most 255";
                let login = has_login.then(|| login_of(&url).ok_or_else(|| refused(expected)));
                let login = login.transpose()?;
                let resolves = scheme == "socks5h";
                (Kind::Socks { login, resolves }, SOCKS_PORT)
            }
            _ => return Err(unknown()),
        };
        if host.is_empty() {
            return Err(unknown());
        }
        Ok(ProxyUrl {
            kind,
            host: host.to_owned(),
            port: url.port().unwrap_or(port),
        })
    }

    /// The proxy's own host and port.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The way through the proxy to this host and port.
    ///
    /// # Errors
    /// As for [`AddressBook::address`] if the name has to be resolved here; [`BadInput`] if SOCKS cannot carry it.
    pub(super) fn route(
        &self,
        destination: (&str, u16),
        family: Option<Family>,
        address_book: &mut AddressBook,
    ) -> Result<Route> {
        let (host, port) = destination;
        let (login, resolves) = match &self.kind {
            Kind::Http => return Ok(Route::Tunnel(host_with_port(destination))),
            Kind::Socks { login, resolves } => (login, *resolves),
        };
        let destination = match host.parse::<IpAddr>() {
            Ok(ip) => SocksDestination::of_address(SocketAddr::new(ip, port)),
            Err(_) if resolves => SocksDestination::of_name(host, port).ok_or_else(|| {
                BadInput::new(format!(
                    "{}: SOCKS allows names of at most 255 bytes",
                    excerpt(host)
                ))
            })?,
            Err(_) => {
                let by_proxy = ProbeTransport::ByProxy;
                SocksDestination::of_address(address_book.address(destination, family, by_proxy)?)
            }
        };
        Ok(Route::Socks(SocksRoute {
            destination,
            login: login.clone(),
        }))
    }
}

/// The user name and password of a URL.
fn login_of(url: &Url) -> Option<SocksLogin> {
    let user = percent::decoded(url.username())?;
    let password = percent::decoded(url.password().unwrap_or_default())?;
    SocksLogin::new(&user, &password)
}

/// The text of a URL without anything before its host, whether or not it can be parsed.
fn without_login(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}...@{host}"),
        None => text.to_owned(),
    }
}

/// A host and a port as in the authority of a URL.
pub(super) fn host_with_port((host, port): (&str, u16)) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(proxy: &str, destination: (&str, u16)) -> Route {
        let proxy = ProxyUrl::parse(proxy).expect("a proxy");
        let mut address_book = AddressBook::default();
        (proxy.route(destination, None, &mut address_book)).expect("a route")
    }

    #[test]
    fn http_proxies_get_names_and_addresses_as_they_are() {
        let proxy = ProxyUrl::parse("http://cache:3128").unwrap();
        assert_eq!(proxy.address(), ("cache", 3_128));
        let tunnel = |to: &str| Route::Tunnel(to.to_owned());
        let through = "http://[::1]";
        assert_eq!(ProxyUrl::parse(through).unwrap().address(), ("::1", 80));
        assert_eq!(route(through, ("::1", 443)), tunnel("[::1]:443"));
        assert_eq!(route(through, ("server", 443)), tunnel("server:443"));
    }

    #[test]
    fn socks_proxies_get_addresses_or_names_and_the_decoded_login() {
        let socks = |destination, login| Route::Socks(SocksRoute { destination, login });
        let address = SocksDestination::of_address("127.0.0.1:443".parse().unwrap());
        let name = SocksDestination::of_name("localhost", 443).unwrap();
        let login = SocksLogin::new(b"me", b"p@ss:/").unwrap();
        let by_name = "socks5h://me:p%40ss%3A%2F@gate:1081/";
        assert_eq!(ProxyUrl::parse(by_name).unwrap().address(), ("gate", 1_081));
        assert_eq!(route(by_name, ("localhost", 443)), socks(name, Some(login)));
        // Addresses need no resolver.
        assert_eq!(
            route("socks5h://gate", ("127.0.0.1", 443)),
            socks(address.clone(), None)
        );
        let own = "socks5://gate";
        assert_eq!(ProxyUrl::parse(own).unwrap().address(), ("gate", 1_080));
        let Route::Socks(found) = route(own, ("localhost", 443)) else {
            panic!("a route through SOCKS");
        };
        let v6 = SocksDestination::of_address("[::1]:443".parse().unwrap());
        assert!([address, v6].contains(&found.destination), "{found:?}");
    }

    #[test]
    fn refusals_say_what_is_expected_without_the_password() {
        for bad in [
            "https://cache:3128",
            "http://a:secret@cache",
            "http://cache/x",
            "socks4://cache",
            "socks5://me:secret@",
            "socks5://me:secret@cache/x",
            "socks5://me:secret/x@cache",
            "socks5://me:secret@cache:99999",
            "socks5://:secret@cache",
            "me:secret@cache",
            "cache:3128",
            "",
        ] {
            let error = ProxyUrl::parse(bad).err().expect("it is no proxy");
            let said = error.to_string();
            assert!(said.contains(": expected "), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
        let long = format!("socks5://{}:secret@cache", "x".repeat(256));
        let said = ProxyUrl::parse(&long).err().expect("too long").to_string();
        assert!(
            said.contains("1 to 255 bytes") && !said.contains("secret"),
            "{said}"
        );
    }
}
