//! The server's limit of concurrent streams, and ours until the server has announced one.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::{Http2Settings, Protocol};
use squall_http::frames::{FrameKind, FrameWalker};
use squall_http::h2::{Client, Server};
use squall_http::{ClientEvent, Engine, Inbox, SubmitError};

use crate::common::{Answers, Pair, request, whole_client_story};

fn limited_to(streams: u32) -> Http2Settings {
    Http2Settings {
        max_concurrent_streams: streams,
        ..Http2Settings::default()
    }
}

/// Lets the socket take all output of the client, and returns the number of HEADERS frames.
fn take_headers(client: &mut Client, walker: &mut FrameWalker) -> usize {
    let mut headers = 0;
    while !client.output().is_empty() {
        let output = client.output().to_vec();
        walker.walk(&output, |frame| {
            headers += usize::from(frame.kind == FrameKind::HEADERS);
        });
        client.advance_output(output.len(), &mut Inbox::default());
    }
    headers
}

#[test]
fn our_own_limit_holds_until_settings_arrive() {
    let settings = limited_to(3);
    let mut client = Client::new(&settings).unwrap();
    let mut walker = FrameWalker::of_client(0);
    let request = request("GET", 0);
    for _ in 0..3 {
        client.submit(&request).unwrap();
        assert_eq!(take_headers(&mut client, &mut walker), 1);
    }
    assert!(!client.is_ready() && client.is_open());
    assert_eq!(client.submit(&request), Err(SubmitError::NotReady));

    let mut server = Server::new(&limited_to(5)).unwrap();
    client
        .receive(server.output(), &mut Inbox::default())
        .unwrap();
    for _ in 3..5 {
        client.submit(&request).unwrap();
        assert_eq!(take_headers(&mut client, &mut walker), 1);
    }
    assert!(!client.is_ready());
    assert_eq!(client.in_flight(), 5);
}

#[test]
fn gathered_requests_share_the_next_output() {
    let mut client = Client::new(&limited_to(3)).unwrap();
    let (get, post) = (request("GET", 0), request("POST", 100));
    client.submit(&post).unwrap();
    assert!(client.gather());
    client.submit(&get).unwrap();
    assert!(client.gather());
    client.submit(&post).unwrap();
    assert!(!client.gather(), "the limit of streams holds for them too");
    assert_eq!(client.submit(&get), Err(SubmitError::NotReady));

    // Complete requests, one after another, in one piece.
    let output = client.output().to_vec();
    let (mut walker, mut kinds) = (FrameWalker::of_client(0), Vec::new());
    walker.walk(&output, |frame| kinds.push((frame.kind, frame.stream)));
    kinds.retain(|(_, stream)| *stream != 0);
    let (headers, data) = (FrameKind::HEADERS, FrameKind::DATA);
    assert_eq!(
        kinds,
        [
            (headers, 1),
            (data, 1),
            (headers, 3),
            (headers, 5),
            (data, 5)
        ]
    );

    // Output that was offered to the socket takes no more requests.
    assert!(!client.gather() && !client.is_ready());
}

#[test]
fn streams_are_unlimited_if_the_server_announces_no_limit() {
    let mut client = Client::new(&limited_to(1)).unwrap();
    let mut walker = FrameWalker::of_client(0);
    // An empty SETTINGS frame.
    client
        .receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut Inbox::default())
        .unwrap();
    let request = request("GET", 0);
    for n in 1..=1000 {
        client.submit(&request).unwrap();
        take_headers(&mut client, &mut walker);
        assert_eq!(client.in_flight(), n);
    }
}

#[test]
fn a_response_frees_its_stream_slot() {
    let mut pair = Pair::with(Protocol::H2c, &limited_to(2));
    pair.answers = Answers::Never;
    let request = request("POST", 10);
    let streams = [pair.submit(&request), pair.submit(&request)];
    pair.settle();
    assert!(!pair.client.is_ready());
    pair.respond(streams[1], &pair.response.clone());
    pair.settle();
    assert!(pair.client.is_ready());
    assert_eq!(pair.client.in_flight(), 1);
    let third = pair.submit(&request);
    for stream in [streams[0], third] {
        pair.settle();
        pair.respond(stream, &pair.response.clone());
    }
    pair.settle();
    assert_eq!(
        pair.client_story(third),
        whole_client_story(third, 200, 1000)
    );
    let ends = pair
        .client_inbox
        .events
        .iter()
        .filter(|e| matches!(e, ClientEvent::ResponseEnd { .. }));
    assert_eq!(ends.count(), 3);
}

#[test]
fn head_and_body_of_a_request_stay_together() {
    let mut client = Client::new(&limited_to(100)).unwrap();
    let mut kinds = Vec::new();
    let mut walker = FrameWalker::of_client(0);
    for _ in 0..3 {
        client.submit(&request("POST", 100)).unwrap();
        let output = client.output().to_vec();
        walker.walk(&output, |frame| kinds.push((frame.kind, frame.stream)));
        client.advance_output(output.len(), &mut Inbox::default());
    }
    let of_requests: Vec<_> = kinds
        .into_iter()
        .filter(|(_, stream)| *stream != 0)
        .collect();
    let expected: Vec<_> = [1, 3, 5]
        .iter()
        .flat_map(|id| [(FrameKind::HEADERS, *id), (FrameKind::DATA, *id)])
        .collect();
    assert_eq!(of_requests, expected);
}
