//! All connections as one end of the link sees them.
//!
//! A tap sees outgoing packets when they enter the link and incoming packets when they leave it: the same packets at
//! the same times as that end's network device, except for what is lost on the way. It parses nothing above TCP and UDP
//! headers: `connection` and `quic` do.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use squall_base::record::{Direction, Way};
use squall_base::{Duration, Time};

use crate::connection::Connection;
use crate::context::Context;
use crate::exchange::Observations;
use crate::numbers::ConnectionNumbers;
use crate::packet::{Datagram, FlowKey, Segment, flow_key};
use crate::quic;
use crate::tls::Keys;

/// How long late packets of an ended connection are still attributed to it: twice the maximum segment lifetime (RFC
/// 9293, section 3.4.2).
const LINGER: Duration = Duration::from_secs(240);

/// How many connections are followed at a time. A capture may hold a million that never end, such as a scan of ports, and
/// each takes about 1.5 kB. More than twice the connections of any load.
const MAX_OPEN: usize = 1 << 17;

/// All connections at one end of the link.
pub(crate) struct Tap {
    /// Which end: packets in this direction are sent by it.
    end: Direction,
    /// How many TCP connections it follows at a time.
    most_open: usize,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows in the order in which they began; some have ended meanwhile.
    begun: VecDeque<FlowKey>,
    /// Flows that have ended, oldest first.
    ended: VecDeque<(Time, FlowKey)>,
    /// QUIC connections.
    quic: quic::Connections,
}

enum Flow {
    Open(Box<Connection>),
    /// The connection has ended.
    Ended {
        number: u32,
        /// The sequence number of the client's SYN, if that was seen.
        initial: Option<u32>,
    },
}

/// The context in which a packet is processed.
pub(crate) struct PacketContext<'a> {
    pub(crate) now: Time,
    pub(crate) direction: Direction,
    pub(crate) keys: Keys<'a>,
    pub(crate) numbers: &'a mut ConnectionNumbers,
    pub(crate) rows: &'a mut Observations,
}

impl Tap {
    pub(crate) fn new(end: Direction) -> Tap {
        Tap {
            end,
            most_open: MAX_OPEN,
            flows: BTreeMap::new(),
            begun: VecDeque::new(),
            ended: VecDeque::new(),
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

    /// Processes a TCP segment. Returns the number of its connection, or `None` for a stray segment of an earlier
    /// connection.
    pub(crate) fn segment(
        &mut self,
        segment: &Segment<'_>,
        packet: &mut PacketContext<'_>,
    ) -> Option<u32> {
        self.forget(packet.now);
        let way = self.way(packet.direction);
        let key = flow_key(segment.source, segment.destination);
        let mut context = Context {
            now: packet.now,
            way,
            keys: packet.keys,
            rows: packet.rows,
        };
        let begins = segment.syn && segment.ack.is_none();
        let is_followed = match self.flows.get(&key) {
            Some(Flow::Open(connection)) => connection.is_followed_by(way, segment),
            // A late copy of the same SYN does not open a new connection (RFC 9293, section 3.4.1).
            Some(Flow::Ended { initial, .. }) => begins && *initial != Some(segment.seq),
            None => false,
        };
        if is_followed && let Some(Flow::Open(connection)) = self.flows.remove(&key) {
            connection.finish(&mut context);
        }
        if !self.flows.contains_key(&key) {
            self.make_room(&mut context);
            self.begun.push_back(key);
        }
        let flow = self.flows.entry(key).or_insert_with(|| {
            let number = packet.numbers.of(self.end, key, initial(segment));
            Flow::Open(Box::new(Connection::new(number, context.now, way, segment)))
        });
        let connection = match flow {
            Flow::Ended { number, .. } => return Some(*number),
            Flow::Open(connection) if connection.is_stray(way, segment) => return None,
            Flow::Open(connection) => connection,
        };
        let number = connection.number();
        if connection.process(segment, &mut context) {
            let ended = Flow::Ended {
                number,
                initial: connection.initial(),
            };
            if let Flow::Open(connection) = std::mem::replace(flow, ended) {
                connection.finish(&mut context);
            }
            self.ended.push_back((packet.now, key));
        }
        Some(number)
    }

    /// Makes room for a new flow: if `most_open` flows are open, ends the oldest eighth of them. Later packets of such a
    /// connection count as a new connection, picked up midway.
    fn make_room(&mut self, context: &mut Context<'_>) {
        let most = self.most_open;
        if self.begun.len() < most {
            return;
        }
        let flows = &self.flows;
        (self.begun).retain(|key| matches!(flows.get(key), Some(Flow::Open(_))));
        while self.begun.len() > most - most / 8
            && let Some(key) = self.begun.pop_front()
        {
            if let Some(Flow::Open(connection)) = self.flows.remove(&key) {
                connection.finish(context);
            }
        }
    }

    /// Forgets flows that ended more than [`LINGER`] ago.
    fn forget(&mut self, now: Time) {
        while let Some((ended, key)) = self.ended.front()
            && now.since(*ended) > LINGER
        {
            if let Some(Flow::Ended { .. }) = self.flows.get(key) {
                self.flows.remove(key);
            }
            self.ended.pop_front();
        }
    }

    /// The number of the latest TCP connection between two addresses.
    pub(crate) fn number(&self, one: SocketAddr, other: SocketAddr) -> Option<u32> {
        Some(match self.flows.get(&flow_key(one, other))? {
            Flow::Open(connection) => connection.number(),
            Flow::Ended { number, .. } => *number,
        })
    }

    /// Processes a UDP datagram. Returns its connection's number if it belongs to a QUIC connection.
    pub(crate) fn datagram(
        &mut self,
        datagram: &Datagram<'_>,
        packet: &mut PacketContext<'_>,
    ) -> Option<u32> {
        let mut context = Context {
            now: packet.now,
            way: self.way(packet.direction),
            keys: packet.keys,
            rows: packet.rows,
        };
        self.quic
            .process(datagram, self.end, packet.numbers, &mut context)
    }

    /// Tries again to decrypt waiting bytes after secrets were added.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        for flow in self.flows.values_mut() {
            if let Flow::Open(connection) = flow {
                connection.retry(keys, rows);
            }
        }
        self.quic.retry(keys, rows);
    }

