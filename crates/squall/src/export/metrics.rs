//! Counts and response times of trials as metrics.
//!
//! squall-analysis computes the sums; this module names the metrics and their labels.

use std::path::Path;

use anyhow::Result;
use squall_analysis::RequestTotals;
use squall_base::record::{DirectionHealth, RequestRecord};
use squall_record::export::{ExportError, MetricFamily, MetricKind, OpenMetricsExport};

use super::destination::{Destination, write_to};
use super::rows::requests_of;
use crate::trials::SelectedTrial;

const REQUESTS: MetricFamily = counter("squall_requests", "", "Measured requests by outcome.");
const SUCCEEDED: MetricFamily = counter(
    "squall_succeeded_requests",
    "",
    "Measured requests with a complete response and a status below 400.",
);
const REQUEST_BYTES: MetricFamily = counter(
    "squall_request_body_bytes",
    "bytes",
    "Bodies of measured requests.",
);
const RESPONSE_BYTES: MetricFamily = counter(
    "squall_response_body_bytes",
    "bytes",
    "Bodies of responses to measured requests, as far as they arrived.",
);
const TIMES: MetricFamily = MetricFamily {
    name: "squall_response_time_seconds",
    kind: MetricKind::Histogram,
    unit: "seconds",
    help: "From when a request was due to its end; those given up by their lower bound, without failed ones.",
};
const CONNECTIONS: MetricFamily = counter(
    "squall_connections_opened",
    "",
    "Connections that the client opened, with the warm-up.",
);
const PACKETS: MetricFamily = counter(
    "squall_link_packets",
    "",
    "Packets that reached a link and copies that it made, by their end, with the warm-up.",
);
const VALID: MetricFamily = MetricFamily {
    name: "squall_trial_valid",
    kind: MetricKind::Gauge,
    unit: "",
    help: "0 if the trial is invalid or doubtful, otherwise 1.",
};

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily {
        name,
        kind: MetricKind::Counter,
        unit,
        help,
    }
}

/// The sums of a trial or of a table, and its labels.
struct Series<'a> {
    labels: Vec<(&'static str, String)>,
    totals: RequestTotals,
    /// `None` for a table.
    trial: Option<&'a SelectedTrial>,
}

impl Series<'_> {
    /// Its own labels, followed by these.
    fn labels<'l>(&'l self, further: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)> {
        let own = self.labels.iter();
        own.map(|(name, value)| (*name, value.as_str()))
            .chain(further.iter().copied())
            .collect()
    }
}

/// Writes the metrics of trials.
pub(super) fn export(selected: &[SelectedTrial], output: Option<&Path>) -> Result<()> {
    let mut all = Vec::new();
    for it in selected {
        let trial = &it.record.trial;
        all.push(Series {
            labels: vec![
                ("trial", trial.index.to_string()),
                ("variant", trial.variant.name.clone()),
                ("condition", trial.condition.to_string()),
                ("repetition", (trial.repetition + 1).to_string()),
            ],
            totals: RequestTotals::of(&requests_of(it)?),
            trial: Some(it),
        });
    }
    write_to(output, |out| write(out, &all))
}

/// Writes the metrics of a table alone.
pub(super) fn export_table(requests: &[RequestRecord], output: Option<&Path>) -> Result<()> {
    let only = Series {
        labels: Vec::new(),
        totals: RequestTotals::of(requests),
        trial: None,
    };
    write_to(output, |out| write(out, &[only]))
}

/// A family, the name of its samples, and the sum that is their value.
type Sum = (MetricFamily, &'static str, fn(&RequestTotals) -> u64);

fn write(out: Destination, all: &[Series<'_>]) -> Result<Destination, ExportError> {
    let mut export = OpenMetricsExport::new(out);
    export.family(&REQUESTS)?;
    for series in all {
        for (outcome, count) in series.totals.outcomes() {
            let labels = series.labels(&[("outcome", outcome.name())]);
            export.sample("squall_requests_total", &labels, count)?;
        }
    }
    let sums: [Sum; 3] = [
        (SUCCEEDED, "squall_succeeded_requests_total", |totals| {
            totals.succeeded
        }),
        (REQUEST_BYTES, "squall_request_body_bytes_total", |totals| {
            totals.request_body_bytes
        }),
        (
            RESPONSE_BYTES,
            "squall_response_body_bytes_total",
            |totals| totals.response_body_bytes,
        ),
    ];
    for (family, sample, sum) in sums {
        export.family(&family)?;
        for series in all {
            export.sample(sample, &series.labels(&[]), sum(&series.totals))?;
        }
    }
    export.family(&TIMES)?;
    for series in all {
        write_times(&mut export, series)?;
    }
    if all.iter().any(|series| series.trial.is_some()) {
        write_trials(&mut export, all)?;
    }
    export.finish()
}

fn write_times(
    export: &mut OpenMetricsExport<Destination>,
    series: &Series<'_>,
) -> Result<(), ExportError> {
    let totals = &series.totals;
    for (limit, count) in totals.times_within() {
        // With a decimal point, which the format requires.
        let limit = format!("{:?}", limit.as_secs_f64());
        let labels = series.labels(&[("le", limit.as_str())]);
        export.sample("squall_response_time_seconds_bucket", &labels, count)?;
    }
    let labels = series.labels(&[("le", "+Inf")]);
    export.sample(
        "squall_response_time_seconds_bucket",
        &labels,
        totals.times(),
    )?;
    let labels = series.labels(&[]);
    export.sample(
        "squall_response_time_seconds_count",
        &labels,
        totals.times(),
    )?;
    export.sample(
        "squall_response_time_seconds_sum",
        &labels,
        totals.times_sum_s(),
    )
}

/// What trial.json adds.
fn write_trials(
    export: &mut OpenMetricsExport<Destination>,
    all: &[Series<'_>],
) -> Result<(), ExportError> {
    let trials = || {
        all.iter()
            .filter_map(|series| Some((series, series.trial?)))
    };
    export.family(&CONNECTIONS)?;
    for (series, trial) in trials() {
        let opened = trial.record.connections_opened;
        export.sample(
            "squall_connections_opened_total",
            &series.labels(&[]),
            opened,
        )?;
    }
    export.family(&PACKETS)?;
    for (series, trial) in trials() {
        for link in &trial.record.health.link {
            let hop = link.hop.to_string();
            for (end, count) in ends(link) {
                let labels = [
                    ("hop", hop.as_str()),
                    ("direction", link.direction.name()),
                    ("end", end),
                ];
                export.sample("squall_link_packets_total", &series.labels(&labels), count)?;
            }
        }
    }
    export.family(&VALID)?;
    for (series, trial) in trials() {
        let is_valid = !trial.record.health.validity.is_disturbed();
        export.sample(
            "squall_trial_valid",
            &series.labels(&[]),
            u8::from(is_valid),
        )?;
    }
    Ok(())
}

/// A link's packets, counted by what became of them.
fn ends(link: &DirectionHealth) -> [(&'static str, u64); 4] {
    [
        ("delivered", link.delivered),
        ("dropped", link.dropped),
        ("write_error", link.write_errors),
        ("in_flight", link.in_flight),
    ]
}
