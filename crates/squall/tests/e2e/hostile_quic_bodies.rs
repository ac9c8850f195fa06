//! HTTP/3 clients that send very many frames, or abort midway, against `squall serve`: bodies stay whole, frames of
//! reserved types cost nothing, and the access log has an outcome for each exchange.
//!
//! Protocol violations are tested in `hostile_quic_rules`, other floods in `hostile_quic`.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use quiche::Shutdown;
use tempfile::TempDir;

use crate::hostile_quic::{MOST_KIB, withstand};
use crate::hostile_quic_rules::{AUTHORITY, POST, SCHEME, field, frame, headers};
use crate::raw_quic::{GET, RawClient};
use crate::serving::Serving;
use crate::support::seat;

const WINDOW: u64 = 1 << 20;

/// RFC 9114, section 8.1.
const NO_ERROR: u64 = 0x100;
const REQUEST_CANCELLED: u64 = 0x10c;

/// An empty frame of a reserved type, which has no meaning (RFC 9114, section 7.2.8).
const NOTHING: &[u8] = &[0x21, 0x0];

/// The deadline for an aborted exchange to appear in the access log.
const SOON: Duration = Duration::from_secs(5);

/// The start of a frame of a reserved type that is 2^62 - 1 bytes long.
const ENDLESS_NOTHING: &[u8] = &[0x21, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

fn post(target: &str, length: Option<&str>) -> Vec<u8> {
    let length = length.map(|length| field("content-length", length));
    let length = length.unwrap_or_default();
    headers(&[POST, SCHEME, AUTHORITY, &field(":path", target), &length])
}

/// The bytes of DATA in a response whose other frames are HEADERS.
fn body(answer: &[u8]) -> Vec<u8> {
    let integer = |at: &mut usize| {
        let len = 1 << (answer[*at] >> 6);
        let first = u64::from(answer[*at] & 0x3f);
        let rest = &answer[*at + 1..*at + len];
        *at += len;
        rest.iter()
            .fold(first, |value, byte| value << 8 | u64::from(*byte)) as usize
    };
    let (mut at, mut body) = (0, Vec::new());
    while at < answer.len() {
        let (kind, len) = (integer(&mut at), integer(&mut at));
        if kind == 0 {
            body.extend(&answer[at..at + len]);
        }
        at += len;
    }
    body
}

#[test]
fn bodies_in_one_byte_frames_arrive_whole() {
    // Empty and reserved frames are limited to 10,000 in advance.
    const BYTES: usize = 4_000;
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &["--echo"]);
    let sent: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    let frames: Vec<u8> = sent
        .iter()
        // Each byte in its own DATA frame, followed by an empty one and a frame of a reserved type.
        .flat_map(|byte| [0x0, 0x1, *byte, 0x0, 0x0, 0x21, 0x0])
        .collect();
    let mut client = RawClient::connect(serving.address("h3"), WINDOW);
    client.send_all(0, &post("/", Some("4000")), false);
    client.send_all(0, &frames, true);
    let answer = client.answer(0).expect("an answer");
    assert!(body(&answer) == sent, "{} bytes", body(&answer).len());
    let mut other = RawClient::connect(serving.address("h3"), WINDOW);
    other.send(
        0,
        &[&post("/", Some("3"))[..], &frame(0x0, b"abc")].concat(),
        true,
    );
    assert_eq!(body(&other.answer(0).expect("an answer")), b"abc");
    let peak_kib = serving.peak_kib();
    assert!(peak_kib < MOST_KIB, "{peak_kib} KiB");
    serving.check_ends_well();
}

/// Sends as many whole copies of this frame as the stream accepts.
fn send_whole(client: &mut RawClient, stream: u64, frame: &[u8], done: &mut u64) {
    let room = client.conn.stream_capacity(stream).unwrap_or(0).min(65_536);
    let count = room / frame.len();
    if count > 0 && client.send(stream, &frame.repeat(count), false) {
        *done += count as u64;
    }
}

