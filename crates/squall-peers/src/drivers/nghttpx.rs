//! nghttpx (<https://nghttp2.org/documentation/nghttpx.1.html>): proxy only. One process, its threads are its workers.
//!
//! A recipe's `extra` is its configuration file; the options that squall gives go over it.

use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use crate::driver::{Driver, Refusal, front_is_one_of, not_so, refused, upstream_is_one_of};
use crate::find::Version;
use crate::order::{Order, Rendered, Setting};

const NAME: &str = "nghttpx";

/// Its driver.
#[derive(Debug)]
pub(crate) struct Nghttpx;

impl Driver for Nghttpx {
    fn name(&self) -> &str {
        NAME
    }

    fn install_hint(&self) -> &str {
        "apt install nghttp2-proxy"
    }

    fn version_arguments(&self) -> Option<&'static [&'static str]> {
        Some(&["--version"])
    }

    /// HTTP/3 is left out: Debian's is not built with it.
    fn can(&self, front: Protocol, upstream: Option<Protocol>) -> Result<(), Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        front_is_one_of(NAME, front, &[H1, H1s, H2c, H2])?;
        if upstream.is_none() {
            return Err(Refusal::NoServer {
                program: NAME.to_owned(),
            });
        }
        upstream_is_one_of(NAME, upstream, &[H1, H1s, H2c, H2])
    }

    fn configure(&self, order: &Order, _version: &Version) -> Result<Rendered, Refusal> {
        if order.key_log.is_some() {
            return Err(not_so(
                NAME,
                "it cannot write TLS secrets; Envoy and Caddy can",
            ));
        }
        let mut rendered = Rendered::default();
        // No configuration of the machine, and nobody asked for revocations.
        rendered.arguments(["--single-process", "--no-ocsp"]);
        match &order.extra {
            Some(extra) => {
                rendered.text("nghttpx.conf", format!("{extra}\n"));
                rendered.argument("--conf=nghttpx.conf");
            }
            None => rendered.argument("--conf=/dev/null"),
        }
        rendered.argument("--errorlog-file=/dev/stderr");
        rendered.argument(format!("--workers={}", order.threads));
        let (host, port) = (order.listen.ip(), order.listen.port());
        let clear = if order.front.is_secure() {
            ""
        } else {
            ";no-tls"
        };
        rendered.argument(format!("--frontend={host},{port}{clear}"));
        backends(order, &mut rendered);
        for (&(side, setting), &value) in &order.settings {
            let word =
                word(side, setting).map_err(|why| refused(NAME, (side, setting), value, why))?;
            rendered.argument(format!("{word}={value}"));
        }
        if let Some(certificate) = order
            .certificate
            .as_ref()
            .filter(|_| order.front.is_secure())
        {
            rendered.argument(format!("--npn-list={}", order.front.alpn()));
            rendered.argument(certificate.key.clone());
            rendered.argument(certificate.chain.clone());
        }
        Ok(rendered)
    }
}

fn backends(order: &Order, rendered: &mut Rendered) {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    let mut parameters = String::new();
    if protocol.version() == Http::Http2 {
        parameters += ";;proto=h2";
    }
    if protocol.is_secure() {
        let start = if parameters.is_empty() { ";;" } else { ";" };
        parameters += &format!("{start}tls;sni={}", order.server_name);
        match &order.trust {
            Some(trust) => rendered.argument(format!("--cacert={}", trust.display())),
            None => rendered.argument("--insecure"),
        }
    }
    for upstream in &order.upstreams {
        rendered.argument(format!(
            "--backend={},{}{parameters}",
            upstream.ip(),
            upstream.port()
        ));
    }
    match order.upstream_connections {
        Some(most) if protocol.version() == Http::Http1 => {
            rendered.argument(format!("--backend-connections-per-frontend={most}"));
            rendered.notes.push(format!(
                "nghttpx opens at most {most} connections to its upstream for each thread \
                 (--backend-connections-per-frontend)"
            ));
        }
        Some(_) => rendered.notes.push(
            "nghttpx opens one connection of HTTP/2 to its upstream for each thread until its streams run out: the \
             hint has no effect"
                .to_owned(),
        ),
        None => {}
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
            return Err("its records to an upstream are not to be set");
        }
        (_, Setting::MaxFrameSize) => return Err("it always announces 16384"),
        (_, Setting::DataSize) => return Err("it fills frames as its buffers allow"),
    })
}
