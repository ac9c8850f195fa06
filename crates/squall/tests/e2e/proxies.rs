//! `squall proxy` between `squall serve` and `squall fetch` or `squall load`: every protocol in front with every
//! protocol behind.
//!
//! Deliberate failures are in `proxies_failing`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::serving::{Serving, connect};
use crate::support::{seat, squall, stderr};

pub(crate) const KINDS: [&str; 5] = ["h1", "h1s", "h2c", "h2", "h3"];

/// More than every buffer and window on the path.
const UPLOAD_BYTES: usize = 10_000_000;

/// The memory limit for a proxy, however much data waits on the other side.
pub(crate) const MOST_KIB: u64 = 64 * 1024;

/// The `--http` value for a protocol.
pub(crate) fn version(kind: &str) -> &'static str {
    match kind {
        "h1" | "h1s" => "1.1",
        "h2c" | "h2" => "2",
        _ => "3",
    }
}

/// The URL of a listener.
pub(crate) fn url(kind: &str, address: SocketAddr) -> String {
    let scheme = match kind {
        "h1" | "h2c" => "http",
        _ => "https",
    };
    format!("{scheme}://{address}")
}

/// A proxy with these listeners that speaks `kind` to the server at `address`.
pub(crate) fn proxy(fronts: &[&str], kind: &str, address: SocketAddr, more: &[&str]) -> Serving {
    let to = url(kind, address);
    let mut arguments = vec!["-k", "--to", &to, "--http", version(kind)];
    arguments.extend(more);
    Serving::of("proxy", fronts, &arguments)
}

/// Sends a request to a proxy's listener `kind`.
pub(crate) fn fetch(
    home: &TempDir,
    proxy: &Serving,
    kind: &str,
    path: &str,
    more: &[&str],
) -> Output {
    let url = url(kind, proxy.address(kind)) + path;
    squall(home.path())
        .args([
            "fetch",
            "-k",
            "--http",
            version(kind),
            "--timeout",
            "20s",
            &url,
        ])
        .args(more)
        .output()
        .expect("squall starts")
}

/// Pseudorandom bytes, so that a misplaced piece shows.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn ten_megabytes_pass_in_both_directions_over_every_protocol_pair() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let upload = noise(UPLOAD_BYTES);
    fs::write(home.path().join("up"), &upload).expect("it is written");
    let server = Serving::start(&KINDS, &["--echo"]);
    for back in KINDS {
        let proxy = proxy(&KINDS, back, server.address(back), &[]);
        for front in KINDS {
            let output = fetch(&home, &proxy, front, "/", &["-d", "up", "-o", "down"]);
            assert!(
                output.status.success(),
                "{front} to {back}: {}",
                stderr(&output)
            );
            let down = fs::read(home.path().join("down")).expect("an answer");
            assert!(down == upload, "{front} to {back}: {} bytes", down.len());
        }
        assert!(
            proxy.peak_kib() < MOST_KIB,
            "{back}: {} KiB",
            proxy.peak_kib()
        );
        proxy.check_ends_well();
    }
    server.check_ends_well();
}

#[test]
fn small_and_empty_responses_pass_over_every_protocol_pair() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(&KINDS, &[]);
    for back in KINDS {
        let proxy = proxy(&KINDS, back, server.address(back), &[]);
        for front in KINDS {
            let body = |path: &str, more: &[&str]| {
                let output = fetch(&home, &proxy, front, path, more);
                let said = stderr(&output);
                assert!(output.status.success(), "{front} to {back} {path}: {said}");
                output.stdout.len()
            };
            assert_eq!(body("/?size=5", &[]), 5, "{front} to {back}");
            assert_eq!(body("/?size=200KiB", &[]), 200 * 1024, "{front} to {back}");
            assert_eq!(
                body("/?size=200KiB", &["-X", "HEAD"]),
                0,
                "{front} to {back}"
            );
            assert_eq!(body("/?status=204", &[]), 0, "{front} to {back}");
            assert_eq!(body("/?status=304", &[]), 0, "{front} to {back}");
            let url = url(front, proxy.address(front)) + "/?size=3000";
            // 500 concurrent requests.
            let shape = match version(front) {
                "1.1" => ["-c", "500", "-m", "1"],
                _ => ["-c", "5", "-m", "100"],
            };
            let load = squall(home.path())
                .args(["load", "-k", "--http", version(front), "-n", "500"])
                .args(shape)
                .args(["--json", "load.json", &url])
                .output()
                .expect("squall starts");
            let said = stderr(&load);
            assert!(load.status.success(), "{front} to {back}: {said}");
            let json = fs::read_to_string(home.path().join("load.json")).expect("a summary");
            let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            let statuses = serde_json::json!({ "200": 500 });
            assert_eq!(json["statuses"], statuses, "{front} to {back}: {json}");
            assert_eq!(
                json["rates"]["body_in_bytes"], 1_500_000,
                "{front} to {back}"
            );
        }
        proxy.check_ends_well();
    }
    server.check_ends_well();
}

