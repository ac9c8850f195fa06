//! `squall proxy` over time: clients that disconnect or read slowly over every protocol; requests, responses and
//! connections that stall; and the modes of `--like`.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::proxies::{KINDS, MOST_KIB, fetch, proxy, upstream, url, version};
use crate::raw_http2::{HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, frame, read_frame};
use crate::serving::{Serving, connect, read_to_end};
use crate::support::{seat, squall, stderr};

/// POST http / for "a" (RFC 7541, appendices A and C).
const POST: &[u8] = b"\x83\x86\x84\x41\x01a";

#[test]
fn exchanges_end_when_their_client_disconnects() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let (sender, told) = mpsc::channel();
    let (address, heard) = upstream(move |mut stream, _| {
        // Sends no response: the connection ends when the client disconnects.
        let ended = matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_));
        let _ = sender.send(ended);
    });
    let proxy = proxy(&KINDS, "h1", address, &[]);
    for front in KINDS {
        let began = Instant::now();
        let output = squall(home.path())
            .args(["fetch", "-k", "--http", version(front), "--timeout", "1s"])
            .arg(url(front, proxy.address(front)))
            .output()
            .expect("squall starts");
        assert!(!output.status.success(), "{front}");
        heard
            .recv_timeout(Duration::from_secs(5))
            .expect("a request");
        let ended = told.recv_timeout(Duration::from_secs(4));
        assert!(ended.expect("the upstream is told"), "{front}");
        // Without a signal the upstream would time out only after 5 s.
        assert!(began.elapsed() < Duration::from_secs(4), "{front}");
    }
    let log = proxy.end_well();
    assert!(log.contains("; 5 client gone"), "{log}");
}

#[test]
fn slow_readers_cost_little_memory_over_every_protocol() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(&KINDS, &[]);
    for back in ["h1", "h2c", "h3"] {
        for front in ["h1s", "h2c", "h2", "h3"] {
            let proxy = proxy(&[front], back, server.address(back), &[]);
            let target = url(front, proxy.address(front)) + "/?size=200MB";
            // The client writes to a pipe that nothing reads, so it stops reading, too.
            let mut client = squall(home.path())
                .args(["fetch", "-k", "--http", version(front), "--timeout", "60s"])
                .arg(target)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("squall starts");
            thread::sleep(Duration::from_secs(1));
            let peak = proxy.peak_kib();
            assert!(peak < MOST_KIB, "{front} to {back}: {peak} KiB");
            // The response continues once the pipe is read.
            let mut some = vec![0; 4_000_000];
            let mut body = client.stdout.take().expect("stdout was asked for");
            body.read_exact(&mut some).expect("the answer");
            let peak = proxy.peak_kib();
            assert!(peak < MOST_KIB, "{front} to {back}: {peak} KiB");
            client.kill().expect("it still runs");
            client.wait().expect("it ends");
            proxy.check_ends_well();
        }
    }
    server.check_ends_well();
}

#[test]
fn interim_responses_pass_through_every_version() {
    let _seat = seat();
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                   HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for middle in KINDS {
        let (address, _heard) = upstream(|mut stream, _| {
            let _ = stream.write_all(answer);
        });
        let second = proxy(&[middle], "h1", address, &[]);
        let first = proxy(&["h1"], middle, second.address(middle), &[]);
        let mut client = connect(first.address("h1"));
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let heard = String::from_utf8_lossy(&read_to_end(&mut client)).into_owned();
        let (interim, last) = heard.split_once("\r\n\r\n").expect("a head");
        assert!(
            interim.starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n"),
            "over {middle}: {heard}"
        );
        assert!(
            last.starts_with("HTTP/1.1 200 OK\r\n"),
            "over {middle}: {heard}"
        );
        first.check_ends_well();
        second.check_ends_well();
    }
}

