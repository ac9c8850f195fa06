//! What `-v` prints for several requests, and for a response that is more than one head and a body: what was really
//! sent and received, in order.
//!
//! The layout, and the output for one request, is tested in `fetch`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use squall_base::plan::Protocol;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::stand_ins::answering;
use crate::support::{have, seat, squall, stderr, stdout};

/// The paths of requests in the order in which `-v` reports them sent, each with its stream over HTTP/2 and HTTP/3.
fn sent(said: &str) -> Vec<(Option<u64>, String)> {
    let mut stream = None;
    let mut paths = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("send HEADERS frame <") {
            let id = rest.split_once("stream_id=").expect("a stream").1;
            let id = id.split_once([',', '>']).expect("the end of a number").0;
            stream = id.parse().ok();
        } else if let Some(path) = line.strip_prefix("          :path: ") {
            paths.push((stream, path.to_owned()));
        } else if let Some((_, rest)) = line.split_once("] send GET ") {
            paths.push((None, rest.trim_end_matches(" HTTP/1.1").to_owned()));
        }
    }
    paths
}

#[test]
fn load_prints_each_request_when_it_is_sent() {
    const REQUESTS: usize = 20;
    let _seat = seat();
    for protocol in [Protocol::H1, Protocol::H2c, Protocol::H3] {
        let home = TempDir::new().expect("a temporary folder");
        let server = Serving::of(home.path(), protocol, &["--access-log", "access.log"]);
        let url = server.url(protocol);
        let (a, b) = (format!("{url}/a"), format!("{url}/b"));
        let arguments = [
            "-v",
            "-n",
            "20",
            "-c",
            "2",
            "--output",
            "requests.parquet",
            &a,
        ];
        let output = ask(home.path(), "load", protocol, &arguments, &b);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let sent = sent(&said);
        if protocol == Protocol::H3 {
            for (line, count) in [
                ("] send SETTINGS frame <", 2),
                ("] recv SETTINGS frame <", 2),
                ("          [SETTINGS_MAX_FIELD_SECTION_SIZE(0x06):65536]", 4),
                (") :status: 200", REQUESTS),
                ("          ; First response header", REQUESTS),
            ] {
                let found = said.lines().filter(|said| said.contains(line)).count();
                assert_eq!(found, count, "{line}: {said}");
            }
        }
        assert_eq!(sent.len(), REQUESTS, "{protocol}: {said}");
        let count = |path: &str| sent.iter().filter(|(_, sent)| sent == path).count();
        assert!(count("/a") > 0 && count("/b") > 0, "{protocol}: {sent:?}");
        assert_eq!(count("/a") + count("/b"), REQUESTS);

        // The server's log and the records agree.
        let (status, _) = server.end();
        assert!(status.success());
        let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
        assert_eq!(log.matches("\"GET /a\" ").count(), count("/a"), "{log}");
        assert_eq!(log.matches("\"GET /b\" ").count(), count("/b"), "{log}");
        let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
        let path = |what: u32| if what == 0 { "/a" } else { "/b" };
        if protocol != Protocol::H1 {
            let mut of_streams: Vec<(Option<u64>, String)> = (rows.iter())
                .map(|row| (row.stream, path(row.what).to_owned()))
                .collect();
            let mut sent = sent;
            of_streams.sort();
            sent.sort();
            assert_eq!(sent, of_streams);
        }
    }
}

/// Each connection's lines, selected by the number at their start.
#[test]
fn load_prints_the_connection_of_each_line() {
    const CONNECTIONS: usize = 3;
    let _seat = seat();
    for (protocol, begins) in [
        (Protocol::H1, "Connected"),
        (Protocol::H2c, "Connected"),
        (Protocol::H3, "The negotiated protocol: h3"),
    ] {
        let home = TempDir::new().expect("a temporary folder");
        let server = Serving::of(home.path(), protocol, &[]);
        let arguments = [
            "-v",
            "-n",
            "30",
            "-c",
            "3",
            "-t",
            "1",
            "--output",
            "requests.parquet",
        ];
        let output = server.ask(home.path(), "load", protocol, &arguments);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
        for number in 0..CONNECTIONS {
            let prefix = format!("[id={number}] [");
            let of_it: Vec<&str> = (said.lines())
                .filter(|line| line.starts_with(&prefix))
                .collect();
            let begins = format!("] {begins}");
            assert!(of_it.iter().any(|line| line.ends_with(&begins)), "{said}");
            let heads = |line: &&&str| match protocol {
                Protocol::H1 => line.contains("] recv HTTP/1.1 200"),
                _ => line.contains(") :status: 200"),
            };
            let asked = rows
                .iter()
                .filter(|row| row.connection == Some(number as u32));
            assert_eq!(
                of_it.iter().filter(heads).count(),
                asked.count(),
                "{protocol}: {said}"
            );
        }
        let others = said.lines().filter(|line| line.starts_with("[ "));
        assert_eq!(others.count(), 0, "{said}");
    }
}

/// SETTINGS (100 streams) and SETTINGS (a window of 100,000), one after the other.
const SETTINGS: [&[u8]; 2] = [
    b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\x01\x86\xa0",
];
/// Both in one write, followed by the first again.
const SETTINGS_AT_ONCE: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64\
    \0\0\x06\x04\0\0\0\0\0\0\x04\0\x01\x86\xa0\
    \0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
