//! The figures of a trial's latencies, and the interval of a figure.
//!
//! Each figure is read from the sorted latencies, which know how much of it is certain (`quantile`). The caller chooses the
//! latencies: `trial`, `page_time` or `target_times`. `stats` computes how far chance may have moved a figure, and `figure`
//! writes it.

use serde::{Deserialize, Serialize};
use squall_base::plan::Statistic;

use crate::figure;
use crate::quantile::{Quantile, Sample};

/// The 95 % interval of a figure, as far as chance is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval<T> {
    /// Its lower end.
    pub low: T,
    /// Its upper end.
    pub high: T,
}

impl Interval<f64> {
    /// The interval of a ratio, from that of its logarithm.
    pub(crate) fn of_logs((low, high): (f64, f64)) -> Interval<f64> {
        Interval {
            low: low.exp(),
            high: high.exp(),
        }
    }

    /// The interval of a ratio in words: `0.27x to 0.31x`.
    pub(crate) fn in_words(self) -> String {
        format!(
            "{} to {}",
            figure::ratio(self.low),
            figure::ratio(self.high)
        )
    }
}

/// Figures of many latencies; each is `None` if there are too few latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The mean.
    pub mean: Option<Quantile>,
    /// The median.
    pub median: Option<Quantile>,
    /// The 90th percentile.
    pub p90: Option<Quantile>,
    /// The 95th percentile.
    pub p95: Option<Quantile>,
    /// The 99th percentile.
    pub p99: Option<Quantile>,
    /// The 99.9th percentile.
    pub p999: Option<Quantile>,
    /// The 75th percentile less the 25th.
    #[serde(default)]
    pub interquartile_range: Option<Quantile>,
}

impl Figures {
    pub(crate) fn of(sample: &Sample) -> Figures {
        Figures {
            mean: sample.mean(),
            median: sample.quantile(500),
            p90: sample.quantile(900),
            p95: sample.quantile(950),
            p99: sample.quantile(990),
            p999: sample.quantile(999),
            interquartile_range: sample.interquartile_range(),
        }
    }

    pub(crate) fn get(&self, statistic: Statistic) -> Option<Quantile> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.median,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
            Statistic::P999 => self.p999,
            Statistic::Iqr => self.interquartile_range,
        }
    }
}
