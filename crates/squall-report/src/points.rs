//! The requests of a trial that its scatter plot draws.
//!
//! Up to 40,000 are all drawn. If there are more, it keeps the slowest, because readers look for those, and evenly spaced ones
//! of the others; the caption has both numbers. A page with many trials may have room for fewer; `payload` knows how many.
//! Nothing is chosen at random, so a record always produces the same page. Packets that the link dropped are marks beside the
//! points, also evenly spaced if there are many. `payload` packs both for the page. The shape of the trial, which
//! `html::shapes` draws, comes from squall-analysis.

use std::borrow::Cow;
use std::collections::BTreeMap;

use squall_analysis::detail::TrialDetail;
use squall_analysis::load::{KeptRequest, LoadPicture, LoadTotals};
use squall_analysis::{TrialShape, figure};
use squall_base::plan::Condition;
use squall_base::record::{
    Cause, CausesRecord, DropRecord, Outcome, Phase, RequestRecord, TrialRecord,
};
use squall_base::{Duration, Probability, Time};

use crate::html::trial_markup::TrialMarkup;

/// The most points in one plot: as many as a browser redraws without stutter while zooming.
pub(crate) const DRAWN_AT_MOST: usize = 40_000;

/// How many of the drawn points are the slowest requests.
const fn slowest_of(drawn: usize) -> usize {
    drawn / 4
}

/// The most drops that are marked beside this many points: for `DRAWN_AT_MOST` points, more than a plot is pixels wide.
const fn marked_beside(drawn: usize) -> usize {
    drawn / 10
}

/// One request as a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Its index in the schedule.
    pub(crate) request: u64,
    /// When it was due, counted from the first arrival of the load.
    pub(crate) start: Duration,
    /// Response time; a lower bound if it is unfinished, the time until the failure if it failed.
    pub(crate) latency: Duration,
    /// How it ended.
    pub(crate) mark: PointMark,
    /// The part of the load.
    pub(crate) phase: Phase,
    /// The cause of most of its response time, if known.
    pub(crate) cause: Option<Cause>,
}

/// How a request ended, as the page shows it: the outcomes, and responses with an error status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointMark {
    /// The request's outcome.
    Outcome(Outcome),
    /// A complete response with a status of 400 or more, or with a `grpc-status` other than 0.
    ErrorStatus,
}

impl PointMark {
    /// Every mark, in the order of its code.
    pub(crate) fn all() -> impl Iterator<Item = PointMark> {
        let outcomes = Outcome::ALL.into_iter().map(PointMark::Outcome);
        outcomes.chain([PointMark::ErrorStatus])
    }

    /// In words for a reader.
    pub(crate) fn words(self) -> &'static str {
        match self {
            PointMark::Outcome(Outcome::Answered) => "answered",
            PointMark::Outcome(Outcome::Censored) => "unfinished when the trial ended",
            PointMark::Outcome(Outcome::ConnectFailed) => "failed: no connection",
            PointMark::Outcome(Outcome::TlsFailed) => "failed: no TLS",
            PointMark::Outcome(Outcome::ConnectionClosed) => "failed: connection closed",
            PointMark::Outcome(Outcome::StreamReset) => "failed: stream reset",
            PointMark::Outcome(Outcome::ProtocolError) => "failed: protocol error",
            PointMark::Outcome(Outcome::TimedOut) => "failed: timeout",
            PointMark::ErrorStatus => "failed: error status",
        }
    }

    pub(crate) fn of(request: &RequestRecord) -> PointMark {
        PointMark::of_outcome(request.outcome, request.succeeded())
    }

    fn of_outcome(outcome: Outcome, succeeded: bool) -> PointMark {
        match outcome {
            Outcome::Answered if !succeeded => PointMark::ErrorStatus,
            outcome => PointMark::Outcome(outcome),
        }
    }

    pub(crate) fn is_failure(self) -> bool {
        !matches!(
            self,
            PointMark::Outcome(Outcome::Answered | Outcome::Censored)
        )
    }
}

/// A trial's requests, ready to be drawn.
#[derive(Clone, Debug)]
pub struct TrialPoints {
    /// The trial's folder.
    pub(crate) folder: String,
    /// The trial's position in the order of the run.
    pub(crate) index: u32,
    pub(crate) variant: String,
    pub(crate) condition: Condition,
    pub(crate) repetition: u32,
    /// Whether it is a load without trials, which has no repetitions.
    pub(crate) is_load: bool,
    pub(crate) valid: bool,
    pub(crate) warmup: Duration,
    /// Warm-up and measurement; the drain has no arrivals.
    pub(crate) span: Duration,
    pub(crate) points: Vec<Point>,
    /// When the link dropped packets, in order, counted from the first arrival of the load.
    pub(crate) drops: Vec<Duration>,
    /// How its response times are distributed, and what was in flight.
    pub(crate) shape: TrialShape,
    /// Some of its requests in full.
    pub(crate) detail: Option<TrialMarkup>,
    /// Requests of the trial, drawn or not.
    total: usize,
    /// Dropped packets of the trial, marked or not.
    dropped: usize,
}

