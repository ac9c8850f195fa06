//! Responses of servers: field values on several lines, and gRPC calls.

use std::fs;

use tempfile::TempDir;

use super::{Ended, file, run};
use crate::hostile_servers::SETTINGS;
use crate::stand_ins::answering;
use crate::support::seat;

/// The command of the cases. `-v` prints what it sends and receives; the timeout ends it if the server is lost.
const FETCH: [&str; 4] = ["fetch", "-v", "--timeout", "20s"];

/// Sends one request to a server that answers it with these pieces.
fn fetch(home: &TempDir, pieces: Vec<Vec<u8>>, path: &str, arguments: &[&str]) -> Ended {
    // The server outlives the test.
    let leak = |piece: Vec<u8>| -> &'static [u8] { piece.leak() };
    let pieces: Vec<&'static [u8]> = pieces.into_iter().map(leak).collect();
    let url = format!("http://{}{path}", answering(pieces.leak()));
    let arguments = [&FETCH[..], arguments, &[url.as_str()]].concat();
    run(home.path(), &arguments)
}

#[test]
fn folded_response_fields_are_joined_with_spaces() {
    const LENGTH: &str = "Content-Length: 10\r\n\r\n0123456789";
    const CHUNK: &str = "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n";
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let before = |fields: &str| format!("{fields}{LENGTH}");
    let trailers = |fields: &str| format!("{CHUNK}{fields}\r\n");
    for (fields, seen) in [
        // h1-obs-fold.
        (before("X-Fold: a\r\n  b\r\n"), "x-fold: a b\n"),
        (before("X-Fold: a\r\n\tb\r\n"), "x-fold: a b\n"),
        (
            before("X-Fold: a\r\n b\r\n\t c \r\n  d\r\n"),
            "x-fold: a b c d\n",
        ),
        (before("X-Fold:\r\n b\r\n"), "x-fold: b\n"),
        (before("X-Fold: a\r\n \r\n"), "x-fold: a\n"),
        (before("X-Fold: a\r\n B: c\r\n"), "x-fold: a B: c\n"),
        (
            "Content-Length:\r\n 10\r\nX-Fold: a\r\n b\r\n\r\n0123456789".to_owned(),
            "x-fold: a b\n",
        ),
        (
            "Transfer-Encoding:\r\n\tchunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n".to_owned(),
            "transfer-encoding: chunked\n",
        ),
        (trailers("X-Fold: a\r\n b\r\n"), "x-fold: a b\n"),
        (
            trailers("X: a\r\nX-Fold: b\r\n\tc\r\n  d\r\n"),
            "x-fold: b c d\n",
        ),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}").into_bytes();
        // Whole, and with the head in two pieces, of which the first ends before or within a fold.
        let middle = answer.iter().rposition(|byte| b" \t".contains(byte));
        let (start, end) = answer.split_at(middle.expect("there is a fold"));
        for pieces in [vec![answer.clone()], vec![start.to_vec(), end.to_vec()]] {
            let ended = fetch(&home, pieces, "/fold", &[]);
            assert_eq!(ended.code, Some(0), "{fields:?}: {}", ended.stderr);
            assert_eq!(ended.stdout, "0123456789", "{fields:?}");
            assert!(ended.stderr.contains(seen), "{fields:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn fold_without_a_field_line_to_continue_is_a_protocol_error() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for answer in [
        "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n X: a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\n0123456789",
    ] {
        let ended = fetch(&home, vec![answer.as_bytes().to_vec()], "/", &[]);
        assert_eq!(ended.code, Some(1), "{answer:?}: {}", ended.stdout);
        let said = &ended.stderr;
        assert!(said.contains("protocol_error: "), "{answer:?}: {said}");
    }
}

/// An HTTP/2 frame on stream 1.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// HEADERS with these fields as literals.
fn headers(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    const HEADERS: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    frame(HEADERS, END_HEADERS | flags, &block)
}

const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// A gRPC message with its prefix.
fn message(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&[0][..], &length, content].concat()
}

const HELLO: &[u8] = b"\n\x05hello";

/// The frames that the server sends, the number of messages that arrive, and the error.
type Call = (Vec<Vec<u8>>, usize, &'static str);

fn calls() -> Vec<Call> {
    let head = |flags: u8, kind: &str, more: &[(&str, &str)]| {
        let fields = [&[(":status", "200"), ("content-type", kind)][..], more].concat();
        headers(flags, &fields)
    };
    let hello = || frame(DATA, 0, &message(HELLO));
    let trailers = |fields: &[(&str, &str)]| headers(END_STREAM, fields);
    let grpc = || head(0, "application/grpc", &[]);
    let not_found = [("grpc-status", "5"), ("grpc-message", "no%20such%20name")];
    vec![
        // grpc-te-trailers.
        (
            vec![grpc(), hello(), trailers(&[("grpc-status", "0")])],
            1,
            "",
        ),
        (
            vec![
                head(0, "application/grpc+proto", &[]),
                hello(),
                trailers(&[("grpc-status", "0")]),
            ],
            1,
            "",
        ),
        // A stream of three messages, of which two are in one frame.
        (
            vec![
                grpc(),
                hello(),
                frame(DATA, 0, &message(HELLO).repeat(2)),
                trailers(&[("grpc-status", "0"), ("grpc-message", "")]),
            ],
            3,
            "",
        ),
        (
            vec![grpc(), trailers(&not_found)],
            0,
            "the gRPC call failed: grpc-status 5 (NOT_FOUND)",
        ),
        // Trailers only: the head is the whole response.
        (
            vec![head(
                END_STREAM,
                "application/grpc",
                &[("grpc-status", "16")],
            )],
            0,
            "the gRPC call failed: grpc-status 16 (UNAUTHENTICATED)",
        ),
        // A stream that fails after a message.
        (
            vec![grpc(), hello(), trailers(&[("grpc-status", "14")])],
            1,
            "the gRPC call failed: grpc-status 14 (UNAVAILABLE)",
        ),
        (
            vec![grpc(), hello(), frame(DATA, END_STREAM, b"")],
            1,
            "the gRPC call failed: no grpc-status",
        ),
        (
            vec![grpc(), frame(RST_STREAM, 0, &[0, 0, 0, 2])],
            0,
            "stream_reset",
        ),
    ]
}

#[test]
fn grpc_calls_succeed_or_fail_by_their_status() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    fs::copy(
        file("grpc-te-trailers", "grpc.bin"),
        home.path().join("grpc.bin"),
    )
    .expect("a copy");
    for (frames, messages, error) in calls() {
        let pieces = [&[SETTINGS.to_vec()][..], &frames].concat();
        let call = [
            "--http",
            "2",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
            "-d",
            "grpc.bin",
        ];
        let ended = fetch(&home, pieces, "/demo.Greeter/SayHello", &call);
        let said = &ended.stderr;
        assert!(said.contains("te: trailers"), "{said}");
        assert_eq!(ended.code, Some(i32::from(!error.is_empty())), "{said}");
        assert!(said.contains(error), "{error}: {said}");
        let received = String::from_utf8(message(HELLO).repeat(messages)).expect("ASCII");
        assert_eq!(ended.stdout, received, "{error}: {said}");
    }
}
