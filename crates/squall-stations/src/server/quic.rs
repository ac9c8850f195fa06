//! HTTP/3: one UDP socket with all its connections, and the exchanges on each.
//!
//! The engine numbers its connections from 0; the records use these numbers, as they use the server's for TCP.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use squall_base::plan::Protocol;
use squall_base::{Duration, Time};
use squall_http::h3;
use squall_http::{Inbox, ServerEvent, StreamIo};
use squall_linux::clock;

use super::exchanges::{ExchangeOwner, ServerExchanges, Service};
use crate::Buffers;
use crate::accept::{Handshake, QuicEndpoint};

/// How often a turn asks the socket for datagrams before others get their turn. Each time brings up to 16 reads, each of one
/// datagram or of several that the kernel has joined, up to 64 KiB.
const CALLS_A_TURN: usize = 4;

pub(super) struct QuicListener {
    endpoint: QuicEndpoint,
    peers: BTreeMap<u32, QuicPeer>,
    /// The last turn may have left datagrams, which the kernel does not report again.
    has_unread: bool,
}

/// The server's part of a connection's state; the engine has the other.
struct QuicPeer {
    address: SocketAddr,
    exchanges: ServerExchanges,
    handshake: Handshake,
    /// When a request began or ended, or a part of a body moved.
    last_progress: Time,
    /// Bytes of responses that the client's windows had let through at the last check.
    sent_bytes: u64,
    /// What the connection held when it was last counted.
    held_bytes: usize,
    /// The connection was closed because of what it held. The engine still has it for a while.
    is_given_up: bool,
}

impl QuicListener {
    pub(super) fn new(endpoint: QuicEndpoint) -> QuicListener {
        QuicListener {
            endpoint,
            peers: BTreeMap::new(),
            has_unread: false,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// Whether the last turn may have left datagrams.
    #[cfg(test)]
    pub(super) fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// When the listener's next timer or its next turn is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.has_unread {
            return Some(Time::ZERO);
        }
        let answers = self.peers.values().filter_map(|p| p.exchanges.next_due());
        answers.chain(self.endpoint.deadline()).min()
    }

    /// Reads, responds and writes as far as possible.
    pub(super) fn serve(&mut self, buffers: &mut Buffers, service: &mut Service) {
        (self.endpoint.engine).set_scarce(service.memory.is_scarce());
        self.read(buffers, service);
        self.endpoint.run_timers();
        self.respond_delayed(service);
        self.write(service);
        self.remove_ended(service);
    }

    fn read(&mut self, buffers: &mut Buffers, service: &mut Service) {
        let QuicListener {
            endpoint,
            peers,
            has_unread,
        } = self;
        for _ in 0..CALLS_A_TURN {
            let now = clock::now();
            *has_unread = endpoint.read(buffers, |engine, (connection, address), inbox| {
                let peer = peers.entry(connection).or_insert_with(|| {
                    service.log.counts.quic_connections += 1;
                    QuicPeer {
                        address,
                        exchanges: ServerExchanges::default(),
                        handshake: Handshake::default(),
                        last_progress: now,
                        sent_bytes: 0,
                        held_bytes: 0,
                        is_given_up: false,
                    }
                });
                peer.handshake.note(connection, engine, &mut service.log);
                peer.apply(connection, engine, inbox, now, service);
                peer.count_held(connection, engine, service);
            });
            if !*has_unread {
                return;
            }
        }
    }

    fn respond_delayed(&mut self, service: &mut Service) {
        let now = clock::now();
        for (&connection, peer) in &mut self.peers {
            if peer.exchanges.next_due().is_some_and(|due| due <= now) {
                let mut streams = self.endpoint.engine.streams(connection);
                peer.exchanges.respond_delayed(now, &mut streams);
                peer.count_held(connection, &self.endpoint.engine, service);
            }
        }
    }

    /// Writes to the socket, and queues more of the responses as room is made.
    fn write(&mut self, service: &mut Service) {
        let QuicListener {
            endpoint, peers, ..
        } = self;
        let mut more = true;
        while more {
            more = endpoint.write(|engine, connection, inbox| {
                if let Some(peer) = peers.get_mut(&connection) {
                    peer.apply(connection, engine, inbox, clock::now(), service);
                    peer.exchanges.stream(&mut engine.streams(connection));
                    peer.count_held(connection, engine, service);
                }
            });
        }
    }

