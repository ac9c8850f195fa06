//! Drives a connection with the bytes of a hostile peer and checks what must hold whatever they are.
//!
//! The first byte of an input chooses how it is cut and how the connection is prepared, the rest is what
//! the peer sends. Nothing may panic; the rest of the promises is in the assertions.

use std::sync::Arc;

use squall_base::plan::{Http2Settings, Protocol};
use squall_http::frames::{CLIENT_PREFACE, FRAME_HEADER_BYTES, FrameWalker};
use squall_http::{
    ClientConnection, ClientEvent, Request, Response, ServerConnection, ServerEvent,
};

/// An empty SETTINGS frame: both sides must begin with one.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// More output than a connection ever holds back.
const MAX_OUTPUT_BYTES: usize = 128 * 1024;

/// A server's bytes, at an HTTP/1.1 client.
pub fn h1_client(input: &[u8]) {
    client(Protocol::H1, &[], input);
}

/// A client's bytes, at an HTTP/1.1 server.
pub fn h1_server(input: &[u8]) {
    server(Protocol::H1, &[], input);
}

/// A server's bytes, at an HTTP/2 client.
pub fn h2_client(input: &[u8]) {
    client(Protocol::H2c, &SETTINGS, input);
}

/// A client's bytes, at an HTTP/2 server.
pub fn h2_server(input: &[u8]) {
    server(
        Protocol::H2c,
        &[CLIENT_PREFACE, &SETTINGS[..]].concat(),
        input,
    );
}

/// A byte stream, at a frame walker.
pub fn frame_walker(input: &[u8]) {
    let (cut, _, bytes) = choices(input);
    let mut walker = FrameWalker::of_server();
    let mut at = 0;
    for piece in bytes.chunks(cut) {
        walker.walk(piece, |frame| {
            assert_eq!(frame.offset, at, "frames lie end to end");
            at = frame.end();
        });
    }
    assert_eq!(walker.offset(), bytes.len() as u64);
    assert!(
        at + FRAME_HEADER_BYTES as u64 > bytes.len() as u64,
        "no frame was missed"
    );
}

/// How many bytes to give at a time, whether to begin as the protocol demands, and what to give.
fn choices(input: &[u8]) -> (usize, bool, &[u8]) {
    match input {
        [] => (1, false, &[]),
        [first, bytes @ ..] => (1 + usize::from(first >> 1) * 8, first & 1 == 0, bytes),
    }
}

fn body() -> Arc<[u8]> {
    Arc::from([b'x'; 40_000])
}

fn client(protocol: Protocol, opening: &[u8], input: &[u8]) {
    let (cut, is_polite, bytes) = choices(input);
    let mut connection = ClientConnection::new(protocol, &Http2Settings::default())
        .expect("the default settings are valid");
    let request = Request::new("POST", "server", "/", &[], body());
    let request = Arc::new(request.expect("this request is valid"));
    let mut events = Vec::new();
    let mut submitted = 0;
    let opening = if is_polite { opening } else { &[] };
    for piece in [opening].into_iter().chain(bytes.chunks(cut)) {
        if submitted < 10 && connection.is_ready() {
            connection.submit(&request).expect("it is ready");
            submitted += 1;
        }
        take_client_output(&mut connection, &mut events);
        if connection.receive(piece, &mut events).is_err() {
            assert!(!connection.is_open() && !connection.is_ready());
            assert!(
                connection.receive(piece, &mut events).is_err(),
                "errors are final"
            );
            break;
        }
    }
    let _ = connection.receive_end(&mut events);
    assert!(!connection.is_open());
    take_client_output(&mut connection, &mut events);
    let is_over = |event: &&ClientEvent| {
        matches!(
            event,
            ClientEvent::ResponseEnd { .. } | ClientEvent::StreamReset { .. }
        )
    };
    let over = events.iter().filter(is_over).count();
    assert_eq!(
        over + connection.in_flight(),
        submitted,
        "every request has one end"
    );
}

fn take_client_output(connection: &mut ClientConnection, events: &mut Vec<ClientEvent>) {
    let len = connection.output().len();
    assert!(len <= MAX_OUTPUT_BYTES);
    connection.advance_output(len, events);
}

fn server(protocol: Protocol, opening: &[u8], input: &[u8]) {
    let (cut, is_polite, bytes) = choices(input);
    let mut connection = ServerConnection::new(protocol, &Http2Settings::default())
        .expect("the default settings are valid");
    let response = Arc::new(Response::new(200, &[], body()).expect("this response is valid"));
    let mut events = Vec::new();
    let opening = if is_polite { opening } else { &[] };
    for piece in [opening].into_iter().chain(bytes.chunks(cut)) {
        let heard = events.len();
        if connection.receive(piece, &mut events).is_err() {
            assert!(!connection.is_open());
            assert!(
                connection.receive(piece, &mut events).is_err(),
                "errors are final"
            );
            break;
        }
        for event in &events[heard..] {
            if let ServerEvent::RequestHead { stream, .. } = event {
                // The stream may have been reset in the same piece.
                let _ = connection.respond(*stream, &response);
            }
        }
        take_server_output(&mut connection, &mut events);
    }
    let _ = connection.receive_end(&mut events);
    take_server_output(&mut connection, &mut events);
    let count = |is: fn(&ServerEvent) -> bool| events.iter().filter(|event| is(event)).count();
    let heads = count(|event| matches!(event, ServerEvent::RequestHead { .. }));
    assert!(count(|event| matches!(event, ServerEvent::RequestEnd { .. })) <= heads);
    assert!(count(|event| matches!(event, ServerEvent::ResponseWritten { .. })) <= heads);
}

fn take_server_output(connection: &mut ServerConnection, events: &mut Vec<ServerEvent>) {
    let len = connection.output().len();
    assert!(len <= MAX_OUTPUT_BYTES);
    connection.advance_output(len, events);
}
