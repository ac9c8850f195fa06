//! Envoy's transport sockets: TLS and QUIC, towards clients and upstreams; and how its messages state their types.
//!
//! `envoy` writes the rest of its configuration.

use std::net::IpAddr;

use serde_json::{Value, json};
use squall_base::plan::Protocol;

use crate::order::{Certificate, Order};

/// Towards clients.
pub(super) fn downstream(order: &Order, certificate: &Certificate) -> Value {
    let mut common = json!({ "tls_certificates": [{
        "certificate_chain": { "filename": certificate.chain },
        "private_key": { "filename": certificate.key },
    }] });
    add_key_log(order, &mut common);
    if order.front == Protocol::H3 {
        let context = json!({ "downstream_tls_context": { "common_tls_context": common } });
        let kind = "extensions.transport_sockets.quic.v3.QuicDownstreamTransport";
        return json!({ "name": "quic", "typed_config": any(kind, context) });
    }
    common["alpn_protocols"] = json!([order.front.alpn()]);
    let kind = "extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    let context = any(kind, json!({ "common_tls_context": common }));
    json!({ "name": "tls", "typed_config": context })
}

/// Towards upstreams. `None`: QUIC requires something to check certificates against even if they are not checked, and
/// nothing is available.
pub(super) fn upstream(order: &Order, protocol: Protocol) -> Option<Value> {
    let mut common = json!({});
    if let Some(trust) = &order.trust {
        common["validation_context"] = json!({
            "trusted_ca": { "filename": trust },
            "match_typed_subject_alt_names": [name(&order.server_name)],
        });
    } else if protocol == Protocol::H3 {
        let own = order.certificate.as_ref()?;
        common["validation_context"] = json!({
            "trust_chain_verification": "ACCEPT_UNTRUSTED",
            "trusted_ca": { "filename": own.chain },
        });
    }
    add_key_log(order, &mut common);
    if protocol == Protocol::H3 {
        let context = json!({ "upstream_tls_context": { "common_tls_context": common, "sni": order.server_name } });
        let kind = "extensions.transport_sockets.quic.v3.QuicUpstreamTransport";
        // Envoy identifies only this socket by its name.
        return Some(
            json!({ "name": "envoy.transport_sockets.quic", "typed_config": any(kind, context) }),
        );
    }
    common["alpn_protocols"] = json!([protocol.alpn()]);
    let kind = "extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let context = any(
        kind,
        json!({ "common_tls_context": common, "sni": order.server_name }),
    );
    Some(json!({ "name": "tls", "typed_config": context }))
}

/// A name that the certificate must have.
fn name(server_name: &str) -> Value {
    let is_address = server_name.parse::<IpAddr>().is_ok();
    let kind = if is_address { "IP_ADDRESS" } else { "DNS" };
    json!({ "san_type": kind, "matcher": { "exact": server_name } })
}

fn add_key_log(order: &Order, common: &mut Value) {
    if let Some(path) = &order.key_log {
        common["key_log"] = json!({ "path": path });
    }
}

/// A message inside an Any, which states its type.
pub(super) fn any(kind: &str, mut message: Value) -> Value {
    message["@type"] = json!(format!("type.googleapis.com/envoy.{kind}"));
    message
}
