//! h2load's log (`--log-file`, <https://nghttp2.org/documentation/h2load.1.html>): a line for each request, with its start
//! in microseconds since 1970, its status or -1 if it failed, and its duration in microseconds, with tabs between.

use std::io::Write;

use squall_base::record::{Outcome, RequestRecord};

use super::{ExportError, Lines, measured, unix_ns};

/// Measured requests as lines of h2load's log. A row's start is when the schedule wanted it and its duration is the
/// response time from there; h2load's own begin when it writes the request. An answer of any status is none of h2load's
/// failures; what never was answered in whole is.
#[derive(Debug)]
pub struct H2loadExport<W> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
}

impl<W: Write> H2loadExport<W> {
    /// Nothing is written yet. `epoch_unix_ns` is the wall clock at the origin of the rows' times.
    pub fn new(writer: W, epoch_unix_ns: u64) -> H2loadExport<W> {
        H2loadExport {
            lines: Lines::new("log in h2load's format", writer),
            epoch_unix_ns,
        }
    }

    /// Writes some more requests.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        measured(rows).try_for_each(|row| {
            let status = row.status.filter(|_| row.outcome == Outcome::Answered);
            self.lines.add(format_args!(
                "{}\t{}\t{}\n",
                unix_ns(self.epoch_unix_ns, row.intended) / 1_000,
                status.map_or(-1, i32::from),
                row.response_time().as_nanos() / 1_000,
            ))
        })
    }

    /// Writes what is left; gives the writer back.
    pub fn finish(self) -> Result<W, ExportError> {
        self.lines.finish()
    }
}