impl TrialPoints {
    /// Chooses what to draw of a trial. `requests` are all of its rows, warm-up included, in any order.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> TrialPoints {
        let mut points: Vec<Point> = requests.iter().map(|r| point(record, r)).collect();
        points.sort_by_key(|point| (point.start, point.request));
        let total = points.len();
        if total > DRAWN_AT_MOST {
            points = thinned(&points, total, DRAWN_AT_MOST);
        }
        let trial = &record.trial;
        TrialPoints {
            folder: trial.folder(),
            index: trial.index,
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            repetition: trial.repetition,
            is_load: false,
            valid: !record.health.validity.is_disturbed(),
            warmup: trial.load.warmup,
            span: trial.load.warmup + trial.load.duration,
            points,
            drops: Vec::new(),
            shape: TrialShape::of(record, requests),
            detail: None,
            total,
            dropped: 0,
        }
    }

    /// Chooses what to draw of a load without trials, or of a part of one, under a name. `totals` are the sums of the requests
    /// of `picture`. The load was over at `end`, on the clock of its requests' times.
    pub(crate) fn of_load(
        name: &str,
        picture: &LoadPicture,
        totals: &LoadTotals,
        end: Time,
    ) -> TrialPoints {
        let mut points: Vec<Point> = picture.requests().iter().map(kept_point).collect();
        if points.len() > DRAWN_AT_MOST {
            // The slowest of all requests are among the kept ones, and the others are an even share already.
            points = thinned(&points, points.len(), DRAWN_AT_MOST);
        }
        TrialPoints {
            folder: String::new(),
            index: 0,
            variant: name.to_owned(),
            condition: without_link(),
            repetition: 0,
            is_load: true,
            valid: true,
            warmup: picture.warmup(),
            span: picture.span(end),
            points,
            drops: Vec::new(),
            shape: picture.shape(totals, end),
            detail: None,
            total: usize::try_from(picture.total()).unwrap_or(usize::MAX),
            dropped: 0,
        }
    }

    /// Marks when the link dropped packets. `drops` are the trial's rows, in any order.
    pub fn with_drops(mut self, record: &TrialRecord, drops: &[DropRecord]) -> TrialPoints {
        let start = record.load_start;
        let since_epoch = drops.iter().map(|row| row.dropped_at.as_nanos());
        let mut times: Vec<Duration> = since_epoch
            .filter(|at| *at >= start.as_nanos())
            .map(|at| Duration::from_nanos(at) - start)
            .filter(|at| *at <= self.span)
            .collect();
        times.sort_unstable();
        self.dropped = times.len();
        self.drops = spread(&times, marked_beside(DRAWN_AT_MOST)).into_owned();
        self
    }

    /// Colours the points by the cause of most of their response time. `causes` are the trial's rows, in any order.
    pub fn with_causes(mut self, causes: &[CausesRecord]) -> TrialPoints {
        let dominant: BTreeMap<u64, Option<Cause>> = causes
            .iter()
            .map(|row| (row.request, row.spans.dominant()))
            .collect();
        for point in &mut self.points {
            point.cause = dominant.get(&point.request).copied().flatten();
        }
        self
    }

    /// Adds some of the trial's requests in full. `record` is the trial's.
    pub fn add_detail(&mut self, record: &TrialRecord, detail: &TrialDetail) {
        self.detail = Some(TrialMarkup::of(record, detail));
    }

    /// The trial's name among others: its variant, and the number of its repetition unless it is a load without trials.
    pub(crate) fn title(&self) -> String {
        if self.is_load {
            return self.variant.clone();
        }
        format!("{}, repetition {}", self.variant, self.repetition + 1)
    }

    /// Whether any point has a cause.
    pub(crate) fn has_causes(&self) -> bool {
        self.points.iter().any(|point| point.cause.is_some())
    }

    /// How many points are drawn.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// At most this many of its points, and of the drops beside them.
    pub(crate) fn drawn(&self, at_most: usize) -> DrawnTrial<'_> {
        let points = if self.len() <= at_most {
            Cow::Borrowed(self.points.as_slice())
        } else {
            Cow::Owned(thinned(&self.points, self.total, at_most))
        };
        DrawnTrial {
            trial: self,
            points,
            drops: spread(&self.drops, marked_beside(at_most)),
        }
    }
}

