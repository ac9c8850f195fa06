//! HTTP/2 clients that send many requests but open no window for the responses, and what the server does when all clients
//! together hold too much.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use squall_base::Duration;
use squall_base::plan::Version;

use super::*;
use crate::memory::MAX_BYTES;

const REQUESTS: u32 = 100;
const TARGET: &[u8] = b"/?size=64MiB";

fn server(stop: &StopSignal) -> Server {
    let settings = ServerSettings {
        // A turn ends after a second at most, for the check of idle connections.
        idle_timeout: Some(Duration::from_secs(600)),
        ..ServerSettings::for_test(ListenerProtocol::Plain(Version::Http2), 1)
    };
    Server::listen(settings, stop.clone()).unwrap()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The preface, SETTINGS_INITIAL_WINDOW_SIZE 0, and this many complete requests.
fn requests(count: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(0x4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    // :method GET, :scheme http, :path as a literal, :authority x (RFC 7541, appendix A).
    let mut head = vec![0x82, 0x86, 0x04, TARGET.len() as u8];
    head.extend(TARGET);
    head.extend([0x01, 1, b'x']);
    for number in 0..count {
        bytes.extend(frame(0x1, 0x5, 2 * number + 1, &head));
    }
    bytes
}

/// What the server holds for this many requests without window: their methods and targets.
fn held_for(requests: u32) -> usize {
    requests as usize * (b"GET".len() + TARGET.len())
}

fn held_bytes(server: &Server) -> usize {
    server.peers.values().map(|peer| peer.held_bytes()).sum()
}

#[test]
fn responses_without_window_take_no_memory_and_end_with_their_client() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(&stop);
    let mut client = TcpStream::connect(server.addresses().unwrap()[0]).unwrap();
    client.write_all(&requests(REQUESTS)).unwrap();
    let heads = held_for(REQUESTS);
    let give_up = clock::now() + Duration::from_secs(10);
    while held_bytes(&server) < heads {
        assert!(clock::now() < give_up, "{} bytes", held_bytes(&server));
        server.turn().unwrap();
    }
    assert_eq!(held_bytes(&server), heads, "no byte of a body");
    assert!(!server.peers.is_empty());
    // The client can no longer open a window.
    client.shutdown(Shutdown::Write).unwrap();
    while !server.peers.is_empty() {
        assert!(clock::now() < give_up, "the connection is kept");
        server.turn().unwrap();
    }
    assert_eq!(held_bytes(&server), 0);
}

/// The test adds what other clients would hold to the server's own count, so it tests the real limit without taking that
/// much memory.
#[test]
fn client_that_holds_the_most_is_closed_when_all_hold_too_much() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(&stop);
    let address = server.addresses().unwrap()[0];
    let [mut large, mut small] = [REQUESTS, 1].map(|count| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&requests(count)).unwrap();
        client
    });
    let give_up = clock::now() + Duration::from_secs(10);
    while held_bytes(&server) < held_for(REQUESTS) + held_for(1) {
        assert!(clock::now() < give_up, "{} bytes", held_bytes(&server));
        server.turn().unwrap();
    }
    assert_eq!(server.peers.len(), 2);
    assert!(server.report.machine_errors.is_empty());

    let mut others = 0;
    (server.service.memory).update(&mut others, MAX_BYTES - 1_000);
    // WINDOW_UPDATE by 1,000 bytes for its stream.
    let update = frame(0x8, 0, 1, &1_000_u32.to_be_bytes());
    small.write_all(&update).unwrap();
    small.set_nonblocking(true).unwrap();
    let mut received = 0;
    while received < 1_000 {
        assert!(clock::now() < give_up, "{received} bytes of the response");
        server.turn().unwrap();
        match small.read(&mut [0; 4_096]) {
            Ok(len) => {
                assert!(len > 0, "the wrong one was closed");
                received += len;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(server.peers.len(), 1);
    let closed = server.report.machine_errors.get(memory::CLOSED);
    assert_eq!(closed, Some(&1));
    assert!(!server.service.memory.is_exceeded());
    let end = large.read_to_end(&mut Vec::new());
    let is_closed = end.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true);
    assert!(is_closed, "the largest is open");
}
