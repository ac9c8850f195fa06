//! HTTP/1.1 messages of other programs: every way to end a body, and every way to get it wrong.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_http::{
    ChunkError, ClientEvent, ConnectionError, Engine, Field, Inbox, InboxOptions, RespondError,
    ServerEvent, StreamId, SubmitError, h1,
};

use crate::common::h1::{STREAM, new_client, new_server, output};
use crate::common::{request, response, rows, take_output};

/// A client whose request has been written.
fn client(method: &str) -> h1::Client {
    let mut client = new_client();
    client.submit(&request(method, 0)).unwrap();
    take_output(&mut client, &mut Inbox::default());
    client
}

/// The client's events for a response in one piece, after the first-byte event.
fn hear(client: &mut h1::Client, text: &str) -> Result<Vec<ClientEvent>, ConnectionError> {
    let mut inbox = Inbox::default();
    client.receive(text.as_bytes(), &mut inbox)?;
    let stream = STREAM;
    let first = ClientEvent::ResponseFirstByte { stream, offset: 0 };
    assert_eq!(inbox.events.remove(0), first);
    Ok(inbox.events)
}

/// The events of a response that ends at offset `end`.
fn whole(status: u16, len: u64, end: usize) -> Vec<ClientEvent> {
    let (stream, end) = (STREAM, end as u64);
    let fields = Vec::new();
    let mut events = vec![
        ClientEvent::ResponseHeaders {
            stream,
            status,
            fields,
        },
        ClientEvent::ResponseBody { stream, len },
        ClientEvent::ResponseEnd { stream, end },
    ];
    events.retain(|event| !matches!(event, ClientEvent::ResponseBody { len: 0, .. }));
    events
}

#[test]
fn responses_with_a_known_end_leave_the_connection_open() {
    for (method, text, status, len) in rows! {
        "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, 2;
        "GET", "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n", 200, 0;
        "GET", "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, 0;
        "GET", "HTTP/1.1 503 \r\ncontent-length: 1\r\n\r\nx", 503, 1;
        "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, 0;
        "GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, 0;
        "HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", 200, 0;
        "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, 2;
        "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
            HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, 2;
        "GET", "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nhi", 200, 2;
    } {
        let mut client = client(method);
        assert_eq!(
            hear(&mut client, text),
            Ok(whole(status, len, text.len())),
            "{text:?}"
        );
        assert!(client.is_ready(), "{text:?}");
    }
}

/// Many servers send the same head again and again, but its meaning also depends on the request.
#[test]
fn a_repeated_head_is_interpreted_anew_for_each_request() {
    let five = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    let longer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\n\r\n";
    let chunked = "HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut client = new_client();
    let mut received = 0;
    for (number, (method, head, body, status, len)) in [
        ("GET", five, "hello", 200, 5),
        ("GET", five, "HTTP/", 200, 5),
        ("HEAD", five, "", 200, 0),
        ("HEAD", five, "", 200, 0),
        ("GET", five, "hello", 200, 5),
        ("GET", longer, "hello", 200, 5),
        ("GET", five, "hello", 200, 5),
        ("GET", chunked, "1\r\na\r\n0\r\n\r\n", 404, 1),
        ("GET", chunked, "0\r\n\r\n", 404, 0),
        ("GET", five, "hello", 200, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = client.submit(&request(method, 0)).unwrap();
        assert_eq!(stream, StreamId(number as u64));
        take_output(&mut client, &mut Inbox::default());
        let mut inbox = Inbox::default();
        let text = format!("{head}{body}");
        // In one piece, then split inside the head and after it.
        let (first, rest) = text.split_at([text.len(), 20, head.len()][number % 3]);
        client.receive(first.as_bytes(), &mut inbox).unwrap();
        client.receive(rest.as_bytes(), &mut inbox).unwrap();
        let offset = received;
        received += text.len() as u64;
        let first = ClientEvent::ResponseFirstByte { stream, offset };
        assert_eq!(inbox.events.remove(0), first, "{number}");
        let of_stream = |event| match event {
            ClientEvent::ResponseHeaders { status, fields, .. } => ClientEvent::ResponseHeaders {
                stream,
                status,
                fields,
            },
            ClientEvent::ResponseBody { len, .. } => ClientEvent::ResponseBody { stream, len },
            ClientEvent::ResponseEnd { end, .. } => ClientEvent::ResponseEnd { stream, end },
            other => other,
        };
        let expected = whole(status, len, received as usize);
        let expected: Vec<ClientEvent> = expected.into_iter().map(of_stream).collect();
        assert_eq!(inbox.events, expected, "{number}");
    }
    // Finally a head that differs only in its last bytes, and closes.
    let stream = client.submit(&request("GET", 0)).unwrap();
    take_output(&mut client, &mut Inbox::default());
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    let mut inbox = Inbox::default();
    client.receive(last.as_bytes(), &mut inbox).unwrap();
    let end = received + last.len() as u64;
    let ended = ClientEvent::ResponseEnd { stream, end };
    assert_eq!(inbox.events.last(), Some(&ended));
    assert!(!client.is_open());
}

#[test]
fn responses_can_announce_that_the_connection_closes() {
    for text in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    ] {
        let mut client = client("GET");
        assert_eq!(
            hear(&mut client, text),
            Ok(whole(200, 2, text.len())),
            "{text:?}"
        );
        assert!(!client.is_open() && !client.is_ready());
        assert_eq!(client.submit(&request("GET", 0)), Err(SubmitError::Closed));
        assert_eq!(client.receive_end(&mut Inbox::default()), Ok(()));
    }
}

