//! Properties over random links: as long as everything arrives in the end, the rows describe the same bytes, and their
//! times are those of the packets.
//!
//! Random packet contents are in `garbage.rs`.

// The helpers panic on the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, Direction, ExchangeRecord, Extent, FrameRecord, Side};
use squall_observe::{Ending, Observations};

use crate::support::{
    ACK, Endpoints, FIN, KeyArrival, LinkPacket, SYN, Write, conversation, observe,
};

/// What the link does to one segment.
#[derive(Clone, Copy, Debug)]
struct SegmentTreatment {
    /// The segment's maximum length.
    length: usize,
    /// How many times the segment is lost before it gets through.
    losses: u8,
    /// The link's delay.
    delay_ns: u64,
    /// The additional delay of a second copy, if there is one, and by how many bytes its range differs.
    copy: Option<(u64, usize)>,
}

fn luck() -> impl Strategy<Value = SegmentTreatment> {
    let length = prop_oneof![1..40_usize, 1..3000_usize];
    let losses = prop_oneof![4 => Just(0_u8), 1 => 1..3_u8];
    let copy = proptest::option::weighted(0.2, (0..5000_u64, 1..2000_usize));
    (length, losses, 0..5000_u64, copy).prop_map(|(length, losses, delay_ns, copy)| {
        SegmentTreatment {
            length,
            losses,
            delay_ns,
            copy,
        }
    })
}

/// Builds packets.
struct Traffic {
    ends: Endpoints,
    packets: Vec<LinkPacket>,
    now: u64,
    /// Bytes that each direction has sent.
    sent: [u64; 2],
}

impl Traffic {
    fn push(
        &mut self,
        direction: Direction,
        times: (u64, Option<u64>),
        offset: u64,
        payload: &[u8],
        flags: u8,
    ) {
        let acked = self.sent[direction.opposite() as usize];
        self.packets.push(LinkPacket {
            direction,
            time_in: times.0,
            release: times.1,
            bytes: self.ends.packet(direction, offset, payload, acked, flags),
            range: offset..offset + payload.len() as u64,
        });
    }

    /// Adds a packet without payload that gets through.
    fn push_bare(&mut self, direction: Direction, flags: u8) {
        self.now += 20;
        let times = (self.now - 10, Some(self.now));
        self.push(direction, times, self.sent[direction as usize], &[], flags);
    }

    /// Adds a segment of a write, beginning at `at`. Returns where the next one begins, and when all of this one has
    /// arrived.
    fn push_segment(&mut self, write: &Write, at: usize, luck: SegmentTreatment) -> (usize, u64) {
        let direction = write.direction;
        let base = self.sent[direction as usize];
        let end = (at + luck.length).min(write.bytes.len());
        let payload = &write.bytes[at..end];
        let offset = base + at as u64;
        self.now += 10;
        let time_in = |time: u8| self.now + u64::from(time) * 7_000;
        let (lost, time_in) = (
            (0..luck.losses).map(time_in).collect::<Vec<_>>(),
            time_in(luck.losses),
        );
        for time_in in lost {
            self.push(direction, (time_in, None), offset, payload, ACK);
        }
        let mut last = time_in + luck.delay_ns;
        self.push(direction, (time_in, Some(last)), offset, payload, ACK);
        if let Some((later, more)) = luck.copy {
            // The copy starts a bit earlier and ends a bit later, so it overlaps its neighbours.
            let from = at.saturating_sub(more / 2);
            let to = (end + more / 2).min(write.bytes.len());
            let time_in = time_in + later;
            let release = time_in + luck.delay_ns / 2;
            let payload = &write.bytes[from..to];
            self.push(
                direction,
                (time_in, Some(release)),
                base + from as u64,
                payload,
                ACK,
            );
            last = last.max(release);
        }
        (end, last)
    }
}

