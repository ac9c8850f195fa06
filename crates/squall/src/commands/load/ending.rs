//! What is said at the end of a load: the summary or JSON, thresholds, and the exit code.
//!
//! The figures are squall-analysis's, their text is squall-report's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use squall_analysis::load::{
    Causes, Generator, LoadTotals, PageTotals, Punctuality, Round, VariantRounds,
};
use squall_analysis::{Latency, Percentile, Quantile, Source};
use squall_base::record::SideCounts;
use squall_base::{Duration, Time};
use squall_report::load::{ComparisonJson, Finished, LoadJson, comparison, summary};

use super::arguments::Arguments;
use super::screen::look;
use crate::{Ending, THRESHOLD_FAILED, interrupt, output, pages};

/// What a run came to.
pub(super) struct Ran {
    pub(super) totals: LoadTotals,
    /// When the load was over, from the epoch.
    pub(super) end: Time,
    pub(super) counts: SideCounts,
    pub(super) machine_errors: BTreeMap<String, u64>,
    /// What held up what it sent.
    pub(super) causes: Causes,
    /// Of a load of pages.
    pub(super) pages: Option<PageTotals>,
    /// Of `--hold`: how long answers took, with what they answer.
    pub(super) answers: Vec<(u32, Duration)>,
    pub(super) threads: u32,
    /// Where its requests went.
    pub(super) addresses: BTreeSet<SocketAddr>,
    /// Processor time of the busiest client's thread while the load ran, as a share of its length.
    pub(super) cpu_percent: f64,
    /// What the machine did to all of them.
    pub(super) punctuality: Punctuality,
    /// Requests of the schedule, or those that were begun.
    pub(super) requests: u64,
    /// Requests a second that the schedule wanted.
    pub(super) rate_asked_per_s: Option<f64>,
    /// Whether a client waited in vain for `--give-up`.
    pub(super) gave_up: bool,
}

/// What thresholds are held against.
struct Measured<'a> {
    ran: &'a Ran,
}

impl Source for Measured<'_> {
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile> {
        let quantile = f64::from(percentile.per_million()) / 1e6;
        match of {
            Latency::ResponseTime => self.ran.totals.response_quantile(quantile),
            Latency::ServiceTime => {
                let service = self.ran.totals.service();
                service.quantile(quantile).map(Quantile::Exact)
            }
        }
    }

    fn mean(&self, of: Latency) -> Option<Quantile> {
        self.known(of, self.latencies(of).mean())
    }

    fn min(&self, of: Latency) -> Option<Quantile> {
        self.latencies(of).min().map(Quantile::Exact)
    }

    fn max(&self, of: Latency) -> Option<Quantile> {
        self.known(of, self.latencies(of).max())
    }

    fn requests(&self) -> u64 {
        self.ran.totals.requests()
    }

    fn requests_per_s(&self) -> Option<f64> {
        self.ran.totals.achieved_per_s(self.ran.end)
    }

    fn errors(&self) -> u64 {
        self.ran.totals.failed()
    }
}

impl Measured<'_> {
    fn latencies(&self, of: Latency) -> &squall_analysis::load::Latencies {
        match of {
            Latency::ResponseTime => self.ran.totals.response(),
            Latency::ServiceTime => self.ran.totals.service(),
        }
    }

    /// What all requests together say: failed ones have no end, unfinished ones only a lower bound.
    fn known(&self, of: Latency, value: Option<Duration>) -> Option<Quantile> {
        let totals = &self.ran.totals;
        match value {
            _ if of == Latency::ResponseTime && totals.failed() > 0 => Some(Quantile::Never),
            Some(value) if of == Latency::ResponseTime && totals.censored() > 0 => {
                let unfinished = totals.unfinished().max().unwrap_or_default();
                Some(Quantile::AtLeast(value.max(unfinished)))
            }
            value => value.map(Quantile::Exact),
        }
    }
}

