//! fortio (<https://github.com/fortio/fortio>): its command line and its access log in JSON.
//!
//! Each thread has one connection and one request at a time; at a rate a thread that is late catches up, and when it should
//! have sent it does not say. Why a request failed it does not say either.

use serde::Deserialize;
use squall_base::plan::{Protocol, Version as Http};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Bytes, Time};

use super::order::{ClientLoad, ClientOrder, LoadEnd};
use super::read::{Fault, RowContext, RowFormat, later, plain_row, span, status};
use super::{ClientDriver, Tells};
use crate::driver::{Refusal, not_so};
use crate::find::Version;
use crate::order::{Content, Rendered};

const NAME: &str = "fortio";
const ROWS: &str = "fortio.json";

/// Its driver.
#[derive(Debug)]
pub(super) struct Fortio;

impl ClientDriver for Fortio {
    fn name(&self) -> &str {
        NAME
    }

    fn install_hint(&self) -> &str {
        "go install fortio.org/fortio@v1.63.9, or https://github.com/fortio/fortio/releases"
    }

    fn version_arguments(&self) -> Option<&'static [&'static str]> {
        Some(&["version"])
    }

    fn tells(&self) -> Tells {
        Tells {
            intended: "when its thread sent it; when that was due is not told",
            user: true,
            ..Tells::default()
        }
    }

    fn rows(&self) -> Option<(&str, RowFormat)> {
        Some((ROWS, RowFormat::Fortio))
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Rendered, Refusal> {
        use Protocol::{H1, H1s, H2, H2c};
        order.speaks(NAME, &[H1, H1s, H2c, H2])?;
        if order.load.streams() > 1 {
            return Err(not_so(
                NAME,
                "its threads ask one by one; give it 1 stream a connection",
            ));
        }
        let connections = order.load.connections();
        let mut rendered = Rendered::default();
        // Emptied: it adds to its log.
        rendered.text(ROWS, String::new());
        rendered.arguments([
            "load",
            "-quiet",
            "-logger-no-color",
            "-access-log-file",
            ROWS,
        ]);
        // Go's own client, which takes answers of any size; and its limit of 3 s would cut a slow link's tail off.
        rendered.arguments(["-stdclient", "-timeout", "1h", "-c"]);
        rendered.argument(connections.to_string());
        if order.protocol.version() == Http::Http2 {
            rendered.argument("-h2");
        }
        schedule(order, &mut rendered)?;
        match &order.trust {
            Some(trust) => {
                rendered.argument("-cacert");
                rendered.argument(trust.clone());
            }
            None => rendered.argument("-k"),
        }
        rendered.arguments([
            "-resolve",
            &order.target.ip().to_string(),
            "-X",
            &order.method,
        ]);
        if order.body > Bytes::new(0) {
            rendered.file("body", Content::Filler(order.body));
            rendered.arguments(["-payload-file", "body"]);
        }
        for (name, value) in &order.headers {
            rendered.arguments(["-H", &format!("{name}: {value}")]);
        }
        rendered.argument(order.url());
        Ok(rendered)
    }
}

/// How often, and until when.
fn schedule(order: &ClientOrder, rendered: &mut Rendered) -> Result<(), Refusal> {
    let connections = order.load.connections();
    match order.load {
        ClientLoad::Rate { rate, .. } => {
            rendered.arguments(["-qps", &format!("{:.6}", rate.per_second())]);
        }
        ClientLoad::Closed { .. } => rendered.arguments(["-qps", "0"]),
    }
    match (order.load.requests(), order.load) {
        (Some(requests), _) if requests < u64::from(connections) => {
            return Err(not_so(
                NAME,
                "it needs at least as many requests as connections",
            ));
        }
        (Some(requests), _) => rendered.arguments(["-n", &requests.to_string()]),
        (
            None,
            ClientLoad::Closed {
                end: LoadEnd::After(duration),
                ..
            },
        ) => {
            rendered.arguments(["-t", &format!("{}ns", duration.as_nanos())]);
            rendered.notes.push(format!("fortio sends {connections} requests more before it begins, which it does not tell of"));
        }
        (None, _) => {}
    }
    Ok(())
}

#[derive(Deserialize)]
struct Line {
    /// Seconds.
    latency: f64,
    /// Nanoseconds since 1970: its start.
    timestamp: u64,
    thread: u32,
    ok: bool,
    /// The status, or what happened.
    details: String,
}

pub(super) fn row(line: &str, context: &RowContext) -> Result<RequestRecord, Fault> {
    let line: Line = serde_json::from_str(line).map_err(|error| Fault::Json(error.to_string()))?;
    let start = Time::from_nanos(line.timestamp);
    let latency = span(line.latency, 1e9).ok_or(Fault::Form("its latency is none"))?;
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
        return Err(Fault::Form("it says that all was well, and no status"));
    }
    row.error = found.is_none().then_some(line.details);
    Ok(row)
}
