//! Clients that use up what all clients of `squall proxy` share: its connections to upstreams, and its file descriptors.
//!
//! `hostile` has the same for `squall serve`; squall-stations tests the rules themselves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::proxies::proxy;
use crate::serving::{Serving, connect};
use crate::support::{seat, squall, stderr};

/// Three times as many as there are connections to the upstream.
const SLOW_CLIENTS: usize = 12;

#[test]
fn slow_uploads_do_not_keep_other_clients_from_the_upstream() {
    let _seat = seat();
    let server = Serving::start(&["h1"], &["--sink"]);
    let flags = ["--connections", "4", "--upload-period", "300ms"];
    let proxy = proxy(&["h1"], "h1", server.address("h1"), &flags);
    let begin = |_| {
        let mut stream = connect(proxy.address("h1"));
        let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
        stream.write_all(head).expect("it reads");
        stream
    };
    let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(begin).collect();
    // Their requests are queued before this one: the proxy reads connections in the order in which they were opened.
    let mut client = connect(proxy.address("h1"));
    let request =
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nconnection: close\r\n\r\nabcde";
    client.write_all(request).expect("it reads");

    let mut answer = Vec::new();
    let is_over = AtomicBool::new(false);
    let end = thread::scope(|scope| {
        scope.spawn(|| {
            // 50 bytes per second.
            while !is_over.load(Ordering::Relaxed) {
                for stream in &mut slow {
                    // It may have been refused already.
                    let _ = stream.write_all(b"x");
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let end = client.read_to_end(&mut answer);
        is_over.store(true, Ordering::Relaxed);
        end
    });
    end.expect("an answer, while the slow clients go on");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");

    // The refusal also ends the connection.
    let is_refused = |stream: &mut TcpStream| {
        let patience = Some(Duration::from_millis(100));
        stream.set_read_timeout(patience).expect("a timeout");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).is_ok() && answer.starts_with(b"HTTP/1.1 408")
    };
    assert!(slow.iter_mut().any(is_refused));
    let log = proxy.end_well();
    assert!(log.contains(" client too slow"), "{log}");
    server.check_ends_well();
}

/// Sends a request, and reads until its response ends like this. Returns the status.
fn status(stream: &mut TcpStream, request: &str, end: &str) -> String {
    let request = format!("{request}\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let mut piece = [0; 4_096];
        let len = stream.read(&mut piece).expect("an answer");
        assert!(len > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend(&piece[..len]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 "));
    String::from_utf8_lossy(&answer[9..12]).into_owned()
}

/// The status of a response that the upstream gives, or the proxy in its place.
fn head(stream: &mut TcpStream) -> String {
    status(stream, "HEAD / HTTP/1.1", "\r\n\r\n")
}

/// A response of the proxy itself.
fn options(stream: &mut TcpStream) -> String {
    status(
        stream,
        "OPTIONS / HTTP/1.1\r\nmax-forwards: 0",
        "\r\n\r\n200: this request ends at the proxy\n",
    )
}

/// With no file descriptor left, a proxy keeps its connections, admits that it cannot open one to an upstream, and
/// accepts the connections that wait as soon as it can.
#[test]
fn proxy_without_file_descriptors_keeps_serving() {
    let _seat = seat();
    let server = Serving::start(&["h1"], &[]);
    let proxy = proxy(&["h1"], "h1", server.address("h1"), &[]);
    let mut first = connect(proxy.address("h1"));
    assert_eq!(options(&mut first), "200");
    proxy.allow_more_files(0);
    assert_eq!(head(&mut first), "503");
    let mut second = connect(proxy.address("h1"));
    // Meanwhile, the proxy finds that it cannot accept the second connection.
    assert_eq!(options(&mut first), "200");
    assert_eq!(head(&mut first), "503");
    drop(first);
    assert_eq!(head(&mut second), "503");
    proxy.allow_more_files(10);
    assert_eq!(head(&mut second), "200");
    let log = proxy.end_well();
    for said in [
        " cannot accept a connection: ",
        "3 no file descriptor or memory",
    ] {
        assert!(log.contains(said), "no {said:?} in {log}");
    }
    server.check_ends_well();
}

#[test]
fn impossible_limits_for_clients_are_usage_errors() {
    let home = TempDir::new().expect("a temporary folder");
    let to = ["proxy", "--h1", "0", "--to", "http://127.0.0.1:9"];
    for (flag, value, says) in [
        ("--client-share", "0%", "expected 1% to 100%"),
        ("--client-share", "2", "\"2%\""),
        ("--upload-period", "1ms", "expected at least 100ms"),
        ("--min-upload-rate", "fast", "a size"),
    ] {
        let output = squall(home.path()).args(to).args([flag, value]).output();
        let output = output.expect("squall starts");
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        let said = stderr(&output);
        assert!(said.contains(says), "{flag} {value}: no {says:?} in {said}");
    }
}
