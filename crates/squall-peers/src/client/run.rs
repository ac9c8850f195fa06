//! Runs a load generator, from its order to its rows.
//!
//! Rows are read from its file in one pass, after it has ended. A program that fails still has rows: its exit is
//! reported with them, and the caller judges.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use squall_base::record::RequestRecord;
use squall_linux::host::Host;
use thiserror::Error;

use super::chromium::PROFILE;
use super::devtools::{self, BrowserTask};
use super::driver::ClientDriver;
use super::order::ClientOrder;
use super::read::{ReadError, Readout};
use super::row::{RowContext, RowFormat};
use crate::driver::Refusal;
use crate::find::InstalledProgram;
use crate::order::{Invocation, SECRETS};
use crate::process::{ExitReport, Launch, PipedStreams, Pipes, Process, StartError, write_files};

/// How many times to try to remove a browser's folder, and the pause between tries.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// How many times in a row the folder must be absent: a process that is ending may create it again.
const ABSENT_TIMES: u32 = 3;

/// A load generator that can be started.
#[derive(Clone, Debug)]
pub struct Client {
    order: ClientOrder,
    installed: InstalledProgram,
    invocation: Invocation,
    rows: (PathBuf, RowFormat),
    piped_streams: PipedStreams,
    processors: Vec<usize>,
}

/// Why a load generator has no rows.
#[derive(Debug, Error)]
pub enum ClientError {
    /// It was still running when its time was up, and was stopped.
    #[error("{0} did not finish in time; give it more time, or less to do")]
    TooLong(String),
    /// The conversation with it broke off.
    #[error("{name}: {source}; it {exit}")]
    Conversation {
        /// Its name.
        name: String,
        /// How it ended.
        exit: ExitReport,
        /// What went wrong.
        source: io::Error,
    },
    /// Its log is incomplete, or cannot be read.
    #[error("{name} {exit}; {source}")]
    Rows {
        /// Its name.
        name: String,
        /// How it ended.
        exit: ExitReport,
        /// What is wrong with its log.
        source: Box<ReadError>,
    },
}

/// The result of a load generator.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// How it ended.
    pub exit: ExitReport,
    /// Its requests, in log order.
    pub rows: Vec<RequestRecord>,
    /// The number of requests that it should send, if known in advance. If rows are missing, the program did not report
    /// those requests.
    pub expected_requests: Option<u64>,
    /// What was read in addition to the rows.
    pub readout: Readout,
}

impl Client {
    /// Applies `order` to this program, or returns why it cannot generate this load.
    pub fn new(
        driver: &dyn ClientDriver,
        installed: &InstalledProgram,
        order: ClientOrder,
    ) -> Result<Client, Refusal> {
        let (file, format) = driver.rows();
        Ok(Client {
            invocation: driver.render(&order, &installed.version)?,
            rows: (order.folder.join(file), format),
            piped_streams: match (driver.has_rows_on_stderr(), driver.loads_pages()) {
                (true, _) => PipedStreams::Stderr,
                (false, true) => PipedStreams::Conversation,
                (false, false) => PipedStreams::None,
            },
            installed: installed.clone(),
            order,
            processors: Vec::new(),
        })
    }

    /// Makes the program run on these processors only; on all processors if the list is empty.
    pub fn pinned(mut self, processors: Vec<usize>) -> Client {
        self.processors = processors;
        self
    }

    /// Writes its files and starts it: in `host`, or in this machine's own network without one.
    pub fn start(self, host: Option<&Host>) -> Result<ClientRun, StartError> {
        let ClientOrder { name, folder, .. } = &self.order;
        write_files(folder, &self.invocation.files)?;
        let is_piped = self.piped_streams != PipedStreams::None;
        let file_of_rows = is_piped.then(|| create(&self.rows.0)).transpose()?;
        let launch = Launch {
            name,
            program: &self.installed.path,
            arguments: &self.invocation.arguments,
            environment: &self.invocation.environment,
            folder,
            host,
            processors: &self.processors,
            piped_streams: self.piped_streams,
        };
        let started = Process::start(&launch).inspect_err(|_| remove_leftovers(folder));
        let mut process = started?;
        let reader = file_of_rows.and_then(|file| self.spawn_reader(process.take_pipes(), file));
        Ok(ClientRun {
            process,
            client: self,
            reader,
        })
    }

