//! h2load (<https://nghttp2.org/documentation/h2load.1.html>): its command line and its `--log-file`.
//!
//! Its rate applies to each connection, with a timer of 10 ms at best, so it sends in bursts. A request's time begins
//! when its HEADERS are made, so waiting for a stream is left out. Windows are 2^30 - 1. It does not report why a
//! request failed.

use squall_base::plan::{Protocol, Version as Http};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::secrets::has_credentials;
use squall_base::{Bytes, Duration, Time};

use super::driver::ClientDriver;
use super::order::{ClientLoad, ClientOrder, LoadEnd};
use super::row::{Fault, RowContext, RowFormat, later, plain_row, status};
use crate::driver::{Refusal, refuse_order};
use crate::find::{Version, installable};
use crate::order::{Content, Invocation, SECRETS};

const NAME: &str = "h2load";
const ROWS: &str = "h2load.tsv";

#[derive(Debug)]
pub(super) struct H2load;

installable!(H2load, NAME, install: "apt install nghttp2-client", version: &["--version"]);

impl ClientDriver for H2load {
    fn rows(&self) -> (&'static str, RowFormat) {
        (ROWS, RowFormat::H2load)
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Invocation, Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        order.require_protocol(NAME, &[H1, H1s, H2c, H2])?;
        if order.trust.is_some() {
            return refuse_order(NAME, "it never checks certificates; give it none to trust");
        }
        let mut invocation = Invocation::default();
        // Truncate the log first: h2load appends to it.
        invocation.text(ROWS, String::new());
        let is_http1 = order.protocol.version() == Http::Http1;
        invocation.arguments(["--threads=1", "--log-file", ROWS]);
        invocation.argument(if is_http1 { "--h1" } else { "--npn-list=h2" });
        let connections = order.load.connections();
        invocation.argument(format!("--clients={connections}"));
        match order.load {
            ClientLoad::Rate { rate, .. } => {
                let each = rate.per_second() / f64::from(connections);
                invocation.argument(format!("--rps={each:.6}"));
                // As many streams as the server allows, because a load at a rate must not wait for responses.
                invocation.argument(format!(
                    "--max-concurrent-streams={}",
                    if is_http1 { 1 } else { 1 << 20 }
                ));
            }
            ClientLoad::Closed { streams, .. } => {
                if is_http1 && streams > 1 {
                    return refuse_order(
                        NAME,
                        "over HTTP/1.1 it would pipeline; use 1 stream a connection",
                    );
                }
                invocation.argument(format!("--max-concurrent-streams={streams}"));
            }
        }
        until(order, &mut invocation)?;
        invocation.argument(format!("--connect-to={}", order.target));
        if order.body > Bytes::new(0) {
            invocation.file("body", Content::Filler(order.body));
            invocation.argument("--data=body");
        }
        invocation.argument(format!("--header=:method: {}", order.method));
        for (name, value) in &order.headers {
            invocation.argument(format!("--header={name}: {value}"));
        }
        // h2load can read URLs from a file, but not header fields.
        let secret = [("header fields", has_credentials(&order.headers))];
        invocation.warn_of_secrets(NAME, &secret);
        if order.has_secret_url() {
            invocation.secrets(format!("{}\n", order.url()));
            invocation.argument(format!("--input-file={SECRETS}"));
        } else {
            invocation.argument(order.url());
        }
        Ok(invocation)
    }
}

/// Tells h2load when to stop sending.
fn until(order: &ClientOrder, invocation: &mut Invocation) -> Result<(), Refusal> {
    match order.load.end() {
        LoadEnd::Requests(requests) if requests < u64::from(order.load.connections()) => {
            return refuse_order(NAME, "it needs at least as many requests as connections");
        }
        LoadEnd::Requests(requests) => invocation.argument(format!("--requests={requests}")),
        // h2load does not report requests that are unfinished when its time is over.
        LoadEnd::After(duration) => invocation.argument(format!(
            "--duration={}ms",
            duration.as_nanos().div_ceil(1_000_000)
        )),
    }
    Ok(())
}

/// `start us since 1970 \t status or -1 \t duration us`; more columns may follow.
pub(super) fn row(line: &str, context: &RowContext) -> Result<RequestRecord, Fault> {
    let mut columns = line.split('\t').map(str::trim);
    let mut next = || columns.next().and_then(|column| column.parse::<i64>().ok());
    let (Some(start), Some(answered), Some(duration)) = (next(), next(), next()) else {
        return Err(Fault::Form(
            "it does not begin with three numbers separated by tabs",
        ));
    };
    let nanos = |micros: i64| u64::try_from(micros).ok()?.checked_mul(1_000);
    let (Some(start), Some(duration)) = (nanos(start), nanos(duration)) else {
        return Err(Fault::Form("its times are out of range"));
    };
    let start = Time::from_nanos(start);
    let end = later(start, Duration::from_nanos(duration));
    let found = status(answered);
    match (found, answered) {
        (None, 0) => return Err(Fault::NoReasonPhrase),
        (None, 1..) | (None, ..-1) => return Err(Fault::Form("its status is not an HTTP status")),
        (Some(_), _) | (None, -1) => {}
    }
    let outcome = if found.is_some() {
        Outcome::Answered
    } else {
        Outcome::ConnectionClosed
    };
    let mut row = plain_row(context, start, end, outcome);
    row.slot = Some(start);
    row.status = found;
    row.error = found
        .is_none()
        .then(|| "h2load reports no reason".to_owned());
    Ok(row)
}