#[test]
fn slow_reader_does_not_fill_the_memory_of_the_proxy() {
    let _seat = seat();
    let server = Serving::start(&KINDS, &[]);
    for back in KINDS {
        let proxy = proxy(&["h1"], back, server.address(back), &[]);
        let mut client = connect(proxy.address("h1"));
        let ask = b"GET /?size=200MB HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(ask).expect("it reads");
        thread::sleep(Duration::from_millis(800));
        let peak = proxy.peak_kib();
        assert!(peak < MOST_KIB, "{back}: {peak} KiB");
        // The response continues once the client reads.
        let mut some = vec![0; 4_000_000];
        client.read_exact(&mut some).expect("the answer");
        assert!(some.starts_with(b"HTTP/1.1 200"));
        assert!(
            proxy.peak_kib() < MOST_KIB,
            "{back}: {} KiB",
            proxy.peak_kib()
        );
        drop(client);
        proxy.check_ends_well();
    }
}

/// A server that handles one connection after the other with `serve`. The channel receives what it read, up to the end
/// of each message.
pub(crate) fn upstream(
    serve: impl Fn(TcpStream, Vec<u8>) + Send + 'static,
) -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (sender, heard) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream: TcpStream = stream;
            let timeout = Some(Duration::from_secs(5));
            stream.set_read_timeout(timeout).expect("a timeout");
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&bytes) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                }
            }
            if sender.send(bytes.clone()).is_err() {
                return;
            }
            serve(stream, bytes);
        }
    });
    (address, heard)
}

/// Whether the head is complete, and the chunks if there are any.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match text.split_once("\r\n\r\n") {
        None => false,
        Some((head, body)) if head.contains("chunked") => {
            body.contains("0\r\n") && body.ends_with("\r\n\r\n")
        }
        Some(_) => true,
    }
}

#[test]
fn trailers_and_fields_pass_through_every_version() {
    let _seat = seat();
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-down\r\nconnection: x-hop\r\n\
                   x-hop: 1\r\nx-end: 2\r\n\r\n3\r\nabc\r\n0\r\nx-down: yes\r\n\r\n";
    for middle in KINDS {
        let (address, heard) = upstream(|mut stream, _| {
            let _ = stream.write_all(answer);
        });
        let second = proxy(&[middle], "h1", address, &[]);
        let first = proxy(&["h1"], middle, second.address(middle), &[]);
        let mut client = connect(first.address("h1"));
        client
            .write_all(
                b"POST /p?q HTTP/1.1\r\nhost: example:81\r\nconnection: x-mine, te\r\nx-mine: 1\r\nte: trailers\r\n\
                  x-request-id: mine\r\ntransfer-encoding: chunked\r\nx-kept: \xe9\r\n\r\n\
                  4\r\nbody\r\n0\r\nx-up: yes\r\n\r\n",
            )
            .expect("it reads");
        let up = heard
            .recv_timeout(Duration::from_secs(5))
            .expect("a request");
        let up = String::from_utf8_lossy(&up).into_owned();
        for part in [
            "POST /p?q HTTP/1.1\r\n",
            "\r\nhost: example:81\r\n",
            "\r\nte: trailers\r\n",
            "\r\nx-request-id: mine\r\n",
            "\r\nx-kept: \u{fffd}\r\n",
            "\r\nvia: 1.1 squall\r\n",
            "\r\ntraceparent: 00-",
            "body",
            "\r\nx-up: yes\r\n",
        ] {
            assert!(up.contains(part), "over {middle}: {part:?} in {up:?}");
        }
        assert!(!up.contains("x-mine"), "over {middle}: {up:?}");
        assert_eq!(up.matches("via: ").count(), 2, "over {middle}: {up:?}");
        let mut down = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&down).contains("x-down: yes\r\n\r\n") {
            let count = client.read(&mut buffer).expect("an answer");
            assert!(
                count > 0,
                "over {middle}: {}",
                String::from_utf8_lossy(&down)
            );
            down.extend_from_slice(&buffer[..count]);
        }
        let down = String::from_utf8_lossy(&down).into_owned();
        assert!(
            down.starts_with("HTTP/1.1 200 OK\r\n"),
            "over {middle}: {down}"
        );
        assert!(
            down.contains("\r\nx-end: 2\r\n") && down.contains("abc"),
            "{down}"
        );
        assert!(!down.contains("x-hop"), "over {middle}: {down}");
        first.check_ends_well();
        second.check_ends_well();
    }
}
