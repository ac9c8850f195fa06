//! How `squall proxy` handles clients and upstreams that abort, and requests that can be parsed in two ways.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::proxies::{KINDS, fetch, proxy, upstream};
use crate::raw_http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame, read_frame,
    serve_in_turn,
};
use crate::serving::{Serving, connect, read_to_end};
use crate::support::{alone_if_it_fails, seat, stderr};

#[test]
fn unreachable_or_dying_upstream_yields_502() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nowhere = gone.local_addr().expect("its address");
    drop(gone);
    let (dying, _heard) = upstream(|stream, _| drop(stream));
    for address in [nowhere, dying] {
        let proxy = proxy(&KINDS, "h1", address, &[]);
        for front in KINDS {
            let output = fetch(&home, &proxy, front, "/", &[]);
            assert!(
                stderr(&output).contains("502"),
                "{front}: {}",
                stderr(&output)
            );
        }
        proxy.check_ends_well();
    }
}

#[test]
fn upstream_that_aborts_mid_response_is_not_mistaken_for_a_complete_one() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for head in ["content-length: 100000", "transfer-encoding: chunked"] {
        let (address, _heard) = upstream(move |mut stream, _| {
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n");
            let _ = stream.write_all(answer.as_bytes());
            thread::sleep(Duration::from_millis(100));
        });
        let proxy = proxy(&KINDS, "h1", address, &[]);
        for front in KINDS {
            let output = fetch(&home, &proxy, front, "/", &[]);
            assert!(!output.status.success(), "{front}, {head}");
        }
        proxy.check_ends_well();
    }
}

#[test]
fn silent_upstream_yields_504() {
    alone_if_it_fails(seat(), || {
        let home = TempDir::new().expect("a temporary folder");
        let (address, _heard) = upstream(|stream, _| {
            thread::sleep(Duration::from_secs(3));
            drop(stream);
        });
        let proxy = proxy(&["h2c"], "h1", address, &["--answer-timeout", "300ms"]);
        let began = Instant::now();
        let output = fetch(&home, &proxy, "h2c", "/", &[]);
        assert!(stderr(&output).contains("504"), "{}", stderr(&output));
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(300) && took < Duration::from_secs(2),
            "{took:?}"
        );
        proxy.check_ends_well();
    });
}

#[test]
fn request_that_fails_on_a_reused_connection_is_retried_on_another() {
    let _seat = seat();
    // Responds to one request on each connection and closes on the second.
    let (address, heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        let _ = stream.read(&mut [0; 4096]);
    });
    let proxy = proxy(&["h1"], "h1", address, &[]);
    let mut client = connect(proxy.address("h1"));
    for _ in 0..3 {
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .expect("it reads");
        let mut answer = [0; 4096];
        let count = client.read(&mut answer).expect("an answer");
        assert!(
            answer[..count].starts_with(b"HTTP/1.1 200"),
            "{:?}",
            &answer[..count]
        );
    }
    // A request that must not be repeated is not retried.
    client
        .write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
        .expect("it reads");
    let mut answer = [0; 4096];
    let count = client.read(&mut answer).expect("an answer");
    assert!(
        answer[..count].starts_with(b"HTTP/1.1 502"),
        "{:?}",
        &answer[..count]
    );
    // The second and third found their connection closed, either by reading its end or by trying to use it.
    assert!(heard.try_iter().count() >= 3);
    proxy.check_ends_well();
}

#[test]
fn early_response_is_forwarded() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    std::fs::write(home.path().join("up"), vec![b'x'; 5_000_000]).expect("it is written");
    let (address, _heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
        let _ = stream.shutdown(Shutdown::Write);
        let mut buffer = [0; 65_536];
        while matches!(stream.read(&mut buffer), Ok(count) if count > 0) {}
    });
    let proxy = proxy(&KINDS, "h1", address, &[]);
    for front in KINDS {
        let output = fetch(&home, &proxy, front, "/", &["-d", "up"]);
        assert!(
            stderr(&output).contains("413"),
            "{front}: {}",
            stderr(&output)
        );
    }
    proxy.check_ends_well();
}

#[test]
fn upstream_connection_closes_when_the_client_disconnects() {
    alone_if_it_fails(seat(), || {
        let (sender, told) = std::sync::mpsc::channel();
        let (address, heard) = upstream(move |mut stream, _| {
            // Sends no response: the connection ends when the client disconnects.
            let ended = matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_));
            let _ = sender.send(ended);
        });
        for front in ["h1", "h2c"] {
            let proxy = proxy(&[front], "h1", address, &[]);
            let mut client = connect(proxy.address(front));
            let ask: &[u8] = match front {
            "h1" => b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            // The preface, SETTINGS, and HEADERS of GET http / for "a" (RFC 7541, appendices A and C).
            _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
        };
            client.write_all(ask).expect("it reads");
            heard
                .recv_timeout(Duration::from_secs(5))
                .expect("a request");
            let began = Instant::now();
            drop(client);
            assert!(told.recv_timeout(Duration::from_secs(4)).expect("it ends"));
            assert!(began.elapsed() < Duration::from_secs(2), "{front}");
            proxy.check_ends_well();
        }
    });
}

