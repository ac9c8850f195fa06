//! Programs that are not ours: started in a host, and ended together with everything that they started.
//!
//! `enter_pid_namespace` makes the next child the first process of a PID namespace. When that process ends, however it
//! ends, the kernel kills all others in the namespace, including daemons. The first process also inherits orphans and must
//! reap them: `Signals` reports when, `reap` does it. Without such a namespace, use `start_tied` for programs that must not
//! outlive this process.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpid, getppid};

use crate::error::SetupError;
use crate::host::Host;
use crate::names;
use crate::privileges::{Rights, restrict};
use crate::scheduling::{processors_of, raise_open_files};

/// The user that a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The same user as this process.
    Own,
    /// The person who started squall, through a further user namespace. In its own namespace this process is root, and
    /// programs such as browsers refuse to run as root.
    Person {
        /// The person's user id.
        uid: u32,
        /// The person's group id.
        gid: u32,
    },
}

/// Makes the next child of the calling thread the first process of a PID namespace.
pub fn enter_pid_namespace() -> Result<(), SetupError> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(SetupError::system(
        "make a PID namespace (so that no program outlives its link)",
    ))
}

/// Starts `command` in `host`, where `names` resolve to these addresses. It inherits the caller's terminal and receives its
/// signals.
pub fn start(
    host: &Host,
    names: &[(Ipv4Addr, &str)],
    identity: Identity,
    mut command: Command,
) -> Result<io::Result<Child>, SetupError> {
    if let Identity::Person { uid, gid } = identity {
        let (uid_map, gid_map) = (format!("{uid} 0 1"), format!("{gid} 0 1"));
        let become_person = move || -> io::Result<()> {
            unshare(CloneFlags::CLONE_NEWUSER)?;
            std::fs::write("/proc/self/uid_map", &uid_map)?;
            std::fs::write("/proc/self/gid_map", &gid_map)
        };
        // SAFETY: between fork and exec only async-signal-safe code may run. `become_person` makes system calls; its paths
        // are short enough for std to pass them on the stack, and the maps are allocated already.
        unsafe { command.pre_exec(become_person) };
    }
    // The signal mask is inherited, and programs expect an empty one. It must be cleared in the child: if one of our
    // threads unblocked signals, even briefly, it could take the SIGCHLD of a program that ends at once, and nothing would
    // ever reap it.
    let unblock = || Ok(SigSet::empty().thread_set_mask()?);
    // SAFETY: between fork and exec only async-signal-safe code may run: this is one system call on plain data.
    unsafe { command.pre_exec(unblock) };
    host.run(|| {
        names::install(names)?;
        Ok(command.spawn())
    })
}

/// What a signal asks of a process that supervises programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// A child has ended: call `reap`.
    Reap,
    /// Ctrl-C or Ctrl-\ from the terminal, which the programs received as well.
    TerminalInterrupt,
    /// This process is asked to end, by this signal.
    End(Signal),
}

/// Signals as events to wait for rather than interruptions.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD for the calling thread and the threads it starts from now on,
    /// and collects them here. Call it while the process has a single thread.
    pub fn block() -> Result<Signals, SetupError> {
        let mut set = SigSet::empty();
        let all = [
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGCHLD,
        ];
        all.into_iter().for_each(|signal| set.add(signal));
        set.thread_block()
            .map_err(SetupError::system("block signals"))?;
        SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map(Signals)
            .map_err(SetupError::system("make a signalfd"))
    }

    /// The next signal, or `None` if no signal is pending.
    pub fn next(&self) -> Option<SignalRequest> {
        let found = self.0.read_signal().ok()??;
        let signal = Signal::try_from(found.ssi_signo as i32).ok()?;
        Some(match signal {
            Signal::SIGCHLD => SignalRequest::Reap,
            Signal::SIGINT | Signal::SIGQUIT if found.ssi_code == libc::SI_KERNEL => {
                SignalRequest::TerminalInterrupt
            }
            signal => SignalRequest::End(signal),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramExit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Killed(Signal),
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramExit::Code(code) => write!(f, "code {code}"),
            ProgramExit::Killed(signal) => write!(f, "{signal}"),
        }
    }
}

impl ProgramExit {
    /// The exit code as a shell reports it: the code, or 128 plus the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            ProgramExit::Code(code) => code,
            ProgramExit::Killed(signal) => 128 + signal as i32,
        }
    }
}

/// Reaps one child that has ended; `None` if there is none.
pub fn reap() -> Option<(u32, ProgramExit)> {
    loop {
        return match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => {
                Some((pid.as_raw() as u32, ProgramExit::Code(code)))
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                Some((pid.as_raw() as u32, ProgramExit::Killed(signal)))
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => None,
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => None,
        };
    }
}

/// Sends a signal to a process that this one has started and not yet reaped.
pub fn signal(process: u32, signal: Signal) {
    // This fails only if the process has just ended.
    let _ = kill(Pid::from_raw(process as i32), signal);
}

/// Sends SIGTERM or SIGKILL to all other processes of this PID namespace. Only its first process may call this.
pub fn signal_all_others(with: Signal) {
    if std::process::id() == 1 {
        // -1 means every process that this one may signal, except itself. Here that is its namespace.
        let _ = kill(Pid::from_raw(-1), with);
    }
}

/// Whether this process has a child, ended or not.
pub fn has_children() -> bool {
    let looking = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
    !matches!(waitid(Id::All, looking), Err(Errno::ECHILD))
}

