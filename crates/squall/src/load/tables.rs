//! What is written while a load runs: tables, other formats, and the totals behind the final results.
//!
//! Each table has its own shared writer (`shared_writer`), so that clients never wait for a disk; all output files with
//! request rows share one. Tables are written in parts, so what is written survives if the process is killed (squall-record
//! `table/parts.rs`). Times are counted from an epoch before the first connection.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use squall_analysis::load::{IntervalFigures, IntervalTotals, LoadTotals, MeasuredPhase, Timeline};
use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};
use squall_linux::{clock, scheduling};
use squall_record::export::{
    CsvExport, H2loadExport, IntervalLogExport, PercentileExport, RequestLine, VegetaExport,
};
use squall_record::{
    ExchangeWriter, FrameWriter, RecordError, RequestWriter, SocketWriter, TableRow, TableSnapshot,
    TableWriter,
};
use squall_stations::LogSinks;
use squall_stations::rows::{self, Capacity, RowSender, SpareTime, WakePolicy};

use super::arguments::Outputs;
use super::failed_files::FailedFiles;
use super::parts::{DrawnLoad, Parts};
use super::plan::RequestNames;
use super::shared_writer::{RowWriter, SharedWriter, SharedWriters, TimeBudget, WriteResult};
use super::words::Format;
use crate::background;

/// The origin of all recorded times, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    pub(super) time: Time,
    unix_ns: u64,
}

impl Epoch {
    pub(super) fn now() -> Epoch {
        Epoch {
            time: clock::now(),
            unix_ns: clock::unix_nanos(),
        }
    }
}

/// Running sums, which the screen reads while the load runs.
pub(super) struct Sums {
    pub(super) totals: LoadTotals,
    interval: Option<IntervalTotals>,
    /// Response times, each with the number of its request. Kept only for `--hold`, which has just two requests.
    answers: Option<Vec<(u32, Duration)>>,
    /// Kept only for `--report`.
    timeline: Option<Timeline>,
    /// Kept only for `--report`.
    drawn: Option<DrawnLoad>,
}

/// The sums of a load whose requests have all ended.
pub(super) struct FinalSums {
    pub(super) totals: LoadTotals,
    /// See [`Sums::answers`].
    pub(super) answers: Vec<(u32, Duration)>,
    /// See [`Sums::timeline`].
    pub(super) timeline: Option<Timeline>,
    /// See [`Sums::drawn`].
    pub(super) drawn: Option<DrawnLoad>,
}

impl Sums {
    /// The sums since the last call, which was `length` ago; `None` if the load is not watched.
    pub(super) fn take_interval(&mut self, length: Duration) -> Option<IntervalFigures> {
        Some(self.interval.as_mut()?.take(length))
    }
}

/// The shared sums; unset until the load has started.
#[derive(Clone)]
pub(super) struct SharedSums {
    sums: Arc<OnceLock<Mutex<Sums>>>,
    pub(super) failed_files: FailedFiles,
    /// Whether the screen watches the load.
    is_watched: bool,
    keeps_answers: bool,
    /// The parts of the load that are drawn, if any.
    drawn: Option<Parts>,
}

impl SharedSums {
    /// Starts the sums of a load that begins at `start` and has this measured phase, all counted from the epoch.
    pub(super) fn begin(&self, start: Time, phase: MeasuredPhase) {
        let drawn = self.drawn.clone();
        let sums = Sums {
            totals: LoadTotals::new(phase),
            interval: self.is_watched.then(IntervalTotals::default),
            answers: self.keeps_answers.then(Vec::new),
            timeline: self.drawn.as_ref().map(|_| Timeline::new(phase.from)),
            drawn: drawn.map(|parts| DrawnLoad::new(parts, start, phase)),
        };
        let _ = self.sums.set(Mutex::new(sums));
    }

