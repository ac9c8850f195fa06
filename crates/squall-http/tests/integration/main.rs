//! The engines as their callers see them: bytes in, bytes and events out.
//!
//! `common` joins a client and a server in memory; no network and no time is involved. The code that the fuzz targets
//! call runs here too, on random input. Inner rules are tested beside their code.

mod chunking;
mod client_conformance;
mod close_notify;
mod common;
mod concurrency;
mod conformance;
#[path = "../../../../fuzz/src/drive.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive;
#[path = "../../../../fuzz/src/drive_h3.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_h3;
#[path = "../../../../fuzz/src/drive_secure.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_secure;
#[path = "../../../../fuzz/src/drive_values.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_values;
mod endings;
mod exchanges;
mod flow_control;
mod frame_tap;
mod garbage;
mod garbage_secure;
mod h1_bodies;
mod h1_messages;
mod h1_pieces;
mod h1_refusals;
mod h1_upgrade;
mod hostile;
mod interim;
#[path = "../../../../fuzz/src/laws.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod laws;
mod limits;
mod relayed;
mod settings;
mod streamed;
mod window_policies;
