//! Streams that one side abandons in one direction only, ends of streams that arrive separately, connections that close,
//! and interim responses.

use quiche::Shutdown;

use super::*;

/// Lets a client use its quiche connection in ways the engine never does.
fn misuse(pair: &mut Pair, change: impl FnOnce(&mut quiche::Connection<super::pieces::Pieces>)) {
    change(pair.client.connection.quic_mut());
}

fn stop(pair: &mut Pair, stream: StreamId) {
    misuse(pair, |conn| {
        let code = code::REQUEST_CANCELLED;
        conn.stream_shutdown(stream.0, Shutdown::Read, code)
            .unwrap();
    });
}

fn resets(pair: &Pair) -> usize {
    let events = pair.to_server.events.iter();
    events
        .filter(|event| matches!(event, ServerEvent::StreamReset { .. }))
        .count()
}

fn ends(pair: &Pair) -> usize {
    let events = pair.to_server.events.iter();
    events
        .filter(|event| matches!(event, ServerEvent::RequestEnd { .. }))
        .count()
}

/// Makes the server's owner consume everything that has arrived on a stream since the last call.
fn consume(pair: &mut Pair, of: StreamId) {
    for event in std::mem::take(&mut pair.to_server.events) {
        if let ServerEvent::RequestBody { stream, len } = event
            && stream == of
        {
            pair.server.streams(0).consume(stream, len);
        } else {
            pair.to_server.events.push(event);
        }
    }
}

#[test]
fn responses_stopped_after_they_were_sent_free_their_streams() {
    // Without pacing, the whole response is sent in one go. Pacing uses the real clock and would hold some of it back
    // on a slow machine.
    let settings = Http3Settings {
        pacing: false,
        ..Http3Settings::default()
    };
    let mut pair = Pair::established(&settings, InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    for _ in 0..150 {
        assert!(pair.client.is_ready(), "no stream left");
        let stream = pair.submit(&get);
        pair.run();
        pair.to_server.clear();
        pair.respond(stream, &response(vec![7; 5_000]));
        // The whole response is sent, and the client stops its stream before any of it has arrived.
        let mut datagrams = Vec::new();
        while pair.server_output(now()).is_some() {
            datagrams.extend(pair.batch.datagrams().map(<[u8]>::to_vec));
        }
        let is_last = |event: &ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
        assert!(pair.to_server.events.iter().any(is_last));
        stop(&mut pair, stream);
        let (from, to) = (SERVER.parse().unwrap(), CLIENT.parse().unwrap());
        for datagram in &mut datagrams {
            (pair.client)
                .receive(datagram, from, to, &mut pair.to_client)
                .unwrap();
        }
        pair.run();
    }
    let stream = pair.submit(&get);
    pair.run();
    pair.respond(stream, &response(b"hello".to_vec()));
    pair.run();
    assert_eq!(pair.answers(), 1);
}

#[test]
fn a_separately_sent_end_completes_an_upload_once() {
    const READ_AHEAD: usize = 64 * 1024;
    let mut pair = Pair::with(&Http3Settings::default(), InboxOptions::default());
    pair.server.set_manual_consumption();
    pair.run();
    let stream = pair.submit_streamed();
    let mut left = READ_AHEAD;
    while left > 0 {
        left -= pair.client.send_body(stream, &vec![7; left]);
        pair.run();
    }
    misuse(&mut pair, |conn| {
        conn.stream_send(stream.0, b"", true).unwrap();
    });
    pair.run();
    assert_eq!((ends(&pair), resets(&pair)), (1, 0));
    // Nothing that arrives later changes that.
    let other = pair.submit(&request("GET", Body::EMPTY));
    pair.run();
    assert_eq!((ends(&pair), resets(&pair)), (2, 0));
    for stream in [stream, other] {
        let answer = response(b"hello".to_vec());
        pair.respond(stream, &answer);
    }
    pair.run();
    assert_eq!(pair.answers(), 2);
}

#[test]
fn stopped_uploads_return_their_window() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(100_000),
        connection_window: squall_base::Bytes::new(250_000),
        ..Http3Settings::default()
    };
    let mut pair = Pair::with(&settings, InboxOptions::default());
    pair.server.set_manual_consumption();
    pair.run();
    let upload = request("POST", megabyte().slice(..300_000));
    for _ in 0..10 {
        let stream = pair.submit(&upload);
        pair.run();
        stop(&mut pair, stream);
        pair.run();
    }
    assert_eq!(resets(&pair), 10);
    let stream = pair.submit(&upload);
    for _ in 0..100 {
        pair.run();
        consume(&mut pair, stream);
    }
    assert_eq!(ends(&pair), 1, "the windows are used up");
    // The streams of the uploads are freed too.
    for _ in 0..150 {
        assert!(pair.client.is_ready(), "no stream left");
        let stream = pair.submit(&upload);
        pair.run();
        stop(&mut pair, stream);
        pair.run();
    }
}

#[test]
fn a_reset_after_the_end_is_noticed_while_data_is_missing() {
    let mut pair = Pair::usual(FRAMES);
    pair.sent = 0;
    pair.lose = |n| n == 2;
    let body = megabyte().slice(..3_500);
    let stream = pair.submit(&request("POST", body));
    pair.step();
    // Bit 0x1 of a STREAM frame (RFC 9000, section 19.8).
    let is_end = |frame: &FrameFacts| {
        let is_of_it = frame.way == Way::Received && frame.stream == Some(stream.0);
        is_of_it && frame.layer == FrameLayer::Quic && frame.kind & !0x6 == 0x9
    };
    assert!(pair.to_server.frames.iter().any(is_end));
    assert_eq!((ends(&pair), resets(&pair)), (0, 0));
    pair.lose = |_| false;
    misuse(&mut pair, |conn| {
        let code = code::REQUEST_CANCELLED;
        conn.stream_shutdown(stream.0, Shutdown::Write, code)
            .unwrap();
    });
    pair.run();
    assert_eq!((ends(&pair), resets(&pair)), (0, 1));
}

