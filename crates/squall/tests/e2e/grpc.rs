//! gRPC calls of `squall fetch` and `squall load`: the fields that a call needs are sent, and its status decides whether it
//! failed.
//!
//! What the fields mean is tested in squall-http (`values::grpc`), how calls are counted in squall-analysis. Real gRPC
//! servers are not needed: a server here sends the HTTP/2 frames that they would.

use std::fs;
use std::process::Output;

use squall_base::plan::Protocol;
use squall_base::record::{FrameLayer, Outcome, RequestRecord, Way};
use squall_record::{read_frames, read_requests};
use tempfile::TempDir;

use crate::hostile_servers::SETTINGS;
use crate::served::{Serving, ask};
use crate::stand_ins::answering;
use crate::support::{seat, stderr, stdout};

/// An empty message with its prefix.
const MESSAGE: &[u8] = &[0; 5];

const CALL: [&str; 6] = [
    "-H",
    "content-type: application/grpc",
    "-H",
    "te: trailers",
    "-d",
    "message",
];

/// ":status: 200" and "content-type: application/grpc" on stream 1, as literals.
const HEAD: &[u8] = b"\0\0\x20\x01\x04\0\0\0\x01\x88\0\x0ccontent-type\x10application/grpc";
/// Two messages in two frames that do not end where the messages do.
const MESSAGES: [&[u8]; 2] = [
    b"\0\0\x11\0\0\0\0\0\x01\0\0\0\0\x07\x0a\x05hello\0\0\0\0\x07",
    b"\0\0\x07\0\0\0\0\0\x01\x0a\x05hello",
];
/// ":status: 200" and the end of the stream.
const BARE: &[u8] = b"\0\0\x01\x01\x05\0\0\0\x01\x88";
const OK: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\0\x0bgrpc-status\x010";
const INTERNAL: &[u8] = b"\0\0\x10\x01\x05\0\0\0\x01\0\x0bgrpc-status\x0213";
/// A head that is the whole response and has the status.
const INTERNAL_AT_ONCE: &[u8] =
    b"\0\0\x30\x01\x05\0\0\0\x01\x88\0\x0ccontent-type\x10application/grpc\
    \0\x0bgrpc-status\x0213";
/// The end of the stream without trailers.
const END: &[u8] = b"\0\0\0\0\x01\0\0\0\x01";

fn home() -> TempDir {
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("message"), MESSAGE).expect("a file");
    home
}

/// Makes a call with `squall fetch` or `squall load`, with these further flags.
fn call(home: &TempDir, command: &str, protocol: Protocol, flags: &[&str], url: &str) -> Output {
    ask(
        home.path(),
        command,
        protocol,
        &[flags, &CALL].concat(),
        url,
    )
}

/// Makes one call with `squall load`. Returns its output and its rows. The servers here send their first SETTINGS only once a
/// request has arrived, so a connection opened in advance would wait for them.
fn load(home: &TempDir, flags: &[&str], url: &str) -> (Output, Vec<RequestRecord>) {
    let own = ["-c", "1", "--on-demand", "--output", "rows.parquet"];
    let flags = [&own, flags].concat();
    let output = call(home, "load", Protocol::H2c, &flags, url);
    let rows = read_requests(home.path().join("rows.parquet")).expect("rows.parquet");
    (output, rows)
}

#[test]
fn te_trailers_is_sent_over_every_protocol_and_a_non_grpc_response_fails() {
    let _seat = seat();
    let home = home();
    let protocols = [Protocol::H1, Protocol::H2c, Protocol::H2, Protocol::H3];
    for protocol in protocols {
        let server = Serving::of(home.path(), protocol, &[]);
        let url = server.url(protocol);
        let output = call(&home, "fetch", protocol, &["-v"], &url);
        let said = stderr(&output);
        assert!(said.contains("te: trailers"), "{protocol}: {said}");
        // The server answers with 200 and a body of its own.
        let failure = "the gRPC call failed: the response's content-type is not application/grpc\n";
        assert_eq!(output.status.code(), Some(1), "{protocol}: {said}");
        assert!(said.contains(failure), "{protocol}: {said}");
        let gzip = ["-H", "te: gzip"];
        let output = ask(home.path(), "fetch", protocol, &gzip, &url);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{protocol}: {said}");
        assert!(said.contains("can only be \"trailers\""), "{said}");
    }
}

/// A client stream: three messages with their prefixes, which do not fit into one DATA frame together.
#[test]
fn call_of_several_messages_is_sent_whole_in_several_frames() {
    const DATA: u64 = 0;
    let _seat = seat();
    let home = home();
    let length: u32 = 12_000;
    let prefix = [&[0][..], &length.to_be_bytes()].concat();
    let message = [prefix, vec![b'm'; 12_000]].concat();
    let messages = message.repeat(3);
    fs::write(home.path().join("message"), &messages).expect("a file");
    for protocol in [Protocol::H2c, Protocol::H2, Protocol::H3] {
        let server = Serving::of(home.path(), protocol, &["--echo"]);
        let output = call(&home, "fetch", protocol, &[], &server.url(protocol));
        let (said, back) = (stderr(&output), &output.stdout);
        assert!(
            *back == messages,
            "{protocol}: {} bytes: {said}",
            back.len()
        );
        // The server sends everything back and does not speak gRPC.
        assert_eq!(output.status.code(), Some(1), "{protocol}: {said}");
        assert!(said.contains("the gRPC call failed"), "{protocol}: {said}");
    }
    let server = Serving::of(home.path(), Protocol::H2c, &["--echo"]);
    let flags = ["--frames-to", "frames.parquet"];
    let url = server.url(Protocol::H2c);
    let output = call(&home, "load", Protocol::H2c, &flags, &url);
    let frames = read_frames(home.path().join("frames.parquet")).expect("frames.parquet");
    let sent = frames.iter().map(|row| &row.frame).filter(|frame| {
        (frame.way, frame.layer, frame.kind) == (Way::Sent, FrameLayer::Http2, DATA)
    });
    let lengths: Vec<u64> = sent.map(|frame| frame.length).collect();
    assert!(lengths.len() > 1, "{lengths:?}: {}", stderr(&output));
    assert_eq!(lengths.iter().sum::<u64>(), messages.len() as u64);
}

