//! openssl's client, which prints what TLS negotiated with a server, and its server.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::daemon::{Daemon, Port, free_port};
use super::program::{command, run};
use super::{Http, Peer, folder};

/// Starts openssl's server with these files under /documents. A response body ends with the connection: the server
/// sends close_notify, and TCP stays open for the client's.
pub(crate) fn start_server(files: &[(&str, &[u8])]) -> Peer {
    let (folder, certificate) = folder(files);
    let port = free_port();
    let mut openssl = command("openssl");
    openssl
        .args(["s_server", "-WWW", "-accept", &format!("127.0.0.1:{port}")])
        .args([Path::new("-cert"), &certificate.certificate])
        .args([Path::new("-key"), &certificate.key]);
    let ports = [Port::Tcp(port)];
    let daemon = Daemon::start(folder.path(), "openssl.log", &mut openssl, &ports);
    Peer {
        name: "openssl",
        certificate,
        ports: vec![(Http::H1s, port)],
        _daemons: vec![daemon],
        folder,
    }
}

/// Whether the server accepts this protocol in ALPN (RFC 7301).
pub(crate) fn accepts_alpn(address: SocketAddrV4, protocol: &str) -> bool {
    let flags = ["-alpn", protocol];
    connect(address, &flags, "").contains(&format!("ALPN protocol: {protocol}"))
}

/// Fetches twice from an HTTP/1.1 server over this TLS version ("1.2" or "1.3"), resuming the first session the second
/// time. Returns openssl's output of both.
pub(crate) fn fetch_twice(address: SocketAddrV4, version: &str, path: &str) -> [String; 2] {
    let folder = TempDir::new().expect("a temporary folder");
    let session = folder.path().join("session");
    let session = session.to_str().expect("a path of letters");
    let version = format!("-tls{}", version.replace('.', "_"));
    // TLS 1.3 delivers the session after the handshake, so the connection is kept open until the server closes it.
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let kept = |flag| connect(address, &[&version, "-ign_eof", flag, session], &request);
    let first = kept("-sess_out");
    assert!(Path::new(session).exists(), "no session came: {first}");
    [first, kept("-sess_in")]
}

fn connect(address: SocketAddrV4, flags: &[&str], request: &str) -> String {
    let pipeline = "printf %s \"$REQUEST\" | openssl s_client -connect \"$@\"";
    let output = run(Command::new("sh")
        .args(["-c", pipeline, "sh", &address.to_string()])
        .args(flags)
        .env("REQUEST", request));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