#[test]
fn stopping_the_control_stream_closes_the_connection() {
    let mut pair = Pair::usual(InboxOptions::default());
    stop(&mut pair, StreamId(3));
    pair.run();
    let words = pair.failure.expect("the connection is over");
    assert!(words.contains("0x104"), "{words}");
}

#[test]
fn other_streams_are_not_read_after_a_violation() {
    let mut pair = Pair::with(&Http3Settings::default(), InboxOptions::default());
    pair.server.set_manual_consumption();
    pair.run();
    let fine = pair.submit(&request("POST", megabyte()));
    // The violation comes after more bytes than are read ahead.
    let wrong = StreamId(wire::STREAM_STEP);
    let post = request("POST", Body::Streamed { length: None });
    assert!(pair.client.connection.open(wrong.0));
    pair.client.connection.send(wrong.0, |out| {
        out.push_message(super::head::encode(post.pairs()), post.body());
        out.push_data(megabyte().slice(..70_000));
        out.push(wire::frame(wire::SETTINGS, b""));
    });
    pair.run();
    assert_eq!(pair.failure, None);
    for stream in [fine, wrong] {
        consume(&mut pair, stream);
    }
    pair.to_server.clear();
    pair.run();
    assert!(pair.failure.is_some());
    let more = |event: &ServerEvent| matches!(event, ServerEvent::RequestBody { stream, .. } if *stream == fine);
    assert!(!pair.to_server.events.iter().any(more));
}

#[test]
fn connection_close_is_not_paced() {
    let settings = Http3Settings {
        pacing: true,
        ..Http3Settings::default()
    };
    let mut pair = Pair::established_at_distance(&settings);
    let stream = pair.submit(&request("GET", Body::EMPTY));
    pair.run();
    pair.respond(stream, &response(megabyte()));
    pair.run_until_paced();
    // quiche sends no CONNECTION_CLOSE while the congestion window is full. The acknowledgements free some of it and do
    // not affect the pacing.
    let held_at = now();
    wait(pair.flight_time);
    while pair.carry_up() {}
    pair.server.close(0, code::NO_ERROR);
    pair.batch.clear();
    let _ = pair.server_output(held_at);
    assert!(!pair.batch.is_empty(), "it waits");
    assert_eq!(pair.batch.delay(), Duration::ZERO);
    let (from, to) = (SERVER.parse().unwrap(), CLIENT.parse().unwrap());
    for datagram in pair.batch.datagrams() {
        let mut bytes = datagram.to_vec();
        let _ = (pair.client).receive(&mut bytes, from, to, &mut pair.to_client);
    }
    assert!(
        pair.client
            .closing()
            .is_some_and(|closing| closing.is_clean())
    );
}

#[test]
fn endless_interim_responses_end_their_request() {
    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    let interim = crate::message::Interim::relayed(103, Vec::new()).unwrap();
    let most = crate::h1::MAX_INTERIM_RESPONSES;
    for (count, is_answered) in [(most, true), (most + 1, false)] {
        let stream = pair.submit(&get);
        pair.run();
        for _ in 0..count {
            pair.server.streams(0).inform(stream, &interim);
        }
        pair.to_client.clear();
        let answer = response(b"hello".to_vec());
        pair.respond(stream, &answer);
        pair.run();
        let refused = ClientEvent::ResponseRefused {
            stream,
            code: code::EXCESSIVE_LOAD,
        };
        assert_eq!(pair.answers(), usize::from(is_answered), "{count}");
        assert_eq!(
            pair.to_client.events.contains(&refused),
            !is_answered,
            "{count}"
        );
    }
    assert!(pair.client.is_ready());
}

#[test]
fn unread_interim_responses_are_limited() {
    const MOST_BYTES: u64 = 200_000;
    let mut pair = Pair::usual(InboxOptions::default());
    let stream = pair.submit(&request("GET", Body::EMPTY));
    pair.run();
    let field = Field::new("x-hint", "y".repeat(1_000));
    let interim = crate::message::Interim::relayed(103, vec![field]).unwrap();
    for _ in 0..10_000 {
        pair.server.streams(0).inform(stream, &interim);
    }
    let answer = response(b"hello".to_vec());
    pair.respond(stream, &answer);
    pair.run();
    assert_eq!(pair.answers(), 1);
    assert!(pair.server.sent_bytes(0) < MOST_BYTES);
}

/// RFC 9110, section 10.1.1.
#[test]
fn owner_learns_which_client_waits_for_a_100() {
    let expect = [("expect".to_owned(), "100-continue".to_owned())];
    for (headers, length, expected) in [
        (&expect[..], Some(3), true),
        (&expect[..], Some(0), false),
        (&[][..], Some(3), false),
    ] {
        let body = Body::Streamed { length };
        let post = Request::new("POST", Scheme::Https, "server", "/", headers, body);
        let mut pair = Pair::usual(InboxOptions::default());
        pair.submit(&Arc::new(post.unwrap()));
        pair.run();
        let waits = pair.to_server.events.iter().any(|event| {
            matches!(
                event,
                ServerEvent::RequestHead {
                    expects_continue: true,
                    ..
                }
            )
        });
        assert_eq!(waits, expected, "{length:?}");
    }
}
