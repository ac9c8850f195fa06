//! h2spec's cases for a server (RFC 9113): what is ignored, what ends a stream and what ends the connection.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_http::frames::CLIENT_PREFACE;
use squall_http::h2::Server;
use squall_http::{ConnectionError, Engine, Inbox, ServerEvent};

use crate::common::h2::{
    ALL, CONTINUATION, DATA, END, GET, GOAWAY, HEADERS, PADDED, PING, POST, PRIORITY, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WHOLE, WINDOW_UPDATE, WITH_PRIORITY, cases, client_opening, field, frame,
    setting,
};
use crate::common::response;

/// How the server reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It ignores the input, and keeps answering requests.
    Fine,
    /// It sends RST_STREAM with this code, and keeps answering requests.
    Stream(u64),
    /// It sends GOAWAY with this code.
    Connection(u64),
}
use Verdict::{Connection, Fine, Stream};

const PROTOCOL_ERROR: u64 = 1;
const FLOW_CONTROL_ERROR: u64 = 3;
const STREAM_CLOSED: u64 = 5;
const FRAME_SIZE_ERROR: u64 = 6;
const COMPRESSION_ERROR: u64 = 9;

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE | END, stream, GET)
}

/// A POST whose body is still to come.
fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, POST)
}

/// A GET with an additional field, or a POST if the flags leave the stream open.
fn with(flags: u8, name: &str, value: &str) -> Vec<u8> {
    let base = if flags & END == 0 { POST } else { GET };
    frame(
        HEADERS,
        flags | WHOLE,
        1,
        &[base, &field(name, value)].concat(),
    )
}

/// How a new server reacts to these frames, each passed separately. It answers complete requests.
fn judge(frames: &[Vec<u8>]) -> Verdict {
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::new(ALL);
    server.receive(&client_opening(), &mut inbox).unwrap();
    let mut answered = 0;
    for bytes in frames.iter().chain([&get(101)]) {
        let result = server.receive(bytes, &mut inbox);
        let due = inbox.events[answered..].to_vec();
        answered = inbox.events.len();
        for event in due {
            if let ServerEvent::RequestEnd { stream, .. } = event {
                // It may already have been reset.
                let _ = server.respond(stream, &response(200, 10));
            }
        }
        let len = server.output().len();
        server.advance_output(len, &mut inbox);
        if let Err(ConnectionError::Http2 { code, .. }) = result {
            let goaway = inbox
                .frames
                .iter()
                .find(|f| f.way == Way::Sent && f.kind == 7);
            assert_eq!(goaway.unwrap().value, Some(u64::from(code)));
            return Connection(u64::from(code));
        }
        result.unwrap();
    }
    let answer = |f: &&squall_base::record::FrameFacts| f.stream == Some(101) && f.kind == 1;
    assert!(
        inbox
            .frames
            .iter()
            .filter(|f| f.way == Way::Sent)
            .any(|f| answer(&f))
    );
    let reset = inbox
        .frames
        .iter()
        .find(|f| f.way == Way::Sent && f.kind == 3);
    reset.map_or(Fine, |reset| Stream(reset.value.unwrap()))
}

