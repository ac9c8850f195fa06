//! Hostile HTTP/2 peers: each either gets an error or is served normally, in bounded memory, and nothing panics.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::{Http2Settings, WindowUpdates};
use squall_http::frames::CLIENT_PREFACE;
use squall_http::h2::{Client, Server};
use squall_http::{ClientEvent, ConnectionError, Engine, Inbox, ServerEvent, StreamId};
use squall_nghttp2::Error;

use crate::common::h2::{POST, client_opening, frame};
use crate::common::{request, response};

/// Upper bound on buffered output: the limit of `output`, and the same again for a GOAWAY.
const MAX_OUTPUT_BYTES: usize = 128 * 1024;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const FLOW_CONTROL_ERROR: u32 = 0x3;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Whether the peer reads what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Reads,
    IsDeaf,
}

fn head(stream: u32) -> Vec<u8> {
    frame(1, END_HEADERS, stream, POST)
}

/// The attacked server, its events, and the result.
type Attacked = (Server, Vec<ServerEvent>, Result<(), ConnectionError>);

fn attack_server(peer: Peer, attack: impl Fn(u32) -> Vec<u8>) -> Attacked {
    attack_server_with(&Http2Settings::default(), peer, attack)
}

/// Attacks a server that answers every request immediately. `attack` returns the bytes for each number from 0 up, until
/// 20 MB have been sent.
fn attack_server_with(
    settings: &Http2Settings,
    peer: Peer,
    attack: impl Fn(u32) -> Vec<u8>,
) -> Attacked {
    let mut server = Server::new(settings).unwrap();
    let (mut inbox, mut events) = (Inbox::default(), Vec::new());
    let answer = response(200, 100);
    let mut result = server.receive(&client_opening(), &mut inbox);
    let (mut n, mut sum) = (0, 0);
    while result.is_ok() && sum < 20_000_000 && n < 300_000 {
        let mut piece = Vec::new();
        while piece.len() < 16_000 && n < 300_000 {
            piece.extend(attack(n));
            n += 1;
        }
        sum += piece.len();
        result = server.receive(&piece, &mut inbox);
        for event in &inbox.events {
            if let ServerEvent::RequestEnd { stream, .. } = event {
                let _ = server.respond(*stream, &answer);
            }
        }
        assert!(server.output().len() <= MAX_OUTPUT_BYTES);
        if peer == Peer::Reads {
            let len = server.output().len();
            server.advance_output(len, &mut inbox);
        }
        events.append(&mut inbox.events);
    }
    (server, events, result)
}

fn is_flood(result: &Result<(), ConnectionError>) -> bool {
    matches!(
        result,
        Err(ConnectionError::Session(Error::Flooded(_))
            | ConnectionError::Http2 {
                code: ENHANCE_YOUR_CALM,
                ..
            })
    )
}

#[test]
fn an_endless_header_section_is_an_error() {
    for peer in [Peer::Reads, Peer::IsDeaf] {
        let (_, events, result) = attack_server(peer, |n| match n {
            0 => frame(1, 0, 1, POST),
            // A field that is not indexed: "x: y".
            _ => frame(9, 0, 1, &[0, 1, b'x', 1, b'y']),
        });
        assert!(is_flood(&result), "{result:?}");
        assert!(events.len() <= 1);
    }
}

#[test]
fn a_header_section_that_decompresses_to_too_much_is_refused() {
    // "x: yyy..." of 3,000 bytes is inserted into the dynamic table, then referenced 5,000 times by one byte each.
    let mut section = POST.to_vec();
    section.extend([0x40, 1, b'x', 0x7f, 0xb9, 0x16]);
    section.extend([b'y'; 3000]);
    section.extend([0xbe; 5000]);
    let (_, events, result) = attack_server(Peer::Reads, |n| {
        frame(1, END_HEADERS | END_STREAM, 2 * n + 1, &section)
    });
    assert_eq!(result, Ok(()));
    let is_head = |e: &ServerEvent| matches!(e, ServerEvent::RequestHead { .. });
    assert!(!events.iter().any(is_head));
    let reset = ServerEvent::StreamReset {
        stream: StreamId(1),
        code: 2,
    };
    assert!(events.contains(&reset));
}

#[test]
fn tiny_data_frames_are_accepted() {
    let (server, events, result) = attack_server(Peer::Reads, |n| match n {
        0 => head(1),
        _ => frame(0, 0, 1, b"x"),
    });
    assert_eq!(result, Ok(()));
    assert!(server.is_open());
    let bodies = events.iter().map(|event| match event {
        ServerEvent::RequestBody { len, .. } => *len,
        _ => 0,
    });
    assert_eq!(bodies.sum::<u64>(), 299_999);
}

