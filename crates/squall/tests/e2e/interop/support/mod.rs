//! Real servers, proxies and clients on loopback. Each starts in its own folder with a configuration written here, is
//! waited for until it responds, and is killed when its value is dropped.
//!
//! A test that needs a program calls `have` first. The programs come from scripts/peers. Everything but `squall` is
//! deliberately written without squall: how these peers behave with each other is the yardstick for squall. Servers and
//! proxies: nginx, caddy, haproxy, envoy, nghttp2, fortio. Clients: curl, pycurl, fortio, nghttp2, wrk, h2spec,
//! openssl, chromium.

pub(crate) mod answer;
pub(crate) mod caddy;
pub(crate) mod certificate;
pub(crate) mod chromium;
pub(crate) mod content;
pub(crate) mod curl;
pub(crate) mod daemon;
pub(crate) mod envoy;
pub(crate) mod fortio;
pub(crate) mod h2spec;
pub(crate) mod haproxy;
pub(crate) mod nghttp2;
pub(crate) mod nginx;
pub(crate) mod openssl;
pub(crate) mod program;
pub(crate) mod pycurl;
pub(crate) mod squall;
pub(crate) mod trace;
pub(crate) mod wrk;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use certificate::Certificate;
use daemon::Daemon;

/// The HTTP versions that squall speaks, by squall's names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    H1,
    H1s,
    H2c,
    H2,
    H3,
}

impl Http {
    pub(crate) const ALL: [Http; 5] = [Http::H1, Http::H1s, Http::H2c, Http::H2, Http::H3];

    /// The name in `squall fetch --http NAME` and `squall serve --NAME`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Http::H1 => "h1",
            Http::H1s => "h1s",
            Http::H2c => "h2c",
            Http::H2 => "h2",
            Http::H3 => "h3",
        }
    }

    pub(crate) fn is_tls(self) -> bool {
        !matches!(self, Http::H1 | Http::H2c)
    }

    /// The version as printed by curl.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Http::H1 | Http::H1s => "1.1",
            Http::H2c | Http::H2 => "2",
            Http::H3 => "3",
        }
    }

    /// The version as in a browser's nextHopProtocol: the ALPN identifier.
    pub(crate) fn alpn(self) -> &'static str {
        match self {
            Http::H1 | Http::H1s => "http/1.1",
            Http::H2c | Http::H2 => "h2",
            Http::H3 => "h3",
        }
    }

    pub(crate) fn url(self, address: SocketAddrV4, path: &str) -> String {
        let scheme = if self.is_tls() { "https" } else { "http" };
        format!("{scheme}://{address}{path}")
    }
}

/// Where a proxy forwards requests to, and the HTTP version it speaks there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upstream {
    pub(crate) http: Http,
    pub(crate) address: SocketAddrV4,
}

/// A server or proxy that responds on loopback until it is dropped.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The certificate that it uses for TLS.
    pub(crate) certificate: Certificate,
    ports: Vec<(Http, u16)>,
    // Declared before `folder`, so they end before it is removed.
    _daemons: Vec<Daemon>,
    folder: TempDir,
}

impl Peer {
    pub(crate) fn speaks(&self, http: Http) -> bool {
        self.ports.iter().any(|(spoken, _)| *spoken == http)
    }

    pub(crate) fn address(&self, http: Http) -> SocketAddrV4 {
        let port = self.ports.iter().find(|(spoken, _)| *spoken == http);
        let (_, port) = port.unwrap_or_else(|| panic!("{} has no {}", self.name, http.name()));
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port)
    }

    /// The URL of this absolute path with this HTTP version.
    pub(crate) fn url(&self, http: Http, path: &str) -> String {
        http.url(self.address(http), path)
    }

    /// This peer as the upstream of a proxy.
    pub(crate) fn upstream(&self, http: Http) -> Upstream {
        Upstream {
            http,
            address: self.address(http),
        }
    }

    /// Where a server keeps the files that it serves and stores uploads.
    pub(crate) fn documents(&self) -> PathBuf {
        documents(self.folder.path())
    }

    /// The HTTP versions that it speaks.
    pub(crate) fn spoken(&self) -> impl Iterator<Item = Http> {
        Http::ALL.into_iter().filter(|http| self.speaks(*http))
    }
}

fn documents(folder: &Path) -> PathBuf {
    folder.join("documents")
}

/// Creates a folder for a peer, with a certificate and these files to serve.
fn folder(files: &[(&str, &[u8])]) -> (TempDir, Certificate) {
    let folder = TempDir::new().expect("a temporary folder");
    let documents = documents(folder.path());
    std::fs::create_dir(&documents).expect("a folder in it");
    for (name, content) in files {
        std::fs::write(documents.join(name), content).expect("a file to serve");
    }
    let certificate = Certificate::create(folder.path());
    (folder, certificate)
}
