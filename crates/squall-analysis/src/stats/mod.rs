//! The statistics behind verdicts: what chance does to a number, and how certain a difference is.
//!
//! Numbers in, numbers out: nothing here knows what a trial is, which figure is compared, or what is concluded from it
//! (`verdict` does). The run is the unit: requests of one run share their luck, so they are never pooled over runs. All
//! random draws come from a seed that the caller supplies, so the same records always yield the same numbers.
//!
//! `order` bounds a quantile of independent values. `memory` measures how far the values of a run are correlated, and
//! `within` computes the interval of a figure of one run. `effect` compares runs (interval, smallest visible effect),
//! `sign_flip` computes how often chance alone would do as much, and `holm` adjusts that for many comparisons.

pub mod effect;
pub mod holm;
pub mod memory;
pub mod order;
pub mod random;
pub mod sign_flip;
pub mod within;
