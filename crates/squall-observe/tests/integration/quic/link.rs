//! A link that carries datagrams by hand and stores them as packets, and helpers that run the observer over it.

use std::net::{IpAddr, SocketAddr};

use squall_base::Time;
use squall_base::record::{Direction, ExchangeRecord, FrameFacts, FrameLayer, Side};
use squall_observe::{
    Checksums, ConnectionRecord, Observations, ObservedPacket, Observer, Secrets,
};

pub(crate) const CLIENT: &str = "10.0.0.1:4000";
pub(crate) const SERVER: &str = "10.0.0.2:443";

/// A packet that crossed the link or was lost on it.
#[derive(Clone, Debug)]
pub(crate) struct LinkPacket {
    pub(crate) direction: Direction,
    pub(crate) is_lost: bool,
    pub(crate) bytes: Vec<u8>,
}

/// All packets so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) packets: Vec<LinkPacket>,
}

impl Link {
    /// Puts a datagram on the link.
    pub(crate) fn carry(
        &mut self,
        direction: Direction,
        (from, to): (SocketAddr, SocketAddr),
        datagram: &[u8],
        is_lost: bool,
    ) {
        self.packets.push(LinkPacket {
            direction,
            is_lost,
            bytes: packet(from, to, datagram),
        });
    }
}

/// An IPv4 packet with a UDP datagram, without checksums.
pub(crate) fn packet(from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("an address of IPv6"),
    };
    let mut packet = vec![0x45, 0];
    packet.extend((28 + datagram.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(octets(from));
    packet.extend(octets(to));
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend((8 + datagram.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(datagram);
    packet
}

/// Runs the observer over a link's packets: packet N enters at N microseconds and leaves half a microsecond later. The
/// key log is added before all packets, or after all of them.
pub(crate) fn observe(link: &Link, key_log: &str, is_early: bool) -> Observations {
    let secrets = if is_early {
        Secrets::Complete
    } else {
        Secrets::MayCome
    };
    let mut observer = Observer::new(Checksums::Ignored, secrets);
    let mut rows = Observations::default();
    if is_early {
        observer.add_keys(key_log, &mut rows);
    }
    for (at, packet) in (1_000..).step_by(1_000).zip(&link.packets) {
        let seen = ObservedPacket {
            time_in: Time::from_nanos(at),
            release: (!packet.is_lost).then(|| Time::from_nanos(at + 500)),
            direction: packet.direction,
            bytes: &packet.bytes,
        };
        observer.observe(&seen, &mut rows);
    }
    if !is_early {
        observer.add_keys(key_log, &mut rows);
    }
    observer.finish(&mut rows);
    rows
}

/// The frames of a layer in a side's rows.
pub(crate) fn frames(rows: &Observations, side: Side, layer: FrameLayer) -> Vec<FrameFacts> {
    let rows = rows.frames.iter();
    let of_side = rows.filter(|row| row.side == side && row.frame.layer == layer);
    of_side.map(|row| row.frame).collect()
}

/// The exchanges of a side, by stream.
pub(crate) fn exchanges(rows: &Observations, side: Side) -> Vec<ExchangeRecord> {
    let of_side = rows.exchanges.iter().filter(|row| row.side == side);
    let mut exchanges: Vec<ExchangeRecord> = of_side.cloned().collect();
    exchanges.sort_by_key(|row| row.stream);
    exchanges
}

/// The only connection of a side.
pub(crate) fn connection(rows: &Observations, side: Side) -> ConnectionRecord {
    let of_side = rows.connections.iter().filter(|row| row.side == side);
    let connections: Vec<_> = of_side.collect();
    assert_eq!(connections.len(), 1, "{connections:?}");
    connections[0].clone()
}
