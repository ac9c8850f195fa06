//! How far squall itself may have moved a trial's response times.
//!
//! Each request has its own lag, and was delayed by the links at most for as long as one ran late during the request. A
//! figure's error is how much smaller the figure would be without both, so a delay counts only as far as it changed the figure.
//! Knock-on effects of a late packet are not included, such as a retransmission that would not have happened otherwise.
//! docs/METHOD.md, "Our own error", explains the rule; `trial` has the bound for all other times.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::Statistic;
use squall_base::record::{LateSpans, RequestRecord, TrialRecord};

use crate::figures::Figures;
use crate::latency::latency_since;
use crate::quantile::{Quantile, Sample};

/// How far squall itself may have moved each figure of the response times; `None` if that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnErrors {
    /// The mean.
    pub mean: Option<Duration>,
    /// The median.
    pub median: Option<Duration>,
    /// The 90th percentile.
    pub p90: Option<Duration>,
    /// The 95th percentile.
    pub p95: Option<Duration>,
    /// The 99th percentile.
    pub p99: Option<Duration>,
    /// The 99.9th percentile.
    pub p999: Option<Duration>,
}

impl OwnErrors {
    /// The errors for a trial's measured requests, given the figures of their response times. All `None` if the record does not
    /// say when its links ran late.
    pub(crate) fn of<'a>(
        record: &TrialRecord,
        measured: impl Iterator<Item = &'a RequestRecord>,
        response: &Figures,
    ) -> OwnErrors {
        let Some(late) = &record.health.link_late else {
            return OwnErrors::default();
        };
        let without: Sample = measured.map(|request| without_own(request, late)).collect();
        let without = Figures::of(&without);
        let unlisted = unlisted(record);
        let error = |figure: fn(&Figures) -> Option<Quantile>| {
            let (with, without) = (figure(response)?.exact()?, figure(&without)?.exact()?);
            Some(with - without + unlisted)
        };
        OwnErrors {
            mean: error(|figures| figures.mean),
            median: error(|figures| figures.median),
            p90: error(|figures| figures.p90),
            p95: error(|figures| figures.p95),
            p99: error(|figures| figures.p99),
            p999: error(|figures| figures.p999),
        }
    }

    /// The error of a statistic; `None` for the interquartile range, whose percentiles may move in opposite directions.
    pub(crate) fn get(&self, statistic: Statistic) -> Option<Duration> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.median,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
            Statistic::P999 => self.p999,
            Statistic::Iqr => None,
        }
    }
}

/// A response time without the request's lag and the time for which a link ran late.
fn without_own(request: &RequestRecord, late: &LateSpans) -> Quantile {
    let own = late.within(request.taken_up, request.end);
    match latency_since(request, request.taken_up) {
        Quantile::Exact(time) => Quantile::Exact(time - own),
        Quantile::AtLeast(time) => Quantile::AtLeast(time - own),
        Quantile::Never => Quantile::Never,
    }
}

/// What the delays that are too short to be listed may add to a response time: one wake-up and one late packet in each
/// direction of each link.
fn unlisted(record: &TrialRecord) -> Duration {
    let health = &record.health;
    let links = record.trial.variant.links().max(1);
    let lateness = health.link.iter().map(|direction| direction.lateness);
    std::iter::repeat_n(health.link_wakeup, links)
        .chain(lateness)
        .fold(Duration::ZERO, |sum, lateness| {
            sum + lateness.p999.min(LateSpans::SHORTEST)
        })
}