    /// Waits until the load has started.
    pub(super) fn lock(&self) -> MutexGuard<'_, Sums> {
        let sums = self.sums.wait();
        sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sums, if the load has started and they are not locked.
    fn try_lock(&self) -> Option<MutexGuard<'_, Sums>> {
        match self.sums.get()?.try_lock() {
            Ok(sums) => Some(sums),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A thread that writes records.
type TableThread = JoinHandle<Result<()>>;

/// All files being written.
pub(super) struct Tables {
    requests: TableThread,
    others: Vec<TableThread>,
    pub(super) shared: SharedSums,
    /// Work that clients can do in their spare time.
    pub(super) spare_time: Arc<dyn SpareTime>,
}

impl Tables {
    /// Creates the requested files. `tag` is added to their names if there are several loads. `clients` is the number
    /// of client threads.
    pub(super) fn begin(
        outputs: &Outputs,
        tag: Option<&str>,
        names: RequestNames,
        keeps_answers: bool,
        clients: u32,
        epoch: Epoch,
    ) -> Result<(RowSender<RequestRecord>, LogSinks, Tables)> {
        let mut files = Vec::new();
        for output in &outputs.output {
            let path = tagged(&output.path, tag);
            let file = RequestFile::create(output.format, &path, tag, names, epoch)?;
            files.push((path, file));
        }
        let failed_files = FailedFiles::default();
        let shared = SharedSums {
            sums: Arc::new(OnceLock::new()),
            failed_files: failed_files.clone(),
            is_watched: !outputs.is_quiet(),
            keeps_answers,
            // Only variants of a comparison have a tag.
            drawn: (outputs.report.is_some()).then(|| Parts::of(names, tag.is_none())),
        };
        let mut setup = WriterSetup {
            wake_policy: wake_policy(clients),
            writers: Vec::new(),
            failed_files,
        };
        let request_files = RequestFiles {
            files,
            epoch: epoch.time,
            shared: shared.clone(),
        };
        let (sender, requests) = shared_writer(request_files, None, &mut setup)?;
        let mut others = Vec::new();
        let to = |path: &Option<PathBuf>| path.as_ref().map(|path| tagged(path, tag));
        let log = LogSinks {
            exchanges: table(
                to(&outputs.exchanges_to),
                ExchangeWriter::create_in_parts,
                move |row| row.count_from(epoch.time),
                &mut others,
                &mut setup,
            )?,
            frames: table(
                to(&outputs.frames_to),
                FrameWriter::create_in_parts,
                move |row| row.count_from(epoch.time),
                &mut others,
                &mut setup,
            )?,
            sockets: table(
                to(&outputs.sockets_to),
                SocketWriter::create_in_parts,
                move |row| row.count_from(epoch.time),
                &mut others,
                &mut setup,
            )?,
            ..LogSinks::default()
        };
        let tables = Tables {
            requests,
            others,
            shared,
            spare_time: Arc::new(SharedWriters(setup.writers)),
        };
        Ok((sender, log, tables))
    }

    /// Waits, after all senders are gone, until everything that can be written is. The shared sums list the files that could
    /// not be written.
    pub(super) fn finish(self) -> Result<FinalSums> {
        let panicked = |_| anyhow!("a thread that writes records panicked");
        for table in self.others {
            background::join(table).map_err(panicked)??;
        }
        background::join(self.requests).map_err(panicked)??;
        let mut sums = self.shared.lock();
        Ok(FinalSums {
            totals: sums.totals.clone(),
            answers: sums.answers.take().unwrap_or_default(),
            timeline: sums.timeline.take(),
            drawn: sums.drawn.take(),
        })
    }
}

/// When clients wake the writers: early if their threads leave a processor free.
fn wake_policy(clients: u32) -> WakePolicy {
    if scheduling::processors() > clients as usize {
        WakePolicy::Early
    } else {
        WakePolicy::Late
    }
}

/// Writes all request files, and adds the requests to the sums. A file that cannot be written is given up, because the
/// sums and the other files do not depend on it.
struct RequestFiles {
    files: Vec<(PathBuf, RequestFile)>,
    epoch: Time,
    shared: SharedSums,
}

impl RowWriter<RequestRecord> for RequestFiles {
    fn write(&mut self, rows: &mut [RequestRecord], budget: TimeBudget) -> Result<WriteResult> {
        let (rows, mut sums) = match budget {
            TimeBudget::Unlimited => (rows, self.shared.lock()),
            TimeBudget::Brief if !self.can_write_briefly() => return Ok(WriteResult::Nothing),
            TimeBudget::Brief => {
                let rooms = self.files.iter().map(|(_, file)| file.room());
                let room = rooms.fold(rows.len(), usize::min);
                if room == 0 {
                    return Ok(self.prepare());
                }
                match self.shared.try_lock() {
                    Some(sums) => (&mut rows[..room], sums),
                    None => return Ok(WriteResult::Nothing),
                }
            }
        };
        for request in rows.iter_mut() {
            request.count_from(self.epoch);
            if let Some(interval) = &mut sums.interval {
                interval.add(request);
            }
            if let Some(timeline) = &mut sums.timeline {
                timeline.add(request);
            }
            if let Some(drawn) = &mut sums.drawn {
                drawn.add(request);
            }
            if let Some(answers) = sums.answers.as_mut().filter(|_| request.succeeded()) {
                answers.push((request.what, request.response_time()));
            }
        }
        sums.totals.add_all(rows);
        drop(sums);
        self.keep_if_ok(|file| file.append(rows));
        Ok(WriteResult::Wrote(rows.len()))
    }

    fn can_write_briefly(&self) -> bool {
        (self.files.iter()).all(|(_, file)| file.can_write_briefly())
    }

    fn save(&mut self) -> Result<Vec<TableSnapshot>> {
        let mut snapshots = Vec::new();
        self.keep_if_ok(|file| {
            snapshots.extend(file.save()?);
            Ok(())
        });
        Ok(snapshots)
    }

    fn give_up(&mut self, table: &Path, error: RecordError) -> Result<()> {
        self.files.retain(|(path, _)| path != table);
        self.shared.failed_files.add(table, &error.into());
        Ok(())
    }

    fn finish(self) -> Result<()> {
        for (path, file) in self.files {
            if let Err(error) = file.finish() {
                self.shared.failed_files.add(&path, &error);
            }
        }
        Ok(())
    }
}

impl RequestFiles {
    /// Does one preparation step for the first file that needs and allows one.
    fn prepare(&mut self) -> WriteResult {
        let before = self.files.len();
        let mut has_prepared = false;
        self.keep_if_ok(|file| {
            if !has_prepared && file.room() == 0 {
                has_prepared = file.compress_some()?;
            }
            Ok(())
        });
        if has_prepared || self.files.len() < before {
            WriteResult::Prepared
        } else {
            WriteResult::Nothing
        }
    }

    /// Calls `act` with each file, and gives up those for which it fails.
    fn keep_if_ok(&mut self, mut act: impl FnMut(&mut RequestFile) -> Result<()>) {
        let failed_files = &self.shared.failed_files;
        self.files.retain_mut(|(path, file)| match act(file) {
            Ok(()) => true,
            Err(error) => {
                failed_files.add(path, &error);
                false
            }
        });
    }
}

/// Writes a table of anything but requests.
struct TableFile<R: TableRow, F> {
    writer: TableWriter<R>,
    make_relative: F,
}

impl<R: TableRow + Send, F: Fn(&mut R) + Send> RowWriter<R> for TableFile<R, F> {
    fn write(&mut self, rows: &mut [R], budget: TimeBudget) -> Result<WriteResult> {
        let room = match budget {
            TimeBudget::Unlimited => rows.len(),
            TimeBudget::Brief => rows.len().min(self.writer.room()),
        };
        if room == 0 {
            return Ok(if self.writer.compress_some()? {
                WriteResult::Prepared
            } else {
                WriteResult::Nothing
            });
        }
        let rows = &mut rows[..room];
        rows.iter_mut().for_each(&self.make_relative);
        self.writer.append(rows)?;
        Ok(WriteResult::Wrote(room))
    }

    fn can_write_briefly(&self) -> bool {
        true
    }

    fn save(&mut self) -> Result<Vec<TableSnapshot>> {
        Ok(self.writer.snapshot()?.into_iter().collect())
    }

    fn give_up(&mut self, _: &Path, error: RecordError) -> Result<()> {
        Err(error.into())
    }

    fn finish(self) -> Result<()> {
        self.writer.finish()?;
        Ok(())
    }
}

enum RequestFile {
    Parquet(Box<RequestWriter>),
    Csv(CsvExport<BufWriter<File>>),
    Vegeta(Box<VegetaExport<BufWriter<File>, RequestLookup>>),
    H2load(H2loadExport<BufWriter<File>>),
    Hgrm(Box<PercentileExport<BufWriter<File>>>),
    Hlog(Box<IntervalLogExport<BufWriter<File>>>),
}

/// Returns the method and URL of a row.
type RequestLookup = Box<dyn Fn(&RequestRecord) -> RequestLine<'static> + Send>;

impl RequestFile {
    fn create(
        format: Format,
        path: &Path,
        tag: Option<&str>,
        names: RequestNames,
        epoch: Epoch,
    ) -> Result<RequestFile> {
        if format == Format::Parquet {
            let table = RequestWriter::create_in_parts(path)?;
            return Ok(RequestFile::Parquet(Box::new(table)));
        }
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let writer = BufWriter::new(file);
        let unix_ns = epoch.unix_ns;
        Ok(match format {
            Format::Parquet | Format::Csv => RequestFile::Csv(CsvExport::new(writer)),
            Format::H2load => RequestFile::H2load(H2loadExport::new(writer, unix_ns)),
            Format::Hgrm => RequestFile::Hgrm(Box::new(PercentileExport::new(writer))),
            Format::Hlog => RequestFile::Hlog(Box::new(IntervalLogExport::new(writer, unix_ns))),
            Format::Vegeta => {
                let lookup: RequestLookup = Box::new(move |row: &RequestRecord| {
                    let (method, url) = &names[row.what as usize];
                    RequestLine { method, url }
                });
                let name = tag.unwrap_or("squall");
                RequestFile::Vegeta(Box::new(VegetaExport::new(writer, unix_ns, name, lookup)))
            }
        })
    }

    /// Whether it can be written in steps of a few microseconds. The text formats cannot, because they write to disk
    /// whenever their buffer is full.
    fn can_write_briefly(&self) -> bool {
        matches!(self, RequestFile::Parquet(_))
    }

    /// Number of rows that can be appended within a few microseconds.
    fn room(&self) -> usize {
        match self {
            RequestFile::Parquet(file) => file.room(),
            _ => 0,
        }
    }

    /// Does one step of the work that is necessary before there is room. Returns whether it did one.
    fn compress_some(&mut self) -> Result<bool> {
        match self {
            RequestFile::Parquet(file) => Ok(file.compress_some()?),
            _ => Ok(false),
        }
    }

    fn append(&mut self, rows: &[RequestRecord]) -> Result<()> {
        match self {
            RequestFile::Parquet(file) => file.append(rows)?,
            RequestFile::Csv(file) => file.append(rows)?,
            RequestFile::Vegeta(file) => file.append(rows)?,
            RequestFile::H2load(file) => file.append(rows)?,
            RequestFile::Hgrm(file) => file.append(rows)?,
            RequestFile::Hlog(file) => file.append(rows)?,
        }
        Ok(())
    }

    /// Makes the rows so far readable by others. A distribution has no lines before its end, and an interval log holds back
    /// the last few seconds. Of a table, returns a copy of its rows, which the caller has to write.
    fn save(&mut self) -> Result<Option<TableSnapshot>> {
        match self {
            RequestFile::Parquet(file) => return Ok(file.snapshot()?),
            RequestFile::Csv(file) => file.flush()?,
            RequestFile::Vegeta(file) => file.flush()?,
            RequestFile::H2load(file) => file.flush()?,
            RequestFile::Hgrm(_) => {}
            RequestFile::Hlog(file) => file.flush()?,
        }
        Ok(None)
    }

    fn finish(self) -> Result<()> {
        let mut writer = match self {
            RequestFile::Parquet(file) => {
                file.finish()?;
                return Ok(());
            }
            RequestFile::Csv(file) => file.finish()?,
            RequestFile::Vegeta(file) => file.finish()?,
            RequestFile::H2load(file) => file.finish()?,
            RequestFile::Hgrm(file) => file.finish()?,
            RequestFile::Hlog(file) => file.finish()?,
        };
        writer.flush().context("cannot write requests")
    }
}

/// The file name for one of several loads: `a.csv` becomes `a-h2-1.csv` for the tag `h2-1`.
fn tagged(path: &Path, tag: Option<&str>) -> PathBuf {
    let Some(tag) = tag else {
        return path.to_path_buf();
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{tag}.{ending}"))
}

/// Creates one table, if requested.
fn table<R: TableRow + Send + 'static>(
    path: Option<PathBuf>,
    create: impl FnOnce(PathBuf) -> Result<TableWriter<R>, squall_record::RecordError>,
    make_relative: impl Fn(&mut R) + Send + 'static,
    threads: &mut Vec<TableThread>,
    setup: &mut WriterSetup,
) -> Result<Option<RowSender<R>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let writer = create(path.clone())?;
    let (sender, thread) = shared_writer(
        TableFile {
            writer,
            make_relative,
        },
        Some(path),
        setup,
    )?;
    threads.push(thread);
    Ok(Some(sender))
}

/// The shared writers of a load during setup.
struct WriterSetup {
    wake_policy: WakePolicy,
    writers: Vec<Arc<dyn SpareTime>>,
    failed_files: FailedFiles,
}

/// Creates a shared writer for a table, and starts its thread. If writing fails, the file `path` is given up; without
/// a path, the thread returns the error.
fn shared_writer<R: Send + 'static>(
    writer: impl RowWriter<R> + 'static,
    path: Option<PathBuf>,
    setup: &mut WriterSetup,
) -> Result<(RowSender<R>, TableThread)> {
    let (sender, queue) = rows::queue(Capacity::Bounded(setup.wake_policy));
    let writer = SharedWriter::new(queue, writer);
    setup.writers.push(writer.clone());
    let failed_files = setup.failed_files.clone();
    let thread = background::start("squall-rows", move || match (writer.run(), path) {
        (Err(error), Some(path)) => {
            failed_files.add(&path, &error);
            Ok(())
        }
        (written, _) => written,
    })?;
    Ok((sender, thread))
}
