//! Histograms of durations or delays: any number of values in constant memory.

use hdrhistogram::Histogram;
use squall_base::Duration;
use squall_base::record::Lateness;

/// Time spans at a resolution of 0.1 %.
#[derive(Clone, Debug)]
pub struct DurationHistogram(Histogram<u64>);

impl DurationHistogram {
    /// An empty histogram.
    pub fn new() -> DurationHistogram {
        DurationHistogram(Histogram::new(3).expect("3 significant digits are within 0 to 5"))
    }

    /// Adds one span.
    pub fn add(&mut self, span: Duration) {
        let added = self.0.record(span.as_nanos());
        added.expect("a histogram that grows by itself takes every value");
    }

    /// Adds all spans of `other`.
    pub fn merge(&mut self, other: &DurationHistogram) {
        let added = self.0.add(&other.0);
        added.expect("a histogram that grows by itself takes every value");
    }

    /// How many spans there are of each length, the shortest first. A length is rounded up by at most 0.1 %.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.0.iter_recorded().map(|cell| {
            let length = Duration::from_nanos(cell.value_iterated_to());
            (length, cell.count_since_last_iteration())
        })
    }

    /// Their mean; zero if the histogram is empty.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean().round() as u64)
    }

    /// The value below which a share of `quantile` lies; zero if the histogram is empty.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// A summary of all spans.
    pub fn lateness(&self) -> Lateness {
        Lateness {
            count: self.0.len(),
            p50: self.quantile(0.50),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: Duration::from_nanos(self.0.max()),
        }
    }
}

impl Default for DurationHistogram {
    fn default() -> Self {
        DurationHistogram::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_include_every_span_within_the_resolution() {
        let ms = Duration::from_millis;
        let mut spans = DurationHistogram::new();
        for span in [20, 20, 60] {
            spans.add(ms(span));
        }
        let counts: Vec<(Duration, u64)> = spans.counts().collect();
        assert_eq!(
            counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
            [2, 1]
        );
        for ((found, _), span) in counts.iter().zip([20, 60]) {
            assert!((ms(span)..=ms(span) + Duration::from_micros(span)).contains(found));
        }
        let mean = spans.mean().as_millis_f64();
        assert!((mean / (100.0 / 3.0) - 1.0).abs() < 0.001, "{mean}");
        assert_eq!(DurationHistogram::new().mean(), Duration::ZERO);
    }

    #[test]
    fn spans_of_any_size_are_summarised() {
        let mut spans = DurationHistogram::new();
        for nanos in 1..=1_000 {
            spans.add(Duration::from_nanos(nanos));
        }
        spans.add(Duration::from_secs(3_600));
        let lateness = spans.lateness();
        assert_eq!((lateness.count, lateness.p50.as_nanos()), (1_001, 501));
        assert!(lateness.max >= Duration::from_secs(3_600));
        assert_eq!(DurationHistogram::new().lateness(), Lateness::default());
        let mut both = DurationHistogram::new();
        both.add(Duration::from_nanos(7));
        both.merge(&spans);
        let merged = both.lateness();
        assert_eq!((merged.count, merged.max), (1_002, lateness.max));
    }
}
