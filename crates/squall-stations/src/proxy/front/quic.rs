//! HTTP/3 of the clients: one UDP socket with all its connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use squall_base::plan::SideSettings;
use squall_base::{Duration, Time};
use squall_http::h3;
use squall_http::tls::Identity;
use squall_http::{Field, Inbox, ServerEvent, StreamId, Streams, Wants};
use squall_linux::clock;
use squall_linux::reactor::Reactor;

use crate::Buffers;
use crate::error::StationError;
use crate::log::Log;
use crate::proxy::exchange::Key;
use crate::quic::{Handshake, QuicEndpoint};

/// A listener for HTTP/3.
pub(in crate::proxy) struct QuicFront {
    endpoint: QuicEndpoint,
    peers: BTreeMap<u32, Peer>,
    pub(in crate::proxy) is_dirty: bool,
}

/// What there is of a connection besides the engine's part.
struct Peer {
    /// Its number in the records.
    number: u32,
    address: SocketAddr,
    streams: Streams<StreamId, Key>,
    blocked: Vec<Key>,
    handshake: Handshake,
    /// When a request or an answer last got on.
    last_progress: Time,
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
        Ok(QuicFront {
            endpoint: QuicEndpoint::bind(address, identity, side, seed, wants)?,
            peers: BTreeMap::new(),
            is_dirty: false,
        })
    }

    pub(in crate::proxy) fn watch(
        &self,
        reactor: &Reactor,
        token: u64,
    ) -> Result<(), StationError> {
        self.endpoint.watch(reactor, token)
    }

    pub(in crate::proxy) fn local_address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// When it has something to do by itself.
    pub(in crate::proxy) fn deadline(&self) -> Option<Time> {
        self.endpoint.deadline()
    }

    pub(in crate::proxy) fn engine(&mut self) -> &mut h3::Server {
        &mut self.endpoint.engine
    }

    pub(in crate::proxy) fn streams(
        &mut self,
        connection: u32,
    ) -> Option<&mut Streams<StreamId, Key>> {
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
                    streams: Streams::default(),
                    blocked: Vec::new(),
                    handshake: Handshake::default(),
                    last_progress: clock::now(),
                }
            });
            peer.handshake.note(connection, engine, log);
            peer.hand_over(connection, inbox, log, arrived);
        })
    }

    /// Does what its timers call for.
    pub(in crate::proxy) fn on_time(&mut self) {
        self.endpoint.on_time();
    }

    /// Writes one batch, and tells what was heard and marked with it; false if nothing more can be done now.
    pub(in crate::proxy) fn write(&mut self, log: &mut Log, arrived: &mut Vec<Arrived>) -> bool {
        let QuicFront {
            endpoint, peers, ..
        } = self;
        endpoint.write(|_, connection, inbox| {
            if let Some(peer) = peers.get_mut(&connection) {
                peer.hand_over(connection, inbox, log, arrived);
            }
        })
    }

    /// Takes what is open on a connection that is gone; [`QuicFront::bury`] it then.
    pub(in crate::proxy) fn take_gone(
        &mut self,
        log: &mut Log,
    ) -> Option<(u32, Vec<(StreamId, Key)>)> {
        loop {
            let ended = self.endpoint.engine.take_ended()?;
            if let Some(peer) = self.peers.get_mut(&ended.connection) {
                let open = peer.streams.drain().collect();
                self.endpoint.record_ended(&ended, peer.number, log);
                return Some((ended.connection, open));
            }
        }
    }

    /// Forgets a connection.
    pub(in crate::proxy) fn bury(&mut self, connection: u32) {
        self.peers.remove(&connection);
    }

    /// Ends the connections on which nothing was asked for so long, whatever their clients say beside it. Gives whether
    /// there is something to write for it.
    pub(in crate::proxy) fn sweep(&mut self, now: Time, idle: Duration) -> bool {
        let mut has_idle = false;
        for (&connection, peer) in &self.peers {
            if peer.streams.is_empty() && peer.last_progress + idle <= now {
                self.endpoint.engine.close(connection, h3::code::NO_ERROR);
                has_idle = true;
            }
        }
        has_idle
    }

    pub(in crate::proxy) fn sample(&self, log: &mut Log) {
        for (&connection, peer) in &self.peers {
            self.endpoint.sample(connection, peer.number, false, log);
        }
    }

    /// Says goodbye to everybody.
    pub(in crate::proxy) fn end(&mut self, log: &mut Log) {
        for &connection in self.peers.keys() {
            self.endpoint.engine.close(connection, h3::code::NO_ERROR);
        }
        while self.write(log, &mut Vec::new()) {}
        for (&connection, peer) in &self.peers {
            self.endpoint.record_open(connection, peer.number, log);
        }
    }
}

impl Peer {
    fn hand_over(
        &mut self,
        connection: u32,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut Log,
        arrived: &mut Vec<Arrived>,
    ) {
        if !inbox.frames.is_empty() {
            log.frames(self.number, clock::now(), &inbox.frames);
        }
        if !inbox.events.is_empty() {
            self.last_progress = clock::now();
            arrived.push(Arrived {
                connection,
                events: std::mem::take(&mut inbox.events),
                bodies: std::mem::take(&mut inbox.bodies),
                trailers: std::mem::take(&mut inbox.trailers),
            });
        }
        inbox.clear();
    }
}
