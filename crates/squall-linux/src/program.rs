//! Programs that are not ours: started in a host, ended with everything that they started.
//!
//! `enter_pid_namespace` makes the next child the first process of a PID namespace; when that ends, in whatever way,
//! the kernel kills all others in it, daemons included. That first process also inherits orphans and must reap them:
//! `Signals` tells when, `reap` does it. Without such a namespace `start_tied` starts what must not outlive this process.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getppid};

use crate::error::SetupError;
use crate::host::Host;
use crate::names;

/// As whom a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// As this process.
    Own,
    /// As the person who started squall, seen through a further user namespace: this process passes for root
    /// in its own, and programs such as browsers refuse to run as root.
    Person {
        /// The person's user.
        uid: u32,
        /// The person's group.
        gid: u32,
    },
}

/// Makes the next child of the calling thread the first process of a PID namespace.
pub fn enter_pid_namespace() -> Result<(), SetupError> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(SetupError::system(
        "make a PID namespace (so that no program outlives its link)",
    ))
}

/// Starts `command` in `host`, where `names` mean these addresses. It gets the caller's terminal and signals.
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
        // SAFETY: between fork and exec only what is async-signal-safe may run. `become_person` makes system calls;
        // its paths are short enough for std to pass them on the stack, and the maps are allocated already.
        unsafe { command.pre_exec(become_person) };
    }
    // The mask is inherited, and programs expect none. A thread of ours that blocked nothing, even for so long, could
    // take the SIGCHLD of a program that ends at once, and nobody would ever hear of it.
    let unblock = || Ok(SigSet::empty().thread_set_mask()?);
    // SAFETY: between fork and exec only what is async-signal-safe may run: it is one system call on plain data.
    unsafe { command.pre_exec(unblock) };
    host.run(|| {
        names::give(names)?;
        Ok(command.spawn())
    })
}

/// What a signal asks of a process that looks after programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A child has ended: `reap`.
    Reap,
    /// The terminal's Ctrl-C or Ctrl-\, which the programs have got as well.
    TerminalInterrupt,
    /// Somebody wants this process to end, by this signal.
    End(Signal),
}

/// Signals as something to wait for, instead of something that interrupts.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD for the calling thread and those that it starts from now on, and
    /// gathers them here. Call it while there is one thread.
    pub fn gather() -> Result<Signals, SetupError> {
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

    /// The next one; `None` if there is none now.
    pub fn next(&self) -> Option<Asked> {
        let found = self.0.read_signal().ok()??;
        let signal = Signal::try_from(found.ssi_signo as i32).ok()?;
        Some(match signal {
            Signal::SIGCHLD => Asked::Reap,
            Signal::SIGINT | Signal::SIGQUIT if found.ssi_code == libc::SI_KERNEL => {
                Asked::TerminalInterrupt
            }
            signal => Asked::End(signal),
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
pub enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal.
    Killed(Signal),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "code {code}"),
            Ended::Killed(signal) => write!(f, "{signal}"),
        }
    }
}

impl Ended {
    /// As a shell says it: the code, or 128 and the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            Ended::Code(code) => code,
            Ended::Killed(signal) => 128 + signal as i32,
        }
    }
}

