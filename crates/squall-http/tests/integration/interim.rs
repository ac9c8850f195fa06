//! Interim responses to a client that does not read: the backlog is bounded, and the final response arrives
//! nevertheless. Also: which clients wait for an interim response. HTTP/3 covers both in its own tests.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::{Http1Settings, Http2Settings};
use squall_http::{ClientEvent, Engine, Field, Inbox, Interim, ServerEvent, StreamId, h1, h2};

use crate::common::h2::{END, H2Pair, HEADERS, POST, WHOLE, client_opening, field, frame};
use crate::common::{request, response};

/// More than is ever queued for a client that reads.
const MANY: usize = 10_000;
/// Upper bound on queued interim responses of a kilobyte.
const MOST: usize = 100;

fn interim() -> Interim {
    let field = Field::new("x-hint", "y".repeat(1_000));
    Interim::relayed(103, vec![field]).unwrap()
}

#[test]
fn unread_interim_responses_are_bounded_over_http1() {
    let mut server = h1::Server::new(&Http1Settings::default()).unwrap();
    let mut inbox = Inbox::default();
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    server.receive(get, &mut inbox).unwrap();
    for _ in 0..MANY {
        server.inform(StreamId(0), &interim());
    }
    let waiting = server.output().len();
    assert!(waiting > 1_000 && waiting < 1_100 * MOST, "{waiting}");
    server.advance_output(waiting, &mut inbox);
    server.inform(StreamId(0), &interim());
    assert!(server.output().len() > 1_000);
}

#[test]
fn unread_interim_responses_are_bounded_over_http2() {
    let mut pair = H2Pair::new(&Http2Settings::default(), &Http2Settings::default());
    pair.settle();
    let stream = pair.submit(&request("GET", 0));
    while pair.up() > 0 {}
    let interims = |pair: &H2Pair| {
        let events = pair.client_inbox.events.iter();
        events
            .filter(|event| matches!(event, ClientEvent::Interim { .. }))
            .count()
    };
    for _ in 0..MANY {
        pair.server.inform(stream, &interim());
    }
    pair.settle();
    let heard = interims(&pair);
    assert!((1..MOST).contains(&heard), "{heard}");
    // The client has read what was queued, so there is room for interim responses again.
    pair.server.inform(stream, &interim());
    pair.server.respond(stream, &response(200, 5)).unwrap();
    pair.settle();
    assert_eq!(interims(&pair), heard + 1);
    let is_end = |event: &ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
    assert!(pair.client_inbox.events.iter().any(is_end));
}

/// RFC 9110, section 10.1.1: only a client with a body that has not been sent waits.
#[test]
fn owner_learns_over_http2_which_client_waits_for_a_100() {
    let expecting = [POST, &field("expect", "100-Continue")].concat();
    for (head, flags, expected) in [
        (&expecting[..], WHOLE, true),
        (&expecting[..], WHOLE | END, false),
        (POST, WHOLE, false),
    ] {
        let mut server = h2::Server::new(&Http2Settings::default()).unwrap();
        let mut inbox = Inbox::default();
        let bytes = [client_opening(), frame(HEADERS, flags, 1, head)].concat();
        server.receive(&bytes, &mut inbox).unwrap();
        let waits = inbox.events.iter().filter_map(|event| match event {
            ServerEvent::RequestHead {
                expects_continue, ..
            } => Some(*expects_continue),
            _ => None,
        });
        assert_eq!(waits.collect::<Vec<_>>(), [expected]);
    }
}
