//! The embedded client: a load over connections, every request recorded.
//!
//! In an open load a request is taken up at its intended time and never skipped: one that finds no connection waits in
//! line, and its waiting counts. What is unfinished at the end of the drain time is recorded as censored. One thread;
//! the caller puts it into its host. Start at [`Client`]; `dispatch` gives requests to connections, `lane` keeps both,
//! `connection` is one connection, `causes` what held it up, `transport` what carries it, `under_way` what its events
//! mean, `upload` bodies that are read from disk, `turn` waits and reads, `waiting` says until when, `meanwhile` what else
//! could be done, `patience` when a load is given up, `punctuality` how the machine kept to that.

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
pub(crate) mod transport;
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
use squall_http::Wants;
use squall_linux::reactor::{Reactor, Ready};
use squall_linux::scheduling::{InLine, Scheduling};
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::{Arrival, Arrivals, PageEnd};

use crate::error::StationError;
use crate::log::Log;
use crate::{Buffers, CONNECT_AT_MOST, STATION_PRIORITY};
pub use causes::{Causes, QuicCauses, TcpCauses, WindowCauses};
use connection::Shared;
pub use gauge::{Gauge, GaugeReading};
use lane::{At, Lanes};
use meanwhile::Meanwhile;
use patience::Patience;
use punctuality::Waits;
pub use punctuality::{LongestLag, Punctuality};
use requests::{Failure, Recorder};
pub use requests::{Observer, Seen};
pub use settings::{Asked, ClientSettings, ClientSinks, Spin, Target};
pub use start_line::StartLine;
pub use upload::Upload;
use waiting::Waiting;

/// By place among what is asked for: the bodies that are not in the requests themselves.
pub(crate) type Uploads = Vec<Option<Arc<Upload>>>;

/// From all connections being ready to the first request of an open loop.
const START_AFTER: Duration = Duration::from_millis(10);
/// The reactor's token of the signal that another part of the trial has failed; no connection has it.
const FAILED: u64 = u64::MAX - 1;
/// The reactor's token of the signal that the load shall end early.
const STOP: u64 = u64::MAX - 2;
/// Reads of one connection before others have their turn: 1 MiB.
const READS_A_TURN: usize = 16;
/// Writes of one connection before others have their turn: 1 MiB, if the receiver takes all that fast.
const WRITES_A_TURN: usize = 16;

/// What a client has done, besides its records.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// When the first request was due.
    pub load_start: Time,
    /// When the load was over.
    pub load_end: Time,
    /// Whether it was over because of [`ClientSettings::patience`].
    pub gave_up: bool,
    /// Requests of the schedule.
    pub requests: u64,
    /// Connections opened.
    pub connections_opened: u32,
    /// Congestion control of its sockets, as the kernel says.
    pub congestion_controls: BTreeSet<String>,
    /// How its thread was scheduled.
    pub scheduling: Scheduling,
    /// Connections that this machine could not even begin, by what the kernel said: no fault of a peer's.
    pub machine_errors: BTreeMap<String, u64>,
    /// Pages that had begun and not ended when the load was over, up to then.
    pub unfinished_pages: Vec<PageEnd>,
    /// What the machine did to its thread while the load ran.
    pub punctuality: Punctuality,
    /// Processor time of its thread while the load ran, but for what it did in its spare time.
    pub processor_time: Duration,
    /// What it counted.
    pub counts: SideCounts,
    /// What held up what it sent, if that was wanted.
    pub causes: Causes,
}

