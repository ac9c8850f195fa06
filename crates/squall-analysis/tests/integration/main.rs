//! Statistics, verdicts, summaries and causes of hand-made records, for which the truth is known.
//!
//! `support` makes plans and trials. Trials that really ran are in `alone/attribution.rs` of squall's `e2e`.

mod a_a;
mod causes;
mod censoring;
mod change;
mod columns;
mod coverage;
mod doubtful;
#[path = "../../../../fuzz/src/drive_thresholds.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_thresholds;
mod garbage;
mod overview;
#[path = "../../../squall-record/tests/integration/rows/mod.rs"]
#[allow(dead_code, reason = "frames are read whole")]
mod rows;
mod statistics;
mod summary;
mod support;
mod target_times;
mod threshold;
mod tried;
mod verdict;