#[test]
fn a_response_without_length_lasts_until_the_connection_ends() {
    for text in [
        "HTTP/1.1 200 OK\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhi",
    ] {
        let mut client = client("GET");
        let mut events = hear(&mut client, text).unwrap();
        assert_eq!(client.in_flight(), 1);
        let mut inbox = Inbox::default();
        client.receive_end(&mut inbox).unwrap();
        events.append(&mut inbox.events);
        assert_eq!(events, whole(200, 2, text.len()));
        assert_eq!(client.in_flight(), 0);
        assert!(!client.is_open());
    }
}

#[test]
fn folded_fields_of_a_response_are_unfolded_however_it_is_split() {
    let text = "HTTP/1.1 200 OK\r\nx-fold: a\r\n  b\r\n\tc\r\ntransfer-encoding:\r\n chunked\r\n\r\n\
        2\r\nhi\r\n0\r\nx-end: d\r\n e\r\n\r\n";
    let wants = InboxOptions {
        fields: true,
        ..InboxOptions::default()
    };
    for at in 0..text.len() {
        let mut client = client("GET");
        let mut inbox = Inbox::new(wants);
        let (left, right) = text.split_at(at);
        for piece in [left, right] {
            client.receive(piece.as_bytes(), &mut inbox).unwrap();
        }
        let fields = vec![
            Field::new("x-fold", "a b c"),
            Field::new("transfer-encoding", "chunked"),
        ];
        let headers = ClientEvent::ResponseHeaders {
            stream: STREAM,
            status: 200,
            fields,
        };
        assert_eq!(inbox.events[1], headers, "split at {at}");
        let trailers = (STREAM, vec![Field::new("x-end", "d e")]);
        assert_eq!(inbox.trailers, [trailers], "split at {at}");
        assert!(client.is_ready());
    }
}

#[test]
fn malformed_responses_are_errors() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000));
    for (text, error) in rows! {
        "220 smtp.example ESMTP\r\n", ConnectionError::Head(httparse::Error::Version);
        "HTTP/1.1 101 Switching Protocols\r\n\r\n", ConnectionError::UnexpectedUpgrade;
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", ConnectionError::BodyLength;
        "HTTP/1.1 200 OK\r\n x: y\r\ncontent-length: 0\r\n\r\n", ConnectionError::Head(httparse::Error::HeaderName);
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", ConnectionError::Chunk(ChunkError::Size);
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n", ConnectionError::UnexpectedBytes;
        &long, ConnectionError::HeadTooLong;
    } {
        let mut client = client("GET");
        assert_eq!(hear(&mut client, text), Err(error.clone()));
        assert!(!client.is_open());
        assert_eq!(
            client.receive(b"", &mut Inbox::default()),
            Err(error),
            "it stays in error"
        );
    }
}

