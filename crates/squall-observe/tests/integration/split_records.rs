//! A TLS record in two packets a round trip apart, as at the start of a connection whose first window is full. Its
//! sender is sending from the first packet to the second; its receiver can read nothing of the record before the
//! second.
//!
//! A station writes a record in one call, and its times are right too: its socket takes the record immediately, and
//! sends it when the congestion window allows. For such a message the observer's and the station's times differ by a
//! round trip.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Direction, ExchangeRecord, FrameRecord, Side, Way};
use squall_observe::Observations;

use crate::support::{ACK, Endpoints, KeyArrival, LinkPacket, SYN, Write, conversation, observe};

const MS: u64 = 1_000_000;
/// The one-way delay of the link.
const DELAY: u64 = 5 * MS;
/// Time between the first and the second packet of a write.
const APART: u64 = 10 * MS;
/// A long write leaves this many bytes for its second packet. The writes of the handshake are shorter than `LONG`.
const LEFT_BEHIND: usize = 2_000;
const LONG: usize = 2_500;

const ENDS: Endpoints = Endpoints {
    is_ipv6: false,
    first: [1_000, 2_000],
};

/// The packets of these writes, and when the two packets of each long write entered the link, in milliseconds.
fn packets(writes: &[Write]) -> (Vec<LinkPacket>, Vec<(Direction, [u64; 2])>) {
    let (mut sent, mut now) = ([0_u64; 2], 0);
    let (mut packets, mut long) = (Vec::new(), Vec::new());
    let mut push = |direction: Direction, payload: &[u8], flags, sent: &mut [u64; 2], at: u64| {
        let offset = sent[direction as usize];
        let acked = sent[direction.opposite() as usize];
        sent[direction as usize] += payload.len() as u64;
        packets.push(LinkPacket {
            direction,
            time_in: at,
            release: Some(at + DELAY),
            bytes: ENDS.packet(direction, offset, payload, acked, flags),
            range: offset..offset + payload.len() as u64,
        });
    };
    for (direction, flags) in [(Direction::Up, SYN), (Direction::Down, SYN | ACK)] {
        push(direction, &[], flags, &mut sent, now);
        now += 2 * DELAY;
    }
    for Write { direction, bytes } in writes {
        if bytes.len() < LONG {
            push(*direction, bytes, ACK, &mut sent, now);
        } else {
            let (first, second) = bytes.split_at(bytes.len() - LEFT_BEHIND);
            push(*direction, first, ACK, &mut sent, now);
            long.push((*direction, [now, now + APART].map(|at| at / MS)));
            now += APART;
            push(*direction, second, ACK, &mut sent, now);
        }
        now += 2 * DELAY;
    }
    (packets, long)
}

fn ms(time: Option<Time>) -> u64 {
    let time = time.expect("the message has passed").as_nanos();
    assert_eq!(time % MS, 0);
    time / MS
}

/// First and last byte of request and response, in milliseconds.
fn times(row: &ExchangeRecord) -> [u64; 4] {
    [
        row.request_first,
        row.request_last,
        row.response_first,
        row.response_last,
    ]
    .map(ms)
}

fn of_side(rows: &Observations, side: Side) -> Vec<&ExchangeRecord> {
    let mut found: Vec<_> = rows
        .exchanges
        .iter()
        .filter(|row| row.side == side)
        .collect();
    found.sort_by_key(|row| row.stream);
    found
}

/// A conversation whose only long writes are the request and the response, and when their packets entered the link.
fn observed(protocol: Protocol, bodies: &[(usize, usize)]) -> (Observations, [u64; 2], [u64; 2]) {
    let (writes, key_log) = conversation(protocol, bodies);
    let (packets, long) = packets(&writes);
    let [(Direction::Up, up), (Direction::Down, down)] = long[..] else {
        panic!("one long write each way: {long:?}");
    };
    let (rows, _) = observe(&packets, &key_log, KeyArrival::First);
    (rows, up, down)
}

