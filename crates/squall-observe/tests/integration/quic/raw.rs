//! quiche's own client and server, without squall's engines: Retry, a client whose address changes, and a connection
//! that is closed.

use std::net::SocketAddr;

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::h3::{self, NameValue};
use quiche::{ConnectionId, RecvInfo};
use squall_base::record::{Direction, FrameLayer, Side, Way};
use squall_http::tls::{Identity, Validity};
use squall_observe::{Ending, Transport};

use super::link::{self, CLIENT, Link, SERVER};

const REBOUND: &str = "10.0.0.1:4999";
const PATH_CHALLENGE: u64 = 0x1a;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(identity: Option<&Identity>) -> quiche::Config {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    if let Some(identity) = identity {
        identity.install(&mut tls).unwrap();
    }
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
    config
        .set_application_protos(h3::APPLICATION_PROTOCOL)
        .unwrap();
    config.verify_peer(false);
    config.log_keys();
    config.set_max_idle_timeout(5_000);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_stream_data_uni(1_000_000);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    config.set_active_connection_id_limit(4);
    config
}

/// Key log lines that a connection writes, shared with their reader.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Conversation {
    client: quiche::Connection,
    server: Option<quiche::Connection>,
    http: Option<h3::Connection>,
    answering: Option<h3::Connection>,
    identity: Identity,
    uses_retry: bool,
    /// The client's address as the server sees it behind a NAT.
    seen_as: SocketAddr,
    link: Link,
    keys: Lines,
    answers: usize,
}

impl Conversation {
    fn new(uses_retry: bool) -> Conversation {
        let validity = Validity {
            not_before_unix_s: 1_700_000_000,
            days: 36_500,
        };
        let id = ConnectionId::from_ref(&[7; 16]);
        let (client, server) = (address(CLIENT), address(SERVER));
        let mut client =
            quiche::connect(Some("server"), &id, client, server, &mut config(None)).unwrap();
        let keys = Lines::default();
        client.set_keylog(Box::new(keys.clone()));
        Conversation {
            client,
            server: None,
            http: None,
            answering: None,
            identity: Identity::self_signed(&["server"], validity).unwrap(),
            uses_retry,
            seen_as: address(CLIENT),
            link: Link::default(),
            keys,
            answers: 0,
        }
    }

    /// Carries packets until both sides have nothing more to send.
    fn run(&mut self) {
        let mut buffer = [0; 2_000];
        loop {
            let mut is_silent = true;
            while let Ok((length, _)) = self.client.send(&mut buffer) {
                is_silent = false;
                self.up(&mut buffer[..length]);
            }
            self.serve();
            while let Some(server) = &mut self.server
                && let Ok((length, info)) = server.send(&mut buffer)
            {
                is_silent = false;
                self.down(&mut buffer[..length], info.to);
            }
            self.fetch();
            if is_silent {
                return;
            }
        }
    }

    fn up(&mut self, datagram: &mut [u8]) {
        let ends = (self.seen_as, address(SERVER));
        self.link.carry(Direction::Up, ends, datagram, false);
        if self.server.is_none() {
            self.accept(datagram);
        }
        let info = RecvInfo {
            from: self.seen_as,
            to: address(SERVER),
        };
        if let Some(server) = &mut self.server {
            let _ = server.recv(datagram, info);
        }
    }

    /// Creates the server's side, or sends the client a Retry.
    fn accept(&mut self, datagram: &mut [u8]) {
        let header = quiche::Header::from_slice(datagram, 16).unwrap();
        let id = ConnectionId::from_ref(&[9; 16]);
        let (client, server) = (self.seen_as, address(SERVER));
        let token = header.token.clone().unwrap_or_default();
        if self.uses_retry && token.is_empty() {
            let mut retry = [0; 200];
            let version = quiche::PROTOCOL_VERSION;
            let length = quiche::retry(
                &header.scid,
                &header.dcid,
                &id,
                &header.dcid,
                version,
                &mut retry,
            );
            self.down(&mut retry[..length.unwrap()], client);
            return;
        }
        let mut config = config(Some(&self.identity));
        let first = ConnectionId::from_ref(&token);
        let first = self.uses_retry.then_some(&first);
        let accepted = quiche::accept(&id, first, server, client, &mut config);
        self.server = Some(accepted.unwrap());
    }

