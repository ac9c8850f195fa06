//! The process that the user starts: it keeps the terminal, forwards signals, and exits with the command's code.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::Command;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use squall_linux::process;
use squall_linux::program::{self, ProgramExit, SignalRequest, Signals};
use squall_linux::user_namespace::{self, Privilege};

use crate::awake::{self, IdleProcessors, MeasurementKind};
use crate::outcome::CommandOutcome;

/// Starts the worker with the arguments of this process and waits for it. Call it while the process has a single thread: it may
/// enter a user namespace.
pub(super) fn run(idle_processors: Option<IdleProcessors>) -> Result<CommandOutcome> {
    let (uid, gid) = process::effective_ids();
    let privilege = user_namespace::acquire_privilege()?;
    let _awake = awake::keep(idle_processors, MeasurementKind::Timed)?;
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
    // The user's arguments follow the name of the subcommand.
    let given: Vec<OsString> = std::env::args_os().skip(2).collect();
    let worker = worker
        .args(given)
        .spawn()
        .context("cannot start the worker process")?;
    // Only now, because a child would inherit the blocked signals.
    let signals = Signals::block()?;
    loop {
        while let Some(asked) = signals.next() {
            match asked {
                SignalRequest::Reap | SignalRequest::TerminalInterrupt => {}
                SignalRequest::End(signal) => program::signal(worker.id(), signal),
            }
        }
        if let Some((_, ended)) = program::reap() {
            return Ok(CommandOutcome::Code(code_of(ended)));
        }
        let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for the worker process"),
        }
    }
}

/// The exit code of a process that ends as this program did.
pub(super) fn code_of(ended: ProgramExit) -> u8 {
    u8::try_from(ended.shell_code()).unwrap_or(1)
}
