//! Attribution on records made by hand, where the truth is known: every cause, every protocol, every ending.
//!
//! `world` makes the records; real trials are in `real_trials.rs` beside this folder.

mod alone;
mod endings;
mod explained;
mod handshakes;
mod hops;
mod laws;
mod multiplexed;
mod quic;
mod repairs;
mod world;