/// A client at work.
pub struct Client {
    settings: ClientSettings,
    uploads: Uploads,
    wants: Wants,
    reactor: Reactor,
    waiting: Waiting,
    waits: Waits,
    meanwhile: Meanwhile,
    /// What the kernel counts of its thread, once it runs.
    in_line: Option<InLine>,
    /// What is ready and has not been read yet.
    ready: VecDeque<Ready>,
    /// Empty but while what is due is taken up.
    due: Vec<Arrival>,
    lanes: Lanes,
    /// Connections that have more to read than a turn allows.
    hungry: VecDeque<At>,
    /// Connections that may have something to write, once nothing more can join it.
    gathering: Vec<At>,
    recorder: Recorder,
    log: Log,
    /// Of a load that waits for everything, once it runs.
    patience: Option<Patience>,
    next_sample: Option<Time>,
    /// The next socket, while all are sampled.
    sampling: Option<At>,
    buffers: Buffers,
    causes: Option<Causes>,
    watches_windows: bool,
    congestion_controls: BTreeSet<String>,
    machine_errors: BTreeMap<String, u64>,
    gauge: Option<Arc<Gauge>>,
    start_line: Option<StartLine>,
    pages: Option<Sender<Vec<PageEnd>>>,
    failed: StopSignal,
    stop: StopSignal,
}

impl Client {
    /// A client that hands its rows on in chunks, in the order in which requests end; times are CLOCK_MONOTONIC's. It
    /// gives up when `failed` says that another part of the trial has, and ends early, with what it has, on `stop`.
    pub fn new(
        settings: ClientSettings,
        sinks: ClientSinks,
        failed: StopSignal,
        stop: StopSignal,
    ) -> Result<Client, StationError> {
        let reactor = Reactor::new()?;
        reactor.add(&failed, FAILED)?;
        reactor.add(&stop, STOP)?;
        let log = Log::new(Side::Client, sinks.log);
        Ok(Client {
            reactor,
            waiting: Waiting::new(settings.spin, clock::now()),
            waits: Waits::default(),
            meanwhile: Meanwhile::new(sinks.spare_time),
            in_line: None,
            ready: VecDeque::new(),
            wants: Wants {
                frames: log.wants_frames() || settings.observed.frames,
                ..settings.observed
            },
            due: Vec::new(),
            lanes: Lanes::new(&settings),
            hungry: VecDeque::new(),
            gathering: Vec::new(),
            recorder: Recorder::new(sinks.requests, sinks.observer),
            patience: None,
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
            start_line: sinks.start_line,
            pages: sinks.pages,
            failed,
            stop,
            settings,
            uploads: Uploads::new(),
        })
    }

    /// Has bodies of requests read while they are sent: by place, those of requests whose body is
    /// [`squall_http::Body::Streamed`], each of the length that was stated.
    #[must_use]
    pub fn with_uploads(self, uploads: Vec<Option<Arc<Upload>>>) -> Client {
        Client { uploads, ..self }
    }

    /// Sums up what held up what is sent: a system call at the end of each connection, and, if bodies go over HTTP/2,
    /// a look at each frame.
    #[must_use]
    pub fn with_causes(mut self) -> Client {
        let has_body = |asked: &Asked| !asked.request.body().is_empty();
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
        self.in_line = InLine::of_this_thread();
        self.waits = Waits::default();
        self.meanwhile.spent = Duration::ZERO;
        let spent_before = clock::spent_by_thread();
        let mut arrivals = Arrivals::new(&self.settings.workload, load_start, self.settings.share);
        let patience = (self.settings.patience).filter(|_| arrivals.deadline().is_none());
        self.patience = patience.map(|patience| Patience::new(patience, load_start));
        let (load_end, gave_up) = loop {
            for (ended, at) in self.recorder.ended.drain(..) {
                arrivals.ended(ended, at);
            }
            let now = clock::now();
            self.take_up_due(&mut arrivals, now);
            self.dispatch()?;
            self.show(now, &mut arrivals);
            if !self.recorder.ended.is_empty() {
                // Answers came while requests were handed out: their users ask again first.
                continue;
            }
            if arrivals.is_over(now) || self.stop.is_requested() {
                break (now, false);
            }
            if self.gives_up(now, &arrivals) {
                break (now, true);
            }
            self.turn(arrivals.next_change(now))?;
        };
        let spent = clock::spent_by_thread() - spent_before;
        let processor_time = spent - self.meanwhile.spent.min(spent);
        let now = clock::now();
        self.show(now, &mut arrivals);
        self.end(now);
        Ok(ClientReport {
            load_start,
            load_end,
            gave_up,
            requests: arrivals.total().unwrap_or(arrivals.begun()),
            connections_opened: self.lanes.opened(),
            congestion_controls: self.congestion_controls,
            scheduling,
            machine_errors: self.machine_errors,
            unfinished_pages: arrivals.unfinished_pages(now),
            punctuality: self.waits.sums(),
            processor_time,
            counts: self.log.counts,
            causes: self.causes.unwrap_or_default(),
        })
    }

