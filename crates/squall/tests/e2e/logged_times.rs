//! Times in the access log of `squall serve`: microseconds from the first byte of a request until the last of its
//! response was written, and the moment of that first byte.
//!
//! Lower bounds are waits that the tests make. Upper bounds come from the test's clock, from before the exchange until
//! the server has exited: a client may read the last byte before the server looks at its own clock. Interop's `server`
//! tests that each exchange has a line, and the line's other fields.

use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::raw_http2::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, frame, read_frame};
use crate::served::{self, ask};
use crate::serving::{Serving, connect, read_to_end};
use crate::support::{alone_if_it_fails, seat, stderr};

/// How long a client pauses in the middle of what it sends.
const PAUSE: Duration = Duration::from_millis(300);

/// How late a server on a busy machine may read the first byte; its times count from that read.
const LATE: Duration = Duration::from_millis(100);

/// More than the sockets of both sides hold: the sender's may grow to 4 MiB, and the receiver's does not grow while
/// nothing reads it (tcp(7), tcp_wmem and tcp_rmem).
const LARGE_BYTES: usize = 16 << 20;

/// The system clock may have been adjusted since the server started.
const CLOCK: Duration = Duration::from_millis(50);

const DAY: Duration = Duration::from_secs(86_400);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// GET, http, "/first" and "a" (RFC 7541, appendix A).
const HEAD_2: &[u8] = b"\x82\x86\x04\x06/first\x41\x01a";
/// SETTINGS_INITIAL_WINDOW_SIZE and a WINDOW_UPDATE of the connection: the largest possible value, and 65,535 less.
const NO_LIMIT: &[u8] =
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

/// One exchange: its log entry, and how long the test saw it take.
struct Logged {
    name: String,
    /// Since midnight, UTC.
    began: Duration,
    took: Duration,
    status: String,
    response_bytes: u64,
}

impl Logged {
    /// Parses the only line that names this target.
    fn find(log: &str, name: String, target: &str) -> Logged {
        let of_it = format!(" {target}\" ");
        let mut lines = log.lines().filter(|line| line.contains(&of_it));
        let (Some(line), None) = (lines.next(), lines.next()) else {
            panic!("{name}: not one line with {target}: {log}");
        };
        let words: Vec<&str> = line.split(' ').collect();
        // 2026-11-22T05:06:04.510476Z
        let (_, clock) = words[0].split_once('T').expect("a time");
        let parts: Vec<f64> = clock
            .trim_end_matches('Z')
            .split(':')
            .map(|part| part.parse().expect("a number"))
            .collect();
        let began = parts.iter().fold(0.0, |sum, part| sum * 60.0 + part);
        let us: f64 = words[8].parse().expect("microseconds");
        Logged {
            name,
            began: Duration::from_secs_f64(began),
            took: Duration::from_secs_f64(us / 1e6),
            status: words[5].to_owned(),
            response_bytes: words[7].parse().expect("bytes"),
        }
    }

    /// Checks that it took at least as long as the server had to wait, and no longer than the whole exchange.
    fn check(&self, least: Duration, most: Duration) {
        let Logged { name, took, .. } = self;
        eprintln!("{name}: {took:?} of {most:?}");
        assert_eq!(self.status, "200", "{name}");
        assert!(*took >= least, "{name}: {took:?}, not {least:?}");
        assert!(*took <= most, "{name}: {took:?}, not within {most:?}");
    }
}

/// Starts a server with this listener and stops it after `exchange`, which returns when it began. Returns the access
/// log, and the time from then until the server has exited.
fn log_of(kind: &str, exchange: impl FnOnce(&Serving) -> Instant) -> (String, Duration) {
    let home = TempDir::new().expect("a temporary folder");
    let log = home.path().join("access.log");
    let path = log.to_str().expect("UTF-8");
    let serving = Serving::start(&[kind], &["--access-log", path]);
    let began = exchange(&serving);
    serving.check_ends_well();
    let most = began.elapsed();
    (fs::read_to_string(log).expect("the access log"), most)
}

fn since_midnight() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a time after 1970");
    Duration::new(now.as_secs() % DAY.as_secs(), now.subsec_nanos())
}

#[test]
fn logged_time_includes_the_delay() {
    const TARGET: &str = "/?delay=200ms";
    let _seat = seat();
    for protocol in [
        Protocol::H1,
        Protocol::H1s,
        Protocol::H2c,
        Protocol::H2,
        Protocol::H3,
    ] {
        let home = TempDir::new().expect("a temporary folder");
        let log = ["--access-log", "access.log"];
        let server = served::Serving::of(home.path(), protocol, &log);
        let url = server.url(protocol) + TARGET;
        let began = Instant::now();
        let output = ask(home.path(), "fetch", protocol, &["-o", "body"], &url);
        assert!(output.status.success(), "{}", stderr(&output));
        let (status, said) = server.end();
        let most = began.elapsed();
        assert!(status.success(), "{said}");
        let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
        let logged = Logged::find(&log, format!("a delay, {protocol}"), TARGET);
        logged.check(Duration::from_millis(200), most);
    }
}

