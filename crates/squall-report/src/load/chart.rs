//! The histogram of response times, drawn in text.
//!
//! It does not choose the buckets (squall-analysis's `load` does). A bar's length is relative to the fullest bucket.

use squall_analysis::figure;
use squall_analysis::load::{Bucket, Latencies};

use super::text::{TextFormat, percent, span};
use crate::columns::{left, right, width_of};

/// Longer bars would show nothing more.
const BAR_AT_MOST_COLUMNS: usize = 60;

/// In fewer columns, the bars take the space of the last column.
const CUMULATIVE_FROM_COLUMNS: usize = 60;

/// Fewer bars show no shape.
const BARS_AT_LEAST: usize = 3;

const CUMULATIVE: &str = "up to here";

/// The columns of the longest share, such as `>99.9 %`.
const SHARE_COLUMNS: usize = 7;

/// The lines of the chart; empty if there is nothing to draw.
pub(super) fn chart(latencies: &Latencies, format: &TextFormat) -> Vec<String> {
    drawn(&latencies.buckets(), latencies.count(), format)
}

/// The lines of the chart, at most `rows` of them: neighbouring buckets share a bar until they fit. Empty if there is too
/// little room for a chart.
pub(super) fn chart_within(latencies: &Latencies, format: &TextFormat, rows: usize) -> Vec<String> {
    let mut buckets = latencies.buckets();
    // One row has the titles.
    if rows < 1 + BARS_AT_LEAST {
        return Vec::new();
    }
    while buckets.len() > rows - 1 {
        let pairs = buckets.chunks(2);
        buckets = pairs
            .map(|pair| Bucket {
                to: pair[pair.len() - 1].to,
                count: pair.iter().map(|bucket| bucket.count).sum(),
                ..pair[0]
            })
            .collect();
    }
    drawn(&buckets, latencies.count(), format)
}

fn drawn(buckets: &[Bucket], all: u64, format: &TextFormat) -> Vec<String> {
    let Some(fullest) = buckets.iter().map(|bucket| bucket.count).max() else {
        return Vec::new();
    };
    let titles = ["response time", "requests", CUMULATIVE].map(|title| format.say(title));
    let [time_title, count_title, cumulative_title] = &titles;
    let (labels, label_width) = labels(buckets, &format.say("to"));
    let count_width = figure::count(fullest).len().max(width_of(count_title));
    let cumulative_width = match format.columns() {
        CUMULATIVE_FROM_COLUMNS.. => 2 + width_of(cumulative_title).max(SHARE_COLUMNS),
        _ => 0,
    };
    let taken = label_width + 2 + 2 + count_width + cumulative_width;
    let bar_width = format
        .columns()
        .saturating_sub(taken)
        .clamp(1, BAR_AT_MOST_COLUMNS);
    let line = |[label, bar, count, cumulative]: [&str; 4]| {
        let mut line = format!(
            "{}  {}  {}",
            left(label, label_width),
            left(bar, bar_width),
            right(count, count_width)
        );
        if cumulative_width > 0 {
            line += &right(cumulative, cumulative_width);
        }
        line
    };
    let mut lines = vec![line([time_title, "", count_title, cumulative_title])];
    let mut counted = 0;
    for (bucket, label) in buckets.iter().zip(labels) {
        counted += bucket.count;
        let bar = format.bar(bucket.count as f64 / fullest as f64, bar_width);
        let share = percent(counted as f64, all as f64);
        lines.push(line([&label, &bar, &figure::count(bucket.count), &share]));
    }
    format.titled(&lines)
}

/// A label such as `8.00 ms to 10.0 ms` for each bucket, and the width of the labels. `to` is the word between its edges.
fn labels(buckets: &[Bucket], to: &str) -> (Vec<String>, usize) {
    let edges: Vec<[String; 2]> = buckets
        .iter()
        .map(|bucket| [span(bucket.from), span(bucket.to)])
        .collect();
    let widest = |side: usize| edges.iter().map(|edge| edge[side].len()).max().unwrap_or(0);
    let (from_width, to_width) = (widest(0), widest(1));
    let labels = edges
        .iter()
        .map(|[from, end]| format!("  {from:>from_width$} {to} {end:>to_width$}"))
        .collect();
    (labels, 2 + from_width + 2 + width_of(to) + to_width)
}
