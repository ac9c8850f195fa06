//! Figures in Bencher's metric format (bencher.dev), for tracking them over time.
//!
//! Each benchmark has measures, and each measure a value. Values that are unknown because requests failed or were unfinished
//! are left out, because readers would take any number there for a measured one.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_analysis::{CellSummary, Quantile, RunSummary, Spread};
use squall_base::Duration;

use crate::load::FinishedLoad;

/// A value, and its 95 % interval if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The value, in the unit at the end of the measure's name.
    pub value: f64,
    /// The lower end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_value: Option<f64>,
    /// The upper end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_value: Option<f64>,
}

/// Metrics by benchmark, then by measure, such as `response-time-p99-ns`.
pub type Benchmarks = BTreeMap<String, BTreeMap<&'static str, Metric>>;

/// A benchmark for each cell of a run that has a valid trial.
pub fn benchmarks_of_run(summary: &RunSummary) -> Benchmarks {
    let cells = summary.conditions.iter().flat_map(|it| &it.cells);
    let valid = cells.filter(|cell| cell.valid_trials().next().is_some());
    valid
        .map(|cell| {
            (
                format!("{}, {}", cell.variant, cell.condition),
                of_cell(cell),
            )
        })
        .collect()
}

fn of_cell(cell: &CellSummary) -> BTreeMap<&'static str, Metric> {
    let latencies = [
        ("response-time-mean-ns", cell.mean),
        ("response-time-p50-ns", cell.median),
        ("response-time-p90-ns", cell.p90),
        ("response-time-p99-ns", cell.p99),
        ("response-time-p99-9-ns", cell.p999),
    ];
    let numbers = [
        ("rate-per-s", cell.rate_achieved_per_s),
        ("throughput-bytes-per-s", cell.throughput_bytes_per_s),
        ("connections", cell.connections_opened),
    ];
    let latencies = latencies
        .into_iter()
        .map(|(name, spread)| (name, of_latency(spread)));
    let numbers = numbers
        .into_iter()
        .map(|(name, spread)| (name, of_number(spread)));
    let mut metrics: BTreeMap<&'static str, Metric> = latencies
        .chain(numbers)
        .filter_map(|(name, metric)| Some((name, metric?)))
        .collect();
    metrics.insert("failed-requests", plain(cell.failed as f64));
    metrics
}

fn of_latency(spread: Option<Spread<Quantile>>) -> Option<Metric> {
    let exact = |value| match value {
        Quantile::Exact(span) => Some(nanos(span)),
        Quantile::AtLeast(_) | Quantile::Never => None,
    };
    let spread = spread?;
    Some(Metric {
        value: exact(spread.median)?,
        lower_value: spread.interval.and_then(|interval| exact(interval.low)),
        upper_value: spread.interval.and_then(|interval| exact(interval.high)),
    })
}

fn of_number(spread: Option<Spread<f64>>) -> Option<Metric> {
    let spread = spread?;
    Some(Metric {
        value: spread.median,
        lower_value: spread.interval.map(|interval| interval.low),
        upper_value: spread.interval.map(|interval| interval.high),
    })
}

/// One benchmark for each of these loads, by its name.
pub fn benchmarks_of_load(loads: &[(String, FinishedLoad<'_>)]) -> Benchmarks {
    let of = |(name, load): &(String, FinishedLoad<'_>)| (name.clone(), of_load(load));
    loads.iter().map(of).collect()
}

fn of_load(load: &FinishedLoad<'_>) -> BTreeMap<&'static str, Metric> {
    let response = load.totals.response();
    let quantile = |share| response.quantile(share);
    let latencies = [
        ("response-time-mean-ns", response.mean()),
        ("response-time-p50-ns", quantile(0.5)),
        ("response-time-p90-ns", quantile(0.9)),
        ("response-time-p99-ns", quantile(0.99)),
        ("response-time-p99-9-ns", quantile(0.999)),
    ];
    let latencies = latencies
        .into_iter()
        .filter_map(|(name, span)| Some((name, plain(nanos(span?)))));
    let rate = load.totals.achieved_per_s(load.end);
    let rate = rate.map(|rate| ("rate-per-s", plain(rate)));
    let failed = ("failed-requests", plain(load.totals.failed() as f64));
    latencies.chain(rate).chain([failed]).collect()
}

fn plain(value: f64) -> Metric {
    Metric {
        value,
        lower_value: None,
        upper_value: None,
    }
}

fn nanos(span: Duration) -> f64 {
    span.as_nanos() as f64
}
