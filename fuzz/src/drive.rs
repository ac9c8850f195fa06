//! Feeds a connection the bytes of a hostile peer, and checks what must hold for any bytes.
//!
//! The first byte of an input decides how the rest is cut and how the connection is prepared; the rest is what the peer
//! sends. Nothing may panic; the assertions state what else must hold.

use std::sync::Arc;

use squall_base::plan::{Http2Settings, Protocol, SideSettings, Version, WindowUpdates};
use squall_base::record::Way;
use squall_base::{Bytes, Time};
use squall_http::frames::{CLIENT_PREFACE, FRAME_HEADER_BYTES, FrameTap, FrameWalker};
use squall_http::{
    Body, ClientConnection, ClientEvent, Field, Inbox, InboxOptions, Request, Response, Scheme,
    ServerConnection, ServerEvent, StreamId, StreamIo, Trailers,
};

use crate::laws;

/// An empty SETTINGS frame, with which both sides must begin.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A server's response to a client that asked for HTTP/2 (RFC 7540, section 3.2).
const AGREED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";

/// More output than a connection ever holds.
const MAX_OUTPUT_BYTES: usize = 128 * 1024;

/// A server's bytes, sent to an HTTP/1.1 client.
pub fn h1_client(input: &[u8]) {
    let connection = ClientConnection::plain(Version::Http1, &settings(input));
    client(connection.expect("these settings are valid"), &[], input);
}

/// A client's bytes, sent to an HTTP/1.1 server.
pub fn h1_server(input: &[u8]) {
    server(Protocol::H1, &[], input);
}

/// A server's bytes, sent to an HTTP/2 client.
pub fn h2_client(input: &[u8]) {
    let connection = ClientConnection::plain(Version::Http2, &settings(input));
    client(
        connection.expect("these settings are valid"),
        &SETTINGS,
        input,
    );
}

/// A server's bytes, sent to a client that asks for HTTP/2 in HTTP/1.1; a polite server has agreed.
pub fn h2_upgraded_client(input: &[u8]) {
    let connection = ClientConnection::upgrading(&settings(input));
    let opening = [AGREED, &SETTINGS].concat();
    client(
        connection.expect("these settings are valid"),
        &opening,
        input,
    );
}

/// A client's bytes, sent to an HTTP/2 server.
pub fn h2_server(input: &[u8]) {
    server(
        Protocol::H2c,
        &[CLIENT_PREFACE, &SETTINGS[..]].concat(),
        input,
    );
}

/// A byte stream, passed to a frame walker.
pub fn frame_walker(input: &[u8]) {
    let (cut, _, bytes) = choices(input);
    let mut walker = FrameWalker::of_server(0);
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
    tap(cut, bytes);
}

/// The bytes, passed through a tap in both directions.
fn tap(cut: usize, bytes: &[u8]) {
    let mut tap = FrameTap::new(Way::Received);
    let mut facts = Vec::new();
    for piece in [&CLIENT_PREFACE[..]].into_iter().chain(bytes.chunks(cut)) {
        tap.walk(Way::Received, piece, Some(&mut facts));
    }
    for piece in bytes.chunks(cut) {
        tap.walk(Way::Sent, piece, Some(&mut facts));
    }
    assert!(facts.len() <= 2 * bytes.len() / FRAME_HEADER_BYTES);
    let ends = facts
        .iter()
        .map(|frame| frame.offset.map(|at| at + frame.length));
    assert!(
        ends.flatten()
            .all(|end| end <= bytes.len() as u64 + (1 << 24) + 24)
    );
}

/// How many bytes to pass at a time, whether to begin as the protocol requires, and the bytes.
fn choices(input: &[u8]) -> (usize, bool, &[u8]) {
    match input {
        [] => (1, false, &[]),
        [first, bytes @ ..] => (1 + usize::from(first >> 1) * 8, first & 1 == 0, bytes),
    }
}

fn body() -> Vec<u8> {
    vec![b'x'; 40_000]
}

/// Everything that an inbox can collect.
const ALL: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: true,
};

/// Settings that depend on the input, so that every policy is combined with every kind of peer.
fn settings(input: &[u8]) -> SideSettings {
    let n = Bytes::new(1 + u64::from(input.get(1).copied().unwrap_or(0)));
    let policies = [
        WindowUpdates::Half,
        WindowUpdates::Every(n),
        WindowUpdates::EachData(n),
        WindowUpdates::Grant(n),
        WindowUpdates::Never,
    ];
    SideSettings {
        http2: Http2Settings {
            window_updates: policies[input.len() % policies.len()],
            goaway_after: input.len().is_multiple_of(7).then_some(2),
            ..Http2Settings::default()
        },
        ..SideSettings::default()
    }
}

/// The requests that a client sends in turn: without a body, with one, with one that is sent in pieces, and with a head
/// of several frames.
fn requests() -> [Arc<Request>; 4] {
    let large = [("x-large".to_owned(), "~".repeat(40_000))];
    let of = [
        // It comes first because only a request without a body lets HTTP/1.1 become HTTP/2 immediately.
        ("GET", &[][..], Body::EMPTY),
        ("POST", &[], body().into()),
        ("POST", &[], Body::Streamed { length: None }),
        ("GET", &large, Body::EMPTY),
    ];
    of.map(|(method, headers, body)| {
        let request = Request::new(method, Scheme::Http, "server", "/", headers, body);
        Arc::new(request.expect("this request is valid"))
    })
}

