//! What is drawn of a load's requests, in constant memory: some of them as points, and all of them as counts over time.
//!
//! Intervals begin short. When there would be too many, neighbours are merged, as in `timeline`, which has only the measured
//! phase and only what ended in it. Requests of the warm-up count here, as in the drawings of a trial (`shape`, `heat`).
//! `kept` chooses the points.

use std::collections::BTreeMap;

use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};

use super::kept::{KeptRequest, KeptRequests};
use super::totals::{LoadTotals, MeasuredPhase};
use crate::heat::{HeatMap, HeatRow};
use crate::latency::latency_since;
use crate::quantile::Quantile;
use crate::shape::{LoadCourse, PercentilePoint, Quartiles, TrialShape, shares_beyond};

/// The most intervals: about three pixels each in a small drawing.
const INTERVALS: usize = 120;

/// The first length of an interval.
const SHORTEST: Duration = Duration::from_millis(1);

/// The requests of a load, or of a part of one, as they are drawn.
#[derive(Clone, Debug)]
pub struct LoadPicture {
    start: Time,
    phase: MeasuredPhase,
    kept: KeptRequests,
    interval: Duration,
    due: [u64; INTERVALS],
    ended: [u64; INTERVALS],
    succeeded: [u64; INTERVALS],
    heat: BTreeMap<(HeatRow, u32), u64>,
}

impl LoadPicture {
    /// The picture of a load that begins at `start`, without any request.
    pub fn new(start: Time, phase: MeasuredPhase) -> LoadPicture {
        LoadPicture {
            start,
            phase,
            kept: KeptRequests::new(),
            interval: SHORTEST,
            due: [0; INTERVALS],
            ended: [0; INTERVALS],
            succeeded: [0; INTERVALS],
            heat: BTreeMap::new(),
        }
    }

    /// Takes a request that has ended.
    pub fn add(&mut self, request: &RequestRecord) {
        self.kept.add(request, self.start);
        // Requests that end after the load are not drawn over time, and must not make the intervals longer.
        let is_over = self.phase.to.is_some_and(|to| request.end > to);
        let due = request.intended.since(self.start);
        let ended = request.end.since(self.start);
        let last = if is_over { due } else { due.max(ended) };
        while self.place_of(last) >= INTERVALS {
            self.merge_neighbours();
        }
        let place = self.place_of(due);
        self.due[place] += 1;
        let row = HeatRow::of(latency_since(request, request.intended));
        *self.heat.entry((row, place as u32)).or_default() += 1;
        if !is_over {
            let place = self.place_of(ended);
            self.ended[place] += 1;
            self.succeeded[place] += u64::from(request.succeeded());
        }
    }

    /// How many requests have ended.
    pub fn total(&self) -> u64 {
        self.kept.ended()
    }

    /// The length of the warm-up.
    pub fn warmup(&self) -> Duration {
        self.phase.from.since(self.start)
    }

    /// From the start of the load to `end`, when it was over.
    pub fn span(&self, end: Time) -> Duration {
        end.since(self.start).max(Duration::from_micros(1))
    }

    /// The requests that can be points, in the order in which they were due: all of up to 40,000, otherwise at least 40,000,
    /// among them the slowest 10,000 and an even share of the others.
    pub fn requests(&self) -> Vec<KeptRequest> {
        self.kept.requests()
    }

    /// How the response times are distributed, and how the requests went over time. `totals` are the sums of the same
    /// requests; the load was over at `end`.
    pub fn shape(&self, totals: &LoadTotals, end: Time) -> TrialShape {
        let span = self.span(end);
        TrialShape {
            quartiles: quartiles(totals),
            percentiles: percentiles(totals),
            course: self.course(span),
            heat: self.heat_map(span),
        }
    }

    fn place_of(&self, since_start: Duration) -> usize {
        let place = since_start.as_nanos() / self.interval.as_nanos();
        usize::try_from(place).unwrap_or(usize::MAX)
    }

    fn merge_neighbours(&mut self) {
        self.interval = self.interval + self.interval;
        for counts in [&mut self.due, &mut self.ended, &mut self.succeeded] {
            let merged: Vec<u64> = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            counts[..merged.len()].copy_from_slice(&merged);
            counts[merged.len()..].fill(0);
        }
        for ((row, column), count) in std::mem::take(&mut self.heat) {
            *self.heat.entry((row, column / 2)).or_default() += count;
        }
    }

    /// How many intervals this span has, the last one perhaps in part.
    fn intervals(&self, span: Duration) -> usize {
        let count = span.as_nanos().div_ceil(self.interval.as_nanos());
        usize::try_from(count).map_or(INTERVALS, |count| count.clamp(1, INTERVALS))
    }

