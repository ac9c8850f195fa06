//! `squall link`: two processes, so that nothing outlives it, however it ends.
//!
//! The process that the user starts (`front`) creates a PID namespace and starts the other (`worker`) as the first
//! process in it. The worker creates hosts and link, runs the programs and prints the summary. If the front dies, the
//! kernel kills the worker and, because the worker is the first process of a PID namespace, all other processes in it.
//! The flags are in `commands::link`.

pub(crate) mod comment;
pub(crate) mod front;
mod outputs;
mod summary;
pub(crate) mod worker;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use squall_link::LinkSettings;
use squall_linux::tun::Offload;

// 198.18.0.0/15 is reserved for network benchmarks (RFC 2544, appendix C.2.2).
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
/// The name of the link's device in both hosts.
const DEVICE: &str = "squall0";
/// Host names for programs.
const NAMES: [(Ipv4Addr, &str); 2] = [(SERVER_ADDRESS, "server"), (CLIENT_ADDRESS, "client")];

/// The process and user that started the worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Starter {
    /// Process ID of the starter
    #[arg(long)]
    starter: u32,
    /// User ID of the starter, if squall runs in a user namespace
    #[arg(long)]
    uid: Option<u32>,
    /// Group ID of the starter, if squall runs in a user namespace
    #[arg(long)]
    gid: Option<u32>,
}

/// The parsed flags of `squall link`.
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
    /// The file that programs write TLS secrets to; they are added to the capture at the end.
    pub(crate) key_log: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) is_quiet: bool,
}