/// What is drawn of a trial.
pub(crate) struct DrawnTrial<'a> {
    pub(crate) trial: &'a TrialPoints,
    /// In the order of their starts.
    pub(crate) points: Cow<'a, [Point]>,
    /// In order.
    pub(crate) drops: Cow<'a, [Duration]>,
}

impl DrawnTrial<'_> {
    /// How many of how many requests are drawn and how many packets were dropped, for the plot's caption.
    pub(crate) fn caption(&self) -> String {
        let TrialPoints { total, dropped, .. } = self.trial;
        let drawn = self.points.len();
        let requests = figure::counted(*total as u64, "request", "requests");
        let mut words = if drawn == *total {
            format!("all {requests}")
        } else {
            format!(
                "{} of {requests}: the slowest {} and an even share of the others",
                figure::count(drawn as u64),
                figure::count(slowest_of(drawn) as u64),
            )
        };
        if *dropped > 0 {
            let packets = figure::counted(*dropped as u64, "packet", "packets");
            words += &format!(", {packets} dropped");
            if self.drops.len() < *dropped {
                words += &format!(" ({} marked)", figure::count(self.drops.len() as u64));
            }
        }
        words
    }
}

/// At most this many of the times, evenly spaced in order.
fn spread(times: &[Duration], at_most: usize) -> Cow<'_, [Duration]> {
    if times.len() <= at_most {
        return Cow::Borrowed(times);
    }
    let step = times.len().div_ceil(at_most.max(1));
    Cow::Owned(times.iter().copied().step_by(step).collect())
}

fn point(record: &TrialRecord, request: &RequestRecord) -> Point {
    let since_epoch = Duration::from_nanos(request.intended.as_nanos());
    Point {
        request: request.request,
        start: since_epoch - record.load_start,
        latency: request.response_time(),
        mark: PointMark::of(request),
        phase: request.phase,
        cause: None,
    }
}

fn kept_point(request: &KeptRequest) -> Point {
    Point {
        request: request.request,
        start: request.start,
        latency: request.latency,
        mark: PointMark::of_outcome(request.outcome, request.succeeded),
        phase: request.phase,
        cause: None,
    }
}

/// The condition of a load: squall has no link in its way.
fn without_link() -> Condition {
    Condition {
        delay: Duration::ZERO.into(),
        loss: Probability::ZERO.into(),
        link: String::new().into(),
        schedule: String::new(),
        next_links: Vec::new(),
    }
}

/// The slowest points, and evenly spaced ones of the others: `at_most` in all. Failed requests count as the slowest. `points`
/// are all of the `total` requests, or what an earlier call has kept of them.
fn thinned(points: &[Point], total: usize, at_most: usize) -> Vec<Point> {
    let mut slowest_first: Vec<usize> = (0..points.len()).collect();
    slowest_first.sort_by_key(|&i| {
        let point = &points[i];
        std::cmp::Reverse((point.mark.is_failure(), point.latency))
    });
    let mut weights = weights(&slowest_first, total);
    let slowest = slowest_of(at_most);
    for &i in &slowest_first[..slowest] {
        weights[i] = 0;
    }
    let of_others: usize = weights.iter().sum();
    let mut due = 0;
    let mut kept = Vec::with_capacity(at_most);
    for (point, weight) in points.iter().zip(weights) {
        if weight == 0 {
            kept.push(*point);
            continue;
        }
        // Bresenham's algorithm: one of the others is kept whenever their due share grows by one.
        due += (at_most - slowest) * weight;
        if due >= of_others {
            due -= of_others;
            kept.push(*point);
        }
    }
    kept
}

