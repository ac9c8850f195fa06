//! A trial's requests as the source that thresholds are checked against.
//!
//! Only the measured phase counts. Every percentile is available, not just those of `trial`. The caller takes the median
//! over a cell's valid trials (`Reading::median`).

use squall_base::Duration;
use squall_base::record::{GapFigures, Outcome, Phase, RequestRecord, TrialRecord};

use crate::gaps;
use crate::latency::{first_chunk_time, latency_since};
use crate::quantile::{Quantile, Sample};
use crate::threshold::{Latency, Percentile, ThresholdSource};

/// The latencies and counts of a trial.
#[derive(Clone, Debug)]
pub struct TrialSource {
    response: Sample,
    service: Sample,
    first_chunk: Sample,
    gaps: GapFigures,
    errors: u64,
    achieved_per_s: f64,
}

impl TrialSource {
    /// From all requests of the trial, with or without the warm-up.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> TrialSource {
        let measured = || requests.iter().filter(|r| r.phase == Phase::Measure);
        let is_error = |r: &&RequestRecord| !r.succeeded() && r.outcome != Outcome::Censored;
        TrialSource {
            response: measured().map(|r| latency_since(r, r.intended)).collect(),
            service: measured()
                .map(|r| latency_since(r, r.slot.unwrap_or(r.end)))
                .collect(),
            first_chunk: measured().filter_map(first_chunk_time).collect(),
            gaps: record.gaps.unwrap_or_default(),
            errors: measured().filter(is_error).count() as u64,
            achieved_per_s: record.health.rate_achieved_per_s,
        }
    }

    /// The latencies of requests; `None` for gaps.
    fn sample(&self, of: Latency) -> Option<&Sample> {
        match of {
            Latency::ResponseTime => Some(&self.response),
            Latency::ServiceTime => Some(&self.service),
            Latency::FirstChunk => Some(&self.first_chunk),
            Latency::Gap => None,
        }
    }

    /// A figure of all gaps, if there are any.
    fn of_gaps(&self, value: Duration) -> Option<Quantile> {
        (self.gaps.count > 0).then_some(Quantile::Exact(value))
    }
}

impl ThresholdSource for TrialSource {
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile> {
        let Some(sample) = self.sample(of) else {
            return gaps::percentile(&self.gaps, percentile);
        };
        let rank = percentile.rank(sample.len() as u64)?;
        sample.at_rank(rank as usize)
    }

    fn mean(&self, of: Latency) -> Option<Quantile> {
        match self.sample(of) {
            Some(sample) => sample.mean(),
            None => self.of_gaps(self.gaps.mean),
        }
    }

    fn min(&self, of: Latency) -> Option<Quantile> {
        // Of a trial's gaps, the shortest is not recorded.
        self.sample(of)?.min()
    }

    fn max(&self, of: Latency) -> Option<Quantile> {
        match self.sample(of) {
            Some(sample) => sample.max(),
            None => self.of_gaps(self.gaps.max),
        }
    }

    fn requests(&self) -> u64 {
        self.response.len() as u64
    }

    fn requests_per_s(&self) -> Option<f64> {
        (!self.response.is_empty()).then_some(self.achieved_per_s)
    }

    fn errors(&self) -> u64 {
        self.errors
    }
}
