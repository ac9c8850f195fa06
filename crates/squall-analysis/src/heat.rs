//! The requests of a trial, counted by when they were due and how long they took, as a heat map shows them.
//!
//! Every request counts once, including those of the warm-up. Requests that were unfinished or failed have rows of their own,
//! because their response times are not known. Maps of trials can be added up for a drawing, but no figure is computed from a
//! map: figures belong to single trials (`trial`). squall-report draws it.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::record::{RequestRecord, TrialRecord};

use crate::latency::latency_since;
use crate::quantile::Quantile;

/// The number of columns over the time of the load: about six pixels each in a small drawing.
const COLUMNS: u64 = 60;

/// The number of rows between two powers of ten. The times of a row are a third longer than those of the row below it.
const ROWS_PER_DECADE: u32 = 8;

/// Where the lowest row begins. That row also holds all shorter requests.
const SHORTEST: Duration = Duration::from_micros(1);

/// A row of a heat map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeatRow {
    /// Successful requests whose response time is at least [`HeatRow::begins_at`] this number and less than where the next row
    /// begins.
    Took(u32),
    /// Requests that were unfinished when the trial ended.
    Unfinished,
    /// Requests that failed.
    Failed,
}

impl HeatRow {
    pub(crate) fn of(latency: Quantile) -> HeatRow {
        match latency {
            Quantile::Exact(took) => {
                let times = took.as_nanos() as f64 / SHORTEST.as_nanos() as f64;
                let row = times.max(1.0).log10() * f64::from(ROWS_PER_DECADE);
                // A rounding error must not put a power of ten into the row below.
                HeatRow::Took((row + 1e-9) as u32)
            }
            Quantile::AtLeast(_) => HeatRow::Unfinished,
            Quantile::Never => HeatRow::Failed,
        }
    }

    /// The shortest response time of a numbered row, to the nanosecond; the rows are equally high on a logarithmic axis.
    pub fn begins_at(row: u32) -> Duration {
        let times = 10f64.powf(f64::from(row) / f64::from(ROWS_PER_DECADE));
        Duration::from_nanos((SHORTEST.as_nanos() as f64 * times).round() as u64)
    }
}

/// Requests by when they were due and by how long they took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatMap {
    /// The length of a column.
    pub interval: Duration,
    /// The number of columns: they reach from the first arrival of the load to the end of its measured phase.
    pub columns: u32,
    /// How many requests there are by row and column, from 0. Fields without requests have no entry.
    pub counts: BTreeMap<(HeatRow, u32), u64>,
}

