//! Two sessions connected in memory: what one submits, the other's handler receives.
// The helpers of these tests panic on the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use squall_nghttp2::{
    Body, Error, FieldDecision, Handler, HeaderBlock, Http2Session, Options, ReceivedFrame,
    STREAMED_BUFFER_BYTES, Session, Setting, WindowUpdateMode,
};

#[derive(Default)]
struct EventLog {
    lines: Vec<String>,
    data_bytes: usize,
    panics_on: Option<&'static str>,
}

impl EventLog {
    fn note(&mut self, line: String) {
        if self.panics_on.is_some_and(|start| line.starts_with(start)) {
            panic!("told to panic on {line}");
        }
        self.lines.push(line);
    }

    fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|l| l == line)
    }
}

impl Handler for EventLog {
    fn header(&mut self, stream: u32, name: &[u8], value: &[u8]) -> FieldDecision {
        let (name, value) = (
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        );
        self.note(format!("{stream} {name}={value}"));
        match &*name {
            "refuse-me" => FieldDecision::Refuse,
            _ => FieldDecision::Continue,
        }
    }
    fn data(&mut self, stream: u32, bytes: &[u8]) {
        self.data_bytes += bytes.len();
        self.note(format!("{stream} data {}", bytes.len()));
    }
    fn frame_received(&mut self, frame: ReceivedFrame) {
        if let ReceivedFrame::GoAway { last_stream, code } = frame {
            self.note(format!("goaway last {last_stream} code {code}"));
        }
    }
    fn stream_closed(&mut self, stream: u32, code: u32) {
        self.note(format!("{stream} closed {code}"));
    }
    fn goaway_sending(&mut self, code: u32, reason: &[u8]) {
        self.note(format!(
            "sending goaway {code}: {}",
            String::from_utf8_lossy(reason)
        ));
    }
}

fn pair() -> (Session<EventLog>, Session<EventLog>) {
    let mut client = Session::client(EventLog::default(), &Options::default()).unwrap();
    client
        .submit_settings(&[Setting::EnablePush(false)])
        .unwrap();
    let mut server = Session::server(EventLog::default(), &Options::default()).unwrap();
    server.submit_settings(&[]).unwrap();
    (client, server)
}

/// Moves everything that `from` can send.
fn pass(from: &mut Session<EventLog>, to: &mut Session<EventLog>) -> Result<usize, Error> {
    let mut bytes = Vec::new();
    while from.send(&mut bytes)? > 0 {}
    to.receive(&bytes)?;
    Ok(bytes.len())
}

fn settle(client: &mut Session<EventLog>, server: &mut Session<EventLog>) {
    while pass(client, server).unwrap() + pass(server, client).unwrap() > 0 {}
}

fn request() -> HeaderBlock {
    HeaderBlock::new([
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "server"),
        (":path", "/"),
    ])
    .unwrap()
}

fn body(len: usize) -> Bytes {
    vec![b'x'; len].into()
}

#[test]
fn a_request_and_its_response_reach_the_other_side() {
    let (mut client, mut server) = pair();
    let stream = client
        .submit_request(&request(), Body::Whole(&body(1000)))
        .unwrap();
    assert!(client.wants_write());
    settle(&mut client, &mut server);
    assert!(server.handler().has("1 :method=POST"));
    assert!(server.handler().has("1 data 1000"));
    let headers = HeaderBlock::new([(":status", "200")]).unwrap();
    server
        .submit_response(stream, &headers, Body::Whole(&body(100_000)))
        .unwrap();
    settle(&mut client, &mut server);
    assert!(client.handler().has("1 :status=200"));
    assert!(client.handler().has("1 closed 0"));
    assert!(server.handler().has("1 closed 0"));
}

