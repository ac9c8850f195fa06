//! HTTP/3 servers that violate the protocol, against `squall load` and `squall fetch`: each receives the code of RFC
//! 9114, section 8.1, or RFC 9204, section 6, and each request gets an outcome in the record, quickly and in little
//! memory.
//!
//! The engine itself enforces all of these rules. Servers that are silent, flood or abort are in `hostile_servers`,
//! clients that violate rules in `hostile_quic_rules`.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::record::Outcome::{self, ConnectionClosed, ProtocolError, StreamReset};
use squall_record::read_requests;
use tempfile::TempDir;

use crate::bounded::{self, check_each};
use crate::hostile_servers::{HALF_DATA_3, HEADERS_3, MOST, MOST_KIB};
use crate::raw_quic::Refusal::{self, OfConnection, OfStream};
use crate::raw_quic::Then::{Closes, EndsTheStream, KeepsSilent, ResetsTheStream};
use crate::raw_quic::{CONTROL, RawServer, Then};
use crate::support::{seat, squall};

/// The number of servers that run in parallel.
const AT_ONCE: usize = 8;

/// A server's second and third unidirectional streams, and its first bidirectional one.
const SECOND: u64 = 7;
const THIRD: u64 = 11;
const BIDIRECTIONAL: u64 = 1;

const STREAM_CREATION_ERROR: Option<Refusal> = Some(OfConnection(0x103));
const CLOSED_CRITICAL_STREAM: Option<Refusal> = Some(OfConnection(0x104));
const FRAME_UNEXPECTED: Option<Refusal> = Some(OfConnection(0x105));
const FRAME_ERROR: Option<Refusal> = Some(OfConnection(0x106));
const ID_ERROR: Option<Refusal> = Some(OfConnection(0x108));
const SETTINGS_ERROR: Option<Refusal> = Some(OfConnection(0x109));
const MISSING_SETTINGS: Option<Refusal> = Some(OfConnection(0x10a));
const QPACK_DECOMPRESSION_FAILED: Option<Refusal> = Some(OfConnection(0x200));
const QPACK_ENCODER_STREAM_ERROR: Option<Refusal> = Some(OfConnection(0x201));
const MESSAGE_ERROR: Option<Refusal> = Some(OfStream(0x10e));

/// A HEADERS frame that refers to an entry of the dynamic table.
const DYNAMIC: &[u8] = &[0x1, 3, 0, 0, 0x80];
/// ":status: 200" and "content-length: 2" (RFC 9204, appendix A).
const LENGTH_2: &[u8] = &[0x1, 6, 0, 0, 0xd9, 0x54, 1, b'2'];
/// "abc".
const DATA: &[u8] = &[0x0, 3, b'a', b'b', b'c'];
/// ":status: 200" and "X: y".
const UPPER_CASE: &[u8] = &[0x1, 7, 0, 0, 0xd9, 0x21, b'X', 1, b'y'];
/// ":status: 200" and "x: <line feed>".
const LINE_END: &[u8] = &[0x1, 7, 0, 0, 0xd9, 0x21, b'x', 1, b'\n'];
/// "x: y" without a status.
const NO_STATUS: &[u8] = &[0x1, 6, 0, 0, 0x21, b'x', 1, b'y'];

/// A server, the outcome of requests, and the error that the server receives.
type Misdeed = (&'static str, RawServer, Outcome, Option<Refusal>);

/// Sends these bytes on the control stream, and no response.
fn control(name: &'static str, says: &'static [u8], told: Option<Refusal>) -> Misdeed {
    (
        name,
        RawServer::new(says, &[], KeepsSilent),
        ProtocolError,
        told,
    )
}

/// Opens these streams besides the control stream, and sends no response.
fn beside(
    name: &'static str,
    streams: &'static [(u64, &'static [u8], bool)],
    told: Option<Refusal>,
) -> Misdeed {
    let server = RawServer {
        beside: streams,
        ..RawServer::new(CONTROL, &[], KeepsSilent)
    };
    (name, server, ProtocolError, told)
}

/// Sends this as its response.
fn answer(
    name: &'static str,
    says: &'static [&'static [u8]],
    outcome: Outcome,
    told: Option<Refusal>,
) -> Misdeed {
    (
        name,
        RawServer::new(CONTROL, says, KeepsSilent),
        outcome,
        told,
    )
}

