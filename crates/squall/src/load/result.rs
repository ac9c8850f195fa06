//! What a load has measured, and whether it succeeded.
//!
//! Nothing is printed here: `ending` and `report` show the result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use squall_analysis::load::{Generator, LoadTotals, PageTotals, Punctuality, SendLimits, Timeline};
use squall_base::record::SideCounts;
use squall_base::{Duration, Time};
use squall_report::load::FinishedLoad;

use super::arguments::Arguments;
use super::parts::DrawnLoad;
use crate::environment::RunBeginning;

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
    /// The requests to draw, for `--report`.
    pub(super) drawn: Option<DrawnLoad>,
    /// For `--report`: the machine, and the command.
    pub(super) beginning: Option<RunBeginning>,
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
    pub(super) fn addresses_and_threads(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let threads = format!("threads {}\n", self.threads);
        if addresses.is_empty() {
            return threads;
        }
        format!("asked {}\n{threads}", addresses.join(", "))
    }

    /// Whether every measured request was answered, some request succeeded, and every file was written. A request without a
    /// response at the end of the drain counts as failed, like a refused one. Without a drain, requests in flight at the end
    /// are not failures.
    pub(super) fn is_success(&self, arguments: &Arguments) -> bool {
        let totals = &self.totals;
        let all_answered = totals.censored() == 0 || arguments.amount.drain().is_zero();
        totals.failed() == 0
            && all_answered
            && !self.gave_up
            && !self.has_failed_files
            && totals.has_success()
    }
}
