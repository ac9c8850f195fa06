//! HTTP/3: one UDP socket with all its connections, and the exchanges on each.
//!
//! Connections are numbered from 0 by the engine; in the records they are the server's own, like those of TCP.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::h3::{self, Sender};
use squall_http::tls::Identity;
use squall_http::{Inbox, Response, ServerEvent, StreamId, Wants};
use squall_linux::clock;
use squall_linux::reactor::{Interest, Reactor};
use squall_linux::udp::{UdpOptions, UdpSocket};

use super::exchanges::{Exchanges, Responder, Service, Whose};
use crate::Buffers;
use crate::error::StationError;
use crate::held::Held;

pub(super) struct QuicListener {
    socket: UdpSocket,
    engine: h3::Server,
    peers: BTreeMap<u32, QuicPeer>,
    inbox: Inbox<ServerEvent>,
    held: Held<ServerEvent>,
    /// Whose batch is held.
    held_of: Sender,
    /// When the engine has to be woken.
    wake: Option<Time>,
}

/// What there is of a connection besides the engine's part.
struct QuicPeer {
    address: SocketAddr,
    exchanges: Exchanges,
    is_counted: bool,
}

/// The engine, for one of its connections.
struct On<'a> {
    engine: &'a mut h3::Server,
    connection: u32,
}

impl QuicListener {
    /// Listens, in the network namespace of the calling thread.
    pub(super) fn bind(
        address: SocketAddr,
        identity: &Identity,
        side: &SideSettings,
        seed: u64,
        wants: Wants,
    ) -> Result<QuicListener, StationError> {
        let options = UdpOptions {
            gso: side.http3.gso,
            receive_buffer: None,
            send_buffer: None,
        };
        let socket = UdpSocket::bind(address, &options)?;
        let mut engine = h3::Server::new(&side.http3, &side.tls, identity, seed)?;
        if wants.bodies {
            engine.set_manual_consumption();
        }
        Ok(QuicListener {
            socket,
            engine,
            peers: BTreeMap::new(),
            inbox: Inbox::new(wants),
            held: Held::new(wants),
            held_of: Sender::Endpoint,
            wake: None,
        })
    }

