//! One hop as its packets show it: rows for the sides whose stations record none, and counts of its connections.
//!
//! squall-observe interprets packets; `observe` supplies them. Connections that were open before the hop was watched do
//! not belong to the path: they are readiness checks of the station.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use squall_base::plan::{Protocol, Side};
use squall_base::record::{Direction, SocketRecord, SocketSample, WireCounts};
use squall_observe::{
    Checksums, ConnectionRecord, Observations, ObservedPacket, Observer, OpaqueReason, Secrets,
    Transport, flow_endpoints,
};
use squall_stations::LogSinks;
use squall_stations::rows::ROWS_A_CHUNK;

use super::watched::{Sample, WatchedHop};

pub(super) struct HopObserver {
    watched: WatchedHop,
    observer: Observer,
    rows: Observations,
    sinks: LogSinks,
    keys: Option<Receiver<Vec<String>>>,
    samples: Option<Receiver<Vec<Sample>>>,
    /// Samples later than the latest packet seen.
    early_samples: VecDeque<Sample>,
    sockets: Vec<SocketRecord>,
    /// Clients whose connections were seen to open.
    opened_clients: BTreeSet<SocketAddr>,
    counts: WireCounts,
}

impl HopObserver {
    /// Rows go to `sinks`; `keys` supplies TLS secrets, if the hop has any.
    pub(super) fn new(
        watched: WatchedHop,
        sinks: LogSinks,
        keys: Option<Receiver<Vec<String>>>,
    ) -> HopObserver {
        // Packets that stay on a machine have no valid checksums.
        let checksums = if watched.across_link {
            Checksums::Verified
        } else {
            Checksums::Ignored
        };
        let secrets = match keys {
            Some(_) => Secrets::MayCome,
            None => Secrets::Complete,
        };
        HopObserver {
            watched,
            observer: Observer::new(checksums, secrets),
            rows: Observations::default(),
            sinks: LogSinks {
                key_log: None,
                ..sinks
            },
            keys,
            samples: None,
            early_samples: VecDeque::new(),
            sockets: Vec::new(),
            opened_clients: BTreeSet::new(),
            counts: WireCounts::default(),
        }
    }

    /// The hop it observes.
    pub(super) fn watched(&self) -> &WatchedHop {
        &self.watched
    }

    /// The direction of a packet; `None` if it belongs to no connection of this hop.
    pub(super) fn direction(&mut self, bytes: &[u8]) -> Option<Direction> {
        let endpoints = flow_endpoints(bytes)?;
        let (client, direction) = match self.watched.server {
            server if server == endpoints.destination => (endpoints.source, Direction::Up),
            server if server == endpoints.source => (endpoints.destination, Direction::Down),
            _ => return None,
        };
        if endpoints.is_syn {
            self.opened_clients.insert(client);
        }
        let belongs =
            endpoints.transport == Transport::Quic || self.opened_clients.contains(&client);
        belongs.then_some(direction)
    }

    /// Sets the source of socket samples.
    pub(super) fn sample_from(&mut self, samples: Receiver<Vec<Sample>>) {
        self.samples = Some(samples);
    }

    /// Processes a packet of this hop. Packets must be passed in order of arrival.
    pub(super) fn observe(&mut self, packet: &ObservedPacket<'_>) {
        let is_due = |sample: &Sample| sample.time <= packet.time_in;
        while self.early_samples.front().is_some_and(is_due)
            && let Some(sample) = self.early_samples.pop_front()
        {
            self.write(&sample);
        }
        self.observer.observe(packet, &mut self.rows);
        let rows = &self.rows;
        let most = rows.exchanges.len().max(rows.frames.len());
        if most.max(self.sockets.len()) >= ROWS_A_CHUNK {
            self.flush_rows();
        }
    }

    /// Records a sample if its socket's connection was seen to open.
    fn write(&mut self, sample: &Sample) {
        let Some(connection) = self.observer.connection(sample.client, self.watched.server) else {
            return;
        };
        self.sockets.push(SocketRecord {
            time: sample.time,
            hop: self.watched.hop,
            side: sample.side,
            connection,
            is_last: false,
            sample: SocketSample::Tcp(sample.info),
        });
    }

