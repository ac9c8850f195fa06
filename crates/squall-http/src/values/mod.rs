//! Values of fields and of targets that are more than words: Alt-Svc, Range, percent-encoding.
//!
//! They are read here and nothing is done about them: an engine needs none of it. `fuzz/src/drive_values.rs` says what
//! holds whatever they are.

pub mod alt_svc;
pub mod percent;
pub mod range;
