//! Requests whose heads arrive steadily but take too long: the server ends them, and serves others.
//!
//! No test waits: each passes a later time to the check.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use squall_base::plan::{Protocol, Version};
use squall_http::{Body, Inbox, Request, Scheme, ServerEvent, StreamId, h3};

use super::exchanges::{ExchangeOwner, ServerExchanges};
use super::*;
use crate::accept::HEAD_TIMEOUT;
use crate::visitor::{Visitor, context, identity};

fn server(version: Version, stop: &StopSignal) -> Server {
    server_of(ListenerProtocol::Plain(version), stop)
}

fn server_of(protocol: ListenerProtocol, stop: &StopSignal) -> Server {
    let settings = ServerSettings {
        idle_timeout: Some(Duration::from_secs(600)),
        ..ServerSettings::for_test(protocol, 5)
    };
    Server::listen(settings, stop.clone()).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.addresses().unwrap()[0]).unwrap();
    let patience = Some(std::time::Duration::from_secs(20));
    client.set_read_timeout(patience).unwrap();
    client
}

/// Makes the server take turns until the condition holds, for at most 20 s.
fn turn_until(what: &str, server: &mut Server, is_so: impl Fn(&Server) -> bool) {
    let give_up = clock::now() + Duration::from_secs(20);
    while !is_so(server) {
        assert!(clock::now() < give_up, "not {what} within 20 s");
        server.turn().unwrap();
    }
}

/// Whether a head has begun.
fn has_begun(server: &Server) -> bool {
    (server.peers.values()).any(|peer| peer.has_slow_head(too_late()))
}

/// When a head that begins now will have taken too long.
fn too_late() -> Time {
    clock::now() + HEAD_TIMEOUT
}

#[test]
fn slow_head_over_http1_is_answered_with_408_and_others_are_served() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(Version::Http1, &stop);
    let began = clock::now();
    let mut client = connect(&server);
    let (first, second) = (b"GET / HTTP/1.1\r\n", b"host: a\r\n");
    client.write_all(first).unwrap();
    turn_until("read", &mut server, has_begun);
    server.sweep(began + (HEAD_TIMEOUT - Duration::from_secs(5)));
    assert_eq!(server.peers.len(), 1);
    client.write_all(second).unwrap();
    let length = first.len() + second.len();
    turn_until("read", &mut server, |server| {
        server
            .peers
            .values()
            .all(|peer| peer.held_bytes() == length)
    });
    // The limit counts from the head's first byte, not from its last one.
    server.sweep(too_late());
    let mut answer = [0; 1_000];
    let length = client.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    assert_eq!(client.read(&mut answer).unwrap(), 0);

    let mut other = connect(&server);
    for responses in 1..=2 {
        other
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
        turn_until("answered", &mut server, |server| {
            server.service.responses_written == responses
        });
        let length = other.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{answer:?}");
        // A whole head is never too slow, and neither is the time between two requests.
        server.sweep(too_late() + Duration::from_secs(100));
    }
}

#[test]
fn connection_with_a_slow_head_over_http2_is_closed() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(Version::Http2, &stop);
    let mut client = connect(&server);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS, and HEADERS of stream 1 without END_HEADERS: ":method: GET".
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82]);
    client.write_all(&bytes).unwrap();
    turn_until("read", &mut server, has_begun);
    server.sweep(too_late());
    assert!(server.peers.is_empty());
    // The connection ends with GOAWAY.
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let is_goaway = |frame: &[u8]| frame == [7, 0, 0, 0, 0, 0];
    assert!(answer.windows(6).any(is_goaway), "{answer:?}");
}

/// Only the stream ends.
#[test]
fn stream_with_a_slow_head_over_http3_is_reset_and_others_are_served() {
    let stop = StopSignal::new().unwrap();
    let identity = identity();
    let mut server = server_of(ListenerProtocol::Quic(identity.clone()), &stop);
    let mut context = context(&identity);
    let mut visitor = Visitor::new(&mut context, server.addresses().unwrap()[0]);
    let give_up = clock::now() + Duration::from_secs(20);
    while !visitor.engine.is_ready() {
        assert!(clock::now() < give_up, "{:?}", visitor.engine.closing());
        visitor.turn();
        server.turn().unwrap();
    }
    let held = |server: &Server| match &server.listeners[0] {
        BoundListener::Quic(quic) => quic.largest().map_or(0, |(_, bytes)| bytes),
        BoundListener::Tcp(_) => 0,
    };
    let began = clock::now();
    visitor.begin_head();
    turn_until("read", &mut server, |server| held(server) > 0);
    server.sweep(began + (HEAD_TIMEOUT - Duration::from_secs(5)));
    assert!(held(&server) > 0);
    server.sweep(too_late());
    assert_eq!(held(&server), 0);

    let serving = thread::spawn(move || server.run().unwrap());
    visitor.turn_until(|visitor| visitor.reset_code().is_some());
    assert_eq!(visitor.reset_code(), Some(h3::code::REQUEST_REJECTED));
    let get = Request::new("GET", Scheme::Https, "server", "/", &[], Body::EMPTY).unwrap();
    visitor.engine.submit(&Arc::new(get)).unwrap();
    visitor.turn_until(Visitor::has_answer);
    stop.request().unwrap();
    assert_eq!(serving.join().unwrap().responses_written, 1);
}

/// Streams of HTTP/3 are independent: only those with slow heads end.
#[test]
fn only_incomplete_heads_that_take_too_long_are_slow() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(Version::Http1, &stop);
    let began = clock::now();
    let owner = ExchangeOwner {
        connection: 0,
        peer: server.addresses().unwrap()[0],
        protocol: Protocol::H3,
    };
    let mut exchanges = ServerExchanges::default();
    let mut inbox = Inbox::new(server.wants);
    for stream in [StreamId(0), StreamId(4)] {
        inbox
            .events
            .push(ServerEvent::RequestFirstByte { stream, offset: 0 });
    }
    inbox.events.push(ServerEvent::RequestHead {
        stream: StreamId(4),
        method: "GET".to_owned(),
        target: "/".to_owned(),
        fields: Vec::new(),
        expects_continue: false,
    });
    let service = &mut server.service;
    let _answers = exchanges.apply(&mut inbox, began, owner, |_, _| None, service);
    let due = began + HEAD_TIMEOUT;
    let before = began + (HEAD_TIMEOUT - Duration::from_secs(1));
    assert!(exchanges.slow_heads(before).is_empty());
    assert_eq!(exchanges.slow_heads(due), [StreamId(0)]);
    exchanges.give_up(StreamId(0), 0, due, owner, service);
    assert!(exchanges.slow_heads(due).is_empty());
}