    fn down(&mut self, datagram: &mut [u8], to: SocketAddr) {
        let ends = (address(SERVER), to);
        self.link.carry(Direction::Down, ends, datagram, false);
        let info = RecvInfo {
            from: address(SERVER),
            to: address(CLIENT),
        };
        let _ = self.client.recv(datagram, info);
    }

    fn serve(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        if self.answering.is_none() && server.is_established() {
            let config = h3::Config::new().unwrap();
            self.answering = h3::Connection::with_transport(server, &config).ok();
        }
        let Some(http) = &mut self.answering else {
            return;
        };
        while let Ok((stream, event)) = http.poll(server) {
            if matches!(event, h3::Event::Finished) {
                let head = [h3::Header::new(b":status", b"200")];
                http.send_response(server, stream, &head, false).unwrap();
                http.send_body(server, stream, &[b'a'; 5_000], true)
                    .unwrap();
            }
        }
    }

    fn fetch(&mut self) {
        if self.http.is_none() && self.client.is_established() {
            let config = h3::Config::new().unwrap();
            self.http = h3::Connection::with_transport(&mut self.client, &config).ok();
        }
        let Some(http) = &mut self.http else {
            return;
        };
        let mut body = [0; 10_000];
        while let Ok((stream, event)) = http.poll(&mut self.client) {
            match event {
                h3::Event::Headers { list, .. } => assert_eq!(list[0].value(), b"200"),
                h3::Event::Data => {
                    while http.recv_body(&mut self.client, stream, &mut body).is_ok() {}
                }
                h3::Event::Finished => self.answers += 1,
                _ => {}
            }
        }
    }

    /// Sends a request and runs until its response is complete.
    fn request(&mut self) {
        self.run();
        let head = [
            h3::Header::new(b":method", b"GET"),
            h3::Header::new(b":scheme", b"https"),
            h3::Header::new(b":authority", b"server"),
            h3::Header::new(b":path", b"/"),
        ];
        let http = self.http.as_mut().unwrap();
        http.send_request(&mut self.client, &head, true).unwrap();
        self.run();
    }

    fn close(mut self) -> (Link, String) {
        self.client.close(true, 0x100, b"").unwrap();
        self.run();
        let text = self.keys.0.lock().unwrap().clone();
        (self.link, String::from_utf8(text).unwrap())
    }
}

#[test]
fn connection_after_a_retry_is_read() {
    let mut conversation = Conversation::new(true);
    conversation.request();
    assert_eq!(conversation.answers, 1);
    let (link, keys) = conversation.close();
    let rows = link::observe(&link, &keys, true);
    for side in Side::ALL {
        let connection = link::connection(&rows, side);
        assert_eq!(
            (connection.opaque, connection.ending),
            (None, Ending::Closed)
        );
        let exchanges = link::exchanges(&rows, side);
        assert_eq!(exchanges.len(), 1);
        assert_eq!(exchanges[0].response_body_bytes, 5_000);
    }
}

#[test]
fn nat_rebinding_keeps_one_connection() {
    let mut conversation = Conversation::new(false);
    conversation.request();
    conversation.seen_as = address(REBOUND);
    conversation.request();
    conversation.request();
    assert_eq!(conversation.answers, 3);
    let (link, keys) = conversation.close();
    let rows = link::observe(&link, &keys, true);
    for side in Side::ALL {
        let connection = link::connection(&rows, side);
        assert_eq!(connection.transport, Transport::Quic);
        assert_eq!(
            (connection.opaque, connection.client),
            (None, address(CLIENT))
        );
        assert_eq!(link::exchanges(&rows, side).len(), 3);
    }
    let received = link::frames(&rows, Side::Client, FrameLayer::Quic);
    let challenges = received
        .iter()
        .filter(|frame| frame.kind == PATH_CHALLENGE && frame.way == Way::Received);
    assert!(challenges.count() > 0, "the server validates the path");
}

#[test]
fn connections_that_share_addresses_are_distinguished() {
    let (mut link, mut keys) = (Link::default(), String::new());
    for _ in 0..2 {
        let mut conversation = Conversation::new(false);
        conversation.request();
        let (packets, lines) = conversation.close();
        link.packets.extend(packets.packets);
        keys += &lines;
    }
    let rows = link::observe(&link, &keys, true);
    assert_eq!(rows.connections.len(), 4);
    for side in Side::ALL {
        let numbers = link::exchanges(&rows, side).into_iter();
        let mut numbers: Vec<u32> = numbers.map(|row| row.connection).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
    }
}