impl HeatMap {
    /// The map of a trial. `requests` are all of its rows, warm-up included, in any order.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> HeatMap {
        let load = &record.trial.load;
        let span = (load.warmup + load.duration).as_nanos();
        let interval = span.div_ceil(COLUMNS).max(1);
        let last = span.div_ceil(interval).saturating_sub(1);
        let start = record.load_start.as_nanos();
        let mut counts: BTreeMap<(HeatRow, u32), u64> = BTreeMap::new();
        for request in requests {
            let since_start = request.intended.as_nanos().saturating_sub(start);
            let column = (since_start / interval).min(last) as u32;
            let row = HeatRow::of(latency_since(request, request.intended));
            *counts.entry((row, column)).or_default() += 1;
        }
        HeatMap {
            interval: Duration::from_nanos(interval),
            columns: last as u32 + 1,
            counts,
        }
    }

    /// The sum of the maps of trials under the same load; `None` if they have no requests.
    pub fn sum(maps: &[&HeatMap]) -> Option<HeatMap> {
        let (first, others) = maps.split_first()?;
        let mut sum = HeatMap::clone(first);
        for (place, count) in others.iter().flat_map(|map| &map.counts) {
            *sum.counts.entry(*place).or_default() += *count;
        }
        (sum.total() > 0).then_some(sum)
    }

    /// The same requests in columns of this length, which is a multiple of the current one.
    pub fn coarser(&self, interval: Duration) -> HeatMap {
        let merged = (interval.as_nanos() / self.interval.as_nanos().max(1)).max(1);
        let place = |column: u32| u32::try_from(u64::from(column) / merged).unwrap_or(u32::MAX);
        let mut counts: BTreeMap<(HeatRow, u32), u64> = BTreeMap::new();
        for ((row, column), count) in &self.counts {
            *counts.entry((*row, place(*column))).or_default() += *count;
        }
        HeatMap {
            interval,
            columns: place(self.columns.saturating_sub(1)) + 1,
            counts,
        }
    }

    /// The number of requests.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of requests in a row.
    pub fn in_row(&self, row: HeatRow) -> u64 {
        let own = self.counts.range((row, 0)..=(row, u32::MAX));
        own.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Outcome;

    use super::*;
    use crate::findings::made_trial;
    use crate::load::requests::{answered, failed, ms};

    /// A second of load without a warm-up, from time zero.
    fn record() -> TrialRecord {
        let mut record = made_trial(Protocol::H1);
        record.load_start = Duration::ZERO;
        record.trial.load.warmup = Duration::ZERO;
        record.trial.load.duration = ms(1_000);
        record
    }

    #[test]
    fn every_request_counts_once_in_the_row_of_its_response_time() {
        let requests: Vec<RequestRecord> = (0..1_000_u64)
            .map(|n| match n % 100 {
                7 => failed(n * 1_000, 40_000, Outcome::Censored, ""),
                8 => failed(n * 1_000, 40_000, Outcome::ConnectionClosed, "closed"),
                _ => answered(n * 1_000, 100 * (n + 1)),
            })
            .collect();
        let map = HeatMap::of(&record(), &requests);
        assert_eq!(map.total(), 1_000);
        assert_eq!(map.in_row(HeatRow::Unfinished), 10);
        assert_eq!(map.in_row(HeatRow::Failed), 10);
        for row in map.counts.keys().filter_map(|(row, _)| match row {
            HeatRow::Took(row) => Some(*row),
            HeatRow::Unfinished | HeatRow::Failed => None,
        }) {
            let (from, to) = (HeatRow::begins_at(row), HeatRow::begins_at(row + 1));
            let times = requests.iter().filter(|it| it.succeeded());
            let times = times.map(RequestRecord::response_time);
            let own = times.filter(|time| (from..to).contains(time)).count();
            assert_eq!(map.in_row(HeatRow::Took(row)), own as u64, "row {row}");
        }
        let twice = HeatMap::sum(&[&map, &map]).expect("it has requests");
        assert_eq!((twice.total(), twice.columns), (2_000, map.columns));
        assert_eq!(HeatMap::sum(&[&HeatMap::default()]), None);
    }

    #[test]
    fn coarser_map_has_the_same_requests_in_longer_columns() {
        let requests: Vec<RequestRecord> = (0..1_000).map(|n| answered(n * 1_000, 500)).collect();
        let map = HeatMap::of(&record(), &requests);
        let longer = map.interval + map.interval + map.interval;
        let coarse = map.coarser(longer);
        assert_eq!((coarse.interval, coarse.columns), (longer, 20));
        assert_eq!(coarse.total(), map.total());
        let first: u64 = (map.counts.iter())
            .filter(|((_, column), _)| *column < 3)
            .map(|(_, count)| *count)
            .sum();
        assert_eq!(coarse.counts.values().next(), Some(&first));
        assert_eq!(map.coarser(map.interval), map);
    }

    #[test]
    fn columns_are_times_of_arrival_and_powers_of_ten_begin_a_row() {
        let at = |due_ms: u64, took_us: u64| answered(due_ms * 1_000, took_us);
        // The last request is due when the load ends.
        let requests = [at(0, 1_000), at(16, 999), at(17, 10_000), at(1_000, 0)];
        let map = HeatMap::of(&record(), &requests);
        let fields: Vec<(HeatRow, u32)> = map.counts.into_keys().collect();
        let took = HeatRow::Took;
        assert_eq!(
            fields,
            [(took(0), 59), (took(23), 0), (took(24), 0), (took(32), 1)]
        );
        assert_eq!(map.columns, 60);
        assert_eq!(HeatRow::begins_at(24), ms(1));
    }
}
