//! A histogram of spans of time: any number of them in constant memory, at a resolution of 0.1 %.
//!
//! It knows nothing of requests, nor of spans whose end is hidden (`totals` keeps those apart). Count, sum, minimum and
//! maximum are exact; quantiles are rounded up by at most 0.1 %. The cells are those of HdrHistogram at three significant
//! digits. Each request is counted eleven times, so this is our own implementation: counting one span takes a sixth of the
//! time that the hdrhistogram crate takes, and less in a run of equal spans. squall-linux has a smaller one for the
//! lateness of threads.
//!
//! Counting spends most of its time waiting for a cell to be loaded into the processor's caches, from which a client's other
//! work has evicted it. So cells are as small as possible, which brings the used ones closer together: counts beyond 16 bits
//! are carried over to a map.

use std::collections::BTreeMap;

use squall_base::Duration;

use crate::quantile::{Quantile, suffices};

/// Below twice this, each cell is one nanosecond wide; above, each power of two has this many cells.
const CELLS_A_POWER: usize = 1 << CELL_BITS;
const CELL_BITS: u32 = 10;

/// A histogram of spans of time.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// The count of each cell without what was carried over, up to the last cell that was ever used: at most 55 * 1,024
    /// cells.
    cells: Vec<u16>,
    /// What the cells could not hold: multiples of 65,536, by cell.
    carried: BTreeMap<usize, u64>,
    count: u64,
    sum_ns: u128,
    /// Without spans, larger than any span.
    least: Duration,
    /// Without spans, zero.
    largest: Duration,
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Latencies {
        Latencies {
            cells: Vec::new(),
            carried: BTreeMap::new(),
            count: 0,
            sum_ns: 0,
            least: Duration::from_nanos(u64::MAX),
            largest: Duration::ZERO,
        }
    }

    /// Counts one span.
    pub fn add(&mut self, span: Duration) {
        self.add_run(span, 1);
    }

    /// Counts a span that occurred `times` times.
    pub fn add_times(&mut self, span: Duration, times: u64) {
        if times > 0 {
            self.add_run(span, times);
        }
    }

    /// Counts each of `spans`. Neighbours are often equal: zero, or the time of responses that arrived together.
    pub(super) fn add_all(&mut self, spans: &[Duration]) {
        for run in spans.chunk_by(|a, b| a == b) {
            self.add_run(run[0], run.len() as u64);
        }
    }

    fn add_run(&mut self, span: Duration, times: u64) {
        self.add_to(cell_of(span.as_nanos()), times);
        self.count += times;
        self.sum_ns += u128::from(span.as_nanos()) * u128::from(times);
        self.least = self.least.min(span);
        self.largest = self.largest.max(span);
    }

    fn add_to(&mut self, cell: usize, times: u64) {
        let before = self.cells.get(cell).copied();
        let now = before.and_then(|before| before.checked_add(u16::try_from(times).ok()?));
        match now {
            Some(now) => self.cells[cell] = now,
            None => self.make_room_for(cell, times),
        }
    }

    /// Counts spans for a cell beyond the last, or more than their cell can hold.
    #[cold]
    fn make_room_for(&mut self, cell: usize, times: u64) {
        if self.cells.len() <= cell {
            self.cells.resize(cell + 1, 0);
        }
        let now = u64::from(self.cells[cell]) + times;
        let held = now as u16;
        self.cells[cell] = held;
        let carried = now - u64::from(held);
        if carried > 0 {
            *self.carried.entry(cell).or_default() += carried;
        }
    }

    /// The count of each cell, from the first to the last.
    fn counts(&self) -> impl Iterator<Item = u64> {
        let mut carried = self.carried.iter().peekable();
        self.cells.iter().enumerate().map(move |(cell, held)| {
            let carried = carried.next_if(|(of, _)| **of == cell);
            u64::from(*held) + carried.map_or(0, |(_, count)| *count)
        })
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Latencies) {
        for (cell, times) in other.counts().enumerate().filter(|(_, times)| *times > 0) {
            self.add_to(cell, times);
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.least = self.least.min(other.least);
        self.largest = self.largest.max(other.largest);
    }

    /// Forgets everything, but keeps the memory.
    pub fn clear(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        cells.fill(0);
        *self = Latencies {
            cells,
            ..Latencies::new()
        };
    }

    /// How many spans were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if no span was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum in nanoseconds, which may be more than a [`Duration`] can hold.
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
        (self.count > 0).then_some(self.least)
    }

    /// The largest.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then_some(self.largest)
    }

    /// The nearest-rank quantile, such as 0.99 for p99; above 0 and below 1.
    ///
    /// `None` if there are so few spans that not even the largest is a 97.5 % upper bound of the true quantile, as
    /// [`Sample::quantile`](crate::Sample::quantile) explains: p50 needs 6, p90 36, p99 368, p99.9 3,688 and p99.99 36,887.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        suffices(self.count(), quantile)
            .then(|| self.at_rank(rank(self.count(), quantile)))
            .flatten()
    }

    /// The span at `rank`, from 1, in order of size; `None` if there are fewer spans.
    pub(crate) fn at_rank(&self, rank: u64) -> Option<Duration> {
        if !(1..=self.count).contains(&rank) {
            return None;
        }
        let mut counted = 0;
        let cell = self.counts().position(|count| {
            counted += count;
            counted >= rank
        })?;
        let (lowest, width) = span_of(cell);
        let span = Duration::from_nanos(lowest + (width - 1));
        Some(span.clamp(self.least, self.largest))
    }

    /// How many spans are not above `span`, at the histogram's resolution.
    pub(crate) fn count_up_to(&self, span: Duration) -> u64 {
        let up_to = cell_of(span.as_nanos());
        self.counts().take(up_to + 1).sum()
    }

    /// Each span that occurs, at the histogram's resolution, in order of size, with its count.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Duration, u64)> {
        let used = self.counts().enumerate().filter(|(_, count)| *count > 0);
        used.map(|(cell, count)| {
            let (lowest, width) = span_of(cell);
            (Duration::from_nanos(lowest + width / 2), count)
        })
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

