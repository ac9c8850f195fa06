//! What an HTTP/1.1 server rejects, with which responses, and what it must accept.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_http::{
    Body, ConnectionError, Engine, Field, Inbox, InboxOptions, Response, ServerEvent, StreamId, h1,
};

use crate::common::h1::{STREAM, new_server, output};

fn empty(status: u16) -> Arc<Response> {
    Arc::new(Response::new(status, &[], Body::EMPTY).unwrap())
}

fn refusal(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// A server that was given these pieces, and the first error.
fn fed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (h1::Server, Option<ConnectionError>) {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    let mut errors = pieces
        .into_iter()
        .filter_map(|piece| server.receive(piece, &mut inbox).err());
    let first = errors.next();
    drop(errors);
    (server, first)
}

/// Checks that the text is rejected with this status at every split, and that the connection ends with the error
/// response.
fn assert_refused(text: &[u8], status: &str, positions: impl Iterator<Item = usize>) {
    let of = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
    for at in positions {
        let (left, right) = text.split_at(at);
        let (mut server, error) = fed([left, right]);
        assert!(error.is_some(), "{of:?} split at {at}");
        assert!(server.is_open(), "{of:?}: until the refusal is written");
        let mut inbox = Inbox::default();
        let said = output(&mut server, &mut inbox);
        assert_eq!(said, refusal(status), "{of:?}");
        // The engine, not the owner, sent the response.
        let stream = STREAM;
        let told = [
            ServerEvent::ResponseFirstByteWritten { stream, offset: 0 },
            ServerEvent::RequestRefused {
                stream,
                status: status[..3].parse().unwrap(),
                end: said.len() as u64,
            },
        ];
        assert_eq!(inbox.events, told, "{of:?}");
        assert!(!server.is_open());
        assert_eq!(server.receive(b"GET", &mut inbox), Err(error.unwrap()));
        assert_eq!(server.output(), b"");
    }
}

#[test]
fn ambiguous_requests_are_rejected() {
    let bad = [
        "host: a\r\ncontent-length: 5\r\ncontent-length: 6",
        "host: a\r\ncontent-length: 5, 6",
        "host: a\r\ncontent-length: 5, 5",
        "host: a\r\ncontent-length: +5",
        "host: a\r\ncontent-length: 0x5",
        "host: a\r\ncontent-length: 5 5",
        "host: a\r\ncontent-length:",
        "host: a\r\ncontent-length: 99999999999999999999",
        "host: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked",
        "host: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5",
        "host: a\r\ntransfer-encoding: chunked, chunked",
        "host: a\r\ntransfer-encoding: chunked, gzip",
        "host: a\r\ntransfer-encoding: ,chunked",
        "host: a\r\ntransfer-encoding:",
        "accept: */*",
        "host: a\r\nHost: a",
        "host: a/b",
        "host: a b",
        "host: a\nx: y",
        "host: a\rx: y",
        "host: a\r\n\n",
        "host: a\r\nx: y\r\n z",
        " host: a",
        "host: a\r\nx : y",
        "host: a\r\nx\t: y",
        "host: a\r\n: y",
        "host: a\r\nx",
        "host: a\r\nx: \0",
        "host: a\r\nx: \x0b",
        "host: a\r\nx: \x7f",
        "host: a\r\nx\0: y",
    ];
    let unsupported = [
        "host: a\r\ntransfer-encoding: gzip, chunked",
        "host: a\r\ntransfer-encoding: identity",
        "host: a\r\ntransfer-encoding: \"chunked\"",
        "host: a\r\ntransfer-encoding: chunked;q=1",
    ];
    let bad = bad.map(|fields| (fields, "400 Bad Request"));
    let unsupported = unsupported.map(|fields| (fields, "501 Not Implemented"));
    for (fields, status) in bad.into_iter().chain(unsupported) {
        let text = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
        assert_refused(text.as_bytes(), status, 0..=text.len());
    }
}

#[test]
fn invalid_request_lines_are_rejected() {
    for (line, status) in [
        ("\x16\x03\x01\x02", "400 Bad Request"),
        ("GET", "400 Bad Request"),
        ("GET /", "400 Bad Request"),
        ("GET  / HTTP/1.1", "400 Bad Request"),
        ("GET /  HTTP/1.1", "505 HTTP Version Not Supported"),
        ("GET / HTTP/1.1 ", "400 Bad Request"),
        ("GET\t/ HTTP/1.1", "400 Bad Request"),
        (" GET / HTTP/1.1", "400 Bad Request"),
        ("\nGET / HTTP/1.1", "400 Bad Request"),
        ("\rGET / HTTP/1.1", "400 Bad Request"),
        ("G@T / HTTP/1.1", "400 Bad Request"),
        ("GET /\0 HTTP/1.1", "400 Bad Request"),
        ("GET /\u{e9} HTTP/1.1", "400 Bad Request"),
        ("GET a HTTP/1.1", "400 Bad Request"),
        ("GET * HTTP/1.1", "400 Bad Request"),
        ("GET http:///a HTTP/1.1", "400 Bad Request"),
        ("GET / HTTP/2.0", "505 HTTP Version Not Supported"),
        ("GET / HTTP/1.10", "400 Bad Request"),
        ("PRI * HTTP/2.0", "505 HTTP Version Not Supported"),
        ("CONNECT a:80 HTTP/1.1", "501 Not Implemented"),
    ] {
        let text = format!("{line}\r\nhost: a\r\n\r\n");
        assert_refused(text.as_bytes(), status, 0..=text.len());
    }
}

#[test]
fn endless_heads_are_rejected() {
    let status = "400 Bad Request";
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}", "x: y\r\n".repeat(128));
    for text in [long, many] {
        let positions = (0..text.len()).step_by(997);
        assert_refused(text.as_bytes(), status, positions);
        let (mut server, _) = fed(text.as_bytes().chunks(1));
        assert_eq!(output(&mut server, &mut Inbox::default()), refusal(status));
    }
}

