//! Where a connection puts what it learns: events, and on request header fields, body bytes and frames.
//!
//! A load generator wants marks only and pays for nothing else; a proxy wants everything. The owner empties the inbox
//! after each call, so that it can stamp what it finds with the time of that call.

use squall_base::record::FrameFacts;

use crate::event::{ClientEvent, Field, ServerEvent, StreamId};

/// What an inbox takes besides events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Header fields, in the events of heads, and trailers.
    pub fields: bool,
    /// The bytes of bodies.
    pub bodies: bool,
    /// Frames of HTTP/2, HTTP/3 and QUIC.
    pub frames: bool,
}

/// What a connection learned, in order.
#[derive(Clone, Debug)]
pub struct Inbox<E> {
    wants: Wants,
    /// The events.
    pub events: Vec<E>,
    /// If wanted: the bytes of all body events among `events`, one after another, in their order.
    pub bodies: Vec<u8>,
    /// If fields are wanted: the trailers of messages whose ends are among `events`, if they have any.
    pub trailers: Vec<(StreamId, Vec<Field>)>,
    /// If wanted: the frames that were read by `receive`, or whose last byte the socket took.
    pub frames: Vec<FrameFacts>,
}

impl<E> Inbox<E> {
    /// An empty inbox.
    pub fn new(wants: Wants) -> Inbox<E> {
        Inbox {
            wants,
            events: Vec::new(),
            bodies: Vec::new(),
            trailers: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// What it takes besides events.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.frames.is_empty()
    }

    /// Throws away what is in it and keeps its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.bodies.clear();
        self.trailers.clear();
        self.frames.clear();
    }

    /// Adds one event.
    pub(crate) fn push(&mut self, event: E) {
        self.events.push(event);
    }

    /// Moves everything of `other`, which wants the same, behind what is here.
    pub fn append(&mut self, other: &mut Inbox<E>) {
        self.events.append(&mut other.events);
        self.bodies.append(&mut other.bodies);
        self.trailers.append(&mut other.trailers);
        self.frames.append(&mut other.frames);
    }

    /// Adds trailers, if they are wanted and there are any.
    pub(crate) fn push_trailers(&mut self, stream: StreamId, fields: Vec<Field>) {
        if self.wants.fields && !fields.is_empty() {
            self.trailers.push((stream, fields));
        }
    }

    /// The trailers of a message that has ended.
    pub fn take_trailers(&mut self, of: StreamId) -> Option<Vec<Field>> {
        let index = self.trailers.iter().position(|(stream, _)| *stream == of)?;
        Some(self.trailers.swap_remove(index).1)
    }

    fn keep_body(&mut self, bytes: &[u8]) {
        if self.wants.bodies {
            self.bodies.extend_from_slice(bytes);
        }
    }
}

impl<E> Default for Inbox<E> {
    fn default() -> Self {
        Inbox::new(Wants::default())
    }
}

impl Inbox<ClientEvent> {
    /// Adds body bytes of a response, to the last event if that is one of the same body: a peer that sends tiny
    /// pieces shall not make many events.
    pub(crate) fn push_body(&mut self, of: StreamId, bytes: &[u8]) {
        self.keep_body(bytes);
        match self.events.last_mut() {
            _ if bytes.is_empty() => {}
            Some(ClientEvent::ResponseBody { stream, len }) if *stream == of => {
                *len += bytes.len() as u64;
            }
            _ => self.push(ClientEvent::ResponseBody {
                stream: of,
                len: bytes.len() as u64,
            }),
        }
    }
}

impl Inbox<ServerEvent> {
    /// As for responses.
    pub(crate) fn push_body(&mut self, of: StreamId, bytes: &[u8]) {
        self.keep_body(bytes);
        match self.events.last_mut() {
            _ if bytes.is_empty() => {}
            Some(ServerEvent::RequestBody { stream, len }) if *stream == of => {
                *len += bytes.len() as u64;
            }
            _ => self.push(ServerEvent::RequestBody {
                stream: of,
                len: bytes.len() as u64,
            }),
        }
    }
}
