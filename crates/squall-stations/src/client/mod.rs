//! The embedded client: runs a load over connections and records every request.
//!
//! An open load takes each request up at its intended time and never skips one: a request that finds no connection
//! queues, and its wait counts. What is unfinished at the end of the drain time is recorded as censored. The client
//! runs on one thread; the caller puts it into its host. Start at [`Client`]; `dispatch` assigns requests to
//! connections, `lane` decides which pool's, `connection` is one connection, `causes` measures what delayed sending,
//! `under_way` interprets events, `upload` reads bodies from disk, `turn` waits and reads, `waiting` decides how long,
//! `meanwhile` what else to do in that time, `patience` when to give a load up, and `punctuality` measures how the
//! machine kept to the schedule. `dial` opens the connections and carries their bytes.

mod causes;
mod connection;
mod dispatch;
mod gauge;
mod lane;
mod meanwhile;
mod patience;
mod punctuality;
mod requests;
mod settings;
mod start_line;
mod turn;
mod under_way;
mod upload;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use squall_base::plan::{ClosedLoad, Protocol, Workload};
use squall_base::record::{Outcome, Side, SideCounts};
use squall_base::{Duration, Time};
use squall_http::InboxOptions;
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::scheduling::{RunQueueDelay, Scheduling};
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::{Arrival, Arrivals, PageEnd};

use crate::dial::ConnectionKey;
pub use crate::dial::Target;
use crate::error::StationError;
use crate::log::StationLog;
use crate::{Buffers, CONNECT_AT_MOST, STATION_PRIORITY};
pub use causes::{Causes, QuicCauses, TcpCauses, WindowCauses};
use connection::Shared;
pub use gauge::{Gauge, GaugeReading};
use lane::{Lanes, Pools, shared_pools};
use meanwhile::SpareTimeBudget;
use patience::StallTimeout;
use punctuality::LagMeter;
pub use punctuality::{LongestLag, Punctuality};
use requests::{Failure, Recorder};
pub use requests::{Observation, Observer};
pub use settings::{ClientSettings, ClientSinks, Spin, TargetedRequest};
pub use start_line::StartBarrier;
pub use upload::Upload;
use waiting::SleepPolicy;

/// Bodies that are not in the requests themselves, by place among the requests.
pub(crate) type Uploads = Vec<Option<Arc<Upload>>>;

/// Delay from all connections being ready to the first request of an open loop.
const START_AFTER: Duration = Duration::from_millis(10);
/// The reactor's token for the signal that another part of the trial has failed; no connection has it.
const FAILED: u64 = u64::MAX - 1;
/// The reactor's token for the signal to end the load early.
const STOP: u64 = u64::MAX - 2;
/// Reads of one connection before others get their turn: 1 MiB.
const READS_A_TURN: usize = 16;
/// Writes of one connection before others get their turn: 1 MiB, if the receiver takes it that fast.
const WRITES_A_TURN: usize = 16;

/// What a client did, in addition to its records.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// When the first request was due.
    pub load_start: Time,
    /// When the load ended.
    pub load_end: Time,
    /// Whether it ended because of [`ClientSettings::stall_timeout`].
    pub gave_up: bool,
    /// Requests of the schedule; without a known total, those that began.
    pub requests: u64,
    /// Connections opened.
    pub connections_opened: u32,
    /// Congestion control of its sockets, as the kernel reports it.
    pub congestion_controls: BTreeSet<String>,
    /// How its thread was scheduled.
    pub scheduling: Scheduling,
    /// Connections that this machine could not even begin, by the kernel's message. No fault of a peer.
    pub machine_errors: BTreeMap<String, u64>,
    /// Pages that had begun and not ended when the load ended, up to that time.
    pub unfinished_pages: Vec<PageEnd>,
    /// How the machine delayed its thread while the load ran.
    pub punctuality: Punctuality,
    /// Processor time of its thread while the load ran, without spare-time work.
    pub processor_time: Duration,
    /// Its counters.
    pub counts: SideCounts,
    /// What delayed its sending, if that was wanted.
    pub causes: Causes,
}

/// A client and its load.
pub struct Client {
    settings: ClientSettings,
    uploads: Uploads,
    wants: InboxOptions,
    reactor: Reactor,
    sleep_policy: SleepPolicy,
    lag_meter: LagMeter,
    spare_time: SpareTimeBudget,
    /// The kernel's run-queue statistics of its thread, once it runs.
    run_queue: Option<RunQueueDelay>,
    /// Sockets that are ready and have not been read yet.
    ready: VecDeque<ReadyEvent>,
    /// Scratch buffer, used only inside `enqueue_due`.
    due: Vec<Arrival>,
    pools: Pools,
    lanes: Lanes,
    /// Connections with more to read than one turn allows.
    pending_turns: VecDeque<ConnectionKey>,
    /// Connections that may have something to write, collected until nothing more can join their writes.
    gathering: Vec<ConnectionKey>,
    recorder: Recorder,
    log: StationLog,
    /// Set while a load without a time limit runs.
    stall_timeout: Option<StallTimeout>,
    next_sample: Option<Time>,
    /// The next socket to sample, while a round of samples is in progress.
    sampling: Option<ConnectionKey>,
    buffers: Buffers,
    causes: Option<Causes>,
    watches_windows: bool,
    congestion_controls: BTreeSet<String>,
    machine_errors: BTreeMap<String, u64>,
    gauge: Option<Arc<Gauge>>,
    start_barrier: Option<StartBarrier>,
    pages: Option<Sender<Vec<PageEnd>>>,
    failed: StopSignal,
    stop: StopSignal,
}

