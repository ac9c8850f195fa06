//! Headless Chromium as a client that loads a page again and again: its command line, and the lines that are kept of
//! its reports (`devtools`).
//!
//! The browser parses the document and requests its pictures when the parser reaches them, and decides itself how many
//! connections to open. squall's own client does not do that. Connections are kept from page to page; the cache is off.
//! Header fields are the browser's own.

use serde::{Deserialize, Serialize};
use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

use super::driver::ClientDriver;
use super::order::ClientOrder;
use super::row::{Fault, PageLine, RowContext, RowFormat, check_spoken, plain_row, status};
use crate::driver::{Refusal, refuse_order};
use crate::find::{Version, installable};
use crate::order::Invocation;

pub(super) const NAME: &str = "chromium";
const ROWS: &str = "chromium.jsonl";

/// Its profile, in its folder: everything that it writes, including temporary files. Both paths are relative, because a
/// socket's path must be short.
pub(super) const PROFILE: &str = "profile";

/// The page that it opens first.
pub(super) const EMPTY_PAGE: &str = "about:blank";

const FLAGS: [&str; 12] = [
    "--headless",
    // As a client it already runs inside namespaces, and an ordinary user may not nest them; otherwise it opens only pages
    // that squall has made (`open_page`).
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--remote-debugging-pipe",
];

#[derive(Debug)]
pub(super) struct Chromium;

installable!(Chromium, NAME, install: "apt-get install chromium", version: &["--version"]);

impl ClientDriver for Chromium {
    fn rows(&self) -> (&'static str, RowFormat) {
        (ROWS, RowFormat::Chromium)
    }

    fn loads_pages(&self) -> bool {
        true
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Invocation, Refusal> {
        let can = [Protocol::H1, Protocol::H1s, Protocol::H2, Protocol::H3];
        order.require_protocol(NAME, &can)?;
        if !order.headers.is_empty() {
            let why =
                "its header fields are a browser's: leave out `headers` and `browser_headers`";
            return refuse_order(NAME, why);
        }
        let targets = order.page.iter().flat_map(|page| &page.targets);
        let mut targets: Vec<&String> = targets.chain([&order.path]).collect();
        targets.sort_unstable();
        if targets.windows(2).any(|pair| pair[0] == pair[1]) {
            let why =
                "a browser asks for each target of a page once; give each tile its number, {}";
            return refuse_order(NAME, why);
        }
        let mut invocation = headless();
        let (name, address) = (&order.server_name, order.target.ip());
        invocation.argument(format!("--host-resolver-rules=MAP {name} {address}"));
        if let Some(pin) = &order.pin {
            invocation.argument(format!("--ignore-certificate-errors-spki-list={pin}"));
        }
        match order.protocol {
            Protocol::H3 => {
                let port = order.target.port();
                invocation.argument(format!("--origin-to-force-quic-on={name}:{port}"));
            }
            Protocol::H2 => invocation.argument("--disable-quic"),
            Protocol::H1 | Protocol::H1s | Protocol::H2c => {
                invocation.arguments(["--disable-quic", "--disable-http2"]);
            }
        }
        invocation.argument(EMPTY_PAGE);
        Ok(invocation)
    }
}

/// The command that starts a headless browser, except for the first page.
pub(super) fn headless() -> Invocation {
    let mut invocation = Invocation::default();
    // This file marks a start that is not the first; the profile folder must exist.
    invocation.text(&format!("{PROFILE}/First Run"), String::new());
    invocation.arguments(FLAGS);
    invocation.argument(format!("--user-data-dir={PROFILE}"));
    let folders = ["TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"];
    let environment = folders.map(|name| (name, PROFILE));
    let environment = environment.map(|(name, value)| (name.to_owned(), value.into()));
    invocation.environment.extend(environment);
    invocation
}

/// The lines that are kept of the conversation.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Request(RequestReport),
    Page(PageReport),
}

/// A request as the browser reports it; times in nanoseconds since 1970.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestReport {
    /// Its number among the requests of all pages.
    pub(super) request: u64,
    /// Its number within its page.
    pub(super) what: u32,
    /// When the page requested it; for the document, when the page began.
    pub(super) asked_ns: u64,
    pub(super) connected_ns: Option<u64>,
    pub(super) secured_ns: Option<u64>,
    pub(super) written_first_ns: Option<u64>,
    pub(super) written_last_ns: Option<u64>,
    pub(super) answered_first_ns: Option<u64>,
    pub(super) headers_ns: Option<u64>,
    pub(super) end_ns: u64,
    pub(super) has_ended: bool,
    /// 0 if no response arrived.
    pub(super) status: u16,
    pub(super) protocol: String,
    pub(super) body_bytes: u64,
    pub(super) opened_connection: bool,
    pub(super) error: Option<String>,
}

/// A page as the browser reports it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageReport {
    /// Its number, from 0.
    pub(super) page: u64,
    /// `performance.timeOrigin`, in nanoseconds since 1970.
    pub(super) start_ns: u64,
    /// `loadEventEnd` of its Navigation Timing.
    pub(super) took_ns: u64,
    pub(super) is_loaded: bool,
    /// Why it could not be loaded.
    pub(super) error: Option<String>,
}

/// The row of a line; pages are added to `pages`.
pub(super) fn row(
    line: &str,
    context: &RowContext,
    pages: &mut Vec<PageLine>,
) -> Result<Option<RequestRecord>, Fault> {
    let line: Line = serde_json::from_str(line).map_err(|error| Fault::Json(error.to_string()))?;
    let report = match line {
        Line::Page(page) => {
            pages.push(PageLine {
                page: page.page,
                start: Time::from_nanos(page.start_ns),
                took: Duration::from_nanos(page.took_ns),
                is_loaded: page.is_loaded,
                error: page.error,
            });
            return Ok(None);
        }
        Line::Request(report) => report,
    };
    if report.status != 0 && report.error.is_none() {
        let spoken = &report.protocol;
        check_spoken(context, spoken, spoken == context.protocol.alpn())?;
    }
    let status = match report.status {
        0 => None,
        number => {
            Some(status(number.into()).ok_or(Fault::Form("its status is not an HTTP status"))?)
        }
    };
    let outcome = match (report.has_ended, &report.error) {
        (false, _) => Outcome::Censored,
        (true, None) if status.is_none() => {
            return Err(Fault::Form("it was answered without a status"));
        }
        (true, None) => Outcome::Answered,
        (true, Some(_)) => Outcome::ConnectionClosed,
    };
    let at = |ns: Option<u64>| ns.map(Time::from_nanos);
    let asked = Time::from_nanos(report.asked_ns);
    let end = Time::from_nanos(report.end_ns.max(report.asked_ns));
    Ok(Some(RequestRecord {
        request: report.request,
        what: report.what,
        connected: at(report.connected_ns),
        secured: at(report.secured_ns),
        written_first: at(report.written_first_ns),
        written_last: at(report.written_last_ns),
        answered_first: at(report.answered_first_ns),
        headers: at(report.headers_ns),
        status,
        opened_connection: report.opened_connection,
        response_body_bytes: report.body_bytes,
        error: if report.has_ended {
            report.error
        } else {
            Some("it had not ended when the load was over".to_owned())
        },
        ..plain_row(context, asked, end, outcome)
    }))
}
