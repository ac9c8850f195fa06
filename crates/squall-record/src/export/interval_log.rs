//! HdrHistogram's interval log, `.hlog`: one histogram per second, in the layout of Java's `HistogramLogWriter` (log
//! format 1.3, payload V2 compressed, in base64), which `HistogramLogProcessor` and readers in other languages accept.
//!
//! It does not use the crate's own writer, which borrows its output and writes no column names. Payloads are in
//! nanoseconds; the cleartext maximum is in milliseconds, as in Java's writer.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use squall_base::civil::CivilTime;
use squall_base::record::RequestRecord;

use super::histogram::{NS_PER_MS, OutcomeCounts, empty, record};
use super::{ExportError, Lines, measured};

/// The length of an interval.
const INTERVAL_NS: u64 = 1_000_000_000;

/// How many intervals are held back for late rows: rows are in the order in which requests ended, and a slow request
/// belongs to an earlier second. Each takes up to half a megabyte. A row that comes even later gets an additional line
/// for its interval, which readers add up with the others.
const OPEN_INTERVALS: usize = 32;

const FORMAT: &str = "interval log";

/// Writes the response times of measured requests, one line for each second of the load's schedule.
pub struct IntervalLogExport<W> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
    has_header: bool,
    open: BTreeMap<u64, Histogram<u64>>,
    counts: OutcomeCounts,
    serializer: V2DeflateSerializer,
}

impl<W: Write> IntervalLogExport<W> {
    /// Creates the export without writing anything yet. `epoch_unix_ns` is the wall-clock time at the origin of the
    /// rows' times.
    pub fn new(writer: W, epoch_unix_ns: u64) -> IntervalLogExport<W> {
        IntervalLogExport {
            lines: Lines::new(FORMAT, writer),
            epoch_unix_ns,
            has_header: false,
            open: BTreeMap::new(),
            counts: OutcomeCounts::default(),
            serializer: V2DeflateSerializer::new(),
        }
    }

    /// Counts more requests, each in the second of its scheduled time.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        for row in measured(rows) {
            let Some(nanos) = self.counts.count(row) else {
                continue;
            };
            let interval = row.intended.as_nanos() / INTERVAL_NS;
            record(self.open.entry(interval).or_insert_with(empty), nanos);
            if self.open.len() > OPEN_INTERVALS {
                self.write_first()?;
            }
        }
        Ok(())
    }

    /// Writes the lines of the intervals that are not held back, which otherwise wait until a buffer is full.
    pub fn flush(&mut self) -> Result<(), ExportError> {
        self.lines.flush_all()
    }

    /// Writes the remaining intervals and returns the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.write_header()?;
        while !self.open.is_empty() {
            self.write_first()?;
        }
        let OutcomeCounts {
            answered,
            censored,
            failed,
        } = self.counts;
        self.lines.add(format_args!(
            "#[Requests: {answered} answered, {censored} given up (in it with a lower bound), {failed} failed (not in it)]\n"
        ))?;
        self.lines.finish()
    }

    fn write_header(&mut self) -> Result<(), ExportError> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let secs = self.epoch_unix_ns / 1_000_000_000;
        let millis = self.epoch_unix_ns / 1_000_000 % 1_000;
        let CivilTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = CivilTime::from_unix_secs(secs);
        self.lines.add(format_args!(
            "#[Response times in nanoseconds from the intended start, by the second of that; written by squall]\n\
             #[Histogram log format version 1.3]\n\
             #[StartTime: {secs}.{millis:03} (seconds since epoch), {year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z]\n\
             #[BaseTime: {secs}.{millis:03} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        ))
    }

    /// Writes the earliest interval that is held back.
    fn write_first(&mut self) -> Result<(), ExportError> {
        self.write_header()?;
        let Some((interval, histogram)) = self.open.pop_first() else {
            return Ok(());
        };
        let mut payload = Vec::new();
        self.serializer
            .serialize(&histogram, &mut payload)
            .map_err(|source| ExportError::Encode {
                format: FORMAT,
                source,
            })?;
        let max_ms = histogram.max() as f64 / NS_PER_MS;
        self.lines.add(format_args!(
            "{interval}.000,1.000,{max_ms:.3},{}\n",
            STANDARD.encode(&payload)
        ))
    }
}