#[test]
fn a_truncated_response_is_an_error() {
    for text in [
        "HTTP/1.1 200 O",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ] {
        let mut client = client("GET");
        hear(&mut client, text).unwrap();
        assert_eq!(
            client.receive_end(&mut Inbox::default()),
            Err(ConnectionError::UnexpectedEnd)
        );
        assert_eq!(client.in_flight(), 1);
    }
}

#[test]
fn the_next_request_waits_until_the_last_upload_is_written() {
    let mut client = new_client();
    client.submit(&request("POST", 100_000)).unwrap();
    let len = client.output().len() as u64 + 100_000 - 16 * 1024;
    let mut inbox = Inbox::default();
    client.advance_output(10, &mut inbox);
    hear(&mut client, "HTTP/1.1 413 \r\ncontent-length: 0\r\n\r\n").unwrap();
    assert_eq!((client.in_flight(), client.is_open()), (0, true));
    assert_eq!(
        client.submit(&request("GET", 0)),
        Err(SubmitError::NotReady)
    );
    while !client.output().is_empty() {
        client.advance_output(7_000, &mut inbox);
    }
    assert_eq!(
        inbox.events,
        [
            ClientEvent::RequestFirstByteWritten {
                stream: STREAM,
                offset: 0
            },
            ClientEvent::RequestWritten {
                stream: STREAM,
                end: len
            }
        ]
    );
    assert!(client.is_ready());
}

#[test]
fn a_server_that_speaks_first_is_an_error() {
    let response = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
    let mut idle = new_client();
    let error = idle.receive(response, &mut Inbox::default());
    assert_eq!(error, Err(ConnectionError::UnexpectedBytes));
    let mut unwritten = new_client();
    unwritten.submit(&request("GET", 0)).unwrap();
    let error = unwritten.receive(response, &mut Inbox::default());
    assert_eq!(error, Err(ConnectionError::UnexpectedBytes));
}