#[test]
fn client_that_expects_100_continue_receives_it_with_any_upstream() {
    let _seat = seat();
    let server = Serving::start(&KINDS, &["--echo"]);
    for back in KINDS {
        let proxy = proxy(&["h1"], back, server.address(back), &[]);
        let mut client = connect(proxy.address("h1"));
        client
            .write_all(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let mut interim = [0; 25];
        client
            .read_exact(&mut interim)
            .expect("an interim response");
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n", "to {back}");
        client.write_all(b"abc").expect("it reads");
        let answer = String::from_utf8_lossy(&read_to_end(&mut client)).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        // Chunks from an HTTP/1.1 upstream are forwarded as chunks.
        assert!(
            head.starts_with("HTTP/1.1 200") && ["abc", "3\r\nabc\r\n0\r\n\r\n"].contains(&body),
            "to {back}: {answer}"
        );
        proxy.check_ends_well();
    }
    server.check_ends_well();
}

/// Sends `bytes` and reads until the connection ends.
fn ask(proxy: &Serving, bytes: &[u8]) -> String {
    let mut client: TcpStream = connect(proxy.address("h1"));
    client.write_all(bytes).expect("it reads");
    String::from_utf8_lossy(&read_to_end(&mut client)).into_owned()
}

#[test]
fn ambiguous_requests_reach_no_upstream() {
    let _seat = seat();
    let (address, heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let proxy = proxy(&["h1"], "h1", address, &[]);
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        ("GET / HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx y: a\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx : a\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n", "400"),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", "501"),
    ] {
        let answer = ask(&proxy, request.as_bytes());
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{request:?}: {answer}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{request:?}: {answer}"
        );
    }
    assert_eq!(heard.try_iter().count(), 0);
    let fine = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert!(ask(&proxy, fine).starts_with("HTTP/1.1 200"));
    assert_eq!(heard.try_iter().count(), 1);
    proxy.check_ends_well();
}

/// GET http / for "a" (RFC 7541, appendices A and C).
const GET: &[u8] = b"\x82\x86\x84\x41\x01a";

/// Names and values that HTTP/1.1 would read as further fields, as the end of the head, or not at all (RFC 9113, section
/// 8.2.1). Those that could add a field add "z: a".
const MALFORMED: [(&str, &str); 12] = [
    ("x", "y\r\nz: a"),
    ("x", "y\rz: a"),
    ("x", "y\nz: a"),
    ("x", "y\0z: a"),
    ("x", " y"),
    ("x", "y\t"),
    ("x\rz", "a"),
    ("x\nz", "a"),
    ("x\r\nz", "a"),
    ("x z", "a"),
    ("x: b\r\nz", "a"),
    ("", "a"),
];

/// A field that is in no table (RFC 7541, section 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// A sound request on the same connection gets its response.
#[test]
fn malformed_http2_fields_reach_no_upstream() {
    let _seat = seat();
    let (address, heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let proxy = proxy(&["h2c"], "h1", address, &[]);
    for (name, value) in MALFORMED {
        let mut client = connect(proxy.address("h2c"));
        let request =
            |stream, block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, stream, block);
        let sent = [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, 0, &[]),
            request(1, &[GET, &literal(name, value)].concat()),
            request(3, GET),
        ];
        client.write_all(&sent.concat()).expect("it reads");
        let (mut is_reset, mut is_answered) = (false, false);
        while !(is_reset && is_answered) {
            let next = read_frame(&mut client).expect("a frame");
            let payload = next.payload.as_slice();
            match (next.kind, next.stream) {
                (RST_STREAM, 1) => {
                    // PROTOCOL_ERROR.
                    assert_eq!(payload, [0, 0, 0, 1], "{name:?}: {value:?}");
                    is_reset = true;
                }
                (HEADERS | DATA, 1) => panic!("{name:?}: {value:?} got a response"),
                (HEADERS, 3) => {
                    // ":status: 200".
                    assert_eq!(payload.first(), Some(&0x88), "{name:?}: {value:?}");
                    is_answered = true;
                }
                _ => {}
            }
        }
    }
    let requests = heard.try_iter().filter(|bytes| !bytes.is_empty());
    let requests: Vec<String> = requests
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect();
    assert_eq!(requests.len(), MALFORMED.len(), "{requests:?}");
    for request in &requests {
        let is_sound = request.starts_with("GET / HTTP/1.1\r\n") && !request.contains("z: a");
        assert!(is_sound, "{request:?}");
    }
    proxy.check_ends_well();
}

