//! Writes records while a trial runs: one background thread for each table, which also sums up what the trial's health
//! needs.
//!
//! The measuring threads only hand over chunks; times are made relative to the trial's epoch here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Implementation, LoadKind, Side, Station, Trial};
use squall_base::record::{
    Direction, ExchangeRecord, FrameRecord, LAG_QUANTILES, LateSpan, LateSpans, Lateness, Outcome,
    PacketRecord, Phase, RequestRecord, SocketRecord,
};
use squall_base::{Duration, Time};
use squall_linux::spans::DurationHistogram;
use squall_linux::stop::StopSignal;
use squall_record::{
    ExchangeWriter, FrameWriter, PacketWriter, PartialTrial, RequestWriter, SocketWriter, TableRow,
    TableWriter, write_private,
};
use squall_stations::LogSinks;
use squall_stations::rows::{self, Capacity, RowReceiver, RowSender};

use crate::background;
use crate::link::totals::LinkTotals;

/// A table being written. Its totals are available once all senders are gone.
pub(super) struct TableThread<T> {
    handle: JoinHandle<Result<T>>,
}

impl<T> TableThread<T> {
    /// Waits for the last row and closes the file.
    pub(super) fn finish(self) -> Result<T> {
        background::join(self.handle)
            .map_err(|_| anyhow!("a thread that writes records panicked"))?
    }
}

/// When the load of a trial started, once known.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadStart(Arc<OnceLock<Time>>);

impl LoadStart {
    pub(super) fn set(&self, start: Time) {
        // The first value stays; a second call has no effect.
        let _ = self.0.set(start);
    }
}

/// Which responses count towards the achieved rate of a trial.
#[derive(Clone, Debug)]
pub(super) enum RateCriterion {
    /// For an open load: responses received within this window, so that a growing backlog shows.
    Within(MeasuredWindow),
    /// For any other load: responses to requests of the measured phase, because its pace is set by the responses or by
    /// a recording.
    Measured,
}

impl RateCriterion {
    fn of(trial: &Trial, start: LoadStart) -> RateCriterion {
        match trial.load.kind {
            LoadKind::Open { .. } => RateCriterion::Within(MeasuredWindow::of(trial, start)),
            LoadKind::Closed { .. } | LoadKind::Script { .. } | LoadKind::Pages { .. } => {
                RateCriterion::Measured
            }
        }
    }

    fn counts(&self, request: &RequestRecord) -> bool {
        request.succeeded()
            && match self {
                RateCriterion::Within(window) => window.contains_end_of(request),
                RateCriterion::Measured => request.phase == Phase::Measure,
            }
    }
}

/// The time window in which responses count.
#[derive(Clone, Debug)]
pub(super) struct MeasuredWindow {
    start: LoadStart,
    /// Counted from the load's start.
    begins: Duration,
    ends: Duration,
}

impl MeasuredWindow {
    /// The measured phase, shifted by one round trip over all links: no response can arrive sooner after its request.
    fn of(trial: &Trial, start: LoadStart) -> MeasuredWindow {
        let round_trip = trial.round_trip();
        let begins = trial.load.warmup + round_trip;
        MeasuredWindow {
            start,
            begins,
            ends: begins + trial.load.duration,
        }
    }

    /// Whether this request ended within the window. Waiting for the start is safe: there are no requests before it.
    fn contains_end_of(&self, request: &RequestRecord) -> bool {
        let since_start = request.end.since(*self.start.0.wait());
        self.begins <= since_start && since_start < self.ends
    }
}

/// Sums over the requests of a trial.
#[derive(Default)]
pub(super) struct RequestTotals {
    lag: DurationHistogram,
    /// The answered requests of the measured phase.
    answered: Vec<AnsweredRequest>,
    /// Requests of the measured phase.
    pub(super) measured: u64,
    /// Successful requests that count towards the achieved rate.
    pub(super) achieved: u64,
}

impl RequestTotals {
    fn add(&mut self, request: &RequestRecord, criterion: &RateCriterion) {
        self.lag.add(request.taken_up.since(request.intended));
        if request.phase == Phase::Measure {
            self.measured += 1;
            if request.outcome == Outcome::Answered {
                self.answered.push(AnsweredRequest {
                    intended: request.intended,
                    taken_up: request.taken_up,
                    end: request.end,
                });
            }
        }
        self.achieved += u64::from(criterion.counts(request));
    }

