//! squall's vocabulary: the types for time, sizes, plans and records that every other crate uses.
//!
//! It does no I/O, reads no clock and does not know the bytes of any protocol. `time` and `quantity` are the units,
//! `plan` is what a run is to do, `record` is what a trial found. Where these types are produced, and which crate does
//! what with them: docs/ARCHITECTURE.md.

mod base64_text;
pub mod civil;
mod number;
pub mod plan;
pub mod quantity;
pub mod record;
pub mod secrets;
mod side;
pub mod splitmix;
pub mod text;
pub mod time;
pub mod traceparent;
mod vocabulary;

pub use number::ParseQuantityError;
pub use quantity::{BitRate, Bytes, Probability, Rate};
pub use side::Side;
pub use time::{Duration, Time};