type Case = (&'static str, Vec<Vec<u8>>, Verdict);

fn check(cases: Vec<Case>) {
    let wrong: Vec<_> = cases
        .into_iter()
        .filter_map(|(name, frames, expected)| {
            let verdict = judge(&frames);
            (verdict != expected).then(|| format!("{name}: {verdict:?}, expected {expected:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unknown_frames_are_ignored_and_bad_sizes_are_errors() {
    let large = vec![0; 16_385];
    check(cases! {
        "unknown type": [frame(0x16, 0xff, 0, &[0; 8])] => Fine;
        "unknown flags": [frame(PING, 0x16, 0, &[0; 8])] => Fine;
        "reserved bit": [frame(PING, 0, 1 << 31, &[0; 8])] => Fine;
        "unknown type inside a header section":
            [frame(HEADERS, END, 1, GET), frame(0x16, 0, 0, &[])] => Connection(PROTOCOL_ERROR);
        "largest DATA": [post(1), frame(DATA, END, 1, &large[1..])] => Fine;
        "DATA too large": [post(1), frame(DATA, END, 1, &large)] => Connection(FRAME_SIZE_ERROR);
        "HEADERS too large": [frame(HEADERS, END | WHOLE, 1, &large)] => Connection(FRAME_SIZE_ERROR);
        "broken HPACK": [frame(HEADERS, END | WHOLE, 1, &[0xff, 0xff, 0xff])] => Connection(COMPRESSION_ERROR);
        "PUSH_PROMISE of a client": [frame(PUSH_PROMISE, WHOLE, 1, &[0, 0, 0, 2])] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn only_priority_is_allowed_on_idle_streams() {
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let update = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100]);
    let more = frame(CONTINUATION, WHOLE, 1, GET);
    check(cases! {
        "idle: DATA": [frame(DATA, END, 1, b"x")] => Connection(PROTOCOL_ERROR);
        "idle: RST_STREAM": [reset.clone()] => Connection(PROTOCOL_ERROR);
        "idle: WINDOW_UPDATE": [update.clone()] => Connection(PROTOCOL_ERROR);
        "idle: CONTINUATION": [more.clone()] => Connection(PROTOCOL_ERROR);
        "idle: PRIORITY": [frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])] => Fine;
    });
}

#[test]
fn frames_on_closed_streams_are_ignored_or_refused_as_h2spec_asks() {
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let update = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100]);
    let more = frame(CONTINUATION, WHOLE, 1, GET);
    check(cases! {
        // Our response to the GET is sent before the next frame arrives, so the stream is closed.
        "closed: DATA": [get(1), frame(DATA, END, 1, b"x")] => Fine;
        "closed: WINDOW_UPDATE": [get(1), update] => Fine;
        "closed: PRIORITY": [get(1), frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])] => Fine;
        "closed: CONTINUATION": [get(1), more] => Connection(PROTOCOL_ERROR);
        "reset: DATA": [post(1), reset.clone(), frame(DATA, END, 1, b"x")] => Fine;
        "reset: HEADERS": [post(1), reset.clone(), get(1)] => Fine;
        "half-closed: DATA in one flight":
            [[get(1), frame(DATA, END, 1, b"x")].concat()] => Connection(STREAM_CLOSED);
        "half-closed: HEADERS in one flight": [[get(1), get(1)].concat()] => Connection(STREAM_CLOSED);
        "half-closed: RST_STREAM in one flight": [[get(1), reset].concat()] => Fine;
    });
}

#[test]
fn streams_must_be_opened_in_order_by_whole_header_sections() {
    check(cases! {
        "even stream": [get(2)] => Connection(PROTOCOL_ERROR);
        "smaller stream": [get(5), get(3)] => Connection(PROTOCOL_ERROR);
        "HEADERS on stream 0": [get(0)] => Connection(PROTOCOL_ERROR);
        "another stream inside a header section": [frame(HEADERS, END, 1, GET), get(3)] => Connection(PROTOCOL_ERROR);
        "HEADERS depends on itself": [
            frame(HEADERS, END | WHOLE | WITH_PRIORITY, 1, &[&[0, 0, 0, 1, 9], GET].concat()),
        ] => Connection(PROTOCOL_ERROR);
        "PRIORITY depends on itself": [frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 9])] => Fine;
        "CONTINUATION": [
            frame(HEADERS, END, 1, &GET[..1]), frame(CONTINUATION, 0, 1, &GET[1..3]),
            frame(CONTINUATION, WHOLE, 1, &GET[3..]),
        ] => Fine;
    });
}

#[test]
fn malformed_stream_frames_are_connection_errors() {
    check(cases! {
        "DATA on stream 0": [frame(DATA, 0, 0, b"x")] => Connection(PROTOCOL_ERROR);
        "DATA with too much padding": [post(1), frame(DATA, PADDED, 1, &[9, 0])] => Connection(PROTOCOL_ERROR);
        "HEADERS with too much padding":
            [frame(HEADERS, PADDED | WHOLE | END, 1, &[99, 0x82])] => Connection(PROTOCOL_ERROR);
        "PRIORITY on stream 0": [frame(PRIORITY, 0, 0, &[0; 5])] => Connection(PROTOCOL_ERROR);
        "PRIORITY of 4 bytes": [frame(PRIORITY, 0, 1, &[0; 4])] => Connection(FRAME_SIZE_ERROR);
        "RST_STREAM on stream 0": [frame(RST_STREAM, 0, 0, &[0; 4])] => Connection(PROTOCOL_ERROR);
        "RST_STREAM of 3 bytes": [post(1), frame(RST_STREAM, 0, 1, &[0; 3])] => Connection(FRAME_SIZE_ERROR);
    });
}

