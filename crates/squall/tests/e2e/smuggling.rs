//! Requests that two programs could parse differently, over real sockets: each is rejected, together with everything
//! after it on its connection.

use std::fs;
use std::io::Write;

use tempfile::TempDir;

use crate::serving::{Serving, connect, read_to_end};
use crate::support::seat;

const GOOD: &str = "GET /?size=5 HTTP/1.1\r\nhost: a\r\n\r\n";

/// The statuses of all responses to these bytes, in order, until the server closes.
fn statuses(serving: &Serving, bytes: &[u8]) -> Vec<u16> {
    let mut stream = connect(serving.address("h1"));
    stream.write_all(bytes).expect("it reads");
    let answers = read_to_end(&mut stream);
    let answers = String::from_utf8_lossy(&answers);
    let status = |answer: &str| answer.get(..3).and_then(|status| status.parse().ok());
    answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| status(answer).expect("a status"))
        .collect()
}

/// Checks that each of these requests gets this status and ends the connection. A request before it gets a response,
/// those after it do not.
fn check_refused(status: u16, requests: &[&str]) {
    let _seat = seat();
    let serving = Serving::start(&["h1"], &[]);
    for request in requests {
        let head = &request[..request.len().min(200)];
        let sent = [GOOD, request, GOOD, GOOD].concat();
        let got = statuses(&serving, sent.as_bytes());
        assert_eq!(got, [200, status], "{head:?}");
    }
    serving.check_answers();
    serving.check_ends_well();
}

/// A POST with these fields, followed by `body`.
fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}\r\n{body}")
}

#[test]
fn ambiguous_lengths_are_rejected() {
    let requests = [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: 5\r\ncontent-length: 5\r\n",
        "content-length: 5, 5\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "content-length: +5\r\n",
        "content-length: -1\r\n",
        "content-length: 0x5\r\n",
        "content-length: 5a\r\n",
        "content-length: \r\n",
        "content-length: 18446744073709551616\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
    ]
    .map(|fields| post(fields, "0\r\n\r\n"));
    check_refused(400, &requests.each_ref().map(String::as_str));
}

#[test]
fn malformed_heads_are_rejected() {
    check_refused(
        400,
        &[
            // Lines that end with LF alone.
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            // CR alone.
            "GET / HTTP/1.1\r\nhost: a\r\nx: a\rb: c\r\n\r\n",
            // A folded field, one with whitespace before its name or colon, one without a name, and one without a
            // colon.
            "GET / HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\n host: a\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length : 5\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n",
            // NUL.
            "GET / HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx\0: a\r\n\r\n",
            "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n",
            // No host, two, or an invalid one.
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n\r\n",
            // Start lines.
            "GET /\r\nhost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET index.html HTTP/1.1\r\nhost: a\r\n\r\n",
            "(GET) / HTTP/1.1\r\nhost: a\r\n\r\n",
            " GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        ],
    );
}

#[test]
fn malformed_chunks_are_rejected() {
    let requests = [
        "xyz\r\n",
        "-1\r\n",
        "+5\r\nabcde\r\n",
        "0x5\r\nabcde\r\n",
        " 5\r\nabcde\r\n",
        "\r\n",
        "5\nabcde\r\n",
        "5 5\r\nabcde\r\n",
        // 2^64 and more.
        "10000000000000000\r\n",
        "fffffffffffffffff\r\n",
        // Data that is longer or shorter than its size.
        "5\r\nabcdef\r\n",
        "5\r\nabc\r\n0\r\n\r\n",
        "5\r\nabcde\n",
        // Extensions and trailers.
        "5;a\nb\r\nabcde\r\n",
        "5;a\0b\r\nabcde\r\n",
        "0\r\na: b\n\r\n",
        "0\r\nGET / HTTP/1.1\r\n\r\n",
        "0\r\n a: b\r\n\r\n",
    ]
    .map(|body| post("transfer-encoding: chunked\r\n", body));
    check_refused(400, &requests.each_ref().map(String::as_str));
    let extension = format!("5;{}\r\n", "a".repeat(100_000));
    check_refused(400, &[&post("transfer-encoding: chunked\r\n", &extension)]);
}

#[test]
fn oversized_and_unsupported_requests_are_rejected() {
    let long = format!(
        "GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n",
        "a".repeat(70_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: a\r\n{}\r\n",
        "x: a\r\n".repeat(200)
    );
    let target = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(70_000));
    check_refused(400, &[&long, &many, &target]);
    check_refused(
        501,
        &[
            "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n",
            &post("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ],
    );
    check_refused(
        505,
        &[
            "GET / HTTP/2.0\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.2\r\nhost: a\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            // The text after a space in the target is parsed as a version.
            "GET / / HTTP/1.1\r\nhost: a\r\n\r\n",
        ],
    );
}

/// Every rejected request has an access log line, like any other.
#[test]
fn rejected_requests_are_in_the_access_log() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let path = home.path().join("access.log");
    let log = ["--access-log", path.to_str().expect("UTF-8")];
    let serving = Serving::start(&["h1"], &log);
    let in_chunks = post("transfer-encoding: chunked\r\n", "xyz\r\n");
    let of_gzip = post("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n");
    let behind_another = [GOOD, "GET / HTTP/1.1\r\n\r\n"].concat();
    let newer = "GET / HTTP/1.2\r\nhost: a\r\n\r\n";
    let got = [&in_chunks, &of_gzip, &behind_another, newer]
        .map(|request| statuses(&serving, request.as_bytes()));
    assert_eq!(got.concat(), [400, 501, 200, 400, 505]);
    serving.check_ends_well();

    let log = fs::read_to_string(&path).expect("the access log");
    let words = log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let lines: Vec<_> = words.map(|words| words[2..8].join(" ")).collect();
    let expected = [
        "h1 \"POST /\" 400 0 0",
        "h1 \"- -\" 501 0 0",
        "h1 \"GET /?size=5\" 200 0 5",
        "h1 \"- -\" 400 0 0",
        "h1 \"- -\" 505 0 0",
    ];
    assert_eq!(lines, expected, "{log}");
}

/// Closing a socket with unread bytes resets the connection, and the reset may destroy the response on its way (RFC
/// 9112, section 9.6).
#[test]
fn rejection_arrives_while_the_client_keeps_sending() {
    let _seat = seat();
    let serving = Serving::start(&["h1"], &[]);
    for _ in 0..10 {
        let bad = post("transfer-encoding: chunked\r\n", "xyz\r\n");
        let sent = [bad.as_bytes(), &[b'a'; 3_000_000]].concat();
        assert_eq!(statuses(&serving, &sent), [400]);
    }
    serving.check_ends_well();
}

/// A client that has closed its side still gets the response that it waits for (RFC 9112, section 9.6).
#[test]
fn half_closed_connections_get_responses() {
    let _seat = seat();
    let serving = Serving::start(&["h1"], &[]);
    for path in ["/?size=5", "/?size=5&delay=300ms"] {
        let mut stream = connect(serving.address("h1"));
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        let answer = read_to_end(&mut stream);
        assert!(answer.ends_with(b"abcde"), "{path}: {answer:?}");
    }
    serving.check_ends_well();
}
