//! The upstream side: a connection pool for each upstream, and the exchanges that wait for a connection or are on one.
//!
//! It moves bytes and knows which stream belongs to which exchange. `relay` interprets events, `ends` handles failures.

use std::collections::VecDeque;

use squall_base::Time;
use squall_base::plan::{Connections, PoolSettings, Protocol, Version};
use squall_base::record::{Beginning, Side};
use squall_http::{
    ClientEvent, ConnectionError, Inbox, InboxOptions, StreamId, StreamIo, Streams, Trailers, h3,
};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_load::{ConnectionId, Pool};

use super::exchange::{ExchangeKey, RecordOwner};
use super::settings::{Balance, Failure};
use crate::Buffers;
use crate::client::transport::{Dial, IoOutcome, OpenError, Transport};
use crate::log::StationLog;

/// The proxy stops reading from an HTTP/1.1 upstream while more bytes than this wait for clients.
const HTTP1_BACKLOG_BYTES: usize = 64 * 1024;
/// The limit for HTTP/2 and HTTP/3. Windows stop such an upstream earlier, unless they are set to be larger.
const HTTP2_BACKLOG_BYTES: usize = 4 * 1024 * 1024;

/// One connection to one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackKey {
    pub(super) upstream: u32,
    pub(super) connection: ConnectionId,
}

/// A connection to an upstream.
pub(super) struct BackConnection {
    /// Its number in the records.
    pub(super) number: u32,
    pub(super) transport: Transport,
    opened: Time,
    connected: Option<Time>,
    secured: Option<Time>,
    protocol: Option<Protocol>,
    /// The exchange that it was opened for, until its request can be sent.
    pub(super) first: Option<ExchangeKey>,
    pub(super) streams: Streams<StreamId, ExchangeKey>,
    /// Exchanges whose requests wait for room.
    pub(super) blocked: Vec<ExchangeKey>,
    pub(super) backlog_bytes: usize,
    /// Requests that were submitted to it.
    pub(super) submitted: u64,
    pub(super) has_unread: bool,
    is_dirty: bool,
    /// An exchange on it was cancelled, for which HTTP/1.1 must close the connection.
    pub(super) is_given_up: bool,
}

/// The connections to one upstream, and the exchanges that wait for them.
pub(super) struct UpstreamPool {
    pub(super) policy: Pool,
    /// `None` for a connection that has ended.
    pub(super) connections: Vec<Option<Box<BackConnection>>>,
    pub(super) waiting: VecDeque<ExchangeKey>,
    is_changed: bool,
    /// Exchanges that wait here or are in flight.
    load: u32,
}

/// All connections to upstreams.
pub(super) struct Backs {
    pub(super) log: StationLog,
    pub(super) protocol: Protocol,
    pub(super) wants: InboxOptions,
    pub(super) pools: Vec<UpstreamPool>,
    changed: VecDeque<u32>,
    dirty: Vec<BackKey>,
    pub(super) pending_reads: Vec<BackKey>,
    balance: Balance,
    turn: usize,
    pub(super) opened: u32,
    streams_at_most: Option<u32>,
}

/// What a connection can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    Ready,
    Busy,
    /// It takes no new request, and finishes those it has.
    Draining,
    /// It is no longer usable.
    Over,
}

impl Backs {
    pub(super) fn new(
        log: StationLog,
        upstreams: usize,
        protocol: Protocol,
        (connections, pool): (Connections, PoolSettings),
        balance: Balance,
        seed: u64,
    ) -> Backs {
        let wants = InboxOptions {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        };
        let new_pool = |index: usize| UpstreamPool {
            policy: Pool::new(connections, pool, seed.wrapping_add(index as u64)),
            connections: Vec::new(),
            waiting: VecDeque::new(),
            is_changed: false,
            load: 0,
        };
        Backs {
            log,
            protocol,
            wants,
            pools: (0..upstreams).map(new_pool).collect(),
            changed: VecDeque::new(),
            dirty: Vec::new(),
            pending_reads: Vec::new(),
            balance,
            turn: 0,
            opened: 0,
            streams_at_most: pool.streams_at_most,
        }
    }

    /// Chooses the upstream for the next request.
    pub(super) fn choose(&mut self) -> u32 {
        let count = self.pools.len();
        let turn = self.turn;
        let next = match self.balance {
            Balance::RoundRobin => turn % count,
            Balance::LeastRequests => (0..count)
                .map(|step| (turn + step) % count)
                .min_by_key(|upstream| self.pools[*upstream].load)
                .unwrap_or(0),
        };
        self.turn = (next + 1) % count;
        next as u32
    }