#[test]
fn invalid_settings_are_connection_errors() {
    check(cases! {
        "SETTINGS ACK with payload": [frame(SETTINGS, 1, 0, &[0; 6])] => Connection(FRAME_SIZE_ERROR);
        "SETTINGS on a stream": [frame(SETTINGS, 0, 1, &[])] => Connection(PROTOCOL_ERROR);
        "SETTINGS of 3 bytes": [frame(SETTINGS, 0, 0, &[0; 3])] => Connection(FRAME_SIZE_ERROR);
        "ENABLE_PUSH of 2": [setting(2, 2)] => Connection(PROTOCOL_ERROR);
        "INITIAL_WINDOW_SIZE of 2^31": [setting(4, 1 << 31)] => Connection(FLOW_CONTROL_ERROR);
        "MAX_FRAME_SIZE of 16383": [setting(5, 16_383)] => Connection(PROTOCOL_ERROR);
        "MAX_FRAME_SIZE of 2^24": [setting(5, 1 << 24)] => Connection(PROTOCOL_ERROR);
        "unknown setting": [setting(0xff, 1)] => Fine;
    });
}

#[test]
fn malformed_connection_frames_are_connection_errors() {
    let max = 0x7fff_ffffu32.to_be_bytes();
    check(cases! {
        "PING with ACK": [frame(PING, 1, 0, &[0; 8])] => Fine;
        "PING on a stream": [frame(PING, 0, 1, &[0; 8])] => Connection(PROTOCOL_ERROR);
        "PING of 6 bytes": [frame(PING, 0, 0, &[0; 6])] => Connection(FRAME_SIZE_ERROR);
        "GOAWAY on a stream": [frame(GOAWAY, 0, 1, &[0; 8])] => Connection(PROTOCOL_ERROR);
        "WINDOW_UPDATE of 0": [frame(WINDOW_UPDATE, 0, 0, &[0; 4])] => Connection(PROTOCOL_ERROR);
        "WINDOW_UPDATE of 0 on a stream":
            [post(1), frame(WINDOW_UPDATE, 0, 1, &[0; 4])] => Connection(PROTOCOL_ERROR);
        "WINDOW_UPDATE of 3 bytes": [frame(WINDOW_UPDATE, 0, 0, &[0; 3])] => Connection(FRAME_SIZE_ERROR);
        "window beyond the largest": [frame(WINDOW_UPDATE, 0, 0, &max)] => Connection(FLOW_CONTROL_ERROR);
        "stream's window beyond the largest":
            [post(1), frame(WINDOW_UPDATE, 0, 1, &max)] => Connection(FLOW_CONTROL_ERROR);
    });
}

