//! How this process depends on others: parent death, signals, identity, the terminal.

use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getegid, geteuid, getppid};

use crate::error::SetupError;
use crate::machine::field;

/// Makes the kernel kill this process when its parent dies (more exactly, the parent's thread that started it). Returns
/// `false` if `parent` is no longer its parent, because it died before the request.
///
/// In its own PID namespace a process sees parent 0, so `parent` must come from the same namespace.
pub fn die_with_parent(parent: i32) -> Result<bool, SetupError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(SetupError::system("tie this process to its parent"))?;
    Ok(getppid() == Pid::from_raw(parent))
}

/// Makes the kernel kill this process, the first of a PID namespace, when the process that started it dies. Returns `false`
/// if `starter`, a process id in the namespace that /proc shows, was gone before the request.
pub fn die_with_starter(starter: u32) -> Result<bool, SetupError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(SetupError::system("tie this process to its starter"))?;
    Ok(std::path::Path::new("/proc")
        .join(starter.to_string())
        .exists())
}

/// The effective user and group of this process.
pub fn effective_ids() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Whether SIGHUP is ignored, as under nohup(1).
pub fn ignores_hangup() -> bool {
    // Bit n-1 stands for signal n (proc(5)).
    status_bits("SigIgn") & (1 << (Signal::SIGHUP as u64 - 1)) != 0
}

/// Ignores SIGHUP from now on.
pub fn ignore_hangup() -> std::io::Result<()> {
    // SAFETY: ignoring a signal installs no handler, so none of our code runs in signal context.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
    Ok(())
}

/// Columns of the terminal on stdout; `None` if stdout is not a terminal.
pub fn terminal_width() -> Option<usize> {
    terminal_size(libc::STDOUT_FILENO).map(|(columns, _)| columns)
}

/// Columns and rows of the terminal on stderr; `None` if stderr is not a terminal.
pub fn error_terminal_size() -> Option<(usize, usize)> {
    terminal_size(libc::STDERR_FILENO)
}

/// Columns and rows of the terminal behind a file descriptor.
fn terminal_size(descriptor: libc::c_int) -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, which outlives the call; on anything but a terminal it fails and writes
    // nothing.
    let result = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) };
    let is_known = result == 0 && size.ws_col > 0;
    is_known.then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// A hexadecimal field of the calling thread's status (proc(5)); 0 if it cannot be read.
pub(crate) fn status_bits(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let hex = field(&status, name).unwrap_or_default();
    u64::from_str_radix(hex, 16).unwrap_or(0)
}