/// Without window updates a peer may send exactly 65,535 bytes, that is six of these frames.
#[test]
fn ignoring_flow_control_is_an_error() {
    let settings = Http2Settings {
        window_updates: WindowUpdates::Never,
        ..Http2Settings::default()
    };
    for peer in [Peer::Reads, Peer::IsDeaf] {
        let (mut server, events, result) = attack_server_with(&settings, peer, |n| match n {
            0 => head(1),
            _ => frame(0, 0, 1, &[0; 10_000]),
        });
        assert!(
            matches!(
                result,
                Err(ConnectionError::Http2 {
                    code: FLOW_CONTROL_ERROR,
                    ..
                })
            ),
            "{peer:?}: {result:?}"
        );
        let bodies = events.iter().map(|event| match event {
            ServerEvent::RequestBody { len, .. } => *len,
            _ => 0,
        });
        let came = bodies.sum::<u64>();
        assert!((60_000..=65_535).contains(&came), "{peer:?}: {came}");
        // A deaf peer has not taken the last output, the GOAWAY.
        let goaway = frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 3]);
        assert!(peer == Peer::Reads || server.output().ends_with(&goaway));
    }
}

#[test]
fn floods_are_errors_if_the_peer_does_not_read() {
    type Attack = fn(u32) -> Vec<u8>;
    let attacks: [(&str, Attack); 5] = [
        ("settings", |_| frame(4, 0, 0, &[])),
        ("ping", |_| frame(6, 0, 0, &[0; 8])),
        ("refused streams", |n| head(2 * n + 1)),
        ("bad priorities", |n| frame(2, 0, 2 * n + 1, &[0; 4])),
        ("priorities", |n| {
            frame(2, 0, 2 * (n % 1000) + 1, &[0, 0, 0, 0, 9])
        }),
    ];
    for (name, attack) in attacks {
        let (_, events, result) = attack_server(Peer::IsDeaf, attack);
        assert!(result.is_err(), "{name}");
        assert!(events.len() < 10_000, "{name}");
    }
}

