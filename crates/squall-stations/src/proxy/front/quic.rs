//! HTTP/3 of the clients: one UDP socket with all its connections.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::h3::{self, Sender};
use squall_http::tls::Identity;
use squall_http::{Field, Inbox, ServerEvent, StreamId, Wants};
use squall_linux::clock;
use squall_linux::reactor::{Interest, Reactor};
use squall_linux::udp::{UdpOptions, UdpSocket};

use crate::Buffers;
use crate::error::StationError;
use crate::held::Held;
use crate::log::Log;
use crate::proxy::exchange::Key;
use crate::streams::Streams;

/// A listener for HTTP/3.
pub(in crate::proxy) struct QuicFront {
    socket: UdpSocket,
    pub(in crate::proxy) engine: h3::Server,
    peers: BTreeMap<u32, Peer>,
    inbox: Inbox<ServerEvent>,
    held: Held<ServerEvent>,
    /// Whose batch is held.
    held_of: Sender,
    wake: Option<Time>,
    pub(in crate::proxy) is_dirty: bool,
}

/// What there is of a connection besides the engine's part.
struct Peer {
    /// Its number in the records.
    number: u32,
    address: SocketAddr,
    streams: Streams<Key>,
    blocked: Vec<Key>,
    is_counted: bool,
}

/// What came with one datagram, or was heard while something was sent.
#[derive(Debug)]
pub(in crate::proxy) struct Arrived {
    pub(in crate::proxy) connection: u32,
    pub(in crate::proxy) events: Vec<ServerEvent>,
    pub(in crate::proxy) bodies: Vec<u8>,
    pub(in crate::proxy) trailers: Vec<(StreamId, Vec<Field>)>,
}

impl QuicFront {
    /// Listens, in the network namespace of the calling thread.
    pub(in crate::proxy) fn bind(
        address: SocketAddr,
        identity: &Identity,
        side: &SideSettings,
        seed: u64,
        wants: Wants,
    ) -> Result<QuicFront, StationError> {
        let options = UdpOptions {
            gso: side.http3.gso,
            receive_buffer: None,
            send_buffer: None,
        };
        let socket = UdpSocket::bind(address, &options)?;
        let mut engine = h3::Server::new(&side.http3, &side.tls, identity, seed)?;
        engine.set_manual_consumption();
        Ok(QuicFront {
            socket,
            engine,
            peers: BTreeMap::new(),
            inbox: Inbox::new(wants),
            held: Held::new(wants),
            held_of: Sender::Endpoint,
            wake: None,
            is_dirty: false,
        })
    }

    pub(in crate::proxy) fn watch(
        &self,
        reactor: &Reactor,
        token: u64,
    ) -> Result<(), StationError> {
        Ok(reactor.add_for(Interest::Reading, &self.socket, token)?)
    }

    pub(in crate::proxy) fn local_address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// When it has something to do by itself.
    pub(in crate::proxy) fn deadline(&self) -> Option<Time> {
        [self.wake, self.held.release()].into_iter().flatten().min()
    }

    pub(in crate::proxy) fn streams(&mut self, connection: u32) -> Option<&mut Streams<Key>> {
        self.peers
            .get_mut(&connection)
            .map(|peer| &mut peer.streams)
    }

    pub(in crate::proxy) fn number(&self, connection: u32) -> u32 {
        self.peers.get(&connection).map_or(0, |peer| peer.number)
    }

    pub(in crate::proxy) fn address(&self, connection: u32) -> Option<SocketAddr> {
        self.peers.get(&connection).map(|peer| peer.address)
    }

