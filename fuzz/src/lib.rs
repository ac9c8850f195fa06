//! The functions that fuzzing drives; each target in fuzz_targets/ calls one of them.
//!
//! Those of the connections live in `drive`, which squall-http's test `garbage` includes as well; those of the link's
//! super-packets in `offload`.

pub mod drive;
pub mod drive_secure;
pub mod offload;
