//! The side of the clients: every connection that was accepted, and what is open on each.
//!
//! It moves bytes and knows which stream is which exchange; what events mean is in `relay`.

mod quic;
mod tcp;

use std::sync::Arc;

use squall_base::plan::{Protocol, Version};
use squall_base::record::Side;
use squall_http::{Interim, Response, StreamId, Trailers, h3};

use super::exchange::{Key, Whose};
use crate::log::Log;
pub(super) use quic::{Arrived, QuicFront};
pub(super) use tcp::{Ended, TcpFront};

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontAt {
    /// Over TCP, by its place.
    Tcp(u32),
    /// Of this listener, by its number there.
    Quic { listener: u32, connection: u32 },
}

/// How a client's exchange is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// What we have said is all, and what still comes is not wanted.
    Done,
    /// The answer cannot be completed.
    CutOff,
}

/// All connections of clients.
pub(super) struct Fronts {
    pub(super) log: Log,
    pub(super) tcp: Vec<Option<Box<TcpFront>>>,
    free: Vec<u32>,
    pub(super) quic: Vec<Option<Box<QuicFront>>>,
    /// Those that may have something to write.
    dirty: Vec<FrontAt>,
    /// Those over TCP that have more to read than was read.
    pub(super) hungry: Vec<u32>,
    /// Connections accepted: the number of the next one in the records.
    pub(super) accepted: u32,
}

