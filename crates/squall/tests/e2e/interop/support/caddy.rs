//! Caddy (Go's net/http and quic-go) as a file server and as a proxy, with all five HTTP variants on both sides.

use serde_json::{Value, json};

use super::certificate::{Certificate, HOST};
use super::daemon::{Daemon, Port, free_port};
use super::program::command;
use super::{Http, Peer, Upstream, documents, folder};

/// Serves these files; `/protocol` responds with the version of the request: "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0".
pub(crate) fn start(files: &[(&str, &[u8])]) -> Peer {
    launch(files, None, file_server)
}

/// Like [`start`], with TLS that accepts only clients with this certificate.
pub(crate) fn start_asking(files: &[(&str, &[u8])], client: &Certificate) -> Peer {
    launch(files, Some(client), file_server)
}

fn file_server(documents: &str) -> Value {
    json!([
            {
                "match": [{ "path": ["/protocol"] }],
                "handle": [{ "handler": "static_response", "body": "{http.request.proto}" }],
                "terminal": true,
            },
            { "handle": [{ "handler": "file_server", "root": documents }] },
    ])
}

/// Starts Caddy as a proxy in front of this upstream.
pub(crate) fn start_proxy(upstream: Upstream) -> Peer {
    let version = match upstream.http {
        Http::H1 | Http::H1s => "1.1",
        Http::H2c => "h2c",
        Http::H2 => "2",
        Http::H3 => "3",
    };
    let mut transport = json!({ "protocol": "http", "versions": [version] });
    if upstream.http.is_tls() {
        transport["tls"] = json!({ "insecure_skip_verify": true });
    }
    launch(&[], None, |_| {
        json!([{ "handle": [{
            "handler": "reverse_proxy",
            "upstreams": [{ "dial": upstream.address.to_string() }],
            "transport": transport,
        }] }])
    })
}

/// HTTP/1.1 and HTTP/2 share the cleartext port, and all three versions the other.
fn launch(
    files: &[(&str, &[u8])],
    client: Option<&Certificate>,
    routes: impl Fn(&str) -> Value,
) -> Peer {
    let (folder, certificate) = folder(files);
    let [plain, tls] = [free_port(), free_port()];
    let documents = documents(folder.path()).display().to_string();
    let routes = routes(&documents);
    let no_automatic_https = json!({ "disable": true });
    // Accept any server name, as the other peers do.
    let mut policy = json!({ "fallback_sni": HOST });
    if let Some(client) = client {
        policy["client_authentication"] = json!({
            "mode": "require_and_verify",
            "ca": { "provider": "file", "pem_files": [client.certificate] },
        });
    }
    let configuration = json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "logging": { "logs": { "default": { "level": "WARN" } } },
        "apps": {
            "tls": { "certificates": { "load_files": [
                { "certificate": certificate.certificate, "key": certificate.key },
            ] } },
            "http": { "servers": {
                "plain": {
                    "listen": [format!("127.0.0.1:{plain}")],
                    // Otherwise it abandons an HTTP/1.1 request that is responded to while its body is still arriving
                    // (Go's http.ResponseController.EnableFullDuplex).
                    "enable_full_duplex": true,
                    "protocols": ["h1", "h2c"],
                    "automatic_https": no_automatic_https,
                    "routes": routes,
                },
                "tls": {
                    "listen": [format!("127.0.0.1:{tls}")],
                    "enable_full_duplex": true,
                    "protocols": ["h1", "h2", "h3"],
                    "automatic_https": no_automatic_https,
                    "tls_connection_policies": [policy],
                    // Otherwise it demands a server name from clients with a certificate, and an IP address is not sent
                    // as one.
                    "strict_sni_host": false,
                    "routes": routes,
                },
            } },
        },
    });
    std::fs::write(folder.path().join("caddy.json"), configuration.to_string())
        .expect("the configuration");
    let mut caddy = command("caddy");
    caddy
        .args(["run", "--config", "caddy.json"])
        .envs(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|home| (home, folder.path())));
    let ports = [Port::Tcp(plain), Port::Tcp(tls), Port::Udp(tls)];
    let daemon = Daemon::start(folder.path(), "caddy.log", &mut caddy, &ports);
    let port = |http: Http| (http, if http.is_tls() { tls } else { plain });
    Peer {
        name: "caddy",
        certificate,
        ports: Http::ALL.map(port).to_vec(),
        _daemons: vec![daemon],
        folder,
    }
}
