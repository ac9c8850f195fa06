//! One exchange in progress: where it is on either side, which parts of its bodies wait, and what its records will
//! contain.
//!
//! Only state; `relay` and `ends` change it.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Side};
use squall_http::{Request, Response, StreamId, Trailers};

use super::keys::{BackKey, ExchangeKey, FrontKey};
use super::queue::ClientHost;
use super::upload_pace::UploadPace;
use crate::exchange::MessageMarks;

/// While all exchanges keep less than this, bodies may be passed on whole: 64 MiB, a thousand of the longest ones.
const MAX_WHOLE_BYTES: usize = 64 << 20;

/// Once all exchanges keep this much, requests are refused: 512 MiB of heads, or a hundred of the largest ones on each
/// of 80 connections.
pub(super) const MAX_KEPT_BYTES: usize = 512 << 20;

/// The message about requests that are refused because of [`MAX_KEPT_BYTES`].
pub(super) const REFUSED: &str = "refused with 503 to save memory: open requests took 512 MiB";

/// Where an exchange is on the upstream side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackState {
    /// Not assigned to an upstream: not yet, or no longer.
    Unassigned,
    /// Waiting for a connection to this upstream.
    Waiting { upstream: u32 },
    /// Waiting for this connection, which was opened for it.
    Opening { at: BackKey },
    /// In flight.
    Sent { at: BackKey, stream: StreamId },
    /// Over.
    Over,
}

impl BackState {
    /// The upstream that the exchange is assigned to.
    pub(super) fn upstream(self) -> Option<u32> {
        match self {
            BackState::Waiting { upstream } => Some(upstream),
            BackState::Opening { at } | BackState::Sent { at, .. } => Some(at.pool),
            BackState::Unassigned | BackState::Over => None,
        }
    }
}

/// A body on its way from one side to the other.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes that the other side had no room for, in one flat queue: with a buffer for each piece, a peer that sends byte by
    /// byte would cost an allocation per byte.
    pub(super) waiting: VecDeque<u8>,
    /// Nothing follows `waiting`.
    pub(super) has_ended: bool,
    /// The other side has received the end, or discards the rest.
    pub(super) is_closed: bool,
    pub(super) trailers: Option<Trailers>,
    /// The flow is queued for room on the other side's connection.
    pub(super) is_blocked: bool,
    /// Bytes that arrived, and bytes that the other side accepted.
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl Flow {
    /// Passes waiting bytes to `send`, which returns how much it accepted, until it accepts no more. Returns the total.
    pub(super) fn drain_into(&mut self, mut send: impl FnMut(&[u8]) -> usize) -> u64 {
        let mut moved = 0;
        while !self.is_closed && !self.waiting.is_empty() {
            let taken = send(self.waiting.as_slices().0);
            if taken == 0 {
                break;
            }
            moved += taken as u64;
            self.waiting.drain(..taken);
        }
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        self.sent_bytes += moved;
        moved
    }

    /// Whether there is something to pass to the other side.
    pub(super) fn has_pending(&self) -> bool {
        !self.is_closed && (!self.waiting.is_empty() || self.has_ended)
    }

    /// Closes the flow once the other side takes no more bytes. Returns how many bytes are discarded.
    pub(super) fn close(&mut self) -> u64 {
        self.is_closed = true;
        std::mem::take(&mut self.waiting).len() as u64
    }
}

/// One exchange.
#[derive(Debug)]
pub(super) struct ProxyExchange {
    /// Where the exchange is on the client side; `None` once it is over there.
    pub(super) front: Option<(FrontKey, StreamId)>,
    /// The client's host, once the exchange was assigned to an upstream.
    pub(super) client: ClientHost,
    pub(super) back: BackState,
    /// Where the response comes from, or came from.
    pub(super) upstream_stream: Option<(BackKey, StreamId)>,
    /// The request for the upstream, once the head has arrived.
    pub(super) request: Option<Arc<Request>>,
    /// Method and target, for the access log.
    pub(super) request_line: Option<(String, String)>,
    pub(super) up: Flow,
    pub(super) down: Flow,
    /// A response from an upstream that is not passed on yet.
    pub(super) held: Option<Arc<Response>>,
    /// The head of a response was passed to the client's connection.
    pub(super) is_answered: bool,
    /// Some part of a response arrived from the upstream.
    pub(super) has_response_begun: bool,
    /// The response has a stated length.
    pub(super) has_length: bool,
    /// How many attempts were made to send the request to an upstream.
    pub(super) attempts: u32,
    /// When any part of the exchange last moved.
    pub(super) last_progress: Time,
    /// How fast the client sends the body.
    pub(super) pace: UploadPace,
    pub(super) status: Option<u16>,
    pub(super) front_marks: ExchangeMarks,
    pub(super) back_marks: ExchangeMarks,
    /// Which request of the schedule this is.
    pub(super) traced: Option<u64>,
    /// How the exchange got its connection to an upstream.
    pub(super) beginning: Beginning,
    pub(super) back_status: Option<u16>,
    /// Bytes that are kept until the exchange is over: the request's head, and bodies that were passed on whole.
    kept_bytes: usize,
}

