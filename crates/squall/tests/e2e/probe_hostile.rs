//! `squall probe` against servers that accept connections and misbehave: it ends within its time, and says what it has seen.
//!
//! `probe_conduct` has servers that break the protocol at once, and responses that do not end. What the client itself does
//! with hostile servers is tested in `hostile_servers`.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::{home, probe};
use crate::raw_http2::{PING, PREFACE, SETTINGS, frame};
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{alone_if_it_fails, seat, stderr, stdout};

/// More than a probe of one second takes on a busy machine.
const MOST: Duration = Duration::from_secs(15);
/// Between two bytes of a server that never ends.
const PAUSE: Duration = Duration::from_millis(5);

/// Probes a URL for a second. Returns the exit code, and all words that it printed.
fn brief(url: &str, versions: &str) -> (Option<i32>, String) {
    let home = home();
    let begun = Instant::now();
    let output = probe(&home, &["-k", "--duration", "1s", "--http", versions, url]);
    assert!(begun.elapsed() < MOST, "{url}");
    let said = stdout(&output);
    assert!(!said.is_empty(), "{}", stderr(&output));
    let is_narrow = said.lines().all(|line| line.chars().count() <= 80);
    assert!(is_narrow, "{said}");
    let words: Vec<&str> = said.split_whitespace().collect();
    (output.status.code(), words.join(" "))
}

/// Checks that the first line says that there is no answer, the second what to try, and that this reason follows. Returns all
/// words.
fn check_unanswered(url: &str, versions: &str, reason: &str) -> String {
    let (code, said) = brief(url, versions);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("No answer Fix: "), "{said}");
    assert!(said.contains("gave no HTTP response."), "{said}");
    assert!(said.contains(reason), "{reason}: {said}");
    said
}

/// Sends these bytes to a client repeatedly.
fn repeat(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(bytes)?;
        thread::sleep(PAUSE);
    }
}

/// A UDP socket that answers each datagram with these bytes, or with nothing.
fn answer_datagrams(with: &'static [u8]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            if !with.is_empty() {
                // The client may be gone.
                let _ = socket.send_to(with, from);
            }
        }
    });
    address
}

#[test]
fn probe_gives_up_in_time_on_a_server_that_completes_no_handshake() {
    let _seat = seat();
    let silent = serve(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let mute = answer_datagrams(b"");
    let garbage = answer_datagrams(&[0; 64]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let url = format!("https://{silent}/");
            let reason = "HTTP/1.1, HTTP/2: connected, but no TLS handshake in time";
            check_unanswered(&url, "1.1,2", reason);
        });
        for server in [mute, garbage] {
            scope.spawn(move || {
                let url = format!("https://{server}/");
                let said = check_unanswered(&url, "3", "HTTP/3: no handshake within ");
                // The probe would usually wait for 3 s.
                assert!(!said.contains("within 3 s"), "{said}");
            });
        }
    });
}

fn head_without_an_end(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ")?;
    repeat(&mut stream, b"a")
}

fn pings_without_an_end(mut stream: TcpStream) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    repeat(&mut stream, &frame(PING, 0, 0, &[0; 8]))
}

#[test]
fn probe_gives_up_in_time_on_a_server_that_sends_for_ever_without_an_answer() {
    let _seat = seat();
    let head = serve(head_without_an_end);
    let pings = serve(pings_without_an_end);
    thread::scope(|scope| {
        for (server, version, name) in [(head, "1.1", "HTTP/1.1"), (pings, "2", "HTTP/2")] {
            scope.spawn(move || {
                let url = format!("http://{server}/");
                let reason = format!("{name}: connected, but no response in time");
                check_unanswered(&url, version, &reason);
            });
        }
    });
}

/// Answers each HEAD with a head, and each other request with a body that does not end.
fn drip(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(asked) = ReceivedRequest::read(&mut reader)? {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")?;
        if asked.method != "HEAD" {
            return repeat(&mut stream, b"a");
        }
    }
    Ok(())
}

#[test]
fn body_that_arrives_byte_by_byte_is_reported_as_incomplete() {
    alone_if_it_fails(seat(), || {
        let (code, said) = brief(&format!("http://{}/", serve(drip)), "1.1");
        assert_eq!(code, Some(0), "{said}");
        for part in [
            "HTTP/1.1: the first response was not complete: no complete response in time.",
            "1s was too short for all steps",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    });
}