/// A stream of a client's connection, for the engine that has it.
enum On<'a> {
    Tcp(&'a mut TcpFront),
    Quic(&'a mut QuicFront, u32),
}

impl Fronts {
    pub(super) fn new(log: Log) -> Fronts {
        Fronts {
            log,
            tcp: Vec::new(),
            free: Vec::new(),
            quic: Vec::new(),
            dirty: Vec::new(),
            hungry: Vec::new(),
            accepted: 0,
        }
    }

    /// The place of the next connection over TCP.
    pub(super) fn next_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.tcp.push(None);
            self.tcp.len() as u32 - 1
        })
    }

    pub(super) fn tcp_mut(&mut self, id: u32) -> Option<&mut TcpFront> {
        self.tcp.get_mut(id as usize)?.as_deref_mut()
    }

    pub(super) fn quic_mut(&mut self, listener: u32) -> Option<&mut QuicFront> {
        self.quic.get_mut(listener as usize)?.as_deref_mut()
    }

    /// Takes a connection over TCP that has ended.
    pub(super) fn remove(&mut self, id: u32) -> Option<Box<TcpFront>> {
        let front = self.tcp.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(front)
    }

    /// It may have something to write: it has its turn before the proxy sleeps.
    pub(super) fn touch(&mut self, at: FrontAt) {
        let is_dirty = match at {
            FrontAt::Tcp(id) => self.tcp_mut(id).map(|front| &mut front.is_dirty),
            FrontAt::Quic { listener, .. } => {
                self.quic_mut(listener).map(|front| &mut front.is_dirty)
            }
        };
        if let Some(is_dirty) = is_dirty
            && !std::mem::replace(is_dirty, true)
        {
            self.dirty.push(at);
        }
    }

    pub(super) fn take_dirty(&mut self) -> Option<FrontAt> {
        let at = self.dirty.pop()?;
        match at {
            FrontAt::Tcp(id) => {
                if let Some(front) = self.tcp_mut(id) {
                    front.is_dirty = false;
                }
            }
            FrontAt::Quic { listener, .. } => {
                if let Some(front) = self.quic_mut(listener) {
                    front.is_dirty = false;
                }
            }
        }
        Some(at)
    }

    /// The engine of a connection, which may have something to write then.
    fn on(&mut self, at: FrontAt) -> Option<On<'_>> {
        self.touch(at);
        self.untouched(at)
    }

    fn untouched(&mut self, at: FrontAt) -> Option<On<'_>> {
        match at {
            FrontAt::Tcp(id) => self.tcp_mut(id).map(On::Tcp),
            FrontAt::Quic {
                listener,
                connection,
            } => self
                .quic_mut(listener)
                .map(|front| On::Quic(front, connection)),
        }
    }

    /// The exchange that a stream is.
    pub(super) fn key(&mut self, at: FrontAt, stream: StreamId) -> Option<Key> {
        let streams = match at {
            FrontAt::Tcp(id) => &mut self.tcp_mut(id)?.streams,
            FrontAt::Quic {
                listener,
                connection,
            } => self.quic_mut(listener)?.streams(connection)?,
        };
        streams.find(stream).copied()
    }

    pub(super) fn insert(&mut self, at: FrontAt, stream: StreamId, key: Key) {
        match at {
            FrontAt::Tcp(id) => {
                if let Some(front) = self.tcp_mut(id) {
                    front.streams.insert(stream, key);
                }
            }
            FrontAt::Quic {
                listener,
                connection,
            } => {
                let front = self.quic_mut(listener);
                if let Some(streams) = front.and_then(|front| front.streams(connection)) {
                    streams.insert(stream, key);
                }
            }
        }
    }

    /// A stream is over.
    pub(super) fn forget(&mut self, at: FrontAt, stream: StreamId) {
        match at {
            FrontAt::Tcp(id) => {
                if let Some(front) = self.tcp_mut(id) {
                    front.streams.remove(stream);
                }
            }
            FrontAt::Quic {
                listener,
                connection,
            } => {
                let front = self.quic_mut(listener);
                if let Some(streams) = front.and_then(|front| front.streams(connection)) {
                    streams.remove(stream);
                }
            }
        }
    }

    /// The body of an answer waits for room on this connection.
    pub(super) fn block(&mut self, at: FrontAt, key: Key) {
        match at {
            FrontAt::Tcp(id) => {
                if let Some(front) = self.tcp_mut(id) {
                    front.blocked.push(key);
                }
            }
            FrontAt::Quic {
                listener,
                connection,
            } => {
                if let Some(front) = self.quic_mut(listener) {
                    front.block(connection, key);
                }
            }
        }
    }

    pub(super) fn version(&mut self, at: FrontAt) -> Version {
        match at {
            FrontAt::Tcp(id) => self
                .tcp_mut(id)
                .map_or(Version::Http1, |front| front.version()),
            FrontAt::Quic { .. } => Version::Http3,
        }
    }

    pub(super) fn whose(&mut self, at: FrontAt, stream: StreamId) -> Whose {
        let (connection, protocol) = match at {
            FrontAt::Tcp(id) => self
                .tcp_mut(id)
                .map_or((0, Protocol::H1), |front| (front.number, front.protocol())),
            FrontAt::Quic {
                listener,
                connection,
            } => {
                let front = self.quic_mut(listener);
                let number = front.map_or(0, |front| front.number(connection));
                (number, Protocol::H3)
            }
        };
        Whose {
            side: Side::Server,
            connection,
            stream,
            protocol,
        }
    }

    pub(super) fn respond(&mut self, at: FrontAt, stream: StreamId, response: &Arc<Response>) {
        // Refused only if the client has reset the stream meanwhile, or is gone.
        match self.on(at) {
            Some(On::Tcp(front)) => {
                let _ = front.engine.respond(stream, response);
            }
            Some(On::Quic(front, connection)) => {
                let _ = front.engine().respond(connection, stream, response);
            }
            None => {}
        }
    }

    /// Sends an interim response before the answer.
    pub(super) fn inform(&mut self, at: FrontAt, stream: StreamId, interim: &Interim) {
        match self.on(at) {
            Some(On::Tcp(front)) => front.engine.inform(stream, interim),
            Some(On::Quic(front, connection)) => front.engine().inform(connection, stream, interim),
            None => {}
        }
    }

    /// Takes bytes of an answer's streamed body, as many as there is room for, and returns how many.
    pub(super) fn send_body(&mut self, at: FrontAt, stream: StreamId, bytes: &[u8]) -> usize {
        // One that takes nothing has no news: it would have its turn for ever.
        let taken = match self.untouched(at) {
            Some(On::Tcp(front)) => front.engine.send_body(stream, bytes),
            Some(On::Quic(front, connection)) => {
                front.engine().send_body(connection, stream, bytes)
            }
            None => 0,
        };
        if taken > 0 {
            self.touch(at);
        }
        taken
    }

    pub(super) fn end_body(&mut self, at: FrontAt, stream: StreamId, trailers: Option<&Trailers>) {
        match (self.on(at), trailers) {
            (Some(On::Tcp(front)), None) => front.engine.end_body(stream),
            (Some(On::Tcp(front)), Some(trailers)) => front.engine.end_body_with(stream, trailers),
            (Some(On::Quic(front, connection)), None) => {
                front.engine().end_body(connection, stream);
            }
            (Some(On::Quic(front, connection)), Some(trailers)) => {
                front.engine().end_body_with(connection, stream, trailers);
            }
            (None, _) => {}
        }
    }

    /// Bytes of a request have left for the upstream, or were thrown away: the client may send as many again.
    pub(super) fn consume(&mut self, at: FrontAt, stream: StreamId, n: u64) {
        if n == 0 {
            return;
        }
        match self.on(at) {
            Some(On::Tcp(front)) => front.engine.consume(stream, n),
            Some(On::Quic(front, connection)) => front.engine().consume(connection, stream, n),
            None => {}
        }
    }

    /// So many bytes of requests wait here for their upstreams.
    pub(super) fn add_backlog(&mut self, at: FrontAt, n: usize) {
        if let FrontAt::Tcp(id) = at
            && let Some(front) = self.tcp_mut(id)
        {
            front.backlog_bytes += n;
        }
    }

    /// So many do not wait any more.
    pub(super) fn drop_backlog(&mut self, at: FrontAt, n: u64) {
        if let FrontAt::Tcp(id) = at
            && let Some(front) = self.tcp_mut(id)
        {
            front.backlog_bytes = front.backlog_bytes.saturating_sub(n as usize);
            if front.wants_to_go_on() {
                self.hungry.push(id);
            }
        }
    }

    /// Gives an exchange up. HTTP/1.1 can only give its connection up.
    pub(super) fn reset(&mut self, at: FrontAt, stream: StreamId, why: Why) -> u64 {
        let code = match (at, why) {
            (FrontAt::Tcp(_), Why::Done) => 0,
            (FrontAt::Tcp(_), Why::CutOff) => 0x2,
            (FrontAt::Quic { .. }, Why::Done) => h3::code::NO_ERROR,
            (FrontAt::Quic { .. }, Why::CutOff) => h3::code::INTERNAL_ERROR,
        };
        match self.on(at) {
            Some(On::Tcp(front)) => front.engine.reset(stream, code),
            Some(On::Quic(front, connection)) => front.engine().reset(connection, stream, code),
            None => {}
        }
        code
    }
}
