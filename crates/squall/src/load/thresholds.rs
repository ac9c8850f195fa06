//! Checks thresholds against the totals of a load, while it runs and at its end.
//!
//! squall-analysis `threshold.rs` defines what each metric means.

use squall_analysis::load::LoadTotals;
use squall_analysis::{Latency, Percentile, Quantile, Threshold, ThresholdSource};
use squall_base::{Duration, Time};
use squall_report::load::CheckedThreshold;

/// The figures that thresholds are checked against.
pub(super) struct LoadSource<'a> {
    pub(super) totals: &'a LoadTotals,
    /// When the load ended, or how far it is, on the clock of the totals.
    pub(super) end: Time,
}

impl ThresholdSource for LoadSource<'_> {
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile> {
        let quantile = f64::from(percentile.per_million()) / 1e6;
        match of {
            Latency::ResponseTime => self.totals.response_quantile(quantile),
            Latency::ServiceTime => {
                let service = self.totals.service();
                service.quantile(quantile).map(Quantile::Exact)
            }
            Latency::FirstChunk => self.totals.first_chunk_quantile(quantile),
            Latency::Gap => {
                let gaps = self.totals.gaps();
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
        self.totals.requests()
    }

    fn requests_per_s(&self) -> Option<f64> {
        self.totals.achieved_per_s(self.end)
    }

    fn errors(&self) -> u64 {
        self.totals.failed()
    }
}

impl LoadSource<'_> {
    fn latencies(&self, of: Latency) -> &squall_analysis::load::Latencies {
        match of {
            Latency::ResponseTime => self.totals.response(),
            Latency::ServiceTime => self.totals.service(),
            Latency::FirstChunk => self.totals.first_chunk(),
            Latency::Gap => self.totals.gaps(),
        }
    }

    /// Adjusts a figure over all requests: failed requests never end, and unfinished ones have only a lower bound.
    fn adjusted(&self, of: Latency, value: Option<Duration>) -> Option<Quantile> {
        let totals = self.totals;
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

/// The thresholds, checked against totals that go up to `end`.
pub(super) fn checked(
    thresholds: &[Threshold],
    totals: &LoadTotals,
    end: Time,
) -> Vec<CheckedThreshold> {
    let source = LoadSource { totals, end };
    let check = |threshold: &Threshold| {
        let checked = threshold.check(&source);
        CheckedThreshold {
            sentence: checked.sentence(threshold),
            holds: checked.holds,
        }
    };
    thresholds.iter().map(check).collect()
}
