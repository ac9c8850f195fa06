//! Host names: makes `server` resolve for the programs that run behind a link.
//!
//! A name server would need a separate program. Instead the calling thread gets a mount namespace in which /etc/hosts is
//! another file, kept in memory. Nothing is written to the machine's disk, and the kernel removes the file with the last
//! program that sees it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::error::SetupError;

/// A folder that every machine has: an in-memory file system is mounted over it for a moment.
const STAGE: &str = "/tmp";
const HOSTS: &str = "/etc/hosts";
const NONE: Option<&str> = None;

/// Makes these names resolve for the calling thread and the programs that it starts, in addition to the machine's names.
pub(crate) fn install(names: &[(Ipv4Addr, &str)]) -> Result<(), SetupError> {
    let text = hosts_file(names, &fs::read_to_string(HOSTS).unwrap_or_default());
    unshare(CloneFlags::CLONE_NEWNS).map_err(SetupError::system("make a mount namespace"))?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NONE, "/", NONE, private, NONE).map_err(SetupError::system("make the mounts private"))?;
    show_own_processes();
    if !Path::new(HOSTS).exists() {
        return Ok(());
    }
    mount(
        Some("squall"),
        STAGE,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=1m"),
    )
    .map_err(SetupError::system("mount a file system in memory"))?;
    let staged = format!("{STAGE}/hosts");
    fs::write(&staged, text).map_err(SetupError::system("write the names of the hosts"))?;
    mount(Some(&staged[..]), HOSTS, NONE, MsFlags::MS_BIND, NONE).map_err(SetupError::system(
        "mount the names of the hosts over /etc/hosts",
    ))?;
    umount2(STAGE, MntFlags::MNT_DETACH)
        .map_err(SetupError::system("unmount the file system in memory"))
}

/// Mounts a /proc for the process's own PID namespace. A container may forbid it; programs then see all processes.
fn show_own_processes() {
    let proc = Some("proc");
    let _ = mount(proc, "/proc", proc, MsFlags::empty(), NONE);
}

/// Our names come first, because the first line with a name counts (hosts(5)).
fn hosts_file(names: &[(Ipv4Addr, &str)], machines_own: &str) -> String {
    let ours = names
        .iter()
        .map(|(address, name)| format!("{address} {name}\n"));
    ours.chain([machines_own.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_come_first_and_the_machines_names_stay() {
        let names = [(Ipv4Addr::new(198, 18, 0, 2), "server")];
        assert_eq!(
            hosts_file(&names, "127.0.0.1 localhost\n"),
            "198.18.0.2 server\n127.0.0.1 localhost\n"
        );
    }
}
