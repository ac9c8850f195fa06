//! The figures of trials as a table: a line for each trial, with its cell.
//!
//! squall-analysis computes the figures. A cell of the table is empty if there are too few requests for its figure. A
//! figure of which unfinished requests hide a part is a lower bound, and one that failed requests make infinite is
//! empty; two columns name them.

use std::path::Path;

use anyhow::Result;
use squall_analysis::{Quantile, TrialStats, trial_stats};
use squall_base::record::{TrialRecord, Validity};
use squall_record::export::write_csv;

use super::destination::write_to;
use super::requests_of;
use crate::trials::SelectedTrial;

const COLUMNS: [&str; 32] = [
    "trial",
    "folder",
    "variant",
    "path",
    "condition",
    "delay_up_ns",
    "delay_down_ns",
    "loss_up",
    "loss_down",
    "repetition",
    "seed",
    "attempt",
    "validity",
    "asked",
    "answered",
    "failed",
    "censored",
    "connections_opened",
    "rate_asked_per_s",
    "rate_achieved_per_s",
    "throughput_bytes_per_s",
    "own_error_ns",
    "mean_ns",
    "median_ns",
    "p90_ns",
    "p95_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "service_median_ns",
    "lower_bounds",
    "infinite",
];

/// Writes the figures of the selected trials.
pub(super) fn export(selected: &[SelectedTrial], output: Option<&Path>) -> Result<()> {
    let mut rows = Vec::new();
    for it in selected {
        let stats = trial_stats(&it.record, &requests_of(it)?);
        rows.push(row(&it.record, &stats));
    }
    write_to(output, |out| write_csv(out, &COLUMNS, rows))
}

fn row(record: &TrialRecord, stats: &TrialStats) -> Vec<String> {
    let condition = &stats.condition;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut cells = vec![
        stats.index.to_string(),
        stats.folder.clone(),
        stats.variant.clone(),
        record.trial.variant.path.clone(),
        condition.to_string(),
        condition.delay.up.as_nanos().to_string(),
        condition.delay.down.as_nanos().to_string(),
        condition.loss.up.get().to_string(),
        condition.loss.down.get().to_string(),
        (stats.repetition + 1).to_string(),
        stats.seed.to_string(),
        stats.attempt.to_string(),
        validity(&stats.validity).to_owned(),
        stats.asked.to_string(),
        stats.answered.to_string(),
        stats.failed.to_string(),
        stats.censored.to_string(),
        stats.connections_opened.to_string(),
        stats.rate_asked_per_s.to_string(),
        stats.rate_achieved_per_s.to_string(),
        number(stats.throughput_bytes_per_s),
        stats.own_error.as_nanos().to_string(),
    ];
    let (mut lower_bounds, mut infinite) = (Vec::new(), Vec::new());
    for (name, figure) in times(stats) {
        let bound = figure.and_then(Quantile::lower_bound);
        cells.push(
            bound
                .map(|time| time.as_nanos().to_string())
                .unwrap_or_default(),
        );
        match figure {
            Some(Quantile::AtLeast(_)) => lower_bounds.push(name),
            Some(Quantile::Never) => infinite.push(name),
            Some(Quantile::Exact(_)) | None => {}
        }
    }
    cells.extend([lower_bounds.join(" "), infinite.join(" ")]);
    cells
}

/// The word that trial.json has for it.
fn validity(validity: &Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Limited { .. } => "limited",
        Validity::Invalid { .. } => "invalid",
    }
}

/// The times, in the order of the columns.
fn times(stats: &TrialStats) -> [(&'static str, Option<Quantile>); 8] {
    [
        ("mean", stats.mean),
        ("median", stats.median),
        ("p90", stats.p90),
        ("p95", stats.p95),
        ("p99", stats.p99),
        ("p999", stats.p999),
        ("max", stats.max),
        ("service_median", stats.service_median),
    ]
}
