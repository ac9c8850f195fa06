//! The end of a load: the summary or JSON, thresholds, and the exit code.
//!
//! squall-analysis computes the figures, squall-report formats them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use squall_analysis::load::{
    Generator, LoadTotals, PageTotals, Punctuality, Round, SendLimits, Timeline, VariantRounds,
};
use squall_analysis::{Latency, Percentile, Quantile, ThresholdSource};
use squall_base::record::SideCounts;
use squall_base::{Duration, Time};
use squall_report::load::{ComparisonJson, FinishedLoad, LoadJson, comparison, summary};

use super::arguments::Arguments;
use super::report::{self, ReportedVariant};
use super::screen::text_format;
use crate::outcome::{CommandOutcome, FAILED, THRESHOLD_FAILED};
use crate::{interrupt, output, pages};

/// The result of one run.
pub(super) struct LoadResult {
    pub(super) totals: LoadTotals,
    /// When the load ended, counted from the epoch.
    pub(super) end: Time,
    pub(super) counts: SideCounts,
    pub(super) machine_errors: BTreeMap<String, u64>,
    /// What delayed its requests.
    pub(super) causes: SendLimits,
    /// Totals of the pages, for a load of pages.
    pub(super) pages: Option<PageTotals>,
    /// For `--hold`: response times, each with the number of its request.
    pub(super) answers: Vec<(u32, Duration)>,
    /// For `--report`: its measured phase over time.
    pub(super) timeline: Option<Timeline>,
    pub(super) threads: u32,
    /// The addresses that requests were sent to.
    pub(super) addresses: BTreeSet<SocketAddr>,
    /// Processor time of the busiest client's thread during the load, as a share of the load's length.
    pub(super) cpu_percent: f64,
    /// Delays that the machine caused to the clients.
    pub(super) punctuality: Punctuality,
    /// The number of requests in the schedule, or of those started.
    pub(super) requests: u64,
    /// Requests per second that the schedule asked for.
    pub(super) rate_asked_per_s: Option<f64>,
    /// Whether a client stopped because of `--give-up`.
    pub(super) gave_up: bool,
    /// Whether a file could not be written completely.
    pub(super) has_failed_files: bool,
}

/// The figures that thresholds are checked against.
struct LoadSource<'a> {
    result: &'a LoadResult,
}

impl ThresholdSource for LoadSource<'_> {
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile> {
        let quantile = f64::from(percentile.per_million()) / 1e6;
        match of {
            Latency::ResponseTime => self.result.totals.response_quantile(quantile),
            Latency::ServiceTime => {
                let service = self.result.totals.service();
                service.quantile(quantile).map(Quantile::Exact)
            }
            Latency::FirstChunk => self.result.totals.first_chunk_quantile(quantile),
            Latency::Gap => {
                let gaps = self.result.totals.gaps();
                gaps.quantile(quantile).map(Quantile::Exact)
            }
        }
    }

    fn mean(&self, of: Latency) -> Option<Quantile> {
        self.adjusted(of, self.latencies(of).mean())
    }

    fn min(&self, of: Latency) -> Option<Quantile> {
        self.latencies(of).min().map(Quantile::Exact)
    }

    fn max(&self, of: Latency) -> Option<Quantile> {
        self.adjusted(of, self.latencies(of).max())
    }

    fn requests(&self) -> u64 {
        self.result.totals.requests()
    }

    fn requests_per_s(&self) -> Option<f64> {
        self.result.totals.achieved_per_s(self.result.end)
    }

    fn errors(&self) -> u64 {
        self.result.totals.failed()
    }
}

impl LoadSource<'_> {
    fn latencies(&self, of: Latency) -> &squall_analysis::load::Latencies {
        match of {
            Latency::ResponseTime => self.result.totals.response(),
            Latency::ServiceTime => self.result.totals.service(),
            Latency::FirstChunk => self.result.totals.first_chunk(),
            Latency::Gap => self.result.totals.gaps(),
        }
    }

    /// Adjusts a figure over all requests: failed requests never end, and unfinished ones have only a lower bound.
    fn adjusted(&self, of: Latency, value: Option<Duration>) -> Option<Quantile> {
        let totals = &self.result.totals;
        let unfinished = match of {
            Latency::ResponseTime => totals.unfinished(),
            Latency::FirstChunk => totals.unfinished_without_chunk(),
            Latency::ServiceTime | Latency::Gap => return value.map(Quantile::Exact),
        };
        match (value, unfinished.max()) {
            _ if totals.failed() > 0 => Some(Quantile::Never),
            (Some(value), Some(waited)) => Some(Quantile::AtLeast(value.max(waited))),
            (value, _) => value.map(Quantile::Exact),
        }
    }
}

impl LoadResult {
    pub(super) fn finished(&self) -> FinishedLoad<'_> {
        FinishedLoad {
            end: self.end,
            totals: &self.totals,
            counts: &self.counts,
            machine_errors: &self.machine_errors,
            causes: &self.causes,
            pages: self.pages.as_ref(),
            generator: Generator {
                rate_asked_per_s: self.rate_asked_per_s,
                cpu_percent: Some(self.cpu_percent),
                punctuality: Some(self.punctuality),
            },
        }
    }

    /// The addresses that requests were sent to, and the number of threads.
    fn addresses_and_threads(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let threads = format!("threads {}\n", self.threads);
        if addresses.is_empty() {
            return threads;
        }
        format!("asked {}\n{threads}", addresses.join(", "))
    }

    /// Whether every request was answered and every file written. A request without a response at the end of the drain
    /// counts as failed, like a refused one. Without a drain, requests in flight at the end are not failures.
    fn is_success(&self, arguments: &Arguments) -> bool {
        let totals = &self.totals;
        let all_answered = totals.censored() == 0 || arguments.amount.drain().is_zero();
        totals.failed() == 0
            && all_answered
            && !self.gave_up
            && !self.has_failed_files
            && (totals.succeeded() > 0 || totals.warmup() > 0)
    }
}

