//! The functions that fuzzing drives; each target in fuzz_targets/ calls one of them.
//!
//! They live in `drive`, which squall-http's test `garbage` includes as well.

pub mod drive;
