//! The embedded client: a load over a pool of connections, every request recorded.
//!
//! In an open loop a request is taken up at its intended time and never skipped: one that finds no connection waits in
//! line, and its waiting counts. What is unfinished at the end of the drain time is recorded as censored. One thread;
//! the caller puts it into its host. Start at [`Client`]; `connection` is one connection, `transport` what carries it,
//! `under_way` what its events mean.

mod connection;
mod load;
mod requests;
mod settings;
mod transport;
mod under_way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord, Side, SideCounts};
use squall_base::{Duration, Time};
use squall_http::Wants;
use squall_linux::reactor::{Reactor, Ready};
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::{Choice, ClosedSettings, ConnectionId, Pool};

use crate::error::StationError;
use crate::log::Log;
use crate::{Buffers, STATION_PRIORITY};
use connection::{Connection, Next, Shared};
use load::Arrivals;
pub use load::Workload;
pub use requests::Observer;
use requests::{Failure, Recorder};
pub use settings::{ClientSettings, ClientSinks, Target};
use transport::OpenError;

/// How long the load waits for the connections that are opened in advance. A SYN is sent again after 1, 2, 3, 4, 6 and
/// 10 s (tcp_syn_linear_timeouts 4): at 3 % loss each way, one in 10^8 connections needs longer. The load
/// then begins without those that are missing.
const CONNECT_AT_MOST: Duration = Duration::from_secs(15);
/// From all connections being ready to the first request of an open loop.
const START_AFTER: Duration = Duration::from_millis(10);
/// The reactor's token of the signal that another part of the trial has failed; no connection has it.
const FAILED: u64 = u64::MAX - 1;
/// The reactor's token of the signal that the load shall end early.
const STOP: u64 = u64::MAX - 2;
/// Reads of one connection before others have their turn: 1 MiB.
const READS_A_TURN: usize = 16;

/// What a client has done, besides its records.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// When the first request was due.
    pub load_start: Time,
    /// When the load was over.
    pub load_end: Time,
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
    /// What it counted.
    pub counts: SideCounts,
}

