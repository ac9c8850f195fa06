//! Chromium, headless, as a client that loads a page again and again: its command line, and the lines that are kept of what it
//! says (`devtools`).
//!
//! The document is parsed and its pictures are asked for when the browser gets to them, over as many connections as it likes:
//! what squall's own client does not do. Connections are kept from page to page, the cache is off. Header fields are the
//! browser's own.

use serde::{Deserialize, Serialize};
use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

use super::order::ClientOrder;
use super::read::{Fault, PageLine, RowContext, RowFormat, check_spoken, plain_row, status};
use super::{ClientDriver, Tells};
use crate::driver::{Refusal, not_so};
use crate::find::Version;
use crate::order::Rendered;

const NAME: &str = "chromium";
const ROWS: &str = "chromium.jsonl";

/// Its profile, in its folder: all that it writes, temporary files too. Both are relative, because a socket's path must be
/// short.
pub(super) const PROFILE: &str = "profile";

const FLAGS: [&str; 12] = [
    "--headless",
    // Namespaces are around it already, and an ordinary user's may not be nested.
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

/// Its driver.
#[derive(Debug)]
pub(super) struct Chromium;

impl ClientDriver for Chromium {
    fn name(&self) -> &str {
        NAME
    }

    fn install_hint(&self) -> &str {
        "apt-get install chromium"
    }

    fn version_arguments(&self) -> Option<&'static [&'static str]> {
        Some(&["--version"])
    }

    fn tells(&self) -> Tells {
        Tells {
            intended: "when the page asked for it",
            connecting: true,
            writing: true,
            first_byte: true,
            response_body: true,
            user: false,
            protocol: true,
        }
    }

    fn rows(&self) -> Option<(&str, RowFormat)> {
        Some((ROWS, RowFormat::Chromium))
    }

    fn loads_pages(&self) -> bool {
        true
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Rendered, Refusal> {
        let can = [Protocol::H1, Protocol::H1s, Protocol::H2, Protocol::H3];
        order.speaks(NAME, &can)?;
        if !order.headers.is_empty() {
            let why =
                "its header fields are a browser's: leave out `headers` and `browser_headers`";
            return Err(not_so(NAME, why));
        }
        let targets = order.page.iter().flat_map(|page| &page.targets);
        let mut targets: Vec<&String> = targets.chain([&order.path]).collect();
        targets.sort_unstable();
        if targets.windows(2).any(|pair| pair[0] == pair[1]) {
            let why =
                "a browser asks for each target of a page once; give each tile its number, {}";
            return Err(not_so(NAME, why));
        }
        let mut rendered = Rendered::default();
        // By this file it knows that it is not its first start; the folder must be there.
        rendered.text(&format!("{PROFILE}/First Run"), String::new());
        rendered.arguments(FLAGS);
        rendered.argument(format!("--user-data-dir={PROFILE}"));
        let folders = ["TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"];
        let environment = folders.map(|name| (name, PROFILE));
        let environment = environment.map(|(name, value)| (name.to_owned(), value.into()));
        rendered.environment.extend(environment);
        let (name, address) = (&order.server_name, order.target.ip());
        rendered.argument(format!("--host-resolver-rules=MAP {name} {address}"));
        if let Some(pin) = &order.pin {
            rendered.argument(format!("--ignore-certificate-errors-spki-list={pin}"));
        }
        match order.protocol {
            Protocol::H3 => {
                let port = order.target.port();
                rendered.argument(format!("--origin-to-force-quic-on={name}:{port}"));
            }
            Protocol::H2 => rendered.argument("--disable-quic"),
            Protocol::H1 | Protocol::H1s | Protocol::H2c => {
                rendered.arguments(["--disable-quic", "--disable-http2"]);
            }
        }
        rendered.argument("about:blank");
        Ok(rendered)
    }
}

/// What is kept of the conversation, a line each.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Request(ToldRequest),
    Page(ToldPage),
}

/// A request as the browser tells of it; times in nanoseconds since 1970.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToldRequest {
    /// Its number among those of all pages.
    pub(super) request: u64,
    /// Its number in its page.
    pub(super) what: u32,
    /// When the page asked for it; of the document, when the page began.
    pub(super) asked_ns: u64,
    pub(super) connected_ns: Option<u64>,
    pub(super) secured_ns: Option<u64>,
    pub(super) written_first_ns: Option<u64>,
    pub(super) written_last_ns: Option<u64>,
    pub(super) answered_first_ns: Option<u64>,
    pub(super) headers_ns: Option<u64>,
    pub(super) end_ns: u64,
    pub(super) has_ended: bool,
    /// 0: none came.
    pub(super) status: u16,
    pub(super) protocol: String,
    pub(super) body_bytes: u64,
    pub(super) opened_connection: bool,
    pub(super) error: Option<String>,
}

/// A page as the browser tells of it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToldPage {
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

/// The row of a line, or the page.
pub(super) fn row(
    line: &str,
    context: &RowContext,
    pages: &mut Vec<PageLine>,
) -> Result<Option<RequestRecord>, Fault> {
    let line: Line = serde_json::from_str(line).map_err(|error| Fault::Json(error.to_string()))?;
    let told = match line {
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
        Line::Request(told) => told,
    };
    if told.status != 0 && told.error.is_none() {
        let spoken = &told.protocol;
        check_spoken(context, spoken, spoken == context.protocol.alpn())?;
    }
    let status = match told.status {
        0 => None,
        number => {
            Some(status(number.into()).ok_or(Fault::Form("its status is no status of HTTP"))?)
        }
    };
    let outcome = match (told.has_ended, &told.error) {
        (false, _) => Outcome::Censored,
        (true, None) if status.is_none() => {
            return Err(Fault::Form("it was answered without a status"));
        }
        (true, None) => Outcome::Answered,
        (true, Some(_)) => Outcome::ConnectionClosed,
    };
    let at = |ns: Option<u64>| ns.map(Time::from_nanos);
    let asked = Time::from_nanos(told.asked_ns);
    let end = Time::from_nanos(told.end_ns.max(told.asked_ns));
    Ok(Some(RequestRecord {
        request: told.request,
        what: told.what,
        connected: at(told.connected_ns),
        secured: at(told.secured_ns),
        written_first: at(told.written_first_ns),
        written_last: at(told.written_last_ns),
        answered_first: at(told.answered_first_ns),
        headers: at(told.headers_ns),
        status,
        opened_connection: told.opened_connection,
        response_body_bytes: told.body_bytes,
        error: match told.has_ended {
            true => told.error,
            false => Some("it had not ended when the load was over".to_owned()),
        },
        ..plain_row(context, asked, end, outcome)
    }))
}
