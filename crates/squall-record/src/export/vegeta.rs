//! vegeta's results, as `vegeta encode --to csv` writes them, so that `vegeta report` and `vegeta plot` read them
//! (`lib/results.go`, `NewCSVEncoder`: 12 fields, no header line).
//!
//! Response bodies and response header fields are not in squall's record, so those two fields are empty.

use std::fmt;
use std::io::Write;

use squall_base::record::{Outcome, RequestRecord};

use super::{Cell, ExportError, Lines, measured, unix_ns};

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The whole URL.
    pub url: &'a str,
}

/// Writes measured requests as vegeta's results. A row's time is its scheduled time and its latency is the response
/// time from then on; in vegeta's own results both begin when one of its workers starts the request.
#[derive(Debug)]
pub struct VegetaExport<W, A> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
    attack: String,
    request_line: A,
}

impl<'a, W: Write, A: Fn(&RequestRecord) -> RequestLine<'a>> VegetaExport<W, A> {
    /// Creates the export without writing anything yet. `epoch_unix_ns` is the wall-clock time at the origin of the
    /// rows' times, `attack` is a name for the load (may be empty), and `request_line` returns what a row asked for.
    pub fn new(writer: W, epoch_unix_ns: u64, attack: &str, request_line: A) -> VegetaExport<W, A> {
        VegetaExport {
            lines: Lines::new("results for vegeta", writer),
            epoch_unix_ns,
            attack: attack.to_owned(),
            request_line,
        }
    }

    /// Writes more requests.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        measured(rows).try_for_each(|row| {
            let request_line = (self.request_line)(row);
            self.lines.add(format_args!(
                "{},{},{},{},{},{},,{},{},{},{},\n",
                unix_ns(self.epoch_unix_ns, row.intended),
                complete_status(row).unwrap_or(0),
                row.response_time().as_nanos(),
                row.request_body_bytes,
                row.response_body_bytes,
                ErrorCell(row),
                Cell(&self.attack),
                row.request,
                Cell(request_line.method),
                Cell(request_line.url),
            ))
        })
    }

    /// Writes the lines so far, which otherwise wait until a buffer is full.
    pub fn flush(&mut self) -> Result<(), ExportError> {
        self.lines.flush_all()
    }

    /// Writes the remaining text and returns the writer.
    pub fn finish(self) -> Result<W, ExportError> {
        self.lines.finish()
    }
}

/// The status of a complete response. vegeta counts a request with a good status as a success, so incomplete responses
/// and failed gRPC calls get no status.
fn complete_status(row: &RequestRecord) -> Option<u16> {
    row.status
        .filter(|_| row.outcome == Outcome::Answered && !row.is_failed_call())
}

/// Why a request failed; empty if it did not. As in vegeta, a status outside 200 to 399 is an error too.
struct ErrorCell<'a>(&'a RequestRecord);

impl fmt::Display for ErrorCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorCell(row) = self;
        match (complete_status(row), row.error.as_deref()) {
            (Some(200..=399), _) => Ok(()),
            (Some(status), _) => write!(f, "status {status}"),
            (None, None) => f.write_str(row.outcome.name()),
            (None, Some(error)) => {
                let message = format!("{}: {error}", row.outcome.name());
                write!(f, "{}", Cell(&message))
            }
        }
    }
}