#[test]
fn malformed_chunked_bodies_are_rejected() {
    let endless = format!("1;{}", "x".repeat(70_000));
    let trailers = format!("0\r\n{}", "x: y\r\n".repeat(20_000));
    for chunks in [
        "x\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhellox",
        "-5\r\n",
        "0x5\r\n",
        "5 5\r\n",
        "10000000000000000\r\n",
        "5;\0\r\n",
        "5;a\rb\r\n",
        "0\r\nGET / HTTP/1.1\r\n\r\n",
        &endless,
        &trailers,
    ] {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let text = format!("{head}{chunks}");
        let step = text.len().div_ceil(100);
        let positions = (0..text.len()).step_by(step);
        assert_refused(text.as_bytes(), "400 Bad Request", positions);
    }
}

#[test]
fn an_error_response_follows_the_pending_responses() {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    let text = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\nGET /b HTTP/1.1\r\nhost: x\r\n\r\nrubbish\r\n";
    let error = Err(ConnectionError::Head(httparse::Error::Token));
    assert_eq!(server.receive(text, &mut inbox), error);
    assert_eq!(server.output(), b"");
    server.respond(StreamId(1), &empty(404)).unwrap();
    server.respond(STREAM, &empty(200)).unwrap();
    assert!(server.respond(StreamId(2), &empty(200)).is_err());
    assert_eq!(server.receive_end(&mut inbox), error);
    let expected = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n{}",
        refusal("400 Bad Request")
    );
    assert_eq!(output(&mut server, &mut inbox), expected);
    assert!(!server.is_open());
}

#[test]
fn an_answered_request_gets_no_error_response() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for is_written in [false, true] {
        let mut server = new_server();
        let mut inbox = Inbox::default();
        server.receive(head, &mut inbox).unwrap();
        server.respond(STREAM, &empty(200)).unwrap();
        let mut text = String::new();
        if is_written {
            text = output(&mut server, &mut inbox);
        }
        server.receive(b"rubbish", &mut inbox).unwrap_err();
        text += &output(&mut server, &mut inbox);
        assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        assert!(!server.is_open());
    }
}

