//! What is wrong in a trial, written beside its tables: findings.json.
//!
//! What a finding is, and how it is found, is squall-analysis'; the rows come from the one reading in `causes`.

use anyhow::Result;
use squall_analysis::causes::Attribution;
use squall_analysis::findings::{Records, find};
use squall_base::record::TrialRecord;
use squall_record::{PartialTrial, write_json};

/// Writes findings.json: a list, empty for a healthy trial.
pub(super) fn write(
    partial: &PartialTrial,
    record: &TrialRecord,
    rows: Records,
    attribution: Option<&Attribution>,
) -> Result<()> {
    write_json(partial.findings(), &find(rows, attribution, record))?;
    Ok(())
}
