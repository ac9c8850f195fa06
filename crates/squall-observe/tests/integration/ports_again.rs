//! Reused addresses: late packets of an earlier connection are ignored, and a connection stays one connection however
//! often its SYN arrives.
//!
//! The packets are built by hand in `support`.

use squall_base::record::{Direction, ExchangeRecord, Side};
use squall_observe::{ConnectionRecord, Ending};

use crate::support::{ACK, Endpoints, FIN, KeyArrival, LinkPacket, SYN, observe};

/// The RST flag (RFC 9293, section 3.1).
const RST: u8 = 0x04;
/// The one-way delay of the link.
const DELAY_NS: u64 = 5_000_000;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

/// Two connections between the same ends. Linux increments initial sequence numbers every 64 ns (RFC 6528).
const FIRST: Endpoints = Endpoints {
    is_ipv6: false,
    first: [1_000_000, 2_000_000],
};
const SECOND: Endpoints = Endpoints {
    is_ipv6: false,
    first: [9_000_000, 7_500_000],
};

/// Packets on the link.
#[derive(Default)]
struct Link {
    packets: Vec<LinkPacket>,
}

impl Link {
    /// Adds a packet that enters the link at this time. Returns when it leaves.
    fn push(&mut self, at_ns: u64, direction: Direction, bytes: Vec<u8>) -> u64 {
        self.packets.push(LinkPacket {
            direction,
            time_in: at_ns,
            release: Some(at_ns + DELAY_NS),
            bytes,
            range: 0..0,
        });
        at_ns + DELAY_NS
    }

    /// The client's SYN. Returns when it arrives.
    fn syn(&mut self, at_ns: u64, ends: &Endpoints) -> u64 {
        self.push(
            at_ns,
            Direction::Up,
            ends.packet(Direction::Up, 0, &[], 0, SYN),
        )
    }

    /// The SYN-ACK and an exchange. Returns when the client has the response.
    fn exchange(&mut self, answered_ns: u64, ends: &Endpoints) -> u64 {
        let syn_ack = ends.packet(Direction::Down, 0, &[], 0, SYN | ACK);
        let at = self.push(answered_ns, Direction::Down, syn_ack);
        let request = ends.packet(Direction::Up, 0, REQUEST, 0, ACK);
        let at = self.push(at, Direction::Up, request);
        let asked = REQUEST.len() as u64;
        let response = ends.packet(Direction::Down, 0, RESPONSE, asked, ACK);
        self.push(at, Direction::Down, response)
    }

    /// The client resets the connection.
    fn reset(&mut self, at_ns: u64, ends: &Endpoints) {
        let bytes = ends.packet(Direction::Up, REQUEST.len() as u64, &[], 0, RST);
        self.push(at_ns, Direction::Up, bytes);
    }

    /// Checks that both ends saw this many accepted connections, each with one complete exchange.
    fn check(&self, connections: usize) {
        let (rows, records) = observe(&self.packets, "", KeyArrival::First);
        for side in Side::ALL {
            let accepted: Vec<&ConnectionRecord> = records
                .iter()
                .filter(|record| record.side == side && record.accepted.is_some())
                .collect();
            assert_eq!(accepted.len(), connections, "{side:?}: {records:#?}");
            let exchanges: Vec<&ExchangeRecord> = rows
                .exchanges
                .iter()
                .filter(|row| row.side == side)
                .collect();
            assert_eq!(exchanges.len(), connections, "{side:?}: {exchanges:#?}");
            for (number, row) in exchanges.iter().enumerate() {
                assert_eq!(row.connection as usize, number, "{side:?}");
                assert_eq!((row.status, row.response_body_bytes), (Some(200), 2));
            }
            for record in accepted {
                assert_eq!(record.from_server.bytes, RESPONSE.len() as u64);
                assert_eq!(record.opaque, None);
            }
        }
    }
}