/// Prints the result of one run.
pub(super) fn conclude(arguments: &Arguments, result: &LoadResult) -> Result<CommandOutcome> {
    let finished = result.finished();
    let format = text_format(std::io::stdout().is_terminal());
    let checked = thresholds(arguments, result);
    let all_hold = checked.iter().all(|(_, holds)| *holds);
    let mut text = summary(&finished, &format);
    text += &held_line(result);
    for (sentence, _) in &checked {
        text += &format!("{sentence}\n");
    }
    if result.gave_up {
        let waited = arguments.amount.give_up;
        text +=
            &format!("given up: none of the open requests had ended for {waited} (--give-up)\n");
    }
    text += &result.addresses_and_threads();
    write(arguments, text, || figures(arguments, result))?;
    if let Some(path) = &arguments.outputs.report {
        report::write(path, vec![ReportedVariant::once(result)], checked)?;
    }
    Ok(outcome(all_hold, result.is_success(arguments)))
}

/// Prints the results of the rounds of several variants.
pub(super) fn conclude_comparison(
    arguments: &Arguments,
    variants: &[(String, Vec<LoadResult>)],
) -> Result<CommandOutcome> {
    let format = text_format(std::io::stdout().is_terminal());
    let (mut text, mut is_success) = (String::new(), true);
    let (mut rounds, mut reported, mut checked) = (Vec::new(), Vec::new(), Vec::new());
    for (name, results) in variants {
        let Some(last) = results.last() else { continue };
        text += &format!("--- {name}, last of {} rounds\n", results.len());
        text += &summary(&last.finished(), &format);
        text += &held_line(last);
        text += &last.addresses_and_threads();
        for (round, result) in (1..).zip(results) {
            for (sentence, holds) in thresholds(arguments, result) {
                text += &format!("round {round}: {sentence}\n");
                checked.push((format!("{name}, round {round}: {sentence}"), holds));
            }
            is_success &= result.is_success(arguments);
        }
        text.push('\n');
        let figures = VariantRounds {
            name: name.clone(),
            rounds: (results
                .iter()
                .map(|result| Round::of(&result.totals, result.end)))
            .collect(),
        };
        reported.push(ReportedVariant::of_rounds(figures.clone(), last));
        rounds.push(figures);
    }
    text += &comparison(&rounds, &format);
    write(arguments, text, || {
        let mut runs = Vec::new();
        for (name, results) in variants {
            for result in results {
                runs.push(json!({ "variant": name, "figures": figures(arguments, result)? }));
            }
        }
        Ok(json!({ "comparison": ComparisonJson::of(&rounds), "runs": runs }))
    })?;
    let all_hold = checked.iter().all(|(_, holds)| *holds);
    if let Some(path) = &arguments.outputs.report {
        report::write(path, reported, checked)?;
    }
    Ok(outcome(all_hold, is_success))
}

/// How a load ended: whether all thresholds hold, and whether every request was answered and every file written.
fn outcome(all_hold: bool, is_success: bool) -> CommandOutcome {
    match () {
        () if interrupt::is_requested() => CommandOutcome::Interrupted,
        () if !all_hold => CommandOutcome::Code(THRESHOLD_FAILED),
        () if is_success => CommandOutcome::Success,
        () => CommandOutcome::Code(FAILED),
    }
}

/// A sentence for each threshold, and whether it holds.
fn thresholds(arguments: &Arguments, result: &LoadResult) -> Vec<(String, bool)> {
    let source = LoadSource { result };
    let thresholds = arguments.outputs.threshold.iter();
    thresholds
        .map(|threshold| {
            let checked = threshold.check(&source);
            (checked.sentence(threshold), checked.holds)
        })
        .collect()
}

/// All figures of a run, as JSON.
fn figures(arguments: &Arguments, result: &LoadResult) -> Result<Value> {
    let mut figures = serde_json::to_value(LoadJson::of(&result.finished()))?;
    let source = LoadSource { result };
    let thresholds: Vec<Value> = (arguments.outputs.threshold.iter())
        .map(|threshold| {
            let checked = threshold.check(&source);
            json!({
                "condition": threshold.to_string(),
                "holds": checked.holds,
                "measured": checked.measured,
            })
        })
        .collect();
    figures["thresholds"] = thresholds.into();
    figures["threads"] = result.threads.into();
    figures["addresses"] = json!(result.addresses);
    Ok(figures)
}

/// For `--hold`: a line that says whether the second request had to wait for the first.
fn held_line(result: &LoadResult) -> String {
    pages::held(&result.answers).map_or_else(String::new, |said| said + "\n")
}

/// Writes the text to stdout, and JSON where it was requested.
fn write(
    arguments: &Arguments,
    text: String,
    figures: impl FnOnce() -> Result<Value>,
) -> Result<()> {
    let pretty =
        |figures: Value| -> Result<String> { Ok(serde_json::to_string_pretty(&figures)? + "\n") };
    match arguments.outputs.json.as_deref() {
        None => output::print(text),
        Some("-") => output::print(pretty(figures()?)?),
        Some(path) => {
            let path = Path::new(path);
            let written = std::fs::write(path, pretty(figures()?)?)
                .with_context(|| format!("cannot write {}", path.display()));
            // On a full disk, the text is all that is left of the load.
            output::print(text)?;
            written
        }
    }
}
