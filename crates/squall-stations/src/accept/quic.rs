//! A UDP socket that serves HTTP/3 clients: passes datagrams to and from the engine, holds batches back for pacing,
//! runs timers.
//!
//! Which exchange an event belongs to, and what to do about it, is up to the owner: the embedded server or the proxy.

use std::io;
use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::h3::{self, BatchSource, EndedConnection};
use squall_http::tls::Identity;
use squall_http::{Inbox, InboxOptions, ServerEvent};
use squall_linux::clock;
use squall_linux::reactor::{Interest, Reactor};
use squall_linux::udp::{UdpOptions, UdpSocket};

use crate::Buffers;
use crate::error::StationError;
use crate::held::{DelayedBatches, PendingBatch};
use crate::log::{self, StationLog};

/// The socket, its engine, and the batches between them.
pub(crate) struct QuicEndpoint {
    pub(crate) socket: UdpSocket,
    pub(crate) engine: h3::Server,
    inbox: Inbox<ServerEvent>,
    /// The batch that is to be sent now.
    pending: PendingBatch<ServerEvent>,
    /// The sender of that batch.
    pending_source: BatchSource,
    /// Batches of connections that are paced, which must not delay others.
    delayed: DelayedBatches<BatchSource, ServerEvent>,
    /// When the engine's timer is due.
    timer_due: Option<Time>,
}

impl QuicEndpoint {
    /// See [`super::Listener::bind`].
    pub(crate) fn bind(
        address: SocketAddr,
        identity: &Identity,
        side: &SideSettings,
        seed: u64,
        wants: InboxOptions,
    ) -> Result<QuicEndpoint, StationError> {
        let socket = UdpSocket::bind(address, &UdpOptions::from(&side.http3))?;
        let mut engine = h3::Server::new(&side.http3, &side.tls, identity, seed)?;
        if wants.bodies {
            engine.set_manual_consumption();
        }
        Ok(QuicEndpoint {
            socket,
            engine,
            inbox: Inbox::new(wants),
            pending: PendingBatch::new(wants),
            pending_source: BatchSource::Endpoint,
            delayed: DelayedBatches::new(),
            timer_due: None,
        })
    }

    pub(crate) fn watch(&self, reactor: &Reactor, token: u64) -> Result<(), StationError> {
        Ok(reactor.add_for(Interest::Reading, &self.socket, token)?)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// When the endpoint's next timer is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let batches = [self.pending.release(), self.delayed.release()];
        batches.into_iter().chain([self.timer_due]).flatten().min()
    }

    /// Reads one batch from the socket, and passes on what each datagram brought: the connection, the source address and
    /// the events. False once there is nothing more.
    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        mut handle: impl FnMut(&mut h3::Server, (u32, SocketAddr), &mut Inbox<ServerEvent>),
    ) -> bool {
        let QuicEndpoint {
            socket,
            engine,
            inbox,
            ..
        } = self;
        engine.note_time(clock::instant_of(clock::now()));
        let received = socket.receive(buffers.datagrams(), |arrival, datagram| {
            let (from, to) = (arrival.from, arrival.to);
            if let Some(connection) = engine.receive(datagram, from, to, inbox) {
                handle(engine, (connection, from), inbox);
            }
            inbox.clear();
        });
        match received {
            Ok(_) => true,
            // Nothing more, or an ICMP error about some client's datagram, which concerns only that client.
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self) {
        let now = clock::now();
        if self.timer_due.is_none_or(|due| due > now) {
            return;
        }
        let instant = clock::instant_of(now);
        while self.engine.on_timeout(instant).is_some() {}
    }

    /// Writes one batch. Events that the engine finds while it makes the batch are passed on immediately, so that they
    /// come before those of datagrams that arrive later; the marks follow once the batch has been sent. False if nothing
    /// more can be done now.
    pub(crate) fn write(
        &mut self,
        mut handle: impl FnMut(&mut h3::Server, u32, &mut Inbox<ServerEvent>),
    ) -> bool {
        let now = clock::now();
        let due = if self.pending.is_empty() {
            self.delayed.take_due(&mut self.pending, now)
        } else {
            Some(self.pending_source)
        };
        if let Some(source) = due {
            self.pending_source = source;
        } else {
            let (batch, marks) = self.pending.fill();
            let source = self.engine.output(clock::instant_of(now), batch, marks);
            let is_filled = !batch.is_empty();
            self.pending.filled(source.is_some() && is_filled, now);
            let Some(source) = source else {
                self.rearm(now);
                return false;
            };
            self.pending_source = source;
            self.pending.take_received(is_sent, &mut self.inbox);
            if let BatchSource::Connection(connection) = source {
                handle(&mut self.engine, connection, &mut self.inbox);
            }
            self.inbox.clear();
            if !is_filled {
                self.report_marks(handle);
                return true;
            }
            if self.delayed.defer(source, &mut self.pending, now) {
                return true;
            }
        }
        match self.pending.send(&self.socket, now) {
            Ok(true) => self.report_marks(handle),
            Ok(false) => {
                self.rearm(now);
                return false;
            }
            // The client cannot be reached: the batch counts as lost.
            Err(_) => self.pending.marks().clear(),
        }
        true
    }

    fn report_marks(
        &mut self,
        mut handle: impl FnMut(&mut h3::Server, u32, &mut Inbox<ServerEvent>),
    ) {
        if let BatchSource::Connection(connection) = self.pending_source {
            handle(&mut self.engine, connection, self.pending.marks());
        }
        self.pending.marks().clear();
    }

    fn rearm(&mut self, now: Time) {
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.timer_due = timeout.map(|timeout| now + timeout);
    }

    /// Records the final state of a connection that the engine still has.
    pub(crate) fn record_open(&self, connection: u32, number: u32, log: &mut StationLog) {
        if log.wants_sockets() {
            self.sample(connection, number, true, log);
        }
        if let Some(announced) = self.engine.announced(connection) {
            log::count_http3_settings(&announced, &mut log.counts);
        }
    }

    /// Records the final state of a connection that is gone.
    pub(crate) fn record_ended(&self, ended: &EndedConnection, number: u32, log: &mut StationLog) {
        if log.wants_sockets() {
            log.sample_quic(number, true, ended.path, &self.socket);
        }
        log::count_http3_settings(&ended.announced, &mut log.counts);
    }

    /// Samples a connection, which has the given number in the records.
    pub(crate) fn sample(&self, connection: u32, number: u32, is_last: bool, log: &mut StationLog) {
        if let Some(path) = self.engine.path(connection) {
            log.sample_quic(number, is_last, path, &self.socket);
        }
    }
}

