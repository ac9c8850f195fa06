//! One connection of an HTTP/3 server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use squall_base::record::FrameFacts;

use super::connection::{Connection, Head, Heard, Mark, Refused, Side};
use super::outbound::Outbound;
use super::wire::STREAM_STEP;
use super::{Batch, code, head};
use crate::error::RespondError;
use crate::event::{Field, ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Body, Interim, Response, Trailers};

/// A connection that a client opened.
pub(super) struct Accepted {
    pub(super) connection: Connection,
    exchanges: Exchanges,
}

#[derive(Default)]
struct Exchanges {
    open: BTreeMap<u64, Exchange>,
    /// The next stream that a client will open after those that it has.
    next: u64,
    /// We said GOAWAY: streams from here on are not served.
    limit: Option<u64>,
}

/// A stream of which request or response are not complete.
#[derive(Default)]
struct Exchange {
    has_head: bool,
    /// Its method is HEAD: whatever the response is, no body is sent.
    is_head: bool,
    is_heard: bool,
    is_answered: bool,
    is_written: bool,
}

impl Accepted {
    pub(super) fn new(connection: Connection) -> Accepted {
        Accepted {
            connection,
            exchanges: Exchanges::default(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.exchanges.open.len()
    }

    pub(super) fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ServerEvent>,
    ) {
        let mut side = Listener {
            exchanges: &mut self.exchanges,
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
            exchanges: &mut self.exchanges,
            inbox,
        };
        self.connection.output(now, batch, &mut side)
    }

    pub(super) fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let exchange = self
            .exchanges
            .open
            .get_mut(&stream.0)
            .filter(|exchange| exchange.has_head && !exchange.is_answered)
            .ok_or(RespondError::NotWaiting(stream))?;
        exchange.is_answered = true;
        self.connection.answer(stream.0);
        self.connection.send(stream.0, |out| {
            let body = match exchange.is_head {
                true => &Body::EMPTY,
                false => response.body(),
            };
            out.push_message(head::encode(response.pairs()), body);
        });
        Ok(())
    }

    pub(super) fn inform(&mut self, stream: StreamId, interim: &Interim) {
        let exchange = self.exchanges.open.get(&stream.0);
        if exchange.is_some_and(|exchange| exchange.has_head && !exchange.is_answered) {
            self.connection.answer(stream.0);
            if self.connection.body_room(stream.0) > 0 {
                self.connection.send(stream.0, |out| {
                    out.push_frame(head::encode(interim.pairs()), None);
                });
            }
        }
    }

    pub(super) fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.connection
            .send(stream.0, |out| out.push_some(bytes))
            .unwrap_or(0)
    }

    pub(super) fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        self.connection
            .send(stream.0, |out| out.push_trailers(trailers));
    }

    pub(super) fn end_body(&mut self, stream: StreamId) {
        self.connection.send(stream.0, Outbound::end_here);
    }

    pub(super) fn reset(&mut self, stream: StreamId, code: u64) {
        self.exchanges.open.remove(&stream.0);
        self.connection.reset(stream.0, code);
    }

    pub(super) fn go_away(&mut self) {
        let limit = self.exchanges.next;
        self.exchanges.limit.get_or_insert(limit);
        self.connection.go_away(limit);
    }
}

/// The server while something arrives on this connection.
struct Listener<'a> {
    exchanges: &'a mut Exchanges,
    inbox: &'a mut Inbox<ServerEvent>,
}

impl Listener<'_> {
    fn forget_if_over(&mut self, id: u64) {
        let is_over = |exchange: &Exchange| exchange.is_heard && exchange.is_written;
        if self.exchanges.open.get(&id).is_some_and(is_over) {
            self.exchanges.open.remove(&id);
        }
    }

    fn fail(&mut self, id: u64, event: ServerEvent) {
        if self.exchanges.open.remove(&id).is_some() {
            self.inbox.push(event);
        }
    }
}

impl Side for Listener<'_> {
    fn head(&mut self, id: u64, block: &[u8]) -> Result<Head, Refused> {
        let headers = head::decode(block)?;
        let head = head::request(headers).map_err(|_| Refused(code::MESSAGE_ERROR))?;
        if let Some(exchange) = self.exchanges.open.get_mut(&id) {
            exchange.has_head = true;
            exchange.is_head = head.method == "HEAD";
        }
        let mut fields = Vec::new();
        if self.inbox.wants().fields {
            // What an HTTP/1.1 message has in the place of `:authority` (RFC 9114, section 4.3.1).
            fields.extend(head.authority.map(|authority| Field {
                name: Bytes::from_static(b"host"),
                value: authority.into(),
            }));
            fields.extend(head.rest.fields);
        }
        self.inbox.push(ServerEvent::RequestHead {
            stream: StreamId(id),
            method: head.method,
            target: head.target,
            fields,
        });
        Ok(Head::Final(head.rest.length))
    }

    fn trailers(&mut self, id: u64, block: &[u8]) -> Result<(), Refused> {
        let fields =
            head::trailers(head::decode(block)?).map_err(|_| Refused(code::MESSAGE_ERROR))?;
        if self.inbox.wants().fields {
            self.inbox.push_trailers(StreamId(id), fields);
        }
        Ok(())
    }

    fn heard(&mut self, id: u64, heard: Heard<'_>) {
        let stream = StreamId(id);
        match heard {
            Heard::FirstByte => self
                .inbox
                .push(ServerEvent::RequestFirstByte { stream, offset: 0 }),
            Heard::Body(bytes) => self.inbox.push_body(stream, bytes),
            Heard::End(end) => {
                if let Some(exchange) = self.exchanges.open.get_mut(&id) {
                    exchange.is_heard = true;
                }
                self.inbox.push(ServerEvent::RequestEnd { stream, end });
                self.forget_if_over(id);
            }
            Heard::Reset(code) | Heard::Stopped(code) => {
                self.fail(id, ServerEvent::StreamReset { stream, code });
            }
            Heard::Refused(code) => self.fail(id, ServerEvent::RequestBroken { stream, code }),
        }
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::First(id) => self.inbox.push(ServerEvent::ResponseFirstByteWritten {
                stream: StreamId(id),
                offset: 0,
            }),
            Mark::Last(id, end) => {
                if let Some(exchange) = self.exchanges.open.get_mut(&id) {
                    exchange.is_written = true;
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
        // A client's names pushes, of which there are none.
    }

    fn unanswered(&self) -> Vec<u64> {
        let open = self.exchanges.open.iter();
        open.filter(|(_, exchange)| !exchange.is_answered)
            .map(|(id, _)| *id)
            .collect()
    }

    fn accepts(&mut self, id: u64) -> Result<(), Refused> {
        if self.exchanges.limit.is_some_and(|limit| id >= limit) {
            return Err(Refused(code::REQUEST_REJECTED));
        }
        self.exchanges.next = self.exchanges.next.max(id + STREAM_STEP);
        self.exchanges.open.insert(id, Exchange::default());
        Ok(())
    }

    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>> {
        let wants = self.inbox.wants();
        wants.frames.then_some(&mut self.inbox.frames)
    }
}
