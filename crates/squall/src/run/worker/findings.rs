//! Writes what is wrong in a trial next to its tables: findings.json.
//!
//! squall-analysis defines findings and finds them; here its tables are read row by row.

use std::path::PathBuf;

use anyhow::Result;
use squall_analysis::causes::Attribution;
use squall_analysis::findings::{Records, find};
use squall_base::record::TrialRecord;
use squall_record::{PartialTrial, RecordError, Rows, TableRow, write_json};

/// Writes findings.json: a list, empty for a healthy trial.
pub(super) fn write(
    partial: &PartialTrial,
    record: &TrialRecord,
    attribution: Option<&Attribution>,
) -> Result<()> {
    let records = read(partial)?;
    write_json(partial.findings(), &find(records, attribution, record))?;
    Ok(())
}

fn read(partial: &PartialTrial) -> Result<Records, RecordError> {
    let mut records = Records::new();
    each(partial.requests(), |row| records.add_request(row))?;
    each(partial.packets(), |row| records.add_packet(row))?;
    each(partial.exchanges(), |row| records.add_exchange(row))?;
    each(partial.frames(), |row| records.add_frame(row))?;
    each(partial.sockets(), |row| records.add_socket(row))?;
    Ok(records)
}

/// Passes every row of a table to `take`.
fn each<R: TableRow>(path: PathBuf, take: impl FnMut(&R)) -> Result<(), RecordError> {
    Rows::open(path)?.each(take)
}
