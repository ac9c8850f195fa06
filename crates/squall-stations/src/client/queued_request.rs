//! A request between being taken up and being sent. `dispatch` queues it, `retry` makes one from a request that is retried,
//! and `requests` has the records of those that end.

use squall_base::Time;
use squall_base::record::{Phase, RequestRecord};
use squall_load::Arrival;

/// A request that waits for a connection. It has no record yet, because records are large, and an overloaded server makes
/// many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedRequest {
    /// The request's place in the schedule.
    pub(crate) request: u64,
    phase: Phase,
    user: u32,
    /// The request's index among the load's requests.
    pub(crate) what: u32,
    /// When the request was due.
    pub(crate) intended: Time,
    taken_up: Time,
    body_bytes: u64,
}

impl QueuedRequest {
    /// A request that was taken up at `taken_up` and has a body of `body_bytes`.
    pub(crate) fn new(arrival: Arrival, taken_up: Time, body_bytes: u64) -> QueuedRequest {
        QueuedRequest {
            request: arrival.request,
            phase: arrival.phase,
            user: arrival.user,
            what: arrival.what,
            intended: arrival.intended,
            taken_up,
            body_bytes,
        }
    }

    /// The request of a record, for another attempt, without anything that the last attempt decided.
    pub(crate) fn again(record: &RequestRecord) -> QueuedRequest {
        QueuedRequest {
            request: record.request,
            phase: record.phase,
            user: record.user,
            what: record.what,
            intended: record.intended,
            taken_up: record.taken_up,
            body_bytes: record.request_body_bytes,
        }
    }

    /// Begins the request's record with its connection, which was assigned or begun at `slot`.
    pub(crate) fn record_from(self, slot: Time) -> RequestRecord {
        RequestRecord {
            slot: Some(slot),
            ..self.record()
        }
    }

    /// Begins the request's record.
    #[inline]
    pub(crate) fn record(self) -> RequestRecord {
        RequestRecord {
            phase: self.phase,
            user: self.user,
            what: self.what,
            taken_up: self.taken_up,
            request_body_bytes: self.body_bytes,
            ..RequestRecord::due(self.request, self.intended)
        }
    }
}
