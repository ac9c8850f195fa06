//! What the two sides do in a turn of the reactor: read, hand out, write, look at the time.

use squall_base::plan::Version;
use squall_base::{Duration, Time};
use squall_http::Inbox;
use squall_linux::clock;
use squall_linux::reactor::{Reactor, Ready};
use squall_load::Choice;

use super::back::{At, BackConnection, Next};
use super::exchange::{Back, Exchange, Key};
use super::front::{Arrived, Ended, FrontAt};
use super::relay::News;
use super::settings::{Failure, ProxyReport};
use super::{Core, KIND_SHIFT, UPSTREAMS};
use crate::client::transport::OpenError;
use crate::error::StationError;

/// Reads of one connection before others have their turn: 1 MiB.
const READS_A_TURN: usize = 16;

/// Connections that have more to read than a turn allows.
#[derive(Debug, Default)]
pub(super) struct Hungry {
    fronts: Vec<u32>,
    backs: Vec<At>,
    listeners: Vec<u32>,
}

impl Core {
    pub(super) fn is_hungry(&self) -> bool {
        !self.fronts.hungry.is_empty()
            || !self.backs.hungry.is_empty()
            || !self.hungry_listeners.is_empty()
    }

    pub(super) fn take_hungry(&mut self) -> Hungry {
        Hungry {
            fronts: std::mem::take(&mut self.fronts.hungry),
            backs: std::mem::take(&mut self.backs.hungry),
            listeners: std::mem::take(&mut self.hungry_listeners),
        }
    }

    pub(super) fn feed(&mut self, hungry: Hungry) {
        for id in hungry.fronts {
            self.read_front(id);
        }
        for at in hungry.backs {
            self.read_back(at);
        }
        for listener in hungry.listeners {
            self.read_quic(listener);
        }
    }

    /// A client's connection over TCP is ready for something.
    pub(super) fn ready_front(&mut self, id: u32, ready: Ready) {
        let Some(front) = self.fronts.tcp_mut(id) else {
            return;
        };
        if front.is_leaving() {
            if front.drain(self.buffers.stream()) {
                self.fronts.remove(id);
            }
            return;
        }
        front.expects_end |= ready.ended;
        if ready.readable {
            front.is_hungry = true;
            self.read_front(id);
        }
        if ready.writable {
            self.fronts.touch(FrontAt::Tcp(id));
        }
    }

    fn read_front(&mut self, id: u32) {
        let at = FrontAt::Tcp(id);
        for _ in 0..READS_A_TURN {
            let Some(front) = self.fronts.tcp_mut(id) else {
                return;
            };
            if !front.wants_to_go_on() {
                return;
            }
            let (now, ended) = front.read(self.buffers.stream(), &mut self.front_inbox);
            if let Some(front) = self.fronts.tcp[id as usize].as_deref_mut() {
                front.note_established(&mut self.fronts.log);
            }
            self.take_in_front(at, now);
            match ended {
                Ended::No => {}
                Ended::ByClient | Ended::Failed => {
                    self.drop_front(id);
                    return;
                }
                Ended::Broken => {
                    self.break_front(id);
                    return;
                }
            }
        }
        self.fronts.hungry.push(id);
    }

    /// Applies what is in the inbox of the clients' side.
    fn take_in_front(&mut self, at: FrontAt, now: Time) {
        self.fronts.touch(at);
        if self.front_inbox.events.is_empty() && self.front_inbox.frames.is_empty() {
            return;
        }
        let mut inbox = std::mem::take(&mut self.front_inbox);
        if let FrontAt::Tcp(id) = at
            && !inbox.frames.is_empty()
        {
            let number = self.fronts.tcp_mut(id).map_or(0, |front| front.number);
            self.fronts.log.frames(number, now, &inbox.frames);
        }
        let Inbox {
            events,
            bodies,
            trailers,
            ..
        } = &mut inbox;
        let news = News {
            events,
            bodies,
            trailers,
        };
        self.apply_front(at, now, news);
        inbox.clear();
        self.front_inbox = inbox;
    }