/// Reaps one child that has ended; `None` if there is none now.
pub fn reap() -> Option<(u32, Ended)> {
    loop {
        return match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => Some((pid.as_raw() as u32, Ended::Code(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                Some((pid.as_raw() as u32, Ended::Killed(signal)))
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => None,
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => None,
        };
    }
}

/// Sends a signal to a process that this one has started and not yet reaped.
pub fn signal(process: u32, signal: Signal) {
    // It fails only if the process has just ended.
    let _ = kill(Pid::from_raw(process as i32), signal);
}

/// Ends all other processes of this PID namespace: with SIGTERM, or with SIGKILL. For its first process only.
pub fn signal_all_others(with: Signal) {
    if std::process::id() == 1 {
        // -1 is everybody whom this process may signal but itself, and in its namespace.
        let _ = kill(Pid::from_raw(-1), with);
    }
}

/// Whether this process has a child, ended or not.
pub fn has_children() -> bool {
    let looking = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
    !matches!(waitid(Id::All, looking), Err(Errno::ECHILD))
}

/// The entries of a folder that are numbers.
fn numbers_in(folder: &str) -> io::Result<Vec<i32>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// The process group of a process (proc(5), /proc/PID/stat: the third field behind the name, which may hold anything).
fn group_of(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(") ")?;
    behind.split(' ').nth(2)?.parse().ok()
}

/// A program that dies with the thread that started it, the leader of a process group of its own. It is not reaped before
/// `reap`, so until then its process id, which is its group's too, means nothing else.
#[derive(Debug)]
pub struct Tied {
    leader: Pid,
}

/// Starts `command` for the calling thread, whose end kills it (PR_SET_PDEATHSIG): in the host whose namespace is given, if
/// one is, on these processors unless there are none, with as many open files as it may have. Handles of what it prints,
/// if `command` asks for pipes, are in the `Child`, which must not be waited for.
pub fn start_tied(
    namespace: Option<BorrowedFd<'_>>,
    processors: &[usize],
    mut command: Command,
) -> io::Result<(Tied, Child)> {
    let mut set = CpuSet::new();
    processors.iter().try_for_each(|&cpu| set.set(cpu))?;
    let is_pinned = !processors.is_empty();
    let namespace = namespace.map(|namespace| namespace.as_raw_fd());
    let starter = Pid::this();
    let settle = move || -> io::Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The starter may have died before. From a new PID namespace it is seen as 0.
        if ![starter, Pid::from_raw(0)].contains(&getppid()) {
            return Err(Errno::ESRCH.into());
        }
        if let Some(namespace) = namespace {
            // SAFETY: the caller lends it until the program has been started, so the descriptor is open.
            let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
        }
        if is_pinned {
            sched_setaffinity(Pid::from_raw(0), &set)?;
        }
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
        // The mask is inherited: programs expect none.
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    command.process_group(0);
    // SAFETY: between fork and exec only what is async-signal-safe may run. `settle` makes system calls on plain data
    // that it owns, and allocates nothing.
    unsafe { command.pre_exec(settle) };
    let child = command.spawn()?;
    let leader = Pid::from_raw(child.id() as i32);
    Ok((Tied { leader }, child))
}

impl Tied {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.leader.as_raw() as u32
    }

    /// The processors that the threads of its group may run on, all together and in order: what sched_getaffinity(2) says
    /// of each, which is `Cpus_allowed_list` of /proc/PID/status. Those that end meanwhile do not count.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        let mut found = BTreeSet::new();
        for process in numbers_in("/proc")? {
            if group_of(process) != Some(self.leader.as_raw()) {
                continue;
            }
            for thread in numbers_in(&format!("/proc/{process}/task")).unwrap_or_default() {
                let Ok(set) = sched_getaffinity(Pid::from_raw(thread)) else {
                    continue;
                };
                let is_set = |number: &usize| set.is_set(*number).unwrap_or(false);
                found.extend((0..CpuSet::count()).filter(is_set));
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Waits until it has ended, and leaves it unreaped. `None`: somebody else has reaped it.
    pub fn wait_for_end(&self) -> Option<Ended> {
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            return match waitid(Id::Pid(self.leader), flags) {
                Ok(WaitStatus::Exited(_, code)) => Some(Ended::Code(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => Some(Ended::Killed(signal)),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => None,
            };
        }
    }

    /// Asks its whole group to end (SIGTERM).
    pub fn ask_to_end(&self) {
        // It fails only if nobody is left.
        let _ = killpg(self.leader, Signal::SIGTERM);
    }

    /// Ends its whole group (SIGKILL).
    pub fn kill(&self) {
        let _ = killpg(self.leader, Signal::SIGKILL);
    }

    /// Reaps it, which waits for its end. From now on its process id may be another's.
    pub fn reap(&self) {
        while waitpid(self.leader, None) == Err(Errno::EINTR) {}
    }

    /// Whether nobody of its group is left. For when it has been reaped; others are reaped by whoever inherits them.
    pub fn is_group_gone(&self) -> bool {
        killpg(self.leader, None) == Err(Errno::ESRCH)
    }
}
