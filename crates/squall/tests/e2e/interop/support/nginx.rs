//! nginx 1.22 as a server of files that accepts uploads with PUT. It speaks neither HTTP/3 nor HTTP/2 to an upstream;
//! for the latter there is nginx 1.31 as a proxy.

use std::path::Path;

use super::certificate::Certificate;
use super::daemon::{Daemon, Port, free_port};
use super::program::command;
use super::{Http, Peer, Upstream, folder};

/// Serves these files; PUT writes one (`Peer::documents`). `/early` responds with 200 before it has read the request
/// body, which over HTTP/2 ends in RST_STREAM(NO_ERROR) (RFC 9113 §8.1).
pub(crate) fn start(files: &[(&str, &[u8])]) -> Peer {
    launch(files, "")
}

/// Like [`start`], with TLS that accepts only clients with this certificate.
pub(crate) fn start_asking(files: &[(&str, &[u8])], client: &Certificate) -> Peer {
    let trusted = client.certificate.display();
    launch(
        files,
        &format!("ssl_verify_client on; ssl_client_certificate {trusted};"),
    )
}

/// Like [`start`], with this Alt-Svc field in each response (RFC 7838).
pub(crate) fn start_telling(files: &[(&str, &[u8])], alt_svc: &str) -> Peer {
    launch(files, &format!("add_header alt-svc \"{alt_svc}\" always;"))
}

fn launch(files: &[(&str, &[u8])], directives: &str) -> Peer {
    let (folder, certificate) = folder(files);
    let [h1, h2c, tls] = [free_port(), free_port(), free_port()];
    // In this version cleartext HTTP/2 needs a separate port.
    let server = format!(
        "listen 127.0.0.1:{h1};
         listen 127.0.0.1:{h2c} http2;
         listen 127.0.0.1:{tls} ssl http2;
         ssl_certificate certificate.pem;
         ssl_certificate_key key.pem;
         client_max_body_size 0;
         {directives}
         location / {{
             root {root};
             dav_methods PUT;
         }}
         location = /early {{
             return 200 \"early\";
         }}",
        root = super::documents(folder.path()).display()
    );
    let daemon = daemon("nginx", folder.path(), &server, &[h1, h2c, tls]);
    Peer {
        name: "nginx",
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

/// nginx 1.31, which accepts HTTP/1.1, in front of an upstream that speaks HTTP/2 without TLS.
pub(crate) fn start_proxy(upstream: Upstream) -> Peer {
    assert_eq!(upstream.http, Http::H2c, "what it is configured for here");
    let (folder, certificate) = folder(&[]);
    let port = free_port();
    let server = format!(
        "listen 127.0.0.1:{port};
         location / {{
             proxy_http_version 2;
             proxy_pass http://{address};
         }}",
        address = upstream.address
    );
    let daemon = daemon("nginx-mainline", folder.path(), &server, &[port]);
    Peer {
        name: "nginx",
        certificate,
        ports: vec![(Http::H1, port)],
        _daemons: vec![daemon],
        folder,
    }
}

/// Starts one process with one server, as the user running the tests.
fn daemon(program: &str, folder: &Path, server: &str, ports: &[u16]) -> Daemon {
    let configuration = format!(
        "daemon off;
         master_process off;
         pid nginx.pid;
         error_log stderr;
         events {{}}
         http {{
             access_log access.log;
             client_body_temp_path body;
             proxy_temp_path proxy;
             fastcgi_temp_path fastcgi;
             uwsgi_temp_path uwsgi;
             scgi_temp_path scgi;
             server {{
                 {server}
             }}
         }}\n"
    );
    std::fs::write(folder.join("nginx.conf"), configuration).expect("the configuration");
    let mut nginx = command(program);
    nginx
        .arg("-p")
        .arg(folder)
        .args(["-e", "stderr", "-c", "nginx.conf"]);
    let ports: Vec<Port> = ports.iter().map(|port| Port::Tcp(*port)).collect();
    Daemon::start(folder, "nginx.log", &mut nginx, &ports)
}
