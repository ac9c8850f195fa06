//! HTTP/1.1 messages of other programs: every way to end a body, and every way to get it wrong.
// The helpers of these tests stop at the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{merge_client, request, response};
use squall_http::{
    ChunkError, ClientEvent, ConnectionError, RespondError, ServerEvent, StreamId, SubmitError, h1,
};

const STREAM: StreamId = StreamId(0);

/// A client whose request was written.
fn client(method: &str) -> h1::Client {
    let mut client = h1::Client::new();
    client.submit(&request(method, 0)).unwrap();
    let len = client.output().len();
    client.advance_output(len, &mut Vec::new());
    client
}

/// What the client makes of a response in one piece: the events after the first byte.
fn hear(client: &mut h1::Client, text: &str) -> Result<Vec<ClientEvent>, ConnectionError> {
    let mut events = Vec::new();
    client.receive(text.as_bytes(), &mut events)?;
    assert_eq!(
        events.remove(0),
        ClientEvent::ResponseFirstByte { stream: STREAM }
    );
    Ok(merge_client(events))
}

fn whole(status: u16, len: u64) -> Vec<ClientEvent> {
    let mut events = vec![
        ClientEvent::ResponseHeaders {
            stream: STREAM,
            status,
        },
        ClientEvent::ResponseBody {
            stream: STREAM,
            len,
        },
        ClientEvent::ResponseEnd { stream: STREAM },
    ];
    events.retain(|event| !matches!(event, ClientEvent::ResponseBody { len: 0, .. }));
    events
}

#[test]
fn responses_that_leave_the_connection_open() {
    for (method, text, status, len) in [
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            200,
            2,
        ),
        ("GET", "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, 0),
        ("GET", "HTTP/1.1 503 \r\ncontent-length: 1\r\n\r\nx", 503, 1),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, 0),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
            304,
            0,
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            200,
            0,
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            200,
            2,
        ),
        (
            "GET",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
            200,
            2,
        ),
        (
            "GET",
            "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nhi",
            200,
            2,
        ),
    ] {
        let mut client = client(method);
        assert_eq!(hear(&mut client, text), Ok(whole(status, len)), "{text:?}");
        assert!(client.is_ready(), "{text:?}");
    }
}

#[test]
fn responses_that_close_the_connection() {
    for text in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    ] {
        let mut client = client("GET");
        assert_eq!(hear(&mut client, text), Ok(whole(200, 2)), "{text:?}");
        assert!(!client.is_open() && !client.is_ready());
        assert_eq!(client.submit(&request("GET", 0)), Err(SubmitError::Closed));
        assert_eq!(client.receive_end(&mut Vec::new()), Ok(()));
    }
}

#[test]
fn a_response_without_length_lasts_until_the_end() {
    for text in [
        "HTTP/1.1 200 OK\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhi",
    ] {
        let mut client = client("GET");
        let mut events = hear(&mut client, text).unwrap();
        assert_eq!(client.in_flight(), 1);
        client.receive_end(&mut events).unwrap();
        assert_eq!(events, whole(200, 2));
        assert_eq!(client.in_flight(), 0);
        assert!(!client.is_open());
    }
}

#[test]
fn broken_responses_are_errors() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000));
    for (text, error) in [
        (
            "220 smtp.example ESMTP\r\n",
            ConnectionError::Head(httparse::Error::Version),
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            ConnectionError::UnexpectedUpgrade,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            ConnectionError::BodyLength,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            ConnectionError::Chunk(ChunkError::Size),
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
            ConnectionError::UnexpectedBytes,
        ),
        (&long, ConnectionError::HeadTooLong),
    ] {
        let mut client = client("GET");
        assert_eq!(hear(&mut client, text), Err(error.clone()));
        assert!(!client.is_open());
        assert_eq!(
            client.receive(b"", &mut Vec::new()),
            Err(error),
            "it stays in error"
        );
    }
}

#[test]
fn a_response_that_ends_too_soon_is_an_error() {
    for text in [
        "HTTP/1.1 200 O",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ] {
        let mut client = client("GET");
        hear(&mut client, text).unwrap();
        assert_eq!(
            client.receive_end(&mut Vec::new()),
            Err(ConnectionError::UnexpectedEnd)
        );
        assert_eq!(client.in_flight(), 1);
    }
}

#[test]
fn the_next_request_waits_for_the_end_of_the_last_upload() {
    let mut client = h1::Client::new();
    client.submit(&request("POST", 100_000)).unwrap();
    let mut events = Vec::new();
    client.advance_output(10, &mut events);
    hear(&mut client, "HTTP/1.1 413 \r\ncontent-length: 0\r\n\r\n").unwrap();
    assert_eq!((client.in_flight(), client.is_open()), (0, true));
    assert_eq!(
        client.submit(&request("GET", 0)),
        Err(SubmitError::NotReady)
    );
    while !client.output().is_empty() {
        client.advance_output(7_000, &mut events);
    }
    assert_eq!(
        events.last(),
        Some(&ClientEvent::RequestWritten { stream: STREAM })
    );
    assert!(client.is_ready());
}

