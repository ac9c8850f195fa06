//! fortio: Go's net/http with golang.org/x/net/http2 in its default configuration, as a server and as a client.

use std::net::SocketAddrV4;
use std::process::Output;

use super::daemon::{Daemon, Port, free_port};
use super::program::{attempt, command};
use super::{Http, Peer, folder};

/// Starts its server, which echoes. One cleartext port for HTTP/1.1 and HTTP/2.
pub(crate) fn start() -> Peer {
    let (folder, certificate) = folder(&[]);
    let port = free_port();
    let mut fortio = command("fortio");
    fortio.args(["server", "-http-port", &format!("127.0.0.1:{port}")]);
    for other in ["-grpc-port", "-tcp-port", "-udp-port", "-redirect-port"] {
        fortio.args([other, "disabled"]);
    }
    let daemon = Daemon::start(folder.path(), "fortio.log", &mut fortio, &[Port::Tcp(port)]);
    Peer {
        name: "fortio",
        certificate,
        ports: vec![(Http::H1, port), (Http::H2c, port)],
        _daemons: vec![daemon],
        folder,
    }
}

/// Sends one request with Go's own client and prior knowledge of HTTP/2. The request may fail.
pub(crate) fn ask_over_http2(address: SocketAddrV4) -> Output {
    let mut fortio = command("fortio");
    fortio.args(["curl", "-h2", "-stdclient", "-timeout", "20s"]);
    attempt(fortio.arg(Http::H2c.url(address, "/")))
}
