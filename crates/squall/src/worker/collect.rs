//! Writing records while a trial runs: one background thread for each table, which also sums up what the
//! trial's health needs.
//!
//! The threads that measure only hand chunks over; time is made relative to the trial's epoch here.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{LoadKind, Runs, Side, Station, Trial};
use squall_base::record::{
    ExchangeRecord, FrameRecord, Lateness, Outcome, PacketRecord, Phase, RequestRecord,
    SocketRecord,
};
use squall_base::{Duration, Time};
use squall_linux::scheduling;
use squall_linux::spans::Spans;
use squall_linux::stop::StopSignal;
use squall_record::{
    ExchangeWriter, FrameWriter, PacketWriter, PartialTrial, RequestWriter, SocketWriter, TableRow,
    TableWriter,
};
use squall_stations::LogSinks;
use squall_stations::rows::{self, Capacity, RowReceiver, RowSender};

use crate::link_totals::LinkTotals;

/// A table that is being written; its totals come when all senders are gone.
pub(super) struct Collection<T> {
    handle: JoinHandle<Result<T>>,
}

impl<T> Collection<T> {
    /// Waits for the last row and closes the file.
    pub(super) fn finish(self) -> Result<T> {
        self.handle
            .join()
            .map_err(|_| anyhow!("a thread that writes records panicked"))?
    }
}

/// When the load of a trial started, once that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadStart(Arc<OnceLock<Time>>);

impl LoadStart {
    /// It is this.
    pub(super) fn set(&self, start: Time) {
        // Said once; who says it again has nothing new.
        let _ = self.0.set(start);
    }
}

/// Which responses count for the rate that a trial achieved.
#[derive(Clone, Debug)]
pub(super) enum Achieved {
    /// Of an open load, those that came within this: what piles up shows.
    Within(MeasuredWindow),
    /// Of any other, those to requests of the measured time: its own pace is that of the answers, or a recording's.
    Measured,
}

impl Achieved {
    fn of(trial: &Trial, start: LoadStart) -> Achieved {
        match trial.load.kind {
            LoadKind::Open { .. } => Achieved::Within(MeasuredWindow::of(trial, start)),
            LoadKind::Closed { .. } | LoadKind::Script { .. } | LoadKind::Pages { .. } => {
                Achieved::Measured
            }
        }
    }

    fn has(&self, request: &RequestRecord) -> bool {
        request.succeeded()
            && match self {
                Achieved::Within(window) => window.has_end_of(request),
                Achieved::Measured => request.phase == Phase::Measure,
            }
    }
}

/// The part of a trial in which responses count.
#[derive(Clone, Debug)]
pub(super) struct MeasuredWindow {
    start: LoadStart,
    /// From the load's start.
    begins: Duration,
    ends: Duration,
}

impl MeasuredWindow {
    /// The measured phase, later by a round trip: no response can come sooner after its request.
    fn of(trial: &Trial, start: LoadStart) -> MeasuredWindow {
        let round_trip = trial.condition.round_trip();
        let begins = trial.load.warmup + round_trip;
        MeasuredWindow {
            start,
            begins,
            ends: begins + trial.load.duration,
        }
    }

    /// Whether this request ended within it. There are no requests before the start.
    fn has_end_of(&self, request: &RequestRecord) -> bool {
        let since_start = request.end.since(*self.start.0.wait());
        self.begins <= since_start && since_start < self.ends
    }
}

/// Sums over the requests of a trial.
pub(super) struct RequestTotals {
    lag: Spans,
    latency: Spans,
    /// Requests that the schedule wanted in the measured phase.
    pub(super) asked: u64,
    /// Requests that succeeded and count for the rate achieved.
    pub(super) achieved: u64,
}

impl RequestTotals {
    fn new() -> RequestTotals {
        RequestTotals {
            lag: Spans::new(),
            latency: Spans::new(),
            asked: 0,
            achieved: 0,
        }
    }

    fn add(&mut self, request: &RequestRecord, achieved: &Achieved) {
        self.lag.add(request.taken_up.since(request.intended));
        if request.phase == Phase::Measure {
            self.asked += 1;
            if request.outcome == Outcome::Answered {
                self.latency.add(request.response_time());
            }
        }
        self.achieved += u64::from(achieved.has(request));
    }

