//! Tests that have the machine for themselves: they assert rates, differences of a millisecond or less, or properties of
//! the whole machine, and take the bench (`support::bench`).
//!
//! libtest runs tests in the order of their names. Because these are all in one module, they run one after the other, and
//! the others need not stop for each of them. Of a file with few such tests, they stay where the others are.

mod clean_link;
mod compare;
mod fast_trials;
mod independent;
mod interruption;
mod observed_quic;
mod observer;
pub(crate) mod ordinary_user;
mod paths_observed;
mod probe_faults;
mod probe_servers;
mod probe_servers_tls;
mod selftest;
mod walk;
