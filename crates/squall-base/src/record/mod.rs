//! What a trial found: one row per request, one row per packet, and the trial's own summary.
//!
//! These are the rows in memory; squall-record writes and reads them, docs/RECORD.md is their schema.

mod packet;
mod request;
mod trial;

pub use packet::{Direction, Fate, PacketClass, PacketRecord};
pub use request::{Outcome, Phase, RequestRecord};
pub use trial::{DirectionHealth, Health, KernelCounters, Lateness, TrialRecord, Used, Validity};
