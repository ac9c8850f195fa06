//! Hostile peers: forged addresses, bodies that are never read, and floods without content.

use squall_base::plan::TlsGroup;

use super::*;
use crate::h3::allowance::Allowance;

/// More frames than a peer may send without content: the units that it has in advance, with a margin.
const FLOOD: usize = 11_000;

fn addresses() -> (SocketAddr, SocketAddr) {
    (CLIENT.parse().unwrap(), SERVER.parse().unwrap())
}

/// A pair whose ClientHello fits one datagram.
fn brief() -> Pair {
    let hello = TlsSettings {
        groups: Some(vec![TlsGroup::X25519]),
        ..TlsSettings::default()
    };
    let tls = (&hello, &TlsSettings::default());
    Pair::secured_by(&Http3Settings::default(), tls, InboxOptions::default())
}

/// The first datagram of a client.
fn first_datagram(client: &mut Client) -> Vec<u8> {
    let (mut batch, mut inbox) = (Batch::new(), Inbox::default());
    assert!(client.output(now(), &mut batch, &mut inbox));
    let first = batch.datagrams().next().unwrap();
    first.to_vec()
}

fn is_refused(pair: &Pair) -> bool {
    let words =
        "the peer closed the connection: the peer causes too much load (HTTP/3 error 0x107)";
    (pair.failure.as_deref()).is_some_and(|failure| failure.starts_with(words))
}

/// quiche reads the real clock. A short initial round trip makes it probe after 3, 6, 12 ms and so on, so that it sends
/// as many probes in half a second as it does in two minutes with the default.
#[test]
fn an_unanswered_initial_gets_at_most_three_times_its_bytes() {
    let mut pair = brief();
    let initial_rtt = std::time::Duration::from_millis(1);
    pair.server.config.set_initial_rtt(initial_rtt);
    let mut initial = first_datagram(&mut pair.client);
    let received = initial.len();
    let (from, to) = addresses();
    let owner = pair.give_server(&mut initial, from, to);
    assert_eq!(owner, Some(0));
    let mut sent = 0;
    let start = now();
    while start.elapsed().as_millis() < 500 {
        while pair.server_output(now()).is_some() {
            sent += pair.batch.bytes().len();
        }
        wait(initial_rtt);
        while pair.server.on_timeout(now()).is_some() {}
    }
    assert!(sent > received, "the handshake was answered: {sent}");
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
}

#[test]
fn an_unvalidated_connection_ignores_datagrams_from_other_addresses() {
    let mut pair = brief();
    let initial = first_datagram(&mut pair.client);
    let (from, to) = addresses();
    let other = SocketAddr::from(([10, 0, 0, 9], 4_000));
    for (from, expected) in [(from, Some(0)), (other, None), (from, Some(0))] {
        let mut datagram = initial.clone();
        let owner = pair.give_server(&mut datagram, from, to);
        assert_eq!(owner, expected, "{from}");
    }
    // The rest of the handshake.
    pair.run();
    assert!(pair.client.is_ready(), "{:?}", pair.failure);
}

#[test]
fn clients_get_retry_while_too_many_addresses_are_not_validated() {
    let mut pair = Pair::new();
    pair.server.max_unvalidated = 2;
    let (from, to) = addresses();
    for _ in 0..5 {
        let mut silent = connect(&mut pair.context, "server");
        let mut initial = first_datagram(&mut silent);
        pair.give_server(&mut initial, from, to);
    }
    assert_eq!(pair.server.len(), 2);
    let mut retries = 0;
    while let Some(source) = pair.server_output(now()) {
        if source == BatchSource::Endpoint {
            assert_eq!((pair.batch.to(), pair.batch.from()), (from, to));
            assert!(pair.batch.bytes().len() < 200);
            retries += 1;
        }
    }
    assert_eq!(retries, 3);
    // A client that returns its token gets its connection.
    pair.run();
    assert!(pair.client.is_ready(), "{:?}", pair.failure);
    assert!(pair.server.is_established(2));
    assert_eq!(pair.server.len(), 3);
}

