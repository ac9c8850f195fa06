//! Runs one step of a probe: a client with its load over fresh connections, limited in time and bytes. Returns what it
//! recorded.
//!
//! It decides nothing about the order of steps (`drive` does) and draws no conclusion (squall-analysis' `probe` does).

use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use squall_analysis::probe::{Head, PRIORITY_WINDOW, Step, StepKind};
use squall_base::plan::{
    ClosedLoad, Connections, Page, PageLoad, PageNode, PoolOrder, PoolSettings, Protocol,
    SideSettings, ThinkTime, Version, Warmup, Workload,
};
use squall_base::{Bytes, Duration};
use squall_http::InboxOptions;
use squall_linux::clock;
use squall_linux::stop::StopSignal;
use squall_stations::LogSinks;
use squall_stations::client::{
    Client, ClientReport, ClientSettings, ClientSinks, Target, TargetedRequest,
};
use squall_stations::rows::{self, Capacity, RowReceiver};

use super::observer::{SharedObservations, StepObserver};
use super::plan::Plan;
use super::recording::Recording;
use crate::client::{
    AddressBook, HttpUrl, LinePrefix, PreparedRequest, ProtocolChoice, TlsCredentials,
    VerbosePrinter, single,
};
use crate::interrupt;

/// How often sockets are sampled.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// What a step is to do.
pub(super) struct Task {
    pub(super) kind: StepKind,
    pub(super) version: Version,
    pub(super) round: u32,
    /// The requests; the place of each is `what` in its records.
    pub(super) requests: Vec<PreparedRequest>,
    pub(super) load: Load,
    /// The step ends after this many bytes of responses.
    pub(super) bytes_at_most: u64,
}

/// When a step's requests are sent.
pub(super) enum Load {
    /// The first request this many times, one after the other.
    InTurn(u64),
    /// The first request on this many connections at once.
    AtOnce(u32),
    /// The first request `count` times on one connection, `at_once` at a time.
    Streams { at_once: u32, count: u64 },
    /// Each request after the one before it has succeeded, and after this pause.
    Chain(Vec<Duration>),
    /// Two requests that do not depend on each other: the first at the start, the second after this time.
    Beside(Duration),
    /// The first request; once it has succeeded, the second one, and the third one this long after the first has succeeded.
    PairBehind(Duration),
    /// This many requests from the start, each once, on one connection.
    Together(u32),
}

/// What a step recorded, with the first heads of responses.
pub(super) struct StepRecords {
    pub(super) step: Step,
    pub(super) heads: Vec<Head>,
    /// The body of the response; empty unless it is robots.txt.
    pub(super) body: Vec<u8>,
}

/// What all steps of a probe share.
pub(super) struct StepEnvironment<'a> {
    pub(super) plan: &'a Plan,
    pub(super) address_book: &'a mut AddressBook,
    pub(super) recording: &'a mut Recording,
    /// Requested by Ctrl-C; aborts the step.
    pub(super) interrupted: &'a StopSignal,
}

impl Load {
    /// The number of connections, and the load for the client.
    fn workload(&self, time: Duration) -> Result<(u32, Workload)> {
        let closed = |users, requests| {
            Workload::Closed(ClosedLoad {
                requests: Some(requests),
                duration: Some(time),
                ..ClosedLoad::of(users)
            })
        };
        Ok(match self {
            Load::InTurn(count) => (1, closed(1, *count)),
            Load::AtOnce(count) => (*count, closed(*count, u64::from(*count))),
            Load::Streams { at_once, count } => (1, closed(*at_once, *count)),
            Load::Chain(pauses) => {
                let nodes = (0..).zip(pauses).map(|(place, pause): (u32, _)| PageNode {
                    after: place.checked_sub(1),
                    delay: *pause,
                    ..PageNode::plain(place)
                });
                (1, page(nodes.collect(), time)?)
            }
            Load::Beside(delay) => {
                let second = PageNode {
                    delay: *delay,
                    ..PageNode::plain(1)
                };
                (1, page(vec![PageNode::plain(0), second], time)?)
            }
            Load::PairBehind(delay) => {
                let behind = |what, delay| PageNode {
                    after: Some(0),
                    delay,
                    ..PageNode::plain(what)
                };
                let pair = [behind(1, Duration::ZERO), behind(2, *delay)];
                let nodes = [PageNode::plain(0)].into_iter().chain(pair);
                (1, page(nodes.collect(), time)?)
            }
            Load::Together(count) => (1, page((0..*count).map(PageNode::plain).collect(), time)?),
        })
    }
}

