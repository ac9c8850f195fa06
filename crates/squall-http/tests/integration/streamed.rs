//! Streamed HTTP/2 bodies: other requests do not wait for them, and only a little of them is buffered.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use squall_base::plan::{Http2Settings, WindowUpdates};
use squall_http::{ClientEvent, Engine, ServerEvent, StreamId, StreamIo};

use crate::common::h2::{H2Pair, streamed_request, streamed_response};
use crate::common::{request, response};

const CANCEL: u64 = 8;

fn pair() -> H2Pair {
    let mut pair = H2Pair::new(&Http2Settings::default(), &Http2Settings::default());
    pair.settle();
    pair
}

fn is_request_end(event: &ServerEvent) -> bool {
    matches!(event, ServerEvent::RequestEnd { .. })
}

#[test]
fn a_streamed_request_arrives_piece_by_piece() {
    let mut pair = pair();
    let stream = pair.submit(&streamed_request(Some(9)));
    pair.settle();
    for piece in [&b"one"[..], b"", b"twelve"] {
        assert_eq!(pair.client.send_body(stream, piece), piece.len());
        pair.settle();
    }
    assert_eq!(pair.server_inbox.bodies, b"onetwelve");
    assert!(!pair.server_inbox.events.iter().any(is_request_end));
    pair.client.end_body(stream);
    pair.settle();
    let ServerEvent::RequestEnd { end, .. } = pair.server_inbox.events.last().unwrap() else {
        panic!("{:?}", pair.server_inbox.events);
    };
    assert_eq!(*end, pair.up.len() as u64);
    let written = pair.client_inbox.events.last();
    let expected = ClientEvent::RequestWritten { stream, end: *end };
    assert_eq!(written, Some(&expected));
}

#[test]
fn an_unfinished_streamed_body_does_not_delay_others() {
    let mut pair = pair();
    let slow = pair.submit(&streamed_request(None));
    assert!(!pair.client.is_ready(), "its head waits for the socket");
    while pair.up() > 0 {}
    assert!(pair.client.is_ready());
    pair.client.send_body(slow, b"some");
    let other = pair.submit(&request("POST", 30_000));
    while pair.up() > 0 {}
    assert!(pair.client.is_ready());
    let ended = pair
        .server_inbox
        .events
        .iter()
        .filter(|e| is_request_end(e));
    assert_eq!(ended.count(), 1);
    assert_eq!((slow, other), (StreamId(1), StreamId(3)));
}

#[test]
fn only_as_much_of_a_body_is_taken_as_the_windows_allow() {
    let mut pair = pair();
    let stream = pair.submit(&streamed_request(None));
    let much = vec![7; 1 << 20];
    let (mut given, mut taken) = (0, 0);
    // The server's output is not read, so its windows end the upload.
    for _ in 0..100 {
        assert_eq!(pair.client.body_room(stream).min(much.len()), {
            taken = pair.client.send_body(stream, &much);
            taken
        });
        given += taken;
        while pair.up() > 0 {}
    }
    assert_eq!((taken, pair.client.body_room(stream)), (0, 0));
    assert_eq!(given, 65_535);
    pair.settle();
    assert_eq!(pair.server_inbox.bodies.len(), given);
}

/// A client that opens no window makes the server buffer nothing, however many responses it asks for.
#[test]
fn streams_without_window_hold_no_bytes() {
    let closed = Http2Settings {
        stream_window: squall_base::Bytes::new(1),
        window_updates: WindowUpdates::Never,
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&closed, &Http2Settings::default());
    pair.settle();
    let streams: Vec<StreamId> = (0..50).map(|_| pair.submit(&request("GET", 0))).collect();
    pair.settle();
    for stream in &streams {
        let response = streamed_response(None);
        pair.respond(*stream, &response);
        let taken = pair.server.send_body(*stream, &[7; 100_000]);
        assert_eq!((taken, pair.server.body_waiting(*stream)), (1, 1));
    }
    assert_eq!(pair.server.buffered_bytes(), streams.len());
    pair.settle();
    for stream in &streams {
        assert_eq!(pair.server.send_body(*stream, &[7; 100_000]), 0);
    }
    assert_eq!(pair.server.buffered_bytes(), 0);
    assert!(pair.server.is_open(), "the client may still open windows");
    pair.server.receive_end(&mut pair.server_inbox).unwrap();
    assert!(!pair.server.is_open(), "no window will ever open");
}

