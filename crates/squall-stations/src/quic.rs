//! A UDP socket that takes HTTP/3 of clients: datagrams to the engine and from it, batches held back for pacing, timers.
//!
//! Whose events they are and what follows from them is its owner's business: the embedded server's, or the proxy's.

use std::io;
use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::h3::{self, Ended, Sender};
use squall_http::tls::Identity;
use squall_http::{Inbox, ServerEvent, Wants};
use squall_linux::clock;
use squall_linux::reactor::{Interest, Reactor};
use squall_linux::udp::{UdpOptions, UdpSocket};

use crate::Buffers;
use crate::error::StationError;
use crate::held::{Held, Later};
use crate::log::{self, Log};

/// The socket, its engine, and what is between them.
pub(crate) struct QuicEndpoint {
    pub(crate) socket: UdpSocket,
    pub(crate) engine: h3::Server,
    inbox: Inbox<ServerEvent>,
    /// The batch that is to leave now.
    held: Held<ServerEvent>,
    /// Whose batch that is.
    held_of: Sender,
    /// Those of connections that are paced, which hold up no others.
    later: Later<Sender, ServerEvent>,
    /// When the engine has to be woken.
    wake: Option<Time>,
}

impl QuicEndpoint {
    /// Listens, in the network namespace of the calling thread.
    pub(crate) fn bind(
        address: SocketAddr,
        identity: &Identity,
        side: &SideSettings,
        seed: u64,
        wants: Wants,
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
            held: Held::new(wants),
            held_of: Sender::Endpoint,
            later: Later::new(),
            wake: None,
        })
    }

    pub(crate) fn watch(&self, reactor: &Reactor, token: u64) -> Result<(), StationError> {
        Ok(reactor.add_for(Interest::Reading, &self.socket, token)?)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// When it has something to do by itself.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let batches = [self.held.release(), self.later.release()];
        batches.into_iter().chain([self.wake]).flatten().min()
    }

    /// Reads a batch of the socket, and tells of what each datagram brought: the connection, where it came from, and
    /// the news. False once there is nothing more.
    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        mut heard: impl FnMut(&mut h3::Server, (u32, SocketAddr), &mut Inbox<ServerEvent>),
    ) -> bool {
        let QuicEndpoint {
            socket,
            engine,
            inbox,
            ..
        } = self;
        let received = socket.receive(buffers.datagrams(), |arrival, datagram| {
            let (from, to) = (arrival.from, arrival.to);
            if let Some(connection) = engine.receive(datagram, from, to, inbox) {
                heard(engine, (connection, from), inbox);
            }
            inbox.clear();
        });
        match received {
            Ok(_) => true,
            // Nothing more, or an ICMP error about some client's datagram: that client's matter.
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Does what its timers call for.
    pub(crate) fn on_time(&mut self) {
        let now = clock::now();
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        let instant = clock::instant_of(now);
        while self.engine.on_timeout(instant).is_some() {}
    }

    /// Writes one batch, and tells of what a connection has heard while it was asked for it, at once, so that it keeps
    /// its order with what comes from the socket; and of the marks, when the batch has left. False if nothing more can
    /// be done now.
    pub(crate) fn write(
        &mut self,
        mut heard: impl FnMut(&mut h3::Server, u32, &mut Inbox<ServerEvent>),
    ) -> bool {
        let now = clock::now();
        let due = match self.held.is_empty() {
            true => self.later.give(&mut self.held, now),
            false => Some(self.held_of),
        };
        if let Some(sender) = due {
            self.held_of = sender;
        } else {
            let (batch, marks) = self.held.fill();
            let sender = self.engine.output(clock::instant_of(now), batch, marks);
            let is_filled = !batch.is_empty();
            self.held.filled(sender.is_some() && is_filled, now);
            let Some(sender) = sender else {
                self.rearm(now);
                return false;
            };
            self.held_of = sender;
            self.held.take_news(is_sent, &mut self.inbox);
            if let Sender::Connection(connection) = sender {
                heard(&mut self.engine, connection, &mut self.inbox);
            }
            self.inbox.clear();
            if !is_filled {
                self.tell_marks(heard);
                return true;
            }
            if self.later.take(sender, &mut self.held, now) {
                return true;
            }
        }
        match self.held.send(&self.socket, now) {
            Ok(true) => self.tell_marks(heard),
            Ok(false) => {
                self.rearm(now);
                return false;
            }
            // To a client that cannot be reached: as good as lost.
            Err(_) => self.held.marks().clear(),
        }
        true
    }

    fn tell_marks(&mut self, mut heard: impl FnMut(&mut h3::Server, u32, &mut Inbox<ServerEvent>)) {
        if let Sender::Connection(connection) = self.held_of {
            heard(&mut self.engine, connection, self.held.marks());
        }
        self.held.marks().clear();
    }

    fn rearm(&mut self, now: Time) {
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.wake = timeout.map(|timeout| now + timeout);
    }

    /// Writes down what the end of a connection leaves, while the engine still has it.
    pub(crate) fn record_open(&self, connection: u32, number: u32, log: &mut Log) {
        if log.wants_sockets() {
            self.sample(connection, number, true, log);
        }
        if let Some(announced) = self.engine.announced(connection) {
            log::count_http3_settings(&announced, &mut log.counts);
        }
    }

    /// The same of one that is gone.
    pub(crate) fn record_ended(&self, ended: &Ended, number: u32, log: &mut Log) {
        if log.wants_sockets() {
            log.sample_quic(number, true, ended.path, &self.socket);
        }
        log::count_http3_settings(&ended.announced, &mut log.counts);
    }

    /// Samples a connection, which has this number in the records.
    pub(crate) fn sample(&self, connection: u32, number: u32, is_last: bool, log: &mut Log) {
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

/// Counts a connection's handshake once, when it is done: when the first request can come.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    is_counted: bool,
}

impl Handshake {
    pub(crate) fn note(&mut self, connection: u32, engine: &mut h3::Server, log: &mut Log) {
        log.keys(engine.take_key_log(connection));
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

    /// A round trip of which a congestion window's packets are milliseconds apart.
    const TURN: std::time::Duration = std::time::Duration::from_millis(100);
    const TURNS: usize = 50;

    /// The server reads, and writes what it may now. Tells of requests that ended: connection and stream.
    fn serve(endpoint: &mut QuicEndpoint) -> Vec<(u32, StreamId)> {
        let mut asked = Vec::new();
        let mut buffers = Buffers::new();
        while endpoint.read(&mut buffers, |_, (connection, _), inbox| {
            asked.extend(inbox.events.iter().filter_map(|event| match event {
                ServerEvent::RequestEnd { stream, .. } => Some((connection, *stream)),
                _ => None,
            }));
        }) {}
        endpoint.on_time();
        while endpoint.write(|_, _, _| {}) {}
        asked
    }

    /// Both have asked; by connection, the first visitor's first.
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
    fn a_connection_that_is_paced_holds_up_no_other() {
        let identity = identity();
        let side = SideSettings::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut endpoint = QuicEndpoint::bind(any, &identity, &side, 1, Wants::default()).unwrap();
        let server = endpoint.address();
        let mut context = context(&identity);
        let mut visitors = [(); 2].map(|()| Visitor::new(&mut context, server));
        let request = Request::new("GET", Scheme::Https, "server", "/", &[], Body::EMPTY).unwrap();
        let [first, second] = asked(&mut endpoint, &mut visitors, &Arc::new(request));
        let answer = |size| Arc::new(Response::new(200, &[], vec![7; size]).unwrap());

        endpoint
            .engine
            .respond(first.0, first.1, &answer(1 << 20))
            .unwrap();
        let mut waiting = None;
        for _ in 0..TURNS {
            serve(&mut endpoint);
            waiting = endpoint.later.release();
            if waiting.is_some() {
                break;
            }
            thread::sleep(TURN);
            visitors[0].turn();
        }
        let waiting = waiting.expect("a batch that is paced");

        endpoint
            .engine
            .respond(second.0, second.1, &answer(100))
            .unwrap();
        while endpoint.write(|_, _, _| {}) {}
        visitors[1].turn();
        // A machine that stood still for so long shows nothing.
        assert!(visitors[1].has_answer() || waiting <= clock::now());
        assert!(!visitors[0].has_answer());
    }
}
