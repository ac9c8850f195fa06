//! The embedded client: runs a load over connections and records every request.
//!
//! An open load takes each request up at its intended time and never skips one: a request that finds no connection
//! queues, and its wait counts. What is unfinished at the end of the drain time is recorded as censored. The client
//! runs on one thread; the caller puts it into its host. Start at [`Client`]; `dispatch` assigns requests to
//! connections, `user_pools` finds the pool of each, `connection` is one connection, `causes` measures what delayed sending,
//! `in_flight` interprets events, `upload` reads bodies from disk, `turn` waits and reads, `waiting` decides how long,
//! `spare_time` what else to do in that time, `stall` when to give a load up, `timeout` when to look for overdue
//! requests, `retry` which requests are retried, and `punctuality` measures how the machine kept to the schedule.
//! `dial` opens the connections and carries their bytes.

mod causes;
mod connection;
mod dispatch;
mod gauge;
mod in_flight;
mod punctuality;
mod queued_request;
mod requests;
mod retry;
mod settings;
mod spare_time;
mod stall;
mod start_line;
mod timeout;
mod turn;
mod upload;
mod user_pools;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use squall_base::plan::{ClosedLoad, Workload};
use squall_base::record::{Side, SideCounts};
use squall_base::{Duration, Time};
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::scheduling::Scheduling;
use squall_linux::spans::DurationHistogram;
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::{Arrivals, PageEnd};

pub use crate::dial::{Route, SocksDestination, SocksLogin, SocksRoute, Target};
use crate::error::StationError;
use crate::log::StationLog;
use crate::{Buffers, CONNECT_AT_MOST, STATION_PRIORITY};
pub use causes::{Causes, QuicCauses, TcpCauses, WindowCauses};
use connection::Shared;
use dispatch::Traffic;
pub use gauge::{Gauge, GaugeReading};
pub use punctuality::{LongestLag, Punctuality};
use requests::Recorder;
pub use requests::{Observation, Observer};
pub use settings::{ClientSettings, ClientSinks, Spin, TargetedRequest};
use stall::StallTimeout;
pub use start_line::{START_AFTER, StartBarrier, start_of};
use turn::{Pace, Sampling};
pub use upload::Upload;
pub(crate) use upload::Uploads;

/// The reactor's token for the signal that another part of the trial has failed; no connection has this token.
const FAILED: u64 = u64::MAX - 1;
/// The reactor's token for the signal to end the load early.
const STOP: u64 = u64::MAX - 2;

/// What a client did, in addition to its records.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// When the first request was due.
    pub load_start: Time,
    /// When the load ended.
    pub load_end: Time,
    /// Whether the load ended because of [`ClientSettings::stall_timeout`].
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
    /// The gaps between arrivals of the bodies of measured responses (docs/LOAD.md).
    pub gaps: DurationHistogram,
}