/// How many requests each point stands for, times a common factor: an earlier call has kept every one of the slowest, but only
/// a share of the others.
fn weights(slowest_first: &[usize], total: usize) -> Vec<usize> {
    let kept = slowest_first.len();
    let mut weights = vec![1; kept];
    if kept < total {
        let slowest = slowest_of(kept);
        for (rank, &i) in slowest_first.iter().enumerate() {
            weights[i] = if rank < slowest {
                kept - slowest
            } else {
                total - slowest
            };
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use squall_analysis::load::MeasuredPhase;

    use super::*;

    #[test]
    fn thinning_keeps_the_slowest_and_spreads_the_others_evenly() {
        let point = |n: u64, latency_ms, mark| Point {
            request: n,
            start: Duration::from_millis(n),
            latency: Duration::from_millis(latency_ms),
            mark,
            phase: Phase::Measure,
            cause: None,
        };
        let answered = PointMark::Outcome(Outcome::Answered);
        let all: Vec<Point> = (0..100_000)
            .map(|n| match n % 20 {
                0 => point(n, 500, answered),
                7 => point(n, 0, PointMark::Outcome(Outcome::ConnectFailed)),
                _ => point(n, 50, answered),
            })
            .collect();
        let kept = thinned(&all, all.len(), DRAWN_AT_MOST);
        assert_eq!(kept.len(), DRAWN_AT_MOST);
        assert!(kept.is_sorted_by_key(|point| point.request));
        assert_eq!(
            kept.iter().filter(|point| point.mark.is_failure()).count(),
            5_000
        );
        assert_eq!(
            kept.iter()
                .filter(|point| point.latency.as_millis_f64() == 500.0)
                .count(),
            5_000
        );
        let others = kept
            .iter()
            .filter(|point| point.latency.as_millis_f64() == 50.0);
        let first_half = others.filter(|point| point.request < 50_000).count();
        assert_eq!(first_half, (DRAWN_AT_MOST - slowest_of(DRAWN_AT_MOST)) / 2);
    }

    /// Thinning twice keeps points that are as evenly spread as if they had been thinned once.
    #[test]
    fn thinning_twice_keeps_an_even_share_of_the_others() {
        let answered = PointMark::Outcome(Outcome::Answered);
        // A tenth of the requests is slow, all in the first tenth of the time.
        let all: Vec<Point> = (0..200_000)
            .map(|n| Point {
                request: n,
                start: Duration::from_millis(n),
                latency: Duration::from_millis(if n < 20_000 { 500 } else { 50 }),
                mark: answered,
                phase: Phase::Measure,
                cause: None,
            })
            .collect();
        let once = thinned(&all, all.len(), DRAWN_AT_MOST);
        let twice = thinned(&once, all.len(), 4_000);
        assert_eq!(twice.len(), 4_000);
        let slow = twice.iter().filter(|point| point.request < 20_000).count();
        // The slowest thousand, and of the 3,000 others a share of 19,000 in 199,000.
        assert!((slow as i64 - 1_286).abs() < 20, "{slow}");
    }

    /// A million requests of a load: choosing from those that are kept while it runs is as good as choosing from all.
    #[test]
    fn points_of_a_load_are_its_slowest_requests_and_an_even_share_of_the_others() {
        let phase = MeasuredPhase::default();
        let mut picture = LoadPicture::new(Time::ZERO, phase);
        let mut totals = LoadTotals::new(phase);
        for n in 0..1_000_000_u64 {
            let due = Time::ZERO + Duration::from_micros(n);
            let took = Duration::from_micros(if n % 200 == 3 { 90_000 } else { 500 + n % 100 });
            let outcome = match n % 1_000 {
                8 => Outcome::Censored,
                9 => Outcome::StreamReset,
                _ => Outcome::Answered,
            };
            let request = RequestRecord {
                end: due + took,
                status: (outcome == Outcome::Answered).then_some(200),
                outcome,
                ..RequestRecord::due(n, due)
            };
            picture.add(&request);
            totals.add(&request);
        }
        let end = Time::ZERO + Duration::from_secs(1);
        let points = TrialPoints::of_load("h2", &picture, &totals, end);
        assert_eq!(points.len(), DRAWN_AT_MOST);
        let drawn = points.drawn(DRAWN_AT_MOST);
        assert_eq!(
            drawn.caption(),
            "40,000 of 1,000,000 requests: the slowest 10,000 and an even share of the others"
        );
        let count =
            |is_own: fn(&Point) -> bool| points.points.iter().filter(|it| is_own(it)).count();
        assert_eq!(count(|it| it.mark.is_failure()), 1_000);
        assert_eq!(
            count(|it| it.latency == Duration::from_micros(90_000)),
            5_000
        );
        let half = count(|it| it.start < Duration::from_millis(500)) as f64 / 40_000.0;
        assert!((0.4..0.6).contains(&half), "{half}");
        assert_eq!(points.shape.heat.total(), 1_000_000);
        assert_eq!(points.title(), "h2");
    }

    #[test]
    fn fewer_drops_are_marked_beside_fewer_points() {
        let times: Vec<Duration> = (0..1_000).map(Duration::from_millis).collect();
        assert_eq!(*spread(&times, 1_000), times[..]);
        let some = spread(&times, 300);
        assert_eq!((some.len(), some[1]), (250, Duration::from_millis(4)));
    }
}