fn is_sent(event: &ServerEvent) -> bool {
    matches!(
        event,
        ServerEvent::ResponseFirstByteWritten { .. } | ServerEvent::ResponseWritten { .. }
    )
}

/// Counts a connection's handshake once, when it has completed and the first request can arrive.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    is_counted: bool,
}

impl Handshake {
    pub(crate) fn note(&mut self, connection: u32, engine: &mut h3::Server, log: &mut StationLog) {
        log.record_keys(engine.take_key_log(connection));
        if self.is_counted || !engine.is_established(connection) {
            return;
        }
        self.is_counted = true;
        let counts = &mut log.counts;
        let protocol = Protocol::H3.to_string();
        *counts.protocols.entry(protocol).or_default() += 1;
        // QUIC has no connection without ALPN (RFC 9001, section 8.1).
        counts.count_handshake(engine.is_resumed(connection), Some(Protocol::H3.alpn()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use squall_http::{Body, Request, Response, Scheme, StreamId};

    use super::*;
    use crate::visitor::{Visitor, context, identity};

    /// A round-trip time at which a congestion window's packets are milliseconds apart.
    const TURN: std::time::Duration = std::time::Duration::from_millis(100);
    const TURNS: usize = 50;

    /// Makes the server read, and write what it may now. Returns the requests that ended: connection and stream.
    fn serve(endpoint: &mut QuicEndpoint) -> Vec<(u32, StreamId)> {
        let mut asked = Vec::new();
        let mut buffers = Buffers::new();
        while endpoint.read(&mut buffers, |_, (connection, _), inbox| {
            asked.extend(inbox.events.iter().filter_map(|event| match event {
                ServerEvent::RequestEnd { stream, .. } => Some((connection, *stream)),
                _ => None,
            }));
        }) {}
        endpoint.run_timers();
        while endpoint.write(|_, _, _| {}) {}
        asked
    }

    /// Makes both visitors send a request. Returns the requests by connection, the first visitor's first.
    fn asked(
        endpoint: &mut QuicEndpoint,
        visitors: &mut [Visitor; 2],
        request: &Arc<Request>,
    ) -> [(u32, StreamId); 2] {
        let mut asked = Vec::new();
        for _ in 0..TURNS {
            for visitor in &mut *visitors {
                if visitor.engine.is_ready() && visitor.engine.in_flight() == 0 {
                    visitor.engine.submit(request).unwrap();
                }
                visitor.turn();
            }
            thread::sleep(TURN);
            asked.extend(serve(endpoint));
            if let [one, other] = asked[..] {
                return if one < other {
                    [one, other]
                } else {
                    [other, one]
                };
            }
        }
        panic!("no requests: {asked:?}");
    }

    #[test]
    fn paced_connection_does_not_delay_others() {
        let identity = identity();
        let side = SideSettings::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut endpoint =
            QuicEndpoint::bind(any, &identity, &side, 1, InboxOptions::default()).unwrap();
        let server = endpoint.address();
        let mut context = context(&identity);
        let mut visitors = [(); 2].map(|()| Visitor::new(&mut context, server));
        let request = Request::new("GET", Scheme::Https, "server", "/", &[], Body::EMPTY).unwrap();
        let [first, second] = asked(&mut endpoint, &mut visitors, &Arc::new(request));
        let answer = |size| Arc::new(Response::new(200, &[], vec![7; size]).unwrap());

        let mut streams = endpoint.engine.streams(first.0);
        streams.respond(first.1, &answer(1 << 20)).unwrap();
        let mut waiting = None;
        for _ in 0..TURNS {
            serve(&mut endpoint);
            waiting = endpoint.delayed.release();
            if waiting.is_some() {
                break;
            }
            thread::sleep(TURN);
            visitors[0].turn();
        }
        let waiting = waiting.expect("a batch that is paced");

        let mut streams = endpoint.engine.streams(second.0);
        streams.respond(second.1, &answer(100)).unwrap();
        while endpoint.write(|_, _, _| {}) {}
        visitors[1].turn();
        // If the machine stalled for that long, the test shows nothing.
        assert!(visitors[1].has_answer() || waiting <= clock::now());
        assert!(!visitors[0].has_answer());
    }
}
