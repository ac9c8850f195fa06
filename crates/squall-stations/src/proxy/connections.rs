//! What the two sides do in a turn of the reactor: read, hand out requests, write, check timeouts.
//!
//! It decides when and how much, not what: `relay` acts on the events that a read or write brings, `ends` on connections
//! and exchanges that end. `front` and `back` have the connections.

use squall_base::plan::Version;
use squall_base::{Duration, Time};
use squall_linux::clock;
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_load::Choice;

use super::back::BackConnection;
use super::event_batch::EventBatch;
use super::exchange::{BackState, ProxyExchange};
use super::front::{ConnectionEvents, QuicFront, ReadOutcome, ResetReason};
use super::keys::{BackKey, ExchangeKey, FrontKey};
use super::settings::{Failure, ProxyReport, Timeouts};
use super::{Connections, KIND_SHIFT, UPSTREAMS};
use crate::accept::HEAD_TIMEOUT;
use crate::buffers::READS_A_TURN;
use crate::dial::{Availability, OpenError};
use crate::error::StationError;
use crate::server::flush_access;

/// Connections with more to read than one turn allows.
#[derive(Debug, Default)]
pub(super) struct PendingReads {
    fronts: Vec<u32>,
    backs: Vec<BackKey>,
    listeners: Vec<u32>,
}

impl Connections {
    pub(super) fn has_pending_reads(&self) -> bool {
        !self.relay.fronts.pending_reads.is_empty()
            || !self.relay.backs.pending_reads.is_empty()
            || !self.pending_listeners.is_empty()
    }

    pub(super) fn take_pending_reads(&mut self) -> PendingReads {
        PendingReads {
            fronts: std::mem::take(&mut self.relay.fronts.pending_reads),
            backs: std::mem::take(&mut self.relay.backs.pending_reads),
            listeners: std::mem::take(&mut self.pending_listeners),
        }
    }

    pub(super) fn resume_reads(&mut self, pending: PendingReads) {
        for id in pending.fronts {
            self.read_front(id);
        }
        for at in pending.backs {
            self.read_back(at);
        }
        for listener in pending.listeners {
            self.read_quic(listener);
        }
    }

    /// Serves a client's TCP connection that is ready.
    pub(super) fn ready_front(&mut self, id: u32, ready: ReadyEvent) {
        let Some(front) = self.relay.fronts.tcp_mut(id) else {
            return;
        };
        if front.is_lingering() {
            if front.drain(self.buffers.stream()) {
                self.relay.fronts.remove(id);
            }
            return;
        }
        front.tcp.expects_end |= ready.ended;
        if ready.readable {
            front.tcp.has_unread = true;
            self.read_front(id);
        }
        if ready.writable {
            self.relay.fronts.touch(FrontKey::Tcp(id));
        }
    }

    fn read_front(&mut self, id: u32) {
        let at = FrontKey::Tcp(id);
        for _ in 0..READS_A_TURN {
            let is_scarce = self.relay.fronts.memory.is_scarce();
            let Some(front) = self.relay.fronts.tcp_mut(id) else {
                return;
            };
            if !front.may_read(is_scarce) {
                return;
            }
            let (now, outcome) = front.read(self.buffers.stream(), &mut self.front_inbox);
            if let Some(front) = self.relay.fronts.tcp[id as usize].as_deref_mut() {
                front.tcp.note_established(&mut self.relay.fronts.log);
            }
            self.apply_front_inbox(at, now);
            match outcome {
                ReadOutcome::Open => {}
                ReadOutcome::ClosedByClient | ReadOutcome::Failed => {
                    self.drop_front(id);
                    return;
                }
                ReadOutcome::ProtocolViolation => {
                    self.break_front(id);
                    return;
                }
            }
        }
        self.relay.fronts.pending_reads.push(id);
    }

