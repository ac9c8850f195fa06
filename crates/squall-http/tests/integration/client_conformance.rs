//! What a server may send (RFC 9113), case by case: what a client ignores, what ends a stream and what ends the
//! connection.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_http::h2::Client;
use squall_http::{ClientEvent, ConnectionError, Engine, Inbox, StreamId};

use crate::common::h2::{
    ACK, ALL, CONTINUATION, DATA, END, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WHOLE, WINDOW_UPDATE, WITH_PRIORITY, cases, field, frame, setting,
};
use crate::common::{request, take_output};

/// How the client reacts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// The first request gets a response with this status and this many body bytes; the second one gets its response
    /// later.
    Answered(u16, u64),
    /// The first request keeps waiting, and the second one gets its response.
    Waits,
    /// It sends RST_STREAM with this code for the first request, and the second one gets its response.
    Stream(u64),
    /// It reports the server's reset with this code, and the second request gets its response.
    WasReset(u64),
    /// It sends GOAWAY with this code.
    Connection(u64),
}
use Verdict::{Answered, Connection, Stream, Waits, WasReset};

const PROTOCOL_ERROR: u64 = 1;
const INTERNAL_ERROR: u64 = 2;
const FLOW_CONTROL_ERROR: u64 = 3;
const STREAM_CLOSED: u64 = 5;
const FRAME_SIZE_ERROR: u64 = 6;
const COMPRESSION_ERROR: u64 = 9;
const ENHANCE_YOUR_CALM: u64 = 11;

/// `:status: 200` from HPACK's static table.
const OK: &[u8] = &[0x88];

fn status(code: &str) -> Vec<u8> {
    field(":status", code)
}

/// A response's head on stream 1.
fn head(flags: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    frame(HEADERS, flags | WHOLE, 1, &fields.concat())
}

fn ok(flags: u8) -> Vec<u8> {
    frame(HEADERS, flags | WHOLE, 1, OK)
}

fn data(flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(DATA, flags, 1, payload)
}

/// How a client with two requests in flight, on streams 1 and 3, reacts to these frames. Each frame is passed
/// separately, in pieces of `step` bytes.
fn judge(method: &str, frames: &[Vec<u8>], step: usize) -> Verdict {
    let mut client = Client::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::new(ALL);
    // More than any window, so that such a request is not completely sent.
    let body = if method == "POST" { 1_000_000 } else { 0 };
    for _ in 0..2 {
        client.submit(&request(method, body)).unwrap();
        take_output(&mut client, &mut inbox);
    }
    let second = frame(HEADERS, WHOLE | END, 3, OK);
    for bytes in frames.iter().chain([&second]) {
        for piece in bytes.chunks(step) {
            let result = client.receive(piece, &mut inbox);
            take_output(&mut client, &mut inbox);
            if let Err(ConnectionError::Http2 { code, .. }) = result {
                let mut sent = inbox.frames.iter().filter(|f| f.way == Way::Sent);
                let goaway = sent.find(|f| f.kind == u64::from(GOAWAY)).unwrap();
                assert_eq!(goaway.value, Some(u64::from(code)));
                assert!(!client.is_open());
                return Connection(u64::from(code));
            }
            result.unwrap();
        }
    }
    let is_end = |event: &ClientEvent, of| matches!(event, ClientEvent::ResponseEnd { stream, .. } if *stream == StreamId(of));
    assert!(
        inbox.events.iter().any(|event| is_end(event, 3)),
        "stream 3"
    );
    let mut sent = inbox.frames.iter().filter(|f| f.way == Way::Sent);
    if let Some(reset) = sent.find(|f| f.kind == u64::from(RST_STREAM)) {
        assert!(!inbox.events.iter().any(|event| is_end(event, 1)));
        return Stream(reset.value.unwrap());
    }
    let mut verdict = Waits;
    let (mut code, mut len) = (0, 0);
    for event in &inbox.events {
        match event {
            ClientEvent::ResponseHeaders { stream, status, .. } if stream.0 == 1 => code = *status,
            ClientEvent::ResponseBody { stream, len: more } if stream.0 == 1 => len += more,
            ClientEvent::StreamReset { stream, code } if stream.0 == 1 => {
                verdict = WasReset(*code);
            }
            event if is_end(event, 1) => verdict = Answered(code, len),
            _ => {}
        }
    }
    verdict
}

