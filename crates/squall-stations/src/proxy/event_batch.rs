//! The events of one read or write on either side, handed out in order with the bytes and trailers that belong to them.
//!
//! It does not know exchanges: `relay` acts on the events.

use std::vec;

use squall_http::{Bytes, ClientEvent, Field, Inbox, ServerEvent, StreamId, Trailers};

use super::headers;

/// Bodies that are complete and at most this long are passed on together with their heads.
const WHOLE_BYTES: u64 = 64 * 1024;

/// What one read brought, or one write marked.
pub(super) struct EventBatch<'a, E> {
    /// The events that have not been handled.
    pub(super) events: vec::Drain<'a, E>,
    bodies: &'a [u8],
    trailers: &'a mut Vec<(StreamId, Vec<Field>)>,
}

impl<'a, E> EventBatch<'a, E> {
    pub(super) fn of(inbox: &'a mut Inbox<E>) -> EventBatch<'a, E> {
        EventBatch {
            events: inbox.events.drain(..),
            bodies: &inbox.bodies,
            trailers: &mut inbox.trailers,
        }
    }

    /// Takes the next `len` bytes of bodies.
    pub(super) fn body(&mut self, len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (body, rest) = self.bodies.split_at(len.min(self.bodies.len()));
        self.bodies = rest;
        body
    }

    /// Takes a body of this length, and its event, which comes next, if it may be passed on as a whole.
    fn whole(&mut self, stream: StreamId, len: u64, room: usize) -> Option<Bytes> {
        if len > WHOLE_BYTES.min(room as u64) || self.trailers.iter().any(|(of, _)| *of == stream) {
            return None;
        }
        if len > 0 {
            self.events.next();
        }
        Some(Bytes::copy_from_slice(self.body(len)))
    }

    pub(super) fn trailers(&mut self, stream: StreamId) -> Option<Trailers> {
        let index = self.trailers.iter().position(|(of, _)| *of == stream)?;
        let fields = headers::of_trailers(self.trailers.remove(index).1);
        Trailers::relayed(fields).ok()
    }
}

impl EventBatch<'_, ServerEvent> {
    /// Takes the whole body of a request, if the next events show that it is there and nothing follows it, and if it has
    /// at most `room` bytes.
    pub(super) fn whole_request(&mut self, stream: StreamId, room: usize) -> Option<Bytes> {
        let len = match self.events.as_slice() {
            [ServerEvent::RequestEnd { stream: of, .. }, ..] if *of == stream => 0,
            [
                ServerEvent::RequestBody { stream: of, len },
                ServerEvent::RequestEnd { stream: end_of, .. },
                ..,
            ] if *of == stream && *end_of == stream => *len,
            _ => return None,
        };
        self.whole(stream, len, room)
    }
}

impl EventBatch<'_, ClientEvent> {
    /// Takes the whole body of a response, if the next events show that it is there and nothing follows it, and if it
    /// has at most `room` bytes.
    pub(super) fn whole_response(&mut self, stream: StreamId, room: usize) -> Option<Bytes> {
        let len = match self.events.as_slice() {
            [ClientEvent::ResponseEnd { stream: of, .. }, ..] if *of == stream => 0,
            [
                ClientEvent::ResponseBody { stream: of, len },
                ClientEvent::ResponseEnd { stream: end_of, .. },
                ..,
            ] if *of == stream && *end_of == stream => *len,
            _ => return None,
        };
        self.whole(stream, len, room)
    }
}
