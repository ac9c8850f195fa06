//! The effect of a side's HTTP/2 settings on the wire, and the upgrade from HTTP/1.1.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::Bytes;
use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_http::frames::CLIENT_PREFACE;
use squall_http::h2::Client;
use squall_http::{ClientEvent, Engine, Inbox, ServerEvent, StreamId, StreamIo, SubmitError};

use crate::common::h2::{H2Pair, frame, streamed_request, streamed_response};
use crate::common::{self, request, response};

#[test]
fn settings_that_differ_from_the_defaults_are_announced() {
    let settings = Http2Settings {
        stream_window: Bytes::new(1 << 20),
        max_frame_size: Bytes::new(100_000),
        max_concurrent_streams: 7,
        header_table_size: Bytes::new(0),
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&settings, &settings);
    pair.settle();
    let common = [(4, 1 << 20), (6, 65_536), (1, 0), (5, 100_000)];
    assert_eq!(
        pair.client.announced().sent,
        [&[(2, 0)][..], &common].concat()
    );
    assert_eq!(
        pair.server.announced().sent,
        [&[(3, 7)][..], &common].concat()
    );
    for _ in 0..3 {
        let stream = pair.submit(&request("POST", 10));
        pair.settle();
        pair.respond(stream, &response(200, 10));
        pair.settle();
    }
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn data_frames_have_the_configured_size_up_to_the_peers_limit() {
    for (data_size, max_frame_size, expected) in [
        (1_000, 16_384, vec![1_000; 50]),
        (16_384, 16_384, vec![16_384, 16_384, 16_384, 848]),
        (50_000, 20_000, vec![20_000, 20_000, 10_000]),
        (1 << 20, 1 << 20, vec![50_000]),
    ] {
        let server = Http2Settings {
            data_size: Bytes::new(data_size),
            ..Http2Settings::default()
        };
        let client = Http2Settings {
            max_frame_size: Bytes::new(max_frame_size),
            ..Http2Settings::default()
        };
        let mut pair = H2Pair::new(&client, &server);
        let stream = pair.submit(&request("GET", 0));
        pair.settle();
        pair.respond(stream, &response(200, 50_000));
        pair.settle();
        let data = pair.client_inbox.frames.iter();
        let data = data.filter(|frame| frame.way == Way::Received && frame.kind == 0);
        assert_eq!(data.map(|frame| frame.length).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn frames_of_16_mib_pass_one_at_a_time() {
    let settings = Http2Settings {
        stream_window: Bytes::new((1 << 31) - 1),
        connection_window: Bytes::new((1 << 31) - 1),
        max_frame_size: Bytes::new((1 << 24) - 1),
        data_size: Bytes::new((1 << 24) - 1),
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&settings, &settings);
    let stream = pair.submit(&request("GET", 0));
    pair.settle();
    pair.respond(stream, &response(200, 40_000_000));
    assert!(pair.server.output().len() <= 9 + (1 << 24));
    pair.settle();
    assert_eq!(pair.client_inbox.bodies.len(), 40_000_000);
}

#[test]
fn data_frames_of_streamed_bodies_have_the_configured_size() {
    const SIZE: usize = 1 << 20;
    let settings = Http2Settings {
        stream_window: Bytes::new((1 << 31) - 1),
        connection_window: Bytes::new((1 << 31) - 1),
        max_frame_size: Bytes::new(SIZE as u64),
        data_size: Bytes::new(SIZE as u64),
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&settings, &settings);
    let stream = pair.submit(&streamed_request(None));
    pair.settle();
    pair.respond(stream, &streamed_response(None));
    let much = vec![7; SIZE];
    for _ in 0..3 {
        assert_eq!(pair.client.send_body(stream, &much), SIZE);
        assert_eq!(pair.server.send_body(stream, &much), SIZE);
        pair.settle();
    }
    for way in [Way::Sent, Way::Received] {
        let data = pair.client_inbox.frames.iter();
        let data = data.filter(|frame| frame.way == way && frame.kind == 0);
        let lengths: Vec<u64> = data.map(|frame| frame.length).collect();
        assert_eq!(lengths, [SIZE as u64; 3], "{way:?}");
    }
}

#[test]
fn a_client_takes_only_the_configured_number_of_requests() {
    let client = Http2Settings {
        requests_per_connection: Some(2),
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&client, &Http2Settings::default());
    pair.settle();
    for is_last in [false, true] {
        let stream = pair.submit(&request("GET", 0));
        pair.settle();
        // The last request keeps the connection open, but no other one may follow it.
        assert!(pair.client.is_open());
        assert_eq!(pair.client.is_ready(), !is_last);
        pair.respond(stream, &response(200, 10));
        pair.settle();
        assert_eq!(
            (pair.client.in_flight(), pair.client.is_open()),
            (0, !is_last)
        );
    }
    let refused = pair.client.submit(&request("GET", 0));
    assert_eq!(refused, Err(SubmitError::Closed));
}

#[test]
fn a_server_sends_goaway_after_the_configured_number_of_requests() {
    let server = Http2Settings {
        goaway_after: Some(2),
        ..Http2Settings::default()
    };
    let mut pair = H2Pair::new(&Http2Settings::default(), &server);
    pair.settle();
    // Three requests are on their way before the server sees the first.
    let mut streams = Vec::new();
    let mut flight = Vec::new();
    for _ in 0..3 {
        streams.push(pair.client.submit(&streamed_request(None)).unwrap());
        let output = pair.client.output().to_vec();
        pair.client
            .advance_output(output.len(), &mut pair.client_inbox);
        flight.extend(output);
    }
    pair.server
        .receive(&flight, &mut pair.server_inbox)
        .unwrap();
    pair.settle();
    let is_head = |event: &&ServerEvent| matches!(event, ServerEvent::RequestHead { .. });
    assert_eq!(pair.server_inbox.events.iter().filter(is_head).count(), 2);
    let goaway = ClientEvent::GoAway {
        last_stream: StreamId(3),
        code: 0,
    };
    assert!(pair.client_inbox.events.contains(&goaway));
    let refused = ClientEvent::RequestRefused { stream: streams[2] };
    assert!(pair.client_inbox.events.contains(&refused));
    assert!(!pair.client.is_open() && pair.server.is_open());
    // The two accepted requests complete, and then the connection ends.
    for stream in &streams[..2] {
        pair.client.end_body(*stream);
        pair.settle();
        assert!(pair.server.is_open());
        pair.respond(*stream, &response(200, 100_000));
        pair.settle();
    }
    assert_eq!(pair.client.in_flight(), 0);
    assert!(!pair.server.is_open());
}

#[test]
fn an_upgraded_connection_carries_the_response_and_more_requests() {
    let settings = Http2Settings {
        stream_window: Bytes::new(100_000),
        connection_window: Bytes::new(200_000),
        ..Http2Settings::default()
    };
    // 0002 00000000, 0004 000186a0, 0006 00010000 in base64url.
    let header = Client::upgrade_header(&settings).unwrap();
    assert_eq!(header, "AAIAAAAAAAQAAYagAAYAAQAA");
    let mut client = Client::upgraded(&settings, false, 300, 70).unwrap();
    assert_eq!(client.in_flight(), 1);
    let mut inbox = Inbox::new(common::h2::ALL);
    let output = client.output().to_vec();
    assert!(output.starts_with(CLIENT_PREFACE));
    client.advance_output(output.len(), &mut inbox);
    assert_eq!(client.announced().sent, [(2, 0), (4, 100_000), (6, 65_536)]);
    assert_eq!(inbox.frames[0].offset, Some(300 + 24));
    assert_eq!(inbox.events, [], "the request was written before");
    let answer = [
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &[0x88]),
        frame(0, 1, 1, b"hello"),
    ];
    client.receive(&answer.concat(), &mut inbox).unwrap();
    let stream = StreamId(1);
    let offset = 70 + 9;
    let first = ClientEvent::ResponseFirstByte { stream, offset };
    assert_eq!(inbox.events.first(), Some(&first));
    let end = ClientEvent::ResponseEnd {
        stream,
        end: 70 + 9 + 10 + 14,
    };
    assert_eq!(inbox.events.last(), Some(&end));
    let data = inbox.frames.last().unwrap();
    assert_eq!(
        (data.stream_window, data.connection_window),
        (Some(65_530), Some(199_995))
    );
    assert_eq!((client.in_flight(), &inbox.bodies[..]), (0, &b"hello"[..]));
    assert_eq!(client.submit(&request("GET", 0)), Ok(StreamId(3)));
}

#[test]
fn the_upgraded_response_to_head_has_no_body() {
    let settings = Http2Settings::default();
    for (method, is_error) in [("HEAD", false), ("GET", true)] {
        let mut client = Client::upgraded(&settings, method == "HEAD", 0, 0).unwrap();
        // ":status: 200" and "content-length: 5", and no body.
        let head = frame(1, 5, 1, &[0x88, 0x0f, 0x0d, 1, b'5']);
        let bytes = [frame(4, 0, 0, &[]), head].concat();
        let mut inbox = Inbox::default();
        let result = client.receive(&bytes, &mut inbox);
        client.output();
        client.advance_output(0, &mut inbox);
        let is_end = |event: &ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
        assert_eq!(
            inbox.events.iter().any(is_end),
            !is_error,
            "{method} {result:?}"
        );
    }
}
