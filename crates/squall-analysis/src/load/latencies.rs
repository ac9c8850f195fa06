//! Spans of time by frequency: any number of them in constant memory, at a resolution of 0.1 %.
//!
//! It knows no requests, and nothing of spans whose end is hidden (`totals` keeps those apart). Their count, sum,
//! least and largest are exact; quantiles are rounded up by at most 0.1 %. squall-linux has a smaller one for the
//! lateness of threads.

use hdrhistogram::Histogram;
use squall_base::Duration;

/// A quantile is given only if chance puts all spans below the true one this rarely, as in
/// [`Sample::quantile`](crate::Sample::quantile).
const FALLS_SHORT: f64 = 0.025;

/// Spans of time, condensed.
#[derive(Clone, Debug)]
pub struct Latencies {
    by_span: Histogram<u64>,
    sum_ns: u128,
    /// The least and the largest; `None` while there is none.
    range: Option<(Duration, Duration)>,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        Latencies {
            by_span: Histogram::new(3).expect("3 significant digits are within 0 to 5"),
            sum_ns: 0,
            range: None,
        }
    }

    /// Counts one more.
    pub fn add(&mut self, span: Duration) {
        let added = self.by_span.record(span.as_nanos());
        added.expect("a histogram that grows by itself takes every value");
        self.sum_ns += u128::from(span.as_nanos());
        self.widen(span, span);
    }

    /// Counts all of `other`'s too.
    pub fn merge(&mut self, other: &Latencies) {
        let added = self.by_span.add(&other.by_span);
        added.expect("a histogram that grows by itself takes every value");
        self.sum_ns += other.sum_ns;
        if let Some((least, largest)) = other.range {
            self.widen(least, largest);
        }
    }

    /// Forgets all, and keeps the memory for more.
    pub fn clear(&mut self) {
        self.by_span.reset();
        self.sum_ns = 0;
        self.range = None;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.by_span.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.by_span.is_empty()
    }

    /// Their sum in nanoseconds: more than a [`Duration`] may hold.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The mean, rounded down to whole nanoseconds.
    pub fn mean(&self) -> Option<Duration> {
        let mean_ns = self.sum_ns.checked_div(u128::from(self.count()))?;
        // The mean of u64 values is a u64.
        Some(Duration::from_nanos(mean_ns as u64))
    }

    /// The smallest.
    pub fn min(&self) -> Option<Duration> {
        self.range.map(|(least, _)| least)
    }

    /// The largest.
    pub fn max(&self) -> Option<Duration> {
        self.range.map(|(_, largest)| largest)
    }

    /// The nearest-rank quantile, such as 0.99 for p99; above 0 and below 1.
    ///
    /// `None` if there are so few that not even the largest is a 97.5 % upper bound of the true quantile, as
    /// [`Sample::quantile`](crate::Sample::quantile) explains: p50 needs 6, p90 36, p99 368, p99.9 3,688 and p99.99
    /// 36,887.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        suffices(self.count(), quantile)
            .then(|| self.at_rank(rank(self.count(), quantile)))
            .flatten()
    }

    /// The span at `rank`, from 1, in order of size; `None` if there are not so many.
    pub(crate) fn at_rank(&self, rank: u64) -> Option<Duration> {
        let (least, largest) = self.range.filter(|_| (1..=self.count()).contains(&rank))?;
        let mut counted = 0;
        let cell = self.by_span.iter_recorded().find(|cell| {
            counted += cell.count_since_last_iteration();
            counted >= rank
        })?;
        let span = Duration::from_nanos(cell.value_iterated_to());
        Some(span.clamp(least, largest))
    }

    /// How many are not above `span`, at the histogram's resolution.
    pub(crate) fn count_up_to(&self, span: Duration) -> u64 {
        self.by_span
            .iter_recorded()
            .take_while(|cell| {
                self.by_span.lowest_equivalent(cell.value_iterated_to()) <= span.as_nanos()
            })
            .map(|cell| cell.count_since_last_iteration())
            .sum()
    }

    /// Each span that occurs, at the histogram's resolution, in order of size, with how often.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.by_span.iter_recorded().map(|cell| {
            let middle = self.by_span.median_equivalent(cell.value_iterated_to());
            (
                Duration::from_nanos(middle),
                cell.count_since_last_iteration(),
            )
        })
    }

    fn widen(&mut self, least: Duration, largest: Duration) {
        let (low, high) = self.range.unwrap_or((least, largest));
        self.range = Some((low.min(least), high.max(largest)));
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

/// Whether `count` samples say anything about `quantile`: all of them lie below it with probability
/// `quantile^count`, which must be rare.
pub(crate) fn suffices(count: u64, quantile: f64) -> bool {
    quantile.powf(count as f64) <= FALLS_SHORT
}

/// The nearest rank, from 1, of `quantile` among `count`.
pub(crate) fn rank(count: u64, quantile: f64) -> u64 {
    // 0.99 * 100 is a hair above 99 in floating point: what is less than a millionth above a rank is that rank.
    ((count as f64 * quantile - 1e-6).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{P95_NEEDS, P99_NEEDS};

    fn micros(count: u64) -> Latencies {
        let mut latencies = Latencies::new();
        (1..=count).for_each(|us| latencies.add(Duration::from_micros(us)));
        latencies
    }

    #[test]
    fn figures_are_exact_or_close() {
        let latencies = micros(100_000);
        assert_eq!(latencies.count(), 100_000);
        assert_eq!(latencies.mean(), Some(Duration::from_nanos(50_000_500)));
        assert_eq!(latencies.min(), Some(Duration::from_micros(1)));
        assert_eq!(latencies.max(), Some(Duration::from_millis(100)));
        for (quantile, us) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.9999, 99_990.0)] {
            let found = latencies.quantile(quantile).unwrap().as_nanos() as f64 / 1e3;
            assert!((0.0..=0.001).contains(&(found / us - 1.0)), "{found}");
        }
    }

    #[test]
    fn quantiles_need_as_many_as_those_of_a_sample() {
        let needs = [
            (0.5, 6),
            (0.9, 36),
            (0.95, P95_NEEDS),
            (0.99, P99_NEEDS),
            (0.999, 3_688),
            (0.9999, 36_887),
        ];
        for (quantile, needs) in needs {
            assert!(!suffices(needs - 1, quantile), "{quantile}");
            assert!(suffices(needs, quantile), "{quantile}");
        }
        assert_eq!(Latencies::new().quantile(0.5), None);
        assert_eq!(Latencies::new().mean(), None);
        assert_eq!(Latencies::new().max(), None);
    }

    #[test]
    fn ranks_do_not_slip_by_rounding() {
        assert_eq!(rank(100, 0.99), 99);
        assert_eq!(rank(1_000, 0.999), 999);
        assert_eq!(rank(7, 0.5), 4);
        assert_eq!(rank(1, 0.5), 1);
    }

    #[test]
    fn merged_ones_are_as_if_counted_together() {
        let (mut low, high) = (micros(500), {
            let mut high = Latencies::new();
            (501..=1_000).for_each(|us| high.add(Duration::from_micros(us)));
            high
        });
        low.merge(&high);
        let all = micros(1_000);
        assert_eq!(low.quantile(0.9), all.quantile(0.9));
        assert_eq!((low.mean(), low.max()), (all.mean(), all.max()));
        assert_eq!(low.count_up_to(Duration::from_micros(300)), 300);
        low.clear();
        assert!(low.is_empty() && low.max().is_none());
    }
}
