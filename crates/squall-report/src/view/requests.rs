//! All requests of a trial, ready for any part of its plot.
//!
//! Rows are small (24 bytes), sorted by when they were due, and stay in memory, so that a part of two million requests is
//! found without reading the record again. Which requests a report draws from the start is decided in `points`.

use serde::Serialize;
use squall_base::projection;
use squall_base::record::{
    Cause, CausesRecord, DropRecord, Outcome, Phase, RequestRecord, TrialRecord,
};
use squall_base::{Duration, Time};

use super::region::Region;
use crate::payload::{cause_code, mark_code, saturated};
use crate::points::PointMark;

/// Up to this many requests are all listed: a browser draws and searches them without delay.
const LISTED_AT_MOST: usize = 20_000;

projection! {
    /// A row of requests.parquet.
    #[derive(Clone, Copy, Debug)]
    pub struct RequestCells of row: RequestRecord {
        request: u64 = row.request, "request";
        phase: Phase = row.phase, "phase";
        intended: Time = row.intended, "intended_ns";
        end: Time = row.end, "end_ns";
        mark: PointMark = PointMark::of(row), "outcome", "status", "error";
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Row {
    start_us: u64,
    request: u64,
    latency_us: u32,
    mark: PointMark,
    cause: Option<Cause>,
    is_warmup: bool,
}

impl Row {
    /// Whether the request is visible in a region with these latencies.
    fn is_visible(&self, region: &Region) -> bool {
        match self.mark {
            PointMark::Outcome(Outcome::Answered) => region.has_latency(self.latency_us),
            PointMark::Outcome(Outcome::Censored) => region.has_any_above(self.latency_us),
            // Failures are along the top edge, whatever the latencies.
            _ => true,
        }
    }
}

/// Collects the rows of a trial.
#[derive(Clone, Debug)]
pub struct RequestIndexBuilder {
    load_start: Duration,
    rows: Vec<Row>,
    causes: Vec<(u64, Cause)>,
    dropped_us: Vec<u64>,
}

/// All requests of a trial, and when its links dropped packets.
#[derive(Clone, Debug)]
pub struct RequestIndex {
    rows: Vec<Row>,
    dropped_us: Vec<u64>,
}

/// Requests of a region: columns of equal length, sorted by when they were due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestPoints {
    /// How many requests the region has.
    pub total: usize,
    /// Their places in the schedule.
    pub request: Vec<u64>,
    /// When they were due, from the first arrival of the load.
    pub start_us: Vec<u64>,
    /// Response time; a lower bound if unfinished, the time until the failure if failed.
    pub latency_us: Vec<u32>,
    /// How they ended: the place among the marks of the page's manifest.
    pub mark: Vec<u8>,
    /// What most of their time was spent on: 0 if unknown, otherwise one more than the place among the manifest's causes.
    pub cause: Vec<u8>,
    /// How many requests on the same pixel each one stands for, itself included. It is the last of them.
    pub count: Vec<u32>,
    /// How many of the first ones belong to the warm-up.
    pub warmup_count: usize,
    /// When links dropped packets, from the first arrival of the load, at most one time for each column of pixels.
    pub dropped_us: Vec<u64>,
}

impl RequestIndexBuilder {
    /// For the trial of this record.
    pub fn new(record: &TrialRecord) -> RequestIndexBuilder {
        RequestIndexBuilder {
            load_start: record.load_start,
            rows: Vec::new(),
            causes: Vec::new(),
            dropped_us: Vec::new(),
        }
    }

    /// Adds a request.
    pub fn add_request(&mut self, cells: RequestCells) {
        self.rows.push(Row {
            start_us: self.since_load_start_us(cells.intended),
            request: cells.request,
            latency_us: saturated(cells.end.since(cells.intended).as_nanos() / 1_000),
            mark: cells.mark,
            cause: None,
            is_warmup: cells.phase == Phase::Warmup,
        });
    }

    /// Adds what a request's time was spent on.
    pub fn add_causes(&mut self, row: &CausesRecord) {
        if let Some(cause) = row.spans.dominant().filter(|_| row.is_in_total()) {
            self.causes.push((row.request, cause));
        }
    }

    /// Adds a dropped packet, if it was dropped during the load.
    pub fn add_drop(&mut self, row: &DropRecord) {
        if row.dropped_at.as_nanos() < self.load_start.as_nanos() {
            return;
        }
        let at_us = self.since_load_start_us(row.dropped_at);
        self.dropped_us.push(at_us);
    }

    fn since_load_start_us(&self, at: Time) -> u64 {
        let since_epoch = Duration::from_nanos(at.as_nanos());
        (since_epoch - self.load_start).as_nanos() / 1_000
    }

    /// The index of everything that was added; the order of adding does not matter.
    pub fn finish(mut self) -> RequestIndex {
        self.rows.sort_unstable_by_key(|row| row.request);
        self.causes.sort_unstable_by_key(|(request, _)| *request);
        let mut causes = self.causes.iter().peekable();
        for row in &mut self.rows {
            while causes.next_if(|it| it.0 < row.request).is_some() {}
            row.cause = causes
                .next_if(|it| it.0 == row.request)
                .map(|(_, cause)| *cause);
        }
        self.rows
            .sort_unstable_by_key(|row| (row.start_us, row.request));
        self.dropped_us.sort_unstable();
        RequestIndex {
            rows: self.rows,
            dropped_us: self.dropped_us,
        }
    }
}

impl RequestIndex {
    /// What a plot of this region shows. It looks at the rows of the region's time, and at no others.
    pub fn points(&self, region: &Region) -> RequestPoints {
        let rows = region.time.part(&self.rows, |row| row.start_us);
        let total = rows.iter().filter(|row| row.is_visible(region)).count();
        let chosen: Vec<(&Row, u32)> = if total <= LISTED_AT_MOST {
            let visible = rows.iter().filter(|row| row.is_visible(region));
            visible.map(|row| (row, 1)).collect()
        } else {
            one_for_each_pixel(rows, region)
        };
        RequestPoints {
            total,
            request: chosen.iter().map(|(row, _)| row.request).collect(),
            start_us: chosen.iter().map(|(row, _)| row.start_us).collect(),
            latency_us: chosen.iter().map(|(row, _)| row.latency_us).collect(),
            mark: chosen.iter().map(|(row, _)| mark_code(row.mark)).collect(),
            cause: (chosen.iter())
                .map(|(row, _)| cause_code(row.cause))
                .collect(),
            count: chosen.iter().map(|(_, count)| *count).collect(),
            warmup_count: chosen.iter().take_while(|(row, _)| row.is_warmup).count(),
            dropped_us: self.drops(region),
        }
    }

    fn drops(&self, region: &Region) -> Vec<u64> {
        let mut drops = region.time.part(&self.dropped_us, |at_us| *at_us).to_vec();
        drops.dedup_by_key(|at_us| region.column(*at_us));
        drops
    }
}

/// The last request on a pixel, and how many are on it.
#[derive(Clone, Copy, Default)]
struct Pixel {
    last: usize,
    count: u32,
}

/// The last visible request on each pixel, which covers the others there, sorted as `rows`. Requests that ended differently
/// are drawn differently, so those have pixels of their own: answered, unfinished and failed ones.
fn one_for_each_pixel<'a>(rows: &'a [Row], region: &Region) -> Vec<(&'a Row, u32)> {
    let mut answered = vec![Pixel::default(); region.cells()];
    let mut unfinished = vec![Pixel::default(); region.cells()];
    let mut failed = vec![Pixel::default(); region.columns()];
    for (place, row) in rows.iter().enumerate() {
        if !row.is_visible(region) {
            continue;
        }
        let pixel = match row.mark {
            PointMark::Outcome(Outcome::Answered) => {
                &mut answered[region.cell(row.start_us, row.latency_us)]
            }
            PointMark::Outcome(Outcome::Censored) => {
                &mut unfinished[region.cell(row.start_us, row.latency_us)]
            }
            _ => &mut failed[region.column(row.start_us)],
        };
        pixel.last = place;
        pixel.count += 1;
    }
    let pixels = answered.into_iter().chain(unfinished).chain(failed);
    let mut used: Vec<Pixel> = pixels.filter(|pixel| pixel.count > 0).collect();
    used.sort_unstable_by_key(|pixel| pixel.last);
    used.into_iter()
        .map(|pixel| (&rows[pixel.last], pixel.count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(request: u64, start_us: u64, latency_us: u32, mark: PointMark) -> Row {
        Row {
            start_us,
            request,
            latency_us,
            mark,
            cause: None,
            is_warmup: false,
        }
    }

    fn index(rows: Vec<Row>, dropped_us: Vec<u64>) -> RequestIndex {
        RequestIndexBuilder {
            load_start: Duration::ZERO,
            rows,
            causes: Vec::new(),
            dropped_us,
        }
        .finish()
    }

    fn region(from_us: u64, to_us: u64, latencies: (u32, u32)) -> Region {
        let (low_us, high_us) = latencies;
        let query = format!(
            "from_us={from_us}&to_us={to_us}&low_us={low_us}&high_us={high_us}&columns=100&rows=50&scale=linear"
        );
        Region::parse(&query).unwrap()
    }

    const ANSWERED: PointMark = PointMark::Outcome(Outcome::Answered);
    const UNFINISHED: PointMark = PointMark::Outcome(Outcome::Censored);
    const FAILED: PointMark = PointMark::Outcome(Outcome::StreamReset);

    #[test]
    fn few_requests_are_all_listed_in_order() {
        let index = index(
            vec![
                row(3, 30, 500, ANSWERED),
                row(1, 10, 100, ANSWERED),
                row(2, 20, 100, ANSWERED),
                row(9, 90, 100, ANSWERED),
            ],
            vec![15, 95],
        );
        let points = index.points(&region(10, 30, (0, 1_000)));
        assert_eq!(points.request, [1, 2, 3]);
        assert_eq!(points.start_us, [10, 20, 30]);
        assert_eq!(points.latency_us, [100, 100, 500]);
        assert_eq!(points.count, [1, 1, 1]);
        assert_eq!((points.total, points.dropped_us), (3, vec![15]));
        // A smaller range of latencies.
        assert_eq!(index.points(&region(10, 30, (200, 1_000))).request, [3]);
    }

    #[test]
    fn unfinished_requests_reach_upwards_and_failures_are_at_the_top() {
        let rows = vec![
            row(1, 10, 100, ANSWERED),
            row(2, 20, 100, UNFINISHED),
            row(3, 30, 100, FAILED),
            row(4, 40, 9_000, UNFINISHED),
        ];
        let points = index(rows, Vec::new()).points(&region(0, 100, (500, 1_000)));
        assert_eq!(points.request, [2, 3]);
        assert_eq!(points.mark, [mark_code(UNFINISHED), mark_code(FAILED)]);
    }

    #[test]
    fn requests_on_the_same_pixel_are_merged_and_all_counted() {
        // Two bands of latencies, and a few failures.
        let rows: Vec<Row> = (0..100_000)
            .map(|n| match n % 1_000 {
                7 => row(n, n, 0, FAILED),
                _ if n % 2 == 0 => row(n, n, 100, ANSWERED),
                _ => row(n, n, 900, ANSWERED),
            })
            .collect();
        let points = index(rows, Vec::new()).points(&region(0, 99_999, (0, 1_000)));
        assert_eq!(points.total, 100_000);
        assert_eq!(points.count.iter().sum::<u32>(), 100_000);
        // 100 columns, in each of which are both bands and a failure.
        assert_eq!(points.request.len(), 300);
        assert!(points.start_us.is_sorted());
        let failures = points
            .mark
            .iter()
            .filter(|mark| **mark == mark_code(FAILED));
        assert_eq!(failures.count(), 100);
    }

    #[test]
    fn zooming_in_ends_at_single_requests() {
        let rows: Vec<Row> = (0..100_000).map(|n| row(n, n, 100, ANSWERED)).collect();
        let index = index(rows, Vec::new());
        assert_eq!(
            index.points(&region(0, 99_999, (0, 200))).request.len(),
            100
        );
        let points = index.points(&region(50_000, 50_099, (0, 200)));
        assert_eq!(points.request, (50_000..=50_099).collect::<Vec<u64>>());
    }

    /// 20,000 requests each second, in the regions that a reader sees while zooming in.
    #[test]
    fn zooming_into_two_million_requests_shows_all_or_one_per_pixel() {
        let rows = (0..2_000_000_u64).map(|n| row(n, n * 50, 100 + (n % 997) as u32, ANSWERED));
        let index = index(rows.collect(), (0..500_000).map(|n| n * 200).collect());
        for (to_us, total, shown_at_most) in [
            // 100 by 50 pixels.
            (99_999_999, 2_000_000, 5_000),
            (41_999_999, 40_000, 5_000),
            (40_999_999, 20_000, 20_000),
            (40_009_999, 200, 200),
        ] {
            let from_us = if total == 2_000_000 { 0 } else { 40_000_000 };
            let points = index.points(&region(from_us, to_us, (0, 2_000)));
            assert_eq!(points.total, total);
            let stood_for: u32 = points.count.iter().sum();
            assert_eq!(stood_for as usize, total, "none is lost");
            assert!(points.request.len() <= shown_at_most, "{total}");
            assert!(points.dropped_us.len() <= 100, "one for each column");
        }
    }

    #[test]
    fn causes_are_assigned_to_their_requests() {
        let mut builder = RequestIndexBuilder {
            load_start: Duration::ZERO,
            rows: vec![
                row(5, 1, 10, ANSWERED),
                row(2, 2, 10, ANSWERED),
                row(8, 3, 10, ANSWERED),
            ],
            causes: vec![(8, Cause::Loss), (1, Cause::Hol), (5, Cause::Queue)],
            dropped_us: Vec::new(),
        };
        builder.rows[0].is_warmup = true;
        let points = builder.finish().points(&region(0, 10, (0, 100)));
        assert_eq!(points.request, [5, 2, 8]);
        let (queue, loss) = (
            cause_code(Some(Cause::Queue)),
            cause_code(Some(Cause::Loss)),
        );
        assert_eq!(points.cause, [queue, 0, loss]);
        assert_eq!(points.warmup_count, 1);
    }

    #[test]
    fn drops_are_thinned_to_one_for_each_column() {
        let index = index(Vec::new(), (0..10_000).collect());
        let points = index.points(&region(0, 9_999, (0, 100)));
        assert_eq!(points.dropped_us.len(), 100);
        assert_eq!(points.total, 0);
    }
}
