//! HTTP/3: one UDP socket with all its connections, and the exchanges on each.
//!
//! Connections are numbered from 0 by the engine; in the records they are the server's own, like those of TCP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use squall_base::plan::{Protocol, SideSettings};
use squall_base::{Duration, Time};
use squall_http::h3;
use squall_http::tls::Identity;
use squall_http::{Inbox, Response, ServerEvent, StreamId, Wants};
use squall_linux::clock;
use squall_linux::reactor::Reactor;

use super::exchanges::{Exchanges, Responder, Service, Whose};
use crate::Buffers;
use crate::error::StationError;
use crate::quic::{Handshake, QuicEndpoint};

pub(super) struct QuicListener {
    endpoint: QuicEndpoint,
    peers: BTreeMap<u32, QuicPeer>,
}

/// What there is of a connection besides the engine's part.
struct QuicPeer {
    address: SocketAddr,
    exchanges: Exchanges,
    handshake: Handshake,
    /// When a request began or ended, or a part of a body moved.
    last_progress: Time,
    /// Bytes of responses that its windows had let go when that was looked at last.
    sent_bytes: u64,
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
        Ok(QuicListener {
            endpoint: QuicEndpoint::bind(address, identity, side, seed, wants)?,
            peers: BTreeMap::new(),
        })
    }

    pub(super) fn watch(&self, reactor: &Reactor, token: u64) -> Result<(), StationError> {
        self.endpoint.watch(reactor, token)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// When it has something to do by itself.
    pub(super) fn deadline(&self) -> Option<Time> {
        let answers = self.peers.values().filter_map(|p| p.exchanges.next_due());
        answers.chain(self.endpoint.deadline()).min()
    }

    /// Reads, answers and writes as far as it goes.
    pub(super) fn serve(&mut self, buffers: &mut Buffers, service: &mut Service<'_>) {
        self.read(buffers, service);
        self.endpoint.on_time();
        self.answer_waiting();
        self.write(service);
        self.bury(service);
    }

    fn read(&mut self, buffers: &mut Buffers, service: &mut Service<'_>) {
        let QuicListener { endpoint, peers } = self;
        let mut more = true;
        while more {
            let now = clock::now();
            more = endpoint.read(buffers, |engine, (connection, address), inbox| {
                let peer = peers.entry(connection).or_insert_with(|| {
                    service.log.counts.quic_connections += 1;
                    QuicPeer {
                        address,
                        exchanges: Exchanges::default(),
                        handshake: Handshake::default(),
                        last_progress: now,
                        sent_bytes: 0,
                    }
                });
                peer.handshake.note(connection, engine, service.log);
                peer.apply(connection, engine, inbox, now, service);
            });
        }
    }

    fn answer_waiting(&mut self) {
        let now = clock::now();
        for (&connection, peer) in &mut self.peers {
            if peer.exchanges.next_due().is_some_and(|due| due <= now) {
                let engine = &mut self.endpoint.engine;
                peer.exchanges
                    .respond_waiting(now, &mut On { engine, connection });
            }
        }
    }

    /// Writes, and hands on what there is room for then.
    fn write(&mut self, service: &mut Service<'_>) {
        let QuicListener { endpoint, peers } = self;
        let mut more = true;
        while more {
            more = endpoint.write(|engine, connection, inbox| {
                if let Some(peer) = peers.get_mut(&connection) {
                    peer.apply(connection, engine, inbox, clock::now(), service);
                    peer.exchanges.stream(&mut On { engine, connection });
                }
            });
        }
    }

    /// Forgets connections that are gone.
    fn bury(&mut self, service: &mut Service<'_>) {
        while let Some(ended) = self.endpoint.engine.take_ended() {
            if let Some(mut peer) = self.peers.remove(&ended.connection) {
                let number = ended.connection;
                self.endpoint.record_ended(&ended, number, service.log);
                let whose = peer.whose(number);
                peer.exchanges.abandon(clock::now(), whose, service);
            }
        }
    }

    /// Ends the connections on which nothing has got on for so long, whatever their clients say beside it.
    pub(super) fn sweep(&mut self, now: Time, timeout: Duration, service: &mut Service<'_>) {
        let engine = &mut self.endpoint.engine;
        let mut has_idle = false;
        for (&connection, peer) in &mut self.peers {
            let sent_bytes = engine.sent_bytes(connection);
            if sent_bytes != peer.sent_bytes {
                (peer.sent_bytes, peer.last_progress) = (sent_bytes, now);
            }
            if peer.exchanges.next_due().is_none() && peer.last_progress + timeout <= now {
                engine.close(connection, h3::code::NO_ERROR);
                has_idle = true;
            }
        }
        if has_idle {
            self.write(service);
            self.bury(service);
        }
    }

    pub(super) fn sample(&self, service: &mut Service<'_>) {
        for &connection in self.peers.keys() {
            self.endpoint
                .sample(connection, connection, false, service.log);
        }
    }

    /// Says goodbye to everybody, and writes down what was open.
    pub(super) fn end(&mut self, service: &mut Service<'_>) {
        for &connection in self.peers.keys() {
            self.endpoint.engine.close(connection, h3::code::NO_ERROR);
        }
        self.write(service);
        self.bury(service);
        for (&connection, peer) in &mut self.peers {
            self.endpoint
                .record_open(connection, connection, service.log);
            let whose = peer.whose(connection);
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
        if !inbox.events.is_empty() {
            self.last_progress = now;
        }
        let whose = self.whose(connection);
        // frames.parquet says which packets carried which bytes of a stream.
        let answers = self
            .exchanges
            .apply(inbox, now, whose, |_, _| None, service);
        self.exchanges
            .respond(answers, now, &mut On { engine, connection });
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
