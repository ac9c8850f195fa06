//! One exchange on its way: where it is on either side, what waits of its bodies, and what its records will say.
//!
//! Only state; what happens to it is in `relay` and `ends`.

use std::collections::VecDeque;
use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Side};
use squall_http::{Bytes, Request, Response, StreamId, Trailers};

use super::back::At;
use super::front::FrontAt;
use crate::exchange::Passage;

/// Names an exchange, also after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// Where an exchange is on the side of the upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// Not there yet, or again.
    Nowhere,
    /// It waits for a connection to this upstream.
    Waiting { lane: u32 },
    /// It waits for this connection, which was opened for it.
    Opening { at: At },
    /// It is on its way.
    Sent { at: At, stream: StreamId },
    /// It is over.
    Over,
}

impl Back {
    /// The upstream that has it.
    pub(super) fn lane(self) -> Option<u32> {
        match self {
            Back::Waiting { lane } => Some(lane),
            Back::Opening { at } | Back::Sent { at, .. } => Some(at.lane),
            Back::Nowhere | Back::Over => None,
        }
    }
}

/// A body on its way from one side to the other.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// What the other side had no room for.
    pub(super) pieces: VecDeque<Bytes>,
    /// Nothing follows.
    pub(super) has_ended: bool,
    /// The other side was told so, or wants no more.
    pub(super) is_closed: bool,
    pub(super) trailers: Option<Trailers>,
    /// It is among those that wait for room on the other side's connection.
    pub(super) is_blocked: bool,
    /// Bytes that came, and bytes that the other side took.
    pub(super) came_bytes: u64,
    pub(super) went_bytes: u64,
}

impl Flow {
    /// Gives what waits to `send`, which says how much it took, until it takes no more; how much that was.
    pub(super) fn give(&mut self, mut send: impl FnMut(&[u8]) -> usize) -> u64 {
        let mut moved = 0;
        while !self.is_closed
            && let Some(piece) = self.pieces.front_mut()
        {
            let taken = send(piece);
            if taken == 0 {
                break;
            }
            moved += taken as u64;
            let _ = piece.split_to(taken);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        self.went_bytes += moved;
        moved
    }

    /// Whether the other side has to be given something.
    pub(super) fn has_news(&self) -> bool {
        !self.is_closed && (!self.pieces.is_empty() || self.has_ended)
    }

    /// The other side wants nothing more: how many bytes are thrown away.
    pub(super) fn close(&mut self) -> u64 {
        self.is_closed = true;
        self.pieces.drain(..).map(|piece| piece.len() as u64).sum()
    }
}

/// One exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Where it is on the side of the clients; `None`: it is over there.
    pub(super) front: Option<(FrontAt, StreamId)>,
    pub(super) back: Back,
    /// Where its answer comes from, or has come from.
    pub(super) came_over: Option<(At, StreamId)>,
    /// What is sent to the upstream, once the head has come.
    pub(super) request: Option<Arc<Request>>,
    /// For the access log.
    pub(super) words: Option<(String, String)>,
    pub(super) up: Flow,
    pub(super) down: Flow,
    /// An upstream's answer that is not passed on yet.
    pub(super) held: Option<Arc<Response>>,
    /// The head of an answer was given to the client's connection.
    pub(super) is_answered: bool,
    /// Something of an answer came from the upstream.
    pub(super) is_answer_begun: bool,
    /// The answer says how long it is.
    pub(super) has_length: bool,
    /// How often it was given to an upstream.
    pub(super) attempts: u32,
    /// When something of it last moved.
    pub(super) last_progress: Time,
    pub(super) status: Option<u16>,
    pub(super) front_marks: Marks,
    pub(super) back_marks: Marks,
    /// Which of the schedule's requests it is.
    pub(super) traced: Option<u64>,
    /// How it came to be sent to an upstream.
    pub(super) beginning: Beginning,
    pub(super) back_status: Option<u16>,
}

