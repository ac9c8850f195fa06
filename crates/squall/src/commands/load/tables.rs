//! What is written while a load runs: tables, other formats, and the sums of which the end is made.
//!
//! Each table has a desk of its own (`desk`), so that the clients never wait for a disk; all files of requests share one.
//! Times count from an epoch before the first connection.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_analysis::load::{Interval, LoadInterval, LoadTotals, Window};
use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};
use squall_linux::{clock, scheduling};
use squall_record::export::{
    Asked, CsvExport, H2loadExport, IntervalLogExport, PercentileExport, VegetaExport,
};
use squall_record::{
    ExchangeWriter, FrameWriter, RequestWriter, SocketWriter, TableRow, TableWriter,
};
use squall_stations::LogSinks;
use squall_stations::rows::{self, Bell, Capacity, RowSender, SpareTime};

use super::arguments::Outputs;
use super::desk::{Clerk, Desk, Desks, Did, Pace};
use super::words::{Format, Output};

/// Method and URL of each of a load's requests.
pub(super) type Names = &'static [(String, String)];

/// The origin of all times that are written, by both clocks.
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

/// The sums so far, which the screen reads while they grow.
pub(super) struct Sums {
    pub(super) totals: LoadTotals,
    interval: Option<LoadInterval>,
    /// How long answers took, with what they answer: kept for `--hold`, which asks for two things only.
    answers: Option<Vec<(u32, Duration)>>,
}

impl Sums {
    /// What came since the last look, which was `length` ago; `None` if nobody was to look.
    pub(super) fn take_interval(&mut self, length: Duration) -> Option<Interval> {
        Some(self.interval.as_mut()?.take(length))
    }
}

/// The sums, shared; unset until the load has started.
#[derive(Clone)]
pub(super) struct Shared {
    sums: Arc<OnceLock<Mutex<Sums>>>,
    /// Whether somebody looks at the load while it runs.
    is_watched: bool,
    keeps_answers: bool,
}

impl Shared {
    /// The load has started: its measured phase is this, counted from the epoch.
    pub(super) fn begin(&self, window: Window) {
        let sums = Sums {
            totals: LoadTotals::new(window),
            interval: self.is_watched.then(LoadInterval::default),
            answers: self.keeps_answers.then(Vec::new),
        };
        let _ = self.sums.set(Mutex::new(sums));
    }

