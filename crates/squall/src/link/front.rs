//! The process that the person started: it holds the terminal, passes signals on, and ends as the command ended.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::Command;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use squall_linux::process;
use squall_linux::program::{self, Asked, Ended, Signals};
use squall_linux::user_namespace::{self, Privilege};

use crate::Ending;

/// Starts the worker with the arguments of this process and waits for it.
pub(crate) fn run() -> Result<Ending> {
    let (uid, gid) = process::person();
    let privilege = user_namespace::acquire_privilege()?;
    program::enter_pid_namespace()?;
    let mut worker =
        Command::new(std::env::current_exe().context("cannot find squall's own executable")?);
    worker
        .arg("link-worker")
        .arg(format!("--starter={}", std::process::id()));
    if privilege == Privilege::UserNamespace {
        worker
            .arg(format!("--uid={uid}"))
            .arg(format!("--gid={gid}"));
    }
    // What the person wrote stands behind the name of the command.
    let given: Vec<OsString> = std::env::args_os().skip(2).collect();
    let worker = worker
        .args(given)
        .spawn()
        .context("cannot start the worker process")?;
    // Only now, because a child inherits blocked signals.
    let signals = Signals::gather()?;
    loop {
        while let Some(asked) = signals.next() {
            match asked {
                Asked::Reap | Asked::TerminalInterrupt => {}
                Asked::End(signal) => program::signal(worker.id(), signal),
            }
        }
        if let Some((_, ended)) = program::reap() {
            return Ok(Ending::Code(code_of(ended)));
        }
        let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for the worker process"),
        }
    }
}

fn code_of(ended: Ended) -> u8 {
    u8::try_from(ended.shell_code()).unwrap_or(1)
}
