//! The shape of a trial: how its response times are distributed, and how many requests were in flight over time.
//!
//! Unfinished and failed requests stay in, and every value says how much of it is known (`quantile`). Trials are never pooled
//! here, and nothing is stored: squall-report draws it. A trial's figures are in `trial`, its heat map is made in `heat`.

use squall_base::record::{Phase, RequestRecord, TrialRecord};
use squall_base::{Duration, Time};

use crate::heat::HeatMap;
use crate::latency::latency_since;
use crate::quantile::{Quantile, Sample};

/// Points of the percentile curve between two powers of ten of the share beyond, such as between 90 % and 99 %.
const POINTS_PER_DECADE: u32 = 8;

/// The most decades of the curve: to 99.9999 %.
const DECADES: u32 = 6;

/// Intervals over which requests are counted: about four pixels for each in a small graph.
const INTERVALS: u64 = 100;

/// How a trial's response times are distributed, and how its requests went over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialShape {
    /// The quartiles and their surroundings; `None` below 13 measured requests.
    pub quartiles: Option<Quartiles>,
    /// The percentile curve of the measured requests, from the smallest on; it ends where there are too few requests for a
    /// percentile, by the rule of [`Sample::quantile`].
    pub percentiles: Vec<PercentilePoint>,
    /// The requests over time, including those of the warm-up.
    pub course: LoadCourse,
    /// The requests by when they were due and how long they took, including those of the warm-up.
    pub heat: HeatMap,
}

/// What a box plot shows of the response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quartiles {
    /// The 1st percentile.
    pub p1: Quantile,
    /// The 25th percentile.
    pub p25: Quantile,
    /// The median.
    pub median: Quantile,
    /// The 75th percentile.
    pub p75: Quantile,
    /// The 99th percentile; `None` below [`P99_NEEDS`](crate::P99_NEEDS) requests.
    pub p99: Option<Quantile>,
}

/// A point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentilePoint {
    /// The share of the requests that are slower: 1 for the smallest response time, 0.01 for the 99th percentile.
    pub beyond: f64,
    /// The response time.
    pub value: Quantile,
}

/// Requests over time, from the first arrival of the load to the end of its measured phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadCourse {
    /// The length of an interval.
    pub interval: Duration,
    /// Requests that were due and had not ended, at the end of each interval.
    pub in_flight: Vec<u64>,
    /// Requests per second that were due, by interval.
    pub due_per_s: Vec<f64>,
    /// Successful requests per second that ended, by interval.
    pub answered_per_s: Vec<f64>,
}

impl TrialShape {
    /// The shape of a trial. `requests` are all of its rows, warm-up included, in any order.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> TrialShape {
        let measured = requests.iter().filter(|r| r.phase == Phase::Measure);
        let sample: Sample = measured.map(|r| latency_since(r, r.intended)).collect();
        TrialShape {
            quartiles: Quartiles::of(&sample),
            percentiles: percentiles(&sample),
            course: LoadCourse::of(record, requests),
            heat: HeatMap::of(record, requests),
        }
    }
}

impl Quartiles {
    fn of(sample: &Sample) -> Option<Quartiles> {
        Some(Quartiles {
            p1: sample.quantile(10)?,
            p25: sample.quantile(250)?,
            median: sample.quantile(500)?,
            p75: sample.quantile(750)?,
            p99: sample.quantile(990),
        })
    }
}

/// The shares of slower requests for which a percentile curve has points, from 1 down.
pub(crate) fn shares_beyond() -> impl Iterator<Item = f64> {
    (0..=DECADES * POINTS_PER_DECADE)
        .map(|step| 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE)))
}

fn percentiles(sample: &Sample) -> Vec<PercentilePoint> {
    let points = shares_beyond().map_while(|beyond| {
        let value = sample.at_share(1.0 - beyond)?;
        Some(PercentilePoint { beyond, value })
    });
    points.collect()
}

