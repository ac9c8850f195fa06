//! fortio: Go's net/http with golang.org/x/net/http2 as it is without a word of configuration, as a server and as a
//! client.

use std::net::SocketAddrV4;
use std::process::Output;

use super::daemon::{Daemon, Port, free_port};
use super::program::{attempt, command};
use super::{Http, Peer, folder};

/// Its server, which echoes. One port in the clear, for HTTP/1.1 and HTTP/2.
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

/// Asks once, by Go's own client, with prior knowledge of HTTP/2; whatever comes of it.
pub(crate) fn ask_over_http2(address: SocketAddrV4) -> Output {
    let mut fortio = command("fortio");
    fortio.args(["curl", "-h2", "-stdclient", "-timeout", "20s"]);
    attempt(fortio.arg(Http::H2c.url(address, "/")))
}
