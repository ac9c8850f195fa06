//! A client's traffic: assigns requests to connections, and gives connections their turns.
//!
//! `connection` defines what a connection does in its turn; the pool decides which connection a request gets. `mod` and
//! `turn` decide when either happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;

use squall_base::Time;
use squall_base::plan::{Protocol, Workload};
use squall_base::record::{Outcome, RequestRecord};
use squall_http::InboxOptions;
use squall_linux::clock;
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_load::{Arrival, Arrivals, Choice};

use super::causes::Causes;
use super::connection::{Connection, Shared, TurnResult};
use super::punctuality::LagMeter;
use super::queued_request::QueuedRequest;
use super::requests::RequestFailure;
use super::settings::TargetedRequest;
use super::timeout::RequestTimeout;
use super::user_pools::{Pools, UserPools, shared_pools};
use crate::dial::{Availability, ConnectionKey, OpenError};
use crate::error::StationError;

#[cfg(test)]
mod refused;

/// Most requests that share one clock reading.
const PER_CLOCK_READING: usize = 16;

/// The requests and connections of a client.
pub(super) struct Traffic {
    pub(super) shared: Shared,
    pub(super) pools: Pools,
    user_pools: UserPools,
    wants: InboxOptions,
    /// Whether connections may have deadlines.
    pub(super) has_deadlines: bool,
    watches_windows: bool,
    /// Scratch buffer, used only inside `enqueue_due`.
    due: Vec<Arrival>,
    /// Connections with more to read than one turn allows.
    pub(super) pending_turns: VecDeque<ConnectionKey>,
    /// Connections that may have something to write, collected until nothing more can join their writes.
    gathering: Vec<ConnectionKey>,
    pub(super) request_timeout: RequestTimeout,
    pub(super) congestion_controls: BTreeSet<String>,
    pub(super) machine_errors: BTreeMap<String, u64>,
}

impl Traffic {
    pub(super) fn new(shared: Shared) -> Traffic {
        let settings = &shared.settings;
        // The result of a gRPC call is in the fields of its response.
        let calls_grpc = (settings.requests.iter()).any(|targeted| targeted.request.is_grpc());
        let mut requests = settings.requests.iter();
        let expects_continue = requests.any(|targeted| targeted.request.expects_continue());
        Traffic {
            pools: shared_pools(settings),
            user_pools: UserPools::default(),
            wants: InboxOptions {
                // Interim responses, such as 100 (Continue), are reported only with fields.
                fields: calls_grpc || expects_continue || settings.observed.fields,
                frames: shared.log.wants_frames() || settings.observed.frames,
                ..settings.observed
            },
            has_deadlines: expects_continue || settings.protocol == Protocol::H3,
            watches_windows: false,
            due: Vec::new(),
            pending_turns: VecDeque::new(),
            gathering: Vec::new(),
            request_timeout: RequestTimeout::new(settings.request_timeout),
            congestion_controls: BTreeSet::new(),
            machine_errors: BTreeMap::new(),
            shared,
        }
    }

    /// See [`super::Client::with_causes`].
    pub(super) fn watch_causes(&mut self) {
        let settings = &self.shared.settings;
        let has_body = |targeted: &TargetedRequest| !targeted.request.body().is_empty();
        let is_http2 = matches!(settings.protocol, Protocol::H2 | Protocol::H2c);
        self.watches_windows = is_http2 && settings.requests.iter().any(has_body);
        self.wants.frames |= self.watches_windows;
        self.shared.causes = Some(Causes::default());
    }

    /// Opens the connections that the policy wants in advance.
    pub(super) fn open_in_advance(&mut self, reactor: &Reactor) -> Result<(), StationError> {
        self.create_user_pools();
        for pool in 0..self.pools.len() as u32 {
            for connection in self.pools.get_mut(pool).policy.open_in_advance() {
                self.open(ConnectionKey { pool, connection }, None, reactor)?;
            }
        }
        Ok(())
    }