/// HEADERS of stream 1: ":status: 103" and "link: a", as literals.
const INTERIM: &[u8] = b"\0\0\x0d\x01\x04\0\0\0\x01\x08\x03103\0\x04link\x01a";
/// ":status: 200" and "x: y" in two reads: as one frame, and as a frame and its CONTINUATION.
const HALVES: [&[u8]; 2] = [b"\0\0\x06\x01\x04\0\0\0\x01\x88", b"\0\x01x\x01y"];
const CONTINUED: [&[u8]; 2] = [
    b"\0\0\x01\x01\0\0\0\0\x01\x88",
    b"\0\0\x05\x09\x04\0\0\0\x01\0\x01x\x01y",
];
/// The same head in three frames, two of which arrive together.
const CONTINUED_LATE: [&[u8]; 2] = [
    b"\0\0\x01\x01\0\0\0\0\x01\x88\0\0\x03\x09\0\0\0\0\x01\0\x01x",
    b"\0\0\x02\x09\x04\0\0\0\x01\x01y",
];
/// DATA, and HEADERS with the trailer "t: z".
const DATA: &[u8] = b"\0\0\x03\0\0\0\0\0\x01abc";
const TRAILERS: &[u8] = b"\0\0\x05\x01\x05\0\0\0\x01\0\x01t\x01z";

/// The lines about what was received, without times and without nghttp's lines about other things than frames.
fn received(text: &str) -> Vec<String> {
    let mut is_received = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let (clock, rest) = line.split_once("] ").unwrap_or(("", line));
        if clock.starts_with('[') {
            is_received = rest.starts_with("recv ");
        } else if !line.starts_with(' ') {
            is_received = false;
        }
        if is_received {
            lines.push(rest.to_owned());
        }
    }
    lines
}

/// What `squall fetch -v` prints for that server; also checks the body.
fn fetch(http: &str, server: SocketAddr) -> String {
    let home = TempDir::new().expect("a temporary folder");
    let output = squall(home.path())
        .args(["fetch", "-v", "--timeout", "20s", "--http", http])
        .arg(format!("http://{server}/"))
        .output()
        .expect("squall starts");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(stdout(&output), "abc", "{said}");
    said
}

/// Interim responses, heads that arrive in halves, trailers, and several SETTINGS, as nghttp prints them.
#[test]
fn response_in_many_pieces_is_printed_as_nghttp_prints_it() {
    static PIECES: [&[u8]; 8] = [
        SETTINGS[0],
        SETTINGS[1],
        SETTINGS_AT_ONCE,
        INTERIM,
        HALVES[0],
        HALVES[1],
        DATA,
        TRAILERS,
    ];
    if !have(&["nghttp"]) {
        return;
    }
    let _seat = seat();
    let server = answering(&PIECES);
    let said = fetch("2", server);
    let theirs = Command::new("nghttp")
        .args(["-nv", "--no-dep"])
        .arg(format!("http://{server}/"))
        .output()
        .expect("nghttp starts");
    let (ours, theirs) = (received(&said), received(&stdout(&theirs)));
    let shown = [
        "recv (stream_id=1) link: a",
        "recv (stream_id=1) x: y",
        "recv (stream_id=1) t: z",
    ];
    for line in shown {
        assert!(theirs.iter().any(|theirs| theirs == line), "{theirs:#?}");
    }
    assert_eq!(ours, theirs, "{said}");
}

/// nghttp reports HEADERS and CONTINUATION as one frame; on the wire they are two.
#[test]
fn fields_of_a_continued_head_are_printed_before_its_frames() {
    static ONE: [&[u8]; 5] = [SETTINGS[0], CONTINUED[0], CONTINUED[1], DATA, TRAILERS];
    static TWO: [&[u8]; 5] = [
        SETTINGS[0],
        CONTINUED_LATE[0],
        CONTINUED_LATE[1],
        DATA,
        TRAILERS,
    ];
    let last = |len| format!("recv CONTINUATION frame <length={len}, flags=0x04, stream_id=1>");
    let first = "recv CONTINUATION frame <length=3, flags=0x00, stream_id=1>".to_owned();
    let _seat = seat();
    for (pieces, continuations) in [(&ONE, vec![last(5)]), (&TWO, vec![first, last(2)])] {
        let said = fetch("2", answering(pieces));
        let mut expected = vec![
            "recv (stream_id=1) :status: 200",
            "recv (stream_id=1) x: y",
            "recv HEADERS frame <length=1, flags=0x00, stream_id=1>",
            "          (padlen=0)",
            "          ; First response header",
        ];
        expected.extend(continuations.iter().map(String::as_str));
        expected.extend([
            "          ; END_HEADERS",
            "recv DATA frame <length=3, flags=0x00, stream_id=1>",
            "recv (stream_id=1) t: z",
            "recv HEADERS frame <length=5, flags=0x05, stream_id=1>",
        ]);
        let lines = received(&said);
        let at = lines.iter().position(|line| line == expected[0]);
        let at = at.unwrap_or_else(|| panic!("no head in {said}"));
        assert_eq!(lines[at..][..expected.len()], expected, "{said}");
    }
}

#[test]
fn http1_interim_responses_and_trailers_are_printed() {
    static PIECES: [&[u8]; 2] = [
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nt: z\r\n\r\n",
    ];
    let _seat = seat();
    let said = fetch("1.1", answering(&PIECES));
    let lines = received(&said);
    let expected = [
        "recv HTTP/1.1 103",
        "          link: a",
        "recv HTTP/1.1 200",
        "          transfer-encoding: chunked",
        "recv body <length=3>",
        "recv trailers",
        "          t: z",
    ];
    assert_eq!(lines[..expected.len()], expected, "{said}");
}
