//! Feeds the observer any bytes as packets, and checks what must hold for any bytes.
//!
//! Nothing may panic. A message ends after its beginning, in bytes and in time. What was seen at one end only belongs
//! to no connection of the other end.

use squall_base::Time;
use squall_base::record::{Direction, ExchangeRecord, Side};
use squall_observe::{Checksums, Observations, ObservedPacket, Observer, Secrets};

/// Addresses of the one connection that half-sensible packets belong to.
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A client random for which the key log of every run has secrets.
const KEYS: &str = "CLIENT_RANDOM 0000000000000000000000000000000000000000000000000000000000000000 \
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\n";

/// Packets: a byte determines how each is made, followed by a time step, a length and that many bytes, which are an IP
/// packet or the payload of a segment of one connection.
pub fn observe_packets(input: &[u8]) {
    for secrets in [Secrets::Complete, Secrets::MayCome] {
        let mut observer = Observer::new(Checksums::Ignored, secrets);
        let mut rows = Observations::default();
        observer.add_keys(KEYS, &mut rows);
        let mut next = [0_u32; 2];
        let mut now = 0;
        let mut rest = input;
        while let [how, step, length, more @ ..] = rest {
            let (bytes, after) = more.split_at(more.len().min(usize::from(*length)));
            rest = after;
            now += u64::from(*step) * 1_000_000;
            let direction = if how & 1 == 0 {
                Direction::Up
            } else {
                Direction::Down
            };
            let packet = if how & 2 == 0 {
                segment(*how, direction, bytes, &mut next)
            } else {
                bytes.to_vec()
            };
            let release = match how >> 6 {
                0 => Some(now),
                1 => Some(now + 1),
                2 => Some(now + 5_000_000),
                _ => None,
            };
            let seen = ObservedPacket {
                time_in: Time::from_nanos(now),
                release: release.map(Time::from_nanos),
                direction,
                bytes: &packet,
            };
            observer.observe(&seen, &mut rows);
        }
        observer.finish(&mut rows);
        check(&rows);
    }
}

/// Any bytes, as a key log: it yields no more secrets than it has lines.
pub fn key_log(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut observer = Observer::new(Checksums::Ignored, Secrets::MayCome);
    let mut rows = Observations::default();
    let taken = observer.add_keys(&text, &mut rows);
    assert!(taken <= text.lines().count());
    check(&rows);
}

/// A segment that follows those before it, or is near them; with flags.
fn segment(how: u8, direction: Direction, payload: &[u8], next: &mut [u32; 2]) -> Vec<u8> {
    let at = &mut next[direction as usize];
    let (seq, flags) = match (how >> 2) & 0xf {
        0 => (*at, 0x02),
        1 => (*at, 0x12),
        2 => (*at, 0x11),
        3 => (*at, 0x04),
        4 => (at.wrapping_add(100), 0x10),
        5 => (at.wrapping_sub(10), 0x10),
        6 => (at.wrapping_sub(1 << 31), 0x10),
        _ => (*at, 0x10),
    };
    if seq == *at {
        *at = at.wrapping_add(payload.len() as u32 + u32::from(flags & 0x02 != 0));
    }
    let ack = next[direction.opposite() as usize];
    let (ports, from, to) = match direction {
        Direction::Up => ([40_000_u16, 80], CLIENT, SERVER),
        Direction::Down => ([80, 40_000], SERVER, CLIENT),
    };
    let mut packet = vec![0x45, 0];
    packet.extend((40 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend(seq.to_be_bytes());
    packet.extend(ack.to_be_bytes());
    packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(payload);
    packet
}

/// What must hold for all rows.
pub fn check(rows: &Observations) {
    for row in &rows.exchanges {
        for extent in [row.request_extent, row.response_extent]
            .into_iter()
            .flatten()
        {
            assert!(extent.start < extent.end, "{row:?}");
            // HTTP/3 has no offsets on the wire.
            let is_quic = extent.wire_start.is_none();
            assert!(is_quic || extent.wire_start < extent.wire_end, "{row:?}");
        }
        for (first, last) in [
            (row.request_first, row.request_last),
            (row.response_first, row.response_last),
        ] {
            assert!(last.is_none() || first <= last, "{row:?}");
        }
    }
    let of = |side: Side| move |row: &&ExchangeRecord| row.side == side;
    for side in Side::ALL {
        let told: u64 = rows
            .connections
            .iter()
            .filter(|row| row.side == side)
            .map(|row| row.exchanges)
            .sum();
        assert_eq!(told, rows.exchanges.iter().filter(of(side)).count() as u64);
    }
}
