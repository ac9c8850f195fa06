//! The rows of a trial that several formats need.
//!
//! Tables that only one format reads are read there.

use anyhow::Result;
use squall_base::record::{DropRecord, RequestRecord};
use squall_record::{read_drops, read_requests};

use crate::trials::SelectedTrial;

/// The requests of a trial.
pub(super) fn requests_of(
    SelectedTrial { folder, record }: &SelectedTrial,
) -> Result<Vec<RequestRecord>> {
    Ok(folder.read_checked(record, &folder.requests(), read_requests)?)
}

/// The dropped packets of a trial; none if its causes are not known.
pub(super) fn drops_of(
    SelectedTrial { folder, record }: &SelectedTrial,
) -> Result<Vec<DropRecord>> {
    let path = folder.drops();
    if !folder.has(record, &path) {
        return Ok(Vec::new());
    }
    Ok(folder.read_checked(record, &path, read_drops)?)
}
