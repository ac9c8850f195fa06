//! h2load's log (`--log-file`, <https://nghttp2.org/documentation/h2load.1.html>): a line for each request, with its
//! start in microseconds since 1970, its status (-1 if it failed) and its duration in microseconds, separated by tabs.

use std::io::Write;

use squall_base::record::{Outcome, RequestRecord};

use super::{ExportError, Lines, measured, unix_ns};

/// Writes measured requests as lines of h2load's log. A row's start is its scheduled time, and its duration is the
/// response time from then on; in h2load's own logs both begin when the request is written. As in h2load, a request
/// fails only if it has no complete response; the status does not matter.
#[derive(Debug)]
pub struct H2loadExport<W> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
}

impl<W: Write> H2loadExport<W> {
    /// Creates the export without writing anything yet. `epoch_unix_ns` is the wall-clock time at the origin of the
    /// rows' times.
    pub fn new(writer: W, epoch_unix_ns: u64) -> H2loadExport<W> {
        H2loadExport {
            lines: Lines::new("log in h2load's format", writer),
            epoch_unix_ns,
        }
    }

    /// Writes more requests.
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

    /// Writes the lines so far, which otherwise wait until a buffer is full.
    pub fn flush(&mut self) -> Result<(), ExportError> {
        self.lines.flush_all()
    }

    /// Writes the remaining text and returns the writer.
    pub fn finish(self) -> Result<W, ExportError> {
        self.lines.finish()
    }
}