fn cell_of(span_ns: u64) -> usize {
    let lowest_power = (2 * CELLS_A_POWER - 1) as u64;
    let power = (span_ns | lowest_power).ilog2() - CELL_BITS;
    power as usize * CELLS_A_POWER + (span_ns >> power) as usize
}

/// The smallest span of a cell, and the cell's width in nanoseconds.
fn span_of(cell: usize) -> (u64, u64) {
    let power = (cell / CELLS_A_POWER).saturating_sub(1);
    let place = (cell - power * CELLS_A_POWER) as u64;
    (place << power, 1 << power)
}

/// The quantile of `count` things. Some have ended, some were abandoned after a known time, and the others never end.
pub(super) fn quantile_of_all(
    ended: &Latencies,
    unfinished: &Latencies,
    count: u64,
    quantile: f64,
) -> Option<Quantile> {
    if !suffices(count, quantile) {
        return None;
    }
    let rank = rank(count, quantile);
    if unfinished.is_empty() {
        let known = ended.at_rank(rank);
        return Some(known.map_or(Quantile::Never, Quantile::Exact));
    }
    let mut bounds = ended.clone();
    bounds.merge(unfinished);
    Some(match bounds.at_rank(rank) {
        None => Quantile::Never,
        Some(bound) if ended.count_up_to(bound) >= rank => Quantile::Exact(bound),
        Some(bound) => Quantile::AtLeast(bound),
    })
}

