//! The laws of loads, over random settings and callers of every degree of lateness: each request is taken once, times never
//! decrease, late polling does not move requests, and the shares of a load make up the load.
//!
//! One file for each kind of load; `statistics` has what only many samples can show. Internals of a module are tested in
//! that module.

#![allow(clippy::unwrap_used)]

mod closed;
mod drive;
mod open;
mod pages;
mod script;
mod statistics;
