//! Assigns requests to connections, and gives connections their turns.
//!
//! `connection` defines what a connection does in its turn; the pool decides which connection a request gets.

use std::iter;

use squall_base::Time;
use squall_base::record::{Outcome, RequestRecord};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_load::{Arrival, Arrivals, Choice};

use super::Client;
use super::connection::{Connection, Shared, TurnResult};
use super::requests::Failure;
use crate::dial::{Availability, ConnectionKey, OpenError};
use crate::error::StationError;

/// Most requests that share one clock reading.
const TAKEN_UP_AT_ONCE: usize = 16;

impl Client {
    /// Takes up what is due at `now`. Requests due together share one clock reading, because reading the clock costs as
    /// much as the rest of the work for one of them (docs/METHOD.md, the mark `taken up`). A lone request reuses the
    /// reading that found it due.
    pub(super) fn enqueue_due(&mut self, arrivals: &mut Arrivals, now: Time) {
        let mut group = std::mem::take(&mut self.due);
        let mut just_now = Some(now);
        loop {
            group.extend(iter::from_fn(|| arrivals.take_due(now)).take(TAKEN_UP_AT_ONCE));
            let are_all = group.len() < TAKEN_UP_AT_ONCE;
            if !group.is_empty() {
                let taken_up = match just_now.take() {
                    Some(now) if group.len() == 1 => now,
                    _ => clock::now(),
                };
                for arrival in group.drain(..) {
                    self.enqueue(arrival, taken_up);
                }
            }
            if are_all {
                break;
            }
        }
        self.due = group;
    }

    /// Takes up a request that is due: it joins the queue of its pool.
    fn enqueue(&mut self, arrival: Arrival, taken_up: Time) {
        let template = &self.settings.requests[arrival.what as usize];
        let body_bytes = template.request.body().length().unwrap_or(0);
        let owner = (template.target, arrival.user);
        let pool = (self.lanes).find_or_create(&mut self.pools, owner, &self.settings);
        let request = self.recorder.begin_record(arrival, taken_up, body_bytes);
        self.lag_meter
            .record_lag(request.phase, request.intended, request.taken_up);
        self.pools.get_mut(pool).waiting.push_back(request);
        self.pools.mark_changed(pool);
    }

    /// Assigns waiting requests to connections, and writes. Requests that one connection gets together share a write
    /// with whatever the connection sends in reply to what it has read: a window update needs no separate packet.
    pub(super) fn dispatch(&mut self) -> Result<(), StationError> {
        loop {
            while let Some(pool) = self.pools.take_changed() {
                self.assign_waiting(pool)?;
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
    fn assign_waiting(&mut self, index: u32) -> Result<(), StationError> {
        loop {
            let pool = self.pools.get_mut(index);
            let Some(mut request) = pool.waiting.pop_front() else {
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
                    request.slot = Some(clock::now());
                    self.open(
                        ConnectionKey {
                            pool: index,
                            connection,
                        },
                        Some(request),
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
    pub(super) fn open(
        &mut self,
        at: ConnectionKey,
        first: Option<RequestRecord>,
    ) -> Result<(), StationError> {
        let share = self.settings.share;
        let number = share.number(self.pools.added()) as u32;
        let pool = self.pools.get_mut(at.pool);
        debug_assert_eq!(
            at.connection.0 as usize,
            pool.connections.len(),
            "connections are numbered in order"
        );
        let target = &self.settings.targets[pool.target as usize];
        match Connection::open(&self.settings, target, self.wants, number) {
            Ok(mut connection) => {
                connection.transport().watch(&self.reactor, at.token())?;
                connection.begin_with(first);
                if self.watches_windows {
                    connection.watch_windows();
                }
                self.pools.add(at.pool, Some(Box::new(connection)));
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
                if !self.settings.dial(target).is_cause_of(&error) {
                    *self.machine_errors.entry(advised).or_default() += 1;
                }
                let failure = Failure::new(Outcome::ConnectFailed, message);
                if let Some(request) = first {
                    self.recorder.fail(request, &failure, clock::now());
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, at: ConnectionKey, mut request: RequestRecord) -> Result<(), StationError> {
        let now = clock::now();
        request.slot = Some(now);
        let pool = self.pools.get_mut(at.pool);
        let connection = pool.connections[at.connection.0 as usize]
            .as_mut()
            .expect("the pool offers open connections only");
        connection.submit(request, now, &self.settings.requests, &self.uploads)?;
        if connection.may_gather(&self.settings) {
            pool.policy
                .set_ready(at.connection, connection.in_flight() as u32);
        }
        if !std::mem::replace(&mut connection.is_gathering, true) {
            self.gathering.push(at);
        }
        Ok(())
    }

    /// Lets one connection read, and queues it for writing.
    pub(super) fn read(
        &mut self,
        at: ConnectionKey,
        ready: ReadyEvent,
    ) -> Result<(), StationError> {
        self.serve(at, |connection, shared| connection.read_turn(ready, shared))?;
        if let Some(connection) = self.pools.connection_mut(at)
            && !std::mem::replace(&mut connection.is_gathering, true)
        {
            self.gathering.push(at);
        }
        Ok(())
    }

    /// Lets one connection do something, then reports to its pool what it can do next.
    fn serve(
        &mut self,
        at: ConnectionKey,
        action: impl FnOnce(&mut Connection, &mut Shared<'_>) -> Result<TurnResult, StationError>,
    ) -> Result<(), StationError> {
        let Some(connection) = self.pools.connection_mut(at) else {
            return Ok(());
        };
        let mut shared = Shared {
            settings: &self.settings,
            uploads: &self.uploads,
            recorder: &mut self.recorder,
            log: &mut self.log,
            buffers: &mut self.buffers,
            causes: &mut self.causes,
        };
        let was_established = connection.is_established();
        let result = action(connection, &mut shared)?;
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
                    connection.fail_all(&failure, &mut shared);
                }
            }
        }
        self.pools.mark_changed(at.pool);
        Ok(())
    }
}
