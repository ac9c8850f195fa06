//! All connections as one end of the link sees them.
//!
//! A tap sees what its own end sends when it comes to the link, and what comes for it when it leaves the link: the same
//! packets at the same times as the network device of that end, but for what is lost on the way.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use squall_base::record::{Direction, Way};
use squall_base::{Duration, Time};

use crate::connection::{Connection, With};
use crate::exchange::Observations;
use crate::numbers::Numbers;
use crate::packet::{Datagram, FlowKey, Segment, flow_key};
use crate::quic;
use crate::tls::Keys;

/// How long late packets of a connection that has ended are still known for what they are: twice the lifetime of a
/// segment (RFC 9293, section 3.4.2).
const LINGER: Duration = Duration::from_secs(240);

/// A tap.
pub(crate) struct Tap {
    /// At which end: what goes this way is sent by it.
    end: Direction,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows that have ended, oldest first.
    over: VecDeque<(Time, FlowKey)>,
    /// Connections of QUIC.
    quic: quic::Connections,
}

enum Flow {
    Open(Box<Connection>),
    /// It has ended.
    Over {
        number: u32,
        /// The number of its client's SYN, if that was seen.
        initial: Option<u32>,
    },
}

/// What a packet is taken with.
pub(crate) struct Seen<'a> {
    pub(crate) now: Time,
    pub(crate) direction: Direction,
    pub(crate) keys: Keys<'a>,
    pub(crate) numbers: &'a mut Numbers,
    pub(crate) rows: &'a mut Observations,
}

impl Tap {
    pub(crate) fn new(end: Direction) -> Tap {
        Tap {
            end,
            flows: BTreeMap::new(),
            over: VecDeque::new(),
            quic: quic::Connections::default(),
        }
    }

    fn way(&self, direction: Direction) -> Way {
        if direction == self.end {
            Way::Sent
        } else {
            Way::Received
        }
    }

    /// Takes a segment of TCP; returns its connection's number, but of a late one of an earlier connection.
    pub(crate) fn segment(&mut self, segment: &Segment<'_>, seen: &mut Seen<'_>) -> Option<u32> {
        self.forget(seen.now);
        let way = self.way(seen.direction);
        let key = flow_key(segment.source, segment.destination);
        let mut with = With {
            now: seen.now,
            way,
            keys: seen.keys,
            rows: seen.rows,
        };
        let begins = segment.syn && segment.ack.is_none();
        let is_followed = match self.flows.get(&key) {
            Some(Flow::Open(connection)) => connection.is_followed_by(way, segment),
            // Not if it is a late copy (RFC 9293, section 3.4.1).
            Some(Flow::Over { initial, .. }) => begins && *initial != Some(segment.seq),
            None => false,
        };
        if is_followed && let Some(Flow::Open(connection)) = self.flows.remove(&key) {
            connection.finish(&mut with);
        }
        let flow = self.flows.entry(key).or_insert_with(|| {
            let number = seen.numbers.of(self.end, key, initial(segment));
            Flow::Open(Box::new(Connection::new(number, with.now, way, segment)))
        });
        let connection = match flow {
            Flow::Over { number, .. } => return Some(*number),
            Flow::Open(connection) if connection.is_stray(way, segment) => return None,
            Flow::Open(connection) => connection,
        };
        let number = connection.number();
        if connection.take(segment, &mut with) {
            let over = Flow::Over {
                number,
                initial: connection.initial(),
            };
            if let Flow::Open(connection) = std::mem::replace(flow, over) {
                connection.finish(&mut with);
            }
            self.over.push_back((seen.now, key));
        }
        Some(number)
    }

    /// Forgets flows that ended long ago.
    fn forget(&mut self, now: Time) {
        while let Some((ended, key)) = self.over.front()
            && now.since(*ended) > LINGER
        {
            if let Some(Flow::Over { .. }) = self.flows.get(key) {
                self.flows.remove(key);
            }
            self.over.pop_front();
        }
    }

    /// The number of the latest connection of TCP between two addresses.
    pub(crate) fn number(&self, one: SocketAddr, other: SocketAddr) -> Option<u32> {
        Some(match self.flows.get(&flow_key(one, other))? {
            Flow::Open(connection) => connection.number(),
            Flow::Over { number, .. } => *number,
        })
    }

    /// Takes a datagram of UDP; returns its connection's number, if it is of one of QUIC.
    pub(crate) fn datagram(&mut self, datagram: &Datagram<'_>, seen: &mut Seen<'_>) -> Option<u32> {
        let mut with = quic::With {
            now: seen.now,
            way: self.way(seen.direction),
            keys: seen.keys,
            rows: seen.rows,
        };
        self.quic.take(datagram, self.end, seen.numbers, &mut with)
    }

    /// Secrets came.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        for flow in self.flows.values_mut() {
            if let Flow::Open(connection) = flow {
                connection.retry(keys, rows);
            }
        }
        self.quic.retry(keys, rows);
    }

    /// Nothing more will be seen: the rows of what is open.
    pub(crate) fn finish(&mut self, now: Time, keys: Keys<'_>, rows: &mut Observations) {
        for flow in std::mem::take(&mut self.flows).into_values() {
            if let Flow::Open(connection) = flow {
                connection.finish(&mut With {
                    now,
                    way: Way::Sent,
                    keys,
                    rows,
                });
            }
        }
        self.quic.finish(keys, rows);
    }
}

/// The first sequence number of the client, if this segment tells it.
fn initial(segment: &Segment<'_>) -> Option<u32> {
    match (segment.syn, segment.ack) {
        (true, None) => Some(segment.seq),
        (true, Some(ack)) => Some(ack.wrapping_sub(1)),
        (false, _) => None,
    }
}
