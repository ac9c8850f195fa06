//! The laws of the link, over random settings, arrivals and ways of calling it.
//!
//! The effect of a component on each packet is tested in its own file; this folder has the laws that no setting may break.
//! `world` generates links and traffic, `drive` runs them, each other file is a family of laws. Traces are not among the
//! random capacities: a recorded link has its own tests.

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
