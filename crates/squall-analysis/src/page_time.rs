//! How long the pages of a trial took, from its requests.
//!
//! A page lasts from its intended start to its last response. A page with a failed request never loaded; one that was cut
//! off by the end of the load took longer than its rows show. Both stay in every quantile, as `quantile` explains. The plan
//! (`Page`) says which requests a page has. Loads that keep no rows have `load::PageTotals`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use squall_base::plan::Page;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

use crate::figures::Figures;
use crate::quantile::{Quantile, Sample};

/// The pages of a trial's measured phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTimes {
    /// Pages of which every request succeeded.
    pub loaded: u64,
    /// Pages with a failed request.
    pub failed: u64,
    /// Pages that had begun but not ended when the load was over.
    pub unfinished: u64,
    /// Mean page time.
    #[serde(rename = "mean_ns", alias = "mean")]
    pub mean: Option<Quantile>,
    /// Median page time; `None` below 6 pages.
    #[serde(rename = "median_ns", alias = "median")]
    pub median: Option<Quantile>,
    /// 90th percentile of the page time; `None` below 36 pages.
    #[serde(rename = "p90_ns", alias = "p90")]
    pub p90: Option<Quantile>,
    /// 95th percentile of the page time; `None` below [`P95_NEEDS`](crate::P95_NEEDS) pages.
    #[serde(rename = "p95_ns", alias = "p95", default)]
    pub p95: Option<Quantile>,
    /// 99th percentile of the page time; `None` below [`P99_NEEDS`](crate::P99_NEEDS) pages.
    #[serde(rename = "p99_ns", alias = "p99")]
    pub p99: Option<Quantile>,
    /// The 75th percentile of the page time less the 25th; `None` below 13 pages.
    #[serde(
        rename = "interquartile_range_ns",
        alias = "interquartile_range",
        default
    )]
    pub interquartile_range: Option<Quantile>,
    /// The longest.
    #[serde(rename = "max_ns", alias = "max")]
    pub max: Option<Quantile>,
}

/// What is known of one page.
struct Visit {
    start: Time,
    end: Time,
    requests: usize,
    has_failed: bool,
    is_cut_off: bool,
}

impl PageTimes {
    /// Computes the page times from the requests of the measured phase, in any order.
    pub(crate) fn of<'a>(
        page: &Page,
        requests: impl Iterator<Item = &'a RequestRecord>,
    ) -> PageTimes {
        let nodes = page.nodes();
        let mut visits: BTreeMap<u64, Visit> = BTreeMap::new();
        for request in requests {
            let number = request.request / nodes.len() as u64;
            let visit = visits.entry(number).or_insert(Visit {
                start: Time::from_nanos(u64::MAX),
                end: Time::ZERO,
                requests: 0,
                has_failed: false,
                is_cut_off: false,
            });
            let node = &nodes[(request.request % nodes.len() as u64) as usize];
            if node.after.is_none() {
                let delay_ns = node.delay.as_nanos();
                let meant_ns = request.intended.as_nanos().saturating_sub(delay_ns);
                visit.start = visit.start.min(Time::from_nanos(meant_ns));
            }
            visit.end = visit.end.max(request.end);
            visit.requests += 1;
            visit.is_cut_off |= request.outcome == Outcome::Censored;
            visit.has_failed |= !request.succeeded() && request.outcome != Outcome::Censored;
        }
        let times: Vec<Quantile> = (visits.values())
            .map(|visit| visit.time(nodes.len()))
            .collect();
        let count = |is: fn(&Quantile) -> bool| times.iter().filter(|time| is(time)).count() as u64;
        let sample: Sample = times.iter().copied().collect();
        PageTimes {
            loaded: count(|time| matches!(time, Quantile::Exact(_))),
            failed: count(|time| matches!(time, Quantile::Never)),
            unfinished: count(|time| matches!(time, Quantile::AtLeast(_))),
            mean: sample.mean(),
            median: sample.quantile(500),
            p90: sample.quantile(900),
            p95: sample.quantile(950),
            p99: sample.quantile(990),
            interquartile_range: sample.interquartile_range(),
            max: sample.max(),
        }
    }

    /// Figures of the page time. No trial has enough pages for a p99.9.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            mean: self.mean,
            median: self.median,
            p90: self.p90,
            p95: self.p95,
            p99: self.p99,
            p999: None,
            interquartile_range: self.interquartile_range,
        }
    }
}

