//! A session, and a client whose frames are written by hand. squall-http's tests cover what its server does with one.
// The helpers of these tests panic on the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use squall_nghttp2::{
    Body, FieldDecision, Handler, HeaderBlock, Http2Session, Options, STREAMED_BUFFER_BYTES,
    Session,
};

#[derive(Default)]
struct EventLog {
    lines: Vec<String>,
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
        let [name, value] = [name, value].map(String::from_utf8_lossy);
        self.note(format!("{stream} {name}={value}"));
        match &*name {
            "refuse-me" => FieldDecision::Refuse,
            _ => FieldDecision::Continue,
        }
    }
    fn data(&mut self, stream: u32, bytes: &[u8]) {
        self.note(format!("{stream} data {}", bytes.len()));
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// ":method: POST, :scheme: http, :path: /" from HPACK's static table, and ":authority: a".
const POST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 1, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A request whose body is still to come.
fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &POST)
}

/// A session that has exchanged SETTINGS with its client.
fn server() -> Session<EventLog> {
    let mut server = Session::server(EventLog::default(), &Options::default()).unwrap();
    server.submit_settings(&[]).unwrap();
    server.receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    server.receive(&frame(SETTINGS, 0, 0, &[])).unwrap();
    output(&mut server);
    server
}

/// Takes everything that the session can send.
fn output(server: &mut Session<EventLog>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while server.send(&mut bytes).unwrap() > 0 {}
    bytes
}

/// Begins a response whose body is streamed.
fn begin_response(server: &mut Session<EventLog>, stream: u32) {
    let headers = HeaderBlock::new([(":status", "200")]).unwrap();
    server.receive(&post(stream)).unwrap();
    server
        .submit_response(stream, &headers, Body::Streamed)
        .unwrap();
    output(server);
}

#[test]
fn a_panic_in_the_handler_resumes_in_the_caller() {
    for place in ["1 :method", "1 data"] {
        let mut server = server();
        server.handler_mut().panics_on = Some(place);
        let bytes = [post(1), frame(DATA, END_STREAM, 1, b"hello")].concat();
        let result = catch_unwind(AssertUnwindSafe(|| server.receive(&bytes)));
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
    let mut server = server();
    begin_response(&mut server, 1);
    assert!(!server.wants_write(), "it waits for its owner");
    assert_eq!(server.send_body(1, b"hello"), Ok(5));
    assert_eq!(output(&mut server), frame(DATA, 0, 1, b"hello"));
    let much = vec![0; 1 << 20];
    assert_eq!(server.send_body(1, &much), Ok(STREAMED_BUFFER_BYTES));
    assert_eq!(server.bodies().room(1), 0);
    output(&mut server);
    // The client's windows had 65,535 bytes.
    assert_eq!(server.bodies().waiting(1), 6);
    for stream in [0, 1] {
        let update = frame(WINDOW_UPDATE, 0, stream, &[0, 0, 1, 0]);
        server.receive(&update).unwrap();
    }
    server.end_body(1, None).unwrap();
    assert_eq!(output(&mut server), frame(DATA, END_STREAM, 1, &[0; 6]));
    assert_eq!(server.send_body(1, b"late"), Ok(0));
}

#[test]
fn a_reset_ends_a_streamed_body() {
    let mut server = server();
    begin_response(&mut server, 1);
    begin_response(&mut server, 3);
    let cancel = [0, 0, 0, 8];
    server.receive(&frame(RST_STREAM, 0, 1, &cancel)).unwrap();
    assert_eq!(server.bodies().room(1), 0);
    assert_eq!(server.send_body(1, b"x"), Ok(0));
    server.end_body(1, None).unwrap();
    // Once a reset is queued, the stream's body is not needed, even before the frame is sent.
    server.submit_reset(3, 8).unwrap();
    server.send_body(3, b"x").unwrap();
    server.end_body(3, None).unwrap();
    assert_eq!(output(&mut server), frame(RST_STREAM, 0, 3, &cancel));
}

#[test]
fn only_the_owner_updates_windows() {
    let mut server = server();
    server.receive(&post(1)).unwrap();
    let data = frame(DATA, 0, 1, &[0; 16_000]);
    server.receive(&data.repeat(4)).unwrap();
    assert_eq!(output(&mut server), b"");
    for window in [0, 1] {
        assert_eq!(server.used_window(window), 64_000);
        server.submit_window_update(window, 1_000).unwrap();
        assert_eq!(server.window_to_receive(window), 65_535 - 63_000);
    }
    let much = i32::MAX as u32;
    assert!(server.submit_window_update(0, much).is_err());
    assert!(server.set_connection_window(much + 1).is_err());
}

#[test]
fn a_refused_header_section_resets_only_its_stream() {
    let mut server = server();
    // "refuse-me: " and "a: b".
    let refused = [&POST[..], b"\0\x09refuse-me\0\0\x01a\x01b"].concat();
    let flags = END_HEADERS | END_STREAM;
    server.receive(&frame(HEADERS, flags, 1, &refused)).unwrap();
    server.receive(&post(3)).unwrap();
    let log = server.handler();
    assert!(log.has("1 refuse-me=") && !log.has("1 a=b"));
    assert!(log.has("3 :method=POST"));
    let internal_error = [0, 0, 0, 2];
    assert_eq!(
        output(&mut server),
        frame(RST_STREAM, 0, 1, &internal_error)
    );
}