#[test]
fn malformed_requests_are_connection_errors() {
    let trailers = |fields: &[u8]| frame(HEADERS, WHOLE | END, 1, fields);
    let lone = |fields: Vec<Vec<u8>>| vec![frame(HEADERS, WHOLE | END, 1, &fields.concat())];
    // A stream error according to the RFC, which allows treating it as a connection error (section 5.4.2), as nghttp2
    // does.
    let bad = Connection(PROTOCOL_ERROR);
    check(cases! {
        "upper case name": [with(END, "X-Y", "z")] => bad;
        "unknown pseudo-header field": [with(END, ":x", "y")] => bad;
        ":status in a request": [with(END, ":status", "200")] => bad;
        "pseudo-header field behind others": lone(vec![field("x", "y"), GET.to_vec()]) => bad;
        "pseudo-header field twice": [with(END, ":path", "/")] => bad;
        "no :method": lone(vec![GET[1..].to_vec()]) => bad;
        "no :path": lone(vec![[&GET[..2], &GET[3..]].concat()]) => bad;
        "empty :path": lone(vec![[&GET[..2], &GET[3..]].concat(), field(":path", "")]) => bad;
        "connection": [with(END, "connection", "keep-alive")] => bad;
        "te": [with(END, "te", "gzip")] => bad;
        "te: trailers": [with(END, "te", "trailers")] => Fine;
        "content-length": [with(0, "content-length", "2"), frame(DATA, END, 1, b"hi")] => Fine;
        "trailers": [post(1), trailers(&field("x", "y"))] => Fine;
        "trailers with a pseudo-header field": [post(1), trailers(&field(":path", "/"))] => bad;
        "trailers that are not the end": [post(1), frame(HEADERS, WHOLE, 1, &field("x", "y"))] => bad;
        "content-length of another body":
            [with(0, "content-length", "1"), frame(DATA, END, 1, b"hi")] => Connection(PROTOCOL_ERROR);
        "content-length of a longer body":
            [with(0, "content-length", "9"), frame(DATA, END, 1, b"hi")] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn invalid_fields_are_stream_errors() {
    let bad = Stream(PROTOCOL_ERROR);
    let trailer = |name, value| frame(HEADERS, WHOLE | END, 1, &field(name, value));
    check(cases! {
        "a blank in a name": [with(END, "x y", "z")] => bad;
        "a colon in a name": [with(END, "x:", "z")] => bad;
        "no name": [with(END, "", "z")] => bad;
        "a line end in a value": [with(END, "x", "y\r\nz: a")] => bad;
        "a CR in a value": [with(END, "x", "y\rz: a")] => bad;
        "an LF in a value": [with(END, "x", "y\nz: a")] => bad;
        "a CR in a name": [with(END, "x\ry", "z")] => bad;
        "an LF in a name": [with(END, "x\ny", "z")] => bad;
        "a NUL in a value": [with(END, "x", "\0")] => bad;
        "a blank before a value": [with(END, "x", " y")] => bad;
        "a blank after a value": [with(END, "x", "y\t")] => bad;
        "blanks inside a value": [with(END, "x", "y \t z")] => Fine;
        "no value": [with(END, "x", "")] => Fine;
        "a NUL in a trailer": [post(1), trailer("x", "\0")] => bad;
        "a CR in a trailer": [post(1), trailer("x", "y\rz: a")] => bad;
        "an LF in a trailer": [post(1), trailer("x", "y\nz: a")] => bad;
    });
}

/// In HTTP/1.1 these values would end a line.
#[test]
fn line_ends_in_pseudo_header_fields_are_refused() {
    for end in ["\r", "\n", "\r\n"] {
        let value = |text: &str| format!("{text}{end}x:y");
        for (others, name, text) in [
            (&[0x86, 0x84, 0x41, 1, b'a'][..], ":method", "GET"),
            (&[0x82, 0x84, 0x41, 1, b'a'], ":scheme", "http"),
            (&[0x82, 0x86, 0x41, 1, b'a'], ":path", "/"),
            (&[0x82, 0x86, 0x84], ":authority", "a"),
        ] {
            let section = [others, &field(name, &value(text))].concat();
            let verdict = judge(&[frame(HEADERS, WHOLE | END, 1, &section)]);
            assert_ne!(verdict, Fine, "{name}: {:?}", value(text));
            // The same section without the line end is a request.
            let section = [others, &field(name, text)].concat();
            let verdict = judge(&[frame(HEADERS, WHOLE | END, 1, &section)]);
            assert_eq!(verdict, Fine, "{name}");
        }
    }
}

#[test]
fn a_wrong_preface_or_missing_settings_end_the_connection() {
    let mut inbox = Inbox::default();
    for bytes in [
        &b"INVALID CONNECTION PREFACE\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r_",
    ] {
        let mut server = Server::new(&Http2Settings::default()).unwrap();
        let result = server.receive(bytes, &mut inbox);
        assert_eq!(
            result,
            Err(ConnectionError::Session(squall_nghttp2::Error::BadPreface))
        );
        assert!(!server.is_open());
    }
    // The preface must be followed by SETTINGS (RFC 9113, section 3.4).
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let bytes = [&CLIENT_PREFACE[..], &get(1)].concat();
    let result = server.receive(&bytes, &mut inbox);
    assert!(
        matches!(result, Err(ConnectionError::Http2 { code: 1, .. })),
        "{result:?}"
    );
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    let mut server = Server::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::default();
    let ping = frame(PING, 0, 0, b"squalls!");
    let bytes = [client_opening(), ping].concat();
    server.receive(&bytes, &mut inbox).unwrap();
    let answer = frame(PING, 1, 0, b"squalls!");
    let output = server.output();
    assert!(output.windows(answer.len()).any(|bytes| bytes == answer));
    // The SETTINGS are acknowledged too.
    let ack = frame(SETTINGS, 1, 0, &[]);
    assert!(output.windows(ack.len()).any(|bytes| bytes == ack));
}
