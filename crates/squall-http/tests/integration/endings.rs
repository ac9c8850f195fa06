//! Abnormal ends of HTTP/2 exchanges and connections: RST_STREAM, GOAWAY, errors, end of stream.
//!
//! The peer is a bare nghttp2 session, or frames written by hand: both can do what our own sides never do.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::Http2Settings;
use squall_http::h2::{Client, Server};
use squall_http::{
    ClientEvent, ConnectionError, Engine, Inbox, RespondError, ServerEvent, StreamId, SubmitError,
};
use squall_nghttp2::{Body, Handler, HeaderBlock, Http2Session, Options, Session};

use crate::common::h2::{DATA, END, HEADERS, POST, RST_STREAM, WHOLE, client_opening, frame};
use crate::common::{
    self, Answers, PROTOCOLS, Pair, request, response, response_headers, take_output,
    without_offsets, without_server_offsets,
};

struct Silent;
impl Handler for Silent {}

const CANCEL: u32 = 8;

/// A client with `requests` in flight, and its server.
fn client_and_peer(requests: usize) -> (Client, Session<Silent>) {
    let mut client = Client::new(&Http2Settings::default()).unwrap();
    let mut peer = Session::server(Silent, &Options::default()).unwrap();
    peer.submit_settings(&[]).unwrap();
    for _ in 0..requests {
        client.submit(&request("POST", 10)).unwrap();
        to_peer(&mut client, &mut peer);
    }
    (client, peer)
}

fn to_peer(client: &mut Client, peer: &mut Session<Silent>) {
    let output = take_output(client, &mut Inbox::default());
    peer.receive(&output).unwrap();
}

fn output_of(peer: &mut Session<Silent>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while peer.send(&mut bytes).unwrap() > 0 {}
    bytes
}

fn hear(client: &mut Client, peer: &mut Session<Silent>) -> Vec<ClientEvent> {
    let mut inbox = Inbox::default();
    client.receive(&output_of(peer), &mut inbox).unwrap();
    without_offsets(inbox.events).collect()
}

#[test]
fn a_reset_fails_its_stream_only() {
    let (mut client, mut peer) = client_and_peer(2);
    peer.submit_reset(1, CANCEL).unwrap();
    let events = hear(&mut client, &mut peer);
    assert_eq!(
        events,
        [ClientEvent::StreamReset {
            stream: StreamId(1),
            code: CANCEL.into()
        }]
    );
    assert_eq!(client.in_flight(), 1);
    assert!(client.is_open());
}

#[test]
fn a_reset_with_no_error_is_reported_too() {
    let (mut client, mut peer) = client_and_peer(1);
    peer.submit_reset(1, 0).unwrap();
    let events = hear(&mut client, &mut peer);
    assert_eq!(
        events,
        [ClientEvent::StreamReset {
            stream: StreamId(1),
            code: 0
        }]
    );
}

#[test]
fn a_reset_after_the_whole_response_is_not_a_failure() {
    // RFC 9113, section 8.1: a server may respond early and then reset the stream with NO_ERROR.
    let (mut client, mut peer) = client_and_peer(0);
    to_peer(&mut client, &mut peer);
    client.submit(&request("POST", 200_000)).unwrap();
    to_peer(&mut client, &mut peer);
    let head = HeaderBlock::new([(":status", "413")]).unwrap();
    peer.submit_response(1, &head, Body::Whole(&common::bytes(0)))
        .unwrap();
    let mut events = hear(&mut client, &mut peer);
    peer.submit_reset(1, 0).unwrap();
    events.extend(hear(&mut client, &mut peer));
    let stream = StreamId(1);
    assert_eq!(
        events,
        [
            ClientEvent::ResponseFirstByte { stream, offset: 0 },
            response_headers(stream, 413),
            ClientEvent::ResponseEnd { stream, end: 0 },
        ]
    );
    // Frames already produced may still be sent; then the connection continues.
    to_peer(&mut client, &mut peer);
    assert!(client.is_ready());
}

#[test]
fn goaway_refuses_requests_the_server_did_not_see() {
    let (mut client, mut peer) = client_and_peer(2);
    // A third request is on its way when the server stops.
    client.submit(&request("POST", 10)).unwrap();
    let len = client.output().len();
    client.advance_output(len, &mut Inbox::default());
    peer.submit_goaway(peer.last_processed_stream(), 0).unwrap();
    let events = hear(&mut client, &mut peer);
    assert_eq!(
        events,
        [
            ClientEvent::GoAway {
                last_stream: StreamId(3),
                code: 0
            },
            ClientEvent::RequestRefused {
                stream: StreamId(5)
            },
        ]
    );
    assert!(!client.is_open() && !client.is_ready());
    assert_eq!(client.submit(&request("GET", 0)), Err(SubmitError::Closed));

    // The other two are still answered.
    let head = HeaderBlock::new([(":status", "200")]).unwrap();
    for id in [1, 3] {
        peer.submit_response(id, &head, Body::Whole(&common::bytes(0)))
            .unwrap();
    }
    let events = hear(&mut client, &mut peer);
    assert!(events.contains(&ClientEvent::ResponseEnd {
        stream: StreamId(3),
        end: 0
    }));
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.receive_end(&mut Inbox::default()), Ok(()));
}

