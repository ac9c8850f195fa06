//! A program that squall has started: started in a host, watched, and stopped with its whole process group.
//!
//! A separate thread starts it, waits for its end and keeps it unreaped until it is stopped. So the kernel kills it
//! however this process dies, and its process id cannot be reused before the last signal is sent. A program that leaves
//! its group, or whose children outlive it when squall is killed, ends with squall's PID namespace.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use squall_base::Time;
use squall_linux::clock;
use squall_linux::host::Host;
use squall_linux::program::{self, ProgramExit, TiedProgram};
use thiserror::Error;

use crate::order::{Content, ProgramFile};

/// How long a program may take to end after SIGTERM. None of those that squall knows needs more than a moment.
const GRACE: Duration = Duration::from_secs(2);
/// How long the rest of its group may take after SIGKILL.
const LAST_GRACE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// How much of a log an error shows.
const LAST_LINES: usize = 8;
const LAST_BYTES: u64 = 4_096;

/// Why a program could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// A file in its folder could not be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// A file that it is to get could not be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The system could not start it.
    #[error("cannot start {program}: {1}; is it built for this machine, and does the host still exist?", program = .0.display())]
    Spawn(PathBuf, #[source] io::Error),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// With a code or by a signal; `None`: unknown, because another process has reaped it.
    pub status: Option<ProgramExit>,
    /// When it ended, on CLOCK_MONOTONIC.
    pub at: Time,
    /// The last lines of its log, at most eight.
    pub last_lines: Vec<String>,
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(ProgramExit::Code(code)) => write!(f, "ended with code {code}")?,
            Some(ProgramExit::Killed(signal)) => {
                write!(f, "ended with signal {} ({signal})", signal as i32)?;
            }
            None => f.write_str("ended for an unknown reason")?,
        }
        match self.last_lines.as_slice() {
            [] => f.write_str(", without any output"),
            words => write!(f, "; its last output: {}", words.join(" | ")),
        }
    }
}

/// What to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [OsString],
    pub(crate) environment: &'a [(String, OsString)],
    /// Its working directory, which also gets its log.
    pub(crate) folder: &'a Path,
    pub(crate) host: Option<&'a Host>,
    pub(crate) processors: &'a [usize],
    pub(crate) piped_streams: PipedStreams,
}

/// Which of a program's standard streams are pipes; the others are /dev/null and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipedStreams {
    /// None.
    None,
    /// Its stderr is read.
    Stderr,
    /// squall converses with it on its descriptors 3 and 4, which are connected to stdin and stdout.
    Conversation,
}

#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Connects descriptors 3 and 4 to stdin and stdout; then the program replaces the shell.
const PIPE_SCRIPT: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2";