/// A load of one page, once.
fn page(nodes: Vec<PageNode>, time: Duration) -> Result<Workload> {
    Ok(Workload::Pages(PageLoad {
        page: Page::new(nodes).context("cannot arrange the requests")?,
        users: 1,
        think: ThinkTime::None,
        starts_over: Duration::ZERO,
        pages: Some(1),
        duration: Some(time),
        warmup: Warmup::default(),
        drain: Duration::ZERO,
        seed: 0,
    }))
}

/// Tables that a client fills.
struct Receivers {
    requests: RowReceiver<squall_base::record::RequestRecord>,
    exchanges: RowReceiver<squall_base::record::ExchangeRecord>,
    frames: RowReceiver<squall_base::record::FrameRecord>,
    sockets: RowReceiver<squall_base::record::SocketRecord>,
}

/// A running step.
pub(super) struct RunningStep {
    task: Task,
    client: JoinHandle<Result<ClientReport, squall_stations::StationError>>,
    receivers: Receivers,
    /// TLS secrets that are kept for a capture.
    secrets: Option<Receiver<Vec<String>>>,
    seen: SharedObservations,
}

impl StepEnvironment<'_> {
    /// Runs a step for at most `time`.
    pub(super) fn run(&mut self, url: &HttpUrl, task: Task, time: Duration) -> Result<StepRecords> {
        let running = self.start(url, task, time)?;
        running.finish(self.recording)
    }

    /// Starts a step that ends after at most `time`.
    pub(super) fn start(
        &mut self,
        url: &HttpUrl,
        task: Task,
        time: Duration,
    ) -> Result<RunningStep> {
        let target = self.target(url, task.kind, task.version)?;
        self.start_at(target, task, time)
    }

    /// Runs a step against a target. Clones of a target share their TLS sessions; a new target starts without sessions.
    pub(super) fn run_at(
        &mut self,
        target: Target,
        task: Task,
        time: Duration,
    ) -> Result<StepRecords> {
        let running = self.start_at(target, task, time)?;
        running.finish(self.recording)
    }

    /// The target of a step over this version.
    pub(super) fn target(
        &mut self,
        url: &HttpUrl,
        kind: StepKind,
        version: Version,
    ) -> Result<Target> {
        let (protocol, side) = self.spoken(kind, version)?;
        let flags = &self.plan.connection;
        let choice = ProtocolChoice {
            protocol,
            is_strict: true,
        };
        TlsCredentials::target(flags, url, choice, &side, self.address_book)
    }

    /// The protocol of a step, and the client's settings for it.
    fn spoken(&self, kind: StepKind, version: Version) -> Result<(Protocol, SideSettings)> {
        let (protocol, mut side) = self.plan.spoken(version)?;
        if kind == StepKind::Priorities {
            side.http2.connection_window = Bytes::new(PRIORITY_WINDOW);
            side.http3.connection_window = Bytes::new(PRIORITY_WINDOW);
        }
        Ok((protocol, side))
    }

    fn start_at(&mut self, target: Target, task: Task, time: Duration) -> Result<RunningStep> {
        let seen = SharedObservations::default();
        let stop = StopSignal::new()?;
        let observer = StepObserver {
            seen: seen.clone(),
            bytes_at_most: task.bytes_at_most,
            stop: stop.clone(),
            is_secure: self.plan.is_secure(),
            ends_with_connection: task.kind == StepKind::KeptIdle,
            keeps_records: matches!(task.kind, StepKind::Download | StepKind::Idle),
            trace: self.trace(&task),
            own: self.recording.own(),
        };
        let (key_log, secrets) = self.recording.secrets();
        let (requests, request_rows) = rows::queue(Capacity::Unbounded);
        let (exchanges, exchange_rows) = rows::queue(Capacity::Unbounded);
        let (frames, frame_rows) = rows::queue(Capacity::Unbounded);
        let (sockets, socket_rows) = rows::queue(Capacity::Unbounded);
        let sinks = ClientSinks {
            log: LogSinks {
                exchanges: Some(exchanges),
                frames: Some(frames),
                sockets: Some(sockets),
                key_log,
                ..LogSinks::default()
            },
            observer: Some(Box::new(observer)),
            ..ClientSinks::new(requests)
        };
        let settings = self.settings(target, &task, time)?;
        let uploads = task.requests.iter().map(|asked| asked.upload.clone());
        let client = Client::new(settings, sinks, self.interrupted.clone(), stop)?
            .with_uploads(uploads.collect());
        // On its own thread, because the client may change the thread's priority.
        let client = thread::Builder::new()
            .name("squall-client".to_owned())
            .spawn(move || client.run())
            .context("cannot start a client")?;
        Ok(RunningStep {
            task,
            client,
            receivers: Receivers {
                requests: request_rows,
                exchanges: exchange_rows,
                frames: frame_rows,
                sockets: socket_rows,
            },
            secrets,
            seen,
        })
    }

    fn trace(&self, task: &Task) -> Option<VerbosePrinter> {
        self.plan.trace.then(|| {
            let requests = task.requests.iter().map(|asked| asked.request.clone());
            VerbosePrinter::new(
                Box::new(std::io::stderr()),
                clock::now(),
                LinePrefix::Connection,
                requests.collect(),
            )
        })
    }

    fn settings(&mut self, target: Target, task: &Task, time: Duration) -> Result<ClientSettings> {
        let (protocol, side) = self.spoken(task.kind, task.version)?;
        let choice = ProtocolChoice {
            protocol,
            is_strict: true,
        };
        self.recording.watch(target.packets_to());
        let Some(first) = task.requests.first() else {
            bail!("a step without a request");
        };
        let observed = InboxOptions {
            fields: true,
            bodies: task.kind == StepKind::Robots,
            frames: self.plan.trace,
        };
        let (connections, workload) = task.load.workload(time)?;
        let requests = task.requests.iter().map(|asked| TargetedRequest {
            request: asked.request.clone(),
            target: 0,
        });
        Ok(ClientSettings {
            connections: Connections::OnDemand {
                at_most: connections,
            },
            pool: PoolSettings {
                order: PoolOrder::LastUsed,
                streams_at_most: None,
                warm: 0,
            },
            workload,
            requests: requests.collect(),
            sample_every: SAMPLE_EVERY,
            ..single(target, choice, side, first.request.clone(), observed, time)
        })
    }
}

