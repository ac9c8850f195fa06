//! Writing records while a trial runs: one background thread for each table, which also sums up what the
//! trial's health needs.
//!
//! The threads that measure only hand chunks over; time is made relative to the trial's epoch here.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Side, Trial};
use squall_base::record::{
    ExchangeRecord, FrameRecord, Lateness, Outcome, PacketRecord, Phase, RequestRecord,
    SocketRecord,
};
use squall_base::{Duration, Rate, Time};
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

/// The part of a trial in which responses count for the rate that it achieved.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredWindow {
    rate: Rate,
    /// From the load's start.
    begins: Duration,
    ends: Duration,
}

impl MeasuredWindow {
    /// The measured phase, later by a round trip: no response can come sooner after its request.
    pub(super) fn of(trial: &Trial) -> MeasuredWindow {
        let round_trip = trial.condition.delay + trial.condition.delay;
        let begins = trial.load.warmup + round_trip;
        MeasuredWindow {
            rate: trial.load.rate,
            begins,
            ends: begins + trial.load.duration,
        }
    }

    /// Whether this request ended within it. The load's start follows from any request, because the
    /// schedule is exact.
    fn has_end_of(&self, request: &RequestRecord) -> bool {
        let since_start =
            request.end.since(request.intended) + self.rate.offset_of(request.request);
        self.begins <= since_start && since_start < self.ends
    }
}

/// Sums over the requests of a trial.
pub(super) struct RequestTotals {
    lag: Spans,
    latency: Spans,
    /// Requests that the schedule wanted in the measured phase.
    pub(super) asked: u64,
    /// Requests that succeeded within the measured window, whenever they were asked for.
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

    fn add(&mut self, request: &RequestRecord, window: &MeasuredWindow) {
        self.lag.add(request.taken_up.since(request.intended));
        if request.phase == Phase::Measure {
            self.asked += 1;
            if request.outcome == Outcome::Answered {
                self.latency.add(request.response_time());
            }
        }
        self.achieved += u64::from(request.succeeded() && window.has_end_of(request));
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
    log: LogSinks,
}

impl StationSinks {
    /// Where the rows of one side of a hop go, hops counted from 1. Secrets are written by the client's side.
    pub(super) fn log(&self, hop: usize, side: Side) -> LogSinks {
        let mut log = self.log.clone();
        log.hop = u8::try_from(hop).unwrap_or(u8::MAX);
        if side == Side::Server {
            log.key_log = None;
        }
        log
    }
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
    failed: &StopSignal,
) -> Result<(StationSinks, StationTables)> {
    let (requests, chunks) = rows::queue(Capacity::Unbounded);
    let window = MeasuredWindow::of(trial);
    let request_table = self::requests(partial.requests(), chunks, window, epoch, failed.clone())?;
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
        others.push(key_log(partial.keylog(), lines, failed.clone())?);
    }
    let sinks = StationSinks { requests, log };
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
    window: MeasuredWindow,
    epoch: Time,
    failed: StopSignal,
) -> Result<Collection<RequestTotals>> {
    let mut writer = RequestWriter::create(path)?;
    in_background("squall-requests", failed, move || {
        let mut totals = RequestTotals::new();
        for mut chunk in chunks {
            for request in chunk.iter_mut() {
                totals.add(request, &window);
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

/// Writes lines of the TLS key log to `path`.
fn key_log(
    path: PathBuf,
    chunks: Receiver<Vec<String>>,
    failed: StopSignal,
) -> Result<Collection<()>> {
    in_background("squall-keys", failed, move || {
        let mut text = String::new();
        for line in chunks.into_iter().flatten() {
            text += &line;
            text.push('\n');
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    })
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
