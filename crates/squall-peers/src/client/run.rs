//! A load generator from its order to its rows.
//!
//! Rows are read when it has ended, from its file, in one pass. A program that fails has rows all the same: its exit is
//! told beside them, and the caller judges.

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
use super::devtools::{self, Errand};
use super::order::ClientOrder;
use super::read::{ReadError, Readout, RowContext, RowFormat};
use super::{ClientDriver, Tells};
use crate::driver::Refusal;
use crate::find::Found;
use crate::order::Rendered;
use crate::process::{Exit, Launch, Pipes, Process, Speech, StartError, write_files};

/// How often a browser's folder is removed at most, and what is waited in between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A load generator that can be started.
#[derive(Clone, Debug)]
pub struct Client {
    order: ClientOrder,
    found: Found,
    rendered: Rendered,
    rows: Option<(PathBuf, RowFormat)>,
    speech: Speech,
    tells: Tells,
    processors: Vec<usize>,
}

/// Why a load generator has no rows.
#[derive(Debug, Error)]
pub enum ClientError {
    /// It was still running when its time was over, and was ended.
    #[error("{name} did not end in time; give it longer, or less to do")]
    TooLong {
        /// Its name.
        name: String,
    },
    /// It stopped speaking.
    #[error("{name}: {source}; it {exit}")]
    Conversation {
        /// Its name.
        name: String,
        /// How it ended.
        exit: Exit,
        /// What went wrong.
        source: io::Error,
    },
    /// Its log has no end, or none that can be read.
    #[error("{name} {exit}; {source}")]
    Rows {
        /// Its name.
        name: String,
        /// How it ended.
        exit: Exit,
        /// What is wrong with its log.
        source: Box<ReadError>,
    },
}

/// What came of a load generator.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its requests, in the order of its log.
    pub rows: Vec<RequestRecord>,
    /// How many it was to send, if that was known before. Fewer rows are requests that it does not tell of.
    pub asked: Option<u64>,
    /// What was read besides them.
    pub readout: Readout,
    /// What of a row it tells.
    pub tells: Tells,
}

impl Client {
    /// What `order` makes of this program, or why it cannot make this load.
    pub fn new(
        driver: &dyn ClientDriver,
        found: &Found,
        order: ClientOrder,
    ) -> Result<Client, Refusal> {
        let rows = driver
            .rows()
            .map(|(file, format)| (order.folder.join(file), format));
        Ok(Client {
            rendered: driver.render(&order, &found.version)?,
            rows,
            speech: match (driver.has_rows_on_stderr(), driver.loads_pages()) {
                (true, _) => Speech::Stderr,
                (false, true) => Speech::Conversation,
                (false, false) => Speech::None,
            },
            tells: driver.tells(),
            found: found.clone(),
            order,
            processors: Vec::new(),
        })
    }

    /// Runs it on these processors only; on all if there are none.
    pub fn pinned(mut self, processors: Vec<usize>) -> Client {
        self.processors = processors;
        self
    }

    /// Its files, arguments and environment, and what a person should know.
    pub fn rendered(&self) -> &Rendered {
        &self.rendered
    }

    /// Writes its files and starts it: in `host`, or in this machine's own network if there is none.
    pub fn start(self, host: Option<&Host>) -> Result<ClientRun, StartError> {
        let ClientOrder { name, folder, .. } = &self.order;
        write_files(folder, &self.rendered.files)?;
        let kept = self.rows.as_ref().filter(|_| self.speech != Speech::None);
        let kept = kept.map(|(path, _)| create(path)).transpose()?;
        let launch = Launch {
            name,
            program: &self.found.path,
            arguments: &self.rendered.arguments,
            environment: &self.rendered.environment,
            folder,
            host,
            processors: &self.processors,
            speech: self.speech,
        };
        let mut process = Process::start(&launch)?;
        let reader = kept.and_then(|file| self.read_along(process.take_pipes(), file));
        Ok(ClientRun {
            process,
            client: self,
            reader,
        })
    }

    /// Reads what it says while it runs, and speaks to it if it listens; the rows are kept in `file`.
    fn read_along(&self, pipes: Pipes, file: File) -> Option<JoinHandle<io::Result<()>>> {
        if let Some(stderr) = pipes.stderr {
            return Some(thread::spawn(move || {
                keep_lines(stderr, file);
                Ok(())
            }));
        }
        let (stdin, stdout) = (pipes.stdin?, pipes.stdout?);
        let errand = Errand::of(&self.order);
        Some(thread::spawn(move || {
            devtools::converse(stdin, stdout, &errand, file)
        }))
    }
}

fn create(path: &Path) -> Result<File, StartError> {
    File::create(path).map_err(|source| StartError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Keeps each line with the time at which it came. What cannot be written is missing among the rows, as `asked` shows.
fn keep_lines(stderr: ChildStderr, mut file: File) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length > 0)
    {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let came = format!("{}\t", now.as_nanos());
        let _ = file.write_all(&[came.as_bytes(), line.as_slice()].concat());
        line.clear();
    }
}

/// Removes what a browser that was killed has left in this folder of its own: tens of megabytes that nobody looks at. Its
/// processes may end a moment later than the one that was killed, and write until then.
pub fn remove_leftovers(folder: &Path) {
    let profile = folder.join(PROFILE);
    for _ in 0..TRIES {
        if !profile.exists() {
            return;
        }
        // What cannot be removed stays in the trial's folder.
        let _ = std::fs::remove_dir_all(&profile);
        thread::sleep(PAUSE);
    }
}

/// A load generator that was started. Dropped, it is stopped.
#[derive(Debug)]
pub struct ClientRun {
    process: Process,
    client: Client,
    reader: Option<JoinHandle<io::Result<()>>>,
}

impl ClientRun {
    /// Its process id, as this process sees it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The processors that the threads of its process group may run on, all together and in order.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        self.process.processors()
    }

    /// How it ended, if it has.
    pub fn has_ended(&self) -> Option<Exit> {
        self.process.has_ended()
    }

    /// Ends it with its process group; what it has logged stays.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Waits for its end until `deadline`, and reads its rows. One that has not ended by then is stopped.
    pub fn finish(mut self, deadline: Instant) -> Result<Finished, ClientError> {
        let name = self.client.order.name.clone();
        let Some(exit) = self.process.wait_until(deadline) else {
            return Err(ClientError::TooLong { name });
        };
        // Whoever of its group holds stderr open ends here.
        self.process.stop();
        // It does not panic, and its pipe has no writer any more.
        let reading = self.reader.take().and_then(|reader| reader.join().ok());
        if let Some(Err(source)) = reading {
            return Err(ClientError::Conversation { name, exit, source });
        }
        if self.client.speech == Speech::Conversation {
            remove_leftovers(&self.client.order.folder);
        }
        let mut rows = Vec::new();
        let readout = match &self.client.rows {
            None => Ok(Readout::default()),
            Some((path, format)) => read(path, *format, &self.client.order, &mut rows),
        };
        match readout {
            Ok(readout) => Ok(Finished {
                exit,
                rows,
                asked: self.client.order.load.requests(),
                readout,
                tells: self.client.tells,
            }),
            Err(source) => Err(ClientError::Rows {
                name,
                exit,
                source: Box::new(source),
            }),
        }
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
