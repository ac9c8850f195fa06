//! The laws of loads, over random settings and callers of every laziness: a request comes once, times never decrease,
//! lateness moves nothing, and the shares of a load are the load.
//!
//! One file for each kind of load; `statistics` has what can only be judged in number. What a module keeps inside is
//! tested there.

#![allow(clippy::unwrap_used)]

mod closed;
mod drive;
mod open;
mod pages;
mod script;
mod statistics;