/// The packets of a conversation. A side writes only when it has everything that the other wrote before, so neither
/// responds to bytes that have not arrived.
fn packets(ends: Endpoints, writes: &[Write], luck: &[SegmentTreatment]) -> Vec<LinkPacket> {
    let mut luck = luck.iter().cycle();
    let mut traffic = Traffic {
        ends,
        packets: Vec::new(),
        now: 0,
        sent: [0; 2],
    };
    traffic.push_bare(Direction::Up, SYN);
    traffic.push_bare(Direction::Down, SYN | ACK);
    traffic.push_bare(Direction::Up, ACK);
    for write in writes {
        let mut at = 0;
        let mut last = traffic.now;
        while at < write.bytes.len() {
            let (next, came) = traffic.push_segment(write, at, *luck.next().unwrap());
            at = next;
            last = last.max(came);
        }
        traffic.sent[write.direction as usize] += write.bytes.len() as u64;
        traffic.now = last + 1;
    }
    traffic.push_bare(Direction::Up, FIN | ACK);
    traffic.push_bare(Direction::Down, FIN | ACK);
    traffic.packets
}

/// Every packet once and without delay, in whole writes.
fn undisturbed(ends: Endpoints, writes: &[Write], key_log: &str) -> Observations {
    let smooth = SegmentTreatment {
        length: usize::MAX / 2,
        losses: 0,
        delay_ns: 0,
        copy: None,
    };
    // An IP packet cannot be longer.
    let cut: Vec<Write> = writes
        .iter()
        .flat_map(|write| {
            write.bytes.chunks(60_000).map(|bytes| Write {
                direction: write.direction,
                bytes: bytes.to_vec(),
            })
        })
        .collect();
    observe(&packets(ends, &cut, &[smooth]), key_log, KeyArrival::First).0
}

fn without_times(rows: &Observations, side: Side) -> Vec<ExchangeRecord> {
    let mut exchanges: Vec<_> = rows
        .exchanges
        .iter()
        .filter(|row| row.side == side)
        .map(|row| ExchangeRecord {
            beginning: Beginning::default(),
            request_first: None,
            request_last: None,
            response_first: None,
            response_last: None,
            ..row.clone()
        })
        .collect();
    exchanges.sort_by_key(|row| row.stream);
    exchanges
}

/// The frames by direction and offset. Windows are cleared, because they depend on how the two directions interleave.
fn frames(rows: &Observations, side: Side) -> Vec<FrameRecord> {
    let mut frames: Vec<_> = rows
        .frames
        .iter()
        .filter(|row| row.side == side)
        .copied()
        .collect();
    for row in &mut frames {
        row.time = Time::ZERO;
        row.frame.stream_window = None;
        row.frame.connection_window = None;
    }
    frames.sort_by_key(|row| (row.frame.way, row.frame.offset));
    frames
}

/// When a byte first entered the link.
fn sent_at(packets: &[LinkPacket], direction: Direction, byte: u64) -> Time {
    let carriers = packets
        .iter()
        .filter(|p| p.direction == direction && p.range.contains(&byte));
    Time::from_nanos(carriers.map(|p| p.time_in).min().unwrap())
}

/// When the stream had arrived up to and including a byte.
fn delivered_at(packets: &[LinkPacket], direction: Direction, byte: u64) -> Time {
    let mut best = vec![u64::MAX; byte as usize + 1];
    for packet in packets.iter().filter(|p| p.direction == direction) {
        if let Some(release) = packet.release {
            for at in packet.range.clone().take_while(|at| *at <= byte) {
                best[at as usize] = best[at as usize].min(release);
            }
        }
    }
    Time::from_nanos(best.into_iter().max().unwrap())
}

/// Checks a message's times against the packets alone. Over TLS a receiver can read nothing of a record before its last
/// byte.
fn check_message(
    packets: &[LinkPacket],
    direction: Direction,
    row: &ExchangeRecord,
    found: [Option<Time>; 2],
    extent: Extent,
) {
    let is_sender = (direction == Direction::Up) == (row.side == Side::Client);
    let at = if is_sender { sent_at } else { delivered_at };
    let first = at(packets, direction, extent.wire_start.unwrap());
    let last = at(packets, direction, extent.wire_end.unwrap() - 1);
    assert_eq!(found[1], Some(last), "{row:?}");
    if is_sender || extent.record_first.is_none() {
        assert_eq!(found[0], Some(first), "{row:?}");
    } else {
        assert!(found[0] >= Some(first) && found[0] <= Some(last), "{row:?}");
    }
}