    /// Applies what is in the inbox of the client side.
    fn apply_front_inbox(&mut self, at: FrontKey, now: Time) {
        self.relay.fronts.touch(at);
        if self.front_inbox.events.is_empty() && self.front_inbox.frames.is_empty() {
            return;
        }
        let mut inbox = std::mem::take(&mut self.front_inbox);
        if let FrontKey::Tcp(id) = at
            && !inbox.frames.is_empty()
        {
            let front = self.relay.fronts.tcp_mut(id);
            let number = front.map_or(0, |front| front.tcp.number);
            (self.relay.fronts.log).record_frames(number, now, &inbox.frames);
        }
        self.relay.apply_front(at, now, EventBatch::of(&mut inbox));
        inbox.clear();
        self.front_inbox = inbox;
    }

    /// Ends a client's connection, with everything on it.
    pub(super) fn drop_front(&mut self, id: u32) {
        let Some(front) = self.relay.fronts.tcp_mut(id) else {
            return;
        };
        let open = front.take_open();
        let was_serving = !open.is_empty();
        self.relay.abandon(open);
        let Some(front) = self.relay.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if !was_serving {
            // Pending output, such as the end of TLS, is still written.
            front.tcp.engine.close();
            while let Ok(Some(_)) = front.write(&mut self.front_inbox) {}
            self.front_inbox.clear();
        }
        front.tcp.record_end(&mut self.relay.fronts.log);
        if let Some(front) = self.relay.fronts.remove(id) {
            front.close();
        }
        self.has_closed = true;
    }

    /// Handles a client's protocol violation: requests that are incomplete will stay so.
    fn break_front(&mut self, id: u32) {
        let Some(front) = self.relay.fronts.tcp_mut(id) else {
            return;
        };
        front.tcp.is_ending = true;
        let is_http1 = front.version() == Version::Http1;
        let keys: Vec<ExchangeKey> = front.open.streams.iter().map(|(_, key)| *key).collect();
        for key in keys {
            let Some(exchange) = self.relay.exchanges.get_mut(key) else {
                continue;
            };
            if exchange.up.has_ended {
                continue;
            }
            let failures = &mut self.relay.report.failures;
            *failures.entry(Failure::BadRequest).or_default() += 1;
            exchange.down.is_closed = true;
            if !is_http1 || exchange.is_answered {
                self.relay.abort(key, None);
                continue;
            }
            // The engine responds to the request after those before it: `Relay::on_request_refused`.
            if let Some(front) = self.relay.fronts.tcp_mut(id) {
                front.waiting.retain(|waiting| *waiting != key);
                front.refused = Some(key);
            }
            self.relay.cancel_back(key);
            self.relay.discard_request(key);
        }
        self.relay.fronts.touch(FrontKey::Tcp(id));
    }

    pub(super) fn read_quic(&mut self, listener: u32) {
        for _ in 0..READS_A_TURN {
            let mut arrived = Vec::new();
            let now = clock::now();
            let fronts = &mut self.relay.fronts;
            let quic = &mut fronts.quic[listener as usize];
            quic.set_scarce(fronts.memory.is_scarce());
            let more = quic.read(
                &mut self.buffers,
                &mut fronts.log,
                &mut fronts.memory,
                &mut fronts.accepted,
                &mut arrived,
            );
            self.apply_quic_events(listener, now, arrived);
            if !more {
                return;
            }
        }
        self.pending_listeners.push(listener);
    }

    fn apply_quic_events(&mut self, listener: u32, now: Time, arrived: Vec<ConnectionEvents>) {
        for (connection, mut inbox) in arrived {
            let at = FrontKey::Quic {
                listener,
                connection,
            };
            self.relay.apply_front(at, now, EventBatch::of(&mut inbox));
        }
        self.relay.fronts.touch_listener(listener);
    }

