//! QUIC (RFC 9000, RFC 9369) as an observer with the key log sees it: all connections at one end of the link.
//!
//! A datagram belongs to the connection whose connection ID its first packet has, else to the latest one between its
//! addresses; so a client whose address changes stays what it was (RFC 9000, section 9). Without secrets datagrams are
//! counted, and the hellos are read, which everybody can decipher. Not followed are versions other than 1 and 2, and
//! datagrams that the capture has cut short.
//!
//! Memory is bounded: what waits of one connection for secrets, 4 MiB, and for missing bytes of streams, 16 MiB; of all
//! connections together 256 MiB; and the number of connections.
//!
//! Where to go next: `connection` for one connection; `header`, `protection` and `keys` for packets; `frames`, `streams`,
//! `http3` and `qpack` for what is in them.

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

use crate::connection_record::Opaque;
use crate::exchange::Observations;
use crate::numbers::Numbers;
use crate::packet::{Datagram, FlowKey, flow_key};
use crate::tls::Keys;
use connection::Connection;
pub(crate) use connection::With;
use header::{LongType, MAX_CID_BYTES, Packet, next_packet};

/// With more connections than this, the silent ones are taken for ended: not every end can be seen.
const MANY_CONNECTIONS: usize = 4096;

/// Above this limit the oldest connections count as ended, several at a time.
const MAX_CONNECTIONS: usize = 1 << 16;
const OLDEST_AT_ONCE: usize = 1 << 12;

/// For how long a connection has to be silent: longer than any idle timeout in use.
const LINGER: Duration = Duration::from_secs(240);

/// What all connections of an end keep for later.
const MAX_BUFFERED_BYTES: u64 = 256 << 20;

/// Shorter connection IDs do not tell connections apart.
const LEAST_ID_BYTES: usize = 4;

/// The connections at one end of the link.
#[derive(Default)]
pub(crate) struct Connections {
    open: BTreeMap<u32, Box<Connection>>,
    /// The latest one between two addresses.
    by_flow: BTreeMap<FlowKey, u32>,
    by_id: BTreeMap<Vec<u8>, u32>,
    buffered_bytes: u64,
    /// The number of connections at which the silent ones are looked for.
    sweep_at: usize,
}

impl Connections {
    /// Takes a datagram at the end of the link that sends what goes `end`; returns its connection's number, if it is of
    /// one that is followed.
    pub(crate) fn take(
        &mut self,
        datagram: &Datagram<'_>,
        end: Direction,
        numbers: &mut Numbers,
        with: &mut With<'_>,
    ) -> Option<u32> {
        let key = flow_key(datagram.source, datagram.destination);
        let number = self.find(key, datagram, end, numbers, with)?;
        self.by_flow.insert(key, number);
        let connection = self.open.get_mut(&number)?;
        let before = connection.buffered_bytes();
        connection.take(datagram, with);
        self.settle(number, before, with.rows);
        Some(number)
    }

    /// Notes what a connection has learnt, and what it keeps.
    fn settle(&mut self, number: u32, buffered_before: u64, rows: &mut Observations) {
        let Some(connection) = self.open.get_mut(&number) else {
            return;
        };
        self.buffered_bytes += connection.buffered_bytes();
        self.buffered_bytes -= buffered_before;
        if self.buffered_bytes > MAX_BUFFERED_BYTES {
            self.buffered_bytes -= connection.buffered_bytes();
            connection.give_up(Opaque::Overfull, rows);
        }
        for id in connection.take_ids() {
            if id.len() >= LEAST_ID_BYTES {
                self.by_id.insert(id, number);
            }
        }
    }

    /// The connection of a datagram; a new one if it begins with an Initial packet of none.
    fn find(
        &mut self,
        key: FlowKey,
        datagram: &Datagram<'_>,
        end: Direction,
        numbers: &mut Numbers,
        with: &mut With<'_>,
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
                if is_latest(&|connection| connection.knows_short(with.way, packet)) {
                    return latest;
                }
                self.by_short(with.way, packet).or(latest)
            }
            Packet::Long(packet) => {
                let id = packet.destination;
                if is_latest(&|connection| connection.knows_id(with.way, id)) {
                    return latest;
                }
                let known = self.by_id.get(id).copied();
                let known = known.filter(|number| {
                    let connection = self.open.get(number);
                    connection.is_some_and(|connection| connection.knows_id(with.way, id))
                });
                if known.is_some() {
                    return known;
                }
                // Clients choose 8 bytes at least for their first ID (RFC 9000, section 7.2).
                if packet.kind != LongType::Initial || id.len() < 8 {
                    return latest;
                }
                self.make_room(with);
                let initial = id.first_chunk().map(|id| u32::from_be_bytes(*id));
                let number = numbers.of(end, key, initial);
                let connection = Connection::new(number, with.now, with.way, datagram, &packet);
                self.open.insert(number, Box::new(connection));
                Some(number)
            }
        }
    }

    /// The connection one of whose IDs a short header begins with.
    fn by_short(&self, way: Way, packet: &[u8]) -> Option<u32> {
        let rest = packet.get(1..)?;
        (LEAST_ID_BYTES..=MAX_CID_BYTES.min(rest.len()))
            .rev()
            .find_map(|length| {
                let number = *self.by_id.get(&rest[..length])?;
                let connection = self.open.get(&number)?;
                connection.knows_id(way, &rest[..length]).then_some(number)
            })
    }

    /// Makes room for a connection.
    fn make_room(&mut self, with: &mut With<'_>) {
        if self.open.len() < self.sweep_at.max(MANY_CONNECTIONS) {
            return;
        }
        let now: Time = with.now;
        let silent = self.open.iter();
        let silent = silent.filter(|(_, connection)| now.since(connection.last()) > LINGER);
        let mut over: Vec<u32> = silent.map(|(number, _)| *number).collect();
        if over.is_empty() && self.open.len() >= MAX_CONNECTIONS {
            over.extend(self.open.keys().take(OLDEST_AT_ONCE));
        }
        for number in over {
            if let Some(connection) = self.open.remove(&number) {
                self.buffered_bytes -= connection.buffered_bytes();
                for id in connection.ids() {
                    if self.by_id.get(id) == Some(&number) {
                        self.by_id.remove(id);
                    }
                }
                connection.finish(with.keys, with.rows);
            }
        }
        let open = &self.open;
        self.by_flow.retain(|_, number| open.contains_key(number));
        self.sweep_at = (2 * self.open.len()).min(MAX_CONNECTIONS);
    }

    /// Secrets came.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        for number in numbers {
            if let Some(connection) = self.open.get_mut(&number) {
                let before = connection.buffered_bytes();
                connection.work(keys, rows);
                self.settle(number, before, rows);
            }
        }
    }

    /// Nothing more will be seen: the rows of what is open.
    pub(crate) fn finish(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        for connection in std::mem::take(&mut self.open).into_values() {
            connection.finish(keys, rows);
        }
        *self = Connections::default();
    }
}
