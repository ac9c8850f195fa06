//! The shell around the pure crates: namespaces, TUN devices, sockets, timers, thread scheduling.
//!
//! It decides nothing about protocols or load: it makes hosts and links, moves bytes and reads the clock. Only this crate
//! and squall-nghttp2 may use `unsafe`; each block says why it is sound. Start at `host` (a host is a network namespace),
//! `tun`, `link_thread` (the driver of squall-link) and `reactor` (what stations wait on). Facts about the kernel that
//! shaped it are in docs/METHOD.md.
#![allow(unsafe_code)] // System calls and functions of libraries that no safe wrapper offers; each block names its own.

pub mod allocator;
pub mod awake;
pub mod bare;
pub mod busy;
mod cgroup;
pub mod clock;
pub mod counters;
pub mod cwnd_cap;
pub mod datagrams;
mod error;
pub mod flow_tap;
pub mod forward;
pub mod host;
pub mod inet_diag;
pub mod link_thread;
pub mod listening;
pub mod machine;
mod names;
mod netlink;
pub mod offload;
pub mod other_programs;
mod packet_socket;
mod port;
pub mod privileges;
pub mod probe;
pub mod process;
pub mod program;
pub mod reactor;
pub mod scheduling;
pub mod shared;
pub mod socket;
pub mod spans;
pub mod stop;
mod sys;
pub mod sysctl;
pub mod tap;
pub mod tcp_info;
pub mod tls_session;
pub mod tun;
pub mod udp;
pub mod user_namespace;
pub mod veth;

pub use error::SetupError;
