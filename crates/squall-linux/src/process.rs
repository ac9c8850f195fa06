//! Ties between processes.

use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getegid, geteuid, getppid};

use crate::error::SetupError;

/// Has the kernel kill this process when its parent (more exactly, the parent's thread that started it) dies. `false`
/// if `parent` is no longer its parent: it died before it could be asked for.
///
/// In a PID namespace of its own a process sees parent 0, so `parent` must come from the same namespace.
pub fn die_with_parent(parent: i32) -> Result<bool, SetupError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(SetupError::system("tie this process to its parent"))?;
    Ok(getppid() == Pid::from_raw(parent))
}

/// Has the kernel kill this process, the first of a PID namespace, when the one that started it dies. `false` if
/// `starter`, a process id of the namespace that /proc shows, was gone before it could be asked for.
pub fn die_with_starter(starter: u32) -> Result<bool, SetupError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(SetupError::system("tie this process to its starter"))?;
    Ok(std::path::Path::new("/proc")
        .join(starter.to_string())
        .exists())
}

/// The user and the group that this process acts as.
pub fn person() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Whether SIGHUP is ignored, as nohup(1) arranges it.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    // Bit n-1 stands for signal n (proc(5)).
    ignored & (1 << (Signal::SIGHUP as u64 - 1)) != 0
}

/// Ignores SIGHUP from now on.
pub fn ignore_hangup() -> std::io::Result<()> {
    // SAFETY: ignoring a signal installs no handler, so no code of ours runs in a signal's context.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
    Ok(())
}

/// Columns of the terminal on stdout; `None` if it is none.
pub fn terminal_width() -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, which lives until the call returns; on anything but a
    // terminal it fails and writes nothing.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