#[test]
fn malformed_http2_fields_of_an_upstream_reach_no_client() {
    let _seat = seat();
    for (name, value) in MALFORMED {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let head = [&[0x88][..], &literal(name, value)].concat();
        thread::spawn(move || {
            let flags = END_HEADERS | END_STREAM;
            for stream in listener.incoming().flatten() {
                // It ends with the proxy's connection.
                let _ = serve_in_turn(stream, |stream, request| {
                    stream.write_all(&frame(HEADERS, flags, request.stream, &head))
                });
            }
        });
        let proxy = proxy(&["h1"], "h2c", address, &[]);
        let answer = ask(
            &proxy,
            b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        );
        let is_refused = answer.starts_with("HTTP/1.1 502") && !answer.contains("z: a");
        assert!(is_refused, "{name:?}: {value:?}: {answer:?}");
        proxy.check_ends_well();
    }
}

#[test]
fn unsupported_transfer_coding_yields_502_and_a_folded_field_is_unfolded() {
    let _seat = seat();
    for (rest, status, field) in [
        (
            "transfer-encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            "502",
            "content-length",
        ),
        (
            "x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
            "200",
            "x: a b\r\n",
        ),
    ] {
        let (address, _heard) = upstream(move |mut stream, _| {
            let answer = format!("HTTP/1.1 200 OK\r\n{rest}");
            let _ = stream.write_all(answer.as_bytes());
        });
        let proxy = proxy(&["h1"], "h1", address, &[]);
        let answer = ask(
            &proxy,
            b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        );
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{rest:?}: {answer}");
        assert!(answer.contains(field), "{rest:?}: {answer}");
        proxy.check_ends_well();
    }
}

#[test]
fn options_request_without_forwards_left_ends_at_the_proxy() {
    let _seat = seat();
    let (address, heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
    });
    let proxy = proxy(&["h1"], "h1", address, &[]);
    for (method, forwards, status, reaches) in [
        ("OPTIONS", "0", "200", 0),
        ("TRACE", "0", "501", 0),
        ("OPTIONS", "1", "204", 1),
        ("GET", "0", "204", 1),
    ] {
        let request = format!(
            "{method} / HTTP/1.1\r\nhost: a\r\nmax-forwards: {forwards}\r\nconnection: close\r\n\r\n"
        );
        let answer = ask(&proxy, request.as_bytes());
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{request:?}: {answer}");
        assert_eq!(heard.try_iter().count(), reaches, "{request:?}");
    }
    proxy.check_ends_well();
}

/// Every malformed request that is rejected has a log line, after those before it, even if its beginning had already
/// been forwarded to an upstream.
#[test]
fn rejected_requests_are_in_the_access_log() {
    let _seat = seat();
    let (address, _heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde");
    });
    let home = TempDir::new().expect("a temporary folder");
    let path = home.path().join("access.log");
    let log = ["--access-log", path.to_str().expect("UTF-8")];
    let proxy = proxy(&["h1"], "h1", address, &log);
    let chunked = "POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let good = "GET /b HTTP/1.1\r\nhost: a\r\n\r\n";
    let refused = [
        format!("{chunked}xyz\r\n"),
        format!("{good}{}xyz\r\n", chunked.replace("/a", "/c")),
        "GET / HTTP/1.2\r\nhost: a\r\n\r\n".to_owned(),
        format!("{good}GET / HTTP/1.1\r\n\r\n"),
    ];
    let answers = refused.map(|request| ask(&proxy, request.as_bytes()));
    let statuses = answers.concat();
    let statuses = statuses.split("HTTP/1.1 ").skip(1).map(|said| &said[..3]);
    let expected = ["400", "200", "400", "505", "200", "400"];
    assert_eq!(statuses.collect::<Vec<_>>(), expected);
    proxy.check_ends_well();

    let log = fs::read_to_string(&path).expect("the access log");
    let words = log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let lines: Vec<_> = words.map(|words| words[2..8].join(" ")).collect();
    let expected = [
        "h1 \"POST /a\" 400 3 0",
        "h1 \"GET /b\" 200 0 5",
        "h1 \"POST /c\" 400 3 0",
        "h1 \"- -\" 505 0 0",
        "h1 \"GET /b\" 200 0 5",
        "h1 \"- -\" 400 0 0",
    ];
    assert_eq!(lines, expected, "{log}");
}
