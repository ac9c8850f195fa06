//! Exports records in the formats of other programs: of requests CSV, vegeta's results, h2load's log, HAR and two of
//! HdrHistogram; of whole trials traces, qlog, time-sequence graphs and packet headers. [`OpenMetricsExport`],
//! [`write_figures_csv`] and [`write_figures_parquet`] take finished figures.
//!
//! Each export of requests except [`write_har`] is a struct over a writer: `new`, `append` as rows arrive, `finish`. Its memory
//! does not grow with the rows. A row's times count from the load's start, so formats with wall-clock times also need the time
//! of that start.
//!
//! Only [`CsvExport`] contains everything in a row. The others cannot express the warm-up, which no statistic includes, and
//! leave it out; [`TraceExport`] marks it. Their one latency per request is the response time from its scheduled time, which
//! includes waiting for a connection or for the generator (docs/METHOD.md). Nothing here reads a table or computes a figure.
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
mod figures;
mod h2load;
mod har;
mod histogram;
mod interval_log;
mod open_metrics;
mod packet_headers;
mod percentiles;
mod qlog;
mod qlog_frames;
mod time_sequence;
mod trace_events;
mod vegeta;

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use parquet::errors::ParquetError;
use serde_json::Value;
use squall_base::Time;
use squall_base::civil;
use squall_base::record::{Phase, RequestRecord};

pub use csv::CsvExport;
pub use figures::{FigureColumn, write_figures_csv, write_figures_parquet};
pub use h2load::H2loadExport;
pub use har::{HarRequest, write_har};
pub use interval_log::IntervalLogExport;
pub use open_metrics::{MetricFamily, MetricKind, OpenMetricsExport};
pub use packet_headers::write_packet_headers;
pub use percentiles::PercentileExport;
pub use qlog::{QlogTrace, write_qlog, write_qlog_sequence};
pub use time_sequence::{TimeSequence, write_time_sequence};
pub use trace_events::{TraceExport, TraceProcess, TraceStage};
pub use vegeta::{RequestLine, VegetaExport};

/// Why records could not be exported.
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
    /// A Parquet table could not be encoded, or its bytes could not be written.
    #[error("cannot write the Parquet table: {source}; check the space left on its disk")]
    Table {
        /// The encoder's error.
        source: ParquetError,
    },
    /// A histogram could not be encoded.
    #[error("cannot encode a histogram for the {format}: {source}; this is a bug in squall")]
    Encode {
        /// The format being written.
        format: &'static str,
        /// The encoder's error.
        source: hdrhistogram::serialization::V2DeflateSerializeError,
    },
}

/// Buffers text for a writer, so that it is called once for many lines.
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

    /// Writes everything that was added, through the writer's own buffer too.
    fn flush_all(&mut self) -> Result<(), ExportError> {
        self.flush()?;
        self.writer.flush().map_err(|source| ExportError::Write {
            format: self.format,
            source,
        })
    }

    fn finish(mut self) -> Result<W, ExportError> {
        self.flush_all()?;
        Ok(self.writer)
    }
}

/// Writes the elements of a JSON array, each on its own line.
#[derive(Debug)]
struct Elements<W> {
    lines: Lines<W>,
    has_any: bool,
}

impl<W: Write> Elements<W> {
    fn new(format: &'static str, writer: W) -> Elements<W> {
        Elements {
            lines: Lines::new(format, writer),
            has_any: false,
        }
    }

    fn add(&mut self, element: &Value) -> Result<(), ExportError> {
        let separator = if std::mem::replace(&mut self.has_any, true) {
            ",\n"
        } else {
            ""
        };
        self.lines.add(format_args!("{separator}{element}"))
    }

    /// Writes `end` after the last element.
    fn finish(mut self, end: &str) -> Result<W, ExportError> {
        self.lines.add(format_args!("{end}"))?;
        self.lines.finish()
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

/// A wall-clock time in the notation of RFC 3339, to the microsecond.
fn rfc3339(unix_ns: i64) -> String {
    civil::rfc3339(unix_ns.unsigned_abs())
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
