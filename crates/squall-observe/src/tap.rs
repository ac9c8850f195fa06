//! All connections as one end of the link sees them.
//!
//! A tap sees what its own end sends when it comes to the link, and what comes for it when it leaves the link: the same
//! packets at the same times as the network device of that end, but for what is lost on the way.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use squall_base::record::{Direction, Way};
use squall_base::{Duration, Time};

use crate::connection::{Connection, With};
use crate::connection_record::{ConnectionRecord, Opaque, Transport};
use crate::exchange::Observations;
use crate::numbers::Numbers;
use crate::packet::{Datagram, FlowKey, Segment, flow_key};
use crate::tls::Keys;

/// How long late packets of a connection that has ended are still known for what they are: twice the lifetime of a
/// segment (RFC 9293, section 3.4.2).
const LINGER: Duration = Duration::from_secs(240);

/// With more connections of QUIC than this, the silent ones are taken for ended: nobody can see how they end.
const MANY_DATAGRAM_FLOWS: usize = 4096;

/// The versions of QUIC that are known by their numbers: 1 (RFC 9000) and 2 (RFC 9369).
const QUIC_VERSIONS: [u32; 2] = [0x0000_0001, 0x6b33_43cf];

/// A tap.
pub(crate) struct Tap {
    /// At which end: what goes this way is sent by it.
    end: Direction,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows that have ended, oldest first.
    over: VecDeque<(Time, FlowKey)>,
    /// Connections of QUIC.
    datagrams: BTreeMap<FlowKey, ConnectionRecord>,
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
            datagrams: BTreeMap::new(),
        }
    }

    fn way(&self, direction: Direction) -> Way {
        if direction == self.end {
            Way::Sent
        } else {
            Way::Received
        }
    }

    /// Takes a segment of TCP.
    pub(crate) fn segment(&mut self, segment: &Segment<'_>, seen: &mut Seen<'_>) {
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
        if let Flow::Open(connection) = flow
            && !connection.is_stray(way, segment)
            && connection.take(segment, &mut with)
        {
            let over = Flow::Over {
                number: connection.number(),
                initial: connection.initial(),
            };
            if let Flow::Open(connection) = std::mem::replace(flow, over) {
                connection.finish(&mut with);
            }
            self.over.push_back((seen.now, key));
        }
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

    /// Takes a datagram of UDP: counts those of QUIC.
    pub(crate) fn datagram(&mut self, datagram: &Datagram<'_>, seen: &mut Seen<'_>) {
        let key = flow_key(datagram.source, datagram.destination);
        let way = self.way(seen.direction);
        let record = match self.datagrams.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if is_quic_initial(datagram.payload) => {
                let number = seen.numbers.of(self.end, key, None);
                place.insert(quic(number, seen.now, way, datagram))
            }
            Entry::Vacant(_) => return,
        };
        record.last = seen.now;
        let is_from_client = datagram.source == record.client;
        let traffic = if is_from_client {
            &mut record.from_client
        } else {
            &mut record.from_server
        };
        traffic.packets += 1;
        traffic.bytes += datagram.payload_bytes as u64;
        if self.datagrams.len() > MANY_DATAGRAM_FLOWS {
            let (now, rows) = (seen.now, &mut *seen.rows);
            self.datagrams.retain(|_, record| {
                let is_silent = now.since(record.last) > LINGER;
                if is_silent {
                    rows.connections.push(record.clone());
                }
                !is_silent
            });
        }
    }

    /// Secrets came.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        for flow in self.flows.values_mut() {
            if let Flow::Open(connection) = flow {
                connection.retry(keys, rows);
            }
        }
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
        let datagrams = std::mem::take(&mut self.datagrams).into_values();
        rows.connections.extend(datagrams);
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

/// Whether a datagram begins with a packet with a long header of a version that is known (RFC 8999, section 5.1).
fn is_quic_initial(payload: &[u8]) -> bool {
    match payload {
        [first, version @ ..] if first & 0xc0 == 0xc0 => version
            .first_chunk()
            .is_some_and(|version| QUIC_VERSIONS.contains(&u32::from_be_bytes(*version))),
        _ => false,
    }
}

/// The record of a QUIC connection by its first datagram, which a client sends.
fn quic(number: u32, now: Time, way: Way, datagram: &Datagram<'_>) -> ConnectionRecord {
    let ends = [datagram.source, datagram.destination];
    ConnectionRecord {
        opaque: Some(Opaque::Quic),
        ..ConnectionRecord::first_seen(number, Transport::Quic, now, way, ends)
    }
}