/// Runs load against each server, several in parallel.
fn check(misdeeds: &[Misdeed]) {
    check_each(misdeeds, AT_ONCE, |&misdeed, home| check_one(misdeed, home));
}

fn check_one((name, server, outcome, told): Misdeed, home: &Path) {
    let (address, refusals) = server.start_listening(home);
    let load = [
        "load", "-k", "--http", "3", "-n", "2", "-D", "2s", "--drain", "1s",
    ];
    let url = format!("https://{address}/");
    let output = ["--output", "requests.parquet", &url];
    let (code, said) = run(name, home, &[&load[..], &output].concat());
    assert_eq!(code, Some(1), "{name}: {said}");
    let rows = read_requests(home.join("requests.parquet")).expect("requests.parquet");
    let became: Vec<_> = rows.iter().map(|row| (row.outcome, &row.error)).collect();
    let outcomes: Vec<_> = rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [outcome; 2], "{name}: {became:?}");
    // The client's last packet may still be in flight when it exits.
    let give_up = Instant::now() + Duration::from_secs(20);
    let is_told = || told.is_none_or(|told| refusals.so_far().contains(&told));
    while !is_told() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(10));
    }
    let heard = refusals.so_far();
    assert!(
        is_told(),
        "{name}: {heard:x?} without {told:x?}; {became:?}"
    );
}

/// Runs squall within bounds. Returns its exit code and its output.
fn run(name: &str, home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = bounded::run(squall(home).args(arguments), home, MOST, name);
    let (peak_kib, said) = (ended.peak_kib, ended.output);
    assert!(peak_kib < MOST_KIB, "{name}: {peak_kib} KiB");
    assert!(!said.contains("panicked"), "{name}: {said}");
    (ended.status.code(), said)
}

#[test]
fn control_stream_violations_are_rejected() {
    let c = control;
    check(&[
        c("SETTINGS twice", &[0, 4, 0, 4, 0], FRAME_UNEXPECTED),
        c("GOAWAY first", &[0, 7, 1, 0], MISSING_SETTINGS),
        c("nothing first", &[0, 0x21, 0, 4, 0], MISSING_SETTINGS),
        c("setting 0x2", &[0, 4, 2, 2, 1], SETTINGS_ERROR),
        c("setting 0x3", &[0, 4, 2, 3, 1], SETTINGS_ERROR),
        c("setting 0x4", &[0, 4, 2, 4, 1], SETTINGS_ERROR),
        c("setting 0x5", &[0, 4, 2, 5, 1], SETTINGS_ERROR),
        c("half a setting", &[0, 4, 1, 6], FRAME_ERROR),
        c("frame 0x2", &[0, 4, 0, 2, 0], FRAME_UNEXPECTED),
        c("frame 0x6", &[0, 4, 0, 6, 0], FRAME_UNEXPECTED),
        c("frame 0x8", &[0, 4, 0, 8, 0], FRAME_UNEXPECTED),
        c("frame 0x9", &[0, 4, 0, 9, 0], FRAME_UNEXPECTED),
        c("DATA", &[0, 4, 0, 0, 0], FRAME_UNEXPECTED),
        c("MAX_PUSH_ID", &[0, 4, 0, 0xd, 1, 0], FRAME_UNEXPECTED),
        c("CANCEL_PUSH", &[0, 4, 0, 3, 1, 0], ID_ERROR),
        c("GOAWAY of 1", &[0, 4, 0, 7, 1, 1], ID_ERROR),
        c("growing GOAWAY", &[0, 4, 0, 7, 1, 8, 7, 1, 12], ID_ERROR),
    ]);
}

#[test]
fn forbidden_streams_are_rejected() {
    check(&[
        beside(
            "two control streams",
            &[(SECOND, CONTROL, false)],
            STREAM_CREATION_ERROR,
        ),
        beside(
            "two encoders",
            &[(SECOND, &[2], false), (THIRD, &[2], false)],
            STREAM_CREATION_ERROR,
        ),
        beside(
            "a bidirectional stream",
            &[(BIDIRECTIONAL, HEADERS_3, false)],
            STREAM_CREATION_ERROR,
        ),
        beside("a push", &[(SECOND, &[1, 0], false)], ID_ERROR),
        beside(
            "an encoder that ends",
            &[(SECOND, &[2], true)],
            CLOSED_CRITICAL_STREAM,
        ),
        beside(
            "an insertion",
            &[(SECOND, &[2, 0x41, b'x'], false)],
            QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            "a control stream that ends",
            RawServer {
                beside: &[(3, b"", true)],
                ..RawServer::new(CONTROL, &[], KeepsSilent)
            },
            ProtocolError,
            CLOSED_CRITICAL_STREAM,
        ),
    ]);
}

