//! QUIC (RFC 9000, RFC 9369) as an observer with the key log sees it: all connections at one end of the link.
//!
//! A datagram belongs to the connection with its first packet's connection ID, otherwise to the latest connection
//! between its addresses; so a client that changes its address keeps its connection (RFC 9000, section 9). Without
//! secrets, datagrams are counted and the hellos are read, because their keys are public. Versions other than 1 and 2 and
//! datagrams truncated by the capture are not supported.
//!
//! Memory is bounded: 4 MiB of packets waiting for secrets and 16 MiB of stream bytes waiting for missing ones per
//! connection, 256 MiB for all connections of one end together, and a maximum number of connections.
//!
//! Where to go next: `connection` for one connection; `header`, `protection` and `keys` for packets; `frames`,
//! `streams`, `http3` and `qpack` for their content.

mod chacha20;
mod connection;
mod frames;
mod handshake;
mod header;
mod http3;
mod keys;
mod protection;
mod qpack;
mod streams;
#[cfg(test)]
mod vectors;

use std::collections::BTreeMap;

use squall_base::record::{Direction, Way};
use squall_base::{Duration, Time};

use crate::connection_record::OpaqueReason;
use crate::context::Context;
use crate::exchange::Observations;
use crate::numbers::ConnectionNumbers;
use crate::packet::{Datagram, FlowKey, flow_key};
use crate::tls::Keys;
use connection::Connection;
use header::{LongType, MAX_CID_BYTES, Packet, next_packet};

/// With more connections than this, silent ones are considered ended: the end of a connection is not always visible.
const MANY_CONNECTIONS: usize = 4096;

/// At this limit, connections are considered ended, the oldest ones if necessary.
const MAX_CONNECTIONS: usize = 1 << 16;

/// At the limit, at least one connection in this many is ended, because each search looks at all of them.
const ENDS_ONE_IN: usize = 16;

/// A connection silent for longer than this is considered ended; longer than any idle timeout in use.
const LINGER: Duration = Duration::from_secs(240);

/// Limit for bytes buffered by all connections at one end.
const MAX_BUFFERED_BYTES: u64 = 256 << 20;

/// Shorter connection IDs do not distinguish connections.
const MIN_ID_BYTES: usize = 4;

/// The connections at one end of the link.
pub(crate) struct Connections {
    /// How many connections are followed at a time.
    most_open: usize,
    open: BTreeMap<u32, Box<Connection>>,
    /// The latest connection between two addresses.
    by_flow: BTreeMap<FlowKey, u32>,
    by_id: BTreeMap<Vec<u8>, u32>,
    buffered_bytes: u64,
    /// The number of connections at which the next search for silent ones begins.
    sweep_at: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            most_open: MAX_CONNECTIONS,
            open: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            by_id: BTreeMap::new(),
            buffered_bytes: 0,
            sweep_at: 0,
        }
    }
}

impl Connections {
    /// Processes a datagram at the end of the link whose own packets go in the direction `end`. Returns the number of
    /// its connection, if it belongs to one that is followed.
    pub(crate) fn process(
        &mut self,
        datagram: &Datagram<'_>,
        end: Direction,
        numbers: &mut ConnectionNumbers,
        context: &mut Context<'_>,
    ) -> Option<u32> {
        let key = flow_key(datagram.source, datagram.destination);
        let number = self.find(key, datagram, end, numbers, context)?;
        self.by_flow.insert(key, number);
        let connection = self.open.get_mut(&number)?;
        let before = connection.buffered_bytes();
        connection.process(datagram, context);
        self.settle(number, before, context.rows);
        Some(number)
    }

    /// Updates the buffered bytes and the known IDs after a connection has changed.
    fn settle(&mut self, number: u32, buffered_before: u64, rows: &mut Observations) {
        let Some(connection) = self.open.get_mut(&number) else {
            return;
        };
        self.buffered_bytes += connection.buffered_bytes();
        self.buffered_bytes -= buffered_before;
        if self.buffered_bytes > MAX_BUFFERED_BYTES {
            self.buffered_bytes -= connection.buffered_bytes();
            connection.give_up(OpaqueReason::Overfull, rows);
        }
        for id in connection.take_ids() {
            if id.len() >= MIN_ID_BYTES {
                self.by_id.insert(id, number);
            }
        }
    }

    /// Finds the connection of a datagram; opens a new one for an Initial packet that belongs to none.
    fn find(
        &mut self,
        key: FlowKey,
        datagram: &Datagram<'_>,
        end: Direction,
        numbers: &mut ConnectionNumbers,
        context: &mut Context<'_>,
    ) -> Option<u32> {
        let (packet, _) = next_packet(datagram.payload)?;
        let latest = self.by_flow.get(&key).copied();
        let is_latest = |knows: &dyn Fn(&Connection) -> bool| {
            latest
                .and_then(|number| self.open.get(&number))
                .is_some_and(|connection| knows(connection))
        };
        match packet {
            Packet::Short(packet) => {
                if is_latest(&|connection| connection.knows_short(context.way, packet)) {
                    return latest;
                }
                self.by_short(context.way, packet).or(latest)
            }
            Packet::Long(packet) => {
                let id = packet.destination;
                if is_latest(&|connection| connection.knows_id(context.way, id)) {
                    return latest;
                }
                let known = self.by_id.get(id).copied();
                let known = known.filter(|number| {
                    let connection = self.open.get(number);
                    connection.is_some_and(|connection| connection.knows_id(context.way, id))
                });
                if known.is_some() {
                    return known;
                }
                // A client's first destination connection ID has at least 8 bytes (RFC 9000, section 7.2).
                if packet.kind != LongType::Initial || id.len() < 8 {
                    return latest;
                }
                self.make_room(context);
                let initial = id.first_chunk().map(|id| u32::from_be_bytes(*id));
                let number = numbers.of(end, key, initial);
                let connection =
                    Connection::new(number, context.now, context.way, datagram, &packet);
                self.open.insert(number, Box::new(connection));
                Some(number)
            }
        }
    }

