//! The side of the upstreams: a pool of connections to each, and the exchanges that wait for one or are on it.
//!
//! It moves bytes and knows which stream is which exchange; what events mean is in `relay`, what failures come to in `ends`.

use std::collections::VecDeque;

use squall_base::Time;
use squall_base::plan::{Connections, PoolSettings, Protocol, Version};
use squall_base::record::{Beginning, Side};
use squall_http::{ClientEvent, ConnectionError, Inbox, StreamId, Streams, Trailers, Wants, h3};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_load::{ConnectionId, Pool};

use super::exchange::{Key, Whose};
use super::settings::{Balance, Failure};
use crate::Buffers;
use crate::client::transport::{Dial, Moved, OpenError, Transport};
use crate::log::Log;

/// An upstream is not read from while so many bytes of its answers wait for clients, if it speaks HTTP/1.1.
const HTTP1_BACKLOG_BYTES: usize = 64 * 1024;
/// If it speaks HTTP/2, windows hold it up before, unless they are set to be larger.
const HTTP2_BACKLOG_BYTES: usize = 4 * 1024 * 1024;

/// Which connection to which upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) lane: u32,
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
    /// The exchange that it was opened for, until that can be sent.
    pub(super) first: Option<Key>,
    pub(super) streams: Streams<StreamId, Key>,
    /// Exchanges whose requests wait for room.
    pub(super) blocked: Vec<Key>,
    pub(super) backlog_bytes: usize,
    /// Requests that it was given.
    pub(super) submitted: u64,
    pub(super) is_hungry: bool,
    is_dirty: bool,
    /// An exchange on it was given up, which HTTP/1.1 can only do with the connection.
    pub(super) is_given_up: bool,
}

/// The connections to one upstream, and who waits for them.
pub(super) struct Lane {
    pub(super) pool: Pool,
    /// `None`: it has ended.
    pub(super) connections: Vec<Option<Box<BackConnection>>>,
    pub(super) waiting: VecDeque<Key>,
    is_stirred: bool,
    /// Exchanges that wait here or are under way.
    load: u32,
}

/// All connections to upstreams.
pub(super) struct Backs {
    pub(super) log: Log,
    pub(super) protocol: Protocol,
    pub(super) wants: Wants,
    pub(super) lanes: Vec<Lane>,
    stirred: VecDeque<u32>,
    dirty: Vec<At>,
    pub(super) hungry: Vec<At>,
    balance: Balance,
    turn: usize,
    pub(super) opened: u32,
    streams_at_most: Option<u32>,
}

/// What a connection can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Ready,
    Busy,
    /// It takes nothing new, and ends what it has.
    Draining,
    /// It is of no more use.
    Over,
}

impl Backs {
    pub(super) fn new(
        log: Log,
        upstreams: usize,
        protocol: Protocol,
        (connections, pool): (Connections, PoolSettings),
        balance: Balance,
        seed: u64,
    ) -> Backs {
        let wants = Wants {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        };
        let lane = |index: usize| Lane {
            pool: Pool::new(connections, pool, seed.wrapping_add(index as u64)),
            connections: Vec::new(),
            waiting: VecDeque::new(),
            is_stirred: false,
            load: 0,
        };
        Backs {
            log,
            protocol,
            wants,
            lanes: (0..upstreams).map(lane).collect(),
            stirred: VecDeque::new(),
            dirty: Vec::new(),
            hungry: Vec::new(),
            balance,
            turn: 0,
            opened: 0,
            streams_at_most: pool.streams_at_most,
        }
    }

    /// The upstream that the next request goes to.
    pub(super) fn choose(&mut self) -> u32 {
        let count = self.lanes.len();
        let turn = self.turn;
        let next = match self.balance {
            Balance::RoundRobin => turn % count,
            Balance::LeastRequests => (0..count)
                .map(|step| (turn + step) % count)
                .min_by_key(|lane| self.lanes[*lane].load)
                .unwrap_or(0),
        };
        self.turn = (next + 1) % count;
        next as u32
    }

    /// An exchange waits for a connection of this lane.
    pub(super) fn enqueue(&mut self, lane: u32, key: Key) {
        let of = &mut self.lanes[lane as usize];
        of.load += 1;
        of.waiting.push_back(key);
        self.stir(lane);
    }

    /// An exchange has left the lane.
    pub(super) fn leave(&mut self, lane: u32) {
        let load = &mut self.lanes[lane as usize].load;
        *load = load.saturating_sub(1);
    }

    /// Something has changed that may give a request of this lane its connection.
    pub(super) fn stir(&mut self, lane: u32) {
        let of = &mut self.lanes[lane as usize];
        if !of.waiting.is_empty() && !std::mem::replace(&mut of.is_stirred, true) {
            self.stirred.push_back(lane);
        }
    }

    pub(super) fn take_stirred(&mut self) -> Option<u32> {
        let lane = self.stirred.pop_front()?;
        self.lanes[lane as usize].is_stirred = false;
        Some(lane)
    }

