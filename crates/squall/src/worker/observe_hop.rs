//! One hop as its packets show it: rows for the sides whose stations write none, and counts of its connections.
//!
//! What packets say is squall-observe's; where they come from, `observe`. Connections that were open before the hop was
//! watched are not of the path: somebody asked the station whether it is ready.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use squall_base::Duration;
use squall_base::plan::{Hop, Protocol, Runs, Side, Trial};
use squall_base::record::{Direction, SocketRecord, SocketSample, WireCounts};
use squall_observe::{
    Checksums, ConnectionRecord, Observations, Observer, Opaque, Secrets, SeenPacket, Transport,
    heading,
};
use squall_stations::LogSinks;
use squall_stations::rows::ROWS_A_CHUNK;

use super::observe_sockets::Sample;
use super::place::address_of;

/// A hop that is watched, because at least one of its stations is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    /// Its number, from 1.
    pub(super) hop: u8,
    /// Where its farther station listens.
    pub(super) server: SocketAddr,
    /// The sides that are programs.
    pub(super) sides: Vec<Side>,
    pub(super) across_link: bool,
    /// Whether it is read with secrets of TLS, over TCP or within QUIC.
    pub(super) has_tls: bool,
    /// How often the sockets of its programs are sampled.
    pub(super) sample_every: Duration,
}

impl Watched {
    /// The hops of a trial's path that must be watched.
    pub(super) fn of(trial: &Trial) -> Vec<Watched> {
        let variant = &trial.variant;
        let hops = variant.hops.iter().zip(variant.stations.windows(2));
        let watched = hops.zip(1..).filter_map(|((hop, stations), number)| {
            let sides: Vec<Side> = Side::ALL
                .into_iter()
                .zip(stations)
                .filter(|(_, station)| station.runs != Runs::Embedded)
                .map(|(side, _)| side)
                .collect();
            let watched = Watched {
                hop: number,
                server: address_of(variant, number.into()).into(),
                sides,
                across_link: hop.across_link,
                has_tls: hop.protocol.is_secure(),
                sample_every: sample_every(trial, hop),
            };
            (!watched.sides.is_empty()).then_some(watched)
        });
        watched.collect()
    }
}

/// How often the sockets of a connection that many requests share are sampled at least: what holds it back holds all of them,
/// and between two samples a congestion window is only known from packets.
const SHARED_SAMPLE_EVERY: Duration = Duration::from_millis(10);

fn sample_every(trial: &Trial, hop: &Hop) -> Duration {
    let is_shared = hop.across_link && matches!(hop.protocol, Protocol::H2c | Protocol::H2);
    if is_shared {
        trial.sample_every.min(SHARED_SAMPLE_EVERY)
    } else {
        trial.sample_every
    }
}

/// Reads along with a hop.
pub(super) struct HopObserver {
    watched: Watched,
    observer: Observer,
    rows: Observations,
    sinks: LogSinks,
    keys: Option<Receiver<Vec<String>>>,
    samples: Option<Receiver<Vec<Sample>>>,
    /// Samples whose time packets have not reached.
    early_samples: VecDeque<Sample>,
    sockets: Vec<SocketRecord>,
    /// Clients whose connections were seen to begin.
    begun: BTreeSet<SocketAddr>,
    counts: WireCounts,
}

impl HopObserver {
    /// Rows go to `sinks`, secrets come from `keys`, if there are any.
    pub(super) fn new(
        watched: Watched,
        sinks: LogSinks,
        keys: Option<Receiver<Vec<String>>>,
    ) -> HopObserver {
        let checksums = match watched.across_link {
            true => Checksums::Verified,
            // What stays on a machine has none.
            false => Checksums::Ignored,
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
            begun: BTreeSet::new(),
            counts: WireCounts::default(),
        }
    }

    /// What it reads along with.
    pub(super) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Which way a packet goes; `None` if it is of no connection of this hop.
    pub(super) fn direction(&mut self, bytes: &[u8]) -> Option<Direction> {
        let heading = heading(bytes)?;
        let (client, direction) = match self.watched.server {
            server if server == heading.destination => (heading.source, Direction::Up),
            server if server == heading.source => (heading.destination, Direction::Down),
            _ => return None,
        };
        if heading.opens {
            self.begun.insert(client);
        }
        let belongs = heading.transport == Transport::Quic || self.begun.contains(&client);
        belongs.then_some(direction)
    }

    /// Where samples of sockets come from.
    pub(super) fn sample_from(&mut self, samples: Receiver<Vec<Sample>>) {
        self.samples = Some(samples);
    }

    /// Takes a packet of this hop, in the order of their arrival.
    pub(super) fn see(&mut self, packet: &SeenPacket<'_>) {
        let is_due = |sample: &Sample| sample.time <= packet.time_in;
        while self.early_samples.front().is_some_and(is_due)
            && let Some(sample) = self.early_samples.pop_front()
        {
            self.write(&sample);
        }
        self.observer.see(packet, &mut self.rows);
        let rows = &self.rows;
        let most = rows.exchanges.len().max(rows.frames.len());
        if most.max(self.sockets.len()) >= ROWS_A_CHUNK {
            self.hand_on();
        }
    }

    /// Writes a sample, if its socket's connection was seen to begin.
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

    /// Takes the secrets and samples that have come by now.
    pub(super) fn take_news(&mut self) {
        let samples = self.samples.iter().flat_map(Receiver::try_iter);
        self.early_samples.extend(samples.flatten());
        for lines in self.keys.iter().flat_map(Receiver::try_iter) {
            self.observer.add_keys(&lines.join("\n"), &mut self.rows);
        }
    }

    /// So many packets will never come.
    pub(super) fn miss(&mut self, packets: u64) {
        self.counts.missed_packets += packets;
    }

    /// Waits for the last secrets and samples, and writes what is left.
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
        self.hand_on();
        (self.watched.hop, self.counts)
    }

    fn hand_on(&mut self) {
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

/// Adds a connection, once: both ends have a record of it.
fn count(counts: &mut WireCounts, connection: &ConnectionRecord) {
    if connection.side != Side::Client {
        return;
    }
    match connection.transport {
        Transport::Quic => counts.quic_connections += 1,
        // One that nobody accepted is none.
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

/// What was spoken on a connection; `None` if nothing was.
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
        Some(Opaque::NotHttp | Opaque::Unclear(_)) => Some(WireCounts::OTHER),
        _ => None,
    }
}