#[test]
fn http2_client_that_expects_100_continue_receives_it() {
    let _seat = seat();
    let server = Serving::start(&["h1"], &["--echo"]);
    let proxy = proxy(&["h2c"], "h1", server.address("h1"), &[]);
    let mut client = connect(proxy.address("h2c"));
    // `expect` is entry 35 of the static table.
    let head = [POST, b"\x0f\x14\x0c100-continue"].concat();
    client
        .write_all(&[PREFACE, &frame(4, 0, 0, &[]), &frame(1, 4, 1, &head)].concat())
        .expect("it reads");
    let mut next_head = || loop {
        let next = read_frame(&mut client).expect("a frame");
        if (next.kind, next.stream) == (HEADERS, 1) {
            return (next.payload, client.try_clone().expect("a second handle"));
        }
    };
    let (interim, mut writer) = next_head();
    // It refers to `:status` by index 8, followed by a literal value that is not in the table.
    assert_eq!(interim[0] & 0x0f, 8, "{interim:?}");
    writer.write_all(&frame(0, 1, 1, b"abc")).expect("it reads");
    let (last, _) = next_head();
    assert_eq!(last[0], 0x88, "{last:?}");
    proxy.check_ends_well();
}

#[test]
fn upstream_that_never_completes_the_handshake_yields_504() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let proxy = proxy(&["h1"], "h2", address, &["--connect-timeout", "300ms"]);
    let began = Instant::now();
    let output = fetch(&home, &proxy, "h1", "/", &[]);
    assert!(stderr(&output).contains("504"), "{}", stderr(&output));
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(5),
        "{took:?}"
    );
    let log = proxy.end_well();
    assert!(log.contains("; 1 connect timeout"), "{log}");
}

#[test]
fn stalled_requests_responses_and_connections_time_out() {
    let _seat = seat();
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let (address, _heard) = upstream(|mut stream, request| {
        if request.starts_with(b"GET") {
            let _ = stream.write_all(half);
        }
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.read(&mut [0; 64]);
    });
    let proxy = proxy(&["h1", "h2c"], "h1", address, &["--idle-timeout", "500ms"]);
    let last = |sent: &[u8]| {
        let mut client = connect(proxy.address("h1"));
        let began = Instant::now();
        client.write_all(sent).expect("it reads");
        let mut heard = Vec::new();
        // A truncated response ends with a reset.
        let _ = client.read_to_end(&mut heard);
        let took = began.elapsed();
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            took >= Duration::from_millis(500) && took < Duration::from_secs(4),
            "{took:?}: {heard}"
        );
        heard
    };
    // No request, or an incomplete one.
    assert_eq!(last(b""), "");
    let head = last(b"GET / HTT");
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    let body = last(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na");
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    // A response that stalls midway.
    let cut = last(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(
        cut.starts_with("HTTP/1.1 200") && cut.ends_with("hello"),
        "{cut}"
    );
    // A client that keeps pinging but sends no request.
    let began = Instant::now();
    let mut client = connect(proxy.address("h2c"));
    let mut said = [PREFACE, &frame(4, 0, 0, &[])].concat();
    while client.write_all(&said).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(4), "it is held on to");
        thread::sleep(Duration::from_millis(50));
        said = frame(6, 0, 0, &[0; 8]);
    }
    assert!(began.elapsed() >= Duration::from_millis(500));
    let log = proxy.end_well();
    assert!(
        log.contains("client idle") && log.contains("idle timeout"),
        "{log}"
    );
}

