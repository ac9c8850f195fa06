//! Pages of a load: how many came whole, and how long they took.
//!
//! A page counts from when it was meant to begin to its last answer. The times are those of pages of which every request
//! succeeded; what the others hide is asked for with [`PageTotals::quantile_of_all`]. Which requests a page has, and what
//! of it is the warm-up's, is the caller's business.

use squall_base::Duration;

use super::latencies::{Latencies, quantile_of_all};
use crate::quantile::Quantile;

/// A load's pages, those of the measured phase.
#[derive(Clone, Debug, Default)]
pub struct PageTotals {
    times: Latencies,
    failed: u64,
    unfinished: Latencies,
}

impl PageTotals {
    /// One that has ended after `time`; so many of its requests failed.
    pub fn ended(&mut self, time: Duration, failed_requests: u32) {
        match failed_requests {
            0 => self.times.add(time),
            _ => self.failed += 1,
        }
    }

    /// One that was given up when the load was over, `time` after its beginning.
    pub fn unfinished(&mut self, time: Duration) {
        self.unfinished.add(time);
    }

    /// How long those took of which every request succeeded.
    pub fn times(&self) -> &Latencies {
        &self.times
    }

    /// Those with a request that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// How long those had taken that were given up.
    pub fn given_up(&self) -> &Latencies {
        &self.unfinished
    }

    /// All of them.
    pub fn count(&self) -> u64 {
        self.times.count() + self.failed + self.unfinished.count()
    }

    /// The quantile of the times of *all* pages, such as 0.9 for p90: those with a failed request never came, those that
    /// were given up take longer than they had; as [`LoadTotals::response_quantile`](super::LoadTotals::response_quantile).
    pub fn quantile_of_all(&self, quantile: f64) -> Option<Quantile> {
        quantile_of_all(&self.times, &self.unfinished, self.count(), quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn pages_that_did_not_come_whole_are_in_no_time_but_in_all() {
        let mut pages = PageTotals::default();
        (1..=8).for_each(|time| pages.ended(ms(time), 0));
        pages.ended(ms(1), 2);
        pages.unfinished(ms(50));
        assert_eq!((pages.count(), pages.failed()), (10, 1));
        let close = |found: Option<Duration>, to: u64| {
            found.is_some_and(|found| ms(to) <= found && found < ms(to) + Duration::from_micros(5))
        };
        assert!(close(pages.times().quantile(0.5), 4));
        assert!(close(pages.quantile_of_all(0.5).unwrap().exact(), 5));
        // Ten say nothing about a p90.
        assert_eq!(pages.quantile_of_all(0.9), None);
        for _ in 0..30 {
            pages.ended(ms(2), 1);
        }
        assert_eq!(pages.quantile_of_all(0.9), Some(Quantile::Never));
        assert_eq!(pages.times().max(), Some(ms(8)));
    }

    #[test]
    fn few_pages_have_no_median() {
        let mut pages = PageTotals::default();
        (0..5).for_each(|_| pages.ended(ms(1), 0));
        assert_eq!(
            (pages.times().quantile(0.5), pages.times().min()),
            (None, Some(ms(1)))
        );
    }
}