/// How and when a program ended; no status: another process has reaped it.
#[derive(Clone, Copy, Debug)]
struct ProcessEnd {
    status: Option<ProgramExit>,
    at: Time,
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Process {
    tied_program: Arc<TiedProgram>,
    log: PathBuf,
    ended: Arc<OnceLock<ProcessEnd>>,
    /// Dropping it lets the supervisor reap the program.
    release: Option<Sender<()>>,
    supervisor: Option<JoinHandle<()>>,
    pipes: Pipes,
}

impl Process {
    pub(crate) fn start(launch: &Launch<'_>) -> Result<Process, StartError> {
        let log = launch.folder.join(format!("{}.log", launch.name));
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let unwritten = |source| StartError::Write(log.clone(), source);
        // stdout and stderr get two handles of one file, both in append mode.
        let (out, err) = (open().map_err(unwritten)?, open().map_err(unwritten)?);
        let is_conversation = launch.piped_streams == PipedStreams::Conversation;
        let mut command = if is_conversation {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", PIPE_SCRIPT]).arg(launch.program);
            shell
        } else {
            Command::new(launch.program)
        };
        command
            .args(launch.arguments)
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(launch.folder)
            .stdin(piped_or(is_conversation, Stdio::null()))
            .stdout(piped_or(is_conversation, out.into()))
            .stderr(piped_or(
                launch.piped_streams == PipedStreams::Stderr,
                err.into(),
            ));
        let not_started = |source| StartError::Spawn(launch.program.to_owned(), source);
        let ended = Arc::new(OnceLock::new());
        let (release, released) = mpsc::channel();
        let (start_sender, start_receiver) = mpsc::channel();
        let namespace = launch.host.map(|host| host.as_fd().try_clone_to_owned());
        let namespace = namespace.transpose().map_err(not_started)?;
        let processors = launch.processors.to_vec();
        let supervisor = thread::Builder::new()
            .name(format!("keeper-{}", launch.name))
            .spawn({
                let ended = Arc::clone(&ended);
                move || {
                    supervise(
                        command,
                        namespace,
                        &processors,
                        &start_sender,
                        &ended,
                        &released,
                    );
                }
            })
            .map_err(not_started)?;
        let supervisor_is_gone = || Err(io::Error::other("its thread ended"));
        let (tied_program, pipes) = start_receiver
            .recv()
            .unwrap_or_else(|_| supervisor_is_gone())
            .map_err(not_started)?;
        Ok(Process {
            tied_program,
            log,
            ended,
            release: Some(release),
            supervisor: Some(supervisor),
            pipes,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.tied_program.id()
    }

    /// The processors that its group may run on.
    pub(crate) fn processors(&self) -> io::Result<Vec<usize>> {
        self.tied_program.processors()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The program's pipes, on the first call.
    pub(crate) fn take_pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    /// How the program ended, if it has.
    pub(crate) fn has_ended(&self) -> Option<ExitReport> {
        self.ended.get().map(|end| ExitReport {
            status: end.status,
            at: end.at,
            last_lines: last_lines(&self.log),
        })
    }

    /// Waits until `deadline` for the program to end.
    pub(crate) fn wait_until(&self, deadline: Instant) -> Option<ExitReport> {
        while self.ended.get().is_none() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        self.has_ended()
    }

    /// Stops the program with its group: SIGTERM, then SIGKILL for the processes that remain after a while. Returns immediately
    /// if it is already stopped.
    pub(crate) fn stop(&mut self) {
        let Some(release) = self.release.take() else {
            return;
        };
        if self.ended.get().is_none() {
            self.tied_program.terminate();
            self.wait_until(Instant::now() + GRACE);
        }
        // The program is not killed if another process has reaped it, because its process id may have been reused.
        if self.ended.get().is_none_or(|end| end.status.is_some()) {
            self.tied_program.kill();
        }
        drop(release);
        if let Some(supervisor) = self.supervisor.take() {
            // The supervisor cannot panic, and cannot wait for long after SIGKILL.
            let _ = supervisor.join();
        }
        let give_up = Instant::now() + LAST_GRACE;
        while !self.tied_program.is_group_gone() && Instant::now() < give_up {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn piped_or(is_piped: bool, other: Stdio) -> Stdio {
    if is_piped { Stdio::piped() } else { other }
}

type StartResult = io::Result<(Arc<TiedProgram>, Pipes)>;

/// Starts the program, and outlives it.
fn supervise(
    command: Command,
    namespace: Option<OwnedFd>,
    processors: &[usize],
    start_sender: &Sender<StartResult>,
    ended: &OnceLock<ProcessEnd>,
    released: &Receiver<()>,
) {
    let lent = namespace.as_ref().map(AsFd::as_fd);
    let (tied_program, pipes) = match program::start_tied(lent, processors, command) {
        Ok((tied_program, mut child)) => {
            let pipes = Pipes {
                stdin: child.stdin.take(),
                stdout: child.stdout.take(),
                stderr: child.stderr.take(),
            };
            (Arc::new(tied_program), pipes)
        }
        Err(error) => {
            // Only a starter that has panicked does not receive this.
            let _ = start_sender.send(Err(error));
            return;
        }
    };
    drop(namespace);
    let _ = start_sender.send(Ok((Arc::clone(&tied_program), pipes)));
    let status = tied_program.wait_for_end();
    let at = clock::now();
    // Nothing else sets `ended`.
    let _ = ended.set(ProcessEnd { status, at });
    // An error means that the process is to be reaped now; nothing is ever sent.
    let _ = released.recv();
    tied_program.reap();
}

/// Creates the folder and its files.
pub(crate) fn write_files(folder: &Path, files: &[ProgramFile]) -> Result<(), StartError> {
    let unwritten = |path: &Path| {
        let path = path.to_owned();
        move |source| StartError::Write(path, source)
    };
    fs::create_dir_all(folder).map_err(unwritten(folder))?;
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(unwritten(parent))?;
        }
        let bytes = content(&file.content)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        if matches!(file.content, Content::Joined(_) | Content::Private(_)) {
            options.mode(0o600);
        }
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(&bytes));
        written.map_err(unwritten(&path))?;
    }
    Ok(())
}

fn content(content: &Content) -> Result<Vec<u8>, StartError> {
    match content {
        Content::Text(text) | Content::Private(text) => Ok(text.clone().into_bytes()),
        Content::Filler(bytes) => Ok(vec![b'x'; bytes.get() as usize]),
        Content::Joined(files) => {
            let mut all = Vec::new();
            for path in files {
                let read = fs::read(path);
                all.extend(read.map_err(|source| StartError::Read(path.clone(), source))?);
            }
            Ok(all)
        }
    }
}

/// The last lines of a log.
fn last_lines(log: &Path) -> Vec<String> {
    let text = tail(log, LAST_BYTES);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines[from..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

/// The last bytes of a file, as text; empty if the file does not exist.
pub(crate) fn tail(path: &Path, bytes: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        let mut end = Vec::new();
        file.take(bytes).read_to_end(&mut end)?;
        Ok(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_may_read_a_file_with_a_programs_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, content| ProgramFile {
            path: path.into(),
            content,
        };
        let files = [
            file("open.conf", Content::Text("a".to_owned())),
            file("fields", Content::Private("cookie: b".to_owned())),
        ];
        write_files(folder.path(), &files).unwrap();
        let mode = |name: &str| {
            let found = fs::metadata(folder.path().join(name)).unwrap();
            found.permissions().mode() & 0o777
        };
        assert_eq!(mode("fields"), 0o600);
        assert_ne!(mode("open.conf"), 0o600);
    }
}
