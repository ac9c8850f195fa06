//! Records in; statistics and a verdict out, never stronger than the data.
//!
//! It reads no file, no clock and no random source, and prints nothing: the same records always give the
//! same summary. Latencies of different trials are never pooled, because the requests of one trial share
//! their losses and their congestion windows; the trial is the unit (docs/METHOD.md).
//!
//! `quantile` is what can be known of a latency when some requests never finished, `trial` condenses one
//! trial and `target_times` its requests of some targets, `tail` says what its slowest requests were slow by, `summary` lays trials out by condition and variant, `stats`
//! says what chance does to numbers, `verdict` compares variants, `sentence` puts that into words and `answer` into one
//! sentence for the whole run, `crossover` says how many connections it takes, `threshold` holds a number against a limit,
//! `warning` says what a reader should doubt, `change` compares two runs, `window_rate` predicts what flow control allows,
//! and `figure` is how all of them write numbers. `causes` says what requests' time was spent on, `explain` shows one of
//! them in full, `capture` says what packets seen at one point met beyond it, `findings` recognises what is wrong. `load`
//! is for a load without trials: sums over more requests than anybody keeps.
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

pub mod answer;
pub mod capture;
pub mod causes;
pub mod change;
mod crossover;
pub mod explain;
mod family;
pub mod figure;
pub mod findings;
pub mod load;
mod page_time;
mod quantile;
mod sentence;
pub mod stats;
mod summary;
mod tail;
mod target_times;
mod threshold;
mod threshold_text;
mod trial;
mod trial_source;
mod value;
mod verdict;
mod warning;
mod window_rate;

pub use crossover::{Crossover, Range, Rung, Takes};
pub use page_time::PageTimes;
pub use quantile::{P95_NEEDS, P99_NEEDS, Quantile, Sample};
pub use summary::{
    CellPages, CellSummary, CellThreshold, ConditionSummary, Facts, RunSummary, Spread,
    TrialReadings, summarise,
};
pub use tail::{CauseMean, TailCauses, TailShare};
pub use target_times::TargetTimes;
pub use threshold::{
    Aggregate, Certainty, Checked, Latency, Measure, Operator, Percentile, Reading, Source,
    Threshold,
};
pub use threshold_text::{ThresholdError, ThresholdFault, Unit};
pub use trial::{Figures, Interval, Intervals, TrialRows, TrialStats, trial_evidence, trial_stats};
pub use trial_source::TrialSource;
pub use value::Value;
pub use verdict::{
    Comparison, Finding, LEVEL, Overload, Pair, PairResult, Ratio, Unfit, Values, Verdict,
};
pub use warning::{Repeats, Warning};
pub use window_rate::WindowRate;
