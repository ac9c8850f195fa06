//! What the logs of load generators have in common: the names of their formats, what is wrong with a line, and how a
//! row is filled from unchecked numbers.
//!
//! What a line means is in the file of its program, and `read` goes through a whole log.

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use thiserror::Error;

squall_base::words! {
    /// The program whose log format it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RowFormat {
        /// h2load's `--log-file`.
        H2load = "h2load",
        /// k6's `--out json`.
        K6 = "k6",
        /// fortio's `-access-log-file` in JSON.
        Fortio = "fortio",
        /// curl's `--write-out %{json}`, each line prefixed with the time of arrival in nanoseconds since 1970 and a tab.
        Curl = "curl",
        /// The lines that squall keeps of its conversation with Chromium.
        Chromium = "chromium",
    }
}

/// What all rows of a log have in common, known before the first is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowContext {
    /// The requested protocol.
    pub protocol: Protocol,
    /// The size of each request's body.
    pub request_body_bytes: u64,
}

/// A page as a browser reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLine {
    /// Its number, from 0.
    pub page: u64,
    /// When the browser began it, since 1970.
    pub start: Time,
    /// How long it took, to the end of its `load` event.
    pub took: Duration,
    /// Whether there was a `load` event.
    pub is_loaded: bool,
    /// Why the page could not be loaded.
    pub error: Option<String>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It does not match the format.
    #[error("{0}")]
    Form(&'static str),
    /// It is not JSON, or not the expected object.
    #[error("{0}")]
    Json(String),
    /// h2load only takes a status from a status line with a reason phrase (github.com/karlseguin/http.zig/issues/177).
    #[error("its status is 0")]
    NoReasonPhrase,
    /// Another protocol was spoken.
    #[error("it spoke {spoken}, and {asked} was requested")]
    Protocol {
        /// The protocol that was requested.
        asked: Protocol,
        /// The protocol that it reports.
        spoken: String,
    },
}

impl Fault {
    /// What to do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Fault::NoReasonPhrase => {
                "h2load reads no status from an HTTP/1.1 response without a reason phrase, such as HAProxy makes of one in \
                 HTTP/2: let it speak h2c or h2, or use k6, fortio or curl"
            }
            _ => "is it a different version?",
        }
    }
}

/// A row with what every format reports.
pub(super) fn plain_row(
    context: &RowContext,
    intended: Time,
    end: Time,
    outcome: Outcome,
) -> RequestRecord {
    RequestRecord {
        end,
        request_body_bytes: context.request_body_bytes,
        outcome,
        ..RequestRecord::due(0, intended)
    }
}

/// `time` plus a span, neither of which is trusted.
pub(super) fn later(time: Time, span: Duration) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(span.as_nanos()))
}

/// `time` minus a span.
pub(super) fn earlier(time: Time, span: Duration) -> Time {
    Time::from_nanos(time.as_nanos().saturating_sub(span.as_nanos()))
}

/// `number` times `unit_ns` as a span; `None` if it is negative or not a number.
pub(super) fn span(number: f64, unit_ns: f64) -> Option<Duration> {
    // 2^63: far beyond any log, and far below what a u64 holds.
    let nanos = (number * unit_ns).round();
    (0.0..9.2e18)
        .contains(&nanos)
        .then(|| Duration::from_nanos(nanos as u64))
}

/// An HTTP status.
pub(super) fn status(number: i64) -> Option<u16> {
    u16::try_from(number)
        .ok()
        .filter(|status| (100..1_000).contains(status))
}

/// Fails if a program spoke a protocol other than the requested one.
pub(super) fn check_spoken(context: &RowContext, spoken: &str, is_it: bool) -> Result<(), Fault> {
    if is_it {
        return Ok(());
    }
    Err(Fault::Protocol {
        asked: context.protocol,
        spoken: spoken.chars().take(20).collect(),
    })
}