/// A client and its load.
pub struct Client {
    traffic: Traffic,
    pace: Pace,
    sampling: Sampling,
    reactor: Reactor,
    /// Sockets that are ready and have not been read yet.
    ready: VecDeque<ReadyEvent>,
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
        let recorder = Recorder::new(sinks.requests, sinks.observer).retrying(&settings.side);
        Ok(Client {
            pace: Pace::new(settings.spin, sinks.spare_time),
            sampling: Sampling::new(settings.sample_every, log.wants_sockets()),
            traffic: Traffic::new(Shared {
                settings,
                uploads: Uploads::new(),
                recorder,
                log,
                buffers: Buffers::new(),
                causes: None,
            }),
            reactor,
            ready: VecDeque::new(),
            gauge: sinks.gauge,
            start_barrier: sinks.start_barrier,
            pages: sinks.pages,
            failed,
            stop,
        })
    }

    /// Supplies the bodies that are read while they are sent, by request index. Each belongs to a request whose body is
    /// [`squall_http::Body::Streamed`], with the same length.
    #[must_use]
    pub fn with_uploads(mut self, uploads: Vec<Option<Arc<Upload>>>) -> Client {
        self.traffic.shared.uploads = uploads;
        self
    }

    /// Sums up what delays sending. This costs a system call at the end of each connection and, if bodies are sent over
    /// HTTP/2, a look at each frame.
    #[must_use]
    pub fn with_causes(mut self) -> Client {
        self.traffic.watch_causes();
        self
    }

    /// Opens the connections that the policy wants in advance, runs the load and drains it. The calling
    /// thread must be in the client's host.
    pub fn run(mut self) -> Result<ClientReport, StationError> {
        let scheduling = scheduling::make_realtime(STATION_PRIORITY);
        self.connect_in_advance()?;
        let load_start = self.wait_for_start();
        self.pace.start_load();
        let spent_before = clock::processor_time_of_thread();
        let settings = &self.traffic.shared.settings;
        let mut arrivals = Arrivals::new(&settings.workload, load_start, settings.share);
        let timeout = (settings.stall_timeout).filter(|_| arrivals.deadline().is_none());
        self.pace.stall_timeout = timeout.map(|timeout| StallTimeout::new(timeout, load_start));
        let (load_end, gave_up) = loop {
            for (ended, at) in self.traffic.shared.recorder.ended.drain(..) {
                arrivals.ended(ended, at);
            }
            let now = clock::now();
            self.traffic.fail_overdue(now)?;
            let lag_meter = &mut self.pace.lag_meter;
            self.traffic.enqueue_due(&mut arrivals, now, lag_meter);
            self.traffic.dispatch(&self.reactor)?;
            self.report_progress(now, &mut arrivals);
            if !self.traffic.shared.recorder.ended.is_empty() {
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
        let processor_time = spent - self.pace.spare_time.spent.min(spent);
        let now = clock::now();
        self.report_progress(now, &mut arrivals);
        self.traffic.end(now);
        Ok(ClientReport {
            load_start,
            load_end,
            gave_up,
            requests: arrivals.total().unwrap_or(arrivals.begun()),
            connections_opened: self.traffic.pools.opened(),
            congestion_controls: self.traffic.congestion_controls,
            scheduling,
            machine_errors: self.traffic.machine_errors,
            unfinished_pages: arrivals.unfinished_pages(now),
            punctuality: self.pace.lag_meter.sums(),
            processor_time,
            counts: self.traffic.shared.log.counts,
            causes: self.traffic.shared.causes.unwrap_or_default(),
            gaps: self.traffic.shared.recorder.gaps,
        })
    }

    /// Whether the load ends because none of its requests has ended for too long.
    fn has_stalled(&mut self, now: Time, arrivals: &Arrivals) -> bool {
        let Some(timeout) = &mut self.pace.stall_timeout else {
            return false;
        };
        if now < timeout.next_check() {
            return false;
        }
        let unfinished = arrivals.unfinished();
        let waits = unfinished > 0 && arrivals.next_change(now).is_none();
        timeout.has_expired(now, arrivals.begun() - unfinished, waits)
    }

    /// Waits for all other clients of the load. Returns its start.
    fn wait_for_start(&mut self) -> Time {
        match self.start_barrier.take() {
            Some(barrier) => barrier.wait(),
            None => start_of(&self.traffic.shared.settings.workload),
        }
    }

    fn connect_in_advance(&mut self) -> Result<(), StationError> {
        let at_most = match &self.traffic.shared.settings.workload {
            // A one-second load should not spend longer than that connecting.
            Workload::Closed(ClosedLoad {
                duration: Some(duration),
                ..
            }) => CONNECT_AT_MOST.min(*duration),
            _ => CONNECT_AT_MOST,
        };
        let give_up = clock::now() + at_most;
        self.traffic.open_in_advance(&self.reactor)?;
        while self.traffic.is_connecting() && clock::now() < give_up && !self.stop.is_requested() {
            self.turn(Some(give_up))?;
            self.traffic.dispatch(&self.reactor)?;
        }
        Ok(())
    }

    /// Reports progress: rows, counters and pages.
    fn report_progress(&mut self, now: Time, arrivals: &mut Arrivals) {
        self.traffic.shared.recorder.flush_if_due(now);
        self.traffic.shared.log.flush_if_due(now);
        if let Some(gauge) = &self.gauge {
            gauge.set(GaugeReading {
                started: arrivals.begun(),
                ended: arrivals.begun() - arrivals.unfinished(),
                connections: self.traffic.pools.open(),
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
}
