//! The embedded client: an open-loop load over a pool of connections, every request recorded.
//!
//! A request is taken up at its intended time and never skipped: one that finds no connection waits in
//! line, and its waiting counts. What is unfinished at the end of the drain time is recorded as censored.
//! One thread; the caller puts it into its host.

mod connection;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use squall_base::plan::{Connections, Http2Settings, Load, Protocol};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::Request;
use squall_linux::reactor::{Reactor, Ready};
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::{Choice, ConnectionId, Pool, Schedule};

use crate::STATION_PRIORITY;
use crate::error::StationError;
use connection::{Connection, Next};
use requests::{Failure, Recorder};

/// How long the load waits for the connections of a fixed pool. A SYN is sent again after 1, 2, 3, 4, 6 and
/// 10 s (tcp_syn_linear_timeouts 4): at 3 % loss each way, one in 10^8 connections needs longer. The load
/// then begins without those that are missing.
const CONNECT_AT_MOST: Duration = Duration::from_secs(15);
/// From all connections being ready to the first request.
const START_AFTER: Duration = Duration::from_millis(10);
/// The reactor's token of the signal that another part of the trial has failed; no connection has it.
const FAILED: u64 = u64::MAX - 1;

/// What a client shall do.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where the server listens.
    pub server: SocketAddrV4,
    /// The protocol.
    pub protocol: Protocol,
    /// Settings of HTTP/2.
    pub http2: Http2Settings,
    /// The connection policy.
    pub connections: Connections,
    /// TCP congestion control by its kernel name.
    pub congestion_control: String,
    /// The load.
    pub load: Load,
    /// The request.
    pub request: Arc<Request>,
}

/// What a client has done, besides its records.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// When the first request was due.
    pub load_start: Time,
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
}

/// A client at work.
pub struct Client {
    settings: ClientSettings,
    reactor: Reactor,
    pool: Pool,
    connections: Vec<Option<Box<Connection>>>,
    waiting: VecDeque<RequestRecord>,
    recorder: Recorder,
    congestion_controls: BTreeSet<String>,
    machine_errors: BTreeMap<String, u64>,
    failed: StopSignal,
}

impl Client {
    /// A client that hands its records to `records`, in chunks, in the order in which requests end; times
    /// are CLOCK_MONOTONIC's. It gives up when `failed` says that another part of the trial has.
    pub fn new(
        settings: ClientSettings,
        records: Sender<Vec<RequestRecord>>,
        failed: StopSignal,
    ) -> Result<Client, StationError> {
        let reactor = Reactor::new()?;
        reactor.add(&failed, FAILED)?;
        Ok(Client {
            reactor,
            pool: Pool::new(settings.connections),
            connections: Vec::new(),
            waiting: VecDeque::new(),
            recorder: Recorder::new(records),
            congestion_controls: BTreeSet::new(),
            machine_errors: BTreeMap::new(),
            failed,
            settings,
        })
    }

    /// Opens the connections that the policy wants in advance, runs the load and drains it. The calling
    /// thread must be in the client's host.
    pub fn run(mut self) -> Result<ClientReport, StationError> {
        let scheduling = scheduling::make_realtime(STATION_PRIORITY);
        self.connect_in_advance()?;
        let load_start = clock::now() + START_AFTER;
        let mut schedule = Schedule::new(self.settings.load, load_start);
        loop {
            let now = clock::now();
            while let Some(arrival) = schedule.take_due(now) {
                let body_bytes = self.settings.request.body().len() as u64;
                self.waiting
                    .push_back(self.recorder.take_up(arrival, body_bytes));
            }
            self.dispatch()?;
            let is_over = schedule.next_due().is_none() && self.recorder.unfinished() == 0;
            if is_over || now >= schedule.deadline() {
                break;
            }
            let deadline = schedule.next_due().unwrap_or(schedule.deadline());
            self.turn(Some(deadline))?;
        }
        self.censor_unfinished(clock::now());
        self.recorder.hand_on();
        for connection in self.connections.into_iter().flatten() {
            connection.close();
        }
        Ok(ClientReport {
            load_start,
            requests: schedule.total(),
            connections_opened: self.pool.opened(),
            congestion_controls: self.congestion_controls,
            scheduling,
            machine_errors: self.machine_errors,
        })
    }

    fn connect_in_advance(&mut self) -> Result<(), StationError> {
        let give_up = clock::now() + CONNECT_AT_MOST;
        for id in self.pool.open_in_advance() {
            self.open(id, None)?;
        }
        let is_connecting = |client: &Client| {
            client
                .connections
                .iter()
                .flatten()
                .any(|connection| !connection.is_connected())
        };
        while is_connecting(self) && clock::now() < give_up {
            self.turn(Some(give_up))?;
        }
        Ok(())
    }

    /// Waits once and deals with everything that is ready.
    fn turn(&mut self, deadline: Option<Time>) -> Result<(), StationError> {
        let ready: Vec<Ready> = self.reactor.wait(clock::now(), deadline)?.to_vec();
        if self.failed.is_requested() {
            return Err(StationError::OtherPartFailed);
        }
        for ready in ready {
            self.serve(ConnectionId(ready.token as u32), ready)?;
        }
        Ok(())
    }

    /// Finds connections for waiting requests, first come, first served.
    fn dispatch(&mut self) -> Result<(), StationError> {
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
        match Connection::open(&self.settings, id) {
            Ok(mut connection) => {
                self.reactor.add(connection.stream(), u64::from(id.0))?;
                connection.first = first;
                self.connections.push(Some(Box::new(connection)));
            }
            Err(connection::OpenError::Engine(error)) => return Err(error.into()),
            Err(connection::OpenError::Socket(error)) => {
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
        let template = Arc::clone(&self.settings.request);
        self.connections[id.0 as usize]
            .as_mut()
            .expect("the pool offers open connections only")
            .submit(request, &template)?;
        self.serve(
            id,
            Ready {
                token: u64::from(id.0),
                readable: false,
                writable: true,
            },
        )
    }

    /// Lets one connection read and write, and tells the pool what it can do afterwards.
    fn serve(&mut self, id: ConnectionId, ready: Ready) -> Result<(), StationError> {
        let slot = self.connections.get_mut(id.0 as usize);
        let Some(connection) = slot.and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let next = connection.serve(ready, &self.settings.request, &mut self.recorder)?;
        self.congestion_controls
            .extend(connection.take_congestion_control());
        match next {
            Next::Ready => self.pool.set_ready(id),
            Next::Busy => self.pool.set_busy(id),
            Next::Draining => self.pool.closed(id),
            Next::Over(failure) => {
                self.pool.closed(id);
                if let Some(connection) = self.connections[id.0 as usize].take() {
                    connection.fail_all(&failure, &mut self.recorder);
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
}
