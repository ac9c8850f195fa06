//! The requests of a trial that its scatter plot draws.
//!
//! Up to 40,000 are all drawn. Of more, it keeps the slowest, because readers look for those, and evenly spaced ones of the
//! others; the caption has both numbers. Nothing is chosen at random, so a record always produces the same page.
//! Packets that the link dropped are marks beside the points, also evenly spaced if there are many. `payload` packs both for
//! the page; the shape of the trial, which `html::shapes` draws, is squall-analysis'.

use std::collections::BTreeMap;

use squall_analysis::detail::TrialDetail;
use squall_analysis::{TrialShape, figure};
use squall_base::Duration;
use squall_base::plan::Condition;
use squall_base::record::{
    Cause, CausesRecord, DropRecord, Outcome, Phase, RequestRecord, TrialRecord,
};

use crate::html::TrialMarkup;

/// The most points in one plot: as many as a browser redraws without stutter while zooming.
const DRAWN_AT_MOST: usize = 40_000;

/// How many of those are the slowest requests.
const SLOWEST_DRAWN: usize = 10_000;

/// The most drops that are marked: more than a plot has pixels across.
const DROPS_MARKED: usize = 4_000;

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
    /// Answered in whole, with a status of 400 or more, or with a `grpc-status` other than 0.
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
        match request.outcome {
            Outcome::Answered if !request.succeeded() => PointMark::ErrorStatus,
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
    pub(crate) variant: String,
    pub(crate) condition: Condition,
    pub(crate) repetition: u32,
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
            points = thinned(&points);
        }
        let trial = &record.trial;
        TrialPoints {
            folder: trial.folder(),
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            repetition: trial.repetition,
            valid: !record.health.validity.is_invalid(),
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
        let step = times.len().div_ceil(DROPS_MARKED).max(1);
        self.drops = times.into_iter().step_by(step).collect();
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

    /// Adds some of its requests in full. `record` is the trial's.
    pub fn add_detail(&mut self, record: &TrialRecord, detail: &TrialDetail) {
        self.detail = Some(TrialMarkup::of(record, detail));
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

    /// How many of how many requests are drawn and how many packets were dropped, for the plot's caption.
    pub(crate) fn caption(&self) -> String {
        let total = figure::counted(self.total as u64, "request", "requests");
        let mut words = if self.len() == self.total {
            format!("all {total}")
        } else {
            format!(
                "{} of {total}: the slowest {} and an even share of the others",
                figure::count(self.len() as u64),
                figure::count(SLOWEST_DRAWN as u64),
            )
        };
        if self.dropped > 0 {
            let packets = figure::counted(self.dropped as u64, "packet", "packets");
            words += &format!(", {packets} dropped");
            if self.drops.len() < self.dropped {
                words += &format!(" ({} marked)", figure::count(self.drops.len() as u64));
            }
        }
        words
    }
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

/// The slowest points, and evenly spaced ones of the others. Failed requests count as the slowest.
fn thinned(points: &[Point]) -> Vec<Point> {
    const OTHERS_DRAWN: usize = DRAWN_AT_MOST - SLOWEST_DRAWN;
    let mut by_latency: Vec<usize> = (0..points.len()).collect();
    by_latency.sort_by_key(|&i| {
        let point = &points[i];
        std::cmp::Reverse((point.mark.is_failure(), point.latency))
    });
    let mut is_slow = vec![false; points.len()];
    for &i in &by_latency[..SLOWEST_DRAWN] {
        is_slow[i] = true;
    }
    let others = points.len() - SLOWEST_DRAWN;
    let mut drawn_until_now = 0;
    let mut kept = Vec::with_capacity(DRAWN_AT_MOST);
    for (point, slow) in points.iter().zip(is_slow) {
        if slow {
            kept.push(*point);
            continue;
        }
        // Bresenham's algorithm: one of the others is kept whenever their due share grows by one.
        drawn_until_now += OTHERS_DRAWN;
        if drawn_until_now >= others {
            drawn_until_now -= others;
            kept.push(*point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
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
        let kept = thinned(&all);
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
        assert_eq!(first_half, (DRAWN_AT_MOST - SLOWEST_DRAWN) / 2);
    }
}