#[test]
fn a_server_that_speaks_first_is_an_error() {
    let response = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
    let mut idle = h1::Client::new();
    let error = idle.receive(response, &mut Vec::new());
    assert_eq!(error, Err(ConnectionError::UnexpectedBytes));
    let mut unwritten = h1::Client::new();
    unwritten.submit(&request("GET", 0)).unwrap();
    let error = unwritten.receive(response, &mut Vec::new());
    assert_eq!(error, Err(ConnectionError::UnexpectedBytes));
}

/// Takes the server's whole output.
fn output(server: &mut h1::Server, events: &mut Vec<ServerEvent>) -> String {
    let mut bytes = Vec::new();
    while !server.output().is_empty() {
        let piece = server.output().to_vec();
        server.advance_output(piece.len(), events);
        bytes.extend(piece);
    }
    String::from_utf8(bytes).unwrap()
}

fn ended(events: &[ServerEvent]) -> Vec<u32> {
    let end = |event: &ServerEvent| match event {
        ServerEvent::RequestEnd { stream } => Some(stream.0),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut server = h1::Server::new();
    let mut events = Vec::new();
    let text = "GET /a HTTP/1.1\r\nhost: x\r\n\r\n\
        POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HEAD /c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\nignored";
    server.receive(text.as_bytes(), &mut events).unwrap();
    assert_eq!(ended(&events), [0, 1, 2]);
    assert!(events.contains(&ServerEvent::RequestBody {
        stream: StreamId(1),
        len: 3
    }));
    server.respond(StreamId(2), &response(200, 3)).unwrap();
    server.respond(StreamId(1), &response(404, 0)).unwrap();
    assert_eq!(server.output(), b"", "the first answer must come first");
    server.respond(StreamId(0), &response(200, 0)).unwrap();
    assert_eq!(
        server.respond(StreamId(0), &response(200, 0)),
        Err(RespondError::NotWaiting(StreamId(0)))
    );
    assert!(server.is_open());
    assert_eq!(
        output(&mut server, &mut events),
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
    );
    assert!(!server.is_open());
}

#[test]
fn a_client_that_waits_is_told_to_continue() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-Continue\r\ncontent-length: 2\r\n\r\n";
    let mut server = h1::Server::new();
    let mut events = Vec::new();
    server.receive(head, &mut events).unwrap();
    assert_eq!(
        output(&mut server, &mut events),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    server.receive(b"hi", &mut events).unwrap();
    assert_eq!(ended(&events), [0]);
    server.respond(STREAM, &response(200, 0)).unwrap();
    let text = output(&mut server, &mut events);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(
        events[3..],
        [
            ServerEvent::ResponseFirstByteWritten { stream: STREAM },
            ServerEvent::ResponseWritten { stream: STREAM }
        ]
    );
}

#[test]
fn a_client_that_does_not_wait_is_not_told() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    let mut events = Vec::new();

    let mut sends_at_once = h1::Server::new();
    sends_at_once
        .receive(&[&head[..], b"h"].concat(), &mut events)
        .unwrap();
    assert_eq!(sends_at_once.output(), b"");

    let mut answered_early = h1::Server::new();
    answered_early.receive(head, &mut events).unwrap();
    answered_early.respond(STREAM, &response(200, 0)).unwrap();
    let text = output(&mut answered_early, &mut events);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");

    let mut answered_in_between = h1::Server::new();
    answered_in_between.receive(head, &mut events).unwrap();
    answered_in_between.advance_output(5, &mut events);
    answered_in_between
        .respond(STREAM, &response(200, 0))
        .unwrap();
    let text = output(&mut answered_in_between, &mut events);
    assert_eq!(
        text,
        "1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
}

#[test]
fn an_old_client_is_answered_and_the_connection_closed() {
    let mut server = h1::Server::new();
    let mut events = Vec::new();
    server
        .receive(b"GET / HTTP/1.0\r\n\r\n", &mut events)
        .unwrap();
    server.respond(STREAM, &response(200, 0)).unwrap();
    assert!(output(&mut server, &mut events).contains("connection: close\r\n"));
    assert!(!server.is_open());
}

#[test]
fn broken_requests_are_errors() {
    let flood = "GET / HTTP/1.1\r\n\r\n".repeat(h1::MAX_PIPELINED + 1);
    for (text, error) in [
        (
            "\x16\x03\x01\x02\x00",
            ConnectionError::Head(httparse::Error::Token),
        ),
        (
            "GET / HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\n",
            ConnectionError::BodyLength,
        ),
        (
            "GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            ConnectionError::BodyLength,
        ),
        (&flood, ConnectionError::TooManyPipelined),
    ] {
        let mut server = h1::Server::new();
        assert_eq!(server.receive(text.as_bytes(), &mut Vec::new()), Err(error));
        assert!(!server.is_open());
    }
    for text in [
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nhi",
    ] {
        let mut server = h1::Server::new();
        server.receive(text.as_bytes(), &mut Vec::new()).unwrap();
        assert_eq!(
            server.receive_end(&mut Vec::new()),
            Err(ConnectionError::UnexpectedEnd)
        );
    }
}