const ONE_WAY: u64 = DELAY / MS;

#[test]
fn record_is_sent_from_its_first_packet_and_read_with_its_last() {
    let (rows, up, down) = observed(Protocol::H1s, &[(5_000, 5_000)]);
    let [client, server] = Side::ALL.map(|side| of_side(&rows, side));
    let ([client], [server]) = (client.as_slice(), server.as_slice()) else {
        panic!("one exchange: {rows:?}");
    };
    for row in [client, server] {
        for extent in [row.request_extent, row.response_extent] {
            let extent = extent.expect("all of it passed");
            // The head is in one record and the body in another, which is the one that is split.
            assert!(extent.record_last <= extent.record_first.map(|first| first + 1));
        }
    }
    let read = |sent: u64| sent + ONE_WAY;
    let sent_request = [up[0], up[1]];
    let sent_response = [down[0], down[1]];
    let [request_first, request_last, response_first, response_last] = times(client);
    assert_eq!([request_first, request_last], sent_request);
    assert_eq!(response_last, read(down[1]));
    assert!([read(down[0]), read(down[1])].contains(&response_first));
    let [request_first, request_last, response_first, response_last] = times(server);
    assert_eq!(request_last, read(up[1]));
    assert!([read(up[0]), read(up[1])].contains(&request_first));
    assert_eq!([response_first, response_last], sent_response);
}

/// A message that shares a record with others is read when the whole record has arrived, although its own bytes arrived
/// a round trip earlier.
#[test]
fn head_in_a_split_record_is_read_with_the_last_packet() {
    let (rows, up, down) = observed(Protocol::H2, &[(5_000, 5_000)]);
    let [client, server] = Side::ALL.map(|side| of_side(&rows, side));
    assert_eq!((client.len(), server.len()), (1, 1));
    // HEADERS and DATA share a record, and HEADERS come before the split.
    for extent in [client[0].request_extent, client[0].response_extent] {
        let extent = extent.expect("all of it passed");
        assert_eq!(extent.record_first, extent.record_last);
    }
    for row in &client {
        assert_eq!(times(row)[..2], up, "{row:?}");
        assert_eq!(times(row)[2..], [down[1] + ONE_WAY; 2], "{row:?}");
    }
    for row in &server {
        assert_eq!(times(row)[..2], [up[1] + ONE_WAY; 2], "{row:?}");
        assert_eq!(times(row)[2..], [down[0], down[1]], "{row:?}");
    }
    // Frames count as sent with their last byte and as received with their first; the record determines both.
    let frames = |side, way| -> Vec<&FrameRecord> {
        let of = |row: &&FrameRecord| (row.side, row.frame.way) == (side, way);
        // HEADERS and DATA of requests and responses.
        let is_message = |row: &&FrameRecord| row.frame.kind < 2 && row.frame.stream > Some(0);
        rows.frames.iter().filter(of).filter(is_message).collect()
    };
    for (side, way, at) in [
        (Side::Client, Way::Sent, up[1]),
        (Side::Server, Way::Received, up[1] + ONE_WAY),
        (Side::Server, Way::Sent, down[1]),
        (Side::Client, Way::Received, down[1] + ONE_WAY),
    ] {
        let found = frames(side, way);
        assert_eq!(found.len(), 2, "{side:?} {way:?}");
        for row in found {
            assert_eq!(ms(Some(row.time)), at, "{row:?}");
        }
    }
}

/// In cleartext every byte is readable when its packet arrives.
#[test]
fn cleartext_is_read_when_its_packet_arrives() {
    let (rows, up, down) = observed(Protocol::H1, &[(5_000, 5_000)]);
    let [client, server] = Side::ALL.map(|side| times(of_side(&rows, side)[0]));
    let read = |[first, last]: [u64; 2]| [first + ONE_WAY, last + ONE_WAY];
    assert_eq!(client, [up, read(down)].concat()[..]);
    assert_eq!(server, [read(up), down].concat()[..]);
}