    /// How many requests of the measured phase were answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered.len() as u64
    }

    /// The generator's lag over all requests.
    pub(super) fn schedule_lag(&self) -> Lateness {
        self.lag.lateness()
    }

    /// The response times of answered requests of the measured phase, and what squall itself added to them. All times of
    /// `own` count from `epoch`.
    pub(super) fn response_times(&self, own: &OwnTimes, epoch: Time) -> ResponseTimes {
        let mut times: [DurationHistogram; 3] = Default::default();
        let mut sum = Duration::ZERO;
        let mut full = vec![Duration::ZERO; own.full.len()];
        let late_or_full = own.late_or_full();
        let any_full = own.any_full();
        for request in &self.answered {
            let taken_up = request.taken_up.relative_to(epoch);
            let end = request.end.relative_to(epoch);
            let response = request.end.since(request.intended);
            let service = end.since(taken_up);
            let other = late_or_full.within(taken_up, end) - any_full.within(taken_up, end);
            let parts = [
                response,
                service - own.late.within(taken_up, end),
                service - other,
            ];
            for (histogram, part) in times.iter_mut().zip(parts) {
                histogram.add(part);
            }
            sum = sum + response;
            for (sum, spans) in full.iter_mut().zip(&own.full) {
                *sum = *sum + spans.within(taken_up, end);
            }
        }
        let [response, without_own, without_disturbance] =
            times.map(|times| LAG_QUANTILES.map(|quantile| times.quantile(quantile)));
        let share = |full: &Duration| full.as_secs_f64() / sum.as_secs_f64().max(f64::MIN_POSITIVE);
        ResponseTimes {
            response,
            without_own,
            without_disturbance,
            full_shares: full.iter().map(share).collect(),
        }
    }
}

/// The times at which a trial's links ran late or were full.
pub(super) struct OwnTimes {
    /// When any link ran late.
    pub(super) late: LateSpans,
    /// When the processor of each link's thread was full.
    pub(super) full: Vec<LateSpans>,
}

impl OwnTimes {
    fn any_full(&self) -> LateSpans {
        let full = self.full.iter().flat_map(LateSpans::iter);
        LateSpans::of(full.collect(), Time::ZERO)
    }

    fn late_or_full(&self) -> LateSpans {
        let full = self.full.iter().flat_map(LateSpans::iter);
        LateSpans::of(self.late.iter().chain(full).collect(), Time::ZERO)
    }
}

/// The response times of a trial's answered requests: percentiles at `LAG_QUANTILES`, zero if there were none.
pub(super) struct ResponseTimes {
    /// As measured.
    pub(super) response: [Duration; 3],
    /// Without the generator's lag and the times at which links ran late.
    pub(super) without_own: [Duration; 3],
    /// As `without_own`, but the lateness of a link whose thread's processor was full stays in the response time.
    pub(super) without_disturbance: [Duration; 3],
    /// For each link, the share of all response times in which the processor of its thread was full.
    pub(super) full_shares: Vec<f64>,
}

/// The times of an answered request that show what squall added to its response time.
struct AnsweredRequest {
    intended: Time,
    taken_up: Time,
    end: Time,
}

/// Sums over the packets of a trial.
#[derive(Default)]
pub(super) struct PacketTotals {
    /// The totals of each hop's link.
    pub(super) links: BTreeMap<u8, LinkTotals>,
    /// When packets of each hop and direction were released late.
    late: BTreeMap<(u8, Direction), LateSpans>,
}

impl PacketTotals {
    fn add(&mut self, packet: &PacketRecord) {
        self.links.entry(packet.hop).or_default().add(packet);
        if let (Some(from), Some(until)) = (packet.planned, packet.released)
            && until.since(from) >= LateSpans::SHORTEST
        {
            let late = self.late.entry((packet.hop, packet.direction));
            late.or_default().add(LateSpan { from, until });
        }
    }

    /// When packets were released late, in no particular order.
    pub(super) fn late(&self) -> impl Iterator<Item = LateSpan> {
        self.late.values().flat_map(LateSpans::iter)
    }
}

