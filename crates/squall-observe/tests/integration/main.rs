//! Packets as an observer sees them, made by squall's own engines and by quiche: what was said in them.
//!
//! `support` builds packets of TCP, `quic` those of QUIC.

mod beginnings;
#[path = "../../../../fuzz/src/drive_observe.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_observe;
#[path = "../../../../fuzz/src/drive_quic.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_quic;
mod garbage;
mod laws;
mod ports_again;
mod quic;
mod split_records;
mod support;