#[test]
fn server_withstands_floods_of_reserved_frames_and_streams() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &[]);
    let ended = withstand(
        ("on the control stream", 20_000),
        &serving,
        WINDOW,
        |client, done| send_whole(client, 2, NOTHING, done),
    );
    assert_eq!(ended, [true; 2], "it carries nothing");
    let ended = withstand(
        ("on streams of requests", 20_000),
        &serving,
        WINDOW,
        |client, done| {
            for stream in [0, 4, 8] {
                if *done == 0 {
                    client.send(stream, NOTHING, false);
                }
                send_whole(client, stream, NOTHING, done);
            }
        },
    );
    assert_eq!(ended, [true; 2], "it carries nothing");
    let ended = withstand(
        ("a frame without end", 40),
        &serving,
        WINDOW,
        |client, done| {
            let bytes = match *done {
                0 => ENDLESS_NOTHING,
                _ => &[b'x'; 16_384],
            };
            *done += u64::from(client.send(0, bytes, false));
        },
    );
    assert_eq!(ended, [false; 2], "it may be sent");
    // Reserved stream types are 0x1f * N + 0x21 as well (RFC 9114, section 6.2.3).
    let ended = withstand(("streams", 200), &serving, WINDOW, |client, done| {
        *done += u64::from(client.send(4 * *done + 6, &[0x21, 1, 2, 3], true));
    });
    assert_eq!(ended, [false; 2], "they may be opened");
    serving.check_ends_well();
}

#[test]
fn requests_after_reserved_frames_get_responses() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &["--body", "5B"]);
    let mut client = RawClient::connect(serving.address("h3"), WINDOW);
    // 0x1f * 1 + 0x21, and the largest such type, each with a payload.
    let others = [
        &[0x40, 0x40, 0x2, 1, 2][..],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x1, 1],
    ];
    client.send_all(2, &others.concat().repeat(1_000), false);
    client.send_all(6, &[0x40, 0x40, 1, 2, 3], true);
    let request = [
        &others.concat().repeat(1_000)[..],
        GET,
        others[0],
        others[1],
    ]
    .concat();
    client.send_all(0, &request, true);
    let answer = client.answer(0).expect("an answer");
    assert_eq!(body(&answer).len(), 5);
    serving.check_ends_well();
}

/// Waits for the access log line on this target. Returns it from the request on, without the time.
fn line_of(log: &Path, request: &str) -> String {
    let give_up = Instant::now() + SOON;
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        // "... h3 "GET /a" - 0 0 1.234"
        let found = text.lines().find_map(|line| {
            let (_, line) = line.split_once(" h3 ")?;
            let (line, _) = line.rsplit_once(' ')?;
            line.starts_with(request).then(|| line.to_owned())
        });
        if let Some(line) = found {
            return line;
        }
        assert!(Instant::now() < give_up, "no {request} in {text:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn aborted_exchanges_are_in_the_access_log() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let log = home.path().join("access");
    let to = log.to_str().expect("a path in UTF-8");
    let serving = Serving::start(&["h1", "h3"], &["--body", "1MiB", "--access-log", to]);
    let connect = |window| RawClient::connect(serving.address("h3"), window);
    let start = |client: &mut RawClient, stream, target: &str| {
        let half = [&post(target, Some("9"))[..], &frame(0x0, b"abc")].concat();
        client.send(stream, &half, false);
        client.turn();
    };

    let mut client = connect(WINDOW);
    start(&mut client, 0, "/reset");
    let _ = (client.conn).stream_shutdown(0, Shutdown::Write, REQUEST_CANCELLED);
    client.turn();
    assert_eq!(line_of(&log, "\"POST /reset\""), "\"POST /reset\" - 3 0");
    // The next request on the same connection gets a response.
    client.send(4, GET, true);
    let answer = client.answer(4).expect("an answer");
    assert_eq!(body(&answer).len(), 1 << 20);

    let mut client = connect(20_000);
    client.send(0, &post("/stop", None), true);
    client.turn_until("answered", |conn| conn.stream_readable(0));
    let _ = (client.conn).stream_shutdown(0, Shutdown::Read, REQUEST_CANCELLED);
    client.turn();
    let line = line_of(&log, "\"POST /stop\"");
    assert!(line.starts_with("\"POST /stop\" - 0 "), "{line}");

    let mut client = connect(WINDOW);
    start(&mut client, 0, "/close");
    let _ = client.conn.close(true, NO_ERROR, b"");
    client.turn();
    assert_eq!(line_of(&log, "\"POST /close\""), "\"POST /close\" - 3 0");

    // What the server itself rejects, and what makes it end the connection.
    let mut client = connect(WINDOW);
    client.send(0, &headers(&[POST]), true);
    client.turn();
    assert_eq!(line_of(&log, "\"- -\""), "\"- -\" - 0 0");
    start(&mut client, 4, "/broken");
    client.send(4, &frame(0x4, &[]), false);
    client.turn_until("refused", |conn| conn.peer_error().is_some());
    assert_eq!(line_of(&log, "\"POST /broken\""), "\"POST /broken\" - 3 0");
    serving.check_answers();
    serving.check_ends_well();
}
