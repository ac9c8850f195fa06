//! A histogram for drawing: few buckets with round edges.
//!
//! It draws nothing. The edges depend only on the range of the spans: equal steps if the largest is less than five times
//! the smallest, otherwise growing steps, as fine as fits. A span within 0.1 % of an edge may be counted on the other side
//! of it.

use squall_base::Duration;

use super::latencies::Latencies;

/// The most buckets: what a reader takes in at a glance, and half a screen.
const BUCKETS_AT_MOST: usize = 16;

/// The steps within a factor of ten, in hundredths, from fine to coarse: the series R10 and R5 of ISO 3, with 3.15 rounded
/// to 3.2, then 1-2-5 and powers of ten.
const SERIES: [&[u64]; 4] = [
    &[100, 125, 160, 200, 250, 320, 400, 500, 630, 800],
    &[100, 160, 250, 400, 630],
    &[100, 200, 500],
    &[100],
];

/// Spans from `from` up to, but not including, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its lower edge.
    pub from: Duration,
    /// Its upper edge.
    pub to: Duration,
    /// How many spans are in it.
    pub count: u64,
}

impl Latencies {
    /// All spans in up to 16 buckets, in order. The first and the last are not empty. Without spans there are no buckets.
    pub fn buckets(&self) -> Vec<Bucket> {
        let (Some(least), Some(largest)) = (self.min(), self.max()) else {
            return Vec::new();
        };
        let edges_ns = edges_ns(least.as_nanos(), largest.as_nanos());
        let mut buckets: Vec<Bucket> = edges_ns
            .windows(2)
            .map(|edges| Bucket {
                from: Duration::from_nanos(edges[0]),
                to: Duration::from_nanos(edges[1]),
                count: 0,
            })
            .collect();
        for (span, count) in self.spans() {
            let span = span.clamp(least, largest);
            let above = buckets.partition_point(|bucket| bucket.to <= span);
            let last = buckets.len() - 1;
            buckets[above.min(last)].count += count;
        }
        let is_filled = |bucket: &Bucket| bucket.count > 0;
        let first = buckets.iter().position(is_filled).unwrap_or(0);
        let end = buckets
            .iter()
            .rposition(is_filled)
            .map_or(0, |last| last + 1);
        buckets[first..end].to_vec()
    }
}

/// Edges from at most `least` to above `largest`.
fn edges_ns(least: u64, largest: u64) -> Vec<u64> {
    if largest / 5 < least.max(1) {
        return even_edges_ns(least, largest);
    }
    let grown = SERIES
        .iter()
        .map(|series| growing_edges_ns(series, least, largest));
    let fitting = grown
        .into_iter()
        .find(|edges| edges.len() <= BUCKETS_AT_MOST + 1);
    // From nanoseconds to centuries, powers of ten make 20 edges. Then the lowest buckets are merged into one.
    fitting.unwrap_or_else(|| {
        let mut edges = growing_edges_ns(SERIES[3], least, largest);
        edges.drain(1..edges.len() - BUCKETS_AT_MOST);
        edges
    })
}

/// Edges at multiples of a round step.
fn even_edges_ns(least: u64, largest: u64) -> Vec<u64> {
    let is_wide_enough = |step: &u64| (largest / step - least / step) < BUCKETS_AT_MOST as u64;
    // A finer step would show the histogram's own cells rather than the data.
    let finest = (largest / 500).max(1);
    let step = (0..19)
        .flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)))
        .find(|step| *step >= finest && is_wide_enough(step))
        .unwrap_or(u64::MAX);
    (least / step..=largest / step + 1)
        .map(|multiple| multiple.saturating_mul(step))
        .collect()
}

/// Edges that grow by the steps of a series; they start at 0 if `least` is 0.
fn growing_edges_ns(series: &[u64], least: u64, largest: u64) -> Vec<u64> {
    let all: Vec<u64> = (0..20)
        .flat_map(|power| series.iter().map(move |step| (power, *step)))
        .map(|(power, step)| u128::from(step) * 10_u128.pow(power) / 100)
        .map(|edge| u64::try_from(edge).unwrap_or(u64::MAX))
        .collect();
    let mut edges = vec![
        all.iter()
            .copied()
            .rfind(|edge| *edge <= least)
            .unwrap_or(0),
    ];
    for edge in all {
        let last = edges[edges.len() - 1];
        if edge > last && (last <= largest || edges.len() == 1) {
            edges.push(edge);
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(spans: &[u64]) -> Vec<Bucket> {
        let mut latencies = Latencies::new();
        spans
            .iter()
            .for_each(|ns| latencies.add(Duration::from_nanos(*ns)));
        latencies.buckets()
    }

    #[test]
    fn a_narrow_range_has_even_steps_and_a_wide_one_growing_ones() {
        let starts = |spans: &[u64]| {
            let buckets = of(spans);
            (buckets[0], buckets[1].from.as_nanos(), buckets.len())
        };
        let (first, second, count) = starts(&[10_100_000, 24_100_000]);
        assert_eq!(
            (first.from.as_nanos(), second, count),
            (10_000_000, 11_000_000, 15)
        );
        let (first, second, count) = starts(&[1_100_000, 24_100_000]);
        assert_eq!(
            (first.from.as_nanos(), second, count),
            (1_000_000, 1_250_000, 14)
        );
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[0]).len(), 1);
        assert_eq!(of(&[5_000_000]).len(), 1);
    }

    fn of_any_size() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(ns, shift)| ns >> shift)
    }

    proptest! {
        #[test]
        fn every_span_is_in_one_bucket(spans in prop::collection::vec(of_any_size(), 1..50)) {
            let buckets = of(&spans);
            prop_assert!(buckets.len() <= BUCKETS_AT_MOST, "{buckets:?}");
            prop_assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), spans.len() as u64);
            prop_assert!(buckets[0].count > 0 && buckets[buckets.len() - 1].count > 0);
            prop_assert!(buckets.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}
