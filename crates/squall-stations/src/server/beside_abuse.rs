//! A good client beside abusive ones over HTTP/2: how many turns of the server its requests take.
//!
//! Turns are counted, because on a busy machine any latency is possible: the ratio of two medians of a few hundred microseconds
//! says more about the machine than about the server. A turn reads at most `buffers::READS_A_TURN` times from each connection,
//! so a bound on turns also bounds the processor time that abuse can take before a request is served. squall-http tests after
//! how many frames abuse ends a connection (`h2::allowance`, `h3::allowance`). squall tests that all requests of good clients
//! succeed meanwhile (`hostile`, `hostile_quic`).

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::thread;

use squall_base::plan::Version;

use super::*;

/// How many requests the good client sends, one after the other, in each part of a test.
const REQUESTS: u32 = 9;
const ABUSIVE_CLIENTS: usize = 2;

/// The preface and SETTINGS.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// HEADERS with END_HEADERS on stream 1: POST http://a/ (RFC 7541, appendix A).
const POST: &[u8] = b"\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01a";
/// DATA of one byte on stream 1. It may be sent forever, because a conversation may consist of such frames.
const BYTE: [u8; 10] = [0, 0, 1, 0, 0, 0, 0, 0, 1, b'x'];

fn server(stop: &StopSignal) -> Server {
    let settings = ServerSettings {
        idle_timeout: Some(Duration::from_secs(600)),
        ..ServerSettings::for_test(ListenerProtocol::Plain(Version::Http2), 5)
    };
    Server::listen(settings, stop.clone()).unwrap()
}

/// A client that the server has accepted and read from.
fn connect(server: &mut Server, opening: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(server.addresses().unwrap()[0]).unwrap();
    client.write_all(opening).unwrap();
    let accepted = server.peers.len() + 1;
    let give_up = clock::now() + Duration::from_secs(20);
    while server.peers.len() < accepted {
        assert!(clock::now() < give_up, "it is not accepted");
        server.turn().unwrap();
    }
    client
}

/// HEADERS with END_HEADERS and END_STREAM: GET http://a/.
fn get(stream: u32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 6, 1, 5];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(b"\x82\x86\x84\x41\x01a");
    bytes
}

struct Abusive {
    stream: TcpStream,
    /// How much of a frame was sent last.
    sent: usize,
}

impl Abusive {
    fn connect(server: &mut Server) -> Abusive {
        let stream = connect(server, &[OPENING, POST].concat());
        stream.set_nonblocking(true).unwrap();
        Abusive { stream, sent: 0 }
    }

    /// Sends until no more fits into the buffers of both sockets.
    fn fill(&mut self, frames: &[u8]) {
        loop {
            match self.stream.write(&frames[self.sent..]) {
                Ok(count) => self.sent = (self.sent + count) % BYTE.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// How many turns each request of the good client takes, from when it has arrived until its response was written.
fn turns(
    server: &mut Server,
    good: &mut TcpStream,
    streams: impl Iterator<Item = u32>,
    abusive: &mut [Abusive],
) -> Vec<u64> {
    let frames = BYTE.repeat(6_000);
    let give_up = clock::now() + Duration::from_secs(60);
    let mut turns = Vec::new();
    for stream in streams {
        good.write_all(&get(stream)).unwrap();
        // The good client was the first to connect.
        let socket = server.peers[&0].tcp.socket();
        while !socket.peek(&mut [0]).is_ok_and(|count| count > 0) {
            assert!(clock::now() < give_up, "it does not arrive");
            thread::yield_now();
        }
        let (before, mut count) = (server.service.responses_written, 0);
        while server.service.responses_written == before {
            assert!(clock::now() < give_up, "{count} turns");
            abusive.iter_mut().for_each(|client| client.fill(&frames));
            server.turn().unwrap();
            count += 1;
        }
        turns.push(count);
    }
    turns.sort_unstable();
    turns
}

#[test]
fn requests_beside_abuse_take_no_more_than_twice_the_turns() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(&stop);
    let mut good = connect(&mut server, OPENING);
    let streams = |first: u32| (first..first + REQUESTS).map(|number| 2 * number + 1);
    let alone = turns(&mut server, &mut good, streams(0), &mut []);
    let mut abusive = [(); ABUSIVE_CLIENTS].map(|()| Abusive::connect(&mut server));
    let beside = turns(&mut server, &mut good, streams(REQUESTS), &mut abusive);
    let median = |turns: &[u64]| turns[turns.len() / 2];
    assert!(
        median(&beside) <= 2 * median(&alone),
        "{beside:?} beside abuse, {alone:?} without"
    );
    // No connection was closed: this abuse is allowed, and every request had its response.
    assert_eq!(server.peers.len(), 1 + ABUSIVE_CLIENTS);
    assert_eq!(server.service.responses_written, 2 * u64::from(REQUESTS));
}
