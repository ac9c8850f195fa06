//! Sums over a trial's measured requests, and how many response times are within fixed limits: figures for programs
//! that collect metrics.
//!
//! These are sums, not quantiles: `trial` has those. As in HdrHistogram's formats, a request that was given up counts
//! with its lower bound, and a failed one is not among the times. squall-record writes them (`export/open_metrics`).

use squall_base::Duration;
use squall_base::record::{Outcome, Phase, RequestRecord};

/// The limits: 1, 2 and 5 of each power of ten from 0.1 ms to 50 s.
pub const TIME_LIMITS: [Duration; 18] = {
    let mut limits = [Duration::ZERO; 18];
    let (mut place, mut micros) = (0, 100);
    while place < limits.len() {
        limits[place] = Duration::from_micros(micros);
        limits[place + 1] = Duration::from_micros(2 * micros);
        limits[place + 2] = Duration::from_micros(5 * micros);
        place += 3;
        micros *= 10;
    }
    limits
};

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// Requests by outcome, in the order of [`Outcome::ALL`].
    outcomes: [u64; Outcome::ALL.len()],
    /// Requests with a complete response, a status below 400 and, for gRPC calls, no error.
    pub succeeded: u64,
    /// Body bytes of the requests.
    pub request_body_bytes: u64,
    /// Body bytes of the responses that arrived.
    pub response_body_bytes: u64,
    /// For each limit, the response times that are not longer; the last element has all of them.
    within: [u64; TIME_LIMITS.len() + 1],
    /// All response times together, in nanoseconds.
    sum_ns: u128,
}

impl RequestTotals {
    /// The sums of these requests, without those of the warm-up.
    pub fn of(requests: &[RequestRecord]) -> RequestTotals {
        let mut totals = RequestTotals::default();
        for row in requests.iter().filter(|row| row.phase == Phase::Measure) {
            totals.add(row);
        }
        totals
    }

    fn add(&mut self, row: &RequestRecord) {
        self.outcomes[row.outcome as usize] += 1;
        self.succeeded += u64::from(row.succeeded());
        self.request_body_bytes = (self.request_body_bytes).saturating_add(row.request_body_bytes);
        self.response_body_bytes =
            (self.response_body_bytes).saturating_add(row.response_body_bytes);
        if !row.succeeded() && row.outcome != Outcome::Censored {
            return;
        }
        let time = row.response_time();
        self.sum_ns += u128::from(time.as_nanos());
        let first = TIME_LIMITS.partition_point(|limit| *limit < time);
        for count in &mut self.within[first..] {
            *count += 1;
        }
    }

    /// The number of requests with each outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.outcomes)
    }

    /// The limits, each with the number of response times that are not longer.
    pub fn times_within(&self) -> impl Iterator<Item = (Duration, u64)> {
        TIME_LIMITS.into_iter().zip(self.within)
    }

    /// The number of response times.
    pub fn times(&self) -> u64 {
        self.within[TIME_LIMITS.len()]
    }

    /// All response times together, in seconds.
    pub fn times_sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::answered;

    fn request(took_us: u64) -> RequestRecord {
        RequestRecord {
            request_body_bytes: 10,
            ..answered(0, took_us)
        }
    }

    #[test]
    fn failed_requests_have_an_outcome_but_no_time() {
        let failed = RequestRecord {
            outcome: Outcome::StreamReset,
            ..request(1)
        };
        let given_up = RequestRecord {
            outcome: Outcome::Censored,
            status: None,
            ..request(70_000_000)
        };
        let warmup = RequestRecord {
            phase: Phase::Warmup,
            ..request(1)
        };
        let totals = RequestTotals::of(&[request(100), request(101), failed, given_up, warmup]);
        let some: Vec<(Outcome, u64)> = totals.outcomes().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            some,
            [
                (Outcome::Answered, 2),
                (Outcome::Censored, 1),
                (Outcome::StreamReset, 1)
            ]
        );
        assert_eq!((totals.succeeded, totals.response_body_bytes), (2, 400));
        let within: Vec<u64> = totals.times_within().map(|(_, count)| count).collect();
        assert_eq!(within[..3], [1, 2, 2]);
        assert_eq!(within[17], 2, "the one that was given up is longer");
        assert_eq!(totals.times(), 3);
        assert!((totals.times_sum_s() - 70.000_201).abs() < 1e-9);
    }
}