    pub(in crate::proxy) fn block(&mut self, connection: u32, key: Key) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.blocked.push(key);
        }
    }

    /// The exchanges whose answers wait for room on a connection.
    pub(in crate::proxy) fn take_blocked(&mut self, connection: u32) -> Vec<Key> {
        self.peers
            .get_mut(&connection)
            .map_or_else(Vec::new, |peer| std::mem::take(&mut peer.blocked))
    }

    /// Connections with answers that wait for room.
    pub(in crate::proxy) fn blocked_connections(&self) -> Vec<u32> {
        let blocked = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.blocked.is_empty());
        blocked.map(|(connection, _)| *connection).collect()
    }

    /// Reads everything that has come, up to the socket's batch: false once there is nothing more.
    pub(in crate::proxy) fn read(
        &mut self,
        buffers: &mut Buffers,
        log: &mut Log,
        accepted: &mut u32,
        arrived: &mut Vec<Arrived>,
    ) -> bool {
        let QuicFront {
            socket,
            engine,
            peers,
            inbox,
            ..
        } = self;
        let received = socket.receive(buffers.datagrams(), |arrival, datagram| {
            let (from, to) = (arrival.from, arrival.to);
            let Some(connection) = engine.receive(datagram, from, to, inbox) else {
                return;
            };
            let peer = peers.entry(connection).or_insert_with(|| {
                log.counts.quic_connections += 1;
                let number = *accepted;
                *accepted = accepted.wrapping_add(1);
                Peer {
                    number,
                    address: from,
                    streams: Streams::default(),
                    blocked: Vec::new(),
                    is_counted: false,
                }
            });
            peer.note_established(connection, engine, log);
            peer.hand_over(connection, inbox, log, arrived);
        });
        match received {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Does what its timers call for.
    pub(in crate::proxy) fn on_time(&mut self) {
        let now = clock::now();
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        let instant = clock::instant_of(now);
        while self.engine.on_timeout(instant).is_some() {}
    }

    /// Writes one batch, and tells what was heard and marked with it; false if nothing more can be done now.
    pub(in crate::proxy) fn write(&mut self, log: &mut Log, arrived: &mut Vec<Arrived>) -> bool {
        let now = clock::now();
        if self.held.is_empty() {
            let (batch, marks) = self.held.fill();
            let sender = self.engine.output(clock::instant_of(now), batch, marks);
            let is_filled = !batch.is_empty();
            self.held.filled(sender.is_some() && is_filled, now);
            let Some(sender) = sender else {
                self.rearm(now);
                return false;
            };
            self.held_of = sender;
            self.hand_over_heard(log, arrived);
            if !is_filled {
                self.hand_over_marks(log, arrived);
                return true;
            }
        }
        match self.held.send(&self.socket, now) {
            Ok(true) => self.hand_over_marks(log, arrived),
            Ok(false) => {
                self.rearm(now);
                return false;
            }
            // To a client that cannot be reached: as good as lost.
            Err(_) => self.held.marks().clear(),
        }
        true
    }

    fn rearm(&mut self, now: Time) {
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.wake = timeout.map(|timeout| now + timeout);
    }

    /// What the engine has heard while it was asked for output keeps its order with what comes from the socket.
    fn hand_over_heard(&mut self, log: &mut Log, arrived: &mut Vec<Arrived>) {
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
            peer.hand_over(connection, &mut self.inbox, log, arrived);
        }
        self.inbox.clear();
    }

    fn hand_over_marks(&mut self, log: &mut Log, arrived: &mut Vec<Arrived>) {
        if let Sender::Connection(connection) = self.held_of
            && let Some(peer) = self.peers.get_mut(&connection)
        {
            peer.hand_over(connection, self.held.marks(), log, arrived);
        }
        self.held.marks().clear();
    }

    /// Takes what is open on a connection that is gone; [`QuicFront::bury`] it then.
    pub(in crate::proxy) fn take_gone(&mut self) -> Option<(u32, Vec<(StreamId, Key)>)> {
        loop {
            let (connection, _) = self.engine.take_ended()?;
            if let Some(peer) = self.peers.get_mut(&connection) {
                let open = peer.streams.drain().map(|(stream, key)| (stream, *key));
                return Some((connection, open.collect()));
            }
        }
    }

    /// Forgets a connection.
    pub(in crate::proxy) fn bury(&mut self, connection: u32) {
        self.peers.remove(&connection);
    }

    pub(in crate::proxy) fn sample(&self, is_last: bool, log: &mut Log) {
        for (&connection, peer) in &self.peers {
            if let Some(path) = self.engine.path(connection) {
                log.sample_quic(peer.number, is_last, path, &self.socket);
            }
        }
    }

    /// Says goodbye to everybody.
    pub(in crate::proxy) fn end(&mut self, log: &mut Log) {
        if log.wants_sockets() {
            self.sample(true, log);
        }
        let connections: Vec<u32> = self.peers.keys().copied().collect();
        for connection in connections {
            self.engine.close(connection, h3::code::NO_ERROR);
        }
        while self.write(log, &mut Vec::new()) {}
    }
}

impl Peer {
    fn hand_over(
        &self,
        connection: u32,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut Log,
        arrived: &mut Vec<Arrived>,
    ) {
        if !inbox.frames.is_empty() {
            log.frames(self.number, clock::now(), &inbox.frames);
        }
        if !inbox.events.is_empty() {
            arrived.push(Arrived {
                connection,
                events: std::mem::take(&mut inbox.events),
                bodies: std::mem::take(&mut inbox.bodies),
                trailers: std::mem::take(&mut inbox.trailers),
            });
        }
        inbox.clear();
    }

    /// Counts the handshake when it is done: when the first request can come.
    fn note_established(&mut self, connection: u32, engine: &mut h3::Server, log: &mut Log) {
        log.keys(engine.take_key_log(connection));
        if self.is_counted || !engine.is_established(connection) {
            return;
        }
        self.is_counted = true;
        let counts = &mut log.counts;
        let protocol = Protocol::H3.to_string();
        *counts.protocols.entry(protocol).or_default() += 1;
        if engine.is_resumed(connection) {
            counts.tls_resumed += 1;
        } else {
            counts.tls_full += 1;
        }
    }
}