    /// Waits until the load has started.
    pub(super) fn lock(&self) -> MutexGuard<'_, Sums> {
        let sums = self.sums.wait();
        sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sums, if the load has started and nobody else looks at them just now.
    fn lock_at_once(&self) -> Option<MutexGuard<'_, Sums>> {
        match self.sums.get()?.try_lock() {
            Ok(sums) => Some(sums),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A thread that writes records.
type Writer = JoinHandle<Result<()>>;

/// Everything that is being written.
pub(super) struct Tables {
    requests: Writer,
    others: Vec<Writer>,
    pub(super) shared: Shared,
    /// What clients can do for them.
    pub(super) spare: Arc<dyn SpareTime>,
}

impl Tables {
    /// Begins the files that were asked for. `tag` is put into their names, if there are several loads. `clients` is on
    /// how many threads they are.
    pub(super) fn begin(
        outputs: &Outputs,
        tag: Option<&str>,
        names: Names,
        keeps_answers: bool,
        (clients, epoch): (u32, Epoch),
    ) -> Result<(RowSender<RequestRecord>, LogSinks, Tables)> {
        let mut files = Vec::new();
        for output in &outputs.output {
            files.push(RowsFile::create(output, tag, names, epoch)?);
        }
        let shared = Shared {
            sums: Arc::new(OnceLock::new()),
            is_watched: !outputs.is_quiet(),
            keeps_answers,
        };
        let mut desks = NewDesks {
            bell: match scheduling::processors() > clients as usize {
                true => Bell::Early,
                false => Bell::Late,
            },
            desks: Vec::new(),
        };
        let clerk = RequestClerk {
            files,
            epoch: epoch.time,
            shared: shared.clone(),
        };
        let (sender, requests) = desk(clerk, &mut desks)?;
        let mut others = Vec::new();
        let to = |path: &Option<PathBuf>| path.as_ref().map(|path| tagged(path, tag));
        let log = LogSinks {
            exchanges: table(
                to(&outputs.exchanges_to),
                ExchangeWriter::create,
                move |row| row.count_from(epoch.time),
                (&mut others, &mut desks),
            )?,
            frames: table(
                to(&outputs.frames_to),
                FrameWriter::create,
                move |row| row.count_from(epoch.time),
                (&mut others, &mut desks),
            )?,
            sockets: table(
                to(&outputs.sockets_to),
                SocketWriter::create,
                move |row| row.count_from(epoch.time),
                (&mut others, &mut desks),
            )?,
            ..LogSinks::default()
        };
        let tables = Tables {
            requests,
            others,
            shared,
            spare: Arc::new(Desks(desks.desks)),
        };
        Ok((sender, log, tables))
    }

    /// Waits until everything is written, which it is when all senders are gone.
    pub(super) fn finish(self) -> Result<(LoadTotals, Vec<(u32, Duration)>)> {
        let panicked = |_| anyhow!("a thread that writes records panicked");
        for table in self.others {
            table.join().map_err(panicked)??;
        }
        self.requests.join().map_err(panicked)??;
        let mut sums = self.shared.lock();
        let answers = sums.answers.take().unwrap_or_default();
        Ok((sums.totals.clone(), answers))
    }
}

/// Writes all files of requests, and sums them up.
struct RequestClerk {
    files: Vec<RowsFile>,
    epoch: Time,
    shared: Shared,
}

impl Clerk<RequestRecord> for RequestClerk {
    fn write(&mut self, rows: &mut [RequestRecord], pace: Pace) -> Result<Did> {
        let (rows, mut sums) = match pace {
            Pace::Patient => (rows, self.shared.lock()),
            Pace::Quick if !self.can_be_quick() => return Ok(Did::Nothing),
            Pace::Quick => {
                let rooms = self.files.iter().map(RowsFile::room);
                let room = rooms.fold(rows.len(), usize::min);
                if room == 0 {
                    return self.prepare();
                }
                match self.shared.lock_at_once() {
                    Some(sums) => (&mut rows[..room], sums),
                    None => return Ok(Did::Nothing),
                }
            }
        };
        for request in rows.iter_mut() {
            request.count_from(self.epoch);
            if let Some(interval) = &mut sums.interval {
                interval.add(request);
            }
            if let Some(answers) = sums.answers.as_mut().filter(|_| request.succeeded()) {
                answers.push((request.what, request.response_time()));
            }
        }
        sums.totals.add_all(rows);
        drop(sums);
        for file in &mut self.files {
            file.append(rows)?;
        }
        Ok(Did::Wrote(rows.len()))
    }

    fn can_be_quick(&self) -> bool {
        self.files.iter().all(RowsFile::is_quick)
    }

    fn finish(self) -> Result<()> {
        self.files.into_iter().try_for_each(RowsFile::finish)
    }
}

impl RequestClerk {
    /// A step for the first file that can make room with one.
    fn prepare(&mut self) -> Result<Did> {
        for file in &mut self.files {
            if file.room() == 0 && file.press_some()? {
                return Ok(Did::Prepared);
            }
        }
        Ok(Did::Nothing)
    }
}

/// Writes any other table.
struct TableClerk<R: TableRow, F> {
    writer: TableWriter<R>,
    relative: F,
}

impl<R: TableRow + Send, F: Fn(&mut R) + Send> Clerk<R> for TableClerk<R, F> {
    fn write(&mut self, rows: &mut [R], pace: Pace) -> Result<Did> {
        let room = match pace {
            Pace::Patient => rows.len(),
            Pace::Quick => rows.len().min(self.writer.room()),
        };
        if room == 0 {
            return Ok(match self.writer.press_some()? {
                true => Did::Prepared,
                false => Did::Nothing,
            });
        }
        let rows = &mut rows[..room];
        rows.iter_mut().for_each(&self.relative);
        self.writer.append(rows)?;
        Ok(Did::Wrote(room))
    }

    fn can_be_quick(&self) -> bool {
        true
    }

    fn finish(self) -> Result<()> {
        self.writer.finish()?;
        Ok(())
    }
}

/// One file of requests.
enum RowsFile {
    Parquet(Box<RequestWriter>),
    Csv(CsvExport<BufWriter<File>>),
    Vegeta(Box<VegetaExport<BufWriter<File>, Asks>>),
    H2load(H2loadExport<BufWriter<File>>),
    Hgrm(Box<PercentileExport<BufWriter<File>>>),
    Hlog(Box<IntervalLogExport<BufWriter<File>>>),
}

/// Says what a row asked for.
type Asks = Box<dyn Fn(&RequestRecord) -> Asked<'static> + Send>;

impl RowsFile {
    fn create(output: &Output, tag: Option<&str>, names: Names, epoch: Epoch) -> Result<RowsFile> {
        let path = tagged(&output.path, tag);
        if output.format == Format::Parquet {
            return Ok(RowsFile::Parquet(Box::new(RequestWriter::create(path)?)));
        }
        let file =
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let writer = BufWriter::new(file);
        let unix_ns = epoch.unix_ns;
        Ok(match output.format {
            Format::Parquet | Format::Csv => RowsFile::Csv(CsvExport::new(writer)),
            Format::H2load => RowsFile::H2load(H2loadExport::new(writer, unix_ns)),
            Format::Hgrm => RowsFile::Hgrm(Box::new(PercentileExport::new(writer))),
            Format::Hlog => RowsFile::Hlog(Box::new(IntervalLogExport::new(writer, unix_ns))),
            Format::Vegeta => {
                let asks: Asks = Box::new(move |row: &RequestRecord| {
                    let (method, url) = &names[row.what as usize];
                    Asked { method, url }
                });
                let name = tag.unwrap_or("squall");
                RowsFile::Vegeta(Box::new(VegetaExport::new(writer, unix_ns, name, asks)))
            }
        })
    }

    /// Whether it is written in steps of some microseconds: the others write text to the disk, whenever their buffer is full.
    fn is_quick(&self) -> bool {
        matches!(self, RowsFile::Parquet(_))
    }

    /// Rows that can be appended in some microseconds.
    fn room(&self) -> usize {
        match self {
            RowsFile::Parquet(file) => file.room(),
            _ => 0,
        }
    }

    /// A step of what is to be done before there is room. Gives whether it has done one.
    fn press_some(&mut self) -> Result<bool> {
        match self {
            RowsFile::Parquet(file) => Ok(file.press_some()?),
            _ => Ok(false),
        }
    }

    fn append(&mut self, rows: &[RequestRecord]) -> Result<()> {
        match self {
            RowsFile::Parquet(file) => file.append(rows)?,
            RowsFile::Csv(file) => file.append(rows)?,
            RowsFile::Vegeta(file) => file.append(rows)?,
            RowsFile::H2load(file) => file.append(rows)?,
            RowsFile::Hgrm(file) => file.append(rows)?,
            RowsFile::Hlog(file) => file.append(rows)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let mut writer = match self {
            RowsFile::Parquet(file) => {
                file.finish()?;
                return Ok(());
            }
            RowsFile::Csv(file) => file.finish()?,
            RowsFile::Vegeta(file) => file.finish()?,
            RowsFile::H2load(file) => file.finish()?,
            RowsFile::Hgrm(file) => file.finish()?,
            RowsFile::Hlog(file) => file.finish()?,
        };
        writer.flush().context("cannot write requests")
    }
}

/// The file of one of several loads: `a.csv` of `h2-1` is `a-h2-1.csv`.
fn tagged(path: &Path, tag: Option<&str>) -> PathBuf {
    let Some(tag) = tag else {
        return path.to_path_buf();
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{tag}.{ending}"))
}

/// Begins one table, if it is wanted.
fn table<R: TableRow + Send + 'static>(
    path: Option<PathBuf>,
    create: impl FnOnce(PathBuf) -> Result<TableWriter<R>, squall_record::RecordError>,
    relative: impl Fn(&mut R) + Send + 'static,
    (threads, desks): (&mut Vec<Writer>, &mut NewDesks),
) -> Result<Option<RowSender<R>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let writer = create(path)?;
    let (sender, thread) = desk(TableClerk { writer, relative }, desks)?;
    threads.push(thread);
    Ok(Some(sender))
}

/// The desks of a load, while they are set up.
struct NewDesks {
    bell: Bell,
    desks: Vec<Arc<dyn SpareTime>>,
}

/// A desk for a table, and the thread that tends it.
fn desk<R: Send + 'static>(
    clerk: impl Clerk<R> + 'static,
    desks: &mut NewDesks,
) -> Result<(RowSender<R>, Writer)> {
    let (sender, queue) = rows::queue(Capacity::Bounded(desks.bell));
    let desk = Desk::new(queue, clerk);
    desks.desks.push(desk.clone());
    Ok((sender, in_background(move || desk.tend())?))
}

fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    thread::Builder::new()
        .name("squall-rows".to_owned())
        .spawn(move || {
            scheduling::make_background();
            work()
        })
        .context("cannot start a thread that writes records")
}

/// When the measured phase of a load is that started at `start`, both counted from the epoch.
pub(super) fn window(start: Time, warmup: Duration, length: Option<Duration>) -> Window {
    Window {
        from: start + warmup,
        to: length.map(|length| start + length),
    }
}