    pub(super) fn connection_mut(&mut self, at: At) -> Option<&mut BackConnection> {
        let lane = self.lanes.get_mut(at.lane as usize)?;
        lane.connections
            .get_mut(at.connection.0 as usize)?
            .as_deref_mut()
    }

    /// Whether a connection is not open yet.
    pub(super) fn is_opening(&self) -> bool {
        let mut connections = self.connections();
        connections.any(|(_, connection)| !connection.is_established())
    }

    /// All connections that have not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = (At, &BackConnection)> {
        (0..).zip(&self.lanes).flat_map(|(lane, of)| {
            let connections = (0..).zip(&of.connections);
            connections.filter_map(move |(id, connection)| {
                let connection = connection.as_deref()?;
                let connection_id = ConnectionId(id);
                let at = At {
                    lane,
                    connection: connection_id,
                };
                Some((at, connection))
            })
        })
    }

    /// It may have something to write: it has its turn before the proxy sleeps.
    pub(super) fn touch(&mut self, at: At) {
        if let Some(connection) = self.connection_mut(at)
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push(at);
        }
    }

    pub(super) fn take_dirty(&mut self) -> Option<At> {
        let at = self.dirty.pop()?;
        if let Some(connection) = self.connection_mut(at) {
            connection.is_dirty = false;
        }
        Some(at)
    }

    /// Begins the connection that a pool has decided on.
    pub(super) fn open(
        &mut self,
        at: At,
        dial: Dial<'_>,
        first: Option<Key>,
    ) -> Result<(), OpenError> {
        let made = Transport::open(dial, self.wants);
        let lane = &mut self.lanes[at.lane as usize];
        let number = self.opened;
        self.opened += 1;
        match made {
            Ok(mut transport) => {
                transport.set_manual_consumption();
                lane.connections.push(Some(Box::new(BackConnection {
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
                    is_hungry: false,
                    is_dirty: false,
                    is_given_up: false,
                })));
                self.touch(at);
                Ok(())
            }
            Err(error) => {
                lane.connections.push(None);
                lane.pool.closed(at.connection);
                Err(error)
            }
        }
    }

    /// Tells the pool what a connection can do now.
    pub(super) fn settle(&mut self, at: At) -> Option<Next> {
        let streams_at_most = self.streams_at_most;
        let connection = self.connection_mut(at)?;
        let in_flight = connection.transport.in_flight() as u32;
        let next = connection.next(streams_at_most);
        let pool = &mut self.lanes[at.lane as usize].pool;
        match next {
            Next::Ready => pool.set_ready(at.connection, in_flight),
            Next::Busy => pool.set_busy(at.connection),
            Next::Draining | Next::Over => pool.closed(at.connection),
        }
        self.stir(at.lane);
        Some(next)
    }

    /// Whether a connection can take a request now, be it into the write of those before it.
    pub(super) fn is_ready(&mut self, at: At) -> bool {
        let connection = self.connection_mut(at);
        connection.is_some_and(|connection| {
            connection.transport.is_ready() || connection.transport.gather()
        })
    }

    /// After a request was submitted: whether another one may share its write.
    pub(super) fn gather(&mut self, at: At) {
        let streams_at_most = self.streams_at_most;
        let Some(connection) = self.connection_mut(at) else {
            return;
        };
        let gathers = connection.has_stream(streams_at_most) && connection.transport.gather();
        let in_flight = connection.transport.in_flight() as u32;
        if gathers {
            let pool = &mut self.lanes[at.lane as usize].pool;
            pool.set_ready(at.connection, in_flight);
        }
    }

    /// Takes a connection that has ended.
    pub(super) fn remove(&mut self, at: At) -> Option<Box<BackConnection>> {
        let lane = self.lanes.get_mut(at.lane as usize)?;
        lane.pool.closed(at.connection);
        let place = lane.connections.get_mut(at.connection.0 as usize)?;
        let connection = place.take()?;
        self.stir(at.lane);
        Some(connection)
    }

    pub(super) fn whose(&mut self, at: At, stream: StreamId) -> Whose {
        let begun = self.protocol;
        let connection = self.connection_mut(at);
        let (connection, protocol) = connection.map_or((0, begun), |connection| {
            (connection.number, connection.protocol.unwrap_or(begun))
        });
        Whose {
            side: Side::Client,
            connection,
            stream,
            protocol,
        }
    }

    /// Bytes of an answer have left for the client, or were thrown away: the upstream may send as many again.
    pub(super) fn consume(&mut self, at: At, stream: StreamId, n: u64) {
        if n == 0 {
            return;
        }
        if let Some(connection) = self.connection_mut(at) {
            connection.transport.consume(stream, n);
            self.touch(at);
        }
    }

    /// So many bytes of answers wait for clients.
    pub(super) fn add_backlog(&mut self, at: At, n: usize) {
        if let Some(connection) = self.connection_mut(at) {
            connection.backlog_bytes += n;
        }
    }

    /// So many do not wait any more.
    pub(super) fn drop_backlog(&mut self, at: At, n: u64) {
        let Some(connection) = self.connection_mut(at) else {
            return;
        };
        connection.backlog_bytes = connection.backlog_bytes.saturating_sub(n as usize);
        if connection.is_hungry && !connection.is_paused() {
            self.hungry.push(at);
        }
    }

    /// Takes bytes of a request's streamed body, as many as there is room for, and returns how many.
    pub(super) fn send_body(&mut self, at: At, stream: StreamId, bytes: &[u8]) -> usize {
        let Some(connection) = self.connection_mut(at) else {
            return 0;
        };
        let taken = connection.transport.send_body(stream, bytes);
        // One that takes nothing has no news: it would have its turn for ever.
        if taken > 0 {
            self.touch(at);
        }
        taken
    }

    pub(super) fn end_body(&mut self, at: At, stream: StreamId, trailers: Option<&Trailers>) {
        if let Some(connection) = self.connection_mut(at) {
            match trailers {
                None => connection.transport.end_body(stream),
                Some(trailers) => connection.transport.end_body_with(stream, trailers),
            }
            self.touch(at);
        }
    }

    /// Gives an exchange up, and returns the code that said so.
    pub(super) fn reset(&mut self, at: At, stream: StreamId) -> Option<u64> {
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
        connection.transport.reset(stream, code.unwrap_or(0));
        self.touch(at);
        code
    }
}

