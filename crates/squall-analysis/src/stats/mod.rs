//! The statistics behind verdicts: what chance does to a number, and how sure a difference is.
//!
//! Numbers in, numbers out: nothing here knows what a trial is, which figure is compared or what is said of it (`verdict`
//! does). The run is the unit: requests of one run share their luck, so they are never pooled over runs. Whatever is
//! drawn at random is drawn from a seed that the caller gives, so the same records always give the same numbers.
//!
//! `order` bounds a quantile of independent values; `memory` says for how long the values of a run hang together, and
//! `within` between which values a figure of one run lies; `effect` compares runs (interval, smallest visible effect),
//! `sign_flip` says how often chance alone would do as much, `holm` what is left of that after many comparisons.

pub mod effect;
pub mod holm;
pub mod memory;
pub mod order;
pub mod random;
pub mod sign_flip;
pub mod within;