impl LoadCourse {
    fn of(record: &TrialRecord, requests: &[RequestRecord]) -> LoadCourse {
        let load = &record.trial.load;
        let span = (load.warmup + load.duration).as_nanos();
        let interval = span.div_ceil(INTERVALS).max(1);
        let count = span.div_ceil(interval) as usize;
        let place = |time: Time| {
            let since_start = time.as_nanos().saturating_sub(record.load_start.as_nanos());
            (since_start / interval) as usize
        };
        let mut due = vec![0_u64; count];
        let mut ended = vec![0_u64; count];
        let mut answered = vec![0_u64; count];
        let add = |counts: &mut [u64], place: usize| {
            if let Some(count) = counts.get_mut(place) {
                *count += 1;
            }
        };
        for request in requests {
            add(&mut due, place(request.intended));
            add(&mut ended, place(request.end));
            if request.succeeded() {
                add(&mut answered, place(request.end));
            }
        }
        let interval = Duration::from_nanos(interval);
        let per_s = |counts: &[u64]| -> Vec<f64> {
            let counts = counts.iter();
            counts
                .map(|count| *count as f64 / interval.as_secs_f64())
                .collect()
        };
        let mut open = 0_u64;
        let in_flight = due.iter().zip(&ended).map(|(due, ended)| {
            open = (open + due).saturating_sub(*ended);
            open
        });
        LoadCourse {
            interval,
            in_flight: in_flight.collect(),
            due_per_s: per_s(&due),
            answered_per_s: per_s(&answered),
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Outcome;

    use super::*;
    use crate::findings::made_trial;
    use crate::load::requests::{answered, ms};

    fn sample(values: impl Iterator<Item = Quantile>) -> Sample {
        values.collect()
    }

    #[test]
    fn percentile_curve_ends_where_requests_are_too_few() {
        let curve = percentiles(&sample((1..=1_000).map(|n| Quantile::Exact(ms(n)))));
        assert_eq!(curve[0].beyond, 1.0);
        assert_eq!(curve[0].value, Quantile::Exact(ms(1)));
        // 90 and 99 % are one and two decades on.
        assert_eq!(curve[8].value, Quantile::Exact(ms(900)));
        assert_eq!(curve[16].value, Quantile::Exact(ms(990)));
        // 99.9 % takes 3,688 requests.
        assert!(curve.len() > 17 && curve.len() < 25, "{}", curve.len());
        assert!(percentiles(&Sample::default()).is_empty());
    }

    #[test]
    fn unfinished_requests_make_the_tail_a_lower_bound() {
        let values = (1..=900).map(|n| Quantile::Exact(ms(n)));
        let values = values.chain((0..100).map(|_| Quantile::AtLeast(ms(5_000))));
        let sample = sample(values);
        let curve = percentiles(&sample);
        assert_eq!(curve[4].value.exact(), Some(ms(684)));
        assert_eq!(curve[16].value, Quantile::AtLeast(ms(5_000)));
        let quartiles = Quartiles::of(&sample).expect("there are enough requests");
        assert_eq!(quartiles.p25, Quantile::Exact(ms(250)));
        assert_eq!(quartiles.median, Quantile::Exact(ms(500)));
        assert_eq!(quartiles.p99, Some(Quantile::AtLeast(ms(5_000))));
    }

    #[test]
    fn requests_in_flight_are_those_due_and_not_ended() {
        let mut record = made_trial(Protocol::H1);
        record.load_start = Duration::ZERO;
        record.trial.load.warmup = Duration::ZERO;
        record.trial.load.duration = ms(1_000);
        let at = |due_ms: u64, end_ms: u64| answered(due_ms * 1_000, (end_ms - due_ms) * 1_000);
        let mut unfinished = at(305, 9_000);
        unfinished.outcome = Outcome::Censored;
        let course = TrialShape::of(&record, &[at(5, 25), at(7, 8), unfinished]).course;
        assert_eq!(course.interval, ms(10));
        assert_eq!(course.in_flight.len(), 100);
        assert_eq!(course.in_flight[..4], [1, 1, 0, 0]);
        assert_eq!(course.due_per_s[0], 200.0);
        assert_eq!(
            (course.answered_per_s[0], course.answered_per_s[2]),
            (100.0, 100.0)
        );
        assert_eq!(course.in_flight[99], 1, "the unfinished one");
    }
}
