//! Headless Chromium: opens a page of ours over HTTP/1.1, HTTP/2 or HTTP/3. The page's script fetches more in parallel
//! and reports the results.

use std::net::SocketAddrV4;

use serde::Deserialize;
use tempfile::TempDir;

use super::Http;
use super::certificate::{Certificate, HOST};
use super::content::checksum;
use super::program::{command, run};

/// The report of the page's script.
#[derive(Deserialize)]
pub(crate) struct Visit {
    /// The protocol of the page itself, as in `Http::alpn`.
    pub(crate) protocol: String,
    /// In the order of the page's paths.
    pub(crate) resources: Vec<Resource>,
}

#[derive(Debug, Deserialize, PartialEq)]
pub(crate) struct Resource {
    pub(crate) status: u16,
    pub(crate) length: usize,
    pub(crate) checksum: u32,
    pub(crate) protocol: String,
}

impl Resource {
    /// The expected resource for a body that arrives whole.
    pub(crate) fn whole(http: Http, body: &[u8]) -> Resource {
        Resource::answered(http, 200, body)
    }

    /// The expected resource for a response with this status and body.
    pub(crate) fn answered(http: Http, status: u16, body: &[u8]) -> Resource {
        Resource {
            status,
            length: body.len(),
            checksum: checksum(body),
            protocol: http.alpn().to_owned(),
        }
    }
}

/// A page that fetches these paths. An entry of two paths (`/upload /large`) uploads the content of the second path to
/// the first. The server under test must serve the page.
pub(crate) fn page(paths: &[&str]) -> Vec<u8> {
    let paths = serde_json::to_string(paths).expect("strings");
    include_str!("chromium.html")
        .replace("PATHS", &paths)
        .into_bytes()
}

/// Opens the page at this path. Chromium speaks HTTP/2 only over TLS.
pub(crate) fn visit(
    http: Http,
    address: SocketAddrV4,
    path: &str,
    certificate: &Certificate,
) -> Visit {
    let profile = TempDir::new().expect("a temporary folder");
    let mut chromium = command("chromium");
    chromium
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-sync",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--no-proxy-server",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        // Files that it leaves behind are removed with the profile.
        .env("TMPDIR", profile.path())
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            certificate.public_key_sha256()
        ))
        .arg(format!("--host-resolver-rules=MAP {HOST} 127.0.0.1"))
        // The page is dumped once nothing is outstanding; the virtual clock stands still during fetches.
        .args(["--virtual-time-budget=30000", "--dump-dom"]);
    let port = address.port();
    match http {
        Http::H1 => {}
        Http::H1s => {
            chromium.args(["--disable-http2", "--disable-quic"]);
        }
        Http::H2 => {
            chromium.arg("--disable-quic");
        }
        Http::H3 => {
            chromium.arg(format!("--origin-to-force-quic-on={HOST}:{port}"));
        }
        Http::H2c => panic!("Chromium speaks no HTTP/2 without TLS"),
    }
    let scheme = if http.is_tls() { "https" } else { "http" };
    let output = run(chromium.arg(format!("{scheme}://{HOST}:{port}{path}")));
    let page = String::from_utf8_lossy(&output.stdout);
    let told = page
        .split_once("<pre id=\"visit\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some(visit) = told.and_then(|(told, _)| serde_json::from_str(told).ok()) else {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("no visit in: {page}\n{said}");
    };
    visit
}