    /// Creates the pools of users with separate connections, if these are to be opened in advance.
    fn create_user_pools(&mut self) {
        let settings = &self.shared.settings;
        let users = match &settings.workload {
            Workload::Script(load) => load.clients,
            Workload::Pages(load) => load.users,
            Workload::Open(_) | Workload::Closed(_) => 0,
        };
        if settings.pool_per_user && settings.pool.warm > 0 {
            for user in settings.share.members(users) {
                for target in 0..settings.targets.len() as u32 {
                    self.user_pools
                        .find_or_create(&mut self.pools, target, user, settings);
                }
            }
        }
    }

    /// Whether a connection is still being opened.
    pub(super) fn is_connecting(&self) -> bool {
        let mut connections = self.pools.connections();
        connections.any(|(_, connection)| !connection.is_settled())
    }

    /// Takes up the requests that are due at `now`. Those due together share one clock reading, because reading the clock
    /// costs as much as the rest of the work for one request (docs/METHOD.md, the mark `taken up`). A lone request reuses
    /// the reading that found it due.
    pub(super) fn enqueue_due(
        &mut self,
        arrivals: &mut Arrivals,
        now: Time,
        lag_meter: &mut LagMeter,
    ) {
        let mut group = std::mem::take(&mut self.due);
        let mut just_now = Some(now);
        loop {
            group.extend(iter::from_fn(|| arrivals.take_due(now)).take(PER_CLOCK_READING));
            let are_all = group.len() < PER_CLOCK_READING;
            if !group.is_empty() {
                let taken_up = match just_now.take() {
                    Some(now) if group.len() == 1 => now,
                    _ => clock::now(),
                };
                for arrival in group.drain(..) {
                    self.enqueue(arrival, taken_up, lag_meter);
                }
            }
            if are_all {
                break;
            }
        }
        self.due = group;
    }

    /// Takes up a request that is due: it joins the queue of its pool.
    fn enqueue(&mut self, arrival: Arrival, taken_up: Time, lag_meter: &mut LagMeter) {
        let template = &self.shared.settings.requests[arrival.what as usize];
        let body_bytes = template.request.body().length().unwrap_or(0);
        let pool = self.user_pools.find_or_create(
            &mut self.pools,
            template.target,
            arrival.user,
            &self.shared.settings,
        );
        let request = QueuedRequest::new(arrival, taken_up, body_bytes);
        lag_meter.record_lag(arrival.phase, arrival.intended, taken_up);
        self.request_timeout.watch(arrival.intended);
        self.pools.get_mut(pool).waiting.push_back(request);
        self.pools.mark_changed(pool);
    }

