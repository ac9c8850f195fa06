//! `squall load --targets`: what is sent, and in which order; and flags that would have no effect.
//!
//! The formats are tested in squall-record (`import`); here is what a server receives.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;
use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::support::{run_squall, seat, squall, stderr, stdout};

/// A server that sends each request that it receives to the channel, and responds to it. It serves one connection at a
/// time.
pub(crate) fn recording_server() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                request.extend_from_slice(&buffer[..count]);
                if is_whole(&request) {
                    // Sent before the response, so that the request is in the channel once the client has ended.
                    let _ = sender.send(std::mem::take(&mut request));
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            }
        }
    });
    (address, requests)
}

/// Whether this is a head and all of its body.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&request[..end]);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |text| text.parse().expect("a length"));
    request.len() >= end + 4 + length
}

fn load(home: &Path, arguments: &[&str]) -> Output {
    squall(home)
        .arg("load")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts")
}

fn first_lines(requests: &Receiver<Vec<u8>>) -> Vec<String> {
    let first = |request: Vec<u8>| {
        let text = String::from_utf8_lossy(&request).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    };
    requests.try_iter().map(first).collect()
}

#[test]
fn targets_are_sent_once_each_in_the_order_of_their_file() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let (address, requests) = recording_server();
    let targets: String = (1..=6)
        .map(|id| format!("GET http://{address}/id{id}\n\n"))
        .collect();
    fs::write(home.path().join("order.txt"), targets).expect("a file");
    let output = load(home.path(), &["--targets", "order.txt", "-n", "6"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let expected: Vec<String> = (1..=6).map(|id| format!("GET /id{id} HTTP/1.1")).collect();
    assert_eq!(first_lines(&requests), expected);
}

#[test]
fn list_of_urls_is_read_from_stdin() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let (address, requests) = recording_server();
    let list = format!("\u{feff}# two of them\nhttp://{address}/a\n\nhttp://{address}/b\n");
    let mut child = squall(home.path())
        .args(["load", "--targets", "-", "-n", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(list.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        first_lines(&requests),
        ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /a HTTP/1.1"]
    );
}

#[test]
fn fields_and_bodies_of_targets_are_sent_as_written() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let (address, requests) = recording_server();
    let text = format!(
        "GET http://{address}/a\nHost: vhost.example\nX-Account-ID: 8675309\nConnection: close\n"
    );
    fs::write(home.path().join("targets.txt"), text).expect("a file");
    let output = load(home.path(), &["--targets", "targets.txt", "-n", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let head = String::from_utf8(requests.recv().expect("a request")).expect("text");
    assert!(head.contains("\r\nhost: vhost.example\r\n"), "{head}");
    assert!(head.contains("\r\nx-account-id: 8675309\r\n"), "{head}");
    assert!(
        stderr(&output).contains("targets.txt: 1 header field left out"),
        "{}",
        stderr(&output)
    );
    // 0xff 0x00 0xc3, which is not UTF-8.
    let json = format!(
        "{{\"method\":\"POST\",\"url\":\"http://{address}/\",\"header\":{{\"Host\":[\"b\"]}},\"body\":\"/wDD\"}}\n"
    );
    fs::write(home.path().join("targets.json"), json).expect("a file");
    let output = load(home.path(), &["--targets", "targets.json", "-n", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let request = requests.recv().expect("a request");
    assert!(request.ends_with(b"\r\n\r\n\xff\x00\xc3"));
    let head = String::from_utf8_lossy(&request);
    assert!(head.contains("\r\nhost: b\r\n"), "{head}");
}

#[test]
fn rate_threshold_above_the_requested_rate_fails_for_few_requests() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    // The last request is due after two of the four seconds, so its response arrives in time on any machine.
    let arguments = [
        "--rate",
        "30/m",
        "-D",
        "4s",
        "--json",
        "load.json",
        "--threshold",
        "requests:rate>=0.51",
    ];
    let output = ask(home.path(), "load", Protocol::H1, &arguments, &url);
    assert_eq!(output.status.code(), Some(99), "{}", stdout(&output));
    let figures = fs::read(home.path().join("load.json")).expect("load.json");
    let figures: Value = serde_json::from_slice(&figures).expect("JSON");
    assert_eq!(figures["measured_ns"], 4_000_000_000_u64);
    assert_eq!(figures["rates"]["achieved_per_s"], 0.5);
}

#[test]
fn flags_without_effect_are_refused() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("t.txt"), "http://127.0.0.1:1/\n").expect("a file");
    let url = "http://127.0.0.1:1/";
    for (arguments, said) in [
        (&["-n", "1", "--drain", "1s", url][..], "--drain"),
        (&["-D", "1s", "--give-up", "1s", url], "--give-up"),
        (&["-n", "1", "--arrivals", "poisson", url], "--arrivals"),
        (&["-n", "1", "--speed", "2x", url], "--script"),
        (&["--rate", "1", "-D", "1s", "--users", "2", url], "--users"),
        (
            &["--rate", "1", "-D", "1s", "--think", "1s", url],
            "--think",
        ),
        (
            &["--rate", "1", "-D", "1s", "--stagger", "1s", url],
            "--stagger",
        ),
        (
            &["-n", "1", "--http", "2", "--rounds", "2", url],
            "--rounds",
        ),
        (&["-n", "1", "--sample-every", "1s", url], "--sockets-to"),
        (&["-n", "1", "--random", url], "--random"),
        (&["--targets", "t.txt", "--weights", "1"], "--weights"),
        (&["--tiles", "1", url, url], "one URL"),
    ] {
        let output = load(home.path(), arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let serve = ["serve", "--h1", "0", "--name", "wind.test"];
    let output = run_squall(home.path(), serve);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("listeners with TLS"), "{text}");
}
