//! The laws of the link, over random settings, arrivals and ways of calling it.
//!
//! What a component does to which packet is tested in its own file; here stands what no setting may break. `world`
//! makes up links and traffic, `drive` runs them, each other file is a family of laws. Traces are not among the
//! random capacities: a recorded link has tests of its own.

mod batching;
mod beginning;
mod bottleneck;
mod bytes;
mod conservation;
mod directions;
mod drive;
mod timing;
mod traffic;
mod world;
