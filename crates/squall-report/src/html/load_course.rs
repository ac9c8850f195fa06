//! A load over time: its rate, and its response times.
//!
//! Two small graphs, each with the same axis of time. They are pure markup. Nothing is counted here: squall-analysis'
//! `load::Timeline` does that.

use std::iter;

use squall_analysis::load::IntervalFigures;
use squall_base::Duration;

use super::deliveries::{Axis, Graph, LEFT};
use super::text::SERIES;

/// Appends the graphs of one load; nothing without intervals. `place` is the place of the load's variant.
pub(super) fn push(page: &mut String, place: usize, intervals: &[IntervalFigures]) {
    let Some(length) = intervals.first().map(|first| first.length) else {
        return;
    };
    let whole = intervals
        .iter()
        .map(|it| it.length.as_secs_f64())
        .sum::<f64>();
    let seconds = Axis::up_to(whole.max(1e-3));
    page.push_str(&format!(
        "<h2>Over time</h2>\n<div class=\"multiples courses\">\n<figure style=\"--series: var(--series-{})\">\n",
        place % SERIES
    ));
    rates(intervals, seconds).push(page);
    page.push_str(&format!(
        "<figcaption>Requests that ended per second, in intervals of {length}: the area succeeded, the red line \
         failed</figcaption>\n</figure>\n<figure style=\"--series: var(--series-{})\">\n",
        place % SERIES
    ));
    latencies(intervals, seconds).push(page);
    page.push_str(
        "<figcaption>Response times of requests that succeeded: the solid line is the median, the dashed one the 99th \
         percentile, the grey one the longest. An interval with too few requests for a percentile has no point of \
         it</figcaption>\n</figure>\n</div>\n",
    );
}

/// When each interval ends, in seconds.
fn ends(intervals: &[IntervalFigures]) -> impl Iterator<Item = f64> {
    intervals.iter().scan(0.0, |end, it| {
        *end += it.length.as_secs_f64();
        Some(*end)
    })
}

fn rates(intervals: &[IntervalFigures], seconds: Axis) -> Graph {
    let succeeded = |it: &IntervalFigures| it.rate_per_s().unwrap_or(0.0);
    let failed = |it: &IntervalFigures| it.failed as f64 / it.length.as_secs_f64().max(1e-9);
    let most = (intervals.iter())
        .map(|it| succeeded(it).max(failed(it)))
        .fold(1.0, f64::max);
    let y = Axis::up_to(most).rounded_up();
    let steps = |rate: &dyn Fn(&IntervalFigures) -> f64| {
        let mut path = String::new();
        for (it, end) in intervals.iter().zip(ends(intervals)) {
            path += &format!("V{:.1}H{:.1}", y.height(rate(it)), seconds.across(end));
        }
        path
    };
    let bottom = y.height(0.0);
    let mut shape = format!(
        "<path class=\"area\" d=\"M{LEFT} {bottom}{}V{bottom}Z\"/>\n",
        steps(&succeeded)
    );
    if intervals.iter().any(|it| it.failed > 0) {
        shape += &format!(
            "<path class=\"failures\" d=\"M{LEFT} {bottom}{}\"/>\n",
            steps(&failed)
        );
    }
    Graph {
        title: "Requests per second",
        label: "Requests per second over time, succeeded and failed".to_owned(),
        x: seconds,
        y,
        shape,
    }
}

fn latencies(intervals: &[IntervalFigures], seconds: Axis) -> Graph {
    let most = (intervals.iter())
        .filter_map(|it| it.max)
        .map(Duration::as_millis_f64)
        .fold(1e-3, f64::max);
    let y = Axis::up_to(most).rounded_up();
    let line = |class: &str, of: fn(&IntervalFigures) -> Option<Duration>| {
        let begins = iter::once(0.0).chain(ends(intervals));
        let mut path = String::new();
        for ((it, begin), end) in intervals.iter().zip(begins).zip(ends(intervals)) {
            let Some(value) = of(it) else { continue };
            let command = if path.is_empty() { "M" } else { "L" };
            path += &format!(
                "{command}{:.1} {:.1}",
                seconds.across(f64::midpoint(begin, end)),
                y.height(value.as_millis_f64())
            );
        }
        format!("<path class=\"{class}\" d=\"{path}\"/>\n")
    };
    Graph {
        title: "Response time in ms",
        label: "Response times over time: median, 99th percentile and longest".to_owned(),
        x: seconds,
        y,
        shape: line("due", |it| it.max)
            + &line("curve bound", |it| it.p99)
            + &line("curve", |it| it.p50),
    }
}
