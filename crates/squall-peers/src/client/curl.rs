//! curl (<https://curl.se/docs/manpage.html>): its command line, and the line of JSON that it writes after each
//! transfer.
//!
//! Its durations are exact to the microsecond. Before 8.16 it does not report when a transfer began, so a row ends when
//! squall read curl's line, soon after the transfer, and all other times are counted back from there.

use serde::Deserialize;
use squall_base::plan::{Protocol, Version as Http};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Bytes, Duration, Rate, Time};

use super::driver::ClientDriver;
use super::order::{ClientLoad, ClientOrder};
use super::row::{
    Fault, RowContext, RowFormat, check_spoken, earlier, later, plain_row, span, status,
};
use crate::driver::{Refusal, order_refusal, refuse_order};
use crate::find::{Version, installable};
use crate::order::{Content, Invocation, SECRETS, secret_and_other_fields};

const NAME: &str = "curl";
const ROWS: &str = "curl.json";

/// The largest --parallel-max that curl accepts.
const MAX_AT_ONCE: u64 = 300;

/// Versions that fail on the second request of an h2c connection, with error 16 (curl/curl#10634): seen in 7.88.1,
/// fixed in 8.0.0.
const BROKEN_FROM: [u32; 3] = [7, 88, 0];
const BROKEN_UNTIL: [u32; 3] = [8, 0, 0];

#[derive(Debug)]
pub(super) struct Curl;

installable!(Curl, NAME, install: "apt install curl", version: &["--version"]);

impl ClientDriver for Curl {
    fn rows(&self) -> (&'static str, RowFormat) {
        (ROWS, RowFormat::Curl)
    }

    fn has_rows_on_stderr(&self) -> bool {
        true
    }

    /// Without HTTP/3: Debian's build does not have it.
    fn configure(&self, order: &ClientOrder, version: &Version) -> Result<Invocation, Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        order.require_protocol(NAME, &[H1, H1s, H2c, H2])?;
        if order.path.contains(['[', ']', '{', '}']) {
            return refuse_order(
                NAME,
                "it expands brackets and braces in a path to several URLs",
            );
        }
        let Some(requests) = order.load.requests() else {
            return refuse_order(
                NAME,
                "it sends a number of requests, and cannot limit the duration",
            );
        };
        let is_broken = version.is_at_least(BROKEN_FROM) && !version.is_at_least(BROKEN_UNTIL);
        if order.protocol == H2c && requests > 1 && is_broken {
            let why = format!(
                "version {version} fails on the second request of a connection of h2c; 8.0.0 does not"
            );
            return refuse_order(NAME, &why);
        }
        let mut invocation = Invocation::default();
        invocation.arguments([
            "--disable",
            "--silent",
            "--no-progress-meter",
            "--output",
            "/dev/null",
        ]);
        // stderr is unbuffered, so each line arrives when its transfer has ended.
        invocation.arguments(["--write-out", "%{stderr}%{json}\\n"]);
        rate_or_parallel(order, &mut invocation)?;
        invocation.argument(match order.protocol {
            H1 | H1s => "--http1.1",
            H2c => "--http2-prior-knowledge",
            _ => "--http2",
        });
        match &order.trust {
            Some(trust) => {
                invocation.argument("--cacert");
                invocation.argument(trust.clone());
            }
            None => invocation.argument("--insecure"),
        }
        let (ip, port) = (order.target.ip(), order.target.port());
        invocation.arguments(["--resolve", &format!("{}:{port}:{ip}", order.server_name)]);
        invocation.arguments(["--request", &order.method]);
        if order.body > Bytes::new(0) {
            invocation.file("body", Content::Filler(order.body));
            // No `expect: 100-continue`, and no default content type.
            invocation.arguments(["--data-binary", "@body", "--header", "expect:"]);
            if !order.headers.iter().any(|(name, _)| name == "content-type") {
                invocation.arguments(["--header", "content-type:"]);
            }
        }
        headers_and_url(order, requests, &mut invocation);
        Ok(invocation)
    }
}

/// The header fields and the URL. Those with secrets go into a file, because every user of the machine can read arguments.
fn headers_and_url(order: &ClientOrder, requests: u64, invocation: &mut Invocation) {
    let (secret, others) = secret_and_other_fields(&order.headers);
    for (name, value) in &others {
        invocation.arguments(["--header", &format!("{name}: {value}")]);
    }
    let mut lines: Vec<String> = secret
        .iter()
        .map(|(name, value)| configured("header", &format!("{name}: {value}")))
        .collect();
    // curl does not send the fragment, so this is the same URL `requests` times.
    let url = format!("{}#[1-{requests}]", order.url());
    if order.has_secret_url() {
        lines.push(configured("url", &url));
    } else {
        invocation.argument(url);
    }
    if !lines.is_empty() {
        invocation.secrets(lines.concat());
        invocation.arguments(["--config", SECRETS]);
    }
}

/// A line of curl's configuration. In quotes, a backslash escapes the next character.
fn configured(option: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{option} = \"{value}\"\n")
}

