//! Two sessions joined in memory: what one submits, the other's handler hears.
// The helpers of these tests stop at the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use squall_nghttp2::{Error, FrameHeader, Handler, HeaderBlock, Received, Session, Setting};

#[derive(Default)]
struct Log {
    lines: Vec<String>,
    data_bytes: usize,
    panics_on: Option<&'static str>,
}

impl Log {
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

impl Handler for Log {
    fn frame_begun(&mut self, frame: FrameHeader) {
        self.note(format!(
            "begun {} on {}",
            frame.kind.name().unwrap_or("?"),
            frame.stream
        ));
    }
    fn header(&mut self, stream: u32, name: &[u8], value: &[u8]) {
        let (name, value) = (
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        );
        self.note(format!("{stream} {name}={value}"));
    }
    fn data(&mut self, stream: u32, bytes: &[u8]) {
        self.data_bytes += bytes.len();
        self.note(format!("{stream} data {}", bytes.len()));
    }
    fn frame_received(&mut self, frame: Received) {
        if let Received::GoAway { last_stream, code } = frame {
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

fn pair() -> (Session<Log>, Session<Log>) {
    let mut client = Session::client(Log::default(), 100).unwrap();
    client
        .submit_settings(&[Setting::EnablePush(false)])
        .unwrap();
    let mut server = Session::server(Log::default()).unwrap();
    server
        .submit_settings(&[Setting::MaxConcurrentStreams(7)])
        .unwrap();
    (client, server)
}

/// Moves everything that `from` can send.
fn pass(from: &mut Session<Log>, to: &mut Session<Log>) -> Result<usize, Error> {
    let mut bytes = Vec::new();
    while from.send(&mut bytes)? > 0 {}
    to.receive(&bytes)?;
    Ok(bytes.len())
}

fn settle(client: &mut Session<Log>, server: &mut Session<Log>) {
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

fn body(len: usize) -> Arc<[u8]> {
    vec![b'x'; len].into()
}

#[test]
fn a_request_and_its_response() {
    let (mut client, mut server) = pair();
    assert_eq!(client.peer_max_concurrent_streams(), 100);
    let stream = client
        .submit_request(&request(), Some(&body(1000)))
        .unwrap();
    assert!(client.wants_write());
    settle(&mut client, &mut server);
    assert_eq!(client.peer_max_concurrent_streams(), 7);
    assert!(server.handler().has("1 :method=POST"));
    assert!(server.handler().has("1 data 1000"));
    let headers = HeaderBlock::new([(":status", "200")]).unwrap();
    server
        .submit_response(stream, &headers, Some(&body(100_000)))
        .unwrap();
    settle(&mut client, &mut server);
    assert!(client.handler().has("1 :status=200"));
    assert!(client.handler().has("1 closed 0"));
    assert!(server.handler().has("1 closed 0"));
}

#[test]
fn a_connection_window_stops_the_body_until_it_is_raised() {
    let (mut client, mut server) = pair();
    let whole_streams = Setting::InitialWindowBytes(1 << 20);
    server.submit_settings(&[whole_streams]).unwrap();
    settle(&mut client, &mut server);
    // In one direction only, so that no update comes back.
    client
        .submit_request(&request(), Some(&body(100_000)))
        .unwrap();
    pass(&mut client, &mut server).unwrap();
    assert_eq!(server.handler().data_bytes, 65_535);
    settle(&mut client, &mut server);
    assert_eq!(server.handler().data_bytes, 100_000);

    server.set_connection_window(1 << 20).unwrap();
    settle(&mut client, &mut server);
    client
        .submit_request(&request(), Some(&body(100_000)))
        .unwrap();
    pass(&mut client, &mut server).unwrap();
    assert_eq!(server.handler().data_bytes, 200_000);
    assert!(server.set_connection_window(1 << 31).is_err());
}

#[test]
fn reset_and_goaway_are_heard() {
    let (mut client, mut server) = pair();
    let stream = client.submit_request(&request(), None).unwrap();
    settle(&mut client, &mut server);
    server.submit_reset(stream, 8).unwrap();
    server.submit_goaway(0).unwrap();
    settle(&mut client, &mut server);
    assert!(client.handler().has("1 closed 8"));
    assert!(client.handler().has("goaway last 1 code 0"));
    assert!(!client.is_request_allowed());
}

#[test]
fn a_broken_peer_is_answered_with_goaway() {
    let (mut client, mut server) = pair();
    settle(&mut client, &mut server);
    // DATA on stream 0 is a connection error (RFC 9113, section 6.1).
    client.receive(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    assert!(!client.is_request_allowed());
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
fn a_panic_of_the_handler_comes_out_on_our_side() {
    for place in ["begun HEADERS", "1 :method", "1 data"] {
        let (mut client, mut server) = pair();
        client.submit_request(&request(), Some(&body(5))).unwrap();
        server.handler_mut().panics_on = Some(place);
        let result = catch_unwind(AssertUnwindSafe(|| pass(&mut client, &mut server)));
        assert!(result.is_err(), "no panic at {place}");
    }
}

#[test]
fn sessions_may_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Session<Log>>();
    is_send::<HeaderBlock>();
}
