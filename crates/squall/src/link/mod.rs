//! `squall link` at work: two processes, so that nothing outlives it in whatever way it ends.
//!
//! The one that the person starts (`front`) makes a PID namespace and starts the other (`worker`) as the first process in
//! it. The worker makes hosts and link, runs the programs and sums up. When the front dies the kernel kills the worker,
//! and with a PID namespace's first process all others in it. What can be asked for: `commands::link`.

pub(crate) mod comment;
pub(crate) mod front;
mod outputs;
mod summary;
pub(crate) mod worker;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use squall_link::LinkSettings;
use squall_linux::tun::Offload;

// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544, appendix C.2.2).
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
/// The link's device, by this name in either host.
const DEVICE: &str = "squall0";
/// What programs call the hosts.
const NAMES: [(Ipv4Addr, &str); 2] = [(SERVER_ADDRESS, "server"), (CLIENT_ADDRESS, "client")];

/// Who started the worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Starter {
    /// The process that started this one
    #[arg(long)]
    starter: u32,
    /// The person's user, if squall works in a user namespace
    #[arg(long)]
    uid: Option<u32>,
    /// The person's group, likewise
    #[arg(long)]
    gid: Option<u32>,
}

/// What was asked for, understood.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) settings: LinkSettings,
    pub(crate) congestion_control: String,
    pub(crate) offload: Offload,
    pub(crate) forward: Vec<u16>,
    pub(crate) serve: Option<String>,
    /// Program and arguments; empty for a shell.
    pub(crate) command: Vec<String>,
    pub(crate) pcap: Option<PathBuf>,
    /// Where programs write TLS secrets, which the capture gets at the end.
    pub(crate) key_log: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) is_quiet: bool,
}
