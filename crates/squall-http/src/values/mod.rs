//! Structured values of fields, targets and small files: Alt-Svc, gRPC's status, Range, percent-encoding, robots.txt.
//!
//! These modules only parse; the engines use none of it. `fuzz/src/drive_values.rs` states what holds for any input.

pub mod alt_svc;
pub mod grpc;
pub mod percent;
pub mod range;
pub mod robots;
