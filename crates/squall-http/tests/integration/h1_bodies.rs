//! Bodies that an HTTP/1.1 connection sends: whole and streamed, with every framing; and connections that end as
//! planned.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_base::Bytes;
use squall_base::plan::{BodyFraming, Http1Settings};
use squall_http::{
    Body, ClientEvent, ConnectionError, Engine, Inbox, Request, RespondError, Response, Scheme,
    ServerEvent, StreamId, StreamIo, SubmitError, h1,
};

use crate::common::h1::{STREAM, output};
use crate::common::rows;

fn chunks_of(bytes: u64) -> Http1Settings {
    Http1Settings {
        framing: BodyFraming::Chunked(Bytes::new(bytes)),
        ..Http1Settings::default()
    }
}

fn post(body: impl Into<Body>) -> Arc<Request> {
    Arc::new(Request::new("POST", Scheme::Http, "a", "/", &[], body).unwrap())
}

fn response(body: impl Into<Body>) -> Arc<Response> {
    Arc::new(Response::new(200, &[], body).unwrap())
}

/// A client that was given this request.
fn client(settings: &Http1Settings, body: impl Into<Body>) -> h1::Client {
    let mut client = h1::Client::new(settings).unwrap();
    client.submit(&post(body)).unwrap();
    client
}

/// A server that has received this request line, and responds with this body.
fn server(settings: &Http1Settings, line: &str, body: impl Into<Body>) -> h1::Server {
    let mut server = h1::Server::new(settings).unwrap();
    let text = format!("{line}\r\nhost: a\r\n\r\n");
    server
        .receive(text.as_bytes(), &mut Inbox::default())
        .unwrap();
    server.respond(STREAM, &response(body)).unwrap();
    server
}

/// Takes all output of a client, in steps.
fn sent(client: &mut h1::Client, step: usize, inbox: &mut Inbox<ClientEvent>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !client.output().is_empty() {
        let piece = client.output();
        let piece = piece[..piece.len().min(step)].to_vec();
        client.advance_output(piece.len(), inbox);
        bytes.extend(piece);
    }
    bytes
}

fn written(end: usize) -> [ClientEvent; 2] {
    let (stream, end) = (STREAM, end as u64);
    [
        ClientEvent::RequestFirstByteWritten { stream, offset: 0 },
        ClientEvent::RequestWritten { stream, end },
    ]
}

const CHUNKED_POST: &str = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNKED_OK: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[test]
fn whole_bodies_are_sent_in_chunks() {
    for (max, body) in [
        (4, "4\r\n0123\r\n4\r\n4567\r\n2\r\n89\r\n0\r\n\r\n"),
        (5, "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"),
        (20, "a\r\n0123456789\r\n0\r\n\r\n"),
        (
            0,
            "1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n1\r\n3\r\n1\r\n4\r\n1\r\n5\r\n1\r\n6\r\n1\r\n7\r\n1\r\n8\r\n1\r\n9\r\n0\r\n\r\n",
        ),
    ] {
        let expected = format!("{CHUNKED_POST}{body}");
        for step in 1..=expected.len() {
            let mut inbox = Inbox::default();
            let mut client = client(&chunks_of(max), b"0123456789".to_vec());
            assert_eq!(sent(&mut client, step, &mut inbox), expected.as_bytes());
            assert_eq!(inbox.events, written(expected.len()));
        }
    }
}

#[test]
fn large_chunks_are_not_copied() {
    let body = squall_http::Bytes::from(vec![b'x'; 300_000]);
    let mut inbox = Inbox::default();
    let mut client = client(&chunks_of(100_000), body.clone());
    let mut places = Vec::new();
    while !client.output().is_empty() {
        let piece = client.output();
        let (place, len) = (piece.as_ptr(), piece.len());
        if len > 1_000 {
            places.push((place, len));
        }
        client.advance_output(len, &mut inbox);
    }
    let chunk = |at: usize| (body[at..].as_ptr(), 100_000);
    assert_eq!(places, [chunk(0), chunk(100_000), chunk(200_000)]);
}