    pub(super) fn watch(&self, reactor: &Reactor, token: u64) -> Result<(), StationError> {
        Ok(reactor.add_for(Interest::Reading, &self.socket, token)?)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// When it has something to do by itself.
    pub(super) fn deadline(&self) -> Option<Time> {
        let answers = self.peers.values().filter_map(|p| p.exchanges.next_due());
        [self.wake, self.held.release(), answers.min()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Reads, answers and writes as far as it goes.
    pub(super) fn serve(&mut self, buffers: &mut Buffers, service: &mut Service<'_>) {
        self.read(buffers, service);
        self.wake();
        self.answer_waiting();
        self.write(service);
        self.bury(service);
    }

    fn read(&mut self, buffers: &mut Buffers, service: &mut Service<'_>) {
        loop {
            let QuicListener {
                socket,
                engine,
                peers,
                inbox,
                ..
            } = self;
            let now = clock::now();
            let received = socket.receive(buffers.datagrams(), |arrival, datagram| {
                let (from, to) = (arrival.from, arrival.to);
                let Some(connection) = engine.receive(datagram, from, to, inbox) else {
                    return;
                };
                let peer = peers.entry(connection).or_insert_with(|| {
                    service.log.counts.quic_connections += 1;
                    QuicPeer {
                        address: from,
                        exchanges: Exchanges::default(),
                        is_counted: false,
                    }
                });
                peer.note_established(connection, engine, service);
                peer.apply(connection, engine, inbox, now, service);
            });
            match received {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing more, or an ICMP error about some client's datagram: that client's matter.
                Err(_) => return,
            }
        }
    }

    fn wake(&mut self) {
        let now = clock::now();
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        let instant = clock::instant_of(now);
        while self.engine.on_timeout(instant).is_some() {}
    }

    fn answer_waiting(&mut self) {
        let now = clock::now();
        for (&connection, peer) in &mut self.peers {
            if peer.exchanges.next_due().is_some_and(|due| due <= now) {
                let engine = &mut self.engine;
                peer.exchanges
                    .respond_waiting(now, &mut On { engine, connection });
            }
        }
    }

    fn write(&mut self, service: &mut Service<'_>) {
        loop {
            let now = clock::now();
            if self.held.is_empty() {
                let (batch, marks) = self.held.fill();
                let sender = self.engine.output(clock::instant_of(now), batch, marks);
                let is_filled = !batch.is_empty();
                self.held.filled(sender.is_some() && is_filled, now);
                let Some(sender) = sender else {
                    break;
                };
                self.held_of = sender;
                self.apply_heard(now, service);
                if !is_filled {
                    // News without anything to send.
                    self.apply_sent(service);
                    continue;
                }
            }
            match self.held.send(&self.socket, now) {
                Ok(true) => self.apply_sent(service),
                Ok(false) => break,
                // To a client that cannot be reached: as good as lost.
                Err(_) => self.held.marks().clear(),
            }
        }
        let now = clock::now();
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.wake = timeout.map(|timeout| now + timeout);
    }

    /// Applies at once what the engine has heard while it was asked for output, so that it keeps its order with what
    /// comes from the socket: a batch may have to wait.
    fn apply_heard(&mut self, now: Time, service: &mut Service<'_>) {
        let is_sent = |event: &ServerEvent| {
            matches!(
                event,
                ServerEvent::ResponseFirstByteWritten { .. } | ServerEvent::ResponseWritten { .. }
            )
        };
        self.held.take_news(is_sent, &mut self.inbox);
        if let Sender::Connection(connection) = self.held_of
            && let Some(peer) = self.peers.get_mut(&connection)
        {
            peer.apply(connection, &mut self.engine, &mut self.inbox, now, service);
        }
        self.inbox.clear();
    }

    /// Applies the marks of a batch that has left, or news that came without one, and hands on what there is room for
    /// now.
    fn apply_sent(&mut self, service: &mut Service<'_>) {
        let now = clock::now();
        if let Sender::Connection(connection) = self.held_of
            && let Some(peer) = self.peers.get_mut(&connection)
        {
            let engine = &mut self.engine;
            peer.apply(connection, engine, self.held.marks(), now, service);
            peer.exchanges.stream(&mut On { engine, connection });
        } else {
            self.held.marks().clear();
        }
    }

    /// Forgets connections that are gone.
    fn bury(&mut self, service: &mut Service<'_>) {
        while let Some((connection, _)) = self.engine.take_ended() {
            if let Some(mut peer) = self.peers.remove(&connection) {
                let whose = peer.whose(connection);
                peer.exchanges.abandon(clock::now(), whose, service);
            }
        }
    }

    pub(super) fn sample(&self, service: &mut Service<'_>) {
        for &connection in self.peers.keys() {
            if let Some(path) = self.engine.path(connection) {
                service
                    .log
                    .sample_quic(connection, false, path, &self.socket);
            }
        }
    }

    /// Says goodbye to everybody, and writes down what was open.
    pub(super) fn end(&mut self, service: &mut Service<'_>) {
        let connections: Vec<u32> = self.peers.keys().copied().collect();
        for connection in connections {
            if let Some(path) = self.engine.path(connection) {
                service
                    .log
                    .sample_quic(connection, true, path, &self.socket);
            }
            self.engine.close(connection, h3::code::NO_ERROR);
        }
        self.write(service);
        self.bury(service);
        for (connection, peer) in &mut self.peers {
            let whose = peer.whose(*connection);
            peer.exchanges.abandon(clock::now(), whose, service);
        }
    }
}

impl QuicPeer {
    fn whose(&self, connection: u32) -> Whose {
        Whose {
            connection,
            peer: self.address,
            protocol: Protocol::H3,
        }
    }

    fn apply(
        &mut self,
        connection: u32,
        engine: &mut h3::Server,
        inbox: &mut Inbox<ServerEvent>,
        now: Time,
        service: &mut Service<'_>,
    ) {
        let whose = self.whose(connection);
        // frames.parquet says which packets carried which bytes of a stream.
        let answers = self
            .exchanges
            .apply(inbox, now, whose, |_, _| None, service);
        self.exchanges
            .respond(answers, now, &mut On { engine, connection });
    }

    /// Counts the handshake when it is done: when the first request can come.
    fn note_established(
        &mut self,
        connection: u32,
        engine: &mut h3::Server,
        service: &mut Service<'_>,
    ) {
        service.log.keys(engine.take_key_log(connection));
        if self.is_counted || !engine.is_established(connection) {
            return;
        }
        self.is_counted = true;
        let counts = &mut service.log.counts;
        *counts
            .protocols
            .entry(Protocol::H3.to_string())
            .or_default() += 1;
        if engine.is_resumed(connection) {
            counts.tls_resumed += 1;
        } else {
            counts.tls_full += 1;
        }
    }
}

impl Responder for On<'_> {
    fn respond(&mut self, stream: StreamId, response: &Arc<Response>) {
        // Refused only if the client has cancelled, or is gone.
        let _ = self.engine.respond(self.connection, stream, response);
    }

    fn body_room(&self, stream: StreamId) -> usize {
        self.engine.body_room(self.connection, stream)
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.engine.send_body(self.connection, stream, bytes)
    }

    fn end_body(&mut self, stream: StreamId) {
        self.engine.end_body(self.connection, stream);
    }

    fn consume(&mut self, stream: StreamId, n: u64) {
        self.engine.consume(self.connection, stream, n);
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        self.engine.reset(self.connection, stream, code);
    }
}
