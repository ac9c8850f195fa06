//! vegeta's results as `vegeta encode --to csv` writes them, so that `vegeta report` and `vegeta plot` read them
//! (`lib/results.go`, `NewCSVEncoder`: 12 fields, no line of names).
//!
//! The bodies and the header fields of responses are not in squall's record, so those two fields are empty.

use std::fmt;
use std::io::Write;

use squall_base::record::{Outcome, RequestRecord};

use super::{Cell, ExportError, Lines, measured, unix_ns};

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The whole URL.
    pub url: &'a str,
}

/// Measured requests as vegeta's results. A row's time is when the schedule wanted it and its latency is the response
/// time from there; vegeta's own begin when a worker of its takes the request up.
#[derive(Debug)]
pub struct VegetaExport<W, A> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
    attack: String,
    asked: A,
}

impl<'a, W: Write, A: Fn(&RequestRecord) -> Asked<'a>> VegetaExport<W, A> {
    /// Nothing is written yet. `epoch_unix_ns` is the wall clock at the origin of the rows' times, `attack` a name for the
    /// load (it may be empty), `asked` says what a row asked for.
    pub fn new(writer: W, epoch_unix_ns: u64, attack: &str, asked: A) -> VegetaExport<W, A> {
        VegetaExport {
            lines: Lines::new("results for vegeta", writer),
            epoch_unix_ns,
            attack: attack.to_owned(),
            asked,
        }
    }

    /// Writes some more requests.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        measured(rows).try_for_each(|row| {
            let asked = (self.asked)(row);
            self.lines.add(format_args!(
                "{},{},{},{},{},{},,{},{},{},{},\n",
                unix_ns(self.epoch_unix_ns, row.intended),
                whole_answer(row).unwrap_or(0),
                row.response_time().as_nanos(),
                row.request_body_bytes,
                row.response_body_bytes,
                Fault(row),
                Cell(&self.attack),
                row.request,
                Cell(asked.method),
                Cell(asked.url),
            ))
        })
    }

    /// Writes what is left; gives the writer back.
    pub fn finish(self) -> Result<W, ExportError> {
        self.lines.finish()
    }
}

/// The status of an answer that came in whole. To vegeta a status is a success, so an answer that broke off has none.
fn whole_answer(row: &RequestRecord) -> Option<u16> {
    row.status.filter(|_| row.outcome == Outcome::Answered)
}

/// Why a request failed, empty if it did not. As in vegeta, a status outside of 200 to 399 is an error too.
struct Fault<'a>(&'a RequestRecord);

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault(row) = self;
        match (whole_answer(row), row.error.as_deref()) {
            (Some(200..=399), _) => Ok(()),
            (Some(status), _) => write!(f, "status {status}"),
            (None, None) => f.write_str(row.outcome.name()),
            (None, Some(error)) => {
                let said = format!("{}: {error}", row.outcome.name());
                write!(f, "{}", Cell(&said))
            }
        }
    }
}
