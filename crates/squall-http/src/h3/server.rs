//! An HTTP/3 server on one UDP socket, with all its connections.
//!
//! Connections are numbered from 0 in the order in which they are accepted. Addresses are not validated with Retry: an
//! emulated link has no forged ones, and QUIC's limit of three times the received bytes applies until the handshake has
//! validated the address (RFC 9000, section 8.1). A datagram that neither belongs to a connection nor can begin one
//! leaves no state behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use quiche::{ConnectionId, Header, Type};
use squall_base::Duration;
use squall_base::plan::{Http3Settings, TlsSettings};
use squall_base::record::QuicPath;

use super::accepted::AcceptedConnection;
use super::client::{path, until};
use super::connection::Connection;
use super::inbound::Role;
use super::security::{ConnectionIds, ID_BYTES, SetupError, server_config};
use super::{Announcements, Batch, CloseReason, key_lines};
use crate::engine::{ConnectionStreams, ServerStreams};
use crate::event::ServerEvent;
use crate::inbox::Inbox;
use crate::tls::Identity;

/// Minimum length of a datagram with a client's first packet (RFC 9000, section 14.1).
const MIN_INITIAL_BYTES: usize = 1_200;

/// Limit on connections, more than one machine emulates.
const MAX_CONNECTIONS: usize = 65_536;

/// How many version negotiations may be queued.
const MAX_NEGOTIATIONS: usize = 16;

/// What produced a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSource {
    /// A connection, by its number.
    Connection(u32),
    /// The endpoint itself: a version negotiation.
    Endpoint,
}

/// A connection that is gone; all its exchanges in flight are lost.
#[derive(Clone, Debug)]
pub struct EndedConnection {
    /// Its number.
    pub connection: u32,
    /// Why it ended.
    pub closing: CloseReason,
    /// Its final path statistics from quiche.
    pub path: QuicPath,
    /// The settings that both sides announced, and counts of GOAWAYs and resets.
    pub announced: Announcements,
}

/// The server's side of all connections on a socket.
pub struct Server {
    config: quiche::Config,
    settings: Http3Settings,
    ids: ConnectionIds,
    is_manual: bool,
    next_number: u32,
    connections: BTreeMap<u32, Slot>,
    /// Connections by the ids with which clients address them.
    routes: BTreeMap<Vec<u8>, u32>,
    /// When each connection next has something to do.
    timers: BTreeSet<(Instant, u32)>,
    /// Connections that may have output.
    busy: VecDeque<u32>,
    /// Queued version negotiations.
    negotiations: VecDeque<VersionNegotiation>,
    ended: VecDeque<EndedConnection>,
}

struct Slot {
    accepted: AcceptedConnection,
    /// The ids in `routes` that lead to it.
    ids: [Vec<u8>; 2],
    timer: Option<Instant>,
    is_busy: bool,
}

struct VersionNegotiation {
    datagram: Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
}

impl Server {
    /// A server without connections, whose connection ids are derived from `seed`.
    pub fn new(
        settings: &Http3Settings,
        tls: &TlsSettings,
        identity: &Identity,
        seed: u64,
    ) -> Result<Server, SetupError> {
        Ok(Server {
            config: server_config(settings, tls, identity)?,
            settings: *settings,
            ids: ConnectionIds::new(seed),
            is_manual: false,
            next_number: 0,
            connections: BTreeMap::new(),
            routes: BTreeMap::new(),
            timers: BTreeSet::new(),
            busy: VecDeque::new(),
            negotiations: VecDeque::new(),
            ended: VecDeque::new(),
        })
    }

