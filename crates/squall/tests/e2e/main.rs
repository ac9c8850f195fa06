//! What a person does with squall, for real: the binary, namespaces, TUN devices and kernel TCP.
//!
//! One test program, because these tests must not disturb each other: each takes the bench for itself (`support::bench`),
//! or a seat at it if others beside it do not matter (`support::seat`). Each behaviour has a file. Expected figures cite where they come from. Tests
//! take trials that other work on the machine has disturbed, and assert what does not hang on that
//! (`support::check_validity`).

mod bad_input;
mod bare_link;
mod bulk;
mod capture;
mod causes;
mod causes_paths;
mod clean_link;
mod compare;
mod constructed;
mod constructed_quic;
mod doctor;
mod endings;
mod explain;
mod fast_link;
mod fetch;
mod findings;
mod findings_path;
mod findings_sockets;
mod h2load;
mod hostile;
mod hostile_quic;
mod hostile_servers;
mod interruption;
mod link;
mod load;
mod loads;
mod loads_causes;
mod loads_pools;
mod loads_ports;
mod loads_reach;
mod loads_uploads;
mod lossy_link;
mod observed;
mod observer;
mod ordinary_user;
mod paths;
mod paths_observed;
mod programs;
mod protocols;
mod proxies;
mod proxies_failing;
mod proxies_interim;
mod proxies_lasting;
mod proxies_pools;
mod raw_quic;
mod records;
mod repeatability;
mod results;
mod sampling;
mod scheduled;
mod secrets;
mod selftest;
mod served;
mod serving;
mod settings;
mod settings_heard;
mod smuggling;
mod support;
mod verbose;
mod workloads;