fn rate_or_parallel(order: &ClientOrder, invocation: &mut Invocation) -> Result<(), Refusal> {
    match order.load {
        ClientLoad::Rate {
            rate,
            connections: 1,
            ..
        } => invocation.arguments(["--rate", &words(rate)?]),
        ClientLoad::Rate { .. } => {
            return refuse_order(
                NAME,
                "at a rate it sends one request after the other; use 1 connection",
            );
        }
        ClientLoad::Closed {
            connections,
            streams,
            ..
        } => {
            let is_http1 = order.protocol.version() == Http::Http1;
            if is_http1 && streams > 1 {
                return refuse_order(NAME, "over HTTP/1.1 a connection has 1 request at a time");
            }
            let at_once = u64::from(connections) * u64::from(streams);
            if at_once > MAX_AT_ONCE {
                return refuse_order(NAME, "it sends at most 300 requests at once");
            }
            if at_once == 1 {
                return Ok(());
            }
            // Over HTTP/2 curl uses as few connections as it can.
            invocation.arguments(["--parallel", "--parallel-max", &at_once.to_string()]);
        }
    }
    Ok(())
}

/// curl's rate is a whole number a second, a minute or an hour.
fn words(rate: Rate) -> Result<String, Refusal> {
    let units = [(1, "s"), (60, "m"), (3_600, "h")];
    let found = units
        .into_iter()
        .find(|(secs, _)| rate.period() == Duration::from_secs(*secs));
    found
        .map(|(_, unit)| format!("{}/{unit}", rate.events()))
        .ok_or_else(|| {
            order_refusal(
                NAME,
                "its rate is a whole number a second, a minute or an hour",
            )
        })
}

#[derive(Deserialize)]
struct Line {
    exitcode: u32,
    errormsg: Option<String>,
    http_code: i64,
    http_version: String,
    num_connects: u32,
    size_download: f64,
    time_appconnect: f64,
    time_connect: f64,
    time_pretransfer: f64,
    time_starttransfer: f64,
    time_total: f64,
}

/// `nanoseconds since 1970 \t {...}`: when the line arrived, and what curl wrote.
pub(super) fn row(line: &str, context: &RowContext) -> Result<RequestRecord, Fault> {
    let (arrival, json) = line
        .split_once('\t')
        .ok_or(Fault::Form("it contains no tab"))?;
    let end = arrival
        .parse()
        .map_err(|_| Fault::Form("it does not begin with a time"))?;
    let end = Time::from_nanos(end);
    let line: Line = serde_json::from_str(json).map_err(|error| Fault::Json(error.to_string()))?;
    let seconds = |number: f64| span(number, 1e9).ok_or(Fault::Form("one of its times is invalid"));
    let start = earlier(end, seconds(line.time_total)?);
    // 0 stands for something that did not happen.
    let mark = |number: f64| -> Result<Option<Time>, Fault> {
        let after = seconds(number)?;
        Ok((!after.is_zero()).then(|| later(start, after)))
    };
    let outcome = match line.exitcode {
        0 => Outcome::Answered,
        code => failure(code),
    };
    let mut row = plain_row(context, start, end, outcome);
    row.opened_connection = line.num_connects > 0;
    if row.opened_connection {
        row.connected = mark(line.time_connect)?;
        row.secured = mark(line.time_appconnect)?;
    }
    row.slot = mark(line.time_pretransfer)?;
    row.answered_first = mark(line.time_starttransfer)?;
    row.status = status(line.http_code);
    row.response_body_bytes = line.size_download.clamp(0.0, 1e15) as u64;
    if outcome == Outcome::Answered {
        let is_it = line.http_version == curl_version(context.protocol);
        check_spoken(context, &line.http_version, is_it)?;
        if row.status.is_none() {
            return Err(Fault::Form("it reports success, but no status"));
        }
    } else {
        let why = line.errormsg.unwrap_or_default();
        row.error = Some(format!("curl error {}: {why}", line.exitcode));
    }
    Ok(row)
}

fn curl_version(protocol: Protocol) -> &'static str {
    match protocol.version() {
        Http::Http1 => "1.1",
        Http::Http2 => "2",
        Http::Http3 => "3",
    }
}

/// curl's exit codes (libcurl-errors(3)).
fn failure(code: u32) -> Outcome {
    match code {
        5..=7 => Outcome::ConnectFailed,
        28 => Outcome::Censored,
        35 | 51 | 53 | 54 | 58 | 59 | 60 | 64 | 66 | 77 | 80 | 83 | 90 | 91 => Outcome::TlsFailed,
        92 => Outcome::StreamReset,
        1 | 8 | 16 | 43 | 61 | 95 | 96 => Outcome::ProtocolError,
        _ => Outcome::ConnectionClosed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_of_a_value_reach_curl() {
        assert_eq!(
            configured("header", r#"cookie: a="b\c""#),
            "header = \"cookie: a=\\\"b\\\\c\\\"\"\n"
        );
    }
}
