//! HTTP/2 clients that request much and open no window for it.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use squall_base::Duration;
use squall_base::plan::Version;

use super::*;
use crate::LogSinks;

const REQUESTS: u32 = 100;
const TARGET: &[u8] = b"/?size=64MiB";

fn server(stop: &StopSignal) -> Server {
    let settings = ServerSettings {
        listeners: vec![Listener {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            protocol: ListenerProtocol::Plain(Version::Http2),
        }],
        side: SideSettings::default(),
        site: Site::sized(squall_base::Bytes::new(1)).unwrap(),
        log: LogSinks::default(),
        access: None,
        sample_every: Duration::from_secs(60),
        // A turn ends after a second at most, for the check of idle connections.
        idle_timeout: Some(Duration::from_secs(600)),
        seed: 0,
        is_realtime: false,
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

/// The preface, SETTINGS_INITIAL_WINDOW_SIZE 0, and complete requests.
fn requests() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(0x4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    // :method GET, :scheme http, :path as a literal, :authority x (RFC 7541, appendix A).
    let mut head = vec![0x82, 0x86, 0x04, TARGET.len() as u8];
    head.extend(TARGET);
    head.extend([0x01, 1, b'x']);
    for number in 0..REQUESTS {
        bytes.extend(frame(0x1, 0x5, 2 * number + 1, &head));
    }
    bytes
}

fn held_bytes(server: &Server) -> usize {
    server.peers.values().map(|peer| peer.held_bytes()).sum()
}

#[test]
fn responses_without_window_take_no_memory_and_end_with_their_client() {
    let stop = StopSignal::new().unwrap();
    let mut server = server(&stop);
    let mut client = TcpStream::connect(server.addresses().unwrap()[0]).unwrap();
    client.write_all(&requests()).unwrap();
    let heads = REQUESTS as usize * (b"GET".len() + TARGET.len());
    let give_up = clock::now() + Duration::from_secs(10);
    while held_bytes(&server) < heads {
        assert!(clock::now() < give_up, "{} bytes", held_bytes(&server));
        server.turn().unwrap();
    }
    assert_eq!(held_bytes(&server), heads, "no byte of a body");
    assert!(!server.peers.is_empty());
    // It can open no window any more.
    client.shutdown(Shutdown::Write).unwrap();
    while !server.peers.is_empty() {
        assert!(clock::now() < give_up, "the connection is kept");
        server.turn().unwrap();
    }
    assert_eq!(held_bytes(&server), 0);
}