    /// Queues an exchange for a connection to this upstream.
    pub(super) fn enqueue(&mut self, upstream: u32, key: ExchangeKey) {
        let pool = &mut self.pools[upstream as usize];
        pool.load += 1;
        pool.waiting.push_back(key);
        self.mark_changed(upstream);
    }

    /// Notes that an exchange has left the upstream.
    pub(super) fn leave(&mut self, upstream: u32) {
        let load = &mut self.pools[upstream as usize].load;
        *load = load.saturating_sub(1);
    }

    /// Notes a change that may let a waiting request for this upstream get a connection.
    pub(super) fn mark_changed(&mut self, upstream: u32) {
        let pool = &mut self.pools[upstream as usize];
        if !pool.waiting.is_empty() && !std::mem::replace(&mut pool.is_changed, true) {
            self.changed.push_back(upstream);
        }
    }

    pub(super) fn take_changed(&mut self) -> Option<u32> {
        let upstream = self.changed.pop_front()?;
        self.pools[upstream as usize].is_changed = false;
        Some(upstream)
    }

    pub(super) fn connection_mut(&mut self, at: BackKey) -> Option<&mut BackConnection> {
        let pool = self.pools.get_mut(at.upstream as usize)?;
        pool.connections
            .get_mut(at.connection.0 as usize)?
            .as_deref_mut()
    }

    /// Whether any connection is still being opened.
    pub(super) fn is_opening(&self) -> bool {
        let mut connections = self.connections();
        connections.any(|(_, connection)| !connection.is_established())
    }

