//! A load's results since the last look: the current rate and the current latencies.
//!
//! Both phases count, because a person who watches wants to see the warm-up too. It has no clock: the caller says how long
//! the interval was. For the whole load, see `totals`.

use squall_base::Duration;
use squall_base::record::{Outcome, RequestRecord};

use super::latencies::Latencies;

/// Sums since the last look.
#[derive(Clone, Debug, Default)]
pub struct IntervalTotals {
    succeeded: u64,
    failed: u64,
    body_bytes_in: u64,
    response: Latencies,
    lag_max: Option<Duration>,
}

/// An interval's figures. A quantile is `None` if the interval has too few requests for it ([`Latencies::quantile`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntervalFigures {
    /// Its length.
    pub length: Duration,
    /// Requests that ended in it with a complete response and a status below 400, except gRPC calls that failed.
    pub succeeded: u64,
    /// Requests that ended in it without a response, or with an error status, and gRPC calls that failed.
    pub failed: u64,
    /// Body bytes of the responses that ended in it, whenever the bytes arrived.
    pub body_bytes_in: u64,
    /// Median response time of the successful requests.
    pub p50: Option<Duration>,
    /// The 90th percentile.
    pub p90: Option<Duration>,
    /// The 99th percentile.
    pub p99: Option<Duration>,
    /// The 99.9th percentile.
    pub p999: Option<Duration>,
    /// The longest.
    pub max: Option<Duration>,
    /// The longest lag of the generator.
    pub lag_max: Option<Duration>,
}

impl IntervalTotals {
    /// Counts a request that has ended.
    pub fn add(&mut self, request: &RequestRecord) {
        let lag = request.taken_up.since(request.intended);
        self.lag_max = self.lag_max.max(Some(lag));
        self.body_bytes_in += request.response_body_bytes;
        if request.succeeded() {
            self.succeeded += 1;
            self.response.add(request.response_time());
        } else if request.outcome != Outcome::Censored {
            self.failed += 1;
        }
    }

    /// Adds everything that `other` counted, such as another thread's requests.
    pub fn merge(&mut self, other: &IntervalTotals) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.body_bytes_in += other.body_bytes_in;
        self.response.merge(&other.response);
        self.lag_max = self.lag_max.max(other.lag_max);
    }

    /// The figures since the last call, which was `length` ago; the next interval begins here.
    pub fn take(&mut self, length: Duration) -> IntervalFigures {
        let interval = IntervalFigures {
            length,
            succeeded: self.succeeded,
            failed: self.failed,
            body_bytes_in: self.body_bytes_in,
            p50: self.response.quantile(0.5),
            p90: self.response.quantile(0.9),
            p99: self.response.quantile(0.99),
            p999: self.response.quantile(0.999),
            max: self.response.max(),
            lag_max: self.lag_max.take(),
        };
        (self.succeeded, self.failed, self.body_bytes_in) = (0, 0, 0);
        self.response.clear();
        interval
    }
}

impl IntervalFigures {
    /// Successful requests per second; `None` if the interval has no length.
    pub fn rate_per_s(&self) -> Option<f64> {
        (!self.length.is_zero()).then(|| self.succeeded as f64 / self.length.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::{answered, failed};

    #[test]
    fn an_interval_begins_where_the_last_one_ended() {
        let mut interval = IntervalTotals::default();
        (0..500).for_each(|n| interval.add(&answered(n, 1_000)));
        interval.add(&failed(0, 9_000, Outcome::StreamReset, ""));
        let second = Duration::from_secs(1);
        let first = interval.take(second);
        assert_eq!(
            (first.succeeded, first.failed, first.rate_per_s()),
            (500, 1, Some(500.0))
        );
        assert_eq!(
            (first.p99, first.p999),
            (Some(Duration::from_millis(1)), None)
        );
        let empty = IntervalFigures {
            length: second,
            ..IntervalFigures::default()
        };
        assert_eq!(interval.take(second), empty);
        assert_eq!(IntervalFigures::default().rate_per_s(), None);
    }
}
