//! The proxy's part of a listener for HTTP/3: the exchanges on each of its connections, and what waits there.
//!
//! `accept::quic` moves the datagrams; `relay` interprets the events.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use squall_base::{Duration, Time};
use squall_http::h3;
use squall_http::{Inbox, ServerEvent, StreamId};
use squall_linux::clock;

use super::open::OpenExchanges;
use crate::Buffers;
use crate::accept::{Handshake, QuicEndpoint};
use crate::log::StationLog;
use crate::memory::HeldMemory;
use crate::proxy::keys::ExchangeKey;

/// A listener for HTTP/3.
pub(in crate::proxy) struct QuicFront {
    endpoint: QuicEndpoint,
    peers: BTreeMap<u32, Peer>,
    pub(in crate::proxy) is_dirty: bool,
}

/// The proxy's part of a connection's state; the engine has the other.
struct Peer {
    /// The connection's number in the records.
    number: u32,
    address: SocketAddr,
    open: OpenExchanges,
    handshake: Handshake,
    /// When a request or a response last made progress.
    last_progress: Time,
    /// Bytes of the connection's requests that wait for upstreams.
    backlog_bytes: usize,
    /// What the connection held when it was last counted, including what its engine held.
    held_bytes: usize,
    /// The connection was closed because of what it held. The engine still has it for a while.
    is_given_up: bool,
}

/// A connection, and the events on it from one received datagram or during one write.
pub(in crate::proxy) type ConnectionEvents = (u32, Inbox<ServerEvent>);

impl QuicFront {
    pub(in crate::proxy) fn new(endpoint: QuicEndpoint) -> QuicFront {
        QuicFront {
            endpoint,
            peers: BTreeMap::new(),
            is_dirty: false,
        }
    }

    pub(in crate::proxy) fn local_address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// When the listener's next timer is due.
    pub(in crate::proxy) fn deadline(&self) -> Option<Time> {
        self.endpoint.deadline()
    }

    pub(in crate::proxy) fn engine(&mut self) -> &mut h3::Server {
        &mut self.endpoint.engine
    }

    pub(in crate::proxy) fn open(&mut self, connection: u32) -> Option<&mut OpenExchanges> {
        self.peers.get_mut(&connection).map(|peer| &mut peer.open)
    }

    pub(in crate::proxy) fn number(&self, connection: u32) -> u32 {
        self.peers.get(&connection).map_or(0, |peer| peer.number)
    }

    pub(in crate::proxy) fn address(&self, connection: u32) -> Option<SocketAddr> {
        self.peers.get(&connection).map(|peer| peer.address)
    }