    /// All connections that have not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = (BackKey, &BackConnection)> {
        (0..).zip(&self.pools).flat_map(|(upstream, pool)| {
            let connections = (0..).zip(&pool.connections);
            connections.filter_map(move |(id, connection)| {
                let connection = connection.as_deref()?;
                let connection_id = ConnectionId(id);
                let at = BackKey {
                    upstream,
                    connection: connection_id,
                };
                Some((at, connection))
            })
        })
    }

    /// Gives the connection a turn before the proxy sleeps, because it may have something to write.
    pub(super) fn touch(&mut self, at: BackKey) {
        if let Some(connection) = self.connection_mut(at)
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push(at);
        }
    }

    pub(super) fn take_dirty(&mut self) -> Option<BackKey> {
        let at = self.dirty.pop()?;
        if let Some(connection) = self.connection_mut(at) {
            connection.is_dirty = false;
        }
        Some(at)
    }

    /// Opens the connection that a pool decided to open.
    pub(super) fn open(
        &mut self,
        at: BackKey,
        dial: Dial<'_>,
        first: Option<ExchangeKey>,
    ) -> Result<(), OpenError> {
        let made = Transport::open(dial, self.wants);
        let pool = &mut self.pools[at.upstream as usize];
        let number = self.opened;
        self.opened += 1;
        match made {
            Ok(mut transport) => {
                transport.set_manual_consumption();
                pool.connections.push(Some(Box::new(BackConnection {
                    number,
                    transport,
                    opened: clock::now(),
                    connected: None,
                    secured: None,
                    protocol: None,
                    first,
                    streams: Streams::default(),
                    blocked: Vec::new(),
                    backlog_bytes: 0,
                    submitted: 0,
                    has_unread: false,
                    is_dirty: false,
                    is_given_up: false,
                })));
                self.touch(at);
                Ok(())
            }
            Err(error) => {
                pool.connections.push(None);
                pool.policy.closed(at.connection);
                Err(error)
            }
        }
    }

    /// Reports to the pool what a connection can do now.
    pub(super) fn settle(&mut self, at: BackKey) -> Option<Availability> {
        let streams_at_most = self.streams_at_most;
        let connection = self.connection_mut(at)?;
        let in_flight = connection.transport.in_flight() as u32;
        let availability = connection.availability(streams_at_most);
        let policy = &mut self.pools[at.upstream as usize].policy;
        match availability {
            Availability::Ready => policy.set_ready(at.connection, in_flight),
            Availability::Busy => policy.set_busy(at.connection),
            Availability::Draining | Availability::Over => policy.closed(at.connection),
        }
        self.mark_changed(at.upstream);
        Some(availability)
    }

    /// Whether a connection can take a request now, if only into the same write as the requests before it.
    pub(super) fn is_ready(&mut self, at: BackKey) -> bool {
        let connection = self.connection_mut(at);
        connection.is_some_and(|connection| {
            connection.transport.is_ready() || connection.transport.gather()
        })
    }

    /// After a request was submitted: offers the connection for another request, if that may share its write.
    pub(super) fn gather(&mut self, at: BackKey) {
        let streams_at_most = self.streams_at_most;
        let Some(connection) = self.connection_mut(at) else {
            return;
        };
        let may_gather =
            connection.has_free_stream(streams_at_most) && connection.transport.gather();
        let in_flight = connection.transport.in_flight() as u32;
        if may_gather {
            let policy = &mut self.pools[at.upstream as usize].policy;
            policy.set_ready(at.connection, in_flight);
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, at: BackKey) -> Option<Box<BackConnection>> {
        let pool = self.pools.get_mut(at.upstream as usize)?;
        pool.policy.closed(at.connection);
        let place = pool.connections.get_mut(at.connection.0 as usize)?;
        let connection = place.take()?;
        self.mark_changed(at.upstream);
        Some(connection)
    }

    pub(super) fn owner(&mut self, at: BackKey, stream: StreamId) -> RecordOwner {
        let begun = self.protocol;
        let connection = self.connection_mut(at);
        let (connection, protocol) = connection.map_or((0, begun), |connection| {
            (connection.number, connection.protocol.unwrap_or(begun))
        });
        RecordOwner {
            side: Side::Client,
            connection,
            stream,
            protocol,
        }
    }

    /// Opens the window again after bytes of a response have left for the client or were discarded.
    pub(super) fn consume(&mut self, at: BackKey, stream: StreamId, n: u64) {
        if n == 0 {
            return;
        }
        if let Some(connection) = self.connection_mut(at) {
            connection.transport.streams().consume(stream, n);
            self.touch(at);
        }
    }

    /// Notes that `n` more bytes of responses wait for clients.
    pub(super) fn add_backlog(&mut self, at: BackKey, n: usize) {
        if let Some(connection) = self.connection_mut(at) {
            connection.backlog_bytes += n;
        }
    }

    /// Notes that `n` bytes no longer wait.
    pub(super) fn drop_backlog(&mut self, at: BackKey, n: u64) {
        let Some(connection) = self.connection_mut(at) else {
            return;
        };
        connection.backlog_bytes = connection.backlog_bytes.saturating_sub(n as usize);
        if connection.has_unread && !connection.is_paused() {
            self.pending_reads.push(at);
        }
    }

    /// Accepts bytes of a request's streamed body, as many as there is room for, and returns how many.
    pub(super) fn send_body(&mut self, at: BackKey, stream: StreamId, bytes: &[u8]) -> usize {
        let Some(connection) = self.connection_mut(at) else {
            return 0;
        };
        let taken = connection.transport.streams().send_body(stream, bytes);
        // A connection that accepts nothing has nothing new to write: touching it would give it turns forever.
        if taken > 0 {
            self.touch(at);
        }
        taken
    }

    pub(super) fn end_body(&mut self, at: BackKey, stream: StreamId, trailers: Option<&Trailers>) {
        if let Some(connection) = self.connection_mut(at) {
            let mut streams = connection.transport.streams();
            match trailers {
                None => streams.end_body(stream),
                Some(trailers) => streams.end_body_with(stream, trailers),
            }
            self.touch(at);
        }
    }

    /// Cancels an exchange, and returns the error code that was sent.
    pub(super) fn reset(&mut self, at: BackKey, stream: StreamId) -> Option<u64> {
        let connection = self.connection_mut(at)?;
        connection.streams.remove(stream);
        let code = match connection.version() {
            Version::Http1 => {
                connection.is_given_up = true;
                None
            }
            // CANCEL (RFC 9113, section 7).
            Version::Http2 => Some(0x8),
            Version::Http3 => Some(h3::code::REQUEST_CANCELLED),
        };
        (connection.transport.streams()).reset(stream, code.unwrap_or(0));
        self.touch(at);
        code
    }
}

impl BackConnection {
    /// Whether HTTP has been established on it.
    pub(super) fn is_established(&self) -> bool {
        self.protocol.is_some()
    }

    /// When opening it began.
    pub(super) fn opened(&self) -> Time {
        self.opened
    }