#[test]
fn a_message_with_an_invalid_field_is_reset() {
    for (name, value) in [
        ("a b", "c"),
        ("a:", "c"),
        ("a", "b\r\nc: d"),
        ("a", "\0"),
        ("a", " b"),
        ("a", "b\t"),
    ] {
        let (mut client, mut server) = pair();
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "server"),
            (":path", "/"),
            (name, value),
            ("later", "1"),
        ];
        let headers = HeaderBlock::new(fields).unwrap();
        client
            .submit_request(&headers, Body::Whole(&body(0)))
            .unwrap();
        settle(&mut client, &mut server);
        assert!(!server.handler().has("1 later=1"), "{name:?}: {value:?}");
        assert!(client.handler().has("1 closed 1"), "{name:?}: {value:?}");
        // Only that stream.
        client
            .submit_request(&request(), Body::Whole(&body(0)))
            .unwrap();
        settle(&mut client, &mut server);
        assert!(server.handler().has("3 :method=POST"));
    }
}

#[test]
fn a_connection_window_stops_the_body_until_it_is_raised() {
    let (mut client, mut server) = pair();
    let whole_streams = Setting::InitialWindowBytes(1 << 20);
    server.submit_settings(&[whole_streams]).unwrap();
    settle(&mut client, &mut server);
    // Pass only one direction, so that no update comes back.
    client
        .submit_request(&request(), Body::Whole(&body(100_000)))
        .unwrap();
    pass(&mut client, &mut server).unwrap();
    assert_eq!(server.handler().data_bytes, 65_535);
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 100_000);

    server.set_connection_window(1 << 20).unwrap();
    settle(&mut client, &mut server);
    client
        .submit_request(&request(), Body::Whole(&body(100_000)))
        .unwrap();
    pass(&mut client, &mut server).unwrap();
    assert_eq!(server.handler().data_bytes, 200_000);
    assert!(server.set_connection_window(1 << 31).is_err());
}

#[test]
fn reset_and_goaway_reach_the_handler() {
    let (mut client, mut server) = pair();
    let stream = client
        .submit_request(&request(), Body::Whole(&Bytes::new()))
        .unwrap();
    settle(&mut client, &mut server);
    server.submit_reset(stream, 8).unwrap();
    server.submit_goaway(stream, 0).unwrap();
    settle(&mut client, &mut server);
    assert!(client.handler().has("1 closed 8"));
    assert!(client.handler().has("goaway last 1 code 0"));
}

#[test]
fn a_protocol_violation_is_answered_with_goaway() {
    let (mut client, mut server) = pair();
    settle(&mut client, &mut server);
    // DATA on stream 0 is a connection error (RFC 9113, section 6.1).
    client.receive(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    pass(&mut client, &mut server).unwrap();
    assert!(
        client
            .handler()
            .lines
            .iter()
            .any(|l| l.starts_with("sending goaway 1: "))
    );
    assert!(!client.wants_read());
}

#[test]
fn a_wrong_preface_is_an_error() {
    let (_, mut server) = pair();
    assert_eq!(
        server.receive(b"GET / HTTP/1.1\r\n\r\n12345678"),
        Err(Error::BadPreface)
    );
}

#[test]
fn a_panic_in_the_handler_resumes_in_the_caller() {
    for place in ["1 :method", "1 data"] {
        let (mut client, mut server) = pair();
        client
            .submit_request(&request(), Body::Whole(&body(5)))
            .unwrap();
        server.handler_mut().panics_on = Some(place);
        let result = catch_unwind(AssertUnwindSafe(|| pass(&mut client, &mut server)));
        assert!(result.is_err(), "no panic at {place}");
    }
}

#[test]
fn sessions_may_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Session<EventLog>>();
    is_send::<HeaderBlock>();
}

#[test]
fn a_streamed_body_is_sent_as_its_bytes_are_added() {
    let (mut client, mut server) = pair();
    let stream = client.submit_request(&request(), Body::Streamed).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 0);
    assert!(!client.wants_write(), "it waits for its owner");
    assert_eq!(client.send_body(stream, b"hello"), Ok(5));
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 5);
    let much = vec![0; 1 << 20];
    assert_eq!(client.send_body(stream, &much), Ok(STREAMED_BUFFER_BYTES));
    assert_eq!(client.bodies().room(stream), 0);
    settle(&mut client, &mut server);
    client.end_body(stream, None).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 5 + STREAMED_BUFFER_BYTES);
    assert_eq!(client.send_body(stream, b"late"), Ok(0));
    let headers = HeaderBlock::new([(":status", "200")]).unwrap();
    let none = Bytes::new();
    server
        .submit_response(stream, &headers, Body::Whole(&none))
        .unwrap();
    settle(&mut client, &mut server);
    assert!(client.handler().has("1 closed 0"));
}