    /// Takes the secrets and samples received so far.
    pub(super) fn take_inputs(&mut self) {
        let samples = self.samples.iter().flat_map(Receiver::try_iter);
        self.early_samples.extend(samples.flatten());
        for lines in self.keys.iter().flat_map(Receiver::try_iter) {
            self.observer.add_keys(&lines.join("\n"), &mut self.rows);
        }
    }

    pub(super) fn count_missed(&mut self, packets: u64) {
        self.counts.missed_packets += packets;
    }

    /// Waits for the last secrets and samples, and writes the remaining rows.
    pub(super) fn finish(mut self) -> (u8, WireCounts) {
        let late = self.samples.take().into_iter().flatten().flatten();
        self.early_samples.extend(late);
        while let Some(sample) = self.early_samples.pop_front() {
            self.write(&sample);
        }
        for lines in self.keys.take().iter().flatten() {
            self.observer.add_keys(&lines.join("\n"), &mut self.rows);
        }
        let observer = std::mem::replace(
            &mut self.observer,
            Observer::new(Checksums::Ignored, Secrets::Complete),
        );
        observer.finish(&mut self.rows);
        self.flush_rows();
        (self.watched.hop, self.counts)
    }

    fn flush_rows(&mut self) {
        let (hop, sides) = (self.watched.hop, &self.watched.sides);
        let rows = &mut self.rows;
        for connection in rows.connections.drain(..) {
            count(&mut self.counts, &connection);
        }
        let of_client = |side| side == Side::Client;
        let exchanges = rows.exchanges.iter().filter(|row| of_client(row.side));
        self.counts.exchanges += exchanges.count() as u64;
        let frames = rows.frames.iter().filter(|row| of_client(row.side));
        self.counts.frames += frames.count() as u64;
        rows.exchanges.retain(|row| sides.contains(&row.side));
        rows.exchanges.iter_mut().for_each(|row| row.hop = hop);
        rows.frames.retain(|row| sides.contains(&row.side));
        rows.frames.iter_mut().for_each(|row| row.hop = hop);
        if let Some(sink) = &self.sinks.exchanges {
            sink.send(&mut rows.exchanges);
        }
        if let Some(sink) = &self.sinks.frames {
            sink.send(&mut rows.frames);
        }
        if let Some(sink) = &self.sinks.sockets {
            sink.send(&mut self.sockets);
        }
    }
}

/// Counts a connection once, although both ends have a record of it.
fn count(counts: &mut WireCounts, connection: &ConnectionRecord) {
    if connection.side != Side::Client {
        return;
    }
    match connection.transport {
        Transport::Quic => counts.quic_connections += 1,
        // A connection attempt that was never accepted is not counted.
        Transport::Tcp if connection.accepted.is_some() || connection.from_client.bytes > 0 => {
            counts.tcp_connections += 1;
        }
        Transport::Tcp => {}
    }
    let add = |map: &mut BTreeMap<String, u64>, what: &str| {
        *map.entry(what.to_owned()).or_default() += 1;
    };
    if let Some(spoken) = spoken(connection) {
        add(&mut counts.protocols, spoken);
        if let (WireCounts::UNREAD_TLS, Some(tls)) = (spoken, &connection.tls) {
            add(&mut counts.unread_alpn, &tls.offered.join(","));
        }
    }
    if let Some(opaque) = &connection.opaque {
        add(&mut counts.unread, &opaque.to_string());
    }
}

/// The protocol spoken on a connection; `None` if nothing was sent.
fn spoken(connection: &ConnectionRecord) -> Option<&'static str> {
    if let Some(protocol) = connection.protocol {
        return Some(protocol.name());
    }
    if connection.transport == Transport::Quic {
        return Some(WireCounts::UNREAD_QUIC);
    }
    if let Some(tls) = &connection.tls {
        return Some(match tls.alpn.as_deref() {
            Some("h2") => Protocol::H2.name(),
            Some("http/1.1") => Protocol::H1s.name(),
            _ => WireCounts::UNREAD_TLS,
        });
    }
    match connection.opaque {
        Some(OpaqueReason::NotHttp | OpaqueReason::Unclear(_)) => Some(WireCounts::OTHER),
        _ => None,
    }
}
