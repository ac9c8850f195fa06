//! fortio (<https://github.com/fortio/fortio>): its command line and its access log in JSON.
//!
//! Each thread has one connection and one request at a time. At a rate, a thread that is late catches up, and fortio
//! does not report when it should have sent. Nor does it report why a request failed.

use serde::Deserialize;
use squall_base::plan::{Protocol, Version as Http};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::secrets::has_credentials;
use squall_base::{Bytes, Time};

use super::driver::ClientDriver;
use super::order::{ClientLoad, ClientOrder, LoadEnd};
use super::row::{Fault, RowContext, RowFormat, later, plain_row, span, status};
use crate::driver::{Refusal, refuse_order};
use crate::find::{Version, installable};
use crate::order::{Content, Invocation};

const NAME: &str = "fortio";
const ROWS: &str = "fortio.json";

#[derive(Debug)]
pub(super) struct Fortio;

installable!(
    Fortio,
    NAME,
    install: "go install fortio.org/fortio@v1.63.9, or https://github.com/fortio/fortio/releases",
    version: &["version"]
);

impl ClientDriver for Fortio {
    fn rows(&self) -> (&'static str, RowFormat) {
        (ROWS, RowFormat::Fortio)
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Invocation, Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        order.require_protocol(NAME, &[H1, H1s, H2c, H2])?;
        if order.load.streams() > 1 {
            return refuse_order(
                NAME,
                "each thread sends one request at a time; use 1 stream a connection",
            );
        }
        let connections = order.load.connections();
        let mut invocation = Invocation::default();
        // Truncate the log first: fortio appends to it.
        invocation.text(ROWS, String::new());
        invocation.arguments([
            "load",
            "-quiet",
            "-logger-no-color",
            "-access-log-file",
            ROWS,
        ]);
        // Go's own client accepts responses of any size. fortio's timeout of 3 s would cut off a slow link's tail.
        invocation.arguments(["-stdclient", "-timeout", "1h", "-c"]);
        invocation.argument(connections.to_string());
        if order.protocol.version() == Http::Http2 {
            invocation.argument("-h2");
        }
        schedule(order, &mut invocation)?;
        match &order.trust {
            Some(trust) => {
                invocation.argument("-cacert");
                invocation.argument(trust.clone());
            }
            None => invocation.argument("-k"),
        }
        invocation.arguments([
            "-resolve",
            &order.target.ip().to_string(),
            "-X",
            &order.method,
        ]);
        if order.body > Bytes::new(0) {
            invocation.file("body", Content::Filler(order.body));
            invocation.arguments(["-payload-file", "body"]);
        }
        for (name, value) in &order.headers {
            invocation.arguments(["-H", &format!("{name}: {value}")]);
        }
        let secret = [
            ("header fields", has_credentials(&order.headers)),
            ("URLs", order.has_secret_url()),
        ];
        invocation.warn_of_secrets(NAME, &secret);
        invocation.argument(order.url());
        Ok(invocation)
    }
}

/// How often to send, and until when.
fn schedule(order: &ClientOrder, invocation: &mut Invocation) -> Result<(), Refusal> {
    match order.load {
        ClientLoad::Rate { rate, .. } => {
            invocation.arguments(["-qps", &format!("{:.6}", rate.per_second())]);
        }
        ClientLoad::Closed { .. } => invocation.arguments(["-qps", "0"]),
    }
    match order.load.end() {
        LoadEnd::Requests(requests) if requests < u64::from(order.load.connections()) => {
            return refuse_order(NAME, "it needs at least as many requests as connections");
        }
        LoadEnd::Requests(requests) => invocation.arguments(["-n", &requests.to_string()]),
        // fortio sends one more request on each connection before the load begins, and does not report it.
        LoadEnd::After(duration) => {
            invocation.arguments(["-t", &format!("{}ns", duration.as_nanos())]);
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Line {
    /// Seconds.
    latency: f64,
    /// Nanoseconds since 1970 at its start.
    timestamp: u64,
    thread: u32,
    ok: bool,
    /// The status, or an error.
    details: String,
}

pub(super) fn row(line: &str, context: &RowContext) -> Result<RequestRecord, Fault> {
    let line: Line = serde_json::from_str(line).map_err(|error| Fault::Json(error.to_string()))?;
    let start = Time::from_nanos(line.timestamp);
    let latency = span(line.latency, 1e9).ok_or(Fault::Form("its latency is invalid"))?;
    let found = line.details.parse().ok().and_then(status);
    let outcome = if found.is_some() {
        Outcome::Answered
    } else {
        Outcome::ConnectionClosed
    };
    let mut row = plain_row(context, start, later(start, latency), outcome);
    row.user = line.thread;
    row.status = found;
    if line.ok && found.is_none() {
        return Err(Fault::Form("it reports success, but no status"));
    }
    row.error = found.is_none().then_some(line.details);
    Ok(row)
}