    /// The HTTP version; 1.1 until it is known.
    pub(super) fn version(&self) -> Version {
        self.protocol.map_or(Version::Http1, Protocol::version)
    }

    /// Whether reading from it is paused, so that what waits here stays bounded.
    pub(super) fn is_paused(&self) -> bool {
        let most = match self.version() {
            Version::Http1 => HTTP1_BACKLOG_BYTES,
            _ => HTTP2_BACKLOG_BYTES,
        };
        self.backlog_bytes > most
    }

    /// Records how an exchange got this connection. One that the connection was opened for already has its slot.
    pub(super) fn note_beginning(&self, beginning: &mut Beginning) {
        beginning.slot.get_or_insert_with(clock::now);
        beginning.opened = Some(self.opened);
        beginning.connected = self.connected;
        beginning.secured = self.secured;
    }

    /// Whether a request can be sent. In cleartext, the HTTP/1.1 and HTTP/2 engines would accept one before the socket
    /// is connected, and the wait for the connection would count as the proxy's own time.
    fn is_ready(&self) -> bool {
        self.connected.is_some() && self.transport.is_ready()
    }

    /// Takes the exchange that it was opened for, once the request can be sent.
    pub(super) fn take_first(&mut self) -> Option<ExchangeKey> {
        let is_ready = self.is_ready();
        self.first.take_if(|_| is_ready)
    }

    fn has_free_stream(&self, streams_at_most: Option<u32>) -> bool {
        let in_flight = self.transport.in_flight();
        streams_at_most.is_none_or(|at_most| in_flight < at_most as usize)
    }

    fn availability(&self, streams_at_most: Option<u32>) -> Availability {
        if self.is_given_up {
            return Availability::Over;
        }
        if self.is_ready() && self.first.is_none() {
            return if self.has_free_stream(streams_at_most) {
                Availability::Ready
            } else {
                Availability::Busy
            };
        }
        match (self.transport.is_open(), self.transport.in_flight()) {
            (true, _) => Availability::Busy,
            (false, 0) => Availability::Over,
            (false, _) => Availability::Draining,
        }
    }

    /// Continues connecting; true once it is connected.
    pub(super) fn connect(
        &mut self,
        ready: ReadyEvent,
        log: &mut StationLog,
    ) -> Result<bool, Failure> {
        if self.connected.is_none() {
            match self.transport.finish_connecting(ready) {
                Ok(Some(now)) => {
                    self.connected = Some(now);
                    self.transport.count_connection(&mut log.counts);
                    self.note_established(log);
                }
                Ok(None) => return Ok(false),
                Err(_) => return Err(Failure::ConnectFailed),
            }
        }
        Ok(true)
    }

    /// Reads once; true if there may be more.
    pub(super) fn read(
        &mut self,
        buffers: &mut Buffers,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Result<bool, Failure>) {
        let (now, moved) = self.transport.read(buffers, inbox);
        (now, self.io_result(moved))
    }

    /// Writes once; true if there may be more.
    pub(super) fn write(
        &mut self,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Result<bool, Failure>) {
        let (now, moved) = self.transport.write(inbox);
        (now, self.io_result(moved))
    }

    fn io_result(&self, moved: IoOutcome) -> Result<bool, Failure> {
        match moved {
            IoOutcome::More => Ok(true),
            IoOutcome::Done => Ok(false),
            IoOutcome::End(_) if self.protocol.is_none() => Err(Failure::ConnectFailed),
            IoOutcome::End(Ok(_) | Err(ConnectionError::UnexpectedEnd)) => {
                Err(Failure::UpstreamClosed)
            }
            IoOutcome::End(Err(ConnectionError::Quic(closing))) if closing.is_clean() => {
                Err(Failure::UpstreamClosed)
            }
            IoOutcome::End(Err(_)) => Err(Failure::UpstreamProtocol),
        }
    }

    /// Records the protocol, once it is known. Returns whether it has just become known.
    pub(super) fn note_established(&mut self, log: &mut StationLog) -> bool {
        log.record_keys(self.transport.take_key_log());
        if self.protocol.is_some() {
            return false;
        }
        self.protocol = self.transport.protocol();
        if let Some(protocol) = self.protocol {
            self.transport.count_handshake(protocol, &mut log.counts);
            self.secured = protocol.is_secure().then(clock::now);
        }
        self.protocol.is_some()
    }
}
