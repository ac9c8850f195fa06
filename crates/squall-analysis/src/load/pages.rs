//! Pages of a load: how many loaded completely, and how long they took.
//!
//! A page lasts from its intended start to its last response. The times are those of pages of which every request
//! succeeded; [`PageTotals::quantile_of_all`] includes the others. Which requests a page has, and which pages belong to the
//! warm-up, is up to the caller.

use squall_base::Duration;

use super::latencies::{Latencies, quantile_of_all};
use crate::quantile::Quantile;

/// The pages of a load's measured phase.
#[derive(Clone, Debug, Default)]
pub struct PageTotals {
    times: Latencies,
    failed: u64,
    unfinished: Latencies,
}

impl PageTotals {
    /// Counts a page that has ended after `time`, with this many failed requests.
    pub fn add_ended(&mut self, time: Duration, failed_requests: u32) {
        match failed_requests {
            0 => self.times.add(time),
            _ => self.failed += 1,
        }
    }

    /// Counts a page that was abandoned when the load was over, `time` after its start.
    pub fn add_unfinished(&mut self, time: Duration) {
        self.unfinished.add(time);
    }

    /// The times of pages of which every request succeeded.
    pub fn times(&self) -> &Latencies {
        &self.times
    }

    /// Pages with a failed request.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// How long abandoned pages had taken so far.
    pub fn unfinished(&self) -> &Latencies {
        &self.unfinished
    }

    /// The number of all pages.
    pub fn count(&self) -> u64 {
        self.times.count() + self.failed + self.unfinished.count()
    }

    /// The quantile of the times of *all* pages, such as 0.9 for p90. Pages with a failed request never loaded, and
    /// abandoned ones take longer than they had taken by then; as in
    /// [`LoadTotals::response_quantile`](super::LoadTotals::response_quantile).
    pub fn quantile_of_all(&self, quantile: f64) -> Option<Quantile> {
        quantile_of_all(&self.times, &self.unfinished, self.count(), quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::ms;

    #[test]
    fn incomplete_pages_count_only_in_quantiles_of_all_pages() {
        let mut pages = PageTotals::default();
        (1..=8).for_each(|time| pages.add_ended(ms(time), 0));
        pages.add_ended(ms(1), 2);
        pages.add_unfinished(ms(50));
        assert_eq!((pages.count(), pages.failed()), (10, 1));
        let close = |found: Option<Duration>, to: u64| {
            found.is_some_and(|found| ms(to) <= found && found < ms(to) + Duration::from_micros(5))
        };
        assert!(close(pages.times().quantile(0.5), 4));
        assert!(close(pages.quantile_of_all(0.5).unwrap().exact(), 5));
        // Ten pages say nothing about a p90.
        assert_eq!(pages.quantile_of_all(0.9), None);
        for _ in 0..30 {
            pages.add_ended(ms(2), 1);
        }
        assert_eq!(pages.quantile_of_all(0.9), Some(Quantile::Never));
        assert_eq!(pages.times().max(), Some(ms(8)));
    }

    #[test]
    fn few_pages_have_no_median() {
        let mut pages = PageTotals::default();
        (0..5).for_each(|_| pages.add_ended(ms(1), 0));
        assert_eq!(
            (pages.times().quantile(0.5), pages.times().min()),
            (None, Some(ms(1)))
        );
    }
}
