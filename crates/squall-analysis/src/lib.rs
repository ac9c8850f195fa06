//! Turns records into statistics and verdicts, and claims no more than the data supports.
//!
//! It reads no file, no clock and no random source, and prints nothing: the same records always give the
//! same summary. Latencies of different trials are never pooled, because the requests of one trial share
//! their losses and their congestion windows; the trial is the unit (docs/METHOD.md).
//!
//! `trial` condenses one trial, `target_times` its requests to some targets; `latency` is how long one request took,
//! `quantile` what can be known of that when some requests never finished, `figures` summarises the times of many
//! requests, `gaps` the gaps in streamed responses, and `tail` says what slowed down a trial's slowest requests. `cell`
//! has the trials of one variant under one condition, `summary` a whole run, and `summarise` makes it. `stats` holds
//! the statistics, `verdict` compares variants, `sentence` puts that into words and `answer` into one sentence for the
//! whole run. `crossover` says how many connections it takes, `threshold` checks a number against a limit, `warning`
//! says what a reader should doubt, `change` compares two runs, `window_rate` predicts what flow control allows,
//! `shape` says how a trial's response times are distributed and what was in flight, `heat` counts requests by when
//! they were due and how long they took, `grid` lays out the conditions by two settings with the winners, `headline` is
//! the answer as one clause, `run_health` says whether to trust the run, `bulk` says what the link delivered over time
//! while large bodies crossed it, and `figure` is how all of them write numbers. `causes` says what the requests' time
//! was spent on, `explain` shows one request in full, `detail` some requests of a run with their connections, `capture`
//! infers from packets seen at one point what happened to them beyond it, `findings` recognises what is wrong, and
//! `tried` says what fixes gained. `load` is for a load without trials: it keeps sums instead of rows, because there
//! are too many requests to keep. `request_totals` has sums for programs that collect metrics. `probe` says what is
//! wrong with an endpoint that squall only sees from outside. Lists that are too long to draw are `thinned`.
//! squall-report draws the result.
//!
//! ```
//! use squall_analysis::Quantile;
//! use squall_base::Duration;
//!
//! let ms = |n| Duration::from_millis(n);
//! // Two answered, one given up after 50 ms: its true latency is longer by an unknown amount.
//! let sample: squall_analysis::Sample =
//!     [Quantile::Exact(ms(10)), Quantile::Exact(ms(12)), Quantile::AtLeast(ms(50))].into_iter().collect();
//! assert_eq!(sample.median(), Some(Quantile::Exact(ms(12))));
//! assert_eq!(sample.max(), Some(Quantile::AtLeast(ms(50))));
//! ```

pub mod answer;
mod bulk;
pub mod capture;
pub mod causes;
mod cell;
pub mod change;
mod crossover;
pub mod detail;
mod direction;
mod distinct;
pub mod explain;
mod failures;
mod family;
pub mod figure;
mod figures;
pub mod findings;
mod gaps;
mod grid;
mod headline;
mod heat;
mod latency;
pub mod load;
mod other_programs;
mod own_error;
mod page_time;
pub mod probe;
mod quantile;
mod request_totals;
mod run_health;
mod sentence;
mod shape;
pub mod stats;
mod summarise;
mod summary;
mod tail;
mod target_times;
mod thinned;
mod threshold;
mod threshold_text;
mod trial;
mod trial_source;
mod tried;
mod value;
mod verdict;
mod warning;
mod window_rate;
mod wire;

pub use bulk::{BulkPhase, Delivery, DeliveryCounter, LinkPacket, PacketSample, delivery_counters};
pub use cell::{CellPages, CellSummary, Spread};
pub use crossover::{ConnectionRange, ConnectionsNeeded, Crossover, Rung};
pub use failures::{EndedProgram, UnfinishedAttempt, UntoldVersions};
pub use figures::{Figures, Interval};
pub use grid::{ComparedPair, FieldOutcome, Grid, GridAxis, GridField};
pub use heat::{HeatMap, HeatRow};
pub use other_programs::{ProcessorsShared, ProcessorsTaken};
pub use own_error::OwnErrors;
pub use page_time::PageTimes;
pub use quantile::{P95_NEEDS, P99_NEEDS, Quantile, Sample};
pub use request_totals::{RequestTotals, TIME_LIMITS};
pub use run_health::{HealthGrade, RunHealth};
pub use shape::{LoadCourse, PercentilePoint, Quartiles, TrialShape};
pub use summarise::summarise;
pub use summary::{
    CellThreshold, ConditionSummary, Repeats, RunEnvironment, RunSummary, Schema, TrialReadings,
    Warning,
};
pub use tail::{CauseMean, TailCauses, TailShare, Tails};
pub use target_times::TargetTimes;
pub use thinned::Thinned;
pub use threshold::{
    Aggregate, Certainty, Latency, Measure, Operator, Percentile, Reading, Threshold,
    ThresholdResult, ThresholdSource,
};
pub use threshold_text::{ThresholdError, ThresholdFault, Unit};
pub use trial::{Intervals, TrialRows, TrialStats, trial_evidence, trial_stats};
pub use trial_source::TrialSource;
pub use tried::{TriedCondition, TriedFix, tried_fixes};
pub use value::Value;
pub use verdict::{
    Comparison, Difference, LEVEL, Overload, Pair, PairResult, Ratio, UnknownReason, Values,
    Verdict,
};
pub use window_rate::WindowRate;
