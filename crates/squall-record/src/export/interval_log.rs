//! HdrHistogram's interval log, `.hlog`: a histogram for each second, in the layout of Java's `HistogramLogWriter` (log
//! format 1.3, payload V2 compressed, in base64), which `HistogramLogProcessor` and the readers in other languages take.
//!
//! Written by hand rather than by the crate's own writer, which borrows what it writes to and has no heading. Payloads are
//! nanoseconds; the maximum in clear is milliseconds, as Java's writer has it.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use squall_base::civil::CivilTime;
use squall_base::record::RequestRecord;

use super::histogram::{NS_PER_MS, Tally, empty, record};
use super::{ExportError, Lines, measured};

/// One interval.
const INTERVAL_NS: u64 = 1_000_000_000;

/// So many intervals are held back for rows that come late: rows are in the order of their ends, and a slow one belongs
/// to an earlier second. At up to half a megabyte each. A row that is later still gets a line of its own, which readers
/// add up with the others.
const OPEN_INTERVALS: usize = 32;

const FORMAT: &str = "interval log";

/// The response times of measured requests, a line for each second of the load's schedule.
pub struct IntervalLogExport<W> {
    lines: Lines<W>,
    epoch_unix_ns: u64,
    has_heading: bool,
    open: BTreeMap<u64, Histogram<u64>>,
    tally: Tally,
    serializer: V2DeflateSerializer,
}

impl<W: Write> IntervalLogExport<W> {
    /// Nothing is written yet. `epoch_unix_ns` is the wall clock at the origin of the rows' times.
    pub fn new(writer: W, epoch_unix_ns: u64) -> IntervalLogExport<W> {
        IntervalLogExport {
            lines: Lines::new(FORMAT, writer),
            epoch_unix_ns,
            has_heading: false,
            open: BTreeMap::new(),
            tally: Tally::default(),
            serializer: V2DeflateSerializer::new(),
        }
    }

    /// Counts some more requests, each in the second in which the schedule wanted it.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        for row in measured(rows) {
            let Some(nanos) = self.tally.count(row) else {
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

    /// Writes what is left; gives the writer back.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.heading()?;
        while !self.open.is_empty() {
            self.write_first()?;
        }
        let Tally {
            answered,
            censored,
            failed,
        } = self.tally;
        self.lines.add(format_args!(
            "#[Requests: {answered} answered, {censored} given up (in it with a lower bound), {failed} failed (not in it)]\n"
        ))?;
        self.lines.finish()
    }

    fn heading(&mut self) -> Result<(), ExportError> {
        if std::mem::replace(&mut self.has_heading, true) {
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
        self.heading()?;
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