/// The server retransmits data of the first connection, and it arrives at a client that has already sent the second
/// one's SYN. The client replies with a RST whose sequence numbers the second connection never used (RFC 9293, section
/// 3.10.7.3); the server ignores it.
#[test]
fn late_packet_and_the_reset_it_triggers_do_not_end_the_next_connection() {
    let mut link = Link::default();
    let at = link.syn(0, &FIRST);
    let end = link.exchange(at, &FIRST);
    link.reset(end, &FIRST);
    let asked = REQUEST.len() as u64;
    let again = FIRST.packet(Direction::Down, 0, RESPONSE, asked, ACK);
    let arrives = link.push(end - 1_000, Direction::Down, again);
    let at = link.syn(end + 100_000, &SECOND);
    assert!(arrives < at, "before the second SYN can be answered");
    link.reset(arrives, &FIRST);
    link.exchange(at, &SECOND);
    link.check(2);
}

/// As above, but the RST for the late packet arrives after the handshake, and the server sends a RST by itself.
#[test]
fn resets_count_only_with_sequence_numbers_of_the_connection() {
    for acknowledges in [0, ACK] {
        let mut link = Link::default();
        let at = link.syn(0, &FIRST);
        let end = link.exchange(at, &FIRST);
        link.reset(end, &FIRST);
        let at = link.syn(end + 100_000, &SECOND);
        let late = FIRST.packet(
            Direction::Down,
            RESPONSE.len() as u64,
            &[],
            REQUEST.len() as u64,
            RST | acknowledges,
        );
        link.push(end + 50_000, Direction::Down, late);
        let done = link.exchange(at, &SECOND);
        link.reset(done - 1_000, &FIRST);
        link.check(2);
    }
}

/// The server missed the end of the first connection, so it acknowledges what it has of that connection (RFC 5961,
/// section 4). The client replies with a RST, and retransmits its SYN.
#[test]
fn server_accepts_a_connection_although_it_missed_the_end_of_the_last() {
    let mut link = Link::default();
    let at = link.syn(0, &FIRST);
    let end = link.exchange(at, &FIRST);
    let at = link.syn(end + 100_000, &SECOND);
    let asked = REQUEST.len() as u64;
    let challenge = FIRST.packet(Direction::Down, RESPONSE.len() as u64, &[], asked, ACK);
    let at = link.push(at, Direction::Down, challenge);
    link.reset(at, &FIRST);
    let at = link.syn(end + 1_000_000_000, &SECOND);
    link.exchange(at, &SECOND);
    link.check(2);
}

/// A copy of a SYN that arrives after its connection has ended opens no connection: the server replies to it and
/// receives a RST.
#[test]
fn late_copy_of_a_syn_opens_no_connection() {
    for ending in [RST, FIN] {
        let mut link = Link::default();
        let at = link.syn(0, &FIRST);
        let end = link.exchange(at, &FIRST);
        let (asked, told) = (REQUEST.len() as u64, RESPONSE.len() as u64);
        let last = FIRST.packet(Direction::Up, asked, &[], told, ending | ACK);
        let at = link.push(end, Direction::Up, last);
        if ending == FIN {
            let last = FIRST.packet(Direction::Down, told, &[], asked + 1, FIN | ACK);
            link.push(at, Direction::Down, last);
        }
        let at = link.syn(end + 20_000_000, &FIRST);
        let answer = Endpoints {
            first: [FIRST.first[0], SECOND.first[1]],
            ..SECOND
        };
        let syn_ack = answer.packet(Direction::Down, 0, &[], 0, SYN | ACK);
        link.push(at, Direction::Down, syn_ack);
        link.check(1);
    }
}

/// A refused connection is not counted as accepted, but the next one is.
#[test]
fn refused_connection_is_not_accepted_but_the_next_is() {
    let mut link = Link::default();
    let at = link.syn(0, &FIRST);
    let refusal = Endpoints {
        first: [FIRST.first[0], 0],
        ..FIRST
    };
    let refusal = refusal.packet(Direction::Down, 0, &[], 0, RST | ACK);
    let at = link.push(at, Direction::Down, refusal);
    let at = link.syn(at + 1_000, &SECOND);
    link.exchange(at, &SECOND);
    let (_, records) = observe(&link.packets, "", KeyArrival::First);
    let ends = |side: Side| -> Vec<(bool, Ending)> {
        let of_side = records.iter().filter(|record| record.side == side);
        of_side
            .map(|record| (record.accepted.is_some(), record.ending))
            .collect()
    };
    for side in Side::ALL {
        assert_eq!(ends(side), [(false, Ending::Reset), (true, Ending::Open)]);
    }
}