    /// The generator's lag over all requests.
    pub(super) fn schedule_lag(&self) -> Lateness {
        self.lag.lateness()
    }

    /// The median latency of answered, measured requests; zero if there were none.
    pub(super) fn median_latency(&self) -> Duration {
        self.latency.quantile(0.5)
    }
}

/// Writes packets from `chunks` to the table at `path`.
pub(super) fn packets(
    path: PathBuf,
    chunks: Receiver<Vec<PacketRecord>>,
    epoch: Time,
    failed: StopSignal,
) -> Result<Collection<LinkTotals>> {
    let mut writer = PacketWriter::create(path)?;
    in_background("squall-packets", failed, move || {
        let mut totals = LinkTotals::new();
        for mut chunk in chunks {
            for packet in &mut chunk {
                totals.add(packet);
                packet.count_from(epoch);
            }
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(totals)
    })
}

/// Where the rows of the stations go.
pub(super) struct StationSinks {
    pub(super) requests: RowSender<RequestRecord>,
    /// To be set when the load starts, before there are any requests.
    pub(super) start: LoadStart,
    log: LogSinks,
    /// Which stations are our own, by their places.
    are_ours: Vec<bool>,
}

impl StationSinks {
    /// Where the rows of one side of a hop go, hops counted from 1. Secrets are written by the client's side, if that is
    /// ours.
    pub(super) fn log(&self, hop: usize, side: Side) -> LogSinks {
        let mut log = self.log.clone();
        log.hop = u8::try_from(hop).unwrap_or(u8::MAX);
        if side == Side::Server && self.are_ours[hop - 1] {
            log.key_log = None;
        }
        log
    }
}

/// Secrets besides those of our own stations, and who wants to know all of them.
#[derive(Default)]
pub(super) struct KeyLogs {
    /// What programs write theirs to.
    pub(super) files: Vec<PathBuf>,
    pub(super) readers: Vec<Sender<Vec<String>>>,
}

/// The tables of the stations, while they are written.
pub(super) struct StationTables {
    requests: Collection<RequestTotals>,
    others: Vec<Collection<()>>,
}

impl StationTables {
    /// Waits for the last rows and closes the files.
    pub(super) fn finish(self) -> Result<RequestTotals> {
        let requests = self.requests.finish();
        for table in self.others {
            table.finish()?;
        }
        requests
    }
}

/// Begins the tables that stations write: requests, exchanges, frames, samples of sockets, and the TLS key log.
pub(super) fn stations(
    partial: &PartialTrial,
    trial: &Trial,
    epoch: Time,
    key_logs: KeyLogs,
    failed: &StopSignal,
) -> Result<(StationSinks, StationTables)> {
    let (requests, chunks) = rows::queue(Capacity::Unbounded);
    let start = LoadStart::default();
    let achieved = Achieved::of(trial, start.clone());
    let request_table =
        self::requests(partial.requests(), chunks, achieved, epoch, failed.clone())?;
    let mut others = Vec::new();

    let (exchanges, chunks) = rows::queue(Capacity::Unbounded);
    let writer = ExchangeWriter::create(partial.exchanges())?;
    let count = ExchangeRecord::count_from;
    others.push(table(writer, chunks, epoch, failed, count)?);

    let (frames, chunks) = rows::queue(Capacity::Unbounded);
    let writer = FrameWriter::create(partial.frames())?;
    others.push(table(
        writer,
        chunks,
        epoch,
        failed,
        FrameRecord::count_from,
    )?);

    let (sockets, chunks) = rows::queue(Capacity::Unbounded);
    let writer = SocketWriter::create(partial.sockets())?;
    others.push(table(
        writer,
        chunks,
        epoch,
        failed,
        SocketRecord::count_from,
    )?);

    let mut log = LogSinks {
        exchanges: Some(exchanges),
        frames: Some(frames),
        sockets: Some(sockets),
        ..LogSinks::default()
    };
    if trial
        .variant
        .hops
        .iter()
        .any(|hop| hop.protocol.is_secure())
    {
        let (keys, lines) = mpsc::channel();
        log.key_log = Some(keys);
        let path = partial.keylog();
        others.push(key_log(path, lines, key_logs, failed.clone())?);
    }
    let is_ours = |station: &Station| station.runs == Runs::Embedded;
    let sinks = StationSinks {
        requests,
        start,
        log,
        are_ours: trial.variant.stations.iter().map(is_ours).collect(),
    };
    let tables = StationTables {
        requests: request_table,
        others,
    };
    Ok((sinks, tables))
}

/// Writes requests from `chunks` to the table at `path`.
fn requests(
    path: PathBuf,
    chunks: RowReceiver<RequestRecord>,
    achieved: Achieved,
    epoch: Time,
    failed: StopSignal,
) -> Result<Collection<RequestTotals>> {
    let mut writer = RequestWriter::create(path)?;
    in_background("squall-requests", failed, move || {
        let mut totals = RequestTotals::new();
        for mut chunk in chunks {
            for request in chunk.iter_mut() {
                totals.add(request, &achieved);
                request.count_from(epoch);
            }
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(totals)
    })
}

/// Writes rows from `chunks`, their times counted from the epoch.
fn table<R: TableRow + Send + 'static>(
    mut writer: TableWriter<R>,
    chunks: RowReceiver<R>,
    epoch: Time,
    failed: &StopSignal,
    count_from: fn(&mut R, Time),
) -> Result<Collection<()>> {
    in_background("squall-rows", failed.clone(), move || {
        for mut chunk in chunks {
            for row in chunk.iter_mut() {
                count_from(row, epoch);
            }
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(())
    })
}

/// How often files of key logs are looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes lines of TLS key logs to `path`, those of programs too, and passes them on.
fn key_log(
    path: PathBuf,
    chunks: Receiver<Vec<String>>,
    key_logs: KeyLogs,
    failed: StopSignal,
) -> Result<Collection<()>> {
    in_background("squall-keys", failed, move || {
        let mut files: Vec<GrowingFile> =
            key_logs.files.into_iter().map(GrowingFile::new).collect();
        let mut text = String::new();
        let mut pass_on = |lines: Vec<String>| {
            for line in &lines {
                text += line;
                text.push('\n');
            }
            for reader in key_logs.readers.iter().filter(|_| !lines.is_empty()) {
                // One that is gone has failed, and says so itself.
                let _ = reader.send(lines.clone());
            }
        };
        loop {
            let received = chunks.recv_timeout(LOOK_EVERY);
            let is_over = received == Err(RecvTimeoutError::Disconnected);
            pass_on(received.unwrap_or_default());
            for file in &mut files {
                pass_on(file.further_lines()?);
            }
            if is_over {
                break;
            }
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    })
}

/// A file that somebody else writes to.
struct GrowingFile {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl GrowingFile {
    fn new(path: PathBuf) -> GrowingFile {
        GrowingFile {
            path,
            file: None,
            rest: Vec::new(),
        }
    }

    /// The whole lines that have come since this was last asked; none as long as there is no such file.
    fn further_lines(&mut self) -> Result<Vec<String>> {
        let path: &Path = &self.path;
        if self.file.is_none() && path.exists() {
            let file = File::open(path);
            self.file = Some(file.with_context(|| format!("cannot open {}", path.display()))?);
        }
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut self.rest)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = self.rest.drain(..whole.map_or(0, |end| end + 1)).collect();
        let text = String::from_utf8_lossy(&lines);
        Ok(text.lines().map(str::to_owned).collect())
    }
}

fn in_background<T: Send + 'static>(
    name: &str,
    failed: StopSignal,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Collection<T>> {
    let handle = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            scheduling::make_background();
            failed.guard(work)
        })
        .context("cannot start a thread that writes records")?;
    Ok(Collection { handle })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_growing_file_gives_each_whole_line_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.log");
        let mut file = GrowingFile::new(path.clone());
        assert!(file.further_lines().unwrap().is_empty(), "there is no file");
        let write = |text: &str| {
            let mut options = OpenOptions::new();
            let mut log = options.create(true).append(true).open(&path).unwrap();
            log.write_all(text.as_bytes()).unwrap();
        };
        write("one\ntw");
        assert_eq!(file.further_lines().unwrap(), ["one"]);
        assert!(file.further_lines().unwrap().is_empty());
        write("o\nthree\n");
        assert_eq!(file.further_lines().unwrap(), ["two", "three"]);
    }
}
