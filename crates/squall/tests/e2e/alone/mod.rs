//! Tests that need the machine to themselves (`machine::bench`), or at least a quiet one (`machine::quiet_seat`).
//!
//! libtest runs tests in the order of their names. Because all of these are in one module that comes first, they run before
//! the others, which then need not pause for each of them. A test of another module that began earlier would wait for all of
//! these and occupy one of libtest's threads meanwhile. Tests that can run beside any others are in the modules of `main`.

mod attribution;
mod clean_link;
mod compare;
mod fast_trials;
mod findings;
mod independent;
mod loads;
mod observed_quic;
mod observer;
mod paths_observed;
mod probe_faults;
mod probe_presets;
mod probe_rates;
pub(crate) mod probe_servers;
mod probe_servers_tls;
mod recipe_rates;
mod selftest;
mod sidecar_paths;
mod truth_envoys;
mod truth_paths;
mod walk;