    /// Serves a connection to an upstream that is ready.
    pub(super) fn ready_back(&mut self, at: BackKey, ready: ReadyEvent) {
        let log = &mut self.relay.backs.log;
        let Some(connection) = self.relay.backs.pools.connection_mut(at) else {
            return;
        };
        match connection.connect(ready, log) {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                self.relay.fail_back(at, failure);
                return;
            }
        }
        if ready.ended {
            connection.dialed.transport.expect_end();
        }
        connection.dialed.has_unread |= ready.readable;
        self.read_back(at);
        self.relay.backs.touch(at);
    }

    fn read_back(&mut self, at: BackKey) {
        for _ in 0..READS_A_TURN {
            let is_scarce = self.relay.backs.memory.is_scarce();
            let Some(connection) = self.relay.backs.connection_mut(at) else {
                return;
            };
            if !connection.dialed.has_unread || connection.is_paused(is_scarce) {
                return;
            }
            let (now, moved) = connection.read(&mut self.buffers, &mut self.back_inbox);
            connection.dialed.has_unread = moved == Ok(true);
            self.note_established(at);
            self.apply_back_inbox(at, now);
            if let Err(failure) = moved {
                self.flush_after_error(at);
                self.relay.fail_back(at, failure);
                return;
            }
        }
        self.relay.backs.pending_reads.push(at);
    }

    /// Writes what remains to be sent after a protocol error, such as GOAWAY or an alert.
    fn flush_after_error(&mut self, at: BackKey) {
        if let Some(connection) = self.relay.backs.connection_mut(at) {
            let _ = connection.write(&mut self.back_inbox);
            let (number, frames) = (connection.dialed.number, &self.back_inbox.frames);
            (self.relay.backs.log).record_frames(number, clock::now(), frames);
            self.back_inbox.clear();
        }
    }

    fn note_established(&mut self, at: BackKey) {
        let log = &mut self.relay.backs.log;
        if let Some(connection) = self.relay.backs.pools.connection_mut(at)
            && connection.dialed.note_established(log).is_some()
        {
            let control = connection.dialed.transport.congestion_control();
            self.relay.report.back_congestion_controls.extend(control);
        }
    }

    /// Applies what is in the inbox of the upstream side.
    fn apply_back_inbox(&mut self, at: BackKey, now: Time) {
        self.relay.backs.touch(at);
        if self.back_inbox.events.is_empty() && self.back_inbox.frames.is_empty() {
            return;
        }
        let mut inbox = std::mem::take(&mut self.back_inbox);
        if !inbox.frames.is_empty() {
            let back = self.relay.backs.connection_mut(at);
            let number = back.map_or(0, |back| back.dialed.number);
            (self.relay.backs.log).record_frames(number, now, &inbox.frames);
        }
        self.relay.apply_back(at, now, EventBatch::of(&mut inbox));
        inbox.clear();
        self.back_inbox = inbox;
    }

    /// Hands requests out and writes until nothing more can be done. Upstreams go first, so that everything their
    /// responses bring is written to a client together.
    pub(super) fn settle_all(&mut self, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            if let Some(upstream) = self.relay.backs.pools.take_changed() {
                self.assign_waiting(upstream, reactor)?;
            } else if let Some(at) = self.relay.backs.take_dirty() {
                self.write_back(at)?;
            } else if let Some(at) = self.relay.fronts.take_dirty() {
                match at {
                    FrontKey::Tcp(id) => self.write_front(id),
                    FrontKey::Quic { listener, .. } => self.write_quic(listener),
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Hands waiting requests to connections, in the order of the queue.
    fn assign_waiting(&mut self, upstream: u32, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            let pool = self.relay.backs.pools.get_mut(upstream);
            let Some(request) = pool.waiting.take() else {
                return Ok(());
            };
            let key = request.key;
            if !self.relay.exchanges.waits(key, upstream) {
                // The request's client is gone.
                pool.waiting.discard(request);
                continue;
            }
            match pool.policy.choose() {
                Choice::Use(connection) => {
                    let at = BackKey {
                        pool: upstream,
                        connection,
                    };
                    if self.relay.backs.is_ready(at) {
                        self.submit(at, key)?;
                    } else {
                        // In this very turn the upstream has sent GOAWAY, or SETTINGS with a lower limit on streams, or
                        // more than clients take. The pool learns of that now.
                        self.relay.backs.settle(at);
                        let pool = self.relay.backs.pools.get_mut(upstream);
                        pool.waiting.put_back(request);
                    }
                }
                Choice::Open(connection) => {
                    let at = BackKey {
                        pool: upstream,
                        connection,
                    };
                    self.open_back(at, Some(key), reactor)?;
                }
                Choice::Wait => {
                    pool.waiting.put_back(request);
                    return Ok(());
                }
            }
        }
    }

    /// Opens the connection that a pool decided to open.
    pub(super) fn open_back(
        &mut self,
        at: BackKey,
        first: Option<ExchangeKey>,
        reactor: &Reactor,
    ) -> Result<(), StationError> {
        let wants = self.relay.backs.log.wants_exchanges();
        if let Some(exchange) = first.and_then(|key| self.relay.exchanges.get_mut(key)) {
            exchange.back = BackState::Opening { at };
            exchange.beginning.slot = wants.then(clock::now);
        }
        let dial = self.upstreams.dial(at.pool);
        match self.relay.backs.open(at, dial, first) {
            Ok(()) => self.watch_back(at, reactor),
            Err(OpenError::Engine(error)) => return Err(error.into()),
            Err(OpenError::Quic(error)) => return Err(error.into()),
            Err(OpenError::Socket(error)) => {
                if !self.upstreams.dial(at.pool).is_cause_of(&error) {
                    let errors = &mut self.relay.report.machine_errors;
                    *errors.entry(error.to_string()).or_default() += 1;
                }
                let failure = if error.lacks_resources() {
                    Failure::NoResources
                } else {
                    Failure::ConnectFailed
                };
                if let Some(key) = first {
                    self.relay.leave_back(key);
                    self.relay.retry_or_give_up(key, failure, |_| false);
                }
            }
        }
        Ok(())
    }

    /// Makes the reactor report when a connection to an upstream is ready. One that it cannot watch is closed: nothing
    /// would report that it is ready.
    pub(super) fn watch_back(&mut self, at: BackKey, reactor: &Reactor) {
        let token = UPSTREAMS << KIND_SHIFT | at.token();
        if let Some(connection) = self.relay.backs.connection_mut(at)
            && let Err(error) = connection.dialed.transport.watch(reactor, token)
        {
            let errors = &mut self.relay.report.machine_errors;
            *errors.entry(error.to_string()).or_default() += 1;
            self.relay.fail_back(at, Failure::NoResources);
        }
    }

    /// Submits a request to a connection that is ready for it.
    fn submit(&mut self, at: BackKey, key: ExchangeKey) -> Result<(), StationError> {
        let wants = self.relay.backs.log.wants_exchanges();
        let (Some(exchange), Some(connection)) = (
            self.relay.exchanges.get_mut(key),
            self.relay.backs.connection_mut(at),
        ) else {
            return Ok(());
        };
        let Some(request) = &exchange.request else {
            return Ok(());
        };
        let stream = connection.dialed.transport.streams().submit(request)?;
        connection.streams.insert(stream, key);
        connection.submitted += 1;
        exchange.back = BackState::Sent { at, stream };
        exchange.upstream_stream = Some((at, stream));
        exchange.back_marks = Default::default();
        if wants {
            connection.note_beginning(&mut exchange.beginning);
        }
        exchange.last_progress = self.relay.now;
        if exchange.up.is_closed {
            exchange.up.sent_bytes = exchange.up.received_bytes;
        }
        self.relay.pump_up(key);
        self.relay.backs.gather(at);
        self.relay.backs.touch(at);
        Ok(())
    }

    fn write_back(&mut self, at: BackKey) -> Result<(), StationError> {
        loop {
            self.relay.pump_blocked_up(at);
            let Some(connection) = self.relay.backs.connection_mut(at) else {
                return Ok(());
            };
            let (now, moved) = connection.write(&mut self.back_inbox);
            self.apply_back_inbox_if_filled(at, now);
            match moved {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    self.relay.fail_back(at, failure);
                    return Ok(());
                }
            }
        }
        self.note_established(at);
        self.settle_back(at)
    }

    /// Like [`Connections::apply_back_inbox`], but after a write: an empty inbox does not cause another turn.
    fn apply_back_inbox_if_filled(&mut self, at: BackKey, now: Time) {
        if !self.back_inbox.events.is_empty() || !self.back_inbox.frames.is_empty() {
            self.apply_back_inbox(at, now);
        }
    }

    /// Submits the request that the connection was opened for, if possible, and tells the pool what the connection can do.
    fn settle_back(&mut self, at: BackKey) -> Result<(), StationError> {
        let first = self.relay.backs.connection_mut(at);
        if let Some(first) = first.and_then(BackConnection::take_first) {
            self.submit(at, first)?;
        }
        if self.relay.backs.settle(at) == Some(Availability::Over) {
            self.relay.fail_back(at, Failure::UpstreamClosed);
        }
        Ok(())
    }

    fn write_front(&mut self, id: u32) {
        let at = FrontKey::Tcp(id);
        loop {
            let Some(front) = self.relay.fronts.tcp_mut(id) else {
                return;
            };
            if front.is_lingering() {
                return;
            }
            if !front.open.blocked.is_empty() {
                let blocked = std::mem::take(&mut front.open.blocked);
                self.relay.pump_blocked_down(blocked);
            }
            let Some(front) = self.relay.fronts.tcp_mut(id) else {
                return;
            };
            let written = front.write(&mut self.front_inbox);
            let Ok(wrote) = written else {
                self.drop_front(id);
                return;
            };
            if !self.front_inbox.events.is_empty() || !self.front_inbox.frames.is_empty() {
                self.apply_front_inbox(at, wrote.unwrap_or_else(clock::now));
            }
            if wrote.is_none() {
                break;
            }
        }
        self.relay.fronts.count_held(id);
        self.end_front_if_finished(id);
    }

    fn end_front_if_finished(&mut self, id: u32) {
        let Some(front) = self.relay.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if !front.is_finished() {
            return;
        }
        let open = front.take_open();
        self.relay.abandon(open);
        let Some(front) = self.relay.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if front.begin_lingering(&mut self.front_inbox, &mut self.relay.fronts.log) {
            front.tcp.record_end(&mut self.relay.fronts.log);
            if let Some(front) = self.relay.fronts.remove(id) {
                front.close();
            }
            self.has_closed = true;
        } else if front.is_lingering() && front.drain(self.buffers.stream()) {
            self.relay.fronts.remove(id);
            self.has_closed = true;
        }
        self.front_inbox.clear();
    }

    fn write_quic(&mut self, listener: u32) {
        let place = listener as usize;
        loop {
            for connection in self.relay.fronts.quic[place].blocked_connections() {
                if let Some(open) = self.relay.fronts.quic[place].open(connection) {
                    let blocked = std::mem::take(&mut open.blocked);
                    self.relay.pump_blocked_down(blocked);
                }
            }
            let mut arrived = Vec::new();
            let fronts = &mut self.relay.fronts;
            let quic = &mut fronts.quic[place];
            quic.set_scarce(fronts.memory.is_scarce());
            let more = quic.write(&mut fronts.log, &mut fronts.memory, &mut arrived);
            if !arrived.is_empty() {
                self.apply_quic_events(listener, clock::now(), arrived);
            }
            if !more {
                break;
            }
        }
        while let Some((connection, open)) =
            self.relay.fronts.quic[place].take_ended(&mut self.relay.fronts.log)
        {
            self.relay.abandon(open);
            let fronts = &mut self.relay.fronts;
            fronts.quic[place].remove(connection, &mut fronts.memory);
        }
    }

    /// When the next timer is due: of QUIC on either side, or of a response that is held.
    pub(super) fn deadline(&self) -> Option<Time> {
        let fronts = self.relay.fronts.quic.iter();
        let fronts = fronts.filter_map(QuicFront::deadline);
        let backs = if self.is_quic() {
            (self.relay.backs.pools.connections())
                .filter_map(|(_, back)| back.dialed.transport.deadline())
                .min()
        } else {
            None
        };
        fronts.chain(backs).chain(self.relay.holds.deadline()).min()
    }

    fn is_quic(&self) -> bool {
        self.upstreams.protocol == squall_base::plan::Protocol::H3
    }

    /// Serves everything whose timer is due.
    pub(super) fn run_timers(&mut self) {
        let now = self.relay.now;
        for listener in 0..self.relay.fronts.quic.len() as u32 {
            let quic = &mut self.relay.fronts.quic[listener as usize];
            if quic.deadline().is_some_and(|due| due <= now) {
                quic.run_timers();
                self.relay.fronts.touch_listener(listener);
            }
        }
        if self.is_quic() {
            let is_due = |due: Time| due <= now;
            let due: Vec<BackKey> = (self.relay.backs.pools.connections())
                .filter(|(_, back)| back.dialed.transport.deadline().is_some_and(is_due))
                .map(|(at, _)| at)
                .collect();
            for at in due {
                self.relay.backs.touch(at);
            }
        }
    }

    /// Checks everything that has a timeout.
    pub(super) fn sweep(&mut self) {
        let now = self.relay.now;
        let late: Vec<BackKey> = (self.relay.backs.pools.connections())
            .filter(|(_, back)| !back.is_established())
            .filter(|(_, back)| is_over(now, back.opened(), self.timeouts.connect))
            .map(|(at, _)| at)
            .collect();
        for at in late {
            self.relay.fail_back(at, Failure::ConnectTimeout);
        }
        self.sweep_exchanges(now);
        for id in 0..self.relay.fronts.tcp.len() as u32 {
            let Some(front) = self.relay.fronts.tcp_mut(id) else {
                continue;
            };
            if front.is_lingering() {
                if front.drain(self.buffers.stream()) {
                    self.relay.fronts.remove(id);
                }
            } else if front.is_idle() && is_over(now, front.tcp.last_progress, self.timeouts.idle) {
                self.announce_and_drop_front(id);
            }
        }
        let Some(idle) = self.timeouts.idle else {
            return;
        };
        for listener in 0..self.relay.fronts.quic.len() as u32 {
            if self.relay.fronts.quic[listener as usize].sweep(now, idle) {
                self.relay.fronts.touch_listener(listener);
            }
        }
    }

    /// Ends the exchanges that have waited for something for too long.
    fn sweep_exchanges(&mut self, now: Time) {
        let Timeouts { answer, idle, .. } = self.timeouts;
        let head = idle.map(|idle| idle.min(HEAD_TIMEOUT));
        let late: Vec<(ExchangeKey, Failure)> = (self.relay.exchanges.iter())
            .filter_map(|(key, exchange)| {
                let failure = waits_for(exchange)?;
                let timeout = match failure {
                    Failure::AnswerTimeout => answer,
                    _ if !exchange.has_head() => head,
                    _ => idle,
                };
                is_over(now, exchange.last_progress, timeout).then_some((key, failure))
            })
            .collect();
        for (key, failure) in late {
            let exchange = self.relay.exchanges.get_mut(key);
            if exchange.is_some_and(|exchange| !exchange.has_head()) {
                self.time_out_head(key);
            } else {
                self.relay.give_up_response(key, failure);
            }
        }
    }

    /// Ends a client's connection after telling the client, as far as the socket accepts that immediately.
    fn announce_and_drop_front(&mut self, id: u32) {
        if let Some(front) = self.relay.fronts.tcp_mut(id) {
            front.announce_close(&mut self.front_inbox);
            let (number, frames) = (front.tcp.number, &self.front_inbox.frames);
            (self.relay.fronts.log).record_frames(number, self.relay.now, frames);
            self.front_inbox.clear();
            self.drop_front(id);
        }
    }

    /// Ends a request whose head takes too long: over HTTP/1.1 the engine answers 408, after the responses before it, and
    /// over HTTP/3 the stream is reset. Over HTTP/2 nothing else can be read before the head is complete, so the
    /// connection ends.
    fn time_out_head(&mut self, key: ExchangeKey) {
        let exchange = self.relay.exchanges.get_mut(key);
        let Some((at, stream)) = exchange.and_then(|exchange| exchange.front) else {
            return;
        };
        let now = self.relay.now;
        let failures = &mut self.relay.report.failures;
        let FrontKey::Tcp(id) = at else {
            *failures.entry(Failure::ClientIdle).or_default() += 1;
            let code = (self.relay.fronts).reset(at, stream, ResetReason::HeadTimeout);
            self.relay.finish_front(key, Some(code), now);
            return;
        };
        let Some(front) = self.relay.fronts.tcp_mut(id) else {
            return;
        };
        if front.tcp.has_unread {
            // The proxy itself has not read the rest yet.
            return;
        }
        *failures.entry(Failure::ClientIdle).or_default() += 1;
        if !front.tcp.engine.time_out_head() {
            self.announce_and_drop_front(id);
            return;
        }
        front.tcp.is_ending = true;
        front.refused = Some(key);
        // `Relay::on_request_refused` ends the exchange.
        self.relay.discard_request(key);
        self.relay.fronts.touch(at);
    }

    pub(super) fn sample(&mut self) {
        if self.relay.fronts.log.wants_sockets() {
            for front in self.relay.fronts.tcp.iter().flatten() {
                front.tcp.sample(false, &mut self.relay.fronts.log);
            }
            for quic in &self.relay.fronts.quic {
                quic.sample(&mut self.relay.fronts.log);
            }
        }
        for (_, back) in self.relay.backs.pools.connections() {
            let (number, log) = (back.dialed.number, &mut self.relay.backs.log);
            back.dialed.transport.sample(number, false, log);
        }
    }

    /// Resets what is open, and returns the report.
    pub(super) fn end(mut self) -> ProxyReport {
        for id in 0..self.relay.fronts.tcp.len() as u32 {
            let Some(front) = self.relay.fronts.tcp_mut(id) else {
                continue;
            };
            let open = front.take_open();
            self.relay.abandon(open);
            if let Some(mut front) = self.relay.fronts.remove(id) {
                front.tcp.record_end(&mut self.relay.fronts.log);
                front.tcp.close_abruptly();
            }
        }
        for quic in &mut self.relay.fronts.quic {
            quic.end(&mut self.relay.fronts.log);
        }
        let open: Vec<ExchangeKey> = self.relay.exchanges.iter().map(|(key, _)| key).collect();
        for key in open {
            self.relay.abort(key, None);
        }
        let connections = self.relay.backs.pools.connections();
        let all: Vec<BackKey> = connections.map(|(at, _)| at).collect();
        for at in all {
            self.relay.fail_back(at, Failure::UpstreamClosed);
        }
        self.relay.fronts.log.flush();
        self.relay.backs.log.flush();
        flush_access(&mut self.relay.access);
        self.relay.report.connections_opened = self.relay.backs.pools.added() as u32;
        self.relay.report.front = std::mem::take(&mut self.relay.fronts.log.counts);
        self.relay.report.back = std::mem::take(&mut self.relay.backs.log.counts);
        self.relay.report
    }
}

fn is_over(now: Time, since: Time, timeout: Option<Duration>) -> bool {
    timeout.is_some_and(|timeout| since + timeout <= now)
}

/// What an exchange waits for, as the failure to report if that takes too long; `None` if nothing here limits the wait.
fn waits_for(exchange: &ProxyExchange) -> Option<Failure> {
    exchange.front?;
    let is_sending = !exchange.up.has_ended && !exchange.up.is_closed;
    match (exchange.is_answered, exchange.back) {
        (true, _) => Some(Failure::IdleTimeout),
        (false, _) if exchange.held.is_some() => None,
        (false, _) if is_sending && exchange.up.waiting.is_empty() => Some(Failure::ClientIdle),
        // Pipelined behind other requests.
        (false, BackState::Unassigned | BackState::Over) => None,
        // The connection has its own timeout.
        (false, BackState::Opening { .. }) => None,
        (false, BackState::Waiting { .. } | BackState::Sent { .. }) => Some(Failure::AnswerTimeout),
    }
}