fn check_times(packets: &[LinkPacket], rows: &Observations) {
    for row in &rows.exchanges {
        let request = [row.request_first, row.request_last];
        check_message(
            packets,
            Direction::Up,
            row,
            request,
            row.request_extent.unwrap(),
        );
        let response = [row.response_first, row.response_last];
        check_message(
            packets,
            Direction::Down,
            row,
            response,
            row.response_extent.unwrap(),
        );
    }
}

const PROTOCOLS: [Protocol; 4] = [Protocol::H1, Protocol::H1s, Protocol::H2c, Protocol::H2];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn exchanges_do_not_depend_on_what_the_link_does(
        protocol in proptest::sample::select(&PROTOCOLS),
        key_arrival in proptest::sample::select(&[KeyArrival::First, KeyArrival::Late]),
        is_ipv6: bool,
        first: [u32; 2],
        wraps: bool,
        bodies in vec((0..9000_usize, 0..9000_usize), 1..5),
        luck in vec(luck(), 1..60),
    ) {
        let (writes, key_log) = conversation(protocol, &bodies);
        // The sequence numbers wrap within the first write.
        let first = if wraps { first.map(|seq| 0_u32.wrapping_sub(seq % 50)) } else { first };
        let ends = Endpoints { is_ipv6, first };
        let packets = packets(ends, &writes, &luck);
        let (rows, connections) = observe(&packets, &key_log, key_arrival);
        let smooth = undisturbed(ends, &writes, &key_log);
        for side in Side::ALL {
            let exchanges = without_times(&rows, side);
            prop_assert_eq!(exchanges.len(), bodies.len());
            prop_assert_eq!(&exchanges, &without_times(&smooth, side));
            prop_assert_eq!(frames(&rows, side), frames(&smooth, side));
            let body_bytes = |of: fn(&(usize, usize)) -> usize| bodies.iter().map(|b| of(b) as u64).sum::<u64>();
            prop_assert_eq!(exchanges.iter().map(|row| row.request_body_bytes).sum::<u64>(), body_bytes(|b| b.0));
            prop_assert_eq!(exchanges.iter().map(|row| row.response_body_bytes).sum::<u64>(), body_bytes(|b| b.1));
        }
        check_times(&packets, &rows);
        prop_assert_eq!(connections.len(), 2);
        for connection in connections {
            prop_assert_eq!(connection.ending, Ending::Closed);
            prop_assert_eq!(connection.opaque, None);
            let sums = Direction::ALL.map(|direction| {
                writes.iter().filter(|w| w.direction == direction).map(|w| w.bytes.len() as u64).sum::<u64>()
            });
            prop_assert_eq!([connection.from_client.bytes, connection.from_server.bytes], sums);
        }
    }

    #[test]
    fn missing_packets_never_produce_a_wrong_row(
        protocol in proptest::sample::select(&PROTOCOLS),
        bodies in vec((0..9000_usize, 0..9000_usize), 1..5),
        luck in vec(luck(), 1..60),
        lost in vec(any::<proptest::sample::Index>(), 1..6),
    ) {
        let (writes, key_log) = conversation(protocol, &bodies);
        let ends = Endpoints { is_ipv6: false, first: [7, 9] };
        let key_arrival = KeyArrival::First;
        let mut packets = packets(ends, &writes, &luck);
        let smooth = undisturbed(ends, &writes, &key_log);
        for lost in lost {
            packets.remove(lost.index(packets.len()));
        }
        let (rows, connections) = observe(&packets, &key_log, key_arrival);
        let is_whole = connections.iter().all(|c| c.opaque.is_none() && !c.began_before);
        // Every complete row matches a row of the whole capture, except for where its offsets count from.
        for row in rows.exchanges.iter().filter(|row| row.request_extent.is_some() && row.response_extent.is_some()) {
            let found = without_times(&smooth, row.side).iter().any(|known| {
                let same_bytes = known.request_body_bytes == row.request_body_bytes
                    && known.response_body_bytes == row.response_body_bytes;
                let length = |extent: Option<Extent>| extent.map(|e| e.end - e.start);
                same_bytes && known.status == row.status
                    && (protocol != Protocol::H1 || length(known.request_extent) == length(row.request_extent))
            });
            prop_assert!(found, "{:?}, whole: {}", row, is_whole);
        }
    }
}
