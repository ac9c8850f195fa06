//! Records in; statistics and a verdict out, never stronger than the data.
//!
//! It reads no file, no clock and no random source, and prints nothing: the same records always give the
//! same summary. Latencies of different trials are never pooled, because the requests of one trial share
//! their losses and their congestion windows; the trial is the unit (docs/METHOD.md).
//!
//! `quantile` is what can be known of a latency when some requests never finished, `trial` condenses one
//! trial, `summary` lays trials out by condition and variant, `verdict` compares variants and `sentence` puts
//! that into words, `threshold` holds a number against a limit, `warning` says what a reader should doubt, and `figure`
//! is how all of them write numbers. `load` is for a load without trials: sums over more requests than anybody keeps.
//! squall-report draws the result.
//!
//! ```
//! use squall_analysis::Quantile;
//! use squall_base::Duration;
//!
//! let ms = |n| Duration::from_millis(n);
//! // Two answered, one given up after 50 ms: its true latency is longer, by how much nobody knows.
//! let sample: squall_analysis::Sample =
//!     [Quantile::Exact(ms(10)), Quantile::Exact(ms(12)), Quantile::AtLeast(ms(50))].into_iter().collect();
//! assert_eq!(sample.median(), Some(Quantile::Exact(ms(12))));
//! assert_eq!(sample.max(), Some(Quantile::AtLeast(ms(50))));
//! ```

pub mod causes;
pub mod figure;
pub mod load;
mod quantile;
mod sentence;
mod summary;
mod threshold;
mod threshold_text;
mod trial;
mod verdict;
mod warning;

pub use quantile::{P95_NEEDS, P99_NEEDS, Quantile, Sample};
pub use summary::{CellSummary, ConditionSummary, Facts, RunSummary, Spread, summarise};
pub use threshold::{
    Aggregate, Certainty, Checked, Latency, Measure, Operator, Percentile, Source, Threshold,
};
pub use threshold_text::{ThresholdError, ThresholdFault, Unit};
pub use trial::{TrialStats, trial_stats};
pub use verdict::{
    Comparison, Difference, Finding, Overload, Pair, PairResult, Ratio, Unfit, Verdict,
};
pub use warning::{Repeats, Warning};
