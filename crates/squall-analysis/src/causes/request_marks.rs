//! The marks of a request: when its client and its server did what, as far as they recorded it.
//!
//! On a later hop they are those of the request's exchange there. Nothing is derived from them here: `timeline` works out
//! what the time between them was spent on; for a hop inside a host, `hops::marks` does.

use squall_base::Time;
use squall_base::record::Outcome;

use super::columns::RequestCells;
use super::queue::WAIT_AT_LEAST;
use super::walk::Span;

/// The marks of a request that its timeline is made of, in nanoseconds where they may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestMarks {
    pub(super) request: u64,
    pub(super) intended: Time,
    pub(super) taken_up: Time,
    pub(super) end: Time,
    pub(super) slot: Option<u64>,
    pub(super) connected: Option<u64>,
    pub(super) secured: Option<u64>,
    pub(super) written_first: Option<u64>,
    pub(super) written_last: Option<u64>,
    pub(super) connection: Option<u32>,
    pub(super) stream: Option<u64>,
    pub(super) outcome: Outcome,
    /// When the first and the last byte of the response reached the server, if it got the response from another station.
    pub(super) relayed: Option<(u64, u64)>,
}

impl Default for RequestMarks {
    fn default() -> RequestMarks {
        RequestMarks {
            request: 0,
            intended: Time::ZERO,
            taken_up: Time::ZERO,
            end: Time::ZERO,
            slot: None,
            connected: None,
            secured: None,
            written_first: None,
            written_last: None,
            connection: None,
            stream: None,
            outcome: Outcome::Answered,
            relayed: None,
        }
    }
}

impl RequestMarks {
    /// When the request waited for a connection or stream, if that was long enough to count.
    pub(super) fn queued(&self) -> Option<Span> {
        let from = self.taken_up.as_nanos();
        let to = self.slot.unwrap_or(self.end.as_nanos());
        let is_wait = to.saturating_sub(from) >= WAIT_AT_LEAST;
        is_wait.then_some(Span { from, to })
    }

    pub(super) fn of(row: &RequestCells) -> RequestMarks {
        let nanos = |time: Option<Time>| time.map(Time::as_nanos);
        RequestMarks {
            request: row.request,
            intended: row.intended,
            taken_up: row.taken_up,
            end: row.end,
            slot: nanos(row.slot),
            connected: nanos(row.connected),
            secured: nanos(row.secured),
            written_first: nanos(row.written_first),
            written_last: nanos(row.written_last),
            connection: row.connection,
            stream: row.stream,
            outcome: row.outcome,
            relayed: None,
        }
    }
}

/// What the server's side recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerMarks {
    pub(super) request_last: Option<u64>,
    pub(super) response_first: Option<u64>,
    pub(super) response_last: Option<u64>,
    /// When the server had the response to send, if the server is one of our stations.
    pub(super) ready: Option<u64>,
}

impl ServerMarks {
    /// Whether the server finished its response before it had the whole request. If so, it waited at most for the request's
    /// head.
    pub(super) fn is_early(&self) -> bool {
        match (self.request_last, self.response_last) {
            (Some(request), Some(response)) => response < request,
            (request, response) => request.is_none() && response.is_some(),
        }
    }
}