/// Makes this process inherit the processes below it whose parent ends, instead of the machine's first process
/// (prctl(2), PR_SET_CHILD_SUBREAPER).
pub fn inherit_orphans() -> Result<(), SetupError> {
    prctl::set_child_subreaper(true).map_err(SetupError::system("inherit orphans"))
}

/// Kills (SIGKILL) and reaps all children of this process, and the orphans that it inherits from them, for at most `time`.
/// Returns whether all are gone. Call it only once every child that this process started itself has been reaped.
pub fn end_orphans(time: Duration) -> bool {
    const PAUSE: Duration = Duration::from_millis(5);
    let give_up = Instant::now() + time;
    while has_children() {
        while reap().is_some() {}
        children().into_iter().for_each(|child| {
            let _ = kill(child, Signal::SIGKILL);
        });
        if Instant::now() >= give_up {
            return !has_children();
        }
        thread::sleep(PAUSE);
    }
    true
}

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw();
    let is_child = |number: &i32| stat_number(*number, 1) == Some(own);
    let numbers = numbers_in("/proc").unwrap_or_default();
    numbers
        .into_iter()
        .filter(is_child)
        .map(Pid::from_raw)
        .collect()
}

/// The entries of a folder whose names are numbers.
fn numbers_in(folder: &str) -> io::Result<Vec<i32>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// A field of a process's /proc/PID/stat that is a number (proc_pid_stat(5)). Fields count from 0 after the name, which may
/// contain any character; 1 is the parent, 2 the process group.
fn stat_number(process: i32, field: usize) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(field)?.parse().ok()
}

/// A program that dies with the thread that started it, and leads its own process group. It is not reaped before `reap`, so
/// its process id, which is also its group's, cannot be reused.
#[derive(Debug)]
pub struct TiedProgram {
    leader: Pid,
}

/// Starts `command` and ties it to the calling thread, whose end kills it (PR_SET_PDEATHSIG). It runs in the host with this
/// namespace, if one is given, on these processors, unless the list is empty, and with the highest permitted limit of open
/// files. It gets no more rights than [`Rights::PROGRAMS`], even as root. If `command` asks for pipes, they are in the
/// returned `Child`, which must not be waited for.
pub fn start_tied(
    namespace: Option<BorrowedFd<'_>>,
    processors: &[usize],
    mut command: Command,
) -> io::Result<(TiedProgram, Child)> {
    let mut set = CpuSet::new();
    processors.iter().try_for_each(|&cpu| set.set(cpu))?;
    let is_pinned = !processors.is_empty();
    let namespace = namespace.map(|namespace| namespace.as_raw_fd());
    let starter = Pid::this();
    let settle = move || -> io::Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The starter may already have died. From a new PID namespace it appears as 0.
        if ![starter, Pid::from_raw(0)].contains(&getppid()) {
            return Err(Errno::ESRCH.into());
        }
        if let Some(namespace) = namespace {
            // SAFETY: the caller lends the descriptor until the program has started, so it is open.
            let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
        }
        if is_pinned {
            sched_setaffinity(Pid::from_raw(0), &set)?;
        }
        raise_open_files()?;
        // Entering the namespace takes rights that a program is not given.
        restrict(Rights::PROGRAMS)?;
        // The signal mask is inherited, and programs expect an empty one.
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    command.process_group(0);
    // SAFETY: between fork and exec only async-signal-safe code may run. `settle` makes system calls on plain data that it
    // owns (`restrict` too), and allocates nothing.
    unsafe { command.pre_exec(settle) };
    let child = command.spawn()?;
    let leader = Pid::from_raw(child.id() as i32);
    Ok((TiedProgram { leader }, child))
}

impl TiedProgram {
    /// The program's process id.
    pub fn id(&self) -> u32 {
        self.leader.as_raw() as u32
    }

    /// The processors that the threads of its group may run on, combined and in order, from sched_getaffinity(2) for each
    /// thread (`Cpus_allowed_list` of /proc/PID/status). Threads that end while this reads them are left out.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        let mut found = BTreeSet::new();
        for process in numbers_in("/proc")? {
            if stat_number(process, 2) != Some(self.leader.as_raw()) {
                continue;
            }
            for thread in numbers_in(&format!("/proc/{process}/task")).unwrap_or_default() {
                found.extend(processors_of(Pid::from_raw(thread)).unwrap_or_default());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Waits until it has ended, and leaves it unreaped. Returns `None` if it was reaped elsewhere.
    pub fn wait_for_end(&self) -> Option<ProgramExit> {
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            return match waitid(Id::Pid(self.leader), flags) {
                Ok(WaitStatus::Exited(_, code)) => Some(ProgramExit::Code(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => Some(ProgramExit::Killed(signal)),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => None,
            };
        }
    }

    /// Asks its whole group to end (SIGTERM).
    pub fn terminate(&self) {
        // This fails only if the group is gone.
        let _ = killpg(self.leader, Signal::SIGTERM);
    }

    /// Kills its whole group (SIGKILL).
    pub fn kill(&self) {
        let _ = killpg(self.leader, Signal::SIGKILL);
    }

    /// Reaps it, waiting for its end. From now on its process id may be reused.
    pub fn reap(&self) {
        while waitpid(self.leader, None) == Err(Errno::EINTR) {}
    }

    /// Whether the program's process group is gone. Call it after `reap`; other members are reaped by the process that inherits
    /// them.
    pub fn is_group_gone(&self) -> bool {
        killpg(self.leader, None) == Err(Errno::ESRCH)
    }
}
