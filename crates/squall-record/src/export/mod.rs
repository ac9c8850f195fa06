//! Exports requests in the formats of other programs: CSV, vegeta's results, h2load's log, and two of HdrHistogram.
//!
//! Each export is a struct over a writer: `new`, `append` as rows come, `finish`. Its memory does not grow with the
//! rows. A row's times count from the load's start; formats with wall-clock times need to know when that was. Only
//! [`CsvExport`] contains everything in a row. The others cannot express the warm-up, which is in no statistic, and
//! leave it out. Their one latency per request is the response time from its scheduled time, which includes waiting for
//! a connection or for the generator (docs/METHOD.md). Nothing here reads a table.
//!
//! ```
//! use squall_record::export::H2loadExport;
//!
//! let mut export = H2loadExport::new(Vec::new(), 1_763_760_301_000_000_000);
//! export.append(&[])?;
//! assert!(export.finish()?.is_empty());
//! # Ok::<(), squall_record::export::ExportError>(())
//! ```

mod csv;
mod h2load;
mod histogram;
mod interval_log;
mod percentiles;
mod vegeta;

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use squall_base::Time;
use squall_base::record::{Phase, RequestRecord};

pub use csv::CsvExport;
pub use h2load::H2loadExport;
pub use interval_log::IntervalLogExport;
pub use percentiles::PercentileExport;
pub use vegeta::{RequestLine, VegetaExport};

/// Why requests could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The operating system refused to write.
    #[error("cannot write the {format}: {source}; check the space left on its disk")]
    Write {
        /// The format being written.
        format: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A histogram could not be encoded.
    #[error("cannot encode a histogram for the {format}: {source}; this is a fault of squall's")]
    Encode {
        /// The format being written.
        format: &'static str,
        /// The encoder's error.
        source: hdrhistogram::serialization::V2DeflateSerializeError,
    },
}

/// Buffers text for a writer, so that a few kilobytes are one call.
#[derive(Debug)]
struct Lines<W> {
    format: &'static str,
    writer: W,
    pending: String,
}

impl<W: Write> Lines<W> {
    const PENDING_BYTES: usize = 32 * 1024;

    fn new(format: &'static str, writer: W) -> Lines<W> {
        Lines {
            format,
            writer,
            pending: String::new(),
        }
    }

    /// Adds a line; `text` includes its line feed.
    fn add(&mut self, text: fmt::Arguments<'_>) -> Result<(), ExportError> {
        let added = self.pending.write_fmt(text);
        debug_assert!(added.is_ok(), "a String takes everything");
        if self.pending.len() < Self::PENDING_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let written = self.writer.write_all(self.pending.as_bytes());
        self.pending.clear();
        written.map_err(|source| ExportError::Write {
            format: self.format,
            source,
        })
    }

    fn finish(mut self) -> Result<W, ExportError> {
        self.flush()?;
        self.writer.flush().map_err(|source| ExportError::Write {
            format: self.format,
            source,
        })?;
        Ok(self.writer)
    }
}

/// The measured requests, without the warm-up.
fn measured(rows: &[RequestRecord]) -> impl Iterator<Item = &RequestRecord> {
    rows.iter().filter(|row| row.phase == Phase::Measure)
}

/// Nanoseconds since 1970 at `time`, as a signed number because that is what other programs use. Saturates in the year
/// 2262.
fn unix_ns(epoch_unix_ns: u64, time: Time) -> i64 {
    let unix_ns = epoch_unix_ns.saturating_add(time.as_nanos());
    i64::try_from(unix_ns).unwrap_or(i64::MAX)
}

/// A CSV cell: quoted where RFC 4180 requires it, or where it begins with a space, which some readers would trim.
struct Cell<'a>(&'a str);

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell(text) = self;
        let is_plain =
            !text.contains(['"', ',', '\n', '\r']) && !text.starts_with(char::is_whitespace);
        if is_plain {
            return f.write_str(text);
        }
        write!(f, "\"{}\"", text.replace('"', "\"\""))
    }
}
