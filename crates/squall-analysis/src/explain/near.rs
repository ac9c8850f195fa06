//! Explains one request from the records near it, and checks the result against what all records of the trial showed.
//!
//! The request's causes are derived again from only the few connections that it was on ([`PathInputs::near`]). What
//! depends on all requests is taken from the tables that attribution wrote: causes.parquet says what its queue waited
//! for, and drops.parquet which requests a dropped packet delayed. The caller decides which records are near.

use std::collections::BTreeSet;

use squall_base::record::{CausesRecord, Direction, DropRecord, PacketRef, RequestRecord};

use super::Explanation;
use super::request::explanation;
use crate::causes::{ConnectionTrace, Detail, PathInputs, follow_path};

/// The records near a request.
#[derive(Debug)]
pub struct NearRecords {
    /// Rows of requests.parquet, in the order of the table: the request's own, and at least those of the requests on its
    /// connection. `inputs` has these rows too.
    pub requests: Vec<RequestRecord>,
    /// All records near the request.
    pub inputs: PathInputs,
    /// Rows of drops.parquet.
    pub drops: Vec<DropRecord>,
}

/// Explains the request whose row of causes.parquet for the whole path is `written`. `None` if these records lead to other
/// causes, or to another responsible packet: then its time depends on records that are not among them.
pub fn explain_near(records: NearRecords, written: &CausesRecord) -> Option<Explanation> {
    let wanted = BTreeSet::from([written.request]);
    let found = follow_near(records, written, &wanted, Detail::PassagesOf(&wanted))?;
    Some(found.explanation)
}

/// What the records near a request show of it.
pub(crate) struct FollowedNear {
    pub(crate) explanation: Explanation,
    /// Its connections, if the detail asks for them, sorted by hop.
    pub(crate) traces: Vec<ConnectionTrace>,
    /// The drops among the records.
    pub(crate) drops: Vec<DropRecord>,
}

/// Follows the request of `written`, the only one in `wanted`, as [`explain_near`] does.
pub(crate) fn follow_near(
    records: NearRecords,
    written: &CausesRecord,
    wanted: &BTreeSet<u64>,
    detail: Detail<'_>,
) -> Option<FollowedNear> {
    let NearRecords {
        requests,
        inputs,
        drops,
    } = records;
    let row = requests.iter().find(|it| it.request == written.request)?;
    let (attribution, courses) = follow_path(inputs, wanted, detail);
    let found = attribution.causes.iter().next()?;
    let is_same = found.spans == written.spans
        && found.responsible.map(on_link) == written.responsible.map(on_link);
    let course = courses.into_iter().next().filter(|_| is_same)?;
    let causes = CausesRecord {
        queue_roots: written.queue_roots,
        ..found
    };
    Some(FollowedNear {
        explanation: explanation(&requests, row, causes, course, &drops),
        traces: attribution.traces,
        drops,
    })
}

/// A packet's identity on its link.
fn on_link(packet: PacketRef) -> (Direction, u64) {
    (packet.direction, packet.index)
}