#[test]
fn an_error_response_follows_a_partly_written_100() {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    let head =
        b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n";
    server.receive(head, &mut inbox).unwrap();
    server.advance_output(9, &mut inbox);
    server.receive(b"rubbish", &mut inbox).unwrap_err();
    let expected = format!("100 Continue\r\n\r\n{}", refusal("400 Bad Request"));
    assert_eq!(output(&mut server, &mut inbox), expected);
}

/// Method and target of each request.
fn heard(text: &str, step: usize) -> Vec<(String, String)> {
    let mut server = new_server();
    let mut inbox = Inbox::default();
    for piece in text.as_bytes().chunks(step) {
        server.receive(piece, &mut inbox).unwrap();
    }
    let head = |event| match event {
        ServerEvent::RequestHead { method, target, .. } => Some((method, target)),
        _ => None,
    };
    inbox.events.into_iter().filter_map(head).collect()
}

#[test]
fn unusual_but_valid_requests_are_accepted() {
    for (text, method, target) in [
        ("\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", "GET", "/"),
        ("get / HTTP/1.1\r\nhost: a\r\n\r\n", "get", "/"),
        ("M-SEARCH / HTTP/1.1\r\nHOST:a:80\r\n\r\n", "M-SEARCH", "/"),
        ("GET / HTTP/1.1\r\nhost:\r\nx:\t \r\n\r\n", "GET", "/"),
        ("GET / HTTP/1.0\r\n\r\n", "GET", "/"),
        ("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", "OPTIONS", "*"),
        (
            "GET http://a:80/b?c HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET",
            "/b?c",
        ),
        ("GET HTTP://a?c HTTP/1.1\r\nhost: b\r\n\r\n", "GET", "/?c"),
    ] {
        for step in 1..=text.len() {
            let expected = [(method.to_owned(), target.to_owned())];
            assert_eq!(heard(text, step), expected, "{text:?} in steps of {step}");
        }
    }
}

#[test]
fn offsets_exclude_empty_lines_before_a_request() {
    let text = "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for step in 1..=text.len() {
        let mut server = new_server();
        let mut inbox = Inbox::default();
        for piece in text.as_bytes().chunks(step) {
            server.receive(piece, &mut inbox).unwrap();
        }
        let offset = |event: &ServerEvent| match event {
            ServerEvent::RequestFirstByte { offset, .. } => Some(*offset),
            ServerEvent::RequestEnd { end, .. } => Some(*end),
            _ => None,
        };
        let offsets: Vec<_> = inbox.events.iter().filter_map(offset).collect();
        assert_eq!(offsets, [2, 29, 33, 60]);
    }
}

#[test]
fn the_host_in_the_target_overrides_the_host_field() {
    let mut server = new_server();
    let mut inbox = Inbox::new(InboxOptions {
        fields: true,
        ..InboxOptions::default()
    });
    let text = b"GET http://b/ HTTP/1.1\r\nHOST: a\r\nX-Y: Z \r\n\r\n";
    server.receive(text, &mut inbox).unwrap();
    let field = |name: &[u8], value: &[u8]| Field::new(name, value);
    assert_eq!(
        inbox.events[1],
        ServerEvent::RequestHead {
            stream: STREAM,
            method: "GET".to_owned(),
            target: "/".to_owned(),
            fields: vec![field(b"host", b"b"), field(b"x-y", b"Z")],
            expects_continue: false,
        }
    );
}

#[test]
fn head_that_takes_too_long_is_answered_with_408() {
    let (mut server, error) = fed([&b"GET / HTTP/1.1\r\nhost: "[..]]);
    assert_eq!(error, None);
    assert!(server.time_out_head());
    assert!(!server.time_out_head(), "only once");
    let mut inbox = Inbox::default();
    assert_eq!(
        output(&mut server, &mut inbox),
        refusal("408 Request Timeout")
    );
    assert!(!server.is_open());

    // Between requests, and while a body arrives, there is no head.
    let mut idle = new_server();
    assert!(!idle.time_out_head() && idle.is_open());
    let post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc";
    let (mut server, _) = fed([&post[..]]);
    assert!(!server.time_out_head() && server.is_open());
}