impl BackConnection {
    /// Whether it has begun to speak HTTP.
    pub(super) fn is_established(&self) -> bool {
        self.protocol.is_some()
    }

    /// Since when it is being opened.
    pub(super) fn opened(&self) -> Time {
        self.opened
    }

    /// The version that is spoken.
    pub(super) fn version(&self) -> Version {
        self.protocol.map_or(Version::Http1, Protocol::version)
    }

    /// Whether more of it is not read for now, so that what waits here stays bounded.
    pub(super) fn is_paused(&self) -> bool {
        let most = match self.version() {
            Version::Http1 => HTTP1_BACKLOG_BYTES,
            _ => HTTP2_BACKLOG_BYTES,
        };
        self.backlog_bytes > most
    }

    /// Notes how an exchange that is given to it now came to be: one that it was opened for has had its slot since.
    pub(super) fn note_beginning(&self, beginning: &mut Beginning) {
        beginning.slot.get_or_insert_with(clock::now);
        beginning.opened = Some(self.opened);
        beginning.connected = self.connected;
        beginning.secured = self.secured;
    }

    /// Whether a request can be sent. HTTP/1.1 and HTTP/2 in the clear would take one before the socket is connected, and
    /// the wait for the connection would count as the proxy's own time.
    fn is_ready(&self) -> bool {
        self.connected.is_some() && self.transport.is_ready()
    }

    /// Takes the request that it was opened for, once that can be sent.
    pub(super) fn take_first(&mut self) -> Option<Key> {
        let is_ready = self.is_ready();
        self.first.take_if(|_| is_ready)
    }

    fn has_stream(&self, streams_at_most: Option<u32>) -> bool {
        let in_flight = self.transport.in_flight();
        streams_at_most.is_none_or(|at_most| in_flight < at_most as usize)
    }

    fn next(&self, streams_at_most: Option<u32>) -> Next {
        if self.is_given_up {
            return Next::Over;
        }
        if self.is_ready() && self.first.is_none() {
            return match self.has_stream(streams_at_most) {
                true => Next::Ready,
                false => Next::Busy,
            };
        }
        match (self.transport.is_open(), self.transport.in_flight()) {
            (true, _) => Next::Busy,
            (false, 0) => Next::Over,
            (false, _) => Next::Draining,
        }
    }

    /// Goes on connecting; true once it is connected.
    pub(super) fn connect(&mut self, ready: Ready, log: &mut Log) -> Result<bool, Failure> {
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
        (now, self.came_to(moved))
    }

    /// Writes once; true if there may be more.
    pub(super) fn write(
        &mut self,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Result<bool, Failure>) {
        let (now, moved) = self.transport.write(inbox);
        (now, self.came_to(moved))
    }

    fn came_to(&self, moved: Moved) -> Result<bool, Failure> {
        match moved {
            Moved::Some => Ok(true),
            Moved::All => Ok(false),
            Moved::End(_) if self.protocol.is_none() => Err(Failure::ConnectFailed),
            Moved::End(Ok(_) | Err(ConnectionError::UnexpectedEnd)) => Err(Failure::UpstreamClosed),
            Moved::End(Err(ConnectionError::Quic(closing))) if closing.is_clean() => {
                Err(Failure::UpstreamClosed)
            }
            Moved::End(Err(_)) => Err(Failure::UpstreamProtocol),
        }
    }

    /// Notes what is spoken, once that is known.
    pub(super) fn note_established(&mut self, log: &mut Log) -> bool {
        log.keys(self.transport.take_key_log());
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
