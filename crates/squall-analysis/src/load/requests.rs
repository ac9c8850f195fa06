//! Requests and times for tests. Requests are reduced to what a test needs; their times are in microseconds.

use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

/// A time, in microseconds after the load's start.
pub(crate) fn at(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A measured request with status 200, due at `intended_us` and complete after `took_us`.
pub(crate) fn answered(intended_us: u64, took_us: u64) -> RequestRecord {
    RequestRecord {
        response_body_bytes: 100,
        ..squall_made::answered(0, at(intended_us), Duration::from_micros(took_us))
    }
}

/// Like [`answered`], but it failed after `took_us` with this outcome and error text.
pub(crate) fn failed(
    intended_us: u64,
    took_us: u64,
    outcome: Outcome,
    text: &str,
) -> RequestRecord {
    RequestRecord {
        status: None,
        answered_first: None,
        headers: None,
        response_body_bytes: 0,
        outcome,
        error: Some(text.to_owned()),
        ..answered(intended_us, took_us)
    }
}
