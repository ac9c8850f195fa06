//! The functions that fuzzing drives; each target in fuzz_targets/ calls one of them.
//!
//! They live in `drive` and `drive_link`, which the tests `garbage` of squall-http and `text` of squall-link include as
//! well.

pub mod drive;
pub mod drive_link;
