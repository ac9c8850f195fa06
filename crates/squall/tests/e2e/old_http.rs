//! HTTP/1.0 and its connections (RFC 9112, section 9.3 and appendix C.2.2): against old servers, and for old clients such
//! as `ab -k`.
//!
//! What the engines do with each message is tested in squall-http.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::ask;
use crate::serving::Serving;
use crate::stand_ins::serve;
use crate::support::{seat, stderr, stdout};

/// Reads a head, with its empty line; empty if the peer has closed.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head)
        .expect("a head")
        .to_ascii_lowercase()
}

/// A server that answers each request with this head and `ok`, and closes the connection unless it says `keep-alive`.
fn old_server(answer: &'static str) -> SocketAddr {
    serve(move |mut stream| {
        while !head(&mut stream).is_empty() {
            let written = stream.write_all(format!("{answer}\r\n\r\nok").as_bytes());
            if written.is_err() || !answer.contains("keep-alive") {
                break;
            }
        }
    })
}

#[test]
fn load_keeps_the_connection_of_an_http_1_0_server_that_says_keep_alive() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (answer, connections) in [
        (
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2",
            1,
        ),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2", 6),
        ("HTTP/1.0 200 OK", 6),
    ] {
        let url = format!("http://{}/", old_server(answer));
        let output = ask(home.path(), "load", Protocol::H1, &["-n", "6"], &url);
        let said = stdout(&output);
        assert!(output.status.success(), "{said}{}", stderr(&output));
        assert!(said.contains("6 succeeded (100 %)"), "{said}");
        let opened = format!("\nconnections {connections} TCP\n");
        assert!(said.contains(&opened), "{answer}: {said}");
    }
}

/// The head and the length of the body of the next response; a body without a length lasts until the end.
fn response(stream: &mut TcpStream) -> (String, usize) {
    let head = head(stream);
    let length = head.split_once("content-length: ");
    let digits = length.and_then(|(_, rest)| rest.split("\r\n").next());
    match digits.map(|digits| digits.parse::<usize>().expect("a length")) {
        Some(length) => {
            stream
                .read_exact(&mut vec![0; length])
                .expect("the whole body");
            (head, length)
        }
        None => {
            let mut body = Vec::new();
            stream.read_to_end(&mut body).expect("the whole body");
            (head, body.len())
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a socket");
    stream
}

#[test]
fn http_1_0_clients_keep_their_connection_if_they_ask_for_it() {
    const KEEP: &str = "GET /?size=5 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    const CLOSE: &str = "GET /?size=5 HTTP/1.0\r\n\r\n";
    let _seat = seat();
    let server = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", server.address("h1"));
    let proxy = Serving::of("proxy", &["h1"], &["--to", &to]);
    for station in [&server, &proxy] {
        let mut stream = connect(station.address("h1"));
        for _ in 0..3 {
            stream.write_all(KEEP.as_bytes()).expect("it reads");
            let (head, length) = response(&mut stream);
            assert!(head.contains("\r\nconnection: keep-alive\r\n"), "{head}");
            assert_eq!(length, 5, "{head}");
        }
        stream.write_all(CLOSE.as_bytes()).expect("it reads");
        let (head, length) = response(&mut stream);
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert_eq!((length, stream.read(&mut [0]).ok()), (5, Some(0)), "{head}");
    }
}

#[test]
fn proxy_sends_no_chunks_to_http_1_0_clients() {
    let _seat = seat();
    let server = Serving::start(&["h1"], &["--set", "http1.framing=chunked"]);
    let to = format!("http://{}", server.address("h1"));
    let proxy = Serving::of("proxy", &["h1"], &["--to", &to]);
    let mut stream = connect(proxy.address("h1"));
    // Large enough for the proxy not to wait for all of it.
    let request = "GET /?size=4MiB HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it reads");
    let (head, length) = response(&mut stream);
    assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    assert!(!head.contains("transfer-encoding"), "{head}");
    assert!(!head.contains("keep-alive"), "{head}");
    assert_eq!(length, 4 << 20, "{head}");
}