    /// Writes the rows of every open connection: no more packets follow.
    pub(crate) fn finish(&mut self, now: Time, keys: Keys<'_>, rows: &mut Observations) {
        for flow in std::mem::take(&mut self.flows).into_values() {
            if let Flow::Open(connection) = flow {
                connection.finish(&mut Context {
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

/// The client's initial sequence number, if this segment reveals it.
fn initial(segment: &Segment<'_>) -> Option<u32> {
    match (segment.syn, segment.ack) {
        (true, None) => Some(segment.seq),
        (true, Some(ack)) => Some(ack.wrapping_sub(1)),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::KeyLog;

    /// A SYN from this port, which nothing answers.
    fn syn(port: u16) -> Segment<'static> {
        Segment {
            source: SocketAddr::from(([10, 0, 0, 1], port)),
            destination: SocketAddr::from(([10, 0, 0, 2], 80)),
            seq: 1,
            ack: None,
            syn: true,
            fin: false,
            rst: false,
            flags: 0x02,
            window: 1_000,
            window_scale: None,
            payload: &[],
            missing_bytes: 0,
        }
    }

    #[test]
    fn oldest_connections_end_if_too_many_are_open() {
        let (log, mut rows) = (KeyLog::default(), Observations::default());
        let mut numbers = ConnectionNumbers::default();
        let mut tap = Tap {
            most_open: 16,
            ..Tap::new(Direction::Up)
        };
        let mut ended = Vec::new();
        for port in 1..=100 {
            let mut packet = PacketContext {
                now: Time::from_nanos(u64::from(port)),
                direction: Direction::Up,
                keys: Keys {
                    log: &log,
                    may_come: false,
                },
                numbers: &mut numbers,
                rows: &mut rows,
            };
            let number = tap.segment(&syn(port), &mut packet);
            assert_eq!(number, Some(u32::from(port) - 1));
            assert!(tap.flows.len() <= 16 && tap.begun.len() <= 16, "{port}");
            ended.push(rows.connections.len());
        }
        assert_eq!(ended[15..19], [0, 2, 2, 4]);
        let number = |port| tap.number(syn(port).source, syn(port).destination);
        assert_eq!(number(1), None);
        assert_eq!(number(100), Some(99));
        assert_eq!(tap.flows.len() + rows.connections.len(), 100);
    }
}
