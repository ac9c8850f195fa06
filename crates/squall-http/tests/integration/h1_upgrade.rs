//! An HTTP/1.1 client that requests cleartext HTTP/2 (RFC 7540, section 3.2).
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_base::plan::Http1Settings;
use squall_http::{
    Body, ClientEvent, ConnectionError, Engine, Inbox, Request, Scheme, StreamId, SubmitError, h1,
};

const STREAM: StreamId = StreamId(0);

const ASKING: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n";

const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

fn get() -> Arc<Request> {
    Arc::new(Request::new("GET", Scheme::Http, "a", "/", &[], Body::EMPTY).unwrap())
}

/// A client that has sent its upgrade request.
fn asking(inbox: &mut Inbox<ClientEvent>) -> h1::Client {
    let mut client = h1::Client::with_upgrade(&Http1Settings::default(), "AAMAAABk").unwrap();
    client.submit(&get()).unwrap();
    assert_eq!(client.output(), ASKING.as_bytes());
    client.advance_output(ASKING.len(), inbox);
    client
}

#[test]
fn a_switch_by_the_server_is_reported() {
    let text = [SWITCHING.as_bytes(), b"HTTP/2"].concat();
    for at in 1..=text.len() {
        let mut inbox = Inbox::default();
        let mut client = asking(&mut inbox);
        let (left, right) = text.split_at(at);
        client.receive(left, &mut inbox).unwrap();
        let mut unread = Vec::new();
        if at < SWITCHING.len() {
            assert_eq!(client.take_switch(), None);
            client.receive(right, &mut inbox).unwrap();
        } else {
            unread = right.to_vec();
        }
        assert_eq!((client.in_flight(), client.is_open()), (1, false));
        let switched = client.take_switch().unwrap();
        assert_eq!(switched.stream, STREAM);
        assert_eq!([switched.unread, unread].concat(), b"HTTP/2");
        assert_eq!(switched.sent, ASKING.len() as u64);
        assert_eq!(switched.received, SWITCHING.len() as u64);
        assert_eq!(client.take_switch(), None);
        assert_eq!((client.in_flight(), client.is_ready()), (0, false));
        let stream = STREAM;
        assert_eq!(
            inbox.events.last(),
            Some(&ClientEvent::ResponseFirstByte { stream, offset: 0 })
        );
    }
}

#[test]
fn without_a_switch_the_connection_stays_on_http1() {
    let mut inbox = Inbox::default();
    let mut client = asking(&mut inbox);
    let response = b"HTTP/1.1 200 OK\r\nupgrade: h2c\r\ncontent-length: 0\r\n\r\n";
    client.receive(response, &mut inbox).unwrap();
    assert_eq!(client.take_switch(), None);
    assert_eq!(client.submit(&get()), Ok(StreamId(1)));
    assert_eq!(
        client.output(),
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "it asks once"
    );
    client.advance_output(1, &mut inbox);
    assert_eq!(
        client.receive(SWITCHING.as_bytes(), &mut inbox),
        Err(ConnectionError::UnexpectedUpgrade)
    );
    assert_eq!(client.submit(&get()), Err(SubmitError::Closed));
}

#[test]
fn unexpected_switches_are_errors() {
    let other = "HTTP/1.1 101 \r\nupgrade: websocket\r\n\r\n";
    let mut client = asking(&mut Inbox::default());
    let error = client.receive(other.as_bytes(), &mut Inbox::default());
    assert_eq!(error, Err(ConnectionError::UnexpectedUpgrade));

    let mut early = h1::Client::with_upgrade(&Http1Settings::default(), "").unwrap();
    early.submit(&get()).unwrap();
    early.advance_output(10, &mut Inbox::default());
    let error = early.receive(SWITCHING.as_bytes(), &mut Inbox::default());
    assert_eq!(error, Err(ConnectionError::UnexpectedUpgrade));

    assert!(h1::Client::with_upgrade(&Http1Settings::default(), "a\r\nb: c").is_err());
}