impl RunningStep {
    /// Whether the step is over.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_finished()
    }

    /// Waits until the step is over. Returns what the step recorded, after `recording` has kept what the files need.
    pub(super) fn finish(self, recording: &mut Recording) -> Result<StepRecords> {
        let report = self.client.join();
        let report = report.map_err(|_| anyhow!("a client panicked"))?;
        recording.add_secrets(self.secrets.as_ref());
        if interrupt::is_requested() {
            bail!("interrupted");
        }
        let report = report?;
        let seen = self.seen.take();
        let Task {
            kind,
            version,
            round,
            ..
        } = self.task;
        let heads = seen.heads.into_iter().map(|(status, fields)| Head {
            version,
            status,
            fields,
        });
        let step = Step {
            kind,
            version,
            round,
            requests: collect(self.receivers.requests),
            exchanges: collect(self.receivers.exchanges),
            frames: collect(self.receivers.frames),
            sockets: collect(self.receivers.sockets),
            pieces: seen.pieces,
            settings: seen.settings,
            counts: report.counts,
            was_cut: seen.was_cut,
            was_connected: seen.was_connected,
            lacks_tls: seen.lacks_tls,
            handshake: seen.handshake,
            ended: seen.ended,
            largest_datagram: seen.largest_datagram,
            records: seen.records,
        };
        recording.add(&step);
        Ok(StepRecords {
            step,
            heads: heads.collect(),
            body: seen.body,
        })
    }
}

/// All rows of a table whose senders are gone.
fn collect<T>(rows: RowReceiver<T>) -> Vec<T> {
    rows.flat_map(|mut chunk| std::mem::take(&mut *chunk))
        .collect()
}
