//! HAProxy 2.6 as a proxy.

use super::daemon::{Daemon, Port, free_port};
use super::program::command;
use super::{Http, Peer, Upstream, folder};

/// Starts HAProxy in front of this upstream, which may speak anything but HTTP/3.
///
/// From an HTTP/2 upstream to an HTTP/1.1 client it sends a status line without a reason phrase: `HTTP/1.1 200 `.
pub(crate) fn start(upstream: Upstream) -> Peer {
    let (folder, certificate) = folder(&[]);
    let [h1, h2c, tls] = [free_port(), free_port(), free_port()];
    let flags = match upstream.http {
        Http::H1 => "",
        Http::H1s => "ssl verify none alpn http/1.1",
        Http::H2c => "proto h2",
        Http::H2 => "ssl verify none alpn h2",
        Http::H3 => panic!("HAProxy 2.6 speaks no HTTP/3 to an upstream"),
    };
    // HAProxy expects the certificate and its key in one file.
    let pem = [&certificate.certificate, &certificate.key]
        .map(|file| std::fs::read(file).expect("a PEM file"));
    std::fs::write(folder.path().join("both.pem"), pem.concat()).expect("a PEM file");
    let configuration = format!(
        "global
    maxconn 1000
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{h1}
    bind 127.0.0.1:{h2c} proto h2
    bind 127.0.0.1:{tls} ssl crt both.pem alpn h2,http/1.1
    default_backend back
backend back
    server upstream {address} {flags}
",
        address = upstream.address
    );
    std::fs::write(folder.path().join("haproxy.cfg"), configuration).expect("the configuration");
    let mut haproxy = command("haproxy");
    // Run as one process, in the foreground.
    haproxy.args(["-db", "-f", "haproxy.cfg"]);
    let ports = [Port::Tcp(h1), Port::Tcp(h2c), Port::Tcp(tls)];
    let daemon = Daemon::start(folder.path(), "haproxy.log", &mut haproxy, &ports);
    Peer {
        name: "haproxy",
        certificate,
        ports: vec![
            (Http::H1, h1),
            (Http::H1s, tls),
            (Http::H2c, h2c),
            (Http::H2, tls),
        ],
        _daemons: vec![daemon],
        folder,
    }
}
