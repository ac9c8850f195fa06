//! nghttpx (<https://nghttp2.org/documentation/nghttpx.1.html>): proxy only. One process, whose threads are its
//! workers.
//!
//! A recipe's `extra` is its configuration file; squall's command-line options override it.

use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use crate::driver::{
    Driver, Refusal, front_is_one_of, refuse_key_log, setting_refusal, upstream_is_one_of,
};
use crate::find::{Version, installable};
use crate::order::{Invocation, Order, Setting};

const NAME: &str = "nghttpx";

#[derive(Debug)]
pub(crate) struct Nghttpx;

installable!(Nghttpx, NAME, install: "apt install nghttp2-proxy", version: &["--version"]);

impl Driver for Nghttpx {
    /// Without HTTP/3: Debian's build does not have it.
    fn check_protocols(&self, front: Protocol, upstream: Option<Protocol>) -> Result<(), Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        front_is_one_of(NAME, front, &[H1, H1s, H2c, H2])?;
        if upstream.is_none() {
            return Err(Refusal::NoServer(NAME.to_owned()));
        }
        upstream_is_one_of(NAME, upstream, &[H1, H1s, H2c, H2])
    }

    fn configure(&self, order: &Order, _version: &Version) -> Result<Invocation, Refusal> {
        refuse_key_log(NAME, order)?;
        let mut invocation = Invocation::default();
        // Do not read the machine's configuration, and do not check for revoked certificates.
        invocation.arguments(["--single-process", "--no-ocsp"]);
        match &order.extra {
            Some(extra) => {
                invocation.text("nghttpx.conf", format!("{extra}\n"));
                invocation.argument("--conf=nghttpx.conf");
            }
            None => invocation.argument("--conf=/dev/null"),
        }
        invocation.argument("--errorlog-file=/dev/stderr");
        invocation.argument(format!("--workers={}", order.threads));
        let (host, port) = (order.listen.ip(), order.listen.port());
        let clear = if order.front.is_secure() {
            ""
        } else {
            ";no-tls"
        };
        invocation.argument(format!("--frontend={host},{port}{clear}"));
        backends(order, &mut invocation);
        for (&(side, setting), &value) in &order.settings {
            let word = word(side, setting)
                .map_err(|why| setting_refusal(NAME, side, setting, value, why))?;
            invocation.argument(format!("{word}={value}"));
        }
        if let Some(certificate) = order.front_certificate() {
            invocation.argument(format!("--npn-list={}", order.front.alpn()));
            invocation.argument(certificate.key.clone());
            invocation.argument(certificate.chain.clone());
        }
        Ok(invocation)
    }
}

fn backends(order: &Order, invocation: &mut Invocation) {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    let mut parameters = String::new();
    if protocol.version() == Http::Http2 {
        parameters += ";;proto=h2";
    }
    if protocol.is_secure() {
        let start = if parameters.is_empty() { ";;" } else { ";" };
        parameters += &format!("{start}tls;sni={}", order.server_name);
        match &order.trust {
            Some(trust) => invocation.argument(format!("--cacert={}", trust.display())),
            None => invocation.argument("--insecure"),
        }
    }
    for upstream in &order.upstreams {
        invocation.argument(format!(
            "--backend={},{}{parameters}",
            upstream.ip(),
            upstream.port()
        ));
    }
    // The limit applies to each thread. Over HTTP/2 nghttpx opens one connection until its streams run out: the hint has no
    // effect.
    if let Some(most) = order.upstream_connections
        && protocol.version() == Http::Http1
    {
        invocation.argument(format!("--backend-connections-per-frontend={most}"));
    }
}

fn word(side: Side, setting: Setting) -> Result<&'static str, &'static str> {
    Ok(match (side, setting) {
        (Side::Server, Setting::StreamWindow) => "--frontend-http2-window-size",
        (Side::Server, Setting::ConnectionWindow) => "--frontend-http2-connection-window-size",
        (Side::Server, Setting::MaxConcurrentStreams) => "--frontend-http2-max-concurrent-streams",
        (Side::Server, Setting::HeaderTableSize) => "--frontend-http2-decoder-dynamic-table-size",
        (Side::Server, Setting::RequestsPerConnection) => "--frontend-max-requests",
        (Side::Client, Setting::StreamWindow) => "--backend-http2-window-size",
        (Side::Client, Setting::ConnectionWindow) => "--backend-http2-connection-window-size",
        (Side::Client, Setting::MaxConcurrentStreams) => "--backend-http2-max-concurrent-streams",
        (Side::Client, Setting::HeaderTableSize) => "--backend-http2-decoder-dynamic-table-size",
        (Side::Client, Setting::RequestsPerConnection) => {
            return Err("it never ends a connection for that");
        }
        (Side::Server, Setting::SmallRecords) => "--tls-dyn-rec-warmup-threshold",
        (Side::Client, Setting::SmallRecords) => {
            return Err("the records that it sends to an upstream cannot be set");
        }
        (_, Setting::MaxFrameSize) => return Err("it always announces 16384"),
        (_, Setting::DataSize) => return Err("it fills frames as its buffers allow"),
    })
}