impl Client {
    /// A client that sends its rows in chunks, in the order in which requests end; times are CLOCK_MONOTONIC. It aborts
    /// when `failed` signals that another part of the trial has failed, and ends early, with what it has, on `stop`.
    pub fn new(
        settings: ClientSettings,
        sinks: ClientSinks,
        failed: StopSignal,
        stop: StopSignal,
    ) -> Result<Client, StationError> {
        let reactor = Reactor::new()?;
        reactor.add(&failed, FAILED)?;
        reactor.add(&stop, STOP)?;
        let log = StationLog::new(Side::Client, sinks.log);
        Ok(Client {
            reactor,
            sleep_policy: SleepPolicy::new(settings.spin, clock::now()),
            lag_meter: LagMeter::default(),
            spare_time: SpareTimeBudget::new(sinks.spare_time),
            run_queue: None,
            ready: VecDeque::new(),
            wants: InboxOptions {
                frames: log.wants_frames() || settings.observed.frames,
                ..settings.observed
            },
            due: Vec::new(),
            pools: shared_pools(&settings),
            lanes: Lanes::default(),
            pending_turns: VecDeque::new(),
            gathering: Vec::new(),
            recorder: Recorder::new(sinks.requests, sinks.observer),
            stall_timeout: None,
            next_sample: log
                .wants_sockets()
                .then(|| clock::now() + settings.sample_every),
            sampling: None,
            log,
            buffers: Buffers::new(),
            causes: None,
            watches_windows: false,
            congestion_controls: BTreeSet::new(),
            machine_errors: BTreeMap::new(),
            gauge: sinks.gauge,
            start_barrier: sinks.start_barrier,
            pages: sinks.pages,
            failed,
            stop,
            settings,
            uploads: Uploads::new(),
        })
    }

    /// Supplies the bodies that are read while they are sent: by place, for requests whose body is
    /// [`squall_http::Body::Streamed`], each of the stated length.
    #[must_use]
    pub fn with_uploads(self, uploads: Vec<Option<Arc<Upload>>>) -> Client {
        Client { uploads, ..self }
    }

    /// Sums up what delays sending. This costs a system call at the end of each connection and, if bodies are sent over
    /// HTTP/2, a look at each frame.
    #[must_use]
    pub fn with_causes(mut self) -> Client {
        let has_body = |targeted: &TargetedRequest| !targeted.request.body().is_empty();
        let is_http2 = matches!(self.settings.protocol, Protocol::H2 | Protocol::H2c);
        self.causes = Some(Causes::default());
        self.watches_windows = is_http2 && self.settings.requests.iter().any(has_body);
        self.wants.frames |= self.watches_windows;
        self
    }

    /// Opens the connections that the policy wants in advance, runs the load and drains it. The calling
    /// thread must be in the client's host.
    pub fn run(mut self) -> Result<ClientReport, StationError> {
        let scheduling = scheduling::make_realtime(STATION_PRIORITY);
        self.connect_in_advance()?;
        let load_start = self.wait_for_start();
        self.run_queue = RunQueueDelay::of_this_thread();
        self.lag_meter = LagMeter::default();
        self.spare_time.spent = Duration::ZERO;
        let spent_before = clock::processor_time_of_thread();
        let mut arrivals = Arrivals::new(&self.settings.workload, load_start, self.settings.share);
        let timeout = (self.settings.stall_timeout).filter(|_| arrivals.deadline().is_none());
        self.stall_timeout = timeout.map(|timeout| StallTimeout::new(timeout, load_start));
        let (load_end, gave_up) = loop {
            for (ended, at) in self.recorder.ended.drain(..) {
                arrivals.ended(ended, at);
            }
            let now = clock::now();
            self.enqueue_due(&mut arrivals, now);
            self.dispatch()?;
            self.report_progress(now, &mut arrivals);
            if !self.recorder.ended.is_empty() {
                // Responses arrived while requests were handed out: their users may send new requests first.
                continue;
            }
            if arrivals.is_over(now) || self.stop.is_requested() {
                break (now, false);
            }
            if self.has_stalled(now, &arrivals) {
                break (now, true);
            }
            self.turn(arrivals.next_change(now))?;
        };
        let spent = clock::processor_time_of_thread() - spent_before;
        let processor_time = spent - self.spare_time.spent.min(spent);
        let now = clock::now();
        self.report_progress(now, &mut arrivals);
        self.end(now);
        Ok(ClientReport {
            load_start,
            load_end,
            gave_up,
            requests: arrivals.total().unwrap_or(arrivals.begun()),
            connections_opened: self.pools.opened(),
            congestion_controls: self.congestion_controls,
            scheduling,
            machine_errors: self.machine_errors,
            unfinished_pages: arrivals.unfinished_pages(now),
            punctuality: self.lag_meter.sums(),
            processor_time,
            counts: self.log.counts,
            causes: self.causes.unwrap_or_default(),
        })
    }

