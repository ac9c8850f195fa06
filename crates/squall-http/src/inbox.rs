//! Where a connection puts its output for the owner: events and, on request, header fields, body bytes and frames.
//!
//! A load generator wants only the marks and pays for nothing else; a proxy wants everything. The owner empties the
//! inbox after each call, so that it can stamp the contents with the time of that call.

use squall_base::record::FrameFacts;

use crate::event::{ClientEvent, Field, ServerEvent, StreamId};

/// How many items of each kind an emptied inbox has room for: more than most reads bring. If one read brings thousands,
/// the inbox must not keep that memory until the connection ends.
const KEPT_ITEMS: usize = 128;

/// How many bytes of bodies an emptied inbox has room for: those of one read.
const KEPT_BYTES: usize = 64 * 1024;

/// What an inbox collects in addition to events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxOptions {
    /// Header fields, in the events for heads, and trailers.
    pub fields: bool,
    /// The bytes of bodies.
    pub bodies: bool,
    /// Frames of HTTP/2, HTTP/3 and QUIC.
    pub frames: bool,
}

/// What a connection has reported, in order.
#[derive(Clone, Debug)]
pub struct Inbox<E> {
    wants: InboxOptions,
    /// The events.
    pub events: Vec<E>,
    /// If wanted: the bytes of all body events in `events`, concatenated in order.
    pub bodies: Vec<u8>,
    /// If fields are wanted: the trailers, if any, of messages that end in `events`.
    pub trailers: Vec<(StreamId, Vec<Field>)>,
    /// If wanted: the frames read by `receive`, and those whose last byte the socket took.
    pub frames: Vec<FrameFacts>,
}

impl<E> Inbox<E> {
    /// An empty inbox.
    pub fn new(wants: InboxOptions) -> Inbox<E> {
        Inbox {
            wants,
            events: Vec::new(),
            bodies: Vec::new(),
            trailers: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// What the inbox collects in addition to events.
    pub fn wants(&self) -> InboxOptions {
        self.wants
    }

    /// Whether the inbox holds no events and no frames.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.frames.is_empty()
    }

    /// Discards the contents and keeps the memory of a usual read.
    pub fn clear(&mut self) {
        self.events.clear();
        self.events.shrink_to(KEPT_ITEMS);
        self.bodies.clear();
        self.bodies.shrink_to(KEPT_BYTES);
        self.trailers.clear();
        self.trailers.shrink_to(KEPT_ITEMS);
        self.frames.clear();
        self.frames.shrink_to(KEPT_ITEMS);
    }

    /// Adds one event.
    pub(crate) fn push(&mut self, event: E) {
        self.events.push(event);
    }

    /// Moves everything from `other`, which must have the same wants, to the end of this inbox.
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

    /// Takes the trailers of a message that has ended.
    pub fn take_trailers(&mut self, of: StreamId) -> Option<Vec<Field>> {
        let index = self.trailers.iter().position(|(stream, _)| *stream == of)?;
        Some(self.trailers.swap_remove(index).1)
    }

    /// Where frames go, if they are wanted.
    pub(crate) fn wanted_frames(&mut self) -> Option<&mut Vec<FrameFacts>> {
        self.wants.frames.then_some(&mut self.frames)
    }

    fn keep_body(&mut self, bytes: &[u8]) {
        if self.wants.bodies {
            self.bodies.extend_from_slice(bytes);
        }
    }
}

impl<E> Default for Inbox<E> {
    fn default() -> Self {
        Inbox::new(InboxOptions::default())
    }
}

impl Inbox<ClientEvent> {
    /// Adds body bytes of a response. Extends the last event if it is for the same body, so that a peer that sends tiny
    /// pieces does not cause many events.
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
    /// Adds body bytes of a request, merging events as for responses.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptied_inbox_keeps_little_memory() {
        let mut inbox = Inbox::<ServerEvent>::default();
        for number in 0..100_000 {
            inbox.push_body(StreamId(number), b"x");
        }
        inbox.clear();
        assert!(inbox.events.capacity() <= KEPT_ITEMS);
    }
}