    fn course(&self, span: Duration) -> LoadCourse {
        let count = self.intervals(span);
        let per_s = |counts: &[u64]| -> Vec<f64> {
            let mut rest = span;
            let rates = counts[..count].iter().map(|counted| {
                let length = rest.min(self.interval).max(Duration::from_micros(1));
                rest = rest - self.interval;
                *counted as f64 / length.as_secs_f64()
            });
            rates.collect()
        };
        let mut open = 0_u64;
        let in_flight = self.due.iter().zip(&self.ended).take(count);
        let in_flight = in_flight.map(|(due, ended)| {
            open = (open + due).saturating_sub(*ended);
            open
        });
        LoadCourse {
            interval: self.interval,
            in_flight: in_flight.collect(),
            due_per_s: per_s(&self.due),
            answered_per_s: per_s(&self.succeeded),
        }
    }

    fn heat_map(&self, span: Duration) -> HeatMap {
        let last = self.heat.keys().map(|(_, column)| *column).max();
        HeatMap {
            interval: self.interval,
            columns: (self.intervals(span) as u32).max(last.map_or(0, |last| last + 1)),
            counts: self.heat.clone(),
        }
    }
}

fn quartiles(totals: &LoadTotals) -> Option<Quartiles> {
    Some(Quartiles {
        p1: totals.response_quantile(0.01)?,
        p25: totals.response_quantile(0.25)?,
        median: totals.response_quantile(0.5)?,
        p75: totals.response_quantile(0.75)?,
        p99: totals.response_quantile(0.99),
    })
}

fn percentiles(totals: &LoadTotals) -> Vec<PercentilePoint> {
    let points = shares_beyond().map_while(|beyond| {
        // No share lies below the smallest response time, but a quantile must be above 0.
        let value: Quantile = totals.response_quantile((1.0 - beyond).max(1e-9))?;
        Some(PercentilePoint { beyond, value })
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use squall_base::record::{Outcome, Phase};

    use super::*;
    use crate::load::requests::{answered, at, failed, ms};

    /// The picture and the sums of requests of a load that begins at 1 ms and whose measured phase is over at `to`.
    fn drawn(
        to: Option<Time>,
        requests: impl Iterator<Item = RequestRecord>,
    ) -> (LoadPicture, LoadTotals) {
        let phase = MeasuredPhase {
            from: at(1_000),
            to,
        };
        let mut picture = LoadPicture::new(at(1_000), phase);
        let mut totals = LoadTotals::new(phase);
        for request in requests {
            picture.add(&request);
            totals.add(&request);
        }
        (picture, totals)
    }

    #[test]
    fn every_request_counts_over_time_and_in_the_heat_map() {
        let to = at(101_000);
        let requests = (0..1_000_u64).map(|n| match n {
            500..510 => failed(1_000 + 100 * n, 900_000, Outcome::Censored, ""),
            510..520 => failed(1_000 + 100 * n, 50, Outcome::StreamReset, "reset"),
            _ => answered(1_000 + 100 * n, 2_500),
        });
        let (picture, totals) = drawn(Some(to), requests);
        let shape = picture.shape(&totals, to);
        assert_eq!(picture.total(), 1_000);
        assert_eq!(shape.heat.total(), 1_000);
        assert_eq!(shape.heat.in_row(HeatRow::Unfinished), 10);
        assert_eq!(shape.heat.in_row(HeatRow::Failed), 10);
        // Responses that came after the load have not made the intervals longer.
        let course = &shape.course;
        assert_eq!((course.interval, course.in_flight.len()), (ms(1), 100));
        assert_eq!(shape.heat.columns, 100);
        assert_eq!(course.due_per_s[0], 10_000.0);
        assert_eq!(
            (course.answered_per_s[1], course.answered_per_s[4]),
            (0.0, 10_000.0)
        );
        // 25 requests are in flight, 10 a millisecond for 2.5 ms each; the 10 unfinished ones stay until the end.
        assert!((25..=35).contains(&course.in_flight[10]), "{course:?}");
        assert!((35..=45).contains(&course.in_flight[99]), "{course:?}");
        let quartiles = shape.quartiles.expect("there are enough requests");
        assert!(quartiles.median.exact().is_some());
        assert_eq!(shape.percentiles[0].beyond, 1.0);
    }

    #[test]
    fn long_loads_have_as_few_intervals_as_short_ones() {
        let second = |n: u64| RequestRecord {
            phase: if n < 10 {
                Phase::Warmup
            } else {
                Phase::Measure
            },
            ..answered(1_000_000 * n, 3_000)
        };
        let (picture, totals) = drawn(None, (0..3_600).map(second));
        let shape = picture.shape(&totals, at(3_600_000_000));
        let intervals = shape.course.in_flight.len();
        assert!((60..=INTERVALS).contains(&intervals), "{intervals}");
        assert_eq!(shape.heat.total(), 3_600);
        let due: f64 = shape.course.due_per_s.iter().sum();
        // Each interval has one request per second.
        assert!((due / intervals as f64 - 1.0).abs() < 0.05, "{due}");
    }

    #[test]
    fn load_without_requests_has_an_empty_picture() {
        let (picture, totals) = drawn(None, std::iter::empty());
        let shape = picture.shape(&totals, at(1_000));
        assert!(picture.requests().is_empty() && shape.percentiles.is_empty());
        assert_eq!((shape.quartiles, shape.heat.total()), (None, 0));
    }
}
