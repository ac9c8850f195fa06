//! The observer: takes the packets of a link, and writes the rows of both its ends.
//!
//! It routes packets to the taps at the right times and counts them; `tap` is next.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;
use squall_base::Time;
use squall_base::record::Direction;

use crate::exchange::Observations;
use crate::numbers::ConnectionNumbers;
use crate::packet::{Checksums, ObservedPacket, Packet, parse};
use crate::tap::{PacketContext, Tap};
use crate::tls::{KeyLog, Keys};

/// Whether more TLS secrets may be added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// All secrets were added before the first packet; a connection without them is opaque immediately.
    Complete,
    /// Secrets may be added after the packets, but before their connection ends: up to 4 MiB of each connection wait.
    MayCome,
}

/// Packets by kind; each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// TCP.
    pub tcp: u64,
    /// UDP.
    pub udp: u64,
    /// IP fragments; they are not reassembled.
    pub fragments: u64,
    /// Packets of other protocols.
    pub others: u64,
    /// TCP or UDP with a wrong checksum, if checksums are verified.
    pub corrupt: u64,
    /// Not IP, or truncated within a header.
    pub unreadable: u64,
    /// Packets that arrived before a packet that was already processed; their times may be off by the difference.
    pub out_of_order: u64,
}

/// Reads the traffic of a link.
///
/// Packets have to be passed in order of arrival at the link ([`ReorderBuffer`] ensures that), with their release
/// time; the observer keeps packets in flight until their release. See the crate's documentation for the meaning of the
/// rows.
///
/// [`ReorderBuffer`]: crate::ReorderBuffer
pub struct Observer {
    checksums: Checksums,
    secrets: Secrets,
    keys: KeyLog,
    numbers: ConnectionNumbers,
    /// The client's end, and the server's.
    taps: [Tap; 2],
    /// Packets that have not left the link, by release time and order of arrival.
    in_flight: BTreeMap<(Time, u64), (Direction, Vec<u8>)>,
    packet_count: u64,
    now: Time,
    counts: PacketCounts,
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(checksums: Checksums, secrets: Secrets) -> Observer {
        Observer {
            checksums,
            secrets,
            keys: KeyLog::default(),
            numbers: ConnectionNumbers::default(),
            taps: [Tap::new(Direction::Up), Tap::new(Direction::Down)],
            in_flight: BTreeMap::new(),
            packet_count: 0,
            now: Time::ZERO,
            counts: PacketCounts::default(),
        }
    }

    /// Adds the lines of a TLS key log in NSS format, and reads what has been waiting for them. Returns how many lines
    /// had a usable secret; other lines are skipped.
    pub fn add_keys(&mut self, key_log: &str, rows: &mut Observations) -> usize {
        let added = self.keys.add(key_log);
        if self.secrets == Secrets::MayCome && added > 0 {
            let keys = Keys {
                log: &self.keys,
                may_come: true,
            };
            for tap in &mut self.taps {
                tap.retry(keys, rows);
            }
        }
        added
    }

    /// Processes a packet and adds the rows it completes to `rows`. Returns the number of its connection; `None` for
    /// UDP that is not QUIC, and for stray segments of an earlier connection.
    pub fn observe(&mut self, packet: &ObservedPacket<'_>, rows: &mut Observations) -> Option<u32> {
        self.deliver_until(packet.time_in, rows);
        self.counts.out_of_order += u64::from(packet.time_in < self.now);
        self.now = self.now.max(packet.time_in);
        self.packet_count += 1;
        let parsed = parse(packet.bytes, self.checksums);
        let count = match parsed {
            Packet::Tcp(_) => &mut self.counts.tcp,
            Packet::Udp(_) => &mut self.counts.udp,
            Packet::Fragment => &mut self.counts.fragments,
            Packet::Other => &mut self.counts.others,
            Packet::Corrupt => &mut self.counts.corrupt,
            Packet::Unreadable => &mut self.counts.unreadable,
        };
        *count += 1;
        if !matches!(parsed, Packet::Tcp(_) | Packet::Udp(_)) {
            return None;
        }
        let direction = packet.direction;
        let connection = self.tap(direction, packet.time_in, direction, &parsed, rows);
        match packet.release {
            Some(release) if release <= packet.time_in => {
                self.tap(
                    direction.opposite(),
                    packet.time_in,
                    direction,
                    &parsed,
                    rows,
                );
            }
            Some(release) => {
                let entry = (direction, packet.bytes.to_vec());
                self.in_flight.insert((release, self.packet_count), entry);
            }
            None => {}
        }
        connection
    }

    /// The number, in all rows, of the latest TCP connection between two addresses. It is known from the connection's
    /// first packet until some minutes after its last.
    pub fn connection(&self, one: SocketAddr, other: SocketAddr) -> Option<u32> {
        self.taps.iter().find_map(|tap| tap.number(one, other))
    }

    /// Delivers packets that leave the link at or before `now`.
    fn deliver_until(&mut self, now: Time, rows: &mut Observations) {
        while let Some(first) = self.in_flight.first_entry() {
            let (release, _) = *first.key();
            if release > now {
                break;
            }
            let (direction, bytes) = first.remove();
            let parsed = parse(&bytes, self.checksums);
            self.tap(direction.opposite(), release, direction, &parsed, rows);
        }
    }

    /// Passes a packet to the tap at `end`. Returns the connection's number.
    fn tap(
        &mut self,
        end: Direction,
        now: Time,
        direction: Direction,
        packet: &Packet<'_>,
        rows: &mut Observations,
    ) -> Option<u32> {
        let keys = Keys {
            log: &self.keys,
            may_come: self.secrets == Secrets::MayCome,
        };
        let mut context = PacketContext {
            now,
            direction,
            keys,
            numbers: &mut self.numbers,
            rows,
        };
        let tap = &mut self.taps[end as usize];
        match packet {
            Packet::Tcp(segment) => tap.segment(segment, &mut context),
            Packet::Udp(datagram) => tap.datagram(datagram, &mut context),
            Packet::Fragment | Packet::Other | Packet::Corrupt | Packet::Unreadable => None,
        }
    }

    /// Ends the observation: writes the rows of everything that was open, and returns the packet counts.
    pub fn finish(mut self, rows: &mut Observations) -> PacketCounts {
        let last = self
            .in_flight
            .keys()
            .next_back()
            .map(|(release, _)| *release);
        let end = last.unwrap_or(self.now).max(self.now);
        self.deliver_until(end, rows);
        let keys = Keys {
            log: &self.keys,
            may_come: false,
        };
        for tap in &mut self.taps {
            tap.finish(end, keys, rows);
        }
        self.counts
    }
}