/// What the mode `alb` imitates: 128 streams, a window update of 16,375 bytes for each DATA frame of that size, and HTTP/1.1 to
/// the targets in turn.
#[test]
fn like_alb_behaves_as_documented() {
    let _seat = seat();
    let target = || {
        upstream(|mut stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        })
    };
    let targets = [target(), target()];
    let to = targets.each_ref().map(|(address, _)| url("h1", *address));
    let proxy = Serving::of(
        "proxy",
        &["h2c"],
        &["--like", "alb", "--to", &to[0], "--to", &to[1]],
    );
    let mut client = connect(proxy.address("h2c"));
    client
        .write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat())
        .expect("it reads");
    let settings = read_frame(&mut client).expect("a frame");
    let entries: Vec<&[u8]> = settings.payload.chunks(6).collect();
    assert_eq!(settings.kind, SETTINGS);
    assert!(entries.contains(&&[0, 3, 0, 0, 0, 128][..]), "{entries:?}");
    let data = [b'x'; 16_375];
    for stream in [1, 3] {
        let begun = [frame(1, 4, stream, POST), frame(0, 0, stream, &data)];
        client.write_all(&begun.concat()).expect("it reads");
        let mut awaited = vec![0, stream];
        while !awaited.is_empty() {
            let next = read_frame(&mut client).expect("a frame");
            if next.kind == WINDOW_UPDATE {
                let bytes = 16_375_u32.to_be_bytes();
                assert_eq!(next.payload, bytes, "of {}", next.stream);
                awaited.retain(|awaited| *awaited != next.stream);
            }
        }
        let end = frame(0, 1, stream, b"end");
        client.write_all(&end).expect("it reads");
        let head = loop {
            let next = read_frame(&mut client).expect("a frame");
            if (next.kind, next.stream) == (HEADERS, stream) {
                break next.payload;
            }
        };
        assert_eq!(head[0], 0x88);
    }
    for (_, heard) in &targets {
        let request = heard.recv_timeout(Duration::from_secs(5)).expect("a turn");
        assert!(request.starts_with(b"POST / HTTP/1.1\r\n"));
    }
    proxy.check_ends_well();
}

/// Forwards one connection and returns the bytes of each direction: to the server, and from it.
pub(crate) fn listen_in(to: SocketAddr) -> (SocketAddr, thread::JoinHandle<[Vec<u8>; 2]>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let heard = thread::spawn(move || {
        let (near, _) = listener.accept().expect("a client");
        let far = connect(to);
        let (from, into) = (
            near.try_clone().expect("a handle"),
            far.try_clone().expect("a handle"),
        );
        let up = thread::spawn(move || {
            let kept = pass_on(from, &into);
            let _ = into.shutdown(Shutdown::Write);
            kept
        });
        let down = pass_on(far, &near);
        let _ = near.shutdown(Shutdown::Both);
        [up.join().expect("the other way ends"), down]
    });
    (address, heard)
}

/// Forwards everything from one to the other until the end, and returns it.
fn pass_on(mut from: TcpStream, mut into: &TcpStream) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let _ = into.write_all(&buffer[..count]);
    }
    kept
}

/// Dynamic TLS records: 1,300 bytes each for the first MiB, then large ones.
#[test]
fn like_nghttpx_sends_dynamic_tls_records() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(&["h1"], &[]);
    let to = url("h1", server.address("h1"));
    let proxy = Serving::of("proxy", &["h2"], &["--like", "nghttpx", "--to", &to]);
    let (between, heard) = listen_in(proxy.address("h2"));
    let output = squall(home.path())
        .args([
            "fetch",
            "-k",
            "--http",
            "2",
            "--timeout",
            "20s",
            "-o",
            "down",
        ])
        .arg(url("h2", between) + "/?size=3MiB")
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let [_, down] = heard.join().expect("it was passed on");
    let mut rest = &down[..];
    let (mut sizes, mut at, mut larger_from) = (Vec::new(), 0, None);
    while let [kind, _, _, high, low, ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        // Application data; in TLS 1.3 the first such records belong to the handshake.
        if *kind == 23 {
            at += len;
            // A record adds its type and a tag of 16 bytes.
            if len > 1_300 + 17 && at > 20_000 {
                larger_from.get_or_insert(at - len);
            }
            sizes.push(len);
        }
        rest = rest.get(5 + len..).unwrap_or(&[]);
    }
    let from = larger_from.expect("large records at the end");
    assert!(
        (1_048_576..1_300_000).contains(&from),
        "larger from {from}: {:?}",
        &sizes[..20]
    );
    assert!(
        sizes.iter().max() > Some(&8_000),
        "{:?}",
        sizes.iter().max()
    );
    proxy.check_ends_well();
    server.check_ends_well();
}