    /// Forgets connections that are gone.
    fn remove_ended(&mut self, service: &mut Service) {
        while let Some(ended) = self.endpoint.engine.take_ended() {
            if let Some(mut peer) = self.peers.remove(&ended.connection) {
                let number = ended.connection;
                self.endpoint.record_ended(&ended, number, &mut service.log);
                let owner = peer.owner(number);
                peer.exchanges.abandon(clock::now(), owner, service);
                service.memory.update(&mut peer.held_bytes, 0);
            }
        }
    }

    /// The connection that holds the most, if any holds something, and how many bytes that is.
    pub(super) fn largest(&self) -> Option<(u32, usize)> {
        let held = self
            .peers
            .iter()
            .map(|(number, peer)| (*number, peer.held_bytes));
        held.filter(|(_, bytes)| *bytes > 0)
            .max_by_key(|(_, bytes)| *bytes)
    }

    /// Closes a connection because of what it holds.
    pub(super) fn give_up(&mut self, connection: u32, service: &mut Service) {
        let engine = &mut self.endpoint.engine;
        engine.close(connection, h3::code::EXCESSIVE_LOAD);
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.is_given_up = true;
            let owner = peer.owner(connection);
            peer.exchanges.abandon(clock::now(), owner, service);
            peer.count_held(connection, engine, service);
        }
        self.write(service);
        self.remove_ended(service);
    }

    /// Resets the requests whose heads take too long, and closes the connections that made no progress for `timeout`,
    /// whatever else their clients send.
    pub(super) fn sweep(&mut self, now: Time, timeout: Duration, service: &mut Service) {
        let engine = &mut self.endpoint.engine;
        let mut has_ended = false;
        for (&connection, peer) in &mut self.peers {
            let owner = peer.owner(connection);
            for stream in peer.exchanges.slow_heads(now) {
                let code = h3::code::REQUEST_REJECTED;
                engine.streams(connection).reset(stream, code);
                (peer.exchanges).give_up(stream, code, now, owner, service);
                has_ended = true;
            }
            let sent_bytes = engine.sent_bytes(connection);
            if sent_bytes != peer.sent_bytes {
                (peer.sent_bytes, peer.last_progress) = (sent_bytes, now);
            }
            if peer.exchanges.next_due().is_none() && peer.last_progress + timeout <= now {
                engine.close(connection, h3::code::NO_ERROR);
                has_ended = true;
            }
        }
        if has_ended {
            self.write(service);
            self.remove_ended(service);
        }
    }

    pub(super) fn sample(&self, service: &mut Service) {
        for &connection in self.peers.keys() {
            self.endpoint
                .sample(connection, connection, false, &mut service.log);
        }
    }

    /// Closes all connections with CONNECTION_CLOSE, and records what was open.
    pub(super) fn end(&mut self, service: &mut Service) {
        for &connection in self.peers.keys() {
            self.endpoint.engine.close(connection, h3::code::NO_ERROR);
        }
        self.write(service);
        self.remove_ended(service);
        for (&connection, peer) in &mut self.peers {
            self.endpoint
                .record_open(connection, connection, &mut service.log);
            let owner = peer.owner(connection);
            peer.exchanges.abandon(clock::now(), owner, service);
        }
    }
}

impl QuicPeer {
    /// Counts what the connection holds now: heads of requests, echoes, and responses that wait for the client's windows.
    fn count_held(&mut self, connection: u32, engine: &h3::Server, service: &mut Service) {
        let holds = if self.is_given_up {
            0
        } else {
            self.exchanges.held_bytes() + engine.held_bytes(connection)
        };
        service.memory.update(&mut self.held_bytes, holds);
    }

    fn owner(&self, connection: u32) -> ExchangeOwner {
        ExchangeOwner {
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
        service: &mut Service,
    ) {
        if !inbox.events.is_empty() {
            self.last_progress = now;
        }
        let owner = self.owner(connection);
        // frames.parquet records which packets carried which bytes of a stream.
        let answers = self
            .exchanges
            .apply(inbox, now, owner, |_, _| None, service);
        (self.exchanges).respond(answers, now, &mut engine.streams(connection));
    }
}
