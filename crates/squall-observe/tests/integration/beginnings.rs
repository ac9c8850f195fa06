//! Connections whose beginning is special: HTTP/1.1 that upgrades to HTTP/2, connections that were open before the
//! first packet, non-HTTP traffic, truncated packets, and traces in the first request.
//!
//! Reused addresses are in `ports_again.rs`.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Direction, ExchangeRecord, Side};
use squall_base::traceparent::traceparent;
use squall_observe::{
    Checksums, Observations, ObservedPacket, Observer, OpaqueReason, Secrets, Transport,
    flow_endpoints,
};

use crate::support::{ACK, Endpoints, KeyArrival, LinkPacket, SYN, conversation, observe};

/// The RST flag (RFC 9293, section 3.1).
const RST: u8 = 0x04;

const ENDS: Endpoints = Endpoints {
    is_ipv6: false,
    first: [1_000, 2_000],
};

/// One packet per write, in order, after a handshake if `with_syn` is set.
fn packets(writes: &[(Direction, &[u8])], with_syn: bool) -> Vec<LinkPacket> {
    let mut sent = [0_u64; 2];
    let mut packets = Vec::new();
    let mut push = |direction: Direction, payload: &[u8], flags: u8, sent: &mut [u64; 2]| {
        let time = 10 * (packets.len() as u64 + 1);
        let offset = sent[direction as usize];
        let acked = sent[direction.opposite() as usize];
        sent[direction as usize] += payload.len() as u64;
        packets.push(LinkPacket {
            direction,
            time_in: time,
            release: Some(time + 1),
            bytes: ENDS.packet(direction, offset, payload, acked, flags),
            range: offset..offset + payload.len() as u64,
        });
    };
    if with_syn {
        push(Direction::Up, &[], SYN, &mut sent);
        push(Direction::Down, &[], SYN | ACK, &mut sent);
    }
    for (direction, payload) in writes {
        push(*direction, payload, ACK, &mut sent);
    }
    packets
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

#[test]
fn h2c_upgrade_continues_as_stream_1() {
    let ask: &[u8] =
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n\
        http2-settings: \r\n\r\n";
    let switch: &[u8] = b"HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    // SETTINGS, then `:status: 200` (RFC 7541, appendix A) and two bytes of DATA on stream 1.
    let answer: &[u8] =
        b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\x01\0\0\0\x01hi";
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let both = [switch, answer].concat();
    let writes = [
        (Direction::Up, ask),
        (Direction::Down, &both),
        (Direction::Up, preface),
    ];
    let (rows, connections) = observe(&packets(&writes, true), "", KeyArrival::First);
    assert_eq!(rows.exchanges.len(), 2);
    for row in &rows.exchanges {
        assert_eq!(
            (row.stream, row.protocol, row.status),
            (1, Protocol::H2c, Some(200))
        );
        let request = row.request_extent.expect("all of the request");
        assert_eq!((request.start, request.end), (0, ask.len() as u64));
        let response = row.response_extent.expect("all of the response");
        let (start, end) = (switch.len() as u64 + 9, both.len() as u64);
        assert_eq!((response.start, response.end), (start, end));
        assert_eq!(row.response_body_bytes, 2);
    }
    // SETTINGS of both, HEADERS and DATA, at both ends.
    assert_eq!(rows.frames.len(), 8);
    assert!(
        connections
            .iter()
            .all(|connection| connection.opaque.is_none())
    );
}

#[test]
fn connection_joined_midway_is_read_from_the_next_request() {
    // The end of a response whose beginning was not captured, then two exchanges.
    let writes = [
        (Direction::Down, &b"the end of something"[..]),
        (Direction::Up, REQUEST),
        (Direction::Down, RESPONSE),
        (Direction::Up, REQUEST),
        (Direction::Down, RESPONSE),
    ];
    let (rows, connections) = observe(&packets(&writes, false), "", KeyArrival::First);
    for side in Side::ALL {
        let found: Vec<_> = rows
            .exchanges
            .iter()
            .filter(|row| row.side == side)
            .collect();
        assert_eq!(found.len(), 2, "{side:?}");
        assert!(
            found
                .iter()
                .all(|row| row.status == Some(200) && row.response_body_bytes == 2)
        );
        // On the wire, nothing precedes the first request; 20 unread bytes precede the first response.
        assert_eq!(
            found[0].request_extent.and_then(|extent| extent.wire_start),
            Some(0)
        );
        assert_eq!(
            found[0]
                .response_extent
                .and_then(|extent| extent.wire_start),
            Some(20)
        );
    }
    for connection in connections {
        assert!(connection.began_before && connection.opaque.is_none());
        assert_eq!(connection.client.port(), 40_000);
    }
}

#[test]
fn connection_joined_midway_without_a_request_stays_opaque() {
    let writes = [
        (Direction::Up, &b"\0\0\x04\0\0\0\0\0\x01abcd"[..]),
        (Direction::Down, RESPONSE),
    ];
    let (rows, connections) = observe(&packets(&writes, false), "", KeyArrival::First);
    assert!(rows.exchanges.is_empty() && rows.frames.is_empty());
    for connection in connections {
        assert_eq!(connection.opaque, Some(OpaqueReason::BeganBefore));
        assert_eq!(connection.from_server.bytes, RESPONSE.len() as u64);
    }
}

/// A client's preface and SETTINGS, and a request on stream 1.
fn http2_request() -> Vec<u8> {
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    [preface, &headers(&[])].concat()
}

const HTTP2_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// `:status: 200` on stream 1, which ends it.
const HTTP2_RESPONSE: &[u8] = b"\0\0\x01\x01\x05\0\0\0\x01\x88";

#[test]
fn http2_without_its_syn_is_read_from_the_preface_whichever_side_is_seen_first() {
    let request = http2_request();
    let (up, down) = (Direction::Up, Direction::Down);
    let answer = [HTTP2_SETTINGS, HTTP2_RESPONSE].concat();
    let client_first = vec![(up, &b""[..]), (up, &request[..]), (down, &answer[..])];
    let server_first = vec![
        (down, &b""[..]),
        (up, &b""[..]),
        (down, HTTP2_SETTINGS),
        (up, &request[..]),
        (down, HTTP2_RESPONSE),
    ];
    // The preface arrives in two segments.
    let split = vec![
        (up, &request[..10]),
        (down, HTTP2_SETTINGS),
        (up, &request[10..]),
        (down, HTTP2_RESPONSE),
    ];
    // The client has the lower port.
    let turned = vec![(down, &request[..]), (up, &answer[..])];
    for (writes, port) in [
        (client_first, 40_000),
        (server_first, 40_000),
        (split, 40_000),
        (turned, 80),
    ] {
        let (rows, connections) = observe(&packets(&writes, false), "", KeyArrival::First);
        assert_eq!(rows.exchanges.len(), 2, "{writes:?}");
        for row in &rows.exchanges {
            assert_eq!((row.protocol, row.status), (Protocol::H2c, Some(200)));
            assert!(row.request_extent.is_some() && row.response_extent.is_some());
        }
        // SETTINGS and HEADERS of both, at both ends.
        assert_eq!(rows.frames.len(), 8, "{writes:?}");
        for connection in connections {
            assert!(connection.began_before);
            assert_eq!((connection.opaque, connection.client.port()), (None, port));
            assert_eq!((connection.exchanges, connection.frames), (1, 4));
        }
    }
}

#[test]
fn http2_whose_server_began_before_the_capture_has_no_made_up_frames() {
    let request = http2_request();
    let writes = [
        (Direction::Up, &request[..]),
        (Direction::Down, &b"the middle of a frame"[..]),
    ];
    let (rows, connections) = observe(&packets(&writes, false), "", KeyArrival::First);
    assert!(rows.exchanges.iter().all(|row| row.status.is_none()));
    for connection in connections {
        assert_eq!(connection.opaque, Some(OpaqueReason::Gap));
    }
}

/// The parts of exchanges that do not depend on time.
fn without_times(rows: &[ExchangeRecord]) -> Vec<String> {
    let text = |row: &ExchangeRecord| {
        let extents = (row.request_extent, row.response_extent);
        format!("{:?} {} {:?} {extents:?}", row.side, row.stream, row.status)
    };
    let mut texts: Vec<String> = rows.iter().map(text).collect();
    texts.sort();
    texts
}

#[test]
fn every_protocol_is_read_alike_with_and_without_its_handshake() {
    for protocol in [Protocol::H1, Protocol::H1s, Protocol::H2c, Protocol::H2] {
        let (writes, key_log) = conversation(protocol, &[(10, 2_000), (3_000, 0)]);
        let mut seen = vec![(Direction::Down, &b""[..]), (Direction::Up, &b""[..])];
        seen.extend(writes.iter().map(|it| (it.direction, &it.bytes[..])));
        let whole = packets(&seen, true);
        let without_syn = &whole[1..];
        let joined = &whole[2..];
        let (expected, _) = observe(&whole, &key_log, KeyArrival::First);
        assert_eq!(expected.exchanges.len(), 4, "{protocol:?}");
        for packets in [without_syn, joined] {
            let (rows, connections) = observe(packets, &key_log, KeyArrival::First);
            assert_eq!(
                without_times(&rows.exchanges),
                without_times(&expected.exchanges),
                "{protocol:?}"
            );
            assert_eq!(rows.frames.len(), expected.frames.len(), "{protocol:?}");
            for connection in connections {
                assert_eq!(connection.opaque, None, "{protocol:?}");
                assert_eq!(connection.protocol, Some(protocol));
                assert_eq!(connection.client.port(), 40_000);
            }
        }
    }
}

#[test]
fn non_http_traffic_has_no_exchanges() {
    let (up, down) = (Direction::Up, Direction::Down);
    for writes in [
        [(up, &b"get key1\r\n"[..]), (down, &b"END\r\n"[..])],
        [
            (up, &b"NICK a\r\nUSER a 0 * :b\r\n"[..]),
            (down, &b":s 001 a\r\n"[..]),
        ],
        [(down, &b"SSH-2.0-a\r\n"[..]), (up, &b"SSH-2.0-b\r\n"[..])],
        [
            (up, &b"OPTIONS rtsp://a/ RTSP/1.0\r\n\r\n"[..]),
            (down, &b"RTSP/1.0 200 OK\r\n\r\n"[..]),
        ],
        [(up, &b"ZBXD\x01\0\0"[..]), (down, &b"ZBXD\x01"[..])],
    ] {
        let (rows, connections) = observe(&packets(&writes, true), "", KeyArrival::First);
        assert!(rows.exchanges.is_empty(), "{writes:?}");
        for connection in connections {
            assert_eq!(connection.opaque, Some(OpaqueReason::NotHttp));
            assert_eq!((connection.protocol, connection.exchanges), (None, 0));
        }
    }
}

#[test]
fn incomplete_request_line_is_not_an_exchange() {
    let writes = [
        (Direction::Up, &b"hello"[..]),
        (Direction::Down, &b"ok"[..]),
    ];
    let (rows, connections) = observe(&packets(&writes, true), "", KeyArrival::First);
    assert!(rows.exchanges.is_empty());
    for connection in connections {
        let opaque = connection.opaque.expect("it was not read");
        assert_eq!(
            opaque.to_string(),
            "the client sent no complete request line"
        );
    }
}

#[test]
fn exchanges_before_a_protocol_error_are_kept() {
    let mangled: &[u8] = b"GET / HTTP/1.1\r\nhost a\r\n\r\n";
    for (fault, exchanges) in [(&b"get key1\r\n"[..], 1), (mangled, 2)] {
        let writes = [
            (Direction::Up, REQUEST),
            (Direction::Down, RESPONSE),
            (Direction::Up, fault),
        ];
        let (rows, connections) = observe(&packets(&writes, true), "", KeyArrival::First);
        for side in Side::ALL {
            let found = rows.exchanges.iter().filter(|row| row.side == side);
            assert_eq!(found.count(), exchanges, "{fault:?}");
        }
        for connection in connections {
            assert!(matches!(connection.opaque, Some(OpaqueReason::Unclear(_))));
        }
    }
}

#[test]
fn truncated_packets_are_not_reported_as_missing() {
    let response = [RESPONSE, &[b'x'; 500]].concat();
    let response = String::from_utf8(response).expect("text");
    let response = response.replace("length: 2", "length: 502");
    let writes = [
        (Direction::Up, REQUEST),
        (Direction::Down, response.as_bytes()),
        (Direction::Up, &b""[..]),
    ];
    let whole = packets(&writes, true);
    let (_, connections) = observe(&whole, "", KeyArrival::First);
    assert!(connections.iter().all(|it| it.opaque.is_none()));
    let mut cut = whole.clone();
    cut[3].bytes.truncate(100);
    let (_, connections) = observe(&cut, "", KeyArrival::First);
    let mut lacking = whole;
    lacking.remove(3);
    let (_, without) = observe(&lacking, "", KeyArrival::First);
    assert!(!connections.is_empty() && !without.is_empty());
    for connection in connections {
        assert_eq!(connection.opaque, Some(OpaqueReason::Snaplen));
        assert!(connection.from_server.cut_bytes > 0);
    }
    for connection in without {
        assert_eq!(connection.opaque, Some(OpaqueReason::Gap));
    }
}

#[test]
fn connection_is_found_by_its_addresses_from_its_first_packet_until_after_its_end() {
    let writes = [(Direction::Up, REQUEST), (Direction::Down, RESPONSE)];
    let mut all = packets(&writes, true);
    let reset = ENDS.packet(Direction::Up, REQUEST.len() as u64, &[], 0, RST);
    let first = flow_endpoints(&all[0].bytes).expect("a packet of TCP");
    assert!(first.is_syn && first.transport == Transport::Tcp);
    let answer = flow_endpoints(&all[1].bytes).expect("a packet of TCP");
    assert!(!answer.is_syn, "a SYN that acknowledges another");
    assert_eq!(
        (answer.source, answer.destination),
        (first.destination, first.source)
    );
    let last = all.last().expect("there are packets").time_in + 10;
    all.push(LinkPacket {
        direction: Direction::Up,
        time_in: last,
        release: Some(last),
        bytes: reset,
        range: 0..0,
    });
    let mut observer = Observer::new(Checksums::Ignored, Secrets::Complete);
    let mut rows = Observations::default();
    assert_eq!(observer.connection(first.source, first.destination), None);
    for sent in &all {
        let packet = ObservedPacket {
            time_in: Time::from_nanos(sent.time_in),
            release: sent.release.map(Time::from_nanos),
            direction: sent.direction,
            bytes: &sent.bytes,
        };
        observer.observe(&packet, &mut rows);
        assert_eq!(
            observer.connection(first.destination, first.source),
            Some(0)
        );
    }
    assert!(!rows.connections.is_empty(), "it was reset");
    assert!(rows.exchanges.iter().all(|row| row.connection == 0));
}

/// An HTTP/2 header section with these fields, in a HEADERS frame that ends stream 1 (RFC 7541, section 6.2.2).
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84];
    for (name, value) in fields {
        for text in [name, value] {
            if text == name {
                block.push(0);
            }
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut frame = vec![0, 0, block.len() as u8, 1, 0x5, 0, 0, 0, 1];
    frame.extend(block);
    frame
}

#[test]
fn traceparent_names_the_request_of_an_exchange() {
    let value = traceparent(0x2a);
    let http1 = format!("GET / HTTP/1.1\r\nhost: a\r\nTraceparent: {value}\r\n\r\n");
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let answer: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88";
    let name = "traceparent";
    let http2 = |fields: &[(&str, &str)]| [preface, &headers(fields)].concat();
    let other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (request, response, expected) in [
        (http1.into_bytes(), RESPONSE, Some(0x2a)),
        (REQUEST.to_vec(), RESPONSE, None),
        (http2(&[(name, &value)]), answer, Some(0x2a)),
        (http2(&[(name, &value), (name, &value)]), answer, None),
        (http2(&[(name, other)]), answer, None),
        (http2(&[]), answer, None),
    ] {
        let writes = [(Direction::Up, &request[..]), (Direction::Down, response)];
        let (rows, _) = observe(&packets(&writes, true), "", KeyArrival::First);
        assert_eq!(rows.exchanges.len(), 2);
        for row in &rows.exchanges {
            assert_eq!(row.request, expected, "{row:?}");
            let nanos = |time: Option<Time>| time.map(Time::as_nanos);
            let beginning = &row.beginning;
            let began = (nanos(beginning.opened), nanos(beginning.connected));
            match row.side {
                // The SYN, and the SYN-ACK.
                Side::Client => assert_eq!(began, (Some(10), Some(21))),
                Side::Server => assert_eq!(began, (None, None)),
            }
        }
    }
}

/// A ClientHello with the keys of ML-KEM is longer than a packet, and some clients send even short ones in several.
#[test]
fn client_hello_in_several_packets_is_read_as_one() {
    let (writes, key_log) = conversation(Protocol::H2, &[(100, 100)]);
    let (hello, rest) = writes.split_first().expect("a ClientHello");
    let length = hello.bytes.len();
    assert!(length > 1_460, "{length}");
    for (ends, with_syn) in [
        (&[1_400][..], true),
        (&[1_400], false),
        (&[1], true),
        (&[4, 5, 9, 600], true),
    ] {
        let mut start = 0;
        let mut pieces: Vec<(Direction, &[u8])> = Vec::new();
        for end in ends.iter().copied().chain([length]) {
            pieces.push((Direction::Up, &hello.bytes[start..end]));
            start = end;
        }
        let complete_at = 10 * (pieces.len() as u64 + 2 * u64::from(with_syn));
        pieces.extend(rest.iter().map(|it| (it.direction, &it.bytes[..])));
        let packets = packets(&pieces, with_syn);
        let (rows, connections) = observe(&packets, &key_log, KeyArrival::First);
        assert_eq!(connections.len(), 2, "{ends:?}");
        for connection in &connections {
            let facts = connection.tls.as_ref().expect("it is TLS");
            assert_eq!(facts.server_name.as_deref(), Some("server"), "{ends:?}");
            let complete = facts.client_hello.expect("it is complete").as_nanos();
            assert!(
                (complete_at..=complete_at + 1).contains(&complete),
                "{ends:?}: {complete}"
            );
            assert_eq!(connection.opaque, None, "{ends:?}");
        }
        let statuses = rows.exchanges.iter().map(|row| row.status);
        assert_eq!(statuses.collect::<Vec<_>>(), [Some(200); 2], "{ends:?}");
    }
}