#[test]
fn client_reports_that_it_was_sent_a_retry() {
    let mut pair = Pair::new();
    pair.server.max_unvalidated = 0;
    pair.run();
    assert!(pair.client.is_ready(), "{:?}", pair.failure);
    let facts = pair.client.handshake_facts().unwrap();
    assert!(facts.transport.unwrap().used_retry);
}

#[test]
fn validated_and_ended_connections_make_room_for_others_without_retry() {
    let mut pair = Pair::new();
    pair.server.max_unvalidated = 1;
    for number in 0..3 {
        pair.client = connect(&mut pair.context, "server");
        pair.run();
        assert!(pair.client.is_ready(), "{:?}", pair.failure);
        assert!(pair.server.is_established(number));
        assert_eq!(pair.server.unvalidated, 0);
    }
    // A connection that ends without having been validated. It drains for three probe timeouts.
    let initial_rtt = std::time::Duration::from_millis(1);
    pair.server.config.set_initial_rtt(initial_rtt);
    let mut initial = first_datagram(&mut connect(&mut pair.context, "server"));
    let (from, to) = addresses();
    pair.give_server(&mut initial, from, to);
    assert_eq!(pair.server.unvalidated, 1);
    pair.server.close(3, code::NO_ERROR);
    pair.run_until(|pair| pair.server.len() == 3);
    assert_eq!(pair.server.unvalidated, 0);
}

#[test]
fn bodies_that_clients_never_read_are_bounded_and_freed() {
    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    let streams: Vec<StreamId> = (0..100).map(|_| pair.submit(&get)).collect();
    pair.run();
    let streamed = response(Body::Streamed { length: None });
    for stream in &streams {
        let mut open = pair.server.streams(0);
        open.respond(*stream, &streamed).unwrap();
    }
    let mut taken = 0;
    for stream in &streams {
        let mut open = pair.server.streams(0);
        let first = open.send_body(*stream, &[7; 100_000]);
        assert!(first > 5_000, "each gets its share: {first}");
        assert_eq!(open.body_room(*stream), 0);
        taken += first;
    }
    assert!(taken <= 1024 * 1024, "{taken}");
    assert!(pair.server.buffers.held_bytes() >= taken);
    pair.server.close(0, code::NO_ERROR);
    pair.run();
    assert_eq!(pair.server.buffers.held_bytes(), 0);
}

#[test]
fn incomplete_heads_and_waiting_bodies_count_until_they_are_gone() {
    let mut pair = Pair::usual(InboxOptions::default());
    assert!(pair.client.connection.open(0));
    let header = wire::frame_header(wire::HEADERS, 10_000);
    let bytes = [header.as_slice(), [0; 5_000].as_slice()].concat();
    (pair.client.connection).send(0, |out| out.push(bytes.into()));
    pair.run();
    assert_eq!(pair.server.held_bytes(0), 5_000);
    pair.client.connection.reset(0, code::REQUEST_CANCELLED);
    pair.run();
    assert_eq!(pair.server.held_bytes(0), 0);

    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    let streams = [(); 2].map(|()| pair.submit(&get));
    pair.run();
    let streamed = response(Body::Streamed { length: None });
    let taken = streams.map(|stream| {
        // The owner's memory is scarce while the second one begins.
        pair.server.set_scarce(stream == streams[1]);
        let mut open = pair.server.streams(0);
        open.respond(stream, &streamed).unwrap();
        open.send_body(stream, &[7; 100_000])
    });
    assert!(taken[0] > 60_000 && taken[1] <= 4 * 1024, "{taken:?}");
    assert!(pair.server.held_bytes(0) >= taken[0] + taken[1]);
}

#[test]
fn uploads_that_are_not_consumed_are_bounded() {
    let mut pair = Pair::with(&Http3Settings::default(), InboxOptions::default());
    pair.server.set_manual_consumption();
    pair.run();
    let post = request("POST", vec![7; 90_000]);
    for _ in 0..64 {
        pair.submit(&post);
    }
    pair.run();
    let arrived = pair.arrived_bytes();
    // Each stream's share shrinks while they begin; 64 KiB each would be 4 MiB.
    assert!((500_000..2_500_000).contains(&arrived), "{arrived}");
}