#[test]
fn goaway_refuses_a_request_that_was_not_yet_produced() {
    let (mut client, mut peer) = client_and_peer(1);
    client.submit(&request("POST", 10)).unwrap();
    peer.submit_goaway(peer.last_processed_stream(), 0).unwrap();
    let mut events = hear(&mut client, &mut peer);
    client.output();
    let mut inbox = Inbox::default();
    client.advance_output(0, &mut inbox);
    events.append(&mut inbox.events);
    let refused = ClientEvent::RequestRefused {
        stream: StreamId(3),
    };
    let is_end = |event: &&ClientEvent| {
        matches!(
            event,
            ClientEvent::RequestRefused { .. } | ClientEvent::StreamReset { .. }
        )
    };
    let ends: Vec<_> = events.iter().filter(is_end).collect();
    assert_eq!(ends, [&refused]);
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn a_connection_error_by_the_server_fails_the_connection() {
    let (mut client, mut peer) = client_and_peer(2);
    hear(&mut client, &mut peer);
    // DATA on stream 0 (RFC 9113, section 6.1).
    let error = client
        .receive(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1], &mut Inbox::default())
        .unwrap_err();
    assert!(
        matches!(&error, ConnectionError::Http2 { code: 1, .. }),
        "{error:?}"
    );
    assert!(!client.is_open());
    assert_eq!(client.in_flight(), 2);
    assert_eq!(client.receive(&[], &mut Inbox::default()), Err(error));
    // Our GOAWAY for the server is still in the output.
    assert!(
        client
            .output()
            .windows(5)
            .any(|bytes| bytes == [7, 0, 0, 0, 0])
    );
}

#[test]
fn the_end_of_input_is_an_error_while_requests_are_in_flight() {
    let (mut client, _) = client_and_peer(0);
    assert_eq!(client.receive_end(&mut Inbox::default()), Ok(()));
    assert!(!client.is_open());
    let (mut client, _) = client_and_peer(1);
    let end = client.receive_end(&mut Inbox::default());
    assert_eq!(end, Err(ConnectionError::UnexpectedEnd));
    assert_eq!(client.in_flight(), 1);
}

/// What a client sends: its preface, and a request without body or with one that goes on after these bytes.
fn opening(body: &[u8]) -> Vec<u8> {
    let request = match body {
        [] => frame(HEADERS, WHOLE | END, 1, POST),
        _ => [frame(HEADERS, WHOLE, 1, POST), frame(DATA, 0, 1, body)].concat(),
    };
    [client_opening(), request].concat()
}

fn cancellation() -> Vec<u8> {
    frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes())
}

/// A server that has received these bytes.
fn server_given(bytes: &[u8]) -> (Server, Inbox<ServerEvent>) {
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::default();
    server.receive(bytes, &mut inbox).unwrap();
    (server, inbox)
}

/// Checks that a cancelled request takes no response, and that the connection goes on.
fn assert_cancelled(server: &mut Server) {
    let stream = StreamId(1);
    let late = server.respond(stream, &response(200, 10));
    assert_eq!(late, Err(RespondError::NotWaiting(stream)));
    assert!(server.is_open());
}

#[test]
fn a_client_that_cancels_gets_no_response() {
    let (mut server, mut inbox) = server_given(&opening(b"some of it"));
    let is_end = |event: &ServerEvent| matches!(event, ServerEvent::RequestEnd { .. });
    assert!(!inbox.events.iter().any(is_end));
    server.receive(&cancellation(), &mut inbox).unwrap();
    let reset = ServerEvent::StreamReset {
        stream: StreamId(1),
        code: CANCEL.into(),
    };
    assert_eq!(inbox.events.last(), Some(&reset));
    assert_cancelled(&mut server);
}

/// A caller that responds at the end of the request, before reading on, gets the error.
#[test]
fn a_request_cancelled_in_the_same_read_cannot_be_answered() {
    let bytes = [opening(&[]), cancellation()].concat();
    let (mut server, inbox) = server_given(&bytes);
    let events: Vec<_> = without_server_offsets(inbox.events).collect();
    let (stream, code) = (StreamId(1), CANCEL.into());
    let end = ServerEvent::RequestEnd { stream, end: 0 };
    assert_eq!(
        events[2..],
        [end, ServerEvent::StreamReset { stream, code }]
    );
    assert_cancelled(&mut server);
}

#[test]
fn a_response_is_accepted_once_and_only_for_a_known_stream() {
    let (mut server, _) = server_given(&opening(&[]));
    let (stream, unknown) = (StreamId(1), StreamId(3));
    assert_eq!(server.respond(stream, &response(200, 10)), Ok(()));
    let twice = server.respond(stream, &response(200, 10));
    assert_eq!(twice, Err(RespondError::NotWaiting(stream)));
    let stray = server.respond(unknown, &response(200, 10));
    assert_eq!(stray, Err(RespondError::NotWaiting(unknown)));
}

#[test]
fn a_server_refuses_a_wrong_preface_and_a_broken_frame() {
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let error = server.receive(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", &mut Inbox::default());
    assert_eq!(
        error,
        Err(ConnectionError::Session(squall_nghttp2::Error::BadPreface))
    );
    assert!(!server.is_open());

    let (mut server, mut inbox) = server_given(&opening(&[]));
    let error = server
        .receive(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1], &mut inbox)
        .unwrap_err();
    assert!(
        matches!(&error, ConnectionError::Http2 { code: 1, .. }),
        "{error:?}"
    );
    assert!(
        server
            .output()
            .windows(5)
            .any(|bytes| bytes == [7, 0, 0, 0, 0])
    );
}

#[test]
fn a_server_is_open_until_its_last_response_is_written() {
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        pair.answers = Answers::Never;
        let stream = pair.submit(&request("POST", 10));
        pair.settle();
        pair.server.receive_end(&mut pair.server_inbox).unwrap();
        assert!(pair.server.is_open(), "{protocol}: a request waits");
        pair.respond(stream, &pair.response.clone());
        assert!(pair.server.is_open(), "{protocol}: output waits");
        while pair.down() > 0 {}
        assert!(!pair.server.is_open(), "{protocol}: all was written");
        assert_eq!(pair.client.in_flight(), 0);
    }
}
