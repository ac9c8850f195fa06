//! Programs: finding them, pinning them to a processor, and measuring what they cost.
//!
//! A client's cost is the processor time of the child that was waited for (getrusage). A server's cost is what its
//! threads used between two readings (/proc/PID/task/*/schedstat, in nanoseconds). This module knows nothing of HTTP.

use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

/// How long a server may take until it listens, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for a server to finish its work after its client has gone.
const SETTLE: Duration = Duration::from_millis(100);

/// The two processors used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) client: usize,
}

impl Cores {
    /// The first and the last processor that this process may use.
    pub(crate) fn find() -> Result<Cores> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for processors")?;
        let mut usable = (0..CpuSet::count()).filter(|core| allowed.is_set(*core) == Ok(true));
        match (usable.next(), usable.next_back()) {
            (Some(server), Some(client)) => Ok(Cores { server, client }),
            _ => bail!("this bench needs two processors: one for servers, one for clients"),
        }
    }
}

/// Starts a child on one processor: it inherits the affinity of the thread that starts it.
fn spawn_on(core: usize, command: &mut Command) -> Result<Child> {
    let me = Pid::from_raw(0);
    let before = sched_getaffinity(me).context("cannot ask for processors")?;
    let mut only = CpuSet::new();
    only.set(core).context("no such processor")?;
    sched_setaffinity(me, &only).context("cannot pin to a processor")?;
    let child = command.spawn();
    sched_setaffinity(me, &before).context("cannot unpin from a processor")?;
    child.with_context(|| format!("cannot start {command:?}"))
}

/// Runs `work` on a separate thread that is pinned to one processor.
pub(crate) fn on_processor<T: Send>(core: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
    let mut only = CpuSet::new();
    only.set(core).context("no such processor")?;
    let pinned = move || {
        sched_setaffinity(Pid::from_raw(0), &only).context("cannot pin to a processor")?;
        Ok(work())
    };
    let done = thread::scope(|scope| scope.spawn(pinned).join());
    done.unwrap_or_else(|_| bail!("a thread panicked"))
}

/// Searches the folder of scripts/peers first, then PATH, then where Debian installs servers.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(peers().join("bin"))
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The folder that scripts/peers installs to.
pub(crate) fn peers() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty()) {
        Some(folder) => workspace.join(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers"),
    }
}

/// What a client printed, its processor time, and how long it ran.
pub(crate) struct ProcessResult {
    pub(crate) printed: String,
    pub(crate) cost: Duration,
    pub(crate) took: Duration,
}

/// Runs a client to its end, which must be successful.
pub(crate) fn run_on(core: usize, command: &mut Command) -> Result<ProcessResult> {
    let before = children()?;
    let began = Instant::now();
    let mut child = spawn_on(
        core,
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    )?;
    let mut printed = String::new();
    let mut stdout = child.stdout.take().context("stdout was asked for")?;
    stdout.read_to_string(&mut printed)?;
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}\n{printed}");
    Ok(ProcessResult {
        printed,
        cost: children()? - before,
        took: began.elapsed(),
    })
}

/// The processor time of all children that were waited for.
fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask for processor time")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros as u64))
}

/// A server that runs until it is dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) log: PathBuf,
}

impl Daemon {
    /// Starts a server in a folder, with its output in `log`.
    pub(crate) fn start_on(
        core: usize,
        folder: &Path,
        log: &str,
        command: &mut Command,
    ) -> Result<Daemon> {
        let log = folder.join(log);
        let out = File::create(&log)?;
        let command = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        let child = spawn_on(core, command)?;
        Ok(Daemon { child, log })
    }

    /// Waits until the server listens on the port.
    pub(crate) fn wait_for_port(&mut self, port: u16) -> Result<()> {
        self.wait_until(|_| {
            Ok(TcpStream::connect(("127.0.0.1", port))
                .is_ok()
                .then_some(()))
        })
    }

    /// Waits until `found` finds something in the server's log.
    pub(crate) fn wait_for_words<T>(&mut self, found: impl Fn(&str) -> Option<T>) -> Result<T> {
        self.wait_until(|log| Ok(found(&fs::read_to_string(log)?)))
    }

    fn wait_until<T>(&mut self, found: impl Fn(&Path) -> Result<Option<T>>) -> Result<T> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found(&self.log)? {
                return Ok(found);
            }
            let has_ended = self.child.try_wait()?.is_some();
            if has_ended || Instant::now() > give_up {
                bail!("no server: {}", fs::read_to_string(&self.log)?);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The processor time that the server's threads have used so far.
    pub(crate) fn cost(&self) -> Result<Duration> {
        cost_of(self.child.id())
    }
}

/// The processor time that the threads of a process have used so far.
pub(crate) fn cost_of(process: u32) -> Result<Duration> {
    thread::sleep(SETTLE);
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = stat
            .split(' ')
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanos += ran.context("schedstat begins with a time")?;
    }
    Ok(Duration::from_nanos(nanos))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is currently free.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
