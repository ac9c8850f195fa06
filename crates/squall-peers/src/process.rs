//! A program of ours while it runs: started in a host, watched, ended with all of its process group.
//!
//! A thread of its own starts it, waits for its end and keeps it unreaped until it is stopped: so the kernel kills it when
//! this process dies in whatever way, and its process id means nothing else before the last signal is sent. A program
//! that moves out of its group, or whose children outlive it when squall is killed, ends with squall's PID namespace.

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

use squall_linux::host::Host;
use squall_linux::program::{self, Ended, Tied};
use thiserror::Error;

use crate::order::{Content, RenderedFile};

/// How long a program that is asked to end may take. None of those that squall knows needs more than a moment.
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
    /// A file of its folder could not be made.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that it is to have could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system did not start it.
    #[error("cannot start {}: {source}; is it a program of this machine's kind, and does the host still exist?", program.display())]
    Spawn {
        /// Its file.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// With a code or by a signal; `None`: nobody knows, somebody else has reaped it.
    pub how: Option<Ended>,
    /// The last lines of its log.
    pub last_words: Vec<String>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            Some(Ended::Code(code)) => write!(f, "ended with code {code}")?,
            Some(Ended::Killed(signal)) => {
                write!(f, "ended with signal {} ({signal})", signal as i32)?;
            }
            None => f.write_str("ended, nobody knows how")?,
        }
        match self.last_words.as_slice() {
            [] => f.write_str(", without a word"),
            words => write!(f, "; its last words: {}", words.join(" | ")),
        }
    }
}

/// What is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [OsString],
    pub(crate) environment: &'a [(String, OsString)],
    /// Its working directory; its log is in it.
    pub(crate) folder: &'a Path,
    pub(crate) host: Option<&'a Host>,
    pub(crate) processors: &'a [usize],
    pub(crate) speech: Speech,
}

/// What of a program's standard files is a pipe; the others are /dev/null and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Nothing.
    None,
    /// Its stderr is read.
    Stderr,
    /// It is spoken to by its descriptors 3 and 4, which stdin and stdout are tied to.
    Conversation,
}

/// The pipes of a program.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Ties descriptors 3 and 4 to stdin and stdout; then the program takes the shell's place.
const TIED: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2";

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Process {
    tied: Arc<Tied>,
    log: PathBuf,
    ended: Arc<OnceLock<Option<Ended>>>,
    /// Dropped, it lets the keeper reap the program.
    release: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    pipes: Pipes,
}

