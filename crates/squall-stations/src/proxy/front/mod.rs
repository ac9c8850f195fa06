//! The client side: every connection that was accepted, and what is open on each.
//!
//! It moves bytes and knows which stream belongs to which exchange. `relay` interprets events.

mod open;
mod quic;
mod tcp;

use std::net::SocketAddr;
use std::sync::Arc;

use squall_base::plan::{Protocol, Version};
use squall_base::record::Side;
use squall_http::{Interim, Response, ServerStreams, StreamId, StreamIo, Trailers, h3};

use super::exchange::RecordOwner;
use super::keys::{ExchangeKey, FrontKey};
use crate::log::StationLog;
use crate::memory::{HeldMemory, SCARCE_BYTES};
use open::OpenExchanges;
pub(super) use quic::{ConnectionEvents, QuicFront};
pub(super) use tcp::{ReadOutcome, TcpFront};

/// Why a client's exchange is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReason {
    /// The response is complete, and the rest of the request is not wanted.
    Done,
    /// The response cannot be completed.
    CutOff,
    /// The request was not processed, because its head takes too long.
    HeadTimeout,
}

/// All client connections.
pub(super) struct Fronts {
    pub(super) log: StationLog,
    pub(super) tcp: Vec<Option<Box<TcpFront>>>,
    free: Vec<u32>,
    pub(super) quic: Vec<QuicFront>,
    /// Connections that may have something to write.
    dirty: Vec<FrontKey>,
    /// TCP connections with more to read than was read.
    pub(super) pending_reads: Vec<u32>,
    /// Connections accepted, which is also the next one's number in the records.
    pub(super) accepted: u32,
    /// What the connections hold: requests that wait for upstreams, and responses that wait for the clients.
    pub(super) memory: HeldMemory,
}

impl Fronts {
    pub(super) fn new(log: StationLog) -> Fronts {
        Fronts {
            log,
            tcp: Vec::new(),
            free: Vec::new(),
            quic: Vec::new(),
            dirty: Vec::new(),
            pending_reads: Vec::new(),
            accepted: 0,
            memory: HeldMemory::default(),
        }
    }

