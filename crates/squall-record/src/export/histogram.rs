//! A histogram of response times and the counts of requests that it cannot represent: the common part of both
//! HdrHistogram formats.
//!
//! A histogram has no representation for a latency that is known only in part. A request that was given up counts with
//! the time until then, a lower bound, because without it the slowest requests would look faster. A failed request has
//! no latency and is not in the histogram. Each format writes both counts in a comment.

use hdrhistogram::Histogram;
use squall_base::record::{Outcome, RequestRecord};

/// Nanoseconds with three significant digits: 0.1 %, as in wrk2 and in squall's own lateness.
pub(super) const DIGITS: u8 = 3;

/// Nanoseconds in a millisecond, the unit that people read in both formats.
pub(super) const NS_PER_MS: f64 = 1e6;

/// An empty histogram. It resizes automatically, to at most half a megabyte.
pub(super) fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("3 significant digits are within 0 to 5")
}

/// Counts of requests by result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutcomeCounts {
    /// Requests with a complete response and a status below 400, except gRPC calls that failed.
    pub(super) answered: u64,
    /// Requests that were given up; they are in the histogram with a lower bound.
    pub(super) censored: u64,
    /// Requests that failed; they are not in the histogram.
    pub(super) failed: u64,
}

impl OutcomeCounts {
    /// Counts a request. Returns its response time in nanoseconds if that belongs in the histogram.
    pub(super) fn count(&mut self, row: &RequestRecord) -> Option<u64> {
        match row.outcome {
            _ if row.succeeded() => self.answered += 1,
            Outcome::Censored => self.censored += 1,
            _ => {
                self.failed += 1;
                return None;
            }
        }
        Some(row.response_time().as_nanos())
    }
}

/// Adds a value.
pub(super) fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    let added = histogram.record(nanos);
    added.expect("a histogram that grows by itself takes every value");
}