type Case = (&'static str, Vec<Vec<u8>>, Verdict);

fn check_after(opening: &[Vec<u8>], method: &str, cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for (name, frames, expected) in cases {
        for step in [usize::MAX, 1, 7] {
            let all = [opening, &frames[..]].concat();
            let verdict = judge(method, &all, step);
            if verdict != expected {
                wrong.push(format!(
                    "{name} by {step}: {verdict:?}, expected {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(cases: Vec<Case>) {
    check_after(&[frame(SETTINGS, 0, 0, &[])], "GET", cases);
}

#[test]
fn valid_responses_are_reported() {
    let length = |n: &str| field("content-length", n);
    let ok = || OK.to_vec();
    check(cases! {
        "a head": [head(END, &[ok()])] => Answered(200, 0);
        "a body in pieces": [head(0, &[ok(), length("5")]), data(0, b"ab"), data(END, b"cde")] => Answered(200, 5);
        "interim responses and trailers": [
            head(0, &[status("100")]), head(0, &[status("103"), field("link", "x")]), head(0, &[ok()]),
            data(0, b"abc"), head(END, &[field("x-sum", "1")]),
        ] => Answered(200, 3);
    });
}

#[test]
fn malformed_heads_are_stream_errors() {
    let ok = || OK.to_vec();
    check(cases! {
        "no status": [head(END, &[field("x", "y")])] => Stream(PROTOCOL_ERROR);
        "status 101": [head(0, &[status("101")])] => Stream(PROTOCOL_ERROR);
        "a status of words": [head(END, &[status("abc")])] => Stream(PROTOCOL_ERROR);
        "two statuses": [head(END, &[ok(), ok()])] => Stream(PROTOCOL_ERROR);
        "a request's field": [head(END, &[ok(), field(":path", "/")])] => Stream(PROTOCOL_ERROR);
        "a late status": [head(END, &[field("x", "y"), ok()])] => Stream(PROTOCOL_ERROR);
        "a field of a hop": [head(END, &[ok(), field("connection", "close")])] => Stream(PROTOCOL_ERROR);
        "an interim end": [head(END, &[status("100")])] => Stream(PROTOCOL_ERROR);
        "two heads": [head(0, &[ok()]), head(END, &[ok()])] => Stream(PROTOCOL_ERROR);
        "trailers that go on": [head(0, &[ok()]), head(0, &[field("x", "y")])] => Stream(PROTOCOL_ERROR);
    });
}

#[test]
fn invalid_fields_are_stream_errors() {
    let with = |name: &str, value: &str| head(END, &[OK.to_vec(), field(name, value)]);
    check(cases! {
        "an upper-case name": [with("X-Upper", "1")] => Stream(PROTOCOL_ERROR);
        "a colon in a name": [with("x:", "1")] => Stream(PROTOCOL_ERROR);
        "a line end in a value": [with("x", "1\r\ny: 2")] => Stream(PROTOCOL_ERROR);
        "a CR in a value": [with("x", "1\ry: 2")] => Stream(PROTOCOL_ERROR);
        "an LF in a value": [with("x", "1\ny: 2")] => Stream(PROTOCOL_ERROR);
        "a CR in a name": [with("x\ry", "1")] => Stream(PROTOCOL_ERROR);
        "an LF in a name": [with("x\ny", "1")] => Stream(PROTOCOL_ERROR);
        "a blank before a value": [with("x", " y")] => Stream(PROTOCOL_ERROR);
        "a blank after a value": [with("x", "y\t")] => Stream(PROTOCOL_ERROR);
        "a NUL in a trailer": [ok(0), head(END, &[field("x", "\0")])] => Stream(PROTOCOL_ERROR);
        "a CR in a trailer": [ok(0), head(END, &[field("x", "1\ry: 2")])] => Stream(PROTOCOL_ERROR);
        "an LF in a trailer": [ok(0), head(END, &[field("x", "1\ny: 2")])] => Stream(PROTOCOL_ERROR);
    });
}

#[test]
fn interim_responses_are_limited() {
    let interims = |count| vec![head(0, &[status("103")]); count];
    check(cases! {
        "100 interim responses": [interims(100), vec![ok(END)]].concat() => Answered(200, 0);
        "101 interim responses": interims(101) => Connection(ENHANCE_YOUR_CALM);
    });
}

#[test]
fn malformed_bodies_are_stream_errors() {
    let length = |n: &str| field("content-length", n);
    let ok = || OK.to_vec();
    check(cases! {
        "a body without a head": [data(END, b"abc")] => Stream(PROTOCOL_ERROR);
        "a body after an interim head": [head(0, &[status("100")]), data(END, b"abc")] => Stream(PROTOCOL_ERROR);
        "too short a body": [head(0, &[ok(), length("5")]), data(END, b"ab")] => Stream(PROTOCOL_ERROR);
        "too long a body": [head(0, &[ok(), length("1")]), data(END, b"ab")] => Stream(PROTOCOL_ERROR);
        "a missing body": [head(END, &[ok(), length("5")])] => Stream(PROTOCOL_ERROR);
        "two lengths": [head(END, &[ok(), length("0"), length("0")])] => Stream(PROTOCOL_ERROR);
        "no body of 204": [head(0, &[status("204")]), data(END, b"x")] => Stream(PROTOCOL_ERROR);
        "a length of 304": [head(END, &[status("304"), length("5")])] => Answered(304, 0);
    });
    let opening = [frame(SETTINGS, 0, 0, &[])];
    check_after(
        &opening,
        "HEAD",
        cases! {
            "HEAD": [head(END, &[ok(), length("5")])] => Answered(200, 0);
            "HEAD with a body": [head(0, &[ok()]), data(END, b"x")] => Stream(PROTOCOL_ERROR);
        },
    );
}

#[test]
fn unknown_frames_are_ignored_and_bad_sizes_are_errors() {
    let large = vec![0; 16_385];
    check(cases! {
        "unknown type": [frame(0x16, 0xff, 0, &[0; 8]), ok(END)] => Answered(200, 0);
        "unknown flags": [frame(PING, 0x16, 0, &[0; 8]), ok(END)] => Answered(200, 0);
        "reserved bit": [frame(PING, 0, 1 << 31, &[0; 8]), ok(END)] => Answered(200, 0);
        "largest DATA": [ok(0), data(END, &large[1..])] => Answered(200, 16_384);
        "DATA too large": [ok(0), data(END, &large)] => Connection(FRAME_SIZE_ERROR);
        "HEADERS too large": [frame(HEADERS, END | WHOLE, 1, &large)] => Connection(FRAME_SIZE_ERROR);
        "broken HPACK": [frame(HEADERS, END | WHOLE, 1, &[0xff, 0xff, 0xff])] => Connection(COMPRESSION_ERROR);
        "a push": [frame(PUSH_PROMISE, WHOLE, 1, &[0, 0, 0, 2])] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn frames_of_the_wrong_size_or_on_the_wrong_stream_are_errors() {
    check(cases! {
        "a short PING": [frame(PING, 0, 0, &[0; 7])] => Connection(FRAME_SIZE_ERROR);
        "a short RST_STREAM": [frame(RST_STREAM, 0, 1, &[0; 3])] => Connection(FRAME_SIZE_ERROR);
        "a short WINDOW_UPDATE": [frame(WINDOW_UPDATE, 0, 0, &[0; 3])] => Connection(FRAME_SIZE_ERROR);
        "a short GOAWAY": [frame(GOAWAY, 0, 0, &[0; 7])] => Connection(FRAME_SIZE_ERROR);
        "a short PRIORITY": [frame(PRIORITY, 0, 1, &[0; 4])] => Stream(FRAME_SIZE_ERROR);
        "a PING of a stream": [frame(PING, 0, 1, &[0; 8])] => Connection(PROTOCOL_ERROR);
        "DATA of the connection": [frame(DATA, 0, 0, b"x")] => Connection(PROTOCOL_ERROR);
        "HEADERS of the connection": [frame(HEADERS, WHOLE, 0, OK)] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn valid_padding_and_priorities_are_removed_and_malformed_ones_refused() {
    let padded = |flags, payload: &[u8]| frame(HEADERS, WHOLE | PADDED | flags, 1, payload);
    check(cases! {
        "padded HEADERS": [padded(END, &[3, 0x88, 0, 0, 0])] => Answered(200, 0);
        "padded HEADERS with a priority":
            [padded(END | WITH_PRIORITY, &[1, 0, 0, 0, 0, 9, 0x88, 0])] => Answered(200, 0);
        "more padding than HEADERS": [padded(END, &[2, 0x88])] => Connection(PROTOCOL_ERROR);
        "a cut priority": [frame(HEADERS, WHOLE | WITH_PRIORITY, 1, &[0; 4])] => Connection(FRAME_SIZE_ERROR);
        "padded DATA": [ok(0), data(PADDED | END, &[2, b'a', 0, 0])] => Answered(200, 1);
        "nothing but padding": [ok(0), data(PADDED | END, &[2, 0, 0])] => Answered(200, 0);
        "more padding than DATA": [ok(0), data(PADDED, &[2, 0])] => Connection(PROTOCOL_ERROR);
        "padding of no length": [ok(0), data(PADDED, &[])] => Connection(FRAME_SIZE_ERROR);
    });
}

#[test]
fn header_sections_must_be_contiguous() {
    let begin = frame(HEADERS, END, 1, OK);
    let more = |flags| frame(CONTINUATION, flags, 1, &field("x", "y"));
    check(cases! {
        "in pieces": [begin.clone(), more(0), more(WHOLE)] => Answered(200, 0);
        "PING between": [begin.clone(), frame(PING, 0, 0, &[0; 8])] => Connection(PROTOCOL_ERROR);
        "unknown between": [begin.clone(), frame(0x16, 0, 0, &[])] => Connection(PROTOCOL_ERROR);
        "of another stream": [begin, frame(CONTINUATION, WHOLE, 3, &[])] => Connection(PROTOCOL_ERROR);
        "without a beginning": [more(WHOLE)] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn header_sections_that_decompress_to_too_much_are_stream_errors() {
    // "x: yyy..." of 3,000 bytes is inserted into the dynamic table, then referenced `times` times by one byte each.
    let section = |times: usize| {
        let mut block = [OK, &[0x40, 1, b'x', 0x7f, 0xb9, 0x16]].concat();
        block.extend([b'y'; 3_000]);
        block.extend(vec![0xbe; times]);
        frame(HEADERS, WHOLE | END, 1, &block)
    };
    check(cases! {
        "a little": [section(5)] => Answered(200, 0);
        "too much": [section(5_000)] => Stream(INTERNAL_ERROR);
    });
}

#[test]
fn frames_on_idle_and_closed_streams_are_refused_or_ignored() {
    let reset = |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
    check(cases! {
        "idle DATA": [frame(DATA, 0, 5, b"x")] => Connection(PROTOCOL_ERROR);
        "idle HEADERS": [frame(HEADERS, WHOLE, 5, OK)] => Connection(PROTOCOL_ERROR);
        "a pushed stream": [frame(HEADERS, WHOLE, 2, OK)] => Connection(PROTOCOL_ERROR);
        "idle RST_STREAM": [reset(5)] => Connection(PROTOCOL_ERROR);
        "idle WINDOW_UPDATE": [frame(WINDOW_UPDATE, 0, 5, &[0, 0, 0, 1])] => Connection(PROTOCOL_ERROR);
        "idle PRIORITY": [frame(PRIORITY, 0, 5, &[0; 5]), ok(END)] => Answered(200, 0);
        "a reset": [reset(1)] => WasReset(8);
        "frames after a reset": [reset(1), ok(0), data(END, b"x"), reset(1)] => WasReset(8);
        "DATA after the end": [ok(END), data(0, b"x")] => Answered(200, 0);
        "HEADERS after the end": [ok(END), ok(END)] => Answered(200, 0);
        "the table survives what is ignored": [
            ok(END), frame(HEADERS, WHOLE | END, 1, &[0x40, 1, b'x', 1, b'y']), frame(PING, 0, 0, &[0; 8]),
        ] => Answered(200, 0);
    });
}

#[test]
fn early_responses_are_reported_and_end_the_stream() {
    let opening = [frame(SETTINGS, 0, 0, &[])];
    check_after(
        &opening,
        "POST",
        cases! {
            "an early answer": [ok(END)] => Answered(200, 0);
            "DATA after it": [ok(END), data(0, b"x")] => Connection(STREAM_CLOSED);
            "HEADERS after it": [ok(END), ok(END)] => Connection(STREAM_CLOSED);
            "a reset after it": [ok(END), frame(RST_STREAM, 0, 1, &[0; 4])] => Answered(200, 0);
        },
    );
}

#[test]
fn invalid_settings_are_connection_errors() {
    check(cases! {
        "an unknown setting": [setting(0x99, 7), ok(END)] => Answered(200, 0);
        "an acknowledgement": [frame(SETTINGS, ACK, 0, &[]), ok(END)] => Answered(200, 0);
        "two acknowledgements":
            [frame(SETTINGS, ACK, 0, &[]), frame(SETTINGS, ACK, 0, &[])] => Connection(PROTOCOL_ERROR);
        "an acknowledgement with settings": [frame(SETTINGS, ACK, 0, &[0; 6])] => Connection(FRAME_SIZE_ERROR);
        "settings that are cut": [frame(SETTINGS, 0, 0, &[0; 5])] => Connection(FRAME_SIZE_ERROR);
        "settings of a stream": [frame(SETTINGS, 0, 1, &[])] => Connection(PROTOCOL_ERROR);
        "too many settings": [frame(SETTINGS, 0, 0, &[0; 33 * 6])] => Connection(ENHANCE_YOUR_CALM);
        "push enabled": [setting(2, 1)] => Connection(PROTOCOL_ERROR);
        "push disabled": [setting(2, 0), ok(END)] => Answered(200, 0);
        "too large a window": [setting(4, 1 << 31)] => Connection(FLOW_CONTROL_ERROR);
        "too small a frame": [setting(5, 16_383)] => Connection(PROTOCOL_ERROR);
        "too large a frame": [setting(5, 1 << 24)] => Connection(PROTOCOL_ERROR);
    });
}

#[test]
fn invalid_window_updates_and_floods_of_empty_data_are_errors() {
    let update = |stream, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    check(cases! {
        "nothing for the connection": [update(0, 0)] => Connection(PROTOCOL_ERROR);
        "nothing for a stream": [update(1, 0)] => Stream(PROTOCOL_ERROR);
        "too much for the connection": [update(0, 0x7fff_ffff)] => Connection(FLOW_CONTROL_ERROR);
        "too much for a stream": [update(1, 0x7fff_ffff)] => Stream(FLOW_CONTROL_ERROR);
        "streams' windows that settings make too large":
            [update(1, 0x7fff_0000), setting(4, 0x7fff_0000)] => Connection(FLOW_CONTROL_ERROR);
        "more empty DATA than anybody sends":
            [vec![ok(0)], vec![data(0, &[]); 1_001]].concat() => Connection(ENHANCE_YOUR_CALM);
    });
}

#[test]
fn data_beyond_a_window_is_an_error() {
    // The windows of the stream and of the connection are 65,535 bytes; our updates wait until half of them is used.
    let mut whole = vec![ok(0)];
    whole.extend((0..4).map(|_| data(0, &[0; 16_000])));
    whole.push(data(END, &[0; 1_535]));
    check(vec![("all of it", whole, Answered(200, 65_535))]);
    let mut client = Client::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::new(ALL);
    client.set_manual_consumption();
    client.submit(&request("GET", 0)).unwrap();
    take_output(&mut client, &mut inbox);
    let mut bytes = [frame(SETTINGS, 0, 0, &[]), ok(0)].concat();
    bytes.extend((0..5).flat_map(|_| data(0, &[0; 16_000])));
    let error = client.receive(&bytes, &mut inbox).unwrap_err();
    assert!(
        matches!(error, ConnectionError::Http2 { code: 3, .. }),
        "{error}"
    );
}

#[test]
fn goaway_may_not_be_raised_and_settings_must_come_first() {
    let goaway = |last: u32| {
        let payload = [&last.to_be_bytes()[..], &[0, 0, 0, 0]].concat();
        frame(GOAWAY, 0, 0, &payload)
    };
    check(cases! {
        "a GOAWAY that lets all end": [goaway(3), ok(END)] => Answered(200, 0);
        "a GOAWAY that is taken back": [goaway(3), goaway(5)] => Connection(PROTOCOL_ERROR);
        "a GOAWAY of a stream": [frame(GOAWAY, 0, 1, &[0; 8])] => Connection(PROTOCOL_ERROR);
    });
    let first: [(&str, Vec<u8>); 3] = [
        ("HEADERS", ok(END)),
        ("an acknowledgement", frame(SETTINGS, ACK, 0, &[])),
        ("HTTP/1.1", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in first {
        let verdict = judge("GET", &[bytes], usize::MAX);
        assert_eq!(verdict, Connection(PROTOCOL_ERROR), "{name}");
    }
}

#[test]
fn requests_beyond_a_goaway_are_refused() {
    let mut client = Client::new(&Http2Settings::default()).unwrap();
    let mut inbox = Inbox::new(ALL);
    for _ in 0..2 {
        client.submit(&request("GET", 0)).unwrap();
        take_output(&mut client, &mut inbox);
    }
    let bytes = [
        frame(SETTINGS, 0, 0, &[]),
        frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
        ok(END),
    ];
    client.receive(&bytes.concat(), &mut inbox).unwrap();
    let refused = ClientEvent::RequestRefused {
        stream: StreamId(3),
    };
    assert!(inbox.events.contains(&refused), "{:?}", inbox.events);
    assert!(!client.is_open());
    assert_eq!(client.in_flight(), 0);
}