/// Sends a head in two pieces, and compares the log with what the test saw.
fn head_in_pieces(kind: &str, (first, rest): (&[u8], &[u8])) {
    let name = format!("{kind}, a head of {} bytes and {}", first.len(), rest.len());
    let (mut before, mut second) = (Duration::ZERO, Duration::ZERO);
    let (log, most) = log_of(kind, |serving| {
        let mut stream = connect(serving.address(kind));
        stream.set_nodelay(true).expect("an option");
        if kind == "h2c" {
            stream.write_all(PREFACE).expect("it reads");
            // Keeps the preface apart from the beginning of the request.
            thread::sleep(PAUSE);
        }
        before = since_midnight();
        let began = Instant::now();
        stream.write_all(first).expect("it reads");
        thread::sleep(PAUSE);
        second = since_midnight();
        stream.write_all(rest).expect("it reads");
        match kind {
            "h2c" => read_answer(&stream),
            _ => read_to_end(&mut stream).len(),
        };
        began
    });
    let logged = Logged::find(&log, name, "/first");
    logged.check(PAUSE - LATE, most);
    // The check is skipped across midnight.
    if before < second {
        let (began, name) = (logged.began, &logged.name);
        assert!(began + CLOCK >= before, "{name}: {began:?}, {before:?}");
        assert!(began <= second + CLOCK, "{name}: {began:?}, {second:?}");
        let late = began.saturating_sub(before);
        assert!(late < PAUSE, "{name}: {began:?}, {before:?}");
    }
}

/// Reads the response on stream 1. Returns the length of its body.
fn read_answer(stream: &TcpStream) -> usize {
    let mut stream = BufReader::new(stream);
    let mut body = 0;
    loop {
        let received = read_frame(&mut stream).expect("a frame");
        if received.kind == DATA {
            body += received.payload.len();
        }
        if [DATA, HEADERS].contains(&received.kind) && received.flags & END_STREAM != 0 {
            return body;
        }
    }
}

#[test]
fn logged_time_starts_at_the_first_byte_of_the_head() {
    const HEAD: &[u8] = b"GET /first HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    alone_if_it_fails(seat(), || {
        // After the first byte, within a field, and before the last byte.
        for at in [1, 25, HEAD.len() - 1] {
            head_in_pieces("h1", HEAD.split_at(at));
        }
        // Split within its payload.
        let whole = frame(HEADERS, END_STREAM | END_HEADERS, 1, HEAD_2);
        head_in_pieces("h2c", whole.split_at(10));
        head_in_pieces("h2c", whole.split_at(whole.len() - 1));
        let (first, rest) = HEAD_2.split_at(3);
        let first = frame(HEADERS, END_STREAM, 1, first);
        let rest = frame(CONTINUATION, END_HEADERS, 1, rest);
        head_in_pieces("h2c", (&first, &rest));
    });
}

#[test]
fn logged_time_ends_when_the_last_byte_is_written() {
    alone_if_it_fails(seat(), || {
        let target = format!("/?size={LARGE_BYTES}");
        for kind in ["h1", "h2c"] {
            let (log, most) = log_of(kind, |serving| {
                let mut stream = connect(serving.address(kind));
                let began = Instant::now();
                if kind == "h1" {
                    let head =
                        format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
                    stream.write_all(head.as_bytes()).expect("it reads");
                } else {
                    let len = u8::try_from(target.len()).expect("a short target");
                    let head = [
                        &[0x82, 0x86, 0x04, len][..],
                        target.as_bytes(),
                        b"\x41\x01a",
                    ];
                    let head = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head.concat());
                    let sent = [PREFACE, NO_LIMIT, &head].concat();
                    stream.write_all(&sent).expect("it reads");
                }
                thread::sleep(PAUSE);
                let body = match kind {
                    "h2c" => read_answer(&stream),
                    _ => {
                        let answer = read_to_end(&mut stream);
                        let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
                        answer.len() - head.expect("a head") - 4
                    }
                };
                assert_eq!(body, LARGE_BYTES, "{kind}");
                began
            });
            let logged = Logged::find(&log, format!("a slow reader, {kind}"), &target);
            logged.check(PAUSE - LATE, most);
            assert_eq!(logged.response_bytes, LARGE_BYTES as u64, "{kind}");
        }
    });
}
