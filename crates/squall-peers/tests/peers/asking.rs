//! Real clients that send one request: curl, and pycurl for HTTP/3.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use squall_base::plan::Protocol;

use crate::support::{NAME, certificate, command, python};

/// The response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// As curl writes it: "1.1", "2", "3".
    pub(crate) version: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn url(protocol: Protocol, address: SocketAddr, target: &str) -> String {
    let scheme = if protocol.is_secure() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{NAME}:{}{target}", address.port())
}

/// Requests a target, by POST if there is a body, and checks the certificate. Panics without a response.
pub(crate) fn ask(
    folder: &Path,
    protocol: Protocol,
    address: SocketAddr,
    target: &str,
    sent: Option<&[u8]>,
) -> Got {
    try_ask(folder, protocol, address, target, sent).unwrap_or_else(|failure| panic!("{failure}"))
}

/// As [`ask`], but returns the client's error message on failure.
pub(crate) fn try_ask(
    folder: &Path,
    protocol: Protocol,
    address: SocketAddr,
    target: &str,
    sent: Option<&[u8]>,
) -> Result<Got, String> {
    let url = url(protocol, address, target);
    let (body, upload) = (folder.join("got"), folder.join("sent"));
    let _ = std::fs::remove_file(&body);
    if let Some(sent) = sent {
        std::fs::write(&upload, sent).expect("the upload is written");
    }
    let resolve = format!("{NAME}:{}:{}", address.port(), address.ip());
    let mut client = match protocol {
        Protocol::H3 => by_pycurl(&url, &resolve, &body, sent.is_some().then_some(&upload)),
        _ => by_curl(
            protocol,
            &url,
            &resolve,
            &body,
            sent.is_some().then_some(&upload),
        ),
    };
    let output = client.output().expect("curl starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let status = output.status;
        return Err(format!("{url} over {protocol}: {status}: {said}{error}"));
    }
    let (status, version) = said.trim().split_once(' ').expect("a status and a version");
    Ok(Got {
        status: status.parse().expect("a status"),
        version: version.to_owned(),
        body: std::fs::read(&body).unwrap_or_default(),
    })
}

fn by_curl(
    protocol: Protocol,
    url: &str,
    resolve: &str,
    body: &Path,
    sent: Option<&std::path::PathBuf>,
) -> Command {
    let mut curl = command("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--write-out",
        "%{http_code} %{http_version}",
    ]);
    curl.args(["--resolve", resolve, "--cacert"])
        .arg(certificate().chain);
    curl.arg("--output").arg(body);
    curl.arg(match protocol {
        Protocol::H1 | Protocol::H1s => "--http1.1",
        Protocol::H2c => "--http2-prior-knowledge",
        _ => "--http2",
    });
    if let Some(sent) = sent {
        // No `expect: 100-continue` (RFC 9110, section 10.1.1).
        curl.args(["--header", "expect:"]);
        curl.arg("--data-binary")
            .arg(format!("@{}", sent.display()));
    }
    curl.arg(url);
    curl
}

const PYCURL: &str = "
import pycurl, sys
url, resolve, trust, body, sent = sys.argv[1:]
c = pycurl.Curl()
c.setopt(c.URL, url)
c.setopt(c.HTTP_VERSION, 31)
c.setopt(c.RESOLVE, [resolve])
c.setopt(c.CAINFO, trust)
c.setopt(c.TIMEOUT, 30)
c.setopt(c.WRITEDATA, open(body, 'wb'))
if sent:
    data = open(sent, 'rb').read()
    c.setopt(c.POST, 1)
    c.setopt(c.POSTFIELDS, data)
c.perform()
print(c.getinfo(c.RESPONSE_CODE), {2: '1.1', 3: '2', 30: '3'}[c.getinfo(c.INFO_HTTP_VERSION)])
";

fn by_pycurl(url: &str, resolve: &str, body: &Path, sent: Option<&std::path::PathBuf>) -> Command {
    let mut client = Command::new(python());
    client
        .args(["-c", PYCURL, url, resolve])
        .arg(certificate().chain)
        .arg(body);
    client.arg(sent.map_or_else(|| "".into(), |sent| sent.clone().into_os_string()));
    client
}

pub(crate) fn version(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::H1 | Protocol::H1s => "1.1",
        Protocol::H2c | Protocol::H2 => "2",
        Protocol::H3 => "3",
    }
}
