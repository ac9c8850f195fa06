//! HTTP/2 windows: a body stops when one is used up, and continues when it is updated.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::Protocol;
use squall_http::{ClientEvent, ServerEvent, StreamId};

use crate::common::{Answers, Pair, request, response, whole_client_story, windows};

fn received_by_server(pair: &Pair, of: StreamId) -> u64 {
    let len = |event: &ServerEvent| match event {
        ServerEvent::RequestBody { stream, len } if *stream == of => *len,
        _ => 0,
    };
    pair.server_inbox.events.iter().map(len).sum()
}

/// Moves bytes only to the server, so that no window updates come back.
fn one_way(pair: &mut Pair) {
    while pair.up() > 0 {}
}

#[test]
fn a_stream_window_blocks_its_own_stream_only() {
    let mut pair = Pair::with(Protocol::H2c, &windows(10_000, 1 << 20));
    pair.answers = Answers::Never;
    pair.settle();
    let blocked = pair.submit(&request("POST", 50_000));
    one_way(&mut pair);
    assert_eq!(received_by_server(&pair, blocked), 10_000);
    assert!(!pair.has_written(blocked));

    // Only this stream is blocked, so the connection is ready for others.
    assert!(pair.client.is_ready());
    let other = pair.submit(&request("POST", 5_000));
    one_way(&mut pair);
    assert_eq!(received_by_server(&pair, other), 5_000);
    assert!(pair.has_written(other));

    pair.settle();
    assert_eq!(received_by_server(&pair, blocked), 50_000);
    assert!(pair.has_written(blocked));
}

#[test]
fn the_connection_window_blocks_every_body() {
    let mut pair = Pair::with(Protocol::H2c, &windows(1 << 20, 65_535));
    pair.answers = Answers::Never;
    pair.settle();
    let first = pair.submit(&request("POST", 60_000));
    one_way(&mut pair);
    let second = pair.submit(&request("POST", 60_000));
    one_way(&mut pair);
    let sum = received_by_server(&pair, first) + received_by_server(&pair, second);
    assert_eq!(sum, 65_535);
    pair.settle();
    assert_eq!(received_by_server(&pair, first), 60_000);
    assert_eq!(received_by_server(&pair, second), 60_000);
}

#[test]
fn a_larger_connection_window_applies_from_the_start() {
    let mut pair = Pair::with(Protocol::H2c, &windows(1 << 24, 1 << 24));
    pair.response = response(200, 3_000_000);
    pair.answers = Answers::Never;
    let stream = pair.submit(&request("GET", 0));
    pair.settle();
    pair.respond(stream, &pair.response.clone());
    // Only the server sends, so every byte must fit the windows it was given at the start.
    while pair.down() > 0 {}
    assert_eq!(
        pair.client_story(stream),
        whole_client_story(stream, 200, 3_000_000)
    );
}

#[test]
fn a_request_with_a_blocked_body_can_be_answered_early() {
    let mut pair = Pair::with(Protocol::H2c, &windows(1_000, 65_535));
    pair.answers = Answers::Early;
    pair.response = response(200, 500);
    pair.settle();
    let stream = pair.submit(&request("POST", 100_000));
    one_way(&mut pair);
    while pair.down() > 0 {}
    assert_eq!(pair.client.in_flight(), 0, "answered");
    pair.settle();
    let last = pair.client_inbox.events.last();
    assert!(
        matches!(last, Some(ClientEvent::RequestWritten { .. })),
        "{stream:?}"
    );
    assert!(pair.client.is_ready());
}