/// The two messages of an exchange on one side.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) request: Passage,
    pub(super) response: Passage,
}

/// Whose a record is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose {
    pub(super) side: Side,
    pub(super) connection: u32,
    pub(super) stream: StreamId,
    pub(super) protocol: Protocol,
}

impl Exchange {
    pub(super) fn new(front: FrontAt, stream: StreamId, now: Time) -> Exchange {
        Exchange {
            front: Some((front, stream)),
            back: Back::Nowhere,
            came_over: None,
            request: None,
            words: None,
            up: Flow::default(),
            down: Flow::default(),
            held: None,
            is_answered: false,
            is_answer_begun: false,
            has_length: false,
            attempts: 0,
            last_progress: now,
            status: None,
            front_marks: Marks::default(),
            back_marks: Marks::default(),
            traced: None,
            beginning: Beginning::default(),
            back_status: None,
        }
    }

    /// Whether it may be sent again although it may have been acted on (RFC 9110, section 9.2.2), and can be: nothing of
    /// an answer came, and there is no body that would have had to be kept.
    pub(super) fn is_repeatable(&self) -> bool {
        let is_idempotent = |request: &Arc<Request>| {
            matches!(
                request.method(),
                "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
            )
        };
        self.is_resendable() && self.request.as_ref().is_some_and(is_idempotent)
    }

    /// Whether it can be sent again if it certainly was not acted on.
    pub(super) fn is_resendable(&self) -> bool {
        let is_whole =
            |request: &Arc<Request>| !matches!(request.body(), squall_http::Body::Streamed { .. });
        !self.is_answered && !self.is_answer_begun && self.request.as_ref().is_some_and(is_whole)
    }

    /// The record of one side.
    pub(super) fn record(&self, hop: u8, whose: Whose, reset: Option<u64>) -> ExchangeRecord {
        let is_front = whose.side == Side::Server;
        let (marks, status) = match is_front {
            true => (&self.front_marks, self.status),
            false => (&self.back_marks, self.back_status),
        };
        let (request_body_bytes, response_body_bytes) = match is_front {
            true => (self.up.came_bytes, self.down.went_bytes),
            false => (self.up.went_bytes, self.down.came_bytes),
        };
        ExchangeRecord {
            hop,
            side: whose.side,
            connection: whose.connection,
            stream: whose.stream.0,
            protocol: whose.protocol,
            request: self.traced,
            beginning: match is_front {
                true => Beginning::default(),
                false => self.beginning,
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

/// All exchanges. Places are used again; a key of one that is gone finds nothing.
#[derive(Default)]
pub(super) struct Exchanges {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    exchange: Option<Box<Exchange>>,
}

impl Exchanges {
    pub(super) fn insert(&mut self, exchange: Exchange) -> Key {
        let exchange = Some(Box::new(exchange));
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.exchange = exchange;
            return Key {
                index,
                generation: slot.generation,
            };
        }
        self.slots.push(Slot {
            generation: 0,
            exchange,
        });
        Key {
            index: self.slots.len() as u32 - 1,
            generation: 0,
        }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Exchange> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        slot.exchange.as_deref_mut()
    }

    pub(super) fn remove(&mut self, key: Key) {
        if self.get_mut(key).is_some() {
            let slot = &mut self.slots[key.index as usize];
            slot.exchange = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.index);
        }
    }

    /// All that there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Exchange)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            let exchange = slot.exchange.as_deref()?;
            let generation = slot.generation;
            Some((Key { index, generation }, exchange))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_one_that_is_gone_finds_nothing() {
        let mut exchanges = Exchanges::default();
        let new = || Exchange::new(FrontAt::Tcp(0), StreamId(0), Time::ZERO);
        let first = exchanges.insert(new());
        exchanges.remove(first);
        let second = exchanges.insert(new());
        assert!(exchanges.get_mut(first).is_none());
        assert!(exchanges.get_mut(second).is_some());
        exchanges.remove(first);
        assert_eq!(exchanges.iter().count(), 1);
    }
}