#[test]
fn rapid_resets_are_an_error() {
    for peer in [Peer::Reads, Peer::IsDeaf] {
        let (_, events, result) = attack_server(peer, |n| {
            let stream = 2 * n + 1;
            [head(stream), frame(3, 0, stream, &[0, 0, 0, 8])].concat()
        });
        // nghttp2 sends INTERNAL_ERROR here, not ENHANCE_YOUR_CALM.
        let code = match result {
            Err(ConnectionError::Http2 { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code, 2);
        // nghttp2 allows a burst of 1,000, then 33 per second; one more piece was read before its GOAWAY.
        assert!(events.len() < 20_000, "{}", events.len());
    }
}

#[test]
fn empty_data_frames_are_an_error() {
    let (_, _, result) = attack_server(Peer::Reads, |n| match n {
        0 => head(1),
        _ => frame(0, 0, 1, &[]),
    });
    assert!(is_flood(&result), "{result:?}");
}

#[test]
fn frames_that_need_no_response_cause_no_output() {
    type Attack = fn(u32) -> Vec<u8>;
    let attacks: [(&str, Attack); 5] = [
        ("window updates", |n| {
            frame(8, 0, 0, &(1 + n % 2).to_be_bytes())
        }),
        ("unknown frames", |n| {
            frame(0x55, 0xff, n & 0x7fff_ffff, &[7; 100])
        }),
        ("alternative services", |_| frame(0xa, 0, 0, &[0; 2])),
        ("goaways", |_| frame(7, 0, 0, &[0; 8])),
        ("acks of pings", |_| frame(6, 1, 0, &[0; 8])),
    ];
    for (name, attack) in attacks {
        for peer in [Peer::Reads, Peer::IsDeaf] {
            let (mut server, _, result) = attack_server(peer, attack);
            assert!(is_flood(&result), "{name}: {result:?}");
            assert!(server.output().len() < 200, "{name}");
        }
    }
}

#[test]
fn a_flood_of_data_frames_that_are_mostly_padding_is_an_error() {
    let (_, _, result) = attack_server(Peer::Reads, |n| match n {
        0 => head(1),
        _ => frame(0, 0x8, 1, &[&[255, b'x'][..], &[0; 255]].concat()),
    });
    assert!(is_flood(&result), "{result:?}");
}

/// A client that downloads sends many window updates with each request.
#[test]
fn window_updates_are_accepted_while_responses_are_sent() {
    let (server, events, result) = attack_server(Peer::Reads, |n| {
        let update = frame(8, 0, 0, &4_u32.to_be_bytes());
        let ask = frame(1, END_HEADERS | END_STREAM, 2 * n + 1, POST);
        [ask, update.repeat(50)].concat()
    });
    assert_eq!(result, Ok(()));
    assert!(server.is_open());
    let is_end = |event: &&ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
    // Far more updates than would be accepted alone.
    assert!(events.iter().filter(is_end).count() > 10_000);
}

#[test]
fn a_client_without_windows_gets_no_body_and_costs_no_memory() {
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::default();
    let no_window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let opening = [&CLIENT_PREFACE[..], &no_window].concat();
    server.receive(&opening, &mut inbox).unwrap();
    let large = response(200, 10_000_000);
    for n in 0..100 {
        let ask = frame(1, END_HEADERS | END_STREAM, 2 * n + 1, POST);
        server.receive(&ask, &mut inbox).unwrap();
        server
            .respond(StreamId(u64::from(2 * n + 1)), &large)
            .unwrap();
        server
            .receive(&frame(6, 0, 0, &[0; 8]), &mut inbox)
            .unwrap();
        let len = server.output().len();
        assert!(len < 300);
        server.advance_output(len, &mut inbox);
    }
    assert!(server.output().is_empty() && server.is_open());
}

/// Attacks a client with 10 requests in flight.
fn attack_client(
    peer: Peer,
    attack: impl Fn(u32) -> Vec<u8>,
) -> (Client, Vec<ClientEvent>, Result<(), ConnectionError>) {
    let mut client = Client::new(&Http2Settings::default()).unwrap();
    let (mut inbox, mut events) = (Inbox::default(), Vec::new());
    for _ in 0..10 {
        client.submit(&request("POST", 1_000_000)).unwrap();
        while !client.output().is_empty() {
            let len = client.output().len();
            client.advance_output(len, &mut inbox);
        }
    }
    let mut result = client.receive(&frame(4, 0, 0, &[]), &mut inbox);
    let (mut n, mut sum) = (0, 0);
    while result.is_ok() && sum < 20_000_000 && n < 300_000 {
        let piece: Vec<u8> = (n..n + 100).flat_map(&attack).collect();
        n += 100;
        sum += piece.len();
        result = client.receive(&piece, &mut inbox);
        assert!(client.output().len() <= MAX_OUTPUT_BYTES);
        if peer == Peer::Reads {
            let len = client.output().len();
            client.advance_output(len, &mut inbox);
        }
        events.append(&mut inbox.events);
    }
    (client, events, result)
}

#[test]
fn hostile_servers_cannot_exhaust_a_client() {
    type Attack = fn(u32) -> Vec<u8>;
    // ":status: 200" and ":status: 100".
    const OK: [u8; 1] = [0x88];
    const CONTINUE: [u8; 5] = [0x08, 3, b'1', b'0', b'0'];
    let attacks: [(&str, Attack); 10] = [
        ("endless head", |n| match n {
            0 => frame(1, 0, 1, &OK),
            _ => frame(9, 0, 1, &[0, 1, b'x', 1, b'y']),
        }),
        ("endless interim responses", |_| {
            frame(1, END_HEADERS, 1, &CONTINUE)
        }),
        ("pushes", |n| {
            frame(5, END_HEADERS, 1, &[0, 0, 0, (2 * n + 2) as u8, 0x82])
        }),
        ("pings to the deaf", |_| frame(6, 0, 0, &[0; 8])),
        ("settings to the deaf", |n| {
            frame(4, 0, 0, &[0, 4, 0, 0, 0, n as u8])
        }),
        ("goaways", |_| frame(7, 0, 0, &[0; 8])),
        ("window updates", |_| frame(8, 0, 1, &[0, 0, 0, 1])),
        ("windows beyond the largest", |_| {
            frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])
        }),
        ("resets of nothing", |n| frame(3, 0, 2 * n + 101, &[0; 4])),
        ("responses to nothing", |n| {
            frame(1, END_HEADERS, 2 * n + 101, &OK)
        }),
    ];
    for (name, attack) in attacks {
        let (client, events, result) = attack_client(Peer::IsDeaf, attack);
        assert!(result.is_err(), "{name}");
        assert!(client.in_flight() <= 10, "{name}");
        assert!(
            name == "goaways" || events.len() < 100,
            "{name}: {}",
            events.len()
        );
    }
}

#[test]
fn windows_moved_by_settings_fail_no_request_before_the_flood_ends_it() {
    let (client, _, result) = attack_client(Peer::Reads, |n| {
        let window = if n % 2 == 0 { 0 } else { 0x7fff_0000u32 };
        frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat())
    });
    // The frames end the connection only because there are too many of them.
    assert!(is_flood(&result), "{result:?}");
    assert_eq!(client.in_flight(), 10);
}