    /// A free place for a TCP connection.
    pub(super) fn next_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.tcp.push(None);
            self.tcp.len() as u32 - 1
        })
    }

    fn tcp_ref(&self, id: u32) -> Option<&TcpFront> {
        self.tcp.get(id as usize)?.as_deref()
    }

    pub(super) fn tcp_mut(&mut self, id: u32) -> Option<&mut TcpFront> {
        self.tcp.get_mut(id as usize)?.as_deref_mut()
    }

    /// Removes a TCP connection that has ended.
    pub(super) fn remove(&mut self, id: u32) -> Option<Box<TcpFront>> {
        let mut front = self.tcp.get_mut(id as usize)?.take()?;
        self.memory.update(&mut front.held_bytes, 0);
        self.free.push(id);
        Some(front)
    }

    /// Counts what a TCP connection holds after it was written to.
    pub(super) fn count_held(&mut self, id: u32) {
        if let Some(Some(front)) = self.tcp.get_mut(id as usize) {
            let holds = front.tcp.engine.buffered_bytes() + front.backlog_bytes;
            self.memory.update(&mut front.held_bytes, holds);
        }
    }

    /// The open connection that holds the most, if any holds something.
    pub(super) fn largest(&self) -> Option<FrontKey> {
        let tcp = (0..).zip(&self.tcp).filter_map(|(id, front)| {
            let front = front.as_deref()?;
            let is_large = front.held_bytes > 0 && !front.is_lingering();
            is_large.then_some((FrontKey::Tcp(id), front.held_bytes))
        });
        let quic = (0..).zip(&self.quic).flat_map(|(listener, quic)| {
            quic.held().map(move |(connection, held_bytes)| {
                let at = FrontKey::Quic {
                    listener,
                    connection,
                };
                (at, held_bytes)
            })
        });
        let largest = tcp.chain(quic).max_by_key(|(_, held_bytes)| *held_bytes);
        largest.map(|(at, _)| at)
    }

    /// The exchanges that are open on a connection.
    pub(super) fn open_exchanges(&mut self, at: FrontKey) -> Vec<ExchangeKey> {
        let Some(open) = self.open(at) else {
            return Vec::new();
        };
        open.streams.iter().map(|(_, key)| *key).collect()
    }

    /// Closes a connection over QUIC because of what it holds, and takes what is open on it.
    pub(super) fn give_up_quic(
        &mut self,
        listener: u32,
        connection: u32,
    ) -> Vec<(StreamId, ExchangeKey)> {
        let quic = &mut self.quic[listener as usize];
        let open = quic.give_up(connection, &mut self.memory);
        self.touch_listener(listener);
        open
    }

    /// Gives the connection a turn before the proxy sleeps, because it may have something to write.
    pub(super) fn touch(&mut self, at: FrontKey) {
        if let Some(is_dirty) = self.is_dirty(at)
            && !std::mem::replace(is_dirty, true)
        {
            self.dirty.push(at);
        }
    }

    /// As [`Fronts::touch`], for an HTTP/3 listener with all its connections.
    pub(super) fn touch_listener(&mut self, listener: u32) {
        self.touch(FrontKey::Quic {
            listener,
            connection: 0,
        });
    }

    pub(super) fn take_dirty(&mut self) -> Option<FrontKey> {
        let at = self.dirty.pop()?;
        if let Some(is_dirty) = self.is_dirty(at) {
            *is_dirty = false;
        }
        Some(at)
    }

    fn is_dirty(&mut self, at: FrontKey) -> Option<&mut bool> {
        match at {
            FrontKey::Tcp(id) => self.tcp_mut(id).map(|front| &mut front.is_dirty),
            FrontKey::Quic { listener, .. } => Some(&mut self.quic[listener as usize].is_dirty),
        }
    }

    /// The streams of a connection, which also gets a turn to write.
    fn touched(&mut self, at: FrontKey) -> ServerStreams<'_> {
        self.touch(at);
        self.untouched(at)
    }

    fn untouched(&mut self, at: FrontKey) -> ServerStreams<'_> {
        match at {
            FrontKey::Tcp(id) => match self.tcp_mut(id) {
                Some(front) => front.tcp.engine.streams(),
                None => ServerStreams::None,
            },
            FrontKey::Quic {
                listener,
                connection,
            } => self.quic[listener as usize].engine().streams(connection),
        }
    }

    fn open(&mut self, at: FrontKey) -> Option<&mut OpenExchanges> {
        match at {
            FrontKey::Tcp(id) => self.tcp_mut(id).map(|front| &mut front.open),
            FrontKey::Quic {
                listener,
                connection,
            } => self.quic[listener as usize].open(connection),
        }
    }

    /// The exchange on a stream.
    pub(super) fn key(&mut self, at: FrontKey, stream: StreamId) -> Option<ExchangeKey> {
        self.open(at)?.streams.find(stream).copied()
    }

    pub(super) fn insert(&mut self, at: FrontKey, stream: StreamId, key: ExchangeKey) {
        if let Some(open) = self.open(at) {
            open.streams.insert(stream, key);
        }
    }

    /// Forgets a stream that is over.
    pub(super) fn forget(&mut self, at: FrontKey, stream: StreamId) {
        if let Some(open) = self.open(at) {
            open.streams.remove(stream);
        }
    }

    /// Notes that the body of a response waits for room on this connection.
    pub(super) fn block(&mut self, at: FrontKey, key: ExchangeKey) {
        if let Some(open) = self.open(at) {
            open.blocked.push(key);
        }
    }

    /// The address of the client.
    pub(super) fn address(&self, at: FrontKey) -> Option<SocketAddr> {
        match at {
            FrontKey::Tcp(id) => self.tcp_ref(id).map(|front| front.tcp.address),
            FrontKey::Quic {
                listener,
                connection,
            } => self.quic[listener as usize].address(connection),
        }
    }

    /// How many bytes of requests on this connection wait for their upstreams.
    pub(super) fn backlog_bytes(&self, at: FrontKey) -> usize {
        match at {
            FrontKey::Tcp(id) => self.tcp_ref(id).map_or(0, |front| front.backlog_bytes),
            FrontKey::Quic {
                listener,
                connection,
            } => self.quic[listener as usize].backlog_bytes(connection),
        }
    }

    pub(super) fn version(&mut self, at: FrontKey) -> Version {
        match at {
            FrontKey::Tcp(id) => self
                .tcp_mut(id)
                .map_or(Version::Http1, |front| front.version()),
            FrontKey::Quic { .. } => Version::Http3,
        }
    }

    pub(super) fn owner(&mut self, at: FrontKey, stream: StreamId) -> RecordOwner {
        let (connection, protocol) = match at {
            FrontKey::Tcp(id) => self.tcp_mut(id).map_or((0, Protocol::H1), |front| {
                (front.tcp.number, front.protocol())
            }),
            FrontKey::Quic {
                listener,
                connection,
            } => {
                let number = self.quic[listener as usize].number(connection);
                (number, Protocol::H3)
            }
        };
        RecordOwner {
            side: Side::Server,
            connection,
            stream,
            protocol,
        }
    }

    pub(super) fn respond(&mut self, at: FrontKey, stream: StreamId, response: &Arc<Response>) {
        // Fails only if the client has reset the stream meanwhile, or is gone.
        let _ = self.touched(at).respond(stream, response);
    }

    /// Sends an interim response before the final one.
    pub(super) fn inform(&mut self, at: FrontKey, stream: StreamId, interim: &Interim) {
        self.touched(at).inform(stream, interim);
    }

    /// Accepts bytes of a response's streamed body, as many as there is room for, and returns how many.
    pub(super) fn send_body(&mut self, at: FrontKey, stream: StreamId, bytes: &[u8]) -> usize {
        let is_scarce = self.memory.is_scarce();
        let mut streams = self.untouched(at);
        let room = match at {
            FrontKey::Tcp(_) if is_scarce => {
                SCARCE_BYTES.saturating_sub(streams.body_waiting(stream))
            }
            _ => usize::MAX,
        };
        // A connection that accepts nothing has nothing new to write: touching it would give it turns forever.
        let taken = streams.send_body(stream, &bytes[..bytes.len().min(room)]);
        if taken > 0 {
            self.touch(at);
            if let FrontKey::Quic {
                listener,
                connection,
            } = at
            {
                self.quic[listener as usize].count_held(connection, &mut self.memory);
            }
        }
        taken
    }

    pub(super) fn end_body(&mut self, at: FrontKey, stream: StreamId, trailers: Option<&Trailers>) {
        let mut streams = self.touched(at);
        match trailers {
            None => streams.end_body(stream),
            Some(trailers) => streams.end_body_with(stream, trailers),
        }
    }

    /// Returns `n` bytes of a request to the window once they have left for the upstream or were discarded.
    pub(super) fn consume(&mut self, at: FrontKey, stream: StreamId, n: u64) {
        if n > 0 {
            self.touched(at).consume(stream, n);
        }
    }

    /// Notes that `n` more bytes of requests wait here for their upstreams.
    pub(super) fn add_backlog(&mut self, at: FrontKey, n: usize) {
        match at {
            FrontKey::Tcp(id) => {
                if let Some(front) = self.tcp_mut(id) {
                    front.backlog_bytes += n;
                }
            }
            FrontKey::Quic {
                listener,
                connection,
            } => {
                let quic = &mut self.quic[listener as usize];
                quic.update_backlog(connection, &mut self.memory, |bytes| bytes + n);
            }
        }
    }

    /// Notes that `n` bytes no longer wait for upstreams.
    pub(super) fn drop_backlog(&mut self, at: FrontKey, n: u64) {
        let is_scarce = self.memory.is_scarce();
        match at {
            FrontKey::Tcp(id) => {
                let Some(front) = self.tcp_mut(id) else {
                    return;
                };
                front.backlog_bytes = front.backlog_bytes.saturating_sub(n as usize);
                if front.may_read(is_scarce) {
                    self.pending_reads.push(id);
                }
            }
            FrontKey::Quic {
                listener,
                connection,
            } => {
                let quic = &mut self.quic[listener as usize];
                let memory = &mut self.memory;
                quic.update_backlog(connection, memory, |bytes| bytes.saturating_sub(n as usize));
            }
        }
    }

    /// Resets an exchange. Over HTTP/1.1 this ends the connection.
    pub(super) fn reset(&mut self, at: FrontKey, stream: StreamId, why: ResetReason) -> u64 {
        let code = match (at, why) {
            (FrontKey::Tcp(_), ResetReason::Done) => 0,
            (FrontKey::Tcp(_), ResetReason::CutOff) => 0x2,
            (FrontKey::Tcp(_), ResetReason::HeadTimeout) => 0x7,
            (FrontKey::Quic { .. }, ResetReason::Done) => h3::code::NO_ERROR,
            (FrontKey::Quic { .. }, ResetReason::CutOff) => h3::code::INTERNAL_ERROR,
            (FrontKey::Quic { .. }, ResetReason::HeadTimeout) => h3::code::REQUEST_REJECTED,
        };
        self.touched(at).reset(stream, code);
        code
    }
}
