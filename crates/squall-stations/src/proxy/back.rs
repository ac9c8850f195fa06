//! The upstream side: a connection pool for each upstream, and the exchanges that wait for a connection or are on one.
//!
//! It moves bytes and knows which stream belongs to which exchange. `relay` interprets events, `ends` handles failures.

use squall_base::Time;
use squall_base::plan::{Protocol, Version};
use squall_base::record::{Beginning, Side};
use squall_http::{
    ClientEvent, ConnectionError, Inbox, InboxOptions, StreamId, StreamIo, Streams, Trailers, h3,
};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_load::Pool;

use super::exchange::{BackState, RecordOwner};
use super::keys::{BackKey, ExchangeKey};
use super::queue::{ClientHost, WaitingRequest, WaitingRequests};
use super::settings::{Balance, Failure, ProxySettings};
use crate::Buffers;
use crate::dial::{Availability, ConnectionPools, Dial, DialedConnection, IoOutcome, OpenError};
use crate::log::StationLog;
use crate::memory::{HeldMemory, max_backlog_bytes};

/// A connection to an upstream.
pub(super) struct BackConnection {
    pub(super) dialed: DialedConnection<ExchangeKey>,
    opened: Time,
    pub(super) streams: Streams<StreamId, ExchangeKey>,
    /// Exchanges whose requests wait for room.
    pub(super) blocked: Vec<ExchangeKey>,
    pub(super) backlog_bytes: usize,
    /// Requests that were submitted to the connection.
    pub(super) submitted: u64,
    is_dirty: bool,
    /// An exchange was cancelled over HTTP/1.1, so the connection must close.
    pub(super) is_given_up: bool,
}

/// All connections to upstreams.
pub(super) struct Backs {
    pub(super) log: StationLog,
    pub(super) protocol: Protocol,
    pub(super) wants: InboxOptions,
    pub(super) pools: BackPools,
    /// Exchanges that wait for each upstream or are in flight there.
    load: Vec<u32>,
    dirty: Vec<BackKey>,
    pub(super) pending_reads: Vec<BackKey>,
    balance: Balance,
    turn: usize,
    streams_at_most: Option<u32>,
    /// What arrived from upstreams and waits for clients, even if the upstream has closed its connection meanwhile.
    pub(super) memory: HeldMemory,
    /// How many bytes `memory` has counted.
    held_bytes: usize,
}

/// A pool for each upstream.
pub(super) type BackPools = ConnectionPools<BackConnection, WaitingRequests>;

/// The pools that these settings ask for, still without connections.
pub(super) fn pools_of(settings: &ProxySettings) -> BackPools {
    let mut pools = ConnectionPools::new();
    for upstream in 0..settings.upstreams.len() as u32 {
        let seed = settings.seed.wrapping_add(u64::from(upstream));
        let policy = Pool::new(settings.connections, settings.pool, seed);
        let waiting = WaitingRequests::new(settings.client_share);
        pools.push(upstream, policy, waiting);
    }
    pools
}

impl Backs {
    pub(super) fn new(
        log: StationLog,
        pools: BackPools,
        protocol: Protocol,
        balance: Balance,
        streams_at_most: Option<u32>,
    ) -> Backs {
        let wants = InboxOptions {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        };
        Backs {
            log,
            protocol,
            wants,
            load: vec![0; pools.len()],
            pools,
            dirty: Vec::new(),
            pending_reads: Vec::new(),
            balance,
            turn: 0,
            streams_at_most,
            memory: HeldMemory::default(),
            held_bytes: 0,
        }
    }

    /// Chooses the upstream for the next request.
    pub(super) fn choose(&mut self) -> u32 {
        let count = self.load.len();
        let turn = self.turn;
        let next = match self.balance {
            Balance::RoundRobin => turn % count,
            Balance::LeastRequests => (0..count)
                .map(|step| (turn + step) % count)
                .min_by_key(|upstream| self.load[*upstream])
                .unwrap_or(0),
        };
        self.turn = (next + 1) % count;
        next as u32
    }

    /// Queues an exchange for a connection to this upstream.
    pub(super) fn enqueue(&mut self, upstream: u32, request: WaitingRequest) {
        self.load[upstream as usize] += 1;
        self.pools.get_mut(upstream).waiting.push(request);
        self.mark_changed(upstream);
    }

    /// Notes that an exchange of this client has left the upstream. `was` is its state until then.
    pub(super) fn leave(&mut self, was: BackState, client: ClientHost) {
        let Some(upstream) = was.upstream() else {
            return;
        };
        let load = &mut self.load[upstream as usize];
        *load = load.saturating_sub(1);
        if !matches!(was, BackState::Waiting { .. }) {
            self.pools.get_mut(upstream).waiting.release(client);
        }
    }

