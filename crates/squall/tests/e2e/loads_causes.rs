//! What a load reports about its connections by default, and how it counts requests that never get a response.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::stand_ins::serve;
use crate::support::{seat, squall, stderr, stdout};

fn figures(home: &Path, protocol: Protocol, arguments: &[&str], url: &str) -> Value {
    let arguments = [&["--json", "-", "-t", "1"], arguments].concat();
    let output = ask(home, "load", protocol, &arguments, url);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// One body of 200 KB. The server with small windows of 64 KiB - 1 updates them when its sink has consumed the data.
#[test]
fn only_small_windows_are_reported_as_holding_bodies_back() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let small = Serving::start(home.path(), &["--h2c", "0", "--sink"]);
    let large = Serving::start(
        home.path(),
        &[
            "--h2c",
            "0",
            "--sink",
            "--set",
            "http2.stream_window=64MiB",
            "--set",
            "http2.connection_window=64MiB",
        ],
    );
    let arguments = ["-n", "40", "--data-size", "200kB"];
    let of = |server: &Serving| {
        let url = server.url(Protocol::H2c);
        let figures = figures(home.path(), Protocol::H2c, &arguments, &url);
        let found = &figures["causes"]["http2_bodies"];
        assert_eq!(found["bodies"], 40, "{found}");
        assert!(found["sending_ns"].as_u64() > Some(0), "{found}");
        let share = |name: &str| found[format!("{name}_share")].as_f64().expect("a share");
        (share("stream_window"), share("connection_window"))
    };
    let (stream, connection) = of(&small);
    assert!(stream + connection > 0.1, "{stream} {connection}");
    assert!(stream + connection <= 1.0, "{stream} {connection}");
    // 40 bodies are 8 MB, and the load starts only after the server's windows have arrived.
    assert_eq!(of(&large), (0.0, 0.0));
}

#[test]
fn kernel_counters_of_connections_are_reported_without_a_socket_table() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--h3", "0", "--sink"]);
    let arguments = ["-n", "20", "-c", "3", "--data-size", "1MiB"];
    let url = server.url(Protocol::H1);
    let found = figures(home.path(), Protocol::H1, &arguments, &url);
    let tcp = &found["causes"]["tcp"];
    assert_eq!(tcp["connections"], 3, "{tcp}");
    // 20 MiB in segments of at most 64 KiB.
    assert!(tcp["segments"].as_u64() >= Some(320), "{tcp}");
    let share = |name: &str| tcp[format!("{name}_share")].as_f64().expect("a share");
    assert!((0.0..=1.0).contains(&share("busy")), "{tcp}");
    let parts = share("receive_window")
        + share("send_buffer")
        + share("congestion_window_or_acknowledgement");
    assert!(parts == 0.0 || (parts - 1.0).abs() < 1e-6, "{tcp}");
    assert!(found["causes"]["http2_bodies"].is_null());
    assert!(found["causes"]["quic"].is_null());

    let url = server.url(Protocol::H3);
    let found = figures(home.path(), Protocol::H3, &arguments, &url);
    let quic = &found["causes"]["quic"];
    assert_eq!(quic["connections"], 3, "{quic}");
    // 20 MiB in packets of at most 1,500 bytes.
    assert!(quic["packets"].as_u64() > Some(13_000), "{quic}");
    assert!(found["causes"]["tcp"].is_null());

    let output = server.ask(home.path(), "load", Protocol::H1, &["-n", "3"]);
    assert!(
        stdout(&output).contains("\nTCP was sending for "),
        "{}",
        stdout(&output)
    );
}

/// A server that responds only to the first request of each connection.
fn falls_silent() -> String {
    let address = serve(|mut stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        // Until the client disconnects.
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    format!("http://{address}/")
}

#[test]
fn requests_without_a_response_by_the_end_of_the_drain_fail() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let url = falls_silent();
    let load = |arguments: &[&str]| -> Output {
        squall(home.path())
            .args(["load", "--rate", "50", "-c", "4"])
            .args(arguments)
            .arg(&url)
            .output()
            .expect("squall starts")
    };
    let output = load(&["-D", "500ms", "--drain", "3s"]);
    let shown = stdout(&output);
    assert!(
        shown.contains("4 succeeded (16.0 %), 21 unfinished (84.0 %)"),
        "{shown}"
    );
    assert!(
        shown.contains("21 unfinished requests were given up after up to "),
        "{shown}"
    );
    assert_eq!(output.status.code(), Some(1), "{shown}");
    // A load that does not wait for them does not count them as failures.
    let output = load(&["-D", "3s", "--drain", "0s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    // A load on a slow server succeeds if it waits long enough.
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let slow = format!("{}/?delay=300ms", server.url(Protocol::H1));
    let arguments = ["--rate", "50", "-D", "500ms", "-c", "20", "--drain", "3s"];
    let output = ask(home.path(), "load", Protocol::H1, &arguments, &slow);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}