#[test]
fn empty_bodies_are_never_chunked() {
    let mut empty = client(&chunks_of(4), Body::EMPTY);
    assert_eq!(
        sent(&mut empty, 100, &mut Inbox::default()),
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
    );
    let mut server = server(&chunks_of(4), "GET / HTTP/1.1", Body::EMPTY);
    assert_eq!(
        output(&mut server, &mut Inbox::default()),
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
}

#[test]
fn a_streamed_request_of_known_length_has_a_content_length() {
    let mut client = client(
        &Http1Settings::default(),
        Body::Streamed { length: Some(5) },
    );
    let mut inbox = Inbox::default();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(sent(&mut client, 7, &mut inbox), head.as_bytes());
    assert_eq!(client.body_room(STREAM), 5);
    assert_eq!(client.send_body(STREAM, b"abc"), 3);
    assert_eq!(sent(&mut client, 7, &mut inbox), b"abc");
    assert!(!client.is_ready());
    assert_eq!(client.send_body(STREAM, b"defg"), 2);
    assert_eq!(client.body_room(STREAM), 0);
    assert_eq!(client.send_body(StreamId(1), b"x"), 0);
    assert_eq!(sent(&mut client, 7, &mut inbox), b"de");
    assert_eq!(inbox.events, written(head.len() + 5));
    client.end_body(STREAM);
    assert!(client.is_open());
}

#[test]
fn a_streamed_request_of_unknown_length_is_chunked() {
    for (settings, body) in [
        (
            Http1Settings::default(),
            "5\r\nabcde\r\n1\r\nf\r\n0\r\n\r\n",
        ),
        (chunks_of(3), "3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"),
    ] {
        let mut client = client(&settings, Body::Streamed { length: None });
        let mut inbox = Inbox::default();
        assert_eq!(client.send_body(STREAM, b"abcde"), 5);
        assert_eq!(client.send_body(STREAM, b""), 0);
        let mut text = sent(&mut client, 10, &mut inbox);
        assert_eq!(client.send_body(STREAM, b"f"), 1);
        client.end_body(STREAM);
        client.end_body(STREAM);
        assert_eq!(client.send_body(STREAM, b"g"), 0);
        text.extend(sent(&mut client, 10, &mut inbox));
        let expected = format!("{CHUNKED_POST}{body}");
        assert_eq!(text, expected.as_bytes());
        assert_eq!(inbox.events, written(expected.len()));
    }
}

#[test]
fn a_streamed_body_that_ends_early_ends_the_connection() {
    for settings in [Http1Settings::default(), chunks_of(3)] {
        let body = Body::Streamed { length: Some(5) };
        let mut client = client(&settings, body.clone());
        client.send_body(STREAM, b"abcd");
        client.end_body(STREAM);
        assert_eq!((client.is_open(), client.in_flight()), (false, 1));
        assert_eq!(client.output(), b"");
        let error = client.receive(b"", &mut Inbox::default());
        assert_eq!(error, Err(ConnectionError::GivenUp));

        let mut server = server(&settings, "GET / HTTP/1.1", body);
        server.send_body(STREAM, b"abcd");
        server.end_body(STREAM);
        assert!(!server.is_open());
        assert_eq!(server.output(), b"");
    }
}

#[test]
fn a_streamed_body_is_buffered_within_bounds() {
    let body = Body::Streamed { length: None };
    let mut server = server(&Http1Settings::default(), "GET / HTTP/1.1", body);
    let mut inbox = Inbox::default();
    let room = server.body_room(STREAM);
    assert!((60_000..=65_536).contains(&room));
    assert_eq!(server.send_body(STREAM, &[0; 1_000_000]), room);
    assert_eq!(server.send_body(STREAM, &[0; 1_000_000]), 0);
    server.advance_output(10_000, &mut inbox);
    assert!((9_000..=10_000).contains(&server.body_room(STREAM)));
}

#[test]
fn streamed_responses_are_framed_for_their_client() {
    let unknown = Body::Streamed { length: None };
    let known = Body::Streamed { length: Some(3) };
    let settings = Http1Settings::default();
    let chunk = "3\r\nabc\r\n0\r\n\r\n";
    for (settings, line, body, text) in rows! {
        settings, "GET / HTTP/1.1", &unknown, format!("{CHUNKED_OK}{chunk}");
        settings, "GET / HTTP/1.1", &known, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc".to_owned();
        chunks_of(9), "GET / HTTP/1.1", &known, format!("{CHUNKED_OK}{chunk}");
        settings, "GET / HTTP/1.0", &unknown, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc".to_owned();
        settings, "GET / HTTP/1.0\r\nconnection: keep-alive", &unknown,
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc".to_owned();
        chunks_of(9), "GET / HTTP/1.0", &known,
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc".to_owned();
    } {
        let mut server = server(&settings, line, body.clone());
        let mut inbox = Inbox::default();
        let mut heard = output(&mut server, &mut inbox);
        assert!(
            heard.ends_with("\r\n\r\n"),
            "the head does not wait for the body"
        );
        assert_eq!(server.send_body(STREAM, b"abc"), 3);
        heard += &output(&mut server, &mut inbox);
        server.end_body(STREAM);
        heard += &output(&mut server, &mut inbox);
        assert_eq!(heard, text, "{line} {body:?}");
        assert_eq!(server.is_open(), line.ends_with("1.1"));
        server.advance_output(0, &mut inbox);
        let (stream, end) = (STREAM, text.len() as u64);
        let first = ServerEvent::ResponseFirstByteWritten { stream, offset: 0 };
        assert_eq!(
            inbox.events,
            [first, ServerEvent::ResponseWritten { stream, end }]
        );
    }
}

#[test]
fn a_response_waiting_for_its_turn_buffers_no_body() {
    let settings = Http1Settings::default();
    let mut server = server(&settings, "GET / HTTP/1.1", Body::Streamed { length: None });
    let mut inbox = Inbox::default();
    let [second, third, fourth] = [1, 2, 3].map(StreamId);
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    server.receive(&get.repeat(3), &mut inbox).unwrap();
    // In any order; one of them has a body that ends before it has begun.
    server.respond(fourth, &response(b"4".to_vec())).unwrap();
    let unknown = response(Body::Streamed { length: None });
    server.respond(second, &unknown).unwrap();
    server.respond(third, &unknown).unwrap();
    server.end_body(third);
    assert_eq!(
        server.respond(second, &unknown),
        Err(RespondError::NotWaiting(second))
    );
    assert_eq!(
        (server.body_room(second), server.send_body(second, b"2")),
        (0, 0)
    );

    assert_eq!(server.send_body(STREAM, b"1"), 1);
    server.end_body(STREAM);
    let mut heard = output(&mut server, &mut inbox);
    assert!(server.body_room(second) > 0, "it is its turn");
    assert_eq!(server.send_body(second, b"2"), 1);
    server.end_body(second);
    heard += &output(&mut server, &mut inbox);
    let chunk = |text: &str| format!("{CHUNKED_OK}1\r\n{text}\r\n0\r\n\r\n");
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n4";
    assert_eq!(
        heard,
        chunk("1") + &chunk("2") + CHUNKED_OK + "0\r\n\r\n" + last
    );
    let is_written = |event: &&ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
    assert_eq!(inbox.events.iter().filter(is_written).count(), 4);
}

#[test]
fn a_waiting_response_that_is_cut_short_ends_the_connection() {
    let mut server = server(&Http1Settings::default(), "GET / HTTP/1.1", b"1".to_vec());
    let mut inbox = Inbox::default();
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    server.receive(get, &mut inbox).unwrap();
    let three = response(Body::Streamed { length: Some(3) });
    server.respond(StreamId(1), &three).unwrap();
    server.end_body(StreamId(1));
    assert!(output(&mut server, &mut inbox).ends_with("\r\n\r\n1"));
    assert!(!server.is_open());
}

#[test]
fn a_head_request_gets_the_head_of_a_streamed_response() {
    let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    for (line, length, text) in [
        ("HEAD / HTTP/1.1", None, CHUNKED_OK),
        ("HEAD / HTTP/1.1", Some(5), sized),
        ("HEAD / HTTP/1.0", None, closing),
    ] {
        for ends_late in [false, true] {
            let body = Body::Streamed { length };
            let mut server = server(&Http1Settings::default(), line, body);
            assert_eq!(server.body_room(STREAM), 0);
            assert_eq!(server.send_body(STREAM, b"abc"), 0);
            if !ends_late {
                server.end_body(STREAM);
            }
            let mut inbox = Inbox::default();
            assert_eq!(output(&mut server, &mut inbox), text);
            assert_eq!(inbox.events.len(), 2);
            server.end_body(STREAM);
            assert_eq!(server.is_open(), line.ends_with("1.1"));
        }
    }
}

#[test]
fn a_client_ends_the_connection_with_its_last_request() {
    let settings = Http1Settings {
        requests_per_connection: Some(2),
        ..Http1Settings::default()
    };
    let mut client = client(&settings, b"x".to_vec());
    let mut inbox = Inbox::default();
    let first = sent(&mut client, 1_000, &mut inbox);
    assert!(!String::from_utf8(first).unwrap().contains("close"));
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    client.receive(ok, &mut inbox).unwrap();
    client.submit(&post(b"x".to_vec())).unwrap();
    assert!(client.is_open() && !client.is_ready());
    assert_eq!(
        sent(&mut client, 3, &mut inbox),
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx"
    );
    client.receive(ok, &mut inbox).unwrap();
    assert_eq!((client.in_flight(), client.is_open()), (0, false));
    let refused = client.submit(&post(Body::EMPTY));
    assert_eq!(refused, Err(SubmitError::Closed));
}

#[test]
fn a_server_ends_the_connection_with_its_last_response() {
    let settings = Http1Settings {
        requests_per_connection: Some(2),
        ..Http1Settings::default()
    };
    let mut server = server(&settings, "GET / HTTP/1.1", Body::EMPTY);
    let mut inbox = Inbox::default();
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    server.receive(&get.repeat(3), &mut inbox).unwrap();
    server
        .respond(StreamId(1), &response(b"x".to_vec()))
        .unwrap();
    assert!(server.respond(StreamId(2), &response(Body::EMPTY)).is_err());
    assert_eq!(
        output(&mut server, &mut inbox),
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx"
    );
    assert!(!server.is_open());
}

#[test]
fn a_reset_ends_the_connection() {
    let mut client = client(&Http1Settings::default(), b"x".to_vec());
    client.reset(StreamId(1), 0);
    assert!(client.is_open());
    client.reset(STREAM, 0);
    assert_eq!((client.is_open(), client.output()), (false, &b""[..]));

    let mut server = server(&Http1Settings::default(), "GET / HTTP/1.1", b"x".to_vec());
    server.reset(StreamId(1), 0);
    assert!(server.is_open());
    server.reset(STREAM, 0);
    assert_eq!((server.is_open(), server.output()), (false, &b""[..]));
    assert_eq!(
        server.receive(b"GET", &mut Inbox::default()),
        Err(ConnectionError::GivenUp)
    );
}

#[test]
fn too_many_interim_responses_are_an_error() {
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let answer = "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n";
    for (count, error) in [
        (h1::MAX_INTERIM_RESPONSES as usize, None),
        (
            h1::MAX_INTERIM_RESPONSES as usize + 1,
            Some(ConnectionError::TooManyInterim),
        ),
    ] {
        let mut client = client(&Http1Settings::default(), Body::EMPTY);
        let mut inbox = Inbox::default();
        sent(&mut client, 1_000, &mut inbox);
        let text = interim.repeat(count) + answer;
        let result = client.receive(text.as_bytes(), &mut inbox);
        assert_eq!(result.err(), error);
        assert!(inbox.events.len() <= 5);
    }
}
