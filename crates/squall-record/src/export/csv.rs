//! CSV: all columns of requests.parquet, with the meaning that docs/RECORD.md defines.

use std::fmt;
use std::io::Write;

use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};

use super::{Cell, ExportError, Lines};

const COLUMNS: &str = "request,phase,user,what,intended_ns,taken_up_ns,slot_ns,connected_ns,secured_ns,written_first_ns,\
    written_last_ns,answered_first_ns,headers_ns,end_ns,status,connection,stream,opened_connection,\
    request_body_bytes,response_body_bytes,body_arrivals,body_first_ns,body_last_ns,longest_gap_ns,\
    longest_gap_from_ns,outcome,error,response_time_ns,service_time_ns";

/// Writes every request as a line of CSV, after a line of column names. An empty cell is a null. Warm-up requests are
/// included; the column `phase` marks them.
#[derive(Debug)]
pub struct CsvExport<W> {
    lines: Lines<W>,
    has_header: bool,
}

impl<W: Write> CsvExport<W> {
    /// Creates the export without writing anything yet.
    pub fn new(writer: W) -> CsvExport<W> {
        CsvExport {
            lines: Lines::new("CSV", writer),
            has_header: false,
        }
    }

    /// Writes more requests.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        self.write_header()?;
        rows.iter()
            .try_for_each(|row| self.lines.add(format_args!("{}\n", Line(row))))
    }

    /// Writes the lines so far, which otherwise wait until a buffer is full.
    pub fn flush(&mut self) -> Result<(), ExportError> {
        self.lines.flush_all()
    }

    /// Writes the remaining text and returns the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.write_header()?;
        self.lines.finish()
    }

    fn write_header(&mut self) -> Result<(), ExportError> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        self.lines.add(format_args!("{COLUMNS}\n"))
    }
}

/// A request's cells in the order of the columns.
struct Line<'a>(&'a RequestRecord);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(row) = *self;
        let (intended, taken_up) = (row.intended.as_nanos(), row.taken_up.as_nanos());
        write!(
            f,
            "{},{},{},{},{intended},{taken_up}",
            row.request,
            row.phase.name(),
            row.user,
            row.what,
        )?;
        let marks = [
            row.slot,
            row.connected,
            row.secured,
            row.written_first,
            row.written_last,
            row.answered_first,
            row.headers,
        ];
        for mark in marks {
            write!(f, ",{}", OrNull(mark.map(Time::as_nanos)))?;
        }
        let (status, connection) = (OrNull(row.status), OrNull(row.connection));
        write!(f, ",{},{status},{connection},", row.end.as_nanos())?;
        write!(f, "{},{}", OrNull(row.stream), row.opened_connection)?;
        write!(f, ",{},{}", row.request_body_bytes, row.response_body_bytes)?;
        let (arrivals, gap) = (row.arrivals, row.arrivals.longest_gap);
        write!(f, ",{}", arrivals.count)?;
        for cell in [
            arrivals.first.map(Time::as_nanos),
            arrivals.last.map(Time::as_nanos),
            gap.map(|gap| gap.length.as_nanos()),
            gap.map(|gap| gap.from.as_nanos()),
        ] {
            write!(f, ",{}", OrNull(cell))?;
        }
        write!(f, ",{},", row.outcome.name())?;
        match row.error.as_deref() {
            None => {}
            // Quoted, to distinguish it from a null.
            Some("") => f.write_str("\"\"")?,
            Some(error) => write!(f, "{}", Cell(error))?,
        }
        let service = row.service_time().map(Duration::as_nanos);
        write!(f, ",{},{}", row.response_time().as_nanos(), OrNull(service))
    }
}

/// A cell that is empty for `None`.
struct OrNull<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}