fn client(mut connection: ClientConnection, opening: &[u8], input: &[u8]) {
    let (cut, is_polite, bytes) = choices(input);
    let requests = requests();
    let mut inbox = Inbox::new(ALL);
    let is_manual = input.len() % 3 == 1;
    if is_manual {
        connection.set_manual_consumption();
    }
    let mut streams = Vec::new();
    let opening = if is_polite { opening } else { &[] };
    for (n, piece) in [opening].into_iter().chain(bytes.chunks(cut)).enumerate() {
        if streams.len() < 10 && connection.is_ready() {
            let request = &requests[streams.len() % requests.len()];
            streams.push(connection.streams().submit(request).expect("it is ready"));
        }
        take_client_output(&mut connection, &mut inbox);
        if connection.receive(piece, &mut inbox).is_err() {
            assert!(!connection.is_open() && !connection.is_ready());
            assert!(
                connection.receive(piece, &mut inbox).is_err(),
                "errors are final"
            );
            break;
        }
        if let Some(stream) = streams.get(n % 11) {
            meddle(&mut connection, *stream, (n, piece), &mut inbox);
        }
    }
    let _ = connection.receive_end(&mut inbox);
    assert!(!connection.is_open());
    take_client_output(&mut connection, &mut inbox);
    assert_eq!(
        laws::ended(&inbox.events) + connection.in_flight(),
        streams.len(),
        "every request has one end: {:?}",
        inbox.events
    );
}

/// What a client's owner may do with an exchange meanwhile: continue its body, end it, consume the response's body, or
/// reset the exchange.
fn meddle(
    connection: &mut ClientConnection,
    stream: StreamId,
    (n, piece): (usize, &[u8]),
    inbox: &mut Inbox<ClientEvent>,
) {
    match piece.first().map_or(0, |byte| usize::from(*byte) + n) % 16 {
        0 => connection.streams().end_body(stream),
        1 => {
            let trailers = Trailers::relayed(vec![Field::new("x-end", "1")]);
            let trailers = trailers.expect("these trailers are valid");
            connection.streams().end_body_with(stream, &trailers);
        }
        2 => {
            let before = connection.in_flight();
            connection.streams().reset(stream, 0x8);
            // No more events may follow for an exchange that we reset.
            if connection.in_flight() < before {
                let code = 0x8;
                inbox.events.push(ClientEvent::StreamReset { stream, code });
            }
        }
        3..8 => (connection.streams()).consume(stream, piece.len() as u64 * 10),
        _ => {
            let room = connection.streams().body_room(stream);
            let bytes = vec![b'y'; room.min(20_000)];
            let taken = connection.streams().send_body(stream, &bytes);
            assert!(taken <= room, "there was room for {room} bytes");
        }
    }
}

fn take_client_output(connection: &mut ClientConnection, inbox: &mut Inbox<ClientEvent>) {
    let len = connection.output(Time::ZERO).len();
    assert!(len <= MAX_OUTPUT_BYTES);
    connection.advance_output(len, inbox);
}

fn server(protocol: Protocol, opening: &[u8], input: &[u8]) {
    let (cut, is_polite, bytes) = choices(input);
    let mut connection = ServerConnection::plain(protocol.version(), &settings(input))
        .expect("these settings are valid");
    let response = Arc::new(Response::new(200, &[], body()).expect("this response is valid"));
    let mut inbox = Inbox::new(ALL);
    let opening = if is_polite { opening } else { &[] };
    for piece in [opening].into_iter().chain(bytes.chunks(cut)) {
        let heard = inbox.events.len();
        if connection.receive(piece, &mut inbox).is_err() {
            assert!(
                connection.receive(piece, &mut inbox).is_err(),
                "errors are final"
            );
            break;
        }
        for event in &inbox.events[heard..] {
            if let ServerEvent::RequestHead { stream, .. } = event {
                // The same piece may have reset the stream.
                let _ = connection.streams().respond(*stream, &response);
            }
        }
        take_server_output(&mut connection, &mut inbox);
    }
    let _ = connection.receive_end(&mut inbox);
    take_server_output(&mut connection, &mut inbox);
    let count =
        |is: fn(&ServerEvent) -> bool| inbox.events.iter().filter(|event| is(event)).count();
    let heads = count(|event| matches!(event, ServerEvent::RequestHead { .. }));
    assert!(count(|event| matches!(event, ServerEvent::RequestEnd { .. })) <= heads);
    assert!(count(|event| matches!(event, ServerEvent::ResponseWritten { .. })) <= heads);
}

fn take_server_output(connection: &mut ServerConnection, inbox: &mut Inbox<ServerEvent>) {
    let len = connection.output(Time::ZERO).len();
    assert!(len <= MAX_OUTPUT_BYTES);
    connection.advance_output(len, inbox);
}
