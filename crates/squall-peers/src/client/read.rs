//! Reads rows from the logs of load generators, one line at a time, however large the file is.
//!
//! Each format's own file turns a line, or several, into a row. A truncated last line, such as a killed program leaves,
//! is counted and left out. Any other line that does not match the format is an error with its line number. `row` has
//! what these files share.

use std::io::{self, BufRead};

use squall_base::record::RequestRecord;
use thiserror::Error;

use super::row::{Fault, PageLine, RowContext, RowFormat};
use super::{chromium, curl, fortio, h2load, k6};

/// The longest line that is accepted.
const MAX_LINE_BYTES: usize = 1 << 20;

/// What was read in addition to the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readout {
    /// The number of rows.
    pub rows: u64,
    /// Whether the last line was truncated.
    pub is_cut_off: bool,
    /// Requests that, by its own report, the program should have sent but did not.
    pub dropped: u64,
    /// The pages of a browser.
    pub pages: Vec<PageLine>,
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
    /// A line does not match the format.
    #[error("line {line} of the log of {} does not match its format: {why}: {excerpt:?}; {}", format.name(), why.advice())]
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
