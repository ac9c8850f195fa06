//! The words of squall: time, sizes, plans and records, as every other crate speaks them.
//!
//! It does no I/O, reads no clock and knows no protocol's bytes. `time` and `quantity` are the units,
//! `plan` is what a run shall do, `record` is what a trial found. Where these words come from and which
//! crate does what with them: docs/ARCHITECTURE.md.

pub mod civil;
pub mod plan;
pub mod quantity;
pub mod record;
mod side;
pub mod splitmix;
pub mod time;
pub mod traceparent;

pub use quantity::{BitRate, Bytes, ParseQuantityError, Probability, Rate};
pub use side::Side;
pub use time::{Duration, Time};