    /// A client's connection is over, with everything on it.
    fn drop_front(&mut self, id: u32) {
        let Some(front) = self.fronts.tcp_mut(id) else {
            return;
        };
        front.is_ending = true;
        let open: Vec<_> = front.streams.drain().collect();
        front.waiting.clear();
        let had_open = !open.is_empty();
        self.abandon(open);
        let Some(front) = self.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if !had_open {
            // What is in the output, such as the end of TLS, is still written.
            front.engine.close();
            while let Ok(Some(_)) = front.write(&mut self.front_inbox) {}
            self.front_inbox.clear();
        }
        front.record_end(&mut self.fronts.log);
        if let Some(front) = self.fronts.remove(id) {
            front.close();
        }
        self.has_closed = true;
    }

    /// A client broke the protocol: requests that are not complete never will be.
    fn break_front(&mut self, id: u32) {
        let Some(front) = self.fronts.tcp_mut(id) else {
            return;
        };
        front.is_ending = true;
        let is_http1 = front.version() == Version::Http1;
        let keys: Vec<Key> = front.streams.iter().map(|(_, key)| *key).collect();
        for key in keys {
            let Some(exchange) = self.exchanges.get_mut(key) else {
                continue;
            };
            if exchange.up.has_ended {
                continue;
            }
            *self.report.failures.entry(Failure::BadRequest).or_default() += 1;
            exchange.down.is_closed = true;
            if !is_http1 || exchange.is_answered {
                self.client_gone(key, None);
                continue;
            }
            // The engine answers it, behind those before it: `Core::on_request_refused`.
            if let Some(front) = self.fronts.tcp_mut(id) {
                front.waiting.retain(|waiting| *waiting != key);
                front.refused = Some(key);
            }
            self.cancel_back(key);
            self.discard_request(key);
        }
        self.fronts.touch(FrontAt::Tcp(id));
    }

    pub(super) fn read_quic(&mut self, listener: u32) {
        for _ in 0..READS_A_TURN {
            let mut arrived = Vec::new();
            let now = clock::now();
            let fronts = &mut self.fronts;
            let Some(quic) = fronts
                .quic
                .get_mut(listener as usize)
                .and_then(Option::as_deref_mut)
            else {
                return;
            };
            let more = quic.read(
                &mut self.buffers,
                &mut fronts.log,
                &mut fronts.accepted,
                &mut arrived,
            );
            self.take_in_quic(listener, now, arrived);
            if !more {
                return;
            }
        }
        self.hungry_listeners.push(listener);
    }

    fn take_in_quic(&mut self, listener: u32, now: Time, arrived: Vec<Arrived>) {
        for mut arrived in arrived {
            let at = FrontAt::Quic {
                listener,
                connection: arrived.connection,
            };
            let news = News {
                events: &mut arrived.events,
                bodies: &arrived.bodies,
                trailers: &mut arrived.trailers,
            };
            self.apply_front(at, now, news);
        }
        self.fronts.touch(FrontAt::Quic {
            listener,
            connection: 0,
        });
    }

