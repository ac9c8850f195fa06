//! The statistics behind verdicts: what chance does to a number, and how sure a difference is.
//!
//! Numbers in, numbers out: nothing here knows what a trial is, which figure is compared or what is said of it (`verdict`
//! does). The run is the unit: requests of one run share their luck, so they are never pooled over runs. Whatever is
//! drawn at random is drawn from a seed that the caller gives, so the same records always give the same numbers.
//!
//! `order` bounds a quantile of independent values, `blocks` resamples a run whose values hang together, `series` does
//! that for all figures of a run at once; `effect` compares runs (interval, smallest visible effect), `sign_flip` says how
//! often chance alone would do as much, `holm` what is left of that after many comparisons.

pub mod blocks;
pub mod effect;
pub mod holm;
pub mod order;
pub mod random;
pub mod series;
pub mod sign_flip;
