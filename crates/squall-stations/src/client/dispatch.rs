//! How requests get to connections, and connections their turns.
//!
//! What a connection does with its turn is in `connection`; which connection a request gets is the pool's decision.

use std::iter;

use squall_base::Time;
use squall_base::record::{Outcome, RequestRecord};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_load::{Arrival, Arrivals, Choice};

use super::Client;
use super::connection::{Connection, Next, Shared};
use super::lane::At;
use super::requests::Failure;
use super::transport::OpenError;
use crate::error::StationError;

/// Requests that share a look at the clock, if so many are due.
const TAKEN_UP_AT_ONCE: usize = 16;

impl Client {
    /// Takes up what is due at `now`. Those of a group share a look at the clock, which would take as long as all else that
    /// is done for one of them here (docs/METHOD.md, the mark `taken up`); one that is alone has the look that found it due.
    pub(super) fn take_up_due(&mut self, arrivals: &mut Arrivals, now: Time) {
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
                    self.take_up(arrival, taken_up);
                }
            }
            if are_all {
                break;
            }
        }
        self.due = group;
    }

    /// A request is due: it gets in line.
    fn take_up(&mut self, arrival: Arrival, taken_up: Time) {
        let asked = &self.settings.requests[arrival.what as usize];
        let body_bytes = asked.request.body().length().unwrap_or(0);
        let lane = (self.lanes).find_or_make(asked.target, arrival.user, &self.settings);
        let request = self.recorder.take_up(arrival, taken_up, body_bytes);
        self.waits
            .taken_up(request.phase, request.intended, request.taken_up);
        self.lanes.get_mut(lane).waiting.push_back(request);
        self.lanes.stir(lane);
    }

    /// Finds connections for waiting requests, and writes. Those that one connection gets at once share a write, with
    /// what it has to say to what it has read: a window update needs no packet of its own.
    pub(super) fn dispatch(&mut self) -> Result<(), StationError> {
        loop {
            while let Some(lane) = self.lanes.take_stirred() {
                self.hand_out(lane)?;
            }
            if self.gathering.is_empty() {
                return Ok(());
            }
            let mut gathering = std::mem::take(&mut self.gathering);
            for at in gathering.drain(..) {
                self.serve(at, Connection::write_turn)?;
            }
            // One that is empty keeps its memory for the next time.
            if self.gathering.is_empty() {
                self.gathering = gathering;
            }
        }
    }

    /// Gives waiting requests to connections, first come, first served.
    fn hand_out(&mut self, lane: u32) -> Result<(), StationError> {
        loop {
            let of = self.lanes.get_mut(lane);
            let Some(mut request) = of.waiting.pop_front() else {
                return Ok(());
            };
            match of.pool.choose() {
                Choice::Use(connection) => self.send(At { lane, connection }, request)?,
                Choice::Open(connection) => {
                    request.slot = Some(clock::now());
                    self.open(At { lane, connection }, Some(request))?;
                }
                Choice::Wait => {
                    of.waiting.push_front(request);
                    return Ok(());
                }
            }
        }
    }

    /// Opens the connection that a pool has decided on.
    pub(super) fn open(
        &mut self,
        at: At,
        first: Option<RequestRecord>,
    ) -> Result<(), StationError> {
        let share = self.settings.share;
        let number = share.number(self.lanes.added()) as u32;
        let lane = self.lanes.get_mut(at.lane);
        debug_assert_eq!(
            at.connection.0 as usize,
            lane.connections.len(),
            "connections are numbered in order"
        );
        let target = &self.settings.targets[lane.target as usize];
        match Connection::open(&self.settings, target, self.wants, number) {
            Ok(mut connection) => {
                connection.transport().watch(&self.reactor, at.token())?;
                connection.first = first;
                if self.watches_windows {
                    connection.watch_windows();
                }
                self.lanes.add(at.lane, Some(Box::new(connection)));
            }
            Err(OpenError::Engine(error)) => return Err(error.into()),
            Err(OpenError::Quic(error)) => return Err(error.into()),
            Err(OpenError::Socket(error)) => {
                lane.pool.closed(at.connection);
                self.lanes.add(at.lane, None);
                let said = error.to_string();
                let advised = match error.advice() {
                    Some(advice) => format!("{said}. {advice}"),
                    None => said.clone(),
                };
                if !self.settings.dial(target).asks_for(&error) {
                    *self.machine_errors.entry(advised).or_default() += 1;
                }
                let failure = Failure::new(Outcome::ConnectFailed, said);
                if let Some(request) = first {
                    self.recorder.fail(request, &failure, clock::now());
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, at: At, mut request: RequestRecord) -> Result<(), StationError> {
        let now = clock::now();
        request.slot = Some(now);
        let lane = self.lanes.get_mut(at.lane);
        let connection = lane.connections[at.connection.0 as usize]
            .as_mut()
            .expect("the pool offers open connections only");
        connection.submit(request, now, &self.settings.requests, &self.uploads)?;
        if connection.gathers(&self.settings) {
            lane.pool
                .set_ready(at.connection, connection.in_flight() as u32);
        }
        if !std::mem::replace(&mut connection.is_gathering, true) {
            self.gathering.push(at);
        }
        Ok(())
    }

    /// Lets one connection read, and notes that it may have to write.
    pub(super) fn read(&mut self, at: At, ready: Ready) -> Result<(), StationError> {
        self.serve(at, |connection, shared| connection.read_turn(ready, shared))?;
        if let Some(connection) = self.lanes.connection_mut(at)
            && !std::mem::replace(&mut connection.is_gathering, true)
        {
            self.gathering.push(at);
        }
        Ok(())
    }

    /// Lets one connection do something, and tells its pool what it can do afterwards.
    fn serve(
        &mut self,
        at: At,
        act: impl FnOnce(&mut Connection, &mut Shared<'_>) -> Result<Next, StationError>,
    ) -> Result<(), StationError> {
        let Some(connection) = self.lanes.connection_mut(at) else {
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
        let next = act(connection, &mut shared)?;
        if !was_established && connection.is_established() {
            self.congestion_controls
                .extend(connection.transport().congestion_control());
        }
        if connection.is_hungry() && !connection.has_turn {
            connection.has_turn = true;
            self.hungry.push_back(at);
        }
        let in_flight = connection.in_flight() as u32;
        let pool = &mut self.lanes.get_mut(at.lane).pool;
        match next {
            Next::Ready => pool.set_ready(at.connection, in_flight),
            Next::Busy => pool.set_busy(at.connection),
            Next::Draining => pool.closed(at.connection),
            Next::Over(failure) => {
                pool.closed(at.connection);
                if let Some(connection) = self.lanes.remove(at) {
                    connection.fail_all(&failure, &mut shared);
                }
            }
        }
        self.lanes.stir(at.lane);
        Ok(())
    }
}
