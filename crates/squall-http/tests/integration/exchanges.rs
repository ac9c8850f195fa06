//! Exchanges between our client and our server over both protocols, through pipes of any width.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use squall_base::plan::Protocol;
use squall_http::{ClientEvent, ServerEvent, StreamId, SubmitError};

use crate::common::{
    Answers, NOW, PROTOCOLS, Pair, request, response, whole_client_story, whole_server_story,
    windows,
};

#[test]
fn an_exchange_reports_all_its_events() {
    for protocol in PROTOCOLS {
        for (method, body) in [("GET", 0), ("POST", 1000), ("POST", 0)] {
            let mut pair = Pair::new(protocol);
            let stream = pair.submit(&request(method, body));
            assert_eq!(pair.client.in_flight(), 1);
            pair.settle();
            assert_eq!(
                pair.client_story(stream),
                whole_client_story(stream, 200, 1000)
            );
            assert_eq!(
                pair.server_story(stream),
                whole_server_story(stream, method, body as u64)
            );
            assert_eq!(pair.client.in_flight(), 0);
            assert!(pair.client.is_ready() && pair.server.is_open());
        }
    }
}

#[test]
fn a_connection_serves_one_exchange_after_another() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        let request = request("POST", 100);
        let streams: Vec<_> = (0..50)
            .map(|_| {
                let stream = pair.submit(&request);
                pair.settle();
                stream
            })
            .collect();
        let ids: Vec<_> = streams.iter().map(|stream| stream.0).collect();
        let expected: Vec<_> = match protocol {
            Protocol::H1 => (0..50).collect(),
            _ => (0..50).map(|n| 2 * n + 1).collect(),
        };
        assert_eq!(ids, expected);
        for stream in streams {
            assert_eq!(
                pair.client_story(stream),
                whole_client_story(stream, 200, 1000)
            );
        }
    }
}

#[test]
fn responses_to_head_and_without_content_have_no_body() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        for (method, status, size) in [("HEAD", 200, 5000), ("GET", 204, 0), ("GET", 304, 0)] {
            pair.response = response(status, size);
            let stream = pair.submit(&request(method, 0));
            pair.settle();
            assert_eq!(
                pair.client_story(stream),
                whole_client_story(stream, status, 0)
            );
            assert_eq!(
                pair.server_story(stream),
                whole_server_story(stream, method, 0)
            );
        }
    }
}

#[test]
fn the_first_request_is_sent_together_with_the_preface() {
    let mut pair = Pair::new(Protocol::H2c);
    assert!(pair.client.is_ready());
    pair.submit(&request("POST", 100));
    let output = pair.client.output(NOW).to_vec();
    assert!(output.starts_with(squall_http::frames::CLIENT_PREFACE));
    let len = output.len();
    pair.client.advance_output(len, &mut pair.client_inbox);
    let (stream, end) = (StreamId(1), len as u64);
    let [ClientEvent::RequestFirstByteWritten { offset, .. }, written] =
        &pair.client_inbox.events[..]
    else {
        panic!("{:?}", pair.client_inbox.events);
    };
    assert_eq!(*written, ClientEvent::RequestWritten { stream, end });
    // The frame header of HEADERS on stream 1.
    assert_eq!(output[*offset as usize + 3], 1);
    assert_eq!(output[*offset as usize + 5..][..4], [0, 0, 0, 1]);
}

#[test]
fn the_marks_of_a_request_are_exact() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        pair.settle();
        pair.client_inbox.clear();
        pair.submit(&request("POST", 500));
        let len = pair.client.output(NOW).len();
        for taken in 1..=len {
            pair.client.advance_output(1, &mut pair.client_inbox);
            let expected = 1 + usize::from(taken == len);
            assert_eq!(
                pair.client_inbox.events.len(),
                expected,
                "{protocol}, byte {taken} of {len}"
            );
        }
        assert!(pair.client.output(NOW).is_empty());
    }
}

#[test]
fn no_request_is_taken_while_output_is_waiting() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        pair.settle();
        let request = request("POST", 100);
        pair.submit(&request);
        assert!(!pair.client.is_ready());
        assert_eq!(
            pair.client.streams().submit(&request),
            Err(SubmitError::NotReady)
        );
        let len = pair.client.output(NOW).len();
        pair.client.advance_output(len - 1, &mut pair.client_inbox);
        assert!(!pair.client.is_ready());
        assert!(pair.client.is_open());
    }
}

#[test]
fn large_bodies_pass_through_bounded_buffers() {
    const BODY_BYTES: usize = 20_000_000;
    for protocol in PROTOCOLS {
        let mut pair = Pair::with(protocol, &windows(1 << 20, 1 << 24));
        pair.response = response(200, BODY_BYTES);
        let request = request("POST", BODY_BYTES);
        let stream = pair.submit(&request);
        loop {
            if pair.client.protocol() == Some(Protocol::H2c) {
                assert!(pair.client.output(NOW).len() <= 64 * 1024);
            }
            if pair.up() + pair.down() == 0 {
                break;
            }
        }
        let size = BODY_BYTES as u64;
        assert_eq!(
            pair.client_story(stream),
            whole_client_story(stream, 200, size)
        );
        assert_eq!(
            pair.server_story(stream),
            whole_server_story(stream, "POST", size)
        );
    }
}

#[test]
fn an_early_response_does_not_stop_the_request() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        pair.answers = Answers::Early;
        pair.steps = vec![3000];
        let stream = pair.submit(&request("POST", 200_000));
        pair.settle();
        let at = |is: fn(&ClientEvent) -> bool| pair.client_inbox.events.iter().position(is);
        let end = at(|event| matches!(event, ClientEvent::ResponseEnd { .. }));
        let written = at(|event| matches!(event, ClientEvent::RequestWritten { .. }));
        assert!(end.is_some() && end < written, "{protocol} was not early");
        let received = pair
            .server_story(stream)
            .into_iter()
            .map(|event| match event {
                ServerEvent::RequestBody { len, .. } => len,
                _ => 0,
            });
        assert_eq!(received.sum::<u64>(), 200_000);
        assert!(pair.client.is_ready(), "{protocol}");
        let next = pair.submit(&request("GET", 0));
        pair.settle();
        assert_eq!(pair.client_story(next), whole_client_story(next, 200, 1000));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_exchanges_complete_through_any_pipe(
        is_h2: bool,
        bodies in proptest::collection::vec((0usize..50_000, 0usize..50_000), 1..6),
        steps in proptest::collection::vec(1usize..5000, 1..8),
        stream_window in 1u64..100_000,
        connection_window in 60_000u64..200_000,
    ) {
        let protocol = if is_h2 { Protocol::H2c } else { Protocol::H1 };
        let mut pair = Pair::with(protocol, &windows(stream_window, connection_window));
        pair.steps = steps;
        for (upload, download) in bodies {
            pair.response = response(200, download);
            let stream = pair.submit(&request("POST", upload));
            pair.settle();
            prop_assert_eq!(
                pair.client_story(stream),
                whole_client_story(stream, 200, download as u64)
            );
            prop_assert_eq!(
                pair.server_story(stream),
                whole_server_story(stream, "POST", upload as u64)
            );
        }
        prop_assert_eq!(pair.client.in_flight(), 0);
    }
}
