//! One connection of an HTTP/3 server.
//!
//! `server` accepts connections and runs their timers; `connection` holds what both sides share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use squall_base::record::FrameFacts;

use super::code::{self, StreamError};
use super::connection::{Connection, ConnectionEnd, HeadKind, Mark, MessageEvent, Side};
use super::wire::STREAM_STEP;
use super::{Batch, head};
use crate::error::RespondError;
use crate::event::{Field, ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Body, Interim, Response};

/// A connection opened by a client, one of a [`super::Server`].
pub struct AcceptedConnection {
    pub(super) connection: Connection,
    streams: OpenStreams,
}

#[derive(Default)]
struct OpenStreams {
    open: BTreeMap<u64, StreamState>,
    /// The id of the next stream that the client will open.
    next: u64,
    /// Set after we sent GOAWAY: streams from this id on are not served.
    limit: Option<u64>,
}

/// A stream whose request or response is not complete.
#[derive(Default)]
struct StreamState {
    has_head: bool,
    /// The request's method is HEAD: no body is sent, whatever the response is.
    is_head: bool,
    is_received: bool,
    is_answered: bool,
    is_written: bool,
}

impl AcceptedConnection {
    pub(super) fn new(connection: Connection) -> AcceptedConnection {
        AcceptedConnection {
            connection,
            streams: OpenStreams::default(),
        }
    }

    pub(super) fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ServerEvent>,
    ) {
        let mut side = Listener {
            streams: &mut self.streams,
            inbox,
        };
        self.connection.receive(datagram, from, to, &mut side);
    }

    pub(super) fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ServerEvent>,
    ) -> bool {
        let mut side = Listener {
            streams: &mut self.streams,
            inbox,
        };
        self.connection.output(now, batch, &mut side)
    }

    /// See [`crate::ServerStreams::respond`].
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let state = self
            .streams
            .open
            .get_mut(&stream.0)
            .filter(|state| state.has_head && !state.is_answered)
            .ok_or(RespondError::NotWaiting(stream))?;
        state.is_answered = true;
        self.connection.prepare_to_send(stream.0);
        self.connection.send(stream.0, |out| {
            let body = if state.is_head {
                &Body::EMPTY
            } else {
                response.body()
            };
            out.push_message(head::encode(response.pairs()), body);
        });
        Ok(())
    }

    /// See [`crate::ServerStreams::inform`].
    pub fn inform(&mut self, stream: StreamId, interim: &Interim) {
        let state = self.streams.open.get(&stream.0);
        if state.is_some_and(|state| state.has_head && !state.is_answered) {
            self.connection.prepare_to_send(stream.0);
            if self.connection.body_room(stream.0) > 0 {
                self.connection.send(stream.0, |out| {
                    out.push_frame(head::encode(interim.pairs()), None);
                });
            }
        }
    }

    pub(super) fn go_away(&mut self) {
        let limit = self.streams.next;
        self.streams.limit.get_or_insert(limit);
        self.connection.go_away(limit);
    }
}

impl ConnectionEnd for AcceptedConnection {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn forget(&mut self, stream: u64) {
        self.streams.open.remove(&stream);
    }
}

/// Turns what happens on this connection into the server's events.
struct Listener<'a> {
    streams: &'a mut OpenStreams,
    inbox: &'a mut Inbox<ServerEvent>,
}

impl Listener<'_> {
    fn forget_if_over(&mut self, id: u64) {
        let is_over = |state: &StreamState| state.is_received && state.is_written;
        if self.streams.open.get(&id).is_some_and(is_over) {
            self.streams.open.remove(&id);
        }
    }

    fn fail(&mut self, id: u64, event: ServerEvent) {
        if self.streams.open.remove(&id).is_some() {
            self.inbox.push(event);
        }
    }
}

impl Side for Listener<'_> {
    fn head(&mut self, id: u64, block: &[u8]) -> Result<HeadKind, StreamError> {
        let head = head::request(head::decode(block)?)?;
        if let Some(state) = self.streams.open.get_mut(&id) {
            state.has_head = true;
            state.is_head = head.method == "HEAD";
        }
        let expects_continue = head.regular.expects_continue();
        let mut fields = Vec::new();
        if self.inbox.wants().fields {
            // The field that replaces `:authority` in an HTTP/1.1 message (RFC 9114, section 4.3.1).
            fields.extend(head.authority.map(|authority| Field {
                name: Bytes::from_static(b"host"),
                value: authority.into(),
            }));
            fields.extend(head.regular.fields);
        }
        self.inbox.push(ServerEvent::RequestHead {
            stream: StreamId(id),
            method: head.method,
            target: head.target,
            fields,
            expects_continue,
        });
        Ok(HeadKind::Final(head.regular.length))
    }

    fn trailers(&mut self, id: u64, block: &[u8]) -> Result<(), StreamError> {
        let fields = head::trailers(head::decode(block)?)?;
        self.inbox.push_trailers(StreamId(id), fields);
        Ok(())
    }

    fn on_event(&mut self, id: u64, event: MessageEvent<'_>) {
        let stream = StreamId(id);
        match event {
            MessageEvent::FirstByte => self
                .inbox
                .push(ServerEvent::RequestFirstByte { stream, offset: 0 }),
            MessageEvent::Body(bytes) => self.inbox.push_body(stream, bytes),
            MessageEvent::End(end) => {
                if let Some(state) = self.streams.open.get_mut(&id) {
                    state.is_received = true;
                }
                self.inbox.push(ServerEvent::RequestEnd { stream, end });
                self.forget_if_over(id);
            }
            MessageEvent::Reset(code) | MessageEvent::Stopped(code) => {
                self.fail(id, ServerEvent::StreamReset { stream, code });
            }
            MessageEvent::Rejected(code) => {
                self.fail(id, ServerEvent::RequestBroken { stream, code });
            }
        }
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::First(id) => self.inbox.push(ServerEvent::ResponseFirstByteWritten {
                stream: StreamId(id),
                offset: 0,
            }),
            Mark::Last(id, end) => {
                if let Some(state) = self.streams.open.get_mut(&id) {
                    state.is_written = true;
                }
                self.inbox.push(ServerEvent::ResponseWritten {
                    stream: StreamId(id),
                    end,
                });
                self.forget_if_over(id);
            }
        }
    }

    fn go_away(&mut self, _: u64) {
        // A client's GOAWAY refers to pushes, which we never make.
    }

    fn unanswered(&self) -> Vec<u64> {
        let open = self.streams.open.iter();
        open.filter(|(_, state)| !state.is_answered)
            .map(|(id, _)| *id)
            .collect()
    }

    fn accepts(&mut self, id: u64) -> Result<(), StreamError> {
        if self.streams.limit.is_some_and(|limit| id >= limit) {
            return Err(StreamError(code::REQUEST_REJECTED));
        }
        self.streams.next = self.streams.next.max(id + STREAM_STEP);
        self.streams.open.insert(id, StreamState::default());
        Ok(())
    }

    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>> {
        self.inbox.wanted_frames()
    }
}
