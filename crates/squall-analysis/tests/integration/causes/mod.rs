//! Attribution of hand-made records, for which the truth is known: every cause, every protocol, every ending.
//!
//! `world` makes the records. Real trials are tested in `alone/attribution.rs` of squall's `e2e`.

mod alone;
mod detailed;
mod endings;
mod explained;
mod handshakes;
mod hops;
mod laws;
mod multiplexed;
mod near;
mod quic;
mod repairs;
mod world;
