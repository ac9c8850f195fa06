//! Response times by frequency, with what is said of them: the common part of both formats of HdrHistogram.
//!
//! A histogram has no word for a latency that is only known in part. One that was given up counts with what it had come
//! to, a lower bound, since to leave it out would flatter the slowest; one that failed has no latency at all and is not
//! in it. Both are counted, and each format says the counts in a comment.

use hdrhistogram::Histogram;
use squall_base::record::{Outcome, RequestRecord};

/// Nanoseconds at three digits: 0.1 %, as in wrk2 and in squall's own lateness.
pub(super) const DIGITS: u8 = 3;

/// Nanoseconds in a millisecond, the unit of what people read in both formats.
pub(super) const NS_PER_MS: f64 = 1e6;

/// An empty histogram; it grows by itself, to at most half a megabyte.
pub(super) fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("3 significant digits are within 0 to 5")
}

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Requests that were answered in whole with a status below 400.
    pub(super) answered: u64,
    /// Requests that were given up: in the histogram with a lower bound.
    pub(super) censored: u64,
    /// Requests that failed: not in the histogram.
    pub(super) failed: u64,
}

impl Tally {
    /// Counts a request; gives its nanoseconds if they belong in the histogram.
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