impl Visit {
    /// The page time, for a page of `nodes` requests.
    fn time(&self, nodes: usize) -> Quantile {
        let took: Duration = self.end.since(self.start);
        match () {
            () if self.has_failed => Quantile::Never,
            () if self.is_cut_off || self.requests < nodes => Quantile::AtLeast(took),
            () => Quantile::Exact(took),
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{PageNode, Urgency};

    use super::*;
    use crate::load::requests::{answered, failed};

    fn node(what: u32, after: Option<u32>, delay_ms: u64) -> PageNode {
        PageNode {
            what,
            after,
            delay: Duration::from_millis(delay_ms),
            urgency: Urgency::default(),
        }
    }

    /// A page of three requests: two start by themselves, the second 10 ms later; the third waits for the first.
    fn page() -> Page {
        Page::new(vec![
            node(0, None, 0),
            node(1, None, 10),
            node(2, Some(0), 0),
        ])
        .unwrap()
    }

    fn numbered(request: u64, row: RequestRecord) -> RequestRecord {
        RequestRecord { request, ..row }
    }

    /// Page `n`, begun at `n` s; its last response arrives 40 ms later.
    fn whole(n: u64) -> [RequestRecord; 3] {
        let start_us = n * 1_000_000;
        [
            numbered(n * 3, answered(start_us, 20_000)),
            numbered(n * 3 + 1, answered(start_us + 10_000, 5_000)),
            numbered(n * 3 + 2, answered(start_us + 20_000, 20_000)),
        ]
    }

    #[test]
    fn a_page_lasts_from_its_start_to_its_last_response() {
        let mut rows: Vec<RequestRecord> = (0..6).flat_map(whole).collect();
        rows.reverse();
        let times = PageTimes::of(&page(), rows.iter());
        let took = Some(Quantile::Exact(Duration::from_millis(40)));
        assert_eq!((times.loaded, times.failed, times.unfinished), (6, 0, 0));
        assert_eq!((times.median, times.mean, times.max), (took, took, took));
        assert_eq!(times.p90, None, "six are too few");
        // The page began with its first request, although that one has no row yet.
        let late = [numbered(1, answered(10_000, 5_000))];
        let times = PageTimes::of(&page(), late.iter());
        let so_far = Quantile::AtLeast(Duration::from_millis(15));
        assert_eq!((times.unfinished, times.max), (1, Some(so_far)));
    }

    #[test]
    fn failed_and_unfinished_pages_stay_in_the_quantiles() {
        let mut rows: Vec<RequestRecord> = (0..5).flat_map(whole).collect();
        let start_us = 7_000_000;
        rows.push(numbered(
            21,
            failed(start_us, 900, Outcome::StreamReset, "x"),
        ));
        rows.push(numbered(22, answered(start_us + 10_000, 100)));
        let of = |rows: &[RequestRecord]| PageTimes::of(&page(), rows.iter());
        assert_eq!(
            (of(&rows).failed, of(&rows).max),
            (1, Some(Quantile::Never))
        );
        // The request that waits for a response was never sent: the load was over.
        rows.push(numbered(24, answered(8_000_000, 70_000)));
        rows.push(numbered(25, answered(8_010_000, 100)));
        rows.extend(whole(9));
        rows[0] = numbered(0, failed(0, 55_000, Outcome::Censored, ""));
        rows.retain(|row| row.request != 2);
        let times = of(&rows);
        assert_eq!((times.loaded, times.failed, times.unfinished), (5, 1, 2));
        let ms = Duration::from_millis;
        let mean = Quantile::AtLeast(Duration::from_nanos((5 * 40 + 55 + 70) * 1_000_000 / 7));
        assert_eq!(times.median, Some(Quantile::Exact(ms(40))));
        assert_eq!(times.mean, Some(mean));
    }
}
