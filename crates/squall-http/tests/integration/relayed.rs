//! What an intermediary needs from the engines: trailers both ways, the authority, and relayed messages.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_base::plan::Protocol;
use squall_http::{
    Body, ClientEvent, Field, Inbox, InboxOptions, MessageError, Request, RequestLine, Response,
    Scheme, ServerEvent, StreamId, StreamIo, Trailers,
};

use crate::common;
use crate::common::Pair;

const WANTS: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: false,
};

fn field(name: &str, value: &str) -> Field {
    Field::new(name, value)
}

fn line() -> RequestLine {
    RequestLine {
        method: "POST".to_owned(),
        scheme: Scheme::Http,
        authority: "server:80".to_owned(),
        target: "/".to_owned(),
    }
}

fn pair(protocol: Protocol) -> Pair {
    let mut pair = Pair::new(protocol);
    pair.client_inbox = Inbox::new(WANTS);
    pair.server_inbox = Inbox::new(WANTS);
    pair.answers = common::Answers::Never;
    pair
}

fn run(pair: &mut Pair) {
    while pair.up() + pair.down() > 0 {}
}

#[test]
fn trailers_are_carried_both_ways() {
    for protocol in common::PROTOCOLS {
        let mut pair = pair(protocol);
        let fields = vec![field("te", "trailers"), field("x-bytes", "a\u{e9}b")];
        let body = Body::Streamed { length: None };
        let request = Arc::new(Request::relayed(line(), fields, body.clone()).unwrap());
        let stream = pair.client.streams().submit(&request).unwrap();
        run(&mut pair);
        assert_eq!(pair.client.streams().send_body(stream, b"abc"), 3);
        let sum = Trailers::relayed(vec![field("x-sum", "1"), field("x-more", "")]).unwrap();
        pair.client.streams().end_body_with(stream, &sum);
        run(&mut pair);
        let heard = pair.server_inbox.events.clone();
        let ServerEvent::RequestHead { fields, .. } = &heard[1] else {
            panic!("{protocol}: {heard:?}");
        };
        for expected in [
            field("host", "server:80"),
            field("te", "trailers"),
            field("x-bytes", "a\u{e9}b"),
        ] {
            assert!(fields.contains(&expected), "{protocol}: {fields:?}");
        }
        assert!(matches!(heard.last(), Some(ServerEvent::RequestEnd { .. })));
        let of = StreamId(stream.0);
        let trailers = pair.server_inbox.take_trailers(of);
        assert_eq!(trailers.as_deref(), Some(sum.fields()), "{protocol}");
        assert_eq!(pair.server_inbox.bodies, b"abc");

        let response = Response::relayed(200, vec![field("trailer", "x-sum")], body).unwrap();
        pair.respond(of, &Arc::new(response));
        run(&mut pair);
        pair.server.streams().send_body(of, b"defg");
        pair.server.streams().end_body_with(of, &sum);
        run(&mut pair);
        let trailers = pair.client_inbox.take_trailers(stream);
        assert_eq!(trailers.as_deref(), Some(sum.fields()), "{protocol}");
        let first =
            |event: &&ServerEvent| matches!(event, ServerEvent::ResponseFirstByteWritten { .. });
        let events = &pair.server_inbox.events;
        assert_eq!(events.iter().filter(first).count(), 1, "{protocol}");
        assert!(matches!(
            events.last(),
            Some(ServerEvent::ResponseWritten { .. })
        ));
        let ended = |event: &ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
        assert!(pair.client_inbox.events.last().is_some_and(ended));
    }
}

#[test]
fn trailers_can_follow_an_empty_body_immediately() {
    for protocol in common::PROTOCOLS {
        let mut pair = pair(protocol);
        let body = Body::Streamed { length: None };
        let request = Arc::new(Request::relayed(line(), Vec::new(), body).unwrap());
        let stream = pair.client.streams().submit(&request).unwrap();
        let sum = Trailers::relayed(vec![field("x-sum", "0")]).unwrap();
        pair.client.streams().end_body_with(stream, &sum);
        run(&mut pair);
        let first =
            |event: &&ClientEvent| matches!(event, ClientEvent::RequestFirstByteWritten { .. });
        let events = &pair.client_inbox.events;
        assert_eq!(events.iter().filter(first).count(), 1, "{protocol}");
        let trailers = pair.server_inbox.take_trailers(stream);
        assert_eq!(trailers.as_deref(), Some(sum.fields()), "{protocol}");
    }
}

#[test]
fn empty_trailers_are_not_sent() {
    for protocol in common::PROTOCOLS {
        let mut pair = pair(protocol);
        let body = Body::Streamed { length: None };
        let request = Arc::new(Request::relayed(line(), Vec::new(), body).unwrap());
        let stream = pair.client.streams().submit(&request).unwrap();
        pair.client
            .streams()
            .end_body_with(stream, &Trailers::default());
        run(&mut pair);
        assert_eq!(pair.server_inbox.take_trailers(stream), None);
        let last = pair.server_inbox.events.last();
        assert!(matches!(last, Some(ServerEvent::RequestEnd { .. })));
    }
}

#[test]
fn fields_that_enable_smuggling_are_not_relayed() {
    for bad in [
        field("host", "x"),
        field("content-length", "1"),
        field("transfer-encoding", "chunked"),
        field("connection", "close"),
        field("te", "gzip"),
        field("X-Upper", "x"),
        field("a b", "x"),
        field("", "x"),
        field(":path", "/"),
        field("x", "a\r\nb: c"),
        field("x", "a\nb"),
        field("x", "\0"),
        field("x", " a"),
        field("x", "a\t"),
    ] {
        let request = Request::relayed(line(), vec![bad.clone()], Body::EMPTY);
        assert!(request.is_err(), "{bad:?}");
        let response = Response::relayed(200, vec![bad.clone()], Body::EMPTY);
        assert!(response.is_err(), "{bad:?}");
        assert!(Trailers::relayed(vec![bad.clone()]).is_err(), "{bad:?}");
    }
    let mut wrong = line();
    wrong.target = "/ HTTP/1.1".to_owned();
    assert_eq!(
        Request::relayed(wrong.clone(), Vec::new(), Body::EMPTY).unwrap_err(),
        MessageError::Target(wrong.target)
    );
}
