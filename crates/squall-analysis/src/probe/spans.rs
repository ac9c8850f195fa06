//! Medians, and multiples of spans of time.
//!
//! Statistics of runs and loads are in `stats`: a probe has a few values, and claims no interval.

use squall_base::Duration;

/// The middle value, or the midpoint of the middle two.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let low = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(low, sorted[sorted.len() / 2]))
}

/// The middle span.
pub(super) fn median_span(spans: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    let nanos: Vec<f64> = spans
        .into_iter()
        .map(|span| span.as_nanos() as f64)
        .collect();
    median(&nanos).map(|nanos| Duration::from_nanos(nanos.round() as u64))
}

/// A span times a factor.
pub(super) fn times(span: Duration, factor: f64) -> Duration {
    Duration::from_nanos((span.as_nanos() as f64 * factor).round() as u64)
}
