//! Envoy as a proxy, with all five HTTP variants on both sides (nghttp2 or its own oghttp2, and Google's QUIC).

use std::path::Path;

use serde_json::{Value, json};

use super::certificate::Certificate;
use super::daemon::{Daemon, Port, free_port};
use super::program::command;
use super::{Http, Peer, Upstream, folder};

/// Starts Envoy in front of this upstream: separate ports for cleartext HTTP/1.1 and HTTP/2, one port for both with
/// TLS, and HTTP/3 on the UDP port of the same number.
pub(crate) fn start(upstream: Upstream) -> Peer {
    let (folder, certificate) = folder(&[]);
    let [h1, h2c, tls] = [free_port(), free_port(), free_port()];
    let configuration = json!({ "static_resources": {
        "listeners": [
            tcp_listener("h1", h1, "HTTP1", None),
            tcp_listener("h2c", h2c, "HTTP2", None),
            tcp_listener("tls", tls, "AUTO", Some(&certificate)),
            quic_listener(tls, &certificate),
        ],
        "clusters": [cluster(upstream, &certificate)],
    } });
    // Envoy infers the format from the file extension.
    std::fs::write(folder.path().join("envoy.json"), configuration.to_string())
        .expect("the configuration");
    let mut envoy = command("envoy");
    envoy.args([
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "--log-level",
        "warning",
    ]);
    envoy.args([Path::new("--config-path"), Path::new("envoy.json")]);
    let ports = [
        Port::Tcp(h1),
        Port::Tcp(h2c),
        Port::Tcp(tls),
        Port::Udp(tls),
    ];
    let daemon = Daemon::start(folder.path(), "envoy.log", &mut envoy, &ports);
    Peer {
        name: "envoy",
        certificate,
        ports: vec![
            (Http::H1, h1),
            (Http::H1s, tls),
            (Http::H2c, h2c),
            (Http::H2, tls),
            (Http::H3, tls),
        ],
        _daemons: vec![daemon],
        folder,
    }
}

/// Wraps a message in an Any, which names its type.
fn any(kind: &str, mut message: Value) -> Value {
    message["@type"] = json!(format!("type.googleapis.com/envoy.{kind}"));
    message
}

const CONNECTION_MANAGER: &str =
    "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

fn filters(name: &str, codec: &str) -> Value {
    let router = any("extensions.filters.http.router.v3.Router", json!({}));
    let manager = json!({
        "stat_prefix": name,
        "codec_type": codec,
        "route_config": { "virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            // No timeout: the link may be slow.
            "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "upstream", "timeout": "0s" } }],
        }] },
        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": router }],
    });
    json!([{ "name": "manager", "typed_config": any(CONNECTION_MANAGER, manager) }])
}

fn certificates(certificate: &Certificate) -> Value {
    json!([{
        "certificate_chain": { "filename": certificate.certificate },
        "private_key": { "filename": certificate.key },
    }])
}

fn tcp_listener(name: &str, port: u16, codec: &str, certificate: Option<&Certificate>) -> Value {
    let mut chain = json!({ "filters": filters(name, codec) });
    if let Some(certificate) = certificate {
        let context = json!({ "common_tls_context": {
            "tls_certificates": certificates(certificate),
            "alpn_protocols": ["h2", "http/1.1"],
        } });
        let context = any(
            "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            context,
        );
        chain["transport_socket"] = json!({ "name": "tls", "typed_config": context });
    }
    json!({
        "name": name,
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": port } },
        "filter_chains": [chain],
    })
}

fn quic_listener(port: u16, certificate: &Certificate) -> Value {
    let context = json!({ "downstream_tls_context": { "common_tls_context": {
        "tls_certificates": certificates(certificate),
    } } });
    let context = any(
        "extensions.transport_sockets.quic.v3.QuicDownstreamTransport",
        context,
    );
    let address = json!({ "protocol": "UDP", "address": "127.0.0.1", "port_value": port });
    json!({
        "name": "h3",
        "address": { "socket_address": address },
        "udp_listener_config": {
            "quic_options": {},
            // Without this, Envoy 1.40 reads datagrams that the kernel has coalesced (it sets UDP_GRO anyway) into a
            // 1,500-byte buffer, and loses whatever a local client sends in one call (UDP_SEGMENT).
            "downstream_socket_config": { "prefer_gro": true },
        },
        "filter_chains": [{
            "transport_socket": { "name": "quic", "typed_config": context },
            "filters": filters("h3", "HTTP3"),
        }],
    })
}

fn cluster(upstream: Upstream, certificate: &Certificate) -> Value {
    let port = upstream.address.port();
    let address = json!({ "address": "127.0.0.1", "port_value": port });
    let version = match upstream.http {
        Http::H1 | Http::H1s => "http_protocol_options",
        Http::H2c | Http::H2 => "http2_protocol_options",
        Http::H3 => "http3_protocol_options",
    };
    let options = any(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        json!({ "explicit_http_config": { version: {} } }),
    );
    // Raises the default of 1024, which limits tests with many concurrent requests.
    let most = json!({ "max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000 });
    let mut cluster = json!({
        "name": "upstream",
        "type": "STATIC",
        "connect_timeout": "10s",
        "circuit_breakers": { "thresholds": [most] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options },
        "load_assignment": { "cluster_name": "upstream", "endpoints": [{ "lb_endpoints": [
            { "endpoint": { "address": { "socket_address": address } } },
        ] }] },
    });
    if upstream.http.is_tls() {
        cluster["transport_socket"] = upstream_transport(upstream.http, certificate);
    }
    cluster
}

/// Any certificate is accepted, but QUIC still requires a trusted CA.
fn upstream_transport(http: Http, certificate: &Certificate) -> Value {
    let mut common = json!({ "validation_context": {
        "trust_chain_verification": "ACCEPT_UNTRUSTED",
        "trusted_ca": { "filename": certificate.certificate },
    } });
    if http != Http::H3 {
        common["alpn_protocols"] = json!([http.alpn()]);
    }
    let context = json!({ "common_tls_context": common, "sni": super::certificate::HOST });
    let context = any(
        "extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        context,
    );
    if http != Http::H3 {
        return json!({ "name": "tls", "typed_config": context });
    }
    let mut context = context;
    context.as_object_mut().expect("an object").remove("@type");
    let context = any(
        "extensions.transport_sockets.quic.v3.QuicUpstreamTransport",
        json!({ "upstream_tls_context": context }),
    );
    // Envoy selects this transport socket by name; the names of the others are arbitrary.
    json!({ "name": "envoy.transport_sockets.quic", "typed_config": context })
}
