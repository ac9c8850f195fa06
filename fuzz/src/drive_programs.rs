//! Feeds any bytes, as logs, to the readers of load generators' logs, and checks what must hold for any bytes.
//!
//! Nothing may panic. Rows are numbered in order, none ends before it began, and a refused line is a line of the log.

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_peers::client::{ReadError, RowContext, RowFormat};

/// Any bytes, as a log of every program; the first byte selects the requested protocol.
pub fn program_logs(input: &[u8]) {
    let Some((&how, log)) = input.split_first() else {
        return;
    };
    let context = RowContext {
        protocol: Protocol::ALL[usize::from(how) % Protocol::ALL.len()],
        request_body_bytes: 5,
    };
    for format in RowFormat::ALL {
        let mut rows: Vec<RequestRecord> = Vec::new();
        let read = format.read(&mut &*log, context, &mut |row| rows.push(row));
        for (number, row) in (0..).zip(&rows) {
            // A browser's rows are numbered by page.
            let is_next = row.request == number || format == RowFormat::Chromium;
            assert!(is_next && row.request_body_bytes == 5, "{row:?}");
            assert!(row.intended <= row.end, "{row:?}");
            let is_answered = row.outcome == Outcome::Answered;
            assert!(!is_answered || row.status.is_some(), "{row:?}");
            assert!(is_answered || row.error.is_some(), "{row:?}");
        }
        let lines = log.split(|byte| *byte == b'\n').count() as u64;
        match read {
            Ok(readout) => assert_eq!(readout.rows, rows.len() as u64),
            Err(ReadError::Line { line, excerpt, .. }) => {
                assert!((1..=lines).contains(&line));
                assert!(excerpt.chars().count() <= 80);
            }
            // Only a line without an end causes this, for which the input is too short.
            Err(ReadError::Io { source, .. }) => panic!("{source}"),
        }
    }
}