/// A stream, how it begins, and the frame that follows again and again.
type Flood = (u64, &'static [u8], &'static [u8]);

/// A server that a client floods with `count` copies of a frame on a stream.
fn flooded((stream, opening, frame): Flood, count: usize) -> Pair {
    let mut pair = Pair::usual(InboxOptions::default());
    match stream {
        0 => {
            pair.submit_streamed();
        }
        // Our client's control stream.
        2 => {}
        _ => assert!(pair.client.connection.open(stream)),
    }
    let bytes = [opening, frame.repeat(count).as_slice()].concat();
    let sent = (pair.client.connection).send(stream, |out| out.push(bytes.into()));
    assert!(sent.is_some());
    pair.run();
    pair
}

#[test]
fn floods_of_frames_without_content_end_the_connection_with_excessive_load() {
    let floods: [(&str, Flood); 6] = [
        ("a reserved type", (0, &[], &[0x21, 0])),
        ("empty DATA", (0, &[], &[0, 0])),
        ("GOAWAY", (2, &[], &[0x7, 1, 0])),
        ("MAX_PUSH_ID", (2, &[], &[0xd, 1, 0])),
        ("PRIORITY_UPDATE", (2, &[], &[0x80, 0xf, 0x7, 0, 1, 0])),
        ("QPACK's encoder", (6, &[0x2], &[0x20])),
    ];
    for (name, flood) in floods {
        let few = flooded(flood, FLOOD / 2);
        assert_eq!(few.failure, None, "{name}");
        let many = flooded(flood, FLOOD);
        assert!(is_refused(&many), "{name}: {:?}", many.failure);
    }
}

#[test]
fn a_flood_of_pings_ends_the_connection_with_excessive_load() {
    let mut pair = Pair::usual(InboxOptions::default());
    for _ in 0..FLOOD {
        // Each PING brings the client an acknowledgement, and the client must not be the one that calls this a flood.
        pair.client.connection.allowance = Allowance::new(&Http3Settings::default());
        pair.client
            .connection
            .quic_mut()
            .send_ack_eliciting()
            .unwrap();
        pair.run();
        if pair.failure.is_some() {
            break;
        }
    }
    assert!(is_refused(&pair), "{:?}", pair.failure);
}

/// Sends `count` pieces of a body, each in its own datagram.
fn trickled(count: usize, send: impl Fn(&mut Client, StreamId)) -> Pair {
    let mut pair = Pair::usual(InboxOptions::default());
    let stream = pair.submit_streamed();
    let header = wire::frame_header(wire::DATA, 1_000_000);
    (pair.client.connection).send(stream.0, |out| out.push(header.into()));
    for _ in 0..count {
        send(&mut pair.client, stream);
        pair.run();
        if pair.failure.is_some() {
            break;
        }
    }
    pair
}

#[test]
fn a_body_sent_in_single_bytes_is_a_flood_but_small_pieces_are_not() {
    let of = |piece: &'static [u8]| {
        trickled(FLOOD * 5 / 4, |client, stream| {
            (client.connection).send(stream.0, |out| out.push(Bytes::from_static(piece)));
        })
    };
    let bytes = of(b"x");
    assert!(is_refused(&bytes), "{:?}", bytes.failure);
    assert_eq!(of(b"12345678").failure, None);
}

#[test]
fn a_conversation_in_one_byte_frames_is_allowed() {
    let mut pair = Pair::usual(InboxOptions::default());
    let streamed = Body::Streamed { length: None };
    let stream = pair.submit(&request("POST", streamed.clone()));
    pair.run();
    pair.respond(stream, &response(streamed));
    for _ in 0..FLOOD {
        assert_eq!(pair.client.send_body(stream, b"x"), 1);
        assert_eq!(pair.server.streams(0).send_body(stream, b"y"), 1);
        pair.run();
    }
    assert_eq!(pair.failure, None);
    assert!(pair.client.is_open());
}