    /// Whether the load ends because none of its requests has ended for too long.
    fn has_stalled(&mut self, now: Time, arrivals: &Arrivals) -> bool {
        let Some(timeout) = &mut self.stall_timeout else {
            return false;
        };
        if now < timeout.next_check() {
            return false;
        }
        let unfinished = arrivals.unfinished();
        let waits = unfinished > 0 && arrivals.next_change(now).is_none();
        timeout.has_expired(now, arrivals.begun() - unfinished, waits)
    }

    /// Waits for all other clients of the load. Returns its start, which is early enough for the first request to be on
    /// time.
    fn wait_for_start(&mut self) -> Time {
        let start_after = match self.settings.workload {
            Workload::Open(_) | Workload::Script(_) => START_AFTER,
            // A closed loop has no schedule to be late for.
            Workload::Closed(_) | Workload::Pages(_) => Duration::ZERO,
        };
        let start = || clock::now() + start_after;
        match self.start_barrier.take() {
            Some(barrier) => barrier.wait(start),
            None => start(),
        }
    }

    fn connect_in_advance(&mut self) -> Result<(), StationError> {
        let at_most = match &self.settings.workload {
            // A one-second load should not spend longer than that connecting.
            Workload::Closed(ClosedLoad {
                duration: Some(duration),
                ..
            }) => CONNECT_AT_MOST.min(*duration),
            _ => CONNECT_AT_MOST,
        };
        let give_up = clock::now() + at_most;
        self.create_user_pools();
        for pool in 0..self.pools.len() as u32 {
            for connection in self.pools.get_mut(pool).policy.open_in_advance() {
                self.open(ConnectionKey { pool, connection }, None)?;
            }
        }
        let is_connecting = |client: &Client| {
            let mut connections = client.pools.connections();
            connections.any(|(_, connection)| !connection.is_settled())
        };
        while is_connecting(self) && clock::now() < give_up && !self.stop.is_requested() {
            self.turn(Some(give_up))?;
            self.dispatch()?;
        }
        Ok(())
    }

    /// Creates the pools of users with separate connections, if these are to be opened in advance.
    fn create_user_pools(&mut self) {
        let settings = &self.settings;
        let users = match &settings.workload {
            Workload::Script(load) => load.clients,
            Workload::Pages(load) => load.users,
            Workload::Open(_) | Workload::Closed(_) => 0,
        };
        if settings.pool_per_user && settings.pool.warm > 0 {
            for user in settings.share.members(users) {
                for target in 0..settings.targets.len() as u32 {
                    let owner = (target, user);
                    self.lanes.find_or_create(&mut self.pools, owner, settings);
                }
            }
        }
    }

    /// Reports progress: rows, counters and pages.
    fn report_progress(&mut self, now: Time, arrivals: &mut Arrivals) {
        self.recorder.flush_if_due(now);
        if let Some(gauge) = &self.gauge {
            gauge.set(GaugeReading {
                started: arrivals.begun(),
                ended: arrivals.begun() - arrivals.unfinished(),
                connections: self.pools.open(),
            });
        }
        if let Some(sink) = &self.pages {
            let ended = arrivals.take_ended_pages();
            if !ended.is_empty() {
                // A dropped receiver means that the load has failed, which is reported elsewhere.
                let _ = sink.send(ended);
            }
        }
    }

    /// Ends the load: records unfinished requests as censored, closes connections, and sends what is left.
    fn end(&mut self, now: Time) {
        let failure = Failure::new(Outcome::Censored, String::new());
        let mut shared = Shared {
            settings: &self.settings,
            uploads: &self.uploads,
            recorder: &mut self.recorder,
            log: &mut self.log,
            buffers: &mut self.buffers,
            causes: &mut self.causes,
        };
        for pool in self.pools.iter_mut() {
            for connection in pool.connections.iter_mut().flatten() {
                for request in connection.take_unfinished() {
                    shared.recorder.fail(request, &failure, now);
                }
            }
            for request in pool.waiting.drain(..) {
                shared.recorder.fail(request, &failure, now);
            }
        }
        for pool in self.pools.iter_mut() {
            for connection in pool.connections.drain(..).flatten() {
                connection.close(&mut shared);
            }
        }
        self.recorder.flush();
        self.log.flush();
    }
}
