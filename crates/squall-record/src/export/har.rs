//! HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>), which the developer tools of browsers, waterfall
//! viewers and `squall import har` read.
//!
//! Timings come from the marks of each row; their sum is the response time. The record has neither the header fields
//! nor the bodies of responses, so those are empty. Secrets in header fields and URLs of requests are replaced
//! (`squall_base::secrets`), and no cookie is listed. `import/har` is the way back.

use std::io::Write;

use serde_json::{Value, json};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::secrets::redact;
use squall_base::{Duration, Time};
use url::form_urlencoded;

use super::{Elements, ExportError, measured, rfc3339, unix_ns};

/// The only page: all requests of the load.
const PAGE: &str = "load";

/// HAR's number for a part that does not apply.
const NOT_APPLICABLE: i32 = -1;

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarRequest<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The whole URL.
    pub url: &'a str,
    /// The version of HTTP, such as `HTTP/2`.
    pub http_version: &'a str,
    /// Header fields in addition to those of the protocol itself.
    pub headers: &'a [(String, String)],
    /// The body, if it is a text.
    pub body: Option<&'a str>,
}

/// Writes measured requests as entries of a HAR file. An entry starts at the request's scheduled time. `epoch_unix_ns` is the
/// wall-clock time at the origin of the rows' times, `title` names the load, which began at `started`, and `request` returns
/// what a row asked for.
///
/// # Errors
/// The operating system refused to write.
pub fn write_har<'a, W: Write>(
    writer: W,
    epoch_unix_ns: u64,
    title: &str,
    started: Time,
    rows: &[RequestRecord],
    request: impl Fn(&RequestRecord) -> HarRequest<'a>,
) -> Result<W, ExportError> {
    let mut entries = Elements::new("HAR file", writer);
    let creator = json!({ "name": "squall", "version": env!("CARGO_PKG_VERSION") });
    let page = json!({
        "id": PAGE,
        "title": title,
        "startedDateTime": rfc3339(unix_ns(epoch_unix_ns, started)),
        "pageTimings": { "onContentLoad": NOT_APPLICABLE, "onLoad": NOT_APPLICABLE },
    });
    entries.lines.add(format_args!(
        "{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"pages\":[{page}],\"entries\":[\n"
    ))?;
    for row in measured(rows) {
        entries.add(&entry(epoch_unix_ns, &request(row), row))?;
    }
    entries.finish("\n]}}\n")
}

fn entry(epoch_unix_ns: u64, request: &HarRequest<'_>, row: &RequestRecord) -> Value {
    let mut entry = json!({
        "pageref": PAGE,
        "startedDateTime": rfc3339(unix_ns(epoch_unix_ns, row.intended)),
        "time": row.response_time().as_millis_f64(),
        "request": request_part(request, row),
        "response": response_part(request.http_version, row),
        "cache": {},
        "timings": Timings::of(row).part(),
    });
    if let Some(connection) = row.connection {
        entry["connection"] = json!(connection.to_string());
    }
    entry
}

fn request_part(request: &HarRequest<'_>, row: &RequestRecord) -> Value {
    let (mut headers, mut url) = (request.headers.to_vec(), request.url.to_owned());
    redact(&mut headers, &mut url);
    let fields = headers.iter();
    let fields = fields.map(|(name, value)| json!({ "name": name, "value": value }));
    let mut part = json!({
        "method": request.method,
        "url": url,
        "httpVersion": request.http_version,
        "cookies": [],
        "headers": fields.collect::<Vec<_>>(),
        "queryString": query(&url),
        "headersSize": NOT_APPLICABLE,
        "bodySize": row.request_body_bytes,
    });
    if let Some(text) = request.body {
        let mut fields = request.headers.iter();
        let media_type = fields.find(|(name, _)| name == "content-type");
        let media_type = media_type.map_or("", |(_, value)| value.as_str());
        part["postData"] = json!({ "mimeType": media_type, "params": [], "text": text });
    }
    part
}

/// The pairs of a URL's query.
fn query(url: &str) -> Vec<Value> {
    let before_fragment = url.split('#').next().unwrap_or_default();
    let query = before_fragment
        .split_once('?')
        .map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

fn response_part(http_version: &str, row: &RequestRecord) -> Value {
    let mut part = json!({
        // 0 without a response, as browsers write it.
        "status": row.status.unwrap_or(0),
        "statusText": "",
        "httpVersion": http_version,
        "cookies": [],
        "headers": [],
        "content": { "size": row.response_body_bytes, "mimeType": "x-unknown" },
        "redirectURL": "",
        "headersSize": NOT_APPLICABLE,
        "bodySize": row.response_body_bytes,
    });
    // Chromium's field for the failure.
    if let Some(error) = failure(row) {
        part["_error"] = json!(error);
    }
    part
}

/// Why there is no complete response, or how a gRPC call failed.
fn failure(row: &RequestRecord) -> Option<String> {
    match (row.outcome, row.error.as_deref()) {
        (Outcome::Answered, error) => error.map(str::to_owned),
        (outcome, None) => Some(outcome.name().to_owned()),
        (outcome, Some(error)) => Some(format!("{}: {error}", outcome.name())),
    }
}

/// The parts of a response time. They add up to it, with `tls` as a part of `connect`. The part in which a request
/// ended lasts until its end.
struct Timings {
    blocked: Duration,
    /// The time to connect, if the connection was opened for this request.
    connect: Option<Duration>,
    tls: Option<Duration>,
    send: Duration,
    wait: Duration,
    receive: Duration,
}

impl Timings {
    fn of(row: &RequestRecord) -> Timings {
        let mut at = row.intended;
        let mut until = |mark: Option<Time>| {
            let next = mark.unwrap_or(row.end).min(row.end).max(at);
            let part = next.since(at);
            at = next;
            part
        };
        let ready = row.secured.or(row.connected);
        let (blocked, connect) = if row.opened_connection {
            (until(row.slot), Some(until(ready)))
        } else {
            // The request may have waited for the handshake of a connection that was opened for another request.
            (
                until(row.slot.map(|slot| slot.max(ready.unwrap_or(slot)))),
                None,
            )
        };
        Timings {
            blocked,
            connect,
            tls: connect.and_then(|connect| Some(tls_time(row)?.min(connect))),
            send: until(row.written_last),
            wait: until(row.answered_first),
            receive: until(Some(row.end)),
        }
    }

    fn part(&self) -> Value {
        let optional = |part: Option<Duration>| match part {
            Some(part) => json!(part.as_millis_f64()),
            None => json!(NOT_APPLICABLE),
        };
        json!({
            "blocked": self.blocked.as_millis_f64(),
            "dns": NOT_APPLICABLE,
            "connect": optional(self.connect),
            "ssl": optional(self.tls),
            "send": self.send.as_millis_f64(),
            "wait": self.wait.as_millis_f64(),
            "receive": self.receive.as_millis_f64(),
        })
    }
}

/// How long the handshake of TLS or QUIC took, from when it could begin.
fn tls_time(row: &RequestRecord) -> Option<Duration> {
    let begun = row.slot?.max(row.connected?);
    Some(row.secured?.since(begun))
}
