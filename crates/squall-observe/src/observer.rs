//! The observer: packets of a link in, rows of both its ends out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;
use squall_base::Time;
use squall_base::record::Direction;

use crate::exchange::Observations;
use crate::numbers::Numbers;
use crate::packet::{Checksums, Packet, SeenPacket, parse};
use crate::tap::{Seen, Tap};
use crate::tls::{KeyLog, Keys};

/// Whether secrets of TLS may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// All that there are were given before the first packet: what lacks them is opaque at once.
    Complete,
    /// They may come after the packets, but before the end of their connection: up to 4 MiB of each connection wait.
    MayCome,
}

/// Packets by what they were; each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// TCP.
    pub tcp: u64,
    /// UDP.
    pub udp: u64,
    /// Parts of packets that IP had cut: they are not put together.
    pub fragments: u64,
    /// Of other protocols.
    pub others: u64,
    /// TCP or UDP with a wrong checksum, where checksums are verified.
    pub corrupt: u64,
    /// No IP, or cut short within a header.
    pub unreadable: u64,
    /// That came before one that had come earlier: their times may be wrong by as much.
    pub out_of_order: u64,
}

/// Reads along with a link.
///
/// Packets are given in the order of their arrival at the link ([`InArrivalOrder`] makes it), and with their release;
/// what is on the way is kept until then. See the crate's documentation for what the rows mean.
///
/// [`InArrivalOrder`]: crate::InArrivalOrder
pub struct Observer {
    checksums: Checksums,
    secrets: Secrets,
    keys: KeyLog,
    numbers: Numbers,
    /// At the end of the client's host, and of the server's.
    taps: [Tap; 2],
    /// Packets that have not left the link, by the time when they will and the order in which they came.
    under_way: BTreeMap<(Time, u64), (Direction, Vec<u8>)>,
    given: u64,
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
            numbers: Numbers::default(),
            taps: [Tap::new(Direction::Up), Tap::new(Direction::Down)],
            under_way: BTreeMap::new(),
            given: 0,
            now: Time::ZERO,
            counts: PacketCounts::default(),
        }
    }

    /// Takes lines of a TLS key log in NSS's format, and reads what has waited for them: how many lines had a secret
    /// that is of use here. Other lines are passed over.
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

    /// Takes a packet. What it completes is added to `rows`. Returns the number of the connection that it is of; of packets
    /// of UDP that are no QUIC, and of late ones of an earlier connection, `None`.
    pub fn see(&mut self, packet: &SeenPacket<'_>, rows: &mut Observations) -> Option<u32> {
        self.deliver_until(packet.time_in, rows);
        self.counts.out_of_order += u64::from(packet.time_in < self.now);
        self.now = self.now.max(packet.time_in);
        self.given += 1;
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
                let kept = (direction, packet.bytes.to_vec());
                self.under_way.insert((release, self.given), kept);
            }
            None => {}
        }
        connection
    }

    /// The number, in all rows, of the latest connection of TCP between two addresses. It is known from its first packet
    /// until some minutes after its last.
    pub fn connection(&self, one: SocketAddr, other: SocketAddr) -> Option<u32> {
        self.taps.iter().find_map(|tap| tap.number(one, other))
    }

    /// Lets packets out of the link that leave it before or at `now`.
    fn deliver_until(&mut self, now: Time, rows: &mut Observations) {
        while let Some(first) = self.under_way.first_entry() {
            let (release, _) = *first.key();
            if release > now {
                break;
            }
            let (direction, bytes) = first.remove();
            let parsed = parse(&bytes, self.checksums);
            self.tap(direction.opposite(), release, direction, &parsed, rows);
        }
    }

    /// Shows a packet to the tap at `end`; returns the connection's number.
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
        let mut seen = Seen {
            now,
            direction,
            keys,
            numbers: &mut self.numbers,
            rows,
        };
        let tap = &mut self.taps[end as usize];
        match packet {
            Packet::Tcp(segment) => tap.segment(segment, &mut seen),
            Packet::Udp(datagram) => tap.datagram(datagram, &mut seen),
            Packet::Fragment | Packet::Other | Packet::Corrupt | Packet::Unreadable => None,
        }
    }

    /// Nothing more comes: the rows of everything that was open, and how many packets there were.
    pub fn finish(mut self, rows: &mut Observations) -> PacketCounts {
        let last = self
            .under_way
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
