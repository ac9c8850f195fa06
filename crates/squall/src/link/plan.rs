//! What the worker of `squall link` is asked to do, and by which process.
//!
//! Only data: `command` makes the plan from the flags, `worker` carries it out.

use std::path::PathBuf;

use squall_link::LinkSettings;
use squall_linux::tun::Offload;

/// The process and user that started the worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Starter {
    /// Process ID of the starter
    #[arg(long)]
    pub(super) starter: u32,
    /// User ID of the starter, if squall runs in a user namespace
    #[arg(long)]
    pub(super) uid: Option<u32>,
    /// Group ID of the starter, if squall runs in a user namespace
    #[arg(long)]
    pub(super) gid: Option<u32>,
}

/// The parsed flags of `squall link`.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) settings: LinkSettings,
    pub(super) congestion_control: String,
    pub(super) offload: Offload,
    pub(super) forward: Vec<u16>,
    pub(super) serve: Option<String>,
    /// Program and arguments; empty for a shell.
    pub(super) command: Vec<String>,
    pub(super) pcap: Option<PathBuf>,
    /// The file that programs write TLS secrets to; they are added to the capture at the end.
    pub(super) key_log: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) is_quiet: bool,
}