    /// Takes a datagram that was sent from `from` to `to`, and decrypts it in place. Returns the number of its
    /// connection; a number not seen before is a new connection.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Option<u32> {
        let header = Header::from_slice(datagram, ID_BYTES).ok()?;
        let number = match self.routes.get(header.dcid.as_ref()) {
            Some(number) => *number,
            None => self.accept(&header, datagram.len(), from, to)?,
        };
        let slot = self.connections.get_mut(&number)?;
        slot.accepted.receive(datagram, from, to, inbox);
        self.settle(number);
        Some(number)
    }

    /// Fills `batch` with one connection's output and returns what produced it; `None` if there is no output now. The
    /// marks in `inbox` belong to the batch: their time is when it leaves, [`Batch::delay`] after `now`. `inbox` may
    /// also hold other events of that connection, such as more of a body after a call of `consume`; then the batch may
    /// be empty.
    pub fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Option<BatchSource> {
        if let Some(negotiation) = self.negotiations.pop_front() {
            batch.hold(&negotiation.datagram, negotiation.from, negotiation.to);
            return Some(BatchSource::Endpoint);
        }
        while let Some(number) = self.busy.pop_front() {
            let Some(slot) = self.connections.get_mut(&number) else {
                continue;
            };
            slot.is_busy = false;
            let known = (inbox.events.len(), inbox.frames.len());
            let has_output = slot.accepted.output(now, batch, inbox);
            let has_events = known != (inbox.events.len(), inbox.frames.len());
            if has_output {
                slot.is_busy = true;
                self.busy.push_back(number);
            }
            self.update_timer(number);
            if has_output || has_events {
                return Some(BatchSource::Connection(number));
            }
        }
        None
    }

    /// How long after `now` to call [`Server::on_timeout`] and then [`Server::output`].
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.timers.first().map(|(at, _)| until(*at, now))
    }

    /// Serves one connection whose timer has expired and returns its number; call it until it returns `None`.
    pub fn on_timeout(&mut self, now: Instant) -> Option<u32> {
        let (at, number) = *self.timers.first()?;
        if at > now {
            return None;
        }
        let slot = self.connections.get_mut(&number)?;
        slot.accepted.connection.on_timeout(now);
        self.settle(number);
        Some(number)
    }

    /// The next connection that is gone. Call this after every other call.
    pub fn take_ended(&mut self) -> Option<EndedConnection> {
        self.ended.pop_front()
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The streams of a connection, which then gets a turn in [`Server::output`].
    pub fn streams(&mut self, connection: u32) -> ServerStreams<'_> {
        self.mark_busy(connection);
        (self.connections.get_mut(&connection)).map_or(ConnectionStreams::None, |slot| {
            ConnectionStreams::H3(&mut slot.accepted)
        })
    }

    /// Makes new connections read bodies at most 64 KiB ahead of [`crate::StreamIo::consume`]. Unread bytes stay in the
    /// client's window.
    pub fn set_manual_consumption(&mut self) {
        self.is_manual = true;
    }

    /// Sends GOAWAY: requests that have not arrived yet are not served on this connection.
    pub fn go_away(&mut self, connection: u32) {
        self.change(connection, AcceptedConnection::go_away);
    }

    /// Ends a connection with an HTTP/3 code, [`super::code::NO_ERROR`] if there is no error.
    pub fn close(&mut self, connection: u32, code: u64) {
        self.change(connection, |accepted| accepted.connection.close(code, ""));
    }

    /// Lines of a connection's key log since the last call.
    pub fn take_key_log(&mut self, connection: u32) -> Vec<String> {
        self.find(connection).map_or_else(Vec::new, |accepted| {
            key_lines(&accepted.connection.take_key_log())
        })
    }

    /// Whether a connection's handshake is complete.
    pub fn is_established(&self, connection: u32) -> bool {
        self.find(connection)
            .is_some_and(|accepted| accepted.connection.quic().is_established())
    }

    /// Whether a connection's handshake resumed an earlier session.
    pub fn is_resumed(&self, connection: u32) -> bool {
        self.find(connection)
            .is_some_and(|accepted| accepted.connection.quic().is_resumed())
    }

    /// A connection's path statistics from quiche; `None` if it is gone.
    pub fn path(&self, connection: u32) -> Option<QuicPath> {
        self.find(connection)
            .map(|accepted| path(&accepted.connection))
    }

    /// The settings that both sides of a connection announced, and counts of GOAWAYs and resets; `None` if it is gone.
    pub fn announced(&self, connection: u32) -> Option<Announcements> {
        self.find(connection)
            .map(|accepted| accepted.connection.announced())
    }

    /// How many bytes of responses a connection's windows have let through; 0 if it is gone.
    pub fn sent_bytes(&self, connection: u32) -> u64 {
        self.find(connection)
            .map_or(0, |accepted| accepted.connection.sent_bytes())
    }

    fn find(&self, connection: u32) -> Option<&AcceptedConnection> {
        self.connections.get(&connection).map(|slot| &slot.accepted)
    }

    fn change(&mut self, connection: u32, change: impl FnOnce(&mut AcceptedConnection)) {
        if let Some(slot) = self.connections.get_mut(&connection) {
            change(&mut slot.accepted);
            self.mark_busy(connection);
        }
    }

    /// Accepts a connection from a client's first packet, or answers one of another version.
    fn accept(
        &mut self,
        header: &Header<'_>,
        len: usize,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<u32> {
        if len < MIN_INITIAL_BYTES || matches!(header.ty, Type::Short | Type::VersionNegotiation) {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            self.negotiate_version(header, from, to);
            return None;
        }
        if header.ty != Type::Initial || self.connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        let id = self.ids.next();
        let scid = ConnectionId::from_ref(&id);
        let conn = quiche::accept_with_buf_factory(&scid, None, to, from, &mut self.config).ok()?;
        let mut connection = Connection::new(conn, Role::Server, &self.settings);
        if self.is_manual {
            connection.set_manual_consumption();
        }
        let number = self.next_number;
        self.next_number += 1;
        // Until it hears from us, the client uses an id that it chose itself.
        let ids = [id.to_vec(), header.dcid.to_vec()];
        for id in &ids {
            self.routes.insert(id.clone(), number);
        }
        self.connections.insert(
            number,
            Slot {
                accepted: AcceptedConnection::new(connection),
                ids,
                timer: None,
                is_busy: false,
            },
        );
        Some(number)
    }

    fn negotiate_version(&mut self, header: &Header<'_>, from: SocketAddr, to: SocketAddr) {
        if self.negotiations.len() >= MAX_NEGOTIATIONS {
            return;
        }
        let mut datagram = vec![0; MIN_INITIAL_BYTES];
        if let Ok(len) = quiche::negotiate_version(&header.scid, &header.dcid, &mut datagram) {
            datagram.truncate(len);
            // The reply goes in the opposite direction.
            self.negotiations.push_back(VersionNegotiation {
                datagram,
                from: to,
                to: from,
            });
        }
    }

    /// Updates a connection after something happened to it.
    fn settle(&mut self, number: u32) {
        self.mark_busy(number);
        self.update_timer(number);
    }

    /// Queues a connection that may have output.
    fn mark_busy(&mut self, number: u32) {
        if let Some(slot) = self.connections.get_mut(&number)
            && !slot.is_busy
        {
            slot.is_busy = true;
            self.busy.push_back(number);
        }
    }

    /// Resets a connection's timer, or removes the connection if it is over.
    fn update_timer(&mut self, number: u32) {
        let Some(slot) = self.connections.get_mut(&number) else {
            return;
        };
        let is_closed = slot.accepted.connection.quic().is_closed();
        let timer = slot.accepted.connection.next_timer().filter(|_| !is_closed);
        if timer != slot.timer {
            if let Some(at) = slot.timer.take() {
                self.timers.remove(&(at, number));
            }
            if let Some(at) = timer {
                self.timers.insert((at, number));
            }
            slot.timer = timer;
        }
        if is_closed && let Some(slot) = self.connections.remove(&number) {
            for id in &slot.ids {
                self.routes.remove(id);
            }
            let connection = slot.accepted.connection;
            if let Some(closing) = connection.closing() {
                self.ended.push_back(EndedConnection {
                    connection: number,
                    closing,
                    path: path(&connection),
                    announced: connection.announced(),
                });
            }
        }
    }
}