    /// Assigns waiting requests to connections, and writes. Requests that one connection gets together share a write
    /// with whatever the connection sends in reply to what it has read: a window update needs no separate packet.
    pub(super) fn dispatch(&mut self, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            while let Some(pool) = self.pools.take_changed() {
                self.assign_waiting(pool, reactor)?;
            }
            if self.gathering.is_empty() {
                return Ok(());
            }
            let mut gathering = std::mem::take(&mut self.gathering);
            for at in gathering.drain(..) {
                self.serve(at, Connection::write_turn)?;
            }
            // Keep the allocation for next time.
            if self.gathering.is_empty() {
                self.gathering = gathering;
            }
        }
    }

    /// Hands waiting requests to connections, first come, first served.
    fn assign_waiting(&mut self, index: u32, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            let pool = self.pools.get_mut(index);
            let Some(request) = pool.waiting.pop_front() else {
                return Ok(());
            };
            match pool.policy.choose() {
                Choice::Use(connection) => self.send(
                    ConnectionKey {
                        pool: index,
                        connection,
                    },
                    request,
                )?,
                Choice::Open(connection) => {
                    self.open(
                        ConnectionKey {
                            pool: index,
                            connection,
                        },
                        Some(request.record_from(clock::now())),
                        reactor,
                    )?;
                }
                Choice::Wait => {
                    pool.waiting.push_front(request);
                    return Ok(());
                }
            }
        }
    }

    /// Opens the connection that a pool decided to open.
    fn open(
        &mut self,
        at: ConnectionKey,
        first: Option<RequestRecord>,
        reactor: &Reactor,
    ) -> Result<(), StationError> {
        let share = self.shared.settings.share;
        let number = share.number(self.pools.added()) as u32;
        let pool = self.pools.get_mut(at.pool);
        debug_assert_eq!(
            at.connection.0 as usize,
            pool.connections.len(),
            "connections are numbered in order"
        );
        let target = &self.shared.settings.targets[pool.target as usize];
        match Connection::open(&self.shared.settings, target, self.wants, number) {
            Ok(mut connection) => {
                let transport = connection.transport();
                let from = || transport.local_address();
                self.shared.recorder.opened(from, transport.is_tcp());
                connection.begin_with(first);
                if self.watches_windows {
                    connection.watch_windows();
                }
                self.pools.add(at.pool, Some(Box::new(connection)));
                self.watch(at, reactor);
            }
            Err(OpenError::Engine(error)) => return Err(error.into()),
            Err(OpenError::Quic(error)) => return Err(error.into()),
            Err(OpenError::Socket(error)) => {
                pool.policy.closed(at.connection);
                self.pools.add(at.pool, None);
                let message = error.to_string();
                let advised = match error.advice() {
                    Some(advice) => format!("{message}. {advice}"),
                    None => message.clone(),
                };
                if !self.shared.settings.dial(target).is_cause_of(&error) {
                    *self.machine_errors.entry(advised).or_default() += 1;
                }
                let failure = RequestFailure::new(Outcome::ConnectFailed, message);
                if let Some(request) = first {
                    self.shared.recorder.fail(request, &failure, clock::now());
                }
            }
        }
        Ok(())
    }

    /// Makes the reactor report when a connection is ready. One that it cannot watch is closed, and the request that it was
    /// opened for has failed: nothing would report that it is ready.
    fn watch(&mut self, at: ConnectionKey, reactor: &Reactor) {
        let Some(connection) = self.pools.connection_mut(at) else {
            return;
        };
        let Err(error) = connection.transport().watch(reactor, at.token()) else {
            return;
        };
        let message = error.to_string();
        *self.machine_errors.entry(message.clone()).or_default() += 1;
        let failure = RequestFailure::new(Outcome::ConnectFailed, message);
        self.pools.report(at, Availability::Over, 0);
        if let Some(connection) = self.pools.remove(at) {
            connection.fail_all(&failure, &mut self.shared);
        }
    }

    fn send(&mut self, at: ConnectionKey, request: QueuedRequest) -> Result<(), StationError> {
        let now = clock::now();
        let pool = self.pools.get_mut(at.pool);
        let connection = pool.connections[at.connection.0 as usize]
            .as_mut()
            .expect("the pool offers open connections only");
        connection.submit(
            request.record_from(now),
            now,
            &self.shared.settings.requests,
            &self.shared.uploads,
        )?;
        if connection.may_gather(&self.shared.settings) {
            pool.policy
                .set_ready(at.connection, connection.in_flight() as u32);
        }
        if !std::mem::replace(&mut connection.is_gathering, true) {
            self.gathering.push(at);
        }
        Ok(())
    }

    /// Fails the requests that have taken too long, wherever they are, and cancels those that were sent.
    pub(super) fn fail_overdue(&mut self, now: Time) -> Result<(), StationError> {
        let Some(deadline) = self.request_timeout.overdue(now) else {
            return Ok(());
        };
        let failure = self.request_timeout.failure();
        for pool in self.pools.iter_mut() {
            // Requests wait in the order in which they became due, so the rest of a long queue need not be looked at.
            while let Some(request) = pool.waiting.pop_front() {
                if request.intended > deadline {
                    pool.waiting.push_front(request);
                    break;
                }
                self.shared.recorder.fail(request.record(), &failure, now);
            }
        }
        let overdue: Vec<ConnectionKey> = (self.pools.connections())
            .filter(|(_, connection)| connection.oldest_due().is_some_and(|due| due <= deadline))
            .map(|(at, _)| at)
            .collect();
        for at in overdue {
            self.serve(at, |connection, shared| {
                Ok(connection.fail_overdue(deadline, &failure, shared))
            })?;
            self.gather(at);
        }
        // Requests on connections that failed may be back in a queue, so the oldest one is looked for only now.
        let due_first = |request: &QueuedRequest| request.intended;
        let pools = self.pools.iter_mut();
        let waiting = pools.filter_map(|pool| pool.waiting.front().map(due_first));
        let waiting_since = waiting.min();
        let sent_since = self.pools.connections();
        let sent_since = sent_since.filter_map(|(_, connection)| connection.oldest_due());
        let oldest = sent_since.chain(waiting_since).min();
        self.request_timeout.looked(now, oldest);
        Ok(())
    }

    /// Lets one connection read, and queues it for writing.
    pub(super) fn read(
        &mut self,
        at: ConnectionKey,
        ready: ReadyEvent,
    ) -> Result<(), StationError> {
        self.serve(at, |connection, shared| connection.read_turn(ready, shared))?;
        self.gather(at);
        Ok(())
    }

    /// Queues a connection for writing, if it has not ended.
    fn gather(&mut self, at: ConnectionKey) {
        if let Some(connection) = self.pools.connection_mut(at)
            && !std::mem::replace(&mut connection.is_gathering, true)
        {
            self.gathering.push(at);
        }
    }

    /// Lets one connection do something, then reports to its pool what it can do next.
    fn serve(
        &mut self,
        at: ConnectionKey,
        action: impl FnOnce(&mut Connection, &mut Shared) -> Result<TurnResult, StationError>,
    ) -> Result<(), StationError> {
        let Some(connection) = self.pools.connection_mut(at) else {
            return Ok(());
        };
        let was_established = connection.is_established();
        let result = action(connection, &mut self.shared)?;
        if !was_established && connection.is_established() {
            self.congestion_controls
                .extend(connection.transport().congestion_control());
        }
        if connection.wants_turn() && !connection.has_turn {
            connection.has_turn = true;
            self.pending_turns.push_back(at);
        }
        let in_flight = connection.in_flight() as u32;
        match result {
            Ok(availability) => self.pools.report(at, availability, in_flight),
            Err(failure) => {
                self.pools.report(at, Availability::Over, in_flight);
                if let Some(connection) = self.pools.remove(at) {
                    connection.fail_all(&failure, &mut self.shared);
                }
            }
        }
        self.queue_again(at.pool);
        self.pools.mark_changed(at.pool);
        Ok(())
    }

    /// Puts this pool's unprocessed requests back into its queue, which is ordered by due time.
    fn queue_again(&mut self, pool: u32) {
        let again = self.shared.recorder.take_retries();
        if again.is_empty() {
            return;
        }
        self.shared.log.counts.retried += again.len() as u64;
        let waiting = &mut self.pools.get_mut(pool).waiting;
        for request in again {
            let due = (request.intended, request.request);
            let place = waiting.partition_point(|other| (other.intended, other.request) < due);
            waiting.insert(place, request);
        }
    }

    /// Ends the load: records unfinished requests as censored, closes connections, and sends what is left.
    pub(super) fn end(&mut self, now: Time) {
        let failure = RequestFailure::new(Outcome::Censored, String::new());
        for pool in self.pools.iter_mut() {
            for connection in pool.connections.iter_mut().flatten() {
                for request in connection.take_unfinished() {
                    self.shared.recorder.fail(request, &failure, now);
                }
            }
            for request in pool.waiting.drain(..) {
                self.shared.recorder.fail(request.record(), &failure, now);
            }
        }
        for pool in self.pools.iter_mut() {
            for connection in pool.connections.drain(..).flatten() {
                connection.close(&mut self.shared);
            }
        }
        self.shared.recorder.flush();
        self.shared.log.flush();
    }
}