    /// A connection to an upstream is ready for something.
    pub(super) fn ready_back(&mut self, at: At, ready: Ready) {
        let log = &mut self.backs.log;
        let lane = self.backs.lanes.get_mut(at.lane as usize);
        let connection = lane
            .and_then(|lane| lane.connections.get_mut(at.connection.0 as usize))
            .and_then(Option::as_deref_mut);
        let Some(connection) = connection else {
            return;
        };
        match connection.connect(ready, log) {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                self.fail_back(at, failure);
                return;
            }
        }
        if ready.ended {
            connection.transport.expect_end();
        }
        connection.is_hungry |= ready.readable;
        self.read_back(at);
        self.backs.touch(at);
    }

    fn read_back(&mut self, at: At) {
        for _ in 0..READS_A_TURN {
            let Some(connection) = self.backs.connection_mut(at) else {
                return;
            };
            if !connection.is_hungry || connection.is_paused() {
                return;
            }
            let (now, moved) = connection.read(&mut self.buffers, &mut self.back_inbox);
            connection.is_hungry = moved == Ok(true);
            self.note_established(at);
            self.take_in_back(at, now);
            if let Err(failure) = moved {
                self.say_last_word(at);
                self.fail_back(at, failure);
                return;
            }
        }
        self.backs.hungry.push(at);
    }

    /// What a broken protocol leaves to be said, such as GOAWAY or an alert.
    fn say_last_word(&mut self, at: At) {
        if let Some(connection) = self.backs.connection_mut(at) {
            let _ = connection.write(&mut self.back_inbox);
            let (number, frames) = (connection.number, &self.back_inbox.frames);
            if !frames.is_empty() {
                self.backs.log.frames(number, clock::now(), frames);
            }
            self.back_inbox.clear();
        }
    }

    fn note_established(&mut self, at: At) {
        let log = &mut self.backs.log;
        let lane = self.backs.lanes.get_mut(at.lane as usize);
        let connection = lane
            .and_then(|lane| lane.connections.get_mut(at.connection.0 as usize))
            .and_then(Option::as_deref_mut);
        if let Some(connection) = connection
            && connection.note_established(log)
        {
            let control = connection.transport.congestion_control();
            self.report.back_congestion_controls.extend(control);
        }
    }

    /// Applies what is in the inbox of the upstreams' side.
    fn take_in_back(&mut self, at: At, now: Time) {
        self.backs.touch(at);
        if self.back_inbox.events.is_empty() && self.back_inbox.frames.is_empty() {
            return;
        }
        let mut inbox = std::mem::take(&mut self.back_inbox);
        if !inbox.frames.is_empty() {
            let number = self.backs.connection_mut(at).map_or(0, |back| back.number);
            self.backs.log.frames(number, now, &inbox.frames);
        }
        let Inbox {
            events,
            bodies,
            trailers,
            ..
        } = &mut inbox;
        let news = News {
            events,
            bodies,
            trailers,
        };
        self.apply_back(at, now, news);
        inbox.clear();
        self.back_inbox = inbox;
    }

    /// Hands requests out and writes until nothing more can be done: upstreams first, so that all that their answers bring
    /// is written to a client at once.
    pub(super) fn settle_all(&mut self, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            if let Some(lane) = self.backs.take_stirred() {
                self.hand_out(lane, reactor)?;
            } else if let Some(at) = self.backs.take_dirty() {
                self.write_back(at)?;
            } else if let Some(at) = self.fronts.take_dirty() {
                match at {
                    FrontAt::Tcp(id) => self.write_front(id),
                    FrontAt::Quic { listener, .. } => self.write_quic(listener),
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Gives waiting requests to connections, first come, first served.
    fn hand_out(&mut self, lane: u32, reactor: &Reactor) -> Result<(), StationError> {
        loop {
            let of = &mut self.backs.lanes[lane as usize];
            let Some(key) = of.waiting.pop_front() else {
                return Ok(());
            };
            let waits = |exchange: &mut Exchange| exchange.back == Back::Waiting { lane };
            if !self.exchanges.get_mut(key).is_some_and(waits) {
                // Its client is gone.
                continue;
            }
            match of.pool.choose() {
                Choice::Use(connection) => {
                    let at = At { lane, connection };
                    if self.backs.is_ready(at) {
                        self.submit(at, key)?;
                    } else {
                        // It has said goodbye (GOAWAY), or that it takes fewer streams (SETTINGS), in this very turn: its
                        // pool learns of it now.
                        self.backs.settle(at);
                        self.backs.lanes[lane as usize].waiting.push_front(key);
                    }
                }
                Choice::Open(connection) => {
                    self.open_back(At { lane, connection }, Some(key), reactor)?;
                }
                Choice::Wait => {
                    of.waiting.push_front(key);
                    return Ok(());
                }
            }
        }
    }

    /// Opens the connection that a pool has decided on.
    pub(super) fn open_back(
        &mut self,
        at: At,
        first: Option<Key>,
        reactor: &Reactor,
    ) -> Result<(), StationError> {
        let wants = self.backs.log.wants_exchanges();
        if let Some(exchange) = first.and_then(|key| self.exchanges.get_mut(key)) {
            exchange.back = Back::Opening { at };
            exchange.beginning.slot = wants.then(clock::now);
        }
        match self.backs.open(at, self.dialled.dial(at.lane), first) {
            Ok(()) => {
                if let Some(connection) = self.backs.connection_mut(at) {
                    let token = UPSTREAMS << KIND_SHIFT
                        | u64::from(at.lane) << 32
                        | u64::from(at.connection.0);
                    connection.transport.watch(reactor, token)?;
                }
            }
            Err(OpenError::Engine(error)) => return Err(error.into()),
            Err(OpenError::Quic(error)) => return Err(error.into()),
            Err(OpenError::Socket(error)) => {
                if !self.dialled.dial(at.lane).asks_for(&error) {
                    let errors = &mut self.report.machine_errors;
                    *errors.entry(error.to_string()).or_default() += 1;
                }
                if let Some(key) = first {
                    self.backs.leave(at.lane);
                    if let Some(exchange) = self.exchanges.get_mut(key) {
                        exchange.back = Back::Over;
                    }
                    self.lost(key, Failure::ConnectFailed, |_| false);
                }
            }
        }
        Ok(())
    }

    /// Gives a request to a connection that is ready for it.
    fn submit(&mut self, at: At, key: Key) -> Result<(), StationError> {
        let wants = self.backs.log.wants_exchanges();
        let (Some(exchange), Some(connection)) =
            (self.exchanges.get_mut(key), self.backs.connection_mut(at))
        else {
            return Ok(());
        };
        let Some(request) = &exchange.request else {
            return Ok(());
        };
        let stream = connection.transport.submit(request)?;
        connection.streams.insert(stream, key);
        connection.submitted += 1;
        exchange.back = Back::Sent { at, stream };
        exchange.came_over = Some((at, stream));
        exchange.back_marks = Default::default();
        if wants {
            connection.note_beginning(&mut exchange.beginning);
        }
        exchange.last_progress = self.now;
        if exchange.up.is_closed {
            exchange.up.went_bytes = exchange.up.came_bytes;
        }
        self.pump_up(key);
        self.backs.gather(at);
        self.backs.touch(at);
        Ok(())
    }

    fn write_back(&mut self, at: At) -> Result<(), StationError> {
        loop {
            self.pump_blocked_up(at);
            let Some(connection) = self.backs.connection_mut(at) else {
                return Ok(());
            };
            let (now, moved) = connection.write(&mut self.back_inbox);
            self.take_in_back_quietly(at, now);
            match moved {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    self.fail_back(at, failure);
                    return Ok(());
                }
            }
        }
        self.note_established(at);
        self.settle_back(at)
    }

    /// As [`Core::take_in_back`] after a write, which needs no other turn for that alone.
    fn take_in_back_quietly(&mut self, at: At, now: Time) {
        if !self.back_inbox.events.is_empty() || !self.back_inbox.frames.is_empty() {
            self.take_in_back(at, now);
        }
    }

    /// Says what a connection can do now.
    fn settle_back(&mut self, at: At) -> Result<(), StationError> {
        let first = self.backs.connection_mut(at);
        if let Some(first) = first.and_then(BackConnection::take_first) {
            self.submit(at, first)?;
        }
        if self.backs.settle(at) == Some(Next::Over) {
            self.fail_back(at, Failure::UpstreamClosed);
        }
        Ok(())
    }

    fn write_front(&mut self, id: u32) {
        let at = FrontAt::Tcp(id);
        loop {
            let Some(front) = self.fronts.tcp_mut(id) else {
                return;
            };
            if front.is_leaving() {
                return;
            }
            if !front.blocked.is_empty() {
                let blocked = std::mem::take(&mut front.blocked);
                self.pump_blocked_down(blocked);
            }
            let Some(front) = self.fronts.tcp_mut(id) else {
                return;
            };
            let written = front.write(&mut self.front_inbox);
            let Ok(wrote) = written else {
                self.drop_front(id);
                return;
            };
            if !self.front_inbox.events.is_empty() || !self.front_inbox.frames.is_empty() {
                self.take_in_front(at, wrote.unwrap_or_else(clock::now));
            }
            if wrote.is_none() {
                break;
            }
        }
        self.end_front_if_finished(id);
    }

    fn end_front_if_finished(&mut self, id: u32) {
        let Some(front) = self.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if !front.is_finished() {
            return;
        }
        let open: Vec<_> = front.streams.drain().collect();
        front.waiting.clear();
        front.is_ending = true;
        self.abandon(open);
        let Some(front) = self.fronts.tcp[id as usize].as_deref_mut() else {
            return;
        };
        if front.take_leave(&mut self.front_inbox, &mut self.fronts.log) {
            front.record_end(&mut self.fronts.log);
            if let Some(front) = self.fronts.remove(id) {
                front.close();
            }
            self.has_closed = true;
        } else if front.is_leaving() && front.drain(self.buffers.stream()) {
            self.fronts.remove(id);
            self.has_closed = true;
        }
        self.front_inbox.clear();
    }

    fn write_quic(&mut self, listener: u32) {
        loop {
            let Some(quic) = self.fronts.quic_mut(listener) else {
                return;
            };
            for connection in quic.blocked_connections() {
                let quic = self.fronts.quic_mut(listener);
                let blocked = quic.map_or_else(Vec::new, |quic| quic.take_blocked(connection));
                self.pump_blocked_down(blocked);
            }
            let fronts = &mut self.fronts;
            let Some(quic) = fronts.quic[listener as usize].as_deref_mut() else {
                return;
            };
            let mut arrived = Vec::new();
            let more = quic.write(&mut fronts.log, &mut arrived);
            if !arrived.is_empty() {
                self.take_in_quic(listener, clock::now(), arrived);
            }
            if !more {
                break;
            }
        }
        while let Some(quic) = self.fronts.quic[listener as usize].as_deref_mut()
            && let Some((connection, open)) = quic.take_gone(&mut self.fronts.log)
        {
            self.abandon(open);
            if let Some(quic) = self.fronts.quic_mut(listener) {
                quic.bury(connection);
            }
        }
    }

    /// When something is to be done by itself: by QUIC on either side, or to a response that is held.
    pub(super) fn deadline(&self) -> Option<Time> {
        let fronts = self.fronts.quic.iter().flatten();
        let fronts = fronts.filter_map(|quic| quic.deadline());
        let backs = match self.dialled.protocol.is_secure() && self.is_quic() {
            true => (self.backs.connections())
                .filter_map(|(_, back)| back.transport.deadline())
                .min(),
            false => None,
        };
        fronts.chain(backs).chain(self.holds.deadline()).min()
    }

    fn is_quic(&self) -> bool {
        self.dialled.protocol == squall_base::plan::Protocol::H3
    }

    /// Serves whoever has a timer due.
    pub(super) fn on_time(&mut self) {
        let now = self.now;
        for listener in 0..self.fronts.quic.len() as u32 {
            let quic = self.fronts.quic_mut(listener);
            if let Some(quic) = quic
                && quic.deadline().is_some_and(|due| due <= now)
            {
                quic.on_time();
                self.fronts.touch(FrontAt::Quic {
                    listener,
                    connection: 0,
                });
            }
        }
        if self.is_quic() {
            let is_due = |due: Time| due <= now;
            let due: Vec<At> = (self.backs.connections())
                .filter(|(_, back)| back.transport.deadline().is_some_and(is_due))
                .map(|(at, _)| at)
                .collect();
            for at in due {
                self.backs.touch(at);
            }
        }
    }

    /// Looks at everything that has a time.
    pub(super) fn sweep(&mut self) {
        let now = self.now;
        let is_over = |since: Time, timeout: Option<Duration>| {
            timeout.is_some_and(|timeout| since + timeout <= now)
        };
        let late: Vec<At> = (self.backs.connections())
            .filter(|(_, back)| !back.is_established())
            .filter(|(_, back)| is_over(back.opened(), self.timeouts.connect))
            .map(|(at, _)| at)
            .collect();
        for at in late {
            self.fail_back(at, Failure::ConnectTimeout);
        }
        let late: Vec<(Key, Failure)> = (self.exchanges.iter())
            .filter_map(|(key, exchange)| {
                let failure = waits_for(exchange)?;
                let timeout = match failure {
                    Failure::AnswerTimeout => self.timeouts.answer,
                    _ => self.timeouts.idle,
                };
                is_over(exchange.last_progress, timeout).then_some((key, failure))
            })
            .collect();
        for (key, failure) in late {
            self.give_up_answer(key, failure);
        }
        for id in 0..self.fronts.tcp.len() as u32 {
            let Some(front) = self.fronts.tcp_mut(id) else {
                continue;
            };
            if front.is_leaving() {
                if front.drain(self.buffers.stream()) {
                    self.fronts.remove(id);
                }
            } else if front.is_idle() && is_over(front.last_progress, self.timeouts.idle) {
                front.say_goodbye(&mut self.front_inbox);
                let (number, frames) = (front.number, &self.front_inbox.frames);
                if !frames.is_empty() {
                    self.fronts.log.frames(number, now, frames);
                }
                self.front_inbox.clear();
                self.drop_front(id);
            }
        }
        let Some(idle) = self.timeouts.idle else {
            return;
        };
        for listener in 0..self.fronts.quic.len() as u32 {
            let quic = self.fronts.quic_mut(listener);
            if quic.is_some_and(|quic| quic.sweep(now, idle)) {
                self.fronts.touch(FrontAt::Quic {
                    listener,
                    connection: 0,
                });
            }
        }
    }

    pub(super) fn sample(&mut self) {
        if self.fronts.log.wants_sockets() {
            for front in self.fronts.tcp.iter().flatten() {
                front.sample(false, &mut self.fronts.log);
            }
            for quic in self.fronts.quic.iter().flatten() {
                quic.sample(&mut self.fronts.log);
            }
        }
        for lane in &self.backs.lanes {
            for back in lane.connections.iter().flatten() {
                back.transport
                    .sample(back.number, false, &mut self.backs.log);
            }
        }
    }

    pub(super) fn flush_access(&mut self) {
        if let Some(access) = &mut self.access
            && let Err(error) = access.flush()
        {
            eprintln!("warning: cannot write the access log: {error}; going on without");
            self.access = None;
        }
    }

    /// Resets what is open, and hands over what is known.
    pub(super) fn end(mut self) -> ProxyReport {
        for id in 0..self.fronts.tcp.len() as u32 {
            let Some(front) = self.fronts.tcp_mut(id) else {
                continue;
            };
            let open: Vec<_> = front.streams.drain().collect();
            front.waiting.clear();
            self.abandon(open);
            if let Some(mut front) = self.fronts.remove(id) {
                front.record_end(&mut self.fronts.log);
                front.close_abruptly();
            }
        }
        for quic in self.fronts.quic.iter_mut().flatten() {
            quic.end(&mut self.fronts.log);
        }
        let open: Vec<Key> = self.exchanges.iter().map(|(key, _)| key).collect();
        for key in open {
            self.client_gone(key, None);
        }
        let all: Vec<At> = self.backs.connections().map(|(at, _)| at).collect();
        for at in all {
            self.fail_back(at, Failure::UpstreamClosed);
        }
        self.fronts.log.hand_on();
        self.backs.log.hand_on();
        self.flush_access();
        self.report.connections_opened = self.backs.opened;
        self.report.front = std::mem::take(&mut self.fronts.log.counts);
        self.report.back = std::mem::take(&mut self.backs.log.counts);
        self.report
    }
}

/// What an exchange waits for, as its failure.
fn waits_for(exchange: &Exchange) -> Option<Failure> {
    exchange.front?;
    let is_sending = !exchange.up.has_ended && !exchange.up.is_closed;
    match (exchange.is_answered, exchange.back) {
        (true, _) => Some(Failure::IdleTimeout),
        (false, _) if exchange.held.is_some() => None,
        (false, _) if is_sending && exchange.up.pieces.is_empty() => Some(Failure::ClientIdle),
        // Pipelined behind others.
        (false, Back::Nowhere | Back::Over) => None,
        // The connection has its own time.
        (false, Back::Opening { .. }) => None,
        (false, Back::Waiting { .. } | Back::Sent { .. }) => Some(Failure::AnswerTimeout),
    }
}