/// Writes the packets of all links from `chunks` to the table at `path`, and returns their totals.
pub(super) fn packets(
    path: PathBuf,
    chunks: Receiver<Vec<PacketRecord>>,
    epoch: Time,
    failed: StopSignal,
) -> Result<TableThread<PacketTotals>> {
    let mut writer = PacketWriter::create(path)?;
    in_background("squall-packets", failed, move || {
        let mut totals = PacketTotals::default();
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
    /// Must be set when the load starts, before there are any requests.
    pub(super) start: LoadStart,
    log: LogSinks,
    /// Which stations are our own, by place.
    are_embedded: Vec<bool>,
}

impl StationSinks {
    /// Where the rows of one side of a hop go, with hops counted from 1. The client's side logs the TLS secrets if it
    /// is ours, otherwise the server's side.
    pub(super) fn log(&self, hop: usize, side: Side) -> LogSinks {
        let mut log = self.log.clone();
        log.hop = u8::try_from(hop).unwrap_or(u8::MAX);
        if side == Side::Server && self.are_embedded[hop - 1] {
            log.key_log = None;
        }
        log
    }
}

/// TLS secrets beyond those of our own stations, and the receivers of all secrets.
#[derive(Default)]
pub(super) struct KeyLogs {
    /// Files that programs write their secrets to.
    pub(super) files: Vec<PathBuf>,
    pub(super) readers: Vec<Sender<Vec<String>>>,
}

/// The tables of the stations, while they are being written.
pub(super) struct StationTables {
    requests: TableThread<RequestTotals>,
    others: Vec<TableThread<()>>,
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
    let criterion = RateCriterion::of(trial, start.clone());
    let request_table =
        self::requests(partial.requests(), chunks, criterion, epoch, failed.clone())?;
    let mut others = Vec::new();

    let writer = ExchangeWriter::create(partial.exchanges())?;
    let count = ExchangeRecord::count_from;
    let exchanges = table(writer, count, epoch, failed, &mut others)?;
    let writer = FrameWriter::create(partial.frames())?;
    let count = FrameRecord::count_from;
    let frames = table(writer, count, epoch, failed, &mut others)?;
    let writer = SocketWriter::create(partial.sockets())?;
    let count = SocketRecord::count_from;
    let sockets = table(writer, count, epoch, failed, &mut others)?;

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
    let is_embedded = |station: &Station| station.runs == Implementation::Embedded;
    let sinks = StationSinks {
        requests,
        start,
        log,
        are_embedded: trial.variant.stations.iter().map(is_embedded).collect(),
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
    criterion: RateCriterion,
    epoch: Time,
    failed: StopSignal,
) -> Result<TableThread<RequestTotals>> {
    let mut writer = RequestWriter::create(path)?;
    in_background("squall-requests", failed, move || {
        let mut totals = RequestTotals::default();
        for mut chunk in chunks {
            for request in chunk.iter_mut() {
                totals.add(request, &criterion);
                request.count_from(epoch);
            }
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(totals)
    })
}

/// Starts a table whose times are relative to the epoch, and returns where its rows go.
fn table<R: TableRow + Send + 'static>(
    mut writer: TableWriter<R>,
    count_from: fn(&mut R, Time),
    epoch: Time,
    failed: &StopSignal,
    tables: &mut Vec<TableThread<()>>,
) -> Result<RowSender<R>> {
    let (sender, chunks) = rows::queue(Capacity::Unbounded);
    let table = in_background("squall-rows", failed.clone(), move || {
        for mut chunk in chunks {
            for row in chunk.iter_mut() {
                count_from(row, epoch);
            }
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(())
    })?;
    tables.push(table);
    Ok(sender)
}

/// How often key log files are read.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes lines of TLS key logs to `path`, including those of programs, and passes them on.
fn key_log(
    path: PathBuf,
    chunks: Receiver<Vec<String>>,
    key_logs: KeyLogs,
    failed: StopSignal,
) -> Result<TableThread<()>> {
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
                // A reader that is gone has failed and reports that itself.
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
        write_private(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    })
}

/// A file that another process appends to.
struct GrowingFile {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of an incomplete last line.
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

    /// The complete lines added since the last call; empty as long as the file does not exist.
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
) -> Result<TableThread<T>> {
    let handle = background::start(name, move || failed.guard(work))?;
    Ok(TableThread { handle })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_may_read_the_tls_secrets_of_a_trial() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls-keys.log");
        let (keys, lines) = mpsc::channel();
        keys.send(vec!["CLIENT_RANDOM 00 11".to_owned()]).unwrap();
        drop(keys);
        let failed = StopSignal::new().unwrap();
        let log = key_log(path.clone(), lines, KeyLogs::default(), failed).unwrap();
        log.finish().unwrap();
        let found = std::fs::metadata(path).unwrap();
        assert!(found.len() > 0);
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }

    /// In a response time of 100 ms, the link was full for 30 ms, and late for 20 ms of these and for 2 ms more.
    #[test]
    fn lateness_of_a_full_link_does_not_count_as_a_disturbance() {
        let at = |millis| Time::from_nanos(millis * 1_000_000);
        let spans = |spans: &[(u64, u64)]| {
            let span = |&(from, until): &(u64, u64)| LateSpan {
                from: at(from),
                until: at(until),
            };
            LateSpans::of(spans.iter().map(span).collect(), Time::ZERO)
        };
        let mut totals = RequestTotals::default();
        totals.answered.push(AnsweredRequest {
            intended: at(1_000),
            taken_up: at(1_000),
            end: at(1_100),
        });
        let own = OwnTimes {
            late: spans(&[(30, 50), (80, 82)]),
            full: vec![spans(&[(25, 55), (200, 300)])],
        };
        let times = totals.response_times(&own, at(1_000));
        let roughly = |times: [Duration; 3]| times.map(|time| time.as_millis_f64().round());
        assert_eq!(roughly(times.response), [100.0; 3]);
        assert_eq!(roughly(times.without_own), [78.0; 3]);
        assert_eq!(roughly(times.without_disturbance), [98.0; 3]);
        assert!((times.full_shares[0] - 0.3).abs() < 1e-9);
    }

    #[test]
    fn growing_file_returns_each_complete_line_once() {
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
