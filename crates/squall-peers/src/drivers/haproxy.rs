//! HAProxy (<https://docs.haproxy.org/2.6/configuration.html>): proxy, and server through a Lua service.
//!
//! `http-request return` responds before a request's body has arrived, and after `wait-for-body` when a buffer (16 KiB)
//! is full: over HTTP/2 both end in RST_STREAM(CANCEL). A Lua service that receives the body first accepts any size. On
//! 2.6, with POSTs of 1 KiB over h2c, it takes 21 us of processor time a request, and `return` 7 us.
//!
//! A recipe's `extra` goes after the `defaults` section, which it continues unless it begins another section.

use squall_base::Side;
use squall_base::plan::{Protocol, Version as Http};

use crate::driver::{
    Driver, Refusal, front_is_one_of, refuse_order, setting_refusal, upstream_is_one_of,
};
use crate::find::{Version, installable};
use crate::order::{Answer, Certificate, Content, Invocation, Order, Setting};
use crate::template::quoted;

const NAME: &str = "haproxy";

/// The first version with separate HTTP/2 settings for each side (tune.h2.fe. and tune.h2.be.).
const SETTINGS_BY_SIDE: [u32; 3] = [2, 9, 0];

/// The accepted range of tune.h2.header-table-size (2.6), in bytes.
const HEADER_TABLES: std::ops::RangeInclusive<u64> = 4_096..=65_536;

#[derive(Debug)]
pub(crate) struct Haproxy;

installable!(Haproxy, NAME, install: "apt install haproxy", version: &["-v"]);

impl Driver for Haproxy {
    /// Without HTTP/3: Debian's build does not have QUIC.
    fn check_protocols(&self, front: Protocol, upstream: Option<Protocol>) -> Result<(), Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        front_is_one_of(NAME, front, &[H1, H1s, H2c, H2])?;
        upstream_is_one_of(NAME, upstream, &[H1, H1s, H2c, H2])
    }

    fn configure(&self, order: &Order, version: &Version) -> Result<Invocation, Refusal> {
        if order.key_log.is_some() {
            return refuse_order(
                NAME,
                "it cannot write TLS secrets to a file; Envoy and Caddy can",
            );
        }
        let mut invocation = Invocation::default();
        let settings = settings(order, version)?;
        let bind = bind(order, &mut invocation);
        let (global, front, back) = match &order.answer {
            Some(answer) => answers(answer, &mut invocation),
            None => passes_on(order),
        };
        let configuration = format!(
            "global
    maxconn 4000
    nbthread {threads}
{global}{settings}defaults
    mode http
    timeout connect 10s
    timeout client 1h
    timeout server 1h
{extra}
frontend front
    bind {bind}
{front}{back}",
            threads = order.threads,
            extra = order.extra.as_deref().unwrap_or_default(),
        );
        invocation.text("haproxy.cfg", configuration);
        invocation.arguments(["-db", "-f", "haproxy.cfg"]);
        Ok(invocation)
    }
}

fn bind(order: &Order, invocation: &mut Invocation) -> String {
    let address = order.listen;
    if let Some(Certificate { chain, key }) = order.front_certificate() {
        // HAProxy expects both in one file.
        let joined = Content::Joined(vec![chain.clone(), key.clone()]);
        invocation.file("both.pem", joined);
        return format!("{address} ssl crt both.pem alpn {}", order.front.alpn());
    }
    match order.front.version() {
        Http::Http2 => format!("{address} proto h2"),
        _ => address.to_string(),
    }
}

fn settings(order: &Order, version: &Version) -> Result<String, Refusal> {
    let mut text = String::new();
    for (&(side, setting), &value) in &order.settings {
        let no = |why| Err(setting_refusal(NAME, side, setting, value, why));
        let word = match setting {
            Setting::StreamWindow => "initial-window-size",
            Setting::MaxConcurrentStreams => "max-concurrent-streams",
            Setting::HeaderTableSize if HEADER_TABLES.contains(&value) => "header-table-size",
            Setting::HeaderTableSize => return no("it takes 4096 to 65536"),
            Setting::ConnectionWindow => {
                return no("it opens it to 2147483647 with the first DATA");
            }
            Setting::MaxFrameSize => {
                return no("it announces no more than a buffer holds (tune.bufsize), 16384");
            }
            Setting::DataSize => return no("it fills frames as its buffers allow (tune.bufsize)"),
            Setting::RequestsPerConnection => return no("it never ends a connection for that"),
            Setting::SmallRecords => {
                return no("it starts over after every pause, see tune.ssl.maxrecord");
            }
        };
        let has_sides = setting != Setting::HeaderTableSize;
        let word = match side {
            Side::Server if has_sides && version.is_at_least(SETTINGS_BY_SIDE) => {
                format!("fe.{word}")
            }
            Side::Client if has_sides && version.is_at_least(SETTINGS_BY_SIDE) => {
                format!("be.{word}")
            }
            _ if is_of_both(order, setting, value) => word.to_owned(),
            _ => {
                return no(
                    "this version has one such setting for both sides, and both speak HTTP/2; set the same value for both",
                );
            }
        };
        let line = format!("    tune.h2.{word} {value}\n");
        if !text.contains(&line) {
            text += &line;
        }
    }
    Ok(text)
}

/// Whether a setting of the whole program fits the order: the other side has no HTTP/2, or the same value.
fn is_of_both(order: &Order, setting: Setting, value: u64) -> bool {
    let is_http2 = |hop: Protocol| hop.version() == Http::Http2;
    Side::ALL
        .into_iter()
        .filter(|side| order.hop(*side).is_some_and(is_http2))
        .all(|side| order.setting(side, setting) == Some(value))
}

/// The text of the global section, of the frontend, and of what follows it.
fn answers(answer: &Answer, invocation: &mut Invocation) -> (String, String, String) {
    invocation.body("answer", &answer.body);
    let service = format!(
        "local file = assert(io.open(\"answer\", \"rb\"))
local body = file:read(\"a\")
file:close()
core.register_service(\"answer\", \"http\", function(applet)
    applet:receive()
    applet:set_status({})
    applet:add_header(\"content-length\", #body)
    applet:start_response()
    applet:send(body)
end)
",
        answer.status
    );
    invocation.text("answer.lua", service);
    let global = "    lua-load answer.lua\n".to_owned();
    let front = "    http-request use-service lua.answer\n".to_owned();
    (global, front, String::new())
}

fn passes_on(order: &Order) -> (String, String, String) {
    let protocol = order.upstream_protocol.unwrap_or(Protocol::H1);
    let mut flags = String::new();
    if protocol.is_secure() {
        flags += &format!(
            " ssl alpn {} sni str({})",
            protocol.alpn(),
            order.server_name
        );
        flags += &match &order.trust {
            Some(trust) => format!(
                " verify required ca-file {} verifyhost {}",
                quoted(trust),
                order.server_name
            ),
            None => " verify none".to_owned(),
        };
    } else if protocol == Protocol::H2c {
        flags += " proto h2";
    }
    // Over HTTP/2 HAProxy opens as many connections as streams need: the hint has no effect.
    if let Some(most) = order.upstream_connections
        && protocol.version() == Http::Http1
    {
        flags += &format!(" maxconn {most}");
    }
    let mut back = String::from("backend back\n");
    for (index, address) in order.upstreams.iter().enumerate() {
        back += &format!("    server upstream{index} {address}{flags}\n");
    }
    (String::new(), "    default_backend back\n".to_owned(), back)
}