    /// Whether the load has waited in vain for so long that it ends.
    fn gives_up(&mut self, now: Time, arrivals: &Arrivals) -> bool {
        let Some(patience) = &mut self.patience else {
            return false;
        };
        if now < patience.next_look() {
            return false;
        }
        let under_way = arrivals.unfinished();
        let waits = under_way > 0 && arrivals.next_change(now).is_none();
        patience.is_over(now, arrivals.begun() - under_way, waits)
    }

    /// When the load starts: with its first request on time, and with all other clients of it.
    fn wait_for_start(&mut self) -> Time {
        let start_after = match self.settings.workload {
            Workload::Open(_) | Workload::Script(_) => START_AFTER,
            // Nobody is late for a closed loop.
            Workload::Closed(_) | Workload::Pages(_) => Duration::ZERO,
        };
        let start = || clock::now() + start_after;
        match self.start_line.take() {
            Some(line) => line.wait(start),
            None => start(),
        }
    }

    fn connect_in_advance(&mut self) -> Result<(), StationError> {
        let at_most = match &self.settings.workload {
            // Who gives a load a second does not want to wait for its connections longer than that.
            Workload::Closed(ClosedLoad {
                duration: Some(duration),
                ..
            }) => CONNECT_AT_MOST.min(*duration),
            _ => CONNECT_AT_MOST,
        };
        let give_up = clock::now() + at_most;
        self.make_lanes_of_users();
        for lane in 0..self.lanes.len() as u32 {
            for connection in self.lanes.get_mut(lane).pool.open_in_advance() {
                self.open(At { lane, connection }, None)?;
            }
        }
        let is_connecting = |client: &Client| {
            let mut connections = client.lanes.connections();
            connections.any(|(_, connection)| !connection.is_settled())
        };
        while is_connecting(self) && clock::now() < give_up && !self.stop.is_requested() {
            self.turn(Some(give_up))?;
            self.dispatch()?;
        }
        Ok(())
    }

    /// Makes the lanes of users with connections of their own, if these shall be opened in advance.
    fn make_lanes_of_users(&mut self) {
        let settings = &self.settings;
        let users = match &settings.workload {
            Workload::Script(load) => load.clients,
            Workload::Pages(load) => load.users,
            Workload::Open(_) | Workload::Closed(_) => 0,
        };
        if settings.pool_per_user && settings.pool.warm > 0 {
            for user in settings.share.members(users) {
                for target in 0..settings.targets.len() as u32 {
                    self.lanes.find_or_make(target, user, settings);
                }
            }
        }
    }

    /// Tells how far it is to those who want to know.
    fn show(&mut self, now: Time, arrivals: &mut Arrivals) {
        self.recorder.hand_on_by(now);
        if let Some(gauge) = &self.gauge {
            gauge.set(GaugeReading {
                started: arrivals.begun(),
                ended: arrivals.begun() - arrivals.unfinished(),
                connections: self.lanes.open(),
            });
        }
        if let Some(sink) = &self.pages {
            let ended = arrivals.take_ended_pages();
            if !ended.is_empty() {
                // A receiver that is gone means that the load has failed and says so itself.
                let _ = sink.send(ended);
            }
        }
    }

    /// The load is over: what is unfinished is censored, connections are closed, everything is handed on.
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
        for lane in self.lanes.iter_mut() {
            for connection in lane.connections.iter_mut().flatten() {
                for request in connection.take_unfinished() {
                    shared.recorder.fail(request, &failure, now);
                }
            }
            for request in lane.waiting.drain(..) {
                shared.recorder.fail(request, &failure, now);
            }
        }
        for lane in self.lanes.iter_mut() {
            for connection in lane.connections.drain(..).flatten() {
                connection.close(&mut shared);
            }
        }
        self.recorder.hand_on();
        self.log.hand_on();
    }
}