    /// Finds the connection by the ID at the start of a short-header packet.
    fn by_short(&self, way: Way, packet: &[u8]) -> Option<u32> {
        let rest = packet.get(1..)?;
        (MIN_ID_BYTES..=MAX_CID_BYTES.min(rest.len()))
            .rev()
            .find_map(|length| {
                let number = *self.by_id.get(&rest[..length])?;
                let connection = self.open.get(&number)?;
                connection.knows_id(way, &rest[..length]).then_some(number)
            })
    }

    /// Makes room for another connection.
    fn make_room(&mut self, context: &mut Context<'_>) {
        let most = self.most_open;
        if self.open.len() < self.sweep_at.max(MANY_CONNECTIONS).min(most) {
            return;
        }
        let now: Time = context.now;
        let silent = self.open.iter();
        let silent = silent.filter(|(_, connection)| now.since(connection.last()) > LINGER);
        let mut over: Vec<u32> = silent.map(|(number, _)| *number).collect();
        let at_once = most / ENDS_ONE_IN;
        if over.len() < at_once && self.open.len() >= most {
            over.extend(self.open.keys().take(at_once));
        }
        for number in over {
            if let Some(connection) = self.open.remove(&number) {
                self.buffered_bytes -= connection.buffered_bytes();
                for id in connection.ids() {
                    if self.by_id.get(id) == Some(&number) {
                        self.by_id.remove(id);
                    }
                }
                connection.finish(context.keys, context.rows);
            }
        }
        let open = &self.open;
        self.by_flow.retain(|_, number| open.contains_key(number));
        self.sweep_at = (2 * self.open.len()).min(most);
    }

    /// Tries again to open waiting packets after secrets were added.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        for number in numbers {
            if let Some(connection) = self.open.get_mut(&number) {
                let before = connection.buffered_bytes();
                connection.open_held(keys, rows);
                self.settle(number, before, rows);
            }
        }
    }

    /// Writes the rows of every open connection: no more packets follow.
    pub(crate) fn finish(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        for connection in std::mem::take(&mut self.open).into_values() {
            connection.finish(keys, rows);
        }
        *self = Connections::default();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::tls::KeyLog;

    /// An Initial packet to a connection ID of its own, with bytes that cannot be decrypted (RFC 9000, section 17.2.2).
    fn initial(number: u16) -> Vec<u8> {
        let mut packet = vec![0xc0, 0, 0, 0, 1, 8];
        packet.extend(u64::from(number).to_be_bytes());
        // No source connection ID and no token; 32 bytes follow.
        packet.extend([0, 0, 32]);
        packet.extend([0; 32]);
        packet
    }

    /// Each first packet comes this long after the one before. Returns the numbers of connections that had ended by then.
    fn ended(every: Duration) -> Vec<usize> {
        let (log, mut rows) = (KeyLog::default(), Observations::default());
        let mut numbers = ConnectionNumbers::default();
        let mut connections = Connections {
            most_open: 32,
            ..Connections::default()
        };
        let mut ended = Vec::new();
        let mut now = Time::ZERO;
        for port in 1..=100 {
            now += every;
            let payload = initial(port);
            let datagram = Datagram {
                source: SocketAddr::from(([10, 0, 0, 1], port)),
                destination: SocketAddr::from(([10, 0, 0, 2], 443)),
                payload: &payload,
                payload_bytes: payload.len(),
            };
            let mut context = Context {
                now,
                way: Way::Sent,
                keys: Keys {
                    log: &log,
                    may_come: false,
                },
                rows: &mut rows,
            };
            let number = connections.process(&datagram, Direction::Up, &mut numbers, &mut context);
            assert_eq!(number, Some(u32::from(port) - 1));
            assert!(connections.open.len() <= 32, "{port}");
            assert_eq!(connections.by_flow.len(), connections.open.len(), "{port}");
            ended.push(rows.connections.len());
        }
        assert_eq!(connections.open.len() + rows.connections.len(), 100);
        ended
    }

    #[test]
    fn oldest_connections_end_if_too_many_are_open() {
        let ended = ended(Duration::from_nanos(1));
        assert_eq!(ended[31..36], [0, 2, 2, 4, 4]);
    }

    /// Of 32 connections that began 7.6 s apart, only the first has been silent for 240 s.
    #[test]
    fn silent_connections_end_together_with_the_oldest() {
        let ended = ended(Duration::from_millis(7_600));
        assert_eq!(ended[31..36], [0, 2, 2, 4, 4]);
    }
}
