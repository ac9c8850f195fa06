//! The figures of trials as a table, CSV or Parquet: a row for each trial, with its cell.
//!
//! squall-analysis computes the figures. A figure is null if there are too few requests for it, or if failed requests make it
//! infinite. If it depends on how long unfinished requests would have taken, a lower bound is given. Two columns name the
//! figures that are infinite or lower bounds.

use std::path::Path;

use anyhow::Result;
use squall_analysis::{Quantile, TrialStats, trial_stats};
use squall_base::Duration;
use squall_base::record::{TrialRecord, Validity};
use squall_record::export::{FigureColumn, write_figures_csv, write_figures_parquet};

use super::destination::write_to;
use super::rows::requests_of;
use crate::trials::SelectedTrial;

/// Reads one of the times of a trial.
type TimeOf = fn(&TrialStats) -> Option<Quantile>;

/// The times, in the order of their columns, whose names end in `_ns`.
const TIMES: [(&str, TimeOf); 8] = [
    ("mean_ns", |it| it.mean),
    ("median_ns", |it| it.median),
    ("p90_ns", |it| it.p90),
    ("p95_ns", |it| it.p95),
    ("p99_ns", |it| it.p99),
    ("p999_ns", |it| it.p999),
    ("max_ns", |it| it.max),
    ("service_median_ns", |it| it.service_median),
];

/// The rows of the table.
struct Rows<'a> {
    /// Each trial, with its figures.
    trials: Vec<(&'a TrialRecord, TrialStats)>,
}

/// Writes the figures of the selected trials: as Parquet into a file whose name ends in `.parquet`, otherwise as CSV.
pub(super) fn export(selected: &[SelectedTrial], output: Option<&Path>) -> Result<()> {
    let mut trials = Vec::with_capacity(selected.len());
    for it in selected {
        let stats = trial_stats(&it.record, &requests_of(it)?);
        trials.push((&it.record, stats));
    }
    let columns = Rows { trials }.columns();
    if output.is_some_and(is_parquet) {
        write_to(output, |out| write_figures_parquet(out, columns))
    } else {
        write_to(output, |out| write_figures_csv(out, &columns))
    }
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "parquet")
}

impl Rows<'_> {
    fn columns(&self) -> Vec<(&'static str, FigureColumn)> {
        let mut columns = self.cells();
        columns.extend(self.figures());
        columns.extend(TIMES.map(|(name, time_of)| (name, self.times(time_of))));
        columns.extend([
            (
                "lower_bounds",
                self.names(|time| matches!(time, Quantile::AtLeast(_))),
            ),
            (
                "infinite",
                self.names(|time| matches!(time, Quantile::Never)),
            ),
        ]);
        columns
    }

    /// What each trial is: its place in the run, and its cell.
    fn cells(&self) -> Vec<(&'static str, FigureColumn)> {
        let path = |record: &TrialRecord| Some(record.trial.variant.path.clone());
        let paths = self.trials.iter().map(|(record, _)| path(record));
        vec![
            ("trial", self.counts(|it| it.index.into())),
            ("folder", self.texts(|it| it.folder.clone())),
            ("variant", self.texts(|it| it.variant.clone())),
            ("path", FigureColumn::Texts(paths.collect())),
            ("condition", self.texts(|it| it.condition.to_string())),
            (
                "delay_up_ns",
                self.counts(|it| it.condition.delay.up.as_nanos()),
            ),
            (
                "delay_down_ns",
                self.counts(|it| it.condition.delay.down.as_nanos()),
            ),
            (
                "loss_up",
                self.numbers(|it| Some(it.condition.loss.up.get())),
            ),
            (
                "loss_down",
                self.numbers(|it| Some(it.condition.loss.down.get())),
            ),
            ("repetition", self.counts(|it| u64::from(it.repetition) + 1)),
            ("seed", self.counts(|it| it.seed)),
            ("attempt", self.counts(|it| it.attempt.into())),
            (
                "validity",
                self.texts(|it| validity(&it.validity).to_owned()),
            ),
        ]
    }

    /// The figures other than times of requests.
    fn figures(&self) -> Vec<(&'static str, FigureColumn)> {
        vec![
            ("asked", self.counts(|it| it.asked)),
            ("answered", self.counts(|it| it.answered)),
            ("failed", self.counts(|it| it.failed)),
            ("censored", self.counts(|it| it.censored)),
            (
                "connections_opened",
                self.counts(|it| it.connections_opened.into()),
            ),
            (
                "rate_asked_per_s",
                self.numbers(|it| Some(it.rate_asked_per_s)),
            ),
            (
                "rate_achieved_per_s",
                self.numbers(|it| Some(it.rate_achieved_per_s)),
            ),
            (
                "throughput_bytes_per_s",
                self.numbers(|it| it.throughput_bytes_per_s),
            ),
            ("own_error_ns", self.counts(|it| it.own_error.as_nanos())),
        ]
    }

    fn counts(&self, of: impl Fn(&TrialStats) -> u64) -> FigureColumn {
        FigureColumn::Counts(self.each(|stats| Some(of(stats))))
    }

    fn numbers(&self, of: impl Fn(&TrialStats) -> Option<f64>) -> FigureColumn {
        FigureColumn::Numbers(self.each(of))
    }

    fn texts(&self, of: impl Fn(&TrialStats) -> String) -> FigureColumn {
        FigureColumn::Texts(self.each(|stats| Some(of(stats))))
    }

    fn times(&self, time_of: TimeOf) -> FigureColumn {
        let bound = |stats: &TrialStats| time_of(stats).and_then(Quantile::lower_bound);
        FigureColumn::Counts(self.each(|stats| bound(stats).map(Duration::as_nanos)))
    }

    /// For each trial, the names of those times that `is_meant` selects, without their unit; null if there are none.
    fn names(&self, is_meant: impl Fn(Quantile) -> bool) -> FigureColumn {
        FigureColumn::Texts(self.each(|stats| {
            let meant = TIMES
                .iter()
                .filter(|(_, of)| of(stats).is_some_and(&is_meant));
            let names: Vec<&str> = meant
                .map(|(name, _)| name.trim_end_matches("_ns"))
                .collect();
            (!names.is_empty()).then(|| names.join(" "))
        }))
    }

    fn each<T>(&self, of: impl Fn(&TrialStats) -> Option<T>) -> Vec<Option<T>> {
        self.trials.iter().map(|(_, stats)| of(stats)).collect()
    }
}

/// The word for this validity in trial.json.
fn validity(validity: &Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Doubtful { .. } => "doubtful",
        Validity::Limited { .. } => "limited",
        Validity::Invalid { .. } => "invalid",
    }
}
