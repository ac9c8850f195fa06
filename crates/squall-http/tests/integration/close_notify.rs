//! HTTP/1.1 and HTTP/2 over TLS when the peer sends close_notify but leaves TCP open.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_base::plan::{SideSettings, TlsSettings, TlsVersion};
use squall_http::tls::{
    ClientContext, Identity, ServerContext, Session, TlsError, Trust, Validity,
};
use squall_http::{
    Body, ClientConnection, ClientEvent, ConnectionError, Inbox, Response, ServerConnection,
    ServerEvent, StreamId, StreamIo, SubmitError,
};

use crate::common::{NOW, request, response};

const VERSIONS: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];
const HTTP: [&str; 2] = ["http/1.1", "h2"];

/// Both contexts for a version, with this protocol as the only one.
fn contexts(version: TlsVersion, alpn: &str) -> (ClientContext, ServerContext) {
    let settings = TlsSettings {
        min_version: version,
        max_version: version,
        ..TlsSettings::default()
    };
    let validity = Validity {
        not_before_unix_s: 1_577_836_800,
        days: 36_500,
    };
    let identity = Identity::self_signed(&["server"], validity).unwrap();
    (
        ClientContext::new(&settings, &[alpn], &Trust::Anyone).unwrap(),
        ServerContext::new(&settings, &[alpn], &identity).unwrap(),
    )
}

/// A client, and a bare TLS server that can send what ours never does.
struct AtClient {
    client: ClientConnection,
    inbox: Inbox<ClientEvent>,
    peer: Session,
}

impl AtClient {
    fn new(version: TlsVersion) -> AtClient {
        let (client, peer) = contexts(version, "http/1.1");
        let settings = SideSettings::default();
        let mut pair = AtClient {
            client: ClientConnection::secure(&client, Some("server"), &settings).unwrap(),
            inbox: Inbox::default(),
            peer: Session::server(&peer).unwrap(),
        };
        while pair.up() > 0 {
            pair.down().unwrap();
        }
        assert!(pair.client.is_ready());
        pair
    }

    /// Moves everything to the server; returns how much.
    fn up(&mut self) -> usize {
        let output = self.client.output(NOW).to_vec();
        self.client.advance_output(output.len(), &mut self.inbox);
        self.peer.receive(&output, |_, _| {}).unwrap();
        output.len()
    }

    /// Moves everything to the client, in one read.
    fn down(&mut self) -> Result<(), ConnectionError> {
        let output = self.peer.output().to_vec();
        self.peer.advance_output(output.len());
        self.client.receive(&output, &mut self.inbox)
    }

    /// Sends the server's response to a request, followed by close_notify.
    fn answer(&mut self, answer: &str) -> Result<(), ConnectionError> {
        self.client.streams().submit(&request("GET", 0)).unwrap();
        self.up();
        assert_eq!(self.peer.encrypt(answer.as_bytes(), NOW), answer.len());
        self.peer.close_notify();
        self.down()
    }

    fn ends(&self) -> usize {
        let is_end = |event: &&ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
        self.inbox.events.iter().filter(is_end).count()
    }
}

#[test]
fn close_notify_completes_a_body_delimited_by_the_end_of_the_connection() {
    for version in VERSIONS {
        let mut pair = AtClient::new(version);
        pair.answer("HTTP/1.0 200 OK\r\n\r\nall of it").unwrap();
        assert_eq!(pair.ends(), 1);
        assert!(pair.client.has_received_end());
        assert_eq!((pair.client.in_flight(), pair.client.is_open()), (0, false));
        // The end of TCP after it reports nothing new.
        assert_eq!(pair.client.receive_end(&mut pair.inbox), Ok(()));
        assert_eq!(pair.ends(), 1);
    }
}