    /// Connections with responses that wait for room.
    pub(in crate::proxy) fn blocked_connections(&self) -> Vec<u32> {
        let blocked = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.open.blocked.is_empty());
        blocked.map(|(connection, _)| *connection).collect()
    }

    /// Reads what has arrived, up to one batch of the socket; false once there is nothing more.
    pub(in crate::proxy) fn read(
        &mut self,
        buffers: &mut Buffers,
        log: &mut StationLog,
        memory: &mut HeldMemory,
        accepted: &mut u32,
        arrived: &mut Vec<ConnectionEvents>,
    ) -> bool {
        let QuicFront {
            endpoint, peers, ..
        } = self;
        endpoint.read(buffers, |engine, (connection, address), inbox| {
            let peer = peers.entry(connection).or_insert_with(|| {
                log.counts.quic_connections += 1;
                let number = *accepted;
                *accepted = accepted.wrapping_add(1);
                Peer {
                    number,
                    address,
                    open: OpenExchanges::default(),
                    handshake: Handshake::default(),
                    last_progress: clock::now(),
                    backlog_bytes: 0,
                    held_bytes: 0,
                    is_given_up: false,
                }
            });
            peer.handshake.note(connection, engine, log);
            peer.collect_events(connection, inbox, log, arrived);
            peer.count_held(connection, engine, memory);
        })
    }

    /// Runs the timers that are due.
    pub(in crate::proxy) fn run_timers(&mut self) {
        self.endpoint.run_timers();
    }

    /// Writes one batch, and reports the events and marks that came with it; false if nothing more can be done now.
    pub(in crate::proxy) fn write(
        &mut self,
        log: &mut StationLog,
        memory: &mut HeldMemory,
        arrived: &mut Vec<ConnectionEvents>,
    ) -> bool {
        let QuicFront {
            endpoint, peers, ..
        } = self;
        endpoint.write(|engine, connection, inbox| {
            if let Some(peer) = peers.get_mut(&connection) {
                peer.collect_events(connection, inbox, log, arrived);
                peer.count_held(connection, engine, memory);
            }
        })
    }

    /// Takes what is open on a connection that is gone. Call [`QuicFront::remove`] afterwards.
    pub(in crate::proxy) fn take_ended(
        &mut self,
        log: &mut StationLog,
    ) -> Option<(u32, Vec<(StreamId, ExchangeKey)>)> {
        loop {
            let ended = self.endpoint.engine.take_ended()?;
            if let Some(peer) = self.peers.get_mut(&ended.connection) {
                let open = peer.open.streams.drain().collect();
                self.endpoint.record_ended(&ended, peer.number, log);
                return Some((ended.connection, open));
            }
        }
    }

    /// Forgets a connection.
    pub(in crate::proxy) fn remove(&mut self, connection: u32, memory: &mut HeldMemory) {
        if let Some(mut peer) = self.peers.remove(&connection) {
            memory.update(&mut peer.held_bytes, 0);
        }
    }

    /// Sets whether memory is scarce: then the engine reads less ahead, and buffers less of each response.
    pub(in crate::proxy) fn set_scarce(&mut self, is_scarce: bool) {
        self.endpoint.engine.set_scarce(is_scarce);
    }

    /// Counts what a connection holds now.
    pub(in crate::proxy) fn count_held(&mut self, connection: u32, memory: &mut HeldMemory) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.count_held(connection, &self.endpoint.engine, memory);
        }
    }

    /// How many bytes of a connection's requests wait for upstreams.
    pub(in crate::proxy) fn backlog_bytes(&self, connection: u32) -> usize {
        (self.peers.get(&connection)).map_or(0, |peer| peer.backlog_bytes)
    }

    /// Changes how many bytes of a connection's requests wait for upstreams.
    pub(in crate::proxy) fn update_backlog(
        &mut self,
        connection: u32,
        memory: &mut HeldMemory,
        change: impl FnOnce(usize) -> usize,
    ) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.backlog_bytes = change(peer.backlog_bytes);
            peer.count_held(connection, &self.endpoint.engine, memory);
        }
    }

    /// The connections that hold something, and how many bytes that is.
    pub(in crate::proxy) fn held(&self) -> impl Iterator<Item = (u32, usize)> {
        let peers = self.peers.iter().filter(|(_, peer)| peer.held_bytes > 0);
        peers.map(|(connection, peer)| (*connection, peer.held_bytes))
    }

    /// Closes a connection because of what it holds, and takes what is open on it. The engine forgets it later.
    pub(in crate::proxy) fn give_up(
        &mut self,
        connection: u32,
        memory: &mut HeldMemory,
    ) -> Vec<(StreamId, ExchangeKey)> {
        let engine = &mut self.endpoint.engine;
        engine.close(connection, h3::code::EXCESSIVE_LOAD);
        let Some(peer) = self.peers.get_mut(&connection) else {
            return Vec::new();
        };
        peer.is_given_up = true;
        peer.count_held(connection, engine, memory);
        peer.open.streams.drain().collect()
    }

    /// Closes the connections that had no request for `idle`, whatever else their clients send. Returns whether that
    /// left something to write.
    pub(in crate::proxy) fn sweep(&mut self, now: Time, idle: Duration) -> bool {
        let mut has_idle = false;
        for (&connection, peer) in &self.peers {
            if peer.open.streams.is_empty() && peer.last_progress + idle <= now {
                self.endpoint.engine.close(connection, h3::code::NO_ERROR);
                has_idle = true;
            }
        }
        has_idle
    }

    pub(in crate::proxy) fn sample(&self, log: &mut StationLog) {
        for (&connection, peer) in &self.peers {
            self.endpoint.sample(connection, peer.number, false, log);
        }
    }

    /// Closes all connections with CONNECTION_CLOSE.
    pub(in crate::proxy) fn end(&mut self, log: &mut StationLog) {
        for &connection in self.peers.keys() {
            self.endpoint.engine.close(connection, h3::code::NO_ERROR);
        }
        // From here on, held bytes need not be counted.
        let mut memory = HeldMemory::default();
        while self.write(log, &mut memory, &mut Vec::new()) {}
        for (&connection, peer) in &self.peers {
            self.endpoint.record_open(connection, peer.number, log);
        }
    }
}

impl Peer {
    /// Counts what the connection holds now.
    fn count_held(&mut self, connection: u32, engine: &h3::Server, memory: &mut HeldMemory) {
        let holds = if self.is_given_up {
            0
        } else {
            self.backlog_bytes + engine.held_bytes(connection)
        };
        memory.update(&mut self.held_bytes, holds);
    }

    fn collect_events(
        &mut self,
        connection: u32,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut StationLog,
        arrived: &mut Vec<ConnectionEvents>,
    ) {
        if !inbox.frames.is_empty() {
            log.record_frames(self.number, clock::now(), &inbox.frames);
        }
        if !inbox.events.is_empty() {
            self.last_progress = clock::now();
            let next = Inbox::new(inbox.wants());
            arrived.push((connection, std::mem::replace(inbox, next)));
        }
        inbox.clear();
    }
}
