//! `squall probe` against servers with one fault each, without faults, and with broken behaviour: what a user sees first, and
//! that the probe ends in time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::raw_http2::{HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, read_frame};
use crate::served::{CERTIFICATE, Serving};
use crate::stand_ins::serve;
use crate::support::{alone_if_it_fails, seat, squall, stderr, stdout, stdout_json};

/// Longer than any of these probes may take on a busy machine; their own limit is `--duration`.
const MOST: Duration = Duration::from_secs(40);

pub(crate) fn home() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Lists of arguments as one.
pub(crate) fn joined<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

/// Runs a probe with one round. It does not watch idle connections, which would take seconds.
pub(crate) fn probe(home: &TempDir, arguments: &[&str]) -> Output {
    let begun = Instant::now();
    let output = squall(home.path())
        .args(["probe", "--rounds", "1", "--idle", "0s"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    assert!(begun.elapsed() < MOST, "{:?}", begun.elapsed());
    output
}

/// A probe of a server with these arguments over HTTPS, as JSON.
fn probed(arguments: &[&str], target: &str, flags: &[&str]) -> Value {
    let home = home();
    let listeners = joined(&[&["--https", "0"], arguments]);
    let server = Serving::start(home.path(), &listeners);
    let url = format!("https://{}{target}", server.address("https"));
    let flags = joined(&[&["--json", "--cacert", CERTIFICATE], flags, &[url.as_str()]]);
    let output = probe(&home, &flags);
    stdout_json(&output)
}

/// The names of the faults, the most important one first.
pub(crate) fn faults(result: &Value) -> Vec<&str> {
    let faults = result["faults"].as_array().expect("a list of faults");
    let names = faults.iter().map(|fault| fault["fault"].as_str());
    names.map(|name| name.expect("a name")).collect()
}

/// Windows that limit nothing.
pub(crate) const WIDE: [&str; 4] = [
    "--set",
    "http2.stream_window=16MiB",
    "--set",
    "http2.connection_window=16MiB",
];
/// Only versions over TCP, so that no test waits for a UDP port on which nothing listens.
pub(crate) const TCP: [&str; 2] = ["--http", "1.1,2"];

#[test]
fn server_without_a_fault_has_none() {
    alone_if_it_fails(seat(), || {
        let home = home();
        let listeners = joined(&[&["--https", "0", "--sink"], &WIDE]);
        let server = Serving::start(home.path(), &listeners);
        let url = format!("https://{}/?size=1MiB", server.address("https"));
        let flags = joined(&[
            &["--cacert", CERTIFICATE, "--upload", "2MB"],
            &TCP,
            &[url.as_str()],
        ]);
        let output = probe(&home, &flags);
        let (said, announced) = (stdout(&output), stderr(&output));
        assert!(output.status.success(), "{announced}");
        assert!(said.starts_with("Nothing is wrong\n"), "{said}");
        assert!(announced.starts_with("squall probe sends "), "{announced}");
        assert!(announced.contains("POST requests"), "{announced}");
        for row in ["HTTP/1.1", "HTTP/2"] {
            assert!(said.contains(row), "{said}");
        }
        let is_narrow = said.lines().all(|line| line.chars().count() <= 80);
        assert!(is_narrow, "{said}");
    });
}

#[test]
fn load_balancer_that_starves_uploads_is_named_with_its_window() {
    let _seat = seat();
    let flags = joined(&[&["--upload", "1MB"], &TCP]);
    let result = probed(&["--sink", "--preset", "alb"], "/", &flags);
    assert_eq!(faults(&result)[0], "stream_window", "{result}");
    assert_eq!(result["endpoint"]["product"]["product"], "alb", "{result}");
    let windows = &result["endpoint"]["upload_windows"];
    assert_eq!(windows["policy"]["kind"], "each_data", "{windows}");
    assert_eq!(windows["policy"]["bytes"], 16_375, "{windows}");
    let fix = result["verdict"]["fix"].as_str().expect("a fix");
    assert!(fix.starts_with("AWS ALB"), "{fix}");
    let predictions = result["endpoint"]["predictions"].as_array();
    assert_eq!(predictions.expect("a table").len(), 5);
}

#[test]
fn connection_window_below_the_streams_is_named_first() {
    let _seat = seat();
    let flags = joined(&[&["--upload", "2MB"], &TCP]);
    let server = ["--sink", "--set", "http2.stream_window=1MiB"];
    let result = probed(&server, "/", &flags);
    assert_eq!(faults(&result)[0], "connection_window", "{result}");
    let windows = &result["endpoint"]["upload_windows"];
    assert_eq!(windows["connection_bytes"], 65_535, "{windows}");
}

#[test]
fn window_that_is_never_opened_is_named_first() {
    alone_if_it_fails(seat(), || {
        let server = [
            "--sink",
            "--set",
            "http2.window_updates=never",
            "--set",
            "http2.connection_window=16MiB",
        ];
        let result = probed(
            &server,
            "/",
            &["--upload", "1MB", "--http", "2", "--duration", "3s"],
        );
        assert_eq!(faults(&result)[0], "stream_window", "{result}");
        let said = result["verdict"]["sentence"].as_str().expect("a sentence");
        assert!(said.contains("stops after 65,535 bytes"), "{said}");
    });
}

#[test]
fn small_limits_of_http3_uploads_are_named_first() {
    let _seat = seat();
    let home = home();
    let listeners = ["--h3", "0", "--sink", "--set", "http3.stream_window=64KiB"];
    let server = Serving::start(home.path(), &listeners);
    let url = format!("https://{}/", server.address("h3"));
    let asks = ["--json", "--cacert", CERTIFICATE, "--http", "3"];
    let flags = joined(&[&asks, &["--upload", "1MB"], &[url.as_str()]]);
    let output = probe(&home, &flags);
    let result = stdout_json(&output);
    assert_eq!(faults(&result)[0], "quic_window", "{result}");
    let limits = &result["endpoint"]["upload_limits"];
    assert!(limits["updates"].as_u64() > Some(0), "{limits}");
    let stream = limits["stream_bytes"].as_u64();
    assert!(stream >= Some(65_536), "{limits}");
    // 64 KiB per 100 ms, or more if the server has raised the window.
    let at_100_ms = &result["endpoint"]["http3_predictions"][3];
    assert_eq!(at_100_ms["round_trip_ns"], 100_000_000, "{at_100_ms}");
    assert!(
        at_100_ms["bytes_per_s"].as_f64() >= Some(655_000.0),
        "{at_100_ms}"
    );
}

#[test]
fn connections_that_end_after_few_requests_are_named_first() {
    let _seat = seat();
    let server = joined(&[&["--set", "http2.goaway_after=4"], &WIDE]);
    let result = probed(&server, "/", &["--http", "2"]);
    assert_eq!(faults(&result)[0], "short_connections", "{result}");
    let short = &result["endpoint"]["short_connection"];
    assert_eq!(short["requests"], 4, "{short}");
    assert_eq!(short["with_goaway"], true, "{short}");
}

/// More requests than any other step sends on one connection.
#[test]
fn connections_that_end_after_a_hundred_requests_are_found() {
    let _seat = seat();
    let server = joined(&[&["--set", "http2.goaway_after=100"], &WIDE]);
    let result = probed(&server, "/", &["--http", "2"]);
    assert!(faults(&result).contains(&"short_connections"), "{result}");
    let short = &result["endpoint"]["short_connection"];
    assert_eq!(short["requests"], 100, "{short}");
}

#[test]
fn small_records_and_frames_are_named_as_overhead() {
    let _seat = seat();
    let server = joined(&[&["--set", "tls.records=1300"], &WIDE]);
    let result = probed(&server, "/?size=1MiB", &TCP);
    assert_eq!(faults(&result)[0], "small_records", "{result}");
    assert_eq!(result["faults"][0]["matters"], "overhead");
    let server = joined(&[&["--set", "http2.data_size=1000"], &WIDE]);
    let result = probed(&server, "/?size=1MiB", &["--http", "2"]);
    assert!(faults(&result).contains(&"small_frames"), "{result}");
    assert_eq!(result["endpoint"]["data_frame_bytes"], 1_000, "{result}");
}

#[test]
fn delayed_ack_ranks_first_for_small_writes_with_nagle() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(
        home.path(),
        &[
            "--h1",
            "0",
            "--set",
            "tcp.no_delay=false",
            "--set",
            "tcp.write_size=200",
        ],
    );
    let url = format!("http://{}/?size=600", server.address("h1"));
    let result = stdout_json(&probe(&home, &["--json", "--http", "1.1", url.as_str()]));
    assert_eq!(faults(&result)[0], "delayed_ack", "{result}");
}

#[test]
fn probe_gives_up_on_a_silent_server_in_time() {
    let _seat = seat();
    let home = home();
    let address = serve(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let begun = Instant::now();
    let url = format!("http://{address}/");
    let output = probe(&home, &["--duration", "3s", url.as_str()]);
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.starts_with("No answer\n"), "{said}");
    assert!(
        said.contains("connected, but no response in time"),
        "{said}"
    );
}

/// Announces a limit of 7 streams and 65,537 more bytes for the connection, and resets the stream of the first request.
fn announce_and_reset(mut stream: TcpStream) -> io::Result<()> {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    const LIMIT: [u8; 6] = [0, 3, 0, 0, 0, 7];
    const INTERNAL_ERROR: [u8; 4] = [0, 0, 0, 2];
    stream.read_exact(&mut [0; PREFACE.len()])?;
    let settings = frame(SETTINGS, 0, 0, &LIMIT);
    let update = frame(WINDOW_UPDATE, 0, 0, &65_537_u32.to_be_bytes());
    stream.write_all(&[settings, update].concat())?;
    let mut received = read_frame(&mut stream)?;
    while received.kind != HEADERS {
        received = read_frame(&mut stream)?;
    }
    stream.write_all(&frame(RST_STREAM, 0, received.stream, &INTERNAL_ERROR))?;
    // Until the client closes the connection.
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// A gRPC server, for example, resets the stream of a GET.
#[test]
fn announced_limits_are_shown_even_if_the_server_answers_nothing() {
    let _seat = seat();
    let home = home();
    let url = format!("http://{}/", serve(announce_and_reset));
    let flags = ["--json", "--duration", "5s", "--http", "2", url.as_str()];
    let output = probe(&home, &flags);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
    assert_eq!(faults(&result), ["no_answer"], "{result}");
    let endpoint = &result["endpoint"];
    assert_eq!(endpoint["settings"]["MAX_CONCURRENT_STREAMS"], 7);
    let windows = &endpoint["announced_windows"];
    assert_eq!(windows["stream_bytes"], 65_535, "{windows}");
    assert_eq!(windows["connection_bytes"], 131_072, "{windows}");
}

/// From nearby, a window of 65,535 bytes costs no noticeable time. At a round trip of 30 ms, 1 MB takes 15 windows.
#[test]
fn small_stream_window_is_the_first_fault_behind_a_link() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0", "--sink"]);
    let url = format!("https://{}/", server.address("https"));
    let certificate = home.path().join(CERTIFICATE);
    let certificate = certificate.to_str().expect("a path in UTF-8");
    let link = ["--behind", "delay 15ms"];
    let asks = ["--json", "--http", "2", "--upload", "1MB", "--cacert"];
    let flags = joined(&[&link, &asks, &[certificate, url.as_str()]]);
    let output = probe(&home, &flags);
    let result = stdout_json(&output);
    let round_trip = result["endpoint"]["round_trip_ns"]
        .as_u64()
        .expect("a time");
    assert!(round_trip >= 30_000_000, "{round_trip} ns");
    assert_eq!(faults(&result)[0], "stream_window", "{result}");
    assert_eq!(result["faults"][0]["matters"], "here", "{result}");
}

/// Behind the link the server has the address of another host, so late data counts as lost on the way.
#[test]
fn losses_over_http3_behind_a_link_are_named() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h3", "0"]);
    let url = format!(
        "https://localhost:{}/?size=4MiB",
        server.address("h3").port()
    );
    let link = ["--behind", "delay 15ms, loss 2%", "--duration", "10s"];
    let asks = ["--json", "-k", "--http", "3", url.as_str()];
    let output = probe(&home, &joined(&[&link, &asks]));
    let result = stdout_json(&output);
    assert!(faults(&result).contains(&"loss"), "{result}");
    let quic = &result["endpoint"]["quic"];
    assert!(quic["late_frames"].as_u64() > Some(0), "{quic}");
}

