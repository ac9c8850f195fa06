//! What a person does with squall, for real: the binary, namespaces, TUN devices and kernel TCP.
//!
//! One test program, because these tests must not disturb each other: each takes the bench for itself
//! (`support::bench`). Each behaviour has a file. Expected figures cite where they come from. Tests of
//! timing rest on squall's own health: a disturbed trial is repeated, and what is still invalid fails.

mod bad_input;
mod bare_link;
mod bulk;
mod clean_link;
mod doctor;
mod fast_link;
mod h2load;
mod interruption;
mod lossy_link;
mod ordinary_user;
mod repeatability;
mod results;
mod selftest;
mod support;