/// A client at work.
pub struct Client {
    settings: ClientSettings,
    wants: Wants,
    reactor: Reactor,
    pool: Pool,
    connections: Vec<Option<Box<Connection>>>,
    /// Connections that have more to read than a turn allows.
    hungry: Vec<ConnectionId>,
    /// Connections that may have something to write, once nothing more can join it.
    gathering: Vec<ConnectionId>,
    waiting: VecDeque<RequestRecord>,
    recorder: Recorder,
    log: Log,
    next_sample: Option<Time>,
    buffers: Buffers,
    congestion_controls: BTreeSet<String>,
    machine_errors: BTreeMap<String, u64>,
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
            wants: Wants {
                frames: log.wants_frames() || settings.observed.frames,
                ..settings.observed
            },
            pool: Pool::new(settings.connections, settings.pool, settings.seed),
            connections: Vec::new(),
            hungry: Vec::new(),
            gathering: Vec::new(),
            waiting: VecDeque::new(),
            recorder: Recorder::new(sinks.requests, sinks.observer),
            next_sample: log
                .wants_sockets()
                .then(|| clock::now() + settings.sample_every),
            log,
            buffers: Buffers::new(),
            congestion_controls: BTreeSet::new(),
            machine_errors: BTreeMap::new(),
            failed,
            stop,
            settings,
        })
    }

    /// Opens the connections that the policy wants in advance, runs the load and drains it. The calling
    /// thread must be in the client's host.
    pub fn run(mut self) -> Result<ClientReport, StationError> {
        let scheduling = scheduling::make_realtime(STATION_PRIORITY);
        self.connect_in_advance()?;
        let load_start = match self.settings.workload {
            Workload::Open(_) => clock::now() + START_AFTER,
            // Nobody is late for a closed loop.
            Workload::Closed(_) => clock::now(),
        };
        let mut arrivals = Arrivals::new(self.settings.workload, load_start);
        let body_bytes = self.settings.request.body().length().unwrap_or(0);
        let load_end = loop {
            let now = clock::now();
            while let Some(arrival) = arrivals.take_due(now, self.recorder.unfinished()) {
                self.waiting
                    .push_back(self.recorder.take_up(arrival, body_bytes));
            }
            self.dispatch()?;
            if arrivals.is_over(now, self.recorder.unfinished()) || self.stop.is_requested() {
                break now;
            }
            if arrivals.has_due(now, self.recorder.unfinished()) {
                // Answers came while requests were handed out: their users ask again first.
                continue;
            }
            self.turn(arrivals.next_change(now))?;
        };
        self.censor_unfinished(clock::now());
        self.recorder.hand_on();
        self.close_all();
        self.log.hand_on();
        self.log.counts.tcp_connections = match self.settings.protocol {
            Protocol::H3 => 0,
            _ => u64::from(self.pool.opened()),
        };
        self.log.counts.quic_connections =
            u64::from(self.pool.opened()) - self.log.counts.tcp_connections;
        Ok(ClientReport {
            load_start,
            load_end,
            requests: arrivals.total(),
            connections_opened: self.pool.opened(),
            congestion_controls: self.congestion_controls,
            scheduling,
            machine_errors: self.machine_errors,
            counts: self.log.counts,
        })
    }

    fn connect_in_advance(&mut self) -> Result<(), StationError> {
        let at_most = match self.settings.workload {
            // Who gives a load a second does not want to wait for its connections longer than that.
            Workload::Closed(ClosedSettings {
                duration: Some(duration),
                ..
            }) => duration.min(CONNECT_AT_MOST),
            _ => CONNECT_AT_MOST,
        };
        let give_up = clock::now() + at_most;
        for id in self.pool.open_in_advance() {
            self.open(id, None)?;
        }
        let is_connecting = |client: &Client| {
            client
                .connections
                .iter()
                .flatten()
                .any(|connection| !connection.is_established())
        };
        while is_connecting(self) && clock::now() < give_up && !self.stop.is_requested() {
            self.turn(Some(give_up))?;
            self.dispatch()?;
        }
        Ok(())
    }

    /// Waits once and reads everything that is ready. What follows from it is written by [`Client::dispatch`].
    fn turn(&mut self, deadline: Option<Time>) -> Result<(), StationError> {
        let now = clock::now();
        let hungry = std::mem::take(&mut self.hungry);
        let deadline = if hungry.is_empty() {
            let own = self.own_deadline();
            [deadline, own, self.next_sample]
                .into_iter()
                .flatten()
                .min()
        } else {
            Some(now)
        };
        let ready: Vec<Ready> = self.reactor.wait(now, deadline)?.to_vec();
        if self.failed.is_requested() {
            return Err(StationError::OtherPartFailed);
        }
        for ready in ready {
            self.read(ConnectionId(ready.token as u32), ready)?;
        }
        for id in hungry {
            self.read(id, nothing_new(id))?;
        }
        self.serve_timed()?;
        self.sample();
        Ok(())
    }

    /// The earliest deadline of a connection that has one.
    fn own_deadline(&self) -> Option<Time> {
        if self.settings.protocol != Protocol::H3 {
            return None;
        }
        let open = self.connections.iter().flatten();
        open.filter_map(|connection| connection.deadline()).min()
    }

    /// Lets connections whose deadline has come do what they have to.
    fn serve_timed(&mut self) -> Result<(), StationError> {
        if self.settings.protocol != Protocol::H3 {
            return Ok(());
        }
        let now = clock::now();
        for index in 0..self.connections.len() {
            let connection = self.connections[index].as_deref();
            let is_due = connection
                .and_then(Connection::deadline)
                .is_some_and(|deadline| deadline <= now);
            if is_due {
                let id = ConnectionId(index as u32);
                self.read(id, nothing_new(id))?;
            }
        }
        Ok(())
    }

    /// Samples every open socket when it is time.
    fn sample(&mut self) {
        let now = clock::now();
        if self.next_sample.is_some_and(|due| due <= now) {
            for connection in self.connections.iter().flatten() {
                connection.sample(false, &mut self.log);
            }
            self.next_sample = Some(now + self.settings.sample_every);
        }
    }

    /// Finds connections for waiting requests, and writes. Those that one connection gets at once share a write, with
    /// what it has to say to what it has read: a window update needs no packet of its own.
    fn dispatch(&mut self) -> Result<(), StationError> {
        loop {
            self.hand_out()?;
            if self.gathering.is_empty() {
                return Ok(());
            }
            let mut gathering = std::mem::take(&mut self.gathering);
            for id in gathering.drain(..) {
                self.serve(id, Connection::write_turn)?;
            }
            // One that is empty keeps its memory for the next time.
            if self.gathering.is_empty() {
                self.gathering = gathering;
            }
        }
    }

    /// Gives waiting requests to connections, first come, first served.
    fn hand_out(&mut self) -> Result<(), StationError> {
        while let Some(mut request) = self.waiting.pop_front() {
            let choice = self.pool.choose();
            request.slot = (choice != Choice::Wait).then(clock::now);
            match choice {
                Choice::Use(id) => self.send(id, request)?,
                Choice::Open(id) => self.open(id, Some(request))?,
                Choice::Wait => {
                    self.waiting.push_front(request);
                    break;
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, id: ConnectionId, first: Option<RequestRecord>) -> Result<(), StationError> {
        debug_assert_eq!(
            id.0 as usize,
            self.connections.len(),
            "connections are numbered in order"
        );
        match Connection::open(&self.settings, self.wants, id) {
            Ok(mut connection) => {
                connection
                    .transport()
                    .watch(&self.reactor, u64::from(id.0))?;
                connection.first = first;
                self.connections.push(Some(Box::new(connection)));
            }
            Err(OpenError::Engine(error)) => return Err(error.into()),
            Err(OpenError::Quic(error)) => return Err(error.into()),
            Err(OpenError::Socket(error)) => {
                self.connections.push(None);
                self.pool.closed(id);
                let said = error.to_string();
                *self.machine_errors.entry(said.clone()).or_default() += 1;
                let failure = Failure::new(Outcome::ConnectFailed, said);
                if let Some(request) = first {
                    self.recorder.fail(request, &failure, clock::now());
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, id: ConnectionId, request: RequestRecord) -> Result<(), StationError> {
        let connection = self.connections[id.0 as usize]
            .as_mut()
            .expect("the pool offers open connections only");
        connection.submit(request, &self.settings.request)?;
        if connection.gathers(&self.settings) {
            self.pool.set_ready(id, connection.in_flight() as u32);
        }
        if !std::mem::replace(&mut connection.is_gathering, true) {
            self.gathering.push(id);
        }
        Ok(())
    }

    /// Lets one connection read, and notes that it may have to write.
    fn read(&mut self, id: ConnectionId, ready: Ready) -> Result<(), StationError> {
        self.serve(id, |connection, shared| connection.read_turn(ready, shared))?;
        let slot = self.connections.get_mut(id.0 as usize);
        if let Some(connection) = slot.and_then(Option::as_deref_mut)
            && !std::mem::replace(&mut connection.is_gathering, true)
        {
            self.gathering.push(id);
        }
        Ok(())
    }

    /// Lets one connection do something, and tells the pool what it can do afterwards.
    fn serve(
        &mut self,
        id: ConnectionId,
        act: impl FnOnce(&mut Connection, &mut Shared<'_>) -> Result<Next, StationError>,
    ) -> Result<(), StationError> {
        let slot = self.connections.get_mut(id.0 as usize);
        let Some(connection) = slot.and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let mut shared = Shared {
            settings: &self.settings,
            recorder: &mut self.recorder,
            log: &mut self.log,
            buffers: &mut self.buffers,
        };
        let was_established = connection.is_established();
        let next = act(connection, &mut shared)?;
        if !was_established && connection.is_established() {
            self.congestion_controls
                .extend(connection.transport().congestion_control());
        }
        if connection.is_hungry() {
            self.hungry.push(id);
        }
        match next {
            Next::Ready => self.pool.set_ready(id, connection.in_flight() as u32),
            Next::Busy => self.pool.set_busy(id),
            Next::Draining => self.pool.closed(id),
            Next::Over(failure) => {
                self.pool.closed(id);
                if let Some(connection) = self.connections[id.0 as usize].take() {
                    connection.fail_all(&failure, &mut shared);
                }
            }
        }
        Ok(())
    }

    fn censor_unfinished(&mut self, now: Time) {
        let failure = Failure::new(Outcome::Censored, String::new());
        for connection in self.connections.iter_mut().flatten() {
            for request in connection.take_unfinished() {
                self.recorder.fail(request, &failure, now);
            }
        }
        for request in self.waiting.drain(..) {
            self.recorder.fail(request, &failure, now);
        }
    }

    fn close_all(&mut self) {
        let mut shared = Shared {
            settings: &self.settings,
            recorder: &mut self.recorder,
            log: &mut self.log,
            buffers: &mut self.buffers,
        };
        for connection in self.connections.drain(..).flatten() {
            connection.close(&mut shared);
        }
    }
}

/// For a connection that is served although its socket has said nothing: it may write.
fn nothing_new(id: ConnectionId) -> Ready {
    Ready {
        token: u64::from(id.0),
        readable: false,
        writable: true,
    }
}