fn ended(inbox: &Inbox<ServerEvent>) -> Vec<u64> {
    let end = |event: &ServerEvent| match event {
        ServerEvent::RequestEnd { stream, .. } => Some(stream.0),
        _ => None,
    };
    inbox.events.iter().filter_map(end).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    let text = "GET /a HTTP/1.1\r\nhost: x\r\n\r\n\
        POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HEAD /c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\nignored";
    server.receive(text.as_bytes(), &mut inbox).unwrap();
    assert_eq!(ended(&inbox), [0, 1, 2]);
    assert!(inbox.events.contains(&ServerEvent::RequestBody {
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
        output(&mut server, &mut inbox),
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
    );
    assert!(!server.is_open());
}

#[test]
fn a_waiting_client_receives_100_continue() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-Continue\r\ncontent-length: 2\r\n\r\n";
    let mut server = new_server();
    let mut inbox = Inbox::default();
    server.receive(head, &mut inbox).unwrap();
    assert_eq!(
        output(&mut server, &mut inbox),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    server.receive(b"hi", &mut inbox).unwrap();
    assert_eq!(ended(&inbox), [0]);
    server.respond(STREAM, &response(200, 0)).unwrap();
    let text = output(&mut server, &mut inbox);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(
        inbox.events[4..],
        [
            ServerEvent::ResponseFirstByteWritten {
                stream: STREAM,
                offset: 25
            },
            ServerEvent::ResponseWritten {
                stream: STREAM,
                end: 25 + 38
            }
        ]
    );
}

#[test]
fn a_client_that_does_not_wait_receives_no_100_continue() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    let mut inbox = Inbox::default();

    let mut sends_at_once = new_server();
    sends_at_once
        .receive(&[&head[..], b"h"].concat(), &mut inbox)
        .unwrap();
    assert_eq!(sends_at_once.output(), b"");

    let mut answered_early = new_server();
    answered_early.receive(head, &mut inbox).unwrap();
    answered_early.respond(STREAM, &response(200, 0)).unwrap();
    let text = output(&mut answered_early, &mut inbox);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");

    let mut answered_in_between = new_server();
    answered_in_between.receive(head, &mut inbox).unwrap();
    answered_in_between.advance_output(5, &mut inbox);
    answered_in_between
        .respond(STREAM, &response(200, 0))
        .unwrap();
    let text = output(&mut answered_in_between, &mut inbox);
    assert_eq!(
        text,
        "1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
}

/// RFC 9110, section 15.5.9. After other responses, the rest of a request is read, and another one may follow.
#[test]
fn a_408_to_an_incomplete_request_ends_the_connection() {
    for (status, body, is_open) in [(408, "ab", false), (408, "abcd", true), (413, "ab", true)] {
        let mut server = new_server();
        let mut inbox = Inbox::default();
        let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n";
        let request = format!("{head}{body}");
        server.receive(request.as_bytes(), &mut inbox).unwrap();
        server.respond(STREAM, &response(status, 0)).unwrap();
        let text = output(&mut server, &mut inbox);
        let case = format!("{status} after {body}: {text}");
        assert_eq!(text.contains("connection: close\r\n"), !is_open, "{case}");
        assert_eq!(server.is_open(), is_open, "{case}");
        inbox.events.clear();
        server
            .receive(&b"cd"[..4 - body.len()], &mut inbox)
            .unwrap();
        let is_read = body == "ab" && is_open;
        assert_eq!(!inbox.events.is_empty(), is_read, "{case}");
    }
}

#[test]
fn an_http_1_0_client_is_answered_and_the_connection_closed() {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    server
        .receive(b"GET / HTTP/1.0\r\n\r\n", &mut inbox)
        .unwrap();
    server.respond(STREAM, &response(200, 0)).unwrap();
    assert!(output(&mut server, &mut inbox).contains("connection: close\r\n"));
    assert!(!server.is_open());
}

#[test]
fn an_http_1_0_client_keeps_its_connection_if_it_asks_for_it() {
    let get = b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    let mut server = new_server();
    let mut inbox = Inbox::default();
    for stream in [0, 1, 2].map(StreamId) {
        server.receive(get, &mut inbox).unwrap();
        server.respond(stream, &response(200, 2)).unwrap();
        let text = output(&mut server, &mut inbox);
        assert!(text.contains("content-length: 2\r\n"), "{text}");
        assert!(text.contains("connection: keep-alive\r\n"), "{text}");
        assert!(server.is_open());
    }
    for ending in [
        "GET / HTTP/1.0\r\nconnection: keep-alive, close\r\n\r\n",
        "GET / HTTP/1.0\r\nkeep-alive: timeout=5\r\n\r\n",
    ] {
        let mut server = new_server();
        server.receive(ending.as_bytes(), &mut inbox).unwrap();
        server.respond(STREAM, &response(200, 2)).unwrap();
        let text = output(&mut server, &mut inbox);
        assert!(text.contains("connection: close\r\n"), "{text}");
        assert!(!server.is_open());
    }
}

/// HTTP/1.0 has no pipelining, so a second request before the response is not taken.
#[test]
fn pipelining_over_http_1_0_gets_one_response_and_a_close() {
    let get = b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
    let mut server = new_server();
    let mut inbox = Inbox::default();
    server.receive(&get.repeat(3), &mut inbox).unwrap();
    let is_head = |event: &&ServerEvent| matches!(event, ServerEvent::RequestHead { .. });
    assert_eq!(inbox.events.iter().filter(is_head).count(), 1);
    server.respond(STREAM, &response(200, 2)).unwrap();
    let text = output(&mut server, &mut inbox);
    assert!(text.contains("connection: close\r\n"), "{text}");
    assert!(!server.is_open());
}

#[test]
fn malformed_requests_are_errors() {
    let flood = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(h1::MAX_PIPELINED + 1);
    for (text, error) in rows! {
        "\x16\x03\x01\x02\x00", ConnectionError::Head(httparse::Error::Token);
        "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\n", ConnectionError::BodyLength;
        "GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", ConnectionError::BodyLength;
        &flood, ConnectionError::TooManyPipelined;
    } {
        let mut server = new_server();
        assert_eq!(
            server.receive(text.as_bytes(), &mut Inbox::default()),
            Err(error.clone())
        );
        assert_eq!(
            server.receive(b"", &mut Inbox::default()),
            Err(error),
            "it stays in error"
        );
    }
    for text in [
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nhi",
    ] {
        let mut server = new_server();
        server
            .receive(text.as_bytes(), &mut Inbox::default())
            .unwrap();
        assert_eq!(
            server.receive_end(&mut Inbox::default()),
            Err(ConnectionError::UnexpectedEnd)
        );
        assert!(!server.is_open());
        assert_eq!(server.output(), b"");
    }
}