    /// Notes a change that may let a waiting request for this upstream get a connection.
    pub(super) fn mark_changed(&mut self, upstream: u32) {
        if !self.pools.get_mut(upstream).waiting.is_empty() {
            self.pools.mark_changed(upstream);
        }
    }

    pub(super) fn connection_mut(&mut self, at: BackKey) -> Option<&mut BackConnection> {
        self.pools.connection_mut(at)
    }

    /// Whether any connection is still being opened.
    pub(super) fn is_opening(&self) -> bool {
        let mut connections = self.pools.connections();
        connections.any(|(_, connection)| !connection.is_established())
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
        let number = self.pools.added() as u32;
        match DialedConnection::open(dial, self.wants, number, first) {
            Ok(mut dialed) => {
                dialed.transport.set_manual_consumption();
                let connection = Box::new(BackConnection {
                    dialed,
                    opened: clock::now(),
                    streams: Streams::default(),
                    blocked: Vec::new(),
                    backlog_bytes: 0,
                    submitted: 0,
                    is_dirty: false,
                    is_given_up: false,
                });
                self.pools.add(at.pool, Some(connection));
                self.touch(at);
                Ok(())
            }
            Err(error) => {
                self.pools.add(at.pool, None);
                self.pools.get_mut(at.pool).policy.closed(at.connection);
                Err(error)
            }
        }
    }

    /// Reports to the pool what a connection can do now.
    pub(super) fn settle(&mut self, at: BackKey) -> Option<Availability> {
        let is_scarce = self.memory.is_scarce();
        let connection = self.pools.connection_mut(at)?;
        let in_flight = connection.dialed.transport.in_flight() as u32;
        let availability = connection.availability(self.streams_at_most, is_scarce);
        self.pools.report(at, availability, in_flight);
        self.mark_changed(at.pool);
        Some(availability)
    }

    /// Whether a connection can take a request now, if only into the same write as the requests before it.
    pub(super) fn is_ready(&mut self, at: BackKey) -> bool {
        let is_scarce = self.memory.is_scarce();
        let connection = self.connection_mut(at);
        connection.is_some_and(|connection| {
            !connection.is_held_up(is_scarce)
                && (connection.dialed.transport.is_ready() || connection.dialed.transport.gather())
        })
    }