/// The two messages of an exchange on one side.
#[derive(Debug, Default)]
pub(super) struct ExchangeMarks {
    pub(super) request: MessageMarks,
    pub(super) response: MessageMarks,
}

/// What a record belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOwner {
    pub(super) side: Side,
    pub(super) connection: u32,
    pub(super) stream: StreamId,
    pub(super) protocol: Protocol,
}

impl ProxyExchange {
    pub(super) fn new(front: FrontKey, stream: StreamId, now: Time) -> ProxyExchange {
        ProxyExchange {
            front: Some((front, stream)),
            client: ClientHost::UNKNOWN,
            back: BackState::Unassigned,
            upstream_stream: None,
            request: None,
            request_line: None,
            up: Flow::default(),
            down: Flow::default(),
            held: None,
            is_answered: false,
            has_response_begun: false,
            has_length: false,
            attempts: 0,
            last_progress: now,
            pace: UploadPace::new(now),
            status: None,
            front_marks: ExchangeMarks::default(),
            back_marks: ExchangeMarks::default(),
            traced: None,
            beginning: Beginning::default(),
            back_status: None,
            kept_bytes: 0,
        }
    }

    /// Whether the request's head has arrived.
    pub(super) fn has_head(&self) -> bool {
        // The proxy itself may have answered the request.
        self.request.is_some() || self.is_answered
    }

    /// Whether the request may be resent although it may have been processed (RFC 9110, section 9.2.2), and can be: no part
    /// of a response has arrived, and its body, if any, is still here as a whole.
    pub(super) fn is_repeatable(&self) -> bool {
        let is_idempotent = |request: &Arc<Request>| {
            matches!(
                request.method(),
                "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
            )
        };
        self.is_resendable() && self.request.as_ref().is_some_and(is_idempotent)
    }

    /// Whether the request can be resent if it was certainly not processed.
    pub(super) fn is_resendable(&self) -> bool {
        let is_whole =
            |request: &Arc<Request>| !matches!(request.body(), squall_http::Body::Streamed { .. });
        !self.is_answered && !self.has_response_begun && self.request.as_ref().is_some_and(is_whole)
    }

    /// The record of one side.
    pub(super) fn record(&self, hop: u8, owner: RecordOwner, reset: Option<u64>) -> ExchangeRecord {
        let is_front = owner.side == Side::Server;
        let (marks, status) = if is_front {
            (&self.front_marks, self.status)
        } else {
            (&self.back_marks, self.back_status)
        };
        let (request_body_bytes, response_body_bytes) = if is_front {
            (self.up.received_bytes, self.down.sent_bytes)
        } else {
            (self.up.sent_bytes, self.down.received_bytes)
        };
        ExchangeRecord {
            hop,
            side: owner.side,
            connection: owner.connection,
            stream: owner.stream.0,
            protocol: owner.protocol,
            request: self.traced,
            beginning: if is_front {
                Beginning::default()
            } else {
                self.beginning
            },
            request_first: marks.request.first,
            request_last: marks.request.last,
            response_first: marks.response.first,
            response_last: marks.response.last,
            request_extent: marks.request.extent(),
            response_extent: marks.response.extent(),
            request_body_bytes,
            response_body_bytes,
            status,
            reset,
        }
    }
}

/// All exchanges. Slots are reused; the key of an exchange that is gone finds nothing.
#[derive(Default)]
pub(super) struct ProxyExchanges {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes that all exchanges keep.
    kept_bytes: usize,
}

struct Slot {
    generation: u32,
    exchange: Option<Box<ProxyExchange>>,
}