    /// Reads the program's output while it runs, and converses with it if it expects that; the rows are kept in `file`.
    fn spawn_reader(&self, pipes: Pipes, file: File) -> Option<JoinHandle<io::Result<()>>> {
        if let Some(stderr) = pipes.stderr {
            return Some(thread::spawn(move || {
                record_lines(stderr, file);
                Ok(())
            }));
        }
        let (stdin, stdout) = (pipes.stdin?, pipes.stdout?);
        let task = BrowserTask::of(&self.order);
        Some(thread::spawn(move || {
            devtools::converse(stdin, stdout, &task, file)
        }))
    }
}

fn create(path: &Path) -> Result<File, StartError> {
    File::create(path).map_err(|source| StartError::Write(path.to_owned(), source))
}

/// Keeps each line with its time of arrival. Lines that cannot be written are missing among the rows, as
/// `expected_requests` shows.
fn record_lines(stderr: ChildStderr, mut file: File) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length > 0)
    {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let arrival = format!("{}\t", now.as_nanos());
        let _ = file.write_all(&[arrival.as_bytes(), line.as_slice()].concat());
        line.clear();
    }
}

/// Removes what an ended load generator leaves in its folder although nothing needs it: its secrets, and a browser's profile
/// of tens of megabytes. The processes of a browser that was killed may end a moment later, and write until then.
pub fn remove_leftovers(folder: &Path) {
    // Most programs have no such file. If it cannot be removed, only its owner may read it.
    let _ = std::fs::remove_file(folder.join(SECRETS));
    let profile = folder.join(PROFILE);
    if !profile.exists() {
        return;
    }
    let mut absent = 0;
    for _ in 0..TRIES {
        absent = if profile.exists() { 0 } else { absent + 1 };
        if absent == ABSENT_TIMES {
            return;
        }
        // What cannot be removed stays in the trial's folder.
        let _ = std::fs::remove_dir_all(&profile);
        thread::sleep(PAUSE);
    }
}

/// A running load generator. Dropping it stops the program and removes its leftover files.
#[derive(Debug)]
pub struct ClientRun {
    process: Process,
    client: Client,
    reader: Option<JoinHandle<io::Result<()>>>,
}

impl ClientRun {
    /// Its process id, in this process's PID namespace.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The processors that the threads of its process group may run on, in order.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        self.process.processors()
    }

    /// How the program ended, if it has.
    pub fn has_ended(&self) -> Option<ExitReport> {
        self.process.has_ended()
    }

    /// Stops the program with its process group; its log remains.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Waits until `deadline` for the program to end, and reads its rows. A program that has not ended by then is stopped.
    pub fn finish(mut self, deadline: Instant) -> Result<ClientReport, ClientError> {
        let name = self.client.order.name.clone();
        let Some(exit) = self.process.wait_until(deadline) else {
            return Err(ClientError::TooLong(name));
        };
        // End all processes of its group that still hold stderr open.
        self.process.stop();
        // The reader does not panic, and it ends because its pipe no longer has a writer.
        let reading = self.reader.take().and_then(|reader| reader.join().ok());
        if let Some(Err(source)) = reading {
            return Err(ClientError::Conversation { name, exit, source });
        }
        let mut rows = Vec::new();
        let (path, format) = &self.client.rows;
        match read(path, *format, &self.client.order, &mut rows) {
            Ok(readout) => Ok(ClientReport {
                exit,
                rows,
                expected_requests: self.client.order.load.requests(),
                readout,
            }),
            Err(source) => Err(ClientError::Rows {
                name,
                exit,
                source: Box::new(source),
            }),
        }
    }
}

impl Drop for ClientRun {
    fn drop(&mut self) {
        self.process.stop();
        remove_leftovers(&self.client.order.folder);
    }
}

fn read(
    path: &Path,
    format: RowFormat,
    order: &ClientOrder,
    rows: &mut Vec<RequestRecord>,
) -> Result<Readout, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { format, source })?;
    let context = RowContext {
        protocol: order.protocol,
        request_body_bytes: order.body.get(),
    };
    format.read(&mut BufReader::new(file), context, &mut |row| {
        rows.push(row);
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn secrets_and_a_browsers_files_are_removed_but_the_rows_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at(PROFILE)).unwrap();
        for name in [SECRETS, "curl.json"] {
            fs::write(at(name), "cookie: a").unwrap();
        }
        fs::write(at(PROFILE).join("cache"), "b").unwrap();
        remove_leftovers(folder.path());
        let left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, ["curl.json"]);
    }
}