impl Process {
    pub(crate) fn start(launch: &Launch<'_>) -> Result<Process, StartError> {
        let log = launch.folder.join(format!("{}.log", launch.name));
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let unwritten = |source| StartError::Write {
            path: log.clone(),
            source,
        };
        // Two handles of one file: both append.
        let (out, err) = (open().map_err(unwritten)?, open().map_err(unwritten)?);
        let is_conversation = launch.speech == Speech::Conversation;
        let mut command = match is_conversation {
            false => Command::new(launch.program),
            true => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", TIED]).arg(launch.program);
                shell
            }
        };
        command
            .args(launch.arguments)
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(launch.folder)
            .stdin(piped_or(is_conversation, Stdio::null()))
            .stdout(piped_or(is_conversation, out.into()))
            .stderr(piped_or(launch.speech == Speech::Stderr, err.into()));
        let not_started = |source| StartError::Spawn {
            program: launch.program.to_owned(),
            source,
        };
        let ended = Arc::new(OnceLock::new());
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let namespace = launch.host.map(|host| host.as_fd().try_clone_to_owned());
        let namespace = namespace.transpose().map_err(not_started)?;
        let processors = launch.processors.to_vec();
        let keeper = thread::Builder::new()
            .name(format!("keeper-{}", launch.name))
            .spawn({
                let ended = Arc::clone(&ended);
                move || keep(command, namespace, &processors, &tell, &ended, &released)
            })
            .map_err(not_started)?;
        let keeper_is_gone = || Err(io::Error::other("its thread ended"));
        let (tied, pipes) = told
            .recv()
            .unwrap_or_else(|_| keeper_is_gone())
            .map_err(not_started)?;
        Ok(Process {
            tied,
            log,
            ended,
            release: Some(release),
            keeper: Some(keeper),
            pipes,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.tied.id()
    }

    /// The processors that its group may run on.
    pub(crate) fn processors(&self) -> io::Result<Vec<usize>> {
        self.tied.processors()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Its pipes, the first time.
    pub(crate) fn take_pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    /// How it ended, if it has.
    pub(crate) fn has_ended(&self) -> Option<Exit> {
        self.ended.get().map(|how| Exit {
            how: *how,
            last_words: last_lines(&self.log),
        })
    }

    /// Waits for its end until `deadline`.
    pub(crate) fn wait_until(&self, deadline: Instant) -> Option<Exit> {
        while self.ended.get().is_none() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        self.has_ended()
    }

    /// Ends it with its group: SIGTERM, and SIGKILL for whoever is left after a while. Returns at once if it was done.
    pub(crate) fn stop(&mut self) {
        let Some(release) = self.release.take() else {
            return;
        };
        if self.ended.get().is_none() {
            self.tied.ask_to_end();
            self.wait_until(Instant::now() + GRACE);
        }
        // Somebody else has reaped it: its process id may be another's by now.
        if self.ended.get() != Some(&None) {
            self.tied.kill();
        }
        drop(release);
        if let Some(keeper) = self.keeper.take() {
            // It cannot panic, and after SIGKILL it cannot wait for long.
            let _ = keeper.join();
        }
        let give_up = Instant::now() + LAST_GRACE;
        while !self.tied.is_group_gone() && Instant::now() < give_up {
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
    match is_piped {
        true => Stdio::piped(),
        false => other,
    }
}

type Started = io::Result<(Arc<Tied>, Pipes)>;

/// Starts the program, and outlives it.
fn keep(
    command: Command,
    namespace: Option<OwnedFd>,
    processors: &[usize],
    tell: &Sender<Started>,
    ended: &OnceLock<Option<Ended>>,
    released: &Receiver<()>,
) {
    let lent = namespace.as_ref().map(AsFd::as_fd);
    let (tied, pipes) = match program::start_tied(lent, processors, command) {
        Ok((tied, mut child)) => {
            let pipes = Pipes {
                stdin: child.stdin.take(),
                stdout: child.stdout.take(),
                stderr: child.stderr.take(),
            };
            (Arc::new(tied), pipes)
        }
        Err(error) => {
            // Nobody listens only if the starter has panicked.
            let _ = tell.send(Err(error));
            return;
        }
    };
    drop(namespace);
    let _ = tell.send(Ok((Arc::clone(&tied), pipes)));
    let how = tied.wait_for_end();
    // Nobody else sets it.
    let _ = ended.set(how);
    // An error means that the process is to be reaped now; nothing is ever sent.
    let _ = released.recv();
    tied.reap();
}

/// Makes the folder and the files in it.
pub(crate) fn write_files(folder: &Path, files: &[RenderedFile]) -> Result<(), StartError> {
    let unwritten = |path: &Path| {
        let path = path.to_owned();
        move |source| StartError::Write { path, source }
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
        if matches!(file.content, Content::Joined(_)) {
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
        Content::Text(text) => Ok(text.clone().into_bytes()),
        Content::Filler(bytes) => Ok(vec![b'x'; bytes.get() as usize]),
        Content::Joined(files) => {
            let mut all = Vec::new();
            for path in files {
                let read = fs::read(path);
                all.extend(read.map_err(|source| StartError::Read {
                    path: path.clone(),
                    source,
                })?);
            }
            Ok(all)
        }
    }
}

/// The end of a log.
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

/// The last bytes of a file, as text; empty if there is none.
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