#[test]
fn server_without_a_fault_has_none_behind_a_link_either() {
    const RUNS: usize = 3;
    alone_if_it_fails(seat(), || {
        let home = home();
        let listeners = joined(&[&["--h2c", "0", "--sink"], &WIDE]);
        let server = Serving::start(home.path(), &listeners);
        let url = format!(
            "http://localhost:{}/?size=200kB",
            server.address("h2c").port()
        );
        let asks = ["--json", "--http", "2", "--upload", "1MB"];
        for _ in 0..RUNS {
            let flags = joined(&[&["--behind", "delay 15ms"], &asks, &[url.as_str()]]);
            let result = stdout_json(&probe(&home, &flags));
            assert_eq!(faults(&result), [""; 0], "{result}");
        }
    });
}

/// Users sometimes name the port of another protocol.
#[test]
fn wrong_scheme_is_reported() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = format!("https://{}/", server.address("h1"));
    let output = probe(&home, &["-k", "--http", "1.1,2", url.as_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    let fix = said.lines().nth(1).expect("a second line");
    assert!(
        fix.starts_with("Fix: ") && fix.contains("http://"),
        "{said}"
    );
}

#[test]
fn two_servers_are_compared() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = format!("http://{}/", server.address("h1"));
    let flags = ["--http", "1.1", url.as_str(), url.as_str()];
    let said = stdout(&probe(&home, &flags));
    assert!(said.contains(&format!("A: {url}")), "{said}");
    assert!(said.contains(&format!("B: {url}")), "{said}");
    assert!(said.contains("HTTP/1.1 first byte"), "{said}");
    let said = stdout(&probe(&home, &joined(&[&["--markdown"], &flags])));
    assert!(said.contains("## Side by side"), "{said}");
}

#[test]
fn mistakes_end_the_probe_before_anything_is_sent() {
    let home = home();
    for (arguments, part) in [
        (
            vec!["--http", "auto", "https://server/"],
            "--http 1.1, 2 or 3",
        ),
        (
            vec!["--download", "https://other/x", "https://server/"],
            "probe other servers separately",
        ),
        (
            vec!["--behind", "delay 30ms", "https://server.invalid/"],
            "localhost",
        ),
        (vec!["--http", "3", "http://server/"], "https://"),
        (vec!["--duration", "10ms", "http://server/"], "at least 1s"),
        (vec!["--upgrade", "http://server/"], "leave out --upgrade"),
        (
            vec!["--proxy", "http://127.0.0.1:9", "http://server/"],
            "--proxy",
        ),
        (
            vec!["--unix-socket", "socket", "http://server/"],
            "--unix-socket",
        ),
    ] {
        let output = probe(&home, &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