#[test]
fn after_close_notify_no_request_is_taken() {
    for version in VERSIONS {
        let mut pair = AtClient::new(version);
        pair.answer("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
            .unwrap();
        assert_eq!(pair.ends(), 1);
        assert!(!pair.client.is_open() && !pair.client.is_ready());
        let next = pair.client.streams().submit(&request("GET", 0));
        assert_eq!(next, Err(SubmitError::Closed));
    }
}

#[test]
fn close_notify_inside_a_response_is_an_error() {
    let mut pair = AtClient::new(TlsVersion::Tls13);
    let cut = pair.answer("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nn");
    assert_eq!(cut, Err(ConnectionError::UnexpectedEnd));
    assert!(pair.client.has_received_end());
    let again = pair.client.receive(b"more", &mut pair.inbox);
    assert_eq!(again, cut);
    assert_eq!(pair.client.receive_end(&mut pair.inbox), cut);
}

#[test]
fn an_end_without_close_notify_is_truncation() {
    let mut pair = AtClient::new(TlsVersion::Tls13);
    pair.client.streams().submit(&request("GET", 0)).unwrap();
    pair.up();
    pair.peer.encrypt(b"HTTP/1.0 200 OK\r\n\r\nall of it?", NOW);
    pair.down().unwrap();
    let truncated = Err(ConnectionError::Tls(TlsError::Truncated));
    assert_eq!(pair.client.receive_end(&mut pair.inbox), truncated);
    assert!(!pair.client.has_received_end());
    assert_eq!(pair.ends(), 0);
}

#[test]
fn input_after_close_notify_is_ignored() {
    let mut pair = AtClient::new(TlsVersion::Tls13);
    pair.answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let heard = pair.inbox.events.len();
    // A record header that promises more than follows, many times.
    for _ in 0..10_000 {
        let flood = [0x17, 3, 3, 0x40, 0].repeat(100);
        assert_eq!(pair.client.receive(&flood, &mut pair.inbox), Ok(()));
    }
    assert_eq!(pair.inbox.events.len(), heard);
    assert!(pair.client.output(NOW).is_empty());
}

/// Our client and our server.
struct Both {
    client: ClientConnection,
    client_inbox: Inbox<ClientEvent>,
    server: ServerConnection,
    server_inbox: Inbox<ServerEvent>,
}

impl Both {
    fn new(version: TlsVersion, alpn: &str) -> Both {
        let (client, server) = contexts(version, alpn);
        let settings = SideSettings::default();
        let mut pair = Both {
            client: ClientConnection::secure(&client, Some("server"), &settings).unwrap(),
            client_inbox: Inbox::default(),
            server: ServerConnection::secure(&server, &settings).unwrap(),
            server_inbox: Inbox::default(),
        };
        while pair.up().unwrap() + pair.down() > 0 {}
        assert!(pair.client.is_ready());
        pair
    }

    fn up(&mut self) -> Result<usize, ConnectionError> {
        let output = self.client.output(NOW).to_vec();
        self.client
            .advance_output(output.len(), &mut self.client_inbox);
        self.server.receive(&output, &mut self.server_inbox)?;
        Ok(output.len())
    }

    fn down(&mut self) -> usize {
        let output = self.server.output(NOW).to_vec();
        self.server
            .advance_output(output.len(), &mut self.server_inbox);
        self.client
            .receive(&output, &mut self.client_inbox)
            .unwrap();
        output.len()
    }

    fn submit(&mut self, body: usize) -> StreamId {
        let stream = self
            .client
            .streams()
            .submit(&request("POST", body))
            .unwrap();
        self.client.output(NOW);
        stream
    }
}

#[test]
fn close_notify_ends_an_idle_connection_on_both_sides() {
    for version in VERSIONS {
        for alpn in HTTP {
            let mut pair = Both::new(version, alpn);
            pair.client.close();
            assert!(pair.up().unwrap() > 0);
            assert!(pair.server.has_received_end() && !pair.server.is_open());
            assert!(pair.server.output(NOW).is_empty());
            pair.server.close();
            assert!(pair.down() > 0, "{alpn}: it is answered");
            assert!(pair.client.has_received_end() && !pair.client.is_open());
        }
    }
}

#[test]
fn a_server_still_answers_requests_received_before_close_notify() {
    for version in VERSIONS {
        for alpn in HTTP {
            let mut pair = Both::new(version, alpn);
            let stream = pair.submit(10);
            pair.client.close();
            pair.up().unwrap();
            assert!(pair.server.has_received_end());
            assert!(pair.server.is_open(), "{alpn}: a request waits");
            // The end of TCP changes nothing.
            assert_eq!(pair.server.receive_end(&mut pair.server_inbox), Ok(()));
            pair.server
                .streams()
                .respond(stream, &response(200, 10))
                .unwrap();
            while pair.down() > 0 {}
            assert!(!pair.server.is_open(), "{alpn}: all was written");
            assert_eq!(pair.client.in_flight(), 0);
            assert!(!pair.client.has_received_end());
        }
    }
}

#[test]
fn close_notify_inside_a_request_is_an_error() {
    for alpn in HTTP {
        let mut pair = Both::new(TlsVersion::Tls13, alpn);
        // More than HTTP/2's windows and one write hold.
        pair.submit(1_000_000);
        pair.client.close();
        assert_eq!(pair.up(), Err(ConnectionError::UnexpectedEnd), "{alpn}");
        assert!(!pair.server.is_open());
        let end = pair.server.receive_end(&mut pair.server_inbox);
        assert_eq!(end, Err(ConnectionError::UnexpectedEnd));
    }
}

#[test]
fn close_notify_inside_a_handshake_is_a_tls_error() {
    let (client, server) = contexts(TlsVersion::Tls12, "h2");
    let hello = Session::client(&client, Some("server")).unwrap();
    let mut server = ServerConnection::secure(&server, &SideSettings::default()).unwrap();
    let mut inbox = Inbox::default();
    server.receive(hello.output(), &mut inbox).unwrap();
    // An unencrypted alert: warning, close_notify (RFC 5246, section 7.2).
    let ended = server.receive(&[0x15, 3, 3, 0, 2, 1, 0], &mut inbox);
    assert!(matches!(ended, Err(ConnectionError::Tls(_))), "{ended:?}");
    assert!(!server.is_open());
}

/// A bare TLS client that speaks HTTP/1.0, with a partly sent response of unknown length.
fn half_answered() -> (ServerConnection, Inbox<ServerEvent>, Session) {
    let (client, server) = contexts(TlsVersion::Tls13, "http/1.1");
    let mut peer = Session::client(&client, Some("server")).unwrap();
    let mut server = ServerConnection::secure(&server, &SideSettings::default()).unwrap();
    let mut inbox = Inbox::default();
    while !peer.is_secured() || !peer.output().is_empty() {
        server.receive(peer.output(), &mut inbox).unwrap();
        peer.advance_output(peer.output().len());
        hear(&mut peer, &mut server, &mut inbox);
    }
    peer.encrypt(b"GET / HTTP/1.0\r\n\r\n", NOW);
    server.receive(peer.output(), &mut inbox).unwrap();
    let unknown = Response::new(200, &[], Body::Streamed { length: None }).unwrap();
    server
        .streams()
        .respond(StreamId(0), &Arc::new(unknown))
        .unwrap();
    assert!(!server.must_reset(), "nothing was sent");
    server.streams().send_body(StreamId(0), b"abc");
    let heard = hear(&mut peer, &mut server, &mut inbox);
    assert!(heard.ends_with(b"\r\n\r\nabc"));
    (server, inbox, peer)
}

/// Moves everything to that client.
fn hear(
    peer: &mut Session,
    server: &mut ServerConnection,
    inbox: &mut Inbox<ServerEvent>,
) -> Vec<u8> {
    let mut heard = Vec::new();
    let output = server.output(NOW).to_vec();
    server.advance_output(output.len(), inbox);
    peer.receive(&output, |_, record| heard.extend_from_slice(record.bytes))
        .unwrap();
    heard
}

#[test]
fn a_server_sends_no_close_notify_after_a_partial_response() {
    let (mut server, mut inbox, mut peer) = half_answered();
    assert!(server.must_reset());
    server.close();
    assert_eq!(hear(&mut peer, &mut server, &mut inbox), b"");
    assert!(!peer.received_close_notify());
    // Nor after it has abandoned the response.
    server.streams().reset(StreamId(0), 0);
    assert!(server.must_reset() && !server.is_open());
    server.close();
    hear(&mut peer, &mut server, &mut inbox);
    assert!(!peer.received_close_notify());
}

#[test]
fn a_server_sends_close_notify_to_end_a_response_without_length() {
    let (mut server, mut inbox, mut peer) = half_answered();
    server.streams().end_body(StreamId(0));
    assert!(!server.must_reset() && !server.is_open());
    inbox.clear();
    server.advance_output(0, &mut inbox);
    let written = |event: &ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
    assert!(matches!(&inbox.events[..], [event] if written(event)));
    server.close();
    hear(&mut peer, &mut server, &mut inbox);
    assert!(peer.received_close_notify());
}

/// This is not truncation: the client has received everything.
#[test]
fn a_complete_response_counts_as_written_when_tcp_ends() {
    let (mut server, mut inbox, _peer) = half_answered();
    server.streams().end_body(StreamId(0));
    inbox.clear();
    assert_eq!(server.receive_end(&mut inbox), Ok(()));
    let written = |event: &ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
    assert!(matches!(&inbox.events[..], [event] if written(event)));
}