#[test]
fn call_is_judged_by_its_status_in_the_trailers_or_the_head() {
    static GOOD: [&[u8]; 5] = [SETTINGS, HEAD, MESSAGES[0], MESSAGES[1], OK];
    static FAILED: [&[u8]; 4] = [SETTINGS, HEAD, MESSAGES[0], INTERNAL];
    static AT_ONCE: [&[u8]; 2] = [SETTINGS, INTERNAL_AT_ONCE];
    static WITHOUT: [&[u8]; 3] = [SETTINGS, HEAD, END];
    static OTHER: [&[u8]; 2] = [SETTINGS, BARE];
    const MESSAGE_OF_SERVER: &str = "\0\0\0\0\x07\x0a\x05hello";
    let _seat = seat();
    let cases: [(&'static [&'static [u8]], Option<&str>); 5] = [
        (&GOOD, None),
        (&FAILED, Some("grpc-status 13 (INTERNAL)")),
        (&AT_ONCE, Some("grpc-status 13 (INTERNAL)")),
        (&WITHOUT, Some("no grpc-status")),
        (
            &OTHER,
            Some("the response's content-type is not application/grpc"),
        ),
    ];
    for (pieces, failure) in cases {
        let home = home();
        let url = format!("http://{}/demo.Greeter/SayHello", answering(pieces));
        let flags = ["-v", "--timeout", "20s"];
        let fetched = call(&home, "fetch", Protocol::H2c, &flags, &url);
        let said = stderr(&fetched);
        let (loaded, rows) = load(&home, &[], &url);
        let counted = stdout(&loaded);
        let became: Vec<_> = (rows.iter())
            .map(|row| (row.outcome, row.status, row.error.as_deref()))
            .collect();
        assert_eq!(became, [(Outcome::Answered, Some(200), failure)]);
        let code = i32::from(failure.is_some());
        assert_eq!(fetched.status.code(), Some(code), "{said}");
        assert_eq!(loaded.status.code(), Some(code), "{counted}");
        match failure {
            None => {
                assert_eq!(stdout(&fetched), MESSAGE_OF_SERVER.repeat(2));
                assert!(said.contains("recv (stream_id=1) grpc-status: 0"), "{said}");
                assert!(counted.contains("1 succeeded (100 %)"), "{counted}");
            }
            Some(failure) => {
                let line = format!("squall: the gRPC call failed: {failure}\n");
                assert!(said.contains(&line), "{said}");
                let shares = "0 succeeded (0 %), 1 answered with a gRPC error (100 %)";
                assert!(counted.contains(shares), "{counted}");
                let line = format!("1 answered with a gRPC error: {failure}\n");
                assert!(counted.contains(&line), "{counted}");
            }
        }
    }
}

/// Six messages, each in a frame of its own, 30 ms apart.
#[test]
fn gaps_between_the_messages_of_a_stream_are_measured() {
    const HELLO: &[u8] = b"\0\0\x0c\0\0\0\0\0\x01\0\0\0\0\x07\x0a\x05hello";
    static STREAM: [&[u8]; 9] = [SETTINGS, HEAD, HELLO, HELLO, HELLO, HELLO, HELLO, HELLO, OK];
    let _seat = seat();
    let home = home();
    let url = format!("http://{}/demo.Greeter/SayHellos", answering(&STREAM));
    let (loaded, rows) = load(&home, &["--json", "figures.json"], &url);
    let shown = stdout(&loaded);
    assert!(loaded.status.success(), "{shown}{}", stderr(&loaded));
    assert!(shown.contains("first chunk"), "{shown}");
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!(
        (row.outcome, row.response_body_bytes),
        (Outcome::Answered, 6 * 12)
    );
    let arrivals = row.arrivals;
    // On a busy machine several messages may arrive together.
    assert!((2..=6).contains(&arrivals.count), "{arrivals:?}");
    let (first, last) = (arrivals.first.expect("one"), arrivals.last.expect("one"));
    let gap = arrivals.longest_gap.expect("a gap");
    let mean_ns = last.since(first).as_nanos() / u64::from(arrivals.count);
    assert!(gap.length.as_nanos() >= mean_ns, "{arrivals:?}");
    // The trailers follow the last message and are not part of the body.
    assert!(row.end >= last, "{row:?}");
    let figures = fs::read(home.path().join("figures.json")).expect("the figures");
    let figures: serde_json::Value = serde_json::from_slice(&figures).expect("JSON");
    assert_eq!(figures["gap_ns"]["count"], arrivals.count - 1);

    let fetched = call(&home, "fetch", Protocol::H2c, &["--gaps"], &url);
    let said = stderr(&fetched);
    assert!(fetched.status.success(), "{said}");
    assert!(
        said.starts_with("body: ") && said.contains("longest"),
        "{said}"
    );
}
