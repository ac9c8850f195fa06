//! The events of a connection do not depend on how its input is split.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use squall_base::plan::{Http2Settings, Protocol};
use squall_http::{ClientConnection, ClientEvent, Inbox, ServerEvent};

use crate::common::{
    self, Answers, NOW, PROTOCOLS, Pair, merge_client, merge_server, request, response,
};

/// A client whose requests have been written, and the server's output for it.
fn answered_client(protocol: Protocol) -> (ClientConnection, Vec<u8>) {
    let mut pair = Pair::new(protocol);
    pair.answers = Answers::Never;
    let requests = if protocol == Protocol::H2c { 3 } else { 1 };
    let streams: Vec<_> = (0..requests)
        .map(|_| pair.submit(&request("POST", 10)))
        .collect();
    while pair.up() > 0 {}
    for stream in streams {
        pair.respond(stream, &response(200, 5000));
    }
    let mut bytes = Vec::new();
    while !pair.server.output(NOW).is_empty() {
        bytes.extend_from_slice(pair.server.output(NOW));
        let len = pair.server.output(NOW).len();
        pair.server.advance_output(len, &mut pair.server_inbox);
    }
    (pair.client, bytes)
}

/// A client's output.
fn client_bytes(protocol: Protocol) -> Vec<u8> {
    let mut pair = Pair::new(protocol);
    let mut bytes = Vec::new();
    for body in [3000, 0] {
        pair.submit(&request("POST", body));
        while !pair.client.output(NOW).is_empty() {
            bytes.extend_from_slice(pair.client.output(NOW));
            pair.up();
        }
        pair.settle();
    }
    bytes
}

fn client_hears(client: &mut ClientConnection, bytes: &[u8], cuts: &[usize]) -> Vec<ClientEvent> {
    let mut inbox = Inbox::default();
    for piece in cut(bytes, cuts) {
        client.receive(piece, &mut inbox).unwrap();
    }
    assert_eq!(client.in_flight(), 0);
    merge_client(inbox.events)
}

fn server_hears(protocol: Protocol, bytes: &[u8], cuts: &[usize]) -> Vec<ServerEvent> {
    let mut server = common::server(protocol, &Http2Settings::default());
    let mut inbox = Inbox::default();
    for piece in cut(bytes, cuts) {
        server.receive(piece, &mut inbox).unwrap();
    }
    merge_server(inbox.events)
}

/// Pieces with the lengths in `cuts`, repeated as needed.
fn cut<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in cuts.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(*len));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn single_bytes_and_one_piece_give_the_same_events() {
    for protocol in PROTOCOLS {
        let (mut client, bytes) = answered_client(protocol);
        let (mut same_client, same_bytes) = answered_client(protocol);
        assert_eq!(bytes, same_bytes);
        let whole = client_hears(&mut client, &bytes, &[bytes.len()]);
        assert_eq!(client_hears(&mut same_client, &bytes, &[1]), whole);
        let bytes = client_bytes(protocol);
        assert_eq!(
            server_hears(protocol, &bytes, &[1]),
            server_hears(protocol, &bytes, &[bytes.len()])
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_give_the_same_events(
        is_h2: bool,
        cuts in proptest::collection::vec(1usize..600, 1..20),
    ) {
        let protocol = if is_h2 { Protocol::H2c } else { Protocol::H1 };
        let (mut client, bytes) = answered_client(protocol);
        let (mut same_client, _) = answered_client(protocol);
        let whole = client_hears(&mut client, &bytes, &[bytes.len()]);
        prop_assert_eq!(client_hears(&mut same_client, &bytes, &cuts), whole);
        let bytes = client_bytes(protocol);
        prop_assert_eq!(
            server_hears(protocol, &bytes, &cuts),
            server_hears(protocol, &bytes, &[bytes.len()])
        );
    }
}