    /// After a request was submitted: offers the connection for another request, if that may share its write.
    pub(super) fn gather(&mut self, at: BackKey) {
        let streams_at_most = self.streams_at_most;
        let Some(connection) = self.connection_mut(at) else {
            return;
        };
        let may_gather = connection.dialed.has_free_stream(streams_at_most)
            && connection.dialed.transport.gather();
        let in_flight = connection.dialed.transport.in_flight() as u32;
        if may_gather {
            let policy = &mut self.pools.get_mut(at.pool).policy;
            policy.set_ready(at.connection, in_flight);
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, at: BackKey) -> Option<Box<BackConnection>> {
        self.pools.get_mut(at.pool).policy.closed(at.connection);
        let connection = self.pools.remove(at)?;
        self.mark_changed(at.pool);
        Some(connection)
    }

    pub(super) fn owner(&mut self, at: BackKey, stream: StreamId) -> RecordOwner {
        let begun = self.protocol;
        let connection = self.connection_mut(at);
        let (connection, protocol) = connection.map_or((0, begun), |connection| {
            (connection.dialed.number, connection.protocol(begun))
        });
        RecordOwner {
            side: Side::Client,
            connection,
            stream,
            protocol,
        }
    }

    /// Returns `n` bytes of a response to the window once they have left for the client or were discarded.
    pub(super) fn consume(&mut self, at: BackKey, stream: StreamId, n: u64) {
        if n == 0 {
            return;
        }
        if let Some(connection) = self.connection_mut(at) {
            connection.dialed.transport.streams().consume(stream, n);
            self.touch(at);
        }
    }

    /// Notes that `n` more bytes of responses wait for clients.
    pub(super) fn add_backlog(&mut self, at: BackKey, n: usize) {
        let holds = self.held_bytes + n;
        self.memory.update(&mut self.held_bytes, holds);
        if let Some(connection) = self.pools.connection_mut(at) {
            connection.backlog_bytes += n;
        }
    }

    /// Notes that `n` bytes no longer wait for clients.
    pub(super) fn drop_backlog(&mut self, at: BackKey, n: u64) {
        let holds = self.held_bytes.saturating_sub(n as usize);
        self.memory.update(&mut self.held_bytes, holds);
        let Some(connection) = self.pools.connection_mut(at) else {
            return;
        };
        connection.backlog_bytes = connection.backlog_bytes.saturating_sub(n as usize);
        if !connection.is_paused(self.memory.is_scarce()) {
            if connection.dialed.has_unread {
                self.pending_reads.push(at);
            }
            if n > 0 {
                // The connection may take requests again.
                self.touch(at);
            }
        }
    }

    /// Accepts bytes of a request's streamed body, as many as there is room for, and returns how many.
    pub(super) fn send_body(&mut self, at: BackKey, stream: StreamId, bytes: &[u8]) -> usize {
        let Some(connection) = self.connection_mut(at) else {
            return 0;
        };
        let mut streams = connection.dialed.transport.streams();
        let taken = streams.send_body(stream, bytes);
        // A connection that accepts nothing has nothing new to write: touching it would give it turns forever.
        if taken > 0 {
            self.touch(at);
        }
        taken
    }

    pub(super) fn end_body(&mut self, at: BackKey, stream: StreamId, trailers: Option<&Trailers>) {
        if let Some(connection) = self.connection_mut(at) {
            let mut streams = connection.dialed.transport.streams();
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
        (connection.dialed.transport.streams()).reset(stream, code.unwrap_or(0));
        self.touch(at);
        code
    }
}

impl BackConnection {
    /// Whether HTTP has been established on the connection.
    pub(super) fn is_established(&self) -> bool {
        self.dialed.is_established()
    }

    /// The connection's protocol; `begun` until it is known.
    fn protocol(&self, begun: Protocol) -> Protocol {
        self.dialed.protocol.unwrap_or(begun)
    }

    /// When the proxy began to open the connection.
    pub(super) fn opened(&self) -> Time {
        self.opened
    }

    /// The connection's HTTP version; 1.1 until it is known.
    pub(super) fn version(&self) -> Version {
        self.dialed
            .protocol
            .map_or(Version::Http1, Protocol::version)
    }

    /// Whether reading from the connection is paused, so that what waits here stays bounded; earlier while memory is
    /// scarce.
    pub(super) fn is_paused(&self, is_scarce: bool) -> bool {
        self.backlog_bytes > max_backlog_bytes(self.version(), is_scarce)
    }

    /// HTTP/1.1: whether a response to a new request would have to wait until clients take the responses before it.
    /// Those responses may belong to other clients, which may never take them.
    fn is_held_up(&self, is_scarce: bool) -> bool {
        self.version() == Version::Http1 && self.is_paused(is_scarce)
    }

    /// Records how an exchange got this connection. An exchange that it was opened for already has its slot.
    pub(super) fn note_beginning(&self, beginning: &mut Beginning) {
        beginning.slot.get_or_insert_with(clock::now);
        beginning.opened = Some(self.opened);
        beginning.connected = self.dialed.connected;
        beginning.secured = self.dialed.secured;
    }

    /// Whether a request can be sent. In cleartext, the HTTP/1.1 and HTTP/2 engines would accept one before the socket
    /// is connected, and the wait for the connection would count as the proxy's own time.
    fn is_ready(&self) -> bool {
        self.dialed.connected.is_some() && self.dialed.transport.is_ready()
    }

    /// Takes the exchange that the connection was opened for, once the request can be sent.
    pub(super) fn take_first(&mut self) -> Option<ExchangeKey> {
        let is_ready = self.is_ready();
        self.dialed.first.take_if(|_| is_ready)
    }

    fn availability(&self, streams_at_most: Option<u32>, is_scarce: bool) -> Availability {
        if self.is_given_up {
            return Availability::Over;
        }
        let is_ready = self.is_ready() && !self.is_held_up(is_scarce);
        self.dialed.availability(is_ready, streams_at_most)
    }

    /// Continues connecting; true once it is connected.
    pub(super) fn connect(
        &mut self,
        ready: ReadyEvent,
        log: &mut StationLog,
    ) -> Result<bool, Failure> {
        if self.dialed.connected.is_none() {
            match self.dialed.connect(ready, log) {
                Ok(Some(_)) => {
                    self.dialed.note_established(log);
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
        let (now, moved) = self.dialed.transport.read(buffers, inbox);
        (now, self.io_result(moved))
    }

    /// Writes once; true if there may be more.
    pub(super) fn write(
        &mut self,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Result<bool, Failure>) {
        let (now, moved) = self.dialed.transport.write(inbox);
        (now, self.io_result(moved))
    }

    fn io_result(&self, moved: IoOutcome) -> Result<bool, Failure> {
        match moved {
            IoOutcome::More => Ok(true),
            IoOutcome::Done => Ok(false),
            IoOutcome::End(_) if !self.is_established() => Err(Failure::ConnectFailed),
            IoOutcome::End(Ok(_) | Err(ConnectionError::UnexpectedEnd)) => {
                Err(Failure::UpstreamClosed)
            }
            IoOutcome::End(Err(ConnectionError::Quic(closing))) if closing.is_clean() => {
                Err(Failure::UpstreamClosed)
            }
            IoOutcome::End(Err(_)) => Err(Failure::UpstreamProtocol),
        }
    }
}