impl Ran {
    fn finished(&self) -> Finished<'_> {
        Finished {
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

    /// Whom it asked, and with how many threads.
    fn whereabouts(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!("asked {}\nthreads {}\n", addresses.join(", "), self.threads)
    }

    /// Whether everybody was answered. Who was not within the time that answers are waited for has failed as much as
    /// one who was refused; only if nothing is waited for, what is under way at the end is nobody's failure.
    fn is_fine(&self, arguments: &Arguments) -> bool {
        let totals = &self.totals;
        let all_answered = totals.censored() == 0 || arguments.amount.drain.is_zero();
        totals.failed() == 0
            && all_answered
            && !self.gave_up
            && (totals.succeeded() > 0 || totals.warmup() > 0)
    }
}

/// Says what one run came to.
pub(super) fn conclude(arguments: &Arguments, ran: &Ran) -> Result<Ending> {
    let finished = ran.finished();
    let look = look(std::io::stdout().is_terminal());
    let (sentences, all_hold) = thresholds(arguments, ran);
    let mut text = summary(&finished, &look);
    text += &held_line(ran);
    text += &sentences;
    if ran.gave_up {
        let vainly = arguments.amount.give_up;
        text +=
            &format!("given up: none of the open requests had ended for {vainly} (--give-up)\n");
    }
    text += &ran.whereabouts();
    write(arguments, text, || figures(arguments, ran))?;
    Ok(match () {
        () if interrupt::is_requested() => Ending::Interrupted,
        () if !all_hold => Ending::Code(THRESHOLD_FAILED),
        () if ran.is_fine(arguments) => Ending::Fine,
        () => Ending::Code(crate::FAILED),
    })
}

/// Says what the rounds of several variants came to.
pub(super) fn conclude_comparison(
    arguments: &Arguments,
    variants: &[(String, Vec<Ran>)],
) -> Result<Ending> {
    let look = look(std::io::stdout().is_terminal());
    let (mut text, mut all_hold, mut is_fine) = (String::new(), true, true);
    let mut rounds = Vec::new();
    for (name, ran) in variants {
        let Some(last) = ran.last() else { continue };
        text += &format!("--- {name}, last of {} rounds\n", ran.len());
        text += &summary(&last.finished(), &look);
        text += &held_line(last);
        text += &last.whereabouts();
        for (round, ran) in (1..).zip(ran) {
            let (said, holds) = thresholds(arguments, ran);
            text.extend(said.lines().map(|line| format!("round {round}: {line}\n")));
            all_hold &= holds;
            is_fine &= ran.is_fine(arguments);
        }
        text.push('\n');
        rounds.push(VariantRounds {
            name: name.clone(),
            rounds: (ran.iter().map(|ran| Round::of(&ran.totals, ran.end))).collect(),
        });
    }
    text += &comparison(&rounds, &look);
    write(arguments, text, || {
        let mut runs = Vec::new();
        for (name, ran) in variants {
            for ran in ran {
                runs.push(json!({ "variant": name, "figures": figures(arguments, ran)? }));
            }
        }
        Ok(json!({ "comparison": ComparisonJson::of(&rounds), "runs": runs }))
    })?;
    Ok(match () {
        () if interrupt::is_requested() => Ending::Interrupted,
        () if !all_hold => Ending::Code(THRESHOLD_FAILED),
        () if is_fine => Ending::Fine,
        () => Ending::Code(crate::FAILED),
    })
}

/// One sentence for each threshold, and whether all hold.
fn thresholds(arguments: &Arguments, ran: &Ran) -> (String, bool) {
    let measured = Measured { ran };
    let (mut text, mut all_hold) = (String::new(), true);
    for threshold in &arguments.outputs.threshold {
        let checked = threshold.check(&measured);
        all_hold &= checked.holds;
        text += &checked.sentence(threshold);
        text.push('\n');
    }
    (text, all_hold)
}

/// Everything that is known of a run, for programs.
fn figures(arguments: &Arguments, ran: &Ran) -> Result<Value> {
    let mut figures = serde_json::to_value(LoadJson::of(&ran.finished()))?;
    let measured = Measured { ran };
    let thresholds: Vec<Value> = (arguments.outputs.threshold.iter())
        .map(|threshold| {
            let checked = threshold.check(&measured);
            json!({
                "condition": threshold.to_string(),
                "holds": checked.holds,
                "measured": checked.measured,
            })
        })
        .collect();
    figures["thresholds"] = thresholds.into();
    figures["threads"] = ran.threads.into();
    figures["addresses"] = json!(ran.addresses);
    Ok(figures)
}

/// Whether a request waited for a held one, if that was asked: a line.
fn held_line(ran: &Ran) -> String {
    pages::held(&ran.answers).map_or_else(String::new, |said| said + "\n")
}

/// Writes text to stdout and JSON where it is wanted.
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
            std::fs::write(path, pretty(figures()?)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            output::print(text)
        }
    }
}
