//! Explains one request from the records near it, and checks the result against what all records of the trial showed.
//!
//! Its causes are followed in the few connections that it was on ([`PathInputs::near`]). What depends on all requests is
//! taken from the tables that attribution wrote: causes.parquet says what its queue waited for, and drops.parquet which
//! requests a dropped packet delayed. The caller decides which records are near.

use std::collections::BTreeSet;

use squall_base::record::{CausesRecord, Direction, DropRecord, PacketRef, RequestRecord};

use super::Explanation;
use super::request::explanation;
use crate::causes::{Detail, PathInputs, follow_path};

/// The records near a request.
#[derive(Debug)]
pub struct NearRecords {
    /// Rows of requests.parquet, in the order of the table: its own, and at least those on its connection. `inputs` has
    /// them too.
    pub requests: Vec<RequestRecord>,
    /// All of these records.
    pub inputs: PathInputs,
    /// Rows of drops.parquet.
    pub drops: Vec<DropRecord>,
}

/// Explains the request of `written`, its row of causes.parquet for the whole path. `None` if these records show other
/// causes, or another responsible packet: then its time depends on records that are not among them.
pub fn explain_near(records: NearRecords, written: &CausesRecord) -> Option<Explanation> {
    let NearRecords {
        requests,
        inputs,
        drops,
    } = records;
    let row = requests.iter().find(|it| it.request == written.request)?;
    let wanted = BTreeSet::from([row.request]);
    let (attribution, courses) = follow_path(inputs, &wanted, Detail::PassagesOf(&wanted));
    let found = attribution.causes.iter().next()?;
    let is_same = found.spans == written.spans
        && found.responsible.map(on_link) == written.responsible.map(on_link);
    let course = courses.into_iter().next().filter(|_| is_same)?;
    let causes = CausesRecord {
        queue_roots: written.queue_roots,
        ..found
    };
    Some(explanation(&requests, row, causes, course, &drops))
}

/// What names a packet on its link.
fn on_link(packet: PacketRef) -> (Direction, u64) {
    (packet.direction, packet.index)
}
