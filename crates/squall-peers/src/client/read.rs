//! Reads rows from the logs of load generators, one line at a time, however large the file is.
//!
//! Each format's own file turns a line, or several, into a row. A truncated last line, such as a killed program leaves,
//! is counted and left out. Any other line that does not match the format is an error with its line number.

use std::io::{self, BufRead};

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};
use thiserror::Error;

use super::{chromium, curl, fortio, h2load, k6};

/// The longest line that is accepted.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The program whose log format it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// h2load's `--log-file`.
    H2load,
    /// k6's `--out json`.
    K6,
    /// fortio's `-access-log-file` in JSON.
    Fortio,
    /// The lines that squall keeps of its conversation with Chromium.
    Chromium,
    /// curl's `--write-out %{json}`, each line prefixed with the time of arrival in nanoseconds since 1970 and a tab.
    Curl,
}

impl RowFormat {
    /// Every format.
    pub const ALL: [RowFormat; 5] = [
        RowFormat::H2load,
        RowFormat::K6,
        RowFormat::Fortio,
        RowFormat::Curl,
        RowFormat::Chromium,
    ];

    /// Its name in recipes.
    pub const fn name(self) -> &'static str {
        match self {
            RowFormat::H2load => "h2load",
            RowFormat::K6 => "k6",
            RowFormat::Fortio => "fortio",
            RowFormat::Curl => "curl",
            RowFormat::Chromium => "chromium",
        }
    }
}

/// What is known of every row before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowContext {
    /// The protocol that was asked for.
    pub protocol: Protocol,
    /// The size of each request's body.
    pub request_body_bytes: u64,
}

/// What was read in addition to the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readout {
    /// The number of rows.
    pub rows: u64,
    /// Whether the last line was truncated.
    pub is_cut_off: bool,
    /// Requests that the program reports it should have sent and did not.
    pub dropped: u64,
    /// The pages of a browser.
    pub pages: Vec<PageLine>,
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

/// Why a log could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system could not read it.
    #[error("cannot read the log of {}: {source}", format.name())]
    Io {
        /// The log's format.
        format: RowFormat,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not of the format.
    #[error("the log of {} has a line {line} that is not of its format: {why}: {excerpt:?}; {}", format.name(), why.advice())]
    Line {
        /// The log's format.
        format: RowFormat,
        /// The line number, from 1.
        line: u64,
        /// What is wrong.
        why: Fault,
        /// The beginning of the line.
        excerpt: String,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It does not have the form of the format.
    #[error("{0}")]
    Form(&'static str),
    /// It is not JSON, or not the expected object.
    #[error("{0}")]
    Json(String),
    /// h2load only takes a status from a status line with a reason phrase (github.com/karlseguin/http.zig/issues/177).
    #[error("its status is 0")]
    NoReasonPhrase,
    /// Another protocol was spoken.
    #[error("it spoke {spoken}, and {asked} was asked for")]
    Protocol {
        /// The protocol that was requested.
        asked: Protocol,
        /// The protocol that it reports.
        spoken: String,
    },
}

impl Fault {
    fn advice(&self) -> &'static str {
        match self {
            Fault::NoReasonPhrase => {
                "h2load knows no status of an HTTP/1.1 response without a reason phrase, such as HAProxy makes of one in \
                 HTTP/2: let it speak h2c or h2, or take k6, fortio or curl"
            }
            _ => "is it of another version?",
        }
    }
}

impl RowFormat {
    /// Reads a log and hands each row to `row`, in the log's order, numbered from 0.
    pub fn read(
        self,
        log: &mut dyn BufRead,
        context: RowContext,
        row: &mut dyn FnMut(RequestRecord),
    ) -> Result<Readout, ReadError> {
        let mut readout = Readout::default();
        let mut assembly = k6::RequestAssembly::default();
        let mut next = |mut found: RequestRecord, readout: &mut Readout| {
            // A browser's rows already have numbers, which identify their page.
            if self != RowFormat::Chromium {
                found.request = readout.rows;
            }
            readout.rows += 1;
            row(found);
        };
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            let unread = |source| ReadError::Io {
                format: self,
                source,
            };
            let is_complete = read_line(log, &mut bytes).map_err(unread)?;
            if bytes.is_empty() {
                break;
            }
            let result = match std::str::from_utf8(&bytes) {
                Err(_) => Err(Fault::Form("it is not UTF-8")),
                Ok(line) => match self {
                    RowFormat::H2load => h2load::row(line, &context).map(Some),
                    RowFormat::Fortio => fortio::row(line, &context).map(Some),
                    RowFormat::Curl => curl::row(line, &context).map(Some),
                    RowFormat::Chromium => chromium::row(line, &context, &mut readout.pages),
                    RowFormat::K6 => assembly.line(line, &context, &mut readout.dropped),
                },
            };
            match result {
                Ok(Some(found)) => next(found, &mut readout),
                Ok(None) => {}
                Err(_) if !is_complete => readout.is_cut_off = true,
                Err(why) => {
                    let text = String::from_utf8_lossy(&bytes);
                    return Err(ReadError::Line {
                        format: self,
                        line: number,
                        why,
                        excerpt: text.chars().take(80).collect(),
                    });
                }
            }
        }
        if let Some(last) = assembly.finish(&context) {
            next(last, &mut readout);
        }
        Ok(readout)
    }
}

/// Reads a line without its end. Returns whether it had one.
fn read_line(log: &mut dyn BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let available = match log.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        if available.is_empty() {
            return Ok(false);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(available.len());
        bytes.extend_from_slice(&available[..taken]);
        log.consume(taken + usize::from(end.is_some()));
        if bytes.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a line has more than 1 MiB",
            ));
        }
        if end.is_some() {
            // Distinguishes an empty line from the end of the log; no format has empty lines.
            if bytes.is_empty() {
                bytes.push(b' ');
            }
            return Ok(true);
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
        request: 0,
        phase: Phase::Measure,
        user: 0,
        what: 0,
        intended,
        taken_up: intended,
        slot: None,
        connected: None,
        secured: None,
        written_first: None,
        written_last: None,
        answered_first: None,
        headers: None,
        end,
        status: None,
        connection: None,
        stream: None,
        opened_connection: false,
        request_body_bytes: context.request_body_bytes,
        response_body_bytes: 0,
        outcome,
        error: None,
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