impl ProxyExchanges {
    pub(super) fn insert(&mut self, exchange: ProxyExchange) -> ExchangeKey {
        let exchange = Some(Box::new(exchange));
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.exchange = exchange;
            return ExchangeKey {
                index,
                generation: slot.generation,
            };
        }
        self.slots.push(Slot {
            generation: 0,
            exchange,
        });
        ExchangeKey {
            index: self.slots.len() as u32 - 1,
            generation: 0,
        }
    }

    pub(super) fn get_mut(&mut self, key: ExchangeKey) -> Option<&mut ProxyExchange> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        slot.exchange.as_deref_mut()
    }

    pub(super) fn remove(&mut self, key: ExchangeKey) {
        if self.get_mut(key).is_some() {
            let slot = &mut self.slots[key.index as usize];
            let kept_bytes = (slot.exchange.as_deref()).map_or(0, |exchange| exchange.kept_bytes);
            self.kept_bytes = self.kept_bytes.saturating_sub(kept_bytes);
            slot.exchange = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.index);
        }
    }

    /// Counts bytes that an exchange keeps until it is over.
    pub(super) fn keep(&mut self, key: ExchangeKey, bytes: usize) {
        if let Some(exchange) = self.get_mut(key) {
            exchange.kept_bytes += bytes;
            self.kept_bytes += bytes;
        }
    }

    /// How long a body may be to be passed on whole now. A longer body waits piece by piece, and its sender's window stays
    /// closed meanwhile.
    pub(super) fn room(&self) -> usize {
        MAX_WHOLE_BYTES.saturating_sub(self.kept_bytes)
    }

    /// Whether there is no room for another request.
    pub(super) fn are_full(&self) -> bool {
        self.kept_bytes >= MAX_KEPT_BYTES
    }

    /// The exchange whose response has the most bytes waiting for its client, if any has.
    pub(super) fn longest_wait(&self) -> Option<ExchangeKey> {
        let bytes = |exchange: &ProxyExchange| exchange.down.waiting.len();
        let waiting = self.iter().filter(|(_, exchange)| bytes(exchange) > 0);
        let longest = waiting.max_by_key(|(_, exchange)| bytes(exchange));
        longest.map(|(key, _)| key)
    }

    /// Whether this exchange exists and waits for a connection to this upstream.
    pub(super) fn waits(&mut self, key: ExchangeKey, upstream: u32) -> bool {
        let exchange = self.get_mut(key);
        exchange.is_some_and(|exchange| exchange.back == BackState::Waiting { upstream })
    }

    /// All exchanges that exist now, to change them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ExchangeKey, &mut ProxyExchange)> {
        (0..).zip(&mut self.slots).filter_map(|(index, slot)| {
            let generation = slot.generation;
            let exchange = slot.exchange.as_deref_mut()?;
            Some((ExchangeKey { index, generation }, exchange))
        })
    }

    /// All exchanges that exist now.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExchangeKey, &ProxyExchange)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            let exchange = slot.exchange.as_deref()?;
            let generation = slot.generation;
            Some((ExchangeKey { index, generation }, exchange))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_removed_exchange_finds_nothing() {
        let mut exchanges = ProxyExchanges::default();
        let new = || ProxyExchange::new(FrontKey::Tcp(0), StreamId(0), Time::ZERO);
        let first = exchanges.insert(new());
        exchanges.remove(first);
        let second = exchanges.insert(new());
        assert!(exchanges.get_mut(first).is_none());
        assert!(exchanges.get_mut(second).is_some());
        exchanges.remove(first);
        assert_eq!(exchanges.iter().count(), 1);
    }

    #[test]
    fn kept_bytes_count_until_the_exchange_is_over() {
        let mut exchanges = ProxyExchanges::default();
        let new = || ProxyExchange::new(FrontKey::Tcp(0), StreamId(0), Time::ZERO);
        let (first, second) = (exchanges.insert(new()), exchanges.insert(new()));
        exchanges.keep(first, MAX_WHOLE_BYTES);
        assert_eq!((exchanges.room(), exchanges.are_full()), (0, false));
        exchanges.keep(second, MAX_KEPT_BYTES);
        assert!(exchanges.are_full());
        exchanges.remove(second);
        exchanges.keep(second, 1);
        exchanges.remove(first);
        assert_eq!(
            (exchanges.room(), exchanges.kept_bytes),
            (MAX_WHOLE_BYTES, 0)
        );
    }

    #[test]
    fn single_bytes_of_a_flow_are_joined_into_one_queue() {
        let mut flow = Flow::default();
        for byte in b"abc" {
            flow.waiting.extend([byte]);
        }
        let mut sent = Vec::new();
        let moved = flow.drain_into(|piece| {
            let taken = piece.len().min(2 - sent.len().min(2));
            sent.extend_from_slice(&piece[..taken]);
            taken
        });
        assert_eq!((moved, &sent[..], flow.waiting.len()), (2, &b"ab"[..], 1));
        assert_eq!((flow.close(), flow.has_pending()), (1, false));
    }
}