#[test]
fn a_reset_ends_a_streamed_body() {
    let (mut client, mut server) = pair();
    let stream = client.submit_request(&request(), Body::Streamed).unwrap();
    settle(&mut client, &mut server);
    server.submit_reset(stream, 8).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(client.bodies().room(stream), 0);
    assert_eq!(client.send_body(stream, b"x"), Ok(0));
    client.end_body(stream, None).unwrap();
    // Between the request to reset a stream and the frame, its body is not needed either.
    let other = client.submit_request(&request(), Body::Streamed).unwrap();
    settle(&mut client, &mut server);
    client.submit_reset(other, 8).unwrap();
    client.send_body(other, b"x").unwrap();
    client.end_body(other, None).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 0);
}

#[test]
fn data_frames_have_the_requested_size_within_the_peers_limit() {
    let lengths = |asked, allowed| {
        let options = Options {
            data_bytes: asked,
            ..Options::default()
        };
        let mut client = Session::client(EventLog::default(), &options).unwrap();
        client.submit_settings(&[]).unwrap();
        let mut server = Session::server(EventLog::default(), &Options::default()).unwrap();
        let frames = Setting::MaxFrameBytes(allowed);
        let window = Setting::InitialWindowBytes(1 << 20);
        server.submit_settings(&[frames, window]).unwrap();
        settle(&mut client, &mut server);
        client
            .submit_request(&request(), Body::Whole(&body(60_000)))
            .unwrap();
        let mut bytes = Vec::new();
        client.send(&mut bytes).unwrap();
        let mut lengths = Vec::new();
        loop {
            let len = client.send(&mut bytes).unwrap();
            if len == 0 {
                return lengths;
            }
            lengths.push(len - 9);
        }
    };
    assert_eq!(lengths(16_384, 16_384), [16_384, 16_384, 16_384, 10_848]);
    assert_eq!(lengths(50_000, 100_000), [50_000, 10_000]);
    assert_eq!(lengths(50_000, 20_000), [20_000, 20_000, 20_000]);
    assert_eq!(lengths(20_001, 1 << 20), [20_001, 20_001, 19_998]);
}

#[test]
fn with_manual_updates_no_others_are_sent() {
    let options = Options {
        updates: WindowUpdateMode::Manual,
        ..Options::default()
    };
    let (mut client, _) = pair();
    let mut server = Session::server(EventLog::default(), &options).unwrap();
    server.submit_settings(&[]).unwrap();
    let stream = client
        .submit_request(&request(), Body::Whole(&body(100_000)))
        .unwrap();
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 65_535);
    assert_eq!(
        (server.used_window(0), server.used_window(stream)),
        (65_535, 65_535)
    );
    server.submit_window_update(stream, 1_000).unwrap();
    server.submit_window_update(0, 700).unwrap();
    assert_eq!(
        (
            server.window_to_receive(0),
            server.window_to_receive(stream)
        ),
        (700, 1_000)
    );
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 66_235);
    assert_eq!(
        (client.window_to_send(0), client.window_to_send(stream)),
        (0, 300)
    );
    assert!(server.submit_window_update(0, i32::MAX as u32).is_ok());
    assert!(
        server.submit_window_update(0, 1).is_err(),
        "beyond 2^31 - 1"
    );
}

#[test]
fn a_refused_header_section_resets_only_its_stream() {
    let (mut client, mut server) = pair();
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        ("refuse-me", ""),
        ("a", "b"),
    ];
    let none = Bytes::new();
    let block = HeaderBlock::new(fields).unwrap();
    let stream = client.submit_request(&block, Body::Whole(&none)).unwrap();
    client
        .submit_request(&request(), Body::Whole(&none))
        .unwrap();
    settle(&mut client, &mut server);
    assert_eq!(stream, 1);
    assert!(server.handler().has("1 refuse-me=") && !server.handler().has("1 a=b"));
    assert!(client.handler().has("1 closed 2"));
    assert!(server.handler().has("3 :method=POST"));
}