/// The nearest rank, from 1, of `quantile` among `count`.
pub(crate) fn rank(count: u64, quantile: f64) -> u64 {
    // 0.99 * 100 is a hair above 99 in floating point, so anything less than a millionth above a rank is that rank.
    ((count as f64 * quantile - 1e-6).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{P95_NEEDS, P99_NEEDS};

    fn micros(all: std::ops::RangeInclusive<u64>) -> Latencies {
        let mut latencies = Latencies::new();
        all.for_each(|us| latencies.add(Duration::from_micros(us)));
        latencies
    }

    #[test]
    fn figures_are_exact_or_within_the_resolution() {
        let latencies = micros(1..=100_000);
        assert_eq!(latencies.count(), 100_000);
        assert_eq!(latencies.mean(), Some(Duration::from_nanos(50_000_500)));
        assert_eq!(latencies.min(), Some(Duration::from_micros(1)));
        assert_eq!(latencies.max(), Some(Duration::from_millis(100)));
        for (quantile, us) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.9999, 99_990.0)] {
            let found = latencies.quantile(quantile).unwrap().as_nanos() as f64 / 1e3;
            assert!((0.0..=0.001).contains(&(found / us - 1.0)), "{found}");
        }
    }

    /// Spans of every size, from nanoseconds to centuries. Not many, because each rank is sought among all cells.
    fn spans_of_any_size() -> impl Strategy<Value = Vec<u64>> {
        let span = (any::<u64>(), 0..64_u32).prop_map(|(ns, shift)| ns >> shift);
        prop::collection::vec(span, 1..16)
    }

    proptest! {
        #[test]
        fn cells_are_those_of_hdrhistogram(spans in spans_of_any_size()) {
            let mut theirs = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            let mut ours = Latencies::new();
            for span in &spans {
                theirs.record(*span).unwrap();
                ours.add(Duration::from_nanos(*span));
            }
            let cells: Vec<(u64, u64)> = (theirs.iter_recorded())
                .map(|cell| {
                    let middle = theirs.median_equivalent(cell.value_iterated_to());
                    (middle, cell.count_since_last_iteration())
                })
                .collect();
            let own: Vec<(u64, u64)> =
                ours.spans().map(|(span, count)| (span.as_nanos(), count)).collect();
            prop_assert_eq!(own, cells);
            let (least, largest) = (ours.min().unwrap(), ours.max().unwrap());
            let mut counted = 0;
            for cell in theirs.iter_recorded() {
                let end = Duration::from_nanos(cell.value_iterated_to());
                let first = counted + 1;
                counted += cell.count_since_last_iteration();
                for rank in [first, counted] {
                    prop_assert_eq!(ours.at_rank(rank), Some(end.clamp(least, largest)));
                }
                prop_assert_eq!(ours.count_up_to(end), counted);
            }
            prop_assert_eq!(ours.at_rank(counted + 1), None);
        }
    }

    #[test]
    fn a_cell_holds_counts_beyond_16_bits() {
        let (short, long) = (Duration::from_nanos(70), Duration::from_micros(70));
        let mut latencies = Latencies::new();
        let mut times = 0;
        for more in [1, 65_534, 1, 1, 65_535, 65_536, 1 << 40] {
            latencies.add_run(short, more);
            times += more;
        }
        latencies.add(long);
        let check = |latencies: &Latencies, times: u64, long_times: u64| {
            let found: Vec<u64> = latencies.spans().map(|(_, count)| count).collect();
            assert_eq!(found, [times, long_times]);
            assert_eq!(latencies.count_up_to(short), times);
            assert_eq!(latencies.at_rank(times), Some(short));
            assert_eq!(latencies.at_rank(times + 1), Some(long));
        };
        check(&latencies, times, 1);
        let other = latencies.clone();
        latencies.merge(&other);
        check(&latencies, 2 * times, 2);
        latencies.clear();
        latencies.add(short);
        assert_eq!(latencies.count_up_to(short), 1);
    }

    #[test]
    fn quantiles_need_as_many_values_as_those_of_a_sample() {
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
    fn merged_histograms_equal_one_that_counted_everything() {
        let mut low = micros(1..=500);
        low.merge(&micros(501..=1_000));
        let all = micros(1..=1_000);
        assert_eq!(low.quantile(0.9), all.quantile(0.9));
        assert_eq!((low.mean(), low.max()), (all.mean(), all.max()));
        assert_eq!(low.count_up_to(Duration::from_micros(300)), 300);
        low.clear();
        assert!(low.is_empty() && low.max().is_none());
    }
}