#[test]
fn response_violations_are_rejected() {
    let of = |name, says, told| answer(name, says, ProtocolError, told);
    let malformed = |name, says| answer(name, says, ProtocolError, MESSAGE_ERROR);
    check(&[
        of("DATA before HEADERS", &[DATA], FRAME_UNEXPECTED),
        of("frame 0x2", &[HEADERS_3, &[2, 0]], FRAME_UNEXPECTED),
        of("frame 0x6", &[&[6, 0]], FRAME_UNEXPECTED),
        of("frame 0x8", &[&[8, 0]], FRAME_UNEXPECTED),
        of("frame 0x9", &[&[9, 0]], FRAME_UNEXPECTED),
        of("SETTINGS", &[&[4, 0]], FRAME_UNEXPECTED),
        of(
            "DATA after trailers",
            &[HEADERS_3, &[1, 2, 0, 0], DATA],
            FRAME_UNEXPECTED,
        ),
        of("PUSH_PROMISE", &[&[5, 3, 0, 0, 0]], ID_ERROR),
        of("no QPACK", &[DYNAMIC], QPACK_DECOMPRESSION_FAILED),
        of(
            "no QPACK in trailers",
            &[HEADERS_3, DYNAMIC],
            QPACK_DECOMPRESSION_FAILED,
        ),
        malformed("no status", &[NO_STATUS]),
        malformed("an upper-case name", &[UPPER_CASE]),
        malformed("a line end in a value", &[LINE_END]),
        malformed("a longer body than said", &[LENGTH_2, DATA]),
        malformed("a status in trailers", &[HEADERS_3, HEADERS_3]),
    ]);
}

#[test]
fn aborted_responses_are_recorded_as_failures() {
    const HALF: &[&[u8]] = &[HEADERS_3, HALF_DATA_3];
    let then = |name, says, then: Then, outcome, told| {
        let server = RawServer::new(CONTROL, says, then);
        (name, server, outcome, told)
    };
    check(&[
        then("closed in a body", HALF, Closes, ConnectionClosed, None),
        then("reset in a body", HALF, ResetsTheStream, StreamReset, None),
        then(
            "ended in a frame",
            HALF,
            EndsTheStream,
            ProtocolError,
            FRAME_ERROR,
        ),
        then(
            "ended too soon",
            &[LENGTH_2, &[0x0, 1, b'a']],
            EndsTheStream,
            ProtocolError,
            None,
        ),
        then(
            "ended before a head",
            &[],
            EndsTheStream,
            ProtocolError,
            None,
        ),
    ]);
}

const BODY_BYTES: usize = 8_000;

/// DATA frames of one byte each, each followed by a frame of a reserved type.
const BODY: &[u8] = &{
    let mut frames = [0; 5 * BODY_BYTES];
    let mut at = 0;
    while at < frames.len() {
        (frames[at + 1], frames[at + 2], frames[at + 3]) = (1, b'x', 0x21);
        at += 5;
    }
    frames
};

#[test]
fn body_in_one_byte_frames_arrives_whole() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = RawServer::new(CONTROL, &[HEADERS_3, BODY], EndsTheStream);
    let (address, refusals) = server.start_listening(home.path());
    let url = format!("https://{address}/");
    let fetch = ["fetch", "-k", "--http", "3", "-o", "body", &url];
    let (code, said) = run("one byte each", home.path(), &fetch);
    assert_eq!(code, Some(0), "{said}");
    let body = fs::read(home.path().join("body")).expect("a body");
    assert!(body == [b'x'; BODY_BYTES], "{} bytes", body.len());
    let is_refused = |refusal: &Refusal| *refusal != OfConnection(0x100);
    assert!(
        !refusals.so_far().iter().any(is_refused),
        "{:x?}",
        refusals.so_far()
    );
}
