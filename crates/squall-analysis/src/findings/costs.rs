//! What a pathology costs the requests: the total, the number of requests, and the worst of them.
//!
//! Only the worst few are kept, so that a sum over millions of requests takes little memory.

use squall_base::Duration;

/// How many requests a finding names: enough to open one after the other.
pub(super) const SHOWN: usize = 10;

/// The time that something cost requests: the sum, the number of requests, and the worst of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    sum: u64,
    count: u64,
    /// The worst, in no particular order.
    worst: Vec<(u64, u64)>,
}

impl Costs {
    /// Adds the cost to one request; a cost of zero is ignored.
    pub(super) fn add(&mut self, request: u64, span: Duration) {
        if span.is_zero() {
            return;
        }
        self.sum = self.sum.saturating_add(span.as_nanos());
        self.count += 1;
        self.worst.push((span.as_nanos(), request));
        if self.worst.len() > 2 * SHOWN {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let by_cost = |&(cost, request): &(u64, u64)| (std::cmp::Reverse(cost), request);
        self.worst.sort_unstable_by_key(by_cost);
        self.worst.truncate(SHOWN);
    }

    /// The total in nanoseconds.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// How many requests had a cost.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn millis(&self) -> f64 {
        self.sum as f64 / 1e6
    }

    /// The requests with the highest costs, the worst first.
    pub(super) fn worst(mut self) -> Vec<u64> {
        self.cut();
        self.worst.into_iter().map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_requests_come_first_and_all_are_counted() {
        let mut costs = Costs::default();
        for request in 0..100 {
            costs.add(request, Duration::from_millis(request));
        }
        assert_eq!((costs.count(), costs.millis()), (99, 4950.0));
        assert_eq!(costs.worst(), (90..100).rev().collect::<Vec<u64>>());
    }
}