#[test]
fn a_response_can_be_streamed_too() {
    let mut pair = pair();
    let stream = pair.submit(&request("GET", 0));
    pair.settle();
    pair.respond(stream, &streamed_response(None));
    pair.settle();
    assert!(pair.server.is_open());
    for _ in 0..10 {
        assert_eq!(pair.server.send_body(stream, &[1; 5000]), 5000);
        pair.settle();
    }
    pair.server.end_body(stream);
    pair.settle();
    assert_eq!(pair.client_inbox.bodies.len(), 50_000);
    assert_eq!(pair.client.in_flight(), 0);
    assert_eq!(pair.server.body_room(stream), 0, "it is gone");
}

#[test]
fn messages_with_empty_streamed_bodies_complete() {
    let mut pair = pair();
    let stream = pair.submit(&streamed_request(Some(0)));
    pair.client.end_body(stream);
    pair.settle();
    assert!(pair.server_inbox.events.iter().any(is_request_end));
    pair.respond(stream, &streamed_response(Some(0)));
    pair.server.end_body(stream);
    pair.settle();
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn either_side_can_reset_a_stream() {
    for by_client in [true, false] {
        let mut pair = pair();
        let stream = pair.submit(&streamed_request(None));
        pair.client.send_body(stream, &[0; 1000]);
        pair.settle();
        if by_client {
            pair.client.reset(stream, CANCEL);
            pair.client.reset(StreamId(99), CANCEL);
        } else {
            pair.server.reset(stream, CANCEL);
        }
        pair.settle();
        let (code, events) = (CANCEL, &pair.client_inbox.events);
        assert_eq!(
            events.last(),
            Some(&ClientEvent::StreamReset { stream, code })
        );
        let (code, events) = (CANCEL, &pair.server_inbox.events);
        assert_eq!(
            events.last(),
            Some(&ServerEvent::StreamReset { stream, code })
        );
        assert_eq!(pair.client.send_body(stream, b"x"), 0);
        assert_eq!(
            (pair.client.body_room(stream), pair.client.in_flight()),
            (0, 0)
        );
        assert!(pair.client.is_ready() && pair.server.is_open());
    }
}

#[test]
fn a_reset_before_the_head_was_produced_is_reported_too() {
    let mut pair = pair();
    let stream = pair.submit(&streamed_request(None));
    pair.client.reset(stream, CANCEL);
    pair.settle();
    let resets = |e: &&ClientEvent| matches!(e, ClientEvent::StreamReset { .. });
    assert_eq!(pair.client_inbox.events.iter().filter(resets).count(), 1);
    assert_eq!(pair.client.in_flight(), 0);
    assert!(
        pair.server_inbox.events.is_empty(),
        "nothing of it was sent"
    );
}

#[test]
fn a_streamed_response_to_head_has_no_body() {
    let mut pair = pair();
    let stream = pair.submit(&request("HEAD", 0));
    pair.settle();
    pair.respond(stream, &streamed_response(None));
    pair.settle();
    assert_eq!(
        (pair.client.in_flight(), pair.server.body_room(stream)),
        (0, 0)
    );
    let next = pair.submit(&request("GET", 0));
    pair.settle();
    pair.respond(next, &response(200, 10));
    pair.settle();
    assert_eq!(pair.client_inbox.bodies.len(), 10);
}

fn policies() -> impl Strategy<Value = WindowUpdates> {
    let bytes = || (1u64..40_000).prop_map(squall_base::Bytes::new);
    prop_oneof![
        Just(WindowUpdates::Half),
        bytes().prop_map(WindowUpdates::Every),
        // With smaller grants, windows shrink until no frame can carry more, as has been seen in practice.
        (16_384u64..40_000).prop_map(|n| WindowUpdates::EachData(squall_base::Bytes::new(n))),
        bytes().prop_map(WindowUpdates::Grant),
    ]
}

fn settings() -> impl Strategy<Value = Http2Settings> {
    let bytes = squall_base::Bytes::new;
    (
        40_000u64..100_000,
        40_000u64..200_000,
        policies(),
        16_384u64..70_000,
        1u64..70_000,
    )
        .prop_map(
            move |(stream, connection, window_updates, frame, data)| Http2Settings {
                stream_window: bytes(stream),
                connection_window: bytes(connection),
                window_updates,
                max_frame_size: bytes(frame),
                data_size: bytes(data),
                ..Http2Settings::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Streams with bodies both ways arrive complete, provided and consumed in any portions, with any windows and
    /// policies.
    #[test]
    fn any_streamed_bodies_arrive_complete(
        client in settings(),
        server in settings(),
        lengths in prop::collection::vec((0usize..90_000, 0usize..90_000), 1..4),
        portions in prop::collection::vec(1usize..30_000, 1..6),
        steps in prop::collection::vec(1usize..20_000, 1..6),
        is_manual: bool,
    ) {
        let mut pair = H2Pair::new(&client, &server);
        if is_manual {
            pair.client.set_manual_consumption();
            pair.server.set_manual_consumption();
        }
        pair.steps = steps;
        let mut up: Vec<(StreamId, usize)> = Vec::new();
        for (length, _) in &lengths {
            up.push((pair.submit(&streamed_request(Some(*length as u64))), *length));
        }
        let mut down: Vec<(StreamId, usize)> = Vec::new();
        let data = vec![b'x'; 30_000];
        for round in 0.. {
            prop_assert!(round < 1_000_000, "no progress");
            let portion = portions[round % portions.len()];
            for (stream, left) in &mut up {
                *left -= pair.client.send_body(*stream, &data[..portion.min(*left)]);
                if *left == 0 {
                    pair.client.end_body(*stream);
                }
            }
            for (stream, left) in &mut down {
                *left -= pair.server.send_body(*stream, &data[..portion.min(*left)]);
                if *left == 0 {
                    pair.server.end_body(*stream);
                }
            }
            let moved = pair.up() + pair.down();
            let heard = std::mem::take(&mut pair.server_inbox.events);
            for event in &heard {
                match event {
                    ServerEvent::RequestHead { stream, .. } => {
                        let length = lengths[stream.0 as usize / 2].1;
                        let response = streamed_response(Some(length as u64));
                        pair.respond(*stream, &response);
                        down.push((*stream, length));
                    }
                    ServerEvent::RequestBody { stream, len } => pair.server.consume(*stream, *len),
                    _ => {}
                }
            }
            let answered = std::mem::take(&mut pair.client_inbox.events);
            for event in &answered {
                if let ClientEvent::ResponseBody { stream, len } = event {
                    pair.client.consume(*stream, *len);
                }
                let is_reset = matches!(event, ClientEvent::StreamReset { .. });
                prop_assert!(!is_reset, "{:?}", event);
            }
            let is_idle = moved == 0 && heard.is_empty() && answered.is_empty();
            if is_idle && pair.client.in_flight() == 0 && up.iter().all(|(_, left)| *left == 0) {
                break;
            }
        }
        let sum = |f: fn(&(usize, usize)) -> usize| lengths.iter().map(f).sum::<usize>();
        prop_assert_eq!(pair.server_inbox.bodies.len(), sum(|(up, _)| *up));
        prop_assert_eq!(pair.client_inbox.bodies.len(), sum(|(_, down)| *down));
    }
}
