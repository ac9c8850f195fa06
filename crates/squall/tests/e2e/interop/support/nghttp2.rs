//! nghttp2's own programs: the server nghttpd, the proxy nghttpx, and the clients nghttp and h2load.

use std::process::Command;

use tempfile::TempDir;

use super::answer::Request;
use super::daemon::{Daemon, Port, free_port};
use super::program::{command, run};
use super::{Http, Peer, Upstream, folder};

/// Starts nghttpd, which speaks only HTTP/2. It serves these files and echoes the body of a POST or PUT.
pub(crate) fn start_server(files: &[(&str, &[u8])]) -> Peer {
    let (folder, certificate) = folder(files);
    let start = |log: &str, port: u16, tls: bool| {
        let mut nghttpd = command("nghttpd");
        nghttpd
            .args([
                "--address=127.0.0.1",
                "--workers=1",
                "--echo-upload",
                "--htdocs",
            ])
            .arg(super::documents(folder.path()));
        if tls {
            nghttpd.arg(port.to_string());
            nghttpd.args([&certificate.key, &certificate.certificate]);
        } else {
            nghttpd.args(["--no-tls", &port.to_string()]);
        }
        Daemon::start(folder.path(), log, &mut nghttpd, &[Port::Tcp(port)])
    };
    let [h2c, h2] = [free_port(), free_port()];
    let daemons = vec![start("h2c.log", h2c, false), start("h2.log", h2, true)];
    Peer {
        name: "nghttpd",
        certificate,
        ports: vec![(Http::H2c, h2c), (Http::H2, h2)],
        _daemons: daemons,
        folder,
    }
}

/// Starts nghttpx in front of this upstream, which may speak anything but HTTP/3. One cleartext port serves HTTP/1.1,
/// HTTP/2 and the upgrade between them; another port serves TLS.
pub(crate) fn start_proxy(upstream: Upstream) -> Peer {
    let (folder, certificate) = folder(&[]);
    let [plain, tls] = [free_port(), free_port()];
    let (host, port) = (upstream.address.ip(), upstream.address.port());
    let parameters = match upstream.http {
        Http::H1 => "",
        Http::H1s => ";;tls",
        Http::H2c => ";;proto=h2",
        Http::H2 => ";;proto=h2;tls",
        Http::H3 => panic!("nghttpx 1.52 speaks no HTTP/3 to an upstream"),
    };
    let mut nghttpx = command("nghttpx");
    nghttpx
        .args([
            "--conf=/dev/null",
            "--single-process",
            "--workers=1",
            "--no-ocsp",
            "--insecure",
        ])
        .arg("--errorlog-file=/dev/stderr")
        .arg(format!("--frontend=127.0.0.1,{plain};no-tls"))
        .arg(format!("--frontend=127.0.0.1,{tls}"))
        .arg(format!("--backend={host},{port}{parameters}"))
        .arg(&certificate.key)
        .arg(&certificate.certificate);
    let ports = [Port::Tcp(plain), Port::Tcp(tls)];
    let daemon = Daemon::start(folder.path(), "nghttpx.log", &mut nghttpx, &ports);
    Peer {
        name: "nghttpx",
        certificate,
        ports: vec![
            (Http::H1, plain),
            (Http::H1s, tls),
            (Http::H2c, plain),
            (Http::H2, tls),
        ],
        _daemons: vec![daemon],
        folder,
    }
}

/// The body that nghttp receives over HTTP/2, by prior knowledge or ALPN depending on the URL. Fails without a
/// response, but accepts any status.
pub(crate) fn fetch(request: &Request) -> Vec<u8> {
    nghttp(&[], request)
}

/// Like [`fetch`], by `Upgrade: h2c` (RFC 7540 §3.2).
pub(crate) fn fetch_by_upgrade(request: &Request) -> Vec<u8> {
    nghttp(&["--upgrade"], request)
}

/// The frames of one exchange in both directions, as printed by nghttp.
pub(crate) fn frames(request: &Request) -> String {
    let printed = nghttp(&["--verbose", "--null-out"], request);
    String::from_utf8_lossy(&printed).into_owned()
}

fn nghttp(flags: &[&str], request: &Request) -> Vec<u8> {
    let folder = TempDir::new().expect("a temporary folder");
    let mut nghttp = command("nghttp");
    nghttp
        .args(flags)
        .args(["--timeout=30", "--no-verify-peer"])
        .arg(format!("--header=:method: {}", request.method));
    if let Some(body) = request.body {
        let sent = folder.path().join("sent");
        std::fs::write(&sent, body).expect("the body is written");
        nghttp.arg(format!("--data={}", sent.display()));
    }
    run(nghttp.arg(request.url)).stdout
}

/// Parameters of an h2load run.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    pub(crate) connections: u32,
    /// Concurrent requests per connection; pipelined over HTTP/1.1.
    pub(crate) parallel: u32,
}

/// The counts that h2load reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadCounts {
    /// Responses with a status of 200 to 399.
    pub(crate) succeeded: u64,
    /// Total bytes of response bodies.
    pub(crate) data_bytes: u64,
}

/// Runs h2load against a URL and sends `body` with each request.
pub(crate) fn load(http: Http, url: &str, load: Load, body: Option<&[u8]>) -> LoadCounts {
    let folder = TempDir::new().expect("a temporary folder");
    let mut h2load = command("h2load");
    h2load.args(match http {
        Http::H1 | Http::H1s => &["--h1"][..],
        Http::H2c | Http::H2 => &[],
        Http::H3 => panic!("Debian's h2load has no HTTP/3"),
    });
    h2load
        .args(["--threads=1", "--connection-inactivity-timeout=30"])
        .arg(format!("--requests={}", load.requests))
        .arg(format!("--clients={}", load.connections))
        .arg(format!("--max-concurrent-streams={}", load.parallel));
    if let Some(body) = body {
        let sent = folder.path().join("sent");
        std::fs::write(&sent, body).expect("the body is written");
        h2load.arg(format!("--data={}", sent.display()));
    }
    run_and_count(h2load.arg(url))
}

/// Parses "requests: 100 total, 100 started, 100 done, 100 succeeded, ..." and "traffic: ..., 1.00MB (1048576) data".
fn run_and_count(command: &mut Command) -> LoadCounts {
    let printed = run(command).stdout;
    let printed = String::from_utf8_lossy(&printed);
    let count = |kind: &str, what: &str| {
        let line = printed.lines().find(|line| line.starts_with(kind))?;
        let part = line.split(", ").find(|part| part.ends_with(what))?;
        let number = part.strip_suffix(what)?.trim_end_matches(')');
        number.rsplit('(').next()?.parse().ok()
    };
    let found =
        |kind, what| count(kind, what).unwrap_or_else(|| panic!("no count of{what} in: {printed}"));
    LoadCounts {
        succeeded: found("requests: ", " succeeded"),
        data_bytes: found("traffic: ", " data"),
    }
}
